/* rotate, affine and perspective: the picture turned, moved, scaled, sheared or seen from the side, in
 * a frame that keeps its size. */
#include <math.h>
#include <string.h>

#include "decoders/ops/op.h"
#include "decoders/ops/warp.h"

static void add_warp(const struct hr_op_params *p, const double map[9], struct hr_steps *steps)
{
    struct hr_step *step = hr_steps_add(steps, HR_STEP_WARP);

    memcpy(step->map, map, sizeof(step->map));
    memcpy(step->fill, p->fill, sizeof(step->fill));
    step->interpolation = (enum hr_interpolation)p->interpolation;
}

/* One number d is [-d, d]. */
static int set_symmetric(const struct hr_call *call, const char *name, double pair[2], int count,
                         struct hr_error *err)
{
    if (count == 1) {
        pair[1] = fabs(pair[0]);
        pair[0] = -pair[1];
    }
    return count ? hr_op_check_pair(call, name, pair, err) : 0;
}

static void describe_sampling(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, " interpolation=%s", hr_interpolation_names[p->interpolation]);
    hr_op_describe_fill(p, text);
    hr_buf_addf(text, " p=%.17g", p->p);
}

#define DEGREES_SPEC(p, number)                                                                    \
    {.name = "degrees", .type = HR_ARG_TYPE_FLOATS, .out = (p)->degrees, .min = -360, .max = 360,  \
     .required = true, .positional = true, .min_items = 1, .max_items = 2, .count = &(number)}

#define CENTRE_SPEC(p, number)                                                                     \
    {.name = "center", .type = HR_ARG_TYPE_FLOATS, .out = (p)->centre, .min = -65535, .max = 65535, \
     .min_items = 2, .max_items = 2, .count = &(number)}

static void find_centre(const struct hr_op_params *p, uint32_t w, uint32_t h, double centre[2])
{
    centre[0] = p->centre_given ? p->centre[0] : w * 0.5;
    centre[1] = p->centre_given ? p->centre[1] : h * 0.5;
}

static void describe_centre(const struct hr_op_params *p, struct hr_buf *text)
{
    if (p->centre_given)
        hr_buf_addf(text, " center=%.17g,%.17g", p->centre[0], p->centre[1]);
}

/* ---- rotate ---- */

static int parse_rotate(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    int64_t fill[3] = {0};
    int angles = 0, centre = 0, fill_count = 1;
    const struct hr_arg_spec specs[] = {
        DEGREES_SPEC(p, angles),
        CENTRE_SPEC(p, centre),
        HR_OP_INTERPOLATION_SPEC(p),
        HR_OP_FILL_SPEC(fill, fill_count),
        HR_OP_P_SPEC(p),
    };

    p->p = 1;
    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    p->centre_given = centre > 0;
    if (ret == 0)
        ret = set_symmetric(call, "degrees", p->degrees, angles, err);
    return ret < 0 ? ret : hr_op_fill(call, p, fill, fill_count, err);
}

static void draw_rotate(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w, uint32_t h,
                        struct hr_steps *steps)
{
    double map[9], centre[2];

    if (!hr_rng_bernoulli(rng, p->p))
        return;
    find_centre(p, w, h, centre);
    hr_warp_rotation(map, hr_rng_range(rng, p->degrees[0], p->degrees[1]), 2 * centre[0], 2 * centre[1]);
    add_warp(p, map, steps);
}

static void describe_rotate(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "degrees=%.17g,%.17g", p->degrees[0], p->degrees[1]);
    describe_centre(p, text);
    describe_sampling(p, text);
}

const struct hr_op hr_op_rotate = {.name = "rotate",
                                   .effects = HR_OP_PIXELS,
                                   .parse = parse_rotate,
                                   .draw = draw_rotate,
                                   .describe = describe_rotate};

/* ---- affine ---- */

static int set_shear(const struct hr_call *call, struct hr_op_params *p, int count,
                     struct hr_error *err)
{
    if (count == 3) {
        hr_fail(err, HR_E_CONFIG, "'shear' of '%s' has 1, 2 or 4 numbers", call->name);
        hr_error_at_file(err, call->file, call->line, call->column);
        return HR_E_CONFIG;
    }
    int ret = set_symmetric(call, "shear", p->shear, count, err);
    return ret < 0 || count < 4 ? ret : hr_op_check_pair(call, "shear", p->shear + 2, err);
}

