/* Orders, batches, ranks and stand-ins over the keyed permutation. Everything is arithmetic on
 * (seed, epoch, position); where products pass 64 bits they are taken in 128. */
#include "order/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "order/permute.h"

enum {
    DEFAULT_BLOCK_RECORDS = 1024,
    DEFAULT_OPEN_BLOCKS = 16,
    QUALITY_SAMPLES = 4096,
};

/* Uses of a key; part of the format (docs/order.md). */
enum { DOMAIN_RECORDS = 1, DOMAIN_BLOCKS = 2, DOMAIN_GROUP = 3, DOMAIN_SUBSTITUTE = 4 };

/* Layout of private_words. */
enum { WORD_SEED_KEY, WORD_BLOCKS, WORD_SHORTFALL };

__extension__ typedef unsigned __int128 u128;

/* Window: open_blocks neighbours in the permuted order of blocks, delivered as one. */
struct group {
    uint64_t first_slot;          /* among the permuted blocks */
    uint64_t start, size;         /* indexes [start, start + size) of the epoch */
    uint64_t short_end;           /* records listed up to the end of the shorter block, if in here */
    struct hr_permutation inside; /* of the records that it lists */
};

/* What is the same for every record of an epoch. */
struct epoch_order {
    uint64_t epoch;
    uint64_t key;                /* seed and epoch absorbed */
    struct hr_permutation whole; /* full: records; window: blocks */
    uint64_t short_slot;         /* window: where the shorter block stands among the blocks */
    struct group group;          /* window: the one entered last; size 0 = none yet */
};

static uint64_t clamp_blocks(struct hr_order_spec *spec)
{
    if (spec->block_records == 0)
        spec->block_records = DEFAULT_BLOCK_RECORDS;
    if (spec->open_blocks == 0)
        spec->open_blocks = DEFAULT_OPEN_BLOCKS;
    spec->block_records = hr_min_u64(spec->block_records, spec->record_count);
    uint64_t blocks = (spec->record_count - 1) / spec->block_records + 1;
    spec->open_blocks = hr_min_u64(spec->open_blocks, blocks);
    return blocks;
}

int hr_order_init(struct hr_order *order, const struct hr_order_spec *spec, struct hr_error *err)
{
    if (spec->record_count == 0)
        return hr_fail(err, HR_E_CONFIG, "the dataset has no records");
    if (spec->record_count > HR_ORDER_MAX_RECORDS)
        return hr_fail(err, HR_E_CONFIG, "%" PRIu64 " records; at most 2^63 can be ordered",
                       spec->record_count);
    if (spec->batch == 0 || spec->batch > HR_ORDER_MAX_BATCH)
        return hr_fail(err, HR_E_CONFIG, "batch is %" PRIu64 "; it must be from 1 to %" PRIu64,
                       spec->batch, HR_ORDER_MAX_BATCH);
    if (spec->last == HR_LAST_DROP && spec->batch > spec->record_count) {
        hr_fail(err, HR_E_CONFIG,
                "batch is %" PRIu64 " and the dataset has %" PRIu64
                " records: with 'last: drop' an epoch has no batch",
                spec->batch, spec->record_count);
        hr_error_hint(err, "make the batch at most %" PRIu64 ", or use 'last: wrap', 'pad' or 'keep'",
                      spec->record_count);
        return HR_E_CONFIG;
    }
    *order = (struct hr_order){.spec = *spec};
    uint64_t blocks = clamp_blocks(&order->spec);
    order->private_words[WORD_SEED_KEY] = hr_key_absorb(0, spec->seed);
    order->private_words[WORD_BLOCKS] = blocks;
    /* Cannot overflow: less than record_count + block_records, both at most 2^63. */
    order->private_words[WORD_SHORTFALL] = blocks * order->spec.block_records - spec->record_count;
    return 0;
}

static uint64_t domain_key(uint64_t epoch_key, uint64_t domain, uint64_t item)
{
    return hr_key_absorb(hr_key_absorb(epoch_key, domain), item);
}

static void epoch_init(struct epoch_order *eo, const struct hr_order *order, uint64_t epoch)
{
    *eo = (struct epoch_order){.epoch = epoch};
    eo->key = hr_key_absorb(order->private_words[WORD_SEED_KEY], epoch);
    if (order->spec.kind == HR_ORDER_FULL)
        hr_permutation_init(&eo->whole, order->spec.record_count,
                            domain_key(eo->key, DOMAIN_RECORDS, 0));
    if (order->spec.kind != HR_ORDER_WINDOW)
        return;
    uint64_t blocks = order->private_words[WORD_BLOCKS];
    hr_permutation_init(&eo->whole, blocks, domain_key(eo->key, DOMAIN_BLOCKS, 0));
    eo->short_slot = order->private_words[WORD_SHORTFALL]
                         ? hr_permutation_index_of(&eo->whole, blocks - 1)
                         : blocks;
}

