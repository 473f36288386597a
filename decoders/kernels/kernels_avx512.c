/* AVX-512 with byte permutes and VNNI. One 64-byte window of the row serves 32 elements of a
 * horizontal step, or 16; tails are masked. */
#include <immintrin.h>
#include <string.h>

#include "decoders/kernels/kernels.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE __m512i load512(const void *p)
{
    return _mm512_loadu_si512(p);
}

/* Which of 64 (32, 16) items are still wanted. */
ALWAYS_INLINE __mmask64 first_64(size_t left)
{
    return left >= 64 ? ~0ull : (1ull << left) - 1;
}

ALWAYS_INLINE __mmask16 first_16(size_t left)
{
    return left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
}

/* What turns 32-bit sums into ring words. With clamping: >> bits, clamp, << ring_shift. Without: the
 * shift that leaves the pixel at its place in the low word, or the bits whose bytes are that word, and a mask. */
struct finish {
    __m512i bits, fine_shift, ring_shift, to_low, extract, pixel;
};

ALWAYS_INLINE struct finish finish_init(const struct hr_hplan *plan)
{
    const int down = (int)plan->bits - (int)plan->ring_shift;

    return (struct finish){
        .bits = _mm512_set1_epi32((int)plan->bits),
        .fine_shift = _mm512_set1_epi32((int)plan->fine_shift),
        .ring_shift = _mm512_set1_epi16((short)plan->ring_shift),
        .to_low = _mm512_set1_epi32(down),
        .extract = _mm512_add_epi8(_mm512_set1_epi64(0x2820282008000800), _mm512_set1_epi8((char)down)),
        .pixel = _mm512_set1_epi16((short)(255 << plan->ring_shift)),
    };
}

ALWAYS_INLINE __m512i clamp_words(const struct finish *f, __m512i v)
{
    v = _mm512_min_epi16(_mm512_max_epi16(v, _mm512_setzero_si512()), _mm512_set1_epi16(255));
    return _mm512_sllv_epi16(v, f->ring_shift);
}

ALWAYS_INLINE __m512i join_fine(const struct finish *f, __m512i sum, __m512i fine)
{
    return _mm512_srav_epi32(_mm512_add_epi32(_mm512_sllv_epi32(sum, f->fine_shift), fine), f->bits);
}

/* Sums of 32 elements in two vectors, and of the fine parts of the coefficients. */
struct sums {
    __m512i sum0, sum1, fine0, fine1;
};

/* w0, w1: the windows of the two halves, which PAIR64 shares. */
ALWAYS_INLINE struct sums sum_step(const uint8_t *w0, const uint8_t *w1, size_t pitch,
                                   const uint8_t *index, const int16_t *coeff, uint32_t pairs,
                                   __m512i half, bool fine)
{
    const __mmask64 bytes = 0x5555555555555555; /* the others become 0 */
    const __m512i pick0 = load512(index), pick1 = load512(index + 64);
    const __m512i zero = _mm512_setzero_si512();
    struct sums s = {fine ? zero : half, fine ? zero : half, half, half};

    for (size_t p = 0; p < pairs; p++, coeff += 64) {
        __m512i window0 = load512(w0 + p * pitch);
        __m512i window1 = w0 == w1 ? window0 : load512(w1 + p * pitch);
        __m512i v0 = _mm512_maskz_permutexvar_epi8(bytes, pick0, window0);
        __m512i v1 = _mm512_maskz_permutexvar_epi8(bytes, pick1, window1);
        s.sum0 = _mm512_dpwssd_epi32(s.sum0, v0, load512(coeff));
        s.sum1 = _mm512_dpwssd_epi32(s.sum1, v1, load512(coeff + 32));
        if (fine) {
            coeff += 64;
            s.fine0 = _mm512_dpwssd_epi32(s.fine0, v0, load512(coeff));
            s.fine1 = _mm512_dpwssd_epi32(s.fine1, v1, load512(coeff + 32));
        }
    }
    return s;
}

/* Rows that one layout serves, 1 or 3, and where their results go. */
struct rows {
    const uint8_t *const *row;
    int16_t *dst;
    size_t pitch;
    int count;
};

