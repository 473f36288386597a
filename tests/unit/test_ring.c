/* ring: slots, leases and consumers, against a second process, garbage and threads. Run with the
 * word "peer" the program is that second process. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/rng.h"
#include "ring/consumer.h"
#include "ring/ring.h"

enum { SLOTS = 4, SLOT_BYTES = 4096 };

static struct hr_ring *make_ring(uint32_t slots, bool shared)
{
    struct hr_ring_spec spec = {
        .name = "test", .slot_count = slots, .slot_bytes = SLOT_BYTES - 5, .shared = shared};
    struct hr_ring *ring = NULL;
    struct hr_error err = HR_ERROR_INIT;

    if (hr_ring_create(&spec, &ring, &err) < 0)
        fail_msg("%s", err.text);
    return ring;
}

static struct hr_ring_consumer *attach(struct hr_ring *ring, int fds[3])
{
    struct hr_ring_consumer *consumer = NULL;
    struct hr_error err = HR_ERROR_INIT;

    if (hr_ring_attach(ring, (struct hr_ring_position){0, 0}, &consumer, fds, &err) < 0)
        fail_msg("%s", err.text);
    return consumer;
}

/* Publishes a number, at the position of that step; false when no slot is free. */
static bool publish(struct hr_ring *ring, uint64_t number)
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

/* ---- a minimal trainer over one control page ---- */

struct reader {
    struct hr_wire_control *page;
    const uint8_t *data;
    uint32_t tail;
};

static bool take(struct reader *r, struct hr_wire_entry *entry)
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

static uint64_t number_of(const struct reader *r, const struct hr_wire_entry *entry)
{
    const uint64_t *words = (const uint64_t *)(r->data + (size_t)entry->slot * SLOT_BYTES);

    return words[0] == ~words[SLOT_BYTES / 8 - 1] ? words[0] : UINT64_MAX;
}

