/* Resize coefficients. The rules are Pillow's: the filter's support grows with the shrink factor,
 * weights are sampled at pixel centres and normalized per output position; then they are rounded to
 * as many bits as int16 holds passing each rounding error on to the next tap so that the sum is
 * exact. Horizontal weights with negative lobes are Pillow's very numbers, in two int16: their
 * errors would be amplified by the vertical pass. Formulas and error bounds: docs/kernels.md. */
#include "decoders/kernels/axis.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "decoders/kernels/kernels.h"

enum { MAX_BITS = 21, NARROW_BITS = 15, FINE_BITS = 22, FINE_SHIFT = 8, STRIDE_STEP = 4, POSITIONS_STEP = 8 };

int hr_block_grow(struct hr_block *block, size_t bytes)
{
    if (bytes <= block->bytes)
        return 0;
    int depth = hr_mem_steady_pause(); /* it only grows, and sizes repeat */
    void *ptr = hr_alloc_aligned(64, hr_align_up(bytes, 64));
    if (ptr)
        hr_free(block->ptr);
    hr_mem_steady_resume(depth);
    if (!ptr)
        return HR_E_NOMEM;
    block->ptr = ptr;
    block->bytes = bytes;
    return 0;
}

void hr_block_finish(struct hr_block *block)
{
    hr_free(block->ptr);
    *block = (struct hr_block){0};
}

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* Keys' cubic with a = -0.5. */
static double cubic(double x)
{
    x = fabs(x);
    if (x < 1.0)
        return (1.5 * x - 2.5) * x * x + 1.0;
    if (x < 2.0)
        return ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0;
    return 0.0;
}

static double sinc(double x)
{
    return x == 0.0 ? 1.0 : sin(x * M_PI) / (x * M_PI);
}

static double lanczos3(double x)
{
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
}

static double filter_support(enum hr_filter filter)
{
    switch (filter) {
    case HR_FILTER_BILINEAR: return 1.0;
    case HR_FILTER_BICUBIC: return 2.0;
    case HR_FILTER_LANCZOS3: return 3.0;
    case HR_FILTER_AREA: return 0.5;
    default: return 0.0;
    }
}

static bool is_positive(enum hr_filter filter)
{
    return filter != HR_FILTER_BICUBIC && filter != HR_FILTER_LANCZOS3;
}

uint32_t hr_axis_max_taps(uint32_t in, uint32_t full_out, enum hr_filter filter)
{
    double scale = (double)in / full_out;
    double taps = 2 * ceil(filter_support(filter) * (scale < 1 ? 1 : scale)) + 1;

    return taps < in ? (uint32_t)taps : in;
}

struct weights {
    struct hr_axis *axis;
    const struct hr_axis_wide *wide; /* who made w, and in whose order it is; NULL = sample_any() */
    double *w;          /* [out][stride] */
    int32_t *fixed;     /* the same rounded */
    double largest;     /* of all |w| */
};

/* Weights of every position of the window; a copy per filter, inlined. */
static inline __attribute__((always_inline)) void sample(struct weights *ws, double (*filter)(double),
                                                         double filter_radius)
{
    struct hr_axis *axis = ws->axis;
    const struct hr_axis_key *key = &axis->key;
    const double scale = (double)key->in / key->full_out;
    const double stretch = scale < 1.0 ? 1.0 : scale;
    const double radius = filter_radius * stretch, shrink = 1.0 / stretch;
    double largest = 0;
    uint32_t taps = 0;

    for (uint32_t i = 0; i < key->out; i++) {
        double *w = ws->w + (size_t)i * axis->stride;
        double centre = (key->out_first + i + 0.5) * scale;
        double low = centre - radius + 0.5, high = centre + radius + 0.5, sum = 0;
        uint32_t first = low > 0 ? (uint32_t)low : 0;
        uint32_t end = high < key->in ? (uint32_t)high : key->in;
        uint32_t n = end - first;

        for (uint32_t t = 0; t < n; t++) {
            w[t] = filter((t + first - centre + 0.5) * shrink);
            sum += w[t];
        }
        double norm = sum != 0 ? 1.0 / sum : 1.0;
        for (uint32_t t = 0; t < n; t++) {
            w[t] *= norm;
            largest = fabs(w[t]) > largest ? fabs(w[t]) : largest;
        }
        axis->start[i] = first;
        axis->count[i] = n;
        taps = n > taps ? n : taps;
    }
    ws->largest = largest;
    axis->taps = taps;
}

static void single_taps(struct weights *ws)
{
    struct hr_axis *axis = ws->axis;

    for (uint32_t i = 0; i < axis->key.out; i++) {
        ws->w[(size_t)i * axis->stride] = 1.0;
        axis->count[i] = 1;
    }
    ws->largest = 1.0;
    axis->taps = 1;
}

