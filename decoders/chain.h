/* A media field's way from stored bytes to the slot: decode, ops, output. This is all that the
 * pipeline knows of codecs.
 *
 *   hr_chain_create      once, from the pipeline file: checks ops and output, fixes shapes
 *   hr_chain_plan        reader thread, once a sample: draws all randomness, decides what to read
 *                        and how large the result is; pure, no allocation
 *   hr_context_create    once per worker and chain: decoder state and scratch
 *   hr_chain_decode      worker: bytes -> result, straight into the slot; no allocation of ours in
 *                        steady state, no lock, no log
 */
#ifndef HR_DECODERS_CHAIN_H
#define HR_DECODERS_CHAIN_H

#include "base/arg.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/types.h"

enum { HR_CHAIN_MAX_OUTPUTS = 8, HR_CHAIN_MAX_VIEWS = 64 };

struct hr_chain;
struct hr_context;

/* Views of one picture that are made alike. */
struct hr_chain_view_spec {
    const char *name; /* their array is FIELD.name */
    int line, column;
    const struct hr_call *ops;
    int op_count;
    const struct hr_call *options; /* count */
    const struct hr_call *output;  /* NULL = the field's */
};

/* What the pipeline file says about one media field, and what the dataset holds. Borrowed for the
 * call to hr_chain_create only. */
struct hr_chain_spec {
    enum hr_field_type type; /* IMAGE, VIDEO or AUDIO */
    const char *field;       /* name, for errors */
    const char *file;
    int line, column;
    const struct hr_call *ops;
    int op_count;
    const struct hr_call *options; /* scalar keys of the field; NULL = none */
    const struct hr_call *output;  /* `output:` table; NULL = defaults */
    const struct hr_call *clip;    /* `clip:` table; NULL = none */
    const struct hr_chain *leader; /* of the image field that this one, a mask, follows; it must live as long */
    const struct hr_chain_view_spec *views; /* `views:` that differ, each with ops of its own */
    int view_spec_count;
    /* bounds over the dataset, for ragged outputs and limits; 0 = not known */
    uint32_t max_width, max_height;
    uint64_t max_samples, max_frames;
    uint64_t max_duration_ns; /* of the longest recording, at whatever rate */
    uint32_t max_sample_rate, max_channels;
    uint64_t max_bytes; /* largest stored value */
};

/* One array that the chain produces per sample. */
struct hr_chain_output {
    char suffix[16];     /* "" for the main one, ".pts", ".lengths" … appended to the field's name */
    enum hr_dtype dtype;
    enum hr_layout layout;
    uint32_t dims;
    uint64_t shape[HR_MAX_DIMS]; /* of one sample; 0 on axes that vary (only when ragged) */
    bool ragged;                 /* sizes differ: delivered as values + offsets + shapes */
    uint64_t max_bytes;          /* of one sample */
};

/* What one sample's randomness is drawn from; an op's stream is stream * 256 + its index. Views of a picture
 * after the first have the field's stream + HR_MAX_FIELDS * view, which is no field's. */
struct hr_draw_key {
    uint64_t seed, epoch, position;
    uint32_t stream;
};

/* Everything decided about one sample before a byte is read. Plain values: copied, logged and
 * replayed freely. */
struct hr_sample_plan {
    uint64_t shape[HR_CHAIN_MAX_OUTPUTS][4]; /* actual shape of each output, leading dims axes */
    uint64_t bytes[HR_CHAIN_MAX_OUTPUTS];
    uint64_t read_off, read_bytes; /* the part of the value that is needed */
    uint64_t value_bytes;
    /* Not NULL: only the parts of hr_chain_parts() are needed, which this table tells; it lives as
     * long as the dataset. read_bytes is their sum. */
    const uint8_t *seek;
    uint32_t seek_bytes;
    struct hr_facts facts;
    union {
        struct hr_image_plan { /* of several views: the first one's; the others are drawn again */
            int32_t crop_x, crop_y, crop_w, crop_h; /* in the oriented picture; may reach outside
                                                       it: there the fill colour shows */
            int32_t out_w, out_h;
            /* A crop after the resize: the box is resized to full_out_w x full_out_h and the
             * window of out_w x out_h at (out_x, out_y) of that is made; it may reach outside,
             * where the fill colour shows. full_out_w == 0: no window. All before the flips. */
            int32_t full_out_w, full_out_h, out_x, out_y;
            uint8_t orientation; /* 1..8, to apply */
            uint8_t flip_h, flip_v;
            uint8_t filter; /* enum hr_filter */
            uint8_t scaled; /* decode at reduced size allowed */
            uint8_t fill[4];
            /* Ops on pixels come after this and draw from key again; the size that is delivered. */
            int32_t end_w, end_h;
            struct hr_draw_key key;
        } image;
        struct hr_video_plan {
            struct hr_image_plan image;
            uint32_t first_frame, frames, stride;
            double start_s, fps; /* used when fps > 0: frames by time */
            uint8_t past_end;
        } video;
        struct hr_audio_plan {
            uint64_t first_sample, sample_count; /* at the source's rate */
            uint64_t out_samples;                /* after resampling, before padding */
            uint8_t past_end;
        } audio;
    };
};

int hr_chain_create(const struct hr_chain_spec *spec, struct hr_chain **out, struct hr_error *err)
    HR_MUST_CHECK;
void hr_chain_destroy(struct hr_chain *chain); /* NULL is fine */

int hr_chain_output_count(const struct hr_chain *chain);
const struct hr_chain_output *hr_chain_output_at(const struct hr_chain *chain, int i);

