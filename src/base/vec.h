/* Vectors of 16 bytes in portable C, for code that runs on any CPU: the compilers' vector types, and
 * the few operations that these lack. Each is one instruction of the baseline (SSE2, NEON) where there is
 * one, and plain C elsewhere or with HR_VEC_PLAIN: the results are the same. */
#ifndef HR_BASE_VEC_H
#define HR_BASE_VEC_H

#include <string.h>

#include "base/base.h"

#if defined(__SSE2__) && !defined(HR_VEC_PLAIN)
#define HR_VEC_SSE2
#include <emmintrin.h>
#elif defined(__aarch64__) && !defined(HR_VEC_PLAIN)
#define HR_VEC_NEON
#include <arm_neon.h>
#endif

typedef uint8_t hr_u8x16 __attribute__((vector_size(16)));
typedef int16_t hr_i16x8 __attribute__((vector_size(16)));
typedef uint16_t hr_u16x8 __attribute__((vector_size(16)));
typedef int32_t hr_i32x4 __attribute__((vector_size(16)));
typedef uint32_t hr_u32x4 __attribute__((vector_size(16)));
typedef int64_t hr_i64x2 __attribute__((vector_size(16)));

#ifdef __clang__
#define HR_VEC_SHUFFLE(type, a, b, ...) ((type)__builtin_shufflevector(a, b, __VA_ARGS__))
#else
#define HR_VEC_SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif
#define HR_VEC_INLINE static inline __attribute__((always_inline))

HR_VEC_INLINE hr_u8x16 hr_vec_load(const void *p)
{
    hr_u8x16 v;
    memcpy(&v, p, sizeof(v));
    return v;
}

HR_VEC_INLINE void hr_vec_store(void *p, hr_u8x16 v)
{
    memcpy(p, &v, sizeof(v));
}

/* 8 bytes, and zeros or anything above them. */
HR_VEC_INLINE hr_u8x16 hr_vec_load8(const void *p)
{
    hr_i64x2 v = {0};
    memcpy(&v, p, 8);
    return (hr_u8x16)v;
}

HR_VEC_INLINE void hr_vec_store8(void *p, hr_u8x16 v)
{
    memcpy(p, &v, 8);
}

HR_VEC_INLINE void hr_vec_store8_high(void *p, hr_u8x16 v)
{
    memcpy(p, (const uint8_t *)&v + 8, 8);
}

HR_VEC_INLINE hr_i16x8 hr_vec_set16(int16_t x)
{
    return (hr_i16x8){x, x, x, x, x, x, x, x};
}

HR_VEC_INLINE hr_i32x4 hr_vec_set32(int32_t x)
{
    return (hr_i32x4){x, x, x, x};
}

/* Words a, b, a, b ... */
HR_VEC_INLINE hr_i16x8 hr_vec_set_pair(int16_t a, int16_t b)
{
    return (hr_i16x8){a, b, a, b, a, b, a, b};
}

