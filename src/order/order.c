/* Epochs, batches, ranks and stand-ins. Everything is arithmetic on (seed, epoch, position); where
 * products pass 64 bits they are taken in 128. */
#include "order/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "order/mix.h"
#include "order/selection.h"
#include "order/sequence.h"


static int check_numbers(const struct hr_order_spec *spec, struct hr_error *err)
{
    if (spec->record_count == 0)
        return hr_fail(err, HR_E_CONFIG, "the dataset has no records");
    if (spec->record_count > HR_ORDER_MAX_RECORDS)
        return hr_fail(err, HR_E_CONFIG, "%" PRIu64 " records; at most 2^63 can be ordered",
                       spec->record_count);
    if (spec->batch == 0 || spec->batch > HR_ORDER_MAX_BATCH)
        return hr_fail(err, HR_E_CONFIG, "batch is %" PRIu64 "; it must be from 1 to %" PRIu64,
                       spec->batch, HR_ORDER_MAX_BATCH);
    return 0;
}

static int check_batch(const struct hr_order *order, struct hr_error *err)
{
    const struct hr_order_spec *spec = &order->spec;

    if (spec->last != HR_LAST_DROP || spec->batch <= order->epoch_samples)
        return 0;
    if (order->mix)
        hr_fail(err, HR_E_CONFIG,
                "batch is %" PRIu64 " and an epoch of the mixture has %" PRIu64
                " samples: with 'last: drop' it has no batch", spec->batch, order->epoch_samples);
    else
        hr_fail(err, HR_E_CONFIG,
                "batch is %" PRIu64 " and the dataset has %" PRIu64
                " records: with 'last: drop' an epoch has no batch", spec->batch,
                order->epoch_samples);
    hr_error_hint(err, "make the batch at most %" PRIu64 ", or use 'last: wrap', 'pad' or 'keep'%s",
                  order->epoch_samples, order->mix ? "; or set 'stop: {steps: N}'" : "");
    return HR_E_CONFIG;
}

static int sum_records(struct hr_order_spec *spec, struct hr_error *err)
{
    if (spec->source_count > HR_ORDER_MAX_SOURCES)
        return hr_fail(err, HR_E_CONFIG, "a mixture of %" PRIu32 " sources; the most is %d",
                       spec->source_count, HR_ORDER_MAX_SOURCES);
    spec->record_count = 0;
    for (uint32_t i = 0; i < spec->source_count; i++) {
        if (spec->sources[i].record_count == 0 && spec->source_count > 1)
            return hr_fail(err, HR_E_CONFIG, "source %" PRIu32 " has no records", i);
        if (!hr_add_u64(spec->record_count, spec->sources[i].record_count, &spec->record_count))
            spec->record_count = UINT64_MAX;
    }
    return 0;
}

int hr_order_init(struct hr_order *order, const struct hr_order_spec *given, struct hr_error *err)
{
    struct hr_order_spec spec = *given;
    struct hr_order made = {0};
    int ret = spec.source_count ? sum_records(&spec, err) : 0;

    if (ret == 0)
        ret = check_numbers(&spec, err);
    if (ret < 0)
        return ret;
    made.seed_key = hr_key_absorb(0, spec.seed);
    made.epoch_samples = spec.record_count;
    if (spec.source_count > 1 || (spec.source_count == 1 && spec.sources[0].repeats)) {
        ret = hr_mix_create(&spec, &made.mix, &made.epoch_samples, err);
        if (ret < 0)
            return ret;
    } else {
        hr_sequence_init(&made.whole, spec.kind, made.seed_key, spec.record_count,
                         spec.block_records, spec.open_blocks);
        made.whole.selection = spec.source_count ? spec.sources[0].selection : NULL;
        spec.block_records = made.whole.block_records;
        spec.open_blocks = made.whole.open_blocks;
    }
    spec.sources = NULL;
    made.spec = spec;
    ret = check_batch(&made, err);
    if (ret < 0)
        hr_order_finish(&made);
    else
        *order = made;
    return ret;
}

void hr_order_finish(struct hr_order *order)
{
    hr_mix_destroy(order->mix);
    *order = (struct hr_order){0};
}

/* wrap: how far into the epoch its own first batch begins; the records before it belong to a batch
 * that began in an earlier epoch. Less than batch, 0 for the other rules. */
static uint64_t first_index(const struct hr_order *order, uint64_t epoch)
{
    uint64_t batch = order->spec.batch;

    if (order->spec.last != HR_LAST_WRAP)
        return 0;
    uint64_t rest = (uint64_t)((hr_u128)epoch * order->epoch_samples % batch);
    return rest ? batch - rest : 0;
}

