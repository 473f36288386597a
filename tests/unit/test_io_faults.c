/* io: the reader that fails on a schedule fails as the schedule says, and the same again. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/io.h"
#include "io_files.h"

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
        reader_open("fault", &(struct hr_reader_options){.fault = schedule, .inner = inner});

    files_make(&files);
    reader_add_files(reader, &files);
    for (unsigned i = 0; i < FAULT_READS; i++) {
        struct hr_io_request r = {.dst = buf, .bytes = FAULT_BYTES, .file = 1,
                                  .off = i % (FAULT_READS / 2) * 5000};
        reader_read_now(reader, &r);
        out[i] = (struct outcome){r.result, r.done_bytes,
                                  is_file_data(buf, 1, r.off, r.done_bytes)};
        if (r.result == HR_E_IO)
            assert_int_equal(r.sys_errno, EIO);
    }
    reader->ops->close(reader);
    files_remove(&files);
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
    struct hr_reader *reader = reader_open(
        "fault", &(struct hr_reader_options){.fault = "seed=3,flip=0.5", .inner = "preadv"});
    uint8_t *whole = hr_alloc(WHOLE), part[PART];

    files_make(&files);
    reader_add_files(reader, &files);
    struct hr_io_request r = {.dst = whole, .bytes = WHOLE, .file = 1};
    reader_read_now(reader, &r);
    assert_false(is_file_data(whole, 1, 0, WHOLE));
    for (uint32_t off = 0; off + PART <= WHOLE; off += 777) {
        r = (struct hr_io_request){.dst = part, .bytes = PART, .file = 1, .off = off};
        reader_read_now(reader, &r);
        assert_memory_equal(part, whole + off, PART);
    }
    hr_free(whole);
    reader->ops->close(reader);
    files_remove(&files);
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
    struct hr_reader *reader = reader_open(
        "fault", &(struct hr_reader_options){.fault = "stall=60ms@1", .inner = "nil"});

    files_make(&files);
    reader_add_files(reader, &files);
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
    files_remove(&files);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_schedule_does_the_same_again),
        cmocka_unit_test(damage_by_place_comes_back),
        cmocka_unit_test(damage_does_not_depend_on_how_reads_are_cut),
        cmocka_unit_test(noise_passes_and_bursts_come_in_rows),
        cmocka_unit_test(fault_hits_the_numbered_request),
        cmocka_unit_test(stall_holds_everything_back),
        cmocka_unit_test(wrong_schedules_are_explained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
