/* io: every reader against pread, its limits, waking and waiting. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/io.h"
#include "io_files.h"

static void check_result(const struct hr_io_request *r)
{
    uint64_t left = r->off < FILE_BYTES ? FILE_BYTES - r->off : 0;
    uint32_t there = (uint32_t)hr_min_u64(left, r->bytes);

    assert_int_equal(r->result, there == r->bytes ? 0 : HR_E_TRUNCATED);
    assert_int_equal(r->done_bytes, there);
    assert_int_equal(r->sys_errno, 0);
    assert_true(is_file_data(r->dst, r->file, r->off, r->done_bytes));
}

enum { SLOTS = 16, SLOT_BYTES = 200000, RANGES = 600 };

static void draw(struct hr_io_request *r, struct hr_rng *rng, const struct files *files)
{
    uint32_t align = 1;

    r->file = (int)hr_rng_below(rng, FILE_COUNT);
    r->direct = hr_rng_bernoulli(rng, 0.3);
    if (r->direct && files->direct_fd[r->file] >= 0)
        align = files->align[r->file];
    r->bytes = (uint32_t)hr_align_down(1 + hr_rng_below(rng, SLOT_BYTES - align), align);
    if (r->bytes == 0)
        r->bytes = align;
    /* Some reach over the end of the file, some lie beyond it. */
    r->off = hr_align_down(hr_rng_below(rng, FILE_BYTES + 100000), align);
}

/* Keeps as many requests in flight as the reader takes, over memory inside and outside the arena. */
static void random_ranges_match(const char *name, bool arena_is_used)
{
    struct files files;
    struct hr_rng rng;
    struct hr_io_request requests[SLOTS] = {0}, *done[SLOTS];
    uint8_t *memory = hr_alloc_aligned(4096, SLOTS * (size_t)hr_align_up(SLOT_BYTES, 4096));
    struct hr_reader_options options = {.depth = SLOTS - 3, .threads = 3};
    struct hr_reader_stats stats;
    int started = 0, finished = 0, in_hand = SLOTS;
    struct hr_io_request *free_list[SLOTS];

    if (arena_is_used) {
        options.arena = memory;
        options.arena_bytes = SLOTS / 2 * (size_t)hr_align_up(SLOT_BYTES, 4096) + 4096;
    }
    struct hr_reader *reader = reader_open(name, &options);
    files_make(&files);
    reader_add_files(reader, &files);
    hr_rng_init(&rng, 11, 0, 0, 0);
    for (int i = 0; i < SLOTS; i++) {
        requests[i].dst = memory + (size_t)i * hr_align_up(SLOT_BYTES, 4096);
        requests[i].owner = &requests[i];
        free_list[i] = &requests[i];
    }
    while (finished < RANGES) {
        while (started < RANGES && in_hand > 0) {
            struct hr_io_request *r = free_list[in_hand - 1];
            draw(r, &rng, &files);
            enum hr_io_status status = reader->ops->submit(reader, r);
            if (status == HR_IO_BUSY)
                break;
            started++;
            if (status == HR_IO_QUEUED)
                in_hand--;
            else
                check_result(r), finished++;
        }
        reader->ops->flush(reader);
        int n = reader->ops->reap(reader, done, 5, UINT64_MAX);
        for (int i = 0; i < n; i++) {
            check_result(done[i]);
            assert_ptr_equal(done[i]->owner, done[i]);
            free_list[in_hand++] = done[i];
        }
        finished += n;
    }
    reader->ops->stats(reader, &stats);
    assert_int_equal(stats.requests, RANGES);
    assert_true(stats.system_calls > 0);
    reader->ops->close(reader);
    files_remove(&files);
    hr_free(memory);
}

static void uring_reads_what_pread_reads(void **state)
{
    random_ranges_match("uring", false);
}

static void uring_reads_into_registered_memory(void **state)
{
    random_ranges_match("uring", true);
}

static void preadv_reads_what_pread_reads(void **state)
{
    random_ranges_match("preadv", true);
}

static void nil_completes_at_once_and_touches_nothing(void **state)
{
    struct files files;
    uint8_t buf[100];
    struct hr_io_request r = {.bytes = sizeof(buf), .dst = buf, .file = 2, .off = 1};
    struct hr_reader *reader = reader_open("nil", &(struct hr_reader_options){0});

    files_make(&files);
    reader_add_files(reader, &files);
    memset(buf, 1, sizeof(buf));
    assert_int_equal(reader->ops->submit(reader, &r), HR_IO_DONE);
    assert_int_equal(r.result, 0);
    assert_int_equal(r.done_bytes, sizeof(buf));
    for (size_t i = 0; i < sizeof(buf); i++)
        assert_int_equal(buf[i], 1);
    reader->ops->close(reader);
    files_remove(&files);
}

