/* order: permutations, windows, batches, ranks, stand-ins and the checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/hash.h"
#include "order/order.h"
#include "order/permute.h"
#include "order/selection.h"
#include "order/state.h"

static struct hr_order make(enum hr_order_kind kind, enum hr_last_rule last, uint64_t records,
                            uint64_t batch)
{
    struct hr_order_spec spec = {
        .kind = kind, .last = last, .seed = 7, .record_count = records, .batch = batch};
    struct hr_order order;
    struct hr_error err;

    assert_int_equal(hr_order_init(&order, &spec, &err), 0);
    return order;
}

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
        struct hr_order full = make(HR_ORDER_FULL, HR_LAST_KEEP, n, 4);
        for (uint64_t epoch = 0; epoch < 4; epoch++)
            assert_is_permutation(&full, epoch);
    }
    for (uint64_t n = 4095; n <= 4098; n++) {
        struct hr_order full = make(HR_ORDER_FULL, HR_LAST_KEEP, n, 4);
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
    struct hr_order a = make(HR_ORDER_FULL, HR_LAST_DROP, 100000, 10), b = a;
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
            struct hr_order order = make(HR_ORDER_FULL, HR_LAST_KEEP, n, 1);
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
    struct hr_order drop = make(HR_ORDER_NONE, HR_LAST_DROP, 10, 4);
    struct hr_order pad = make(HR_ORDER_NONE, HR_LAST_PAD, 10, 4);
    struct hr_order keep = make(HR_ORDER_NONE, HR_LAST_KEEP, 10, 4);
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
            struct hr_order order = make(HR_ORDER_FULL, HR_LAST_WRAP, n, batch);
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
    struct hr_order order = make(HR_ORDER_FULL, HR_LAST_WRAP, UINT64_C(10000000000), 4096);
    struct hr_cursor cursor = {.epoch = 1000000, .step = 2441405};

    /* ceil(1000001 * 10^10 / 4096) - ceil(1000000 * 10^10 / 4096), by hand: 2441406 or so. */
    assert_in_range(hr_order_steps(&order, cursor.epoch), 2441406, 2441407);
    assert_int_equal(hr_order_check_cursor(&order, cursor, NULL), 0);
    assert_int_equal(hr_order_ordinal(&order, (struct hr_cursor){1000000, 0}),
                     UINT64_C(2441406250000));
    assert_true(hr_order_place(&order, cursor, 4095).record < UINT64_C(10000000000));
    for (int kind = HR_ORDER_FULL; kind <= HR_ORDER_NONE; kind++) {
        struct hr_order most = make(kind, HR_LAST_WRAP, HR_ORDER_MAX_RECORDS, HR_ORDER_MAX_BATCH);
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
        struct hr_order order = make(HR_ORDER_FULL, last, 101, 24);
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
    struct hr_order order = make(HR_ORDER_FULL, HR_LAST_DROP, 1000, 12);
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
    struct hr_order order = make(HR_ORDER_FULL, HR_LAST_DROP, 100, 10);
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
        struct hr_order order = make(HR_ORDER_FULL, HR_LAST_KEEP, n, 1);
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

static void quality_tells_orders_apart(void **state)
{
    struct hr_order none = make(HR_ORDER_NONE, HR_LAST_DROP, 1000000, 10);
    struct hr_order full = make(HR_ORDER_FULL, HR_LAST_DROP, 1000000, 10);
    struct hr_order_quality q = hr_order_quality(&none);

    assert_true(q.mean_distance == 0 && q.max_distance == 0 && q.open_records == 1);
    q = hr_order_quality(&full);
    /* The mean distance of two uniform points is a third of the range. */
    assert_true(q.mean_distance > 320000 && q.mean_distance < 347000);
    assert_int_equal(q.open_records, 1000000);
    struct hr_order window = make(HR_ORDER_WINDOW, HR_LAST_DROP, 1000000, 10);
    assert_int_equal(hr_order_quality(&window).open_records, 16384);
}

/* ---- mixtures ---- */

enum { PERIOD_MAX = 1024 }; /* docs/order.md */

static uint64_t rng_state = 12345;

static uint64_t draw(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    return rng_state ^= rng_state << 17;
}

/* Shares and counts over prefixes: never further from the share than a quarter period and one a
 * source. */
static void check_prefixes(const struct hr_order *order, uint64_t epoch, uint32_t positions)
{
    uint32_t sources = order->spec.source_count;
    double n[HR_ORDER_MAX_SOURCES] = {0};
    struct hr_place places[256];

    for (uint32_t at = 0; at < positions; at += 256) {
        /* Batches of 256: step = at / 256. */
        hr_order_places(order, (struct hr_cursor){epoch, at / 256}, 0, 256, places);
        for (uint32_t i = 0; i < 256; i++) {
            assert_true(places[i].valid && places[i].source < sources);
            n[places[i].source]++;
        }
        for (uint32_t s = 0; s < sources; s++) {
            uint64_t total, share = hr_order_share_of(order, s, &total);
            double asked = (double)share / (double)total * (at + 256);
            double off = n[s] > asked ? n[s] - asked : asked - n[s];
            if (off > 2 * (PERIOD_MAX / 4.0 + sources)) /* either end may cut a period */
                fail_msg("source %u of %u: %g of %u where %g was asked", s, sources, n[s], at + 256,
                         asked);
        }
    }
}

static void prefixes_keep_to_any_weights(void **state)
{
    static const double weights[] = {1, 3, 0.1, 1e-6, 1e6, 7.25, 1.0 / 3, 1e-9, 250, 0.7071067811865475};

    for (int round = 0; round < 300; round++) {
        struct hr_order_source sources[12];
        uint32_t count = 2 + (uint32_t)(draw() % 11);
        struct hr_order_spec spec = {.last = HR_LAST_WRAP, .batch = 256, .seed = draw(),
                                     .sources = sources, .source_count = count,
                                     .stop = HR_STOP_STEPS, .stop_steps = 1000000};
        for (uint32_t s = 0; s < count; s++)
            sources[s] = (struct hr_order_source){.record_count = 1 + draw() % 100000,
                                                  .weight = weights[draw() % HR_ARRAY_SIZE(weights)]};
        struct hr_order order;
        struct hr_error err;
        int ret = hr_order_init(&order, &spec, &err);
        if (ret < 0) { /* less than 1 in 2^32 */
            assert_non_null(strstr(err.text, "2^32"));
            continue;
        }
        check_prefixes(&order, draw() % 1000, 20 * 256);
        hr_order_finish(&order);
    }
}

static void small_ratios_are_exact_in_each_period(void **state)
{
    struct hr_order_source sources[] = {{.record_count = 1000, .weight = 3},
                                        {.record_count = 50, .weight = 1}};
    struct hr_order_spec spec = {.batch = 64, .seed = 7, .sources = sources, .source_count = 2};
    struct hr_place places[64];
    struct hr_order order;

    assert_int_equal(hr_order_init(&order, &spec, NULL), 0);
    assert_int_equal(order.epoch_samples, 1334); /* ceil(1000 * 4 / 3) > 50 * 4 */
    for (uint64_t step = 0; step < 20; step++) {
        hr_order_places(&order, (struct hr_cursor){0, step}, 0, 64, places);
        uint32_t of_first = 0;
        for (int i = 0; i < 64; i++)
            of_first += places[i].source == 0;
        assert_int_equal(of_first, 48);
    }
    hr_order_finish(&order);
}

/* A source's visits, in the order of positions, are its own epochs one after the other. */
static void each_source_has_its_own_epochs(void **state)
{
    for (int kind = HR_ORDER_FULL; kind <= HR_ORDER_NONE; kind++) {
        struct hr_order_source sources[] = {{.record_count = 10, .weight = 5},
                                            {.record_count = 97, .weight = 2.5},
                                            {.record_count = 1000, .weight = 0.77}};
        struct hr_order_spec spec = {.kind = (enum hr_order_kind)kind, .last = HR_LAST_WRAP,
                                     .batch = 100, .seed = 3, .block_records = 7, .open_blocks = 3,
                                     .sources = sources, .source_count = 3};
        struct hr_order order;
        struct hr_cursor cursor = {0};
        uint64_t visits[3] = {0};
        uint8_t seen[3][1000] = {{0}};
        assert_int_equal(hr_order_init(&order, &spec, NULL), 0);
        for (int batch = 0; batch < 500; batch++, hr_order_next(&order, &cursor)) {
            struct hr_place places[100];
            hr_order_places(&order, cursor, 0, 100, places);
            for (int i = 0; i < 100; i++) {
                uint32_t s = places[i].source;
                uint64_t n = sources[s].record_count, own_epoch = visits[s]++ / n;
                assert_true(places[i].record < n);
                assert_int_equal(seen[s][places[i].record]++, own_epoch % 256);
                if (kind == HR_ORDER_NONE)
                    assert_int_equal(places[i].record, (visits[s] - 1) % n);
            }
        }
        hr_order_finish(&order);
    }
}

static void repeats_are_exact_in_each_epoch(void **state)
{
    struct hr_order_source sources[] = {{.record_count = 10, .repeats = 7},
                                        {.record_count = 1500, .repeats = 1},
                                        {.record_count = 333, .repeats = 2}};
    struct hr_order_spec spec = {.last = HR_LAST_KEEP, .batch = 37, .seed = 3, .sources = sources,
                                 .source_count = 3};
    struct hr_order order;

    assert_int_equal(hr_order_init(&order, &spec, NULL), 0);
    assert_int_equal(order.epoch_samples, 70 + 1500 + 666);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint8_t seen[3][1500] = {{0}};
        for (uint64_t step = 0; step < hr_order_steps(&order, epoch); step++) {
            struct hr_cursor cursor = {epoch, step};
            uint32_t n = hr_order_share(&order, cursor, 0, 1).global_count;
            for (uint32_t i = 0; i < n; i++) {
                struct hr_place p = hr_order_place(&order, cursor, i);
                assert_int_equal(p.epoch, epoch);
                seen[p.source][p.record]++;
            }
        }
        for (int s = 0; s < 3; s++)
            for (uint64_t r = 0; r < sources[s].record_count; r++)
                assert_int_equal(seen[s][r], sources[s].repeats);
    }
    hr_order_finish(&order);
}

