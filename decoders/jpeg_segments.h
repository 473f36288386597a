/* What the segments before a JPEG's first scan say beside the picture: EXIF orientation, ICC profile. */
#ifndef HR_DECODERS_JPEG_SEGMENTS_H
#define HR_DECODERS_JPEG_SEGMENTS_H

#include "decoders/decoder.h"

/* 1..8, or 0: of the first EXIF block (APP1). */
uint32_t hr_jpeg_orientation(const uint8_t *jpeg, size_t count);

/* The ICC profile of APP2 segments, put together where it comes in several. HR_E_DECODE: parts are
 * missing; HR_E_LIMIT, HR_E_NOMEM. */
int hr_jpeg_profile(const uint8_t *jpeg, size_t count, struct hr_profile *profile, struct hr_error *err)
    HR_MUST_CHECK;

#endif