/* Opens each real reader in turn; the test body runs on both. */
static const char *const real_readers[] = {"uring", "preadv"};

static void for_each_reader(const struct hr_reader_options *options,
                            void (*body)(struct hr_reader *reader, struct files *files))
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(real_readers); i++) {
        struct files files;
        struct hr_reader *reader = reader_open(real_readers[i], options);
        files_make(&files);
        reader_add_files(reader, &files);
        body(reader, &files);
        reader->ops->close(reader);
        files_remove(&files);
    }
}

static void check_edges(struct hr_reader *reader, struct files *files)
{
    uint8_t buf[64];
    struct hr_io_request r = {.dst = buf};

    reader_read_now(reader, &r); /* no bytes */
    assert_int_equal(r.result, 0);
    r.bytes = 1;
    r.off = FILE_BYTES - 1;
    reader_read_now(reader, &r);
    check_result(&r);
    r.off = FILE_BYTES;
    reader_read_now(reader, &r);
    check_result(&r);
    r.bytes = 64;
    r.off = FILE_BYTES - 10;
    reader_read_now(reader, &r);
    check_result(&r);
    assert_int_equal(r.done_bytes, 10);
    r.off = UINT64_MAX; /* to io_uring this would mean "where the descriptor stands" */
    reader_read_now(reader, &r);
    check_result(&r);
    r.off = INT64_MAX;
    reader_read_now(reader, &r);
    check_result(&r);
}

static void edges_of_the_file_are_kept(void **state)
{
    for_each_reader(&(struct hr_reader_options){0}, check_edges);
}

/* The kernel copies up to the page that cannot be written, so the read comes back short; the reader
 * goes on and meets the error. */
static void check_short_read(struct hr_reader *reader, struct files *files)
{
    uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct hr_io_request r = {.dst = pages, .bytes = 8192};
    struct hr_reader_stats stats;

    assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    reader_read_now(reader, &r);
    assert_int_equal(r.result, HR_E_IO);
    assert_int_equal(r.sys_errno, EFAULT);
    assert_int_equal(r.done_bytes, 4096);
    assert_true(is_file_data(pages, 0, 0, 4096));
    reader->ops->stats(reader, &stats);
    assert_int_equal(stats.short_reads, 1);
    assert_int_equal(stats.errors, 1);
    munmap(pages, 8192);
}

static void short_reads_go_on(void **state)
{
    for_each_reader(&(struct hr_reader_options){0}, check_short_read);
}

static void check_depth(struct hr_reader *reader, struct files *files)
{
    uint8_t buf[3][64];
    struct hr_io_request r[3], *done[3];
    int n = 0;

    for (int i = 0; i < 3; i++)
        r[i] = (struct hr_io_request){.dst = buf[i], .bytes = 64, .off = 64u * (unsigned)i};
    assert_int_equal(reader->ops->submit(reader, &r[0]), HR_IO_QUEUED);
    assert_int_equal(reader->ops->submit(reader, &r[1]), HR_IO_QUEUED);
    assert_int_equal(reader->ops->submit(reader, &r[2]), HR_IO_BUSY);
    reader->ops->flush(reader);
    assert_int_equal(reader->ops->submit(reader, &r[2]), HR_IO_BUSY);
    while (n < 2)
        n += reader->ops->reap(reader, done, 1, UINT64_MAX);
    assert_int_equal(reader->ops->submit(reader, &r[2]), HR_IO_QUEUED);
    while (n < 3) /* reap hands over what was not flushed */
        n += reader->ops->reap(reader, done, 3, UINT64_MAX);
    for (int i = 0; i < 3; i++)
        check_result(&r[i]);
}

static void depth_is_kept(void **state)
{
    for_each_reader(&(struct hr_reader_options){.depth = 2}, check_depth);
}

static void check_deadline(struct hr_reader *reader, struct files *files)
{
    struct hr_io_request *done[1];
    uint64_t start = hr_clock_ns();

    assert_int_equal(reader->ops->reap(reader, done, 1, 0), 0);
    assert_int_equal(reader->ops->reap(reader, done, 1, 1), 0); /* long past */
    assert_int_equal(reader->ops->reap(reader, done, 1, start + 30 * HR_NS_PER_MS), 0);
    assert_true(hr_clock_ns() >= start + 30 * HR_NS_PER_MS);
}

static void reap_returns_at_its_deadline(void **state)
{
    for_each_reader(&(struct hr_reader_options){0}, check_deadline);
}

static void check_poll(struct hr_reader *reader, struct files *files)
{
    uint8_t buf[4096];
    struct hr_io_request r = {.dst = buf, .bytes = sizeof(buf), .off = 512}, *done[1];
    uint64_t give_up = hr_clock_ns() + 10 * HR_NS_PER_S;

    posix_fadvise(files->fd[0], 0, 0, POSIX_FADV_DONTNEED); /* make it wait for the device */
    assert_int_equal(reader->ops->submit(reader, &r), HR_IO_QUEUED);
    while (reader->ops->reap(reader, done, 1, 0) == 0)
        assert_true(hr_clock_ns() < give_up);
    check_result(&r);
}

