/* The row machine's inner loops with NEON. Each equals kernels_c.c bit for bit: sums are of the same 32-bit
 * products, and Arm's rounding instructions are what the formulas say. */
#include <arm_neon.h>
#include <string.h>

#include "decoders/kernels/kernels.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* ---- horizontal ---- */

/* Bytes of two pixels to words: r g b 0 each. */
static const uint8_t two_pixels[2][16] = {
    {0, 255, 1, 255, 2, 255, 255, 255, 3, 255, 4, 255, 5, 255, 255, 255},
    {6, 255, 7, 255, 8, 255, 255, 255, 9, 255, 10, 255, 11, 255, 255, 255},
};

/* Four taps of an RGB pixel, as words. */
ALWAYS_INLINE int16x8x2_t four_taps(const uint8_t *src)
{
    uint8x16_t bytes = vld1q_u8(src);

    return (int16x8x2_t){{vreinterpretq_s16_u8(vqtbl1q_u8(bytes, vld1q_u8(two_pixels[0]))),
                          vreinterpretq_s16_u8(vqtbl1q_u8(bytes, vld1q_u8(two_pixels[1])))}};
}

ALWAYS_INLINE int32x4_t add_taps(int32x4_t sum, int16x8x2_t taps, const int16_t *coeff)
{
    int16x4_t c = vld1_s16(coeff);

    sum = vmlal_lane_s16(sum, vget_low_s16(taps.val[0]), c, 0);
    sum = vmlal_high_lane_s16(sum, taps.val[0], c, 1);
    sum = vmlal_lane_s16(sum, vget_low_s16(taps.val[1]), c, 2);
    return vmlal_high_lane_s16(sum, taps.val[1], c, 3);
}

ALWAYS_INLINE int32x4_t sum_rgb(int32x4_t sum, const uint8_t *src, const int16_t *coeff, uint32_t taps)
{
    for (uint32_t t = 0; t < taps; t += 4, src += 12)
        sum = add_taps(sum, four_taps(src), coeff + t);
    return sum;
}

/* Coefficients that are not negative leave nothing to clamp: a shift puts the pixel into its place in the
 * ring, a mask takes off what is below. */
ALWAYS_INLINE void hresize_rgb(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst, uint32_t taps)
{
    const int32x4_t half = vdupq_n_s32(1 << plan->bits >> 1);
    const int32x4_t down = vdupq_n_s32(-(int32_t)(plan->bits - plan->ring_shift));
    const int16x8_t pixel = vdupq_n_s16((int16_t)(255 << plan->ring_shift));
    const uint32_t *base = plan->base;
    const int16_t *coeff = plan->coeff;
    const size_t steps = plan->steps;
    size_t x = 0;

    for (; x + 2 <= steps; x += 2, dst += 6, coeff += 2 * (size_t)taps) {
        int32x4_t a = vshlq_s32(sum_rgb(half, row + base[x], coeff, taps), down);
        int32x4_t b = vshlq_s32(sum_rgb(half, row + base[x + 1], coeff + taps, taps), down);
        int16x8_t v = vandq_s16(vuzp1q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)), pixel);
        vst1_s16(dst, vget_low_s16(v)); /* the next one mends dst[3] */
        vst1_s16(dst + 3, vget_high_s16(v));
    }
    if (x < steps) {
        int32x4_t a = vshlq_s32(sum_rgb(half, row + base[x], coeff, taps), down);
        vst1_s16(dst, vand_s16(vmovn_s32(a), vget_low_s16(pixel)));
    }
}

/* Sums to pixels in their place in the ring. */
ALWAYS_INLINE int16x4_t clamp_pixels(int32x4_t sum, const struct hr_hplan *plan)
{
    int32x4_t v = vshlq_s32(sum, vdupq_n_s32(-(int32_t)plan->bits));

    v = vminq_s32(vmaxq_s32(v, vdupq_n_s32(0)), vdupq_n_s32(255));
    return vshl_s16(vmovn_s32(v), vdup_n_s16((int16_t)plan->ring_shift));
}

ALWAYS_INLINE void hresize_rgb_fine(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst, uint32_t taps)
{
    const int32x4_t half = vdupq_n_s32(1 << plan->bits >> 1), up = vdupq_n_s32((int32_t)plan->fine_shift);
    const int16_t *coeff = plan->coeff;

    for (uint32_t x = 0; x < plan->steps; x++, dst += 3, coeff += 2 * (size_t)taps) {
        const uint8_t *src = row + plan->base[x];
        int32x4_t coarse = vdupq_n_s32(0), fine = half;
        for (uint32_t t = 0; t < taps; t += 4, src += 12) {
            int16x8x2_t four = four_taps(src);
            coarse = add_taps(coarse, four, coeff + t);
            fine = add_taps(fine, four, coeff + taps + t);
        }
        vst1_s16(dst, clamp_pixels(vaddq_s32(vshlq_s32(coarse, up), fine), plan));
    }
}

