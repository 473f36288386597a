/* io: every reader against pread, its limits, waking and waiting; faults by schedule; ranges joined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/coalesce.h"
#include "io/io.h"

enum { FILE_BYTES = 3000001, FILE_COUNT = 3 };

/* ---- files with known bytes ---- */

struct files {
    char path[FILE_COUNT][64];
    int fd[FILE_COUNT], direct_fd[FILE_COUNT];
    uint32_t align[FILE_COUNT];
};

static uint8_t byte_at(int file, uint64_t off)
{
    return (uint8_t)(off * 131 + (off >> 8) * 7 + (off >> 16) * 3 + (uint64_t)file * 57);
}

static void make_files(struct files *files)
{
    uint8_t *data = malloc(FILE_BYTES);

    for (int f = 0; f < FILE_COUNT; f++) {
        for (uint64_t i = 0; i < FILE_BYTES; i++)
            data[i] = byte_at(f, i);
        const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
        snprintf(files->path[f], sizeof(files->path[f]), "%.40s/hr-io-XXXXXX", dir);
        int fd = mkstemp(files->path[f]);
        assert_true(fd >= 0);
        assert_int_equal(hr_fd_write_full(fd, data, FILE_BYTES, NULL), 0);
        close(fd);
        struct hr_error err = HR_ERROR_INIT;
        assert_int_equal(hr_io_open_file(files->path[f], true, &files->fd[f],
                                         &files->direct_fd[f], &files->align[f], &err), 0);
    }
    free(data);
}

static void remove_files(struct files *files)
{
    for (int f = 0; f < FILE_COUNT; f++) {
        hr_fd_close(&files->fd[f]);
        hr_fd_close(&files->direct_fd[f]);
        unlink(files->path[f]);
    }
}

static bool is_file_data(const uint8_t *data, int file, uint64_t off, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (data[i] != byte_at(file, off + i))
            return false;
    return true;
}

/* ---- readers ---- */

static struct hr_reader *open_reader(const char *name, const struct hr_reader_options *options)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_reader *reader = NULL;
    char why[256], text[1024];

    int ret = hr_reader_open(name, options, &reader, why, sizeof(why), &err);
    if (ret == HR_E_UNSUPPORTED) {
        print_message("# skipped: %s\n", hr_error_format(&err, text, sizeof(text)));
        skip();
    }
    if (ret < 0)
        fail_msg("%s", hr_error_format(&err, text, sizeof(text)));
    assert_true(strlen(why) > 0);
    return reader;
}

static void add_files(struct hr_reader *reader, struct files *files)
{
    struct hr_error err = HR_ERROR_INIT;

    for (int f = 0; f < FILE_COUNT; f++)
        assert_int_equal(reader->ops->add_file(reader, files->fd[f], files->direct_fd[f], &err),
                         f);
}

/* Submits one request and waits for it, whichever way it completes. */
static void read_now(struct hr_reader *reader, struct hr_io_request *request)
{
    struct hr_io_request *done = NULL;
    enum hr_io_status status = reader->ops->submit(reader, request);

    assert_int_not_equal(status, HR_IO_BUSY);
    if (status == HR_IO_DONE)
        return;
    reader->ops->flush(reader);
    while (reader->ops->reap(reader, &done, 1, UINT64_MAX) == 0)
        ;
    assert_ptr_equal(done, request);
}

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
    struct hr_reader *reader = open_reader(name, &options);
    make_files(&files);
    add_files(reader, &files);
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
    remove_files(&files);
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
    struct hr_reader *reader = open_reader("nil", &(struct hr_reader_options){0});

    make_files(&files);
    add_files(reader, &files);
    memset(buf, 1, sizeof(buf));
    assert_int_equal(reader->ops->submit(reader, &r), HR_IO_DONE);
    assert_int_equal(r.result, 0);
    assert_int_equal(r.done_bytes, sizeof(buf));
    for (size_t i = 0; i < sizeof(buf); i++)
        assert_int_equal(buf[i], 1);
    reader->ops->close(reader);
    remove_files(&files);
}

/* Opens each real reader in turn; the test body runs on both. */
static const char *const real_readers[] = {"uring", "preadv"};

static void for_each_reader(const struct hr_reader_options *options,
                            void (*body)(struct hr_reader *reader, struct files *files))
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(real_readers); i++) {
        struct files files;
        struct hr_reader *reader = open_reader(real_readers[i], options);
        make_files(&files);
        add_files(reader, &files);
        body(reader, &files);
        reader->ops->close(reader);
        remove_files(&files);
    }
}

