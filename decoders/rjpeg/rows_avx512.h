/* The AVX-512 variant's loops over rows of samples: upsampling, colours, pixels out of planes. variant.h says what each
 * does. A part of variant_avx512.c, in whose translation unit its constants are made. */
#ifndef HR_DECODERS_RJPEG_ROWS_AVX512_H
#define HR_DECODERS_RJPEG_ROWS_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#include "rjpeg/tile_bmi2.h"

/* Two words, for multiply-adds. */
#define PAIR(a, b) _mm512_set1_epi32((int)((uint32_t)(uint16_t)(a) | (uint32_t)(uint16_t)(b) << 16))

typedef __m512i vec;

static struct {
    _Alignas(64) uint8_t rgb_rg[3][64], rgb_b[3][64];
    uint64_t rgb_is_b[3];
    vec swap16; /* for multishift */
} rows_k;

static void make_rows_constants(void)
{
    for (unsigned o = 0; o < 3; o++) {
        rows_k.rgb_is_b[o] = 0;
        for (unsigned i = 0; i < 64; i++) {
            unsigned pixel = (64 * o + i) / 3, channel = (64 * o + i) % 3;
            rows_k.rgb_rg[o][i] = (uint8_t)(pixel | (channel == 1) << 6);
            rows_k.rgb_b[o][i] = (uint8_t)pixel;
            rows_k.rgb_is_b[o] |= (uint64_t)(channel == 2) << i;
        }
    }
    rows_k.swap16 = _mm512_set1_epi64(0x2820383008001810ll);
}

