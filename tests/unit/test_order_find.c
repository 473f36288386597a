/* order: from a record to its place and its batch, and how far neighbours are taken apart. The forward
 * direction, which other tests hold against docs/order.md, is the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "made_order.h"
#include "order/order.h"
#include "order/selection.h"

static uint64_t rng_state = 98765;

static uint64_t draw(uint64_t below)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state % below;
}

static struct hr_selection *keep_some(uint64_t records, uint64_t one_in)
{
    struct hr_selection_builder *b = hr_selection_begin(records);

    assert_non_null(b);
    hr_selection_keep(b, records / 2); /* never none */
    for (uint64_t r = 0; r < records; r++)
        if (draw(one_in) == 0)
            hr_selection_keep(b, r);
    return hr_selection_commit(b);
}

/* Each sample of a batch is found at its own place, in its own batch, on the rank that is given it; and a
 * search from the place after finds a later one of the same record. */
static void check_batch(const struct hr_order *order, struct hr_cursor cursor, uint32_t world)
{
    uint32_t samples = hr_order_share(order, cursor, 0, 1).global_count;

    for (uint32_t i = 0; i < samples; i++) {
        struct hr_place want = hr_order_place(order, cursor, i);
        uint64_t epoch = want.epoch, position = want.position;
        struct hr_cursor found;
        uint32_t sample;
        if (!want.valid)
            continue;
        assert_true(hr_order_find(order, want.source, want.record, &epoch, &position));
        assert_int_equal(epoch, want.epoch);
        assert_int_equal(position, want.position);
        assert_true(hr_order_batch_of(order, epoch, position, &found, &sample));
        assert_int_equal(found.epoch, cursor.epoch);
        assert_int_equal(found.step, cursor.step);
        assert_int_equal(sample, i);
        uint32_t rank = hr_order_rank_of(order, found, world, &sample);
        struct hr_share share = hr_order_share(order, cursor, rank, world);
        assert_int_equal(share.first + sample, i);
        assert_true(sample < share.count);
    }
}

/* Searches through the epochs from one place to the next find all places of a record, and only those. */
static void check_record(const struct hr_order *order, uint32_t source, uint64_t record, uint64_t epochs)
{
    uint64_t epoch = 0, position = 0;
    bool more = hr_order_find(order, source, record, &epoch, &position);

    for (uint64_t e = 0; e < epochs; e++) {
        for (uint64_t p = 0; p < order->epoch_samples; p += 256) {
            struct hr_order plain = *order; /* batches of 256 that name all positions of an epoch */
            struct hr_place places[256];
            plain.spec.batch = 256;
            plain.spec.last = HR_LAST_PAD;
            hr_order_places(&plain, (struct hr_cursor){e, p / 256}, 0, 256, places);
            for (uint32_t i = 0; i < 256; i++) {
                if (!places[i].valid || places[i].source != source || places[i].record != record)
                    continue;
                assert_true(more);
                assert_int_equal(epoch, e);
                assert_int_equal(position, p + i);
                if (++position == order->epoch_samples) {
                    position = 0;
                    epoch++;
                }
                more = hr_order_find(order, source, record, &epoch, &position);
            }
        }
    }
    assert_true(!more || epoch >= epochs);
}

static void places_are_found_in_plain_orders(void **state)
{
    for (int round = 0; round < 800; round++) {
        uint64_t records = 1 + draw(round % 2 ? 40 : 5000), batch = 1 + draw(50), each = 1 + draw(4);
        struct hr_selection *kept = draw(3) ? NULL : keep_some(records, 1 + draw(50));
        struct hr_order_source source = {.record_count = kept ? hr_selection_count(kept) : records,
                                         .selection = kept, .weight = 1};
        struct hr_order_spec spec = {.kind = (enum hr_order_kind)draw(3), .last = (enum hr_last_rule)draw(4),
                                     .seed = draw(1000), .batch = batch * each, .block_records = 1 + draw(20),
                                     .open_blocks = 1 + draw(6), .sources = &source, .source_count = 1};
        struct hr_order order;
        if (hr_order_init(&order, &spec, NULL) == 0) {
            struct hr_cursor cursor = {draw(5), 0};
            uint64_t steps = hr_order_steps(&order, cursor.epoch);
            if (steps) {
                cursor.step = draw(steps);
                check_batch(&order, cursor, (uint32_t)each);
                hr_order_next(&order, &cursor);
                check_batch(&order, cursor, (uint32_t)each);
            }
            check_record(&order, 0, draw(records), 3);
            hr_order_finish(&order);
        }
        hr_selection_destroy(kept);
    }
}

