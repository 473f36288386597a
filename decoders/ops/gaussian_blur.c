/* gaussian_blur: a kernel of odd size with a random sigma. */
#include "decoders/ops/op.h"

static int parse(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    int kernels = 0, sigmas = 2;
    const struct hr_arg_spec specs[] = {
        {.name = "kernel_size", .type = HR_ARG_TYPE_INTS, .out = p->kernel, .min = 1, .max = 127,
         .required = true, .positional = true, .min_items = 1, .max_items = 2, .count = &kernels},
        {.name = "sigma", .type = HR_ARG_TYPE_FLOATS, .out = p->sigma, .min = 1e-3, .max = 1e3,
         .min_items = 1, .max_items = 2, .count = &sigmas},
        HR_OP_P_SPEC(p),
    };

    p->p = 1;
    p->sigma[0] = 0.1;
    p->sigma[1] = 2;
    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    if (ret < 0)
        return ret;
    if (kernels == 1)
        p->kernel[1] = p->kernel[0];
    if (sigmas == 1)
        p->sigma[1] = p->sigma[0];
    if (p->kernel[0] % 2 == 0 || p->kernel[1] % 2 == 0) {
        hr_fail(err, HR_E_CONFIG, "'kernel_size' of '%s' must be odd", call->name);
        hr_error_at_file(err, call->file, call->line, call->column);
        return HR_E_CONFIG;
    }
    return hr_op_check_pair(call, "sigma", p->sigma, err);
}

static void draw(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w, uint32_t h,
                 struct hr_steps *steps)
{
    if (!hr_rng_bernoulli(rng, p->p))
        return;
    struct hr_step *step = hr_steps_add(steps, HR_STEP_BLUR);
    step->kernel_w = (int)p->kernel[0];
    step->kernel_h = (int)p->kernel[1];
    step->value = hr_rng_range(rng, p->sigma[0], p->sigma[1]);
}

static void describe(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "kernel_size=%d,%d sigma=%.17g,%.17g p=%.17g", (int)p->kernel[0],
                (int)p->kernel[1], p->sigma[0], p->sigma[1], p->p);
}

const struct hr_op hr_op_gaussian_blur = {.name = "gaussian_blur",
                                          .effects = HR_OP_PIXELS,
                                          .parse = parse,
                                          .draw = draw,
                                          .describe = describe};