static void check_edges(struct hr_reader *reader, struct files *files)
{
    uint8_t buf[64];
    struct hr_io_request r = {.dst = buf};

    read_now(reader, &r); /* no bytes */
    assert_int_equal(r.result, 0);
    r.bytes = 1;
    r.off = FILE_BYTES - 1;
    read_now(reader, &r);
    check_result(&r);
    r.off = FILE_BYTES;
    read_now(reader, &r);
    check_result(&r);
    r.bytes = 64;
    r.off = FILE_BYTES - 10;
    read_now(reader, &r);
    check_result(&r);
    assert_int_equal(r.done_bytes, 10);
    r.off = UINT64_MAX; /* to io_uring this would mean "where the descriptor stands" */
    read_now(reader, &r);
    check_result(&r);
    r.off = INT64_MAX;
    read_now(reader, &r);
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
    read_now(reader, &r);
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
    struct hr_reader *nil = open_reader("nil", &(struct hr_reader_options){0});

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

    read_now(reader, &r);
    check_result(&r);
    reader->ops->close(reader);
    return NULL;
}

static void opened_by_one_thread_used_by_another(void **state)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(real_readers); i++) {
        struct files files;
        pthread_t thread;
        struct hr_reader *reader = open_reader(real_readers[i], &(struct hr_reader_options){0});
        make_files(&files);
        add_files(reader, &files);
        pthread_create(&thread, NULL, use_reader, reader);
        pthread_join(thread, NULL);
        remove_files(&files);
    }
}

