/* Compiler vocabulary shared by every file: attributes, small helpers and assertions that stay on
 * in release builds. Knows nothing of loading. */
#ifndef HR_BASE_BASE_H
#define HR_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_MUST_CHECK    __attribute__((warn_unused_result))
#define HR_PRINTF(f, a)  __attribute__((format(printf, f, a)))
#define HR_NORETURN      __attribute__((noreturn))
#define HR_UNUSED        __attribute__((unused))
#define HR_COLD          __attribute__((cold, noinline))
#define HR_LIKELY(x)     __builtin_expect(!!(x), 1)
#define HR_UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define HR_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define HR_CACHE_LINE    64

/* Owner of the enclosing struct given a pointer to one of its members. */
#define HR_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* For our own mistakes only, never for bytes that came from outside. */
#define HR_ASSERT(cond)                                                                            \
    do {                                                                                           \
        if (HR_UNLIKELY(!(cond)))                                                                  \
            hr_assert_failed(#cond, __FILE__, __LINE__);                                           \
    } while (0)

HR_NORETURN HR_COLD void hr_assert_failed(const char *cond, const char *file, int line);

/* Products of 64-bit numbers, in full. */
__extension__ typedef unsigned __int128 hr_u128;

static inline uint64_t hr_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t hr_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Rounds up to a multiple of a power of two; the caller makes sure that it cannot overflow. */
static inline uint64_t hr_align_up(uint64_t v, uint64_t align)
{
    return (v + align - 1) & ~(align - 1);
}

static inline uint64_t hr_align_down(uint64_t v, uint64_t align)
{
    return v & ~(align - 1);
}

/* Overflow-checked arithmetic for sizes that come from files: false when it does not fit. */
static inline bool hr_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool hr_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Unaligned little-endian loads and stores; the formats are little-endian on every machine. */
static inline uint16_t hr_load_le16(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t hr_load_le32(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t hr_load_le64(const void *p)
{
    const uint8_t *b = p;
    return (uint64_t)hr_load_le32(b) | (uint64_t)hr_load_le32(b + 4) << 32;
}

static inline void hr_store_le16(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

static inline void hr_store_le32(void *p, uint32_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
    b[2] = (uint8_t)(v >> 16);
    b[3] = (uint8_t)(v >> 24);
}

static inline void hr_store_le64(void *p, uint64_t v)
{
    uint8_t *b = p;
    hr_store_le32(b, (uint32_t)v);
    hr_store_le32(b + 4, (uint32_t)(v >> 32));
}

#endif
