/* Reads the self-describing batch in a slot. The header and the field table are copied first and
 * only the copies are checked and used; every offset is proved to lie inside the slot before a
 * pointer is made of it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/types.h"
#include "client/internal.h"

struct slot_reader {
    struct hr_batch *batch;
    uint8_t *base;
    uint64_t bytes;
    uint64_t count; /* samples */
};

/* NULL with *ok unchanged for offset 0, which means "not there". */
static void *at(const struct slot_reader *r, uint64_t off, uint64_t bytes, uint64_t align, bool *ok)
{
    uint64_t end;

    if (off == 0)
        return NULL;
    if (off % align || !hr_add_u64(off, bytes, &end) || end > r->bytes) {
        *ok = false;
        return NULL;
    }
    return r->base + off;
}

static int bad_field(const struct hr_wire_field *f, const char *what, struct hr_error *err)
{
    hr_fail(err, HR_E_PROTOCOL, "malformed batch: %s", what);
    snprintf(err->field, sizeof(err->field), "%.*s", (int)sizeof(f->name) - 1, f->name);
    return HR_E_PROTOCOL;
}

/* Bytes from the first element to the end of the last; false when it overflows. */
static bool extent(const struct hr_wire_field *f, uint64_t item_bytes, uint64_t *out)
{
    uint64_t span = item_bytes, step;
    bool empty = false;

    for (uint32_t i = 0; i < f->dims; i++) {
        if (f->shape[i] < 0 || f->strides[i] < 0 || f->strides[i] % (int64_t)item_bytes)
            return false;
        if (f->shape[i] == 0)
            empty = true;
        else if (!hr_mul_u64((uint64_t)(f->shape[i] - 1), (uint64_t)f->strides[i], &step) ||
                 !hr_add_u64(span, step, &span))
            return false;
    }
    *out = empty ? 0 : span;
    return true;
}

static int parse_dense(const struct slot_reader *r, const struct hr_wire_field *f,
                       struct hr_array *a, uint64_t item_bytes, struct hr_error *err)
{
    uint64_t need;

    if (f->dims < 1 || !extent(f, item_bytes, &need))
        return bad_field(f, "impossible shape or strides", err);
    if ((uint64_t)f->shape[0] != r->count)
        return bad_field(f, "the batch axis does not match the sample count", err);
    if (need > f->data_bytes || (need && !a->data))
        return bad_field(f, "data smaller than its shape", err);
    return 0;
}

static int parse_ragged(const struct slot_reader *r, const struct hr_wire_field *f,
                        struct hr_array *a, struct hr_error *err)
{
    uint64_t bytes;
    bool ok = true;

    if (f->sample_dims > HR_WIRE_MAX_DIMS)
        return bad_field(f, "too many sample dimensions", err);
    a->sample_dims = (int32_t)f->sample_dims;
    a->offsets = at(r, f->offsets_off, (r->count + 1) * 8, 8, &ok);
    if (!hr_mul_u64(r->count * 4, f->sample_dims, &bytes))
        ok = false;
    a->shapes = at(r, f->shapes_off, bytes, 4, &ok);
    if (!ok || !a->offsets || (f->sample_dims && r->count && !a->shapes))
        return bad_field(f, "offsets or shapes outside the slot", err);
    return 0;
}

static int parse_field(const struct slot_reader *r, const struct hr_wire_field *f,
                       struct hr_batch_view *view, struct hr_error *err)
{
    uint64_t item_bytes = hr_dtype_bytes((enum hr_dtype)f->dtype);
    struct hr_array *a = &view->array;
    bool ok = true;

    if (!memchr(f->name, 0, sizeof(f->name)) || !f->name[0])
        return bad_field(f, "a field without a name", err);
    if (item_bytes == 0)
        return bad_field(f, "unknown element type", err);
    if (f->dims > HR_WIRE_MAX_DIMS)
        return bad_field(f, "too many dimensions", err);
    memcpy(view->name, f->name, sizeof(view->name));
    view->ragged_checked = false;
    *a = (struct hr_array){
        .name = view->name,
        .dtype = hr_dtype_name((enum hr_dtype)f->dtype),
        .layout = f->layout ? hr_layout_name((enum hr_layout)f->layout) : "",
        .data = at(r, f->data_off, f->data_bytes, 64, &ok),
        .bytes = f->data_bytes,
        .dims = (int32_t)f->dims,
        .writable = r->batch->session->writable,
        .ragged = f->ragged != 0,
        .field_type = hr_field_type_name((enum hr_field_type)f->field_type),
    };
    if (!ok || (f->data_bytes && !a->data))
        return bad_field(f, "data outside the slot", err);
    memcpy(a->shape, f->shape, sizeof(a->shape));
    memcpy(a->strides, f->strides, sizeof(a->strides));
    return a->ragged ? parse_ragged(r, f, a, err) : parse_dense(r, f, a, item_bytes, err);
}

