/* What a pipeline file says of boxes and keypoints. */
#include <math.h>
#include <string.h>

#include "decoders/ops/follow.h"

static const char *const format_words[] = {"xyxy", "xywh", "cxcywh", NULL};
static const char *const origin_words[] = {"corner", "center", NULL};
static const char *const kind_words[] = {"boxes", "keypoints"};

/* As read; the output's members are -1 and false where they are not given. */
struct words {
    const char *ignored;
    int format, origin, to_format;
    bool normalized, to_normalized, clamp;
    double min_size, min_area;
    const char *dtype;
    int64_t mirror[HR_FOLLOW_MAX_MIRROR];
    int mirror_count;
};

static int read_options(const struct hr_call *options, enum hr_follow_kind kind, struct words *w, struct hr_error *err)
{
    const struct hr_arg_spec boxes[] = {
        {.name = "follow", .type = HR_ARG_TYPE_STR, .out = &w->ignored},
        {.name = "as", .type = HR_ARG_TYPE_STR, .out = &w->ignored},
        {.name = "format", .type = HR_ARG_TYPE_ENUM, .out = &w->format, .choices = format_words},
        {.name = "normalized", .type = HR_ARG_TYPE_BOOL, .out = &w->normalized},
        {.name = "clamp", .type = HR_ARG_TYPE_BOOL, .out = &w->clamp},
        {.name = "min_size", .type = HR_ARG_TYPE_FLOAT, .out = &w->min_size, .min = 0, .max = 1e6},
        {.name = "min_area", .type = HR_ARG_TYPE_FLOAT, .out = &w->min_area, .min = 0, .max = 1e12},
    };
    const struct hr_arg_spec keypoints[] = {
        {.name = "follow", .type = HR_ARG_TYPE_STR, .out = &w->ignored},
        {.name = "as", .type = HR_ARG_TYPE_STR, .out = &w->ignored},
        {.name = "normalized", .type = HR_ARG_TYPE_BOOL, .out = &w->normalized},
        {.name = "origin", .type = HR_ARG_TYPE_ENUM, .out = &w->origin, .choices = origin_words},
        {.name = "mirror", .type = HR_ARG_TYPE_INTS, .out = w->mirror, .min = 0, .max = HR_FOLLOW_MAX_MIRROR - 1,
         .max_items = HR_FOLLOW_MAX_MIRROR, .count = &w->mirror_count},
    };

    if (!options)
        return 0;
    return kind == HR_FOLLOW_BOXES ? hr_args_read(options, boxes, HR_ARRAY_SIZE(boxes), err)
                                   : hr_args_read(options, keypoints, HR_ARRAY_SIZE(keypoints), err);
}

static int read_output(const struct hr_call *output, enum hr_follow_kind kind, struct words *w, struct hr_error *err)
{
    bool ragged;
    const struct hr_arg_spec specs[] = {
        {.name = "dtype", .type = HR_ARG_TYPE_STR, .out = &w->dtype},
        {.name = "normalized", .type = HR_ARG_TYPE_BOOL, .out = &w->to_normalized},
        {.name = "ragged", .type = HR_ARG_TYPE_BOOL, .out = &ragged},
        {.name = "format", .type = HR_ARG_TYPE_ENUM, .out = &w->to_format, .choices = format_words},
    };
    int count = (int)HR_ARRAY_SIZE(specs) - (kind == HR_FOLLOW_KEYPOINTS);

    return output ? hr_args_read(output, specs, count, err) : 0;
}

static int refuse(const struct hr_call *at, const char *hint, struct hr_error *err)
{
    if (at)
        hr_error_at_file(err, at->file, at->line, at->column);
    hr_error_hint(err, "%s", hint);
    return HR_E_CONFIG;
}

static bool is_number(enum hr_dtype dtype)
{
    return dtype == HR_DTYPE_F32 || dtype == HR_DTYPE_F64 || dtype == HR_DTYPE_I32 || dtype == HR_DTYPE_I64;
}

static bool is_whole(enum hr_dtype dtype)
{
    return dtype == HR_DTYPE_I32 || dtype == HR_DTYPE_I64;
}

