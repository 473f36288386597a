/* pipeline: records that are damaged and storage that fails. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mem.h"
#include "pipeline/engine.h"
#include "pipeline_rig.h"

/* Flips a byte of one record's value in the file. */
static void damage(const char *dataset, uint64_t record, uint32_t field_idx)
{
    struct hr_dataset *ds;
    struct hr_value_place place;
    struct hr_error err;
    uint8_t byte;

    must(hr_dataset_open(dataset, NULL, &ds, &err), &err);
    hr_dataset_locate(ds, record, field_idx, &place);
    int fd = open(hr_dataset_shard_path(ds, place.shard), O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, (off_t)place.off), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)place.off), 1);
    close(fd);
    hr_dataset_close(ds);
}

static void bad_record_is_substituted_the_same_everywhere(void **state)
{
    char *path = make_dataset("bad", HR_CODEC_NONE);
    uint64_t first[500];

    (void)state;
    damage(path, 41, 3);  /* the tensor goes straight into the slot */
    damage(path, 313, 0); /* ragged text: the substitute may be longer */
    for (int run = 0; run < 2; run++) {
        struct rig rig = {.options = {.workers = run ? 1 : 4, .reader = run ? "preadv" : "auto"}};
        struct hr_wire_entry entry;
        uint64_t k = 0, bad = 0;
        rig_feed(&rig, path, "batch: 50\nslots: 3\nseed: 4");
        while (k < 500) {
            const struct hr_wire_batch *b = rig_next(&rig, &entry);
            assert_non_null(b);
            bad += b->bad_count;
            for (uint32_t i = 0; i < b->count; i++, k++) {
                uint64_t r = AT(b, b->records_off, uint64_t)[i];
                assert_true(r != 41 && r != 313);
                check_sample(b, i, r);
                if (run == 0)
                    first[k] = r;
                else
                    assert_int_equal(first[k], r);
            }
            rig_release(&rig, &entry);
        }
        assert_int_equal(bad, 2);
        rig_close(&rig);
    }
    hr_free(path);
}

static void bad_record_is_masked_or_fatal_by_policy(void **state)
{
    char *path = make_dataset("policy", HR_CODEC_NONE);
    struct hr_wire_entry entry;
    struct hr_error err;
    uint32_t masked = 0;

    (void)state;
    damage(path, 7, 2);
    struct rig rig = {0};
    rig_feed(&rig, path, "batch: 100\nbad_records: mask\nepochs: 1");
    for (int n = 0; n < 5; n++) {
        const struct hr_wire_batch *b = rig_next(&rig, &entry);
        assert_non_null(b);
        for (uint32_t i = 0; i < b->count; i++) {
            if (AT(b, b->valid_off, uint8_t)[i])
                continue;
            masked++;
            assert_int_equal(AT(b, b->records_off, uint64_t)[i], 7);
        }
        rig_release(&rig, &entry);
    }
    assert_int_equal(masked, 1);
    rig_close(&rig);

    struct rig fatal = {0};
    rig_feed(&fatal, path, "batch: 100\nbad_records: fail\nepochs: 1");
    while (rig_next(&fatal, &entry))
        rig_release(&fatal, &entry);
    assert_int_equal(hr_stream_status(fatal.stream, &err), HR_E_CHECKSUM);
    assert_int_equal(err.record, 7);
    assert_string_equal(err.field, "tokens");
    rig_close(&fatal);
    hr_free(path);
}

/* Errors, bytes that are missing and bytes that are wrong until they are read again. */
static void feed_from_failing_storage(const char *dataset)
{
    struct rig rig = {.options = {.fault = "seed=3,eio=0.05,short=0.2,noise=0.05,delay=1ms:0.05"}};
    struct hr_wire_entry entry;
    struct hr_engine_stats stats;
    uint8_t seen[RECORDS] = {0};

    rig_feed(&rig, dataset, "batch: 50\nslots: 3");
    for (int n = 0; n < 10; n++) {
        const struct hr_wire_batch *b = rig_next(&rig, &entry);
        struct hr_error err = HR_ERROR_INIT;
        if (!b)
            must(hr_stream_status(rig.stream, &err), &err);
        assert_non_null(b);
        for (uint32_t i = 0; i < b->count; i++) {
            uint64_t r = AT(b, b->records_off, uint64_t)[i];
            assert_int_equal(seen[r]++, 0);
            check_sample(b, i, r);
        }
        rig_release(&rig, &entry);
    }
    hr_engine_stats(rig.engine, &stats);
    assert_int_equal(stats.bad.occurrences, 0);
    assert_true(stats.io_retries > 0 && stats.read_errors > 0);
    rig_close(&rig);
}

static void failing_storage_loses_nothing(void **state)
{
    char *packed = make_dataset("noise", HR_CODEC_LZ4);

    feed_from_failing_storage(*state);
    feed_from_failing_storage(packed);
    hr_free(packed);
}

/* Reads that fail when their batch is not wanted any more are not tried again: no record is bad by that. */
static void batches_given_up_on_failing_storage_leave_no_bad_record(void **state)
{
    struct rig rig = {.options = {.fault = "seed=7,eio=0.2"}};
    struct hr_wire_entry entry;
    struct hr_engine_stats stats;
    struct hr_error err = HR_ERROR_INIT;

    rig_feed(&rig, *state, "batch: 50\nslots: 3\nbad_records: fail\nlast: wrap");
    struct hr_state start = rig_start_state(&rig);
    for (int n = 0; n < 5; n++) {
        assert_non_null(rig_next(&rig, &entry));
        rig_release(&rig, &entry);
        must(hr_stream_status(rig.stream, &err), &err);
        rig_seek(&rig, &start);
    }
    hr_engine_stats(rig.engine, &stats);
    assert_true(stats.read_errors > 0);
    assert_int_equal(stats.bad.occurrences, 0);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_record_is_substituted_the_same_everywhere),
        cmocka_unit_test(bad_record_is_masked_or_fatal_by_policy),
        cmocka_unit_test(failing_storage_loses_nothing),
        cmocka_unit_test(batches_given_up_on_failing_storage_leave_no_bad_record),
    };

    return cmocka_run_group_tests(tests, rig_set_up, rig_tear_down);
}
