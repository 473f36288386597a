/* Reads MemAvailable and the memory limits of the control groups (v2, and v1's memory controller). */
#include "io/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/io.h"

/* Values that v1 prints for "no limit" are near 2^63. */
#define NO_LIMIT_V1 (UINT64_C(1) << 60)

struct group_memory {
    uint64_t limit, left;
};

static bool read_number(const char *dir, const char *name, uint64_t *out)
{
    char path[4400], text[64];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "re");
    if (!f)
        return false;
    bool got = fgets(text, sizeof(text), f) && text[0] >= '0' && text[0] <= '9';
    fclose(f);
    if (got)
        *out = strtoull(text, NULL, 10);
    return got;
}

/* One "key value" line of a file such as memory.stat or meminfo; 0 when absent. */
static uint64_t read_key(const char *path, const char *key)
{
    char line[256];
    uint64_t value = 0;
    size_t n = strlen(key);
    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == ':')) {
            value = strtoull(line + n + 1, NULL, 10);
            break;
        }
    }
    if (f)
        fclose(f);
    return value;
}

static void look_at(const char *dir, struct group_memory *smallest)
{
    uint64_t limit = 0, used = 0;
    char stat_path[4400];
    const char *cache_key = "file";

    if (!read_number(dir, "memory.max", &limit)) {
        cache_key = "total_cache";
        if (!read_number(dir, "memory.limit_in_bytes", &limit) || limit >= NO_LIMIT_V1)
            return;
    }
    if (!read_number(dir, "memory.current", &used))
        read_number(dir, "memory.usage_in_bytes", &used);
    snprintf(stat_path, sizeof(stat_path), "%s/memory.stat", dir);
    uint64_t cache = read_key(stat_path, cache_key);
    used -= hr_min_u64(cache, used);
    smallest->limit = hr_min_u64(smallest->limit, limit);
    smallest->left = hr_min_u64(smallest->left, limit - hr_min_u64(used, limit));
}

static void look_up_from(const char *mount, const char *group, struct group_memory *smallest)
{
    char dir[4300];
    size_t root = strlen(mount);

    if (snprintf(dir, sizeof(dir), "%s%s", mount, group) >= (int)sizeof(dir))
        return;
    for (;;) {
        look_at(dir, smallest);
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < root)
            return;
        *slash = 0;
    }
}

static struct group_memory group_memory(void)
{
    struct group_memory smallest = {UINT64_MAX, UINT64_MAX};
    const char *root = getenv("HEADRACE_CGROUP_ROOT"); /* for tests */
    char line[4096 + 64];

    if (root && *root) {
        look_up_from(root, "", &smallest);
        return smallest;
    }
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof(line), f)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        if (controllers[1] == 0)
            look_up_from("/sys/fs/cgroup", group, &smallest);
        else if (strstr(controllers, "memory"))
            look_up_from("/sys/fs/cgroup/memory", group, &smallest);
    }
    if (f)
        fclose(f);
    return smallest;
}

uint64_t hr_io_cgroup_limit_bytes(void)
{
    return group_memory().limit;
}

uint64_t hr_io_cgroup_left_bytes(void)
{
    return group_memory().left;
}

uint64_t hr_io_available_bytes(void)
{
    uint64_t kib = read_key("/proc/meminfo", "MemAvailable");

    return hr_min_u64(kib ? kib * 1024 : UINT64_MAX, hr_io_cgroup_left_bytes());
}
