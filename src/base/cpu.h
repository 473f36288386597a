/* What this machine's processors offer and how much of them this process may use. */
#ifndef HR_BASE_CPU_H
#define HR_BASE_CPU_H

#include "base/base.h"

enum hr_cpu_flag {
    HR_CPU_AVX2 = 1 << 0,   /* AVX2 + BMI1/2 + F16C + FMA: what Haswell and Zen have */
    HR_CPU_AVX512 = 1 << 1, /* F, BW, DQ, VL, VBMI, VBMI2, VNNI: Ice Lake, Zen 4 */
    HR_CPU_NEON = 1 << 2,
    HR_CPU_SLOW_PDEP = 1 << 3, /* pdep/pext are microcoded, or taken to be by HEADRACE_CPU=avx2-nopdep */
};

/* Flags of this CPU, less those masked by HEADRACE_CPU (a level's name): the level to stay
 * at or below. Cached after the first call; safe from any thread. */
unsigned hr_cpu_flags(void);
const char *hr_cpu_level_name(unsigned flags); /* "c", "avx2", "avx2-nopdep", "avx512", "neon" */

/* Whether the x86 processor of this vendor and signature (what cpuid says, 12 characters and a 0; eax of leaf 1)
 * runs pdep as a loop in microcode, some hundred cycles: those of AMD before Zen 3, and Hygon's. */
bool hr_cpu_pdep_is_slow(const char *vendor, uint32_t signature);

/* Cores this process may use: min(affinity mask, ceil(cgroup v2 cpu.max or v1 quota)), at least 1.
 * The smallest quota up the cgroup tree counts. */
int hr_cpu_quota(void);

/* The quota as a fraction (1.5 cores), or a negative number when no cgroup limits it. */
double hr_cpu_cgroup_limit(void);

#endif
