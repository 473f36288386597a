/* ring: several trainers of one stream that are not at the same place, and what is taken back from them. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "ring/consumer.h"
#include "ring/ring.h"
#include "small_reader.h"

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
    struct hr_ring *ring = ring_make(SLOTS, true);
    struct reader a, b;
    struct hr_wire_entry e;

    (void)state;
    attach_at(ring, 0, &a);
    struct hr_ring_consumer *ahead = attach_at(ring, 2, &b);
    assert_false(hr_ring_is_behind(ring, ahead));
    for (uint64_t i = 0; i < 4; i++) {
        assert_true(ring_publish(ring, i));
        assert_int_equal(reader_take_number(&a, &e), i);
        reader_release(&a, &e);
        if (i < 2)
            assert_false(reader_take(&b, &e));
        else
            assert_int_equal(reader_take_number(&b, &e), i);
    }
    hr_ring_destroy(ring);
}

static void replica_behind_gets_nothing_rather_than_a_gap(void **state)
{
    struct hr_ring *ring = ring_make(SLOTS, true);
    struct reader a, b;
    struct hr_wire_entry e;

    (void)state;
    attach_at(ring, 0, &a);
    for (uint64_t i = 0; i < 2; i++)
        assert_true(ring_publish(ring, i));
    struct hr_ring_consumer *late = attach_at(ring, 1, &b);
    assert_true(hr_ring_is_behind(ring, late));
    assert_true(ring_publish(ring, 2));
    assert_false(reader_take(&b, &e));
    hr_ring_flush(ring, (struct hr_ring_position){.step = 1});
    assert_false(hr_ring_is_behind(ring, late));
    hr_ring_destroy(ring);
}

/* A takes one of three; all is taken back; the stream goes back to 0 for B. */
static void recalled_batches_come_again_in_order(void **state)
{
    struct hr_ring *ring = ring_make(3, true);
    struct reader a, b;
    struct hr_wire_entry held, e;
    struct hr_ring_consumer *first = attach_at(ring, 0, &a), *late;

    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        assert_true(ring_publish(ring, i));
    assert_int_equal(reader_take_number(&a, &held), 0);
    assert_false(ring_publish(ring, 3));
    late = attach_at(ring, 0, &b);
    assert_true(hr_ring_is_behind(ring, late));
    int slot = hr_ring_recall(ring, first);
    assert_int_equal(slot, a.page->queue[1].slot);
    assert_int_equal(hr_ring_wanted(ring, first).step, 1);
    assert_int_equal(hr_ring_recall(ring, first), -1);
    hr_ring_flush(ring, (struct hr_ring_position){.step = 0});
    assert_false(reader_take(&a, &e));
    assert_int_equal(a.tail, 3);

    assert_true(ring_publish(ring, 0));
    assert_false(reader_take(&a, &e)); /* it has that one */
    assert_int_equal(reader_take_number(&b, &e), 0);
    reader_release(&b, &e);
    for (uint64_t i = 1; i < 4; i++) {
        assert_true(ring_publish(ring, i));
        assert_int_equal(reader_take_number(&a, &e), i);
        reader_release(&a, &e);
        assert_int_equal(reader_take_number(&b, &e), i);
        reader_release(&b, &e);
    }
    reader_release(&a, &held);
    hr_ring_collect(ring);
    struct hr_ring_stats stats;
    hr_ring_stats(ring, &stats);
    assert_int_equal(stats.free_slots, 3);
    hr_ring_destroy(ring);
}

static void nobody_wants_what_all_have(void **state)
{
    struct hr_ring *ring = ring_make(2, true);
    struct reader a, b;
    struct hr_wire_entry e;
    struct hr_ring_consumer *slow = attach_at(ring, 0, &a);
    struct hr_ring_stats stats;

    (void)state;
    attach_at(ring, 5, &b);
    assert_false(hr_ring_is_unwanted(ring));
    hr_ring_detach(ring, slow);
    assert_true(hr_ring_is_unwanted(ring));
    assert_true(ring_publish(ring, 0)); /* free at once */
    hr_ring_stats(ring, &stats);
    assert_int_equal(stats.free_slots, 2);
    hr_ring_flush(ring, (struct hr_ring_position){.step = 5});
    assert_false(hr_ring_is_unwanted(ring));
    assert_true(ring_publish(ring, 5));
    assert_int_equal(reader_take_number(&b, &e), 5);
    hr_ring_destroy(ring);
}

