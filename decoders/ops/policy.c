/* rand_augment, trivial_augment and auto_augment: random choices among the other ops, with torchvision's
 * spaces of magnitudes. */
#include <math.h>
#include <string.h>

#include "decoders/ops/op.h"
#include "decoders/ops/policy.h"
#include "decoders/ops/warp.h"

/* ---- one change at one magnitude ---- */

static bool is_signed(enum hr_change change)
{
    return change >= HR_CHANGE_SHEAR_X && change <= HR_CHANGE_SHARPNESS;
}

static bool has_magnitude(enum hr_change change)
{
    return is_signed(change) || change == HR_CHANGE_POSTERIZE || change == HR_CHANGE_SOLARIZE;
}

/* share: where between the weakest and the strongest, 0 to 1. Distances are in pixels. */
static double magnitude_of(enum hr_change change, double share, bool wide, uint32_t w, uint32_t h)
{
    switch (change) {
    case HR_CHANGE_SHEAR_X:
    case HR_CHANGE_SHEAR_Y:
        return share * (wide ? 0.99 : 0.3);
    case HR_CHANGE_TRANSLATE_X:
        return share * (wide ? 32.0 : 150.0 / 331.0 * w);
    case HR_CHANGE_TRANSLATE_Y:
        return share * (wide ? 32.0 : 150.0 / 331.0 * h);
    case HR_CHANGE_ROTATE:
        return share * (wide ? 135.0 : 30.0);
    case HR_CHANGE_POSTERIZE:
        return 8 - nearbyint(share * (wide ? 6 : 4));
    case HR_CHANGE_SOLARIZE:
        return 255.0 * (1 - share);
    default:
        return share * (wide ? 0.99 : 0.9);
    }
}

static void add_warp(const struct hr_op_params *p, const double map[9], struct hr_steps *steps)
{
    struct hr_step *step = hr_steps_add(steps, HR_STEP_WARP);

    memcpy(step->map, map, sizeof(step->map));
    memcpy(step->fill, p->fill, sizeof(step->fill));
    step->interpolation = (enum hr_interpolation)p->interpolation;
}

/* Shears are about the top left corner. */
static void add_moved(const struct hr_op_params *p, enum hr_change change, double magnitude, uint32_t w,
                      uint32_t h, struct hr_steps *steps)
{
    double degrees = atan(magnitude) * 180 / 3.14159265358979323846, map[9];
    struct hr_affine a = {.scale = 1};

    if (change == HR_CHANGE_ROTATE) {
        hr_warp_rotation(map, magnitude, w, h);
        add_warp(p, map, steps);
        return;
    }
    if (change == HR_CHANGE_SHEAR_X)
        a.shear_x = degrees;
    else if (change == HR_CHANGE_SHEAR_Y)
        a.shear_y = degrees;
    else if (change == HR_CHANGE_TRANSLATE_X)
        a.dx = trunc(magnitude);
    else
        a.dy = trunc(magnitude);
    hr_warp_affine(map, &a);
    add_warp(p, map, steps);
}

static void add_change(const struct hr_op_params *p, enum hr_change change, double magnitude, uint32_t w,
                       uint32_t h, struct hr_steps *steps)
{
    static const enum hr_step_kind kinds[HR_CHANGE_COUNT] = {
        [HR_CHANGE_BRIGHTNESS] = HR_STEP_BRIGHTNESS, [HR_CHANGE_COLOR] = HR_STEP_SATURATION,
        [HR_CHANGE_CONTRAST] = HR_STEP_CONTRAST,     [HR_CHANGE_SHARPNESS] = HR_STEP_SHARPNESS,
        [HR_CHANGE_POSTERIZE] = HR_STEP_POSTERIZE,   [HR_CHANGE_SOLARIZE] = HR_STEP_SOLARIZE,
        [HR_CHANGE_AUTOCONTRAST] = HR_STEP_AUTOCONTRAST,
        [HR_CHANGE_EQUALIZE] = HR_STEP_EQUALIZE,     [HR_CHANGE_INVERT] = HR_STEP_INVERT,
    };

    if (change == HR_CHANGE_IDENTITY)
        return;
    if (change <= HR_CHANGE_ROTATE) {
        add_moved(p, change, magnitude, w, h, steps);
        return;
    }
    struct hr_step *step = hr_steps_add(steps, kinds[change]);
    step->value = change <= HR_CHANGE_SHARPNESS ? 1 + magnitude : magnitude;
    step->bits = change == HR_CHANGE_POSTERIZE ? (int)magnitude : 0;
}

/* bin < 0: drawn. */
static void draw_change(const struct hr_op_params *p, struct hr_rng *rng, enum hr_change change,
                        int64_t bin, bool wide, uint32_t w, uint32_t h, struct hr_steps *steps)
{
    double magnitude = 0;

    if (has_magnitude(change)) {
        if (bin < 0)
            bin = (int64_t)hr_rng_below(rng, (uint64_t)p->bins);
        magnitude = magnitude_of(change, (double)bin / (double)(p->bins - 1), wide, w, h);
    }
    if (is_signed(change) && hr_rng_bernoulli(rng, 0.5))
        magnitude = -magnitude;
    add_change(p, change, magnitude, w, h, steps);
}

