/* The inner loops of pixel ops. This file is compiled once a CPU level (HR_LOOPS_NAME names its table):
 * plain loops that the compiler turns into vectors, and by hand what it does not see: bytes that change
 * places, and sums in registers. */
#include "decoders/ops/loops.h"

#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "decoders/ops/loops_colour.h"
#include "decoders/ops/loops_near.h"

/* ---- tables ---- */

#ifdef __AVX512VBMI__
static inline __m512i look_up(const uint8_t *table, __m512i at)
{
    __m512i lo = _mm512_permutex2var_epi8(_mm512_loadu_si512(table), at, _mm512_loadu_si512(table + 64));
    __m512i hi = _mm512_permutex2var_epi8(_mm512_loadu_si512(table + 128), at,
                                          _mm512_loadu_si512(table + 192));

    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), lo, hi);
}

/* 64 bytes at a time, each channel's table under the mask of its places; three such steps are a period. */
static void table(uint8_t *p, size_t count, uint32_t channels, const uint8_t tables[3][256])
{
    size_t bytes = count * channels, i = 0;
    bool same = channels == 1 || (memcmp(tables[0], tables[1], 256) == 0 && memcmp(tables[0], tables[2], 256) == 0);
    static const uint64_t places = UINT64_C(0x9249249249249249); /* every third from 0 */

    for (; same && i + 64 <= bytes; i += 64)
        _mm512_storeu_si512(p + i, look_up(tables[0], _mm512_loadu_si512(p + i)));
    for (; !same && i + 64 <= bytes; i += 64) {
        unsigned first = (unsigned)(i % 3); /* channel of byte 0 */
        __m512i at = _mm512_loadu_si512(p + i), v = look_up(tables[first], at);
        v = _mm512_mask_mov_epi8(v, places << 1, look_up(tables[(first + 1) % 3], at));
        v = _mm512_mask_mov_epi8(v, places << 2, look_up(tables[(first + 2) % 3], at));
        _mm512_storeu_si512(p + i, v);
    }
    for (; i < bytes; i++)
        p[i] = tables[channels == 1 ? 0 : i % 3][p[i]];
}
#else
static void table(uint8_t *p, size_t count, uint32_t channels, const uint8_t tables[3][256])
{
    if (channels == 1) {
        for (size_t i = 0; i < count; i++)
            p[i] = tables[0][p[i]];
        return;
    }
    for (size_t i = 0; i < count; i++, p += 3) {
        p[0] = tables[0][p[0]];
        p[1] = tables[1][p[1]];
        p[2] = tables[2][p[2]];
    }
}
#endif

/* ---- warps ---- */

/* Four bytes a pixel, the last one into the next pixel, which comes after it; what is behind the last is kept. */
static void warp_nearest_rgb(uint8_t *dst, const struct hr_warp *p, uint32_t from, uint32_t to)
{
    int64_t u = p->u + p->du * from, v = p->v + p->dv * from;
    size_t stride = (size_t)p->w * 3;
    uint8_t *d = dst + (size_t)from * 3, *end = dst + (size_t)to * 3, behind = *end;

    for (; d < end; d += 3, u += p->du, v += p->dv)
        memcpy(d, p->src + (size_t)(v >> 32) * stride + (size_t)(u >> 32) * 3, 4);
    *end = behind;
}

static void warp_nearest(uint8_t *dst, const struct hr_warp *p, uint32_t from, uint32_t to)
{
    int64_t u = p->u + p->du * from, v = p->v + p->dv * from;

    if (p->channels == 3) {
        warp_nearest_rgb(dst, p, from, to);
        return;
    }
    for (uint32_t x = from; x < to; x++, u += p->du, v += p->dv)
        dst[x] = p->src[(size_t)(v >> 32) * p->w + (size_t)(u >> 32)];
}

/* Weights of 12 bits; centres of pixels are at halves, and beyond the outer ones their value goes on. */
static inline size_t split(int64_t at, uint32_t side, uint32_t *weight, bool *more)
{
    at -= INT64_C(1) << 31;
    *weight = at < 0 ? 0 : (uint32_t)at >> 20;
    size_t i = at < 0 ? 0 : (size_t)(at >> 32);
    *more = at >= 0 && i + 1 < side;
    return i;
}

#ifdef __AVX2__
/* The four pixels' channels in pairs, so that one multiply-and-add weighs a row. */
static void warp_bilinear_rgb(uint8_t *dst, const struct hr_warp *p, uint32_t from, uint32_t to)
{
    const __m128i pairs = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
    const __m128i tops = _mm_setr_epi8(3, 7, 11, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    int64_t u = p->u + p->du * from, v = p->v + p->dv * from;
    size_t stride = (size_t)p->w * 3;
    uint8_t *d = dst + (size_t)from * 3, *end = dst + (size_t)to * 3, behind = *end;

    for (; d < end; d += 3, u += p->du, v += p->dv) {
        uint32_t fx, fy;
        bool right, below;
        size_t ix = split(u, p->w, &fx, &right), iy = split(v, p->h, &fy, &below);
        const uint8_t *a = p->src + iy * stride + ix * 3, *b = a + (below ? stride : 0);
        fx = right ? fx : 0; /* then what is read beyond the row weighs nothing */
        __m128i across = _mm_set1_epi32((int)(fx << 16 | (4096 - fx)));
        __m128i top = _mm_madd_epi16(_mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)a), pairs), across);
        __m128i low = _mm_madd_epi16(_mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)b), pairs), across);
        __m128i sum = _mm_add_epi32(_mm_mullo_epi32(top, _mm_set1_epi32((int)(4096 - fy))),
                                    _mm_mullo_epi32(low, _mm_set1_epi32((int)fy)));
        uint32_t pixel = (uint32_t)_mm_cvtsi128_si32(_mm_shuffle_epi8(sum, tops));
        memcpy(d, &pixel, 4);
    }
    *end = behind;
}
#endif

