/* Row conversions between pixel forms that several decoders share. dst may be src. */
#ifndef HR_DECODERS_PIXELS_H
#define HR_DECODERS_PIXELS_H

#include "base/base.h"

/* L = (19595 R + 38470 G + 7471 B + 32768) >> 16: ITU-R 601-2 luma in 16-bit fixed point. */
void hr_pixels_rgb_to_gray(uint8_t *dst, const uint8_t *rgb, size_t pixels);
/* Inverted CMYK, as Adobe stores it (0 = full ink): each of R, G, B is
 * max(0, K - div255((255 - C) * K)), div255 rounding to nearest. */
void hr_pixels_cmyk_to_rgb(uint8_t *dst, const uint8_t *cmyk, size_t pixels);
void hr_pixels_gray_to_rgb(uint8_t *dst, const uint8_t *gray, size_t pixels); /* dst is not gray */
/* Drops the fourth channel. */
void hr_pixels_rgba_to_rgb(uint8_t *dst, const uint8_t *rgba, size_t pixels);

#endif