static void stop_rules_set_the_epoch(void **state)
{
    struct hr_order_source sources[] = {{.record_count = 100, .weight = 1},
                                        {.record_count = 1000, .weight = 4}};
    struct hr_order_spec spec = {.last = HR_LAST_KEEP, .batch = 10, .sources = sources,
                                 .source_count = 2};
    struct hr_order order;
    struct hr_error err;

    assert_int_equal(hr_order_init(&order, &spec, NULL), 0);
    assert_int_equal(order.epoch_samples, 1250);
    hr_order_finish(&order);
    spec.stop = HR_STOP_FIRST_EXHAUSTED;
    assert_int_equal(hr_order_init(&order, &spec, NULL), 0);
    assert_int_equal(order.epoch_samples, 500);
    hr_order_finish(&order);
    spec.stop = HR_STOP_STEPS;
    spec.stop_steps = 12;
    assert_int_equal(hr_order_init(&order, &spec, NULL), 0);
    assert_int_equal(hr_order_steps(&order, 5), 12);
    hr_order_finish(&order);
    spec.last = HR_LAST_DROP;
    spec.stop = HR_STOP_FIRST_EXHAUSTED;
    spec.batch = 501;
    assert_int_equal(hr_order_init(&order, &spec, &err), HR_E_CONFIG);
    assert_non_null(strstr(err.hint, "stop: {steps: N}"));
}