static void only_files_that_have_offsets_are_taken(void **state)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(real_readers); i++) {
        struct hr_error err = HR_ERROR_INIT;
        struct hr_reader *reader =
            open_reader(real_readers[i], &(struct hr_reader_options){.max_files = 1});
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

/* ---- faults ---- */

enum { FAULT_READS = 200, FAULT_BYTES = 1000 };

struct outcome {
    int result;
    uint32_t done_bytes;
    bool intact;
};

/* Reads the same places twice over, one after the other. */
static void run_schedule(const char *schedule, const char *inner, struct outcome *out)
{
    struct files files;
    uint8_t buf[FAULT_BYTES];
    struct hr_reader *reader =
        open_reader("fault", &(struct hr_reader_options){.fault = schedule, .inner = inner});

    make_files(&files);
    add_files(reader, &files);
    for (unsigned i = 0; i < FAULT_READS; i++) {
        struct hr_io_request r = {.dst = buf, .bytes = FAULT_BYTES, .file = 1,
                                  .off = i % (FAULT_READS / 2) * 5000};
        read_now(reader, &r);
        out[i] = (struct outcome){r.result, r.done_bytes,
                                  is_file_data(buf, 1, r.off, r.done_bytes)};
        if (r.result == HR_E_IO)
            assert_int_equal(r.sys_errno, EIO);
    }
    reader->ops->close(reader);
    remove_files(&files);
}

static int count_results(const struct outcome *out, int result)
{
    int n = 0;

    for (int i = 0; i < FAULT_READS; i++)
        n += out[i].result == result;
    return n;
}

static void same_schedule_does_the_same_again(void **state)
{
    static const char *const schedule = "seed=7,eio=0.1,short=0.1,flip=0.2,delay=10us:0.2";
    struct outcome a[FAULT_READS], b[FAULT_READS], c[FAULT_READS];

    run_schedule(schedule, "preadv", a);
    run_schedule(schedule, "auto", b);
    run_schedule("seed=8,eio=0.1,short=0.1", "preadv", c);
    for (int i = 0; i < FAULT_READS; i++) {
        assert_int_equal(a[i].result, b[i].result);
        assert_int_equal(a[i].done_bytes, b[i].done_bytes);
        assert_int_equal(a[i].intact, b[i].intact);
    }
    /* Binomial, 200 draws of 0.1: outside 5..40 once in 10^5. */
    assert_in_range(count_results(a, HR_E_IO), 5, 40);
    assert_in_range(count_results(a, HR_E_TRUNCATED), 5, 40);
    int differ = 0;
    for (int i = 0; i < FAULT_READS; i++)
        differ += a[i].result != c[i].result;
    assert_true(differ > 0);
}

static void damage_by_place_comes_back(void **state)
{
    struct outcome out[FAULT_READS];
    int flipped = 0;

    run_schedule("bad=0.2,flip=0.2", "preadv", out);
    for (int i = 0; i < FAULT_READS / 2; i++) {
        assert_int_equal(out[i].result, out[i + FAULT_READS / 2].result);
        assert_int_equal(out[i].intact, out[i + FAULT_READS / 2].intact);
        flipped += !out[i].intact;
    }
    assert_in_range(count_results(out, HR_E_IO) / 2, 5, 40);
    assert_in_range(flipped, 5, 40);
}

static void damage_does_not_depend_on_how_reads_are_cut(void **state)
{
    enum { WHOLE = 64 * 1024, PART = 1500 };
    struct files files;
    struct hr_reader *reader = open_reader(
        "fault", &(struct hr_reader_options){.fault = "seed=3,flip=0.5", .inner = "preadv"});
    uint8_t *whole = hr_alloc(WHOLE), part[PART];

    make_files(&files);
    add_files(reader, &files);
    struct hr_io_request r = {.dst = whole, .bytes = WHOLE, .file = 1};
    read_now(reader, &r);
    assert_false(is_file_data(whole, 1, 0, WHOLE));
    for (uint32_t off = 0; off + PART <= WHOLE; off += 777) {
        r = (struct hr_io_request){.dst = part, .bytes = PART, .file = 1, .off = off};
        read_now(reader, &r);
        assert_memory_equal(part, whole + off, PART);
    }
    hr_free(whole);
    reader->ops->close(reader);
    remove_files(&files);
}

static void noise_passes_and_bursts_come_in_rows(void **state)
{
    struct outcome out[FAULT_READS];
    int rows = 0, row = 0;

    run_schedule("noise=@7", "preadv", out);
    for (int i = 0; i < FAULT_READS; i++)
        assert_int_equal(out[i].intact, i != 6);
    run_schedule("burst=8:0.3", "preadv", out);
    for (int i = 0; i < FAULT_READS; i++) {
        row = out[i].result == HR_E_IO ? row + 1 : 0;
        rows += row == 8;
    }
    /* Binomial, 24 runs of 0.3: none once in 5000. */
    assert_in_range(rows, 1, 20);
}

static void fault_hits_the_numbered_request(void **state)
{
    struct outcome out[FAULT_READS];

    run_schedule("eio=@3,short=@5", "preadv", out);
    assert_int_equal(count_results(out, HR_E_IO), 1);
    assert_int_equal(out[2].result, HR_E_IO);
    assert_int_equal(count_results(out, HR_E_TRUNCATED), 1);
    assert_int_equal(out[4].result, HR_E_TRUNCATED);
    assert_true(out[4].done_bytes < FAULT_BYTES && out[4].intact);
}

static void stall_holds_everything_back(void **state)
{
    uint8_t buf[2][100];
    struct hr_io_request r[2], *done[2];
    struct files files;
    struct hr_reader *reader = open_reader(
        "fault", &(struct hr_reader_options){.fault = "stall=60ms@1", .inner = "nil"});

    make_files(&files);
    add_files(reader, &files);
    for (int i = 0; i < 2; i++) {
        r[i] = (struct hr_io_request){.dst = buf[i], .bytes = 100};
        assert_int_equal(reader->ops->submit(reader, &r[i]), HR_IO_QUEUED);
    }
    uint64_t start = hr_clock_ns();
    assert_int_equal(reader->ops->reap(reader, done, 2, start + 10 * HR_NS_PER_MS), 0);
    reader->ops->wake(reader);
    assert_int_equal(reader->ops->reap(reader, done, 2, UINT64_MAX), 0);
    assert_true(hr_clock_ns() - start < 55 * HR_NS_PER_MS);
    assert_int_equal(reader->ops->reap(reader, done, 2, UINT64_MAX), 2);
    assert_true(hr_clock_ns() - start > 50 * HR_NS_PER_MS);
    assert_int_equal(reader->ops->submit(reader, &r[0]), HR_IO_DONE);
    reader->ops->close(reader);
    remove_files(&files);
}

static void wrong_schedules_are_explained(void **state)
{
    static const char *const wrong[] = {
        "", "eio", "eio=", "eio=2", "eio=-1", "eio=x", "eio=0.1x", "eio=0.1,,flip=0", "oops=1",
        "delay=5", "delay=5ms", "delay=5ms:2", "delay=2h:0.1", "delay=99999s@1", "stall=1s",
        "stall=1s@0", "stall=1s:0.5", "bad=@1", "seed=99999999999999999999999", "eio=nan",
        "eio=0.1,", "averyveryverylongname=1"};

    for (size_t i = 0; i < HR_ARRAY_SIZE(wrong); i++) {
        struct hr_error err = HR_ERROR_INIT;
        struct hr_reader *reader = NULL;
        assert_int_equal(hr_reader_open("fault", &(struct hr_reader_options){.fault = wrong[i]},
                                        &reader, NULL, 0, &err), HR_E_CONFIG);
        assert_true(err.text[0] && err.hint[0]);
        assert_null(reader);
    }
}

/* ---- choice of the reader ---- */

static void unknown_reader_names_the_near_one(void **state)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_reader *reader = NULL;

    assert_int_equal(hr_reader_open("urin", &(struct hr_reader_options){0}, &reader, NULL, 0,
                                    &err), HR_E_CONFIG);
    assert_non_null(strstr(err.hint, "uring"));
    assert_int_equal(hr_reader_open("uring", &(struct hr_reader_options){.depth = 1u << 20},
                                    &reader, NULL, 0, &err), HR_E_CONFIG);
    assert_null(reader);
}

