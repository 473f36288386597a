/* Rows of samples to rows of pixels with NEON: libjpeg-turbo's triangle filters, and colours. */
#include "rjpeg/rows_neon.h"

#include <arm_neon.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* 3 near + far, of eight samples. */
INLINE uint16x8_t weigh(uint8x8_t near, uint8x8_t far)
{
    return vmlal_u8(vmovl_u8(far), near, vdup_n_u8(3));
}

/* Sixteen at a time: out has room for what is beyond the row. */
void rj_across_neon(const uint8_t *in, uint32_t count, uint8_t *out)
{
    for (uint32_t x = 0; x < count; x += 16, in += 16, out += 32) {
        uint8x16_t s = vld1q_u8(in), left = vld1q_u8(in - 1), right = vld1q_u8(in + 1);
        uint8x8_t a = vshrn_n_u16(vaddq_u16(weigh(vget_low_u8(s), vget_low_u8(left)), vdupq_n_u16(1)), 2);
        uint8x8_t b = vshrn_n_u16(vaddq_u16(weigh(vget_high_u8(s), vget_high_u8(left)), vdupq_n_u16(1)), 2);
        uint8x8_t c = vrshrn_n_u16(weigh(vget_low_u8(s), vget_low_u8(right)), 2);
        uint8x8_t d = vrshrn_n_u16(weigh(vget_high_u8(s), vget_high_u8(right)), 2);
        uint8x16x2_t even_odd = {{vcombine_u8(a, b), vcombine_u8(c, d)}};
        vst2q_u8(out, even_odd);
    }
}

void rj_down_neon(const uint8_t *near, const uint8_t *far, unsigned bias, uint32_t count, uint8_t *out)
{
    const uint16x8_t add = vdupq_n_u16((uint16_t)bias);

    for (uint32_t x = 0; x < count; x += 16) {
        uint8x16_t n = vld1q_u8(near + x), f = vld1q_u8(far + x);
        uint16x8_t low = vaddq_u16(weigh(vget_low_u8(n), vget_low_u8(f)), add);
        uint16x8_t high = vaddq_u16(weigh(vget_high_u8(n), vget_high_u8(f)), add);
        vst1q_u8(out + x, vshrn_high_n_u16(vshrn_n_u16(low, 2), high, 2));
    }
}

/* (3 sum + left + 8) >> 4 in even places, (3 sum + right + 7) >> 4 in odd ones, of eight sums. */
INLINE uint8x8x2_t spread(const uint16_t *sums)
{
    uint16x8_t s = vmulq_n_u16(vld1q_u16(sums + 1), 3);
    uint16x8_t left = vaddq_u16(s, vld1q_u16(sums)), right = vaddq_u16(s, vld1q_u16(sums + 2));

    return (uint8x8x2_t){{vrshrn_n_u16(left, 4), vshrn_n_u16(vaddq_u16(right, vdupq_n_u16(7)), 4)}};
}

void rj_both_neon(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out, uint16_t *sums)
{
    for (uint32_t x = 0; x < count + 2; x += 16) {
        uint8x16_t n = vld1q_u8(near - 1 + x), f = vld1q_u8(far - 1 + x);
        vst1q_u16(sums + x, weigh(vget_low_u8(n), vget_low_u8(f)));
        vst1q_u16(sums + x + 8, weigh(vget_high_u8(n), vget_high_u8(f)));
    }
    for (uint32_t x = 0; x < count; x += 16) {
        uint8x8x2_t a = spread(sums + x), b = spread(sums + x + 8);
        uint8x16x2_t even_odd = {{vcombine_u8(a.val[0], b.val[0]), vcombine_u8(a.val[1], b.val[1])}};
        vst2q_u8(out + 2 * (size_t)x, even_odd);
    }
}

INLINE void store_rgb(uint8x16x3_t pixels, uint32_t left, uint8_t *out)
{
    uint8_t last[48];

    if (__builtin_expect(left >= 16, 1)) {
        vst3q_u8(out, pixels);
        return;
    }
    vst3q_u8(last, pixels);
    memcpy(out, last, 3 * left);
}

struct rgb {
    uint8x8_t r, g, b;
};

/* Eight pixels. (v * factor * 2 + 2^15) >> 16 is what one instruction does: 13172 is half of 91881 - 2^16, 29033
 * a quarter of 116130; the rounded products are those of libjpeg's tables for each of the 256 samples. */
INLINE struct rgb convert(uint8x8_t y8, uint8x8_t cb, uint8x8_t cr)
{
    const uint8x8_t centre = vdup_n_u8(128);
    int16x8_t y = vreinterpretq_s16_u16(vmovl_u8(y8));
    int16x8_t u = vreinterpretq_s16_u16(vsubl_u8(cb, centre)), v = vreinterpretq_s16_u16(vsubl_u8(cr, centre));
    /* 18734 = 65536 - 46802 */
    int32x4_t low = vmlal_n_s16(vmull_n_s16(vget_low_s16(u), -22554), vget_low_s16(v), 18734);
    int32x4_t high = vmlal_high_n_s16(vmull_high_n_s16(u, -22554), v, 18734);
    int16x8_t g = vrshrn_high_n_s32(vrshrn_n_s32(low, 16), high, 16);

    return (struct rgb){
        .r = vqmovun_s16(vaddq_s16(vaddq_s16(y, v), vqrdmulhq_n_s16(v, 13172))),
        .g = vqmovun_s16(vaddq_s16(vsubq_s16(y, v), g)),
        .b = vqmovun_s16(vaddq_s16(y, vqrdmulhq_n_s16(vaddq_s16(u, u), 29033))),
    };
}

INLINE uint8x16x3_t convert_16(uint8x16_t y, uint8x16_t cb, uint8x16_t cr)
{
    struct rgb low = convert(vget_low_u8(y), vget_low_u8(cb), vget_low_u8(cr));
    struct rgb high = convert(vget_high_u8(y), vget_high_u8(cb), vget_high_u8(cr));

    return (uint8x16x3_t){{vcombine_u8(low.r, high.r), vcombine_u8(low.g, high.g), vcombine_u8(low.b, high.b)}};
}

void rj_ycc_to_rgb_neon(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count, uint8_t *rgb)
{
    for (uint32_t x = 0; x < count; x += 16, rgb += 48)
        store_rgb(convert_16(vld1q_u8(y + x), vld1q_u8(cb + x), vld1q_u8(cr + x)), count - x, rgb);
}

void rj_ycc_to_planes_neon(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count,
                           uint8_t *const rgb[3])
{
    for (uint32_t x = 0; x < count; x += 16) {
        uint8x16x3_t pixels = convert_16(vld1q_u8(y + x), vld1q_u8(cb + x), vld1q_u8(cr + x));
        for (int c = 0; c < 3; c++)
            vst1q_u8(rgb[c] + x, pixels.val[c]);
    }
}

void rj_interleave_neon(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint32_t count, uint8_t *rgb)
{
    for (uint32_t x = 0; x < count; x += 16, rgb += 48)
        store_rgb((uint8x16x3_t){{vld1q_u8(r + x), vld1q_u8(g + x), vld1q_u8(b + x)}}, count - x, rgb);
}
