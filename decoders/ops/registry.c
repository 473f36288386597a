/* The table of ops, and a field's chain of them: parsing, the check that it folds into one pass,
 * planning. */
#include "decoders/ops/op.h"

#include <string.h>

static const struct hr_op *const ops[] = {
    &hr_op_random_resized_crop, &hr_op_resize, &hr_op_center_crop, &hr_op_random_crop,
    &hr_op_hflip, &hr_op_vflip, &hr_op_normalize,
};

const char *const hr_filter_names[HR_FILTER_COUNT + 1] = {
    [HR_FILTER_BILINEAR] = "bilinear", [HR_FILTER_BICUBIC] = "bicubic",
    [HR_FILTER_LANCZOS3] = "lanczos3", [HR_FILTER_AREA] = "area",
    [HR_FILTER_NEAREST] = "nearest",
};

const struct hr_op *hr_op_find(const char *name)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(ops); i++)
        if (strcmp(ops[i]->name, name) == 0)
            return ops[i];
    return NULL;
}

static int unknown_op(const struct hr_call *call, struct hr_error *err)
{
    const char *names[HR_ARRAY_SIZE(ops)];

    for (size_t i = 0; i < HR_ARRAY_SIZE(ops); i++)
        names[i] = ops[i]->name;
    hr_fail(err, HR_E_CONFIG, "there is no op '%s'", call->name);
    hr_error_at_file(err, call->file, call->line, call->column);
    const char *near = hr_nearest_word(call->name, names, HR_ARRAY_SIZE(ops));
    if (near)
        hr_error_hint(err, "did you mean '%s'?", near);
    else
        hr_error_hint(err, "known: random_resized_crop, resize, center_crop, random_crop, hflip, "
                           "vflip, normalize");
    return HR_E_CONFIG;
}

/* One pass does crops, one resize, crops, flips and normalize in that order (flips also in between).
 * Everything else would need a picture in the middle. */
static int check_order(const struct hr_op_chain *chain, const struct hr_op *op,
                       const struct hr_call *call, struct hr_error *err)
{
    const struct hr_op *blocker = NULL;

    for (int i = 0; i < chain->count; i++) {
        const struct hr_op *before = chain->ops[i];
        if (before->effects & op->effects & (HR_OP_RESIZES | HR_OP_NORMALIZES))
            blocker = before;
        if (before->effects & HR_OP_NORMALIZES && !(op->effects & HR_OP_FLIPS))
            blocker = before;
    }
    if (!blocker)
        return 0;
    hr_fail(err, HR_E_CONFIG, "'%s' cannot come after '%s'", op->name, blocker->name);
    hr_error_at_file(err, call->file, call->line, call->column);
    hr_error_hint(err, "the order that works: crops, one resize, crops, flips, one normalize last");
    return HR_E_CONFIG;
}

int hr_op_chain_init(struct hr_op_chain *chain, const struct hr_call *calls, int count,
                     const struct hr_op_shape *shape, struct hr_error *err)
{
    *chain = (struct hr_op_chain){.shape = *shape};
    for (int i = 0; i < count; i++) {
        const struct hr_op *op = hr_op_find(calls[i].name);
        if (!op)
            return unknown_op(&calls[i], err);
        if (chain->count == HR_OPS_MAX)
            return hr_fail(err, HR_E_CONFIG, "more than %d ops", HR_OPS_MAX);
        int ret = check_order(chain, op, &calls[i], err);
        if (ret == 0)
            ret = op->parse(&calls[i], &chain->params[i], err);
        if (ret < 0)
            return ret;
        chain->ops[i] = op;
        if (op->shape)
            op->shape(&chain->params[i], &chain->shape);
        if (op->effects & HR_OP_NORMALIZES)
            chain->normalize = &chain->params[i];
        chain->count++;
    }
    return 0;
}

int hr_op_chain_plan(const struct hr_op_chain *chain, const struct hr_draw_key *key, uint32_t w,
                     uint32_t h, struct hr_image_plan *plan, struct hr_error *err)
{
    struct hr_view view;

    hr_view_init(&view, w, h);
    for (int i = 0; i < chain->count; i++) {
        struct hr_rng rng;
        if (!chain->ops[i]->plan)
            continue;
        hr_rng_init(&rng, key->seed, key->epoch, key->position, key->stream * 256 + (uint32_t)i);
        int ret = chain->ops[i]->plan(&chain->params[i], &rng, &view, err);
        if (ret < 0)
            return ret;
    }
    return hr_view_plan(&view, plan, err);
}

void hr_op_chain_describe(const struct hr_op_chain *chain, struct hr_buf *text)
{
    for (int i = 0; i < chain->count; i++) {
        hr_buf_addf(text, "%s%s{", i ? " " : "", chain->ops[i]->name);
        chain->ops[i]->describe(&chain->params[i], text);
        hr_buf_add_str(text, "}");
    }
}

int hr_op_chain_scale(const struct hr_op_chain *chain, uint32_t channels, float scale[4],
                      float bias[4], struct hr_error *err)
{
    const struct hr_op_params *n = chain->normalize;

    if (n && n->channel_count != 1 && n->channel_count != (int)channels)
        return hr_fail(err, HR_E_CONFIG, "'normalize' lists %d channels, the picture has %u",
                       n->channel_count, channels);
    for (uint32_t c = 0; c < 4; c++) {
        uint32_t k = n && c < (uint32_t)n->channel_count ? c : 0;
        double mean = n ? n->mean[k] : 0, std = n ? n->std[k] : 1;
        scale[c] = (float)(1 / (255 * std));
        bias[c] = (float)(-mean / std);
    }
    return 0;
}

void hr_op_size(struct hr_op_params *params, const int64_t size[2], int count)
{
    params->h = size[0];
    params->w = count == 2 ? size[1] : size[0];
}
