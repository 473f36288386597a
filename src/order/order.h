/* Which record comes when: a pure function of (plan, seed, epoch, position). Integers only: no I/O,
 * no threads, no memory that grows with the dataset but what a filter kept (docs/order.md specifies
 * it). */
#ifndef HR_ORDER_ORDER_H
#define HR_ORDER_ORDER_H

#include "base/base.h"
#include "base/err.h"

#define HR_ORDER_MAX_RECORDS (UINT64_C(1) << 63)
#define HR_ORDER_MAX_BATCH   (UINT64_C(1) << 30)
#define HR_ORDER_MAX_EPOCH   (UINT64_C(1) << 62)
/* A mixture is one endless sequence of positions; past this they would not fit the arithmetic. */
#define HR_ORDER_MIX_END     (UINT64_C(1) << 63)

enum { HR_ORDER_MAX_SOURCES = 256 };

enum hr_order_kind { HR_ORDER_FULL, HR_ORDER_WINDOW, HR_ORDER_NONE };
enum hr_last_rule { HR_LAST_DROP, HR_LAST_PAD, HR_LAST_WRAP, HR_LAST_KEEP };

/* Where an epoch of weighted sources ends: when each has been given as often as it has records, when
 * the first has, or after so many batches. */
enum hr_stop_rule { HR_STOP_ALL_EXHAUSTED, HR_STOP_FIRST_EXHAUSTED, HR_STOP_STEPS };

struct hr_selection;

/* One source of a mixture. */
struct hr_order_source {
    uint64_t record_count; /* what is left by the selection */
    const struct hr_selection *selection; /* borrowed; NULL = all records */
    double weight;         /* > 0; not looked at with repeats */
    uint64_t repeats;      /* passes an epoch; all sources have them, or none (0) */
};

struct hr_order_spec {
    enum hr_order_kind kind;
    enum hr_last_rule last;
    uint64_t seed;
    uint64_t record_count; /* > 0; set by hr_order_init when there are sources */
    uint64_t batch;        /* global batch, > 0 */
    /* window: records are cut into blocks of block_records (the last one shorter); blocks are
     * permuted, and records are permuted inside a group of open_blocks neighbours in that
     * permuted order, so at most open_blocks blocks are touched at a time. */
    uint64_t block_records; /* 0 = 1024 */
    uint64_t open_blocks;   /* 0 = 16 */
    /* One source without repeats is ordered as a plain dataset; 0 sources: record_count says all. */
    const struct hr_order_source *sources; /* only read by hr_order_init */
    uint32_t source_count;
    enum hr_stop_rule stop;
    uint64_t stop_steps;
};

/* The records of one source in order; private to src/order. */
struct hr_sequence {
    enum hr_order_kind kind;
    uint64_t record_count, seed_key;
    uint64_t block_records, open_blocks; /* window, clamped to what there is */
    uint64_t blocks, shortfall;          /* how much shorter the last block is */
    const struct hr_selection *selection;
};

struct hr_mix;

/* Thread-safe to read; may be copied when it is not a mixture. */
struct hr_order {
    struct hr_order_spec spec; /* defaults filled in; its sources are not kept */
    uint64_t epoch_samples;    /* positions of an epoch: the records, or what the mixture makes of them */
    /* private */
    uint64_t seed_key;
    struct hr_sequence whole;
    struct hr_mix *mix; /* NULL = one source */
};

/* HR_E_CONFIG when the numbers do not fit together (batch larger than the dataset under drop …). */
int hr_order_init(struct hr_order *order, const struct hr_order_spec *spec, struct hr_error *err)
    HR_MUST_CHECK;
/* Frees what a mixture holds; all zero is fine. */
void hr_order_finish(struct hr_order *order);

/* The mixture's exact ratio: source s has share[s] of every total positions. One source: 1 of 1. */
uint64_t hr_order_share_of(const struct hr_order *order, uint32_t source, uint64_t *total);

/* Record at a position of an epoch; position < epoch_samples. Without a mixture each epoch is a
 * permutation. */
uint64_t hr_order_record(const struct hr_order *order, uint64_t epoch, uint64_t position);

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
    uint64_t record;   /* within its source */
    uint64_t index;    /* the same among the records that the source's filter left */
    uint32_t source;
    bool valid;        /* false for padding: nothing is delivered, record is 0 */
};

/* Sample i of a global batch, i < global_count. */
struct hr_place hr_order_place(const struct hr_order *order, struct hr_cursor cursor, uint32_t i);

/* Samples [first, first + count) of a global batch at once, several times faster than one by one. */
void hr_order_places(const struct hr_order *order, struct hr_cursor cursor, uint32_t first,
                     uint32_t count, struct hr_place *places);

/* The stand-in for a bad record, out of the same source: a pure function of the place and the attempt
 * (1, 2 …), so that every rank and every rerun agree. Never the same record unless there is only one. */
uint64_t hr_order_substitute(const struct hr_order *order, const struct hr_place *place,
                             uint32_t attempt);

/* The other way round (find.c): the first place at or after (epoch, position), position < epoch_samples, at
 * which a record of a source comes, in O(1). False when it never does: there is no such record, the source's
 * filter left it out, or the order ends before. */
bool hr_order_find(const struct hr_order *order, uint32_t source, uint64_t record, uint64_t *epoch,
                   uint64_t *position);
/* The batch that delivers a place, and which of its samples it is. False when none does: the rest of an
 * epoch under drop. */
bool hr_order_batch_of(const struct hr_order *order, uint64_t epoch, uint64_t position,
                       struct hr_cursor *cursor, uint32_t *sample);
/* The rank that gets a sample of a global batch; *sample becomes its number in the rank's share. */
uint32_t hr_order_rank_of(const struct hr_order *order, struct hr_cursor cursor, uint32_t world,
                          uint32_t *sample);

/* How well neighbours are parted: how many samples lie between the deliveries of two records of a source
 * that are stored side by side (kept ones), the median over up to 1,023 such pairs. none: 1 (in a mixture:
 * the positions for each one of the source's); full: 0.29 of an epoch; 0 for a single record. */
double hr_order_distance(const struct hr_order *order, uint32_t source);
/* The same as full would give it: two places drawn at random. */
double hr_order_distance_full(const struct hr_order *order, uint32_t source);

#endif
