/* Any bytes as the manifests of a dataset: read, listed as versions, and deleted. Behind a byte of flags
 * come manifests (two bytes of length and a message each): the current one first, the others as older
 * versions. Unless a flag says otherwise their checksums and digests are made right. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "manifest.pb-c.h"
#include "shards/manifest.h"
#include "shards/proto.h"
#include "shards/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { AS_IS = 1, OWN_DIGEST = 2, OWN_PREVIOUS = 4, FORCE = 8 };
enum { MAX_MANIFESTS = 4 };

static const uint8_t magic[8] = {0x89, 'H', 'R', 'M', '\r', '\n', 0x1a, '\n'};
static char folder[128];

static char *path_of(const char *name)
{
    return hr_asprintf("%s/%s", folder, name);
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    char *path = path_of(name);
    int fd = hr_fd_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600, NULL);

    if (fd < 0 || hr_fd_write_full(fd, data, bytes, NULL) < 0)
        abort();
    hr_fd_close(&fd);
    hr_free(path);
}

static void empty(const char *name)
{
    char *path = path_of(name);
    DIR *dir = opendir(path);

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    hr_free(path);
}

static void leave(void)
{
    char *versions = path_of(HR_VERSIONS_NAME);

    empty(".");
    empty(HR_VERSIONS_NAME);
    rmdir(versions);
    rmdir(folder);
    hr_free(versions);
}

static void enter(void)
{
    const char *tmp = getenv("TMPDIR");
    char *versions;

    if (folder[0]) {
        empty(HR_VERSIONS_NAME);
        return empty(".");
    }
    snprintf(folder, sizeof(folder), "%s/fuzz-manifest-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        abort();
    versions = path_of(HR_VERSIONS_NAME);
    mkdir(versions, 0700);
    hr_free(versions);
    atexit(leave);
}

/* ---- making manifests ---- */

static struct hr_digest digest_of(const Headrace__Manifest *m)
{
    struct hr_shard_info *infos = hr_alloc_zero(m->n_shards + 1, sizeof(*infos));
    struct hr_digest digest = {{0}};
    struct hr_schema schema;

    if (hr_proto_schema_read(m->schema, &schema, NULL) == 0) {
        for (size_t i = 0; i < m->n_shards; i++) {
            const Headrace__ShardRow *row = m->shards[i];
            if (row->digest.len)
                memcpy(infos[i].digest.bytes, row->digest.data, row->digest.len < 16 ? row->digest.len : 16);
            infos[i].record_count = row->records;
        }
        digest = hr_manifest_digest(&schema, infos, (uint32_t)m->n_shards);
        hr_schema_finish(&schema);
    }
    hr_free(infos);
    return digest;
}

static void add_up(Headrace__Manifest *m)
{
    m->record_count = m->bytes = 0;
    for (size_t i = 0; i < m->n_shards; i++) {
        m->record_count += m->shards[i]->records;
        m->bytes += m->shards[i]->bytes;
    }
}

static void write_sealed(const char *name, const Headrace__Manifest *m)
{
    size_t body = headrace__manifest__get_packed_size(m);
    uint8_t *file = malloc(body + 24);

    memcpy(file, magic, 8);
    headrace__manifest__pack(m, file + 8);
    hr_store_le64(file + 8 + body, body);
    hr_store_le64(file + 16 + body, hr_hash64(file, 16 + body, 0));
    write_file(name, file, body + 24);
    free(file);
}

struct maker {
    unsigned flags;
    bool first;
    struct hr_digest last; /* of the manifest before */
};

static void replace(ProtobufCBinaryData *bytes, const struct hr_digest *digest)
{
    free(bytes->data);
    bytes->len = 16;
    bytes->data = malloc(16);
    memcpy(bytes->data, digest->bytes, 16);
}