static void release(struct reader *r, const struct hr_wire_entry *entry)
{
    atomic_store_explicit(&r->page->lease[entry->slot].released, entry->ticket,
                          memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
}

static struct reader reader_of(struct hr_ring *ring, struct hr_ring_consumer *consumer)
{
    uint64_t bytes;

    return (struct reader){.page = consumer->page, .data = hr_ring_base(ring, &bytes)};
}

static uint64_t take_number(struct reader *r, struct hr_wire_entry *entry)
{
    if (!take(r, entry))
        return UINT64_MAX;
    return number_of(r, entry);
}

/* ---- tests in one process ---- */

static void slots_are_released_in_any_order(void **state)
{
    struct hr_ring *ring = make_ring(SLOTS, false);
    int fds[3];
    struct hr_ring_consumer *consumer = attach(ring, fds);
    struct reader r = reader_of(ring, consumer);
    struct hr_wire_entry e[SLOTS], again;
    struct hr_ring_stats stats;

    (void)state;
    for (uint64_t i = 0; i < SLOTS; i++)
        assert_true(publish(ring, i));
    assert_int_equal(hr_ring_acquire(ring), -1);
    for (uint64_t i = 0; i < SLOTS; i++)
        assert_int_equal(take_number(&r, &e[i]), i);
    release(&r, &e[2]);
    assert_int_equal(hr_ring_collect(ring), 1);
    assert_true(publish(ring, 4));
    assert_int_equal(take_number(&r, &again), 4);
    assert_int_equal(again.slot, e[2].slot);
    assert_int_not_equal(again.ticket, e[2].ticket);
    assert_int_equal(number_of(&r, &e[0]), 0);
    assert_int_equal(number_of(&r, &e[3]), 3);
    release(&r, &e[3]);
    release(&r, &e[0]);
    assert_int_equal(hr_ring_collect(ring), 2);
    hr_ring_stats(ring, &stats);
    assert_int_equal(stats.published, 5);
    assert_int_equal(stats.released, 3);
    assert_int_equal(stats.free_slots, 2);
    assert_int_equal(stats.leased, 2);
    assert_int_equal(stats.ready, 0);
    hr_ring_destroy(ring);
}

static void a_stale_ticket_frees_nothing(void **state)
{
    struct hr_ring *ring = make_ring(1, false);
    int fds[3];
    struct reader r = reader_of(ring, attach(ring, fds));
    struct hr_wire_entry first, second;

    (void)state;
    assert_true(publish(ring, 0));
    assert_int_equal(take_number(&r, &first), 0);
    release(&r, &first);
    assert_true(publish(ring, 1));
    assert_int_equal(take_number(&r, &second), 1);
    release(&r, &first);
    assert_int_equal(hr_ring_collect(ring), 0);
    assert_int_equal(hr_ring_acquire(ring), -1);
    hr_ring_destroy(ring);
}

static void detach_reclaims_at_once(void **state)
{
    struct hr_ring *ring = make_ring(SLOTS, false);
    int fds[3];
    struct hr_ring_consumer *consumer = attach(ring, fds);

    (void)state;
    for (uint64_t i = 0; i < SLOTS; i++)
        assert_true(publish(ring, i));
    assert_false(publish(ring, 4));
    hr_ring_detach(ring, consumer);
    assert_int_equal(hr_ring_consumer_count(ring), 0);
    for (uint64_t i = 0; i < SLOTS; i++)
        assert_true(publish(ring, i));
    hr_ring_destroy(ring);
}

static void first_consumer_gets_what_waited(void **state)
{
    struct hr_ring *ring = make_ring(SLOTS, true);
    struct hr_wire_entry e;
    int fds[3];

    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        assert_true(publish(ring, i));
    struct reader a = reader_of(ring, attach(ring, fds));
    struct reader b = reader_of(ring, attach(ring, fds));
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(take_number(&a, &e), i);
    assert_false(take(&b, &e));
    hr_ring_destroy(ring);
}

static void shared_slot_is_free_when_both_released(void **state)
{
    struct hr_ring *ring = make_ring(1, true);
    struct hr_wire_entry ea, eb;
    int fds[3];
    struct reader a = reader_of(ring, attach(ring, fds));
    struct hr_ring_consumer *second = attach(ring, fds);
    struct reader b = reader_of(ring, second);

    (void)state;
    assert_true(publish(ring, 0));
    assert_int_equal(take_number(&a, &ea), 0);
    assert_int_equal(take_number(&b, &eb), 0);
    release(&a, &ea);
    assert_int_equal(hr_ring_collect(ring), 0);
    assert_false(publish(ring, 1));
    release(&b, &eb);
    assert_int_equal(hr_ring_collect(ring), 1);
    assert_true(publish(ring, 1));
    assert_int_equal(take_number(&a, &ea), 1);
    release(&a, &ea);
    assert_false(publish(ring, 2));
    hr_ring_detach(ring, second);
    assert_true(publish(ring, 2));
    hr_ring_destroy(ring);
}

/* ---- replicas that are not at the same place ---- */

static struct hr_ring_consumer *attach_at(struct hr_ring *ring, uint64_t step, struct reader *reader)
{
    struct hr_ring_consumer *consumer = NULL;
    struct hr_error err = HR_ERROR_INIT;
    int fds[3];

    if (hr_ring_attach(ring, (struct hr_ring_position){.step = step}, &consumer, fds, &err) < 0)
        fail_msg("%s", err.text);
    *reader = reader_of(ring, consumer);
    return consumer;
}

static void replica_ahead_gets_nothing_until_it_is_reached(void **state)
{
    struct hr_ring *ring = make_ring(SLOTS, true);
    struct reader a, b;
    struct hr_wire_entry e;

    (void)state;
    attach_at(ring, 0, &a);
    struct hr_ring_consumer *ahead = attach_at(ring, 2, &b);
    assert_false(hr_ring_is_behind(ring, ahead));
    for (uint64_t i = 0; i < 4; i++) {
        assert_true(publish(ring, i));
        assert_int_equal(take_number(&a, &e), i);
        release(&a, &e);
        if (i < 2)
            assert_false(take(&b, &e));
        else
            assert_int_equal(take_number(&b, &e), i);
    }
    hr_ring_destroy(ring);
}

static void replica_behind_gets_nothing_rather_than_a_gap(void **state)
{
    struct hr_ring *ring = make_ring(SLOTS, true);
    struct reader a, b;
    struct hr_wire_entry e;

    (void)state;
    attach_at(ring, 0, &a);
    for (uint64_t i = 0; i < 2; i++)
        assert_true(publish(ring, i));
    struct hr_ring_consumer *late = attach_at(ring, 1, &b);
    assert_true(hr_ring_is_behind(ring, late));
    assert_true(publish(ring, 2));
    assert_false(take(&b, &e));
    hr_ring_flush(ring, (struct hr_ring_position){.step = 1});
    assert_false(hr_ring_is_behind(ring, late));
    hr_ring_destroy(ring);
}

/* A takes one of three; all is taken back; the stream goes back to 0 for B. */
static void recalled_batches_come_again_in_order(void **state)
{
    struct hr_ring *ring = make_ring(3, true);
    struct reader a, b;
    struct hr_wire_entry held, e;
    struct hr_ring_consumer *first = attach_at(ring, 0, &a), *late;

    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        assert_true(publish(ring, i));
    assert_int_equal(take_number(&a, &held), 0);
    assert_false(publish(ring, 3));
    late = attach_at(ring, 0, &b);
    assert_true(hr_ring_is_behind(ring, late));
    int slot = hr_ring_recall(ring, first);
    assert_int_equal(slot, a.page->queue[1].slot);
    assert_int_equal(hr_ring_wanted(ring, first).step, 1);
    assert_int_equal(hr_ring_recall(ring, first), -1);
    hr_ring_flush(ring, (struct hr_ring_position){.step = 0});
    assert_false(take(&a, &e));
    assert_int_equal(a.tail, 3);

    assert_true(publish(ring, 0));
    assert_false(take(&a, &e)); /* it has that one */
    assert_int_equal(take_number(&b, &e), 0);
    release(&b, &e);
    for (uint64_t i = 1; i < 4; i++) {
        assert_true(publish(ring, i));
        assert_int_equal(take_number(&a, &e), i);
        release(&a, &e);
        assert_int_equal(take_number(&b, &e), i);
        release(&b, &e);
    }
    release(&a, &held);
    hr_ring_collect(ring);
    struct hr_ring_stats stats;
    hr_ring_stats(ring, &stats);
    assert_int_equal(stats.free_slots, 3);
    hr_ring_destroy(ring);
}

static void nobody_wants_what_all_have(void **state)
{
    struct hr_ring *ring = make_ring(2, true);
    struct reader a, b;
    struct hr_wire_entry e;
    struct hr_ring_consumer *slow = attach_at(ring, 0, &a);
    struct hr_ring_stats stats;

    (void)state;
    attach_at(ring, 5, &b);
    assert_false(hr_ring_is_unwanted(ring));
    hr_ring_detach(ring, slow);
    assert_true(hr_ring_is_unwanted(ring));
    assert_true(publish(ring, 0)); /* free at once */
    hr_ring_stats(ring, &stats);
    assert_int_equal(stats.free_slots, 2);
    hr_ring_flush(ring, (struct hr_ring_position){.step = 5});
    assert_false(hr_ring_is_unwanted(ring));
    assert_true(publish(ring, 5));
    assert_int_equal(take_number(&b, &e), 5);
    hr_ring_destroy(ring);
}

static void nonsense_in_tail_takes_nothing_back(void **state)
{
    static const uint32_t nonsense[] = {4, 5, 1000, 0x80000000u, UINT32_MAX, UINT32_MAX - 2};
    struct hr_ring_stats stats;

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(nonsense); i++) {
        struct hr_ring *ring = make_ring(3, true);
        struct reader a;
        struct hr_ring_consumer *consumer = attach_at(ring, 0, &a);
        for (uint64_t n = 0; n < 3; n++)
            assert_true(publish(ring, n));
        atomic_store(&a.page->tail, nonsense[i]);
        assert_int_equal(hr_ring_recall(ring, consumer), -1);
        hr_ring_stats(ring, &stats);
        assert_int_equal(stats.free_slots, 0);
        hr_ring_detach(ring, consumer);
        hr_ring_stats(ring, &stats);
        assert_int_equal(stats.free_slots, 3);
        hr_ring_destroy(ring);
    }
}

