/* Which level of the inner loops this CPU takes. */
#include "base/cpu.h"
#include "decoders/ops/loops.h"

const struct hr_loops *hr_loops_of(unsigned cpu_flags)
{
#ifdef HR_LOOPS_LEVELS
    if (cpu_flags & HR_CPU_AVX512)
        return &hr_loops_avx512;
    if (cpu_flags & HR_CPU_AVX2)
        return &hr_loops_avx2;
#endif
    return &hr_loops_c;
}

const struct hr_loops *hr_loops_get(void)
{
    return hr_loops_of(hr_cpu_flags());
}
