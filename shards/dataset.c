/* A dataset open for reading: the manifest's shards, their indexes, and questions about records. */
#include "shards/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "shards/index.h"
#include "shards/manifest.h"

struct hr_dataset {
    char *path;
    struct hr_schema schema;
    struct hr_digest digest;
    uint64_t record_count, bytes;
    uint32_t shard_count;
    struct hr_shard_info *infos;
    char **paths;
    struct hr_shard **shards;
    uint64_t *starts; /* shard_count + 1 */
    struct hr_field_totals *totals;
    int hold; /* lock on its version, -1 = none */
};

void hr_dataset_close(struct hr_dataset *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < d->shard_count; i++) {
        if (d->shards)
            hr_shard_close(d->shards[i]);
        if (d->paths)
            hr_free(d->paths[i]);
    }
    hr_schema_finish(&d->schema);
    hr_free(d->shards);
    hr_free(d->paths);
    hr_free(d->infos);
    hr_free(d->starts);
    hr_free(d->totals);
    hr_free(d->path);
    hr_fd_close(&d->hold);
    hr_free(d);
}

/* ---- open ---- */

static int make_room(struct hr_dataset *d, uint32_t shard_count, struct hr_error *err)
{
    d->shard_count = shard_count;
    d->shards = hr_alloc_zero(shard_count, sizeof(*d->shards));
    d->paths = hr_alloc_zero(shard_count, sizeof(*d->paths));
    d->starts = hr_alloc_zero((size_t)shard_count + 1, sizeof(*d->starts));
    d->totals = hr_alloc_zero(HR_MAX_FIELDS, sizeof(*d->totals));
    return d->shards && d->paths && d->starts && d->totals
               ? 0
               : hr_fail(err, HR_E_NOMEM, "no memory for a dataset");
}

static int check_against_manifest(const struct hr_dataset *d, uint32_t i,
                                  const struct hr_schema *schema, struct hr_error *err)
{
    const struct hr_shard *shard = d->shards[i];
    const struct hr_shard_info *info = &d->infos[i];
    const char *what = NULL;

    if (!hr_schema_covers(&d->schema, schema))
        what = "its schema";
    else if (shard->file_bytes != info->bytes)
        what = "its size";
    else if (shard->record_count != info->record_count)
        what = "its number of records";
    else if (!hr_digest_equal(&shard->digest, &info->digest))
        what = "its digest";
    if (!what)
        return 0;
    int ret = hr_fail(err, HR_E_CORRUPT, "not the shard that the manifest names: %s differs", what);
    hr_error_hint(err, "a shard was replaced; restore it, or pack again");
    hr_error_at_value(err, d->paths[i], HR_NO_RECORD, NULL, -1);
    return ret;
}

static int open_shard(struct hr_dataset *d, uint32_t i, struct hr_error *err)
{
    struct hr_schema schema;
    int ret = hr_shard_open(d->paths[i], false, &d->shards[i], &schema, err);

    if (ret < 0)
        return ret;
    ret = check_against_manifest(d, i, &schema, err);
    hr_schema_finish(&schema);
    return ret;
}

static void add_up(struct hr_dataset *d)
{
    for (uint32_t i = 0; i < d->shard_count; i++) {
        d->starts[i] = d->record_count;
        d->record_count += d->shards[i]->record_count;
        d->bytes += d->shards[i]->file_bytes;
        for (uint32_t f = 0; f < d->schema.field_count; f++)
            hr_totals_add(&d->totals[f], &d->shards[i]->fields[f].totals);
    }
    d->starts[d->shard_count] = d->record_count;
}

static int open_folder(struct hr_dataset *d, const char *folder, const char *version,
                       struct hr_error *err)
{
    struct hr_manifest *m = hr_alloc_zero(1, sizeof(*m));
    int ret = m ? hr_manifest_read_version(folder, version, m, err)
                : hr_fail(err, HR_E_NOMEM, "no memory for a dataset");

    if (ret == 0) {
        ret = make_room(d, m->shard_count, err);
        d->schema = m->schema; /* both change owner */
        d->infos = m->shards;
        d->digest = m->digest;
        m->schema = (struct hr_schema){.class_field = -1};
        m->shards = NULL;
        hr_manifest_finish(m);
    }
    hr_free(m);
    if (ret == 0)
        ret = hr_manifest_hold(folder, &d->digest, &d->hold, err);
    for (uint32_t i = 0; ret == 0 && i < d->shard_count; i++) {
        d->paths[i] = hr_asprintf("%s/%s", folder, d->infos[i].name);
        ret = d->paths[i] ? open_shard(d, i, err) : hr_fail(err, HR_E_NOMEM, "no memory for a path");
    }
    return ret;
}

/* One shard alone is a dataset of one shard. */
static int open_file(struct hr_dataset *d, const char *path, const char *version,
                     struct hr_error *err)
{
    const char *slash = strrchr(path, '/');
    int ret;

