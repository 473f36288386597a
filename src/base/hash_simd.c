/* The value checksum, compiled once per CPU level and chosen at run time: it runs over every byte
 * that is loaded, so it has to keep up with memory. */
#include "base/hash.h"

#include "base/cpu.h"

#if defined(__x86_64__)
/* libxxhash's own dispatch is not in every distribution's build; this uses the same header with
 * wider vectors for one translation unit. */
#pragma GCC target("avx2")
#define XXH_VECTOR 2 /* XXH_AVX2 */
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

uint32_t hr_checksum_wide(const void *data, size_t bytes);

uint32_t hr_checksum_wide(const void *data, size_t bytes)
{
    return (uint32_t)XXH3_64bits(data, bytes);
}
