/* How the data at a path can be read: its file system, and whether reads past the page cache work. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "io/io.h"
#include "tools/doctor/checks.h"

enum { MAX_DEPTH = 3, MAX_ENTRIES = 1000 };

/* Type of the file system with the longest mount point above the path. */
static void file_system_of(const char *path, char *type, size_t type_bytes)
{
    char real[PATH_MAX], line[2 * PATH_MAX], point[PATH_MAX], name[64];
    size_t best = 0;
    FILE *f = realpath(path, real) ? fopen("/proc/self/mounts", "re") : NULL;

    snprintf(type, type_bytes, "unknown");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*s %4095s %63s", point, name) != 2)
            continue;
        size_t n = strlen(point);
        bool above = strcmp(point, "/") == 0 ||
                     (strncmp(real, point, n) == 0 && (real[n] == '/' || real[n] == 0));
        if (above && n >= best) {
            best = n;
            snprintf(type, type_bytes, "%s", name);
        }
    }
    if (f)
        fclose(f);
}

/* The first regular file with some bytes at or below the path. */
static bool find_file(const char *path, int depth, int *entries, char *out, size_t out_bytes)
{
    char child[PATH_MAX];
    struct dirent *entry;
    struct stat st;
    bool found = false;

    if (stat(path, &st) < 0)
        return false;
    if (S_ISREG(st.st_mode)) {
        snprintf(out, out_bytes, "%s", path);
        return st.st_size > 0;
    }
    DIR *dir = S_ISDIR(st.st_mode) && depth < MAX_DEPTH ? opendir(path) : NULL;
    while (dir && !found && (entry = readdir(dir)) && (*entries)++ < MAX_ENTRIES) {
        if (entry->d_name[0] == '.' ||
            snprintf(child, sizeof(child), "%s/%s", path, entry->d_name) >= (int)sizeof(child))
            continue;
        found = find_file(child, depth + 1, entries, out, out_bytes);
    }
    if (dir)
        closedir(dir);
    return found;
}

/* 0, or the errno of a direct read of the file's first block. */
static int try_direct(int fd, uint32_t align)
{
    void *buf = hr_alloc_aligned(align < 512 ? 512 : align, hr_max_u64(align, 4096));
    ssize_t n = buf ? pread(fd, buf, hr_max_u64(align, 4096), 0) : -1;
    int failed = n < 0 ? errno : 0;

    hr_free(buf);
    return failed;
}

static void report(struct hr_doctor_row *row, const char *type, int direct_fd, uint32_t align)
{
    int failed = direct_fd >= 0 ? try_direct(direct_fd, align) : EINVAL;

    hr_json_bool(&row->facts, "direct", failed == 0);
    if (failed == 0) {
        hr_json_uint(&row->facts, "direct_align", align);
        hr_doctor_say(row, HR_DOCTOR_OK, "%s; direct reads work, aligned to %u bytes", type, align);
    } else {
        hr_doctor_say(row, HR_DOCTOR_OK, "%s; no direct reads here, the page cache serves", type);
        hr_doctor_fix(row, "only if the data is larger than memory: a file system with O_DIRECT "
                           "(ext4, xfs) keeps the page cache from being churned");
    }
}

void hr_doctor_storage(struct hr_doctor_row *row, const char *path)
{
    struct hr_error err = HR_ERROR_INIT;
    char type[64], file[PATH_MAX], text[512];
    int fd = -1, direct_fd = -1, entries = 0;
    uint32_t align;

    if (!path) {
        hr_doctor_say(row, HR_DOCTOR_OK, "not tried: no path given");
        hr_doctor_fix(row, "headrace doctor PATH tries how the data there can be read");
        return;
    }
    if (access(path, R_OK) < 0) {
        hr_doctor_say(row, HR_DOCTOR_BAD, "%.200s: %s", path, strerror(errno));
        hr_doctor_fix(row, "name a dataset that this user may read");
        return;
    }
    file_system_of(path, type, sizeof(type));
    hr_json_str(&row->facts, "file_system", type);
    if (!find_file(path, 0, &entries, file, sizeof(file))) {
        hr_doctor_say(row, HR_DOCTOR_WARN, "%s; there is no file below it to try", type);
        return;
    }
    if (hr_io_open_file(file, true, &fd, &direct_fd, &align, &err) < 0) {
        hr_doctor_say(row, HR_DOCTOR_BAD, "%.300s", hr_error_format(&err, text, sizeof(text)));
        hr_doctor_fix(row, "let this user read the files of the dataset");
        return;
    }
    report(row, type, direct_fd, align);
    hr_fd_close(&fd);
    hr_fd_close(&direct_fd);
}
