/* The system's count of bytes fetched from storage, and where it can be believed. */
#include "tools/bench_storage.h"

#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* File systems of local disks read through the block layer, which counts; in tmpfs there is nothing to fetch. Those of
 * networks and of user space (object stores are mounted so) may fetch without a count: there, none is no news. */
bool hr_bench_storage_counted(const char *path)
{
    struct statfs fs;

    if (statfs(path, &fs) < 0)
        return false;
    switch ((uint32_t)fs.f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
        return true;
    default:
        return false;
    }
}

bool hr_bench_storage_bytes(uint64_t *bytes)
{
    FILE *f = fopen("/proc/self/io", "re");
    char line[128];
    bool known = false;

    while (f && !known && fgets(line, sizeof(line), f))
        known = sscanf(line, "read_bytes: %" SCNu64, bytes) == 1;
    if (f)
        fclose(f);
    return known;
}
