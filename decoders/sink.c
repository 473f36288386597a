/* The way from stored rows to output. Geometry first: the plan's box and window are in the oriented
 * picture; parts outside are cut away and painted with the fill colour, the rest is turned back into
 * stored coordinates. Orientations that swap axes resize into a small 8-bit picture first, which is
 * then written out transposed. */
#include "decoders/sink.h"
#include "decoders/scratch.h"

#include <string.h>

#include "base/mem.h"
#include "decoders/kernels/resample.h"

enum { ROW_PAD = 64 };

struct rect {
    int64_t x, y, w, h;
};

/* One job, in the coordinates that the function at hand works in. */
struct geometry {
    struct rect box;    /* of the picture */
    int64_t full_w, full_h;
    struct rect window; /* of the resized box */
    bool flip_h, flip_v;
};

struct hr_image_sink {
    struct hr_resample *resample, *turn; /* turn: writes the transposed picture */
    uint8_t *scratch, *row;              /* turned picture; row with padding or transposed row */
    size_t scratch_bytes, row_bytes;
    /* the picture at hand */
    struct hr_image_plan plan;
    struct hr_image_target target;
    bool idle;      /* nothing but fill: no rows */
    bool transposed;
    bool padded;    /* the box reaches outside and is resized: rows are made up here */
    struct geometry g; /* stored coordinates */
    uint32_t next_row, end_row;      /* of the box: pushed so far, past the last needed */
    uint32_t inside_x, inside_w;     /* columns of the box that the picture has */
    uint32_t inside_y, inside_end;   /* rows likewise */
    uint32_t first_col;              /* of the box, where pushed rows begin */
    uint32_t region_w;
};

int hr_image_sink_create(struct hr_image_sink **out)
{
    struct hr_image_sink *sink = hr_alloc_zero(1, sizeof(*sink));

    if (!sink)
        return HR_E_NOMEM;
    int ret = hr_resample_create(&sink->resample);
    if (ret == 0)
        ret = hr_resample_create(&sink->turn);
    if (ret < 0) {
        hr_image_sink_destroy(sink);
        return ret;
    }
    *out = sink;
    return 0;
}

void hr_image_sink_destroy(struct hr_image_sink *sink)
{
    if (!sink)
        return;
    if (sink->resample)
        hr_resample_destroy(sink->resample);
    if (sink->turn)
        hr_resample_destroy(sink->turn);
    hr_free(sink->scratch);
    hr_free(sink->row);
    hr_free(sink);
}

static bool inside(const struct rect *r, int64_t w, int64_t h)
{
    return r->x >= 0 && r->y >= 0 && r->x + r->w <= w && r->y + r->h <= h;
}

uint32_t hr_image_shrink(const struct hr_image_plan *plan, uint32_t picture_w, uint32_t picture_h)
{
    bool turned = plan->orientation >= 5;
    struct rect box = {plan->crop_x, plan->crop_y, plan->crop_w, plan->crop_h};
    int32_t w = plan->full_out_w ? plan->full_out_w : plan->out_w;
    int32_t h = plan->full_out_w ? plan->full_out_h : plan->out_h;
    uint32_t shrink = 1;

    if (!inside(&box, turned ? picture_h : picture_w, turned ? picture_w : picture_h))
        return 1;
    while (shrink < 8 && plan->crop_w / (int32_t)(shrink * 2) >= w &&
           plan->crop_h / (int32_t)(shrink * 2) >= h)
        shrink *= 2;
    return shrink;
}

static bool clip(struct rect *r, int64_t w, int64_t h)
{
    int64_t x1 = r->x + r->w < w ? r->x + r->w : w, y1 = r->y + r->h < h ? r->y + r->h : h;

    r->x = r->x > 0 ? r->x : 0;
    r->y = r->y > 0 ? r->y : 0;
    r->w = x1 - r->x;
    r->h = y1 - r->y;
    return r->w > 0 && r->h > 0;
}

/* Element of the output, in delivered (flipped) coordinates. */
static uint8_t *element(const struct hr_image_target *t, int64_t x, int64_t y, uint32_t plane)
{
    uint64_t at = (uint64_t)y * t->row_stride + (uint64_t)x * (t->planar ? 1 : t->channels) +
                  (t->planar ? plane * t->plane_stride : plane);

    return (uint8_t *)t->dst + at * hr_dtype_bytes(t->dtype);
}