/* Written from the oldest to the newest, each naming the one before as its previous. */
static void make_one(struct maker *maker, const uint8_t *data, size_t bytes, bool current)
{
    Headrace__Manifest *m = headrace__manifest__unpack(NULL, bytes, data);
    char hex[HR_DIGEST_HEX_BYTES], name[64];

    if (!m)
        return;
    if (!(maker->flags & OWN_DIGEST)) {
        struct hr_digest digest = digest_of(m);
        replace(&m->digest, &digest);
        add_up(m);
    }
    if (!(maker->flags & OWN_PREVIOUS) && !maker->first)
        replace(&m->previous, &maker->last);
    if (m->digest.len == 16)
        memcpy(maker->last.bytes, m->digest.data, 16);
    maker->first = false;
    snprintf(name, sizeof(name), HR_VERSIONS_NAME "/%s.hrm", hr_digest_hex(&maker->last, hex));
    write_sealed(current ? HR_MANIFEST_NAME : name, m);
    headrace__manifest__free_unpacked(m, NULL);
}

static void make_all(const uint8_t *data, size_t bytes, unsigned flags)
{
    const uint8_t *parts[MAX_MANIFESTS];
    size_t part_bytes[MAX_MANIFESTS], count = 0;
    struct maker maker = {.flags = flags, .first = true};

    for (; bytes >= 2 && count < MAX_MANIFESTS; count++) {
        size_t n = hr_min_u64(hr_load_le16(data), bytes - 2);
        parts[count] = data + 2;
        part_bytes[count] = n;
        data += 2 + n;
        bytes -= 2 + n;
    }
    while (count-- > 0)
        make_one(&maker, parts[count], part_bytes[count], count == 0);
}

/* ---- reading them ---- */

static volatile size_t sink;

static void check(int ret, const struct hr_error *err)
{
    if (ret < 0 && (err->code != ret || !err->text[0]))
        abort();
}

static void walk(const struct hr_manifest *m)
{
    uint64_t records = 0;

    sink += strlen(m->tool) + strlen(m->options) + strlen(m->source);
    for (uint32_t i = 0; i < m->shard_count; i++) {
        if (!hr_shard_name_ok(m->shards[i].name))
            abort();
        records += m->shards[i].record_count;
    }
    if (records != m->record_count)
        abort();
    for (uint32_t i = 0; i < m->schema.class_count; i++)
        sink += strlen(m->schema.classes[i]);
}

static void read_version(const char *version)
{
    struct hr_manifest *m = calloc(1, sizeof(*m));
    struct hr_error err = HR_ERROR_INIT;
    int ret = hr_manifest_read_version(folder, version, m, &err);

    check(ret, &err);
    if (ret == 0) {
        walk(m);
        hr_manifest_finish(m);
    }
    free(m);
}

static void delete_version(const struct hr_digest *digest, bool force)
{
    struct hr_version_row row;
    struct hr_error err = HR_ERROR_INIT;
    char hex[HR_DIGEST_HEX_BYTES];

    check(hr_version_delete(folder, hr_digest_hex(digest, hex), force, &row, &err), &err);
}

static void read_versions(unsigned flags)
{
    struct hr_version_row *rows = NULL;
    struct hr_versions versions;
    struct hr_error err = HR_ERROR_INIT;
    char hex[HR_DIGEST_HEX_BYTES];
    uint32_t count = 0;

    check(hr_manifest_versions(folder, &rows, &count, &err), &err);
    if (count > MAX_MANIFESTS)
        abort();
    for (uint32_t i = 0; i < count; i++)
        read_version(hr_digest_hex(&rows[i].digest, hex));
    int ret = hr_versions_read(folder, &versions, &err);
    check(ret, &err);
    if (ret == 0)
        hr_versions_finish(&versions);
    for (uint32_t i = count; i-- > 0;)
        delete_version(&rows[i].digest, flags & FORCE);
    hr_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct hr_verify_options options = {.threads = 1};
    struct hr_verify_result result;
    struct hr_error err = HR_ERROR_INIT;
    struct hr_dataset *d = NULL;

    if (bytes == 0)
        return 0;
    enter();
    if (data[0] & AS_IS)
        write_file(HR_MANIFEST_NAME, data + 1, bytes - 1);
    else
        make_all(data + 1, bytes - 1, data[0]);
    read_version(NULL);
    read_version("0");
    check(hr_dataset_open(folder, NULL, &d, &err), &err);
    hr_dataset_close(d);
    check(hr_dataset_verify(folder, NULL, &options, &result, &err), &err);
    read_versions(data[0]);
    return 0;
}
