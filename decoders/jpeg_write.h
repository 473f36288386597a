/* Writes a JPEG: baseline, no chroma subsampling. */
#ifndef HR_DECODERS_JPEG_WRITE_H
#define HR_DECODERS_JPEG_WRITE_H

#include "base/buf.h"
#include "base/err.h"

struct hr_jpeg_picture {
    const uint8_t *pixels; /* rows of width * channels bytes */
    uint32_t width, height, channels; /* 1: gray, 3: RGB */
    uint32_t orientation;  /* for an EXIF block; 0 and 1: none is written */
    const uint8_t *icc;    /* NULL = none */
    size_t icc_bytes;
};

/* Appends the file to out. quality: 1 to 100, as libjpeg counts. */
int hr_jpeg_write(const struct hr_jpeg_picture *picture, int quality, struct hr_buf *out, struct hr_error *err)
    HR_MUST_CHECK;

#endif