/* The fill colour as the output has it: one pixel through the same conversion as all others. */
static int make_fill(struct hr_image_sink *s, uint8_t pixel[16])
{
    uint8_t row[4 + ROW_PAD] = {0};
    struct hr_resample_job job = {.in_w = 1, .in_h = 1, .out_w = 1, .out_h = 1,
                                  .channels = s->target.channels, .dtype = s->target.dtype,
                                  .dst = pixel, .dst_row_stride = s->target.channels};

    memcpy(row, s->plan.fill, sizeof(s->plan.fill));
    memcpy(job.scale, s->target.scale, sizeof(job.scale));
    memcpy(job.bias, s->target.bias, sizeof(job.bias));
    int ret = hr_resample_begin(s->turn, &job);
    if (ret == 0)
        hr_resample_push(s->turn, row);
    return ret;
}

static void paint(const struct hr_image_target *t, const uint8_t *pixel, struct rect r)
{
    size_t item = hr_dtype_bytes(t->dtype);

    for (int64_t y = r.y; y < r.y + r.h; y++)
        for (uint32_t c = 0; c < t->channels; c++)
            for (int64_t x = r.x; x < r.x + r.w; x++)
                memcpy(element(t, x, y, c), pixel + c * item, item);
}

/* Paints what `inner` (delivered coordinates; w == 0: nothing) leaves of the output. */
static int paint_around(struct hr_image_sink *s, struct rect inner)
{
    _Alignas(8) uint8_t pixel[16] = {0};
    int64_t w = s->plan.out_w, h = s->plan.out_h;
    int ret = make_fill(s, pixel);

    if (ret < 0)
        return ret;
    if (inner.w <= 0 || inner.h <= 0)
        inner = (struct rect){0, 0, 0, 0};
    int64_t right = inner.x + inner.w, bottom = inner.y + inner.h;
    paint(&s->target, pixel, (struct rect){0, 0, w, inner.y});
    paint(&s->target, pixel, (struct rect){0, bottom, w, h - bottom});
    paint(&s->target, pixel, (struct rect){0, inner.y, inner.x, inner.h});
    paint(&s->target, pixel, (struct rect){right, inner.y, w - right, inner.h});
    return 0;
}

/* Box and window in the oriented picture. A box that is not resized is cut to the picture by way of
 * the window, so that padding costs nothing. */
static void plan_geometry(const struct hr_image_plan *p, int64_t w, int64_t h, struct geometry *g)
{
    *g = (struct geometry){
        .box = {p->crop_x, p->crop_y, p->crop_w, p->crop_h},
        .full_w = p->full_out_w ? p->full_out_w : p->out_w,
        .full_h = p->full_out_w ? p->full_out_h : p->out_h,
        .window = {p->full_out_w ? p->out_x : 0, p->full_out_w ? p->out_y : 0, p->out_w, p->out_h},
        .flip_h = p->flip_h,
        .flip_v = p->flip_v,
    };
    if (g->full_w != g->box.w || g->full_h != g->box.h)
        return;
    g->window.x += g->box.x;
    g->window.y += g->box.y;
    g->box = (struct rect){0, 0, w, h};
    g->full_w = w;
    g->full_h = h;
}

/* Cuts the window to the resized picture; *inner is where the rest lies in the output. */
static bool cut_window(struct geometry *g, struct rect *inner)
{
    struct rect before = g->window;
    bool some = clip(&g->window, g->full_w, g->full_h);

    *inner = (struct rect){g->window.x - before.x, g->window.y - before.y, g->window.w, g->window.h};
    if (g->flip_h)
        inner->x = before.w - inner->x - inner->w;
    if (g->flip_v)
        inner->y = before.h - inner->y - inner->h;
    return some;
}

static void mirror(int64_t *at, int64_t length, int64_t whole)
{
    *at = whole - *at - length;
}

static void swap(int64_t *a, int64_t *b)
{
    int64_t t = *a;

    *a = *b;
    *b = t;
}

/* EXIF orientation as: transpose the stored picture, then mirror. */
static void orientation_parts(unsigned o, bool *transposed, bool *mirror_h, bool *mirror_v)
{
    *transposed = o >= 5 && o <= 8;
    *mirror_h = o == 2 || o == 3 || o == 6 || o == 7;
    *mirror_v = o == 3 || o == 4 || o == 7 || o == 8;
}