static void warp_bilinear(uint8_t *dst, const struct hr_warp *p, uint32_t from, uint32_t to)
{
#ifdef __AVX2__
    if (p->channels == 3) {
        warp_bilinear_rgb(dst, p, from, to);
        return;
    }
#endif
    int64_t u = p->u + p->du * from, v = p->v + p->dv * from;
    size_t stride = (size_t)p->w * p->channels;

    for (uint32_t x = from; x < to; x++, u += p->du, v += p->dv) {
        uint32_t fx, fy;
        bool right, below;
        size_t ix = split(u, p->w, &fx, &right), iy = split(v, p->h, &fy, &below);
        const uint8_t *a = p->src + iy * stride + ix * p->channels, *b = a + (below ? stride : 0);
        size_t next = right ? p->channels : 0;
        uint8_t *d = dst + (size_t)x * p->channels;
        for (uint32_t c = 0; c < p->channels; c++) {
            uint32_t top = a[c] * (4096 - fx) + a[c + next] * fx;
            uint32_t low = b[c] * (4096 - fx) + b[c + next] * fx;
            d[c] = (uint8_t)((top * (4096 - fy) + low * fy) >> 24);
        }
    }
}

/* Of the four pixels around a point, the cubic through the middle two with the slopes of their neighbours. */
static inline int64_t cubic_weights(int64_t at, float w[4])
{
    at -= INT64_C(1) << 31;
    float t = (float)((uint32_t)at >> 8) * 0x1p-24f, t2 = t * t, t3 = t2 * t;

    w[0] = 2 * t2 - t - t3;
    w[1] = 1 - 2 * t2 + t3;
    w[2] = t + t2 - t3;
    w[3] = t3 - t2;
    return (at >> 32) - 1;
}

static inline int64_t cut_index(int64_t i, uint32_t side)
{
    return i < 0 ? 0 : i >= side ? (int64_t)side - 1 : i;
}

/* The row's four pixels; where some lie outside, the outer ones go on. Readable 16 bytes on. */
static inline const uint8_t *four_pixels(const struct hr_warp *p, int64_t x, int64_t y, uint32_t channels,
                                         uint8_t room[16])
{
    const uint8_t *row = p->src + (size_t)cut_index(y, p->h) * p->w * channels;

    if (x >= 0 && x + 3 < p->w)
        return row + (size_t)x * channels;
    memset(room, 0, 16);
    for (int i = 0; i < 4; i++)
        memcpy(room + (size_t)i * channels, row + (size_t)cut_index(x + i, p->w) * channels, channels);
    return room;
}

#ifdef __AVX2__
static inline __m256 eight_floats(const uint8_t *bytes)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)bytes)));
}
#endif

/* Columns first. Where nothing changes the weights add up to nearly 1: what is missing must not cost a step. */
static inline void cubic_pixel(uint8_t *dst, const struct hr_warp *p, int64_t u, int64_t v, uint32_t channels)
{
    uint8_t room[4][16];
    const uint8_t *rows[4];
    float across[4], along[4], column[16];
    int64_t x = cubic_weights(u, across), y = cubic_weights(v, along);

    for (int i = 0; i < 4; i++)
        rows[i] = four_pixels(p, x, y + i, channels, room[i]);
#ifdef __AVX2__
    for (int i = 0; i < 16; i += 8) {
        __m256 sum = _mm256_mul_ps(_mm256_set1_ps(along[0]), eight_floats(rows[0] + i));
        for (int k = 1; k < 4; k++)
            sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_set1_ps(along[k]), eight_floats(rows[k] + i)));
        _mm256_storeu_ps(column + i, sum);
    }
#else
    for (int i = 0; i < 16; i++)
        column[i] = along[0] * (float)rows[0][i] + along[1] * (float)rows[1][i] + along[2] * (float)rows[2][i] +
                    along[3] * (float)rows[3][i];
#endif
    for (uint32_t c = 0; c < channels; c++) {
        float sum = across[0] * column[c] + across[1] * column[channels + c] + across[2] * column[2 * channels + c] +
                    across[3] * column[3 * channels + c] + 0x1p-9f;
        dst[c] = sum <= 0 ? 0 : sum >= 255 ? 255 : (uint8_t)sum;
    }
}

static void warp_bicubic(uint8_t *dst, const struct hr_warp *p, uint32_t from, uint32_t to)
{
    int64_t u = p->u + p->du * from, v = p->v + p->dv * from;

    if (p->channels == 3)
        for (uint32_t x = from; x < to; x++, u += p->du, v += p->dv)
            cubic_pixel(dst + (size_t)x * 3, p, u, v, 3);
    else
        for (uint32_t x = from; x < to; x++, u += p->du, v += p->dv)
            cubic_pixel(dst + x, p, u, v, 1);
}

const struct hr_loops HR_LOOPS_NAME = {
    .table = table,
    .luma_sum = luma_sum,
    .grayscale = grayscale,
    .saturate = saturate,
    .hue = hue,
    .sharpen = sharpen,
    .blur_rows = blur_rows,
    .blur_row = blur_row,
    .warp_nearest = warp_nearest,
    .warp_bilinear = warp_bilinear,
    .warp_bicubic = warp_bicubic,
};
