/* The flight recorder: which record each thread has in hand, on pages that the supervising process
 * shares. When a decoder crashes or stalls, they say which record to blame; the next engine finds
 * there which records to leave alone. An engine without a supervisor has pages of its own.
 *
 * Seats are written by their threads and read by the supervisor. All else is written by the
 * supervisor while no engine runs, except crashed and signal (the crash handler) and what is atomic. */
#ifndef HR_PIPELINE_FLIGHT_H
#define HR_PIPELINE_FLIGHT_H

#include <stdatomic.h>

#include "base/err.h"

enum {
    HR_FLIGHT_WORKERS = 1024,
    HR_FLIGHT_READER = HR_FLIGHT_WORKERS, /* the reader thread's seat */
    HR_FLIGHT_SEATS,
    HR_FLIGHT_CULPRITS = 1024,
    HR_FLIGHT_SUSPECTS = 128,
};

/* A cache line each; relaxed stores around each sample cost nothing that can be measured. */
struct hr_flight_seat {
    _Alignas(HR_CACHE_LINE) _Atomic uint64_t in_hand; /* record + 1; 0 = nothing */
    _Atomic uint64_t since_ns;
    _Atomic uint32_t source, field; /* field: index in the plan */
    _Atomic uint64_t done; /* samples finished since the engine began */
};

/* A record that brought an engine down: treated as bad without being decoded. */
struct hr_culprit {
    uint64_t record;
    uint32_t source, field;
    int32_t signal; /* that it died of; 0 = over the time limit */
    uint32_t listed; /* logged and in the quarantine file */
};

/* A record that was in hand when an engine died of nobody knows what. Suspects are finished one at a
 * time, so that the next death tells more. */
struct hr_suspect {
    uint64_t record;
    uint32_t source, field;
    uint32_t deaths;
    _Atomic uint32_t cleared; /* it was finished without harm. Written by workers */
};

enum { HR_FLIGHT_NO_SEAT = UINT32_MAX };

struct hr_flight {
    _Atomic uint32_t crashed; /* seat + 1 of the first thread that crashed; 0 = none */
    _Atomic int32_t signal;
    _Atomic uint32_t in_control; /* the crash was on the control thread: no record's fault */
    uint32_t culprit_count, suspect_count;
    struct hr_culprit culprits[HR_FLIGHT_CULPRITS];
    struct hr_suspect suspects[HR_FLIGHT_SUSPECTS];
    struct hr_flight_seat seats[HR_FLIGHT_SEATS];
};

struct hr_flight *hr_flight_create(struct hr_error *err) HR_MUST_CHECK;
void hr_flight_destroy(struct hr_flight *flight); /* NULL is fine */

/* ---- in the engine ---- */

/* From here on a crash of any thread of this process leaves its seat and signal in flight, then takes
 * its course. Once a process. */
void hr_flight_catch_crashes(struct hr_flight *flight);
/* Binds the calling thread to its seat and gives crashes a stack of their own. leave frees it. */
void hr_flight_sit(struct hr_flight *flight, uint32_t seat);
void hr_flight_leave(void);

static inline void hr_flight_take(struct hr_flight_seat *seat, uint32_t source, uint64_t record,
                                  uint64_t now_ns)
{
    atomic_store_explicit(&seat->source, source, memory_order_relaxed);
    atomic_store_explicit(&seat->field, 0, memory_order_relaxed);
    atomic_store_explicit(&seat->since_ns, now_ns, memory_order_relaxed);
    /* Release: the supervisor's acquire load sees the time that belongs to it. */
    atomic_store_explicit(&seat->in_hand, record + 1, memory_order_release);
}

static inline void hr_flight_drop(struct hr_flight_seat *seat)
{
    atomic_store_explicit(&seat->in_hand, 0, memory_order_release);
}

/* NULL = not one. Both lists are constant while an engine runs. */
const struct hr_culprit *hr_flight_culprit(const struct hr_flight *flight, uint32_t source,
                                           uint64_t record);
struct hr_suspect *hr_flight_suspect(struct hr_flight *flight, uint32_t source, uint64_t record);

/* ---- in the supervisor ---- */

/* Before an engine starts: empties the seats and what the last crash left. */
void hr_flight_reset(struct hr_flight *flight);
/* A record in hand for longer than limit_ns becomes a culprit (true). The engine is to be killed. */
bool hr_flight_find_stalled(struct hr_flight *flight, uint64_t now_ns, uint64_t limit_ns);
/* After an engine died of a signal: finds the culprit or the suspects. True when a culprit is new. */
bool hr_flight_blame(struct hr_flight *flight, int signal);
/* Samples finished since the last reset. */
uint64_t hr_flight_done(const struct hr_flight *flight);

#endif
