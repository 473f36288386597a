/* shards: what is written is read back, and nothing half-valid is left. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "made_shards.h"
#include "shards/dataset.h"
#include "shards/index.h"
#include "shards/manifest.h"
#include "shards/writer.h"

static void check_scalar(const struct hr_dataset *d, uint64_t record, uint32_t f, const struct hr_value *v)
{
    struct hr_scalar s;

    hr_dataset_scalar(d, record, f, &s);
    assert_int_equal(s.present, v->present);
    if (!v->present)
        return;
    if (f == SCORE)
        assert_memory_equal(&s.f64, &v->f64, 8);
    else if (f != TAG)
        assert_int_equal(s.i64, v->i64);
    else {
        assert_int_equal(s.str_bytes, v->bytes);
        assert_memory_equal(s.str, v->data, v->bytes);
    }
}

static void check_value(const struct hr_dataset *d, uint64_t record, uint32_t f, const struct hr_value *v)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_value_place p;
    struct hr_facts facts;
    void *data;
    uint64_t bytes;

    hr_dataset_locate(d, record, f, &p);
    assert_int_equal(p.present, v->present);
    if (!v->present) {
        assert_int_equal(hr_dataset_read_value(d, record, f, &data, &bytes, &err), HR_E_MISSING);
        return;
    }
    ok(hr_dataset_read_value(d, record, f, &data, &bytes, &err), &err);
    assert_int_equal(bytes, v->bytes);
    assert_memory_equal(data, v->data, bytes);
    hr_free(data);
    if (f == IMAGE && bytes >= HRS_LARGE_BYTES)
        assert_int_equal(p.off % HRS_ALIGN, 0);
    assert_int_equal(p.encoding, v->encoding);
    assert_int_equal(p.seek_bytes, v->seek_bytes);
    if (p.seek_bytes)
        assert_memory_equal(p.seek, v->seek, p.seek_bytes);
    assert_int_equal(hr_dataset_original_bytes(d, record, f),
                     v->original_bytes ? v->original_bytes : v->bytes);
    hr_dataset_facts(d, record, f, &facts);
    assert_int_equal(facts.width, v->facts.width);
    assert_int_equal(facts.height, v->facts.height);
    if (f == RAGGED)
        assert_memory_equal(facts.shape, v->facts.shape, sizeof(facts.shape));
    if (f == TENSOR)
        assert_int_equal(facts.shape[1], 5);
    if (f == TOKENS)
        assert_int_equal(facts.items, v->bytes / 2);
}

static void check_dataset(const struct hr_dataset *d, uint64_t seed, uint64_t count, bool absent)
{
    struct made m;
    uint32_t key_bytes;

    assert_int_equal(hr_dataset_record_count(d), count);
    for (uint64_t r = 0; r < count; r++) {
        make_record(&m, seed, r, absent);
        const char *key = hr_dataset_key(d, r, &key_bytes);
        assert_int_equal(key_bytes, strlen(m.key));
        assert_memory_equal(key, m.key, key_bytes);
        for (uint32_t f = 0; f < LABEL; f++)
            check_value(d, r, f, &m.values[f]);
        for (uint32_t f = LABEL; f < FIELDS; f++)
            check_scalar(d, r, f, &m.values[f]);
        free(m.memory);
    }
}

static void round_trip(uint64_t count, bool absent)
{
    struct hr_shard_info info;
    struct hr_dataset *d;

    write_shard(in_root("a.hrs"), 1, 0, count, absent, &info);
    assert_int_equal(info.record_count, count);
    assert_string_equal(info.name, "a.hrs");
    assert_int_equal(access(in_root("a.hrs.tmp"), F_OK), -1);
    d = open_dataset(in_root("a.hrs"));
    check_dataset(d, 1, count, absent);
    hr_dataset_close(d);
}

static void every_type_round_trips(void **state)
{
    (void)state;
    round_trip(500, false);
}

static void absent_and_empty_values_round_trip(void **state)
{
    (void)state;
    round_trip(300, true);
}

static void counts_around_a_sample_round_trip(void **state)
{
    static const uint64_t counts[] = {0, 1, 2, 63, 64, 65, 128};

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(counts); i++)
        round_trip(counts[i], i % 2);
}

static void same_input_gives_same_bytes(void **state)
{
    struct hr_shard_info a, b, c;
    void *x, *y;
    size_t n, m;
    struct hr_error err = HR_ERROR_INIT;

    (void)state;
    write_shard(in_root("a.hrs"), 1, 0, 120, true, &a);
    write_shard(in_root("b.hrs"), 1, 0, 120, true, &b);
    write_shard(in_root("c.hrs"), 2, 0, 120, true, &c);
    ok(hr_fd_read_file(in_root("a.hrs"), SIZE_MAX / 2, &x, &n, &err), &err);
    ok(hr_fd_read_file(in_root("b.hrs"), SIZE_MAX / 2, &y, &m, &err), &err);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    assert_true(hr_digest_equal(&a.digest, &b.digest));
    assert_false(hr_digest_equal(&a.digest, &c.digest));
    hr_free(x);
    hr_free(y);
}

static void shards_make_a_dataset(void **state)
{
    struct hr_dataset *d;
    struct hr_digest digest, opened;
    uint64_t local;

    (void)state;
    commit_dataset(3, 70, true, &digest);
    d = open_dataset(root);
    check_dataset(d, 1, 210, true);
    opened = hr_dataset_digest(d);
    assert_true(hr_digest_equal(&digest, &opened));
    assert_int_equal(hr_dataset_shard_count(d), 3);
    assert_int_equal(hr_dataset_shard_of(d, 69, &local), 0);
    assert_int_equal(hr_dataset_shard_of(d, 140, &local), 2);
    assert_int_equal(local, 0);
    hr_dataset_close(d);
}

static void totals_are_those_of_the_values(void **state)
{
    struct hr_field_totals t, want = {0};
    struct hr_dataset *d;
    struct made m;

    (void)state;
    commit_dataset(2, 60, true, NULL);
    d = open_dataset(root);
    for (uint64_t r = 0; r < 120; r++) {
        make_record(&m, 1, r, true);
        const struct hr_value *v = &m.values[IMAGE];
        if (v->present) {
            want.present++;
            want.bytes += v->bytes;
            want.original_bytes += v->original_bytes ? v->original_bytes : v->bytes;
            want.max_bytes = hr_max_u64(want.max_bytes, v->bytes);
            want.max_width = (uint32_t)hr_max_u64(want.max_width, v->facts.width);
        }
        free(m.memory);
    }
    hr_dataset_totals(d, IMAGE, &t);
    assert_int_equal(t.present, want.present);
    assert_int_equal(t.bytes, want.bytes);
    assert_int_equal(t.original_bytes, want.original_bytes);
    assert_int_equal(t.max_bytes, want.max_bytes);
    assert_int_equal(t.max_width, want.max_width);
    assert_int_equal(t.max_height, 70000);
    hr_dataset_totals(d, TENSOR, &t);
    assert_true(t.uniform_shape);
    hr_dataset_totals(d, RAGGED, &t);
    assert_false(t.uniform_shape);
    hr_dataset_totals(d, CAPTION, &t);
    assert_int_equal(t.max_block_bytes, 300000);
    hr_dataset_close(d);
}

static void older_versions_stay_readable(void **state)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_digest first, second;
    struct hr_version_row *rows;
    struct hr_dataset *d;
    char hex[HR_DIGEST_HEX_BYTES], prefix[9];
    uint32_t count;

    (void)state;
    commit_dataset(1, 40, false, &first);
    commit_dataset(2, 40, false, &second);
    snprintf(prefix, sizeof(prefix), "%s", hr_digest_hex(&first, hex));
    ok(hr_dataset_open(root, prefix, &d, &err), &err);
    assert_int_equal(hr_dataset_record_count(d), 40);
    hr_dataset_close(d);
    d = open_dataset(root);
    assert_int_equal(hr_dataset_record_count(d), 80);
    hr_dataset_close(d);
    assert_int_equal(hr_dataset_open(root, "0123456789", &d, &err), HR_E_NOT_FOUND);
    ok(hr_manifest_versions(root, &rows, &count, &err), &err);
    assert_int_equal(count, 2);
    assert_true(hr_digest_equal(&rows[0].digest, &second));
    assert_true(hr_digest_equal(&rows[1].digest, &first));
    hr_free(rows);
}

static void hostile_shard_names_are_refused(void **state)
{
    static const char *const bad[] = {"", ".", "..", "../x.hrs", "a/b.hrs", "/etc/passwd", ".hidden",
                                      "a..b", "a\nb"};

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(bad); i++)
        assert_false(hr_shard_name_ok(bad[i]));
    assert_true(hr_shard_name_ok("train-00000.hrs"));
}

static void refused_record_leaves_the_writer_usable(void **state)
{
    struct hr_schema schema = full_schema();
    struct hr_shard_writer *w;
    struct hr_error err = HR_ERROR_INIT;
    struct hr_dataset *d;
    struct made m;

    (void)state;
    ok(hr_shard_writer_open(in_root("a.hrs"), &schema, NULL, &w, &err), &err);
    for (uint64_t r = 0; r < 20; r++) {
        make_record(&m, 1, r, false);
        struct hr_value bad[FIELDS];
        memcpy(bad, m.values, sizeof(bad));
        bad[TENSOR].bytes = 59;
        assert_int_equal(hr_shard_writer_add(w, m.key, bad, &err), HR_E_FORMAT);
        assert_string_equal(err.field, "tensor");
        ok(hr_shard_writer_add(w, m.key, m.values, &err), &err);
        free(m.memory);
    }
    ok(hr_shard_writer_commit(w, NULL, &err), &err);
    d = open_dataset(in_root("a.hrs"));
    check_dataset(d, 1, 20, false);
    hr_dataset_close(d);
}

static void aborted_writer_leaves_nothing(void **state)
{
    struct hr_schema schema = full_schema();
    struct hr_shard_writer *w;
    struct hr_error err = HR_ERROR_INIT;

    (void)state;
    ok(hr_shard_writer_open(in_root("a.hrs"), &schema, NULL, &w, &err), &err);
    hr_shard_writer_abort(w);
    assert_int_equal(access(in_root("a.hrs.tmp"), F_OK), -1);
    assert_int_equal(access(in_root("a.hrs"), F_OK), -1);
    hr_shard_writer_abort(NULL);
    assert_int_equal(hr_shard_writer_open(in_root("none/a.hrs"), &schema, NULL, &w, &err),
                     HR_E_NOT_FOUND);
}

static void failed_write_leaves_nothing(void **state)
{
    struct rlimit old, small;
    struct hr_schema schema = full_schema();
    struct hr_shard_writer *w;
    struct hr_error err = HR_ERROR_INIT;
    int ret = 0;

    (void)state;
    /* A file that may not grow stands for a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 3 << 20;
    ok(hr_shard_writer_open(in_root("a.hrs"), &schema, NULL, &w, &err), &err);
    setrlimit(RLIMIT_FSIZE, &small);
    for (uint64_t r = 0; ret == 0 && r < 2000; r++) {
        struct made m;
        make_record(&m, 1, r, false);
        ret = hr_shard_writer_add(w, m.key, m.values, &err);
        free(m.memory);
    }
    assert_int_equal(ret, HR_E_IO);
    assert_non_null(strstr(err.file, "a.hrs.tmp"));
    assert_int_equal(hr_shard_writer_commit(w, NULL, &err), HR_E_IO);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(access(in_root("a.hrs.tmp"), F_OK), -1);
    assert_int_equal(access(in_root("a.hrs"), F_OK), -1);
}

static void schemas_that_make_no_sense_are_refused(void **state)
{
    struct hr_schema s = full_schema();
    struct hr_error err = HR_ERROR_INIT;

    (void)state;
    ok(hr_schema_check(&s, &err), &err);
    snprintf(s.fields[1].name, HR_NAME_BYTES, "image");
    assert_int_equal(hr_schema_check(&s, &err), HR_E_CONFIG);
    snprintf(s.fields[1].name, HR_NAME_BYTES, "no spaces");
    assert_int_equal(hr_schema_check(&s, &err), HR_E_CONFIG);
    s = full_schema();
    s.fields[TENSOR].shape[0] = UINT64_MAX;
    assert_int_equal(hr_schema_check(&s, &err), HR_E_CONFIG);
    s = full_schema();
    s.fields[TOKENS].dtype = HR_DTYPE_F32;
    assert_int_equal(hr_schema_check(&s, &err), HR_E_CONFIG);
    s = full_schema();
    s.class_field = IMAGE;
    assert_int_equal(hr_schema_check(&s, &err), HR_E_CONFIG);
}

static void text_index_is_a_tenth_of_200_byte_payload(void **state)
{
    struct hr_schema schema = {
        .fields = {{.name = "text", .type = HR_FIELD_TEXT, .codec = HR_CODEC_LZ4}},
        .field_count = 1,
        .class_field = -1,
    };
    struct hr_shard_writer *w;
    struct hr_error err = HR_ERROR_INIT;
    struct hr_shard *shard;
    struct hr_schema own;
    struct hr_rng rng;
    char text[512], key[32];
    uint64_t payload = 0, n = 70000;

    (void)state;
    hr_rng_init(&rng, 1, 2, 3, 4);
    ok(hr_shard_writer_open(in_root("t.hrs"), &schema, NULL, &w, &err), &err);
    for (uint64_t r = 0; r < n; r++) {
        struct hr_value v = {.present = true, .data = text, .bytes = 120 + hr_rng_below(&rng, 161)};
        for (uint64_t i = 0; i < v.bytes; i++)
            text[i] = (char)('a' + hr_rng_below(&rng, 26));
        v.facts.items = v.bytes;
        payload += v.bytes;
        snprintf(key, sizeof(key), "%08u", (unsigned)r);
        ok(hr_shard_writer_add(w, key, &v, &err), &err);
    }
    ok(hr_shard_writer_commit(w, NULL, &err), &err);
    ok(hr_shard_open(in_root("t.hrs"), true, &shard, &own, &err), &err);
    uint64_t index = shard->file_bytes - shard->payload_end;
    printf("# %.2f index bytes a record of %.1f bytes (%.1f %%), %.2f in memory\n",
           (double)index / (double)n, (double)payload / (double)n,
           100.0 * (double)index / (double)payload, (double)shard->memory_bytes / (double)n);
    assert_true(index * 10 < payload);
    hr_shard_close(shard);
    hr_schema_finish(&own);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_root, drop_root)
    const struct CMUnitTest tests[] = {
        TEST(every_type_round_trips),
        TEST(absent_and_empty_values_round_trip),
        TEST(counts_around_a_sample_round_trip),
        TEST(same_input_gives_same_bytes),
        TEST(shards_make_a_dataset),
        TEST(totals_are_those_of_the_values),
        TEST(older_versions_stay_readable),
        TEST(hostile_shard_names_are_refused),
        TEST(refused_record_leaves_the_writer_usable),
        TEST(aborted_writer_leaves_nothing),
        TEST(failed_write_leaves_nothing),
        TEST(schemas_that_make_no_sense_are_refused),
        TEST(text_index_is_a_tenth_of_200_byte_payload),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}