    if (version && version[0])
        return hr_fail(err, HR_E_USAGE, "a single shard has no versions");
    ret = make_room(d, 1, err);
    if (ret < 0)
        return ret;
    d->infos = hr_alloc_zero(1, sizeof(*d->infos));
    d->paths[0] = hr_strdup(path);
    if (!d->infos || !d->paths[0])
        return hr_fail(err, HR_E_NOMEM, "no memory for a dataset");
    ret = hr_shard_open(path, false, &d->shards[0], &d->schema, err);
    if (ret < 0)
        return ret;
    snprintf(d->infos[0].name, sizeof(d->infos[0].name), "%s", slash ? slash + 1 : path);
    d->infos[0].bytes = d->shards[0]->file_bytes;
    d->infos[0].record_count = d->shards[0]->record_count;
    d->infos[0].digest = d->shards[0]->digest;
    d->digest = hr_manifest_digest(&d->schema, d->infos, 1);
    return 0;
}

int hr_dataset_open(const char *path, const char *version, struct hr_dataset **out,
                    struct hr_error *err)
{
    struct hr_dataset *d = hr_alloc_zero(1, sizeof(*d));
    struct stat st;
    int ret;

    if (!d)
        return hr_fail(err, HR_E_NOMEM, "no memory for a dataset");
    d->schema.class_field = -1;
    d->hold = -1;
    d->path = hr_strdup(path);
    if (!d->path)
        ret = hr_fail(err, HR_E_NOMEM, "no memory for a dataset");
    else if (stat(path, &st) < 0)
        ret = hr_fail_errno(err, errno, "cannot open '%s'", path);
    else
        ret = S_ISDIR(st.st_mode) ? open_folder(d, path, version, err) : open_file(d, path, version, err);
    if (ret < 0) {
        hr_dataset_close(d);
        return ret;
    }
    add_up(d);
    *out = d;
    return 0;
}

/* ---- questions ---- */

const char *hr_dataset_path(const struct hr_dataset *dataset)
{
    return dataset->path;
}

const struct hr_schema *hr_dataset_schema(const struct hr_dataset *dataset)
{
    return &dataset->schema;
}

struct hr_digest hr_dataset_digest(const struct hr_dataset *dataset)
{
    return dataset->digest;
}

uint64_t hr_dataset_record_count(const struct hr_dataset *dataset)
{
    return dataset->record_count;
}

uint64_t hr_dataset_bytes(const struct hr_dataset *dataset)
{
    return dataset->bytes;
}

uint64_t hr_dataset_index_bytes(const struct hr_dataset *dataset)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < dataset->shard_count; i++)
        bytes += dataset->shards[i]->memory_bytes;
    return bytes;
}

uint32_t hr_dataset_shard_count(const struct hr_dataset *dataset)
{
    return dataset->shard_count;
}

const char *hr_dataset_shard_path(const struct hr_dataset *dataset, uint32_t shard)
{
    return dataset->paths[shard];
}

const struct hr_shard_info *hr_dataset_shard_info(const struct hr_dataset *dataset, uint32_t shard)
{
    return &dataset->infos[shard];
}

uint32_t hr_dataset_shard_of(const struct hr_dataset *dataset, uint64_t record, uint64_t *local)
{
    uint32_t low = 0, high = dataset->shard_count;

    HR_ASSERT(record < dataset->record_count);
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (dataset->starts[mid] <= record)
            low = mid;
        else
            high = mid;
    }
    *local = record - dataset->starts[low];
    return low;
}

void hr_dataset_locate(const struct hr_dataset *dataset, uint64_t record, uint32_t field,
                       struct hr_value_place *place)
{
    uint64_t local, seek_bytes;
    uint32_t i = hr_dataset_shard_of(dataset, record, &local);
    const struct hr_shard *shard = dataset->shards[i];
    const struct hr_field_index *f = &shard->fields[field];

    *place = (struct hr_value_place){.shard = i, .present = hr_field_present(f, local)};
    if (!place->present || f->stream < 0)
        return;
    place->checksum = (uint32_t)hr_column_get(&f->checksums, local);
    place->encoding = (uint16_t)hr_column_get(&f->encodings, local);
    place->seek = hr_strings_get(&f->seeks, local, &seek_bytes);
    place->seek_bytes = (uint32_t)seek_bytes;
    shard->format->locate(shard, local, field, place);
}

void hr_dataset_facts(const struct hr_dataset *dataset, uint64_t record, uint32_t field,
                      struct hr_facts *facts)
{
    uint64_t local;
    uint32_t i = hr_dataset_shard_of(dataset, record, &local);

    hr_shard_facts(dataset->shards[i], &dataset->schema, local, field, facts);
}

uint64_t hr_dataset_value_bytes(const struct hr_dataset *dataset, uint64_t record, uint32_t field)
{
    uint64_t local;
    uint32_t i = hr_dataset_shard_of(dataset, record, &local);

    return hr_column_get(&dataset->shards[i]->fields[field].lengths, local);
}

