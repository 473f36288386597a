/* The bench verdict: what bounds the rate, told from who waits for whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tools/bench_verdict.h"

/* Ten seconds, two workers, 10,000 samples in 100 batches; the shares are of one thread's time. */
static struct hr_bench_result result(double busy, double consumer_waits, double reader_cpu)
{
    struct hr_bench_result r = {
        .seconds = 10,
        .batches = 100,
        .fed_batches = 100,
        .samples = 10000,
        .finished_samples = 10000,
        .workers = 2,
        .reader_reason = "uring: io_uring works here",
        .read_bytes = 1000000000,
        .read_requests = 10000,
        .reader_cpu_ns = (uint64_t)(reader_cpu * 10e9),
        .worker_busy_ns = (uint64_t)(busy * 20e9),
        .worker_cpu_ns = (uint64_t)(busy * 20e9),
        .consumer_wait_ns = (uint64_t)(consumer_waits * 10e9),
        .process_cpu_ns = (uint64_t)((busy * 2 + reader_cpu) * 10e9),
    };

    hr_bench_judge(&r);
    return r;
}

static void consumer_that_never_waits_bounds_the_rate(void **state)
{
    struct hr_bench_result r = result(0.25, 0.01, 0.05);

    (void)state;
    assert_string_equal(r.bound_by, "trainer");
    assert_non_null(strstr(r.verdict, "4.0x"));
}

static void busy_workers_bound_the_rate(void **state)
{
    struct hr_bench_result r = result(0.97, 0.9, 0.05);

    (void)state;
    assert_string_equal(r.bound_by, "decode");
    assert_true(r.gain > 1);
}

/* One core, shared by a worker, the reader and the consumer; a second core doubles the rate, unless the
 * reader thread takes longer than that for its part. */
static struct hr_bench_result one_core(double worker_cpu, double reader_cpu)
{
    struct hr_bench_result r = result(0.97, 0.9, reader_cpu);

    r.workers = r.cores = 1;
    r.worker_busy_ns = (uint64_t)9.9e9;
    r.worker_cpu_ns = (uint64_t)(worker_cpu * 10e9);
    r.process_cpu_ns = (uint64_t)((worker_cpu + reader_cpu) * 10e9);
    hr_bench_judge(&r);
    return r;
}

static void second_core_is_predicted_from_the_first(void **state)
{
    struct hr_bench_result r = one_core(0.88, 0.11);

    (void)state;
    assert_string_equal(r.bound_by, "decode");
    assert_true(r.one_more_core > 1950 && r.one_more_core < 2050);
    r = one_core(0.35, 0.64);
    assert_true(r.one_more_core > 1500 && r.one_more_core < 1600); /* 1000 / 0.64 */
}

static void cores_that_others_use_are_told_apart_from_decoding(void **state)
{
    struct hr_bench_result r = one_core(0.3, 0.05);

    (void)state;
    assert_string_equal(r.bound_by, "other processes");
    assert_true(r.gain > 2.8 && r.gain < 2.9); /* 1 / 0.35 */
}

static void another_core_does_nothing_for_storage_and_trainers(void **state)
{
    struct hr_bench_result r = result(0.2, 0.9, 0.1);

    (void)state;
    assert_true(r.one_more_core == 1000);
    r = result(0.25, 0.01, 0.05);
    assert_true(r.one_more_core == 1000);
}

static void workers_that_wait_for_reads_bound_nothing(void **state)
{
    struct hr_bench_result r = result(0.2, 0.9, 0.1);

    (void)state;
    assert_string_equal(r.bound_by, "read");
    assert_true(r.gain > 4.9 && r.gain < 5.1);
    assert_non_null(strstr(r.verdict, "100.0 MB/s"));
}

static void waiting_for_the_page_cache_is_no_fault_of_storage(void **state)
{
    struct hr_bench_result r = result(0.7, 0.9, 0.2);

    (void)state;
    assert_non_null(strstr(r.verdict, "storage bounds"));
    r.storage_known = true;
    hr_bench_judge(&r);
    assert_string_equal(r.bound_by, "read");
    assert_non_null(strstr(r.verdict, "More 'slots'"));
    r.worker_cpu_ns = r.worker_busy_ns / 2;
    hr_bench_judge(&r);
    assert_string_equal(r.bound_by, "other processes");
    r.storage_bytes = r.read_bytes / 2;
    hr_bench_judge(&r);
    assert_non_null(strstr(r.verdict, "storage bounds"));
}

static void busy_reader_thread_is_told_apart_from_storage(void **state)
{
    struct hr_bench_result r = result(0.2, 0.9, 0.95);

    (void)state;
    assert_string_equal(r.bound_by, "hand-off");
}

static void no_batches_is_no_division_by_zero(void **state)
{
    struct hr_bench_result r = {.seconds = 1, .workers = 1, .reader_reason = ""};
    struct hr_buf out = {0};

    (void)state;
    hr_bench_judge(&r);
    assert_string_equal(r.bound_by, "read");
    hr_bench_print_json(&out, &r);
    hr_bench_print_text(&out, &r);
    assert_null(strstr(hr_buf_str(&out), "nan"));
    hr_buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(consumer_that_never_waits_bounds_the_rate),
        cmocka_unit_test(busy_workers_bound_the_rate),
        cmocka_unit_test(second_core_is_predicted_from_the_first),
        cmocka_unit_test(cores_that_others_use_are_told_apart_from_decoding),
        cmocka_unit_test(another_core_does_nothing_for_storage_and_trainers),
        cmocka_unit_test(workers_that_wait_for_reads_bound_nothing),
        cmocka_unit_test(waiting_for_the_page_cache_is_no_fault_of_storage),
        cmocka_unit_test(busy_reader_thread_is_told_apart_from_storage),
        cmocka_unit_test(no_batches_is_no_division_by_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