INLINE vec widen(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

INLINE vec thrice(vec v)
{
    return _mm512_add_epi16(v, _mm512_add_epi16(v, v));
}

static void across(const uint8_t *in, uint32_t count, uint8_t *out)
{
    for (uint32_t x = 0; x < count; x += 32, in += 32, out += 64) {
        vec s = thrice(widen(in));
        vec left = _mm512_srli_epi16(_mm512_add_epi16(_mm512_add_epi16(s, widen(in - 1)), _mm512_set1_epi16(1)), 2);
        vec right = _mm512_srli_epi16(_mm512_add_epi16(_mm512_add_epi16(s, widen(in + 1)), _mm512_set1_epi16(2)), 2);
        _mm512_storeu_si512(out, _mm512_or_si512(left, _mm512_slli_epi16(right, 8)));
    }
}

static void down(const uint8_t *near, const uint8_t *far, unsigned bias, uint32_t count, uint8_t *out)
{
    for (uint32_t x = 0; x < count; x += 32) {
        vec s = _mm512_add_epi16(thrice(widen(near + x)), widen(far + x));
        s = _mm512_srli_epi16(_mm512_add_epi16(s, _mm512_set1_epi16((short)bias)), 2);
        _mm256_storeu_si256((__m256i *)(out + x), _mm512_cvtepi16_epi8(s));
    }
}

static void both(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out, uint16_t *sums)
{
    for (uint32_t x = 0; x < count + 2; x += 32)
        _mm512_storeu_si512(sums + x, _mm512_add_epi16(thrice(widen(near - 1 + x)), widen(far - 1 + x)));
    for (uint32_t x = 0; x < count; x += 32, sums += 32, out += 64) {
        vec s = thrice(_mm512_loadu_si512(sums + 1));
        vec left = _mm512_add_epi16(_mm512_add_epi16(s, _mm512_loadu_si512(sums)), _mm512_set1_epi16(8));
        vec right = _mm512_add_epi16(_mm512_add_epi16(s, _mm512_loadu_si512(sums + 2)), _mm512_set1_epi16(7));
        vec odd = _mm512_slli_epi16(_mm512_srli_epi16(right, 4), 8);
        _mm512_storeu_si512(out, _mm512_or_si512(_mm512_srli_epi16(left, 4), odd));
    }
}

struct rgb {
    vec r, g, b;
};

INLINE vec rgb_vector(struct rgb p, int o)
{
    vec v = _mm512_permutex2var_epi8(p.r, _mm512_load_si512(rows_k.rgb_rg[o]), p.g);
    return _mm512_mask_permutexvar_epi8(v, rows_k.rgb_is_b[o], _mm512_load_si512(rows_k.rgb_b[o]), p.b);
}

INLINE void store_rgb(struct rgb p, uint32_t left, uint8_t *out)
{
    if (HR_LIKELY(left >= 64)) {
        for (int o = 0; o < 3; o++)
            _mm512_storeu_si512(out + 64 * o, rgb_vector(p, o));
        return;
    }
    for (int o = 0; o < 3; o++) {
        unsigned bytes = 3 * left < 64u * (unsigned)o ? 0 : 3 * left - 64u * (unsigned)o;
        _mm512_mask_storeu_epi8(out + 64 * o, _bzhi_u64(~0ull, bytes < 64 ? bytes : 64), rgb_vector(p, o));
    }
}

/* 32 pixels, 16 bits each. The products with 16-bit constants, rounded at 2^15, are those of the tables
 * for each of the 256 possible samples (13172 for 91881 - 2^16, 29033 for 116130 / 4). */
INLINE struct rgb convert(vec y, vec u, vec v)
{
    const vec half = _mm512_set1_epi32(32768), factors = PAIR(-22554, 18734); /* 18734 = 65536 - 46802 */
    const __mmask64 low = 0x3333333333333333; /* words of each pair; the other one comes there */
    vec even_g = _mm512_dpwssd_epi32(half, _mm512_mask_multishift_epi64_epi8(u, ~low, rows_k.swap16, v), factors);
    vec odd_g = _mm512_dpwssd_epi32(half, _mm512_mask_multishift_epi64_epi8(v, low, rows_k.swap16, u), factors);
    vec g = _mm512_mask_multishift_epi64_epi8(odd_g, low, rows_k.swap16, even_g);

    return (struct rgb){
        .r = _mm512_add_epi16(_mm512_add_epi16(y, v), _mm512_mulhrs_epi16(v, _mm512_set1_epi16(13172))),
        .g = _mm512_add_epi16(_mm512_sub_epi16(y, v), g),
        .b = _mm512_add_epi16(y, _mm512_mulhrs_epi16(_mm512_add_epi16(u, u), _mm512_set1_epi16(29033))),
    };
}

/* The low or the high half of each lane, centred for chroma. */
INLINE vec low_half(vec v, vec offset)
{
    return _mm512_sub_epi16(_mm512_unpacklo_epi8(v, _mm512_setzero_si512()), offset);
}

INLINE vec high_half(vec v, vec offset)
{
    return _mm512_sub_epi16(_mm512_unpackhi_epi8(v, _mm512_setzero_si512()), offset);
}

INLINE struct rgb convert_64(const uint8_t *y, const uint8_t *cb, const uint8_t *cr)
{
    const vec zero = _mm512_setzero_si512(), centre = _mm512_set1_epi16(128);
    vec vy = _mm512_loadu_si512(y), vb = _mm512_loadu_si512(cb), vr = _mm512_loadu_si512(cr);
    struct rgb low = convert(low_half(vy, zero), low_half(vb, centre), low_half(vr, centre));
    struct rgb high = convert(high_half(vy, zero), high_half(vb, centre), high_half(vr, centre));

    return (struct rgb){_mm512_packus_epi16(low.r, high.r), _mm512_packus_epi16(low.g, high.g),
                        _mm512_packus_epi16(low.b, high.b)};
}

static void ycc_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count, uint8_t *rgb)
{
    for (uint32_t x = 0; x < count; x += 64, rgb += 192)
        store_rgb(convert_64(y + x, cb + x, cr + x), count - x, rgb);
}

static void ycc_to_planes(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count, uint8_t *const rgb[3])
{
    for (uint32_t x = 0; x < count; x += 64) {
        struct rgb p = convert_64(y + x, cb + x, cr + x);
        _mm512_storeu_si512(rgb[0] + x, p.r);
        _mm512_storeu_si512(rgb[1] + x, p.g);
        _mm512_storeu_si512(rgb[2] + x, p.b);
    }
}

static void interleave(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint32_t count, uint8_t *rgb)
{
    for (uint32_t x = 0; x < count; x += 64, rgb += 192) {
        struct rgb p = {_mm512_loadu_si512(r + x), _mm512_loadu_si512(g + x), _mm512_loadu_si512(b + x)};
        store_rgb(p, count - x, rgb);
    }
}

#endif
