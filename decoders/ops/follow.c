/* Boxes and keypoints through the matrix of a picture. A box becomes the bounding box of what its four corners
 * become; where a perspective's horizon goes through it, of the part on the picture's side. */
#include "decoders/ops/follow.h"

#include <math.h>
#include <string.h>

/* Beyond this nothing is a coordinate: cut, so that all arithmetic stays finite. */
#define FAR 0x1p30
/* As near to a horizon as is followed: what lies there is ten thousand pictures away. */
#define NEAR_HORIZON 1e-4

struct box {
    double x1, y1, x2, y2;
};

/* What is the same for all rows. */
struct frame {
    const struct hr_follow *follow;
    const struct hr_map *map;
    double in_w, in_h, out_w, out_h;
    double least_z;
    bool mirrored;
};

/* ---- numbers ---- */

static double cut(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

static void load(enum hr_dtype dtype, const uint8_t *src, uint32_t count, double *out)
{
    size_t bytes = hr_dtype_bytes(dtype);

    for (uint32_t i = 0; i < count; i++, src += bytes) {
        float f;
        int32_t i32;
        int64_t i64;
        switch (dtype) {
        case HR_DTYPE_F32:
            memcpy(&f, src, sizeof(f));
            out[i] = (double)f;
            break;
        case HR_DTYPE_F64:
            memcpy(&out[i], src, sizeof(out[i]));
            break;
        case HR_DTYPE_I32:
            memcpy(&i32, src, sizeof(i32));
            out[i] = i32;
            break;
        default:
            memcpy(&i64, src, sizeof(i64));
            out[i] = (double)i64;
        }
    }
}

/* Whole numbers are the nearest ones, halves to even. */
static void store(enum hr_dtype dtype, const double *in, uint32_t count, uint8_t *dst)
{
    size_t bytes = hr_dtype_bytes(dtype);

    for (uint32_t i = 0; i < count; i++, dst += bytes) {
        double v = cut(in[i], -FAR, FAR);
        float f = (float)v;
        int64_t i64 = (int64_t)nearbyint(v);
        int32_t i32 = (int32_t)i64;
        const void *from = dtype == HR_DTYPE_F32   ? (const void *)&f
                           : dtype == HR_DTYPE_F64 ? (const void *)&v
                           : dtype == HR_DTYPE_I32 ? (const void *)&i32
                                                   : (const void *)&i64;
        memcpy(dst, from, bytes);
    }
}

static bool all_finite(double *v, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(v[i]))
            return false;
        v[i] = cut(v[i], -FAR, FAR);
    }
    return true;
}

/* ---- maps ---- */

static double depth(const struct hr_map *map, double x, double y)
{
    return map->m[6] * x + map->m[7] * y + map->m[8];
}

static void frame_init(struct frame *f, const struct hr_follow *follow, const struct hr_geometry *g, uint32_t w,
                       uint32_t h)
{
    double middle = fabs(depth(&g->to_source, g->w * 0.5, g->h * 0.5));
    const double *m = g->to_result.m;

    *f = (struct frame){.follow = follow, .map = &g->to_result, .in_w = w, .in_h = h, .out_w = g->w, .out_h = g->h};
    f->least_z = middle > 0 ? NEAR_HORIZON / middle : NEAR_HORIZON;
    f->mirrored = m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) +
                      m[2] * (m[3] * m[7] - m[4] * m[6]) < 0;
}

/* ---- boxes ---- */

static struct box corners_of(const double v[4], const struct hr_follow_form *form, double w, double h)
{
    double sx = form->normalized ? w : 1, sy = form->normalized ? h : 1;
    double x = v[0] * sx, y = v[1] * sy, p = v[2] * sx, q = v[3] * sy;

    if (form->format == HR_BOX_XYWH)
        return (struct box){x, y, x + p, y + q};
    if (form->format == HR_BOX_CXCYWH)
        return (struct box){x - p / 2, y - q / 2, x + p / 2, y + q / 2};
    return (struct box){x, y, p, q};
}

static void numbers_of(const struct box *b, const struct hr_follow_form *form, double w, double h, double v[4])
{
    double sx = form->normalized ? w : 1, sy = form->normalized ? h : 1;
    double x1 = b->x1 / sx, y1 = b->y1 / sy, x2 = b->x2 / sx, y2 = b->y2 / sy;

    v[0] = form->format == HR_BOX_CXCYWH ? (x1 + x2) / 2 : x1;
    v[1] = form->format == HR_BOX_CXCYWH ? (y1 + y2) / 2 : y1;
    v[2] = form->format == HR_BOX_XYXY ? x2 : x2 - x1;
    v[3] = form->format == HR_BOX_XYXY ? y2 : y2 - y1;
}

/* With whole numbers, the corners are what is rounded: a width is that of the rounded box. */
static struct box rounded(const struct box *b)
{
    return (struct box){nearbyint(b->x1), nearbyint(b->y1), nearbyint(b->x2), nearbyint(b->y2)};
}

