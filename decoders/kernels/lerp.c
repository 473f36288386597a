/* The mixing loops. This file is compiled once a CPU level (HR_LERP_NAME names its table): a level says what a
 * vector of floats is and how it is loaded and stored as each type; the loops are the same. */
#include "decoders/kernels/lerp.h"

#include <string.h>

#include "decoders/kernels/half.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* ---- one value ---- */

ALWAYS_INLINE float from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

ALWAYS_INLINE float load_u8(const uint8_t *p)
{
    return (float)*p;
}

/* Adding 1.5 x 2^23 rounds to a whole number, to nearest even, and leaves it in the low bits. */
ALWAYS_INLINE void store_u8(uint8_t *p, float v)
{
    *p = (uint8_t)hr_float_bits(v + 0x1.8p23f);
}

/* The bits of a half, moved to their places in a float, are the number by 2^-112; infinity and NaN get the
 * exponent that a multiplication does not give. */
ALWAYS_INLINE float load_f16(const uint16_t *p)
{
    uint32_t magnitude = (uint32_t)(*p & 0x7fff) << 13, sign = (uint32_t)(*p & 0x8000) << 16;
    uint32_t bits = hr_float_bits(from_bits(magnitude) * 0x1p112f);

    return from_bits(bits | sign | (magnitude >= 0x0f800000 ? 0x7f800000 : 0));
}

/* hr_float_to_f16 without branches, for any value; NaN stays NaN as the instruction makes it. */
ALWAYS_INLINE void store_f16(uint16_t *p, float v)
{
    uint32_t bits = hr_float_bits(v), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t small = hr_float_bits(from_bits(magnitude) + 0.5f) - 0x3f000000;
    uint32_t large = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x1ff) : 0x7c00;
    uint32_t half = magnitude < 0x38800000 ? small : normal;

    *p = (uint16_t)(sign | (magnitude >= 0x47800000 ? large : half));
}

ALWAYS_INLINE float load_bf16(const uint16_t *p)
{
    return from_bits((uint32_t)*p << 16);
}

ALWAYS_INLINE void store_bf16(uint16_t *p, float v)
{
    *p = hr_float_to_bf16(v);
}

ALWAYS_INLINE float load_f32(const float *p)
{
    return *p;
}

ALWAYS_INLINE void store_f32(float *p, float v)
{
    *p = v;
}

ALWAYS_INLINE float mix(float a, float b, float w, float rest)
{
    return w * a + rest * b;
}

/* ---- a vector of them ---- */

#if defined(__AVX512F__)
#include <immintrin.h>

enum { LANES = 16 };
typedef __m512 floats;

ALWAYS_INLINE floats all(float v)
{
    return _mm512_set1_ps(v);
}

ALWAYS_INLINE floats mix_many(floats a, floats b, floats w, floats rest)
{
    return _mm512_add_ps(_mm512_mul_ps(w, a), _mm512_mul_ps(rest, b));
}

ALWAYS_INLINE floats load_many_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

ALWAYS_INLINE void store_many_u8(uint8_t *p, floats v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

ALWAYS_INLINE floats load_many_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

ALWAYS_INLINE void store_many_f16(uint16_t *p, floats v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

ALWAYS_INLINE floats load_many_bf16(const uint16_t *p)
{
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));

    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}

ALWAYS_INLINE void store_many_bf16(uint16_t *p, floats v)
{
    __m512i bits = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));

    bits = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}

ALWAYS_INLINE floats load_many_f32(const float *p)
{
    return _mm512_loadu_ps(p);
}

ALWAYS_INLINE void store_many_f32(float *p, floats v)
{
    _mm512_storeu_ps(p, v);
}

#elif defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>

enum { LANES = 8 };
typedef __m256 floats;

ALWAYS_INLINE floats all(float v)
{
    return _mm256_set1_ps(v);
}

ALWAYS_INLINE floats mix_many(floats a, floats b, floats w, floats rest)
{
    return _mm256_add_ps(_mm256_mul_ps(w, a), _mm256_mul_ps(rest, b));
}

ALWAYS_INLINE floats load_many_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

ALWAYS_INLINE void store_many_u8(uint8_t *p, floats v)
{
    __m256i whole = _mm256_cvtps_epi32(v);
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));

    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

ALWAYS_INLINE floats load_many_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

ALWAYS_INLINE void store_many_f16(uint16_t *p, floats v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

ALWAYS_INLINE floats load_many_bf16(const uint16_t *p)
{
    __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));

    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}

