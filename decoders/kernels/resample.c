/* The row machine: rows of a box go in, finished rows of the result come out. Each row that counts
 * is resized horizontally into a ring just tall enough for the vertical filter; when the last row of
 * an output row is in, the ring rows are combined, converted and stored in one go. */
#include "decoders/kernels/resample.h"

#include <string.h>

#include "base/mem.h"
#include "decoders/kernels/axis.h"
#include "decoders/kernels/hplan.h"
#include "decoders/kernels/kernels.h"

enum { ROW_SLACK = 64, MAX_SIDE = 1 << 24, PLANE_STEP = 32 /* elements that kernels write at once, at most */ };

struct hr_resample {
    const struct hr_kernels *kernels;
    struct hr_resample_job job;
    /* A row is one of interleaved pixels, or three of one channel, through the same kernels. */
    uint32_t planes, plane_channels; /* 1 of job.channels; 3 of 1 */
    bool join;                       /* planes, whose output is interleaved */
    size_t pitch;                    /* elements from one plane to the next in rows of the ring and the line */
    struct hr_store store[3];        /* of each plane */
    hr_store_fn *convert; /* NULL: bytes go straight to dst */
    size_t dtype_bytes;

    struct hr_axis columns, rows;
    struct hr_hplan_store horizontal;
    /* what the horizontal plan was made from */
    struct hr_axis_key planned_key;
    uint32_t planned_channels;
    bool planned_flip;

    struct hr_block ring, line, joined, padded, pointers;
    /* What the kernels' table of conversions was made for. */
    uint32_t table[3 * 256];
    struct table_key {
        hr_store_fn *convert;
        float scale[3], bias[3];
    } table_key;

    uint32_t ring_mask;
    size_t ring_stride; /* in elements */

    bool through;      /* neither axis changes: rows are only converted */
    uint32_t pushed;   /* next source row */
    uint32_t next_out; /* next output row, before the flip */
};

int hr_resample_create(struct hr_resample **out)
{
    struct hr_resample *resample = hr_alloc_zero(1, sizeof(*resample));

    if (!resample)
        return HR_E_NOMEM;
    resample->kernels = hr_kernels_get();
    *out = resample;
    return 0;
}

void hr_resample_destroy(struct hr_resample *resample)
{
    if (!resample)
        return;
    hr_axis_finish(&resample->columns);
    hr_axis_finish(&resample->rows);
    hr_block_finish(&resample->horizontal.table);
    hr_block_finish(&resample->ring);
    hr_block_finish(&resample->line);
    hr_block_finish(&resample->joined);
    hr_block_finish(&resample->padded);
    hr_block_finish(&resample->pointers);
    hr_free(resample);
}

void hr_resample_use_kernels(struct hr_resample *resample, const struct hr_kernels *kernels)
{
    resample->kernels = kernels;
    resample->planned_channels = 0;
    resample->table_key.convert = NULL;
}

static uint32_t power_of_two(uint32_t at_least)
{
    uint32_t p = 1;

    while (p < at_least)
        p *= 2;
    return p;
}

/* Scratch rows of so many elements for a vertical filter of so many taps. */
static int make_rows(struct hr_resample *resample, uint64_t elements, uint32_t taps)
{
    uint32_t ring_rows = power_of_two(taps);
    uint64_t stride = hr_align_up(elements, 64) + HR_RING_PAD, ring_bytes;

    if (!hr_mul_u64(stride * sizeof(int16_t), ring_rows, &ring_bytes) || ring_bytes > SIZE_MAX / 2)
        return HR_E_LIMIT;
    if (hr_block_grow(&resample->ring, ring_bytes) ||
        hr_block_grow(&resample->line, hr_align_up(elements, 64) + ROW_SLACK) ||
        hr_block_grow(&resample->pointers, ((size_t)ring_rows + 1) * sizeof(int16_t *)))
        return HR_E_NOMEM;
    resample->ring_stride = stride;
    resample->ring_mask = ring_rows - 1;
    return 0;
}

