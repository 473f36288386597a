/* order, by what it costs and how close it keeps: the work to resume anywhere, counted; and the counts of each
 * source after every prefix of random mixtures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "order/order.h"
#include "order/permute.h"
#include "order/state.h"

/* ---- counting: the linker puts these before the functions that they name ---- */

static struct work {
    uint64_t permuted, allocated;
} work;

void __real_hr_permutation_map(const struct hr_permutation *perm, uint64_t *values, unsigned count);
void __wrap_hr_permutation_map(const struct hr_permutation *perm, uint64_t *values, unsigned count);
uint64_t __real_hr_permutation_at(const struct hr_permutation *perm, uint64_t index);
uint64_t __wrap_hr_permutation_at(const struct hr_permutation *perm, uint64_t index);
uint64_t __real_hr_permutation_index_of(const struct hr_permutation *perm, uint64_t value);
uint64_t __wrap_hr_permutation_index_of(const struct hr_permutation *perm, uint64_t value);
void *__real_hr_alloc(size_t bytes);
void *__wrap_hr_alloc(size_t bytes);
void *__real_hr_alloc_zero(size_t count, size_t item_bytes);
void *__wrap_hr_alloc_zero(size_t count, size_t item_bytes);

void __wrap_hr_permutation_map(const struct hr_permutation *perm, uint64_t *values, unsigned count)
{
    work.permuted += count;
    __real_hr_permutation_map(perm, values, count);
}

uint64_t __wrap_hr_permutation_at(const struct hr_permutation *perm, uint64_t index)
{
    work.permuted++;
    return __real_hr_permutation_at(perm, index);
}

uint64_t __wrap_hr_permutation_index_of(const struct hr_permutation *perm, uint64_t value)
{
    work.permuted++;
    return __real_hr_permutation_index_of(perm, value);
}

void *__wrap_hr_alloc(size_t bytes)
{
    work.allocated += bytes;
    return __real_hr_alloc(bytes);
}

void *__wrap_hr_alloc_zero(size_t count, size_t item_bytes)
{
    work.allocated += count * item_bytes;
    return __real_hr_alloc_zero(count, item_bytes);
}

/* ---- resuming ---- */

enum { BATCH = 256 };

/* All that a sidecar computes between a state's text and its first batch: the plan's order, the state, the
 * places of the batch and the state after it. */
static struct work resume(const struct hr_order_spec *spec, struct hr_cursor cursor, uint64_t *ns)
{
    struct hr_digest digest = {{0}};
    struct hr_state state, loaded;
    struct hr_place places[BATCH];
    char text[HR_STATE_BYTES];
    struct hr_order order;
    struct hr_error err;

    hr_state_init(&state, &digest, &digest, spec->seed);
    state.cursor = cursor;
    state.samples = 123456789;
    int n = hr_state_encode(&state, text);
    uint64_t t0 = hr_clock_ns();
    work = (struct work){0};
    assert_int_equal(hr_order_init(&order, spec, &err), 0);
    assert_int_equal(hr_state_decode(&loaded, &state, text, (size_t)n, &err), 0);
    assert_int_equal(hr_order_check_cursor(&order, loaded.cursor, &err), 0);
    hr_order_places(&order, loaded.cursor, 0, BATCH, places);
    hr_state_advance(&loaded, &order);
    *ns = hr_clock_ns() - t0;
    assert_int_equal(loaded.samples, 123456789 + BATCH);
    hr_order_finish(&order);
    return work;
}

static void resuming_takes_the_same_work_at_any_size_and_step(void **state)
{
    static const struct {
        uint64_t records, step;
    } places[] = {{1000, 0}, {1000, 2}, {1000000000, 0}, {1000000000, 1000000},
                  {UINT64_C(1) << 50, UINT64_C(1) << 40}};
    uint64_t ns;

    (void)state;
    for (enum hr_order_kind kind = HR_ORDER_FULL; kind <= HR_ORDER_NONE; kind++) {
        for (size_t i = 0; i < HR_ARRAY_SIZE(places); i++) {
            struct hr_order_spec spec = {.kind = kind, .last = HR_LAST_WRAP, .seed = 7, .batch = BATCH,
                                         .record_count = places[i].records};
            struct work w = resume(&spec, (struct hr_cursor){1000000, places[i].step}, &ns);
            assert_int_equal(w.allocated, 0);
            /* Each record of the batch once for its place and once for the digest; a window looks up its
             * blocks besides. */
            assert_true(w.permuted <= 2 * BATCH * (kind == HR_ORDER_WINDOW ? 2 : 1) + 2 * 17 * 4);
            if (kind == HR_ORDER_FULL)
                assert_int_equal(w.permuted, 2 * BATCH);
            if (places[i].records == 1000000000 && places[i].step)
                print_message("# kind %d: step 10^6 of 10^9 records: %.1f us, %u permuted\n", (int)kind,
                              (double)ns / 1e3, (unsigned)w.permuted);
        }
    }
}

