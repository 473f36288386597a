/* The inner loops of pixel ops, one table a CPU level. All levels are compiled from the same C, without
 * contraction of multiply and add, so that each gives the same bytes. Pictures are packed 8-bit rows,
 * 1 or 3 channels interleaved. */
#ifndef HR_DECODERS_OPS_LOOPS_H
#define HR_DECODERS_OPS_LOOPS_H

#include "base/base.h"

struct hr_warp {
    const uint8_t *src; /* readable 64 bytes past its end */
    uint32_t w, h, channels;
    int64_t u, v;       /* of the row's first pixel in the source, 32 fractional bits */
    int64_t du, dv;     /* a pixel to the right */
};

struct hr_loops {
    /* Each channel through its table, in place. */
    void (*table)(uint8_t *pixels, size_t count, uint32_t channels, const uint8_t table[3][256]);
    /* Sum of the luma of RGB pixels. */
    uint64_t (*luma_sum)(const uint8_t *rgb, size_t count);
    void (*grayscale)(uint8_t *rgb, size_t count);
    void (*saturate)(uint8_t *rgb, size_t count, float factor);
    void (*hue)(uint8_t *rgb, size_t count, uint8_t shift);
    /* One row: the 3 x 3 smoothed row mixed with itself; up and down are its neighbours. The first and
     * the last pixel are the caller's. */
    void (*sharpen)(uint8_t *dst, const uint8_t *up, const uint8_t *row, const uint8_t *down,
                    size_t bytes, uint32_t channels, float factor);
    /* acc = the middle row times weights[0], plus each pair of rows times weights[i], i <= reach. */
    void (*blur_rows)(float *acc, const uint8_t *const *up, const uint8_t *const *down,
                      const float *weights, int reach, size_t bytes);
    /* The same along a row that has reach pixels before and behind it; rounded to bytes. */
    void (*blur_row)(uint8_t *dst, const float *row, const float *weights, int reach, size_t bytes,
                     uint32_t channels);
    /* Pixels [from, to) of a row, all of which lie in the source. */
    void (*warp_nearest)(uint8_t *dst, const struct hr_warp *warp, uint32_t from, uint32_t to);
    void (*warp_bilinear)(uint8_t *dst, const struct hr_warp *warp, uint32_t from, uint32_t to);
    void (*warp_bicubic)(uint8_t *dst, const struct hr_warp *warp, uint32_t from, uint32_t to);
};

/* The highest level that this CPU has. */
const struct hr_loops *hr_loops_get(void);
/* By cpu flags, for tests. */
const struct hr_loops *hr_loops_of(unsigned cpu_flags);

#ifdef HR_LOOPS_LEVELS
extern const struct hr_loops hr_loops_avx2, hr_loops_avx512;
#endif
extern const struct hr_loops hr_loops_c;

#endif
