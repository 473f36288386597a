/* The engine's inside, shared by its own files only: engine.c (set-up, control calls), feeder.c (the
 * reader thread), reads.c, group.c, parts.c, worker.c (the pool), stream.c. */
#ifndef HR_PIPELINE_ENGINE_PARTS_H
#define HR_PIPELINE_ENGINE_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/coalesce.h"
#include "pipeline/engine.h"
#include "pipeline/flight.h"
#include "pipeline/sample.h"
#include "pipeline/stream.h"
#include "pipeline/window.h"

enum {
    HR_ENGINE_MAX_STREAMS = 256,
    HR_ENGINE_MAX_WORKERS = HR_FLIGHT_WORKERS,
    HR_ENGINE_GROUP = 64,       /* samples planned and read together */
    HR_ENGINE_MAX_ATTEMPTS = 64, /* replacements tried for one place */
};

/* One read on its way: a span of neighbouring values, or one value straight into its slot. */
struct hr_read {
    struct hr_io_request request; /* first: the reader hands this back */
    struct hr_batch *batch;
    struct hr_iobuf *buf;         /* NULL = into the slot */
    struct hr_sample_field *fields; /* whose bytes these are, linked by next */
    uint32_t skip;                /* direct: bytes read before the span, for alignment */
    uint32_t part_bytes;          /* a part of a value: its bytes; 0 = whole values */
    uint32_t tries;
    uint64_t due_ns, give_up_ns;  /* when to try again, when to stop trying */
    struct hr_read *next;
};

/* What a group of samples needs, kept while it waits for room. */
struct hr_group {
    struct hr_batch *batch;
    uint32_t first, count; /* samples planned and not yet issued: members[first .. count) */
    struct hr_sample *members[HR_ENGINE_GROUP];
    struct hr_sample_want *wants; /* [HR_ENGINE_GROUP][field_count] */
    struct hr_io_range *ranges;
    struct hr_io_span *spans;
};

struct hr_worker {
    _Alignas(HR_CACHE_LINE) pthread_t thread;
    struct hr_engine *engine;
    struct hr_finisher finisher;
    struct hr_flight_seat *seat;
    bool started;
    /* odd while the worker may touch a batch; written by it, read by a closing stream */
    _Atomic uint64_t quiescence;
    /* written by the worker, read by hr_engine_stats (relaxed) */
    _Atomic uint64_t samples, busy_ns, idle_ns, cpu_ns, checksum_ns, decode_ns, checksum_bytes,
        decoded_bytes;
};

struct hr_shard_file {
    int fd, direct_fd;
    uint32_t direct_align;
};

struct hr_engine {
    const struct hr_plan *plan;
    struct hr_engine_options options;
    struct hr_bad *bad;
    struct hr_flight *flight;
    bool own_flight;
    bool traps; /* for tests, see trap.c */
    pthread_mutex_t suspect_lock; /* a suspect record is the only one in hand */
    struct hr_worker *workers;
    int worker_count;
    _Atomic uint64_t *by_source; /* [worker][stride] samples finished of each source (relaxed) */
    uint32_t by_source_stride;
    uint32_t grain; /* samples that a worker claims at once */

    /* work for the pool: seq counts pushes (futex word); sleepers is read to spare the wake */
    _Alignas(HR_CACHE_LINE) _Atomic uint32_t work_seq;
    _Alignas(HR_CACHE_LINE) _Atomic uint32_t sleepers;
    _Alignas(HR_CACHE_LINE) _Atomic(struct hr_sample *) returned; /* stack: workers push, feeder takes */
    _Atomic bool stop;

    /* streams: slots set by the reader thread under command_lock, read by workers (acquire) */
    _Atomic(struct hr_stream *) streams[HR_ENGINE_MAX_STREAMS];

    pthread_mutex_t command_lock; /* commands in streams, and these */
    pthread_cond_t command_done;
    bool feeder_ready, close_reader;
    int feeder_status;
    struct hr_error feeder_error;

