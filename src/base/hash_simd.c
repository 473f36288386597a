/* The value checksum, compiled once per CPU level and chosen at run time: it runs over every byte
 * that is loaded, so it has to keep up with memory. */
#include "base/hash.h"

#include "base/cpu.h"

#if defined(__x86_64__)
/* libxxhash's own dispatch is not in every distribution's build; this uses the same header with
 * wider vectors for one translation unit. */
#ifdef __clang__
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define XXH_VECTOR 2 /* XXH_AVX2 */
#endif
/* Values come from a cache further out than L2, which hides its latency only when asked early. */
#define XXH_PREFETCH_DIST 4096
#define XXH_INLINE_ALL
#include <xxhash.h>

uint32_t hr_checksum_wide(const void *data, size_t bytes);

uint32_t hr_checksum_wide(const void *data, size_t bytes)
{
    return (uint32_t)XXH3_64bits(data, bytes);
}
#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif
