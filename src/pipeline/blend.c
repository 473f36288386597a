/* Mixing samples in the slot. A sample that is invalid, or lacks a picture or its label, never comes in, so its
 * partner stays as it is. */
#include "pipeline/blend.h"

#include <string.h>

#include "pipeline/sample.h"

void hr_blend_begin(struct hr_batch *batch, const struct hr_share *share)
{
    const struct hr_blend *blend = batch->plan->blend;

    batch->blended = false;
    if (!blend)
        return;
    /* A short batch is dealt out otherwise in every world: no two neighbours share a rank in all of them. */
    batch->blended = blend->mode == HR_BLEND_ROLL || share->global_count == batch->plan->order.spec.batch;
    if (batch->rolled)
        memset(batch->rolled, 0, share->count);
    for (uint32_t i = 0; i < share->count; i++)
        atomic_store_explicit(&batch->samples[i].partner_in, false, memory_order_relaxed);
}

/* ---- labels ---- */

int hr_blend_label(struct hr_sample *s, int64_t class_idx, float *row, struct hr_error *err)
{
    const struct hr_blend *blend = s->batch->plan->blend;

    if (class_idx < 0 || class_idx >= blend->class_count) {
        hr_fail(err, HR_E_LIMIT, "class %lld where 'num_classes' of 'blend' is %u", (long long)class_idx,
                blend->class_count);
        hr_error_hint(err, "classes count from 0; give 'num_classes' the largest one and 1");
        return HR_E_LIMIT;
    }
    for (uint32_t i = 0; i < blend->class_count; i++)
        row[i] = (float)blend->off;
    row[class_idx] = (float)blend->on;
    s->class_idx = class_idx;
    return 0;
}

/* Only two of its weights change. */
static void mix_label(const struct hr_sample *s, int64_t partner, double weight)
{
    const struct hr_blend *blend = s->batch->plan->blend;
    float *row = (float *)hr_sample_fixed_dst(s, blend->label_output);

    if (partner == s->class_idx)
        return;
    row[s->class_idx] = (float)(weight * blend->on + (1 - weight) * blend->off);
    row[partner] = (float)(weight * blend->off + (1 - weight) * blend->on);
}

/* ---- two neighbours ---- */

static void decide(const struct hr_sample *s, struct hr_blend_draw *draw)
{
    const struct hr_plan *plan = s->batch->plan;
    struct hr_place place = s->place;

    if (plan->blend->mode == HR_BLEND_BATCH || plan->blend->mode == HR_BLEND_ROLL)
        place = hr_order_place(&plan->order, s->batch->cursor, 0);
    hr_blend_decide(&plan->blend->spec, plan->order.spec.seed, place.epoch, place.position, draw);
}

static void mix_two(struct hr_sample *a, struct hr_sample *b)
{
    const struct hr_blend *blend = a->batch->plan->blend;
    struct hr_blend_draw draw_a, draw_b;

    decide(a, &draw_a);
    draw_b = draw_a;
    if (blend->mode == HR_BLEND_ELEM)
        decide(b, &draw_b);
    for (uint32_t i = 0; i < blend->array_count; i++) {
        const struct hr_blend_array *array = &blend->arrays[i];
        hr_blend_two(blend->lerp, &array->shape, &draw_a, hr_sample_fixed_dst(a, array->output), &draw_b,
                     hr_sample_fixed_dst(b, array->output));
    }
    mix_label(a, b->class_idx, draw_a.weight);
    mix_label(b, a->class_idx, draw_b.weight);
}

static bool is_whole(const struct hr_sample *s)
{
    const struct hr_blend *blend = s->batch->plan->blend;

    for (uint32_t i = 0; i < blend->field_count; i++)
        if (!s->fields[blend->fields[i]].place.present)
            return false;
    return s->class_idx >= 0;
}

void hr_blend_sample_in(struct hr_sample *s)
{
    struct hr_batch *batch = s->batch;

    if (!batch->blended || !is_whole(s) || atomic_load_explicit(&batch->cancelled, memory_order_relaxed))
        return;
    if (batch->rolled) {
        batch->rolled[s->index] = 1; /* read when all are done */
        return;
    }
    /* Shares and their beginnings are even (hr_blend_check_world), so both are here. Acquire and release: the
     * second to come sees all that the first has written. */
    struct hr_sample *first = &batch->samples[s->index & ~UINT32_C(1)];
    if (atomic_exchange_explicit(&first->partner_in, true, memory_order_acq_rel))
        mix_two(first, first + 1);
}

/* ---- all of a share ---- */

static void roll_labels(struct hr_batch *batch, double weight)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        uint32_t before = i ? i - 1 : batch->count - 1;
        if (batch->rolled[i] && batch->rolled[before])
            mix_label(&batch->samples[i], batch->samples[before].class_idx, weight);
    }
}

void hr_blend_complete(struct hr_batch *batch)
{
    const struct hr_blend *blend = batch->plan->blend;
    struct hr_blend_draw draw;

    if (!batch->blended || !batch->rolled || batch->count < 2)
        return;
    decide(&batch->samples[0], &draw);
    for (uint32_t i = 0; i < blend->array_count && draw.kind != HR_BLEND_NONE; i++) {
        const struct hr_blend_array *array = &blend->arrays[i];
        hr_blend_roll(blend->lerp, &array->shape, &draw, hr_sample_fixed_dst(&batch->samples[0], array->output),
                      batch->plan->outputs[array->output].sample_bytes, batch->count, batch->rolled);
    }
    roll_labels(batch, draw.weight);
}