/* Refuses io_uring_setup as container runtimes (EPERM) and old sandboxes (ENOSYS) do. */
static void install_filter(int sys_errno)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)sys_errno),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = HR_ARRAY_SIZE(code), .filter = code};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* The body of the child: exits 0 when the fallback works and both texts name the cause. */
static int refused_child(int sys_errno)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_reader *reader = NULL;
    uint8_t buf[100];
    char why[512];
    struct hr_io_request r = {.dst = buf, .bytes = sizeof(buf)};
    int fd = hr_fd_memfd("one", 100, &err);

    install_filter(sys_errno);
    if (hr_reader_open("uring", &(struct hr_reader_options){0}, &reader, NULL, 0, &err) !=
            HR_E_UNSUPPORTED ||
        err.sys_errno != sys_errno || !strstr(err.text, "seccomp") || !strstr(err.hint, "preadv"))
        return 1;
    if (hr_reader_open("auto", &(struct hr_reader_options){0}, &reader, why, sizeof(why), &err))
        return 2;
    if (strcmp(reader->ops->name, "preadv") != 0 || !strstr(why, "seccomp"))
        return 3;
    reader->ops->add_file(reader, fd, -1, &err);
    read_now(reader, &r);
    reader->ops->close(reader);
    return r.result == 0 && r.done_bytes == 100 ? 0 : 4;
}

