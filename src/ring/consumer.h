/* One consumer of a ring: its control page and descriptors. Nothing that the trainer can write is
 * believed: every word is compared with what we know, and a strange one counts as not written. */
#ifndef HR_RING_CONSUMER_H
#define HR_RING_CONSUMER_H

#include "base/err.h"
#include "ring/ring.h"

struct hr_ring_consumer {
    struct hr_ring_consumer *next;
    struct hr_wire_control *page; /* mapped read-write here and in the trainer */
    int control_fd;
    int wake_fd;
    uint32_t head;        /* our copy; the one in the page is written, never read back */
    uint32_t held;        /* leased slots: nonzero entries of ticket[] */
    uint64_t attached_ns; /* bounds what the trainer may claim to have waited */
    uint64_t wait_ns;     /* last credible value of consumer_wait_ns */
    uint32_t ticket[HR_WIRE_MAX_SLOTS]; /* of the lease, 0 = not leased to this consumer */
    uint32_t posted[HR_WIRE_MAX_SLOTS]; /* the queue's slots, by the same index */
    struct hr_ring_position from;       /* the batch that it wants next */
    bool behind;                        /* that batch is out already */
    uint64_t starved_since_ns;          /* nothing left, and waiting; 0 = not so */
};

int hr_consumer_create(uint32_t slot_count, struct hr_ring_consumer **out, struct hr_error *err)
    HR_MUST_CHECK;
void hr_consumer_destroy(struct hr_ring_consumer *consumer);

/* Leases a slot to the consumer and tells it. */
void hr_consumer_post(struct hr_ring_consumer *consumer, uint32_t slot, uint32_t ticket,
                      uint32_t generation);
/* True when the trainer gave the slot back; the lease is over then. */
bool hr_consumer_take_back(struct hr_ring_consumer *consumer, uint32_t slot);
/* Takes back the leases of entries that the trainer has not taken; slots lists them, oldest first.
 * Returns how many. */
uint32_t hr_consumer_recall(struct hr_ring_consumer *consumer, uint32_t slots[HR_WIRE_MAX_SLOTS]);
/* Keeps starved_since_ns. */
void hr_consumer_look(struct hr_ring_consumer *consumer, uint64_t now_ns);
void hr_consumer_ask_wake(struct hr_ring_consumer *consumer, bool wanted);
/* Entries posted and not taken, at most what is leased. */
uint32_t hr_consumer_ready(const struct hr_ring_consumer *consumer);
uint64_t hr_consumer_wait_ns(struct hr_ring_consumer *consumer);

#endif