int hr_resample_reserve(struct hr_resample *resample, uint32_t max_in_w, uint32_t max_in_h,
                        uint32_t max_out_w, uint32_t max_out_h)
{
    if (!max_in_w || !max_in_h || !max_out_w || !max_out_h || max_in_w > MAX_SIDE ||
        max_in_h > MAX_SIDE || max_out_w > MAX_SIDE || max_out_h > MAX_SIDE)
        return HR_E_LIMIT;
    resample->planned_channels = 0;
    int rc = hr_axis_reserve(&resample->columns, max_in_w, max_out_w);
    if (!rc)
        rc = hr_axis_reserve(&resample->rows, max_in_h, max_out_h);
    if (!rc)
        rc = hr_hplan_reserve(&resample->horizontal, max_in_w, max_out_w);
    if (!rc)
        rc = make_rows(resample, 3 * hr_align_up(max_out_w, PLANE_STEP),
                       hr_axis_max_taps(max_in_h, max_out_h, HR_FILTER_LANCZOS3));
    if (!rc)
        rc = hr_block_grow(&resample->joined, 3 * (size_t)max_out_w + ROW_SLACK);
    return rc;
}

static bool window_inside(uint32_t first, uint32_t count, uint32_t whole)
{
    return count && whole <= MAX_SIDE && count <= whole && first <= whole - count;
}

static int check_job(const struct hr_resample_job *job)
{
    if (!job->in_w || !job->in_h || job->in_w > MAX_SIDE || job->in_h > MAX_SIDE)
        return HR_E_LIMIT;
    if (!window_inside(job->out_x, job->out_w, job->full_out_w) ||
        !window_inside(job->out_y, job->out_h, job->full_out_h))
        return HR_E_LIMIT;
    if ((job->channels != 1 && job->channels != 3) || (unsigned)job->filter >= HR_FILTER_COUNT)
        return HR_E_UNSUPPORTED;
    return 0;
}

static void make_table(struct hr_resample *resample, enum hr_store_type type)
{
    struct table_key key;

    memset(&key, 0, sizeof(key));
    key.convert = resample->convert;
    memcpy(key.scale, resample->store[0].scale, sizeof(key.scale));
    memcpy(key.bias, resample->store[0].bias, sizeof(key.bias));
    resample->store[0].table = resample->table;
    if (memcmp(&resample->table_key, &key, sizeof(key)) == 0)
        return;
    resample->kernels->fill_table(&resample->store[0], type, resample->table);
    resample->table_key = key;
}

/* For rows of so many channels, the first of which is channel c of the job. */
static void fill_store(struct hr_resample *resample, struct hr_store *store, uint32_t channels, uint32_t first)
{
    const struct hr_resample_job *job = &resample->job;

    *store = (struct hr_store){.channels = channels, .plane_stride = job->dst_plane_stride};
    memcpy(store->scale, job->scale + first, channels * sizeof(*store->scale));
    memcpy(store->bias, job->bias + first, channels * sizeof(*store->bias));
    for (uint32_t i = 0, c = 0; i < HR_PACKED_PERIOD; i++, c = c + 1 == channels ? 0 : c + 1) {
        store->packed_scale[i] = store->scale[c];
        store->packed_bias[i] = store->bias[c];
    }
}

