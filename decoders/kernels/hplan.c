/* Horizontal layouts: lanes of elements for shuffling kernels, or pixel after pixel.
 *
 * All taps of a layout are read for every position, so shorter positions get zeros, at the front
 * where they would otherwise reach past the last needed column: only [first, end) of the row is
 * used, and when that is shorter than the taps the row has to be copied to padded memory. */
#include "decoders/kernels/hplan.h"

#include <string.h>

struct lane_shape {
    uint32_t lanes, elements, window; /* lanes a step, elements a lane, bytes in reach of a lane */
    uint32_t base_slots;              /* the base of the element at slot 0 is the first, at this one the second … */
    uint8_t slot[32];                 /* where element e of the step goes */
};

static const struct lane_shape lane_shapes[] = {
    [HR_HLAYOUT_PAIR64] = {1, 32, 64, 32, {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}},
    [HR_HLAYOUT_LANE64] = {2, 16, 64, 16, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}},
    [HR_HLAYOUT_PAIR16] = {2, 8, 16, 4, {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15}},
    [HR_HLAYOUT_LANE16] = {4, 4, 16, 4, {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15}},
};

static uint32_t position_of(const struct hr_axis *axis, uint32_t x, bool flip)
{
    return flip ? axis->key.out - 1 - x : x;
}

static uint32_t padded_start(const struct hr_axis *axis, uint32_t i, uint32_t taps)
{
    uint32_t start = axis->start[i];

    if (axis->end - axis->first < taps)
        return axis->first;
    return start + taps > axis->end ? axis->end - taps : start;
}

/* The taps of position i when it is made to start at padded_start; then their fine parts. */
static void padded_taps(const struct hr_axis *axis, uint32_t i, uint32_t start, uint32_t taps,
                        int16_t *out)
{
    uint32_t lead = axis->start[i] - start, count = axis->count[i];
    size_t from = (size_t)i * axis->stride;

    memset(out, 0, taps * sizeof(*out));
    memcpy(out + lead, axis->coeff + from, count * sizeof(*out));
    if (axis->fine_shift) {
        memset(out + taps, 0, taps * sizeof(*out));
        memcpy(out + taps + lead, axis->fine + from, count * sizeof(*out));
    }
}

/* int16 numbers a tap: one, or a coarse and a fine one. */
static uint32_t parts(const struct hr_hplan *plan)
{
    return plan->fine_shift ? 2 : 1;
}

static int carve(struct hr_hplan_store *store, size_t bases, size_t index_bytes, size_t coeffs,
                 uint32_t **base, uint8_t **index, int16_t **coeff)
{
    size_t base_bytes = hr_align_up(bases * sizeof(uint32_t), 64);

    index_bytes = hr_align_up(index_bytes, 64);
    if (hr_block_grow(&store->table, base_bytes + index_bytes + coeffs * sizeof(int16_t)))
        return HR_E_NOMEM;
    uint8_t *at = store->table.ptr;
    *base = (uint32_t *)(void *)at;
    *index = at + base_bytes;
    *coeff = (int16_t *)(void *)(at + base_bytes + index_bytes);
    store->plan.base = *base;
    store->plan.index = *index;
    store->plan.coeff = *coeff;
    return 0;
}

/* The padded taps of an output pixel: where they are in the axis, if they need no padding. */
static const int16_t *taps_of(const struct hr_axis *axis, const struct hr_hplan *plan, uint32_t i,
                              uint32_t start, int16_t *scratch)
{
    if (axis->start[i] == start && !plan->fine_shift)
        return axis->coeff + (size_t)i * axis->stride; /* zeros follow, up to the stride */
    padded_taps(axis, i, start, plan->taps, scratch);
    return scratch;
}

