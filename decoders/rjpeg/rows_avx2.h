/* The AVX2 variant's loops over rows of samples: upsampling, colours, pixels out of planes. variant.h says what each
 * does. A part of variant_avx2.c, in whose translation unit its constants are made. */
#ifndef HR_DECODERS_RJPEG_ROWS_AVX2_H
#define HR_DECODERS_RJPEG_ROWS_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "rjpeg/tile_bmi2.h"

/* Two words, for multiply-adds. */
#define PAIR(a, b) _mm256_set1_epi32((int)((uint32_t)(uint16_t)(a) | (uint32_t)(uint16_t)(b) << 16))

typedef __m256i vec;

INLINE vec load(const void *p)
{
    return _mm256_load_si256((const vec *)p);
}

INLINE vec loadu(const void *p)
{
    return _mm256_loadu_si256((const vec *)p);
}

INLINE void storeu(void *p, vec v)
{
    _mm256_storeu_si256((vec *)p, v);
}

INLINE void store_low(void *p, vec v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(v));
}

INLINE void store_high(void *p, vec v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_extracti128_si256(v, 1));
}

static struct {
    _Alignas(32) uint8_t rgb[3][32], rgb_is[3][32];
} rows_k;

/* Pixel p of 16, channel c goes to byte 3 p + c of 48: to byte (3 p + c) % 16, whichever vector. */
static void make_rows_constants(void)
{
    for (unsigned lane = 0; lane < 32; lane += 16)
        for (unsigned c = 0; c < 3; c++)
            for (unsigned i = 0; i < 16; i++) {
                rows_k.rgb[c][lane + (3 * i + c) % 16] = (uint8_t)i;
                rows_k.rgb_is[c][lane + i] = i % 3 == c ? 0xff : 0;
            }
}

INLINE vec widen(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}

INLINE vec thrice(vec v)
{
    return _mm256_add_epi16(v, _mm256_add_epi16(v, v));
}

static void across(const uint8_t *in, uint32_t count, uint8_t *out)
{
    for (uint32_t x = 0; x < count; x += 16, in += 16, out += 32) {
        vec s = thrice(widen(in));
        vec left = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(s, widen(in - 1)), _mm256_set1_epi16(1)), 2);
        vec right = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(s, widen(in + 1)), _mm256_set1_epi16(2)), 2);
        storeu(out, _mm256_or_si256(left, _mm256_slli_epi16(right, 8)));
    }
}

static void down(const uint8_t *near, const uint8_t *far, unsigned bias, uint32_t count, uint8_t *out)
{
    for (uint32_t x = 0; x < count; x += 16) {
        vec s = _mm256_add_epi16(thrice(widen(near + x)), widen(far + x));
        s = _mm256_srli_epi16(_mm256_add_epi16(s, _mm256_set1_epi16((short)bias)), 2);
        __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
        _mm_storeu_si128((__m128i *)(out + x), bytes);
    }
}

static void both(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out, uint16_t *sums)
{
    for (uint32_t x = 0; x < count + 2; x += 16)
        storeu(sums + x, _mm256_add_epi16(thrice(widen(near - 1 + x)), widen(far - 1 + x)));
    for (uint32_t x = 0; x < count; x += 16, sums += 16, out += 32) {
        vec s = thrice(loadu(sums + 1));
        vec left = _mm256_add_epi16(_mm256_add_epi16(s, loadu(sums)), _mm256_set1_epi16(8));
        vec right = _mm256_add_epi16(_mm256_add_epi16(s, loadu(sums + 2)), _mm256_set1_epi16(7));
        vec odd = _mm256_slli_epi16(_mm256_srli_epi16(right, 4), 8);
        storeu(out, _mm256_or_si256(_mm256_srli_epi16(left, 4), odd));
    }
}

struct rgb {
    vec r, g, b;
};

INLINE void store_rgb32(struct rgb p, uint8_t *out)
{
    vec r = _mm256_shuffle_epi8(p.r, load(rows_k.rgb[0])), g = _mm256_shuffle_epi8(p.g, load(rows_k.rgb[1]));
    vec b = _mm256_shuffle_epi8(p.b, load(rows_k.rgb[2])), is1 = load(rows_k.rgb_is[1]), is2 = load(rows_k.rgb_is[2]);
    /* Byte i of vector o (of each lane's 48 bytes) is of channel (o + i) % 3. */
    vec v0 = _mm256_blendv_epi8(_mm256_blendv_epi8(r, g, is1), b, is2);
    vec v1 = _mm256_blendv_epi8(_mm256_blendv_epi8(g, b, is1), r, is2);
    vec v2 = _mm256_blendv_epi8(_mm256_blendv_epi8(b, r, is1), g, is2);

    store_low(out, v0);
    store_low(out + 16, v1);
    store_low(out + 32, v2);
    store_high(out + 48, v0);
    store_high(out + 64, v1);
    store_high(out + 80, v2);
}

