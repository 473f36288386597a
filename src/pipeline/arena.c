/* How much memory bytes in flight get: enough to keep storage and workers busy, and twice what a record
 * usually needs. Values that are read in parts need far less than they have; how much, the first
 * places of the order tell, planned as the reader thread will. */
#include "pipeline/engine_parts.h"

enum { TRIED = 256, TRY_FROM_BYTES = 1 << 20, WINDOW_RECORDS = 24 };

static const uint64_t default_bytes = UINT64_C(64) << 20;
static const uint64_t window_bytes = UINT64_C(4) << 20; /* small against an L3 cache, large against a read */
static const uint64_t small_bytes = UINT64_C(8) << 20;

static uint64_t field_bytes(const struct hr_plan *plan, const struct hr_place *place,
                            const struct hr_plan_field *f, struct hr_sample_plan *sp)
{
    const struct hr_dataset *dataset = hr_plan_dataset(plan, place->source);
    int idx = f->schema_idx[place->source];
    struct hr_value_place value;
    struct hr_facts facts;

    if (idx < 0 || f->route == HR_ROUTE_SCALAR || f->route == HR_ROUTE_STR)
        return 0;
    hr_dataset_locate(dataset, place->record, (uint32_t)idx, &value);
    if (!value.present || value.codec != HR_CODEC_NONE || f->route != HR_ROUTE_CHAIN || !value.seek)
        return value.present ? hr_max_u64(value.bytes, value.stored_bytes) : 0;
    hr_dataset_facts(dataset, place->record, (uint32_t)idx, &facts);
    if (hr_chain_plan(f->chain, &facts, value.bytes, plan->order.spec.seed, place->epoch,
                      place->position, (uint32_t)f->plan_idx, sp, NULL) < 0)
        return value.bytes;
    hr_chain_plan_parts(f->chain, value.encoding, value.seek, value.seek_bytes, sp);
    return sp->read_bytes;
}

static uint64_t place_bytes(const struct hr_plan *plan, const struct hr_place *place,
                            struct hr_sample_plan *sp)
{
    uint64_t bytes = 0;

    for (uint32_t k = 0; place->valid && k < plan->field_count; k++)
        bytes += field_bytes(plan, place, &plan->fields[k], sp);
    return bytes;
}

/* The most that one of the first places needs to read. */
static uint64_t tried_bytes(const struct hr_plan *plan)
{
    struct hr_cursor cursor = {0};
    struct hr_sample_plan sp;
    uint64_t most = 0;

    for (uint32_t tried = 0; tried < TRIED; hr_order_next(&plan->order, &cursor)) {
        uint32_t count = hr_order_share(&plan->order, cursor, 0, 1).global_count;
        for (uint32_t i = 0; i < count && tried < TRIED; i++, tried++) {
            struct hr_place place = hr_order_place(&plan->order, cursor, i);
            most = hr_max_u64(most, place_bytes(plan, &place, &sp));
        }
        tried += count == 0;
    }
    return most;
}

/* Room for what is read in parts comes from what the first places say, with half as much again; a larger
 * one waits until it is alone (hr_iobufs_probe_begin). */
static uint64_t usual_bytes(const struct hr_plan *plan)
{
    uint64_t tried, most = plan->max_record_bytes;

    if (!plan->chain_count || most < TRY_FROM_BYTES)
        return most;
    tried = tried_bytes(plan);
    return hr_min_u64(most, tried + tried / 2);
}

struct hr_arena_sizes hr_arena_sizes(const struct hr_engine *e)
{
    const struct hr_plan *plan = e->plan;
    /* Twice, since the ring cannot use its end. */
    uint64_t least = 2 * usual_bytes(plan) + (UINT64_C(1) << 20), wanted = e->options.read_ahead_bytes;
    uint64_t mean = plan->sources.bytes / (plan->sources.record_count + 1);
    struct hr_arena_sizes sizes;

    if (!wanted)
        wanted = hr_min_u64(hr_max_u64(mean * 512, small_bytes), default_bytes);
    sizes.arena_bytes = hr_max_u64(wanted, least);
    /* Each worker has a record in hand, and there must be some for it while the reader thread is being woken. */
    uint64_t workers = (uint64_t)e->worker_count * WINDOW_RECORDS * mean;
    sizes.window_bytes = hr_max_u64(least, hr_max_u64(workers, window_bytes));
    sizes.room_bytes = 2 * plan->max_record_bytes + (UINT64_C(1) << 20);
    return sizes;
}
