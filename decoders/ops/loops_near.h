/* Loops over a pixel's neighbourhood: sharpness and blur. Part of loops.c, which is compiled once a CPU level. */
#ifndef HR_DECODERS_OPS_LOOPS_NEAR_H
#define HR_DECODERS_OPS_LOOPS_NEAR_H

#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "decoders/ops/loops_mix.h"

/* The smoothed byte is (sum of the nine + 4 x the middle) / 13, rounded. */
static inline void smooth_some(uint8_t *out, const uint8_t *up, const uint8_t *row, const uint8_t *down, size_t n,
                        size_t channels)
{
    const uint8_t *ul = up - channels, *ur = up + channels, *l = row - channels, *r = row + channels;
    const uint8_t *dl = down - channels, *dr = down + channels;

    for (size_t i = 0; i < n; i++) {
        uint16_t sum = (uint16_t)(ul[i] + up[i] + ur[i] + l[i] + 5 * row[i] + r[i] + dl[i] + down[i] + dr[i]);
        uint16_t twice = (uint16_t)(2 * sum + 13);
        out[i] = (uint8_t)((uint32_t)twice * 40330 >> 20); /* div 26, exact up to 6643 */
    }
}

static inline void sharpen(uint8_t *dst, const uint8_t *up, const uint8_t *row, const uint8_t *down,
                    size_t bytes, uint32_t channels, float factor)
{
    enum { SOME = 64 };
    uint8_t smooth[SOME];

    for (size_t at = channels; at + channels < bytes; at += SOME) {
        size_t n = bytes - channels - at;
        n = n < SOME ? n : SOME;
        smooth_some(smooth, up + at, row + at, down + at, n, channels);
        for (size_t i = 0; i < n; i++)
            dst[at + i] = mix(smooth[i], row[at + i], factor);
    }
}

/* To nearest, halves to even: adding 2^23 leaves no bits below one. */
static inline uint8_t round_byte(float v)
{
    v = v > 0 ? v : 0;
    v = v < 255 ? v : 255;
    v += 0x1p23f;
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return (uint8_t)bits;
}

/* Rows as wide as they are, so that sums do not wait for those before them. */
static inline void blur_rows_rest(float *acc, const uint8_t *const *up, const uint8_t *const *down,
                                  const float *weights, int reach, size_t at, size_t bytes)
{
    for (size_t i = at; i < bytes; i++)
        acc[i] = weights[0] * (float)up[0][i];
    for (int k = 1; k <= reach; k++)
        for (size_t i = at; i < bytes; i++)
            acc[i] += weights[k] * (float)(up[k][i] + down[k][i]);
}

static inline void blur_row_rest(uint8_t *dst, const float *row, const float *weights, int reach, size_t n,
                          uint32_t channels)
{
    enum { STRIP = 256 };
    float sum[STRIP];

    for (size_t at = 0; at < n; at += STRIP, row += STRIP) {
        size_t some = n - at < STRIP ? n - at : STRIP;
        for (size_t i = 0; i < some; i++)
            sum[i] = weights[0] * row[i];
        for (int k = 1; k <= reach; k++) {
            const float *a = row - (size_t)k * channels, *b = row + (size_t)k * channels;
            for (size_t i = 0; i < some; i++)
                sum[i] += weights[k] * (a[i] + b[i]);
        }
        for (size_t i = 0; i < some; i++)
            dst[at + i] = round_byte(sum[i]);
    }
}

#ifdef __AVX2__
/* 32 sums in registers. */
static inline void add_bytes(__m256 sum[4], const uint8_t *a, const uint8_t *b, __m256 weight)
{
    for (int k = 0; k < 2; k++) {
        __m256i two = _mm256_add_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(a + 16 * k))),
                                       _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(b + 16 * k))));
        __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(two)));
        __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(two, 1)));
        sum[2 * k] = _mm256_add_ps(sum[2 * k], _mm256_mul_ps(weight, low));
        sum[2 * k + 1] = _mm256_add_ps(sum[2 * k + 1], _mm256_mul_ps(weight, high));
    }
}

static inline void blur_rows(float *acc, const uint8_t *const *up, const uint8_t *const *down,
                      const float *weights, int reach, size_t bytes)
{
    static const uint8_t nothing[32] = {0};
    size_t at = 0;

    for (; at + 32 <= bytes; at += 32) {
        __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
        add_bytes(sum, up[0] + at, nothing, _mm256_set1_ps(weights[0]));
        for (int k = 1; k <= reach; k++)
            add_bytes(sum, up[k] + at, down[k] + at, _mm256_set1_ps(weights[k]));
        for (int k = 0; k < 4; k++)
            _mm256_storeu_ps(acc + at + 8 * k, sum[k]);
    }
    blur_rows_rest(acc, up, down, weights, reach, at, bytes);
}

static inline __m128i round_bytes(const __m256 sum[2])
{
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(sum[0]), _mm256_cvtps_epi32(sum[1]));

    words = _mm256_permute4x64_epi64(words, 0xd8);
    return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

static inline void blur_row(uint8_t *dst, const float *row, const float *weights, int reach, size_t bytes,
                     uint32_t channels)
{
    size_t at = 0;

    for (; at + 32 <= bytes; at += 32) {
        __m256 sum[4];
        for (int i = 0; i < 4; i++)
            sum[i] = _mm256_mul_ps(_mm256_set1_ps(weights[0]), _mm256_loadu_ps(row + at + 8 * i));
        for (int k = 1; k <= reach; k++) {
            const float *a = row + at - (size_t)k * channels, *b = row + at + (size_t)k * channels;
            __m256 weight = _mm256_set1_ps(weights[k]);
            for (int i = 0; i < 4; i++) {
                __m256 two = _mm256_add_ps(_mm256_loadu_ps(a + 8 * i), _mm256_loadu_ps(b + 8 * i));
                sum[i] = _mm256_add_ps(sum[i], _mm256_mul_ps(weight, two));
            }
        }
        _mm_storeu_si128((__m128i *)(dst + at), round_bytes(sum));
        _mm_storeu_si128((__m128i *)(dst + at + 16), round_bytes(sum + 2));
    }
    blur_row_rest(dst + at, row + at, weights, reach, bytes - at, channels);
}
#else
static inline void blur_rows(float *acc, const uint8_t *const *up, const uint8_t *const *down,
                      const float *weights, int reach, size_t bytes)
{
    blur_rows_rest(acc, up, down, weights, reach, 0, bytes);
}

static inline void blur_row(uint8_t *dst, const float *row, const float *weights, int reach, size_t bytes,
                     uint32_t channels)
{
    blur_row_rest(dst, row, weights, reach, bytes, channels);
}
#endif

#endif
