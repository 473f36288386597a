/* order: permutations, windows, batches, ranks and stand-ins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "made_order.h"
#include "order/order.h"
#include "order/permute.h"

static struct hr_order make_window(uint64_t records, uint64_t block, uint64_t open)
{
    struct hr_order_spec spec = {.kind = HR_ORDER_WINDOW, .last = HR_LAST_KEEP, .seed = 3,
                                 .record_count = records, .batch = 4, .block_records = block,
                                 .open_blocks = open};
    struct hr_order order;
    struct hr_error err;

    assert_int_equal(hr_order_init(&order, &spec, &err), 0);
    return order;
}

static void assert_is_permutation(const struct hr_order *order, uint64_t epoch)
{
    uint64_t n = order->spec.record_count;
    uint8_t *seen = calloc(n, 1);

    for (uint64_t i = 0; i < n; i++) {
        uint64_t record = hr_order_record(order, epoch, i);
        assert_true(record < n);
        assert_false(seen[record]++);
    }
    free(seen);
}

static void every_small_epoch_is_a_permutation(void **state)
{
    for (uint64_t n = 1; n <= 300; n++) {
        struct hr_order full = order_make(HR_ORDER_FULL, HR_LAST_KEEP, n, 4);
        for (uint64_t epoch = 0; epoch < 4; epoch++)
            assert_is_permutation(&full, epoch);
    }
    for (uint64_t n = 4095; n <= 4098; n++) {
        struct hr_order full = order_make(HR_ORDER_FULL, HR_LAST_KEEP, n, 4);
        assert_is_permutation(&full, 1000000);
    }
}

static void every_window_is_a_permutation(void **state)
{
    for (uint64_t n = 1; n <= 60; n++)
        for (uint64_t block = 1; block <= 9; block++)
            for (uint64_t open = 1; open <= 5; open++) {
                struct hr_order window = make_window(n, block, open);
                for (uint64_t epoch = 0; epoch < 3; epoch++)
                    assert_is_permutation(&window, epoch);
            }
    struct hr_order window = make_window(100003, 0, 0);
    assert_is_permutation(&window, 5);
}

static void inverse_undoes_the_permutation(void **state)
{
    static const uint64_t counts[] = {1, 2, 3, 5, 255, 256, 257, 1281167, 10000000000,
                                      (UINT64_C(1) << 62) + 1, UINT64_C(1) << 63};

    for (size_t c = 0; c < HR_ARRAY_SIZE(counts); c++) {
        struct hr_permutation perm;
        hr_permutation_init(&perm, counts[c], hr_key_absorb(0, c));
        for (uint64_t i = 0; i < 2000; i++) {
            uint64_t index = hr_key_absorb(1, i) % counts[c];
            uint64_t value = hr_permutation_at(&perm, index);
            assert_true(value < counts[c]);
            assert_int_equal(hr_permutation_index_of(&perm, value), index);
        }
    }
}

static void many_at_once_equals_one_by_one(void **state)
{
    static const uint64_t counts[] = {1, 2, 3, 200, 1025, 65537, UINT64_C(10000000000)};

    for (size_t c = 0; c < HR_ARRAY_SIZE(counts); c++) {
        struct hr_permutation perm;
        uint64_t values[HR_PERMUTATION_RUN];
        hr_permutation_init(&perm, counts[c], hr_key_absorb(5, c));
        for (uint64_t i = 0; i < HR_PERMUTATION_RUN; i++)
            values[i] = i * 977 % counts[c];
        hr_permutation_map(&perm, values, HR_PERMUTATION_RUN);
        for (uint64_t i = 0; i < HR_PERMUTATION_RUN; i++)
            assert_int_equal(values[i], hr_permutation_at(&perm, i * 977 % counts[c]));
    }
}

static void epochs_and_seeds_differ(void **state)
{
    struct hr_order a = order_make(HR_ORDER_FULL, HR_LAST_DROP, 100000, 10), b = a;
    struct hr_error err;
    int same_epoch = 0, same_seed = 0;

    b.spec.seed = 8;
    assert_int_equal(hr_order_init(&b, &b.spec, &err), 0);
    for (uint64_t i = 0; i < 1000; i++) {
        same_epoch += hr_order_record(&a, 0, i) == hr_order_record(&a, 1, i);
        same_seed += hr_order_record(&a, 0, i) == hr_order_record(&b, 0, i);
    }
    assert_in_range(same_epoch, 0, 3);
    assert_in_range(same_seed, 0, 3);
}

static void window_touches_few_blocks_at_a_time(void **state)
{
    enum { BLOCK = 7, OPEN = 5, N = 1000 };
    struct hr_order window = make_window(N, BLOCK, OPEN);

    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        uint64_t first[N / BLOCK + 1], last[N / BLOCK + 1], blocks = N / BLOCK + 1;
        memset(first, 0xff, sizeof(first));
        for (uint64_t i = 0; i < N; i++) {
            uint64_t block = hr_order_record(&window, epoch, i) / BLOCK;
            first[block] = hr_min_u64(first[block], i);
            last[block] = i;
        }
        for (uint64_t i = 0; i < N; i++) {
            int open = 0;
            for (uint64_t b = 0; b < blocks; b++)
                open += first[b] <= i && i <= last[b];
            assert_in_range(open, 1, OPEN);
        }
    }
}

/* Pearson's statistic of (position, record) counts over many keys. Of a uniform random permutation
 * (n - 1) / n times it is chi-square with (n - 1)^2 degrees of freedom; 5 sigma are allowed. */