static void slow_replica_is_found_when_another_starves(void **state)
{
    struct hr_ring *ring = make_ring(2, true);
    struct reader a, b;
    struct hr_wire_entry e;
    struct hr_ring_consumer *slow = attach_at(ring, 0, &a);
    const uint64_t limit_ns = 20 * HR_NS_PER_MS;

    (void)state;
    attach_at(ring, 0, &b);
    for (uint64_t i = 0; i < 2; i++)
        assert_true(publish(ring, i));
    assert_false(publish(ring, 2));
    hr_clock_sleep_ns(2 * limit_ns);
    assert_null(hr_ring_find_slow(ring, limit_ns)); /* neither has taken anything: nobody waits */
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(take_number(&b, &e), i);
        release(&b, &e);
    }
    assert_false(publish(ring, 2));
    assert_null(hr_ring_find_slow(ring, limit_ns)); /* it does not say that it waits */
    atomic_store(&b.page->consumer_waits, 1);
    assert_null(hr_ring_find_slow(ring, limit_ns)); /* not for long */
    hr_clock_sleep_ns(2 * limit_ns);
    assert_ptr_equal(hr_ring_find_slow(ring, limit_ns), slow);
    assert_int_equal(take_number(&a, &e), 0);
    release(&a, &e);
    assert_true(publish(ring, 2));
    assert_null(hr_ring_find_slow(ring, limit_ns));
    hr_ring_destroy(ring);
}

