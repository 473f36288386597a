/* The inner loops of pixel ops. This file is compiled once a CPU level (HR_LOOPS_NAME names its table):
 * plain loops that the compiler turns into vectors, and the one thing it cannot see by itself, tables of
 * 256 entries in registers. */
#include "decoders/ops/loops.h"

#include <string.h>

#ifdef __AVX512VBMI__
#include <immintrin.h>
#endif

static uint32_t luma(uint32_t r, uint32_t g, uint32_t b)
{
    return (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
}

/* a + factor (b - a), cut to 0..255 and then to a whole number: how all mixing of pictures is rounded. */
static inline uint8_t mix(uint32_t a, uint32_t b, float factor)
{
    float v = (float)(int)a + factor * (float)((int)b - (int)a);

    v = v > 0 ? v : 0;
    v = v < 255 ? v : 255;
    return (uint8_t)(int)v;
}

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

/* ---- luma ---- */

static uint64_t luma_sum(const uint8_t *p, size_t count)
{
    uint64_t sum = 0;

    while (count) {
        size_t n = count < 65536 ? count : 65536;
        uint32_t part = 0;
        for (size_t i = 0; i < n; i++)
            part += luma(p[3 * i], p[3 * i + 1], p[3 * i + 2]);
        sum += part;
        p += 3 * n;
        count -= n;
    }
    return sum;
}

static void grayscale(uint8_t *p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t l = (uint8_t)luma(p[3 * i], p[3 * i + 1], p[3 * i + 2]);
        p[3 * i] = p[3 * i + 1] = p[3 * i + 2] = l;
    }
}

static void saturate(uint8_t *p, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t r = p[3 * i], g = p[3 * i + 1], b = p[3 * i + 2], l = luma(r, g, b);
        p[3 * i] = mix(l, r, factor);
        p[3 * i + 1] = mix(l, g, factor);
        p[3 * i + 2] = mix(l, b, factor);
    }
}

/* ---- hue ---- */

enum { BLOCK = 64 };

struct planes {
    int r[BLOCK], g[BLOCK], b[BLOCK];
};

/* Hue and saturation as bytes, as the sector of the largest channel and the others' distances from it
 * give them. Rounding is that of single precision with products in double. */
static void to_hsv(const struct planes *p, int hue[BLOCK], int sat[BLOCK], int val[BLOCK])
{
    for (int i = 0; i < BLOCK; i++) {
        int r = p->r[i], g = p->g[i], b = p->b[i];
        int top = r > g ? r : g, low = r < g ? r : g;
        top = top > b ? top : b;
        low = low < b ? low : b;
        int spread = top - low, some = spread ? spread : 1;
        float rc = (float)(top - r) / (float)some, gc = (float)(top - g) / (float)some;
        float bc = (float)(top - b) / (float)some;
        float h0 = bc - gc, h1 = (float)(2.0 + (double)rc - (double)bc);
        float h2 = (float)(4.0 + (double)gc - (double)rc);
        float h = r == top ? h0 : g == top ? h1 : h2;
        double turn = (double)h / 6.0 + 1.0;
        float whole = (float)(turn >= 1.0 ? turn - 1.0 : turn);
        hue[i] = spread ? (int)((double)whole * 255.0) : 0;
        float s = (float)spread / (float)(top ? top : 1);
        sat[i] = (int)((double)s * 255.0);
        val[i] = top;
    }
}

static void from_hsv(const int hue[BLOCK], const int sat[BLOCK], const int val[BLOCK], struct planes *p)
{
    for (int i = 0; i < BLOCK; i++) {
        double at = (double)((float)hue[i]) * 6.0 / 255.0;
        int sector = (int)at;
        float f = (float)(at - (double)sector), fs = (float)((double)sat[i] / 255.0);
        double v = (double)val[i];
        int low = (int)(v * (1.0 - (double)fs) + 0.5);
        int down = (int)(v * (1.0 - (double)(fs * f)) + 0.5);
        int up = (int)(v * (1.0 - (double)fs * (1.0 - (double)f)) + 0.5);
        int top = val[i];
        sector = sector == 6 ? 0 : sector;
        p->r[i] = sector == 0 || sector == 5 ? top : sector == 1 ? down : sector == 4 ? up : low;
        p->g[i] = sector == 1 || sector == 2 ? top : sector == 0 ? up : sector == 3 ? down : low;
        p->b[i] = sector == 3 || sector == 4 ? top : sector == 2 ? up : sector == 5 ? down : low;
    }
}

