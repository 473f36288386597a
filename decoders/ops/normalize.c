/* normalize: (pixel / 255 - mean) / std a channel, folded into the output's scale and bias. */
#include "decoders/ops/op.h"

static int parse(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    int means = 0, stds = 0;
    const struct hr_arg_spec specs[] = {
        {.name = "mean", .type = HR_ARG_TYPE_FLOATS, .out = p->mean, .min = -1e6, .max = 1e6,
         .required = true, .min_items = 1, .max_items = 4, .count = &means},
        {.name = "std", .type = HR_ARG_TYPE_FLOATS, .out = p->std, .min = 1e-9, .max = 1e6,
         .required = true, .min_items = 1, .max_items = 4, .count = &stds},
    };

    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    if (ret < 0)
        return ret;
    if (means != stds) {
        hr_fail(err, HR_E_CONFIG, "'normalize' has %d means and %d stds", means, stds);
        hr_error_at_file(err, call->file, call->line, call->column);
        return HR_E_CONFIG;
    }
    p->channel_count = means;
    return 0;
}

static void describe(const struct hr_op_params *p, struct hr_buf *text)
{
    for (int i = 0; i < p->channel_count; i++)
        hr_buf_addf(text, "%s%.17g/%.17g", i ? " " : "", p->mean[i], p->std[i]);
}

const struct hr_op hr_op_normalize = {
    .name = "normalize",
    .effects = HR_OP_NORMALIZES,
    .parse = parse,
    .describe = describe,
};