/* Two slots, two replicas, one batch in each one's hands: neither can go on. */
static void the_foremost_is_slow_when_all_hold_and_wait(void **state)
{
    struct hr_ring *ring = make_ring(2, true);
    struct reader a, b;
    struct hr_wire_entry e;
    const uint64_t limit_ns = 10 * HR_NS_PER_MS;
    struct hr_ring_consumer *first = attach_at(ring, 1, &a);

    (void)state;
    hr_ring_flush(ring, (struct hr_ring_position){.step = 1});
    assert_true(publish(ring, 1));
    assert_int_equal(take_number(&a, &e), 1);
    attach_at(ring, 0, &b);
    assert_int_equal(hr_ring_recall(ring, first), -1);
    hr_ring_flush(ring, (struct hr_ring_position){.step = 0});
    assert_true(publish(ring, 0));
    assert_int_equal(take_number(&b, &e), 0);
    assert_false(publish(ring, 1));
    atomic_store(&a.page->consumer_waits, 1);
    atomic_store(&b.page->consumer_waits, 1);
    assert_null(hr_ring_find_slow(ring, limit_ns));
    hr_clock_sleep_ns(2 * limit_ns);
    assert_ptr_equal(hr_ring_find_slow(ring, limit_ns), first);
    hr_ring_destroy(ring);
}

static void exclusive_ring_refuses_a_second_consumer(void **state)
{
    struct hr_ring *ring = make_ring(1, false);
    struct hr_ring_consumer *second = NULL;
    struct hr_error err = HR_ERROR_INIT;
    int fds[3];

    (void)state;
    attach(ring, fds);
    assert_int_equal(hr_ring_attach(ring, (struct hr_ring_position){0, 0}, &second, fds, &err),
                     HR_E_BUSY);
    assert_int_equal(hr_ring_consumer_count(ring), 1);
    hr_ring_destroy(ring);
}

