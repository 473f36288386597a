/* See small_reader.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/futex.h"
#include "ring/consumer.h"
#include "ring/ring.h"
#include "small_reader.h"

struct hr_ring *ring_make(uint32_t slots, bool shared)
{
    struct hr_ring_spec spec = {
        .name = "test", .slot_count = slots, .slot_bytes = SLOT_BYTES - 5, .shared = shared};
    struct hr_ring *ring = NULL;
    struct hr_error err = HR_ERROR_INIT;

    if (hr_ring_create(&spec, &ring, &err) < 0)
        fail_msg("%s", err.text);
    return ring;
}

struct hr_ring_consumer *ring_attach(struct hr_ring *ring, int fds[3])
{
    struct hr_ring_consumer *consumer = NULL;
    struct hr_error err = HR_ERROR_INIT;

    if (hr_ring_attach(ring, (struct hr_ring_position){0, 0}, &consumer, fds, &err) < 0)
        fail_msg("%s", err.text);
    return consumer;
}

bool ring_publish(struct hr_ring *ring, uint64_t number)
{
    int slot = hr_ring_acquire(ring);

    if (slot < 0)
        return false;
    uint64_t *words = (uint64_t *)hr_ring_slot(ring, (uint32_t)slot);
    words[0] = number;
    words[SLOT_BYTES / 8 - 1] = ~number;
    hr_ring_publish(ring, (uint32_t)slot, (struct hr_ring_position){.step = number});
    return true;
}

bool reader_take(struct reader *r, struct hr_wire_entry *entry)
{
    if (atomic_load_explicit(&r->page->head, memory_order_acquire) == r->tail) {
        *entry = (struct hr_wire_entry){0};
        return false;
    }
    *entry = hr_wire_load_entry(&r->page->queue[r->tail % HR_WIRE_MAX_SLOTS]);
    uint32_t tail = r->tail;
    bool ours = atomic_compare_exchange_strong(&r->page->tail, &tail, tail + 1);
    r->tail = ours ? tail + 1 : tail;
    return ours;
}

uint64_t reader_number(const struct reader *r, const struct hr_wire_entry *entry)
{
    const uint64_t *words = (const uint64_t *)(r->data + (size_t)entry->slot * SLOT_BYTES);

    return words[0] == ~words[SLOT_BYTES / 8 - 1] ? words[0] : UINT64_MAX;
}

void reader_release(struct reader *r, const struct hr_wire_entry *entry)
{
    atomic_store_explicit(&r->page->lease[entry->slot].released, entry->ticket,
                          memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
}

struct reader reader_of(struct hr_ring *ring, struct hr_ring_consumer *consumer)
{
    uint64_t bytes;

    return (struct reader){.page = consumer->page, .data = hr_ring_base(ring, &bytes)};
}

uint64_t reader_take_number(struct reader *r, struct hr_wire_entry *entry)
{
    if (!reader_take(r, entry))
        return UINT64_MAX;
    return reader_number(r, entry);
}

void *reader_consume(void *arg)
{
    struct reader *r = arg;
    struct hr_wire_entry e;

    for (uint64_t next = 0; next < CONSUME_NUMBERS;) {
        if (!reader_take(r, &e)) {
            uint32_t seen = r->tail;
            atomic_store_explicit(&r->page->consumer_waits, 1, memory_order_relaxed);
            atomic_thread_fence(memory_order_seq_cst);
            hr_futex_wait(&r->page->head, seen, hr_clock_ns() + HR_NS_PER_S, true);
            atomic_store_explicit(&r->page->consumer_waits, 0, memory_order_relaxed);
            continue;
        }
        if (reader_number(r, &e) != next++)
            return arg;
        reader_release(r, &e);
    }
    return NULL;
}