static void reap_without_waiting_makes_progress(void **state)
{
    for_each_reader(&(struct hr_reader_options){0}, check_poll);
}

static void *wake_later(void *arg)
{
    struct hr_reader *reader = arg;

    hr_clock_sleep_ns(20 * HR_NS_PER_MS);
    reader->ops->wake(reader);
    return NULL;
}

static void check_wake(struct hr_reader *reader, struct files *files)
{
    struct hr_io_request *done[1];
    pthread_t thread;

    for (int i = 0; i < 3; i++) {
        pthread_create(&thread, NULL, wake_later, reader);
        assert_int_equal(reader->ops->reap(reader, done, 1, UINT64_MAX), 0);
        pthread_join(thread, NULL);
    }
    /* A wake before reap is not lost, and several count as one. */
    reader->ops->wake(reader);
    reader->ops->wake(reader);
    assert_int_equal(reader->ops->reap(reader, done, 1, UINT64_MAX), 0);
    uint64_t start = hr_clock_ns();
    reader->ops->reap(reader, done, 1, start + 20 * HR_NS_PER_MS);
    assert_true(hr_clock_ns() >= start + 20 * HR_NS_PER_MS);
}

static void wake_ends_a_wait(void **state)
{
    struct hr_reader *nil = reader_open("nil", &(struct hr_reader_options){0});

    check_wake(nil, NULL);
    nil->ops->close(nil);
    for_each_reader(&(struct hr_reader_options){0}, check_wake);
}

static void check_close_in_flight(struct hr_reader *reader, struct files *files)
{
    static uint8_t buf[8][65536];
    static struct hr_io_request r[8];

    for (int i = 0; i < 8; i++) {
        r[i] = (struct hr_io_request){.dst = buf[i], .bytes = sizeof(buf[i]), .file = 1,
                                      .off = 65536u * (unsigned)i};
        assert_int_equal(reader->ops->submit(reader, &r[i]), HR_IO_QUEUED);
    }
}

static void close_waits_for_what_is_in_flight(void **state)
{
    for_each_reader(&(struct hr_reader_options){0}, check_close_in_flight);
}

static void *use_reader(void *arg)
{
    static uint8_t buf[100];
    struct hr_io_request r = {.dst = buf, .bytes = sizeof(buf), .off = 7};
    struct hr_reader *reader = arg;

    reader_read_now(reader, &r);
    check_result(&r);
    reader->ops->close(reader);
    return NULL;
}

static void opened_by_one_thread_used_by_another(void **state)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(real_readers); i++) {
        struct files files;
        pthread_t thread;
        struct hr_reader *reader = reader_open(real_readers[i], &(struct hr_reader_options){0});
        files_make(&files);
        reader_add_files(reader, &files);
        pthread_create(&thread, NULL, use_reader, reader);
        pthread_join(thread, NULL);
        files_remove(&files);
    }
}

static void only_files_that_have_offsets_are_taken(void **state)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(real_readers); i++) {
        struct hr_error err = HR_ERROR_INIT;
        struct hr_reader *reader =
            reader_open(real_readers[i], &(struct hr_reader_options){.max_files = 1});
        int pipes[2], fd = hr_fd_memfd("one", 10, &err);
        assert_int_equal(pipe(pipes), 0);
        assert_int_equal(reader->ops->add_file(reader, pipes[0], -1, &err), HR_E_UNSUPPORTED);
        assert_int_equal(reader->ops->add_file(reader, fd, -1, &err), 0);
        assert_int_equal(reader->ops->add_file(reader, fd, -1, &err), HR_E_LIMIT);
        reader->ops->close(reader);
        close(pipes[0]);
        close(pipes[1]);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uring_reads_what_pread_reads),
        cmocka_unit_test(uring_reads_into_registered_memory),
        cmocka_unit_test(preadv_reads_what_pread_reads),
        cmocka_unit_test(nil_completes_at_once_and_touches_nothing),
        cmocka_unit_test(edges_of_the_file_are_kept),
        cmocka_unit_test(short_reads_go_on),
        cmocka_unit_test(depth_is_kept),
        cmocka_unit_test(reap_returns_at_its_deadline),
        cmocka_unit_test(reap_without_waiting_makes_progress),
        cmocka_unit_test(wake_ends_a_wait),
        cmocka_unit_test(close_waits_for_what_is_in_flight),
        cmocka_unit_test(opened_by_one_thread_used_by_another),
        cmocka_unit_test(only_files_that_have_offsets_are_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
