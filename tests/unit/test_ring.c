/* ring: slots and leases, waking, and what the slab may not do, in one process. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "ring/consumer.h"
#include "ring/ring.h"
#include "small_reader.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static void slots_are_released_in_any_order(void **state)
{
    struct hr_ring *ring = ring_make(SLOTS, false);
    int fds[3];
    struct hr_ring_consumer *consumer = ring_attach(ring, fds);
    struct reader r = reader_of(ring, consumer);
    struct hr_wire_entry e[SLOTS], again;
    struct hr_ring_stats stats;

    (void)state;
    for (uint64_t i = 0; i < SLOTS; i++)
        assert_true(ring_publish(ring, i));
    assert_int_equal(hr_ring_acquire(ring), -1);
    for (uint64_t i = 0; i < SLOTS; i++)
        assert_int_equal(reader_take_number(&r, &e[i]), i);
    reader_release(&r, &e[2]);
    assert_int_equal(hr_ring_collect(ring), 1);
    assert_true(ring_publish(ring, 4));
    assert_int_equal(reader_take_number(&r, &again), 4);
    assert_int_equal(again.slot, e[2].slot);
    assert_int_not_equal(again.ticket, e[2].ticket);
    assert_int_equal(reader_number(&r, &e[0]), 0);
    assert_int_equal(reader_number(&r, &e[3]), 3);
    reader_release(&r, &e[3]);
    reader_release(&r, &e[0]);
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
    struct hr_ring *ring = ring_make(1, false);
    int fds[3];
    struct reader r = reader_of(ring, ring_attach(ring, fds));
    struct hr_wire_entry first, second;

    (void)state;
    assert_true(ring_publish(ring, 0));
    assert_int_equal(reader_take_number(&r, &first), 0);
    reader_release(&r, &first);
    assert_true(ring_publish(ring, 1));
    assert_int_equal(reader_take_number(&r, &second), 1);
    reader_release(&r, &first);
    assert_int_equal(hr_ring_collect(ring), 0);
    assert_int_equal(hr_ring_acquire(ring), -1);
    hr_ring_destroy(ring);
}

static void detach_reclaims_at_once(void **state)
{
    struct hr_ring *ring = ring_make(SLOTS, false);
    int fds[3];
    struct hr_ring_consumer *consumer = ring_attach(ring, fds);

    (void)state;
    for (uint64_t i = 0; i < SLOTS; i++)
        assert_true(ring_publish(ring, i));
    assert_false(ring_publish(ring, 4));
    hr_ring_detach(ring, consumer);
    assert_int_equal(hr_ring_consumer_count(ring), 0);
    for (uint64_t i = 0; i < SLOTS; i++)
        assert_true(ring_publish(ring, i));
    hr_ring_destroy(ring);
}

static void first_consumer_gets_what_waited(void **state)
{
    struct hr_ring *ring = ring_make(SLOTS, true);
    struct hr_wire_entry e;
    int fds[3];

    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        assert_true(ring_publish(ring, i));
    struct reader a = reader_of(ring, ring_attach(ring, fds));
    struct reader b = reader_of(ring, ring_attach(ring, fds));
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(reader_take_number(&a, &e), i);
    assert_false(reader_take(&b, &e));
    hr_ring_destroy(ring);
}

static void shared_slot_is_free_when_both_released(void **state)
{
    struct hr_ring *ring = ring_make(1, true);
    struct hr_wire_entry ea, eb;
    int fds[3];
    struct reader a = reader_of(ring, ring_attach(ring, fds));
    struct hr_ring_consumer *second = ring_attach(ring, fds);
    struct reader b = reader_of(ring, second);

    (void)state;
    assert_true(ring_publish(ring, 0));
    assert_int_equal(reader_take_number(&a, &ea), 0);
    assert_int_equal(reader_take_number(&b, &eb), 0);
    reader_release(&a, &ea);
    assert_int_equal(hr_ring_collect(ring), 0);
    assert_false(ring_publish(ring, 1));
    reader_release(&b, &eb);
    assert_int_equal(hr_ring_collect(ring), 1);
    assert_true(ring_publish(ring, 1));
    assert_int_equal(reader_take_number(&a, &ea), 1);
    reader_release(&a, &ea);
    assert_false(ring_publish(ring, 2));
    hr_ring_detach(ring, second);
    assert_true(ring_publish(ring, 2));
    hr_ring_destroy(ring);
}

static void exclusive_ring_refuses_a_second_consumer(void **state)
{
    struct hr_ring *ring = ring_make(1, false);
    struct hr_ring_consumer *second = NULL;
    struct hr_error err = HR_ERROR_INIT;
    int fds[3];

    (void)state;
    ring_attach(ring, fds);
    assert_int_equal(hr_ring_attach(ring, (struct hr_ring_position){0, 0}, &second, fds, &err),
                     HR_E_BUSY);
    assert_int_equal(hr_ring_consumer_count(ring), 1);
    hr_ring_destroy(ring);
}

static void flush_starts_a_new_generation(void **state)
{
    struct hr_ring *ring = ring_make(SLOTS, false);
    struct hr_wire_entry held, old, fresh;
    int fds[3];

    (void)state;
    assert_true(ring_publish(ring, 90));
    hr_ring_flush(ring, (struct hr_ring_position){0, 0}); /* nobody had it: thrown away */
    struct hr_ring_consumer *consumer = ring_attach(ring, fds);
    struct reader r = reader_of(ring, consumer);
    assert_false(reader_take(&r, &old));
    assert_true(ring_publish(ring, 0));
    assert_true(ring_publish(ring, 1));
    assert_int_equal(reader_take_number(&r, &held), 0);
    hr_ring_close_consumer(consumer, HR_E_END);
    assert_int_equal(atomic_load(&r.page->closed), -HR_E_END);
    uint32_t generation = hr_ring_flush(ring, (struct hr_ring_position){0, 0});
    assert_int_equal(generation, hr_ring_generation(ring));
    assert_int_equal(atomic_load(&r.page->closed), 0);
    assert_true(ring_publish(ring, 2));
    assert_int_equal(reader_number(&r, &held), 0);
    assert_true(reader_take(&r, &old));
    assert_int_not_equal(old.generation, generation);
    reader_release(&r, &old);
    assert_int_equal(reader_take_number(&r, &fresh), 2);
    assert_int_equal(fresh.generation, generation);
    hr_ring_destroy(ring);
}