/* From oriented (w x h) to stored coordinates. The flips stay those of the oriented picture. */
static bool turn_back(struct geometry *g, unsigned orientation, int64_t w, int64_t h)
{
    bool transposed, mirror_h, mirror_v;

    orientation_parts(orientation, &transposed, &mirror_h, &mirror_v);
    if (mirror_h) {
        mirror(&g->box.x, g->box.w, w);
        mirror(&g->window.x, g->window.w, g->full_w);
        g->flip_h = !g->flip_h;
    }
    if (mirror_v) {
        mirror(&g->box.y, g->box.h, h);
        mirror(&g->window.y, g->window.h, g->full_h);
        g->flip_v = !g->flip_v;
    }
    if (transposed) {
        swap(&g->box.x, &g->box.y);
        swap(&g->box.w, &g->box.h);
        swap(&g->window.x, &g->window.y);
        swap(&g->window.w, &g->window.h);
        swap(&g->full_w, &g->full_h);
    }
    return transposed;
}

/* To the picture at 1/shrink: the box grows to whole pixels of it. */
static void shrink_box(struct rect *box, uint32_t shrink)
{
    int64_t x1 = (box->x + box->w + shrink - 1) / shrink, y1 = (box->y + box->h + shrink - 1) / shrink;

    box->x /= shrink;
    box->y /= shrink;
    box->w = x1 - box->x;
    box->h = y1 - box->y;
}

/* An unresized job passes only its window through. */
static void narrow_unresized(struct geometry *g)
{
    if (g->full_w != g->box.w || g->full_h != g->box.h)
        return;
    g->box = (struct rect){g->box.x + g->window.x, g->box.y + g->window.y, g->window.w, g->window.h};
    g->full_w = g->window.w;
    g->full_h = g->window.h;
    g->window.x = g->window.y = 0;
}

/* box_inside: of the picture, so that no rows are made up here. */
static int begin_resample(struct hr_image_sink *s, struct rect inner, bool box_inside)
{
    const struct hr_image_target *t = &s->target;
    const struct geometry *g = &s->g;
    bool windowed = g->window.w != g->full_w || g->window.h != g->full_h;
    struct hr_resample_job job = {
        .in_w = (uint32_t)g->box.w, .in_h = (uint32_t)g->box.h,
        .out_w = (uint32_t)g->window.w, .out_h = (uint32_t)g->window.h,
        .full_out_w = windowed ? (uint32_t)g->full_w : 0,
        .full_out_h = windowed ? (uint32_t)g->full_h : 0,
        .out_x = windowed ? (uint32_t)g->window.x : 0,
        .out_y = windowed ? (uint32_t)g->window.y : 0,
        .channels = t->channels, .filter = (enum hr_filter)s->plan.filter,
        .planes = t->planes_in && box_inside,
    };

    if (s->transposed) {
        uint64_t bytes = (uint64_t)g->window.w * (uint64_t)g->window.h * t->channels + ROW_PAD;
        int ret = hr_scratch_grow_bytes(&s->scratch, &s->scratch_bytes, bytes);
        if (ret < 0)
            return ret;
        job.dtype = HR_DTYPE_U8;
        job.dst = s->scratch;
        job.dst_row_stride = job.out_w * t->channels;
    } else {
        job.dtype = t->dtype;
        job.planar = t->planar;
        job.flip_h = g->flip_h;
        job.flip_v = g->flip_v;
        memcpy(job.scale, t->scale, sizeof(job.scale));
        memcpy(job.bias, t->bias, sizeof(job.bias));
        job.dst = element(t, inner.x, inner.y, 0);
        job.dst_row_stride = t->row_stride;
        job.dst_plane_stride = t->plane_stride;
    }
    return hr_resample_begin(s->resample, &job);
}

/* The part of the picture behind the rows and columns that the resample needs. */
static int find_region(struct hr_image_sink *s, int64_t w, int64_t h, struct hr_image_region *region)
{
    uint32_t row0, row1, col0, col1;

    hr_resample_rows_needed(s->resample, &row0, &row1);
    hr_resample_cols_needed(s->resample, &col0, &col1);
    struct rect need = {s->g.box.x + col0, s->g.box.y + row0, (int64_t)col1 - col0 + 1,
                        (int64_t)row1 - row0 + 1};
    struct rect has = need;
    bool some = clip(&has, w, h);
    s->padded = !some || has.w != need.w || has.h != need.h;
    s->next_row = row0;
    s->end_row = row1 + 1;
    s->first_col = col0;
    if (!some)
        has = (struct rect){need.x, need.y + need.h, 0, 0};
    s->inside_x = (uint32_t)(has.x - s->g.box.x);
    s->inside_w = (uint32_t)has.w;
    s->inside_y = (uint32_t)(has.y - s->g.box.y);
    s->inside_end = s->inside_y + (uint32_t)has.h;
    s->region_w = (uint32_t)has.w;
    *region = (struct hr_image_region){(uint32_t)has.x, (uint32_t)has.y, (uint32_t)has.w,
                                       (uint32_t)has.h};
    if (!some)
        *region = (struct hr_image_region){0};
    if (!s->padded)
        return 0;
    return hr_scratch_grow_bytes(&s->row, &s->row_bytes, (uint64_t)s->g.box.w * s->target.channels + ROW_PAD);
}

