/* Recursive listing of a folder. */
#include "tools/pack/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "shards/manifest.h"
#include "tools/pack/journal.h"

enum { MAX_DEPTH = 64 };

struct level {
    dev_t dev;
    ino_t ino;
};

struct walker {
    struct hr_walk *walk;
    bool follow_links;
    struct level chain[MAX_DEPTH];
    struct hr_error *err;
};

static int add_file(struct walker *w, const char *path, const struct stat *st)
{
    struct hr_walk *walk = w->walk;

    struct hr_walk_file *files = hr_array_grow(walk->files, walk->count, &walk->cap, 256,
                                               sizeof(*files));
    if (!files)
        return hr_fail(w->err, HR_E_NOMEM, "out of memory");
    walk->files = files;
    char *copy = hr_strdup(path);
    if (!copy)
        return hr_fail(w->err, HR_E_NOMEM, "out of memory");
    walk->files[walk->count++] = (struct hr_walk_file){
        copy, (uint64_t)st->st_size,
        (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec};
    return 0;
}

static int add_folder(struct walker *w, const char *name)
{
    struct hr_walk *walk = w->walk;

    char **folders = hr_array_grow(walk->folders, walk->folder_count, &walk->folder_cap, 16,
                                   sizeof(*folders));
    if (!folders)
        return hr_fail(w->err, HR_E_NOMEM, "out of memory");
    walk->folders = folders;
    walk->folders[walk->folder_count] = hr_strdup(name);
    if (!walk->folders[walk->folder_count])
        return hr_fail(w->err, HR_E_NOMEM, "out of memory");
    walk->folder_count++;
    return 0;
}

static bool in_chain(const struct walker *w, int depth, const struct stat *st)
{
    for (int i = 0; i < depth; i++)
        if (w->chain[i].dev == st->st_dev && w->chain[i].ino == st->st_ino)
            return true;
    return false;
}

/* Names the folder of an error; returns its code. */
static int at_folder(struct walker *w, const char *path, int code)
{
    char *full = hr_asprintf("%s%s%s", w->walk->root, path[0] ? "/" : "", path);

    hr_error_at_file(w->err, full ? full : path, 0, 0);
    hr_free(full);
    return code;
}

static int list_folder(struct walker *w, int fd, const char *prefix, int depth);

static int enter_folder(struct walker *w, int parent, const char *name, const char *path, int depth)
{
    if (depth == MAX_DEPTH) {
        hr_fail(w->err, HR_E_LIMIT, "folders are nested more than %d deep", MAX_DEPTH);
        return at_folder(w, path, HR_E_LIMIT);
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        int ret = hr_fail_errno(w->err, errno, "cannot list the folder");
        if (ret == HR_E_DENIED)
            hr_error_hint(w->err, "make it readable, or move it out of the source");
        return at_folder(w, path, ret);
    }
    return list_folder(w, fd, path, depth);
}

/* A dataset of ours, or one that is being made: no source, even when it lies inside one. */
static bool is_dataset(int parent, const char *name)
{
    static const char *const signs[] = {HR_MANIFEST_NAME, HR_JOURNAL_NAME};
    bool found = false;

    int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; fd >= 0 && i < HR_ARRAY_SIZE(signs); i++)
        found |= faccessat(fd, signs[i], F_OK, 0) == 0;
    hr_fd_close(&fd);
    return found;
}

static int take_entry(struct walker *w, int fd, const char *name, const char *path, int depth)
{
    struct stat st;
    bool link = false;

    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* gone since it was listed */
    if (S_ISLNK(st.st_mode)) {
        struct stat target;
        link = true;
        /* A link that leads nowhere is kept: loading it says so, by name. */
        if (fstatat(fd, name, &target, 0) == 0)
            st = target;
        else
            return add_file(w, path, &st);
    }
    if (S_ISREG(st.st_mode))
        return add_file(w, path, &st);
    if (!S_ISDIR(st.st_mode)) {
        hr_log(HR_LOG_WARN, "%s: a pipe, socket or device; not part of the source", path);
        return 0;
    }
    if (link && (!w->follow_links || in_chain(w, depth, &st))) {
        hr_log(HR_LOG_WARN, "%s: link to a folder %s", path,
               w->follow_links ? "leads round in a circle; not followed"
                               : "not followed (--follow-symlinks does)");
        w->walk->linked_folders++;
        return 0;
    }
    if (is_dataset(fd, name)) {
        hr_log(HR_LOG_INFO, "%s: a dataset; not part of the source", path);
        return 0;
    }
    int ret = depth == 1 ? add_folder(w, name) : 0;
    return ret < 0 ? ret : enter_folder(w, fd, name, path, depth);
}

/* Takes over fd. The memory for one path lives only as long as its entry. */
static int list_folder(struct walker *w, int fd, const char *prefix, int depth)
{
    struct stat st;
    const char *name;
    int ret = 0, more = 0;

    DIR *dir = fdopendir(fd);
    if (!dir || fstat(fd, &st) < 0) {
        ret = at_folder(w, prefix, hr_fail_errno(w->err, errno, "cannot list the folder"));
        if (dir)
            closedir(dir);
        else
            hr_fd_close(&fd);
        return ret;
    }
    w->chain[depth] = (struct level){st.st_dev, st.st_ino};
    while (ret == 0 && (more = hr_dir_next(dir, &name, w->err)) == 1) {
        if (name[0] == '.') {
            w->walk->hidden++;
            continue;
        }
        char *path = hr_asprintf("%s%s%s", prefix, prefix[0] ? "/" : "", name);
        ret = path ? take_entry(w, fd, name, path, depth + 1)
                   : hr_fail(w->err, HR_E_NOMEM, "out of memory");
        hr_free(path);
    }
    if (more < 0)
        ret = at_folder(w, prefix, more);
    closedir(dir);
    return ret;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct hr_walk_file *)a)->path, ((const struct hr_walk_file *)b)->path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int hr_walk_open(const char *root, bool follow_links, struct hr_walk *walk, struct hr_error *err)
{
    struct walker w = {.walk = walk, .follow_links = follow_links, .err = err};

    *walk = (struct hr_walk){.root = hr_strdup(root)};
    if (!walk->root)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    int fd = hr_fd_open(root, O_RDONLY | O_DIRECTORY, 0, err);
    int ret = fd < 0 ? fd : list_folder(&w, fd, "", 0);
    if (ret < 0) {
        hr_walk_close(walk);
        return ret;
    }
    if (walk->count)
        qsort(walk->files, walk->count, sizeof(*walk->files), by_path);
    if (walk->folder_count)
        qsort(walk->folders, walk->folder_count, sizeof(*walk->folders), by_name);
    return 0;
}

void hr_walk_close(struct hr_walk *walk)
{
    for (uint64_t i = 0; i < walk->count; i++)
        hr_free(walk->files[i].path);
    for (uint32_t i = 0; i < walk->folder_count; i++)
        hr_free(walk->folders[i]);
    hr_free(walk->files);
    hr_free(walk->folders);
    hr_free(walk->root);
    *walk = (struct hr_walk){0};
}

char *hr_walk_path(const struct hr_walk *walk, uint64_t i)
{
    return hr_asprintf("%s/%s", walk->root, walk->files[i].path);
}
