/* Which level of the mixing loops this CPU takes. */
#include "base/cpu.h"
#include "decoders/kernels/lerp.h"

enum hr_lerp_type hr_lerp_type_of(enum hr_dtype dtype)
{
    switch (dtype) {
    case HR_DTYPE_U8:
        return HR_LERP_U8;
    case HR_DTYPE_F16:
        return HR_LERP_F16;
    case HR_DTYPE_BF16:
        return HR_LERP_BF16;
    case HR_DTYPE_F32:
        return HR_LERP_F32;
    default:
        return HR_LERP_COUNT;
    }
}

const struct hr_lerp *hr_lerp_of(unsigned cpu_flags)
{
#if defined(__x86_64__)
    if (cpu_flags & HR_CPU_AVX512)
        return &hr_lerp_avx512;
    if (cpu_flags & HR_CPU_AVX2)
        return &hr_lerp_avx2;
#elif defined(__aarch64__)
    if (cpu_flags & HR_CPU_NEON)
        return &hr_lerp_neon;
#endif
    return &hr_lerp_c;
}

const struct hr_lerp *hr_lerp_get(void)
{
    return hr_lerp_of(hr_cpu_flags());
}
