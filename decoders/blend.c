/* Mixup and cutmix of whole samples: the draws, and the walk over their rows. Copies that are needed lie on the
 * stack, a part of a row at a time. */
#include "decoders/blend.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

enum { CHUNK_BYTES = 4096 };

/* ---- draws ---- */

double hr_blend_beta(struct hr_rng *rng, double alpha)
{
    /* (1 + T / sqrt(1 + T^2)) / 2 with T sqrt(2 alpha) of Student's t with 2 alpha degrees of freedom, which is
     * sqrt(2 alpha (U^(-1 / alpha) - 1)) cos(2 pi V) by Bailey's polar method. */
    double q = pow(1 - hr_rng_uniform(rng), 1 / alpha);
    double c = cos(2 * PI * hr_rng_uniform(rng));
    double part = (1 - q) * c * c, r = part / (q + part);
    double lambda = 0.5 + copysign(0.5, c) * sqrt(r >= 0 ? r : 0);

    return rint(lambda * 0x1p24) * 0x1p-24;
}

static uint32_t clamp_to(double v, uint32_t max)
{
    return v < 0 ? 0 : v > max ? max : (uint32_t)v;
}

static void draw_box(const struct hr_blend_spec *spec, struct hr_rng *rng, double lambda, struct hr_blend_draw *draw)
{
    double h = spec->height, w = spec->width, r = 0.5 * sqrt(1 - lambda);
    double half_h = trunc(r * h), half_w = trunc(r * w);
    double y = (double)hr_rng_below(rng, spec->height), x = (double)hr_rng_below(rng, spec->width);

    draw->y0 = clamp_to(y - half_h, spec->height);
    draw->y1 = clamp_to(y + half_h, spec->height);
    draw->x0 = clamp_to(x - half_w, spec->width);
    draw->x1 = clamp_to(x + half_w, spec->width);
    draw->weight = 1 - (double)(draw->x1 - draw->x0) * (double)(draw->y1 - draw->y0) / (w * h);
}

void hr_blend_decide(const struct hr_blend_spec *spec, uint64_t seed, uint64_t epoch, uint64_t position,
                     struct hr_blend_draw *draw)
{
    struct hr_rng rng;
    bool cutmix = spec->cutmix_alpha > 0;

    *draw = (struct hr_blend_draw){.weight = 1};
    hr_rng_init(&rng, seed, epoch, position, HR_BLEND_STREAM);
    if (!hr_rng_bernoulli(&rng, spec->p))
        return;
    if (cutmix && spec->mixup_alpha > 0)
        cutmix = hr_rng_bernoulli(&rng, spec->switch_p);
    draw->kind = cutmix ? HR_BLEND_CUTMIX : HR_BLEND_MIXUP;
    draw->weight = hr_blend_beta(&rng, cutmix ? spec->cutmix_alpha : spec->mixup_alpha);
    if (cutmix)
        draw_box(spec, &rng, draw->weight, draw);
}

/* ---- rows ---- */

/* Values [from, to) of a row. */
struct part {
    uint64_t from, to;
};

static struct part part_of_row(const struct hr_blend_shape *shape, const struct hr_blend_draw *draw, uint32_t y)
{
    if (draw->kind == HR_BLEND_MIXUP)
        return (struct part){0, (uint64_t)shape->width * shape->channels};
    if (draw->kind == HR_BLEND_CUTMIX && y >= draw->y0 && y < draw->y1)
        return (struct part){(uint64_t)draw->x0 * shape->channels, (uint64_t)draw->x1 * shape->channels};
    return (struct part){0, 0};
}

static struct part part_of_both(struct part a, struct part b)
{
    if (a.from >= a.to || b.from >= b.to)
        return a.from < a.to ? a : b;
    return (struct part){hr_min_u64(a.from, b.from), hr_max_u64(a.to, b.to)};
}

static struct part part_within(struct part a, struct part bounds)
{
    return (struct part){hr_max_u64(a.from, bounds.from), hr_min_u64(a.to, bounds.to)};
}

/* What a draw does to values of a row: part lies in what it wants of this row. */
static void take(const struct hr_lerp *lerp, const struct hr_blend_shape *shape, const struct hr_blend_draw *draw,
                 uint8_t *to, const uint8_t *partner, uint64_t count)
{
    if (draw->kind == HR_BLEND_MIXUP)
        lerp->one[shape->type](to, partner, count, (float)draw->weight);
    else
        memcpy(to, partner, count * shape->value_bytes);
}

