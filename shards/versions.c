/* Versions side by side: which shards they share, holding one while it is read, and deleting one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "shards/manifest.h"

static char *kept_path(const char *folder, const struct hr_digest *digest)
{
    char hex[HR_DIGEST_HEX_BYTES];

    return hr_asprintf("%s/" HR_VERSIONS_NAME "/%s.hrm", folder, hr_digest_hex(digest, hex));
}

/* ---- holding ---- */

/* Whether path still is the file that fd has, and holds this version. */
static bool is_version(const char *path, int fd, const struct hr_digest *digest)
{
    struct hr_manifest *m = hr_alloc_zero(1, sizeof(*m));
    struct stat ours, now;
    bool same = false;

    if (m && hr_manifest_read(path, m, NULL) == 0) {
        same = hr_digest_equal(&m->digest, digest);
        hr_manifest_finish(m);
    }
    hr_free(m);
    return same && fstat(fd, &ours) == 0 && stat(path, &now) == 0 && ours.st_ino == now.st_ino &&
           ours.st_dev == now.st_dev;
}

/* 1: held; 0: the file is of another version, or cannot be locked. */
static int hold_file(const char *path, const struct hr_digest *digest, int *fd, struct hr_error *err)
{
    int held = hr_fd_open(path, O_RDONLY, 0, NULL);

    if (held < 0)
        return 0;
    bool locked = flock(held, LOCK_SH | LOCK_NB) == 0, busy = !locked && errno == EWOULDBLOCK;
    if (is_version(path, held, digest)) {
        if (locked) {
            *fd = held;
            return 1;
        }
        if (busy) {
            hr_fd_close(&held);
            hr_fail(err, HR_E_BUSY, "this version is being deleted");
            hr_error_at_file(err, path, 0, 0);
            return HR_E_BUSY;
        }
    }
    hr_fd_close(&held);
    return 0;
}

int hr_manifest_hold(const char *folder, const struct hr_digest *digest, int *fd, struct hr_error *err)
{
    char *current = hr_asprintf("%s/" HR_MANIFEST_NAME, folder), *kept = kept_path(folder, digest);
    int ret = current && kept ? 0 : hr_fail(err, HR_E_NOMEM, "no memory for a path");

    *fd = -1;
    if (ret == 0)
        ret = hold_file(current, digest, fd, err);
    if (ret == 0) /* a version that was current a moment ago is found here */
        ret = hold_file(kept, digest, fd, err);
    hr_free(current);
    hr_free(kept);
    return ret < 0 ? ret : 0;
}

/* ---- all versions ---- */

void hr_versions_finish(struct hr_versions *versions)
{
    for (uint32_t i = 0; i < versions->count; i++) {
        hr_manifest_finish(versions->manifests[i]);
        hr_free(versions->manifests[i]);
    }
    hr_free(versions->manifests);
    *versions = (struct hr_versions){0};
}

static bool has_digest(const struct hr_versions *versions, const struct hr_digest *digest)
{
    for (uint32_t i = 0; i < versions->count; i++)
        if (hr_digest_equal(&versions->manifests[i]->digest, digest))
            return true;
    return false;
}

/* One manifest more, unless the version is there already. 1: taken; 0: was there, or is damaged. */
static int take(struct hr_versions *versions, const char *path, struct hr_error *err)
{
    struct hr_manifest **grown =
        hr_realloc(versions->manifests, versions->count + 1, sizeof(struct hr_manifest *));
    struct hr_manifest *m = hr_alloc_zero(1, sizeof(*m));

    if (grown)
        versions->manifests = grown;
    if (!grown || !m) {
        hr_free(m);
        return hr_fail(err, HR_E_NOMEM, "no memory for versions");
    }
    int ret = hr_manifest_read(path, m, err);
    if (ret == 0 && !has_digest(versions, &m->digest)) {
        versions->manifests[versions->count++] = m;
        return 1;
    }
    if (ret == 0)
        hr_manifest_finish(m);
    hr_free(m);
    if (ret < 0 && ret != HR_E_NOMEM && ret != HR_E_NOT_FOUND) {
        versions->unreadable++;
        ret = 0;
    }
    return ret;
}