static void sample_identity(struct weights *ws)
{
    for (uint32_t i = 0; i < ws->axis->key.out; i++)
        ws->axis->start[i] = ws->axis->key.out_first + i;
    single_taps(ws);
}

/* Pillow walks the output by repeated addition, and so do we: the sums round differently from
 * products. */
static void sample_nearest(struct weights *ws)
{
    const struct hr_axis_key *key = &ws->axis->key;
    const double scale = (double)key->in / key->full_out;
    double at = scale * 0.5;

    for (uint32_t i = 0; i < key->out_first + key->out; i++, at += scale) {
        uint32_t x = (uint32_t)at;
        if (i >= key->out_first)
            ws->axis->start[i - key->out_first] = x < key->in ? x : key->in - 1;
    }
    single_taps(ws);
}

static void sample_any(struct weights *ws)
{
    const struct hr_axis_key *key = &ws->axis->key;

    if (key->in == key->full_out)
        sample_identity(ws);
    else if (key->filter == HR_FILTER_BILINEAR)
        sample(ws, triangle, 1.0);
    else if (key->filter == HR_FILTER_BICUBIC)
        sample(ws, cubic, 2.0);
    else if (key->filter == HR_FILTER_LANCZOS3)
        sample(ws, lanczos3, 3.0);
    else if (key->filter == HR_FILTER_AREA)
        sample(ws, box, 0.5);
    else
        sample_nearest(ws);
}

static uint32_t most_bits(double largest, uint32_t fine_shift)
{
    uint32_t bits = fine_shift ? FINE_BITS : MAX_BITS;

    /* one less than int16 holds, for the carried rounding error */
    while (bits > 0 && largest * (double)(1u << bits) > 32766.0 * (1 << fine_shift))
        bits--;
    return bits;
}

static void round_each(const double *w, uint32_t count, double one, int32_t *fixed)
{
    for (uint32_t t = 0; t < count; t++)
        fixed[t] = (int32_t)(w[t] * one + (w[t] < 0 ? -0.5 : 0.5));
}

/* Rounds the running sum, so that each tap takes over the error of those before it. */
static void round_carrying(const double *w, uint32_t count, double one, int32_t *fixed)
{
    double sum = 0;
    int32_t before = 0;

    for (uint32_t t = 0; t < count; t++) {
        sum += w[t];
        int32_t rounded = (int32_t)lrint(sum * one);
        fixed[t] = rounded - before;
        before = rounded;
    }
}

/* Drops taps that rounded to nothing at the ends; what is left starts at fixed[0]. */
static void trim_position(struct hr_axis *axis, uint32_t i, int32_t *fixed)
{
    uint32_t count = axis->count[i], skip = 0;

    while (count > 1 && fixed[count - 1] == 0)
        count--;
    while (skip + 1 < count && fixed[skip] == 0)
        skip++;
    if (skip) {
        memmove(fixed, fixed + skip, (count - skip) * sizeof(*fixed));
        memset(fixed + count - skip, 0, skip * sizeof(*fixed));
    }
    axis->start[i] += skip;
    axis->count[i] = count - skip;
}

/* Trimming may let a position start before the one ahead of it, or end after the one behind it. The
 * row machine relies on order: give back zeros (the untrimmed positions are in order). */
static void restore_order(struct hr_axis *axis, int32_t *fixed)
{
    for (uint32_t i = axis->key.out - 1; i-- > 0;) {
        uint32_t back = axis->start[i] > axis->start[i + 1] ? axis->start[i] - axis->start[i + 1] : 0;
        int32_t *own = fixed + (size_t)i * axis->stride;
        if (!back)
            continue;
        memmove(own + back, own, axis->count[i] * sizeof(*own));
        memset(own, 0, back * sizeof(*own));
        axis->start[i] -= back;
        axis->count[i] += back;
    }
    for (uint32_t i = 1; i < axis->key.out; i++) {
        uint32_t end = axis->start[i - 1] + axis->count[i - 1];
        if (axis->start[i] + axis->count[i] < end)
            axis->count[i] = end - axis->start[i];
    }
}

static void trim(struct hr_axis *axis, int32_t *fixed)
{
    axis->taps = 0;
    for (uint32_t i = 0; i < axis->key.out; i++)
        trim_position(axis, i, fixed + (size_t)i * axis->stride);
    restore_order(axis, fixed);
    for (uint32_t i = 0; i < axis->key.out; i++)
        axis->taps = axis->count[i] > axis->taps ? axis->count[i] : axis->taps;
}

static void find_extent(struct hr_axis *axis)
{
    uint32_t last = axis->key.out - 1;

    axis->first = axis->start[0];
    axis->end = axis->start[last] + axis->count[last];
}

