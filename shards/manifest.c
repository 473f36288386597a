/* Reading manifests: the current one of a dataset, those that are kept beside it, and which there are. */
#include "shards/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "manifest_parts.h"
#include "proto.h"
#include "shards/index.h"

enum { MAX_SHARDS = 1 << 24 };

bool hr_shard_name_ok(const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || n >= HR_STR_BYTES || name[0] == '.' || strstr(name, ".."))
        return false;
    for (size_t i = 0; i < n; i++)
        if (name[i] == '/' || (uint8_t)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    return true;
}

struct hr_digest hr_manifest_digest(const struct hr_schema *schema,
                                    const struct hr_shard_info *shards, uint32_t shard_count)
{
    struct hr_hasher *hasher = hr_hasher_create();
    struct hr_digest digest = {{0}};

    if (!hasher)
        return digest;
    hr_hasher_update(hasher, HR_MANIFEST_MAGIC, HR_MANIFEST_HEAD_BYTES);
    hr_hasher_update_u64(hasher, HR_MANIFEST_FORMAT);
    hr_schema_hash(schema, hasher);
    hr_hasher_update_u64(hasher, shard_count);
    for (uint32_t i = 0; i < shard_count; i++) {
        hr_hasher_update(hasher, shards[i].digest.bytes, sizeof(shards[i].digest.bytes));
        hr_hasher_update_u64(hasher, shards[i].record_count);
    }
    digest = hr_hasher_digest(hasher);
    hr_hasher_destroy(hasher);
    return digest;
}

void hr_manifest_finish(struct hr_manifest *m)
{
    hr_schema_finish(&m->schema);
    hr_free(m->shards);
    hr_free(m->tool);
    hr_free(m->options);
    hr_free(m->source);
    *m = (struct hr_manifest){.schema.class_field = -1};
}

/* ---- read ---- */

static int read_shards(const Headrace__Manifest *p, struct hr_manifest *m, struct hr_error *err)
{
    if (p->n_shards > MAX_SHARDS)
        return hr_fail(err, HR_E_CORRUPT, "more shards than can be");
    m->shards = hr_alloc_zero(p->n_shards, sizeof(*m->shards));
    if (!m->shards)
        return hr_fail(err, HR_E_NOMEM, "no memory for a manifest");
    for (size_t i = 0; i < p->n_shards; i++) {
        const Headrace__ShardRow *row = p->shards[i];
        struct hr_shard_info *info = &m->shards[i];
        if (!hr_shard_name_ok(row->name))
            return hr_fail(err, HR_E_CORRUPT, "shard %zu: its name is not a plain file name", i);
        if (row->digest.len != sizeof(info->digest.bytes) || row->records > HRS_MAX_RECORDS)
            return hr_fail(err, HR_E_CORRUPT, "shard '%s': impossible digest or count", row->name);
        snprintf(info->name, sizeof(info->name), "%s", row->name);
        info->bytes = row->bytes;
        info->record_count = row->records;
        memcpy(info->digest.bytes, row->digest.data, sizeof(info->digest.bytes));
        m->record_count += row->records;
        if (!hr_add_u64(m->bytes, row->bytes, &m->bytes))
            return hr_fail(err, HR_E_CORRUPT, "sizes of shards overflow");
    }
    m->shard_count = (uint32_t)p->n_shards;
    return 0;
}

static int read_rest(const Headrace__Manifest *p, struct hr_manifest *m, struct hr_error *err)
{
    const Headrace__Provenance *from = p->provenance;

    if (p->digest.len != 16 || (p->previous.len != 0 && p->previous.len != 16))
        return hr_fail(err, HR_E_CORRUPT, "impossible digest");
    memcpy(m->digest.bytes, p->digest.data, 16);
    m->has_previous = p->previous.len == 16;
    if (m->has_previous)
        memcpy(m->previous.bytes, p->previous.data, 16);
    if (p->record_count != m->record_count || p->bytes != m->bytes)
        return hr_fail(err, HR_E_CORRUPT, "totals differ from the sum of the shards");
    if (p->n_totals != m->schema.field_count)
        return hr_fail(err, HR_E_CORRUPT, "totals do not fit the schema");
    for (size_t i = 0; i < p->n_totals; i++) {
        m->totals[i].present = p->totals[i]->present;
        m->totals[i].bytes = p->totals[i]->bytes;
        m->totals[i].original_bytes = p->totals[i]->original_bytes;
        m->totals[i].max_bytes = p->totals[i]->max_bytes;
        m->totals[i].duration_ns = p->totals[i]->duration_ns;
    }
    m->tool = hr_strdup(from ? from->tool : "");
    m->options = hr_strdup(from ? from->options : "");
    m->source = from && from->source.len ? hr_strndup((const char *)from->source.data, from->source.len)
                                         : hr_strdup("");
    if (!m->tool || !m->options || !m->source)
        return hr_fail(err, HR_E_NOMEM, "no memory for a manifest");
    return 0;
}

