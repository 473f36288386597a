/* Bytes in flight: buffers cut from a ring whose used part changes, the wake of a reader thread that waits for room,
 * and how the window grows and shrinks. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/clock.h"
#include "pipeline/iobuf.h"
#include "pipeline/window.h"

enum { ARENA = 1 << 20, ENTRIES = 64, KIB = 1024 };

static struct hr_iobufs make_bufs(void)
{
    struct hr_iobufs bufs;

    assert_int_equal(hr_iobufs_init(&bufs, ARENA, 0, ENTRIES), 0);
    return bufs;
}

static struct hr_iobuf *take(struct hr_iobufs *bufs, uint64_t bytes)
{
    struct hr_iobufs_probe probe;

    hr_iobufs_probe_begin(bufs, &probe, false);
    return hr_iobufs_probe_add(bufs, &probe, bytes, 64) ? hr_iobufs_take(bufs, bytes, 64, 1) : NULL;
}

/* ---- the ring ---- */

/* Live buffers by a model of their own: no two share a byte, all lie in the arena, and together they are no more than
 * the widest window since the ring was last empty. */
static void buffers_do_not_overlap_while_the_window_changes(void **state)
{
    struct hr_iobufs bufs = make_bufs();
    struct {
        struct hr_iobuf *buf;
        uint64_t bytes;
    } live[ENTRIES];
    uint32_t count = 0, taken = 0, random = 12345;
    uint64_t sum = 0, widest = ARENA;

    (void)state;
    for (int step = 0; step < 200000; step++) {
        random = random * 1664525 + 1013904223;
        uint32_t r = random >> 8;
        if (count == 0)
            widest = bufs.window_bytes;
        if (r % 97 == 0) {
            bufs.window_bytes = (uint64_t)(64 + r / 97 % 960) * KIB;
            widest = hr_max_u64(widest, bufs.window_bytes);
        }
        if (r % 2 == 0 && count > 0) {
            uint32_t i = r / 2 % count;
            assert_false(hr_iobuf_drop(live[i].buf));
            sum -= live[i].bytes;
            live[i] = live[--count];
            continue;
        }
        uint64_t bytes = 1 + r / 2 % (48 * KIB);
        struct hr_iobuf *buf = take(&bufs, bytes);
        if (!buf)
            continue;
        taken++;
        assert_true(buf->data >= bufs.arena && buf->data + bytes <= bufs.arena + ARENA);
        for (uint32_t i = 0; i < count; i++)
            assert_true(buf->data + bytes <= live[i].buf->data || live[i].buf->data + live[i].bytes <= buf->data);
        live[count].buf = buf;
        live[count++].bytes = bytes;
        sum += bytes;
        assert_true(sum <= widest);
    }
    assert_true(taken > 50000);
    hr_iobufs_finish(&bufs);
}

static void a_small_window_walks_through_little_memory(void **state)
{
    struct hr_iobufs bufs = make_bufs();
    uint8_t *highest = bufs.arena;

    (void)state;
    bufs.window_bytes = 64 * KIB;
    for (int i = 0; i < 1000; i++) {
        struct hr_iobuf *a = take(&bufs, 10 * KIB), *b = take(&bufs, 20 * KIB);
        assert_non_null(a);
        assert_non_null(b);
        if (b->data + 20 * KIB > highest)
            highest = b->data + 20 * KIB;
        hr_iobuf_drop(a);
        hr_iobuf_drop(b);
    }
    assert_true(highest <= bufs.arena + 64 * KIB);
    hr_iobufs_finish(&bufs);
}

static void a_record_above_the_window_still_fits_the_arena(void **state)
{
    struct hr_iobufs bufs = make_bufs();

    (void)state;
    bufs.window_bytes = 64 * KIB;
    struct hr_iobuf *small = take(&bufs, KIB);
    assert_null(take(&bufs, 800 * KIB));
    hr_iobuf_drop(small);
    assert_non_null(take(&bufs, 800 * KIB));
    hr_iobufs_finish(&bufs);
}

/* ---- the wake ---- */

static void the_last_reference_of_a_watched_buffer_wakes(void **state)
{
    struct hr_iobufs bufs = make_bufs();
    struct hr_iobuf *a = hr_iobufs_take(&bufs, 100 * KIB, 64, 2);
    struct hr_iobuf *b = take(&bufs, 100 * KIB), *c = take(&bufs, 100 * KIB);

    (void)state;
    assert_true(hr_iobufs_watch(&bufs, 150 * KIB)); /* that is b, behind a */
    assert_true(hr_iobufs_watch(&bufs, 1)); /* and stays b */
    assert_false(hr_iobuf_drop(a));
    assert_false(hr_iobuf_drop(a));
    assert_false(hr_iobuf_drop(c));
    assert_true(hr_iobuf_drop(b));
    hr_iobufs_reclaim(&bufs);
    assert_true(hr_iobufs_empty(&bufs));
    hr_iobufs_finish(&bufs);
}