/* The group of an index. All groups but the last have the same size, except that the one with the
 * dataset's last block may fall short: past it the shortfall is added back, and the arithmetic is
 * uniform again. Nothing overflows, since blocks * block_records < 2^64. */
static uint64_t group_of(const struct hr_order *order, uint64_t short_slot, uint64_t index)
{
    uint64_t block_records = order->spec.block_records, open = order->spec.open_blocks;
    uint64_t blocks = order->private_words[WORD_BLOCKS];
    uint64_t shortfall = order->private_words[WORD_SHORTFALL];
    uint64_t short_group = short_slot / open;
    uint64_t group = index / (open * block_records);

    if (shortfall == 0 || group < short_group)
        return group;
    uint64_t end_slot = short_group * open + hr_min_u64(open, blocks - short_group * open);
    if (index < end_slot * block_records - shortfall)
        return short_group;
    return (index + shortfall) / (open * block_records);
}

static void enter_group(const struct hr_order *order, struct epoch_order *eo, uint64_t index)
{
    uint64_t block_records = order->spec.block_records, open = order->spec.open_blocks;
    uint64_t shortfall = order->private_words[WORD_SHORTFALL];
    uint64_t number = group_of(order, eo->short_slot, index);
    struct group *group = &eo->group;

    group->first_slot = number * open;
    uint64_t members = hr_min_u64(open, order->private_words[WORD_BLOCKS] - group->first_slot);
    bool has_short = shortfall && number == eo->short_slot / open;
    bool past_short = shortfall && number > eo->short_slot / open;
    group->start = group->first_slot * block_records - (past_short ? shortfall : 0);
    group->size = members * block_records - (has_short ? shortfall : 0);
    group->short_end = has_short
                           ? (eo->short_slot - group->first_slot + 1) * block_records - shortfall
                           : UINT64_MAX;
    hr_permutation_init(&group->inside, group->size, domain_key(eo->key, DOMAIN_GROUP, number));
}

/* Up to HR_PERMUTATION_RUN neighbours that lie in the group entered. */
static void map_in_group(const struct hr_order *order, const struct epoch_order *eo,
                         uint64_t *records, unsigned count)
{
    uint64_t block_records = order->spec.block_records;
    uint64_t shortfall = order->private_words[WORD_SHORTFALL];
    const struct group *group = &eo->group;
    uint64_t offsets[HR_PERMUTATION_RUN];

    for (unsigned i = 0; i < count; i++)
        records[i] -= group->start;
    hr_permutation_map(&group->inside, records, count);
    for (unsigned i = 0; i < count; i++) {
        uint64_t at = records[i] + (records[i] >= group->short_end ? shortfall : 0);
        offsets[i] = at % block_records;
        records[i] = group->first_slot + at / block_records;
    }
    hr_permutation_map(&eo->whole, records, count);
    for (unsigned i = 0; i < count; i++)
        records[i] = records[i] * block_records + offsets[i];
}

/* Indexes first, first + 1 ... of the epoch to their records. */
static void map_records(const struct hr_order *order, struct epoch_order *eo, uint64_t first,
                        uint64_t *records, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        records[i] = first + i;
    if (order->spec.kind == HR_ORDER_FULL)
        hr_permutation_map(&eo->whole, records, count);
    while (order->spec.kind == HR_ORDER_WINDOW && count > 0) {
        if (first < eo->group.start || first - eo->group.start >= eo->group.size)
            enter_group(order, eo, first);
        unsigned run = (unsigned)hr_min_u64(count, eo->group.start + eo->group.size - first);
        map_in_group(order, eo, records, run);
        first += run;
        records += run;
        count -= run;
    }
}

uint64_t hr_order_record(const struct hr_order *order, uint64_t epoch, uint64_t index)
{
    struct epoch_order eo;
    uint64_t record;

    HR_ASSERT(index < order->spec.record_count);
    epoch_init(&eo, order, epoch);
    map_records(order, &eo, index, &record, 1);
    return record;
}

