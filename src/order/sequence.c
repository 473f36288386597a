/* None, full and window over the keyed permutation, for one source. */
#include "order/sequence.h"

enum { DEFAULT_BLOCK_RECORDS = 1024, DEFAULT_OPEN_BLOCKS = 16 };

void hr_sequence_init(struct hr_sequence *s, enum hr_order_kind kind, uint64_t seed_key,
                      uint64_t record_count, uint64_t block_records, uint64_t open_blocks)
{
    *s = (struct hr_sequence){.kind = kind, .record_count = record_count, .seed_key = seed_key};
    s->block_records = hr_min_u64(block_records ? block_records : DEFAULT_BLOCK_RECORDS, record_count);
    s->blocks = (record_count - 1) / s->block_records + 1;
    s->open_blocks = hr_min_u64(open_blocks ? open_blocks : DEFAULT_OPEN_BLOCKS, s->blocks);
    /* Cannot overflow: less than record_count + block_records, both at most 2^63. */
    s->shortfall = s->blocks * s->block_records - record_count;
}

void hr_sequence_enter(const struct hr_sequence *s, uint64_t epoch, struct hr_sequence_epoch *eo)
{
    *eo = (struct hr_sequence_epoch){.epoch = epoch};
    eo->key = hr_key_absorb(s->seed_key, epoch);
    if (s->kind == HR_ORDER_FULL)
        hr_permutation_init(&eo->whole, s->record_count, hr_key_of(eo->key, HR_KEY_RECORDS, 0));
    if (s->kind != HR_ORDER_WINDOW)
        return;
    hr_permutation_init(&eo->whole, s->blocks, hr_key_of(eo->key, HR_KEY_BLOCKS, 0));
    eo->short_slot =
        s->shortfall ? hr_permutation_index_of(&eo->whole, s->blocks - 1) : s->blocks;
}

/* The group of an index. All groups but the last have the same size, except that the one with the
 * dataset's last block may fall short: past it the shortfall is added back, and the arithmetic is
 * uniform again. Nothing overflows, since blocks * block_records < 2^64. */
static uint64_t group_of(const struct hr_sequence *s, uint64_t short_slot, uint64_t index)
{
    uint64_t block_records = s->block_records, open = s->open_blocks;
    uint64_t blocks = s->blocks, shortfall = s->shortfall;
    uint64_t short_group = short_slot / open;
    uint64_t group = index / (open * block_records);

    if (shortfall == 0 || group < short_group)
        return group;
    uint64_t end_slot = short_group * open + hr_min_u64(open, blocks - short_group * open);
    if (index < end_slot * block_records - shortfall)
        return short_group;
    return (index + shortfall) / (open * block_records);
}

static void enter_group(const struct hr_sequence *s, struct hr_sequence_epoch *eo, uint64_t number)
{
    uint64_t block_records = s->block_records, open = s->open_blocks;
    uint64_t shortfall = s->shortfall;
    struct hr_sequence_group *group = &eo->group;

    group->first_slot = number * open;
    uint64_t members = hr_min_u64(open, s->blocks - group->first_slot);
    bool has_short = shortfall && number == eo->short_slot / open;
    bool past_short = shortfall && number > eo->short_slot / open;
    group->start = group->first_slot * block_records - (past_short ? shortfall : 0);
    group->size = members * block_records - (has_short ? shortfall : 0);
    group->short_end = has_short
                           ? (eo->short_slot - group->first_slot + 1) * block_records - shortfall
                           : UINT64_MAX;
    hr_permutation_init(&group->inside, group->size, hr_key_of(eo->key, HR_KEY_GROUP, number));
}

/* Up to HR_PERMUTATION_RUN neighbours that lie in the group entered. */
static void map_in_group(const struct hr_sequence *s, const struct hr_sequence_epoch *eo,
                         uint64_t *records, unsigned count)
{
    uint64_t block_records = s->block_records;
    uint64_t shortfall = s->shortfall;
    const struct hr_sequence_group *group = &eo->group;
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

void hr_sequence_map(const struct hr_sequence *s, struct hr_sequence_epoch *eo, uint64_t first,
                     uint64_t *records, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        records[i] = first + i;
    if (s->kind == HR_ORDER_FULL)
        hr_permutation_map(&eo->whole, records, count);
    while (s->kind == HR_ORDER_WINDOW && count > 0) {
        if (first < eo->group.start || first - eo->group.start >= eo->group.size)
            enter_group(s, eo, group_of(s, eo->short_slot, first));
        unsigned run = (unsigned)hr_min_u64(count, eo->group.start + eo->group.size - first);
        map_in_group(s, eo, records, run);
        first += run;
        records += run;
        count -= run;
    }
}

uint64_t hr_sequence_index_of(const struct hr_sequence *s, struct hr_sequence_epoch *eo,
                              uint64_t record)
{
    if (s->kind == HR_ORDER_FULL)
        return hr_permutation_index_of(&eo->whole, record);
    if (s->kind == HR_ORDER_NONE)
        return record;
    uint64_t slot = hr_permutation_index_of(&eo->whole, record / s->block_records);
    enter_group(s, eo, slot / s->open_blocks);
    const struct hr_sequence_group *group = &eo->group;
    uint64_t listed = (slot - group->first_slot) * s->block_records + record % s->block_records;
    if (group->short_end != UINT64_MAX && slot > eo->short_slot)
        listed -= s->shortfall;
    return group->start + hr_permutation_index_of(&group->inside, listed);
}
