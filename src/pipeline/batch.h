/* A batch being filled: its samples, the list of those whose bytes have arrived, and the countdown to
 * completion. Batches are made once per stream and reused.
 *
 * One sample's life:  planned (reader thread) -> reading -> ready -> taken (a worker) -> done
 *                                   ^                                  |
 *                                   +------ returned as bad <----------+   (another record is read) */
#ifndef HR_PIPELINE_BATCH_H
#define HR_PIPELINE_BATCH_H

#include <stdatomic.h>

#include "order/state.h"
#include "pipeline/iobuf.h"
#include "pipeline/slot_layout.h"
#include "pipeline/plan.h"

struct hr_batch;
struct hr_stream;
struct hr_sample;

/* One payload field of one sample: where it lies and, once read, its bytes. */
struct hr_sample_field {
    struct hr_value_place place;
    struct hr_sample *sample;
    struct hr_sample_field *next; /* in the same read */
    struct hr_iobuf *buf;         /* holds a reference; NULL = none, or read straight into the slot */
    const uint8_t *bytes;         /* what was read: the value's wanted part, or its block */
    uint32_t delta;               /* offset in the read */
    uint32_t want_bytes;          /* how much of the read is ours */
    bool direct;                  /* bytes are in the slot already */
};

/* Where a sample's part of a ragged output lies. */
struct hr_sample_room {
    uint64_t start, room; /* in the output's data, bytes */
    uint64_t bytes;       /* actual, set by the worker */
    uint8_t *spill;       /* a replacement that did not fit in room: heap memory, rare */
    int32_t shape[4];
};

struct hr_sample {
    struct hr_batch *batch;
    struct hr_sample *next; /* in the engine's list of returned samples */
    struct hr_place place;
    uint64_t record;        /* place.record, or its substitute */
    uint32_t index;         /* in this rank's share */
    uint32_t attempt;       /* 0 = the planned record */
    uint32_t pending;       /* reads not back yet; reader thread only */
    int io_error;           /* found while reading; reader thread only */
    uint64_t wanted_bytes;  /* of its reads, without what lies between them; reader thread only */
    int bad_code;           /* why a worker returned it */
    uint32_t rereads;       /* how often its bytes were wrong and read again */
    uint64_t damage, damage_before; /* what was wrong, in this reading and in the one before */
    int64_t class_idx;      /* of the label that is mixed; below 0 = it has none */
    _Atomic bool partner_in; /* of the first of two that are mixed: one of them is here (blend.c) */
    struct hr_sample_field *fields; /* [plan->field_count] */
    struct hr_sample_plan *plans;   /* [plan->chain_count] */
    struct hr_sample_room *rooms;   /* [plan->output_count] */
};

struct hr_batch {
    struct hr_stream *stream;
    const struct hr_plan *plan;
    const struct hr_slot_layout *layout;

    /* set by the reader thread at begin, constant until the batch is done */
    uint8_t *slot;
    uint32_t slot_idx;
    uint32_t count; /* samples in this rank's share */
    struct hr_cursor cursor;
    bool blended;              /* samples are mixed (blend.h) */
    uint8_t *rolled;           /* [capacity] which take part, written by workers; NULL = neighbours are mixed */
    struct hr_sample *samples;

    /* reader thread only, while planning */
    uint32_t planned;          /* samples planned so far */
    uint64_t *room_end;        /* [output_count] next free byte of ragged outputs */

    /* ready list: pushed by the reader thread (release), claimed by workers (compare-exchange). The
     * counts never go back, also not when the batch is reused, so that a slow worker cannot mistake
     * a new entry for the one that it saw. */
    _Atomic uint32_t *ready;
    uint32_t ready_mask;
    _Alignas(HR_CACHE_LINE) _Atomic uint32_t ready_tail;
    _Alignas(HR_CACHE_LINE) _Atomic uint32_t ready_head;

    /* written by whoever finishes a sample; the one that takes it to 0 completes the batch */
    _Alignas(HR_CACHE_LINE) _Atomic uint32_t remaining;
    _Atomic uint32_t bad_count;
    /* age for "oldest first", 0 = not in flight. Written by the reader thread and the completer,
     * read by workers (relaxed: a stale value costs a look, nothing else). */
    _Atomic uint64_t age;
    _Atomic bool cancelled; /* the stream moved elsewhere: finish without work */
    bool done;              /* under the stream's lock */
};

int hr_batch_init(struct hr_batch *batch, const struct hr_plan *plan,
                  const struct hr_slot_layout *layout) HR_MUST_CHECK;
void hr_batch_finish(struct hr_batch *batch);

/* Reader thread: takes a filled-in slot header template and the share's facts. */
void hr_batch_begin(struct hr_batch *batch, uint8_t *slot, uint32_t slot_idx,
                    const struct hr_share *share, struct hr_cursor cursor, uint64_t sequence,
                    const struct hr_state *state_after, bool last_of_epoch, bool end_of_run);

/* Reader thread: the sample's bytes are all in. */
void hr_batch_push_ready(struct hr_batch *batch, uint32_t index);
/* Worker: claims up to max samples; out gets their indices. */
uint32_t hr_batch_claim(struct hr_batch *batch, uint32_t max, uint32_t *out);

/* Zeroes a sample's part of every output and marks it invalid: padding, or a masked bad record. */
void hr_batch_mask(struct hr_batch *batch, uint32_t index);
/* After the last sample: offsets, shapes, ragged values made contiguous, header counts. */
void hr_batch_complete(struct hr_batch *batch);
/* Instead of it, for a cancelled batch: gives up what its samples hold. */
void hr_batch_discard(struct hr_batch *batch);

static inline struct hr_wire_batch *hr_batch_header(const struct hr_batch *batch)
{
    return (struct hr_wire_batch *)batch->slot;
}

#endif
