/* Producer side of one stream's ring: the data memory file with its slots, the consumers' control
 * pages, publishing and leases. See wire.h for the shared bytes and docs/protocol.md for the rules.
 *
 * Slot life:  free -> acquired (being filled) -> published (leased to every consumer) -> free
 *
 * Threads: acquire, collect and flush are called by the reader thread; publish and abort by any worker (the
 * caller publishes one at a time and in order); attach, detach and what is said of replicas by the control
 * thread. The ring locks what these share; nothing is held across a system call that can block. */
#ifndef HR_RING_RING_H
#define HR_RING_RING_H

#include "base/err.h"
#include "ring/wire.h"

struct hr_ring;

struct hr_ring_spec {
    const char *name;     /* of the memory file, for /proc/PID/maps */
    uint32_t slot_count;  /* 1 .. HR_WIRE_MAX_SLOTS */
    uint64_t slot_bytes;  /* rounded up to pages; the slab is 2 MiB-aligned in memory */
    bool shared;          /* replicas: consumers get a read-only descriptor */
};

/* Creates, sizes, seals and pre-faults the memory: out of memory shows here, not at step 40,000. */
int hr_ring_create(const struct hr_ring_spec *spec, struct hr_ring **out, struct hr_error *err)
    HR_MUST_CHECK;
void hr_ring_destroy(struct hr_ring *ring); /* NULL is fine; consumers keep their mappings */

uint64_t hr_ring_slot_bytes(const struct hr_ring *ring); /* after rounding */
uint8_t *hr_ring_base(const struct hr_ring *ring, uint64_t *bytes); /* whole slab, for registration */
uint8_t *hr_ring_slot(const struct hr_ring *ring, uint32_t slot);

/* A free slot, or -1. With -1 the consumers are asked to wake us (producer_waits) until the next
 * success. */
int hr_ring_acquire(struct hr_ring *ring);
void hr_ring_abort(struct hr_ring *ring, uint32_t slot);
/* Where a batch stands in its stream. Within a generation batches are published in ascending order. */
struct hr_ring_position {
    uint64_t epoch, step;
};
/* Hands a filled slot to every attached consumer that wants it: those that attached at this position
 * or before it. A slot that nobody wants is free again. Without any consumer it is kept and handed to
 * the first that attaches. */
void hr_ring_publish(struct hr_ring *ring, uint32_t slot, struct hr_ring_position position);
/* Frees the slots that all their consumers released since the last call; returns how many. */
uint32_t hr_ring_collect(struct hr_ring *ring);

/* Throws away what was published and not taken yet, and starts a new generation: entries of the old
 * one that a consumer still holds stay leased until released. Aborting acquired slots is the
 * caller's. The batch at `next` is the first of the new generation, and what a consumer that is alone
 * wants next. Returns its number. */
uint32_t hr_ring_flush(struct hr_ring *ring, struct hr_ring_position next);
uint32_t hr_ring_generation(const struct hr_ring *ring);
bool hr_ring_is_shared(const struct hr_ring *ring);

/* A consumer: its control page and descriptors. It gets every batch from `from` on. fds: data,
 * control, wake eventfd, all owned by the ring until detach; send them, do not close them. */
struct hr_ring_consumer;
int hr_ring_attach(struct hr_ring *ring, struct hr_ring_position from,
                   struct hr_ring_consumer **out, int fds[3], struct hr_error *err) HR_MUST_CHECK;
/* Reclaims its leases at once; nulls nothing, the pointer is dead afterwards. */
void hr_ring_detach(struct hr_ring *ring, struct hr_ring_consumer *consumer);
uint32_t hr_ring_consumer_count(const struct hr_ring *ring);

/* Replicas. A consumer that wants batches which are out already is behind: it gets none, rather than
 * some with a gap, until a flush begins where it stands or before. */
bool hr_ring_is_behind(struct hr_ring *ring, const struct hr_ring_consumer *consumer);
/* Every consumer waits for batches later than the next: the producer may jump. */
bool hr_ring_is_unwanted(struct hr_ring *ring);
struct hr_ring_position hr_ring_wanted(struct hr_ring *ring,
                                       const struct hr_ring_consumer *consumer);
void hr_ring_want(struct hr_ring *ring, struct hr_ring_consumer *consumer,
                  struct hr_ring_position from);
/* Takes back what the consumer has not taken yet, which it then wants again. Returns the slot of the
 * first such batch, or -1 when it has taken all. Nothing may be published meanwhile. */
int hr_ring_recall(struct hr_ring *ring, struct hr_ring_consumer *consumer);
/* The consumer that keeps most slots, when for so long no slot has come free and a replica that keeps
 * fewer has waited with nothing left to take. When all of them wait like that, with every slot held by
 * one or another (there are fewer slots than replicas need), the one furthest ahead. NULL = there is
 * none. */
struct hr_ring_consumer *hr_ring_find_slow(struct hr_ring *ring, uint64_t limit_ns);
/* The consumer's eventfd: readable when it released a slot that we wait for. */
int hr_ring_consumer_wake_fd(const struct hr_ring_consumer *consumer);
/* Marks its page closed with a code (0 < -code) and wakes it. */
void hr_ring_close_consumer(struct hr_ring_consumer *consumer, int code);

struct hr_ring_stats {
    uint64_t published, released;
    uint64_t producer_wait_ns; /* no free slot: the trainer bounds the rate */
    uint64_t consumer_wait_ns; /* no batch ready: the sidecar bounds it (slowest consumer) */
    uint32_t free_slots, acquired_slots, ready, leased;
};
void hr_ring_stats(const struct hr_ring *ring, struct hr_ring_stats *stats);

#endif
