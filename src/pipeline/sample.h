/* What happens to one sample: planned on the reader thread (which record, which bytes, which
 * randomness, how much room), finished on a worker (checksum, decode, write into the slot). */
#ifndef HR_PIPELINE_SAMPLE_H
#define HR_PIPELINE_SAMPLE_H

#include "pipeline/batch.h"

/* Bytes that a field needs to have read. */
struct hr_sample_want {
    uint32_t shard;
    uint64_t off, bytes; /* bytes 0 = nothing to read */
    bool in_parts;       /* of the value at off, the parts of hr_chain_parts: `bytes` in all */
};

/* Plans sample->record: locates values, draws parameters, takes rooms (attempt 0) or keeps them
 * (later attempts, and when the same record is read again). want: one per plan field. 0, or the
 * sample-scope error that makes the record bad before anything is read. */
int hr_sample_plan_record(struct hr_sample *sample, struct hr_sample_want *want,
                          struct hr_error *err) HR_MUST_CHECK;

/* The parts of a field that is wanted in parts. */
void hr_sample_parts(const struct hr_sample *sample, uint32_t field, struct hr_chain_parts *parts);

/* True when the field's bytes can be read into the slot itself; dst is where. */
bool hr_sample_direct(const struct hr_sample *sample, uint32_t field, uint8_t **dst);

/* Where the sample's part of an output goes: its place in the array, or, ragged, its room (or heap memory when a
 * replacement is larger). */
uint8_t *hr_sample_fixed_dst(const struct hr_sample *s, uint32_t output);
int hr_sample_ragged_dst(struct hr_sample *s, uint32_t output, uint64_t bytes, uint8_t **dst, struct hr_error *err)
    HR_MUST_CHECK;

/* Per-worker state for finishing samples. */
struct hr_finisher {
    const struct hr_plan *plan;
    struct hr_context *contexts[HR_MAX_FIELDS]; /* per chain */
    uint8_t *block;       /* last decompressed block, with padding after it */
    uint64_t block_room, block_bytes, block_off;
    uint32_t block_shard;
    bool block_valid, no_decode, no_checksum;
    struct hr_finisher_times {
        uint64_t checksum_ns, decode_ns, copy_ns;
        uint64_t checksum_bytes, decoded_bytes;
    } times;
    bool timed; /* read clocks around the stages */
    _Atomic uint64_t *by_source; /* [source_count] samples finished; written here only. Relaxed */
    _Atomic uint32_t *field_in_hand; /* is told which plan field is being finished; NULL = nobody is */
};

int hr_finisher_init(struct hr_finisher *finisher, const struct hr_plan *plan, struct hr_error *err)
    HR_MUST_CHECK;
void hr_finisher_finish(struct hr_finisher *finisher);

/* Checks, decodes and writes one sample, whose buffers can be dropped then in every case. 0 or a
 * sample-scope error with shard, record and field. */
int hr_sample_finish(struct hr_finisher *finisher, struct hr_sample *sample, struct hr_error *err)
    HR_MUST_CHECK;
/* True when the reader thread waits for the room and is to be woken. */
bool hr_sample_drop_buffers(struct hr_sample *sample);

#endif
