/* pipeline: sources that are mixed, with fields that differ, and mixtures that cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/mem.h"
#include "pipeline/engine.h"
#include "pipeline_rig.h"
#include "shards/manifest.h"

enum { OTHER_RECORDS = 7 };

/* A second source: two of the fields, the text in blocks, and one field of its own. */
static char *make_other_dataset(const char *name)
{
    struct hr_shard_info info;
    struct hr_manifest manifest = {.shards = &info, .shard_count = 1};
    struct hr_shard_writer_options options = {0};
    struct hr_shard_writer *w;
    struct hr_error err;
    char *path = in_folder(name), *file = hr_asprintf("%s/o.hrs", path);

    manifest.schema = (struct hr_schema){
        .field_count = 3,
        .class_field = -1,
        .fields = {{.name = "extra", .type = HR_FIELD_F64},
                   {.name = "text", .type = HR_FIELD_TEXT, .codec = HR_CODEC_LZ4},
                   {.name = "label", .type = HR_FIELD_I64}},
    };
    assert_int_equal(mkdir(path, 0777), 0);
    must(hr_shard_writer_open(file, &manifest.schema, &options, &w, &err), &err);
    for (uint64_t r = 0; r < OTHER_RECORDS; r++) {
        char key[32], text[512];
        for (uint32_t i = 0; i < text_bytes(r); i++)
            text[i] = text_byte(r, i);
        struct hr_value values[3] = {{.present = r != 3, .f64 = (double)r / 4},
                                     {.present = true, .data = text, .bytes = text_bytes(r)},
                                     {.present = true, .i64 = -(int64_t)r}};
        snprintf(key, sizeof(key), "o%llu", (unsigned long long)r);
        must(hr_shard_writer_add(w, key, values, &err), &err);
    }
    must(hr_shard_writer_commit(w, &info, &err), &err);
    must(hr_manifest_commit(path, &manifest, &err), &err);
    hr_free(file);
    return path;
}

static void check_other_sample(const struct hr_wire_batch *b, uint32_t i, uint64_t r)
{
    check_text(b, i, r, UINT32_MAX);
    assert_int_equal(AT(b, batch_field(b, "label")->data_off, int64_t)[i], -(int64_t)r);
    assert_true(AT(b, batch_field(b, "extra")->data_off, double)[i] == (r == 3 ? 0 : (double)r / 4));
    assert_int_equal(AT(b, batch_field(b, "extra.present")->data_off, uint8_t)[i], r != 3);
    assert_int_equal(AT(b, batch_field(b, "tensor.present")->data_off, uint8_t)[i], 0);
    for (int k = 0; k < TENSOR; k++)
        assert_true(AT(b, batch_field(b, "tensor")->data_off, float)[i * TENSOR + k] == 0);
    const int64_t *tags = AT(b, batch_field(b, "tag")->offsets_off, int64_t);
    assert_int_equal(tags[i + 1], tags[i]);
    assert_int_equal(AT(b, batch_field(b, "note.present")->data_off, uint8_t)[i], 0);
}

static void sources_with_other_fields_are_mixed(void **state)
{
    struct rig rig = {0};
    struct hr_wire_entry entry;
    char *other = make_other_dataset("other");
    char *sources = hr_asprintf("[{path: '%s', weight: 2, where: label >= 400}, {path: '%s'}]",
                                (const char *)*state, other);
    char *text = hr_asprintf("batch: 33\nlast: wrap\n%s  extra:\n", all_fields);
    uint64_t counts[2] = {0};

    rig_open(&rig, sources, text, 0, 1);
    assert_int_equal(rig.plan->sources.items[0].kept, RECORDS - 135); /* 3 r - 5 >= 400 */
    struct hr_state s = rig_start_state(&rig);
    s.cursor.epoch = 4;
    rig_seek(&rig, &s);
    for (int n = 0; n < 20; n++) {
        const struct hr_wire_batch *b = rig_next(&rig, &entry);
        assert_non_null(b);
        struct hr_cursor cursor = {b->epoch, b->step};
        for (uint32_t i = 0; i < b->count; i++) {
            struct hr_place place = hr_order_place(&rig.plan->order, cursor, i);
            uint64_t r = AT(b, b->records_off, uint64_t)[i];
            assert_int_equal(r, place.record);
            assert_int_equal(AT(b, b->sources_off, uint32_t)[i], place.source);
            counts[place.source]++;
            if (place.source == 0) {
                assert_in_range(r, 135, RECORDS - 1);
                check_sample(b, i, r);
                assert_int_equal(AT(b, batch_field(b, "extra.present")->data_off, uint8_t)[i], 0);
            } else {
                check_other_sample(b, i, r);
            }
        }
        rig_release(&rig, &entry);
    }
    /* 10 periods' worth of 66, begun inside of one. */
    assert_in_range(counts[0], 440 - 33, 440 + 33);
    assert_int_equal(counts[0] + counts[1], 660);
    assert_in_range(hr_engine_source_samples(rig.engine, 0), counts[0], counts[0] + 5 * 33);
    rig_close(&rig);
    hr_free(text);
    hr_free(sources);
    hr_free(other);
}

static void refused_plan(const char *yaml_text, const char *reason)
{
    struct hr_conf conf;
    struct hr_plan *plan;
    struct hr_error err;
    char text[1024];

    must(hr_conf_parse(yaml_text, strlen(yaml_text), "test.yaml", &conf, &err), &err);
    assert_true(hr_plan_open(&conf, &plan, &err) < 0);
    hr_error_format(&err, text, sizeof(text));
    if (!strstr(text, reason))
        fail_msg("'%s' instead of '%s'", text, reason);
    hr_conf_finish(&conf);
}

static void mixtures_that_cannot_be_are_refused(void **state)
{
    static const struct {
        const char *format, *reason;
    } cases[] = {
        {"dataset: '%s'\nwhere: label > 1e6\n", "2:8: the filter keeps none of the 500 records"},
        {"dataset: '%s'\nwhere: lable > 3\n", "2:8: 'lable' is no field"},
        {"dataset: ['%s', '/nowhere/x.hrd']\n", "/nowhere/x.hrd"},
        {"dataset: '%s'\nstop: first_exhausted\n", "'stop' is for datasets that are mixed"},
        {"dataset: [{path: '%s', repeats: 4294967296}]\nbatch: 1\nfields: {labl: }\n", "no field 'labl'"},
    };

    for (size_t i = 0; i < HR_ARRAY_SIZE(cases); i++) {
        char text[512];
        snprintf(text, sizeof(text), cases[i].format, (const char *)*state);
        refused_plan(text, cases[i].reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_with_other_fields_are_mixed),
        cmocka_unit_test(mixtures_that_cannot_be_are_refused),
    };

    return cmocka_run_group_tests(tests, rig_set_up, rig_tear_down);
}