uint64_t hr_dataset_original_bytes(const struct hr_dataset *dataset, uint64_t record, uint32_t field)
{
    uint64_t local;
    uint32_t i = hr_dataset_shard_of(dataset, record, &local);
    const struct hr_field_index *f = &dataset->shards[i]->fields[field];

    return hr_column_get(f->has_originals ? &f->original_bytes : &f->lengths, local);
}

void hr_dataset_scalar(const struct hr_dataset *dataset, uint64_t record, uint32_t field,
                       struct hr_scalar *scalar)
{
    uint64_t local, bits, bytes;
    uint32_t i = hr_dataset_shard_of(dataset, record, &local);
    const struct hr_field_index *f = &dataset->shards[i]->fields[field];

    *scalar = (struct hr_scalar){.present = hr_field_present(f, local), .str = ""};
    if (!scalar->present)
        return;
    bits = hr_column_get(&f->scalar, local);
    switch (dataset->schema.fields[field].type) {
    case HR_FIELD_STR:
        bits = 0;
        const uint8_t *str = hr_strings_get(&f->strs, local, &bytes);
        scalar->str = str ? (const char *)str : "";
        scalar->str_bytes = (uint32_t)bytes;
        break;
    case HR_FIELD_F64:
        memcpy(&scalar->f64, &bits, sizeof(bits));
        break;
    case HR_FIELD_BOOL:
        scalar->i64 = (int64_t)bits;
        break;
    default:
        scalar->i64 = (int64_t)(bits >> 1 ^ (0 - (bits & 1)));
        break;
    }
}

const char *hr_dataset_key(const struct hr_dataset *dataset, uint64_t record, uint32_t *bytes)
{
    uint64_t local, n;
    uint32_t i = hr_dataset_shard_of(dataset, record, &local);
    const uint8_t *key = hr_strings_get(&dataset->shards[i]->keys, local, &n);

    *bytes = (uint32_t)n;
    return key ? (const char *)key : "";
}

void hr_dataset_totals(const struct hr_dataset *dataset, uint32_t field,
                       struct hr_field_totals *totals)
{
    *totals = dataset->totals[field];
}

/* ---- one value, for tools ---- */

static int read_block(int fd, const struct hr_value_place *p, uint8_t *value, struct hr_error *err)
{
    char *stored = hr_alloc(p->stored_bytes), *block = hr_alloc(p->block_bytes);
    int ret = stored && block ? hr_fd_pread_full(fd, stored, p->stored_bytes, p->off, err)
                              : hr_fail(err, HR_E_NOMEM, "no memory for a block");

    if (ret == 0 && LZ4_decompress_safe(stored, block, (int)p->stored_bytes, (int)p->block_bytes) !=
                        (int)p->block_bytes)
        ret = hr_fail(err, HR_E_CHECKSUM, "its block cannot be decompressed");
    if (ret == 0)
        memcpy(value, block + p->block_off, p->bytes);
    hr_free(stored);
    hr_free(block);
    return ret;
}

static int read_place(const char *path, const struct hr_value_place *p, uint8_t *value,
                      struct hr_error *err)
{
    int fd = hr_fd_open(path, O_RDONLY, 0, err), ret;

    if (fd < 0)
        return fd;
    ret = p->codec == HR_CODEC_NONE ? hr_fd_pread_full(fd, value, p->bytes, p->off, err)
                                    : read_block(fd, p, value, err);
    hr_fd_close(&fd);
    return ret;
}

int hr_dataset_read_value(const struct hr_dataset *dataset, uint64_t record, uint32_t field,
                          void **data, uint64_t *bytes, struct hr_error *err)
{
    struct hr_value_place p;
    const char *name = dataset->schema.fields[field].name;
    uint8_t *value;
    int ret = 0;

    hr_dataset_locate(dataset, record, field, &p);
    if (!p.present || hr_field_type_is_scalar(dataset->schema.fields[field].type)) {
        ret = hr_fail(err, HR_E_MISSING, p.present ? "a scalar has no bytes" : "the record has no such value");
        hr_error_at_value(err, dataset->paths[p.shard], record, name, -1);
        return ret;
    }
    value = hr_alloc(p.bytes);
    if (!value)
        return hr_fail(err, HR_E_NOMEM, "no memory for a value of %llu bytes", (unsigned long long)p.bytes);
    if (p.bytes > 0)
        ret = read_place(dataset->paths[p.shard], &p, value, err);
    if (ret == 0 && hr_checksum(value, p.bytes) != p.checksum)
        ret = hr_fail(err, HR_E_CHECKSUM, "checksum mismatch");
    if (ret < 0) {
        hr_error_at_value(err, dataset->paths[p.shard], record, name, (int64_t)p.off);
        hr_free(value);
        return ret;
    }
    *data = value;
    *bytes = p.bytes;
    return 0;
}
