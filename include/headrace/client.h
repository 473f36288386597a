/* C API of a trainer process: attach to a sidecar, take batches, release them. No copy is made: a
 * batch is memory that the sidecar filled and that this process maps.
 *
 *   struct hr_client *c;
 *   if (hr_client_open("unix:/run/headrace/train.sock", NULL, &c) < 0) ... hr_client_error(NULL)
 *   struct hr_batch *b;
 *   while (hr_client_next(c, -1, &b) == 0) {
 *       struct hr_array x;
 *       hr_batch_field(b, "image", &x);      // x.data, x.shape: views of the slot
 *       train(x);
 *       hr_batch_release(b);                 // gives the slot back; any order, any thread
 *   }
 *   hr_client_close(c);
 *
 * Thread safety: all hr_client_* on one client from one thread at a time;
 * hr_batch_* on distinct batches from any thread; hr_batch_release from any thread. After fork() the
 * child gets HR_E_FORKED from every call on the parent's objects.
 * Every function that can fail returns 0 or a negative HR_E_* from <headrace/errors.h>, and
 * hr_client_error() has the reason. NULL is accepted where the text says so. */
#ifndef HEADRACE_CLIENT_H
#define HEADRACE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include <headrace/errors.h>
#include <headrace/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_API __attribute__((visibility("default")))

struct hr_client;
struct hr_batch;

/* Initialise with HR_CLIENT_OPTIONS_INIT; fields may be appended in later versions. */
struct hr_client_options {
    size_t struct_bytes;     /* sizeof(struct hr_client_options) */
    int32_t rank, world;     /* -1 = from RANK / WORLD_SIZE, SLURM_PROCID / SLURM_NTASKS,
                                OMPI_COMM_WORLD_RANK / _SIZE, PMI_RANK / PMI_SIZE; else 0 of 1. A
                                rank above 0 without a size is HR_E_USAGE */
    const char *state;       /* JSON state to go on from; NULL = from the beginning */
    int32_t force_state;     /* accept this state even if it is of another dataset or plan */
    int32_t shared;          /* attach as a read-only replica */
    int64_t timeout_ms;      /* for attaching, and for a lost sidecar to come back; 60,000 */
    const char *client_name; /* shown in the sidecar's log; NULL = program name */
    int32_t no_wait;         /* return before the sidecar answered; see hr_client_ready() */
    int32_t join_now;        /* a replica without a state starts where the others are, instead of at
                                the beginning, to which they would all have to wait for it */
    int64_t seek_wait_ms;    /* hr_client_seek() and hr_client_seek_epoch() return HR_E_TIMEOUT after so
                                long, and hr_client_ready() waits on; 0 = timeout_ms */
};

#define HR_CLIENT_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(struct hr_client_options), -1, -1, NULL, 0, 0, 60000, NULL, 0, 0, 0                 \
    }

enum { HR_ARRAY_MAX_DIMS = 8 };

/* A view into a slot; valid until the batch is released. dtype: "u8" "i8" "u16" "i16" "u32" "i32"
 * "i64" "u64" "f16" "bf16" "f32" "f64" "bool". */
struct hr_array {
    const char *name;
    const char *dtype;
    const char *layout; /* "nchw" … or "" */
    void *data;
    uint64_t bytes;
    int32_t dims;       /* batch axis first */
    int64_t shape[HR_ARRAY_MAX_DIMS];
    int64_t strides[HR_ARRAY_MAX_DIMS]; /* bytes */
    int32_t writable;
    /* ragged fields: sample i is elements [offsets[i], offsets[i + 1]) of data, with shape
     * shapes[i * sample_dims ...] when sample_dims > 0 */
    int32_t ragged;
    const int64_t *offsets; /* count + 1 */
    const int32_t *shapes;
    int32_t sample_dims;
    const char *field_type; /* "image" "text" … */
};

struct hr_batch_info {
    uint64_t epoch, step, sequence;
    uint32_t count;        /* samples in this rank's share */
    uint32_t global_count; /* of the global batch */
    uint32_t first;        /* this rank's first sample in the global batch */
    uint32_t field_count;
    uint32_t bad_count;    /* samples substituted or masked */
    int32_t last_of_epoch, end_of_run;
    const uint64_t *records; /* count record ids */
    const uint32_t *sources; /* count */
    const uint8_t *valid;    /* count; 0 = padding or masked */
    const char *state;       /* JSON: the state that follows this batch */
    void *slot_data;         /* the slot's mapping, for tests and pinning */
    uint64_t slot_bytes;
};