static int check_dtypes(const struct hr_follow *f, const struct hr_call *options, const struct hr_call *output,
                        const char *wanted, struct hr_error *err)
{
    const char *what = kind_words[f->kind];

    if (!is_number(f->from.dtype)) {
        hr_fail(err, HR_E_CONFIG, "the %s are stored as %s", what, hr_dtype_name(f->from.dtype));
        return refuse(options, "store them as f32, f64, i32 or i64", err);
    }
    if (!is_number(f->to.dtype)) {
        hr_fail(err, HR_E_CONFIG, "%s cannot be given as '%s'", what, wanted);
        return refuse(output, "dtype: f32, f64, i32 or i64", err);
    }
    if (f->from.normalized && is_whole(f->from.dtype)) {
        hr_fail(err, HR_E_CONFIG, "the %s are stored as %s, which holds no fractions of a side", what,
                hr_dtype_name(f->from.dtype));
        return refuse(options, "leave 'normalized' out: they are pixels; output: {normalized: true, dtype: f32} "
                      "delivers fractions", err);
    }
    if (f->to.normalized && is_whole(f->to.dtype)) {
        hr_fail(err, HR_E_CONFIG, "fractions of a side do not fit %s", hr_dtype_name(f->to.dtype));
        return refuse(output ? output : options, "output: {dtype: f32}, or output: {normalized: false}", err);
    }
    return 0;
}

/* Pairs become a table of where each comes from. */
static int read_mirror(const struct words *w, const struct hr_call *options, struct hr_follow *f, struct hr_error *err)
{
    for (int i = 0; i < HR_FOLLOW_MAX_MIRROR; i++)
        f->mirror[i] = (uint8_t)i;
    for (int i = 0; i < w->mirror_count; i++) {
        int64_t point = w->mirror[i], other = w->mirror[i ^ 1];
        if (w->mirror_count % 2 || f->mirror[point] != point || point == other) {
            hr_fail(err, HR_E_CONFIG, "'mirror' lists pairs, and no point twice");
            return refuse(options, "mirror: [1, 2, 3, 4] exchanges points 1 and 2, and 3 and 4, where the picture "
                          "is mirrored", err);
        }
        f->mirror[point] = (uint8_t)other;
        f->mirror_count = (uint32_t)point >= f->mirror_count ? (uint32_t)point + 1 : f->mirror_count;
    }
    return 0;
}

int hr_follow_read(const struct hr_call *options, const struct hr_call *output, enum hr_follow_kind kind,
                   enum hr_dtype dtype, struct hr_follow *follow, struct hr_error *err)
{
    struct words w = {.to_format = -1, .clamp = true, .min_size = 1, .min_area = 1};
    int ret = read_options(options, kind, &w, err);

    w.to_normalized = w.normalized;
    if (ret == 0)
        ret = read_output(output, kind, &w, err);
    if (ret < 0)
        return ret;
    struct hr_follow f = {
        .kind = kind,
        .from = {dtype, w.format, w.normalized},
        .to = {w.dtype ? hr_dtype_parse(w.dtype) : dtype, w.to_format < 0 ? w.format : w.to_format, w.to_normalized},
        .clamp = w.clamp,
        .min_size = w.min_size,
        .min_area = w.min_area,
        .centres = w.origin == 1,
        .columns = kind == HR_FOLLOW_BOXES ? 4 : 2,
    };
    ret = check_dtypes(&f, options, output, w.dtype ? w.dtype : "", err);
    if (ret == 0)
        ret = read_mirror(&w, options, &f, err);
    if (ret == 0)
        *follow = f;
    return ret;
}

static void describe_form(const struct hr_follow_form *form, enum hr_follow_kind kind, struct hr_buf *text)
{
    if (kind == HR_FOLLOW_BOXES)
        hr_buf_addf(text, "%s ", format_words[form->format]);
    hr_buf_addf(text, "%s %s", form->normalized ? "normalized" : "pixels", hr_dtype_name(form->dtype));
}

void hr_follow_describe(const struct hr_follow *f, struct hr_buf *text)
{
    hr_buf_addf(text, "as=%s from{", kind_words[f->kind]);
    describe_form(&f->from, f->kind, text);
    hr_buf_add_str(text, "} output{");
    describe_form(&f->to, f->kind, text);
    hr_buf_add_str(text, "}");
    if (f->kind == HR_FOLLOW_BOXES)
        hr_buf_addf(text, " clamp=%s min_size=%.17g min_area=%.17g", f->clamp ? "true" : "false", f->min_size,
                    f->min_area);
    else
        hr_buf_addf(text, " origin=%s", origin_words[f->centres]);
    if (f->mirror_count)
        hr_buf_add_str(text, " mirror{");
    for (uint32_t i = 0; i < f->mirror_count; i++)
        hr_buf_addf(text, "%s%u", i ? " " : "", f->mirror[i]);
    if (f->mirror_count)
        hr_buf_add_str(text, "}");
}
