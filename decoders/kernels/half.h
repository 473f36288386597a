/* Scalar conversions of finite floats to the 16-bit types, rounding to nearest even: the same bits
 * as the F16C instructions. */
#ifndef HR_DECODERS_KERNELS_HALF_H
#define HR_DECODERS_KERNELS_HALF_H

#include <string.h>

#include "base/base.h"

static inline uint32_t hr_float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

static inline uint16_t hr_float_to_bf16(float f)
{
    uint32_t bits = hr_float_bits(f);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline uint16_t hr_float_to_f16(float f)
{
    uint32_t bits = hr_float_bits(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

    if (magnitude >= 0x47800000) /* 2^16 and more: infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: subnormal, units of 2^-24 like floats at 0.5 */
        float absolute;
        memcpy(&absolute, &magnitude, sizeof(absolute));
        return (uint16_t)(sign | (hr_float_bits(absolute + 0.5f) - 0x3f000000));
    }
    return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

#endif
