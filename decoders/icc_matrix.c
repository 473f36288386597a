/* A row in runs and three passes, of which the middle one, the arithmetic, is vectorized by compilers. */
#include "decoders/icc_matrix.h"

#include <math.h>

enum { RUN = 256 };

void hr_icc_fill_encode(uint8_t table[HR_ICC_STEPS + 1])
{
    for (int i = 0; i <= HR_ICC_STEPS; i++) {
        double light = (double)i / HR_ICC_STEPS;
        double v = light <= 0.0031308 ? 12.92 * light : 1.055 * pow(light, 1 / 2.4) - 0.055;
        table[i] = (uint8_t)(v * 255 + 0.5);
    }
}

static void mix(int32_t *restrict out, const float rows[3], const float (*restrict light)[RUN])
{
    for (int i = 0; i < RUN; i++) {
        float v = rows[0] * light[0][i] + rows[1] * light[1][i] + rows[2] * light[2][i] + 0.5f;
        v = v > 0 ? v : 0;
        v = v < HR_ICC_STEPS ? v : HR_ICC_STEPS;
        out[i] = (int32_t)v;
    }
}

void hr_icc_matrix_row(const struct hr_icc_matrix *m, uint8_t *dst, const uint8_t *src, uint32_t pixels)
{
    float light[3][RUN] = {{0}};
    int32_t steps[3][RUN];

    for (uint32_t at = 0; at < pixels; at += RUN, src += 3 * RUN, dst += 3 * RUN) {
        uint32_t n = pixels - at < RUN ? pixels - at : RUN;
        for (uint32_t i = 0; i < n; i++)
            for (int c = 0; c < 3; c++)
                light[c][i] = m->linear[c][src[3 * i + (uint32_t)c]];
        for (int c = 0; c < 3; c++)
            mix(steps[c], m->rows[c], light);
        for (uint32_t i = 0; i < n; i++)
            for (int c = 0; c < 3; c++)
                dst[3 * i + (uint32_t)c] = m->encode[steps[c][i]];
    }
}