/* Eight taps at a time, in four sums. */
ALWAYS_INLINE int32x4_t sum_gray(const uint8_t *src, const int16_t *coeff, uint32_t taps)
{
    int32x4_t sum = vdupq_n_s32(0);

    for (uint32_t t = 0; t < taps; t += 8) {
        int16x8_t v = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(src + t))), c = vld1q_s16(coeff + t);
        sum = vmlal_s16(sum, vget_low_s16(v), vget_low_s16(c));
        sum = vmlal_high_s16(sum, v, c);
    }
    return sum;
}

/* Four pixels, `entries` coefficients apart. */
ALWAYS_INLINE int32x4_t four_gray(const uint8_t *row, const uint32_t *base, const int16_t *coeff, uint32_t taps,
                                  size_t entries)
{
    int32x4_t a = vpaddq_s32(sum_gray(row + base[0], coeff, taps), sum_gray(row + base[1], coeff + entries, taps));
    int32x4_t b = vpaddq_s32(sum_gray(row + base[2], coeff + 2 * entries, taps),
                             sum_gray(row + base[3], coeff + 3 * entries, taps));

    return vpaddq_s32(a, b);
}

ALWAYS_INLINE void hresize_gray(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst, uint32_t taps, bool fine)
{
    const int32x4_t half = vdupq_n_s32(1 << plan->bits >> 1), up = vdupq_n_s32((int32_t)plan->fine_shift);
    const size_t entries = (size_t)taps * (fine ? 2 : 1);
    const int16_t *coeff = plan->coeff;
    uint32_t x = 0;

    for (; x + 4 <= plan->steps; x += 4, coeff += 4 * entries) {
        int32x4_t v = four_gray(row, plan->base + x, coeff, taps, entries);
        if (fine)
            v = vaddq_s32(vshlq_s32(v, up), four_gray(row, plan->base + x, coeff + taps, taps, entries));
        vst1_s16(dst + x, clamp_pixels(vaddq_s32(v, half), plan));
    }
    for (; x < plan->steps; x++, coeff += entries) {
        int32_t v = vaddvq_s32(sum_gray(row + plan->base[x], coeff, taps)) * (1 << plan->fine_shift);
        if (fine)
            v += vaddvq_s32(sum_gray(row + plan->base[x], coeff + taps, taps));
        dst[x] = vget_lane_s16(clamp_pixels(vaddq_s32(vdupq_n_s32(v), half), plan), 0);
    }
}

static void hresize_pixel(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst)
{
    const uint32_t taps = plan->taps;

    if (plan->channels == 1 && plan->fine_shift)
        hresize_gray(plan, row, dst, taps, true);
    else if (plan->channels == 1 && taps == 8)
        hresize_gray(plan, row, dst, 8, false);
    else if (plan->channels == 1)
        hresize_gray(plan, row, dst, taps, false);
    else if (plan->fine_shift && taps == 4)
        hresize_rgb_fine(plan, row, dst, 4);
    else if (plan->fine_shift && taps == 8)
        hresize_rgb_fine(plan, row, dst, 8);
    else if (plan->fine_shift)
        hresize_rgb_fine(plan, row, dst, taps);
    else if (taps == 4)
        hresize_rgb(plan, row, dst, 4);
    else
        hresize_rgb(plan, row, dst, taps);
}

/* ---- vertical ---- */

/* 16 bytes of a row, of which the first `left` are wanted. */
ALWAYS_INLINE void put_bytes(uint8_t *dst, uint8x16_t v, size_t left)
{
    if (HR_LIKELY(left >= 16))
        vst1q_u8(dst, v);
    else
        memcpy(dst, &v, left);
}