static void split(struct hr_axis *axis, const int32_t *fixed)
{
    size_t entries = (size_t)axis->key.out * axis->stride;
    const int shift = (int)axis->fine_shift, mask = (1 << shift) - 1;

    for (size_t k = 0; k < entries; k++) {
        int32_t coarse = fixed[k] >> shift;
        axis->coeff[k] = (int16_t)(coarse > INT16_MAX ? INT16_MAX : coarse);
    }
    for (size_t k = 0; shift && k < entries; k++)
        axis->fine[k] = (int16_t)(fixed[k] & mask);
}

static void round_positions(struct weights *ws, double one)
{
    const struct hr_axis *axis = ws->axis;

    for (uint32_t i = 0; i < axis->key.out; i++) {
        int32_t *fixed = ws->fixed + (size_t)i * axis->stride;
        const double *w = ws->w + (size_t)i * axis->stride;
        if (axis->fine_shift)
            round_each(w, axis->count[i], one, fixed);
        else
            round_carrying(w, axis->count[i], one, fixed);
    }
}

static void round_all(struct weights *ws)
{
    struct hr_axis *axis = ws->axis;
    const double one = (double)(1u << axis->bits);
    bool zeros = true;

    memset(ws->fixed, 0, (size_t)axis->key.out * axis->stride * sizeof(*ws->fixed));
    if (ws->wide)
        zeros = ws->wide->round(axis, ws->w, one, !axis->fine_shift, ws->fixed);
    else
        round_positions(ws, one);
    if (zeros)
        trim(axis, ws->fixed);
    find_extent(axis);
    split(axis, ws->fixed);
}

static int make_room(struct hr_axis *axis, uint32_t out, uint32_t max_taps)
{
    uint64_t stride = hr_align_up((uint64_t)max_taps + 1, STRIDE_STEP);
    uint64_t starts = hr_align_up((uint64_t)out * sizeof(uint32_t), 64), entries;

    uint64_t padded_out = hr_align_up(out, POSITIONS_STEP);

    if (!hr_mul_u64(padded_out, stride, &entries) || entries > SIZE_MAX / 32)
        return HR_E_LIMIT;
    if (hr_block_grow(&axis->scratch, entries * (sizeof(double) + sizeof(int32_t))) ||
        hr_block_grow(&axis->table, 2 * starts + 2 * entries * sizeof(int16_t)))
        return HR_E_NOMEM;
    uint8_t *at = axis->table.ptr;
    axis->start = (uint32_t *)(void *)at;
    axis->count = (uint32_t *)(void *)(at + starts);
    axis->coeff = (int16_t *)(void *)(at + 2 * starts);
    axis->fine = axis->coeff + entries;
    axis->stride = (uint32_t)stride;
    axis->padded_out = (uint32_t)padded_out;
    return 0;
}

/* Which scheme the coefficients of this axis are for. */
static void choose_bits(struct hr_axis *axis, double largest)
{
    bool positive = is_positive((enum hr_filter)axis->key.filter) || axis->taps == 1;

    axis->narrow = axis->key.vertical && positive && axis->taps <= HR_NARROW_TAPS;
    axis->fine_shift = axis->key.vertical || positive ? 0 : FINE_SHIFT;
    axis->bits = axis->narrow ? NARROW_BITS : most_bits(largest, axis->fine_shift);
}

int hr_axis_compute(struct hr_axis *axis, const struct hr_axis_key *key, const struct hr_axis_wide *wide)
{
    if (memcmp(&axis->key, key, sizeof(*key)) == 0)
        return 0;
    axis->key = (struct hr_axis_key){0};
    uint32_t max_taps = key->in == key->full_out ? 1
                        : hr_axis_max_taps(key->in, key->full_out, (enum hr_filter)key->filter);
    int rc = make_room(axis, key->out, max_taps);
    if (rc)
        return rc;
    double *w = axis->scratch.ptr;
    struct weights ws = {.axis = axis, .w = w};
    ws.fixed = (int32_t *)(void *)(w + (size_t)axis->padded_out * axis->stride);
    axis->key = *key;
    if (wide && key->in != key->full_out && wide->weigh(axis, w, &ws.largest))
        ws.wide = wide;
    else
        sample_any(&ws);
    choose_bits(axis, ws.largest);
    round_all(&ws);
    return 0;
}

int hr_axis_reserve(struct hr_axis *axis, uint32_t max_in, uint32_t max_out)
{
    axis->key = (struct hr_axis_key){0};
    return make_room(axis, max_out, hr_axis_max_taps(max_in, max_out, HR_FILTER_LANCZOS3));
}

void hr_axis_finish(struct hr_axis *axis)
{
    hr_block_finish(&axis->table);
    hr_block_finish(&axis->scratch);
    *axis = (struct hr_axis){0};
}