static void widen(struct box *b, const struct frame *f, double x, double y)
{
    double at[2];

    hr_map_point(f->map, x, y, at);
    b->x1 = fmin(b->x1, at[0]);
    b->y1 = fmin(b->y1, at[1]);
    b->x2 = fmax(b->x2, at[0]);
    b->y2 = fmax(b->y2, at[1]);
}

/* False: all of it is behind the horizon. */
static bool map_box(const struct frame *f, const struct box *in, struct box *out)
{
    const double at[4][2] = {{in->x1, in->y1}, {in->x2, in->y1}, {in->x2, in->y2}, {in->x1, in->y2}};
    bool some = false;

    *out = (struct box){INFINITY, INFINITY, -INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++) {
        const double *a = at[i], *b = at[(i + 1) % 4];
        double za = depth(f->map, a[0], a[1]) - f->least_z, zb = depth(f->map, b[0], b[1]) - f->least_z;
        if (za >= 0) {
            widen(out, f, a[0], a[1]);
            some = true;
        }
        if ((za >= 0) != (zb >= 0)) { /* where the side meets the horizon */
            double t = za / (za - zb);
            widen(out, f, a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]));
            some = true;
        }
    }
    return some && isfinite(out->x1) && isfinite(out->y1) && isfinite(out->x2) && isfinite(out->y2);
}

static struct box clamped(const struct box *b, double w, double h)
{
    return (struct box){cut(b->x1, 0, w), cut(b->y1, 0, h), cut(b->x2, 0, w), cut(b->y2, 0, h)};
}

/* *gone: it is no box, or nothing is to be said of its place. */
static bool follow_box(const struct frame *f, double v[4], bool *gone)
{
    const struct hr_follow *follow = f->follow;
    struct box in, out;

    *gone = true;
    if (!all_finite(v, 4))
        return false;
    in = corners_of(v, &follow->from, f->in_w, f->in_h);
    if (in.x2 < in.x1 || in.y2 < in.y1 || !map_box(f, &in, &out))
        return false;
    *gone = false;
    struct box seen = clamped(&out, f->out_w, f->out_h);
    double w = seen.x2 - seen.x1, h = seen.y2 - seen.y1;
    if (follow->clamp)
        out = seen;
    if (follow->to.dtype == HR_DTYPE_I32 || follow->to.dtype == HR_DTYPE_I64)
        out = rounded(&out);
    numbers_of(&out, &follow->to, f->out_w, f->out_h, v);
    return w > 0 && h > 0 && w >= follow->min_size && h >= follow->min_size && w * h >= follow->min_area;
}

/* ---- keypoints ---- */

/* A point without visibility is not labelled and becomes 0 0 0. One outside keeps its coordinates. */
static bool follow_point(const struct frame *f, double *v, bool *gone)
{
    const struct hr_follow *follow = f->follow;
    double half = follow->centres ? 0.5 : 0, at[2];
    double sx = follow->from.normalized ? f->in_w : 1, sy = follow->from.normalized ? f->in_h : 1;

    *gone = true;
    if (!all_finite(v, follow->columns) || (follow->columns == 3 && v[2] <= 0))
        return false;
    double x = v[0] * sx + half, y = v[1] * sy + half;
    if (depth(f->map, x, y) < f->least_z)
        return false;
    hr_map_point(f->map, x, y, at);
    if (!isfinite(at[0]) || !isfinite(at[1]))
        return false;
    *gone = false;
    bool inside = at[0] >= 0 && at[0] <= f->out_w && at[1] >= 0 && at[1] <= f->out_h;
    v[0] = (at[0] - half) / (follow->to.normalized ? f->out_w : 1);
    v[1] = (at[1] - half) / (follow->to.normalized ? f->out_h : 1);
    if (!inside)
        v[2] = 0;
    return inside;
}

/* The row that is delivered at that place: in a mirrored picture, left is right. */
static uint64_t source_row(const struct frame *f, uint64_t group, uint64_t row)
{
    const struct hr_follow *follow = f->follow;
    uint64_t in_group = group ? row % group : 0;

    if (!f->mirrored || in_group >= follow->mirror_count)
        return row;
    return row - in_group + follow->mirror[in_group];
}

void hr_follow_run(const struct hr_follow *follow, const struct hr_geometry *geometry, uint32_t w, uint32_t h,
                   uint64_t group, const void *src, void *dst, uint8_t *kept, uint64_t rows)
{
    size_t from_bytes = hr_dtype_bytes(follow->from.dtype) * follow->columns;
    size_t to_bytes = hr_dtype_bytes(follow->to.dtype) * follow->columns;
    struct frame f;

    frame_init(&f, follow, geometry, w, h);
    for (uint64_t i = 0; i < rows; i++) {
        double v[4] = {0};
        bool gone;
        const uint8_t *row = (const uint8_t *)src + source_row(&f, group, i) * from_bytes;
        load(follow->from.dtype, row, follow->columns, v);
        kept[i] = (follow->kind == HR_FOLLOW_BOXES ? follow_box : follow_point)(&f, v, &gone);
        if (gone)
            memset(v, 0, sizeof(v));
        store(follow->to.dtype, v, follow->columns, (uint8_t *)dst + i * to_bytes);
    }
}
