/* Row conversions between pixel forms. */
#include "decoders/pixels.h"

#include <string.h>

void hr_pixels_rgb_to_gray(uint8_t *dst, const uint8_t *rgb, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, rgb += 3)
        dst[i] = (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

static unsigned div255(unsigned v)
{
    v += 128;
    return (v + (v >> 8)) >> 8;
}

void hr_pixels_cmyk_to_rgb(uint8_t *dst, const uint8_t *cmyk, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, cmyk += 4, dst += 3) {
        unsigned k = cmyk[3];
        for (int c = 0; c < 3; c++) {
            unsigned ink = div255((255u - cmyk[c]) * k);
            dst[c] = (uint8_t)(ink < k ? k - ink : 0);
        }
    }
}

void hr_pixels_gray_to_rgb(uint8_t *dst, const uint8_t *gray, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, dst += 3)
        dst[0] = dst[1] = dst[2] = gray[i];
}

void hr_pixels_rgba_to_rgb(uint8_t *dst, const uint8_t *rgba, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, rgba += 4, dst += 3) {
        dst[0] = rgba[0];
        dst[1] = rgba[1];
        dst[2] = rgba[2];
    }
}
