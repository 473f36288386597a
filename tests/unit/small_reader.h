/* A ring of numbers, and a minimal trainer over one control page to take them out again. */
#ifndef HR_TESTS_UNIT_SMALL_READER_H
#define HR_TESTS_UNIT_SMALL_READER_H

#include "ring/consumer.h"
#include "ring/ring.h"

enum { SLOTS = 4, SLOT_BYTES = 4096, CONSUME_NUMBERS = 20000 };

struct hr_ring *ring_make(uint32_t slots, bool shared);
struct hr_ring_consumer *ring_attach(struct hr_ring *ring, int fds[3]);
/* Publishes a number, at the position of that step; false when no slot is free. */
bool ring_publish(struct hr_ring *ring, uint64_t number);

struct reader {
    struct hr_wire_control *page;
    const uint8_t *data;
    uint32_t tail;
};

struct reader reader_of(struct hr_ring *ring, struct hr_ring_consumer *consumer);
/* Takes the next entry; false when there is none or it was taken back. */
bool reader_take(struct reader *r, struct hr_wire_entry *entry);
/* The number in the entry's slot, or UINT64_MAX when the slot was written meanwhile. */
uint64_t reader_number(const struct reader *r, const struct hr_wire_entry *entry);
/* Both in one; UINT64_MAX also when there is nothing to take. */
uint64_t reader_take_number(struct reader *r, struct hr_wire_entry *entry);
void reader_release(struct reader *r, const struct hr_wire_entry *entry);
/* A thread: takes and releases the numbers below CONSUME_NUMBERS in order; NULL when they were in order. */
void *reader_consume(void *reader);

#endif
