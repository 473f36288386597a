/* Names of the shared vocabulary and their parsers. */
#include "base/types.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[HR_DTYPE_COUNT] = {
    [HR_DTYPE_U8] = {"u8", 1},   [HR_DTYPE_I8] = {"i8", 1},     [HR_DTYPE_U16] = {"u16", 2},
    [HR_DTYPE_I16] = {"i16", 2}, [HR_DTYPE_U32] = {"u32", 4},   [HR_DTYPE_I32] = {"i32", 4},
    [HR_DTYPE_I64] = {"i64", 8}, [HR_DTYPE_F16] = {"f16", 2},   [HR_DTYPE_BF16] = {"bf16", 2},
    [HR_DTYPE_F32] = {"f32", 4}, [HR_DTYPE_F64] = {"f64", 8},   [HR_DTYPE_BOOL] = {"bool", 1},
    [HR_DTYPE_U64] = {"u64", 8},
};

static const char *const layouts[HR_LAYOUT_COUNT] = {
    [HR_LAYOUT_NHWC] = "nhwc",   [HR_LAYOUT_NCHW] = "nchw",   [HR_LAYOUT_NTHWC] = "nthwc",
    [HR_LAYOUT_NTCHW] = "ntchw", [HR_LAYOUT_NCTHW] = "ncthw", [HR_LAYOUT_NT] = "nt",
    [HR_LAYOUT_NTC] = "ntc",     [HR_LAYOUT_NCT] = "nct",     [HR_LAYOUT_NVHWC] = "nvhwc",
    [HR_LAYOUT_NVCHW] = "nvchw",
};

static const char *const field_types[HR_FIELD_COUNT] = {
    [HR_FIELD_IMAGE] = "image",   [HR_FIELD_VIDEO] = "video",   [HR_FIELD_AUDIO] = "audio",
    [HR_FIELD_TEXT] = "text",     [HR_FIELD_TOKENS] = "tokens", [HR_FIELD_TENSOR] = "tensor",
    [HR_FIELD_JSON] = "json",     [HR_FIELD_BYTES] = "bytes",   [HR_FIELD_I64] = "i64",
    [HR_FIELD_F64] = "f64",       [HR_FIELD_BOOL] = "bool",     [HR_FIELD_STR] = "str",
};

size_t hr_dtype_bytes(enum hr_dtype dtype)
{
    return (unsigned)dtype < HR_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *hr_dtype_name(enum hr_dtype dtype)
{
    return (unsigned)dtype < HR_DTYPE_COUNT && dtypes[dtype].name ? dtypes[dtype].name : "?";
}

enum hr_dtype hr_dtype_parse(const char *name)
{
    for (int i = 0; i < HR_DTYPE_COUNT; i++)
        if (dtypes[i].name && strcmp(dtypes[i].name, name) == 0)
            return (enum hr_dtype)i;
    return HR_DTYPE_NONE;
}

static int find(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (names[i] && strcmp(names[i], name) == 0)
            return i;
    return 0;
}

const char *hr_layout_name(enum hr_layout layout)
{
    return (unsigned)layout < HR_LAYOUT_COUNT && layouts[layout] ? layouts[layout] : "?";
}

enum hr_layout hr_layout_parse(const char *name)
{
    return (enum hr_layout)find(layouts, HR_LAYOUT_COUNT, name);
}

const char *hr_field_type_name(enum hr_field_type type)
{
    return (unsigned)type < HR_FIELD_COUNT && field_types[type] ? field_types[type] : "?";
}

enum hr_field_type hr_field_type_parse(const char *name)
{
    return (enum hr_field_type)find(field_types, HR_FIELD_COUNT, name);
}

const char *hr_media_format_name(enum hr_media_format format)
{
    switch (format) {
    case HR_MEDIA_UNKNOWN:
        return "unknown";
    case HR_MEDIA_JPEG:
        return "jpeg";
    case HR_MEDIA_PNG:
        return "png";
    case HR_MEDIA_WEBP:
        return "webp";
    case HR_MEDIA_GIF:
        return "gif";
    case HR_MEDIA_BMP:
        return "bmp";
    case HR_MEDIA_TIFF:
        return "tiff";
    case HR_MEDIA_AVIF:
        return "avif";
    case HR_MEDIA_WAV:
        return "wav";
    case HR_MEDIA_FLAC:
        return "flac";
    case HR_MEDIA_MP3:
        return "mp3";
    case HR_MEDIA_OGG:
        return "ogg";
    case HR_MEDIA_ADTS:
        return "adts";
    case HR_MEDIA_MP4:
        return "mp4";
    case HR_MEDIA_MATROSKA:
        return "matroska";
    case HR_MEDIA_AVI:
        return "avi";
    case HR_MEDIA_MPEGTS:
        return "mpegts";
    case HR_MEDIA_OTHER_AV:
        return "other";
    }
    return "unknown";
}
