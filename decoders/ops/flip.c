/* hflip and vflip: mirror with probability p. */
#include "decoders/ops/op.h"

static int parse(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    const struct hr_arg_spec specs[] = {
        {.name = "p", .type = HR_ARG_TYPE_FLOAT, .out = &p->p, .min = 0, .max = 1,
         .positional = true},
    };

    p->p = 0.5;
    return hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
}

static int plan_h(const struct hr_op_params *p, struct hr_rng *rng, struct hr_view *view,
                  struct hr_error *err)
{
    if (hr_rng_bernoulli(rng, p->p))
        hr_view_flip(view, true);
    return 0;
}

static int plan_v(const struct hr_op_params *p, struct hr_rng *rng, struct hr_view *view,
                  struct hr_error *err)
{
    if (hr_rng_bernoulli(rng, p->p))
        hr_view_flip(view, false);
    return 0;
}

static void describe(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "p=%.17g", p->p);
}

const struct hr_op hr_op_hflip = {
    .name = "hflip", .effects = HR_OP_FLIPS, .parse = parse, .plan = plan_h, .describe = describe};

const struct hr_op hr_op_vflip = {
    .name = "vflip", .effects = HR_OP_FLIPS, .parse = parse, .plan = plan_v, .describe = describe};