static void nonsense_in_tail_takes_nothing_back(void **state)
{
    static const uint32_t nonsense[] = {4, 5, 1000, 0x80000000u, UINT32_MAX, UINT32_MAX - 2};
    struct hr_ring_stats stats;

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(nonsense); i++) {
        struct hr_ring *ring = ring_make(3, true);
        struct reader a;
        struct hr_ring_consumer *consumer = attach_at(ring, 0, &a);
        for (uint64_t n = 0; n < 3; n++)
            assert_true(ring_publish(ring, n));
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
    struct hr_ring *ring = ring_make(2, true);
    struct reader a, b;
    struct hr_wire_entry e;
    struct hr_ring_consumer *slow = attach_at(ring, 0, &a);
    const uint64_t limit_ns = 20 * HR_NS_PER_MS;

    (void)state;
    attach_at(ring, 0, &b);
    for (uint64_t i = 0; i < 2; i++)
        assert_true(ring_publish(ring, i));
    assert_false(ring_publish(ring, 2));
    hr_clock_sleep_ns(2 * limit_ns);
    assert_null(hr_ring_find_slow(ring, limit_ns)); /* neither has taken anything: nobody waits */
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(reader_take_number(&b, &e), i);
        reader_release(&b, &e);
    }
    assert_false(ring_publish(ring, 2));
    assert_null(hr_ring_find_slow(ring, limit_ns)); /* it does not say that it waits */
    atomic_store(&b.page->consumer_waits, 1);
    assert_null(hr_ring_find_slow(ring, limit_ns)); /* not for long */
    hr_clock_sleep_ns(2 * limit_ns);
    assert_ptr_equal(hr_ring_find_slow(ring, limit_ns), slow);
    assert_int_equal(reader_take_number(&a, &e), 0);
    reader_release(&a, &e);
    assert_true(ring_publish(ring, 2));
    assert_null(hr_ring_find_slow(ring, limit_ns));
    hr_ring_destroy(ring);
}

/* Two slots, two replicas, one batch in each one's hands: neither can go on. */
static void the_foremost_is_slow_when_all_hold_and_wait(void **state)
{
    struct hr_ring *ring = ring_make(2, true);
    struct reader a, b;
    struct hr_wire_entry e;
    const uint64_t limit_ns = 10 * HR_NS_PER_MS;
    struct hr_ring_consumer *first = attach_at(ring, 1, &a);

    (void)state;
    hr_ring_flush(ring, (struct hr_ring_position){.step = 1});
    assert_true(ring_publish(ring, 1));
    assert_int_equal(reader_take_number(&a, &e), 1);
    attach_at(ring, 0, &b);
    assert_int_equal(hr_ring_recall(ring, first), -1);
    hr_ring_flush(ring, (struct hr_ring_position){.step = 0});
    assert_true(ring_publish(ring, 0));
    assert_int_equal(reader_take_number(&b, &e), 0);
    assert_false(ring_publish(ring, 1));
    atomic_store(&a.page->consumer_waits, 1);
    atomic_store(&b.page->consumer_waits, 1);
    assert_null(hr_ring_find_slow(ring, limit_ns));
    hr_clock_sleep_ns(2 * limit_ns);
    assert_ptr_equal(hr_ring_find_slow(ring, limit_ns), first);
    hr_ring_destroy(ring);
}

/* While both take, what they have not taken yet is taken back, over and over. */
static void recalls_and_takes_lose_nothing(void **state)
{
    struct hr_ring *ring = ring_make(4, true);
    struct hr_ring_consumer *consumers[2];
    pthread_t threads[2];
    struct reader readers[2];
    uint64_t recalled = 0;

    (void)state;
    for (int i = 0; i < 2; i++)
        consumers[i] = attach_at(ring, 0, &readers[i]);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, reader_consume, &readers[i]);
    for (uint64_t n = 0, round = 1; n < CONSUME_NUMBERS; round++) {
        if (ring_publish(ring, n))
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(replica_ahead_gets_nothing_until_it_is_reached),
        cmocka_unit_test(replica_behind_gets_nothing_rather_than_a_gap),
        cmocka_unit_test(recalled_batches_come_again_in_order),
        cmocka_unit_test(nobody_wants_what_all_have),
        cmocka_unit_test(nonsense_in_tail_takes_nothing_back),
        cmocka_unit_test(slow_replica_is_found_when_another_starves),
        cmocka_unit_test(the_foremost_is_slow_when_all_hold_and_wait),
        cmocka_unit_test(recalls_and_takes_lose_nothing),
    };

    return cmocka_run_group_tests_name("ring_replicas", tests, NULL, NULL);
}
