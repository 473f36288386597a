/* The NEON variant's loops over rows, which are a file of their own. variant.h says what each does. */
#ifndef HR_DECODERS_RJPEG_ROWS_NEON_H
#define HR_DECODERS_RJPEG_ROWS_NEON_H

#include <stdint.h>

void rj_across_neon(const uint8_t *in, uint32_t count, uint8_t *out);
void rj_down_neon(const uint8_t *near, const uint8_t *far, unsigned bias, uint32_t count, uint8_t *out);
void rj_both_neon(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out, uint16_t *sums);
void rj_ycc_to_rgb_neon(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count, uint8_t *rgb);
void rj_ycc_to_planes_neon(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count,
                           uint8_t *const rgb[3]);
void rj_interleave_neon(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint32_t count, uint8_t *rgb);

#endif
