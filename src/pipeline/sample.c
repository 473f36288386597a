/* Planning one sample, and finishing it on a worker. */
#include "pipeline/sample.h"

#include <lz4.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "io/io.h"
#include "pipeline/blend.h"
#include "pipeline/convert.h"
#include "pipeline/follow.h"

enum {
    /* Below this a copy out of a shared, coalesced read is cheaper than a read of its own. */
    DIRECT_MIN_BYTES = 16 * 1024,
};

static bool has_payload(const struct hr_plan_field *f)
{
    return f->route != HR_ROUTE_SCALAR && f->route != HR_ROUTE_STR;
}

/* The dataset of a sample, and the field's index in its schema: -1 = that dataset lacks it. */
static const struct hr_dataset *dataset_of(const struct hr_sample *s)
{
    return hr_plan_dataset(s->batch->plan, s->place.source);
}

static int schema_idx_of(const struct hr_sample *s, const struct hr_plan_field *f)
{
    return f->schema_idx[s->place.source];
}

static void name_place(const struct hr_sample *s, const struct hr_plan_field *f,
                       const struct hr_sample_field *sf, struct hr_error *err)
{
    hr_sources_error_at(&s->batch->plan->sources, s->place.source, s->record, f->name,
                        has_payload(f) && sf->place.present ? (int64_t)sf->place.off : -1, err);
}

/* ---- planning ---- */

static int plan_chain(struct hr_sample *s, const struct hr_plan_field *f,
                      struct hr_sample_field *sf, struct hr_error *err)
{
    const struct hr_plan *plan = s->batch->plan;
    struct hr_facts facts;

    hr_dataset_facts(dataset_of(s), s->record, (uint32_t)schema_idx_of(s, f), &facts);
    int ret = f->leader < 0 ? 0 : hr_follow_check_mask(s, f, err);
    /* A substitute draws for its own place as well: the key is the place, not the record. */
    if (ret == 0)
        ret = hr_chain_plan(f->chain, &facts, sf->place.bytes, plan->order.spec.seed, s->place.epoch,
                            s->place.position, f->stream, &s->plans[f->plan_idx], err);
    if (ret < 0)
        name_place(s, f, sf, err);
    else if (sf->place.seek && sf->place.codec == HR_CODEC_NONE)
        hr_chain_plan_parts(f->chain, sf->place.encoding, sf->place.seek, sf->place.seek_bytes,
                            &s->plans[f->plan_idx]);
    return ret;
}

void hr_sample_parts(const struct hr_sample *s, uint32_t field, struct hr_chain_parts *parts)
{
    const struct hr_plan_field *f = &s->batch->plan->fields[field];

    hr_chain_parts(f->chain, &s->plans[f->plan_idx], parts);
}

/* Most bytes that this sample can put into a ragged output. */
static uint64_t room_wanted(const struct hr_sample *s, const struct hr_plan_field *f,
                            const struct hr_sample_field *sf, uint32_t output)
{
    if (f->route == HR_ROUTE_STR) {
        struct hr_scalar scalar;
        if (schema_idx_of(s, f) < 0)
            return 0;
        hr_dataset_scalar(dataset_of(s), s->record, (uint32_t)schema_idx_of(s, f), &scalar);
        return scalar.present ? scalar.str_bytes : 0;
    }
    if (!sf->place.present)
        return 0;
    if (f->route == HR_ROUTE_CHAIN)
        return s->plans[f->plan_idx].bytes[output - f->first_output];
    if (f->follow)
        return hr_follow_room(f, sf->place.bytes, output);
    uint64_t bytes = sf->place.bytes / hr_dtype_bytes(f->from) * hr_dtype_bytes(f->to);
    return f->max_bytes && f->max_bytes < bytes ? f->max_bytes : bytes;
}

/* A substitute, or the same record read again. */
static bool is_again(const struct hr_sample *s)
{
    return s->attempt > 0 || s->rereads > 0;
}

