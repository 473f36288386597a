/* How all mixing of pictures is rounded; part of loops.c. */
#ifndef HR_DECODERS_OPS_LOOPS_MIX_H
#define HR_DECODERS_OPS_LOOPS_MIX_H

#include "base/base.h"

/* a + factor (b - a), cut to 0..255 and then to a whole number: how all mixing of pictures is rounded. */
static inline uint8_t mix(uint32_t a, uint32_t b, float factor)
{
    float v = (float)(int)a + factor * (float)((int)b - (int)a);

    v = v > 0 ? v : 0;
    v = v < 255 ? v : 255;
    return (uint8_t)(int)v;
}

#endif
