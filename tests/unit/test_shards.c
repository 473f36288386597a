/* shards: what is written is read back, every lie is found, nothing half-valid is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "shards/dataset.h"
#include "shards/index.h"
#include "shards/manifest.h"
#include "shards/verify.h"
#include "shards/writer.h"

static char root[64]; /* scratch folder of the running test */

static int make_root(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");

    snprintf(root, sizeof(root), "%s/hr-shards-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    return mkdtemp(root) ? 0 : -1;
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    char sub[1024];

    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
        if (e->d_type == DT_DIR)
            remove_tree(sub);
        else
            unlink(sub);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

static int drop_root(void **state)
{
    (void)state;
    remove_tree(root);
    return 0;
}

static const char *in_root(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static void ok(int ret, const struct hr_error *err)
{
    char text[1400];

    if (ret < 0)
        fail_msg("%s: %s", hr_error_name(ret), hr_error_format(err, text, sizeof(text)));
}

/* ---- records that are a function of their number ---- */

enum { IMAGE, CAPTION, DOC, TOKENS, TENSOR, RAGGED, LABEL, SCORE, FLAG, TAG, FIELDS };

static struct hr_schema full_schema(void)
{
    struct hr_schema s = {
        .fields =
            {
                [IMAGE] = {.name = "image", .type = HR_FIELD_IMAGE},
                [CAPTION] = {.name = "caption", .type = HR_FIELD_TEXT, .codec = HR_CODEC_LZ4},
                [DOC] = {.name = "doc", .type = HR_FIELD_JSON, .codec = HR_CODEC_LZ4HC},
                [TOKENS] = {.name = "tokens", .type = HR_FIELD_TOKENS, .dtype = HR_DTYPE_U16,
                            .codec = HR_CODEC_LZ4},
                [TENSOR] = {.name = "tensor", .type = HR_FIELD_TENSOR, .dtype = HR_DTYPE_F32,
                            .dims = 2, .shape = {3, 5}},
                [RAGGED] = {.name = "ragged", .type = HR_FIELD_TENSOR},
                [LABEL] = {.name = "label", .type = HR_FIELD_I64},
                [SCORE] = {.name = "score", .type = HR_FIELD_F64},
                [FLAG] = {.name = "flag", .type = HR_FIELD_BOOL},
                [TAG] = {.name = "tag", .type = HR_FIELD_STR},
            },
        .field_count = FIELDS,
        .class_field = -1,
    };
    return s;
}

struct made {
    struct hr_value values[FIELDS];
    char key[64];
    uint8_t *memory;
};

static uint64_t made_bytes(struct hr_rng *rng, uint32_t field, uint64_t record)
{
    if (field == IMAGE) /* now and then a large one, to cross the alignment rule */
        return record % 7 == 3 ? 60000 + hr_rng_below(rng, 12000) : hr_rng_below(rng, 3000);
    if (field == TENSOR)
        return 60;
    if (field == TOKENS)
        return 2 * hr_rng_below(rng, 200);
    if (field == RAGGED)
        return 4 * (record % 5) * (record % 3);
    if (field == CAPTION && record % 50 == 10)
        return 300000; /* larger than a block */
    return hr_rng_below(rng, field == DOC ? 900 : 120);
}

/* seed changes content; absent: leave some values out. */
static void make_record(struct made *m, uint64_t seed, uint64_t record, bool absent)
{
    struct hr_rng rng;
    size_t used = 0;

    memset(m, 0, sizeof(*m));
    m->memory = malloc(800000);
    snprintf(m->key, sizeof(m->key), "folder/record-%05u", (unsigned)record);
    for (uint32_t f = 0; f < FIELDS; f++) {
        struct hr_value *v = &m->values[f];
        hr_rng_init(&rng, seed, record, f, 0);
        v->present = !absent || hr_rng_below(&rng, 5) != 0;
        v->i64 = f == FLAG ? (int64_t)(hr_rng_u32(&rng) & 1)
                           : (int64_t)hr_rng_u32(&rng) - (record % 2 ? 0 : INT64_C(1) << 33);
        v->f64 = hr_rng_uniform(&rng) - 0.5;
        v->bytes = made_bytes(&rng, f, record);
        v->data = m->memory + used;
        for (uint64_t i = 0; i < v->bytes; i++)
            m->memory[used + i] = (uint8_t)(f == IMAGE ? hr_rng_u32(&rng) : 'a' + hr_rng_below(&rng, 4));
        used += v->bytes;
    }
    m->values[IMAGE].facts = (struct hr_facts){.format = HR_MEDIA_JPEG, .width = 100 + (uint32_t)(record % 400),
                                               .height = 70000, .channels = 3};
    m->values[IMAGE].encoding = record % 11 == 0 ? HR_ENCODING_REPACKED_JPEG : HR_ENCODING_AS_IS;
    m->values[IMAGE].original_bytes = record % 11 == 0 ? 12345 : 0;
    m->values[IMAGE].seek = record % 11 == 0 ? "seek table" : NULL;
    m->values[IMAGE].seek_bytes = record % 11 == 0 ? (uint32_t)(record % 10) : 0;
    m->values[CAPTION].facts.items = m->values[CAPTION].bytes;
    m->values[RAGGED].facts = (struct hr_facts){.dtype = HR_DTYPE_F32, .dims = 2,
                                                .shape = {record % 5, record % 3}};
}

static void write_shard(const char *path, uint64_t seed, uint64_t first, uint64_t count, bool absent,
                        struct hr_shard_info *info)
{
    struct hr_schema schema = full_schema();
    struct hr_shard_writer *w;
    struct hr_error err = HR_ERROR_INIT;
    struct made m;

    ok(hr_shard_writer_open(path, &schema, NULL, &w, &err), &err);
    for (uint64_t r = first; r < first + count; r++) {
        make_record(&m, seed, r, absent);
        ok(hr_shard_writer_add(w, m.key, m.values, &err), &err);
        free(m.memory);
    }
    ok(hr_shard_writer_commit(w, info, &err), &err);
}

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

static struct hr_dataset *open_dataset(const char *path)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_dataset *d = NULL;

    ok(hr_dataset_open(path, NULL, &d, &err), &err);
    return d;
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

/* ---- datasets ---- */

static void commit_dataset(uint32_t shard_count, uint64_t records, bool absent, struct hr_digest *digest)
{
    struct hr_schema schema = full_schema();
    struct hr_manifest m = {.shard_count = shard_count};
    struct hr_error err = HR_ERROR_INIT;
    char name[32];

    ok(hr_schema_copy(&m.schema, &schema, &err), &err);
    m.shards = hr_alloc_zero(shard_count, sizeof(*m.shards));
    m.tool = hr_strdup("test");
    m.source = hr_strdup("records by number");
    for (uint32_t i = 0; i < shard_count; i++) {
        snprintf(name, sizeof(name), "s-%05u.hrs", i);
        write_shard(in_root(name), 1, i * records, records, absent, &m.shards[i]);
    }
    ok(hr_manifest_commit(root, &m, &err), &err);
    if (digest)
        *digest = m.digest;
    hr_manifest_finish(&m);
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

/* ---- the writer says no ---- */

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

/* ---- many small records ---- */

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

/* ---- damage ---- */

static void read_everything(const struct hr_dataset *d)
{
    const struct hr_schema *schema = hr_dataset_schema(d);
    struct hr_facts facts;
    struct hr_scalar scalar;
    uint32_t key_bytes;
    void *data;
    uint64_t bytes;

    for (uint64_t r = 0; r < hr_dataset_record_count(d); r++) {
        hr_dataset_key(d, r, &key_bytes);
        for (uint32_t f = 0; f < schema->field_count; f++) {
            hr_dataset_facts(d, r, f, &facts);
            if (hr_field_type_is_scalar(schema->fields[f].type))
                hr_dataset_scalar(d, r, f, &scalar);
            else if (hr_dataset_read_value(d, r, f, &data, &bytes, NULL) == 0)
                hr_free(data);
        }
    }
}

struct seen {
    unsigned count;
    char shard[256], reason[400];
    int64_t offset;
    uint64_t record;
    char field[64];
};

static void see(void *arg, const struct hr_verify_problem *p)
{
    struct seen *seen = arg;

    seen->count++;
    snprintf(seen->shard, sizeof(seen->shard), "%s", p->shard);
    snprintf(seen->reason, sizeof(seen->reason), "%s", p->reason);
    snprintf(seen->field, sizeof(seen->field), "%s", p->field);
    seen->offset = p->offset;
    seen->record = p->record;
}

static struct seen verify(const char *path)
{
    struct seen seen = {0};
    struct hr_verify_options options = {.threads = 1, .problem = see, .arg = &seen};
    struct hr_verify_result result;
    struct hr_error err = HR_ERROR_INIT;

    ok(hr_dataset_verify(path, NULL, &options, &result, &err), &err);
    assert_int_equal(result.problems, seen.count);
    return seen;
}

static void intact_dataset_verifies(void **state)
{
    struct hr_verify_options options = {.threads = 3};
    struct hr_verify_result result;
    struct hr_error err = HR_ERROR_INIT;

    (void)state;
    commit_dataset(1, 80, true, NULL);
    commit_dataset(3, 80, true, NULL);
    ok(hr_dataset_verify(root, NULL, &options, &result, &err), &err);
    assert_int_equal(result.problems, 0);
    assert_int_equal(result.bad_shards, 0);
    assert_int_equal(result.records, 240);
    assert_int_equal(result.shard_count, 3);
    assert_int_equal(result.version_count, 2);
    assert_int_equal(hr_dataset_verify(in_root("none"), NULL, &options, &result, &err),
                     HR_E_NOT_FOUND);
}

struct file {
    char name[128];
    uint8_t *data;
    size_t bytes;
};

static void load(struct file *file, const char *name)
{
    struct hr_error err = HR_ERROR_INIT;
    void *data;

    snprintf(file->name, sizeof(file->name), "%s", name);
    ok(hr_fd_read_file(in_root(name), SIZE_MAX / 2, &data, &file->bytes, &err), &err);
    file->data = data;
}

/* Overwrites one byte of a file in place. */
static void poke(const struct file *file, uint64_t off, uint8_t value)
{
    struct hr_error err = HR_ERROR_INIT;
    int fd = hr_fd_open(in_root(file->name), O_WRONLY, 0, &err);

    ok(fd, &err);
    ok(hr_fd_pwrite_full(fd, &value, 1, off, &err), &err);
    hr_fd_close(&fd);
}

static void every_flipped_bit_is_named(void **state)
{
    struct file files[4];
    struct hr_rng rng;
    struct hr_digest first;
    char hex[HR_DIGEST_HEX_BYTES], kept[64];
    uint64_t total = 0;

    (void)state;
    commit_dataset(1, 12, true, &first);
    commit_dataset(2, 12, true, NULL);
    snprintf(kept, sizeof(kept), "versions/%s.hrm", hr_digest_hex(&first, hex));
    load(&files[0], "s-00000.hrs");
    load(&files[1], "s-00001.hrs");
    load(&files[2], "dataset.hrm");
    load(&files[3], kept);
    for (int i = 0; i < 4; i++)
        total += files[i].bytes;
    hr_rng_init(&rng, 7, 0, 0, 0);
    for (int trial = 0; trial < 1000; trial++) {
        struct hr_dataset *d;
        /* Half of the flips anywhere, half in headers, index, footer and manifests, which are small. */
        const struct file *f = &files[trial % 2 ? (trial / 2) % 4 : (trial / 2) % 2];
        uint64_t span = trial % 2 ? hr_min_u64(f->bytes, 4000) : f->bytes;
        uint64_t off = f->bytes - 1 - hr_rng_below(&rng, (uint32_t)span);
        unsigned bit = hr_rng_below(&rng, 8);
        if (trial % 20 == 19)
            off = hr_rng_below(&rng, 64);
        poke(f, off, f->data[off] ^ (uint8_t)(1u << bit));
        struct seen seen = verify(root);
        if (seen.count == 0 || strcmp(seen.shard, f->name) != 0)
            fail_msg("bit %u of byte %llu of %s (%zu bytes): %u problems, in '%s'", bit,
                     (unsigned long long)off, f->name, f->bytes, seen.count, seen.shard);
        if (hr_dataset_open(root, NULL, &d, NULL) == 0) {
            read_everything(d);
            hr_dataset_close(d);
        }
        poke(f, off, f->data[off]);
    }
    assert_int_equal(verify(root).count, 0);
    for (int i = 0; i < 4; i++)
        hr_free(files[i].data);
}

static void damaged_value_is_named_by_record_and_field(void **state)
{
    struct hr_value_place p;
    struct hr_dataset *d;
    struct file f;

    (void)state;
    commit_dataset(2, 30, false, NULL);
    load(&f, "s-00001.hrs");
    d = open_dataset(root);
    hr_dataset_locate(d, 45, IMAGE, &p);
    assert_int_equal(p.shard, 1);
    poke(&f, p.off + p.bytes / 2, f.data[p.off + p.bytes / 2] ^ 1);
    struct seen seen = verify(root);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.shard, "s-00001.hrs");
    assert_int_equal(seen.record, 45);
    assert_string_equal(seen.field, "image");
    assert_int_equal(seen.offset, p.off);
    assert_string_equal(seen.reason, "checksum mismatch");
    hr_dataset_close(d);
    hr_free(f.data);
}

static void truncated_shard_is_refused_at_any_length(void **state)
{
    struct hr_dataset *d;
    struct file f;

    (void)state;
    commit_dataset(1, 40, true, NULL);
    load(&f, "s-00000.hrs");
    for (uint64_t i = 0; i < 64; i++) {
        struct hr_error err = HR_ERROR_INIT;
        assert_int_equal(truncate(in_root(f.name), (off_t)(f.bytes * (63 - i) / 64)), 0);
        assert_int_equal(hr_dataset_open(root, NULL, &d, &err), HR_E_CORRUPT);
        assert_non_null(strstr(err.file, "s-00000.hrs"));
        assert_true(err.offset >= 0);
        struct seen seen = verify(root);
        assert_int_equal(seen.count, 1);
        assert_string_equal(seen.shard, "s-00000.hrs");
    }
    hr_free(f.data);
}

static void verify_goes_on_after_missing_and_foreign_shards(void **state)
{
    (void)state;
    commit_dataset(4, 20, false, NULL);
    unlink(in_root("s-00001.hrs"));
    write_shard(in_root("s-00002.hrs"), 99, 0, 20, false, NULL);
    struct seen seen = {0};
    struct hr_verify_options options = {.threads = 2, .problem = see, .arg = &seen};
    struct hr_verify_result result;
    struct hr_error err = HR_ERROR_INIT;
    ok(hr_dataset_verify(root, NULL, &options, &result, &err), &err);
    assert_int_equal(result.bad_shards, 2);
    assert_int_equal(result.records, 60);
    assert_true(seen.count >= 2);
}

static void locate_agrees_with_adding_up_from_the_start(void **state)
{
    struct hr_value_place p;
    struct hr_dataset *d;
    struct file f;
    struct made m;

    (void)state;
    write_shard(in_root("a.hrs"), 5, 0, 400, true, NULL);
    load(&f, "a.hrs");
    d = open_dataset(in_root("a.hrs"));
    /* The image is the first of three plain fields: its raw position is a sum over all of them. */
    uint64_t pos = 0, base = 0;
    for (uint64_t r = 0; r < 400; r++) {
        make_record(&m, 5, r, true);
        for (uint32_t k = 0; k < FIELDS; k++) {
            const struct hr_value *v = &m.values[k];
            if (!v->present || v->bytes == 0 || (k != IMAGE && k != TENSOR && k != RAGGED))
                continue;
            if (v->bytes >= 65536)
                pos = (pos + 4095) / 4096 * 4096;
            hr_dataset_locate(d, r, k, &p);
            assert_int_equal(p.bytes, v->bytes);
            assert_int_equal((p.off - pos) % 4096, 0); /* the file offset, modulo the alignment */
            assert_true(p.off > base);
            assert_memory_equal(f.data + p.off, v->data, v->bytes);
            base = p.off;
            pos += v->bytes;
        }
        free(m.memory);
    }
    hr_dataset_close(d);
    hr_free(f.data);
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
        TEST(locate_agrees_with_adding_up_from_the_start),
        TEST(intact_dataset_verifies),
        TEST(every_flipped_bit_is_named),
        TEST(damaged_value_is_named_by_record_and_field),
        TEST(truncated_shard_is_refused_at_any_length),
        TEST(verify_goes_on_after_missing_and_foreign_shards),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}
