/* The records of one source in the order none, full or window: any index of any of its epochs in
 * O(1). Private to src/order; docs/order.md specifies it. */
#ifndef HR_ORDER_SEQUENCE_H
#define HR_ORDER_SEQUENCE_H

#include "order/order.h"
#include "order/permute.h"
#include "order/selection.h"

/* Uses of a key; part of the format (docs/order.md). */
enum hr_key_domain {
    HR_KEY_RECORDS = 1,
    HR_KEY_BLOCKS = 2,
    HR_KEY_GROUP = 3,
    HR_KEY_SUBSTITUTE = 4,
    HR_KEY_PERIOD = 5,
    HR_KEY_SOURCE = 6,
};

static inline uint64_t hr_key_of(uint64_t epoch_key, uint64_t domain, uint64_t item)
{
    return hr_key_absorb(hr_key_absorb(epoch_key, domain), item);
}

/* Window: open_blocks neighbours in the permuted order of blocks, delivered as one. */
struct hr_sequence_group {
    uint64_t first_slot;          /* among the permuted blocks */
    uint64_t start, size;         /* indexes [start, start + size) of the epoch */
    uint64_t short_end;           /* records listed up to the end of the shorter block, if in here */
    struct hr_permutation inside; /* of the records that it lists */
};

/* What is the same for every record of an epoch. */
struct hr_sequence_epoch {
    uint64_t epoch;
    uint64_t key;                /* seed and epoch absorbed */
    struct hr_permutation whole; /* full: records; window: blocks */
    uint64_t short_slot;         /* window: where the shorter block stands among the blocks */
    struct hr_sequence_group group; /* window: the one entered last; size 0 = none yet */
};

/* block_records and open_blocks: 0 = default. */
void hr_sequence_init(struct hr_sequence *sequence, enum hr_order_kind kind, uint64_t seed_key,
                      uint64_t record_count, uint64_t block_records, uint64_t open_blocks);
void hr_sequence_enter(const struct hr_sequence *sequence, uint64_t epoch,
                       struct hr_sequence_epoch *entered);
/* Indexes first, first + 1 ... of the epoch entered, up to HR_PERMUTATION_RUN, to their records
 * (before any selection). */
void hr_sequence_map(const struct hr_sequence *sequence, struct hr_sequence_epoch *entered,
                     uint64_t first, uint64_t *records, unsigned count);

/* The inverse: the index of a record (before any selection) in the epoch entered. */
uint64_t hr_sequence_index_of(const struct hr_sequence *sequence, struct hr_sequence_epoch *entered,
                              uint64_t record);

/* The record behind an index. */
static inline uint64_t hr_sequence_record(const struct hr_sequence *sequence, uint64_t index)
{
    return sequence->selection ? hr_selection_at(sequence->selection, index) : index;
}

#endif