static void hue(uint8_t *pixels, size_t count, uint8_t shift)
{
    struct planes p = {{0}, {0}, {0}};
    int h[BLOCK], s[BLOCK], v[BLOCK];

    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        uint8_t *row = pixels + at * 3;
        for (size_t i = 0; i < n; i++) {
            p.r[i] = row[3 * i];
            p.g[i] = row[3 * i + 1];
            p.b[i] = row[3 * i + 2];
        }
        to_hsv(&p, h, s, v);
        for (int i = 0; i < BLOCK; i++)
            h[i] = (h[i] + shift) & 255;
        from_hsv(h, s, v, &p);
        for (size_t i = 0; i < n; i++) {
            row[3 * i] = (uint8_t)p.r[i];
            row[3 * i + 1] = (uint8_t)p.g[i];
            row[3 * i + 2] = (uint8_t)p.b[i];
        }
    }
}

/* ---- neighbours ---- */

/* The smoothed pixel is (sum of the nine + 4 x the middle) / 13, rounded. */
static void sharpen(uint8_t *dst, const uint8_t *up, const uint8_t *row, const uint8_t *down,
                    size_t bytes, uint32_t channels, float factor)
{
    for (size_t i = channels; i + channels < bytes; i++) {
        size_t l = i - channels, r = i + channels;
        uint32_t sum = (uint32_t)up[l] + up[i] + up[r] + row[l] + 5u * row[i] + row[r] + down[l] +
                       down[i] + down[r];
        dst[i] = mix((2 * sum + 13) / 26, row[i], factor);
    }
}

static void blur_rows(float *acc, const uint8_t *const *up, const uint8_t *const *down,
                      const float *weights, int reach, size_t bytes)
{
    const uint8_t *middle = up[0];

    for (size_t i = 0; i < bytes; i++)
        acc[i] = weights[0] * (float)middle[i];
    for (int k = 1; k <= reach; k++) {
        const uint8_t *a = up[k], *b = down[k];
        float weight = weights[k];
        for (size_t i = 0; i < bytes; i++)
            acc[i] += weight * (float)(a[i] + b[i]);
    }
}

enum { STRIP = 64 };

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

static void blur_row(uint8_t *dst, const float *row, const float *weights, int reach, size_t bytes,
                     uint32_t channels)
{
    float acc[STRIP];

    for (size_t at = 0; at < bytes; at += STRIP) {
        size_t n = bytes - at < STRIP ? bytes - at : STRIP;
        const float *middle = row + at;
        for (size_t i = 0; i < n; i++)
            acc[i] = weights[0] * middle[i];
        for (int k = 1; k <= reach; k++) {
            const float *a = middle - (size_t)k * channels, *b = middle + (size_t)k * channels;
            for (size_t i = 0; i < n; i++)
                acc[i] += weights[k] * (a[i] + b[i]);
        }
        for (size_t i = 0; i < n; i++)
            dst[at + i] = round_byte(acc[i]);
    }
}

/* ---- warps ---- */

static void warp_nearest(uint8_t *dst, const struct hr_warp *p, uint32_t from, uint32_t to)
{
    int64_t u = p->u + p->du * from, v = p->v + p->dv * from;
    size_t stride = (size_t)p->w * p->channels;

    for (uint32_t x = from; x < to; x++, u += p->du, v += p->dv) {
        const uint8_t *s = p->src + (size_t)(v >> 32) * stride + (size_t)(u >> 32) * p->channels;
        uint8_t *d = dst + (size_t)x * p->channels;
        d[0] = s[0];
        if (p->channels == 3) {
            d[1] = s[1];
            d[2] = s[2];
        }
    }
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

static void warp_bilinear(uint8_t *dst, const struct hr_warp *p, uint32_t from, uint32_t to)
{
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
};