/* Canonical text of the chain (ops with every default filled in), for the plan digest and `check`. */
const char *hr_chain_describe(const struct hr_chain *chain);

/* 0, or a sample-scope error (over the pixel limit, past the end under `reject`, facts that make no
 * sense). stream: the field's index in the plan, separates its randomness. */
int hr_chain_plan(const struct hr_chain *chain, const struct hr_facts *facts, uint64_t value_bytes,
                  uint64_t seed, uint64_t epoch, uint64_t position, uint32_t stream,
                  struct hr_sample_plan *plan, struct hr_error *err) HR_MUST_CHECK;

/* What follows an image field: masks are chains of their own (leader, above), boxes and keypoints are mapped
 * (decoders/ops/follow.h) by the geometry that is drawn for the picture. */
struct hr_geometry;
bool hr_chain_leads(const struct hr_chain *chain); /* it is an image field's, without views */
/* The size of a picture of these facts as the ops get it: upright, but for `exif: ignore`. */
void hr_chain_upright(const struct hr_chain *chain, const struct hr_facts *facts, uint32_t *w, uint32_t *h);
/* 0, or the errors of hr_chain_plan. */
int hr_chain_geometry(const struct hr_chain *chain, const struct hr_facts *facts, const struct hr_draw_key *key,
                      struct hr_geometry *geometry, struct hr_error *err) HR_MUST_CHECK;

/* Parts of a value, in order and apart; offsets and sizes are multiples of HR_CHAIN_PART_ALIGN, but for
 * the end of the value. They are read one behind the other into one buffer. */
enum { HR_CHAIN_MAX_PARTS = 32, HR_CHAIN_PART_ALIGN = 4096 };
struct hr_chain_parts {
    uint32_t count; /* 0: the whole value */
    uint64_t bytes; /* of all parts */
    struct {
        uint64_t off, bytes;
    } part[HR_CHAIN_MAX_PARTS];
};

/* After hr_chain_plan, for a value with a seek table: decides by what it would cost whether the sample
 * is read in parts (docs/images.md), and says so in the plan. Pure, like hr_chain_parts. */
void hr_chain_plan_parts(const struct hr_chain *chain, unsigned encoding, const uint8_t *seek,
                         uint32_t seek_bytes, struct hr_sample_plan *plan);
void hr_chain_parts(const struct hr_chain *chain, const struct hr_sample_plan *plan,
                    struct hr_chain_parts *parts);
/* The checksums of a value's parts, as far as they are needed. 0, HR_E_CHECKSUM or HR_E_DECODE. */
int hr_chain_check_parts(const struct hr_chain *chain, const struct hr_sample_plan *plan,
                         const uint8_t *value, size_t bytes, struct hr_error *err) HR_MUST_CHECK;

int hr_context_create(const struct hr_chain *chain, struct hr_context **out, struct hr_error *err)
    HR_MUST_CHECK;
void hr_context_destroy(struct hr_context *context); /* NULL is fine */

/* value: the stored bytes [read_off, read_off + read_bytes) of the value, or its parts, checked already; readable
 * HR_CHAIN_PADDING bytes past their end. dst[i]: room for plan->bytes[i], 64-byte aligned only for
 * the main output of non-ragged fields. On failure the contents of dst are undefined.
 * encoding: enum hr_encoding. Returns 0 or a sample-scope error. */
enum { HR_CHAIN_PADDING = 64 };
int hr_chain_decode(const struct hr_chain *chain, struct hr_context *context,
                    const struct hr_sample_plan *plan, unsigned encoding, const uint8_t *value,
                    size_t value_bytes, void *const dst[HR_CHAIN_MAX_OUTPUTS],
                    struct hr_error *err) HR_MUST_CHECK;

/* ---- pack and inspect ---- */

/* What the bytes are, by content: media type and facts from headers (for audio and video, exact
 * sample and frame counts: the packets are read). wanted: the type the schema asks for, or NONE to
 * sniff. verify: also decode it whole and report damage. HR_E_FORMAT, HR_E_TRUNCATED, HR_E_DECODE,
 * HR_E_LIMIT with reason. */
int hr_media_measure(const uint8_t *bytes, size_t count, enum hr_field_type wanted, bool verify,
                     enum hr_field_type *type, struct hr_facts *facts, struct hr_error *err)
    HR_MUST_CHECK;

/* Repacks a picture into a form that loads faster, with a seek table for partial reads (both buffers
 * are reset). 0: the value is to be stored as HR_ENCODING_REPACKED_JPEG; the original bytes and
 * pixels have been proven to come back. HR_E_FORMAT: not a kind that is repacked, keep it as it is;
 * HR_E_DECODE: damaged, likewise. */
int hr_media_repack(const uint8_t *bytes, size_t count, struct hr_buf *out, struct hr_buf *seek,
                    struct hr_error *err) HR_MUST_CHECK;
/* The original bytes of a stored value, appended to out; of raw pixels a PNG, and
 * of a repacked PNG one of the same samples and chunks. */
int hr_media_restore(unsigned encoding, const uint8_t *bytes, size_t count, struct hr_buf *out,
                     struct hr_error *err) HR_MUST_CHECK;

/* Sniffs content alone from the first bytes; HR_MEDIA_UNKNOWN when it is none of ours. */
enum hr_media_format hr_media_sniff(const uint8_t *bytes, size_t count);
enum hr_field_type hr_media_format_type(enum hr_media_format format);

#endif
