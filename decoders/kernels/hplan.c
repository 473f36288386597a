/* Horizontal layouts: lanes of elements for shuffling kernels, or pixel after pixel.
 *
 * All taps of a layout are read for every position, so shorter positions get zeros, at the front
 * where they would otherwise reach past the last needed column: only [first, end) of the row is
 * used, and when that is shorter than the taps the row has to be copied to padded memory. */
#include "decoders/kernels/hplan.h"

#include <string.h>

struct lane_shape {
    uint32_t lanes, elements, window; /* lanes a step, elements a lane, bytes in reach of a lane */
    uint8_t order[4];                 /* where lane k goes within the step */
};

static const struct lane_shape lane_shapes[] = {
    [HR_HLAYOUT_LANE64] = {2, 16, 64, {0, 1}},
    [HR_HLAYOUT_LANE16] = {4, 4, 16, {0, 2, 1, 3}},
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

static int build_pixels(struct hr_hplan_store *store, const struct hr_axis *axis, bool flip)
{
    struct hr_hplan *plan = &store->plan;
    uint32_t *base;
    uint8_t *index;
    int16_t *coeff;

    const size_t entries = plan->taps * parts(plan);

    plan->steps = axis->key.out;
    int rc = carve(store, plan->steps, 0, plan->steps * entries, &base, &index, &coeff);
    if (rc)
        return rc;
    for (uint32_t x = 0; x < plan->steps; x++) {
        uint32_t i = position_of(axis, x, flip), start = padded_start(axis, i, plan->taps);
        base[x] = start * plan->channels;
        padded_taps(axis, i, start, plan->taps, coeff + x * entries);
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

struct element {
    uint32_t x, channel, start; /* start: padded, in pixels */
    int16_t *taps;              /* of pixel x */
};

static void put_lane(const struct hr_hplan *plan, const struct lane_shape *shape,
                     const struct element *elements, uint32_t *base, uint8_t *index, int16_t *coeff)
{
    const uint32_t per_pair = shape->lanes * shape->elements * 2;
    const size_t stride = per_pair * parts(plan);
    uint32_t lowest = UINT32_MAX;

    for (uint32_t k = 0; k < shape->elements; k++)
        lowest = elements[k].start < lowest ? elements[k].start : lowest;
    *base = lowest * plan->channels;
    for (uint32_t k = 0; k < shape->elements; k++) {
        const struct element *el = &elements[k];
        uint32_t at = (el->start - lowest) * plan->channels + el->channel;
        index[4 * k] = (uint8_t)at;
        index[4 * k + 1] = 0x80;
        index[4 * k + 2] = (uint8_t)(at + plan->channels);
        index[4 * k + 3] = 0x80;
        int16_t *to = coeff + 2 * k;
        for (uint32_t t = 0; t < plan->taps; t += 2, to += stride) {
            memcpy(to, el->taps + t, 2 * sizeof(int16_t));
            if (plan->fine_shift)
                memcpy(to + per_pair, el->taps + plan->taps + t, 2 * sizeof(int16_t));
        }
    }
}

/* Steps to the next element; past the end of the row the last pixel repeats. */
static void next_element(const struct hr_axis *axis, const struct hr_hplan *plan, bool flip,
                         struct element *el)
{
    if (++el->channel < plan->channels)
        return;
    el->channel = 0;
    if (el->x + 1 >= axis->key.out)
        return;
    el->x++;
    uint32_t i = position_of(axis, el->x, flip);
    el->start = padded_start(axis, i, plan->taps);
}

static int build_lanes(struct hr_hplan_store *store, const struct hr_axis *axis, bool flip,
                       const struct lane_shape *shape)
{
    struct hr_hplan *plan = &store->plan;
    const uint32_t per_step = shape->lanes * shape->elements, taps = plan->taps;
    const uint32_t entries = taps * parts(plan);
    uint32_t *base;
    uint8_t *index;
    int16_t *coeff;

    plan->steps = (axis->key.out * plan->channels + per_step - 1) / per_step;
    size_t coeffs = (size_t)plan->steps * per_step * entries;
    size_t padded = (size_t)axis->key.out * entries;
    int rc = carve(store, (size_t)plan->steps * shape->lanes, (size_t)plan->steps * per_step * 4,
                   coeffs + padded, &base, &index, &coeff);
    if (rc)
        return rc;
    int16_t *pixel_taps = coeff + coeffs; /* scratch: padded taps, in output order */
    for (uint32_t x = 0; x < axis->key.out; x++) {
        uint32_t i = position_of(axis, x, flip);
        padded_taps(axis, i, padded_start(axis, i, taps), taps, pixel_taps + (size_t)x * entries);
    }
    struct element el = {.x = UINT32_MAX, .channel = plan->channels - 1}, lane[16];
    for (uint32_t s = 0; s < plan->steps; s++)
        for (uint32_t k = 0; k < shape->lanes; k++) {
            uint32_t to = shape->order[k];
            for (uint32_t j = 0; j < shape->elements; j++) {
                next_element(axis, plan, flip, &el);
                lane[j] = el;
                lane[j].taps = pixel_taps + (size_t)el.x * entries;
            }
            put_lane(plan, shape, lane, &base[s * shape->lanes + to],
                     index + ((size_t)s * per_step + to * shape->elements) * 4,
                     coeff + (size_t)s * per_step * entries + to * shape->elements * 2);
        }
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
    for (int layout = HR_HLAYOUT_LANE64; layout <= HR_HLAYOUT_LANE16; layout++)
        if (kernels->hresize[layout] && lanes_fit(&store->plan, axis, flip, &lane_shapes[layout])) {
            store->resize = kernels->hresize[layout];
            return build_lanes(store, axis, flip, &lane_shapes[layout]);
        }
    bool pixel = kernels->hresize[HR_HLAYOUT_PIXEL];
    store->resize = kernels->hresize[pixel ? HR_HLAYOUT_PIXEL : HR_HLAYOUT_PLAIN];
    set_taps(store, axis, !pixel ? 1 : channels == 1 ? 8 : 4);
    return build_pixels(store, axis, flip);
}

int hr_hplan_reserve(struct hr_hplan_store *store, uint32_t max_in, uint32_t max_out)
{
    uint64_t elements = hr_align_up((uint64_t)max_out * 3, 32);
    uint64_t taps = hr_align_up(hr_axis_max_taps(max_in, max_out, HR_FILTER_LANCZOS3), 8);

    return hr_block_grow(&store->table, elements * 8 + 256 + (elements + max_out) * taps * 4);
}