static void fill_row(struct hr_image_sink *s)
{
    uint32_t channels = s->target.channels;

    for (int64_t x = 0; x < s->g.box.w; x++)
        memcpy(s->row + x * channels, s->plan.fill, channels);
}

static void push_fill_until(struct hr_image_sink *s, uint32_t end)
{
    for (; s->next_row < end; s->next_row++)
        hr_resample_push(s->resample, s->row);
}

static void write_transposed(struct hr_image_sink *s);

static void finish(struct hr_image_sink *s)
{
    if (s->padded && s->next_row >= s->inside_end) {
        fill_row(s);
        push_fill_until(s, s->end_row);
    }
    if (s->transposed && s->next_row >= s->end_row)
        write_transposed(s);
}

static bool plan_is_sane(const struct hr_image_plan *p, const struct geometry *g, uint32_t shrink)
{
    return p->crop_w > 0 && p->crop_h > 0 && p->out_w > 0 && p->out_h > 0 && g->full_w > 0 &&
           g->full_h > 0 && p->orientation <= 8 && p->filter < HR_FILTER_COUNT && shrink > 0;
}

/* Of the turned picture: where `inner` lies when the axes are swapped is no concern here, since the
 * second pass writes to inner itself. */
static int begin_turn(struct hr_image_sink *s, struct rect inner)
{
    const struct hr_image_target *t = &s->target;
    struct hr_resample_job job = {
        .in_w = (uint32_t)inner.w, .in_h = (uint32_t)inner.h,
        .out_w = (uint32_t)inner.w, .out_h = (uint32_t)inner.h,
        .channels = t->channels, .flip_h = s->g.flip_h, .flip_v = s->g.flip_v,
        .dtype = t->dtype, .planar = t->planar,
        .dst = element(t, inner.x, inner.y, 0),
        .dst_row_stride = t->row_stride, .dst_plane_stride = t->plane_stride,
    };
    uint64_t width = (uint64_t)(inner.w > s->g.box.w ? inner.w : s->g.box.w);
    int ret = hr_scratch_grow_bytes(&s->row, &s->row_bytes, width * t->channels + ROW_PAD);

    memcpy(job.scale, t->scale, sizeof(job.scale));
    memcpy(job.bias, t->bias, sizeof(job.bias));
    return ret < 0 ? ret : hr_resample_begin(s->turn, &job);
}

static void write_transposed(struct hr_image_sink *s)
{
    uint32_t channels = s->target.channels;
    size_t stride = (size_t)s->g.window.w * channels;

    for (int64_t x = 0; x < s->g.window.w; x++) {
        const uint8_t *column = s->scratch + x * channels;
        for (int64_t y = 0; y < s->g.window.h; y++)
            memcpy(s->row + y * channels, column + (size_t)y * stride, channels);
        hr_resample_push(s->turn, s->row);
    }
}

static void pack_strides(struct hr_image_target *t, const struct hr_image_plan *p)
{
    if (!t->row_stride)
        t->row_stride = (uint64_t)p->out_w * (t->planar ? 1 : t->channels);
    if (t->planar && !t->plane_stride)
        t->plane_stride = t->row_stride * (uint64_t)p->out_h;
}

bool hr_image_needs(const struct hr_image_plan *plan, uint32_t picture_w, uint32_t picture_h, uint32_t shrink,
                    struct hr_image_region *region)
{
    bool swapped = plan->orientation >= 5;
    int64_t w = swapped ? picture_h : picture_w, h = swapped ? picture_w : picture_h;
    struct geometry g;
    struct rect inner;

    plan_geometry(plan, w, h, &g);
    if (!plan_is_sane(plan, &g, shrink) || !cut_window(&g, &inner))
        return false;
    turn_back(&g, plan->orientation, w, h);
    if (shrink > 1)
        shrink_box(&g.box, shrink);
    else
        narrow_unresized(&g);
    if (!clip(&g.box, (picture_w + shrink - 1) / shrink, (picture_h + shrink - 1) / shrink))
        return false;
    *region = (struct hr_image_region){(uint32_t)g.box.x, (uint32_t)g.box.y, (uint32_t)g.box.w, (uint32_t)g.box.h};
    return true;
}