/* Behind all loads of a step, which could be of what is stored as far as the compiler knows. */
ALWAYS_INLINE void store_rows(const struct rows *rows, size_t at, const __m512i v[3])
{
    for (int r = 0; r < rows->count; r++)
        _mm512_storeu_si512(rows->dst + (size_t)r * rows->pitch + at, v[r]);
}

ALWAYS_INLINE __m512i finish_even_odd(const struct finish *f, struct sums s, bool fine)
{
    const __mmask32 odd = 0xaaaaaaaa;

    if (fine) {
        __m512i v = _mm512_slli_epi32(join_fine(f, s.sum1, s.fine1), 16);
        return clamp_words(f, _mm512_mask_blend_epi16(odd, join_fine(f, s.sum0, s.fine0), v));
    }
    __m512i v = _mm512_multishift_epi64_epi8(f->extract, s.sum0);
    v = _mm512_mask_multishift_epi64_epi8(v, 0xcccccccccccccccc, f->extract, s.sum1);
    return _mm512_and_si512(v, f->pixel);
}

ALWAYS_INLINE void hresize_even_odd(const struct hr_hplan *plan, const struct rows *rows, uint32_t pairs, bool fine)
{
    const struct finish f = finish_init(plan);
    const __m512i half = _mm512_set1_epi32(1 << plan->bits >> 1);
    const size_t pitch = 2 * (size_t)plan->channels;
    const uint8_t *index = plan->index;
    const int16_t *coeff = plan->coeff;

    for (uint32_t step = 0; step < plan->steps; step++, index += 128) {
        __m512i v[3];
        for (int r = 0; r < rows->count; r++) {
            const uint8_t *w = rows->row[r] + plan->base[step];
            v[r] = finish_even_odd(&f, sum_step(w, w, pitch, index, coeff, pairs, half, fine), fine);
        }
        coeff += (fine ? 128 : 64) * pairs;
        store_rows(rows, 32 * (size_t)step, v);
    }
}

ALWAYS_INLINE __m512i finish_lanes(const struct finish *f, struct sums s, __m512i words, bool fine)
{
    if (fine)
        return clamp_words(f, _mm512_permutex2var_epi16(join_fine(f, s.sum0, s.fine0), words,
                                                        join_fine(f, s.sum1, s.fine1)));
    return _mm512_and_si512(_mm512_permutex2var_epi16(_mm512_srlv_epi32(s.sum0, f->to_low), words,
                                                      _mm512_srlv_epi32(s.sum1, f->to_low)), f->pixel);
}

