/* solarize, posterize, equalize, autocontrast, invert and sharpness: one fixed change with probability
 * p. */
#include "decoders/ops/op.h"

static int parse_p(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    struct hr_arg_spec spec = HR_OP_P_SPEC(p);

    spec.positional = true;
    p->p = 0.5;
    return hr_args_read(call, &spec, 1, err);
}

static int parse_factor(const struct hr_call *call, const char *name, double max, bool required,
                        struct hr_op_params *p, struct hr_error *err)
{
    const struct hr_arg_spec specs[] = {
        {.name = name, .type = HR_ARG_TYPE_FLOAT, .out = &p->factor, .min = 0, .max = max,
         .required = required, .positional = true},
        HR_OP_P_SPEC(p),
    };

    p->p = 0.5;
    return hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
}

static int parse_solarize(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    p->factor = 128;
    return parse_factor(call, "threshold", 256, false, p, err);
}

static int parse_sharpness(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    return parse_factor(call, "factor", 1000, true, p, err);
}

static int parse_posterize(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    const struct hr_arg_spec specs[] = {
        {.name = "bits", .type = HR_ARG_TYPE_INT, .out = &p->bits, .min = 0, .max = 8,
         .required = true, .positional = true},
        HR_OP_P_SPEC(p),
    };

    p->p = 0.5;
    return hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
}

#define DRAW(name, step_kind)                                                                      \
    static void draw_##name(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w,          \
                            uint32_t h, struct hr_steps *steps)                                    \
    {                                                                                              \
        if (!hr_rng_bernoulli(rng, p->p))                                                          \
            return;                                                                                \
        struct hr_step *step = hr_steps_add(steps, step_kind);                                     \
        step->value = p->factor;                                                                   \
        step->bits = (int)p->bits;                                                                 \
    }
DRAW(solarize, HR_STEP_SOLARIZE)
DRAW(posterize, HR_STEP_POSTERIZE)
DRAW(equalize, HR_STEP_EQUALIZE)
DRAW(autocontrast, HR_STEP_AUTOCONTRAST)
DRAW(invert, HR_STEP_INVERT)
DRAW(sharpness, HR_STEP_SHARPNESS)

static void describe_p(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "p=%.17g", p->p);
}

static void describe_solarize(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "threshold=%.17g p=%.17g", p->factor, p->p);
}

static void describe_sharpness(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "factor=%.17g p=%.17g", p->factor, p->p);
}

static void describe_posterize(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "bits=%d p=%.17g", (int)p->bits, p->p);
}

#define TONE(op, parser, describer)                                                                \
    const struct hr_op hr_op_##op = {.name = #op,                                                  \
                                     .effects = HR_OP_PIXELS,                                      \
                                     .parse = parser,                                              \
                                     .draw = draw_##op,                                            \
                                     .describe = describer};
TONE(solarize, parse_solarize, describe_solarize)
TONE(posterize, parse_posterize, describe_posterize)
TONE(equalize, parse_p, describe_p)
TONE(autocontrast, parse_p, describe_p)
TONE(invert, parse_p, describe_p)
TONE(sharpness, parse_sharpness, describe_sharpness)
