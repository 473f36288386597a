/* Fills the table of kernels: C first, then what the CPU has. */
#include "decoders/kernels/kernels.h"

#include <pthread.h>

#include "base/cpu.h"

void hr_kernels_fill(struct hr_kernels *kernels, unsigned cpu_flags)
{
    hr_kernels_fill_c(kernels);
#if defined(__x86_64__)
    if (cpu_flags & HR_CPU_AVX2)
        hr_kernels_fill_avx2(kernels);
    if (cpu_flags & HR_CPU_AVX512)
        hr_kernels_fill_avx512(kernels);
#elif defined(__aarch64__)
    if (cpu_flags & HR_CPU_NEON)
        hr_kernels_fill_neon(kernels);
#endif
}

static struct hr_kernels table;

static void fill_table(void)
{
    hr_kernels_fill(&table, hr_cpu_flags());
}

const struct hr_kernels *hr_kernels_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fill_table);
    return &table;
}