ALWAYS_INLINE void vnarrow_taps(const int16_t *const *rows, const int16_t *coeff, uint32_t taps,
                                uint8_t *dst, size_t elements)
{
    for (size_t e = 0; e < elements; e += 16) {
        int16x8_t a = vdupq_n_s16(0), b = a;
        for (uint32_t t = 0; t < taps; t++) {
            a = vaddq_s16(a, vqrdmulhq_n_s16(vld1q_s16(rows[t] + e), coeff[t]));
            b = vaddq_s16(b, vqrdmulhq_n_s16(vld1q_s16(rows[t] + e + 8), coeff[t]));
        }
        uint8x16_t v = vqrshrun_high_n_s16(vqrshrun_n_s16(a, HR_NARROW_SHIFT), b, HR_NARROW_SHIFT);
        put_bytes(dst + e, v, elements - e);
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

static void vwide(const int16_t *const *rows, const int16_t *coeff, uint32_t taps, uint32_t bits,
                  uint8_t *dst, size_t elements)
{
    const int32x4_t half = vdupq_n_s32(1 << bits >> 1), down = vdupq_n_s32(-(int32_t)bits);

    for (size_t e = 0; e < elements; e += 16) {
        int32x4_t sum[4] = {half, half, half, half};
        for (uint32_t t = 0; t < taps; t++) {
            int16x8_t a = vld1q_s16(rows[t] + e), b = vld1q_s16(rows[t] + e + 8);
            sum[0] = vmlal_n_s16(sum[0], vget_low_s16(a), coeff[t]);
            sum[1] = vmlal_high_n_s16(sum[1], a, coeff[t]);
            sum[2] = vmlal_n_s16(sum[2], vget_low_s16(b), coeff[t]);
            sum[3] = vmlal_high_n_s16(sum[3], b, coeff[t]);
        }
        int16x8_t low = vqmovn_high_s32(vqmovn_s32(vshlq_s32(sum[0], down)), vshlq_s32(sum[1], down));
        int16x8_t high = vqmovn_high_s32(vqmovn_s32(vshlq_s32(sum[2], down)), vshlq_s32(sum[3], down));
        put_bytes(dst + e, vqmovun_high_s16(vqmovun_s16(low), high), elements - e);
    }
}

/* ---- conversion and store ---- */

/* 16 pixels of one channel as numbers of a type: 16-bit ones in the first two vectors. */
struct numbers {
    uint32x4_t v[4];
};

ALWAYS_INLINE uint32x4_t join16(uint16x8_t v)
{
    return vreinterpretq_u32_u16(v);
}

ALWAYS_INLINE uint16x8_t two_f16(float32x4_t a, float32x4_t b)
{
    return vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(a), b));
}

/* To nearest even: the high half of the sum. */
ALWAYS_INLINE uint16x8_t two_bf16(float32x4_t a, float32x4_t b)
{
    const uint32x4_t one = vdupq_n_u32(1), half = vdupq_n_u32(0x7fff);
    uint32x4_t x = vreinterpretq_u32_f32(a), y = vreinterpretq_u32_f32(b);
    uint16x4_t low = vaddhn_u32(x, vaddq_u32(vandq_u32(vshrq_n_u32(x, 16), one), half));

    return vaddhn_high_u32(low, y, vaddq_u32(vandq_u32(vshrq_n_u32(y, 16), one), half));
}

ALWAYS_INLINE struct numbers convert(uint8x16_t bytes, float scale, float bias, enum hr_store_type type)
{
    uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
    const float32x4_t factor = vdupq_n_f32(scale), add = vdupq_n_f32(bias);
    float32x4_t f[4] = {
        vfmaq_f32(add, vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), factor),
        vfmaq_f32(add, vcvtq_f32_u32(vmovl_high_u16(low)), factor),
        vfmaq_f32(add, vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), factor),
        vfmaq_f32(add, vcvtq_f32_u32(vmovl_high_u16(high)), factor),
    };

    if (type == HR_STORE_F16)
        return (struct numbers){{join16(two_f16(f[0], f[1])), join16(two_f16(f[2], f[3]))}};
    if (type == HR_STORE_BF16)
        return (struct numbers){{join16(two_bf16(f[0], f[1])), join16(two_bf16(f[2], f[3]))}};
    return (struct numbers){{vreinterpretq_u32_f32(f[0]), vreinterpretq_u32_f32(f[1]), vreinterpretq_u32_f32(f[2]),
                             vreinterpretq_u32_f32(f[3])}};
}

ALWAYS_INLINE size_t item_bytes(enum hr_store_type type)
{
    return type == HR_STORE_U8 ? 1 : type == HR_STORE_F32 ? 4 : 2;
}

/* 16 numbers side by side. */
ALWAYS_INLINE void put_plane(uint8_t *dst, const struct numbers *n, enum hr_store_type type)
{
    for (int i = 0; i < (type == HR_STORE_F32 ? 4 : 2); i++)
        vst1q_u8(dst + 16 * i, vreinterpretq_u8_u32(n->v[i]));
}

/* 16 pixels of three numbers. */
ALWAYS_INLINE void put_pixels(uint8_t *dst, const struct numbers c[3], enum hr_store_type type)
{
    for (int i = 0; i < 4 && type == HR_STORE_F32; i++) {
        uint32x4x3_t four = {{c[0].v[i], c[1].v[i], c[2].v[i]}};
        vst3q_u32((uint32_t *)(void *)(dst + 48 * i), four);
    }
    for (int i = 0; i < 2 && type != HR_STORE_F32; i++) {
        uint16x8x3_t eight = {{vreinterpretq_u16_u32(c[0].v[i]), vreinterpretq_u16_u32(c[1].v[i]),
                               vreinterpretq_u16_u32(c[2].v[i])}};
        vst3q_u16((uint16_t *)(void *)(dst + 48 * i), eight);
    }
}

