/* Drawn pixel ops: what an op of a chain does to one picture, with all its randomness decided. An op
 * appends steps when it is drawn (ops/op.h), ops/run.h carries them out, ops/geometry.h follows those
 * that move pixels. */
#ifndef HR_DECODERS_OPS_STEP_H
#define HR_DECODERS_OPS_STEP_H

#include "base/base.h"

/* Up to HR_STEP_TABLE_LAST a step is a table of 256 entries a channel; such steps are joined. */
enum hr_step_kind {
    HR_STEP_BRIGHTNESS,
    HR_STEP_CONTRAST,
    HR_STEP_SOLARIZE,
    HR_STEP_POSTERIZE,
    HR_STEP_EQUALIZE,
    HR_STEP_AUTOCONTRAST,
    HR_STEP_INVERT,
    HR_STEP_TABLE_LAST = HR_STEP_INVERT,
    HR_STEP_SATURATION,
    HR_STEP_HUE,
    HR_STEP_GRAYSCALE,
    HR_STEP_SHARPNESS,
    HR_STEP_BLUR,
    HR_STEP_WARP,
    HR_STEP_ERASE,
};

enum hr_interpolation { HR_INTERPOLATION_NEAREST, HR_INTERPOLATION_BILINEAR, HR_INTERPOLATION_BICUBIC };

struct hr_step {
    enum hr_step_kind kind;
    double value;      /* factor (brightness, contrast, saturation, hue, sharpness), threshold, sigma */
    int bits;          /* posterize */
    int kernel_w, kernel_h; /* blur */
    uint32_t x, y, w, h;    /* erase */
    double colour[4];       /* erase: u8 pixels, or values of the output after normalize */
    bool noise;             /* erase: standard normal noise instead of the colour */
    uint64_t noise_key[2];
    /* warp: from the result to the source, in pixel edges (the first pixel spans 0 to 1), rows of a
     * 3 x 3 matrix; the last row is 0 0 1 but for perspective. The size stays. */
    double map[9];
    enum hr_interpolation interpolation;
    uint8_t fill[4];
};

enum { HR_STEPS_MAX = 16 };

struct hr_steps {
    int count;
    struct hr_step steps[HR_STEPS_MAX];
};

/* Room for one more, zeroed. */
static inline struct hr_step *hr_steps_add(struct hr_steps *steps, enum hr_step_kind kind)
{
    HR_ASSERT(steps->count < HR_STEPS_MAX);
    struct hr_step *step = &steps->steps[steps->count++];
    *step = (struct hr_step){.kind = kind};
    return step;
}

#endif
