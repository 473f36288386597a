/* ring: trainers that are other threads, other processes, or write garbage. Run with the word "peer" the
 * program is such a process. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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
#include "small_reader.h"

/* Every byte of a replica's page takes strange values while the ring works; the other replica must
 * get every number in order. */
static void garbage_hurts_nobody_else(void **state)
{
    struct hr_ring *ring = ring_make(SLOTS, true);
    struct hr_ring_stats stats;
    struct hr_wire_entry e;
    struct hr_rng rng;
    uint64_t sent = 0, got = 0;
    int fds[3];
    struct reader good = reader_of(ring, ring_attach(ring, fds));
    struct hr_ring_consumer *bad = ring_attach(ring, fds);

    (void)state;
    hr_rng_init(&rng, 7, 0, 0, 0);
    for (size_t off = 0; off < sizeof(struct hr_wire_control); off++) {
        static const uint8_t values[] = {0xff, 0x00, 0x80, 0x01};
        volatile uint8_t *byte = (volatile uint8_t *)bad->page + off;
        *byte = off & 4 ? values[off & 3] : (uint8_t)hr_rng_u32(&rng);
        if (!ring_publish(ring, sent)) { /* the bad one keeps everything: throw it out */
            hr_ring_detach(ring, bad);
            bad = ring_attach(ring, fds);
            assert_true(ring_publish(ring, sent));
        }
        sent++;
        hr_ring_stats(ring, &stats);
        assert_true(stats.ready + stats.leased + stats.free_slots + stats.acquired_slots == SLOTS);
        assert_true(stats.consumer_wait_ns < 60 * HR_NS_PER_S);
        assert_int_equal(reader_take_number(&good, &e), got);
        got++;
        hr_ring_collect(ring);
        assert_int_equal(reader_number(&good, &e), got - 1); /* still ours */
        reader_release(&good, &e);
    }
    assert_int_equal(got, sizeof(struct hr_wire_control));
    hr_ring_destroy(ring);
}

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
        reader_take(r, &pair[held]);
        if (reader_number(r, &pair[held++]) != next++)
            return peer_fail("wrong number");
        while (held == 2 || (held && next == PEER_NUMBERS)) {
            reader_release(r, &pair[--held]);
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
        execl("/proc/self/exe", "test_ring_peers", "peer", mode, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void another_process_gets_everything_in_order(void **state)
{
    struct hr_ring *ring = ring_make(3, false);
    int fds[3], status;
    struct hr_ring_consumer *consumer = ring_attach(ring, fds);
    pid_t pid = start_peer("drain", fds);

    (void)state;
    alarm(60);
    for (uint64_t i = 0; i < PEER_NUMBERS;) {
        if (ring_publish(ring, i))
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
    struct hr_ring *ring = ring_make(SLOTS, true);
    struct hr_ring_stats stats;
    struct hr_wire_entry e;
    int good_fds[3], fds[3];
    struct reader good = reader_of(ring, ring_attach(ring, good_fds));
    struct hr_ring_consumer *bad = ring_attach(ring, fds);
    pid_t pid = start_peer("scribble", fds);

    (void)state;
    alarm(60);
    usleep(20000);
    for (uint64_t i = 0; i < 3000; i++) {
        if (!ring_publish(ring, i)) {
            hr_ring_detach(ring, bad);
            bad = ring_attach(ring, fds);
            if (i % 8 == 0) {
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
                pid = start_peer("scribble", fds);
            }
            assert_true(ring_publish(ring, i));
        }
        hr_ring_stats(ring, &stats);
        assert_true(stats.ready + stats.leased + stats.free_slots == SLOTS);
        assert_int_equal(reader_take_number(&good, &e), i);
        hr_ring_collect(ring);
        assert_int_equal(reader_number(&good, &e), i);
        reader_release(&good, &e);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    alarm(0);
    hr_ring_destroy(ring);
}

static void *watch(void *arg)
{
    struct hr_ring_stats stats;

    do {
        hr_ring_stats(arg, &stats);
        hr_ring_collect(arg);
        sched_yield();
    } while (stats.published < CONSUME_NUMBERS);
    return NULL;
}

static void threads_share_a_ring(void **state)
{
    struct hr_ring *ring = ring_make(3, true);
    pthread_t consumers[2], watcher;
    struct reader readers[2];
    int fds[3];

    (void)state;
    for (int i = 0; i < 2; i++)
        readers[i] = reader_of(ring, ring_attach(ring, fds));
    for (int i = 0; i < 2; i++)
        pthread_create(&consumers[i], NULL, reader_consume, &readers[i]);
    pthread_create(&watcher, NULL, watch, ring);
    for (uint64_t i = 0; i < CONSUME_NUMBERS;) {
        if (ring_publish(ring, i))
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

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_hurts_nobody_else),
        cmocka_unit_test(another_process_gets_everything_in_order),
        cmocka_unit_test(another_process_scribbles),
        cmocka_unit_test(threads_share_a_ring),
    };

    if (argc == 3 && strcmp(argv[1], "peer") == 0)
        return peer_main(argv[2]);
    return cmocka_run_group_tests_name("ring_peers", tests, NULL, NULL);
}
