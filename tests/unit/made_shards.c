/* See made_shards.h. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "made_shards.h"
#include "shards/dataset.h"
#include "shards/manifest.h"
#include "shards/writer.h"

char root[64]; /* scratch folder of the running test */

int make_root(void **state)
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

int drop_root(void **state)
{
    (void)state;
    remove_tree(root);
    return 0;
}

const char *in_root(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

void ok(int ret, const struct hr_error *err)
{
    char text[1400];

    if (ret < 0)
        fail_msg("%s: %s", hr_error_name(ret), hr_error_format(err, text, sizeof(text)));
}

struct hr_schema full_schema(void)
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

void make_record(struct made *m, uint64_t seed, uint64_t record, bool absent)
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

void write_shard(const char *path, uint64_t seed, uint64_t first, uint64_t count, bool absent,
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

void commit_dataset(uint32_t shard_count, uint64_t records, bool absent, struct hr_digest *digest)
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

struct hr_dataset *open_dataset(const char *path)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_dataset *d = NULL;

    ok(hr_dataset_open(path, NULL, &d, &err), &err);
    return d;
}