/* copies: of each pair of coefficients, side by side. */
static int build_pixels(struct hr_hplan_store *store, const struct hr_axis *axis, bool flip, size_t copies)
{
    struct hr_hplan *plan = &store->plan;
    uint32_t *base;
    uint8_t *index;
    int16_t *coeff;

    const size_t taps = plan->taps * parts(plan), entries = taps * copies;

    plan->steps = axis->key.out;
    int rc = carve(store, plan->steps, 0, plan->steps * entries + taps, &base, &index, &coeff);
    if (rc)
        return rc;
    int16_t *scratch = coeff + plan->steps * entries;
    for (uint32_t x = 0; x < plan->steps; x++, coeff += entries) {
        uint32_t i = position_of(axis, x, flip), start = padded_start(axis, i, plan->taps);
        base[x] = start * plan->channels;
        if (copies == 1) {
            padded_taps(axis, i, start, plan->taps, coeff);
            continue;
        }
        const int16_t *own = taps_of(axis, plan, i, start, scratch);
        for (size_t e = 0; e < entries; e++)
            coeff[e] = own[e / (2 * copies) * 2 + e % 2];
    }
    return 0;
}

/* Whether the first two taps of all elements of each lane are within its window. */
static bool lanes_fit(const struct hr_hplan *plan, const struct hr_axis *axis, bool flip,
                      const struct lane_shape *shape)
{
    uint32_t elements = axis->key.out * plan->channels;

    for (uint32_t e = 0; e < elements; e += shape->elements) {
        uint32_t last = e + shape->elements - 1 < elements ? e + shape->elements - 1 : elements - 1;
        uint32_t a = padded_start(axis, position_of(axis, e / plan->channels, flip), plan->taps);
        uint32_t b = padded_start(axis, position_of(axis, last / plan->channels, flip), plan->taps);
        uint32_t span = (a > b ? a - b : b - a) + 2;
        if (span * plan->channels > shape->window)
            return false;
    }
    return true;
}

/* Whether all taps that count of all elements of each lane are within its first window. */
static bool taps_fit(const struct hr_hplan *plan, const struct hr_axis *axis, bool flip,
                     const struct lane_shape *shape)
{
    uint32_t elements = axis->key.out * plan->channels;

    for (uint32_t e = 0; e < elements; e += shape->elements) {
        uint32_t last = e + shape->elements - 1 < elements ? e + shape->elements - 1 : elements - 1;
        uint32_t a = position_of(axis, e / plan->channels, flip);
        uint32_t b = position_of(axis, last / plan->channels, flip);
        uint32_t low = a < b ? a : b, high = a < b ? b : a;
        uint32_t span = axis->start[high] + axis->count[high] - padded_start(axis, low, plan->taps);
        if (span * plan->channels > shape->window)
            return false;
    }
    return true;
}

/* One element's shuffle and coefficients, at its slot of the step. */
static inline void put_element(const struct hr_hplan *plan, uint32_t per_step, uint32_t at,
                               const int16_t *taps, uint8_t *index, int16_t *coeff)
{
    const uint32_t shuffle = at | (at + plan->channels) << 16 | 0x80008000;

    hr_store_le32(index, shuffle);
    for (uint32_t t = 0; t < plan->taps; t += 2, coeff += 2 * per_step) {
        memcpy(coeff, taps + t, 2 * sizeof(*coeff));
        if (plan->fine_shift) {
            coeff += 2 * per_step;
            memcpy(coeff, taps + plan->taps + t, 2 * sizeof(*coeff));
        }
    }
}

struct lane_tables {
    uint32_t *base;
    uint8_t *index;
    int16_t *coeff, *scratch;
};

static uint32_t lowest_start(const struct hr_axis *axis, const struct hr_hplan *plan, bool flip,
                             uint32_t first_element, uint32_t last_element)
{
    /* starts never decrease, so the lowest is at one end */
    uint32_t x = (flip ? last_element : first_element) / plan->channels;

    x = x < axis->key.out ? x : axis->key.out - 1;
    return padded_start(axis, position_of(axis, x, flip), plan->taps);
}

