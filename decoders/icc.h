/* Colours of an ICC profile to sRGB, by lcms2. A worker keeps the transforms of the profiles that it met
 * last, so that in steady state nothing is made anew. */
#ifndef HR_DECODERS_ICC_H
#define HR_DECODERS_ICC_H

#include "base/err.h"

struct hr_icc;
struct hr_icc_transform;

enum { HR_ICC_MAX_BYTES = 4 << 20 };

int hr_icc_create(struct hr_icc **out) HR_MUST_CHECK;
void hr_icc_destroy(struct hr_icc *icc); /* NULL is fine */

/* *out: the way from the profile's colours to sRGB, valid until the next call; NULL where there is
 * nothing to do: the profile is of another kind than the picture (1: gray, 3: RGB, 4: CMYK;
 * RGB profiles also fit gray pictures), or moves no colour by more than 1 of 255. HR_E_DECODE: the
 * profile cannot be read. */
int hr_icc_find(struct hr_icc *icc, const uint8_t *profile, size_t bytes, uint32_t picture,
                const struct hr_icc_transform **out, struct hr_error *err) HR_MUST_CHECK;

/* Channels of the rows that it takes: 3 (of gray, R = G = B), or 4: CMYK as Adobe stores it. */
uint32_t hr_icc_channels(const struct hr_icc_transform *transform);
/* A row to RGB. dst is not src. */
void hr_icc_row(const struct hr_icc_transform *transform, uint8_t *dst, const uint8_t *src, uint32_t pixels);

#endif