static void positions_are_uniform(void **state)
{
    static const unsigned counts[] = {2, 3, 5, 8, 13, 50, 129, 257, 300};
    static uint32_t seen[300 * 300];

    for (size_t c = 0; c < HR_ARRAY_SIZE(counts); c++) {
        unsigned n = counts[c], trials = 20000;
        double expected = (double)trials / n, chi = 0, freedom = (double)(n - 1) * (n - 1);
        memset(seen, 0, sizeof(seen));
        for (unsigned t = 0; t < trials; t++) {
            struct hr_order order = order_make(HR_ORDER_FULL, HR_LAST_KEEP, n, 1);
            struct hr_cursor cursor = {.epoch = t % 200, .step = 0};
            struct hr_error err;
            order.spec.seed = t / 200;
            order.spec.batch = n;
            assert_int_equal(hr_order_init(&order, &order.spec, &err), 0);
            struct hr_place places[300];
            hr_order_places(&order, cursor, 0, n, places);
            for (unsigned i = 0; i < n; i++)
                seen[i * n + places[i].record]++;
        }
        for (unsigned i = 0; i < n * n; i++)
            chi += (seen[i] - expected) * (seen[i] - expected) / expected;
        chi *= (double)(n - 1) / n;
        if ((chi - freedom) * (chi - freedom) > 25 * 2 * freedom)
            fail_msg("n = %u: chi-square %.1f with %.0f degrees of freedom", n, chi, freedom);
    }
}