static void huge_sources_answer_and_resume_at_once(void **state)
{
    struct hr_order_source sources[] = {{.record_count = 10, .weight = 0.2},
                                        {.record_count = 1000, .weight = 0.3141592653589793},
                                        {.record_count = 1000000000, .weight = 2}};
    struct hr_order_spec spec = {.batch = 256, .seed = 1, .sources = sources, .source_count = 3};
    struct hr_order order;
    struct hr_place places[256], one;

    uint64_t t0 = hr_clock_ns();
    assert_int_equal(hr_order_init(&order, &spec, NULL), 0);
    hr_order_places(&order, (struct hr_cursor){1000000, 4567890}, 0, 256, places);
    uint64_t ns = hr_clock_ns() - t0;
    for (uint32_t i = 0; i < 256; i += 17) {
        one = hr_order_place(&order, (struct hr_cursor){1000000, 4567890}, i);
        assert_int_equal(one.source, places[i].source);
        assert_int_equal(one.record, places[i].record);
        assert_int_equal(one.position, places[i].position);
    }
    print_message("# a batch in the middle of 10 + 1000 + 10^9 records: %.1f us\n", (double)ns / 1e3);
    assert_true(ns < HR_NS_PER_S / 10);
    t0 = hr_clock_ns();
    for (uint64_t step = 0; step < 400; step++)
        hr_order_places(&order, (struct hr_cursor){7, step}, 0, 256, places);
    ns = hr_clock_ns() - t0;
    print_message("# mixture of 3, period 1024: %.1f ns a position\n", (double)ns / 400 / 256);
    hr_order_finish(&order);
}

