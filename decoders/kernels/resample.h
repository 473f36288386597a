/* Rows of 8-bit pixels in, finished output out: antialiased resize, flip, channel layout, data type
 * and normalization in one pass, row by row, in scratch that stays in cache.
 *
 * The decoder pushes the rows of the crop box from top to bottom; each is resized horizontally at once
 * into a small ring of rows, and an output row is made as soon as its last source row is in.
 *
 * Resize semantics are Pillow's (Image.resize with a box, reducing_gap off): support scaled by the
 * shrink factor, coefficients normalized, 8-bit rounding between the horizontal and the vertical pass.
 * Where out equals in on an axis, that axis passes through untouched (bit-exact pixels). */
#ifndef HR_DECODERS_KERNELS_RESAMPLE_H
#define HR_DECODERS_KERNELS_RESAMPLE_H

#include "base/err.h"
#include "base/types.h"

enum hr_filter {
    HR_FILTER_BILINEAR = 0,
    HR_FILTER_BICUBIC = 1,
    HR_FILTER_LANCZOS3 = 2,
    HR_FILTER_AREA = 3,    /* box filter with support = scale: Pillow's BOX */
    HR_FILTER_NEAREST = 4,
    HR_FILTER_COUNT
};

struct hr_resample; /* one per worker: coefficient tables and row ring, sized by need, kept */

struct hr_resample_job {
    uint32_t in_w, in_h;   /* rows pushed: in_h rows of in_w pixels */
    uint32_t out_w, out_h; /* written to dst */
    /* A window of a larger resize: the in_w x in_h box is resized to full_out_w x full_out_h, and
     * only [out_x, out_x + out_w) x [out_y, out_y + out_h) of that (before the flips) is computed.
     * full_out_w == 0: no window, the resize is to out_w x out_h. The window is inside. */
    uint32_t full_out_w, full_out_h, out_x, out_y;
    uint32_t channels;     /* 1 or 3, interleaved u8, both in and out */
    bool planes;           /* rows can come as three planes instead: see hr_resample_takes_planes */
    enum hr_filter filter;
    bool flip_h, flip_v;
    enum hr_dtype dtype;   /* U8, F16, BF16, F32 */
    bool planar;           /* false: HWC, true: CHW */
    /* out = pixel * scale[c] + bias[c] for float types (u8 ignores them); pixel is 0..255.
     * Floats are rounded once, to nearest even. */
    float scale[4], bias[4];
    void *dst;             /* any alignment that the dtype allows */
    uint64_t dst_row_stride, dst_plane_stride; /* in elements; plane stride only when planar */
};

int hr_resample_create(struct hr_resample **out) HR_MUST_CHECK;
void hr_resample_destroy(struct hr_resample *resample);

/* Grows the scratch where needed (the only allocation; sizes repeat in steady state, and
 * hr_resample_reserve takes it up front) and computes the coefficients (cached for repeats). */
int hr_resample_reserve(struct hr_resample *resample, uint32_t max_in_w, uint32_t max_in_h,
                        uint32_t max_out_w, uint32_t max_out_h) HR_MUST_CHECK;
int hr_resample_begin(struct hr_resample *resample, const struct hr_resample_job *job) HR_MUST_CHECK;

/* The first and last source rows that any output row needs (windows, nearest and tall shrinks skip
 * some at the edges). The decoder leaves the others undecoded: the first row pushed IS row *first. */
void hr_resample_rows_needed(const struct hr_resample *resample, uint32_t *first, uint32_t *last);
/* Likewise for columns: what a pushed row holds outside of them has no influence. Rows are still
 * addressed from column 0, but only from column *first up to 64 bytes past column *last is read. */
void hr_resample_cols_needed(const struct hr_resample *resample, uint32_t *first, uint32_t *last);
/* Pushes the next row, in_w * channels bytes, readable 64 bytes past its last needed column. Rows
 * after the last needed one are ignored. */
void hr_resample_push(struct hr_resample *resample, const uint8_t *row);
/* Whether jobs of three channels can take planes on this CPU, if nothing else is against it. */
bool hr_resample_may_take_planes(bool planar);
/* After begin: whether rows are to be pushed as planes, red, green and blue, and only so. That is what job.planes
 * asks for, where it is faster: three channels by wide kernels. */
bool hr_resample_takes_planes(const struct hr_resample *resample);
/* Rows as for push, each addressed from column 0. */
void hr_resample_push_planes(struct hr_resample *resample, const uint8_t *const rows[3]);
bool hr_resample_done(const struct hr_resample *resample); /* every output row is written */

#endif
