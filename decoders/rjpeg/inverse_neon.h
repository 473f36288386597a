/* The inverse transform with NEON, one block at a time; variant_c.c has the arithmetic and where it is from. Sums
 * are of 32 bits and rounded where the reference rounds, so that any block gives the reference's samples. */
#ifndef HR_DECODERS_RJPEG_INVERSE_NEON_H
#define HR_DECODERS_RJPEG_INVERSE_NEON_H

#include <arm_neon.h>
#include <stddef.h>

#include "rjpeg/variant.h"

#define RJ_INLINE static inline __attribute__((always_inline))

RJ_INLINE void rj_butterfly(const int32x4_t e[4], const int32x4_t o[4], int32x4_t out[8])
{
    for (int i = 0; i < 4; i++) {
        out[i] = vaddq_s32(e[i], o[i]);
        out[7 - i] = vsubq_s32(e[i], o[i]);
    }
}

/* a fa + b fb */
RJ_INLINE int32x4_t rj_dot(int16x4_t a, int16_t fa, int16x4_t b, int16_t fb)
{
    return vmlal_n_s16(vmull_n_s16(a, fa), b, fb);
}

RJ_INLINE int16x8_t rj_with_rounding(int16x8_t x0)
{
    return vqaddq_s16(x0, vdupq_n_s16(RJ_SECOND_ROUND));
}

/* Four one-dimensional transforms side by side. */
RJ_INLINE void rj_transform8(const int16x4_t x[8], int32x4_t out[8])
{
    int32x4_t sum = vshlq_n_s32(vaddl_s16(x[0], x[4]), 13);
    int32x4_t difference = vshlq_n_s32(vsubl_s16(x[0], x[4]), 13);
    int32x4_t t3 = rj_dot(x[2], 10703, x[6], 4433), t2 = rj_dot(x[2], 4433, x[6], -10704);
    const int32x4_t e[4] = {vaddq_s32(sum, t3), vaddq_s32(difference, t2), vsubq_s32(difference, t2),
                            vsubq_s32(sum, t3)};
    const int32x4_t o[4] = {
        vmlal_n_s16(vmlal_n_s16(rj_dot(x[1], 11363, x[3], 9633), x[5], 6437), x[7], 2260),
        vmlal_n_s16(vmlal_n_s16(rj_dot(x[1], 9633, x[3], -2259), x[5], -11362), x[7], -6436),
        vmlal_n_s16(vmlal_n_s16(rj_dot(x[1], 6437, x[3], -11362), x[5], 2261), x[7], 9633),
        vmlal_n_s16(vmlal_n_s16(rj_dot(x[1], 2260, x[3], -6436), x[5], 9633), x[7], -11363),
    };
    rj_butterfly(e, o, out);
}

/* Inputs 4 to 7 are 0. */
RJ_INLINE void rj_transform4(const int16x4_t x[4], int32x4_t out[8])
{
    int32x4_t first = vshll_n_s16(x[0], 13), t3 = vmull_n_s16(x[2], 10703), t2 = vmull_n_s16(x[2], 4433);

    const int32x4_t e[4] = {vaddq_s32(first, t3), vaddq_s32(first, t2), vsubq_s32(first, t2), vsubq_s32(first, t3)};
    const int32x4_t o[4] = {rj_dot(x[1], 11363, x[3], 9633), rj_dot(x[1], 9633, x[3], -2259),
                            rj_dot(x[1], 6437, x[3], -11362), rj_dot(x[1], 2260, x[3], -6436)};
    rj_butterfly(e, o, out);
}

RJ_INLINE int32x4_t rj_zip32(int16x8_t a, int16x8_t b, int high)
{
    int32x4_t x = vreinterpretq_s32_s16(a), y = vreinterpretq_s32_s16(b);

    return high ? vtrn2q_s32(x, y) : vtrn1q_s32(x, y);
}

RJ_INLINE int16x8_t rj_zip64(int32x4_t a, int32x4_t b, int high)
{
    int64x2_t x = vreinterpretq_s64_s32(a), y = vreinterpretq_s64_s32(b);

    return vreinterpretq_s16_s64(high ? vtrn2q_s64(x, y) : vtrn1q_s64(x, y));
}

RJ_INLINE void rj_transpose8x8(const int16x8_t in[8], int16x8_t out[8])
{
    int16x8_t a[8];

    for (int i = 0; i < 8; i += 2) {
        a[i] = vtrn1q_s16(in[i], in[i + 1]); /* columns 0 2 4 6 of two rows */
        a[i + 1] = vtrn2q_s16(in[i], in[i + 1]);
    }
    for (int odd = 0; odd < 2; odd++)
        for (int high = 0; high < 2; high++) {
            int32x4_t top = rj_zip32(a[odd], a[2 + odd], high), bottom = rj_zip32(a[4 + odd], a[6 + odd], high);
            out[odd + 2 * high] = rj_zip64(top, bottom, 0);
            out[odd + 2 * high + 4] = rj_zip64(top, bottom, 1);
        }
}