static int parse_fields(const struct slot_reader *r, const struct hr_wire_batch *h,
                        struct hr_error *err)
{
    struct hr_batch *b = r->batch;
    uint64_t table_bytes, end;

    if (h->field_count > HR_WIRE_MAX_FIELDS || h->field_bytes < sizeof(struct hr_wire_field) ||
        h->field_bytes % 8 || !hr_mul_u64(h->field_count, h->field_bytes, &table_bytes) ||
        !hr_add_u64(h->header_bytes, table_bytes, &end) || end > r->bytes)
        return hr_fail(err, HR_E_PROTOCOL, "malformed batch: a table of %" PRIu32 " fields",
                       h->field_count);
    if (h->field_count > b->view_cap) { /* the first lease of this slot */
        struct hr_batch_view *views = hr_realloc(b->views, h->field_count, sizeof(*views));
        if (!views)
            return hr_fail(err, HR_E_NOMEM, "no memory for %" PRIu32 " fields", h->field_count);
        b->views = views;
        b->view_cap = h->field_count;
    }
    for (uint32_t i = 0; i < h->field_count; i++) {
        struct hr_wire_field f;
        memcpy(&f, r->base + h->header_bytes + (uint64_t)i * h->field_bytes, sizeof(f));
        int ret = parse_field(r, &f, &b->views[i], err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int check_header(const struct slot_reader *r, const struct hr_wire_batch *h,
                        struct hr_error *err)
{
    if (h->magic != HR_WIRE_BATCH_MAGIC)
        return hr_fail(err, HR_E_PROTOCOL, "malformed batch: no batch in slot %" PRIu32,
                       r->batch->slot);
    if (h->wire_version != HR_WIRE_VERSION)
        return hr_fail(err, HR_E_VERSION, "the batch speaks version %" PRIu32 ", this library %u",
                       h->wire_version, HR_WIRE_VERSION);
    if (h->header_bytes < sizeof(*h) || h->header_bytes % 8 || h->header_bytes > r->bytes ||
        h->state_bytes >= sizeof(h->state) || h->count > r->bytes)
        return hr_fail(err, HR_E_PROTOCOL, "malformed batch: impossible header");
    return 0;
}

int hr_batch_parse(struct hr_batch *batch, struct hr_error *err)
{
    struct hr_session *s = batch->session;
    struct slot_reader r = {
        .batch = batch, .base = s->data + batch->slot * s->slot_bytes, .bytes = s->slot_bytes};
    struct hr_wire_batch h;
    bool ok = true;

    memcpy(&h, r.base, sizeof(h));
    int ret = check_header(&r, &h, err);
    if (ret < 0)
        return ret;
    r.count = h.count;
    memcpy(batch->state, h.state, h.state_bytes);
    batch->state[h.state_bytes] = 0;
    batch->info = (struct hr_batch_info){
        .epoch = h.epoch,
        .step = h.step,
        .sequence = h.sequence,
        .count = h.count,
        .global_count = h.global_count,
        .first = h.first,
        .field_count = h.field_count,
        .bad_count = h.bad_count,
        .last_of_epoch = (h.flags & HR_WIRE_LAST_OF_EPOCH) != 0,
        .end_of_run = (h.flags & HR_WIRE_END_OF_RUN) != 0,
        .records = at(&r, h.records_off, r.count * 8, 8, &ok),
        .sources = at(&r, h.sources_off, r.count * 4, 4, &ok),
        .valid = at(&r, h.valid_off, r.count, 1, &ok),
        .state = batch->state,
        .slot_data = r.base,
        .slot_bytes = r.bytes,
    };
    if (!ok)
        return hr_fail(err, HR_E_PROTOCOL, "malformed batch: record ids outside the slot");
    return parse_fields(&r, &h, err);
}

/* ---- API ---- */

static int usable(const struct hr_batch *batch, struct hr_error *err)
{
    if (batch->session->token != hr_process_token())
        return hr_fail(err, HR_E_FORKED, "a batch cannot be used in a forked process");
    if (!atomic_load_explicit(&batch->held, memory_order_relaxed))
        return hr_fail(err, HR_E_RELEASED, "the batch was released");
    return 0;
}

void hr_batch_info(struct hr_batch *batch, struct hr_batch_info *info)
{
    *info = batch->info;
}

/* Checked when a field is first asked for: it takes a pass over the offsets. */
static int check_ragged(struct hr_batch *batch, struct hr_batch_view *view, struct hr_error *err)
{
    const struct hr_array *a = &view->array;
    uint64_t limit = a->bytes / hr_dtype_bytes(hr_dtype_parse(a->dtype));
    bool ok = a->offsets[0] >= 0;

    for (uint32_t i = 0; ok && i < batch->info.count; i++) {
        int64_t from = a->offsets[i], to = a->offsets[i + 1];
        uint64_t items = 1;
        ok = from >= 0 && from <= to && (uint64_t)to <= limit;
        for (int32_t d = 0; ok && d < a->sample_dims; d++) {
            int32_t n = a->shapes[(size_t)i * (size_t)a->sample_dims + (size_t)d];
            ok = n >= 0 && hr_mul_u64(items, (uint64_t)n, &items);
        }
        if (ok && a->sample_dims)
            ok = items == (uint64_t)(to - from);
    }
    if (!ok) {
        hr_fail(err, HR_E_PROTOCOL, "malformed batch: offsets outside the data");
        hr_error_at_value(err, NULL, HR_NO_RECORD, view->name, -1);
        return HR_E_PROTOCOL;
    }
    view->ragged_checked = true;
    return 0;
}

static int give_view(struct hr_batch *batch, uint32_t index, struct hr_array *array,
                     struct hr_error *err)
{
    struct hr_batch_view *view = &batch->views[index];
    int ret = view->array.ragged && !view->ragged_checked ? check_ragged(batch, view, err) : 0;

    if (ret == 0)
        *array = view->array;
    return ret;
}

int hr_batch_field_at(struct hr_batch *batch, uint32_t index, struct hr_array *array)
{
    struct hr_error err = HR_ERROR_INIT;
    int ret = usable(batch, &err);

    if (ret == 0 && index >= batch->info.field_count)
        ret = hr_fail(&err, HR_E_NOT_FOUND, "the batch has %" PRIu32 " fields, no number %" PRIu32,
                      batch->info.field_count, index);
    if (ret == 0)
        ret = give_view(batch, index, array, &err);
    return ret < 0 ? hr_report_set(hr_report_of_thread(), &err) : 0;
}

int hr_batch_field(struct hr_batch *batch, const char *name, struct hr_array *array)
{
    struct hr_error err = HR_ERROR_INIT;
    int ret = usable(batch, &err);
    uint32_t i = 0;

    while (ret == 0 && i < batch->info.field_count && strcmp(batch->views[i].name, name) != 0)
        i++;
    if (ret == 0 && i == batch->info.field_count)
        ret = hr_fail(&err, HR_E_NOT_FOUND, "the batch has no field '%s'", name);
    if (ret == 0)
        ret = give_view(batch, i, array, &err);
    return ret < 0 ? hr_report_set(hr_report_of_thread(), &err) : 0;
}

/* The batch object may be in use for a new lease as soon as the ticket is written. */
void hr_batch_release(struct hr_batch *batch)
{
    if (!batch || batch->session->token != hr_process_token())
        return;
    struct hr_session *session = batch->session;
    uint32_t slot = batch->slot, ticket = batch->ticket;
    if (!atomic_exchange_explicit(&batch->held, 0, memory_order_acq_rel))
        return;
    atomic_fetch_sub_explicit(&session->held, 1, memory_order_release);
    hr_session_release(session, slot, ticket);
    hr_session_unref(session);
}

void *hr_batch_hold_memory(struct hr_batch *batch)
{
    struct hr_error err;

    if (usable(batch, &err) < 0)
        return NULL;
    hr_session_ref(batch->session);
    return batch->session;
}

void hr_batch_drop_memory(void *memory)
{
    struct hr_session *session = memory;

    if (session && session->token == hr_process_token())
        hr_session_unref(session);
}
