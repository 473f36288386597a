/* CPU feature flags and the share of the machine that affinity and cgroups leave us. */
#include "base/cpu.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

static bool is_slow_pdep(void)
{
    unsigned a, vendor[4] = {0}, b, c, d;

    if (!__get_cpuid(0, &a, &vendor[0], &vendor[2], &vendor[1]))
        return false;
    __get_cpuid(1, &a, &b, &c, &d);
    return hr_cpu_pdep_is_slow((const char *)vendor, a);
}

/* Older clangs' __builtin_cpu_supports() does not know the name. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static unsigned detect(void)
{
    unsigned flags = 0;

    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && has_f16c() &&
        __builtin_cpu_supports("fma"))
        flags |= HR_CPU_AVX2;
    if ((flags & HR_CPU_AVX2) && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
        __builtin_cpu_supports("avx512vnni"))
        flags |= HR_CPU_AVX512;
    if (is_slow_pdep())
        flags |= HR_CPU_SLOW_PDEP;
    return flags;
}
#elif defined(__aarch64__)
static unsigned detect(void)
{
    return HR_CPU_NEON;
}
#else
static unsigned detect(void)
{
    return 0;
}
#endif

bool hr_cpu_pdep_is_slow(const char *vendor, uint32_t signature)
{
    uint32_t family = (signature >> 8 & 15) + (signature >> 20 & 255);

    return family < 0x19 && (strcmp(vendor, "AuthenticAMD") == 0 || strcmp(vendor, "HygonGenuine") == 0);
}

static unsigned mask_from_env(unsigned flags)
{
    const char *level = getenv("HEADRACE_CPU");

    if (!level || !*level || strcmp(level, "avx512") == 0 || strcmp(level, "neon") == 0)
        return flags;
    if (strcmp(level, "avx2") == 0)
        return flags & ~(unsigned)HR_CPU_AVX512;
    if (strcmp(level, "avx2-nopdep") == 0)
        return (flags & ~(unsigned)HR_CPU_AVX512) | HR_CPU_SLOW_PDEP;
    return 0; /* "c", and anything unknown: the level that is always right */
}

unsigned hr_cpu_flags(void)
{
    /* Bit 31 marks "computed"; racing first calls compute the same value. */
    static _Atomic unsigned cached;
    unsigned flags = atomic_load_explicit(&cached, memory_order_relaxed);

    if (!flags) {
        flags = mask_from_env(detect()) | 1u << 31;
        atomic_store_explicit(&cached, flags, memory_order_relaxed);
    }
    return flags & ~(1u << 31);
}

const char *hr_cpu_level_name(unsigned flags)
{
    return flags & HR_CPU_AVX512 ? "avx512"
           : flags & HR_CPU_AVX2 ? flags & HR_CPU_SLOW_PDEP ? "avx2-nopdep" : "avx2"
           : flags & HR_CPU_NEON ? "neon"
                                 : "c";
}

/* Reads "quota period" or "max period" of one cgroup directory; negative when there is no limit. */
static double read_limit(const char *dir)
{
    char path[4400];
    char quota[32];
    double period, q;
    FILE *f;

    snprintf(path, sizeof(path), "%s/cpu.max", dir);
    f = fopen(path, "re");
    if (f) {
        int n = fscanf(f, "%31s %lf", quota, &period);
        fclose(f);
        if (n != 2 || strcmp(quota, "max") == 0 || period <= 0)
            return -1;
        return atof(quota) / period;
    }
    snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", dir);
    f = fopen(path, "re");
    if (!f)
        return -1;
    int n = fscanf(f, "%lf", &q);
    fclose(f);
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", dir);
    f = fopen(path, "re");
    if (!f)
        return -1;
    int m = fscanf(f, "%lf", &period);
    fclose(f);
    return n == 1 && m == 1 && q > 0 && period > 0 ? q / period : -1;
}

/* The smallest limit from the process's own group up to the mount point. */
static double limit_up_from(const char *mount, const char *group)
{
    char dir[4300];
    double smallest = -1;

    if (snprintf(dir, sizeof(dir), "%s%s", mount, group) >= (int)sizeof(dir))
        return -1;
    size_t root = strlen(mount);
    for (;;) {
        double limit = read_limit(dir);
        if (limit > 0 && (smallest < 0 || limit < smallest))
            smallest = limit;
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < root)
            return smallest;
        *slash = 0;
    }
}

double hr_cpu_cgroup_limit(void)
{
    const char *root = getenv("HEADRACE_CGROUP_ROOT"); /* for tests */
    char line[4096 + 64];
    double smallest = -1;
    FILE *f = fopen("/proc/self/cgroup", "re");

    if (root && *root) {
        if (f)
            fclose(f);
        return limit_up_from(root, "");
    }
    while (f && fgets(line, sizeof(line), f)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        controllers++;
        group[strcspn(group, "\n")] = 0;
        double limit = -1;
        if (*controllers == 0)
            limit = limit_up_from("/sys/fs/cgroup", group);
        else if (strstr(controllers, "cpu"))
            limit = limit_up_from("/sys/fs/cgroup/cpu", group);
        if (limit > 0 && (smallest < 0 || limit < smallest))
            smallest = limit;
    }
    if (f)
        fclose(f);
    return smallest;
}

int hr_cpu_quota(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                             : (int)sysconf(_SC_NPROCESSORS_ONLN);
    double limit = hr_cpu_cgroup_limit();

    if (limit > 0 && ceil(limit) < cores)
        cores = (int)ceil(limit);
    return cores > 0 ? cores : 1;
}
