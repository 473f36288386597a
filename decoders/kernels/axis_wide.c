/* Weights of several positions of an axis at once, in vectors of doubles: the numbers are those of axis.c,
 * operation for operation. Compiled once for each level, without contraction to fused operations, which
 * round differently. */
#include <math.h>
#include <string.h>

#include "decoders/kernels/axis.h"

#ifdef __AVX512F__
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef double vd __attribute__((vector_size(8 * LANES)));
typedef int64_t vl __attribute__((vector_size(8 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));

#define INLINE static inline __attribute__((always_inline))

INLINE vd keep(vd v, vl where)
{
    return (vd)((vl)v & where);
}

INLINE vd choose(vl which, vd a, vd b)
{
    return (vd)(((vl)a & which) | ((vl)b & ~which));
}

INLINE vd magnitude(vd v)
{
    return (vd)((vl)v & INT64_MAX);
}

INLINE vd whole(vd v)
{
    return __builtin_convertvector(__builtin_convertvector(v, vi), vd);
}

INLINE vd load(const double *p)
{
    vd v;

    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE void store_u32(uint32_t *p, vd v)
{
    vi whole_numbers = __builtin_convertvector(v, vi);

    memcpy(p, &whole_numbers, sizeof(whole_numbers));
}

INLINE double highest(vd v)
{
    double high = v[0];

    for (int i = 1; i < LANES; i++)
        high = v[i] > high ? v[i] : high;
    return high;
}

INLINE vd triangle(vd x)
{
    x = magnitude(x);
    return keep(1.0 - x, x < 1.0);
}

INLINE vd cubic(vd x)
{
    x = magnitude(x);
    vd near = (1.5 * x - 2.5) * x * x + 1.0;
    vd far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0;

    return choose(x < 1.0, near, keep(far, x < 2.0));
}

/* Where each position begins and ends. Past the last one, the last again. */
INLINE void find_taps(struct hr_axis *axis, double *centres, double scale, double radius)
{
    const struct hr_axis_key *key = &axis->key;
    const double in = key->in, last = key->out_first + (key->out - 1);
    vd at, most = {0};

    for (int lane = 0; lane < LANES; lane++)
        at[lane] = key->out_first + (double)lane;
    for (uint32_t i = 0; i < key->out; i += LANES, at += LANES) {
        vd centre = (choose(at < last, at, last + (vd){0}) + 0.5) * scale;
        vd low = centre - radius + 0.5, high = centre + radius + 0.5;
        vd first = whole(keep(low, low > 0)), count = whole(choose(high < in, high, in + (vd){0})) - first;

        store_u32(axis->start + i, first);
        store_u32(axis->count + i, count);
        memcpy(centres + i, &centre, sizeof(centre));
        most = choose(count > most, count, most);
    }
    axis->taps = (uint32_t)highest(most);
}

INLINE vd load_u32(const uint32_t *p)
{
    vi v;

    memcpy(&v, p, sizeof(v));
    return __builtin_convertvector(v, vd);
}

/* All positions get as many taps, weights of 0 behind their own: a loop of one length costs less than it does. The
 * centres are where the weights of one more tap would be. */
INLINE double weigh_by(struct hr_axis *axis, double *w, vd (*filter)(vd), double filter_radius)
{
    const struct hr_axis_key *key = &axis->key;
    const double scale = (double)key->in / key->full_out, stretch = scale < 1.0 ? 1.0 : scale, shrink = 1.0 / stretch;
    const size_t pitch = axis->padded_out;
    double *centres = w + (axis->stride - 1) * pitch;
    vd most = {0};

    find_taps(axis, centres, scale, filter_radius * stretch);
    const double taps = axis->taps;
    for (uint32_t i = 0; i < key->out; i += LANES) {
        vd centre = load(centres + i), at = load_u32(axis->start + i), count = load_u32(axis->count + i), sum = {0};
        double *own = w + i;
        for (double t = 0; t < taps; t++, at += 1.0, own += pitch) {
            vd v = keep(filter((at - centre + 0.5) * shrink), count > t);
            sum += v;
            memcpy(own, &v, sizeof(v));
        }
        vd norm = choose(sum != 0, 1.0 / sum, 1.0 + (vd){0});
        own = w + i;
        for (double t = 0; t < taps; t++, own += pitch) {
            vd v = load(own) * norm, m = magnitude(v);
            most = choose(m > most, m, most);
            memcpy(own, &v, sizeof(v));
        }
    }
    return highest(most);
}

static bool weigh(struct hr_axis *axis, double *w, double *largest)
{
    if (axis->key.filter == HR_FILTER_BILINEAR)
        *largest = weigh_by(axis, w, triangle, 1.0);
    else if (axis->key.filter == HR_FILTER_BICUBIC)
        *largest = weigh_by(axis, w, cubic, 2.0);
    else
        return false;
    return true;
}

/* To nearest even, as lrint does: what is added leaves no bits for a fraction. */
INLINE vl nearest(vd v)
{
    const vd magic = 6755399441055744.0 /* 1.5 * 2^52 */ + (vd){0};

    return (vl)(v + magic) - (vl)magic;
}

INLINE vl half_away(vd v)
{
    vd half = choose(v < 0, -0.5 + (vd){0}, 0.5 + (vd){0});

    return __builtin_convertvector(__builtin_convertvector(v + half, vi), vl);
}

/* Two taps of each position. */
INLINE void put_pairs(int32_t *fixed, uint32_t stride, vl low, vl high)
{
    vl pair = (low & UINT32_MAX) | high << 32;

    for (int lane = 0; lane < LANES; lane++, fixed += stride)
        memcpy(fixed, (const char *)&pair + 8 * lane, 8);
}

INLINE bool round_by(const struct hr_axis *axis, const double *w, double one, bool carry, int32_t *fixed)
{
    const uint32_t taps = axis->taps;
    vl zeros = {0};

    for (uint32_t i = 0; i < axis->key.out; i += LANES) {
        vd sum = {0}, count = load_u32(axis->count + i);
        vl before = {0}, previous = {0};
        int32_t *own = fixed + (size_t)i * axis->stride;
        uint32_t t;

        for (t = 0; t < taps; t++) {
            vd weight = load(w + (size_t)t * axis->padded_out + i);
            vl v;
            sum += weight;
            if (carry) {
                vl all = nearest(sum * one);
                v = all - before;
                before = all;
            } else {
                v = half_away(weight * one);
            }
            zeros |= t == 0 ? v == 0 : (v == 0) & (count == t + 1.0);
            if (t & 1)
                put_pairs(own + t - 1, axis->stride, previous, v);
            previous = v;
        }
        if (t & 1)
            put_pairs(own + t - 1, axis->stride, previous, (vl){0});
    }
    for (int lane = 1; lane < LANES; lane++)
        zeros[0] |= zeros[lane];
    return zeros[0];
}

static bool round_weights(const struct hr_axis *axis, const double *w, double one, bool carry, int32_t *fixed)
{
    return carry ? round_by(axis, w, one, true, fixed) : round_by(axis, w, one, false, fixed);
}

extern const struct hr_axis_wide HR_AXIS_WIDE;
const struct hr_axis_wide HR_AXIS_WIDE = {weigh, round_weights};
