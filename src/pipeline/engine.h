/* The engine: one plan, one reader thread, N workers, any number of streams. What serve and bench use.
 *
 *   hr_engine_create -> hr_engine_open_stream -> hr_stream_seek -> (batches appear in the ring)
 *                    -> hr_stream_close -> hr_engine_destroy
 *
 * All calls below are for one control thread, except hr_engine_wake. */
#ifndef HR_PIPELINE_ENGINE_H
#define HR_PIPELINE_ENGINE_H

#include "base/buf.h"
#include "io/io.h"
#include "order/state.h"
#include "pipeline/bad.h"
#include "pipeline/flight.h"
#include "pipeline/plan.h"
#include "ring/ring.h"

struct hr_engine;
struct hr_stream;

struct hr_engine_options {
    const char *reader;         /* "auto" … */
    const char *fault;          /* schedule for the fault reader; NULL = none */
    enum hr_io_mode io;
    int workers;                /* 0 = what the CPU quota gives */
    uint64_t read_ahead_bytes;  /* bytes in flight; 0 = chosen from the plan */
    bool no_decode, no_checksum; /* for measuring */
    bool timed;                 /* read clocks around every stage of a sample */
    const char *quarantine_path; /* NULL = none */
    struct hr_flight *flight;   /* pages shared with a supervisor; NULL = none */
    int notify_fd;              /* eventfd written when a stream's status changes; -1 = none */
};

int hr_engine_create(const struct hr_plan *plan, const struct hr_engine_options *options,
                     struct hr_engine **out, struct hr_error *err) HR_MUST_CHECK;
void hr_engine_destroy(struct hr_engine *engine); /* closes what is open; NULL is fine */

int hr_engine_worker_count(const struct hr_engine *engine);
const char *hr_engine_reader_reason(const struct hr_engine *engine); /* which reader, and why */

/* A stream of one rank: its ring is made here, batches start with the first seek.
 * shared: consumers attach as read-only replicas. */
int hr_engine_open_stream(struct hr_engine *engine, uint32_t rank, uint32_t world, bool shared,
                          struct hr_stream **out, struct hr_error *err) HR_MUST_CHECK;
void hr_stream_close(struct hr_stream *stream); /* waits for work in hand; NULL is fine */

struct hr_ring *hr_stream_ring(const struct hr_stream *stream);

/* Stops what is in flight, drops what was not taken, and goes on from this state. Waits until the
 * old batches are out of the way (milliseconds: work not begun is skipped). */
int hr_stream_seek(struct hr_stream *stream, const struct hr_state *state, struct hr_error *err)
    HR_MUST_CHECK;
/* No new batches until the next seek; what is ready stays. */
void hr_stream_pause(struct hr_stream *stream);
/* As pause, and drops what is in flight: nothing is published until the next seek. Returns the state of
 * the batch that would have been next. */
struct hr_state hr_stream_halt(struct hr_stream *stream);
/* Of a halted stream: the state that the batch last put into this slot was planned from. */
struct hr_state hr_stream_state_before(const struct hr_stream *stream, uint32_t slot);

/* 0 while it feeds, HR_E_END when the last epoch is planned to its end, else why it stopped. */
int hr_stream_status(struct hr_stream *stream, struct hr_error *err);

/* Any thread, async-signal-safe: a slot may be free. */
void hr_engine_wake(struct hr_engine *engine);

/* Counters since creation. Times are sums over threads. */
struct hr_engine_stats {
    uint64_t samples; /* finished, each once however often it was read and whatever stood in */
    uint64_t batches;
    uint64_t read_requests, read_bytes, read_errors, io_retries;
    uint64_t wanted_bytes;       /* that samples asked for: read_bytes has also what lies between and around them */
    uint64_t reader_cpu_ns;      /* CPU time of the reader thread */
    uint64_t plan_ns;            /* of it: planning batches (timed) */
    uint64_t hand_off_ns;        /* taking slots, completing and publishing batches */
    uint64_t worker_cpu_ns;      /* CPU time of all workers */
    uint64_t worker_busy_ns;     /* wall time with a sample in hand */
    uint64_t worker_idle_ns;     /* wall time asleep */
    uint64_t checksum_ns, decode_ns; /* of busy (timed) */
    uint64_t checksum_bytes, decoded_bytes;
    uint64_t window_bytes;       /* now used of the ring of bytes in flight */
    struct hr_bad_stats bad;
};
void hr_engine_stats(struct hr_engine *engine, struct hr_engine_stats *stats);
/* Samples delivered of one source. */
uint64_t hr_engine_source_samples(struct hr_engine *engine, uint32_t source);
/* "sources": the realised mix, of at most so many sources, as a member of the object being written. */
void hr_engine_sources_json(struct hr_engine *engine, struct hr_buf *buf, uint32_t most);

#endif