/* It wanted what follows the batch that it has; a flush says otherwise, with nothing else asked. */
static void a_lone_consumer_goes_where_a_flush_begins(void **state)
{
    struct hr_ring *ring = ring_make(SLOTS, false);
    struct hr_wire_entry e;
    int fds[3];
    struct hr_ring_consumer *consumer = ring_attach(ring, fds);
    struct reader r = reader_of(ring, consumer);

    (void)state;
    assert_true(ring_publish(ring, 5));
    assert_int_equal(reader_take_number(&r, &e), 5);
    hr_ring_flush(ring, (struct hr_ring_position){.step = 2});
    assert_false(hr_ring_is_behind(ring, consumer));
    assert_true(ring_publish(ring, 2));
    assert_int_equal(reader_take_number(&r, &e), 2);
    hr_ring_flush(ring, (struct hr_ring_position){.step = 9});
    assert_true(ring_publish(ring, 9));
    assert_int_equal(reader_take_number(&r, &e), 9);
    hr_ring_destroy(ring);
}

static void producer_asks_to_be_woken(void **state)
{
    struct hr_ring *ring = ring_make(1, false);
    struct hr_wire_entry e;
    struct hr_ring_stats stats;
    int fds[3];
    struct hr_ring_consumer *consumer = ring_attach(ring, fds);
    struct reader r = reader_of(ring, consumer);
    uint64_t one = 1, count;

    (void)state;
    assert_true(ring_publish(ring, 0));
    assert_int_equal(atomic_load(&r.page->producer_waits), 0);
    assert_false(ring_publish(ring, 1));
    assert_int_equal(atomic_load(&r.page->producer_waits), 1);
    usleep(2000);
    assert_int_equal(reader_take_number(&r, &e), 0);
    reader_release(&r, &e);
    assert_int_equal(write(hr_ring_consumer_wake_fd(consumer), &one, 8), 8);
    assert_int_equal(hr_ring_collect(ring), 1);
    assert_int_equal(read(fds[2], &count, 8), -1); /* collect emptied it */
    assert_true(ring_publish(ring, 1));
    assert_int_equal(atomic_load(&r.page->producer_waits), 0);
    hr_ring_stats(ring, &stats);
    assert_true(stats.producer_wait_ns >= 2 * HR_NS_PER_MS);
    assert_int_equal(atomic_load(&r.page->producer_wait_ns), stats.producer_wait_ns);
    hr_ring_destroy(ring);
}