ALWAYS_INLINE void three_channels(const struct hr_store *store, const uint8_t *row, struct numbers c[3],
                                  enum hr_store_type type)
{
    uint8x16x3_t v = vld3q_u8(row);

    for (int i = 0; i < 3; i++)
        c[i] = convert(v.val[i], store->scale[i], store->bias[i], type);
}

ALWAYS_INLINE void store_gray(const struct hr_store *store, const uint8_t *row, uint8_t *dst, size_t pixels,
                              enum hr_store_type type)
{
    const size_t item = item_bytes(type);
    uint8_t last[16 * 4];

    for (size_t x = 0; x < pixels; x += 16, dst += 16 * item) {
        struct numbers n = convert(vld1q_u8(row + x), store->scale[0], store->bias[0], type);
        bool whole = pixels - x >= 16;
        put_plane(whole ? dst : last, &n, type);
        if (!whole)
            memcpy(dst, last, (pixels - x) * item);
    }
}

ALWAYS_INLINE void store_packed(const struct hr_store *store, const uint8_t *row, void *out, size_t pixels,
                                enum hr_store_type type)
{
    const size_t pixel = 3 * item_bytes(type);
    uint8_t *dst = out, last[16 * 3 * 4];
    struct numbers c[3];

    if (store->channels == 1) {
        store_gray(store, row, dst, pixels, type);
        return;
    }
    for (; pixels >= 16; pixels -= 16, row += 48, dst += 16 * pixel) {
        three_channels(store, row, c, type);
        put_pixels(dst, c, type);
    }
    if (!pixels)
        return;
    three_channels(store, row, c, type);
    put_pixels(last, c, type);
    memcpy(dst, last, pixels * pixel);
}

ALWAYS_INLINE void store_planar(const struct hr_store *store, const uint8_t *row, void *out, size_t pixels,
                                enum hr_store_type type)
{
    const size_t item = item_bytes(type), plane = store->plane_stride * item;
    uint8_t *dst = out, last[16 * 4];
    struct numbers c[3];

    for (; pixels >= 16; pixels -= 16, row += 48, dst += 16 * item) {
        three_channels(store, row, c, type);
        for (int i = 0; i < 3; i++)
            put_plane(dst + (size_t)i * plane, &c[i], type);
    }
    if (!pixels)
        return;
    three_channels(store, row, c, type);
    for (int i = 0; i < 3; i++) {
        put_plane(last, &c[i], type);
        memcpy(dst + (size_t)i * plane, last, pixels * item);
    }
}

static void planar_u8(const struct hr_store *store, const uint8_t *row, void *out, size_t pixels)
{
    uint8_t *dst = out;

    for (size_t x = 0; x < pixels; x += 16) {
        uint8x16x3_t v = vld3q_u8(row + 3 * x);
        for (size_t c = 0; c < 3; c++)
            put_bytes(dst + c * store->plane_stride + x, v.val[c], pixels - x);
    }
}

#define FLOAT_STORES(name, type)                                                                   \
    static void packed_##name(const struct hr_store *store, const uint8_t *row, void *dst,         \
                              size_t pixels)                                                       \
    {                                                                                              \
        store_packed(store, row, dst, pixels, type);                                               \
    }                                                                                              \
    static void planar_##name(const struct hr_store *store, const uint8_t *row, void *dst,         \
                              size_t pixels)                                                       \
    {                                                                                              \
        store_planar(store, row, dst, pixels, type);                                               \
    }

FLOAT_STORES(f16, HR_STORE_F16)
FLOAT_STORES(bf16, HR_STORE_BF16)
FLOAT_STORES(f32, HR_STORE_F32)

extern const struct hr_axis_wide hr_axis_wide_neon; /* axis_wide.c */

void hr_kernels_fill_neon(struct hr_kernels *kernels)
{
    kernels->axis = &hr_axis_wide_neon;
    kernels->hresize[HR_HLAYOUT_PIXEL] = hresize_pixel;
    kernels->vnarrow = vnarrow;
    kernels->vwide = vwide;
    kernels->packed[HR_STORE_F16] = packed_f16;
    kernels->packed[HR_STORE_BF16] = packed_bf16;
    kernels->packed[HR_STORE_F32] = packed_f32;
    kernels->planar[HR_STORE_U8] = planar_u8;
    kernels->planar[HR_STORE_F16] = planar_f16;
    kernels->planar[HR_STORE_BF16] = planar_bf16;
    kernels->planar[HR_STORE_F32] = planar_f32;
    kernels->fill_table = NULL;
}