static void flush_starts_a_new_generation(void **state)
{
    struct hr_ring *ring = make_ring(SLOTS, false);
    struct hr_wire_entry held, old, fresh;
    int fds[3];

    (void)state;
    assert_true(publish(ring, 90));
    hr_ring_flush(ring, (struct hr_ring_position){0, 0}); /* nobody had it: thrown away */
    struct hr_ring_consumer *consumer = attach(ring, fds);
    struct reader r = reader_of(ring, consumer);
    assert_false(take(&r, &old));
    assert_true(publish(ring, 0));
    assert_true(publish(ring, 1));
    assert_int_equal(take_number(&r, &held), 0);
    hr_ring_close_consumer(consumer, HR_E_END);
    assert_int_equal(atomic_load(&r.page->closed), -HR_E_END);
    uint32_t generation = hr_ring_flush(ring, (struct hr_ring_position){0, 0});
    assert_int_equal(generation, hr_ring_generation(ring));
    assert_int_equal(atomic_load(&r.page->closed), 0);
    assert_true(publish(ring, 2));
    assert_int_equal(number_of(&r, &held), 0);
    assert_true(take(&r, &old));
    assert_int_not_equal(old.generation, generation);
    release(&r, &old);
    assert_int_equal(take_number(&r, &fresh), 2);
    assert_int_equal(fresh.generation, generation);
    hr_ring_destroy(ring);
}

static void producer_asks_to_be_woken(void **state)
{
    struct hr_ring *ring = make_ring(1, false);
    struct hr_wire_entry e;
    struct hr_ring_stats stats;
    int fds[3];
    struct hr_ring_consumer *consumer = attach(ring, fds);
    struct reader r = reader_of(ring, consumer);
    uint64_t one = 1, count;

    (void)state;
    assert_true(publish(ring, 0));
    assert_int_equal(atomic_load(&r.page->producer_waits), 0);
    assert_false(publish(ring, 1));
    assert_int_equal(atomic_load(&r.page->producer_waits), 1);
    usleep(2000);
    assert_int_equal(take_number(&r, &e), 0);
    release(&r, &e);
    assert_int_equal(write(hr_ring_consumer_wake_fd(consumer), &one, 8), 8);
    assert_int_equal(hr_ring_collect(ring), 1);
    assert_int_equal(read(fds[2], &count, 8), -1); /* collect emptied it */
    assert_true(publish(ring, 1));
    assert_int_equal(atomic_load(&r.page->producer_waits), 0);
    hr_ring_stats(ring, &stats);
    assert_true(stats.producer_wait_ns >= 2 * HR_NS_PER_MS);
    assert_int_equal(atomic_load(&r.page->producer_wait_ns), stats.producer_wait_ns);
    hr_ring_destroy(ring);
}

static void collect_does_not_block_on_a_blocking_eventfd(void **state)
{
    struct hr_ring *ring = make_ring(1, false);
    int fds[3];

    (void)state;
    attach(ring, fds);
    assert_int_equal(fcntl(fds[2], F_SETFL, 0), 0);
    alarm(5);
    hr_ring_collect(ring);
    alarm(0);
    hr_ring_destroy(ring);
}

static void specs_out_of_range_are_refused(void **state)
{
    static const struct hr_ring_spec bad[] = {
        {"x", 0, 4096, false},
        {"x", HR_WIRE_MAX_SLOTS + 1, 4096, false},
        {"x", 4, 0, false},
        {"x", 4, UINT64_MAX, false},
        {"x", 256, UINT64_MAX / 200, false},
    };
    struct hr_ring *ring = NULL;

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(bad); i++) {
        struct hr_error err = HR_ERROR_INIT;
        assert_int_equal(hr_ring_create(&bad[i], &ring, &err), HR_E_CONFIG);
        assert_null(ring);
    }
}

static void slab_is_aligned_sealed_and_present(void **state)
{
    struct hr_ring *ring = make_ring(SLOTS, false);
    unsigned char resident[SLOTS];
    uint64_t bytes;
    int fds[3];

    (void)state;
    attach(ring, fds);
    uint8_t *base = hr_ring_base(ring, &bytes);
    assert_int_equal((uintptr_t)base % (2u << 20), 0);
    assert_int_equal(bytes, SLOTS * SLOT_BYTES);
    assert_int_equal(hr_ring_slot_bytes(ring), SLOT_BYTES);
    assert_int_equal(mincore(base, bytes, resident), 0);
    for (int i = 0; i < SLOTS; i++)
        assert_int_equal(resident[i] & 1, 1);
    assert_int_equal(ftruncate(fds[0], 0), -1);
    assert_int_equal(ftruncate(fds[1], 1 << 20), -1);
    assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    hr_ring_destroy(ring);
}