static void refused_uring_falls_back_and_says_why(void **state)
{
    static const int refusals[] = {EPERM, ENOSYS};

    for (size_t i = 0; i < HR_ARRAY_SIZE(refusals); i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(refused_child(refusals[i]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

/* ---- page cache or direct ---- */

static void direct_is_chosen_beyond_three_quarters_of_memory(void **state)
{
    assert_false(hr_io_choose_direct(HR_IO_MODE_AUTO, 75, 100));
    assert_true(hr_io_choose_direct(HR_IO_MODE_AUTO, 76, 100));
    assert_false(hr_io_choose_direct(HR_IO_MODE_CACHED, UINT64_MAX, 1));
    assert_true(hr_io_choose_direct(HR_IO_MODE_DIRECT, 1, UINT64_MAX));
    assert_false(hr_io_choose_direct(HR_IO_MODE_AUTO, UINT64_MAX / 2, UINT64_MAX));
}

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(hr_fd_write_file_atomic(path, text, strlen(text), NULL), 0);
}

static void control_group_limits_available_memory(void **state)
{
    char dir[] = "/var/tmp/hr-cgroup-XXXXXX", command[64];

    assert_non_null(mkdtemp(dir));
    setenv("HEADRACE_CGROUP_ROOT", dir, 1);
    write_text(dir, "memory.max", "max\n");
    assert_true(hr_io_available_bytes() > 10000000);
    write_text(dir, "memory.max", "10000000\n");
    write_text(dir, "memory.current", "7000000\n");
    write_text(dir, "memory.stat", "anon 4000000\nfile 3000000\n");
    assert_int_equal(hr_io_available_bytes(), 6000000);
    unsetenv("HEADRACE_CGROUP_ROOT");
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void missing_file_is_named(void **state)
{
    struct hr_error err = HR_ERROR_INIT;
    int fd = -1, direct_fd = -1;
    uint32_t align = 0;

    assert_int_equal(hr_io_open_file("/var/tmp/no such file", true, &fd, &direct_fd, &align, &err),
                     HR_E_NOT_FOUND);
    assert_int_equal(fd, -1);
}

/* ---- coalesce ---- */

static void neighbours_are_joined(void **state)
{
    struct hr_io_range r[] = {
        {.file = 1, .off = 0, .bytes = 10, .tag = 5},   {.file = 0, .off = 120, .bytes = 10, .tag = 2},
        {.file = 0, .off = 100, .bytes = 10, .tag = 1}, {.file = 0, .off = 0, .bytes = 50, .tag = 0},
        {.file = 0, .off = 105, .bytes = 3, .tag = 3},  {.file = 0, .off = 141, .bytes = 9, .tag = 4},
    };
    struct hr_io_span s[6];

    assert_int_equal(hr_io_coalesce(r, 6, 10, 1000, s), 4);
    assert_int_equal(s[0].bytes, 50);
    assert_int_equal(s[1].off, 100); /* a gap of exactly 10 and a range inside */
    assert_int_equal(s[1].bytes, 30);
    assert_int_equal(s[1].first, 1);
    assert_int_equal(s[1].count, 3);
    assert_int_equal(s[2].off, 141); /* a gap of 11 */
    assert_int_equal(s[3].file, 1);
    assert_int_equal(r[s[3].first].tag, 5);
}

static void spans_stay_within_their_limit(void **state)
{
    struct hr_io_range r[] = {{.off = 0, .bytes = 60}, {.off = 60, .bytes = 40},
                              {.off = 100, .bytes = 1}, {.off = 101, .bytes = 500},
                              {.off = 300, .bytes = 5}, {.off = UINT64_MAX - 4, .bytes = 100}};
    struct hr_io_span s[6];

    assert_int_equal(hr_io_coalesce(r, 6, 1u << 20, 100, s), 4);
    assert_int_equal(s[0].bytes, 100);
    assert_int_equal(s[1].bytes, 1);
    assert_int_equal(s[2].bytes, 500); /* larger than the limit: alone, but for what lies inside */
    assert_int_equal(s[2].count, 2);
    assert_int_equal(hr_io_coalesce(r, 0, 0, 0, s), 0);
}

static void random_ranges_are_covered_once(void **state)
{
    enum { N = 500 };
    static struct hr_io_range r[N];
    static struct hr_io_span s[N];
    uint64_t tags = 0;
    struct hr_rng rng;

    hr_rng_init(&rng, 5, 0, 0, 0);
    for (uint32_t i = 0; i < N; i++)
        r[i] = (struct hr_io_range){.file = (int)hr_rng_below(&rng, 3),
                                    .off = hr_rng_below(&rng, 100000),
                                    .bytes = (uint32_t)hr_rng_below(&rng, 300), .tag = i};
    uint32_t n = hr_io_coalesce(r, N, 50, 4000, s), next = 0;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(s[i].first, next);
        assert_true(s[i].bytes <= 4000);
        for (uint32_t k = next; k < next + s[i].count; k++) {
            assert_int_equal(r[k].file, s[i].file);
            assert_true(r[k].off >= s[i].off &&
                        r[k].off + r[k].bytes <= s[i].off + s[i].bytes);
            assert_true(k == 0 || r[k].file > r[k - 1].file ||
                        (r[k].file == r[k - 1].file && r[k].off >= r[k - 1].off));
            tags += r[k].tag;
        }
        next += s[i].count;
    }
    assert_int_equal(next, N);
    assert_int_equal(tags, N * (N - 1) / 2);
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
        cmocka_unit_test(same_schedule_does_the_same_again),
        cmocka_unit_test(damage_by_place_comes_back),
        cmocka_unit_test(damage_does_not_depend_on_how_reads_are_cut),
        cmocka_unit_test(noise_passes_and_bursts_come_in_rows),
        cmocka_unit_test(fault_hits_the_numbered_request),
        cmocka_unit_test(stall_holds_everything_back),
        cmocka_unit_test(wrong_schedules_are_explained),
        cmocka_unit_test(unknown_reader_names_the_near_one),
        cmocka_unit_test(refused_uring_falls_back_and_says_why),
        cmocka_unit_test(direct_is_chosen_beyond_three_quarters_of_memory),
        cmocka_unit_test(control_group_limits_available_memory),
        cmocka_unit_test(missing_file_is_named),
        cmocka_unit_test(neighbours_are_joined),
        cmocka_unit_test(spans_stay_within_their_limit),
        cmocka_unit_test(random_ranges_are_covered_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