static int parse(const uint8_t *data, size_t bytes, struct hr_manifest *m, struct hr_error *err)
{
    size_t body = bytes - HR_MANIFEST_HEAD_BYTES - HR_MANIFEST_TAIL_BYTES;
    Headrace__Manifest *p = NULL;
    int ret;

    if (bytes < HR_MANIFEST_HEAD_BYTES + HR_MANIFEST_TAIL_BYTES ||
        memcmp(data, HR_MANIFEST_MAGIC, HR_MANIFEST_HEAD_BYTES) != 0)
        return hr_fail(err, HR_E_CORRUPT, "not a manifest, or cut short");
    if (hr_load_le64(data + bytes - 16) != body ||
        hr_load_le64(data + bytes - 8) != hr_hash64(data, bytes - 8, 0))
        return hr_fail(err, HR_E_CORRUPT, "manifest: checksum mismatch");
    p = headrace__manifest__unpack(NULL, body, data + HR_MANIFEST_HEAD_BYTES);
    if (!p)
        return hr_fail(err, HR_E_CORRUPT, "manifest: not a valid message");
    if (p->format != HR_MANIFEST_FORMAT)
        ret = hr_fail(err, HR_E_VERSION, "manifest of format %u, this version reads %d", p->format,
                      HR_MANIFEST_FORMAT);
    else
        ret = hr_proto_schema_read(p->schema, &m->schema, err);
    if (ret == 0)
        ret = read_shards(p, m, err);
    if (ret == 0)
        ret = read_rest(p, m, err);
    headrace__manifest__free_unpacked(p, NULL);
    if (ret < 0)
        return ret;
    struct hr_digest digest = hr_manifest_digest(&m->schema, m->shards, m->shard_count);
    return hr_digest_equal(&digest, &m->digest)
               ? 0
               : hr_fail(err, HR_E_CORRUPT, "manifest: digest is not that of schema and shards");
}

static int read_file(const char *path, struct hr_manifest *manifest, struct hr_error *err)
{
    struct hr_manifest *m = hr_alloc_zero(1, sizeof(*m));
    void *data = NULL;
    size_t bytes = 0;
    int ret;

    if (!m)
        return hr_fail(err, HR_E_NOMEM, "no memory for a manifest");
    m->schema.class_field = -1;
    ret = hr_fd_read_file(path, HR_MANIFEST_MAX_BYTES, &data, &bytes, err);
    if (ret == 0)
        ret = parse(data, bytes, m, err);
    if (ret == 0)
        *manifest = *m;
    else
        hr_manifest_finish(m);
    if (ret < 0 && !(err && err->sys_errno)) /* those name it already */
        hr_error_at_file(err, path, 0, 0);
    hr_free(data);
    hr_free(m);
    return ret;
}

int hr_manifest_read(const char *path, struct hr_manifest *manifest, struct hr_error *err)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return hr_fail_errno(err, errno, "cannot open '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return read_file(path, manifest, err);
    char *file = hr_asprintf("%s/" HR_MANIFEST_NAME, path);
    if (!file)
        return hr_fail(err, HR_E_NOMEM, "no memory for a path");
    int ret = read_file(file, manifest, err);
    if (ret == HR_E_NOT_FOUND)
        hr_error_hint(err, "a dataset folder has a " HR_MANIFEST_NAME
                           "; an unfinished pack has none yet");
    hr_free(file);
    return ret;
}

/* ---- versions ---- */

/* Names in versions/ that are a digest and .hrm. */
static bool version_name(const char *name, struct hr_digest *digest)
{
    char hex[HR_DIGEST_HEX_BYTES];

    if (strlen(name) != 36 || strcmp(name + 32, ".hrm") != 0)
        return false;
    memcpy(hex, name, 32);
    hex[32] = 0;
    return hr_digest_parse(hex, digest);
}

static int by_digest(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct hr_digest));
}

/* Digests of the files in versions/, sorted. No such folder: none. */
static int list_versions(const char *folder, struct hr_digest **out, uint32_t *count,
                         struct hr_error *err)
{
    char *path = hr_asprintf("%s/" HR_VERSIONS_NAME, folder);
    DIR *dir = path ? opendir(path) : NULL;
    struct hr_digest *list = NULL, digest;
    const char *name;
    uint32_t n = 0;
    int ret = path ? 0 : hr_fail(err, HR_E_NOMEM, "no memory for a path");

    if (path && !dir && errno != ENOENT)
        ret = hr_fail_errno(err, errno, "cannot list '%s'", path);
    while (ret == 0 && dir && (ret = hr_dir_next(dir, &name, err)) == 1) {
        ret = 0;
        if (!version_name(name, &digest))
            continue;
        struct hr_digest *grown = hr_realloc(list, n + 1, sizeof(*list));
        if (!grown) {
            ret = hr_fail(err, HR_E_NOMEM, "no memory for versions");
            break;
        }
        list = grown;
        list[n++] = digest;
    }
    if (dir)
        closedir(dir);
    hr_free(path);
    if (ret < 0) {
        hr_free(list);
        return ret;
    }
    if (n > 1)
        qsort(list, n, sizeof(*list), by_digest);
    *out = list;
    *count = n;
    return 0;
}

