/* random_resized_crop: a box of random area and aspect, resized to a fixed size. The algorithm of
 * torchvision's RandomResizedCrop: ten tries, then the largest centred box within the ratios. */
#include <math.h>

#include "decoders/ops/op.h"

enum { TRIES = 10 };

static int parse(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    int64_t size[2] = {0};
    int count = 0;
    const struct hr_arg_spec specs[] = {
        {.name = "size", .type = HR_ARG_TYPE_INTS, .out = size, .min = 1, .max = HR_OP_MAX_SIDE,
         .required = true, .positional = true, .min_items = 1, .max_items = 2, .count = &count},
        {.name = "scale", .type = HR_ARG_TYPE_FLOATS, .out = p->scale, .min = 1e-6, .max = 1,
         .min_items = 2, .max_items = 2},
        {.name = "ratio", .type = HR_ARG_TYPE_FLOATS, .out = p->ratio, .min = 1e-3, .max = 1e3,
         .min_items = 2, .max_items = 2},
        {.name = "filter", .type = HR_ARG_TYPE_ENUM, .out = &p->filter,
         .choices = hr_filter_names},
    };

    p->scale[0] = 0.08;
    p->scale[1] = 1;
    p->ratio[0] = 3.0 / 4;
    p->ratio[1] = 4.0 / 3;
    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    if (ret < 0)
        return ret;
    if (p->scale[0] > p->scale[1] || p->ratio[0] > p->ratio[1]) {
        hr_fail(err, HR_E_CONFIG, "'scale' and 'ratio' of '%s' are [low, high]", call->name);
        hr_error_at_file(err, call->file, call->line, call->column);
        return HR_E_CONFIG;
    }
    hr_op_size(p, size, count);
    return 0;
}

static void shape(const struct hr_op_params *p, struct hr_op_shape *s)
{
    s->w = s->max_w = (uint64_t)p->w;
    s->h = s->max_h = (uint64_t)p->h;
    s->max_pixels = s->w * s->h;
}

/* Python's round(): halves to even. */
static int64_t round_even(double v)
{
    return (int64_t)nearbyint(v);
}

static bool try_box(const struct hr_op_params *p, struct hr_rng *rng, const struct hr_view *view,
                    int64_t box[4])
{
    double area = (double)view->w * (double)view->h;
    double target = area * hr_rng_range(rng, p->scale[0], p->scale[1]);
    double aspect = exp(hr_rng_range(rng, log(p->ratio[0]), log(p->ratio[1])));
    int64_t w = round_even(sqrt(target * aspect));
    int64_t h = round_even(sqrt(target / aspect));

    if (w <= 0 || w > view->w || h <= 0 || h > view->h)
        return false;
    box[1] = (int64_t)hr_rng_below(rng, (uint64_t)(view->h - h + 1));
    box[0] = (int64_t)hr_rng_below(rng, (uint64_t)(view->w - w + 1));
    box[2] = w;
    box[3] = h;
    return true;
}

static void centre_box(const struct hr_op_params *p, const struct hr_view *view, int64_t box[4])
{
    double ratio = (double)view->w / (double)view->h;
    int64_t w = view->w, h = view->h;

    if (ratio < p->ratio[0])
        h = round_even((double)w / p->ratio[0]);
    else if (ratio > p->ratio[1])
        w = round_even((double)h * p->ratio[1]);
    box[2] = w < 1 ? 1 : w > view->w ? view->w : w;
    box[3] = h < 1 ? 1 : h > view->h ? view->h : h;
    box[0] = (view->w - box[2]) / 2;
    box[1] = (view->h - box[3]) / 2;
}

static int plan(const struct hr_op_params *p, struct hr_rng *rng, struct hr_view *view,
                struct hr_error *err)
{
    int64_t box[4];
    bool found = false;

    for (int i = 0; i < TRIES && !found; i++)
        found = try_box(p, rng, view, box);
    if (!found)
        centre_box(p, view, box);
    hr_view_crop(view, box[0], box[1], box[2], box[3]);
    hr_view_resize(view, p->w, p->h, p->filter);
    return 0;
}

static void describe(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "size=%lldx%lld scale=%.17g,%.17g ratio=%.17g,%.17g filter=%s",
                (long long)p->h, (long long)p->w, p->scale[0], p->scale[1], p->ratio[0],
                p->ratio[1], hr_filter_names[p->filter]);
}

const struct hr_op hr_op_random_resized_crop = {
    .name = "random_resized_crop",
    .effects = HR_OP_CROPS | HR_OP_RESIZES,
    .parse = parse,
    .shape = shape,
    .plan = plan,
    .describe = describe,
};
