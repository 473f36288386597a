/* Cores that may be used, and what they can do. */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "tools/doctor/checks.h"

void hr_doctor_cpu(struct hr_doctor_row *row, const char *path)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    double limit = hr_cpu_cgroup_limit();
    int usable = hr_cpu_quota();
    cpu_set_t set;
    int affinity = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : (int)online;
    enum hr_doctor_status status = usable < 2 ? HR_DOCTOR_WARN : HR_DOCTOR_OK;

    hr_json_int(&row->facts, "online", online);
    hr_json_int(&row->facts, "affinity", affinity);
    if (limit > 0)
        hr_json_double(&row->facts, "cgroup_limit", limit);
    else
        hr_json_null(&row->facts, "cgroup_limit");
    hr_json_int(&row->facts, "usable", usable);
    if (limit > 0)
        hr_doctor_say(row, status, "%d usable: %ld online, %d by affinity, %.4g by control group",
                      usable, online, affinity, limit);
    else
        hr_doctor_say(row, status, "%d usable: %ld online, %d by affinity, no control group limit",
                      usable, online, affinity);
    if (limit > 0 && limit < affinity && fmod(limit, 1) != 0)
        hr_doctor_fix(row, "a fraction of a core is throttled in bursts: give whole cores");
    else if (usable < 2)
        hr_doctor_fix(row, "decoding shares the only core with the trainer: give more cores, or "
                           "pack images with --jpeg=repack");
}

void hr_doctor_simd(struct hr_doctor_row *row, const char *path)
{
    unsigned flags = hr_cpu_flags();
    const char *level = hr_cpu_level_name(flags), *forced = getenv("HEADRACE_CPU");
    bool plain = strcmp(level, "c") == 0;

    hr_json_str(&row->facts, "level", level);
    hr_json_bool(&row->facts, "slow_pdep", flags & HR_CPU_SLOW_PDEP);
    hr_doctor_say(row, plain ? HR_DOCTOR_WARN : HR_DOCTOR_OK, "%s%s%s", level,
                  strcmp(level, "avx2-nopdep") == 0 && !(forced && *forced)
                      ? ": pdep is microcode on this CPU, so shuffles take its place" : "",
                  forced && *forced ? ", limited by HEADRACE_CPU" : "");
    if (forced && *forced)
        hr_doctor_fix(row, "unset HEADRACE_CPU to use all that this CPU has");
    else if (plain)
        hr_doctor_fix(row, "images take several times the CPU of one with AVX2 or NEON; a virtual "
                           "machine may hide them: pass the host's CPU through");
}
