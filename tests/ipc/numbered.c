/* Writes numbered batches by the letter of ring/wire.h. */
#include "ipc/numbered.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"

struct writer {
    uint8_t *slot;
    struct hr_wire_batch *header;
    struct hr_wire_field *fields;
    uint64_t used;
};

static void *reserve(struct writer *w, uint64_t bytes, uint64_t *off)
{
    w->used = hr_align_up(w->used, 64);
    *off = w->used;
    w->used += bytes;
    HR_ASSERT(w->used <= NUMBERED_SLOT_BYTES);
    return w->slot + *off;
}

static struct hr_wire_field *add_field(struct writer *w, const char *name, enum hr_dtype dtype,
                                       enum hr_field_type type)
{
    struct hr_wire_field *f = &w->fields[w->header->field_count++];

    snprintf(f->name, sizeof(f->name), "%s", name);
    f->dtype = dtype;
    f->field_type = type;
    return f;
}

static void *add_dense(struct writer *w, struct hr_wire_field *f, const int64_t *shape, uint32_t dims)
{
    int64_t stride = (int64_t)hr_dtype_bytes((enum hr_dtype)f->dtype);

    f->dims = dims;
    for (uint32_t i = dims; i-- > 0;) {
        f->shape[i] = shape[i];
        f->strides[i] = stride;
        stride *= shape[i];
    }
    f->data_bytes = (uint64_t)stride;
    return reserve(w, f->data_bytes, &f->data_off);
}

static void add_caption(struct writer *w, uint64_t n)
{
    struct hr_wire_field *f = add_field(w, "caption", HR_DTYPE_U8, HR_FIELD_TEXT);
    uint32_t count = w->header->count;
    int64_t *offsets = reserve(w, 8 * (count + 1ull), &f->offsets_off);
    char *values = reserve(w, 32ull * count, &f->data_off);

    f->ragged = 1;
    f->dims = 1;
    offsets[0] = 0;
    for (uint32_t i = 0; i < count; i++)
        offsets[i + 1] = offsets[i] + snprintf(values + offsets[i], 32, "%" PRIu64 "-%u", n, i);
    f->data_bytes = (uint64_t)offsets[count];
    f->shape[0] = offsets[count];
    f->strides[0] = 1;
}

static void add_crop(struct writer *w, uint64_t n)
{
    struct hr_wire_field *f = add_field(w, "crop", HR_DTYPE_U8, HR_FIELD_IMAGE);
    uint32_t count = w->header->count;
    int64_t *offsets = reserve(w, 8 * (count + 1ull), &f->offsets_off);
    int32_t *shapes = reserve(w, 12ull * count, &f->shapes_off);
    uint8_t *values = reserve(w, 12ull * count, &f->data_off);

    f->ragged = 1;
    f->sample_dims = 3;
    offsets[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        shapes[3 * i] = 1 + (int32_t)(i % 2);
        shapes[3 * i + 1] = 2;
        shapes[3 * i + 2] = 3;
        offsets[i + 1] = offsets[i] + 6 * shapes[3 * i];
    }
    f->data_bytes = (uint64_t)offsets[count];
    memset(values, (int)(n & 255), f->data_bytes);
}

static void add_dense_fields(struct writer *w, uint64_t n)
{
    uint32_t count = w->header->count;
    int64_t shape[4] = {count, 2, 2, 3};

    int64_t *label = add_dense(w, add_field(w, "label", HR_DTYPE_I64, HR_FIELD_I64), shape, 1);
    for (uint32_t i = 0; i < count; i++)
        label[i] = (int64_t)(n * count + i);
    float *x = add_dense(w, add_field(w, "x", HR_DTYPE_F32, HR_FIELD_TENSOR),
                         (int64_t[]){count, 3}, 2);
    for (uint32_t i = 0; i < 3 * count; i++)
        x[i] = (float)(n + i / 3) + 0.25f * (float)(i % 3);
    struct hr_wire_field *f = add_field(w, "image", HR_DTYPE_U8, HR_FIELD_IMAGE);
    f->layout = HR_LAYOUT_NHWC;
    uint8_t *image = add_dense(w, f, shape, 4);
    for (uint32_t i = 0; i < 12 * count; i++)
        image[i] = (uint8_t)(n + i);
    uint16_t *half = add_dense(w, add_field(w, "half", HR_DTYPE_BF16, HR_FIELD_TENSOR), shape, 1);
    float v = (float)(n % 128);
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    for (uint32_t i = 0; i < count; i++)
        half[i] = (uint16_t)(bits >> 16); /* exact: few significant bits */
}

