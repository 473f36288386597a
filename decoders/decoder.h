/* What a decoder offers, and the registry of them. A decoder is one .c file and one line in
 * registry.c; nothing else knows it by name.
 *
 *   sniff      first bytes -> format; the registry asks in order, the first yes wins
 *   measure    whole value -> facts, from headers alone (audio and video: packets are read)
 *   image      decoding of pictures, NULL for audio and video (their chains drive FFmpeg)
 *
 * Threading: a decoder's state belongs to one worker; nothing is shared. */
#ifndef HR_DECODERS_DECODER_H
#define HR_DECODERS_DECODER_H

#include "base/err.h"
#include "base/types.h"

/* Limits on one picture, checked at its header, before anything is allocated. */
#ifndef HR_IMAGE_MAX_PIXELS /* fuzzers have a lower one, or they would do little but fill memory */
#define HR_IMAGE_MAX_PIXELS UINT64_C(178000000)
#endif
/* Whole-picture memory that a decoder may take beside the pixels (progressive coefficients). */
#define HR_IMAGE_MAX_COEFFICIENT_BYTES (UINT64_C(1) << 30)

enum hr_decoder_ability {
    HR_DECODER_REGION = 1 << 0, /* decodes a box for less than the whole */
    HR_DECODER_SCALED = 1 << 1, /* decodes at 1/2, 1/4, 1/8 for less */
    HR_DECODER_IDS = 1 << 2,    /* gives samples as they are stored, where they are one byte or less a pixel */
    HR_DECODER_PLANES = 1 << 3, /* gives rows of RGB as planes, too */
    HR_DECODER_SEEKS = 1 << 4,  /* a small box costs little wherever it lies */
};

/* One picture's box to decode. Rows of the box come out from top to bottom through push. */
struct hr_image_request {
    const uint8_t *bytes;
    size_t count;
    const struct hr_rjpeg_view *view; /* of a repacked value that was read in parts; else NULL */
    uint32_t picture_w, picture_h; /* as planned; a picture that differs is HR_E_DECODE */
    /* Decode at 1/shrink: 1, or with HR_DECODER_SCALED 2, 4, 8. The picture is then
     * ceil(picture_w / shrink) x ceil(picture_h / shrink). */
    uint32_t shrink;
    uint32_t x, y, w, h; /* inside the stored (not oriented) picture at 1/shrink */
    uint32_t channels;   /* 1: gray, 3: RGB, 4: the samples of a CMYK JPEG as they are */
    bool ids;            /* channels is 1, with HR_DECODER_IDS: palette indices, or gray samples not widened to 8 bits;
                            HR_E_FORMAT where a pixel is more than that */
    /* row: w * channels bytes, readable 64 past the end. False = no more rows are needed. */
    bool (*push)(void *user, const uint8_t *row);
    /* Not NULL, with HR_DECODER_PLANES: instead of push, rows of red, green and blue of w bytes each. */
    bool (*push_planes)(void *user, const uint8_t *const rows[3]);
    void *user;
};

/* A picture's ICC profile: in the value itself, or in room, which is the caller's scratch. */
struct hr_profile {
    const uint8_t *bytes; /* NULL: there is none */
    size_t count;
    uint8_t *room;
    size_t room_bytes;
    uint8_t *around; /* likewise, for the markers of a repacked JPEG */
    size_t around_bytes;
};

struct hr_image_decoder {
    /* State of one worker. max_width: widest picture expected, 0 = not known. */
    int (*create)(uint32_t max_width, void **state);
    void (*destroy)(void *state);
    int (*decode)(void *state, const struct hr_image_request *request, struct hr_error *err);
    /* NULL: pictures of this kind have none. 0, also where there is none in this one. */
    int (*profile)(const uint8_t *bytes, size_t count, struct hr_profile *profile, struct hr_error *err);
};

struct hr_decoder {
    const char *name;
    enum hr_field_type type;
    enum hr_media_format format; /* UNKNOWN: several; sniff says which */
    unsigned abilities;          /* enum hr_decoder_ability */
    enum hr_media_format (*sniff)(const uint8_t *bytes, size_t count);
    int (*measure)(const uint8_t *bytes, size_t count, bool verify, struct hr_facts *facts,
                   struct hr_error *err);
    const struct hr_image_decoder *image;
};

/* The decoder that takes these bytes, or NULL; *format (may be NULL) is what they are. */
const struct hr_decoder *hr_decoder_find(const uint8_t *bytes, size_t count,
                                         enum hr_media_format *format);
/* Decoders by index, for listings and per-worker states; NULL past the end. */
const struct hr_decoder *hr_decoder_at(int i);
int hr_decoder_index(const struct hr_decoder *decoder);
enum { HR_DECODER_MAX = 16 };

extern const struct hr_decoder hr_decoder_jpeg, hr_decoder_png, hr_decoder_webp;
extern const struct hr_decoder hr_decoder_gif, hr_decoder_bmp, hr_decoder_tiff, hr_decoder_avif;
/* Of values whose encoding says so; not in the registry, since their bytes are not sniffed. */
extern const struct hr_image_decoder hr_repacked_jpeg_decoder;
extern const struct hr_decoder hr_decoder_av; /* every audio and video container */

/* Decodes the whole picture for nothing but its errors. */
int hr_image_verify(const struct hr_image_decoder *image, const uint8_t *bytes, size_t count,
                    const struct hr_facts *facts, struct hr_error *err) HR_MUST_CHECK;

/* What a decoder answers when ids are wanted of a picture that has none: "RGB", "16 bits" … */
int hr_image_no_ids(const char *what, struct hr_error *err) HR_MUST_CHECK;

/* Width, height and pixel limit of a picture. HR_E_LIMIT or HR_E_DECODE with the reason. */
int hr_image_check_size(uint64_t width, uint64_t height, struct hr_error *err) HR_MUST_CHECK;

#endif
