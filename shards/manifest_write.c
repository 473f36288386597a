/* Committing a manifest: every shard is looked at once more, what is current is kept under its digest, and
 * the new one takes its place in one rename. */
#include "shards/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "manifest_parts.h"
#include "proto.h"
#include "shards/index.h"

static int add_shard(const char *folder, struct hr_manifest *m, const struct hr_shard_info *info,
                     struct hr_error *err)
{
    struct hr_shard *shard;
    struct hr_schema schema;
    int ret;

    if (!hr_shard_name_ok(info->name))
        return hr_fail(err, HR_E_USAGE, "'%s' cannot be the name of a shard", info->name);
    char *path = hr_asprintf("%s/%s", folder, info->name);
    if (!path)
        return hr_fail(err, HR_E_NOMEM, "no memory for a path");
    ret = hr_shard_open(path, false, &shard, &schema, err);
    if (ret < 0)
        goto out;
    if (!hr_schema_covers(&m->schema, &schema) || shard->record_count != info->record_count ||
        shard->file_bytes != info->bytes || !hr_digest_equal(&shard->digest, &info->digest)) {
        ret = hr_fail(err, HR_E_CORRUPT, "the shard on disk is not the one that was written");
        hr_error_at_file(err, path, 0, 0);
    } else {
        for (uint32_t i = 0; i < m->schema.field_count; i++)
            hr_totals_add(&m->totals[i], &shard->fields[i].totals);
        m->record_count += info->record_count;
        m->bytes += info->bytes;
    }
    hr_shard_close(shard);
    hr_schema_finish(&schema);
out:
    hr_free(path);
    return ret;
}

/* The same file under a second name, so that those who hold it still do; a copy where the file
 * system has no links. */
static int keep_file(const char *from, const char *to, struct hr_error *err)
{
    char *tmp = hr_asprintf("%s.tmp", to);
    void *data = NULL;
    size_t bytes;
    int ret = 0;

    if (!tmp)
        return hr_fail(err, HR_E_NOMEM, "no memory for a path");
    unlink(tmp);
    if (link(from, tmp) == 0) {
        if (rename(tmp, to) < 0)
            ret = hr_fail_errno(err, errno, "cannot make '%s'", to);
        unlink(tmp); /* still there when both were the same file already */
    } else {
        ret = hr_fd_read_file(from, HR_MANIFEST_MAX_BYTES, &data, &bytes, err);
        if (ret == 0)
            ret = hr_fd_write_file_atomic(to, data, bytes, err);
    }
    hr_free(data);
    hr_free(tmp);
    return ret;
}

/* Keeps the manifest that is current now under its digest. */
static int keep_previous(const char *folder, struct hr_manifest *m, struct hr_error *err)
{
    struct hr_manifest *old = hr_alloc_zero(1, sizeof(*old));
    char *dir = hr_asprintf("%s/" HR_VERSIONS_NAME, folder), *from = NULL, *to = NULL, hex[HR_DIGEST_HEX_BYTES];
    int ret = old && dir ? hr_manifest_read(folder, old, err)
                         : hr_fail(err, HR_E_NOMEM, "no memory for a manifest");

    if (ret == HR_E_NOT_FOUND)
        ret = 0;
    else if (ret == 0 && !hr_digest_equal(&old->digest, &m->digest)) {
        m->previous = old->digest;
        m->has_previous = true;
        from = hr_asprintf("%s/" HR_MANIFEST_NAME, folder);
        to = hr_asprintf("%s/%s.hrm", dir, hr_digest_hex(&old->digest, hex));
        if (!from || !to)
            ret = hr_fail(err, HR_E_NOMEM, "no memory for a path");
        if (ret == 0 && mkdir(dir, 0777) < 0 && errno != EEXIST)
            ret = hr_fail_errno(err, errno, "cannot make '%s'", dir);
        if (ret == 0)
            ret = keep_file(from, to, err);
        if (ret == 0)
            ret = hr_fd_sync_dir(dir, err);
        if (ret == 0)
            ret = hr_fd_sync_dir(folder, err);
    } else if (ret == 0 && old->has_previous) {
        m->previous = old->previous; /* the same dataset once more */
        m->has_previous = true;
    }
    if (old)
        hr_manifest_finish(old);
    hr_free(old);
    hr_free(dir);
    hr_free(from);
    hr_free(to);
    return ret;
}

