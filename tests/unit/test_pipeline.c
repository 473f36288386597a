/* pipeline: from a dataset on disk to published slots: order, contents, ranks, seeking. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "pipeline/engine.h"
#include "pipeline_rig.h"

static void feed_epochs(const char *dataset, const char *reader)
{
    struct rig rig = {.options = {.reader = reader}};
    uint8_t seen[RECORDS];
    struct hr_wire_entry entry;

    rig_feed(&rig, dataset, "batch: 32\nslots: 3\nlast: keep\nseed: 9");
    struct hr_state state = rig_start_state(&rig);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        memset(seen, 0, sizeof(seen));
        for (uint64_t step = 0; step < (RECORDS + 31) / 32; step++) {
            const struct hr_wire_batch *b = rig_next(&rig, &entry);
            assert_non_null(b);
            assert_int_equal(b->epoch, epoch);
            assert_int_equal(b->step, step);
            assert_int_equal(b->count, step == 15 ? RECORDS % 32 : 32);
            assert_int_equal((b->flags & HR_WIRE_LAST_OF_EPOCH) != 0, step == 15);
            for (uint32_t i = 0; i < b->count; i++) {
                uint64_t r = AT(b, b->records_off, uint64_t)[i];
                struct hr_place place =
                    hr_order_place(&rig.plan->order, (struct hr_cursor){epoch, step}, i);
                assert_int_equal(r, place.record);
                assert_int_equal(AT(b, b->valid_off, uint8_t)[i], 1);
                assert_int_equal(seen[r]++, 0);
                check_sample(b, i, r);
            }
            hr_state_advance(&state, &rig.plan->order);
            char want[HR_STATE_BYTES];
            hr_state_encode(&state, want);
            assert_string_equal(b->state, want);
            rig_release(&rig, &entry);
        }
        for (int r = 0; r < RECORDS; r++)
            assert_int_equal(seen[r], 1);
    }
    rig_close(&rig);
}

static void every_epoch_delivers_each_record_once(void **state)
{
    feed_epochs(*state, "auto");
}

static void preadv_delivers_the_same(void **state)
{
    feed_epochs(*state, "preadv");
}

static void compressed_blocks_deliver_the_same(void **state)
{
    (void)state;
    char *path = make_dataset("lz4", HR_CODEC_LZ4);
    feed_epochs(path, "auto");
    hr_free(path);
}

static void ranks_share_the_global_batch(void **state)
{
    struct hr_wire_entry entry;
    uint64_t got[4][8];
    char *text = rig_yaml("batch: 32\nslots: 2");

    for (uint32_t rank = 0; rank < 4; rank++) {
        struct rig rig = {0};
        rig_open(&rig, *state, text, rank, 4);
        struct hr_state s = rig_start_state(&rig);
        rig_seek(&rig, &s);
        const struct hr_wire_batch *b = rig_next(&rig, &entry);
        assert_non_null(b);
        assert_int_equal(b->count, 8);
        assert_int_equal(b->first, 8 * rank);
        memcpy(got[rank], AT(b, b->records_off, uint64_t), sizeof(got[rank]));
        for (uint32_t i = 0; rank == 3 && i < 32; i++)
            assert_int_equal(got[i / 8][i % 8],
                             hr_order_place(&rig.plan->order, (struct hr_cursor){0, 0}, i).record);
        rig_close(&rig);
    }
    hr_free(text);
}

static _Atomic bool enough;

static void *read_statistics(void *arg)
{
    struct hr_engine_stats stats = {0};
    uint64_t last = 0;

    while (!atomic_load(&enough)) {
        hr_engine_stats(arg, &stats);
        if (stats.read_bytes < last)
            return arg;
        last = stats.read_bytes;
    }
    return NULL;
}

static void statistics_can_be_read_while_batches_flow(void **state)
{
    struct rig rig = {0};
    struct hr_wire_entry entry;
    pthread_t thread;
    char *text = rig_yaml("batch: 20\nslots: 3");
    void *wrong;

    rig_open(&rig, *state, text, 0, 1);
    hr_free(text);
    struct hr_state s = rig_start_state(&rig);
    atomic_store(&enough, false);
    pthread_create(&thread, NULL, read_statistics, rig.engine);
    rig_seek(&rig, &s);
    for (int i = 0; i < 60; i++) {
        assert_non_null(rig_next(&rig, &entry));
        rig_release(&rig, &entry);
    }
    atomic_store(&enough, true);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    struct hr_engine_stats stats;
    hr_engine_stats(rig.engine, &stats);
    assert_true(stats.batches >= 60 && stats.read_requests > 0 && stats.read_bytes > 0);
    rig_close(&rig);
}

static void seek_goes_on_exactly_there(void **state)
{
    struct rig rig = {0};
    struct hr_wire_entry entry;

    rig_feed(&rig, *state, "batch: 50\nslots: 4");
    struct hr_state s = rig_start_state(&rig);
    for (uint64_t k = 0; k < 40; k++) {
        s.cursor = (struct hr_cursor){k * 7 % 5, k * 3 % 10};
        rig_seek(&rig, &s);
        for (int n = 0; n < (int)(k % 3); n++) {
            const struct hr_wire_batch *b = rig_next(&rig, &entry);
            assert_non_null(b);
            assert_int_equal(b->sequence, n);
            assert_int_equal(AT(b, b->records_off, uint64_t)[0],
                             hr_order_place(&rig.plan->order,
                                            (struct hr_cursor){b->epoch, b->step}, 0)
                                 .record);
            if (n == 0)
                assert_true(b->epoch == s.cursor.epoch && b->step == s.cursor.step);
            rig_release(&rig, &entry);
        }
    }
    rig_close(&rig);
}

static void text_is_cut_at_a_code_point(void **state)
{
    struct rig rig = {0};
    struct hr_wire_entry entry;

    rig_open(&rig, *state, "batch: 100\nfields:\n  text: {max_bytes: 17}\n", 0, 1);
    struct hr_state s = rig_start_state(&rig);
    rig_seek(&rig, &s);
    const struct hr_wire_batch *b = rig_next(&rig, &entry);
    assert_non_null(b);
    for (uint32_t i = 0; i < b->count; i++)
        check_text(b, i, AT(b, b->records_off, uint64_t)[i], 17);
    rig_close(&rig);
}

static void last_batch_is_padded_with_invalid_samples(void **state)
{
    struct rig rig = {0};
    struct hr_wire_entry entry;

    rig_feed(&rig, *state, "batch: 300\nlast: pad\nslots: 2\nepochs: 1");
    assert_non_null(rig_next(&rig, &entry));
    rig_release(&rig, &entry);
    const struct hr_wire_batch *b = rig_next(&rig, &entry);
    assert_non_null(b);
    assert_int_equal(b->count, 300);
    assert_true(b->flags & HR_WIRE_END_OF_RUN);
    for (uint32_t i = 0; i < 300; i++) {
        bool valid = AT(b, b->valid_off, uint8_t)[i];
        assert_int_equal(valid, i < 200);
        if (valid)
            check_sample(b, i, AT(b, b->records_off, uint64_t)[i]);
        else
            assert_int_equal(AT(b, batch_field(b, "label")->data_off, int64_t)[i], 0);
    }
    rig_release(&rig, &entry);
    assert_null(rig_next(&rig, &entry));
    assert_int_equal(hr_stream_status(rig.stream, NULL), HR_E_END);
    rig_close(&rig);
}

static void small_buffers_bound_what_is_in_flight(void **state)
{
    struct rig rig = {.options = {.read_ahead_bytes = 1}};
    struct hr_wire_entry entry;

    rig_feed(&rig, *state, "batch: 100\nslots: 2");
    for (int n = 0; n < 20; n++) {
        const struct hr_wire_batch *b = rig_next(&rig, &entry);
        assert_non_null(b);
        check_sample(b, 99, AT(b, b->records_off, uint64_t)[99]);
        rig_release(&rig, &entry);
    }
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_delivers_each_record_once),
        cmocka_unit_test(preadv_delivers_the_same),
        cmocka_unit_test(compressed_blocks_deliver_the_same),
        cmocka_unit_test(ranks_share_the_global_batch),
        cmocka_unit_test(statistics_can_be_read_while_batches_flow),
        cmocka_unit_test(seek_goes_on_exactly_there),
        cmocka_unit_test(text_is_cut_at_a_code_point),
        cmocka_unit_test(last_batch_is_padded_with_invalid_samples),
        cmocka_unit_test(small_buffers_bound_what_is_in_flight),
    };

    return cmocka_run_group_tests(tests, rig_set_up, rig_tear_down);
}