ALWAYS_INLINE void hresize_lanes(const struct hr_hplan *plan, const struct rows *rows, uint32_t pairs, bool fine)
{
    static const uint16_t low_words[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                           22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42,
                                           44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    const struct finish f = finish_init(plan);
    const __m512i half = _mm512_set1_epi32(1 << plan->bits >> 1), words = load512(low_words);
    const size_t pitch = 2 * (size_t)plan->channels;
    const uint32_t *base = plan->base;
    const uint8_t *index = plan->index;
    const int16_t *coeff = plan->coeff;

    for (uint32_t step = 0; step < plan->steps; step++, base += 2, index += 128) {
        __m512i v[3];
        for (int r = 0; r < rows->count; r++) {
            const uint8_t *row = rows->row[r];
            struct sums s = sum_step(row + base[0], row + base[1], pitch, index, coeff, pairs, half, fine);
            v[r] = finish_lanes(&f, s, words, fine);
        }
        coeff += (fine ? 128 : 64) * pairs;
        store_rows(rows, 32 * (size_t)step, v);
    }
}

/* A copy of the loop for each usual number of tap pairs. */
#define HRESIZE_ROWS(name, loop, rows_count)                                                       \
    ALWAYS_INLINE void name(const struct hr_hplan *plan, const uint8_t *const *row, int16_t *dst, size_t pitch) \
    {                                                                                              \
        const struct rows rows = {row, dst, pitch, rows_count};                                    \
        const uint32_t pairs = plan->taps / 2;                                                     \
                                                                                                   \
        if (plan->fine_shift)                                                                      \
            loop(plan, &rows, pairs, true);                                                        \
        else if (pairs == 1)                                                                       \
            loop(plan, &rows, 1, false);                                                           \
        else if (pairs == 2)                                                                       \
            loop(plan, &rows, 2, false);                                                           \
        else                                                                                       \
            loop(plan, &rows, pairs, false);                                                       \
    }

#define HRESIZE(name, loop)                                                                        \
    HRESIZE_ROWS(name##_one, loop, 1)                                                              \
    HRESIZE_ROWS(name##_three, loop, 3)                                                            \
    static void name(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst)                \
    {                                                                                              \
        name##_one(plan, &row, dst, 0);                                                            \
    }                                                                                              \
    static void name##_planes(const struct hr_hplan *plan, const uint8_t *const rows[3], int16_t *dst, size_t pitch) \
    {                                                                                              \
        name##_three(plan, rows, dst, pitch);                                                      \
    }

HRESIZE(hresize_pair64, hresize_even_odd)
HRESIZE(hresize_lane64, hresize_lanes)

/* Two vectors of 32 words to 64 bytes in order. */
ALWAYS_INLINE __m512i pack_bytes(__m512i a, __m512i b)
{
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_packus_epi16(a, b));
}

/* The same >> HR_NARROW_SHIFT, of words that are bytes then: their bits are taken where they lie. */
ALWAYS_INLINE __m512i narrow_bytes(__m512i a, __m512i b)
{
    const __m512i bits = _mm512_add_epi8(_mm512_set1_epi64(0x3020100030201000), _mm512_set1_epi8(HR_NARROW_SHIFT));
    const __m512i order = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    __m512i v = _mm512_multishift_epi64_epi8(bits, a);

    v = _mm512_mask_multishift_epi64_epi8(v, 0xf0f0f0f0f0f0f0f0, bits, b);
    return _mm512_permutexvar_epi32(order, v);
}

ALWAYS_INLINE void put_bytes(uint8_t *dst, __m512i bytes, size_t left)
{
    if (HR_LIKELY(left >= 64))
        _mm512_storeu_si512(dst, bytes);
    else
        _mm512_mask_storeu_epi8(dst, first_64(left), bytes);
}

ALWAYS_INLINE void vnarrow_taps(const int16_t *const *rows, const int16_t *coeff, uint32_t taps,
                                uint8_t *dst, size_t elements)
{
    __m512i weight[HR_NARROW_TAPS];

    for (uint32_t t = 0; t < taps; t++)
        weight[t] = _mm512_set1_epi16(coeff[t]);
    for (size_t e = 0; e < elements; e += 64) {
        __m512i a = _mm512_set1_epi16(1 << HR_NARROW_SHIFT >> 1), b = a;
        for (uint32_t t = 0; t < taps; t++) {
            a = _mm512_add_epi16(a, _mm512_mulhrs_epi16(load512(rows[t] + e), weight[t]));
            b = _mm512_add_epi16(b, _mm512_mulhrs_epi16(load512(rows[t] + e + 32), weight[t]));
        }
        put_bytes(dst + e, narrow_bytes(a, b), elements - e);
    }
}

static void vnarrow(const int16_t *const *rows, const int16_t *coeff, uint32_t taps, uint8_t *dst,
                    size_t elements)
{
    switch (taps) {
    case 1: vnarrow_taps(rows, coeff, 1, dst, elements); break;
    case 2: vnarrow_taps(rows, coeff, 2, dst, elements); break;
    case 3: vnarrow_taps(rows, coeff, 3, dst, elements); break;
    case 4: vnarrow_taps(rows, coeff, 4, dst, elements); break;
    default: vnarrow_taps(rows, coeff, taps, dst, elements); break;
    }
}

/* 32 elements of two ring rows at a time. */
ALWAYS_INLINE __m512i vwide_32(const int16_t *const *rows, const int16_t *coeff, uint32_t taps,
                               __m128i bits, __m512i half, size_t e)
{
    __m512i low = half, high = half;

    for (uint32_t t = 0; t < taps; t += 2) {
        int32_t two;
        memcpy(&two, coeff + t, sizeof(two));
        __m512i weight = _mm512_set1_epi32(two);
        __m512i a = load512(rows[t] + e), b = load512(rows[t + 1] + e);
        low = _mm512_add_epi32(low, _mm512_madd_epi16(_mm512_unpacklo_epi16(a, b), weight));
        high = _mm512_add_epi32(high, _mm512_madd_epi16(_mm512_unpackhi_epi16(a, b), weight));
    }
    return _mm512_packs_epi32(_mm512_sra_epi32(low, bits), _mm512_sra_epi32(high, bits));
}

static void vwide(const int16_t *const *rows, const int16_t *coeff, uint32_t taps, uint32_t bits,
                  uint8_t *dst, size_t elements)
{
    const __m128i shift = _mm_cvtsi32_si128((int)bits);
    const __m512i half = _mm512_set1_epi32(1 << bits >> 1);

    for (size_t e = 0; e < elements; e += 64)
        put_bytes(dst + e, pack_bytes(vwide_32(rows, coeff, taps, shift, half, e),
                                      vwide_32(rows, coeff, taps, shift, half, e + 32)), elements - e);
}

/* ---- conversion and store ---- */

ALWAYS_INLINE __m256i to_bf16(__m512 f)
{
    __m512i u = _mm512_castps_si512(f);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));

    u = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(u, 16));
}

