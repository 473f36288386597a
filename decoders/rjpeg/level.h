/* Bit-by-bit code gains a fifth from BMI's shifts and counts. Such a function is written as an always-inlined body
 * and compiled twice: once as it is, once for CPUs that have these. */
#ifndef HR_DECODERS_RJPEG_LEVEL_H
#define HR_DECODERS_RJPEG_LEVEL_H

#include "base/cpu.h"

#define RJ_BODY static inline __attribute__((always_inline))

#ifdef __x86_64__
#define RJ_BMI __attribute__((target("bmi,bmi2,lzcnt,popcnt")))
static inline bool rj_has_bmi(void)
{
    return hr_cpu_flags() & HR_CPU_AVX2;
}
#else
#define RJ_BMI
static inline bool rj_has_bmi(void)
{
    return false;
}
#endif

#endif
