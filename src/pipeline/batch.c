/* Batches: set-up once, begin, the ready list, masking, and what remains to do when all samples are
 * in. */
#include "pipeline/batch.h"

#include <string.h>

#include "base/mem.h"
#include "pipeline/blend.h"

static uint32_t power_of_two_from(uint32_t n)
{
    uint32_t p = 1;

    while (p < n)
        p *= 2;
    return p;
}

int hr_batch_init(struct hr_batch *batch, const struct hr_plan *plan,
                  const struct hr_slot_layout *layout)
{
    uint32_t capacity = layout->capacity;
    uint32_t ring = power_of_two_from(capacity);

    batch->plan = plan;
    batch->layout = layout;
    batch->samples = hr_alloc_zero(capacity, sizeof(*batch->samples));
    batch->ready = hr_alloc_zero(ring, sizeof(*batch->ready));
    batch->room_end = hr_alloc_zero(plan->output_count, sizeof(*batch->room_end));
    bool rolls = plan->blend && plan->blend->mode == HR_BLEND_ROLL;
    batch->rolled = rolls ? hr_alloc_zero(capacity, 1) : NULL;
    struct hr_sample_field *fields =
        hr_alloc_zero((size_t)capacity * plan->field_count, sizeof(*fields));
    struct hr_sample_plan *plans = hr_alloc_zero((size_t)capacity * plan->chain_count, sizeof(*plans));
    struct hr_sample_room *rooms =
        hr_alloc_zero((size_t)capacity * plan->output_count, sizeof(*rooms));
    if (!batch->samples || !batch->ready || (rolls && !batch->rolled) || !batch->room_end || !fields || !plans ||
        !rooms) {
        hr_free(fields);
        hr_free(plans);
        hr_free(rooms);
        hr_batch_finish(batch);
        return HR_E_NOMEM;
    }
    batch->ready_mask = ring - 1;
    for (uint32_t i = 0; i < capacity; i++) {
        struct hr_sample *s = &batch->samples[i];
        s->batch = batch;
        s->index = i;
        s->fields = fields + (size_t)i * plan->field_count;
        s->plans = plans + (size_t)i * plan->chain_count;
        s->rooms = rooms + (size_t)i * plan->output_count;
        for (uint32_t f = 0; f < plan->field_count; f++)
            s->fields[f].sample = s;
    }
    return 0;
}

void hr_batch_finish(struct hr_batch *batch)
{
    if (batch->samples) {
        hr_free(batch->samples[0].fields);
        hr_free(batch->samples[0].plans);
        hr_free(batch->samples[0].rooms);
    }
    hr_free(batch->samples);
    hr_free(batch->ready);
    hr_free(batch->room_end);
    hr_free(batch->rolled);
    batch->rolled = NULL;
    batch->samples = NULL;
    batch->ready = NULL;
    batch->room_end = NULL;
}

void hr_batch_begin(struct hr_batch *batch, uint8_t *slot, uint32_t slot_idx,
                    const struct hr_share *share, struct hr_cursor cursor, uint64_t sequence,
                    const struct hr_state *state_after, bool last_of_epoch, bool end_of_run)
{
    const struct hr_slot_layout *layout = batch->layout;

    batch->slot = slot;
    batch->slot_idx = slot_idx;
    batch->count = share->count;
    batch->cursor = cursor;
    batch->planned = 0;
    batch->done = false;
    memset(batch->room_end, 0, batch->plan->output_count * sizeof(*batch->room_end));
    hr_blend_begin(batch, share);
    atomic_store_explicit(&batch->bad_count, 0, memory_order_relaxed);
    atomic_store_explicit(&batch->cancelled, false, memory_order_relaxed);
    /* One more than the samples: planning itself holds the last count, so that the batch cannot
     * complete before it is planned to its end (or has no samples at all). */
    atomic_store_explicit(&batch->remaining, share->count + 1, memory_order_relaxed);

    memcpy(slot, layout->template, layout->template_bytes);
    struct hr_wire_batch *w = hr_batch_header(batch);
    w->sequence = sequence;
    w->epoch = cursor.epoch;
    w->step = cursor.step;
    w->global_first = 0;
    w->count = share->count;
    w->global_count = share->global_count;
    w->first = share->first;
    w->flags = (last_of_epoch ? HR_WIRE_LAST_OF_EPOCH : 0) | (end_of_run ? HR_WIRE_END_OF_RUN : 0);
    w->state_bytes = (uint32_t)hr_state_encode(state_after, w->state);
}

void hr_batch_push_ready(struct hr_batch *batch, uint32_t index)
{
    uint32_t tail = atomic_load_explicit(&batch->ready_tail, memory_order_relaxed);

    atomic_store_explicit(&batch->ready[tail & batch->ready_mask], index, memory_order_relaxed);
    /* Pairs with the acquire in hr_batch_claim: the sample's fields are visible. */
    atomic_store_explicit(&batch->ready_tail, tail + 1, memory_order_release);
}