/* a and b: the row's first values. */
static void mix_row(const struct hr_lerp *lerp, const struct hr_blend_shape *shape,
                    const struct hr_blend_draw *draw_a, uint8_t *a, struct part part_a,
                    const struct hr_blend_draw *draw_b, uint8_t *b, struct part part_b)
{
    _Alignas(64) uint8_t copy[CHUNK_BYTES];
    const uint64_t bytes = shape->value_bytes, step = CHUNK_BYTES / bytes;
    struct part all = part_of_both(part_a, part_b);

    for (uint64_t at = all.from; at < all.to; at += step) {
        struct part chunk = {at, hr_min_u64(at + step, all.to)};
        struct part to_a = part_within(part_a, chunk), to_b = part_within(part_b, chunk);
        memcpy(copy, a + at * bytes, (chunk.to - at) * bytes);
        if (to_a.from < to_a.to)
            take(lerp, shape, draw_a, a + to_a.from * bytes, b + to_a.from * bytes, to_a.to - to_a.from);
        if (to_b.from < to_b.to)
            take(lerp, shape, draw_b, b + to_b.from * bytes, copy + (to_b.from - at) * bytes, to_b.to - to_b.from);
    }
}

static uint64_t row_values(const struct hr_blend_shape *shape)
{
    return (uint64_t)shape->width * shape->channels;
}

void hr_blend_two(const struct hr_lerp *lerp, const struct hr_blend_shape *shape,
                  const struct hr_blend_draw *draw_a, void *a, const struct hr_blend_draw *draw_b, void *b)
{
    const uint64_t row_bytes = row_values(shape) * shape->value_bytes;
    uint8_t *pa = a, *pb = b;

    if (draw_a->kind == HR_BLEND_MIXUP && draw_b->kind == HR_BLEND_MIXUP) {
        lerp->both[shape->type](a, b, shape->planes * shape->height * row_values(shape), (float)draw_a->weight,
                                (float)draw_b->weight);
        return;
    }
    if (draw_a->kind == HR_BLEND_NONE && draw_b->kind == HR_BLEND_NONE)
        return;
    for (uint64_t plane = 0; plane < shape->planes; plane++)
        for (uint32_t y = 0; y < shape->height; y++, pa += row_bytes, pb += row_bytes)
            mix_row(lerp, shape, draw_a, pa, part_of_row(shape, draw_a, y), draw_b, pb,
                    part_of_row(shape, draw_b, y));
}

/* ---- a whole batch ---- */

/* From the last to the first, so that each meets its partner unchanged; the last is kept for the first. */
static void roll_part(const struct hr_lerp *lerp, const struct hr_blend_shape *shape,
                      const struct hr_blend_draw *draw, uint8_t *part, uint64_t stride, uint32_t count,
                      const uint8_t *in, uint64_t values)
{
    _Alignas(64) uint8_t last[CHUNK_BYTES];

    memcpy(last, part + (uint64_t)(count - 1) * stride, values * shape->value_bytes);
    for (uint32_t i = count; i-- > 0;) {
        uint8_t *to = part + (uint64_t)i * stride;
        if (in[i] && in[i ? i - 1 : count - 1])
            take(lerp, shape, draw, to, i ? to - stride : last, values);
    }
}

void hr_blend_roll(const struct hr_lerp *lerp, const struct hr_blend_shape *shape, const struct hr_blend_draw *draw,
                   void *samples, uint64_t stride, uint32_t count, const uint8_t *in)
{
    const uint64_t bytes = shape->value_bytes, step = CHUNK_BYTES / bytes, row = row_values(shape);
    const bool whole = draw->kind == HR_BLEND_MIXUP; /* one long row */
    const uint64_t rows = whole ? 1 : shape->planes * shape->height;
    uint8_t *at_row = samples;

    for (uint64_t y = 0; count > 1 && y < rows; y++, at_row += row * bytes) {
        struct part part = whole ? (struct part){0, shape->planes * shape->height * row}
                                 : part_of_row(shape, draw, (uint32_t)(y % shape->height));
        for (uint64_t at = part.from; at < part.to; at += step)
            roll_part(lerp, shape, draw, at_row + at * bytes, stride, count, in, hr_min_u64(step, part.to - at));
    }
}