static int take_rooms(struct hr_sample *s, const struct hr_plan_field *f,
                      const struct hr_sample_field *sf, struct hr_error *err)
{
    const struct hr_plan *plan = s->batch->plan;

    for (uint32_t i = f->first_output; i < f->first_output + f->output_count; i++) {
        if (!plan->outputs[i].ragged)
            continue;
        uint64_t wanted = room_wanted(s, f, sf, i);
        if (wanted > plan->outputs[i].sample_bytes) {
            hr_fail(err, HR_E_LIMIT, "%llu bytes where the dataset says that %llu are the most",
                    (unsigned long long)wanted,
                    (unsigned long long)plan->outputs[i].sample_bytes);
            return HR_E_LIMIT;
        }
        s->rooms[i].bytes = wanted;
        if (is_again(s))
            continue; /* keeps the room of the planned record */
        s->rooms[i].start = s->batch->room_end[i];
        s->rooms[i].room = wanted;
        s->batch->room_end[i] += wanted;
    }
    return 0;
}

static int want_bytes(const struct hr_sample *s, const struct hr_plan_field *f,
                       struct hr_sample_field *sf, struct hr_sample_want *want, struct hr_error *err)
{
    const struct hr_value_place *p = &sf->place;

    *want = (struct hr_sample_want){.shard = p->shard};
    if (!p->present)
        return 0;
    if (p->codec != HR_CODEC_NONE) {
        want->off = p->off;
        want->bytes = p->stored_bytes;
    } else if (f->route == HR_ROUTE_CHAIN) {
        const struct hr_sample_plan *sp = &s->plans[f->plan_idx];
        want->off = p->off + sp->read_off;
        want->bytes = sp->read_bytes;
        want->in_parts = sp->seek != NULL;
    } else {
        want->off = p->off;
        want->bytes = p->bytes;
    }
    if (want->bytes > HR_IO_MAX_BYTES)
        return hr_fail(err, HR_E_LIMIT, "a value of %llu bytes; the most is %d",
                       (unsigned long long)want->bytes, (int)HR_IO_MAX_BYTES);
    sf->want_bytes = (uint32_t)want->bytes;
    return 0;
}