static void stand_ins_stay_in_their_source(void **state)
{
    struct hr_order_source sources[] = {{.record_count = 5, .weight = 1},
                                        {.record_count = 30, .weight = 1},
                                        {.record_count = 1, .weight = 1}};
    struct hr_order_spec spec = {.batch = 36, .seed = 9, .sources = sources, .source_count = 3};
    struct hr_order order;

    assert_int_equal(hr_order_init(&order, &spec, NULL), 0);
    for (uint32_t i = 0; i < 36; i++) {
        struct hr_place place = hr_order_place(&order, (struct hr_cursor){0, 0}, i);
        uint64_t n = sources[place.source].record_count, seen = 0;
        for (uint32_t attempt = 1; attempt < n; attempt++)
            seen |= UINT64_C(1) << hr_order_substitute(&order, &place, attempt);
        seen |= UINT64_C(1) << place.record;
        assert_int_equal(seen, (UINT64_C(1) << n) - 1);
    }
    hr_order_finish(&order);
}

static void mixtures_that_make_no_sense_are_refused(void **state)
{
    static const struct {
        struct hr_order_source a, b;
        const char *reason;
    } cases[] = {
        {{.record_count = 1, .weight = 1}, {.record_count = 0, .weight = 1}, "source 1 has no records"},
        {{.record_count = 1, .weight = 1}, {.record_count = 1, .weight = 0}, "above 0"},
        {{.record_count = 1, .weight = 1}, {.record_count = 1, .weight = 1e-12}, "2^32"},
        {{.record_count = 1, .repeats = 1}, {.record_count = 1, .weight = 1}, "no repeats"},
        {{.record_count = 1, .repeats = 1}, {.record_count = 1ull << 62, .repeats = 9}, "2^62"},
        {{.record_count = 1, .weight = 1e9}, {.record_count = 1ull << 60, .weight = 1}, "2^62"},
        {{.record_count = 1ull << 63, .weight = 1}, {.record_count = 1, .weight = 1}, "2^63"},
    };

    for (size_t i = 0; i < HR_ARRAY_SIZE(cases); i++) {
        struct hr_order_source sources[] = {cases[i].a, cases[i].b};
        struct hr_order_spec spec = {.last = HR_LAST_WRAP, .batch = 1, .sources = sources,
                                     .source_count = 2};
        struct hr_order order;
        struct hr_error err;
        assert_int_equal(hr_order_init(&order, &spec, &err), HR_E_CONFIG);
        if (!strstr(err.text, cases[i].reason))
            fail_msg("case %zu: %s", i, err.text);
    }
}

/* ---- selections ---- */

static void check_selection(uint64_t count, uint64_t stride, bool inverted)
{
    struct hr_selection_builder *b = hr_selection_begin(count);
    uint64_t *kept = calloc(count + 1, sizeof(*kept)), n = 0;

    assert_non_null(b);
    for (uint64_t r = 0; r < count; r++) {
        if ((draw() % stride == 0) == inverted)
            continue;
        hr_selection_keep(b, r);
        kept[n++] = r;
    }
    struct hr_selection *s = hr_selection_commit(b);
    assert_non_null(s);
    assert_int_equal(hr_selection_count(s), n);
    for (uint64_t i = 0; i < n; i++)
        if (hr_selection_at(s, i) != kept[i])
            fail_msg("%llu of %llu, stride %llu", (unsigned long long)i, (unsigned long long)n,
                     (unsigned long long)stride);
    assert_true(hr_selection_bytes(s) <= count / 8 + count / 32 + 4096);
    hr_selection_destroy(s);
    free(kept);
}

static void selections_find_each_kept_record(void **state)
{
    static const uint64_t counts[] = {1, 63, 64, 65, 511, 512, 513, 5000, 200000};

    for (size_t i = 0; i < HR_ARRAY_SIZE(counts); i++)
        for (uint64_t stride = 1; stride <= 1000; stride = stride * 3 + 1) {
            check_selection(counts[i], stride, false);
            check_selection(counts[i], stride, true);
        }
}

