/* How much of what is read comes from storage and not from the page cache. */
#ifndef HR_TOOLS_BENCH_STORAGE_H
#define HR_TOOLS_BENCH_STORAGE_H

#include "base/base.h"

/* Whether the system counts what is read from the file system of this path. */
bool hr_bench_storage_counted(const char *path);

/* What this process has caused to be fetched from storage since it began; false where that is hidden. */
bool hr_bench_storage_bytes(uint64_t *bytes);

#endif
