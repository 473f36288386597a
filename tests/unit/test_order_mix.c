/* order: sources that are mixed, and what a filter keeps of one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "made_order.h"
#include "order/order.h"
#include "order/selection.h"

static uint64_t rng_state = 12345;

static uint64_t draw(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    return rng_state ^= rng_state << 17;
}

enum { PERIOD_MAX = 1024 }; /* docs/order.md */

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
        {{.record_count = 1, .weight = 1}, {.record_count = 1, .weight = 1e-300}, "2^32"},
        {{.record_count = 1, .weight = 1}, {.record_count = 1, .weight = NAN}, "above 0"},
        {{.record_count = 1, .weight = 1}, {.record_count = 1, .weight = INFINITY}, "above 0"},
        {{.record_count = 1, .weight = 1e308}, {.record_count = 1, .weight = 1e308}, "too large"},
        {{.record_count = 1, .weight = 1e306}, {.record_count = 1, .weight = 1e305}, "too large"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
