/* The reference: what every other level must equal bit for bit, and what runs where there is no other. Plain
 * C over vectors of 16 bytes. */
#include <math.h>
#include <string.h>

#include "base/vec.h"
#include "decoders/kernels/half.h"
#include "decoders/kernels/kernels.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE hr_i16x8 load_words(const int16_t *p)
{
    return (hr_i16x8)hr_vec_load(p);
}

/* ---- horizontal ---- */

/* Taps p and p + 1 of the three channels of a pixel side by side, as words (and a fourth pair). */
ALWAYS_INLINE hr_i16x8 two_taps(const uint8_t *p)
{
    return hr_vec_widen_low8(hr_vec_zip_low8(hr_vec_load8(p), hr_vec_load8(p + 3)));
}

/* coeff: for each pair of taps four copies. */
ALWAYS_INLINE hr_i32x4 sum_rgb(hr_i32x4 sum, const uint8_t *src, const int16_t *coeff, uint32_t pairs)
{
    for (uint32_t p = 0; p < pairs; p++, src += 6, coeff += 8)
        sum += hr_vec_madd(two_taps(src), load_words(__builtin_assume_aligned(coeff, 16)));
    return sum;
}

/* Coefficients that are not negative leave nothing to clamp: a shift puts the pixel into its place in the
 * ring, a mask takes off what is below. */
ALWAYS_INLINE void hresize_rgb(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst, uint32_t pairs)
{
    const hr_i32x4 half = hr_vec_set32(1 << plan->bits >> 1);
    const hr_i32x4 pixel = hr_vec_set32(255 << plan->ring_shift);
    const int down = (int)(plan->bits - plan->ring_shift);
    const uint32_t *base = plan->base;
    const int16_t *coeff = plan->coeff;
    const size_t step = 8 * (size_t)pairs, steps = plan->steps;
    size_t x = 0;

    for (; x + 2 <= steps; x += 2, dst += 6, coeff += 2 * step) {
        hr_i32x4 a = sum_rgb(half, row + base[x], coeff, pairs) >> down;
        hr_i32x4 b = sum_rgb(half, row + base[x + 1], coeff + step, pairs) >> down;
        hr_u8x16 v = (hr_u8x16)hr_vec_pack32(a & pixel, b & pixel);
        hr_vec_store8(dst, v); /* the next one mends dst[3] */
        hr_vec_store8_high(dst + 3, v);
    }
    if (x < steps) {
        hr_i32x4 a = sum_rgb(half, row + base[x], coeff, pairs) >> down;
        hr_vec_store8(dst, (hr_u8x16)hr_vec_pack32(a & pixel, a));
    }
}

ALWAYS_INLINE void hresize_rgb_fine(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst, uint32_t pairs)
{
    const hr_i32x4 half = hr_vec_set32(1 << plan->bits >> 1), zero = {0};
    const int fine_shift = (int)plan->fine_shift, bits = (int)plan->bits, ring_shift = (int)plan->ring_shift;
    const uint32_t *base = plan->base;
    const int16_t *coeff = plan->coeff;
    const size_t step = 8 * (size_t)pairs, steps = plan->steps;

    for (size_t x = 0; x < steps; x++, dst += 3, coeff += 2 * step) {
        const uint8_t *src = row + base[x];
        hr_u32x4 coarse = (hr_u32x4)sum_rgb(zero, src, coeff, pairs) << fine_shift;
        hr_i32x4 sum = (hr_i32x4)(coarse + (hr_u32x4)sum_rgb(half, src, coeff + step, pairs)) >> bits;
        hr_i16x8 v = hr_vec_pack32(sum, sum);
        v = hr_vec_widen_low8(hr_vec_pack16(v, v)) << ring_shift;
        hr_vec_store8(dst, (hr_u8x16)v);
    }
}