static void filtered_order_gives_only_what_was_kept(void **state)
{
    struct hr_selection_builder *b = hr_selection_begin(1000);

    for (uint64_t r = 3; r < 1000; r += 7)
        hr_selection_keep(b, r);
    struct hr_selection *kept = hr_selection_commit(b);
    struct hr_order_source source = {.record_count = hr_selection_count(kept), .selection = kept,
                                     .weight = 1};
    struct hr_order_spec spec = {.last = HR_LAST_KEEP, .batch = 10, .sources = &source,
                                 .source_count = 1};
    struct hr_order order;
    uint8_t seen[1000] = {0};
    assert_int_equal(hr_order_init(&order, &spec, NULL), 0);
    assert_int_equal(order.epoch_samples, 143);
    for (uint64_t i = 0; i < 143; i++) {
        struct hr_place place = hr_order_place(&order, (struct hr_cursor){2, i / 10}, i % 10);
        uint64_t other = hr_order_substitute(&order, &place, 1 + (uint32_t)i);
        assert_int_equal(place.record, hr_selection_at(kept, place.index));
        assert_int_equal(other % 7, 3);
        if (i != 142) /* the attempt after all others begins anew */
            assert_true(other != place.record);
        seen[place.record]++;
    }
    for (uint64_t r = 0; r < 1000; r++)
        assert_int_equal(seen[r], r >= 3 && r % 7 == 3);
    hr_order_finish(&order);
    hr_selection_destroy(kept);
}

static struct hr_state first_state(void)
{
    struct hr_digest dataset = hr_digest_of("d", 1), plan = hr_digest_of("p", 1);
    struct hr_state first;

    hr_state_init(&first, &dataset, &plan, 7);
    return first;
}

static void state_survives_text(void **state)
{
    struct hr_state a = first_state(), b;
    struct hr_error err;
    char text[HR_STATE_BYTES], again[HR_STATE_BYTES];

    a.seed = a.samples = a.order_digest = a.cursor.epoch = a.cursor.step = UINT64_MAX;
    int n = hr_state_encode(&a, text);
    assert_in_range(n, 100, HR_STATE_BYTES - 1);
    assert_int_equal(strlen(text), n);
    assert_int_equal(hr_state_decode(&b, &a, text, (size_t)n, &err), 0);
    hr_state_encode(&b, again);
    assert_string_equal(text, again);
}

static void empty_state_is_the_beginning(void **state)
{
    static const char *const texts[] = {"", "{}", " {\n} "};
    struct hr_state defaults = first_state(), out;
    struct hr_error err;

    defaults.cursor.step = 9;
    for (size_t i = 0; i < HR_ARRAY_SIZE(texts); i++) {
        assert_int_equal(hr_state_decode(&out, &defaults, texts[i], strlen(texts[i]), &err), 0);
        assert_int_equal(out.cursor.step, 0);
        assert_int_equal(out.seed, 7);
        assert_true(hr_digest_equal(&out.plan, &defaults.plan));
    }
}