static int read_kept_ones(const char *folder, struct hr_versions *versions, struct hr_error *err)
{
    char *path = hr_asprintf("%s/" HR_VERSIONS_NAME, folder);
    DIR *dir = path ? opendir(path) : NULL;
    const char *name;
    int ret = path ? 0 : hr_fail(err, HR_E_NOMEM, "no memory for a path");

    /* What is not seen here counts as not there, and its shards as nobody's. */
    if (path && !dir && errno != ENOENT)
        ret = hr_fail_errno(err, errno, "cannot list '%s'", path);
    while (ret >= 0 && dir && (ret = hr_dir_next(dir, &name, err)) == 1) {
        size_t n = strlen(name);
        if (n < 5 || strcmp(name + n - 4, ".hrm") != 0)
            continue;
        char *file = hr_asprintf("%s/%s", path, name);
        ret = file ? take(versions, file, err) : hr_fail(err, HR_E_NOMEM, "no memory for a path");
        hr_free(file);
        if (ret == HR_E_NOT_FOUND)
            ret = 0; /* deleted meanwhile */
    }
    if (dir)
        closedir(dir);
    hr_free(path);
    return ret < 0 ? ret : 0;
}

int hr_versions_read(const char *folder, struct hr_versions *versions, struct hr_error *err)
{
    *versions = (struct hr_versions){0};
    int ret = take(versions, folder, err);

    versions->has_current = ret == 1;
    if (ret >= 0)
        ret = read_kept_ones(folder, versions, err);
    if (ret < 0)
        hr_versions_finish(versions);
    return ret;
}

bool hr_versions_name_shard(const struct hr_versions *versions, const char *name,
                            const struct hr_manifest *except)
{
    for (uint32_t i = 0; i < versions->count; i++) {
        const struct hr_manifest *m = versions->manifests[i];
        for (uint32_t k = 0; m != except && k < m->shard_count; k++)
            if (strcmp(m->shards[k].name, name) == 0)
                return true;
    }
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(char **names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        hr_free(names[i]);
    hr_free(names);
}

int hr_versions_strays(const struct hr_versions *versions, const char *folder, char ***out,
                       uint32_t *count, struct hr_error *err)
{
    DIR *dir = opendir(folder);
    const char *found;
    char **names = NULL;
    uint32_t n = 0;
    int ret = dir ? 0 : hr_fail_errno(err, errno, "cannot list '%s'", folder);

    while (ret == 0 && (ret = hr_dir_next(dir, &found, err)) == 1) {
        size_t bytes = strlen(found);
        ret = 0;
        if (bytes < 5 || strcmp(found + bytes - 4, ".hrs") != 0 ||
            hr_versions_name_shard(versions, found, NULL))
            continue;
        char **grown = hr_realloc(names, n + 1, sizeof(*names));
        if (grown)
            names = grown;
        char *name = grown ? hr_strdup(found) : NULL;
        if (name)
            names[n++] = name;
        else
            ret = hr_fail(err, HR_E_NOMEM, "no memory for a list of shards");
    }
    if (dir)
        closedir(dir);
    if (ret < 0) {
        free_names(names, n);
        return ret;
    }
    if (n > 1)
        qsort(names, n, sizeof(*names), by_text);
    *out = names;
    *count = n;
    return 0;
}

/* ---- deleting ---- */

static const struct hr_manifest *find(const struct hr_versions *versions, const struct hr_digest *digest)
{
    for (uint32_t i = 0; i < versions->count; i++)
        if (hr_digest_equal(&versions->manifests[i]->digest, digest))
            return versions->manifests[i];
    return NULL;
}

/* Nobody reads it, and whoever comes now is told that it goes. */
static int lock_alone(const char *path, bool force, int *fd, struct hr_error *err)
{
    *fd = hr_fd_open(path, O_RDWR, 0, NULL); /* some file systems lock alone only what can be written */
    if (*fd < 0)
        *fd = hr_fd_open(path, O_RDONLY, 0, err);
    if (*fd < 0)
        return *fd;
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0 || force)
        return 0;
    if (errno == EWOULDBLOCK) {
        hr_fail(err, HR_E_BUSY, "the version is in use: a run that has it open would lose its shards");
        hr_error_hint(err, "end that run first, or give --force");
    } else {
        hr_fail_errno(err, errno, "cannot find out whether the version is in use");
        hr_error_hint(err, "--force deletes it all the same");
    }
    hr_error_at_file(err, path, 0, 0);
    hr_fd_close(fd);
    return err ? err->code : HR_E_BUSY;
}