static void places_are_found_in_mixtures(void **state)
{
    for (int round = 0; round < 200; round++) {
        struct hr_order_source sources[5];
        uint32_t count = 1 + (uint32_t)draw(5);
        bool repeats = count == 1 || draw(2);
        struct hr_order_spec spec = {.kind = (enum hr_order_kind)draw(3), .last = (enum hr_last_rule)draw(4),
                                     .seed = draw(1000), .batch = 1 + draw(100), .block_records = 7,
                                     .open_blocks = 3, .sources = sources, .source_count = count,
                                     .stop = (enum hr_stop_rule)draw(3), .stop_steps = 1 + draw(100)};
        struct hr_selection *kept[5] = {0};
        struct hr_order order;
        for (uint32_t s = 0; s < count; s++) {
            uint64_t records = 1 + draw(draw(2) ? 20 : 1000);
            kept[s] = draw(3) ? NULL : keep_some(records, 1 + draw(20));
            sources[s] = (struct hr_order_source){
                .record_count = kept[s] ? hr_selection_count(kept[s]) : records, .selection = kept[s],
                .weight = 0.1 + (double)draw(50), .repeats = repeats ? 1 + draw(4) : 0};
        }
        if (hr_order_init(&order, &spec, NULL) == 0) {
            struct hr_cursor cursor = {draw(3), 0};
            for (int i = 0; i < 3 && hr_order_steps(&order, cursor.epoch); i++) {
                check_batch(&order, cursor, 1);
                hr_order_next(&order, &cursor);
            }
            uint32_t s = (uint32_t)draw(count);
            check_record(&order, s, draw(sources[s].record_count), 3);
            hr_order_finish(&order);
        }
        for (uint32_t s = 0; s < count; s++)
            hr_selection_destroy(kept[s]);
    }
}

static void what_is_not_there_is_not_found(void **state)
{
    struct hr_order plain = order_make(HR_ORDER_FULL, HR_LAST_KEEP, 100, 10);
    struct hr_order_source sources[] = {{.record_count = 3, .repeats = 1}, {.record_count = 5, .repeats = 2}};
    struct hr_order_spec spec = {.batch = 4, .sources = sources, .source_count = 2};
    uint64_t epoch = 0, position = 0;
    struct hr_order mixed;

    assert_false(hr_order_find(&plain, 0, 100, &epoch, &position));
    assert_false(hr_order_find(&plain, 0, UINT64_MAX, &epoch, &position));
    assert_false(hr_order_find(&plain, 1, 0, &epoch, &position));
    epoch = HR_ORDER_MAX_EPOCH + 1;
    assert_false(hr_order_find(&plain, 0, 0, &epoch, &position));
    assert_int_equal(hr_order_init(&mixed, &spec, NULL), 0);
    epoch = position = 0;
    assert_false(hr_order_find(&mixed, 0, 3, &epoch, &position));
    assert_false(hr_order_find(&mixed, 2, 0, &epoch, &position));
    epoch = UINT64_MAX;
    assert_false(hr_order_find(&mixed, 1, 0, &epoch, &position));
    hr_order_finish(&mixed);
}

static void the_rest_under_drop_is_in_no_batch(void **state)
{
    struct hr_order order = order_make(HR_ORDER_NONE, HR_LAST_DROP, 10, 4);
    struct hr_cursor cursor;
    uint32_t sample;

    assert_true(hr_order_batch_of(&order, 3, 7, &cursor, &sample));
    assert_int_equal(cursor.step, 1);
    assert_int_equal(sample, 3);
    assert_false(hr_order_batch_of(&order, 3, 8, &cursor, &sample));
}