INLINE void store_rgb(struct rgb p, uint32_t left, uint8_t *out)
{
    uint8_t last[96];

    if (HR_LIKELY(left >= 32)) {
        store_rgb32(p, out);
        return;
    }
    store_rgb32(p, last);
    memcpy(out, last, 3 * left);
}

/* 16 pixels, 16 bits each. The products with 16-bit constants, rounded at 2^15, are those of the tables
 * for each of the 256 possible samples (13172 for 91881 - 2^16, 29033 for 116130 / 4). */
INLINE struct rgb convert(vec y, vec u, vec v)
{
    const vec half = _mm256_set1_epi32(32768), factors = PAIR(-22554, 18734); /* 18734 = 65536 - 46802 */
    vec even = _mm256_blend_epi16(u, _mm256_slli_epi32(v, 16), 0xaa);
    vec odd = _mm256_blend_epi16(_mm256_srli_epi32(u, 16), v, 0xaa);
    vec even_g = _mm256_add_epi32(half, _mm256_madd_epi16(even, factors));
    vec odd_g = _mm256_add_epi32(half, _mm256_madd_epi16(odd, factors));
    vec g = _mm256_blend_epi16(_mm256_srli_epi32(even_g, 16), odd_g, 0xaa);

    return (struct rgb){
        .r = _mm256_add_epi16(_mm256_add_epi16(y, v), _mm256_mulhrs_epi16(v, _mm256_set1_epi16(13172))),
        .g = _mm256_add_epi16(_mm256_sub_epi16(y, v), g),
        .b = _mm256_add_epi16(y, _mm256_mulhrs_epi16(_mm256_add_epi16(u, u), _mm256_set1_epi16(29033))),
    };
}

/* The low or the high half of each lane, centred for chroma. */
INLINE vec low_half(vec v, vec offset)
{
    return _mm256_sub_epi16(_mm256_unpacklo_epi8(v, _mm256_setzero_si256()), offset);
}

INLINE vec high_half(vec v, vec offset)
{
    return _mm256_sub_epi16(_mm256_unpackhi_epi8(v, _mm256_setzero_si256()), offset);
}

INLINE struct rgb convert_32(const uint8_t *y, const uint8_t *cb, const uint8_t *cr)
{
    const vec zero = _mm256_setzero_si256(), centre = _mm256_set1_epi16(128);
    vec vy = loadu(y), vb = loadu(cb), vr = loadu(cr);
    struct rgb low = convert(low_half(vy, zero), low_half(vb, centre), low_half(vr, centre));
    struct rgb high = convert(high_half(vy, zero), high_half(vb, centre), high_half(vr, centre));

    return (struct rgb){_mm256_packus_epi16(low.r, high.r), _mm256_packus_epi16(low.g, high.g),
                        _mm256_packus_epi16(low.b, high.b)};
}

static void ycc_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count, uint8_t *rgb)
{
    for (uint32_t x = 0; x < count; x += 32, rgb += 96)
        store_rgb(convert_32(y + x, cb + x, cr + x), count - x, rgb);
}

static void ycc_to_planes(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count, uint8_t *const rgb[3])
{
    for (uint32_t x = 0; x < count; x += 32) {
        struct rgb p = convert_32(y + x, cb + x, cr + x);
        _mm256_storeu_si256((__m256i *)(rgb[0] + x), p.r);
        _mm256_storeu_si256((__m256i *)(rgb[1] + x), p.g);
        _mm256_storeu_si256((__m256i *)(rgb[2] + x), p.b);
    }
}

static void interleave(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint32_t count, uint8_t *rgb)
{
    for (uint32_t x = 0; x < count; x += 32, rgb += 96) {
        struct rgb p = {loadu(r + x), loadu(g + x), loadu(b + x)};
        store_rgb(p, count - x, rgb);
    }
}

#endif