/* ---- the three ---- */

static int parse(const struct hr_call *call, const struct hr_arg_spec *own, int own_count,
                 struct hr_op_params *p, struct hr_error *err)
{
    int64_t fill[3] = {0};
    int fill_count = 1, count = 0;
    struct hr_arg_spec specs[8];

    for (; count < own_count; count++)
        specs[count] = own[count];
    specs[count++] = (struct hr_arg_spec)HR_OP_INTERPOLATION_SPEC(p);
    specs[count++] = (struct hr_arg_spec)HR_OP_FILL_SPEC(fill, fill_count);
    int ret = hr_args_read(call, specs, count, err);
    return ret < 0 ? ret : hr_op_fill(call, p, fill, fill_count, err);
}

static void describe_sampling(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, " interpolation=%s", hr_interpolation_names[p->interpolation]);
    hr_op_describe_fill(p, text);
}

#define BINS_SPEC(p)                                                                               \
    {.name = "bins", .type = HR_ARG_TYPE_INT, .out = &(p)->bins, .min = 2, .max = 1000}

static int parse_rand(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    const struct hr_arg_spec own[] = {
        {.name = "num_ops", .type = HR_ARG_TYPE_INT, .out = &p->count, .min = 0,
         .max = HR_STEPS_MAX},
        {.name = "magnitude", .type = HR_ARG_TYPE_INT, .out = &p->magnitude, .min = 0, .max = 999},
        BINS_SPEC(p),
    };

    p->count = 2;
    p->magnitude = 9;
    p->bins = 31;
    int ret = parse(call, own, HR_ARRAY_SIZE(own), p, err);
    if (ret < 0 || p->magnitude < p->bins)
        return ret;
    hr_fail(err, HR_E_CONFIG, "'magnitude' of '%s' must be below 'bins'", call->name);
    hr_error_at_file(err, call->file, call->line, call->column);
    return HR_E_CONFIG;
}

static void draw_rand(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w, uint32_t h,
                      struct hr_steps *steps)
{
    for (int64_t i = 0; i < p->count; i++) {
        enum hr_change change = (enum hr_change)hr_rng_below(rng, HR_CHANGE_OF_RANDOM);
        draw_change(p, rng, change, p->magnitude, false, w, h, steps);
    }
}

static void describe_rand(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "num_ops=%d magnitude=%d bins=%d", (int)p->count, (int)p->magnitude,
                (int)p->bins);
    describe_sampling(p, text);
}

const struct hr_op hr_op_rand_augment = {.name = "rand_augment",
                                         .effects = HR_OP_PIXELS,
                                         .parse = parse_rand,
                                         .draw = draw_rand,
                                         .describe = describe_rand};

static int parse_trivial(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    const struct hr_arg_spec own = BINS_SPEC(p);

    p->bins = 31;
    return parse(call, &own, 1, p, err);
}

static void draw_trivial(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w, uint32_t h,
                         struct hr_steps *steps)
{
    enum hr_change change = (enum hr_change)hr_rng_below(rng, HR_CHANGE_OF_RANDOM);

    draw_change(p, rng, change, -1, true, w, h, steps);
}

static void describe_trivial(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "bins=%d", (int)p->bins);
    describe_sampling(p, text);
}

const struct hr_op hr_op_trivial_augment = {.name = "trivial_augment",
                                            .effects = HR_OP_PIXELS,
                                            .parse = parse_trivial,
                                            .draw = draw_trivial,
                                            .describe = describe_trivial};

static int parse_auto(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    int policy = 0;
    const struct hr_arg_spec own = {.name = "policy", .type = HR_ARG_TYPE_ENUM, .out = &policy,
                                    .choices = hr_auto_policy_names, .positional = true};

    p->bins = 10;
    int ret = parse(call, &own, 1, p, err);
    p->count = policy;
    return ret;
}

static void draw_auto(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w, uint32_t h,
                      struct hr_steps *steps)
{
    const struct hr_auto_pair *pair =
        &hr_auto_policies[p->count][hr_rng_below(rng, HR_AUTO_PAIRS)];

    for (int i = 0; i < 2; i++)
        if (hr_rng_bernoulli(rng, pair->changes[i].tenths / 10.0))
            draw_change(p, rng, pair->changes[i].change, pair->changes[i].bin, false, w, h, steps);
}

static void describe_auto(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "policy=%s", hr_auto_policy_names[p->count]);
    describe_sampling(p, text);
}

const struct hr_op hr_op_auto_augment = {.name = "auto_augment",
                                         .effects = HR_OP_PIXELS,
                                         .parse = parse_auto,
                                         .draw = draw_auto,
                                         .describe = describe_auto};
