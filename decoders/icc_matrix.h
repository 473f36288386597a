/* RGB profiles of a matrix and three curves (most that photographs carry) without a library's general
 * machinery: several times as fast. */
#ifndef HR_DECODERS_ICC_MATRIX_H
#define HR_DECODERS_ICC_MATRIX_H

#include "base/base.h"

enum { HR_ICC_STEPS = 16384 }; /* of linear light; a step is less than 0.2 of 255 even where sRGB is steepest */

struct hr_icc_matrix {
    float linear[3][256]; /* a sample's light */
    float rows[3][3];     /* light to that of sRGB, times HR_ICC_STEPS */
    const uint8_t *encode; /* HR_ICC_STEPS + 1 entries: light to sRGB's samples */
};

/* Fills the table for encode: IEC 61966-2-1. */
void hr_icc_fill_encode(uint8_t table[HR_ICC_STEPS + 1]);
void hr_icc_matrix_row(const struct hr_icc_matrix *m, uint8_t *dst, const uint8_t *src, uint32_t pixels);

#endif