static int choose_store(struct hr_resample *resample)
{
    const struct hr_resample_job *job = &resample->job;
    bool planar = job->planar && job->channels == 3 && resample->planes == 1;
    enum hr_store_type type;

    switch (job->dtype) {
    case HR_DTYPE_U8: type = HR_STORE_U8; break;
    case HR_DTYPE_F16: type = HR_STORE_F16; break;
    case HR_DTYPE_BF16: type = HR_STORE_BF16; break;
    case HR_DTYPE_F32: type = HR_STORE_F32; break;
    default: return HR_E_UNSUPPORTED;
    }
    resample->dtype_bytes = hr_dtype_bytes(job->dtype);
    if (resample->join)
        fill_store(resample, &resample->store[0], job->channels, 0);
    for (uint32_t p = 0; p < resample->planes && !resample->join; p++)
        fill_store(resample, &resample->store[p], resample->plane_channels, p);
    resample->convert = planar ? resample->kernels->planar[type] : resample->kernels->packed[type];
    if (resample->kernels->fill_table && type != HR_STORE_U8)
        make_table(resample, type);
    return 0;
}

/* Rows of so many channels, as many as make up the job's. */
static int plan_horizontal(struct hr_resample *resample, uint32_t channels)
{
    const struct hr_axis *axis = &resample->columns;
    bool flip = resample->job.flip_h;

    resample->planes = resample->job.channels / channels;
    resample->plane_channels = channels;
    if (memcmp(&resample->planned_key, &axis->key, sizeof(axis->key)) == 0 &&
        resample->planned_channels == channels && resample->planned_flip == flip)
        return 0;
    resample->planned_channels = 0;
    int rc = hr_hplan_build(&resample->horizontal, resample->kernels, axis, channels, flip);
    if (rc)
        return rc;
    resample->planned_key = axis->key;
    resample->planned_channels = channels;
    resample->planned_flip = flip;
    return 0;
}

static bool may_take_planes(const struct hr_kernels *kernels, bool planar)
{
    bool lanes = false;

    for (int layout = HR_HLAYOUT_PAIR64; layout <= HR_HLAYOUT_LANE16; layout++)
        lanes |= kernels->hresize[layout] != NULL;
    return lanes && !kernels->fill_table && (planar || kernels->interleave);
}

bool hr_resample_may_take_planes(bool planar)
{
    return may_take_planes(hr_kernels_get(), planar);
}

static int plan_columns(struct hr_resample *resample)
{
    const struct hr_resample_job *job = &resample->job;
    struct hr_axis_key key = {job->in_w, job->full_out_w, job->out_x, job->out_w, job->filter, 0};
    bool planes = job->planes && job->channels == 3 && may_take_planes(resample->kernels, job->planar);

    int rc = hr_axis_compute(&resample->columns, &key, resample->kernels->axis);
    if (rc == 0)
        rc = plan_horizontal(resample, planes ? 1 : job->channels);
    if (rc == 0 && planes && !resample->horizontal.lanes)
        rc = plan_horizontal(resample, job->channels);
    resample->join = resample->planes == 3 && !job->planar;
    if (rc == 0 && resample->join)
        rc = hr_block_grow(&resample->joined, 3 * (size_t)job->out_w + ROW_SLACK);
    if (rc)
        return rc;
    return hr_block_grow(&resample->padded,
                         (size_t)resample->horizontal.pad_pixels * resample->plane_channels + ROW_SLACK);
}

static int plan_rows(struct hr_resample *resample)
{
    const struct hr_resample_job *job = &resample->job;
    struct hr_axis *axis = &resample->rows;
    struct hr_axis_key key = {job->in_h, job->full_out_h, job->out_y, job->out_h, job->filter, 1};

    int rc = hr_axis_compute(axis, &key, resample->kernels->axis);
    if (rc)
        return rc;
    resample->horizontal.plan.ring_shift = axis->narrow ? HR_NARROW_SHIFT : 0;
    resample->pitch = hr_align_up((size_t)job->out_w * resample->plane_channels, PLANE_STEP);
    return make_rows(resample, resample->planes * resample->pitch, axis->taps);
}