ALWAYS_INLINE __m256i to_16_bits(__m512 f, enum hr_store_type type)
{
    return type == HR_STORE_F16 ? _mm512_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT) : to_bf16(f);
}

ALWAYS_INLINE void put_16(void *dst, size_t i, __m512 f, enum hr_store_type type)
{
    if (type == HR_STORE_F32)
        _mm512_storeu_ps((float *)dst + i, f);
    else
        _mm256_storeu_si256((void *)((uint16_t *)dst + i), to_16_bits(f, type));
}

ALWAYS_INLINE void put_some(void *dst, size_t i, __m512 f, size_t n, enum hr_store_type type)
{
    if (type == HR_STORE_F32)
        _mm512_mask_storeu_ps((float *)dst + i, first_16(n), f);
    else
        _mm256_mask_storeu_epi16((uint16_t *)dst + i, first_16(n), to_16_bits(f, type));
}

ALWAYS_INLINE __m512 convert_16(__m512i bytes, __m512 scale, __m512 bias)
{
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(bytes), scale, bias);
}

/* 48 elements have whole pixels of 1 and of 3 channels. */
ALWAYS_INLINE void store_packed(const struct hr_store *store, const uint8_t *row, void *dst,
                                size_t pixels, enum hr_store_type type)
{
    const size_t elements = pixels * store->channels;
    __m512 scale[3], bias[3];
    size_t i = 0;

    for (size_t k = 0; k < 3; k++) {
        scale[k] = _mm512_loadu_ps(store->packed_scale + 16 * k);
        bias[k] = _mm512_loadu_ps(store->packed_bias + 16 * k);
    }
    for (; i + 48 <= elements; i += 48)
        for (size_t k = 0; k < 3; k++) {
            __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(row + i + 16 * k)));
            put_16(dst, i + 16 * k, convert_16(v, scale[k], bias[k]), type);
        }
    for (size_t k = 0; i < elements; i += 16, k++) {
        __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(row + i)));
        put_some(dst, i, convert_16(v, scale[k], bias[k]), elements - i, type);
    }
}

/* Byte 3i + c of the window, as 32-bit numbers with the other bytes masked. */
ALWAYS_INLINE __m512i pick_channel(int c)
{
    const __m512i steps = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42,
                                            45);

    return _mm512_add_epi32(steps, _mm512_set1_epi32(c));
}