uint64_t hr_order_steps(const struct hr_order *order, uint64_t epoch)
{
    uint64_t count = order->epoch_samples, batch = order->spec.batch;
    uint64_t first = first_index(order, epoch);

    if (order->spec.last == HR_LAST_DROP)
        return count / batch;
    return first >= count ? 0 : (count - first - 1) / batch + 1;
}

void hr_order_next(const struct hr_order *order, struct hr_cursor *cursor)
{
    if (cursor->step + 1 < hr_order_steps(order, cursor->epoch)) {
        cursor->step++;
        return;
    }
    if (order->spec.last == HR_LAST_WRAP) {
        /* A batch larger than the dataset may pass over whole epochs. */
        hr_u128 next = first_index(order, cursor->epoch) +
                    ((hr_u128)cursor->step + 1) * order->spec.batch;
        cursor->epoch += (uint64_t)(next / order->epoch_samples);
    } else {
        cursor->epoch++;
    }
    cursor->step = 0;
}

uint64_t hr_order_ordinal(const struct hr_order *order, struct hr_cursor cursor)
{
    hr_u128 before;

    if (order->spec.last == HR_LAST_WRAP) {
        hr_u128 records = (hr_u128)cursor.epoch * order->epoch_samples;
        before = records / order->spec.batch + (records % order->spec.batch != 0);
    } else {
        before = (hr_u128)cursor.epoch * hr_order_steps(order, cursor.epoch);
    }
    before += cursor.step;
    return before > UINT64_MAX ? UINT64_MAX : (uint64_t)before;
}

int hr_order_check_cursor(const struct hr_order *order, struct hr_cursor cursor,
                          struct hr_error *err)
{
    if (cursor.epoch > HR_ORDER_MAX_EPOCH)
        return hr_fail(err, HR_E_STATE, "epoch %" PRIu64 " is past the last possible, 2^62",
                       cursor.epoch);
    uint64_t steps = hr_order_steps(order, cursor.epoch);
    if (order->mix && ((hr_u128)cursor.epoch + 1) * order->epoch_samples + order->spec.batch > HR_ORDER_MIX_END)
        return hr_fail(err, HR_E_STATE, "epoch %" PRIu64 " is past the mixture's last, at 2^63 samples",
                       cursor.epoch);
    if (cursor.step < steps)
        return 0;
    hr_fail(err, HR_E_STATE, "epoch %" PRIu64 " has no step %" PRIu64, cursor.epoch, cursor.step);
    if (steps)
        hr_error_hint(err, "its steps are 0 to %" PRIu64, steps - 1);
    else
        hr_error_hint(err, "the batch is larger than an epoch and none begins in that one");
    return HR_E_STATE;
}

/* The divisors of a number as "1, 2, 4"; the largest are left out where they do not fit. */
static void list_divisors(uint64_t n, char *out, size_t out_bytes)
{
    size_t used = 0;

    out[0] = 0;
    for (uint64_t d = 1; d <= n && d <= 65536; d++) {
        if (n % d)
            continue;
        if (used + 24 > out_bytes) {
            snprintf(out + used, out_bytes - used, " ...");
            return;
        }
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%" PRIu64, used ? ", " : "", d);
    }
}

int hr_order_check_world(const struct hr_order *order, uint32_t rank, uint32_t world,
                         struct hr_error *err)
{
    char sizes[300];

    if (world == 0)
        return hr_fail(err, HR_E_CONFIG, "world is 0; it counts the ranks and is at least 1");
    if (rank >= world)
        return hr_fail(err, HR_E_CONFIG, "rank %" PRIu32 " of world %" PRIu32
                       "; ranks count from 0 to %" PRIu32, rank, world, world - 1);
    if (order->spec.batch % world == 0)
        return 0;
    hr_fail(err, HR_E_CONFIG, "the global batch of %" PRIu64 " does not divide among %" PRIu32
            " ranks", order->spec.batch, world);
    list_divisors(order->spec.batch, sizes, sizeof(sizes));
    hr_error_hint(err, "it fits these numbers of ranks: %s; or make batch a multiple of %" PRIu32,
                  sizes, world);
    return HR_E_CONFIG;
}