/* Each edit of a good state must be refused, with a reason that holds the given words. */
static void damaged_states_are_refused(void **state)
{
    static const struct {
        const char *from, *to, *reason;
    } edits[] = {
        {"\"headrace_state\":2", "\"headrace_state\":3", "version 3"},
        {"\"headrace_state\":2", "\"headrace_state\":0", "version 0"},
        {"\"headrace_state\":2", "\"headrace_state\":1", "unknown key of version 1 'parts'"},
        {"\"parts\":\"\"", "\"parts\":\"abc\"", "4 hex digits a part"},
        {"\"parts\":\"\"", "\"parts\":\"abcx\"", "4 hex digits a part"},
        {",\"parts\":\"\"", "", "missing 'parts'"},
        {"\"step\":0", "\"step\":-1", "negative number for 'step'"},
        {"\"step\":0", "\"step\":18446744073709551616", "over 64 bits for 'step'"},
        {"\"step\":0", "\"step\":1.5", "whole number for 'step'"},
        {"\"step\":0", "\"step\":1e3", "whole number for 'step'"},
        {"\"step\":0", "\"step\":01", "whole number for 'step'"},
        {"\"step\":0", "\"step\":null", "whole number for 'step'"},
        {"\"step\":0", "\"step\":0,\"step\":0", "second value for 'step'"},
        {"\"step\":0,", "", "missing 'step'"},
        {"\"step\":0", "\"stop\":0", "unknown key 'stop'"},
        {"\"step\":0", "\"st\\u0065p\":0", "unexpected string"},
        {"\"order_digest\":\"0", "\"order_digest\":\"", "16 hex digits"},
        {"\"order_digest\":\"0", "\"order_digest\":\"g", "16 hex digits"},
        {"\"dataset\":\"", "\"dataset\":\"0", "unexpected string"},
        {"\"plan\":\"", "\"plan\":\"x\",\"plan\":\"", "32 hex digits"},
        {"}", "", "expected ',' or '}'"},
        {"}", "}}", "something follows"},
        {"}", ",}", "expected a string"},
        {"{", "[", "expected '{'"},
    };
    struct hr_state good = first_state(), out, before;
    char text[HR_STATE_BYTES], bad[2 * HR_STATE_BYTES];

    memset(&out, 0x5a, sizeof(out));
    before = out;
    hr_state_encode(&good, text);
    for (size_t i = 0; i < HR_ARRAY_SIZE(edits); i++) {
        struct hr_error err;
        char *at = strstr(text, edits[i].from);
        assert_non_null(at);
        snprintf(bad, sizeof(bad), "%.*s%s%s", (int)(at - text), text, edits[i].to,
                 at + strlen(edits[i].from));
        assert_int_equal(hr_state_decode(&out, &good, bad, strlen(bad), &err), HR_E_STATE);
        if (!strstr(err.text, edits[i].reason))
            fail_msg("'%s' says '%s'", bad, err.text);
        assert_memory_equal(&out, &before, sizeof(out));
    }
    for (size_t n = 1; n < strlen(text); n++)
        assert_int_equal(hr_state_decode(&out, &good, text, n, NULL), HR_E_STATE);
}

static void state_of_version_1_still_loads(void **state)
{
    static const char old[] =
        "{\"headrace_state\":1,\"dataset\":\"99aa06d3014798d86001c324468d497f\","
        "\"plan\":\"99aa06d3014798d86001c324468d497f\",\"seed\":7,\"epoch\":3,\"step\":1,"
        "\"samples\":4,\"order_digest\":\"9d07bca285c41ff4\"}";
    struct hr_state defaults = first_state(), out;
    struct hr_error err;

    assert_int_equal(hr_state_decode(&out, &defaults, old, strlen(old), &err), 0);
    assert_int_equal(out.cursor.epoch, 3);
    assert_int_equal(out.cursor.step, 1);
    assert_int_equal(out.order_digest, UINT64_C(0x9d07bca285c41ff4));
    assert_int_equal(out.parts.count, 0);
    assert_int_equal(hr_state_differing_part(&out, &defaults), -1);
}

static void largest_state_stays_under_512_bytes(void **state)
{
    struct hr_state full = first_state(), again;
    char text[HR_STATE_BYTES];
    struct hr_error err;

    full.seed = full.samples = full.cursor.step = full.order_digest = UINT64_MAX;
    full.cursor.epoch = UINT64_MAX;
    full.parts.count = HR_STATE_MAX_PARTS;
    for (uint32_t i = 0; i < HR_STATE_MAX_PARTS; i++)
        full.parts.digests[i] = (uint16_t)(0xffff - i);
    int n = hr_state_encode(&full, text);
    assert_in_range(n, 1, HR_STATE_BYTES - 1);
    assert_int_equal(hr_state_decode(&again, &full, text, (size_t)n, &err), 0);
    assert_int_equal(hr_state_differing_part(&again, &full), -1);
    again.parts.digests[17] ^= 1;
    assert_int_equal(hr_state_differing_part(&again, &full), 17);
    again = full;
    again.parts.count = 9;
    assert_int_equal(hr_state_differing_part(&again, &full), 9);
}