int hr_resample_begin(struct hr_resample *resample, const struct hr_resample_job *job)
{
    struct hr_resample_job *own = &resample->job;

    *own = *job;
    if (!own->full_out_w) {
        own->full_out_w = own->out_w;
        own->full_out_h = own->out_h;
        own->out_x = own->out_y = 0;
    }
    int rc = check_job(own);
    if (!rc)
        rc = plan_columns(resample);
    if (!rc)
        rc = choose_store(resample);
    if (!rc)
        rc = plan_rows(resample);
    if (rc)
        return rc;
    resample->through =
        own->in_w == own->full_out_w && own->in_h == own->full_out_h && !own->flip_h;
    resample->pushed = resample->rows.first;
    resample->next_out = 0;
    return 0;
}

void hr_resample_rows_needed(const struct hr_resample *resample, uint32_t *first, uint32_t *last)
{
    *first = resample->rows.first;
    *last = resample->rows.end - 1;
}

void hr_resample_cols_needed(const struct hr_resample *resample, uint32_t *first, uint32_t *last)
{
    *first = resample->columns.first;
    *last = resample->columns.end - 1;
}

/* y: before the flip. */
static uint8_t *dst_row(const struct hr_resample *resample, uint32_t y)
{
    const struct hr_resample_job *job = &resample->job;

    if (job->flip_v)
        y = job->out_h - 1 - y;
    return (uint8_t *)job->dst + y * job->dst_row_stride * resample->dtype_bytes;
}

static int16_t *ring_row(const struct hr_resample *resample, uint32_t y)
{
    return (int16_t *)resample->ring.ptr + (y & resample->ring_mask) * resample->ring_stride;
}

static void combine(struct hr_resample *resample, uint32_t i, uint8_t *dst)
{
    const struct hr_axis *axis = &resample->rows;
    const int16_t *coeff = axis->coeff + (size_t)i * axis->stride;
    const int16_t **rows = resample->pointers.ptr;
    uint32_t taps = axis->count[i];
    size_t elements = (size_t)resample->job.out_w * resample->job.channels;

    if (resample->planes > 1)
        elements = resample->planes * resample->pitch;
    for (uint32_t t = 0; t < taps; t++)
        rows[t] = ring_row(resample, axis->start[i] + t);
    rows[taps] = rows[0]; /* for kernels that take two at a time: the coefficient is 0 */
    if (axis->narrow)
        resample->kernels->vnarrow(rows, coeff, taps, dst, elements);
    else
        resample->kernels->vwide(rows, coeff, taps, axis->bits, dst, elements);
}

static inline void prefetch_line(const uint8_t *at)
{
#ifdef __x86_64__ /* the builtin makes one for reading of it; CPUs that do not know this one pass over it */
    __asm__ volatile("prefetchw %0" : : "m"(*at));
#else
    __builtin_prefetch(at, 1);
#endif
}

static void prefetch_for_write(const uint8_t *at, size_t bytes)
{
    const uint8_t *end = at + bytes;

    for (at -= (uintptr_t)at % HR_CACHE_LINE; at < end; at += HR_CACHE_LINE)
        prefetch_line(at);
}

/* The output is in no cache. Its next row is fetched while the rows are decoded that it is made of. */
static void prefetch_dst(const struct hr_resample *resample)
{
    const struct hr_resample_job *job = &resample->job;
    const size_t item = resample->dtype_bytes, planes = job->planar ? job->channels : 1;
    const size_t elements = (size_t)job->out_w * (job->planar ? 1 : job->channels);

    if (hr_resample_done(resample))
        return;
    for (size_t p = 0; p < planes; p++)
        prefetch_for_write(dst_row(resample, resample->next_out) + p * job->dst_plane_stride * item, elements * item);
}

static void convert_plane(const struct hr_resample *resample, uint32_t p, const uint8_t *line, uint8_t *dst)
{
    const struct hr_resample_job *job = &resample->job;

    resample->convert(&resample->store[p], line, dst + p * job->dst_plane_stride * resample->dtype_bytes, job->out_w);
}