/* a0 b0 a1 b1 ... of the low, or of the high halves. */
HR_VEC_INLINE hr_u8x16 hr_vec_zip_low8(hr_u8x16 a, hr_u8x16 b)
{
    return HR_VEC_SHUFFLE(hr_u8x16, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

HR_VEC_INLINE hr_u8x16 hr_vec_zip_high8(hr_u8x16 a, hr_u8x16 b)
{
    return HR_VEC_SHUFFLE(hr_u8x16, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

HR_VEC_INLINE hr_i16x8 hr_vec_zip_low16(hr_i16x8 a, hr_i16x8 b)
{
    return HR_VEC_SHUFFLE(hr_i16x8, a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

HR_VEC_INLINE hr_i16x8 hr_vec_zip_high16(hr_i16x8 a, hr_i16x8 b)
{
    return HR_VEC_SHUFFLE(hr_i16x8, a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

HR_VEC_INLINE hr_i32x4 hr_vec_zip_low32(hr_i32x4 a, hr_i32x4 b)
{
    return HR_VEC_SHUFFLE(hr_i32x4, a, b, 0, 4, 1, 5);
}

HR_VEC_INLINE hr_i32x4 hr_vec_zip_high32(hr_i32x4 a, hr_i32x4 b)
{
    return HR_VEC_SHUFFLE(hr_i32x4, a, b, 2, 6, 3, 7);
}

HR_VEC_INLINE hr_i64x2 hr_vec_zip_low64(hr_i64x2 a, hr_i64x2 b)
{
    return HR_VEC_SHUFFLE(hr_i64x2, a, b, 0, 2);
}

HR_VEC_INLINE hr_i64x2 hr_vec_zip_high64(hr_i64x2 a, hr_i64x2 b)
{
    return HR_VEC_SHUFFLE(hr_i64x2, a, b, 1, 3);
}

/* Bytes to words: the low 8, the high 8. */
HR_VEC_INLINE hr_i16x8 hr_vec_widen_low8(hr_u8x16 v)
{
    return (hr_i16x8)hr_vec_zip_low8(v, (hr_u8x16){0});
}

HR_VEC_INLINE hr_i16x8 hr_vec_widen_high8(hr_u8x16 v)
{
    return (hr_i16x8)hr_vec_zip_high8(v, (hr_u8x16){0});
}

/* a0 b0 + a1 b1, a2 b2 + a3 b3 ...: products of words summed in pairs, modulo 2^32. */
HR_VEC_INLINE hr_i32x4 hr_vec_madd(hr_i16x8 a, hr_i16x8 b)
{
#if defined(HR_VEC_SSE2)
    return (hr_i32x4)_mm_madd_epi16((__m128i)a, (__m128i)b);
#elif defined(HR_VEC_NEON)
    return (hr_i32x4)vpaddq_s32(vmull_s16(vget_low_s16((int16x8_t)a), vget_low_s16((int16x8_t)b)),
                                vmull_high_s16((int16x8_t)a, (int16x8_t)b));
#else
    hr_u32x4 v;
    for (int i = 0; i < 4; i++)
        v[i] = (uint32_t)(a[2 * i] * b[2 * i]) + (uint32_t)(a[2 * i + 1] * b[2 * i + 1]);
    return (hr_i32x4)v;
#endif
}

HR_VEC_INLINE hr_i16x8 hr_vec_add_saturated16(hr_i16x8 a, hr_i16x8 b)
{
#if defined(HR_VEC_SSE2)
    return (hr_i16x8)_mm_adds_epi16((__m128i)a, (__m128i)b);
#elif defined(HR_VEC_NEON)
    return (hr_i16x8)vqaddq_s16((int16x8_t)a, (int16x8_t)b);
#else
    hr_i16x8 v;
    for (int i = 0; i < 8; i++) {
        int32_t x = a[i] + b[i];
        v[i] = (int16_t)(x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x);
    }
    return v;
#endif
}

/* High 16 bits of the products. */
HR_VEC_INLINE hr_i16x8 hr_vec_mulhi_i16(hr_i16x8 a, hr_i16x8 b)
{
#if defined(HR_VEC_SSE2)
    return (hr_i16x8)_mm_mulhi_epi16((__m128i)a, (__m128i)b);
#elif defined(HR_VEC_NEON)
    int32x4_t low = vmull_s16(vget_low_s16((int16x8_t)a), vget_low_s16((int16x8_t)b));
    int32x4_t high = vmull_high_s16((int16x8_t)a, (int16x8_t)b);
    return (hr_i16x8)vuzp2q_s16(vreinterpretq_s16_s32(low), vreinterpretq_s16_s32(high));
#else
    hr_i16x8 v;
    for (int i = 0; i < 8; i++)
        v[i] = (int16_t)(a[i] * b[i] >> 16);
    return v;
#endif
}

HR_VEC_INLINE hr_u16x8 hr_vec_mulhi_u16(hr_u16x8 a, hr_u16x8 b)
{
#if defined(HR_VEC_SSE2)
    return (hr_u16x8)_mm_mulhi_epu16((__m128i)a, (__m128i)b);
#elif defined(HR_VEC_NEON)
    uint32x4_t low = vmull_u16(vget_low_u16((uint16x8_t)a), vget_low_u16((uint16x8_t)b));
    uint32x4_t high = vmull_high_u16((uint16x8_t)a, (uint16x8_t)b);
    return (hr_u16x8)vuzp2q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
#else
    hr_u16x8 v;
    for (int i = 0; i < 8; i++)
        v[i] = (uint16_t)((uint32_t)a[i] * b[i] >> 16);
    return v;
#endif
}

/* Both to words, saturated: a's in the low half. */
HR_VEC_INLINE hr_i16x8 hr_vec_pack32(hr_i32x4 a, hr_i32x4 b)
{
#if defined(HR_VEC_SSE2)
    return (hr_i16x8)_mm_packs_epi32((__m128i)a, (__m128i)b);
#elif defined(HR_VEC_NEON)
    return (hr_i16x8)vqmovn_high_s32(vqmovn_s32((int32x4_t)a), (int32x4_t)b);
#else
    hr_i16x8 v;
    for (int i = 0; i < 8; i++) {
        int32_t x = i < 4 ? a[i & 3] : b[i & 3];
        v[i] = (int16_t)(x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x);
    }
    return v;
#endif
}

/* Both to bytes, saturated to 0 .. 255. */
HR_VEC_INLINE hr_u8x16 hr_vec_pack16(hr_i16x8 a, hr_i16x8 b)
{
#if defined(HR_VEC_SSE2)
    return (hr_u8x16)_mm_packus_epi16((__m128i)a, (__m128i)b);
#elif defined(HR_VEC_NEON)
    return (hr_u8x16)vqmovun_high_s16(vqmovun_s16((int16x8_t)a), (int16x8_t)b);
#else
    hr_u8x16 v;
    for (int i = 0; i < 16; i++) {
        int16_t x = i < 8 ? a[i & 7] : b[i & 7];
        v[i] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
    }
    return v;
#endif
}

#endif