static uint64_t batch_samples(const struct hr_order *order, struct hr_cursor cursor)
{
    uint64_t batch = order->spec.batch, rest;

    if (order->spec.last != HR_LAST_KEEP)
        return batch;
    /* step < steps, so the product stays within record_count. */
    rest = order->epoch_samples - cursor.step * batch;
    return hr_min_u64(batch, rest);
}

struct hr_share hr_order_share(const struct hr_order *order, struct hr_cursor cursor, uint32_t rank,
                               uint32_t world)
{
    uint32_t samples = (uint32_t)batch_samples(order, cursor);
    uint32_t each = samples / world, rest = samples % world;

    return (struct hr_share){
        .first = rank * each + (rank < rest ? rank : rest),
        .count = each + (rank < rest),
        .global_count = samples,
    };
}

/* Positions of one epoch, at most HR_PERMUTATION_RUN. */
static void fill_places(const struct hr_order *order, struct hr_sequence_epoch *entered,
                        uint64_t position, uint32_t count, struct hr_place *places)
{
    uint64_t indexes[HR_PERMUTATION_RUN];

    if (order->mix) {
        hr_mix_places(order->mix, order->seed_key, entered->epoch, position, count, places);
        return;
    }
    hr_sequence_map(&order->whole, entered, position, indexes, count);
    for (uint32_t i = 0; i < count; i++)
        places[i] = (struct hr_place){.epoch = entered->epoch,
                                      .position = position + i,
                                      .index = indexes[i],
                                      .record = hr_sequence_record(&order->whole, indexes[i]),
                                      .valid = true};
}

static void enter_epoch(const struct hr_order *order, uint64_t epoch,
                        struct hr_sequence_epoch *entered)
{
    if (order->mix)
        entered->epoch = epoch;
    else
        hr_sequence_enter(&order->whole, epoch, entered);
}

uint64_t hr_order_record(const struct hr_order *order, uint64_t epoch, uint64_t position)
{
    struct hr_sequence_epoch entered;
    struct hr_place place;

    HR_ASSERT(position < order->epoch_samples);
    enter_epoch(order, epoch, &entered);
    fill_places(order, &entered, position, 1, &place);
    return place.record;
}

void hr_order_places(const struct hr_order *order, struct hr_cursor cursor, uint32_t first,
                     uint32_t count, struct hr_place *places)
{
    uint64_t records = order->epoch_samples;
    hr_u128 offset = (hr_u128)cursor.step * order->spec.batch + first_index(order, cursor.epoch) + first;
    uint64_t epoch = cursor.epoch;
    struct hr_sequence_epoch eo;

    if (order->spec.last == HR_LAST_WRAP) {
        epoch += (uint64_t)(offset / records);
        offset %= records;
    }
    enter_epoch(order, epoch, &eo);
    while (count > 0) {
        if (offset >= records && order->spec.last == HR_LAST_WRAP) {
            enter_epoch(order, ++epoch, &eo);
            offset = 0;
        }
        if (offset >= records) {
            *places++ = (struct hr_place){.epoch = epoch, .position = (uint64_t)offset++};
            count--;
            continue;
        }
        uint32_t run = (uint32_t)hr_min_u64(hr_min_u64(count, HR_PERMUTATION_RUN),
                                            records - (uint64_t)offset);
        fill_places(order, &eo, (uint64_t)offset, run, places);
        places += run;
        count -= run;
        offset += run;
    }
}

struct hr_place hr_order_place(const struct hr_order *order, struct hr_cursor cursor, uint32_t i)
{
    struct hr_place place;

    hr_order_places(order, cursor, i, 1, &place);
    return place;
}

uint64_t hr_order_substitute(const struct hr_order *order, const struct hr_place *place,
                             uint32_t attempt)
{
    const struct hr_sequence *source =
        order->mix ? hr_mix_sequence(order->mix, place->source) : &order->whole;
    uint64_t others = source->record_count - 1;
    struct hr_permutation perm;

    if (others == 0 || !place->valid)
        return place->record;
    uint64_t key = hr_key_absorb(order->seed_key, place->epoch);
    hr_permutation_init(&perm, others, hr_key_of(key, HR_KEY_SUBSTITUTE, place->position));
    /* A permutation of the others: no stand-in comes twice before all have been tried. */
    uint64_t other = hr_permutation_at(&perm, (attempt ? attempt - 1 : 0) % others);
    return hr_sequence_record(source, other + (other >= place->index));
}

uint64_t hr_order_share_of(const struct hr_order *order, uint32_t source, uint64_t *total)
{
    *total = 1;
    return order->mix ? hr_mix_share(order->mix, source, total) : 1;
}