static void convert_joined(const struct hr_resample *resample, const uint8_t *const lines[3], uint8_t *dst)
{
    const struct hr_resample_job *job = &resample->job;
    bool bytes = job->dtype == HR_DTYPE_U8;
    uint8_t *pixels = bytes ? dst : resample->joined.ptr;

    resample->kernels->interleave(lines, pixels, job->out_w);
    if (!bytes)
        resample->convert(&resample->store[0], pixels, dst, job->out_w);
}

/* A row of bytes, or as many as there are planes, to output. */
static void convert(const struct hr_resample *resample, const uint8_t *const lines[], uint8_t *dst)
{
    if (resample->join) {
        convert_joined(resample, lines, dst);
        return;
    }
    for (uint32_t p = 0; p < resample->planes; p++)
        convert_plane(resample, p, lines[p], dst);
}

static void emit(struct hr_resample *resample)
{
    const struct hr_resample_job *job = &resample->job;
    uint32_t i = resample->next_out++;
    uint8_t *dst = dst_row(resample, i), *line = resample->line.ptr;

    prefetch_dst(resample);
    if (job->dtype == HR_DTYPE_U8 && resample->planes == 1 && (!job->planar || job->channels == 1)) {
        combine(resample, i, dst);
        return;
    }
    const uint8_t *lines[3];
    for (uint32_t p = 0; p < resample->planes; p++)
        lines[p] = line + p * resample->pitch;
    combine(resample, i, line);
    convert(resample, lines, dst);
}

static void resize_row(struct hr_resample *resample, const uint8_t *row, int16_t *dst)
{
    const struct hr_axis *axis = &resample->columns;
    size_t channels = resample->plane_channels;

    if (resample->horizontal.pad_pixels) {
        size_t offset = axis->first * channels;
        memcpy(resample->padded.ptr, row + offset, (axis->end - axis->first) * channels);
        row = (const uint8_t *)((uintptr_t)resample->padded.ptr - offset);
    }
    resample->horizontal.resize(&resample->horizontal.plan, row, dst);
}

static void resize_rows(struct hr_resample *resample, const uint8_t *const rows[], int16_t *dst)
{
    const struct hr_hplan_store *h = &resample->horizontal;

    if (resample->planes == 3 && h->resize_planes && !h->pad_pixels) {
        h->resize_planes(&h->plan, rows, dst, resample->pitch);
        return;
    }
    for (uint32_t p = 0; p < resample->planes; p++)
        resize_row(resample, rows[p], dst + p * resample->pitch);
}

static void pass_through(struct hr_resample *resample, const uint8_t *const rows[])
{
    const uint8_t *from[3];

    for (uint32_t p = 0; p < resample->planes; p++)
        from[p] = rows[p] + (size_t)resample->job.out_x * resample->plane_channels;
    convert(resample, from, dst_row(resample, resample->next_out++));
}

static void push(struct hr_resample *resample, const uint8_t *const rows[])
{
    const struct hr_axis *axis = &resample->rows;
    uint32_t y = resample->pushed++;

    if (hr_resample_done(resample) || y < axis->start[resample->next_out])
        return;
    if (resample->through) {
        pass_through(resample, rows);
        return;
    }
    resize_rows(resample, rows, ring_row(resample, y));
    while (!hr_resample_done(resample) &&
           axis->start[resample->next_out] + axis->count[resample->next_out] <= y + 1)
        emit(resample);
}

void hr_resample_push(struct hr_resample *resample, const uint8_t *row)
{
    HR_ASSERT(resample->planes == 1);
    push(resample, &row);
}

bool hr_resample_takes_planes(const struct hr_resample *resample)
{
    return resample->planes == 3;
}

void hr_resample_push_planes(struct hr_resample *resample, const uint8_t *const rows[3])
{
    HR_ASSERT(resample->planes == 3);
    push(resample, rows);
}

bool hr_resample_done(const struct hr_resample *resample)
{
    return resample->next_out >= resample->job.out_h;
}
