/* color_jitter: brightness, contrast, saturation and hue by random factors, in random order; and
 * grayscale with probability p. */
#include "decoders/ops/op.h"

static const char *const names[4] = {"brightness", "contrast", "saturation", "hue"};

static bool given(const struct hr_op_params *p, int i)
{
    return p->jitter[i][0] <= p->jitter[i][1];
}

static void leave_out(double range[2])
{
    range[0] = 1;
    range[1] = 0;
}

/* One number x is [max(0, 1 - x), 1 + x], for hue [-x, x]. What changes nothing is left out: hue by 0 would still
 * round. */
static int set_range(const struct hr_call *call, struct hr_op_params *p, int i, int count,
                     struct hr_error *err)
{
    double *range = p->jitter[i], low = i == 3 ? -0.5 : 0, middle = i == 3 ? 0 : 1;

    if (count == 1) {
        double x = range[0];
        range[0] = i < 3 && x > 1 ? 0 : middle - x;
        range[1] = middle + x;
        if (x < 0)
            range[0] = low - 1;
    }
    if (count && (range[0] < low || (i == 3 && range[1] > 0.5))) {
        hr_fail(err, HR_E_CONFIG, i == 3 ? "'%s' of '%s' is within -0.5 and 0.5"
                                         : "'%s' of '%s' cannot be below 0", names[i], call->name);
        hr_error_at_file(err, call->file, call->line, call->column);
        return HR_E_CONFIG;
    }
    int ret = count ? hr_op_check_pair(call, names[i], range, err) : 0;
    if (ret == 0 && range[0] == middle && range[1] == middle)
        leave_out(range);
    return ret;
}

static int parse(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    struct hr_arg_spec specs[5];
    int count[4] = {0};

    p->p = 1;
    for (int i = 0; i < 4; i++) {
        leave_out(p->jitter[i]);
        specs[i] = (struct hr_arg_spec){.name = names[i], .type = HR_ARG_TYPE_FLOATS,
                                        .out = p->jitter[i], .min = -1000, .max = 1000,
                                        .min_items = 1, .max_items = 2, .count = &count[i]};
    }
    specs[4] = (struct hr_arg_spec)HR_OP_P_SPEC(p);
    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    for (int i = 0; ret == 0 && i < 4; i++)
        ret = set_range(call, p, i, count[i], err);
    return ret;
}

static void draw(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w, uint32_t h,
                 struct hr_steps *steps)
{
    static const enum hr_step_kind kinds[4] = {HR_STEP_BRIGHTNESS, HR_STEP_CONTRAST,
                                               HR_STEP_SATURATION, HR_STEP_HUE};
    int order[4] = {0, 1, 2, 3};
    double factor[4] = {0};

    if (!hr_rng_bernoulli(rng, p->p))
        return;
    for (int i = 3; i > 0; i--) { /* Fisher and Yates */
        int k = (int)hr_rng_below(rng, (uint64_t)i + 1), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    for (int i = 0; i < 4; i++)
        if (given(p, i))
            factor[i] = hr_rng_range(rng, p->jitter[i][0], p->jitter[i][1]);
    for (int i = 0; i < 4; i++)
        if (given(p, order[i]))
            hr_steps_add(steps, kinds[order[i]])->value = factor[order[i]];
}

static void describe(const struct hr_op_params *p, struct hr_buf *text)
{
    for (int i = 0; i < 4; i++)
        if (given(p, i))
            hr_buf_addf(text, "%s=%.17g,%.17g ", names[i], p->jitter[i][0], p->jitter[i][1]);
    hr_buf_addf(text, "p=%.17g", p->p);
}

const struct hr_op hr_op_color_jitter = {.name = "color_jitter",
                                         .effects = HR_OP_PIXELS,
                                         .parse = parse,
                                         .draw = draw,
                                         .describe = describe};

static int parse_grayscale(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    struct hr_arg_spec spec = HR_OP_P_SPEC(p);

    spec.positional = true;
    p->p = 0.1;
    return hr_args_read(call, &spec, 1, err);
}

static void draw_grayscale(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w, uint32_t h,
                           struct hr_steps *steps)
{
    if (hr_rng_bernoulli(rng, p->p))
        hr_steps_add(steps, HR_STEP_GRAYSCALE);
}

static void describe_grayscale(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "p=%.17g", p->p);
}

const struct hr_op hr_op_grayscale = {.name = "grayscale",
                                      .effects = HR_OP_PIXELS,
                                      .parse = parse_grayscale,
                                      .draw = draw_grayscale,
                                      .describe = describe_grayscale};