ALWAYS_INLINE int32_t sum_gray(const uint8_t *src, const int16_t *coeff, uint32_t taps)
{
    hr_i32x4 sum = {0};

    for (uint32_t t = 0; t < taps; t += 8)
        sum += hr_vec_madd(hr_vec_widen_low8(hr_vec_load8(src + t)), load_words(coeff + t));
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static void hresize_gray(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst)
{
    const uint32_t taps = plan->taps, fine_shift = plan->fine_shift;
    const int32_t half = 1 << plan->bits >> 1;
    const int16_t *coeff = plan->coeff;

    for (uint32_t x = 0; x < plan->steps; x++, coeff += taps) {
        const uint8_t *src = row + plan->base[x];
        int32_t v = sum_gray(src, coeff, taps) * (1 << fine_shift) + half;
        if (fine_shift) {
            coeff += taps;
            v += sum_gray(src, coeff, taps);
        }
        v >>= plan->bits;
        v = v < 0 ? 0 : v > 255 ? 255 : v;
        dst[x] = (int16_t)(v << plan->ring_shift);
    }
}

static void hresize_pairs(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst)
{
    const uint32_t pairs = plan->taps / 2;

    if (plan->channels == 1)
        hresize_gray(plan, row, dst);
    else if (plan->fine_shift && pairs == 3)
        hresize_rgb_fine(plan, row, dst, 3);
    else if (plan->fine_shift)
        hresize_rgb_fine(plan, row, dst, pairs);
    else if (pairs == 1)
        hresize_rgb(plan, row, dst, 1);
    else if (pairs == 2)
        hresize_rgb(plan, row, dst, 2);
    else
        hresize_rgb(plan, row, dst, pairs);
}

/* ---- vertical ---- */

/* 16 bytes of a row, of which the first `left` are wanted. */
ALWAYS_INLINE void put_bytes(uint8_t *dst, hr_u8x16 v, size_t left)
{
    if (HR_LIKELY(left >= 16))
        hr_vec_store(dst, v);
    else
        memcpy(dst, &v, left);
}

/* (row * coefficient + 2^14) >> 15, where the row is << 7: the high half of the product with twice the
 * coefficient, and the bit below it. */
ALWAYS_INLINE hr_u16x8 product(const int16_t *row, hr_u16x8 twice)
{
    hr_u16x8 v = (hr_u16x8)load_words(row);

    return hr_vec_mulhi_u16(v, twice) + (v * twice >> 15);
}

ALWAYS_INLINE void vnarrow_taps(const int16_t *const *rows, const int16_t *coeff, uint32_t taps,
                                uint8_t *dst, size_t elements)
{
    const hr_u16x8 half = (hr_u16x8)hr_vec_set16(1 << HR_NARROW_SHIFT >> 1);
    hr_u16x8 twice[HR_NARROW_TAPS];

    for (uint32_t t = 0; t < taps; t++)
        twice[t] = (hr_u16x8)hr_vec_set16((int16_t)(uint16_t)(2 * coeff[t]));
    for (size_t e = 0; e < elements; e += 16) {
        hr_u16x8 a = half, b = half;
        for (uint32_t t = 0; t < taps; t++) {
            a += product(rows[t] + e, twice[t]);
            b += product(rows[t] + e + 8, twice[t]);
        }
        a >>= HR_NARROW_SHIFT;
        b >>= HR_NARROW_SHIFT;
        put_bytes(dst + e, hr_vec_pack16((hr_i16x8)a, (hr_i16x8)b), elements - e);
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

/* 8 elements of two ring rows at a time. */
ALWAYS_INLINE hr_i16x8 vwide_8(const int16_t *const *rows, const int16_t *coeff, uint32_t taps, uint32_t bits,
                               size_t e)
{
    hr_u32x4 low = (hr_u32x4)hr_vec_set32(1 << bits >> 1), high = low; /* what is past the row may overflow */

    for (uint32_t t = 0; t < taps; t += 2) {
        int32_t two;
        memcpy(&two, coeff + t, sizeof(two));
        hr_i16x8 weight = (hr_i16x8)hr_vec_set32(two);
        hr_i16x8 a = load_words(rows[t] + e), b = load_words(rows[t + 1] + e);
        low += (hr_u32x4)hr_vec_madd(hr_vec_zip_low16(a, b), weight);
        high += (hr_u32x4)hr_vec_madd(hr_vec_zip_high16(a, b), weight);
    }
    return hr_vec_pack32((hr_i32x4)low >> (int)bits, (hr_i32x4)high >> (int)bits);
}

static void vwide(const int16_t *const *rows, const int16_t *coeff, uint32_t taps, uint32_t bits,
                  uint8_t *dst, size_t elements)
{
    for (size_t e = 0; e < elements; e += 16)
        put_bytes(dst + e, hr_vec_pack16(vwide_8(rows, coeff, taps, bits, e),
                                         vwide_8(rows, coeff, taps, bits, e + 8)), elements - e);
}

/* ---- conversion and store: a pixel has 256 values, so each is converted once ---- */

static uint32_t convert(float v, enum hr_store_type type)
{
    return type == HR_STORE_F32 ? hr_float_bits(v) : type == HR_STORE_F16 ? hr_float_to_f16(v) : hr_float_to_bf16(v);
}

static void fill_table(const struct hr_store *store, enum hr_store_type type, void *table)
{
    for (uint32_t c = 0; c < store->channels; c++)
        for (uint32_t v = 0; v < 256; v++) {
            uint32_t bits = convert(fmaf((float)v, store->scale[c], store->bias[c]), type);
            if (type == HR_STORE_F32)
                ((uint32_t *)table)[256 * c + v] = bits;
            else
                ((uint16_t *)table)[256 * c + v] = (uint16_t)bits;
        }
}

static void packed_u8(const struct hr_store *store, const uint8_t *row, void *dst, size_t pixels)
{
    memcpy(dst, row, pixels * store->channels);
}

static void planar_u8(const struct hr_store *store, const uint8_t *row, void *dst, size_t pixels)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t x = 0; x < pixels; x++)
            ((uint8_t *)dst)[c * store->plane_stride + x] = row[x * 3 + c];
}

#define TABLE_STORES(name, item)                                                                   \
    static void packed_##name(const struct hr_store *store, const uint8_t *row, void *dst,         \
                              size_t pixels)                                                       \
    {                                                                                              \
        const item *table = store->table;                                                          \
        item *out = dst;                                                                           \
        size_t elements = pixels * store->channels;                                                \
                                                                                                   \
        if (store->channels == 1)                                                                  \
            for (size_t i = 0; i < elements; i++)                                                  \
                out[i] = table[row[i]];                                                            \
        else                                                                                       \
            for (size_t i = 0; i < elements; i += 3) {                                             \
                out[i] = table[row[i]];                                                            \
                out[i + 1] = table[256 + row[i + 1]];                                              \
                out[i + 2] = table[512 + row[i + 2]];                                              \
            }                                                                                      \
    }                                                                                              \
    static void planar_##name(const struct hr_store *store, const uint8_t *row, void *dst,         \
                              size_t pixels)                                                       \
    {                                                                                              \
        const item *table = store->table;                                                          \
        item *red = dst, *green = red + store->plane_stride, *blue = green + store->plane_stride;  \
                                                                                                   \
        for (size_t x = 0; x < pixels; x++, row += 3) {                                            \
            red[x] = table[row[0]];                                                                \
            green[x] = table[256 + row[1]];                                                        \
            blue[x] = table[512 + row[2]];                                                         \
        }                                                                                          \
    }

TABLE_STORES(16, uint16_t)
TABLE_STORES(32, uint32_t)

void hr_kernels_fill_c(struct hr_kernels *kernels)
{
    *kernels = (struct hr_kernels){
        .hresize[HR_HLAYOUT_PAIRS] = hresize_pairs,
        .vnarrow = vnarrow,
        .vwide = vwide,
        .packed = {packed_u8, packed_16, packed_16, packed_32},
        .planar = {planar_u8, planar_16, planar_16, planar_32},
        .fill_table = fill_table,
    };
}
