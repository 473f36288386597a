/* Loops that need the three channels of a pixel: luma, saturation, hue. Part of loops.c, which is compiled once a
 * CPU level. */
#ifndef HR_DECODERS_OPS_LOOPS_COLOUR_H
#define HR_DECODERS_OPS_LOOPS_COLOUR_H

#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "decoders/ops/loops_mix.h"

static inline uint32_t luma(uint32_t r, uint32_t g, uint32_t b)
{
    return (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
}

enum { BLOCK = 64 };

struct planes {
    uint8_t r[BLOCK], g[BLOCK], b[BLOCK];
};

#ifdef __AVX2__
/* Which of 48 bytes go where: 16 pixels apart. Byte k of channel c is byte 3 k + c. */
static inline __m128i gathered(const __m128i in[3], int c)
{
    __m128i out = _mm_setzero_si128();
    const __m128i at = _mm_add_epi8(_mm_set1_epi8((char)c), _mm_setr_epi8(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30,
                                                                          33, 36, 39, 42, 45));

    for (int i = 0; i < 3; i++) { /* indices of other registers become negative: a zero */
        __m128i own = _mm_sub_epi8(at, _mm_set1_epi8((char)(16 * i)));
        __m128i above = _mm_cmpgt_epi8(own, _mm_set1_epi8(15));
        out = _mm_or_si128(out, _mm_shuffle_epi8(in[i], _mm_or_si128(own, above)));
    }
    return out;
}

static inline void split_block(struct planes *p, const uint8_t *rgb)
{
    for (int k = 0; k < BLOCK; k += 16, rgb += 48) {
        const __m128i in[3] = {_mm_loadu_si128((const __m128i *)rgb), _mm_loadu_si128((const __m128i *)(rgb + 16)),
                               _mm_loadu_si128((const __m128i *)(rgb + 32))};
        _mm_storeu_si128((__m128i *)(p->r + k), gathered(in, 0));
        _mm_storeu_si128((__m128i *)(p->g + k), gathered(in, 1));
        _mm_storeu_si128((__m128i *)(p->b + k), gathered(in, 2));
    }
}

/* Byte i of 48 is channel i % 3 of pixel i / 3. */
static inline __m128i scattered(__m128i r, __m128i g, __m128i b, int part)
{
    static const int8_t pixel[48] = {0,  0,  0,  1,  1,  1,  2,  2,  2,  3,  3,  3,  4,  4,  4,  5,
                                     5,  5,  6,  6,  6,  7,  7,  7,  8,  8,  8,  9,  9,  9,  10, 10,
                                     10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15, 15};
    static const int8_t every_third[18] = {-1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0};
    __m128i at = _mm_loadu_si128((const __m128i *)(pixel + 16 * part));
    /* the first byte of part 1 is channel 1, of part 2 channel 2 */
    __m128i is_r = _mm_loadu_si128((const __m128i *)(every_third + part));
    __m128i is_g = _mm_loadu_si128((const __m128i *)(every_third + (part + 2) % 3));
    __m128i v = _mm_shuffle_epi8(b, at);

    v = _mm_blendv_epi8(v, _mm_shuffle_epi8(g, at), is_g);
    return _mm_blendv_epi8(v, _mm_shuffle_epi8(r, at), is_r);
}

static inline void join_block(uint8_t *rgb, const struct planes *p)
{
    for (int k = 0; k < BLOCK; k += 16, rgb += 48) {
        __m128i r = _mm_loadu_si128((const __m128i *)(p->r + k)), g = _mm_loadu_si128((const __m128i *)(p->g + k));
        __m128i b = _mm_loadu_si128((const __m128i *)(p->b + k));
        for (int part = 0; part < 3; part++)
            _mm_storeu_si128((__m128i *)(rgb + 16 * part), scattered(r, g, b, part));
    }
}
#else
static inline void split_block(struct planes *p, const uint8_t *rgb)
{
    for (int i = 0; i < BLOCK; i++, rgb += 3) {
        p->r[i] = rgb[0];
        p->g[i] = rgb[1];
        p->b[i] = rgb[2];
    }
}

static inline void join_block(uint8_t *rgb, const struct planes *p)
{
    for (int i = 0; i < BLOCK; i++, rgb += 3) {
        rgb[0] = p->r[i];
        rgb[1] = p->g[i];
        rgb[2] = p->b[i];
    }
}
#endif

/* The last block goes through a buffer; what is behind its pixels is black. */
static inline void split_some(struct planes *p, const uint8_t *rgb, size_t n)
{
    uint8_t some[BLOCK * 3] = {0};

    if (n < BLOCK) {
        memcpy(some, rgb, n * 3);
        rgb = some;
    }
    split_block(p, rgb);
}

static inline void join_some(uint8_t *rgb, const struct planes *p, size_t n)
{
    uint8_t some[BLOCK * 3];

    if (n >= BLOCK) {
        join_block(rgb, p);
        return;
    }
    join_block(some, p);
    memcpy(rgb, some, n * 3);
}

static inline void luma_block(uint8_t l[BLOCK], const struct planes *p)
{
    for (int i = 0; i < BLOCK; i++)
        l[i] = (uint8_t)luma(p->r[i], p->g[i], p->b[i]);
}

static inline uint64_t luma_sum(const uint8_t *rgb, size_t count)
{
    uint64_t sum = 0;
    struct planes p;

    for (size_t at = 0; at < count; at += BLOCK) {
        uint32_t part = 0; /* black adds nothing */
        split_some(&p, rgb + 3 * at, count - at);
        for (int i = 0; i < BLOCK; i++)
            part += luma(p.r[i], p.g[i], p.b[i]);
        sum += part;
    }
    return sum;
}

static inline void grayscale(uint8_t *rgb, size_t count)
{
    struct planes p;

    for (size_t at = 0; at < count; at += BLOCK) {
        split_some(&p, rgb + 3 * at, count - at);
        luma_block(p.r, &p);
        memcpy(p.g, p.r, BLOCK);
        memcpy(p.b, p.r, BLOCK);
        join_some(rgb + 3 * at, &p, count - at);
    }
}

static inline void mix_block(uint8_t to[BLOCK], const uint8_t from[BLOCK], float factor)
{
    for (int i = 0; i < BLOCK; i++)
        to[i] = mix(from[i], to[i], factor);
}

static inline void saturate(uint8_t *rgb, size_t count, float factor)
{
    uint8_t l[BLOCK];
    struct planes p;

    for (size_t at = 0; at < count; at += BLOCK) {
        split_some(&p, rgb + 3 * at, count - at);
        luma_block(l, &p);
        mix_block(p.r, l, factor);
        mix_block(p.g, l, factor);
        mix_block(p.b, l, factor);
        join_some(rgb + 3 * at, &p, count - at);
    }
}

/* Hue and saturation as bytes. With x, y the two channels whose order sets the sign, one of them is the
 * lowest, so h = base + 1 - frac or base - 1 + frac. In this order single precision gives Pillow's bytes, whose
 * sums are in double: checked for all colours. */
static inline void to_hsv(const int red[BLOCK], const int green[BLOCK], const int blue[BLOCK],
                   int *restrict hue, int *restrict sat, int *restrict val)
{
    for (int i = 0; i < BLOCK; i++) {
        int r = red[i], g = green[i], b = blue[i];
        int top = r > g ? r : g, low = r < g ? r : g;
        top = top > b ? top : b;
        low = low < b ? low : b;
        int spread = top - low;
        int x = r == top ? b : g == top ? r : g, y = r == top ? g : g == top ? b : r;
        int base = r == top ? 0 : g == top ? 2 : 4, mid = x == low ? y : x;
        float frac = (float)(top - mid) / (float)(spread > 0 ? spread : 1);
        float h = x == low ? (float)(base + 1) - frac : (float)(base - 1) + frac;
        float turn = h / 6.0f;
        turn = turn < 0 ? turn + 1.0f : turn;
        hue[i] = spread > 0 ? (int)(turn * 255.0f) : 0;
        sat[i] = (int)((float)spread / (float)(top > 0 ? top : 1) * 255.0f);
        val[i] = top;
    }
}

/* Also checked for all hues, saturations and values. */
static inline void from_hsv(const int hue[BLOCK], const int sat[BLOCK], const int val[BLOCK],
                     int *restrict red, int *restrict green, int *restrict blue)
{
    for (int i = 0; i < BLOCK; i++) {
        int at = hue[i] * 6, sector = (at + 1 + (at >> 8)) >> 8; /* div 255 */
        float f = (float)(at - sector * 255) * (1.0f / 255), s = (float)sat[i] * (1.0f / 255);
        float v = (float)val[i];
        int top = val[i], low = (int)(v - v * s + 0.5f);
        int down = (int)(v - v * (s * f) + 0.5f), up = (int)(v - v * (s - s * f) + 0.5f);
        sector = sector == 6 ? 0 : sector;
        red[i] = sector == 0 || sector == 5 ? top : sector == 1 ? down : sector == 4 ? up : low;
        green[i] = sector == 1 || sector == 2 ? top : sector == 0 ? up : sector == 3 ? down : low;
        blue[i] = sector == 3 || sector == 4 ? top : sector == 2 ? up : sector == 5 ? down : low;
    }
}

static inline void hue(uint8_t *rgb, size_t count, uint8_t shift)
{
    int h[BLOCK], s[BLOCK], v[BLOCK], r[BLOCK], g[BLOCK], b[BLOCK];
    struct planes p;

    for (size_t at = 0; at < count; at += BLOCK) {
        split_some(&p, rgb + 3 * at, count - at);
        for (int i = 0; i < BLOCK; i++) {
            r[i] = p.r[i];
            g[i] = p.g[i];
            b[i] = p.b[i];
        }
        to_hsv(r, g, b, h, s, v);
        for (int i = 0; i < BLOCK; i++)
            h[i] = (h[i] + shift) & 255;
        from_hsv(h, s, v, r, g, b);
        for (int i = 0; i < BLOCK; i++) {
            p.r[i] = (uint8_t)r[i];
            p.g[i] = (uint8_t)g[i];
            p.b[i] = (uint8_t)b[i];
        }
        join_some(rgb + 3 * at, &p, count - at);
    }
}

#endif
