/* Places everything in a slot at 64-byte boundaries and prepares the header template. */
#include "pipeline/slot_layout.h"

#include <string.h>

#include "base/mem.h"

/* Takes bytes at the next 64-byte boundary; false when the total leaves 2^62. */
static bool take(uint64_t *end, uint64_t bytes, uint64_t *off)
{
    uint64_t start = hr_align_up(*end, 64);

    if (bytes > UINT64_C(1) << 62 || start > (UINT64_C(1) << 62) - bytes)
        return false;
    *off = start;
    *end = start + bytes;
    return true;
}

static bool place_output(const struct hr_plan_output *o, uint32_t capacity, uint64_t *end,
                         struct hr_slot_layout_output *out)
{
    uint64_t bytes;

    *out = (struct hr_slot_layout_output){0};
    /* At least one byte, so that an offset always lies inside the slot. */
    if (!hr_mul_u64(o->sample_bytes, capacity, &bytes) || !take(end, bytes ? bytes : 1, &out->data_off))
        return false;
    out->data_bytes = bytes;
    if (o->ragged && !take(end, ((uint64_t)capacity + 1) * sizeof(int64_t), &out->offsets_off))
        return false;
    if (o->ragged && o->sample_dims > 0 &&
        !take(end, (uint64_t)capacity * o->sample_dims * sizeof(int32_t), &out->shapes_off))
        return false;
    return true;
}

static void fill_field(struct hr_wire_field *w, const struct hr_plan_output *o,
                       const struct hr_slot_layout_output *place, uint32_t capacity)
{
    int64_t stride = (int64_t)hr_dtype_bytes(o->dtype);

    memcpy(w->name, o->name, strnlen(o->name, sizeof(w->name) - 1));
    w->dtype = o->dtype;
    w->layout = o->layout;
    w->field_type = o->field_type;
    w->ragged = o->ragged;
    w->data_off = place->data_off;
    w->data_bytes = place->data_bytes;
    w->offsets_off = place->offsets_off;
    w->shapes_off = place->shapes_off;
    w->sample_dims = o->sample_dims;
    if (o->ragged) {
        w->dims = 1;
        w->strides[0] = stride;
        return;
    }
    w->dims = o->dims + 1;
    for (uint32_t i = o->dims; i > 0; i--) {
        w->shape[i] = (int64_t)o->shape[i - 1];
        w->strides[i] = stride;
        stride *= w->shape[i];
    }
    w->shape[0] = capacity;
    w->strides[0] = stride;
}

int hr_slot_layout_init(struct hr_slot_layout *layout, const struct hr_plan *plan, uint32_t capacity,
                   struct hr_error *err)
{
    uint64_t end = sizeof(struct hr_wire_batch) + plan->output_count * sizeof(struct hr_wire_field);
    bool fits;

    *layout = (struct hr_slot_layout){.capacity = capacity, .template_bytes = end};
    fits = take(&end, (uint64_t)capacity * sizeof(uint64_t), &layout->records_off) &&
           take(&end, (uint64_t)capacity * sizeof(uint32_t), &layout->sources_off) &&
           take(&end, capacity, &layout->valid_off);
    for (uint32_t i = 0; fits && i < plan->output_count; i++)
        fits = place_output(&plan->outputs[i], capacity, &end, &layout->outputs[i]);
    if (!fits)
        return hr_fail(err, HR_E_LIMIT, "a batch of %u samples does not fit in memory at all",
                       capacity);
    layout->slot_bytes = hr_align_up(end, 4096);
    layout->template = hr_alloc_zero(1, layout->template_bytes);
    if (!layout->template)
        return hr_fail(err, HR_E_NOMEM, "no memory for the slot layout");

    struct hr_wire_batch *w = (struct hr_wire_batch *)layout->template;
    *w = (struct hr_wire_batch){
        .magic = HR_WIRE_BATCH_MAGIC,
        .wire_version = HR_WIRE_VERSION,
        .header_bytes = sizeof(struct hr_wire_batch),
        .field_count = plan->output_count,
        .field_bytes = sizeof(struct hr_wire_field),
        .records_off = layout->records_off,
        .sources_off = layout->sources_off,
        .valid_off = layout->valid_off,
    };
    struct hr_wire_field *fields = (struct hr_wire_field *)(layout->template + sizeof(*w));
    for (uint32_t i = 0; i < plan->output_count; i++)
        fill_field(&fields[i], &plan->outputs[i], &layout->outputs[i], capacity);
    return 0;
}

void hr_slot_layout_finish(struct hr_slot_layout *layout)
{
    hr_free(layout->template);
    layout->template = NULL;
}
