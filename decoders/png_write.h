/* Writes a PNG of 8 bits a sample. */
#ifndef HR_DECODERS_PNG_WRITE_H
#define HR_DECODERS_PNG_WRITE_H

#include "base/buf.h"
#include "decoders/raw_pixels.h"

/* Appends the file to out, with the profile where there is one. */
int hr_png_write(const struct hr_raw_pixels *picture, struct hr_buf *out, struct hr_error *err) HR_MUST_CHECK;

#endif