static void fill_lanes(const struct hr_hplan *plan, const struct hr_axis *axis, bool flip,
                       const struct lane_shape *shape, const struct lane_tables *to)
{
    const uint32_t per_step = shape->lanes * shape->elements, channels = plan->channels;
    const size_t step_coeffs = (size_t)per_step * plan->taps * parts(plan);
    uint32_t x = 0, c = 0, i = position_of(axis, 0, flip);
    uint32_t start = padded_start(axis, i, plan->taps);
    const int16_t *taps = taps_of(axis, plan, i, start, to->scratch);

    for (uint32_t s = 0; s < plan->steps; s++) {
        uint32_t base = 0;
        for (uint32_t e = 0; e < per_step; e++) {
            uint32_t slot = shape->slot[e];
            if (e % shape->elements == 0) {
                uint32_t first = s * per_step + e;
                base = lowest_start(axis, plan, flip, first, first + shape->elements - 1) * channels;
                to->base[s * shape->lanes + slot / shape->base_slots] = base;
            }
            put_element(plan, per_step, start * channels + c - base, taps,
                        to->index + ((size_t)s * per_step + slot) * 4,
                        to->coeff + s * step_coeffs + 2 * slot);
            if (++c < channels)
                continue;
            c = 0;
            if (x + 1 >= axis->key.out)
                continue; /* past the end the last pixel repeats */
            i = position_of(axis, ++x, flip);
            start = padded_start(axis, i, plan->taps);
            taps = taps_of(axis, plan, i, start, to->scratch);
        }
    }
}

static int build_lanes(struct hr_hplan_store *store, const struct hr_axis *axis, bool flip,
                       const struct lane_shape *shape)
{
    struct hr_hplan *plan = &store->plan;
    const uint32_t per_step = shape->lanes * shape->elements, entries = plan->taps * parts(plan);
    struct lane_tables to;

    plan->steps = (axis->key.out * plan->channels + per_step - 1) / per_step;
    size_t coeffs = (size_t)plan->steps * per_step * entries;
    int rc = carve(store, (size_t)plan->steps * shape->lanes, (size_t)plan->steps * per_step * 4,
                   coeffs + entries, &to.base, &to.index, &to.coeff);
    if (rc)
        return rc;
    to.scratch = to.coeff + coeffs;
    fill_lanes(plan, axis, flip, shape, &to);
    return 0;
}

static void set_taps(struct hr_hplan_store *store, const struct hr_axis *axis, uint32_t multiple)
{
    uint32_t taps = (axis->taps + multiple - 1) / multiple * multiple;

    store->plan.taps = taps;
    store->pad_pixels = axis->end - axis->first < taps ? taps : 0;
}

int hr_hplan_build(struct hr_hplan_store *store, const struct hr_kernels *kernels,
                   const struct hr_axis *axis, uint32_t channels, bool flip)
{
    store->plan.channels = channels;
    store->plan.bits = axis->bits;
    store->plan.fine_shift = axis->fine_shift;
    set_taps(store, axis, 2);
    for (int layout = HR_HLAYOUT_PAIR64; layout <= HR_HLAYOUT_LANE16; layout++)
        if (kernels->hresize[layout] && lanes_fit(&store->plan, axis, flip, &lane_shapes[layout])) {
            store->resize = kernels->hresize[layout];
            store->resize_planes = kernels->hresize_planes[layout];
            store->lanes = true;
            store->plan.one_window = lane_shapes[layout].window == 16 && store->plan.taps == 4 &&
                                     taps_fit(&store->plan, axis, flip, &lane_shapes[layout]);
            return build_lanes(store, axis, flip, &lane_shapes[layout]);
        }
    bool pixel = kernels->hresize[HR_HLAYOUT_PIXEL];
    store->lanes = false;
    store->resize_planes = NULL;
    store->resize = kernels->hresize[pixel ? HR_HLAYOUT_PIXEL : HR_HLAYOUT_PAIRS];
    set_taps(store, axis, channels == 1 ? 8 : pixel ? 4 : 2);
    return build_pixels(store, axis, flip, pixel || channels == 1 ? 1 : 4);
}

int hr_hplan_reserve(struct hr_hplan_store *store, uint32_t max_in, uint32_t max_out)
{
    uint64_t elements = hr_align_up((uint64_t)max_out * 3, 32);
    uint64_t taps = hr_align_up(hr_axis_max_taps(max_in, max_out, HR_FILTER_LANCZOS3), 8);

    return hr_block_grow(&store->table, elements * 8 + 256 + (elements + 1) * taps * 4);
}
