/* A field's chain of ops: parsed, cut into stages that are one pass each, planned and drawn. */
#include "decoders/ops/op.h"

#include <string.h>

static int refuse_order(const struct hr_call *call, const struct hr_op *blocker, const char *hint,
                        struct hr_error *err)
{
    hr_fail(err, HR_E_CONFIG, "'%s' cannot come after '%s'", call->name, blocker->name);
    hr_error_at_file(err, call->file, call->line, call->column);
    hr_error_hint(err, "%s", hint);
    return HR_E_CONFIG;
}

/* A stage does crops, one resize, crops and flips in that order (flips also in between), then ops on
 * pixels. Normalize ends all that; erasing alone can also come after it. */
static int check_order(const struct hr_op_chain *chain, const struct hr_op *op,
                       const struct hr_call *call, struct hr_error *err)
{
    const struct hr_op_stage *stage = &chain->stages[chain->stage_count - 1];
    bool same_stage = stage->pixels == stage->end;

    for (int i = 0; i < chain->count; i++) {
        const struct hr_op *before = chain->ops[i];
        if (before->effects & HR_OP_NORMALIZES && !(op->effects & (HR_OP_FLIPS | HR_OP_FINISHES)))
            return refuse_order(call, before, "the order that works: crops, one resize, crops, "
                                "flips, ops on pixels, one normalize last", err);
        if (i >= chain->late && !(op->effects & HR_OP_FINISHES))
            return refuse_order(call, before, "flip before that", err);
        if (same_stage && i >= stage->begin && before->effects & op->effects & HR_OP_RESIZES)
            return refuse_order(call, before, "the order that works: crops, one resize, crops, "
                                "flips, one normalize last", err);
    }
    return 0;
}

/* The stage that a folding op belongs to: a new one after ops on pixels, or when it pads otherwise than
 * an op before it. Borders that repeat pixels need a picture in memory. */
static struct hr_op_stage *stage_for(struct hr_op_chain *chain, const struct hr_op *op,
                                     const struct hr_op_params *params)
{
    struct hr_op_stage *stage = &chain->stages[chain->stage_count - 1];
    bool pads = op->effects & HR_OP_PADS, repeats = pads && params->pad_mode != HR_PAD_CONSTANT;
    bool differs = pads && stage->pads &&
                   (params->pad_mode != (int)stage->pad_mode ||
                    memcmp(params->fill, stage->fill, sizeof(stage->fill)) != 0);
    bool first_of_stage = stage->begin == stage->end && chain->stage_count > 1;

    if (stage->pixels < stage->end || differs || (repeats && !first_of_stage)) {
        if (chain->stage_count == HR_STAGES_MAX)
            return NULL;
        stage = &chain->stages[chain->stage_count++];
        *stage = (struct hr_op_stage){.begin = chain->count};
    }
    if (pads) {
        stage->pads = true;
        stage->pad_mode = (enum hr_pad_mode)params->pad_mode;
        memcpy(stage->fill, params->fill, sizeof(stage->fill));
    }
    stage->pixels = stage->end = chain->count + 1;
    return stage;
}

static int place_op(struct hr_op_chain *chain, const struct hr_op *op, const struct hr_call *call,
                    struct hr_op_params *params, struct hr_error *err)
{
    if (op->effects & HR_OP_NORMALIZES) {
        chain->normalize = params;
    } else if (chain->normalize && op->effects & HR_OP_FINISHES) {
        chain->late = chain->late < chain->count ? chain->late : chain->count;
    } else if (op->effects & HR_OP_PIXELS) {
        chain->stages[chain->stage_count - 1].end = chain->count + 1;
    } else if (!stage_for(chain, op, params)) {
        hr_fail(err, HR_E_CONFIG, "the ops need more than %d passes over the picture", HR_STAGES_MAX);
        hr_error_at_file(err, call->file, call->line, call->column);
        hr_error_hint(err, "keep crops, resize and flips together, before the ops on pixels");
        return HR_E_CONFIG;
    }
    return 0;
}