int hr_sample_plan_record(struct hr_sample *s, struct hr_sample_want *want, struct hr_error *err)
{
    const struct hr_plan *plan = s->batch->plan;

    for (uint32_t i = 0; !is_again(s) && i < plan->output_count; i++) {
        s->rooms[i].start = s->batch->room_end[i];
        s->rooms[i].room = s->rooms[i].bytes = 0;
    }
    for (uint32_t i = 0; i < plan->field_count; i++) {
        const struct hr_plan_field *f = &plan->fields[i];
        struct hr_sample_field *sf = &s->fields[i];
        int ret = 0;

        sf->next = NULL;
        sf->buf = NULL;
        sf->bytes = NULL;
        sf->direct = false;
        sf->want_bytes = 0;
        sf->place.present = false;
        want[i] = (struct hr_sample_want){0};
        if (has_payload(f) && schema_idx_of(s, f) >= 0) {
            hr_dataset_locate(dataset_of(s), s->record, (uint32_t)schema_idx_of(s, f), &sf->place);
            sf->place.shard += plan->sources.items[s->place.source].first_file;
            if (f->leader >= 0 && !s->fields[f->leader].place.present)
                sf->place.present = false; /* without its picture it means nothing */
            if (sf->place.present && f->route == HR_ROUTE_CHAIN)
                ret = plan_chain(s, f, sf, err);
            if (ret < 0)
                return ret;
            ret = want_bytes(s, f, sf, &want[i], err);
            if (ret < 0)
                return ret;
        }
        ret = take_rooms(s, f, sf, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

uint8_t *hr_sample_fixed_dst(const struct hr_sample *s, uint32_t output)
{
    return s->batch->slot + s->batch->layout->outputs[output].data_off +
           (uint64_t)s->index * s->batch->plan->outputs[output].sample_bytes;
}

bool hr_sample_direct(const struct hr_sample *s, uint32_t field, uint8_t **dst)
{
    const struct hr_plan *plan = s->batch->plan;
    const struct hr_plan_field *f = &plan->fields[field];
    const struct hr_sample_field *sf = &s->fields[field];
    uint32_t out = f->first_output;

    if (sf->place.codec != HR_CODEC_NONE || f->from != f->to || f->follow ||
        sf->place.bytes < DIRECT_MIN_BYTES)
        return false;
    if (f->route == HR_ROUTE_FIXED && sf->place.bytes == plan->outputs[out].sample_bytes) {
        *dst = hr_sample_fixed_dst(s, out);
        return true;
    }
    if (f->route == HR_ROUTE_RAGGED && s->attempt == 0 && s->rooms[out].bytes == sf->place.bytes) {
        *dst = s->batch->slot + s->batch->layout->outputs[out].data_off + s->rooms[out].start;
        return true;
    }
    return false;
}

/* ---- finishing ---- */

static uint64_t largest_block(const struct hr_plan *plan, const struct hr_plan_field *f)
{
    uint64_t largest = 0;

    for (uint32_t source = 0; source < plan->sources.count; source++) {
        const struct hr_dataset *dataset = hr_plan_dataset(plan, source);
        struct hr_field_totals totals;
        int idx = f->schema_idx[source];
        if (idx < 0 || hr_dataset_schema(dataset)->fields[idx].codec == HR_CODEC_NONE)
            continue;
        hr_dataset_totals(dataset, (uint32_t)idx, &totals);
        largest = hr_max_u64(largest, totals.max_block_bytes);
    }
    return largest;
}

int hr_finisher_init(struct hr_finisher *w, const struct hr_plan *plan, struct hr_error *err)
{
    *w = (struct hr_finisher){.plan = plan};
    for (uint32_t i = 0; i < plan->field_count; i++) {
        const struct hr_plan_field *f = &plan->fields[i];
        if (!has_payload(f))
            continue;
        w->block_room = hr_max_u64(w->block_room, largest_block(plan, f));
        if (f->route != HR_ROUTE_CHAIN)
            continue;
        int ret = hr_context_create(f->chain, &w->contexts[f->plan_idx], err);
        if (ret < 0) {
            hr_finisher_finish(w);
            return ret;
        }
    }
    if (w->block_room) {
        w->block = hr_alloc_zero(1, w->block_room + HR_CHAIN_PADDING);
        if (!w->block) {
            hr_finisher_finish(w);
            return hr_fail(err, HR_E_NOMEM, "no memory for a block of %llu bytes",
                           (unsigned long long)w->block_room);
        }
    }
    return 0;
}

void hr_finisher_finish(struct hr_finisher *w)
{
    for (uint32_t i = 0; i < HR_MAX_FIELDS; i++) {
        hr_context_destroy(w->contexts[i]);
        w->contexts[i] = NULL;
    }
    hr_free(w->block);
    w->block = NULL;
}

bool hr_sample_drop_buffers(struct hr_sample *s)
{
    bool wanted = false;

    for (uint32_t i = 0; i < s->batch->plan->field_count; i++) {
        struct hr_sample_field *sf = &s->fields[i];
        if (sf->buf)
            wanted |= hr_iobuf_drop(sf->buf);
        sf->buf = NULL;
    }
    return wanted;
}

static HR_COLD void note_damage(const struct hr_sample_field *sf, uint32_t sum)
{
    struct hr_sample *s = sf->sample;

    s->damage = (uint64_t)(sf - s->fields) << 32 | sum;
}

/* The value's bytes out of its compressed block; neighbours in one block decompress it once, unless
 * the block's bytes are new. */
static int unpack_block(struct hr_finisher *w, const struct hr_sample_field *sf,
                        const uint8_t **value, struct hr_error *err)
{
    const struct hr_value_place *p = &sf->place;

    if (sf->sample->rereads || !w->block_valid || w->block_shard != p->shard ||
        w->block_off != p->off) {
        w->block_valid = false;
        if (p->block_bytes > w->block_room)
            return hr_fail(err, HR_E_CORRUPT, "block is larger than the index says any is");
        int n = LZ4_decompress_safe((const char *)sf->bytes, (char *)w->block, (int)p->stored_bytes,
                                    (int)p->block_bytes);
        if (n < 0 || (uint64_t)n != p->block_bytes) {
            note_damage(sf, hr_checksum(sf->bytes, p->stored_bytes));
            return hr_fail(err, HR_E_CHECKSUM, "compressed block is damaged");
        }
        w->block_shard = p->shard;
        w->block_off = p->off;
        w->block_bytes = p->block_bytes;
        w->block_valid = true;
    }
    if (p->block_off > w->block_bytes || p->bytes > w->block_bytes - p->block_off)
        return hr_fail(err, HR_E_CORRUPT, "value lies outside its block");
    *value = w->block + p->block_off;
    return 0;
}

/* Parts of a value have checksums of their own. */
static int check_parts(struct hr_finisher *w, const struct hr_sample_field *sf,
                       const struct hr_plan_field *f, const uint8_t *value, uint64_t bytes,
                       struct hr_error *err)
{
    if (f->route != HR_ROUTE_CHAIN)
        return 0;
    uint64_t t0 = w->timed ? hr_clock_ns() : 0;
    int ret = hr_chain_check_parts(f->chain, &sf->sample->plans[f->plan_idx], value, bytes, err);
    if (w->timed)
        w->times.checksum_ns += hr_clock_ns() - t0;
    w->times.checksum_bytes += bytes;
    if (ret == HR_E_CHECKSUM)
        note_damage(sf, hr_checksum(value, bytes));
    return ret;
}

static int check_value(struct hr_finisher *w, const struct hr_sample_field *sf,
                       const struct hr_plan_field *f, const uint8_t *value, uint64_t bytes,
                       struct hr_error *err)
{
    if (w->no_checksum)
        return 0;
    if (bytes != sf->place.bytes)
        return check_parts(w, sf, f, value, bytes, err);
    uint64_t t0 = w->timed ? hr_clock_ns() : 0;
    uint32_t sum = hr_checksum(value, bytes);
    if (w->timed)
        w->times.checksum_ns += hr_clock_ns() - t0;
    w->times.checksum_bytes += bytes;
    if (sum == sf->place.checksum)
        return 0;
    note_damage(sf, sum);
    return hr_fail(err, HR_E_CHECKSUM, "checksum is %08x, not %08x", sum, sf->place.checksum);
}

int hr_sample_ragged_dst(struct hr_sample *s, uint32_t output, uint64_t bytes, uint8_t **dst,
                         struct hr_error *err)
{
    struct hr_sample_room *room = &s->rooms[output];

    hr_free(room->spill);
    room->spill = NULL;
    room->bytes = bytes;
    if (bytes <= room->room) {
        *dst = s->batch->slot + s->batch->layout->outputs[output].data_off + room->start;
        return 0;
    }
    int depth = hr_mem_steady_pause();
    room->spill = hr_alloc(bytes + 64);
    hr_mem_steady_resume(depth);
    *dst = room->spill;
    return *dst ? 0 : hr_fail(err, HR_E_NOMEM, "no memory for a replacement");
}

static int finish_chain(struct hr_finisher *w, struct hr_sample *s, const struct hr_plan_field *f,
                        const struct hr_sample_field *sf, const uint8_t *value, uint64_t bytes,
                        struct hr_error *err)
{
    const struct hr_plan *plan = s->batch->plan;
    const struct hr_sample_plan *sp = &s->plans[f->plan_idx];
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {NULL};

    for (uint32_t i = 0; i < f->output_count; i++) {
        uint32_t out = f->first_output + i;
        uint8_t *d;
        if (plan->outputs[out].ragged) {
            int ret = hr_sample_ragged_dst(s, out, sp->bytes[i], &d, err);
            if (ret < 0)
                return ret;
            for (uint32_t k = 0; k < plan->outputs[out].sample_dims && k < 4; k++)
                s->rooms[out].shape[k] = (int32_t)sp->shape[i][k];
        } else {
            d = hr_sample_fixed_dst(s, out);
            if (sp->bytes[i] != plan->outputs[out].sample_bytes)
                return hr_fail(err, HR_E_INTERNAL, "a fixed output of another size was planned");
        }
        dst[i] = d;
    }
    if (w->no_decode)
        return 0;
    uint64_t t0 = w->timed ? hr_clock_ns() : 0;
    int ret = hr_chain_decode(f->chain, w->contexts[f->plan_idx], sp, sf->place.encoding, value,
                              bytes, dst, err);
    if (w->timed)
        w->times.decode_ns += hr_clock_ns() - t0;
    w->times.decoded_bytes += bytes;
    return ret;
}

/* Bytes of a text of at most max that end at a whole code point. */
static uint64_t cut_text(const uint8_t *text, uint64_t bytes, uint64_t max)
{
    if (!max || bytes <= max)
        return bytes;
    uint64_t end = max;
    /* Steps back over continuation bytes, at most 3: then it is not UTF-8 and is cut as it is. */
    while (end > 0 && max - end < 4 && (text[end] & 0xc0) == 0x80)
        end--;
    return max - end < 4 ? end : max;
}

static int finish_plain(struct hr_finisher *w, struct hr_sample *s, const struct hr_plan_field *f,
                        const struct hr_sample_field *sf, const uint8_t *value, uint64_t bytes,
                        struct hr_error *err)
{
    const struct hr_plan *plan = s->batch->plan;
    uint32_t out = f->first_output;
    const struct hr_plan_output *o = &plan->outputs[out];
    uint64_t items = bytes / hr_dtype_bytes(f->from);
    uint64_t bytes_out = items * hr_dtype_bytes(f->to);
    uint8_t *dst;

    if (f->route == HR_ROUTE_FIXED) {
        if (bytes_out != o->sample_bytes || bytes % hr_dtype_bytes(f->from))
            return hr_fail(err, HR_E_CORRUPT, "%llu bytes where every record has %llu",
                           (unsigned long long)bytes, (unsigned long long)o->sample_bytes);
        if (!sf->direct)
            hr_convert(f->from, f->to, value, hr_sample_fixed_dst(s, out), items);
        return 0;
    }
    if (f->max_bytes)
        bytes_out = items = cut_text(value, bytes, f->max_bytes);
    for (uint32_t d = 0; d < o->sample_dims; d++) {
        struct hr_facts facts;
        hr_dataset_facts(dataset_of(s), s->record, (uint32_t)schema_idx_of(s, f), &facts);
        s->rooms[out].shape[d < 4 ? d : 3] = (int32_t)facts.shape[d];
    }
    if (sf->direct) {
        s->rooms[out].bytes = bytes_out;
        return 0;
    }
    int ret = hr_sample_ragged_dst(s, out, bytes_out, &dst, err);
    if (ret == 0)
        hr_convert(f->from, f->to, value, dst, items);
    return ret;
}

static void finish_absent(struct hr_sample *s, const struct hr_plan_field *f)
{
    const struct hr_plan *plan = s->batch->plan;

    for (uint32_t out = f->first_output; out < f->first_output + f->output_count; out++) {
        if (plan->outputs[out].ragged) {
            s->rooms[out].bytes = 0;
            memset(s->rooms[out].shape, 0, sizeof(s->rooms[out].shape));
        } else {
            memset(hr_sample_fixed_dst(s, out), 0, plan->outputs[out].sample_bytes);
        }
    }
}

static int finish_payload(struct hr_finisher *w, struct hr_sample *s, const struct hr_plan_field *f,
                          struct hr_sample_field *sf, struct hr_error *err)
{
    const uint8_t *value = sf->bytes;
    uint64_t bytes = sf->want_bytes;
    int ret = 0;

    if (!sf->place.present) {
        finish_absent(s, f);
        return 0;
    }
    if (sf->place.codec != HR_CODEC_NONE) {
        bytes = sf->place.bytes;
        ret = unpack_block(w, sf, &value, err);
    }
    if (ret == 0)
        ret = check_value(w, sf, f, value, bytes, err);
    if (ret == 0 && f->route == HR_ROUTE_CHAIN)
        ret = finish_chain(w, s, f, sf, value, bytes, err);
    else if (ret == 0 && f->follow)
        ret = hr_follow_finish(s, f, value, bytes, err);
    else if (ret == 0)
        ret = finish_plain(w, s, f, sf, value, bytes, err);
    return ret;
}

static int finish_index_value(struct hr_sample *s, const struct hr_plan_field *f, bool *present,
                              struct hr_error *err)
{
    uint32_t out = f->first_output;
    struct hr_scalar v = {.present = false};
    uint8_t *dst;

    if (schema_idx_of(s, f) >= 0)
        hr_dataset_scalar(dataset_of(s), s->record, (uint32_t)schema_idx_of(s, f), &v);
    *present = v.present;
    if (f->classes)
        s->class_idx = -1;
    if (!v.present) {
        finish_absent(s, f);
        return 0;
    }
    if (f->classes)
        return hr_blend_label(s, v.i64, (float *)hr_sample_fixed_dst(s, out), err);
    if (f->route == HR_ROUTE_SCALAR) {
        uint8_t boolean = v.i64 != 0;
        const void *src = f->from == HR_DTYPE_F64    ? (const void *)&v.f64
                          : f->from == HR_DTYPE_BOOL ? (const void *)&boolean
                                                     : (const void *)&v.i64;
        hr_convert(f->from, f->to, src, hr_sample_fixed_dst(s, out), 1);
        return 0;
    }
    uint64_t bytes = cut_text((const uint8_t *)v.str, v.str_bytes, f->max_bytes);
    int ret = hr_sample_ragged_dst(s, out, bytes, &dst, err);
    if (ret == 0 && bytes)
        memcpy(dst, v.str, bytes);
    return ret;
}

/* One writer: a plain add, made visible. */
static void count_source(struct hr_finisher *w, uint32_t source)
{
    uint64_t n = atomic_load_explicit(&w->by_source[source], memory_order_relaxed);

    atomic_store_explicit(&w->by_source[source], n + 1, memory_order_relaxed);
}

int hr_sample_finish(struct hr_finisher *w, struct hr_sample *s, struct hr_error *err)
{
    const struct hr_plan *plan = w->plan;
    struct hr_batch *batch = s->batch;
    int ret = 0;

    for (uint32_t i = 0; i < plan->field_count && ret == 0; i++) {
        const struct hr_plan_field *f = &plan->fields[i];
        struct hr_sample_field *sf = &s->fields[i];
        bool present = sf->place.present;
        if (w->field_in_hand)
            atomic_store_explicit(w->field_in_hand, i, memory_order_relaxed);
        ret = has_payload(f) ? finish_payload(w, s, f, sf, err)
                             : finish_index_value(s, f, &present, err);
        if (ret < 0)
            name_place(s, f, sf, err);
        else if (f->present_output >= 0)
            *hr_sample_fixed_dst(s, (uint32_t)f->present_output) = present;
    }
    if (ret < 0)
        return ret;
    ((uint64_t *)(batch->slot + batch->layout->records_off))[s->index] = s->record;
    ((uint32_t *)(batch->slot + batch->layout->sources_off))[s->index] = s->place.source;
    batch->slot[batch->layout->valid_off + s->index] = 1;
    count_source(w, s->place.source);
    return 0;
}
