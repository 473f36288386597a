/* Lists the files under a folder in the byte order of their paths, the same on every machine and in
 * every locale. Hidden files and folders are left out and counted; links to files are followed, links
 * to folders only when asked for, and never round in a circle. */
#ifndef HR_PACK_WALK_H
#define HR_PACK_WALK_H

#include "base/err.h"

struct hr_walk_file {
    char *path; /* below the root, no leading slash */
    uint64_t bytes;
    int64_t mtime_ns;
};

struct hr_walk {
    char *root;
    struct hr_walk_file *files;
    uint64_t count, cap;
    char **folders; /* names of the folders directly below the root, sorted */
    uint32_t folder_count;
    uint64_t folder_cap;
    uint64_t hidden;        /* files and folders whose name starts with a dot */
    uint64_t linked_folders; /* links to folders that were not followed, or lead round in a circle */
};

int hr_walk_open(const char *root, bool follow_links, struct hr_walk *walk, struct hr_error *err)
    HR_MUST_CHECK;
void hr_walk_close(struct hr_walk *walk);

/* root/path in fresh memory (hr_free); NULL = out of memory. */
char *hr_walk_path(const struct hr_walk *walk, uint64_t i);

#endif