/* Colours are pixels before normalize and values of the output after it. */
static int check_colour(const struct hr_op_chain *chain, const struct hr_op *op,
                        const struct hr_call *call, const struct hr_op_params *params,
                        struct hr_error *err)
{
    bool bytes = true;

    if (!(op->effects & HR_OP_FINISHES) || chain->normalize)
        return 0;
    for (int c = 0; c < 3; c++)
        bytes = bytes && params->colour[c] >= 0 && params->colour[c] <= 255;
    if (bytes && !params->noise)
        return 0;
    hr_fail(err, HR_E_CONFIG, params->noise ? "noise needs float values: '%s' before normalize has pixels"
                                            : "the value of '%s' before normalize is from 0 to 255",
            op->name);
    hr_error_at_file(err, call->file, call->line, call->column);
    hr_error_hint(err, "put '%s' after 'normalize'", op->name);
    return HR_E_CONFIG;
}

int hr_op_chain_init(struct hr_op_chain *chain, const struct hr_call *calls, int count,
                     const struct hr_op_shape *shape, struct hr_error *err)
{
    *chain = (struct hr_op_chain){.shape = *shape, .stage_count = 1, .late = HR_OPS_MAX};
    for (int i = 0; i < count; i++) {
        const struct hr_op *op = hr_op_find(calls[i].name);
        if (!op)
            return hr_op_refuse_unknown(&calls[i], err);
        if (chain->count == HR_OPS_MAX)
            return hr_fail(err, HR_E_CONFIG, "more than %d ops", HR_OPS_MAX);
        struct hr_op_params *params = &chain->params[i];
        int ret = check_order(chain, op, &calls[i], err);
        if (ret == 0)
            ret = op->parse(&calls[i], params, err);
        if (ret == 0)
            ret = check_colour(chain, op, &calls[i], params, err);
        if (ret == 0)
            ret = place_op(chain, op, &calls[i], params, err);
        if (ret < 0)
            return ret;
        chain->ops[i] = op;
        if (op->shape)
            op->shape(params, &chain->shape);
        chain->count++;
    }
    if (chain->late > chain->count)
        chain->late = chain->count;
    return 0;
}

static void rng_of(const struct hr_draw_key *key, int i, struct hr_rng *rng)
{
    hr_rng_init(rng, key->seed, key->epoch, key->position, key->stream * 256 + (uint32_t)i);
}

int hr_op_chain_view(const struct hr_op_chain *chain, const struct hr_draw_key *key, int stage,
                     uint32_t w, uint32_t h, struct hr_view *view, struct hr_error *err)
{
    const struct hr_op_stage *s = &chain->stages[stage];

    hr_view_init(view, w, h);
    memcpy(view->fill, s->fill, sizeof(view->fill));
    for (int i = s->begin; i < s->pixels; i++) {
        struct hr_rng rng;
        if (!chain->ops[i]->plan)
            continue;
        rng_of(key, i, &rng);
        int ret = chain->ops[i]->plan(&chain->params[i], &rng, view, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

void hr_op_chain_draw(const struct hr_op_chain *chain, const struct hr_draw_key *key, int i,
                      uint32_t w, uint32_t h, struct hr_steps *steps)
{
    struct hr_rng rng;

    steps->count = 0;
    if (!chain->ops[i]->draw)
        return;
    rng_of(key, i, &rng);
    chain->ops[i]->draw(&chain->params[i], &rng, w, h, steps);
}

int hr_op_chain_plan(const struct hr_op_chain *chain, const struct hr_draw_key *key, uint32_t w,
                     uint32_t h, struct hr_image_plan *plan, struct hr_error *err)
{
    struct hr_image_plan later;
    struct hr_view view;

    for (int i = 0; i < chain->stage_count; i++) {
        int ret = hr_op_chain_view(chain, key, i, w, h, &view, err);
        if (ret == 0)
            ret = hr_view_plan(&view, i == 0 ? plan : &later, err);
        if (ret < 0)
            return ret;
        w = (uint32_t)view.w;
        h = (uint32_t)view.h;
    }
    plan->end_w = (int32_t)w;
    plan->end_h = (int32_t)h;
    plan->key = *key;
    return 0;
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