static void collect_does_not_block_on_a_blocking_eventfd(void **state)
{
    struct hr_ring *ring = ring_make(1, false);
    int fds[3];

    (void)state;
    ring_attach(ring, fds);
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

/* An emulator may say yes to the advice and do nothing. */
static bool memory_can_be_filled(void)
{
    unsigned char resident = 0;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(page != MAP_FAILED);
    bool advised = madvise(page, 4096, MADV_POPULATE_WRITE) == 0;
    assert_int_equal(mincore(page, 4096, &resident), 0);
    munmap(page, 4096);
    if (advised && !(resident & 1))
        print_message("not looked at whether the ring's memory is present: this system ignores MADV_POPULATE_WRITE\n");
    return !advised || (resident & 1); /* where it is refused, the ring touches its pages itself */
}

static void slab_is_aligned_sealed_and_present(void **state)
{
    struct hr_ring *ring = ring_make(SLOTS, false);
    unsigned char resident[SLOTS];
    uint64_t bytes;
    int fds[3];

    (void)state;
    ring_attach(ring, fds);
    uint8_t *base = hr_ring_base(ring, &bytes);
    assert_int_equal((uintptr_t)base % (2u << 20), 0);
    assert_int_equal(bytes, SLOTS * SLOT_BYTES);
    assert_int_equal(hr_ring_slot_bytes(ring), SLOT_BYTES);
    if (memory_can_be_filled()) {
        assert_int_equal(mincore(base, bytes, resident), 0);
        for (int i = 0; i < SLOTS; i++)
            assert_int_equal(resident[i] & 1, 1);
    }
    assert_int_equal(ftruncate(fds[0], 0), -1);
    assert_int_equal(ftruncate(fds[1], 1 << 20), -1);
    assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    hr_ring_destroy(ring);
}

static void shared_ring_cannot_be_mapped_writable(void **state)
{
    struct hr_ring *ring = ring_make(SLOTS, true);
    char path[64];
    int fds[3];

    (void)state;
    ring_attach(ring, fds);
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
    assert_true(ring_publish(ring, 1));
    hr_ring_destroy(ring);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_released_in_any_order),
        cmocka_unit_test(a_stale_ticket_frees_nothing),
        cmocka_unit_test(detach_reclaims_at_once),
        cmocka_unit_test(first_consumer_gets_what_waited),
        cmocka_unit_test(shared_slot_is_free_when_both_released),
        cmocka_unit_test(exclusive_ring_refuses_a_second_consumer),
        cmocka_unit_test(flush_starts_a_new_generation),
        cmocka_unit_test(a_lone_consumer_goes_where_a_flush_begins),
        cmocka_unit_test(producer_asks_to_be_woken),
        cmocka_unit_test(collect_does_not_block_on_a_blocking_eventfd),
        cmocka_unit_test(specs_out_of_range_are_refused),
        cmocka_unit_test(slab_is_aligned_sealed_and_present),
        cmocka_unit_test(shared_ring_cannot_be_mapped_writable),
    };

    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
