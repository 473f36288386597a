/* Erasing on finished output, in its own type and layout. */
#include "decoders/ops/finish.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "decoders/kernels/half.h"

static void store(enum hr_dtype dtype, uint8_t *at, float v)
{
    uint16_t half;

    switch (dtype) {
    case HR_DTYPE_F16:
        half = hr_float_to_f16(v);
        memcpy(at, &half, sizeof(half));
        break;
    case HR_DTYPE_BF16:
        half = hr_float_to_bf16(v);
        memcpy(at, &half, sizeof(half));
        break;
    default:
        memcpy(at, &v, sizeof(v));
    }
}

/* Four numbers of the standard normal distribution from one counter (Box and Muller). */
static void normals(const uint64_t key[2], uint64_t i, float out[4])
{
    uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), (uint32_t)key[1], (uint32_t)(key[1] >> 32)};
    uint32_t philox_key[2] = {(uint32_t)key[0], (uint32_t)(key[0] >> 32)}, bits[4];

    hr_philox4x32(counter, philox_key, bits);
    for (int k = 0; k < 4; k += 2) {
        double r = sqrt(-2 * log(((double)bits[k] + 0.5) * 0x1p-32));
        double turn = 6.283185307179586 * ((double)bits[k + 1] * 0x1p-32);
        out[k] = (float)(r * cos(turn));
        out[k + 1] = (float)(r * sin(turn));
    }
}

void hr_finish_erase(const struct hr_image_target *t, const struct hr_step *step, uint32_t w, uint32_t h)
{
    size_t item = hr_dtype_bytes(t->dtype), channels = t->channels, across = t->planar ? 1 : channels;
    size_t row = t->row_stride ? t->row_stride : w * across;
    size_t plane = !t->planar ? 1 : t->plane_stride ? t->plane_stride : row * h;
    uint64_t drawn = 0;
    float values[4];

    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t y = step->y; y < step->y + step->h; y++)
            for (uint32_t x = step->x; x < step->x + step->w; x++, drawn++) {
                if (step->noise && drawn % 4 == 0)
                    normals(step->noise_key, drawn / 4, values);
                float v = step->noise ? values[drawn % 4] : (float)step->colour[c];
                store(t->dtype, (uint8_t *)t->dst + (c * plane + y * row + x * across) * item, v);
            }
}
