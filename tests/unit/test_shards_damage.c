/* shards: every lie in a file is found and named, and values lie where adding up says. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "made_shards.h"
#include "shards/dataset.h"
#include "shards/verify.h"

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
        TEST(locate_agrees_with_adding_up_from_the_start),
        TEST(intact_dataset_verifies),
        TEST(every_flipped_bit_is_named),
        TEST(damaged_value_is_named_by_record_and_field),
        TEST(truncated_shard_is_refused_at_any_length),
        TEST(verify_goes_on_after_missing_and_foreign_shards),
    };
    return cmocka_run_group_tests_name("shards_damage", tests, NULL, NULL);
}