ALWAYS_INLINE void store_many_bf16(uint16_t *p, floats v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    bits = _mm256_srli_epi32(bits, 16);
    _mm_storeu_si128((__m128i *)p,
                     _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
}

ALWAYS_INLINE floats load_many_f32(const float *p)
{
    return _mm256_loadu_ps(p);
}

ALWAYS_INLINE void store_many_f32(float *p, floats v)
{
    _mm256_storeu_ps(p, v);
}

#elif defined(__aarch64__) && defined(HR_LERP_NEON)
#include <arm_neon.h>

enum { LANES = 8 };
typedef float32x4x2_t floats;

ALWAYS_INLINE floats all(float v)
{
    return (floats){{vdupq_n_f32(v), vdupq_n_f32(v)}};
}

ALWAYS_INLINE floats mix_many(floats a, floats b, floats w, floats rest)
{
    return (floats){{vaddq_f32(vmulq_f32(w.val[0], a.val[0]), vmulq_f32(rest.val[0], b.val[0])),
                     vaddq_f32(vmulq_f32(w.val[1], a.val[1]), vmulq_f32(rest.val[1], b.val[1]))}};
}

ALWAYS_INLINE floats load_many_u8(const uint8_t *p)
{
    uint16x8_t v = vmovl_u8(vld1_u8(p));

    return (floats){{vcvtq_f32_u32(vmovl_u16(vget_low_u16(v))), vcvtq_f32_u32(vmovl_high_u16(v))}};
}

ALWAYS_INLINE void store_many_u8(uint8_t *p, floats v)
{
    uint16x4_t low = vmovn_u32(vcvtnq_u32_f32(v.val[0]));

    vst1_u8(p, vqmovn_u16(vmovn_high_u32(low, vcvtnq_u32_f32(v.val[1]))));
}

ALWAYS_INLINE floats load_many_f16(const uint16_t *p)
{
    float16x8_t v = vreinterpretq_f16_u16(vld1q_u16(p));

    return (floats){{vcvt_f32_f16(vget_low_f16(v)), vcvt_high_f32_f16(v)}};
}

ALWAYS_INLINE void store_many_f16(uint16_t *p, floats v)
{
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.val[0]), v.val[1])));
}

ALWAYS_INLINE floats load_many_bf16(const uint16_t *p)
{
    uint16x8_t v = vld1q_u16(p);

    return (floats){{vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(v), 16)),
                     vreinterpretq_f32_u32(vshll_high_n_u16(v, 16))}};
}

ALWAYS_INLINE uint32x4_t round_bf16(float32x4_t v)
{
    uint32x4_t bits = vreinterpretq_u32_f32(v), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));

    return vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
}

ALWAYS_INLINE void store_many_bf16(uint16_t *p, floats v)
{
    vst1q_u16(p, vshrn_high_n_u32(vshrn_n_u32(round_bf16(v.val[0]), 16), round_bf16(v.val[1]), 16));
}

ALWAYS_INLINE floats load_many_f32(const float *p)
{
    return (floats){{vld1q_f32(p), vld1q_f32(p + 4)}};
}

ALWAYS_INLINE void store_many_f32(float *p, floats v)
{
    vst1q_f32(p, v.val[0]);
    vst1q_f32(p + 4, v.val[1]);
}

#else /* the compiler makes vectors of the loop over single values */
#define NO_VECTORS
#endif

/* ---- the loops ---- */

#ifdef NO_VECTORS
#define MANY_BOTH(type, a, b, i, count, wa, wb)
#define MANY_ONE(type, a, b, i, count, w)
#else
#define MANY_BOTH(type, a, b, i, count, wa, wb)                                                    \
    for (const floats va = all(wa), sa = all(1 - (wa)), vb = all(wb), sb = all(1 - (wb));          \
         (i) + LANES <= (count); (i) += LANES) {                                                   \
        floats x = load_many_##type((a) + (i)), y = load_many_##type((b) + (i));                   \
        store_many_##type((a) + (i), mix_many(x, y, va, sa));                                      \
        store_many_##type((b) + (i), mix_many(y, x, vb, sb));                                      \
    }
#define MANY_ONE(type, a, b, i, count, w)                                                          \
    for (const floats v = all(w), r = all(1 - (w)); (i) + LANES <= (count); (i) += LANES)          \
        store_many_##type((a) + (i),                                                               \
                          mix_many(load_many_##type((a) + (i)), load_many_##type((b) + (i)), v, r));
#endif

#define LOOPS(type, value)                                                                         \
    static void both_##type(void *pa, void *pb, size_t count, float wa, float wb)                  \
    {                                                                                              \
        value *restrict a = pa, *restrict b = pb;                                                  \
        const float ra = 1 - wa, rb = 1 - wb;                                                      \
        size_t i = 0;                                                                              \
        MANY_BOTH(type, a, b, i, count, wa, wb)                                                    \
        for (; i < count; i++) {                                                                   \
            float x = load_##type(a + i), y = load_##type(b + i);                                  \
            store_##type(a + i, mix(x, y, wa, ra));                                                \
            store_##type(b + i, mix(y, x, wb, rb));                                                \
        }                                                                                          \
    }                                                                                              \
    static void one_##type(void *pa, const void *pb, size_t count, float w)                        \
    {                                                                                              \
        value *restrict a = pa;                                                                    \
        const value *restrict b = pb;                                                              \
        const float rest = 1 - w;                                                                  \
        size_t i = 0;                                                                              \
        MANY_ONE(type, a, b, i, count, w)                                                          \
        for (; i < count; i++)                                                                     \
            store_##type(a + i, mix(load_##type(a + i), load_##type(b + i), w, rest));             \
    }

LOOPS(u8, uint8_t)
LOOPS(f16, uint16_t)
LOOPS(bf16, uint16_t)
LOOPS(f32, float)

const struct hr_lerp HR_LERP_NAME = {
    .both = {both_u8, both_f16, both_bf16, both_f32},
    .one = {one_u8, one_f16, one_bf16, one_f32},
};