/* The manifest first: what is left by a kill is shards that no version has, never a version without
 * its shards. */
static int remove_files(const char *folder, const char *manifest_path,
                        const struct hr_versions *versions, const struct hr_manifest *gone,
                        struct hr_version_row *row, struct hr_error *err)
{
    char *dir = hr_asprintf("%s/" HR_VERSIONS_NAME, folder);
    int ret = dir ? 0 : hr_fail(err, HR_E_NOMEM, "no memory for a path");

    if (ret == 0 && unlink(manifest_path) < 0)
        ret = hr_fail_errno(err, errno, "cannot remove '%s'", manifest_path);
    if (ret == 0)
        ret = hr_fd_sync_dir(dir, err);
    for (uint32_t i = 0; ret == 0 && i < gone->shard_count; i++) {
        const struct hr_shard_info *shard = &gone->shards[i];
        if (hr_versions_name_shard(versions, shard->name, gone))
            continue;
        char *path = hr_asprintf("%s/%s", folder, shard->name);
        if (!path)
            ret = hr_fail(err, HR_E_NOMEM, "no memory for a path");
        else if (unlink(path) < 0 && errno != ENOENT)
            ret = hr_fail_errno(err, errno, "cannot remove '%s'", path);
        hr_free(path);
        row->shard_count++;
        row->bytes += shard->bytes;
        row->record_count += shard->record_count;
    }
    if (ret == 0)
        ret = hr_fd_sync_dir(folder, err);
    hr_free(dir);
    return ret;
}

static int may_delete(const struct hr_versions *versions, const struct hr_manifest *gone, bool force,
                      struct hr_error *err)
{
    if (!versions->has_current)
        return hr_fail(err, HR_E_CORRUPT, "the current manifest cannot be read: nobody knows which "
                                          "shards it needs");
    if (gone == versions->manifests[0]) {
        hr_fail(err, HR_E_USAGE, "this is the current version");
        hr_error_hint(err, "only older versions can be deleted; to be rid of all, remove the folder");
        return HR_E_USAGE;
    }
    if (versions->unreadable && !force) {
        hr_fail(err, HR_E_CORRUPT, "%u manifests in " HR_VERSIONS_NAME "/ cannot be read: nobody "
                "knows which shards they need", versions->unreadable);
        hr_error_hint(err, "headrace verify names them; --force deletes shards that only they need");
        return HR_E_CORRUPT;
    }
    return 0;
}

int hr_version_delete(const char *folder, const char *version, bool force,
                      struct hr_version_row *row, struct hr_error *err)
{
    struct hr_manifest *m = hr_alloc_zero(1, sizeof(*m));
    struct hr_versions versions = {0};
    char *path = NULL;
    int fd = -1, ret = m ? hr_manifest_read_version(folder, version, m, err)
                         : hr_fail(err, HR_E_NOMEM, "no memory for versions");

    if (ret < 0) {
        hr_free(m);
        return ret;
    }
    *row = (struct hr_version_row){.digest = m->digest};
    hr_manifest_finish(m);
    hr_free(m);
    ret = hr_versions_read(folder, &versions, err);
    const struct hr_manifest *gone = ret == 0 ? find(&versions, &row->digest) : NULL;
    if (ret == 0 && !gone)
        ret = hr_fail(err, HR_E_NOT_FOUND, "the version is gone");
    if (ret == 0)
        ret = may_delete(&versions, gone, force, err);
    if (ret == 0) {
        path = kept_path(folder, &row->digest);
        ret = path ? lock_alone(path, force, &fd, err) : hr_fail(err, HR_E_NOMEM, "no memory for a path");
    }
    if (ret == 0)
        ret = remove_files(folder, path, &versions, gone, row, err);
    hr_fd_close(&fd);
    hr_free(path);
    hr_versions_finish(&versions);
    return ret;
}