static void resuming_a_mixture_takes_the_walk_of_a_period_at_most(void **state)
{
    static const struct hr_cursor cursors[] = {{0, 0}, {0, 1000000}, {1000000, 4567890}};
    uint64_t ns, allocated = 0;

    (void)state;
    for (uint64_t largest = 1000; largest <= UINT64_C(1000000000000); largest *= 1000) {
        struct hr_order_source sources[] = {{.record_count = 10, .weight = 0.2},
                                            {.record_count = 1000, .weight = 0.3141592653589793},
                                            {.record_count = largest, .weight = 2}};
        struct hr_order_spec spec = {.batch = BATCH, .seed = 1, .sources = sources, .source_count = 3,
                                     .stop = HR_STOP_STEPS, .stop_steps = 5000000};
        for (size_t i = 0; i < HR_ARRAY_SIZE(cursors); i++) {
            struct work w = resume(&spec, cursors[i], &ns);
            /* Twice: for the places and for the digest. Each position is dealt and its visit mapped; before
             * them comes the walk from the period's beginning. */
            assert_true(w.permuted <= 2 * (1023 + 2 * BATCH));
            assert_true(allocated == 0 || w.allocated == allocated);
            allocated = w.allocated;
            assert_in_range(allocated, 1, 4096);
            if (largest == 1000000000)
                print_message("# mixture of 10, 1000 and 10^9 records, epoch %u step %u: %.1f us, %u permuted\n",
                              (unsigned)cursors[i].epoch, (unsigned)cursors[i].step, (double)ns / 1e3,
                              (unsigned)w.permuted);
        }
    }
}

/* ---- prefixes ---- */

static uint64_t rng_state = 88172645463325252;

static uint64_t draw(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    return rng_state ^= rng_state << 17;
}

/* docs/order.md: L of shares that add up to G. */
static uint64_t period_of(uint64_t total, bool by_repeats)
{
    return by_repeats || total > 1024 ? 1024 : (64 + total - 1) / total * total;
}

/* After each of the first positions of an epoch of a run that begins there: the count of each source is
 * within L / 4 + S of its share. */
static void check_every_prefix(const struct hr_order *order, uint32_t count, bool by_repeats, uint64_t positions)
{
    uint64_t n[16] = {0}, total = 0, x = 0;
    struct hr_place places[BATCH];

    for (uint64_t step = 0; x < positions; step++) {
        hr_order_places(order, (struct hr_cursor){0, step}, 0, BATCH, places);
        for (uint32_t i = 0; i < BATCH && x < positions; i++) {
            n[places[i].source]++;
            x++;
            for (uint32_t s = 0; s < count; s++) {
                double share = (double)hr_order_share_of(order, s, &total);
                double off = (double)n[s] - share / (double)total * (double)x;
                double most = (double)period_of(total, by_repeats) / 4 + count;
                if (off > most || off < -most)
                    fail_msg("source %u of %u: off by %g after %u positions, the most is %g", s, count, off,
                             (unsigned)x, most);
            }
        }
    }
}

static void every_prefix_of_random_mixtures_keeps_to_the_shares(void **state)
{
    static const double weights[] = {1, 2, 3, 0.1, 1e-4, 1e4, 7.25, 1.0 / 3, 250, 0.7071067811865475};

    (void)state;
    for (int round = 0; round < 120; round++) {
        struct hr_order_source sources[16];
        uint32_t count = 2 + (uint32_t)(draw() % (round % 2 ? 3 : 15));
        bool by_repeats = round % 3 == 0;
        struct hr_order_spec spec = {.last = HR_LAST_WRAP, .batch = BATCH, .seed = draw(), .sources = sources,
                                     .source_count = count, .stop = HR_STOP_STEPS, .stop_steps = 1000000};
        if (by_repeats)
            spec.stop = HR_STOP_ALL_EXHAUSTED;
        for (uint32_t s = 0; s < count; s++)
            sources[s] = (struct hr_order_source){.record_count = 1 + draw() % (round % 4 ? 2000 : 20),
                                                  .weight = weights[draw() % HR_ARRAY_SIZE(weights)],
                                                  .repeats = by_repeats ? 1 + draw() % 5 : 0};
        struct hr_order order;
        assert_int_equal(hr_order_init(&order, &spec, NULL), 0);
        check_every_prefix(&order, count, by_repeats, by_repeats ? hr_min_u64(order.epoch_samples, 8192) : 8192);
        hr_order_finish(&order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resuming_takes_the_same_work_at_any_size_and_step),
        cmocka_unit_test(resuming_a_mixture_takes_the_walk_of_a_period_at_most),
        cmocka_unit_test(every_prefix_of_random_mixtures_keeps_to_the_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