    /* the reader thread's own */
    pthread_t feeder;
    bool feeder_started;
    struct hr_reader *reader;
    char reader_reason[256];
    struct hr_shard_file *files; /* [shard_count], index = the reader's file index */
    uint32_t file_count;
    bool direct;
    struct hr_iobufs bufs;
    struct hr_window window; /* of bufs */
    struct hr_read *reads, *free_reads;
    uint32_t reads_out; /* taken and not yet back */
    bool nothing_there; /* the last look at the reader brought nothing */
    struct hr_read *backlog, **backlog_end; /* refused by the reader for now */
    struct hr_read *delayed;                /* storage errors waiting for their next try */
    struct hr_batch *planning[HR_ENGINE_MAX_STREAMS]; /* batches not planned to their end, by age */
    uint32_t planning_count;
    struct hr_group group;
    struct hr_sample *retry_first, **retry_end; /* returned samples, in order */
    uint64_t next_age;
    uint32_t pushed; /* samples made ready in this round */

    /* statistics: written by the reader thread, read relaxed */
    _Atomic uint64_t batches, plan_ns, reader_cpu_ns, io_retries, read_errors;
    _Atomic uint64_t read_requests, read_bytes, wanted_bytes, window_bytes;
    _Atomic uint64_t hand_off_ns; /* beginning, completing and publishing batches; any thread */
};

/* reads.c, reader thread: reads and what becomes of their samples */
struct hr_read *hr_reads_take(struct hr_engine *engine);
void hr_reads_submit(struct hr_engine *engine, struct hr_read *read);
void hr_reads_submit_backlog(struct hr_engine *engine); /* those that the reader had no room for */
void hr_reads_submit_due(struct hr_engine *engine);     /* those that failed and are tried again */
void hr_reads_done(struct hr_engine *engine, struct hr_read *read);
/* All reads of a sample are back. */
void hr_reads_sample_back(struct hr_engine *engine, struct hr_sample *sample);
void hr_reads_sample_bad(struct hr_engine *engine, struct hr_sample *sample,
                         const struct hr_error *why);
void hr_reads_retry(struct hr_engine *engine, struct hr_sample *sample); /* another record for it */

/* arena.c: the ring of bytes in flight, what of it is used at least, and the memory for the largest record where that
 * is more */
struct hr_arena_sizes {
    uint64_t window_bytes, arena_bytes, room_bytes;
};
struct hr_arena_sizes hr_arena_sizes(const struct hr_engine *engine);

/* parts.c, reader thread: values that are read in parts */
uint64_t hr_parts_room(const struct hr_sample_want *want); /* of a buffer aligned to HR_CHAIN_PART_ALIGN */
uint32_t hr_parts_count(const struct hr_sample *sample, uint32_t field); /* reads that it takes */
void hr_parts_read(struct hr_engine *engine, struct hr_sample *sample, uint32_t field,
                   const struct hr_sample_want *want);

/* group.c, reader thread: plans and issues all that there is room for */
void hr_group_feed(struct hr_engine *engine);

/* feeder.c */
void *hr_feeder_main(void *engine);
/* worker.c */
void *hr_worker_main(void *worker);
/* A sample is finished for good (any thread). */
void hr_engine_sample_done(struct hr_batch *batch, uint32_t count);
/* A sample turned out bad (any thread): counted, then masked, failed, or true when another record is
 * to be read for it (the caller hands it to the reader thread). */
bool hr_engine_sample_bad(struct hr_engine *engine, struct hr_sample *sample,
                          const struct hr_error *why);
void hr_engine_wake_workers(struct hr_engine *engine, uint32_t ready);
void hr_engine_notify(struct hr_engine *engine);

/* trap.c */
bool hr_trap_wanted(void);
void hr_trap_look(const struct hr_sample *sample, struct hr_flight_seat *seat);

/* threads.c: every thread of the engine is made here, with all signals but those of
 * crashes blocked. */
int hr_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg,
                    struct hr_error *err) HR_MUST_CHECK;

#endif