/* Rows r with r + 4 in one vector each: both halves transposed. */
RJ_INLINE void rj_transpose4x4(const int16x8_t in[4], int16x8_t out[4])
{
    int16x8_t a = vtrn1q_s16(in[0], in[1]), b = vtrn2q_s16(in[0], in[1]);
    int16x8_t c = vtrn1q_s16(in[2], in[3]), d = vtrn2q_s16(in[2], in[3]);

    out[0] = vreinterpretq_s16_s32(rj_zip32(a, c, 0));
    out[1] = vreinterpretq_s16_s32(rj_zip32(b, d, 0));
    out[2] = vreinterpretq_s16_s32(rj_zip32(a, c, 1));
    out[3] = vreinterpretq_s16_s32(rj_zip32(b, d, 1));
}

RJ_INLINE void rj_store_two_rows(uint16x8_t left, uint16x8_t right, int high, uint8_t *out, size_t stride)
{
    uint32x4_t a = vreinterpretq_u32_u16(left), b = vreinterpretq_u32_u16(right);
    uint8x16_t rows = vreinterpretq_u8_u32(high ? vzip2q_u32(a, b) : vzip1q_u32(a, b));

    vst1_u8(out, vget_low_u8(rows));
    vst1_u8(out + stride, vget_high_u8(rows));
}

/* Sums of the second pass: low[c], high[c] hold column c of rows 0 to 3, 4 to 7. */
RJ_INLINE void rj_store_block(const int32x4_t low[8], const int32x4_t high[8], uint8_t *out, size_t stride)
{
    uint8x16_t c[4]; /* columns c and c + 4 */

    for (int i = 0; i < 4; i++) {
        int16x8_t a = vuzp2q_s16(vreinterpretq_s16_s32(low[i]), vreinterpretq_s16_s32(high[i]));
        int16x8_t b = vuzp2q_s16(vreinterpretq_s16_s32(low[i + 4]), vreinterpretq_s16_s32(high[i + 4]));
        c[i] = vqshrun_high_n_s16(vqshrun_n_s16(a, 2), b, 2);
    }
    uint16x8_t c01 = vreinterpretq_u16_u8(vzip1q_u8(c[0], c[1])), c23 = vreinterpretq_u16_u8(vzip1q_u8(c[2], c[3]));
    uint16x8_t c45 = vreinterpretq_u16_u8(vzip2q_u8(c[0], c[1])), c67 = vreinterpretq_u16_u8(vzip2q_u8(c[2], c[3]));
    uint16x8_t left = vzip1q_u16(c01, c23), right = vzip1q_u16(c45, c67);
    rj_store_two_rows(left, right, 0, out, stride);
    rj_store_two_rows(left, right, 1, out + 2 * stride, stride);
    left = vzip2q_u16(c01, c23);
    right = vzip2q_u16(c45, c67);
    rj_store_two_rows(left, right, 0, out + 4 * stride, stride);
    rj_store_two_rows(left, right, 1, out + 6 * stride, stride);
}

RJ_INLINE void rj_inverse_block(const int16x8_t rows[8], uint8_t *out, size_t stride)
{
    int32x4_t low[8], high[8];
    int16x8_t r[8], c[8];
    int16x4_t x[8];

    for (int i = 0; i < 8; i++)
        x[i] = vget_low_s16(rows[i]);
    rj_transform8(x, low);
    for (int i = 0; i < 8; i++)
        x[i] = vget_high_s16(rows[i]);
    rj_transform8(x, high);
    for (int i = 0; i < 8; i++)
        r[i] = vrshrn_high_n_s32(vrshrn_n_s32(low[i], 11), high[i], 11);
    rj_transpose8x8(r, c);
    c[0] = rj_with_rounding(c[0]);
    for (int i = 0; i < 8; i++)
        x[i] = vget_low_s16(c[i]);
    rj_transform8(x, low);
    for (int i = 0; i < 8; i++)
        x[i] = vget_high_s16(c[i]);
    rj_transform8(x, high);
    rj_store_block(low, high, out, stride);
}

/* Only the low 4x4 corner: rows 0 and 1 in the first vector, 2 and 3 in the second. */
RJ_INLINE void rj_inverse_corner(const int16x8_t pairs[2], uint8_t *out, size_t stride)
{
    int16x4_t x[4] = {vget_low_s16(pairs[0]), vget_high_s16(pairs[0]), vget_low_s16(pairs[1]), vget_high_s16(pairs[1])};
    int32x4_t low[8], high[8];
    int16x8_t r[4], c[4];

    rj_transform4(x, low);
    for (int i = 0; i < 4; i++)
        r[i] = vrshrn_high_n_s32(vrshrn_n_s32(low[i], 11), low[i + 4], 11);
    rj_transpose4x4(r, c);
    c[0] = rj_with_rounding(c[0]);
    for (int i = 0; i < 4; i++)
        x[i] = vget_low_s16(c[i]);
    rj_transform4(x, low);
    for (int i = 0; i < 4; i++)
        x[i] = vget_high_s16(c[i]);
    rj_transform4(x, high);
    rj_store_block(low, high, out, stride);
}

/* Only a DC: both passes come down to one rounding. */
RJ_INLINE void rj_flat_block(int16_t dc, uint8_t *out, size_t stride)
{
    int v = (((int16_t)(dc * 4) * 8192 + (1 << 17)) >> 18) + 128;
    uint8x8_t row = vdup_n_u8((uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v));

    for (int i = 0; i < 8; i++)
        vst1_u8(out + i * stride, row);
}

#endif