static int write_message(const char *path, const Headrace__Manifest *p, struct hr_error *err)
{
    size_t body = headrace__manifest__get_packed_size(p);
    size_t bytes = HR_MANIFEST_HEAD_BYTES + body + HR_MANIFEST_TAIL_BYTES;
    uint8_t *data = hr_alloc(bytes);
    int ret;

    if (bytes > HR_MANIFEST_MAX_BYTES || !data) {
        hr_free(data);
        return hr_fail(err, HR_E_NOMEM, "no memory for a manifest of %zu bytes", bytes);
    }
    memcpy(data, HR_MANIFEST_MAGIC, HR_MANIFEST_HEAD_BYTES);
    headrace__manifest__pack(p, data + HR_MANIFEST_HEAD_BYTES);
    hr_store_le64(data + bytes - 16, body);
    hr_store_le64(data + bytes - 8, hr_hash64(data, bytes - 8, 0));
    ret = hr_fd_write_file_atomic(path, data, bytes, err);
    hr_free(data);
    return ret;
}

static void fill_totals(Headrace__FieldTotals *to, const struct hr_field_totals *from)
{
    headrace__field_totals__init(to);
    to->present = from->present;
    to->bytes = from->bytes;
    to->original_bytes = from->original_bytes;
    to->max_bytes = from->max_bytes;
    to->duration_ns = from->duration_ns;
}

static int write_manifest(const char *path, const struct hr_manifest *m, struct hr_error *err)
{
    Headrace__Manifest p = HEADRACE__MANIFEST__INIT;
    Headrace__Provenance from = HEADRACE__PROVENANCE__INIT;
    Headrace__FieldTotals totals[HR_MAX_FIELDS], *total_ptrs[HR_MAX_FIELDS];
    Headrace__ShardRow *rows = hr_alloc_zero(m->shard_count, sizeof(*rows));
    Headrace__ShardRow **row_ptrs = hr_alloc_zero(m->shard_count, sizeof(*row_ptrs));
    int ret = hr_fail(err, HR_E_NOMEM, "no memory for a manifest");

    p.schema = hr_proto_schema_create(&m->schema);
    if (!rows || !row_ptrs || !p.schema)
        goto out;
    p.format = HR_MANIFEST_FORMAT;
    p.digest = (ProtobufCBinaryData){.len = 16, .data = (uint8_t *)m->digest.bytes};
    if (m->has_previous)
        p.previous = (ProtobufCBinaryData){.len = 16, .data = (uint8_t *)m->previous.bytes};
    p.record_count = m->record_count;
    p.bytes = m->bytes;
    for (uint32_t i = 0; i < m->shard_count; i++) {
        headrace__shard_row__init(&rows[i]);
        rows[i].name = m->shards[i].name;
        rows[i].bytes = m->shards[i].bytes;
        rows[i].records = m->shards[i].record_count;
        rows[i].digest = (ProtobufCBinaryData){.len = 16, .data = m->shards[i].digest.bytes};
        row_ptrs[i] = &rows[i];
    }
    p.n_shards = m->shard_count;
    p.shards = row_ptrs;
    for (uint32_t i = 0; i < m->schema.field_count; i++) {
        fill_totals(&totals[i], &m->totals[i]);
        total_ptrs[i] = &totals[i];
    }
    p.n_totals = m->schema.field_count;
    p.totals = total_ptrs;
    from.tool = m->tool ? m->tool : (char *)"";
    from.options = m->options ? m->options : (char *)"";
    from.source = (ProtobufCBinaryData){.len = m->source ? strlen(m->source) : 0, .data = (uint8_t *)m->source};
    p.provenance = &from;
    ret = write_message(path, &p, err);
out:
    hr_proto_schema_destroy(p.schema);
    hr_free(rows);
    hr_free(row_ptrs);
    return ret;
}

int hr_manifest_commit(const char *folder, struct hr_manifest *m, struct hr_error *err)
{
    char *path = hr_asprintf("%s/" HR_MANIFEST_NAME, folder);
    int ret = path ? hr_schema_check(&m->schema, err) : hr_fail(err, HR_E_NOMEM, "no memory for a path");

    m->record_count = m->bytes = 0;
    memset(m->totals, 0, sizeof(m->totals));
    for (uint32_t i = 0; ret == 0 && i < m->shard_count; i++)
        ret = add_shard(folder, m, &m->shards[i], err);
    if (ret == 0) {
        m->digest = hr_manifest_digest(&m->schema, m->shards, m->shard_count);
        ret = keep_previous(folder, m, err);
    }
    if (ret == 0)
        ret = write_manifest(path, m, err);
    hr_free(path);
    return ret;
}