static void what_came_back_meanwhile_is_not_waited_for(void **state)
{
    struct hr_iobufs bufs = make_bufs();
    struct hr_iobuf *a = take(&bufs, 100 * KIB);

    (void)state;
    assert_true(hr_iobufs_watch(&bufs, 1));
    assert_true(hr_iobuf_drop(a));
    assert_false(hr_iobufs_watch(&bufs, 1)); /* nothing is in use */
    a = take(&bufs, 100 * KIB); /* the same entry, taken anew, is no longer marked */
    assert_false(hr_iobuf_drop(a));
    hr_iobufs_finish(&bufs);
}

/* A reader thread that sleeps without a deadline, and two workers: a wake that is lost hangs it. */
struct shop {
    struct hr_iobufs bufs;
    struct hr_iobuf *handed[2][ENTRIES];
    _Atomic uint32_t pushed[2];
    sem_t wake, work[2];
};

struct worker {
    struct shop *shop;
    int index;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct shop *shop = w->shop;
    uint32_t done = 0;

    for (;;) {
        while (sem_wait(&shop->work[w->index]) < 0)
            ;
        if (done == atomic_load_explicit(&shop->pushed[w->index], memory_order_acquire))
            return NULL; /* the last post says stop */
        if (hr_iobuf_drop(shop->handed[w->index][done++ % ENTRIES]))
            sem_post(&shop->wake);
    }
}

static bool sleep_for_room(struct shop *shop)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    return sem_timedwait(&shop->wake, &until) == 0;
}

static void no_wake_is_lost(void **state)
{
    enum { ROUNDS = 40000 };
    static struct shop shop;
    struct worker workers[2] = {{&shop, 0}, {&shop, 1}};
    pthread_t threads[2];
    uint32_t slept = 0;

    (void)state;
    shop.bufs = make_bufs();
    sem_init(&shop.wake, 0, 0);
    for (int i = 0; i < 2; i++) {
        sem_init(&shop.work[i], 0, 0);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct hr_iobuf *buf;
        while (!(buf = take(&shop.bufs, (1 + i % 7) * 32 * KIB))) {
            if (hr_iobufs_watch(&shop.bufs, ARENA / (1 + i % 5))) {
                slept++;
                assert_true(sleep_for_room(&shop));
            }
        }
        int w = i % 3 == 0;
        uint32_t n = atomic_load_explicit(&shop.pushed[w], memory_order_relaxed);
        shop.handed[w][n % ENTRIES] = buf;
        atomic_store_explicit(&shop.pushed[w], n + 1, memory_order_release);
        sem_post(&shop.work[w]);
    }
    for (int i = 0; i < 2; i++) {
        sem_post(&shop.work[i]);
        pthread_join(threads[i], NULL);
    }
    assert_true(slept > 100);
    hr_iobufs_finish(&shop.bufs);
}

/* ---- the window ---- */

static void the_window_doubles_when_workers_starve_up_to_its_most(void **state)
{
    struct hr_window w;

    (void)state;
    hr_window_init(&w, 4, 30, 0);
    assert_int_equal(w.bytes, 4);
    for (int i = 0; i < 3; i++)
        hr_window_starved(&w, 1);
    assert_int_equal(w.bytes, 30);
    hr_window_init(&w, 40, 30, 0);
    assert_int_equal(w.bytes, 30);
}

/* Less is tried after 10 s; each time that it was in vain, the next try waits twice as long, up to 10 min. */
static void less_is_tried_after_a_calm_time(void **state)
{
    uint64_t now = 5 * HR_NS_PER_S, patience = 10;
    struct hr_window w;

    (void)state;
    hr_window_init(&w, 4, 64, now);
    hr_window_starved(&w, now);
    assert_int_equal(w.bytes, 8);
    for (int i = 0; i < 12; i++) {
        hr_window_enough(&w, now + patience * HR_NS_PER_S - 1);
        assert_int_equal(w.bytes, 8);
        now += patience * HR_NS_PER_S;
        hr_window_enough(&w, now);
        assert_int_equal(w.bytes, 4);
        now += HR_NS_PER_S;
        hr_window_enough(&w, now + 3600 * HR_NS_PER_S); /* least */
        assert_int_equal(w.bytes, 4);
        hr_window_starved(&w, now);
        assert_int_equal(w.bytes, 8);
        patience = patience * 2 < 600 ? patience * 2 : 600;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_do_not_overlap_while_the_window_changes),
        cmocka_unit_test(a_small_window_walks_through_little_memory),
        cmocka_unit_test(a_record_above_the_window_still_fits_the_arena),
        cmocka_unit_test(the_last_reference_of_a_watched_buffer_wakes),
        cmocka_unit_test(what_came_back_meanwhile_is_not_waited_for),
        cmocka_unit_test(no_wake_is_lost),
        cmocka_unit_test(the_window_doubles_when_workers_starve_up_to_its_most),
        cmocka_unit_test(less_is_tried_after_a_calm_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