static void add_samples(struct writer *w, uint64_t n)
{
    struct hr_wire_batch *h = w->header;
    uint64_t *records = reserve(w, 8ull * h->count, &h->records_off);
    uint32_t *sources = reserve(w, 4ull * h->count, &h->sources_off);
    uint8_t *valid = reserve(w, h->count, &h->valid_off);

    for (uint32_t i = 0; i < h->count; i++) {
        records[i] = n * h->count + i;
        sources[i] = 0;
        valid[i] = 1;
    }
}

static uint32_t flags_of(const struct numbered_plan *plan, struct numbered_cursor cursor)
{
    if (cursor.step + 1 < plan->steps)
        return 0;
    return HR_WIRE_LAST_OF_EPOCH | (cursor.epoch + 1 == plan->epochs ? HR_WIRE_END_OF_RUN : 0);
}

void numbered_fill(uint8_t *slot, const struct numbered_plan *plan, struct numbered_cursor cursor,
                   uint64_t sequence)
{
    uint64_t n = cursor.epoch * plan->steps + cursor.step;
    struct writer w = {.slot = slot, .header = (struct hr_wire_batch *)slot,
                       .fields = (struct hr_wire_field *)(slot + sizeof(struct hr_wire_batch)),
                       .used = sizeof(struct hr_wire_batch) + 6 * sizeof(struct hr_wire_field)};
    struct numbered_cursor after = cursor;

    memset(slot, 0, w.used);
    *w.header = (struct hr_wire_batch){
        .magic = HR_WIRE_BATCH_MAGIC,
        .wire_version = HR_WIRE_VERSION,
        .header_bytes = sizeof(struct hr_wire_batch),
        .field_bytes = sizeof(struct hr_wire_field),
        .sequence = sequence,
        .epoch = cursor.epoch,
        .step = cursor.step,
        .global_first = cursor.step * plan->count,
        .count = plan->count,
        .global_count = plan->count,
        .flags = flags_of(plan, cursor),
    };
    numbered_advance(plan, &after);
    w.header->state_bytes = (uint32_t)numbered_state(plan, after, w.header->state);
    add_samples(&w, n);
    add_dense_fields(&w, n);
    add_caption(&w, n);
    add_crop(&w, n);
}

void numbered_advance(const struct numbered_plan *plan, struct numbered_cursor *cursor)
{
    if (++cursor->step < plan->steps)
        return;
    cursor->step = 0;
    cursor->epoch++;
}

int numbered_state(const struct numbered_plan *plan, struct numbered_cursor cursor,
                   char text[HR_WIRE_STATE_BYTES])
{
    uint64_t samples = (cursor.epoch * plan->steps + cursor.step) * plan->count;

    return snprintf(text, HR_WIRE_STATE_BYTES,
                    "{\"version\":1,\"dataset\":\"d0\",\"epoch\":%" PRIu64 ",\"step\":%" PRIu64
                    ",\"samples\":%" PRIu64 "}",
                    cursor.epoch, cursor.step, samples);
}

static uint64_t number_after(const char *text, const char *key)
{
    const char *p = strstr(text, key);

    return p ? strtoull(p + strlen(key) + strspn(p + strlen(key), "\": "), NULL, 10) : 0;
}

struct numbered_cursor numbered_parse(const char *state)
{
    return (struct numbered_cursor){number_after(state, "\"epoch"), number_after(state, "\"step")};
}