ALWAYS_INLINE void store_planar(const struct hr_store *store, const uint8_t *row, void *dst,
                                size_t pixels, enum hr_store_type type)
{
    const __mmask64 low_bytes = 0x1111111111111111;
    const size_t item = type == HR_STORE_F32 ? 4 : 2;
    __m512i pick[3];
    __m512 scale[3], bias[3];
    uint8_t *plane[3];
    size_t x = 0;

    for (int c = 0; c < 3; c++) {
        pick[c] = pick_channel(c);
        scale[c] = _mm512_set1_ps(store->scale[c]);
        bias[c] = _mm512_set1_ps(store->bias[c]);
        plane[c] = (uint8_t *)dst + (size_t)c * store->plane_stride * item;
    }
    for (; x + 16 <= pixels; x += 16) {
        __m512i v = load512(row + 3 * x);
        for (int c = 0; c < 3; c++) {
            __m512i bytes = _mm512_maskz_permutexvar_epi8(low_bytes, pick[c], v);
            put_16(plane[c], x, convert_16(bytes, scale[c], bias[c]), type);
        }
    }
    if (x == pixels)
        return;
    __m512i v = load512(row + 3 * x);
    for (int c = 0; c < 3; c++) {
        __m512i bytes = _mm512_maskz_permutexvar_epi8(low_bytes, pick[c], v);
        put_some(plane[c], x, convert_16(bytes, scale[c], bias[c]), pixels - x, type);
    }
}

static void planar_u8(const struct hr_store *store, const uint8_t *row, void *dst, size_t pixels)
{
    static const uint8_t deinterleave[64] = {
        0,  3,  6,  9,  12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 1,  4,  7,  10, 13, 16, 19,
        22, 25, 28, 31, 34, 37, 40, 43, 46, 2,  5,  8,  11, 14, 17, 20, 23, 26, 29, 32, 35, 38, 41,
        44, 47};
    const __m512i pick = load512(deinterleave);
    uint8_t *plane = dst;

    for (size_t x = 0; x < pixels; x += 16) {
        __m512i v = _mm512_permutexvar_epi8(pick, load512(row + 3 * x));
        __mmask16 want = first_16(pixels - x);
        _mm_mask_storeu_epi8(plane + x, want, _mm512_castsi512_si128(v));
        _mm_mask_storeu_epi8(plane + store->plane_stride + x, want,
                             _mm512_extracti32x4_epi32(v, 1));
        _mm_mask_storeu_epi8(plane + 2 * store->plane_stride + x, want,
                             _mm512_extracti32x4_epi32(v, 2));
    }
}

#define FLOAT_STORES(name, type)                                                                   \
    static void packed_##name(const struct hr_store *store, const uint8_t *row, void *dst,         \
                              size_t pixels)                                                       \
    {                                                                                              \
        store_packed(store, row, dst, pixels, type);                                               \
    }                                                                                              \
    static void planar_##name(const struct hr_store *store, const uint8_t *row, void *dst,         \
                              size_t pixels)                                                       \
    {                                                                                              \
        store_planar(store, row, dst, pixels, type);                                               \
    }

FLOAT_STORES(f16, HR_STORE_F16)
FLOAT_STORES(bf16, HR_STORE_BF16)
FLOAT_STORES(f32, HR_STORE_F32)

extern const struct hr_axis_wide hr_axis_wide_avx512; /* axis_wide.c */

void hr_kernels_fill_avx512(struct hr_kernels *kernels)
{
    kernels->axis = &hr_axis_wide_avx512;
    kernels->hresize[HR_HLAYOUT_PAIR64] = hresize_pair64;
    kernels->hresize[HR_HLAYOUT_LANE64] = hresize_lane64;
    kernels->hresize_planes[HR_HLAYOUT_PAIR64] = hresize_pair64_planes;
    kernels->hresize_planes[HR_HLAYOUT_LANE64] = hresize_lane64_planes;
    kernels->vnarrow = vnarrow;
    kernels->vwide = vwide;
    kernels->packed[HR_STORE_F16] = packed_f16;
    kernels->packed[HR_STORE_BF16] = packed_bf16;
    kernels->packed[HR_STORE_F32] = packed_f32;
    kernels->planar[HR_STORE_U8] = planar_u8;
    kernels->planar[HR_STORE_F16] = planar_f16;
    kernels->planar[HR_STORE_BF16] = planar_bf16;
    kernels->planar[HR_STORE_F32] = planar_f32;
    kernels->fill_table = NULL;
}