static void huge_orders_are_searched_at_once(void **state)
{
    struct hr_order_source sources[] = {{.record_count = 10, .weight = 0.2},
                                        {.record_count = 1000, .weight = 0.3141592653589793},
                                        {.record_count = UINT64_C(1) << 40, .weight = 2}};
    struct hr_order_spec mixed = {.batch = 100, .seed = 3, .last = HR_LAST_WRAP, .sources = sources,
                                  .source_count = 3};

    for (int kind = HR_ORDER_FULL; kind <= HR_ORDER_NONE; kind++) {
        struct hr_order_spec whole = {.kind = (enum hr_order_kind)kind, .batch = 100, .seed = 9,
                                      .last = HR_LAST_WRAP, .record_count = HR_ORDER_MAX_RECORDS};
        struct hr_order order;
        assert_int_equal(hr_order_init(&order, &whole, NULL), 0);
        check_batch(&order, (struct hr_cursor){1000, 123456789}, 4);
        mixed.kind = (enum hr_order_kind)kind;
        assert_int_equal(hr_order_init(&order, &mixed, NULL), 0);
        check_batch(&order, (struct hr_cursor){1000, 123456789}, 4);
        hr_order_finish(&order);
    }
}

static void selections_find_what_they_kept(void **state)
{
    static const uint64_t one_in[] = {1, 2, 3, 700, 100000};

    for (size_t k = 0; k < HR_ARRAY_SIZE(one_in); k++) {
        uint64_t records = 100000 + draw(1000), i, next = 0;
        struct hr_selection *kept = keep_some(records, one_in[k]);
        for (uint64_t r = 0; r < records; r++) {
            bool is_next = next < hr_selection_count(kept) && hr_selection_at(kept, next) == r;
            assert_int_equal(hr_selection_find(kept, r, &i), is_next);
            if (is_next)
                assert_int_equal(i, next++);
        }
        assert_int_equal(next, hr_selection_count(kept));
        assert_false(hr_selection_find(kept, records, &i));
        assert_false(hr_selection_find(kept, UINT64_MAX, &i));
        hr_selection_destroy(kept);
    }
}

/* Two of n places drawn at random are 1 - sqrt(1/2) = 0.293 n apart in the median; that of 1,023 pairs
 * spreads by 4 % of it. */
static void distance_tells_orders_apart(void **state)
{
    struct hr_order none = order_make(HR_ORDER_NONE, HR_LAST_KEEP, 1000000, 10);
    struct hr_order full = order_make(HR_ORDER_FULL, HR_LAST_KEEP, 1000000, 10);
    struct hr_order window = order_make(HR_ORDER_WINDOW, HR_LAST_KEEP, 1000000, 10);
    struct hr_order one = order_make(HR_ORDER_FULL, HR_LAST_KEEP, 1, 1);
    struct hr_order_source sources[] = {{.record_count = 1000000, .weight = 1},
                                        {.record_count = 5000, .weight = 3}};
    struct hr_order_spec spec = {.batch = 10, .sources = sources, .source_count = 2};
    struct hr_order mixed;

    assert_true(hr_order_distance(&none, 0) == 1);
    assert_in_range(hr_order_distance(&full, 0), 292893 * 0.84, 292893 * 1.16);
    assert_in_range(hr_order_distance(&window, 0), 0.292893 * 16384 * 0.84, 0.292893 * 16384 * 1.16);
    assert_true(hr_order_distance(&one, 0) == 0);
    assert_int_equal(hr_order_init(&mixed, &spec, NULL), 0);
    assert_in_range(hr_order_distance(&mixed, 0), 4 * 292893 * 0.84, 4 * 292893 * 1.16);
    assert_in_range(hr_order_distance(&mixed, 1), 1464 * 4 / 3 * 0.84, 1464 * 4 / 3 * 1.16);
    hr_order_finish(&mixed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_found_in_plain_orders),
        cmocka_unit_test(places_are_found_in_mixtures),
        cmocka_unit_test(what_is_not_there_is_not_found),
        cmocka_unit_test(the_rest_under_drop_is_in_no_batch),
        cmocka_unit_test(huge_orders_are_searched_at_once),
        cmocka_unit_test(selections_find_what_they_kept),
        cmocka_unit_test(distance_tells_orders_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