static int parse_affine(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    int64_t fill[3] = {0};
    int angles = 0, shears = 0, centre = 0, fill_count = 1;
    const struct hr_arg_spec specs[] = {
        DEGREES_SPEC(p, angles),
        CENTRE_SPEC(p, centre),
        {.name = "translate", .type = HR_ARG_TYPE_FLOATS, .out = p->translate, .min = 0, .max = 1,
         .min_items = 2, .max_items = 2},
        {.name = "scale", .type = HR_ARG_TYPE_FLOATS, .out = p->scale, .min = 1e-2, .max = 1e2,
         .min_items = 2, .max_items = 2},
        {.name = "shear", .type = HR_ARG_TYPE_FLOATS, .out = p->shear, .min = -89, .max = 89,
         .min_items = 1, .max_items = 4, .count = &shears},
        HR_OP_INTERPOLATION_SPEC(p),
        HR_OP_FILL_SPEC(fill, fill_count),
        HR_OP_P_SPEC(p),
    };

    p->p = p->scale[0] = p->scale[1] = 1;
    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    p->centre_given = centre > 0;
    if (ret == 0)
        ret = set_symmetric(call, "degrees", p->degrees, angles, err);
    if (ret == 0)
        ret = hr_op_check_pair(call, "scale", p->scale, err);
    if (ret == 0)
        ret = set_shear(call, p, shears, err);
    return ret < 0 ? ret : hr_op_fill(call, p, fill, fill_count, err);
}

static void draw_affine(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w, uint32_t h,
                        struct hr_steps *steps)
{
    struct hr_affine a = {0};
    double map[9], centre[2];

    if (!hr_rng_bernoulli(rng, p->p))
        return;
    find_centre(p, w, h, centre);
    a.centre_x = centre[0];
    a.centre_y = centre[1];
    a.degrees = hr_rng_range(rng, p->degrees[0], p->degrees[1]);
    a.dx = nearbyint(hr_rng_range(rng, -p->translate[0] * w, p->translate[0] * w));
    a.dy = nearbyint(hr_rng_range(rng, -p->translate[1] * h, p->translate[1] * h));
    a.scale = hr_rng_range(rng, p->scale[0], p->scale[1]);
    a.shear_x = hr_rng_range(rng, p->shear[0], p->shear[1]);
    a.shear_y = hr_rng_range(rng, p->shear[2], p->shear[3]);
    hr_warp_affine(map, &a);
    add_warp(p, map, steps);
}

static void describe_affine(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "degrees=%.17g,%.17g translate=%.17g,%.17g scale=%.17g,%.17g "
                "shear=%.17g,%.17g,%.17g,%.17g",
                p->degrees[0], p->degrees[1], p->translate[0], p->translate[1], p->scale[0],
                p->scale[1], p->shear[0], p->shear[1], p->shear[2], p->shear[3]);
    describe_centre(p, text);
    describe_sampling(p, text);
}

const struct hr_op hr_op_affine = {.name = "affine",
                                   .effects = HR_OP_PIXELS,
                                   .parse = parse_affine,
                                   .draw = draw_affine,
                                   .describe = describe_affine};

/* ---- perspective ---- */

static int parse_perspective(const struct hr_call *call, struct hr_op_params *p,
                             struct hr_error *err)
{
    int64_t fill[3] = {0};
    int fill_count = 1;
    const struct hr_arg_spec specs[] = {
        {.name = "distortion_scale", .type = HR_ARG_TYPE_FLOAT, .out = &p->factor, .min = 0, .max = 1,
         .positional = true},
        HR_OP_INTERPOLATION_SPEC(p),
        HR_OP_FILL_SPEC(fill, fill_count),
        HR_OP_P_SPEC(p),
    };

    p->p = p->factor = 0.5;
    p->interpolation = HR_INTERPOLATION_BILINEAR;
    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    return ret < 0 ? ret : hr_op_fill(call, p, fill, fill_count, err);
}

static double near_end(struct hr_rng *rng, uint32_t side, uint64_t bound, bool far_end)
{
    double in = (double)hr_rng_below(rng, bound);

    return far_end ? (double)side - (double)bound + in : in;
}

static void draw_perspective(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w,
                             uint32_t h, struct hr_steps *steps)
{
    uint64_t bound_w = (uint64_t)(p->factor * (w / 2)) + 1;
    uint64_t bound_h = (uint64_t)(p->factor * (h / 2)) + 1;
    double corners[4][2], map[9];

    if (!hr_rng_bernoulli(rng, p->p))
        return;
    for (int i = 0; i < 4; i++) {
        corners[i][0] = near_end(rng, w, bound_w, i == 1 || i == 2);
        corners[i][1] = near_end(rng, h, bound_h, i >= 2);
    }
    if (hr_warp_perspective(map, w, h, (const double(*)[2])corners))
        add_warp(p, map, steps);
}

static void describe_perspective(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "distortion_scale=%.17g", p->factor);
    describe_sampling(p, text);
}

const struct hr_op hr_op_perspective = {.name = "perspective",
                                        .effects = HR_OP_PIXELS,
                                        .parse = parse_perspective,
                                        .draw = draw_perspective,
                                        .describe = describe_perspective};