uint32_t hr_batch_claim(struct hr_batch *batch, uint32_t max, uint32_t *out)
{
    uint32_t head = atomic_load_explicit(&batch->ready_head, memory_order_relaxed);

    for (;;) {
        uint32_t tail = atomic_load_explicit(&batch->ready_tail, memory_order_acquire);
        uint32_t n = tail - head;
        if (n == 0 || n > batch->ready_mask + 1)
            return 0; /* empty, or head moved on since it was read */
        if (n > max)
            n = max;
        for (uint32_t i = 0; i < n; i++)
            out[i] = atomic_load_explicit(&batch->ready[(head + i) & batch->ready_mask],
                                          memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&batch->ready_head, &head, head + n,
                                                  memory_order_acq_rel, memory_order_relaxed))
            return n;
    }
}

void hr_batch_mask(struct hr_batch *batch, uint32_t index)
{
    const struct hr_plan *plan = batch->plan;
    struct hr_sample *s = &batch->samples[index];

    for (uint32_t i = 0; i < plan->output_count; i++) {
        const struct hr_plan_output *o = &plan->outputs[i];
        if (o->ragged) {
            s->rooms[i].bytes = 0;
            memset(s->rooms[i].shape, 0, sizeof(s->rooms[i].shape));
        } else {
            memset(batch->slot + batch->layout->outputs[i].data_off + index * o->sample_bytes, 0,
                   o->sample_bytes);
        }
    }
    ((uint64_t *)(batch->slot + batch->layout->records_off))[index] = s->record;
    ((uint32_t *)(batch->slot + batch->layout->sources_off))[index] = s->place.source;
    batch->slot[batch->layout->valid_off + index] = 0;
}

/* Values with a replacement that outgrew its room: rebuilt through a temporary copy. Rare enough to
 * allocate. */
static bool rebuild_through_copy(struct hr_batch *batch, uint32_t output, uint8_t *data)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < batch->count; i++)
        total += batch->samples[i].rooms[output].bytes;
    int depth = hr_mem_steady_pause();
    uint8_t *copy = hr_alloc(total);
    hr_mem_steady_resume(depth);
    if (!copy)
        return false;
    uint64_t at = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct hr_sample_room *room = &batch->samples[i].rooms[output];
        memcpy(copy + at, room->spill ? room->spill : data + room->start, room->bytes);
        at += room->bytes;
        hr_free(room->spill);
        room->spill = NULL;
    }
    memcpy(data, copy, total);
    hr_free(copy);
    return true;
}

static void complete_ragged(struct hr_batch *batch, uint32_t output)
{
    const struct hr_plan_output *o = &batch->plan->outputs[output];
    const struct hr_slot_layout_output *place = &batch->layout->outputs[output];
    uint8_t *data = batch->slot + place->data_off;
    int64_t *offsets = (int64_t *)(batch->slot + place->offsets_off);
    int32_t *shapes = (int32_t *)(batch->slot + place->shapes_off);
    int64_t item = (int64_t)hr_dtype_bytes(o->dtype);
    bool spilled = false;
    uint64_t at = 0;

    for (uint32_t i = 0; i < batch->count; i++)
        spilled |= batch->samples[i].rooms[output].spill != NULL;
    bool rebuilt = spilled && rebuild_through_copy(batch, output, data);
    for (uint32_t i = 0; i < batch->count; i++) {
        struct hr_sample_room *room = &batch->samples[i].rooms[output];
        if (room->spill) { /* no memory even for the copy: deliver it as masked */
            hr_free(room->spill);
            room->spill = NULL;
            room->bytes = 0;
            batch->slot[batch->layout->valid_off + i] = 0;
        }
        if (!rebuilt && room->start != at)
            memmove(data + at, data + room->start, room->bytes);
        offsets[i] = (int64_t)at / item;
        at += room->bytes;
        for (uint32_t d = 0; d < o->sample_dims; d++)
            shapes[i * o->sample_dims + d] = room->shape[d];
    }
    offsets[batch->count] = (int64_t)at / item;
    struct hr_wire_field *w =
        (struct hr_wire_field *)(batch->slot + sizeof(struct hr_wire_batch)) + output;
    w->data_bytes = at;
    w->shape[0] = (int64_t)at / item;
}

void hr_batch_discard(struct hr_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        for (uint32_t k = 0; k < batch->plan->output_count; k++) {
            hr_free(batch->samples[i].rooms[k].spill);
            batch->samples[i].rooms[k].spill = NULL;
        }
    }
}

void hr_batch_complete(struct hr_batch *batch)
{
    const struct hr_plan *plan = batch->plan;
    struct hr_wire_field *fields =
        (struct hr_wire_field *)(batch->slot + sizeof(struct hr_wire_batch));

    for (uint32_t i = 0; i < plan->output_count; i++) {
        if (plan->outputs[i].ragged) {
            complete_ragged(batch, i);
        } else {
            fields[i].shape[0] = batch->count;
            fields[i].data_bytes = batch->count * plan->outputs[i].sample_bytes;
        }
    }
    hr_batch_header(batch)->bad_count =
        atomic_load_explicit(&batch->bad_count, memory_order_relaxed);
}
