/* Pictures stored as their pixels (docs/formats/raw-pixels.md): 8 bits, gray or RGB, rows one after the
 * other, so that a box is read without decoding. */
#ifndef HR_DECODERS_RAW_PIXELS_H
#define HR_DECODERS_RAW_PIXELS_H

#include "base/buf.h"
#include "decoders/decoder.h"

enum { HR_RAW_HEADER_BYTES = 32 };

struct hr_raw_pixels {
    uint32_t width, height, channels; /* channels: 1 or 3 */
    const uint8_t *pixels;
    const uint8_t *icc; /* NULL = none */
    uint32_t icc_bytes;
};

/* Checks a stored value; pointers go into it. */
int hr_raw_pixels_open(const uint8_t *bytes, size_t count, struct hr_raw_pixels *raw, struct hr_error *err)
    HR_MUST_CHECK;

/* The bytes before the pixels; behind them comes the profile. */
void hr_raw_pixels_header(const struct hr_raw_pixels *raw, uint8_t header[HR_RAW_HEADER_BYTES]);

extern const struct hr_image_decoder hr_raw_pixels_decoder;

#endif