static int begin(struct hr_image_sink *s, uint32_t picture_w, uint32_t picture_h, uint32_t shrink,
                 struct hr_image_region *region)
{
    bool swapped = s->plan.orientation >= 5;
    int64_t w = swapped ? picture_h : picture_w, h = swapped ? picture_w : picture_h;
    struct rect inner;

    plan_geometry(&s->plan, w, h, &s->g);
    if (!plan_is_sane(&s->plan, &s->g, shrink))
        return HR_E_DECODE;
    bool some = cut_window(&s->g, &inner);
    if (!some || inner.w < s->plan.out_w || inner.h < s->plan.out_h) {
        int ret = paint_around(s, some ? inner : (struct rect){0});
        if (ret < 0 || !some) {
            s->idle = true;
            return ret;
        }
    }
    s->transposed = turn_back(&s->g, s->plan.orientation, w, h);
    if (shrink > 1) {
        if (!inside(&s->g.box, picture_w, picture_h))
            return HR_E_DECODE;
        shrink_box(&s->g.box, shrink);
    } else {
        narrow_unresized(&s->g);
    }
    int64_t shrunk_w = (picture_w + shrink - 1) / shrink, shrunk_h = (picture_h + shrink - 1) / shrink;
    int ret = begin_resample(s, inner, inside(&s->g.box, shrunk_w, shrunk_h));
    if (ret == 0)
        ret = find_region(s, shrunk_w, shrunk_h, region);
    if (ret == 0 && s->transposed)
        ret = begin_turn(s, inner);
    return ret;
}

int hr_image_sink_begin(struct hr_image_sink *sink, const struct hr_image_plan *plan,
                        const struct hr_image_target *target, uint32_t picture_w,
                        uint32_t picture_h, uint32_t shrink, struct hr_image_region *region,
                        struct hr_error *err)
{
    sink->plan = *plan;
    sink->target = *target;
    sink->idle = sink->padded = sink->transposed = false;
    sink->next_row = sink->end_row = 0;
    *region = (struct hr_image_region){0};
    pack_strides(&sink->target, plan);
    int ret = begin(sink, picture_w, picture_h, shrink, region);
    if (ret == HR_E_DECODE)
        return hr_fail(err, ret, "the plan does not fit a picture of %u x %u pixels", picture_w,
                       picture_h);
    if (ret == HR_E_LIMIT)
        return hr_fail(err, ret, "a side of a picture of %u x %u pixels is longer than can be resized", picture_w,
                       picture_h);
    if (ret < 0)
        return hr_fail(err, ret, "no memory to resize a picture of %u x %u pixels", picture_w,
                       picture_h);
    if (sink->padded) {
        fill_row(sink);
        push_fill_until(sink, sink->inside_y);
        if (region->w == 0)
            finish(sink);
    }
    return 0;
}

/* A row has been pushed. */
static bool advance(struct hr_image_sink *s)
{
    s->next_row++;
    if (s->next_row < s->inside_end)
        return true;
    finish(s);
    return false;
}

bool hr_image_sink_push(struct hr_image_sink *s, const uint8_t *row)
{
    uint32_t channels = s->target.channels;

    if (s->next_row >= s->end_row)
        return false;
    if (s->padded) {
        memcpy(s->row + (size_t)s->inside_x * channels, row, (size_t)s->inside_w * channels);
        row = s->row;
    } else {
        row -= (size_t)s->first_col * channels; /* never read before first_col */
    }
    hr_resample_push(s->resample, row);
    return advance(s);
}

bool hr_image_sink_takes_planes(const struct hr_image_sink *s)
{
    return !s->idle && hr_resample_takes_planes(s->resample);
}

bool hr_image_sink_push_planes(struct hr_image_sink *s, const uint8_t *const rows[3])
{
    if (s->next_row >= s->end_row)
        return false;
    /* Never read before first_col. */
    const uint8_t *const from[3] = {rows[0] - s->first_col, rows[1] - s->first_col, rows[2] - s->first_col};
    hr_resample_push_planes(s->resample, from);
    return advance(s);
}

bool hr_image_sink_end(struct hr_image_sink *s)
{
    return s->idle || s->next_row >= s->end_row;
}
