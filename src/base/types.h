/* The vocabulary of data that every part shares: element types, layouts, field types, and the facts
 * that are known of a media value without decoding it. Values are part of formats and protocols:
 * append, never renumber. */
#ifndef HR_BASE_TYPES_H
#define HR_BASE_TYPES_H

#include "base/base.h"

enum hr_dtype {
    HR_DTYPE_NONE = 0,
    HR_DTYPE_U8 = 1,
    HR_DTYPE_I8 = 2,
    HR_DTYPE_U16 = 3,
    HR_DTYPE_I16 = 4,
    HR_DTYPE_U32 = 5,
    HR_DTYPE_I32 = 6,
    HR_DTYPE_I64 = 7,
    HR_DTYPE_F16 = 8,
    HR_DTYPE_BF16 = 9,
    HR_DTYPE_F32 = 10,
    HR_DTYPE_F64 = 11,
    HR_DTYPE_BOOL = 12,
    HR_DTYPE_U64 = 13,
    HR_DTYPE_COUNT
};

size_t hr_dtype_bytes(enum hr_dtype dtype);         /* 0 for NONE and unknown */
const char *hr_dtype_name(enum hr_dtype dtype);     /* "u8", "f16" …; "?" when unknown */
enum hr_dtype hr_dtype_parse(const char *name);     /* NONE when unknown */

/* N = batch, V = view of one picture, T = frame or time, H W = rows, columns, C = channels. N is implied
 * for one sample. */
enum hr_layout {
    HR_LAYOUT_NONE = 0,
    HR_LAYOUT_NHWC = 1,
    HR_LAYOUT_NCHW = 2,
    HR_LAYOUT_NTHWC = 3,
    HR_LAYOUT_NTCHW = 4,
    HR_LAYOUT_NCTHW = 5,
    HR_LAYOUT_NT = 6,  /* mono audio: no channel axis */
    HR_LAYOUT_NTC = 7,
    HR_LAYOUT_NCT = 8,
    HR_LAYOUT_NVHWC = 9,
    HR_LAYOUT_NVCHW = 10,
    HR_LAYOUT_COUNT
};

const char *hr_layout_name(enum hr_layout layout);
enum hr_layout hr_layout_parse(const char *name); /* NONE when unknown */

enum hr_field_type {
    HR_FIELD_NONE = 0,
    HR_FIELD_IMAGE = 1,
    HR_FIELD_VIDEO = 2,
    HR_FIELD_AUDIO = 3,
    HR_FIELD_TEXT = 4,
    HR_FIELD_TOKENS = 5, /* dtype u16 or u32 */
    HR_FIELD_TENSOR = 6, /* dtype, shape fixed or per record */
    HR_FIELD_JSON = 7,
    HR_FIELD_BYTES = 8,
    HR_FIELD_I64 = 9,
    HR_FIELD_F64 = 10,
    HR_FIELD_BOOL = 11,
    HR_FIELD_STR = 12, /* short string, kept in the index; at most 255 bytes */
    HR_FIELD_COUNT
};

const char *hr_field_type_name(enum hr_field_type type);
enum hr_field_type hr_field_type_parse(const char *name); /* NONE when unknown */

/* Scalars live in the index; everything else is a value in the payload. */
static inline bool hr_field_type_is_scalar(enum hr_field_type type)
{
    return type >= HR_FIELD_I64 && type <= HR_FIELD_STR;
}
static inline bool hr_field_type_is_media(enum hr_field_type type)
{
    return type >= HR_FIELD_IMAGE && type <= HR_FIELD_AUDIO;
}

enum { HR_MAX_DIMS = 6, HR_MAX_FIELDS = 64, HR_NAME_BYTES = 64, HR_STR_BYTES = 256 };

/* What the container or codec of a value is, by content, never by file name. */
enum hr_media_format {
    HR_MEDIA_UNKNOWN = 0,
    HR_MEDIA_JPEG = 1,
    HR_MEDIA_PNG = 2,
    HR_MEDIA_WEBP = 3,
    HR_MEDIA_GIF = 4,
    HR_MEDIA_BMP = 5,
    HR_MEDIA_TIFF = 6,
    HR_MEDIA_AVIF = 7,
    HR_MEDIA_WAV = 16,
    HR_MEDIA_FLAC = 17,
    HR_MEDIA_MP3 = 18,
    HR_MEDIA_OGG = 19,
    HR_MEDIA_ADTS = 20,
    HR_MEDIA_MP4 = 32,
    HR_MEDIA_MATROSKA = 33,
    HR_MEDIA_AVI = 34,
    HR_MEDIA_MPEGTS = 35,
    HR_MEDIA_OTHER_AV = 63, /* something else that FFmpeg reads */
};

const char *hr_media_format_name(enum hr_media_format format);

/* How a value's bytes are stored. Appended to, never renumbered. */
enum hr_encoding {
    HR_ENCODING_AS_IS = 0,
    HR_ENCODING_REPACKED_JPEG = 1, /* docs/formats/repacked-jpeg.md */
    HR_ENCODING_REPACKED_PNG = 2,  /* docs/formats/repacked-png.md */
    HR_ENCODING_PACKETS = 3,       /* reserved: media packets in decode order */
    HR_ENCODING_RAW_PIXELS = 4,    /* docs/formats/raw-pixels.md */
};

/* Facts of one value, stored in the shard index at pack; 0 = not known or not applicable. */
struct hr_facts {
    uint32_t format;                  /* enum hr_media_format */
    uint32_t width, height;           /* image, video: as stored, before EXIF or rotation */
    uint32_t channels;                /* image: 1..4; audio: channel count */
    uint32_t bit_depth;               /* image, audio: bits per component; 32/64 with is_float */
    uint32_t orientation;             /* image: EXIF 1..8 (0 = none); video: rotation in degrees */
    uint32_t frames;                  /* video: frames in presentation; animated image: frames */
    uint32_t rate_num, rate_den;      /* video: average frames a second */
    uint32_t sample_rate;             /* audio, or the soundtrack of a video */
    uint64_t samples;                 /* audio: samples per channel after priming and padding */
    uint64_t duration_ns;             /* audio, video */
    uint32_t dtype;                   /* tensor, tokens: enum hr_dtype */
    uint32_t dims;                    /* tensor: number of dimensions */
    uint64_t shape[HR_MAX_DIMS];      /* tensor */
    uint64_t items;                   /* tokens: count; text: Unicode code points */
};

#endif