static void all_orders_of_four_are_equally_likely(void **state)
{
    unsigned seen[256] = {0}, kinds = 0, trials = 48000;
    double expected = trials / 24.0, chi = 0;

    for (unsigned t = 0; t < trials; t++) {
        struct hr_permutation perm;
        unsigned code = 0;
        hr_permutation_init(&perm, 4, hr_key_absorb(hr_key_absorb(0, t / 100), t % 100));
        for (unsigned i = 0; i < 4; i++)
            code = code * 4 + (unsigned)hr_permutation_at(&perm, i);
        seen[code]++;
    }
    for (unsigned i = 0; i < 256; i++) {
        if (!seen[i])
            continue;
        kinds++;
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    assert_int_equal(kinds, 24);
    assert_true(chi < 23 + 5 * 6.8);
}

static void last_rules_make_the_documented_batches(void **state)
{
    struct hr_order drop = order_make(HR_ORDER_NONE, HR_LAST_DROP, 10, 4);
    struct hr_order pad = order_make(HR_ORDER_NONE, HR_LAST_PAD, 10, 4);
    struct hr_order keep = order_make(HR_ORDER_NONE, HR_LAST_KEEP, 10, 4);
    struct hr_cursor last = {.epoch = 3, .step = 2};

    assert_int_equal(hr_order_steps(&drop, 0), 2);
    assert_int_equal(hr_order_steps(&pad, 0), 3);
    assert_int_equal(hr_order_steps(&keep, 0), 3);
    assert_int_equal(hr_order_share(&pad, last, 0, 1).global_count, 4);
    assert_int_equal(hr_order_share(&keep, last, 0, 1).global_count, 2);
    assert_true(hr_order_place(&pad, last, 1).valid);
    assert_int_equal(hr_order_place(&pad, last, 1).record, 9);
    assert_false(hr_order_place(&pad, last, 2).valid);
    assert_int_equal(hr_order_place(&pad, last, 3).record, 0);
    assert_int_equal(hr_order_place(&keep, last, 1).record, 9);
}

/* wrap against plain counting: batch k begins at record k * batch of the endless sequence. */
static void wrap_continues_into_the_next_epoch(void **state)
{
    for (uint64_t n = 1; n <= 12; n++)
        for (uint64_t batch = 1; batch <= 30; batch++) {
            struct hr_order order = order_make(HR_ORDER_FULL, HR_LAST_WRAP, n, batch);
            struct hr_cursor cursor = {0};
            uint64_t steps[400] = {0};
            for (uint64_t k = 0; k < 60; k++) {
                assert_int_equal(cursor.epoch, k * batch / n);
                assert_int_equal(hr_order_check_cursor(&order, cursor, NULL), 0);
                assert_int_equal(hr_order_ordinal(&order, cursor), k);
                for (uint32_t i = 0; i < batch; i++) {
                    struct hr_place place = hr_order_place(&order, cursor, i);
                    uint64_t at = k * batch + i;
                    assert_true(place.valid);
                    assert_int_equal(place.epoch, at / n);
                    assert_int_equal(place.position, at % n);
                    assert_int_equal(place.record, hr_order_record(&order, at / n, at % n));
                }
                if (cursor.epoch < 400)
                    steps[cursor.epoch]++;
                hr_order_next(&order, &cursor);
            }
            for (uint64_t e = 0; e < cursor.epoch && e < 400; e++)
                assert_int_equal(hr_order_steps(&order, e), steps[e]);
        }
}

static void huge_counts_answer_at_once(void **state)
{
    struct hr_order order = order_make(HR_ORDER_FULL, HR_LAST_WRAP, UINT64_C(10000000000), 4096);
    struct hr_cursor cursor = {.epoch = 1000000, .step = 2441405};

    /* ceil(1000001 * 10^10 / 4096) - ceil(1000000 * 10^10 / 4096), by hand: 2441406 or so. */
    assert_in_range(hr_order_steps(&order, cursor.epoch), 2441406, 2441407);
    assert_int_equal(hr_order_check_cursor(&order, cursor, NULL), 0);
    assert_int_equal(hr_order_ordinal(&order, (struct hr_cursor){1000000, 0}),
                     UINT64_C(2441406250000));
    assert_true(hr_order_place(&order, cursor, 4095).record < UINT64_C(10000000000));
    for (int kind = HR_ORDER_FULL; kind <= HR_ORDER_NONE; kind++) {
        struct hr_order most = order_make(kind, HR_LAST_WRAP, HR_ORDER_MAX_RECORDS, HR_ORDER_MAX_BATCH);
        struct hr_cursor end = {.epoch = HR_ORDER_MAX_EPOCH};
        end.step = hr_order_steps(&most, end.epoch) - 1;
        assert_int_equal(hr_order_check_cursor(&most, end, NULL), 0);
        assert_true(hr_order_place(&most, end, 12345).record < HR_ORDER_MAX_RECORDS);
        assert_int_equal(hr_order_ordinal(&most, end), UINT64_MAX);
    }
}

static void window_of_huge_blocks_does_not_overflow(void **state)
{
    struct hr_order order = make_window(HR_ORDER_MAX_RECORDS - 5, UINT64_MAX, UINT64_MAX);
    assert_true(hr_order_record(&order, 1, HR_ORDER_MAX_RECORDS - 6) < HR_ORDER_MAX_RECORDS - 5);
    order = make_window(HR_ORDER_MAX_RECORDS - 5, (UINT64_C(1) << 62) + 3, 2);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t index = hr_key_absorb(9, i) % (HR_ORDER_MAX_RECORDS - 5);
        assert_true(hr_order_record(&order, i, index) < HR_ORDER_MAX_RECORDS - 5);
    }
}

static void shares_of_all_ranks_make_the_batch(void **state)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 6, 8, 12, 24};

    for (int last = HR_LAST_DROP; last <= HR_LAST_KEEP; last++) {
        struct hr_order order = order_make(HR_ORDER_FULL, last, 101, 24);
        for (size_t w = 0; w < HR_ARRAY_SIZE(worlds); w++)
            for (uint64_t s = 0; s < hr_order_steps(&order, 2); s++) {
                struct hr_cursor cursor = {.epoch = 2, .step = s};
                uint32_t next = 0, total = 0, least = UINT32_MAX, most = 0;
                for (uint32_t r = 0; r < worlds[w]; r++) {
                    struct hr_share share = hr_order_share(&order, cursor, r, worlds[w]);
                    assert_int_equal(share.first, next);
                    next += share.count;
                    total = share.global_count;
                    least = share.count < least ? share.count : least;
                    most = share.count > most ? share.count : most;
                }
                assert_int_equal(next, total);
                assert_in_range(most - least, 0, 1);
            }
    }
}

