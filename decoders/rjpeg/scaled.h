/* The inverse transform at reduced size, sixteen blocks (a tile) side by side: to 4x4, 2x2 and 1x1 samples a
 * block, bit for bit what libjpeg's scaled decode gives (the transforms of jidctred.c, by Thomas G. Lane
 * after Loeffler, Ligtenberg and Moschytz; sums of products with 13-bit constants, rounded alike). Written
 * with vectors of the compiler, so that each CPU level compiles its own copy. Quantizers of any size.
 *
 * A block is a column of the vectors here: coef[n] holds coefficient n (natural order) of all blocks. */
#ifndef HR_DECODERS_RJPEG_SCALED_H
#define HR_DECODERS_RJPEG_SCALED_H

#include <string.h>

#include "rjpeg/layout.h"

typedef uint32_t rj_bits __attribute__((vector_size(4 * RJ_TILE_BLOCKS)));
typedef int16_t rj_words __attribute__((vector_size(2 * RJ_TILE_BLOCKS)));
typedef uint16_t rj_halves __attribute__((vector_size(2 * RJ_TILE_BLOCKS)));
typedef int32_t rj_sums __attribute__((vector_size(4 * RJ_TILE_BLOCKS)));

enum { RJ_SCALED_SCRATCH_BYTES = 16 << 10 };

struct rj_blocks {
    _Alignas(64) int16_t coef[64][RJ_TILE_BLOCKS]; /* dequantized */
};

/* Values of a tile at their places; those that the transform does not look at (at 1/2 row and column 4, at 1/4
 * more) cost less than leaving them out. mask, first and dc are those of a parsed tile; values are all of it
 * up to block end, exceptions put in. */
static inline void rj_blocks_place(struct rj_blocks *b, const uint16_t quantizer[64], const uint64_t *mask,
                                   const uint16_t *first, const int16_t *values, uint32_t from, uint32_t end)
{
    memset(b->coef + 1, 0, sizeof(b->coef) - sizeof(b->coef[0]));
    for (uint32_t i = from; i < end; i++) {
        const int16_t *v = values + first[i];
        for (uint64_t m = mask[i]; m; m &= m - 1) {
            unsigned j = (unsigned)__builtin_ctzll(m), n = rj_natural_order[i & 1 ? 63 - j : j];
            b->coef[n][i] = (int16_t)((int)quantizer[n] * *v++);
        }
    }
}

static inline rj_sums rj_widen(const int16_t *words)
{
    rj_words v;

    memcpy(&v, words, sizeof(v));
    return __builtin_convertvector(v, rj_sums);
}

/* (v >> shift) + 128, clamped to a sample. */
static inline rj_sums rj_samples(rj_sums v, int shift)
{
    v = (v >> shift) + 128;
    v &= ~(v >> 31);         /* below 0 */
    v |= (255 - v) >> 31;    /* above 255: all ones */
    return v & 255;
}

/* Modulo 2^32: the blocks of damaged tiles give sums of any size. */
static inline rj_bits rj_times(rj_sums x, int32_t factor)
{
    return (rj_bits)x * (uint32_t)factor;
}

/* Four outputs of inputs 0, 1, 2, 3, 5, 6, 7. */
static inline void rj_transform4(const rj_sums x[8], uint32_t round, rj_sums out[4])
{
    rj_bits even = rj_times(x[0], 16384) + round, turn = rj_times(x[2], 15137) + rj_times(x[6], -6270);
    rj_bits o0 = rj_times(x[7], -1730) + rj_times(x[5], 11893) + rj_times(x[3], -17799) + rj_times(x[1], 8697);
    rj_bits o2 = rj_times(x[7], -4176) + rj_times(x[5], -4926) + rj_times(x[3], 7373) + rj_times(x[1], 20995);

    out[0] = (rj_sums)(even + turn + o2);
    out[3] = (rj_sums)(even + turn - o2);
    out[1] = (rj_sums)(even - turn + o0);
    out[2] = (rj_sums)(even - turn - o0);
}

/* Two outputs of inputs 0, 1, 3, 5, 7. */
static inline void rj_transform2(const rj_sums x[8], uint32_t round, rj_sums out[2])
{
    rj_bits even = rj_times(x[0], 32768) + round;
    rj_bits odd = rj_times(x[7], -5906) + rj_times(x[5], 6967) + rj_times(x[3], -10426) + rj_times(x[1], 29692);

    out[0] = (rj_sums)(even + odd);
    out[1] = (rj_sums)(even - odd);
}

/* DCs times the quantizer, modulo 2^16. */
static inline rj_words rj_dequantize(const int16_t *dc, unsigned quantizer)
{
    rj_halves v;

    memcpy(&v, dc, sizeof(v));
    return (rj_words)(v * (uint16_t)quantizer);
}

static inline void rj_inverse4(const struct rj_blocks *b, uint8_t *out, size_t stride)
{
    rj_sums lines[4][8], column[8], o[4];

    for (int c = 0; c < 8; c++) {
        if (c == 4)
            continue;
        for (int r = 0; r < 8; r++)
            column[r] = rj_widen(b->coef[8 * r + c]);
        rj_transform4(column, 1 << 11, o);
        for (int r = 0; r < 4; r++)
            lines[r][c] = o[r] >> 12;
    }
    for (int r = 0; r < 4; r++, out += stride) {
        rj_transform4(lines[r], 1 << 18, o);
        rj_bits four = (rj_bits)rj_samples(o[0], 19) | (rj_bits)rj_samples(o[1], 19) << 8 |
                       (rj_bits)rj_samples(o[2], 19) << 16 | (rj_bits)rj_samples(o[3], 19) << 24;
        memcpy(out, &four, sizeof(four));
    }
}

static inline void rj_inverse2(const struct rj_blocks *b, uint8_t *out, size_t stride)
{
    rj_sums lines[2][8], column[8], o[2];

    for (int c = 0; c < 8; c = c ? c + 2 : 1) {
        for (int r = 0; r < 8; r = r ? r + 2 : 1)
            column[r] = rj_widen(b->coef[8 * r + c]);
        rj_transform2(column, 1 << 12, o);
        for (int r = 0; r < 2; r++)
            lines[r][c] = o[r] >> 13;
    }
    for (int r = 0; r < 2; r++, out += stride) {
        rj_transform2(lines[r], 1 << 19, o);
        rj_sums two = rj_samples(o[0], 20) | rj_samples(o[1], 20) << 8;
        rj_words words = __builtin_convertvector(two, rj_words);
        memcpy(out, &words, sizeof(words));
    }
}

/* From the DCs alone. */
static inline void rj_inverse1(const int16_t *dc, unsigned quantizer, uint8_t *out)
{
    rj_sums s = rj_samples(__builtin_convertvector(rj_dequantize(dc, quantizer), rj_sums) + 4, 3);

    for (int i = 0; i < RJ_TILE_BLOCKS; i++)
        out[i] = (uint8_t)s[i];
}

/* A parsed tile to samples. */
static inline void rj_scale_tile(struct rj_blocks *b, const uint16_t quantizer[64], uint32_t size,
                                 const uint64_t *mask, const uint16_t *first, const int16_t *dc,
                                 const int16_t *values, const uint32_t blocks[2], uint8_t *out, size_t stride)
{
    rj_words v = rj_dequantize(dc, quantizer[0]);

    memcpy(b->coef[0], &v, sizeof(v));
    rj_blocks_place(b, quantizer, mask, first, values, blocks[0], blocks[1]);
    if (size == 4)
        rj_inverse4(b, out, stride);
    else
        rj_inverse2(b, out, stride);
}

#endif