static bool has_prefix(const struct hr_digest *digest, const char *prefix)
{
    char hex[HR_DIGEST_HEX_BYTES];

    return strncasecmp(hr_digest_hex(digest, hex), prefix, strlen(prefix)) == 0;
}

static int read_kept(const char *folder, const struct hr_digest *digest, struct hr_manifest *manifest,
                     struct hr_error *err)
{
    char hex[HR_DIGEST_HEX_BYTES];
    char *path = hr_asprintf("%s/" HR_VERSIONS_NAME "/%s.hrm", folder, hr_digest_hex(digest, hex));

    if (!path)
        return hr_fail(err, HR_E_NOMEM, "no memory for a path");
    int ret = read_file(path, manifest, err);
    if (ret == 0 && !hr_digest_equal(&manifest->digest, digest)) {
        hr_manifest_finish(manifest);
        ret = hr_fail(err, HR_E_CORRUPT, "manifest: holds another version than its name says");
        hr_error_at_file(err, path, 0, 0);
    }
    hr_free(path);
    return ret;
}

int hr_manifest_read_version(const char *folder, const char *version, struct hr_manifest *manifest,
                             struct hr_error *err)
{
    struct hr_digest *kept = NULL;
    const struct hr_digest *found = NULL;
    uint32_t count = 0, matches = 0;
    int ret = hr_manifest_read(folder, manifest, err);

    if (!version || !version[0] || (ret == 0 && strlen(version) == 32 && has_prefix(&manifest->digest, version)))
        return ret;
    /* A damaged current manifest does not hide older versions. */
    int listed = list_versions(folder, &kept, &count, err);
    if (listed < 0) {
        if (ret == 0)
            hr_manifest_finish(manifest);
        return listed;
    }
    bool current = ret == 0 && has_prefix(&manifest->digest, version);
    for (uint32_t i = 0; i < count; i++)
        if (has_prefix(&kept[i], version) &&
            !(ret == 0 && hr_digest_equal(&kept[i], &manifest->digest))) {
            found = &kept[i];
            matches++;
        }
    if (current && matches == 0) {
        hr_free(kept);
        return 0;
    }
    if (ret == 0)
        hr_manifest_finish(manifest);
    if (matches + current > 1)
        ret = hr_fail(err, HR_E_USAGE, "'%s' is the beginning of %u versions", version, matches + current);
    else if (!found)
        ret = hr_fail(err, HR_E_NOT_FOUND, "no version '%s' of this dataset ('headrace versions' lists them)", version);
    else
        ret = read_kept(folder, found, manifest, err);
    if (ret < 0 && !found)
        hr_error_at_file(err, folder, 0, 0);
    hr_free(kept);
    return ret;
}

static bool take_version(struct hr_version_row *rows, uint32_t *n, const struct hr_manifest *m)
{
    for (uint32_t i = 0; i < *n; i++)
        if (hr_digest_equal(&rows[i].digest, &m->digest))
            return false;
    rows[(*n)++] = (struct hr_version_row){.digest = m->digest, .record_count = m->record_count,
                                           .bytes = m->bytes, .shard_count = m->shard_count};
    return true;
}

int hr_manifest_versions(const char *folder, struct hr_version_row **out, uint32_t *count,
                         struct hr_error *err)
{
    struct hr_digest *kept = NULL, next;
    struct hr_version_row *rows;
    struct hr_manifest *m = hr_alloc_zero(1, sizeof(*m));
    uint32_t kept_count = 0, n = 0;
    bool follow;
    int ret = m ? list_versions(folder, &kept, &kept_count, err)
                : hr_fail(err, HR_E_NOMEM, "no memory for versions");

    if (ret < 0) {
        hr_free(m);
        return ret;
    }
    rows = hr_alloc_zero((size_t)kept_count + 1, sizeof(*rows));
    ret = rows ? hr_manifest_read(folder, m, err) : hr_fail(err, HR_E_NOMEM, "no memory for versions");
    for (follow = ret == 0; follow;) {
        follow = take_version(rows, &n, m) && m->has_previous;
        next = m->previous;
        hr_manifest_finish(m);
        follow = follow && n <= kept_count && read_kept(folder, &next, m, NULL) == 0;
    }
    for (uint32_t i = 0; ret == 0 && i < kept_count && n <= kept_count; i++)
        if (read_kept(folder, &kept[i], m, NULL) == 0) {
            take_version(rows, &n, m);
            hr_manifest_finish(m);
        }
    hr_free(m);
    hr_free(kept);
    if (ret < 0) {
        hr_free(rows);
        return ret;
    }
    *out = rows;
    *count = n;
    return 0;
}