static void shared_ring_cannot_be_mapped_writable(void **state)
{
    struct hr_ring *ring = make_ring(SLOTS, true);
    char path[64];
    int fds[3];

    (void)state;
    attach(ring, fds);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0), MAP_FAILED);
    void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fds[0], 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(mprotect(p, 4096, PROT_READ | PROT_WRITE), -1);
    munmap(p, 4096);
    /* Not by opening it once more either, whoever we are. */
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
    int again = open(path, O_RDWR | O_CLOEXEC);
    if (again >= 0) {
        assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
        assert_int_equal(pwrite(again, "x", 1, 0), -1);
        close(again);
    }
    assert_true(publish(ring, 1));
    hr_ring_destroy(ring);
}

/* ---- garbage ---- */

/* Every byte of a replica's page takes strange values while the ring works; the other replica must
 * get every number in order. */
static void garbage_hurts_nobody_else(void **state)
{
    struct hr_ring *ring = make_ring(SLOTS, true);
    struct hr_ring_stats stats;
    struct hr_wire_entry e;
    struct hr_rng rng;
    uint64_t sent = 0, got = 0;
    int fds[3];
    struct reader good = reader_of(ring, attach(ring, fds));
    struct hr_ring_consumer *bad = attach(ring, fds);

    (void)state;
    hr_rng_init(&rng, 7, 0, 0, 0);
    for (size_t off = 0; off < sizeof(struct hr_wire_control); off++) {
        static const uint8_t values[] = {0xff, 0x00, 0x80, 0x01};
        volatile uint8_t *byte = (volatile uint8_t *)bad->page + off;
        *byte = off & 4 ? values[off & 3] : (uint8_t)hr_rng_u32(&rng);
        if (!publish(ring, sent)) { /* the bad one keeps everything: throw it out */
            hr_ring_detach(ring, bad);
            bad = attach(ring, fds);
            assert_true(publish(ring, sent));
        }
        sent++;
        hr_ring_stats(ring, &stats);
        assert_true(stats.ready + stats.leased + stats.free_slots + stats.acquired_slots == SLOTS);
        assert_true(stats.consumer_wait_ns < 60 * HR_NS_PER_S);
        assert_int_equal(take_number(&good, &e), got);
        got++;
        hr_ring_collect(ring);
        assert_int_equal(number_of(&good, &e), got - 1); /* still ours */
        release(&good, &e);
    }
    assert_int_equal(got, sizeof(struct hr_wire_control));
    hr_ring_destroy(ring);
}

/* ---- a second process ---- */

enum { PEER_DATA_FD = 20, PEER_CONTROL_FD, PEER_WAKE_FD, PEER_NUMBERS = 2000 };

static int peer_fail(const char *what)
{
    fprintf(stderr, "peer: %s\n", what);
    return 1;
}

/* Takes every number in order, always holding two batches and releasing the newer one first. */
static int peer_drain(struct reader *r)
{
    struct hr_wire_entry pair[2];
    int held = 0;

    for (uint64_t next = 0; next < PEER_NUMBERS;) {
        uint32_t seen = atomic_load_explicit(&r->page->head, memory_order_acquire);
        if (seen == r->tail) {
            atomic_store_explicit(&r->page->consumer_waits, 1, memory_order_seq_cst);
            hr_futex_wait(&r->page->head, seen, hr_clock_ns() + HR_NS_PER_S, true);
            atomic_store_explicit(&r->page->consumer_waits, 0, memory_order_relaxed);
            continue;
        }
        take(r, &pair[held]);
        if (number_of(r, &pair[held++]) != next++)
            return peer_fail("wrong number");
        while (held == 2 || (held && next == PEER_NUMBERS)) {
            release(r, &pair[--held]);
            uint64_t one = 1;
            if (atomic_load_explicit(&r->page->producer_waits, memory_order_relaxed) &&
                write(PEER_WAKE_FD, &one, 8) != 8)
                return peer_fail("cannot wake");
        }
    }
    return 0;
}