/* wrap: how far into the epoch its own first batch begins; the records before it belong to a batch
 * that began in an earlier epoch. Less than batch, 0 for the other rules. */
static uint64_t first_index(const struct hr_order *order, uint64_t epoch)
{
    uint64_t batch = order->spec.batch;

    if (order->spec.last != HR_LAST_WRAP)
        return 0;
    uint64_t rest = (uint64_t)((u128)epoch * order->spec.record_count % batch);
    return rest ? batch - rest : 0;
}

uint64_t hr_order_steps(const struct hr_order *order, uint64_t epoch)
{
    uint64_t count = order->spec.record_count, batch = order->spec.batch;
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
        u128 next = first_index(order, cursor->epoch) +
                    ((u128)cursor->step + 1) * order->spec.batch;
        cursor->epoch += (uint64_t)(next / order->spec.record_count);
    } else {
        cursor->epoch++;
    }
    cursor->step = 0;
}

uint64_t hr_order_ordinal(const struct hr_order *order, struct hr_cursor cursor)
{
    u128 before;

    if (order->spec.last == HR_LAST_WRAP) {
        u128 records = (u128)cursor.epoch * order->spec.record_count;
        before = records / order->spec.batch + (records % order->spec.batch != 0);
    } else {
        before = (u128)cursor.epoch * hr_order_steps(order, cursor.epoch);
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
    if (cursor.step < steps)
        return 0;
    hr_fail(err, HR_E_STATE, "epoch %" PRIu64 " has no step %" PRIu64, cursor.epoch, cursor.step);
    if (steps)
        hr_error_hint(err, "its steps are 0 to %" PRIu64, steps - 1);
    else
        hr_error_hint(err, "the batch is larger than the dataset and none begins in that epoch");
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
    rest = order->spec.record_count - cursor.step * batch;
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

static void fill_places(const struct hr_order *order, struct epoch_order *eo, uint64_t position,
                        uint32_t count, struct hr_place *places)
{
    uint64_t records[HR_PERMUTATION_RUN];

    map_records(order, eo, position, records, count);
    for (uint32_t i = 0; i < count; i++)
        places[i] = (struct hr_place){
            .epoch = eo->epoch, .position = position + i, .record = records[i], .valid = true};
}

void hr_order_places(const struct hr_order *order, struct hr_cursor cursor, uint32_t first,
                     uint32_t count, struct hr_place *places)
{
    uint64_t records = order->spec.record_count;
    u128 offset = (u128)cursor.step * order->spec.batch + first_index(order, cursor.epoch) + first;
    uint64_t epoch = cursor.epoch;
    struct epoch_order eo;

    if (order->spec.last == HR_LAST_WRAP) {
        epoch += (uint64_t)(offset / records);
        offset %= records;
    }
    epoch_init(&eo, order, epoch);
    while (count > 0) {
        if (offset >= records && order->spec.last == HR_LAST_WRAP) {
            epoch_init(&eo, order, ++epoch);
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
    uint64_t others = order->spec.record_count - 1;
    struct hr_permutation perm;

    if (others == 0 || !place->valid)
        return place->record;
    uint64_t key = hr_key_absorb(order->private_words[WORD_SEED_KEY], place->epoch);
    hr_permutation_init(&perm, others, domain_key(key, DOMAIN_SUBSTITUTE, place->position));
    /* A permutation of the others: no stand-in comes twice before all have been tried. */
    uint64_t other = hr_permutation_at(&perm, (attempt ? attempt - 1 : 0) % others);
    return other + (other >= place->record);
}

struct hr_order_quality hr_order_quality(const struct hr_order *order)
{
    uint64_t records = order->spec.record_count;
    uint64_t samples = hr_min_u64(records, QUALITY_SAMPLES);
    struct hr_order_quality quality = {.open_records = 1};
    struct epoch_order eo;

    epoch_init(&eo, order, 0);
    for (uint64_t i = 0; i < samples; i++) {
        uint64_t index = (uint64_t)((u128)i * records / samples);
        uint64_t record;
        map_records(order, &eo, index, &record, 1);
        double distance = (double)(record > index ? record - index : index - record);
        quality.mean_distance += distance / (double)samples;
        if (distance > quality.max_distance)
            quality.max_distance = distance;
    }
    if (order->spec.kind == HR_ORDER_FULL)
        quality.open_records = records;
    if (order->spec.kind == HR_ORDER_WINDOW)
        quality.open_records =
            hr_min_u64(order->spec.block_records * order->spec.open_blocks, records);
    return quality;
}