static void foreign_state_names_what_differs(void **state)
{
    struct hr_state ours = first_state(), loaded = ours;
    struct hr_error err;

    assert_int_equal(hr_state_check(&loaded, &ours, &err), 0);
    loaded.dataset.bytes[3] ^= 1;
    assert_int_equal(hr_state_check(&loaded, &ours, &err), HR_E_STATE);
    assert_non_null(strstr(err.text, "another dataset"));
    loaded = ours;
    loaded.plan.bytes[0] ^= 1;
    assert_int_equal(hr_state_check(&loaded, &ours, &err), HR_E_STATE);
    assert_non_null(strstr(err.text, "another plan"));
    loaded = ours;
    loaded.seed++;
    assert_int_equal(hr_state_check(&loaded, &ours, &err), HR_E_STATE);
    assert_non_null(strstr(err.text, "another seed: 8, not 7"));
    assert_non_null(strstr(err.hint, "--force-state"));
}

static void digest_rolls_over_the_records_in_order(void **state)
{
    struct hr_order order = make(HR_ORDER_NONE, HR_LAST_PAD, 5, 3);
    struct hr_state rolled = first_state();
    uint8_t ids[24];

    for (unsigned i = 0; i < 3; i++)
        hr_store_le64(ids + 8 * i, i);
    uint64_t expected = hr_hash64(ids, 24, 0);
    hr_state_advance(&rolled, &order);
    assert_true(rolled.order_digest == expected);
    assert_int_equal(rolled.samples, 3);
    hr_store_le64(ids, 3);
    hr_store_le64(ids + 8, 4);
    expected = hr_hash64(ids, 16, expected);
    hr_state_advance(&rolled, &order);
    assert_true(rolled.order_digest == expected);
    assert_int_equal(rolled.samples, 5);
    assert_int_equal(rolled.cursor.epoch, 1);
    assert_int_equal(rolled.cursor.step, 0);
}

static void saved_and_loaded_runs_go_on_alike(void **state)
{
    struct hr_order order = make(HR_ORDER_WINDOW, HR_LAST_WRAP, 1003, 64);
    struct hr_state through = first_state(), resumed = through, loaded;
    struct hr_error err;
    char text[HR_STATE_BYTES];

    for (int i = 0; i < 100; i++) {
        int n = hr_state_encode(&resumed, text);
        assert_int_equal(hr_state_decode(&loaded, &through, text, (size_t)n, &err), 0);
        resumed = loaded;
        hr_state_advance(&resumed, &order);
        hr_state_advance(&through, &order);
    }
    assert_memory_equal(&resumed, &through, sizeof(resumed));
    assert_int_equal(through.samples, 6400);
    assert_int_equal(hr_order_ordinal(&order, through.cursor), 100);
}

/* Not a bound that a loaded machine could miss by chance: prints, and fails only when absurd. */
static void advancing_costs_microseconds(void **state)
{
    struct hr_order order = make(HR_ORDER_FULL, HR_LAST_WRAP, 1281167, 256);
    struct hr_state rolled = first_state();
    uint64_t begin = hr_clock_ns();

    for (int i = 0; i < 1000; i++)
        hr_state_advance(&rolled, &order);
    double us = (double)(hr_clock_ns() - begin) / 1e6;
    print_message("# advance, batch 256 of 1281167 records: %.2f us\n", us);
    assert_true(us < 500);
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
        cmocka_unit_test(quality_tells_orders_apart),
        cmocka_unit_test(prefixes_keep_to_any_weights),
        cmocka_unit_test(small_ratios_are_exact_in_each_period),
        cmocka_unit_test(each_source_has_its_own_epochs),
        cmocka_unit_test(repeats_are_exact_in_each_epoch),
        cmocka_unit_test(stop_rules_set_the_epoch),
        cmocka_unit_test(huge_sources_answer_and_resume_at_once),
        cmocka_unit_test(stand_ins_stay_in_their_source),
        cmocka_unit_test(mixtures_that_make_no_sense_are_refused),
        cmocka_unit_test(selections_find_each_kept_record),
        cmocka_unit_test(filtered_order_gives_only_what_was_kept),
        cmocka_unit_test(state_of_version_1_still_loads),
        cmocka_unit_test(largest_state_stays_under_512_bytes),
        cmocka_unit_test(state_survives_text),
        cmocka_unit_test(empty_state_is_the_beginning),
        cmocka_unit_test(damaged_states_are_refused),
        cmocka_unit_test(foreign_state_names_what_differs),
        cmocka_unit_test(digest_rolls_over_the_records_in_order),
        cmocka_unit_test(saved_and_loaded_runs_go_on_alike),
        cmocka_unit_test(advancing_costs_microseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