struct hr_client_info {
    uint32_t rank, world, slot_count;
    uint64_t slot_bytes, batch, dataset_records, steps_per_epoch;
    const char *dataset_digest, *plan_digest; /* hex */
    void *data;          /* the whole mapping */
    uint64_t data_bytes;
    int32_t writable;
};

/* address: "unix:/path", a path, or "fd:N" (a connected socket, taken over). options NULL =
 * defaults. On failure *out is NULL and hr_client_error(NULL) has this thread's reason. */
HR_API int hr_client_open(const char *address, const struct hr_client_options *options,
                          struct hr_client **out);
/* Starts a private sidecar, `BINARY serve CONFIG --fd N --private`, and attaches to it. config is the
 * path of a pipeline file, or the text of one when it holds a newline or begins with '{'. The sidecar
 * sees its end of a socket pair hang up when this process ends, however it ends; it is in a process
 * group of its own, so that Ctrl-C reaches the trainer alone; it inherits stderr. One that was
 * killed is started again, in the folder where it was first, and goes on after the batch last taken.
 * hr_client_close() ends and reaps it. binary NULL = "headrace" from PATH. */
HR_API int hr_client_spawn(const char *binary, const char *config,
                           const struct hr_client_options *options, struct hr_client **out);
/* Waits until attached: for clients opened with no_wait; and until a seek that returned HR_E_TIMEOUT is
 * answered. HR_E_TIMEOUT when the sidecar has not answered within timeout_ms (< 0: as long as
 * options.timeout_ms allows); call again to go on waiting. */
HR_API int hr_client_ready(struct hr_client *client, int64_t timeout_ms);
/* Takes the next batch. timeout_ms < 0 waits for ever, 0 polls. HR_E_TIMEOUT; HR_E_ALL_LEASED when
 * every slot is held by this process; HR_E_END after the last batch; errors that the sidecar sent.
 * A lost sidecar is reconnected within options.timeout_ms and feeding goes on after the batch last
 * taken; after that HR_E_DISCONNECTED. An error other than HR_E_TIMEOUT and HR_E_ALL_LEASED stays
 * until hr_client_seek() or hr_client_seek_epoch(). */
HR_API int hr_client_next(struct hr_client *client, int64_t timeout_ms, struct hr_batch **out);
/* The state after the last batch taken (or the one it began from), JSON. Valid until the next call. */
HR_API const char *hr_client_state(struct hr_client *client);
/* Goes on from another state ("" = the beginning); batches still held stay valid. After HR_E_TIMEOUT the
 * seek is still under way: hr_client_ready() and hr_client_next() wait for it, and another seek takes its
 * place. */
HR_API int hr_client_seek(struct hr_client *client, const char *state, int force);
/* Goes to the start of an epoch; nothing to do, and nothing is thrown away, when it comes next. */
HR_API int hr_client_seek_epoch(struct hr_client *client, uint64_t epoch);
HR_API void hr_client_info(struct hr_client *client, struct hr_client_info *info);
/* The sidecar's statistics as JSON text; valid until the next call. NULL on failure. */
HR_API const char *hr_client_stats(struct hr_client *client);
/* Nanoseconds spent waiting in hr_client_next: the input-bound time. */
HR_API uint64_t hr_client_wait_ns(struct hr_client *client);
/* Ends the session. Batches still held stay readable until released. NULL is fine. */
HR_API void hr_client_close(struct hr_client *client);

HR_API void hr_batch_info(struct hr_batch *batch, struct hr_batch_info *info);
/* By name, or by index 0 .. field_count - 1. HR_E_NOT_FOUND; HR_E_RELEASED. */
HR_API int hr_batch_field(struct hr_batch *batch, const char *name, struct hr_array *array);
HR_API int hr_batch_field_at(struct hr_batch *batch, uint32_t index, struct hr_array *array);
HR_API void hr_batch_release(struct hr_batch *batch); /* NULL is fine */
/* For language bindings whose views cannot be revoked: keeps the memory under the batch mapped until
 * hr_batch_drop_memory(), also after release and close. After release its contents are not the
 * batch's any more, but reading them is no fault. NULL when the batch was released before. */
HR_API void *hr_batch_hold_memory(struct hr_batch *batch);
HR_API void hr_batch_drop_memory(void *memory); /* NULL is fine; from any thread */

/* The last error of this client (NULL: of this thread's last hr_client_open): one line with place
 * and way out. code, shard, record, field may be NULL; record is UINT64_MAX when unknown. */
HR_API const char *hr_client_error(struct hr_client *client);
HR_API int hr_client_error_detail(struct hr_client *client, int *code, const char **shard,
                                  uint64_t *record, const char **field);
HR_API const char *hr_client_version(void);

#ifdef __cplusplus
}
#endif

#endif