static void peer_scribble(struct reader *r)
{
    uint32_t *words = (uint32_t *)r->page;
    struct hr_rng rng;

    hr_rng_init(&rng, (uint64_t)getpid(), 0, 0, 0);
    for (;;) /* until killed */
        for (size_t i = 0; i < sizeof(*r->page) / 4; i++)
            ((volatile uint32_t *)words)[i] = hr_rng_u32(&rng) >> (hr_rng_u32(&rng) & 31);
}

static int peer_main(const char *mode)
{
    struct stat st;

    if (fstat(PEER_DATA_FD, &st) < 0)
        return peer_fail("no data");
    struct reader r = {
        .data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, PEER_DATA_FD, 0),
        .page = mmap(NULL, sizeof(struct hr_wire_control), PROT_READ | PROT_WRITE, MAP_SHARED,
                     PEER_CONTROL_FD, 0),
    };
    if (r.data == MAP_FAILED || r.page == MAP_FAILED || r.page->magic != HR_WIRE_CONTROL_MAGIC)
        return peer_fail("cannot map");
    if (strcmp(mode, "drain") == 0)
        return peer_drain(&r);
    peer_scribble(&r);
    return 1;
}

static pid_t start_peer(const char *mode, const int fds[3])
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        for (int i = 0; i < 3; i++)
            dup2(fds[i], PEER_DATA_FD + i);
        execl("/proc/self/exe", "test_ring", "peer", mode, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void another_process_gets_everything_in_order(void **state)
{
    struct hr_ring *ring = make_ring(3, false);
    int fds[3], status;
    struct hr_ring_consumer *consumer = attach(ring, fds);
    pid_t pid = start_peer("drain", fds);

    (void)state;
    alarm(60);
    for (uint64_t i = 0; i < PEER_NUMBERS;) {
        if (publish(ring, i))
            i++;
        else
            sched_yield();
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(hr_ring_collect(ring) > 0, 1);
    hr_ring_detach(ring, consumer);
    alarm(0);
    hr_ring_destroy(ring);
}

static void another_process_scribbles(void **state)
{
    struct hr_ring *ring = make_ring(SLOTS, true);
    struct hr_ring_stats stats;
    struct hr_wire_entry e;
    int good_fds[3], fds[3];
    struct reader good = reader_of(ring, attach(ring, good_fds));
    struct hr_ring_consumer *bad = attach(ring, fds);
    pid_t pid = start_peer("scribble", fds);

    (void)state;
    alarm(60);
    usleep(20000);
    for (uint64_t i = 0; i < 3000; i++) {
        if (!publish(ring, i)) {
            hr_ring_detach(ring, bad);
            bad = attach(ring, fds);
            if (i % 8 == 0) {
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
                pid = start_peer("scribble", fds);
            }
            assert_true(publish(ring, i));
        }
        hr_ring_stats(ring, &stats);
        assert_true(stats.ready + stats.leased + stats.free_slots == SLOTS);
        assert_int_equal(take_number(&good, &e), i);
        hr_ring_collect(ring);
        assert_int_equal(number_of(&good, &e), i);
        release(&good, &e);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    alarm(0);
    hr_ring_destroy(ring);
}

/* ---- threads (for the thread sanitizer: all through one mapping) ---- */

enum { THREAD_NUMBERS = 20000 };

static void *consume(void *arg)
{
    struct reader *r = arg;
    struct hr_wire_entry e;

    for (uint64_t next = 0; next < THREAD_NUMBERS;) {
        if (!take(r, &e)) {
            uint32_t seen = r->tail;
            atomic_store_explicit(&r->page->consumer_waits, 1, memory_order_relaxed);
            atomic_thread_fence(memory_order_seq_cst);
            hr_futex_wait(&r->page->head, seen, hr_clock_ns() + HR_NS_PER_S, true);
            atomic_store_explicit(&r->page->consumer_waits, 0, memory_order_relaxed);
            continue;
        }
        if (number_of(r, &e) != next++)
            return arg;
        release(r, &e);
    }
    return NULL;
}

static void *watch(void *arg)
{
    struct hr_ring_stats stats;

    do {
        hr_ring_stats(arg, &stats);
        hr_ring_collect(arg);
        sched_yield();
    } while (stats.published < THREAD_NUMBERS);
    return NULL;
}

static void threads_share_a_ring(void **state)
{
    struct hr_ring *ring = make_ring(3, true);
    pthread_t consumers[2], watcher;
    struct reader readers[2];
    int fds[3];

    (void)state;
    for (int i = 0; i < 2; i++)
        readers[i] = reader_of(ring, attach(ring, fds));
    for (int i = 0; i < 2; i++)
        pthread_create(&consumers[i], NULL, consume, &readers[i]);
    pthread_create(&watcher, NULL, watch, ring);
    for (uint64_t i = 0; i < THREAD_NUMBERS;) {
        if (publish(ring, i))
            i++;
        else
            sched_yield();
    }
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(consumers[i], &wrong);
        assert_null(wrong);
    }
    pthread_join(watcher, NULL);
    hr_ring_destroy(ring);
}

/* While both take, what they have not taken yet is taken back, over and over. */
static void recalls_and_takes_lose_nothing(void **state)
{
    struct hr_ring *ring = make_ring(4, true);
    struct hr_ring_consumer *consumers[2];
    pthread_t threads[2];
    struct reader readers[2];
    uint64_t recalled = 0;

    (void)state;
    for (int i = 0; i < 2; i++)
        consumers[i] = attach_at(ring, 0, &readers[i]);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, consume, &readers[i]);
    for (uint64_t n = 0, round = 1; n < THREAD_NUMBERS; round++) {
        if (publish(ring, n))
            n++;
        else
            sched_yield();
        if (round % 5)
            continue;
        for (int i = 0; i < 2; i++) {
            recalled += hr_ring_recall(ring, consumers[i]) >= 0;
            n = hr_min_u64(n, hr_ring_wanted(ring, consumers[i]).step);
        }
        hr_ring_flush(ring, (struct hr_ring_position){.step = n});
    }
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_true(recalled > 100);
    hr_ring_destroy(ring);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_released_in_any_order),
        cmocka_unit_test(a_stale_ticket_frees_nothing),
        cmocka_unit_test(detach_reclaims_at_once),
        cmocka_unit_test(first_consumer_gets_what_waited),
        cmocka_unit_test(shared_slot_is_free_when_both_released),
        cmocka_unit_test(replica_ahead_gets_nothing_until_it_is_reached),
        cmocka_unit_test(replica_behind_gets_nothing_rather_than_a_gap),
        cmocka_unit_test(recalled_batches_come_again_in_order),
        cmocka_unit_test(nobody_wants_what_all_have),
        cmocka_unit_test(nonsense_in_tail_takes_nothing_back),
        cmocka_unit_test(slow_replica_is_found_when_another_starves),
        cmocka_unit_test(the_foremost_is_slow_when_all_hold_and_wait),
        cmocka_unit_test(exclusive_ring_refuses_a_second_consumer),
        cmocka_unit_test(flush_starts_a_new_generation),
        cmocka_unit_test(producer_asks_to_be_woken),
        cmocka_unit_test(collect_does_not_block_on_a_blocking_eventfd),
        cmocka_unit_test(specs_out_of_range_are_refused),
        cmocka_unit_test(slab_is_aligned_sealed_and_present),
        cmocka_unit_test(shared_ring_cannot_be_mapped_writable),
        cmocka_unit_test(garbage_hurts_nobody_else),
        cmocka_unit_test(another_process_gets_everything_in_order),
        cmocka_unit_test(another_process_scribbles),
        cmocka_unit_test(threads_share_a_ring),
        cmocka_unit_test(recalls_and_takes_lose_nothing),
    };

    if (argc == 3 && strcmp(argv[1], "peer") == 0)
        return peer_main(argv[2]);
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
