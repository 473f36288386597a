/* Mixup and cutmix: what is drawn for a sample, and how its pictures are mixed with another's in place. Labels
 * follow from the weight that was drawn. docs/ops.md has the formulas; src/pipeline/blend.h says who is mixed
 * with whom. */
#ifndef HR_DECODERS_BLEND_H
#define HR_DECODERS_BLEND_H

#include "base/rng.h"
#include "decoders/kernels/lerp.h"

/* Of the random numbers of a position; fields have those below (chain.h). */
#define HR_BLEND_STREAM UINT32_C(0x80000000)

/* Where a sample's pixels lie: planes x height x (width x channels) values. */
struct hr_blend_shape {
    enum hr_lerp_type type;
    uint32_t value_bytes;
    uint64_t planes;
    uint32_t height, width, channels; /* channels: values of a pixel that are neighbours */
};

struct hr_blend_spec {
    double p;                         /* that anything happens */
    double mixup_alpha, cutmix_alpha; /* 0 = not one of the choices */
    double switch_p;                  /* of cutmix, where both are */
    uint32_t height, width;           /* cutmix: of all pictures */
};

enum hr_blend_kind { HR_BLEND_NONE, HR_BLEND_MIXUP, HR_BLEND_CUTMIX };

/* What happens to one sample: it keeps so much of itself, the rest is its partner's. */
struct hr_blend_draw {
    enum hr_blend_kind kind;
    double weight;            /* of itself, exactly; 1 when nothing happens */
    uint32_t x0, y0, x1, y1;  /* cutmix: the partner's pixels, may be none */
};

/* Beta(alpha, alpha), rounded to a multiple of 2^-24. Two draws; no loop. */
double hr_blend_beta(struct hr_rng *rng, double alpha);

void hr_blend_decide(const struct hr_blend_spec *spec, uint64_t seed, uint64_t epoch, uint64_t position,
                     struct hr_blend_draw *draw);

/* Mixes two samples, each by a draw of its own, from what both were before. */
void hr_blend_two(const struct hr_lerp *lerp, const struct hr_blend_shape *shape,
                  const struct hr_blend_draw *draw_a, void *a, const struct hr_blend_draw *draw_b, void *b);

/* Mixes each of count samples with the one before it, the first with the last, all by one draw and from what
 * they were before. stride: bytes from one sample to the next. in[i] = 0: sample i is not mixed with anyone. */
void hr_blend_roll(const struct hr_lerp *lerp, const struct hr_blend_shape *shape, const struct hr_blend_draw *draw,
                   void *samples, uint64_t stride, uint32_t count, const uint8_t *in);

#endif