static void world_that_does_not_divide_lists_what_fits(void **state)
{
    struct hr_order order = order_make(HR_ORDER_FULL, HR_LAST_DROP, 1000, 12);
    struct hr_error err;

    assert_int_equal(hr_order_check_world(&order, 3, 4, &err), 0);
    assert_int_equal(hr_order_check_world(&order, 0, 5, &err), HR_E_CONFIG);
    assert_string_equal(err.text, "the global batch of 12 does not divide among 5 ranks");
    assert_string_equal(err.hint, "it fits these numbers of ranks: 1, 2, 3, 4, 6, 12; or make "
                                  "batch a multiple of 5");
    assert_int_equal(hr_order_check_world(&order, 4, 4, &err), HR_E_CONFIG);
    assert_int_equal(hr_order_check_world(&order, 0, 0, &err), HR_E_CONFIG);
}

static void impossible_plans_are_refused(void **state)
{
    struct hr_order_spec spec = {.record_count = 0, .batch = 4};
    struct hr_order order;
    struct hr_error err;

    assert_int_equal(hr_order_init(&order, &spec, &err), HR_E_CONFIG);
    spec.record_count = 3;
    assert_int_equal(hr_order_init(&order, &spec, &err), HR_E_CONFIG);
    assert_non_null(strstr(err.hint, "at most 3"));
    spec.last = HR_LAST_WRAP;
    assert_int_equal(hr_order_init(&order, &spec, &err), 0);
    spec.batch = HR_ORDER_MAX_BATCH + 1;
    assert_int_equal(hr_order_init(&order, &spec, &err), HR_E_CONFIG);
    spec.batch = 0;
    assert_int_equal(hr_order_init(&order, &spec, &err), HR_E_CONFIG);
    spec.batch = 1;
    spec.record_count = HR_ORDER_MAX_RECORDS + 1;
    assert_int_equal(hr_order_init(&order, &spec, &err), HR_E_CONFIG);
}

static void cursor_past_an_epoch_is_refused(void **state)
{
    struct hr_order order = order_make(HR_ORDER_FULL, HR_LAST_DROP, 100, 10);
    struct hr_error err;

    assert_int_equal(hr_order_check_cursor(&order, (struct hr_cursor){4, 9}, &err), 0);
    assert_int_equal(hr_order_check_cursor(&order, (struct hr_cursor){4, 10}, &err), HR_E_STATE);
    assert_string_equal(err.hint, "its steps are 0 to 9");
    assert_int_equal(hr_order_check_cursor(&order, (struct hr_cursor){UINT64_MAX, 0}, &err),
                     HR_E_STATE);
}

static void substitutes_are_others_and_differ_by_attempt(void **state)
{
    for (uint64_t n = 1; n <= 9; n++) {
        struct hr_order order = order_make(HR_ORDER_FULL, HR_LAST_KEEP, n, 1);
        for (uint64_t s = 0; s < n; s++) {
            struct hr_place place = hr_order_place(&order, (struct hr_cursor){1, s}, 0);
            unsigned seen = 0;
            for (uint32_t attempt = 1; attempt < n; attempt++) {
                uint64_t other = hr_order_substitute(&order, &place, attempt);
                assert_true(other < n);
                assert_true(other != place.record);
                assert_false(seen >> other & 1);
                seen |= 1u << other;
                assert_int_equal(other, hr_order_substitute(&order, &place, attempt));
            }
            assert_int_equal(hr_order_substitute(&order, &place, 1000) == place.record, n == 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_epoch_is_a_permutation),
        cmocka_unit_test(every_window_is_a_permutation),
        cmocka_unit_test(inverse_undoes_the_permutation),
        cmocka_unit_test(many_at_once_equals_one_by_one),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(window_touches_few_blocks_at_a_time),
        cmocka_unit_test(positions_are_uniform),
        cmocka_unit_test(all_orders_of_four_are_equally_likely),
        cmocka_unit_test(last_rules_make_the_documented_batches),
        cmocka_unit_test(wrap_continues_into_the_next_epoch),
        cmocka_unit_test(huge_counts_answer_at_once),
        cmocka_unit_test(window_of_huge_blocks_does_not_overflow),
        cmocka_unit_test(shares_of_all_ranks_make_the_batch),
        cmocka_unit_test(world_that_does_not_divide_lists_what_fits),
        cmocka_unit_test(impossible_plans_are_refused),
        cmocka_unit_test(cursor_past_an_epoch_is_refused),
        cmocka_unit_test(substitutes_are_others_and_differ_by_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
