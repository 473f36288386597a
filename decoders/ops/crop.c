/* center_crop and random_crop, with torchvision's rounding and padding. center_crop pads with black. */
#include <inttypes.h>
#include <math.h>

#include "decoders/ops/op.h"

static int parse_center(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    int64_t size[2] = {0};
    int count = 0;
    const struct hr_arg_spec specs[] = {
        {.name = "size", .type = HR_ARG_TYPE_INTS, .out = size, .min = 1, .max = HR_OP_MAX_SIDE,
         .required = true, .positional = true, .min_items = 1, .max_items = 2, .count = &count},
    };

    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    if (ret == 0)
        hr_op_size(p, size, count);
    return ret;
}

static int parse_random(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    int64_t size[2] = {0}, fill[3] = {0};
    int count = 0, fill_count = 1;
    const struct hr_arg_spec specs[] = {
        {.name = "size", .type = HR_ARG_TYPE_INTS, .out = size, .min = 1, .max = HR_OP_MAX_SIDE,
         .required = true, .positional = true, .min_items = 1, .max_items = 2, .count = &count},
        {.name = "pad", .type = HR_ARG_TYPE_INT, .out = &p->pad, .min = 0, .max = HR_OP_MAX_SIDE},
        {.name = "pad_if_needed", .type = HR_ARG_TYPE_BOOL, .out = &p->pad_if_needed},
        {.name = "mode", .type = HR_ARG_TYPE_ENUM, .out = &p->pad_mode,
         .choices = hr_pad_mode_names},
        HR_OP_FILL_SPEC(fill, fill_count),
    };

    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    if (ret < 0)
        return ret;
    hr_op_size(p, size, count);
    return hr_op_fill(call, p, fill, fill_count, err);
}

static void shape(const struct hr_op_params *p, struct hr_op_shape *s)
{
    s->w = s->max_w = (uint64_t)p->w;
    s->h = s->max_h = (uint64_t)p->h;
    s->max_pixels = s->w * s->h;
}

/* Halves round to even when cropping and down when padding. */
static int64_t centre(int64_t have, int64_t want)
{
    return want > have ? -((want - have) / 2) : (int64_t)nearbyint((double)(have - want) / 2);
}

static int plan_center(const struct hr_op_params *p, struct hr_rng *rng, struct hr_view *view,
                       struct hr_error *err)
{
    hr_view_crop(view, centre(view->w, p->w), centre(view->h, p->h), p->w, p->h);
    return 0;
}

static int plan_random(const struct hr_op_params *p, struct hr_rng *rng, struct hr_view *view,
                       struct hr_error *err)
{
    int64_t pad_w = p->pad, pad_h = p->pad;

    if (p->pad_if_needed && view->w + 2 * pad_w < p->w)
        pad_w = p->w - view->w - pad_w;
    if (p->pad_if_needed && view->h + 2 * pad_h < p->h)
        pad_h = p->h - view->h - pad_h;
    int64_t w = view->w + 2 * pad_w, h = view->h + 2 * pad_h;
    if (w < p->w || h < p->h) {
        hr_fail(err, HR_E_LIMIT,
                "random_crop of %" PRId64 " x %" PRId64 " does not fit into %" PRId64
                " x %" PRId64 " pixels",
                p->w, p->h, w, h);
        hr_error_hint(err, "random_crop: {pad_if_needed: true}, or a resize before it");
        return HR_E_LIMIT;
    }
    int64_t y = h == p->h && w == p->w ? 0 : (int64_t)hr_rng_below(rng, (uint64_t)(h - p->h + 1));
    int64_t x = h == p->h && w == p->w ? 0 : (int64_t)hr_rng_below(rng, (uint64_t)(w - p->w + 1));
    hr_view_crop(view, x - pad_w, y - pad_h, p->w, p->h);
    return 0;
}

static void describe_center(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "size=%lldx%lld", (long long)p->h, (long long)p->w);
}

static void describe_random(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "size=%lldx%lld pad=%lld pad_if_needed=%d", (long long)p->h, (long long)p->w,
                (long long)p->pad, p->pad_if_needed);
    if (p->pad_mode != HR_PAD_CONSTANT)
        hr_buf_addf(text, " mode=%s", hr_pad_mode_names[p->pad_mode]);
    if (p->fill[0] || p->fill[1] || p->fill[2])
        hr_op_describe_fill(p, text);
}

const struct hr_op hr_op_center_crop = {
    .name = "center_crop",
    .effects = HR_OP_CROPS | HR_OP_PADS,
    .parse = parse_center,
    .shape = shape,
    .plan = plan_center,
    .describe = describe_center,
};

const struct hr_op hr_op_random_crop = {
    .name = "random_crop",
    .effects = HR_OP_CROPS | HR_OP_PADS,
    .parse = parse_random,
    .shape = shape,
    .plan = plan_random,
    .describe = describe_random,
};
