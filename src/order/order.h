/* Which record comes when: a pure function of (plan, seed, epoch, position). Integers only: no I/O,
 * no threads, no memory that grows with the dataset (docs/order.md specifies it). */
#ifndef HR_ORDER_ORDER_H
#define HR_ORDER_ORDER_H

#include "base/base.h"
#include "base/err.h"

#define HR_ORDER_MAX_RECORDS (UINT64_C(1) << 63)
#define HR_ORDER_MAX_BATCH   (UINT64_C(1) << 30)
#define HR_ORDER_MAX_EPOCH   (UINT64_C(1) << 62)

enum hr_order_kind { HR_ORDER_FULL, HR_ORDER_WINDOW, HR_ORDER_NONE };
enum hr_last_rule { HR_LAST_DROP, HR_LAST_PAD, HR_LAST_WRAP, HR_LAST_KEEP };

struct hr_order_spec {
    enum hr_order_kind kind;
    enum hr_last_rule last;
    uint64_t seed;
    uint64_t record_count; /* > 0 */
    uint64_t batch;        /* global batch, > 0 */
    /* window: records are cut into blocks of block_records (the last one shorter); blocks are
     * permuted, and records are permuted inside a group of open_blocks neighbours in that
     * permuted order, so at most open_blocks blocks are touched at a time. */
    uint64_t block_records; /* 0 = 1024 */
    uint64_t open_blocks;   /* 0 = 16 */
};

/* Plain values; copy freely. Thread-safe to read. */
struct hr_order {
    struct hr_order_spec spec;
    /* precomputed by hr_order_init; private */
    uint64_t private_words[16];
};

/* HR_E_CONFIG when the numbers do not fit together (batch larger than the dataset under drop …). */
int hr_order_init(struct hr_order *order, const struct hr_order_spec *spec, struct hr_error *err)
    HR_MUST_CHECK;

/* Record at an index of an epoch; index < record_count. Each epoch is a permutation. */
uint64_t hr_order_record(const struct hr_order *order, uint64_t epoch, uint64_t index);

/* Position of a batch in the run. Steps count from 0 in each epoch. */
struct hr_cursor {
    uint64_t epoch, step;
};

uint64_t hr_order_steps(const struct hr_order *order, uint64_t epoch); /* batches in that epoch */
void hr_order_next(const struct hr_order *order, struct hr_cursor *cursor);
/* Global number of batches before the cursor, counted from epoch 0. Saturates. */
uint64_t hr_order_ordinal(const struct hr_order *order, struct hr_cursor cursor);
/* HR_E_STATE when the step does not exist in that epoch. */
int hr_order_check_cursor(const struct hr_order *order, struct hr_cursor cursor,
                          struct hr_error *err) HR_MUST_CHECK;

/* The share of one rank in one global batch: samples [first, first + count) of it. pad: count is
 * always batch / world; keep: the short batch is dealt out in contiguous shares that differ by at
 * most one. */
struct hr_share {
    uint32_t first, count;
    uint32_t global_count; /* samples of the whole batch, padding included */
};

/* HR_E_CONFIG when world does not divide batch: the hint lists the sizes that fit. */
int hr_order_check_world(const struct hr_order *order, uint32_t rank, uint32_t world,
                         struct hr_error *err) HR_MUST_CHECK;
struct hr_share hr_order_share(const struct hr_order *order, struct hr_cursor cursor, uint32_t rank,
                               uint32_t world);

struct hr_place {
    uint64_t epoch;    /* differs from the cursor's after a wrap */
    uint64_t position; /* index within that epoch; the key of all randomness with the epoch */
    uint64_t record;
    uint32_t source;   /* 0 until mixtures */
    bool valid;        /* false for padding: nothing is delivered, record is 0 */
};

/* Sample i of a global batch, i < global_count. */
struct hr_place hr_order_place(const struct hr_order *order, struct hr_cursor cursor, uint32_t i);

/* Samples [first, first + count) of a global batch at once, several times faster than one by one. */
void hr_order_places(const struct hr_order *order, struct hr_cursor cursor, uint32_t first,
                     uint32_t count, struct hr_place *places);

/* The stand-in for a bad record: a pure function of the place and the attempt (1, 2 …), so that
 * every rank and every rerun agree. Never the same record unless there is only one. */
uint64_t hr_order_substitute(const struct hr_order *order, const struct hr_place *place,
                             uint32_t attempt);

/* Mean and largest distance between a record's stored index and its position, and for window the
 * records that are open at once: for inspect and bench. Sampled, O(1). */
struct hr_order_quality {
    double mean_distance, max_distance;
    uint64_t open_records;
};
struct hr_order_quality hr_order_quality(const struct hr_order *order);

#endif
