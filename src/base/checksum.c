/* Chooses the checksum variant for this CPU. */
#include "base/cpu.h"
#include "base/hash.h"

uint32_t hr_checksum_wide(const void *data, size_t bytes);

uint32_t hr_checksum(const void *data, size_t bytes)
{
#if defined(__x86_64__)
    /* Short inputs never reach the vector loop. */
    if (bytes > 240 && (hr_cpu_flags() & HR_CPU_AVX2))
        return hr_checksum_wide(data, bytes);
#endif
    return (uint32_t)hr_hash64(data, bytes, 0);
}
