/* From rows of a stored picture to finished output: the planned box resized, windowed, turned as EXIF
 * says, flipped, padded and converted, written once to where it is wanted. The image chain and every
 * frame of a video go through here.
 *
 *   hr_image_sink_begin   which region of the stored picture is needed
 *   hr_image_sink_push    its rows, top to bottom, until it returns false
 *   hr_image_sink_end     false when rows are missing */
#ifndef HR_DECODERS_SINK_H
#define HR_DECODERS_SINK_H

#include "decoders/chain.h"

struct hr_image_sink; /* one per worker: resampler and scratch, kept */

struct hr_image_target {
    void *dst;
    enum hr_dtype dtype; /* U8, F16, BF16, F32 */
    bool planar;         /* CHW instead of HWC */
    uint32_t channels;   /* 1 or 3, of the pushed rows too */
    float scale[4], bias[4];
    uint64_t row_stride, plane_stride; /* in elements; 0 = packed */
    bool planes_in;      /* rows can come as planes, where hr_image_sink_takes_planes() says so */
};

struct hr_image_region {
    uint32_t x, y, w, h; /* of the stored picture at 1/shrink; w == 0: nothing is needed */
};

int hr_image_sink_create(struct hr_image_sink **out) HR_MUST_CHECK;
void hr_image_sink_destroy(struct hr_image_sink *sink); /* NULL is fine */

/* The largest of 1, 2, 4, 8 that leaves the box at least as large as what it is resized to; 1 when the
 * box reaches outside the picture. */
uint32_t hr_image_shrink(const struct hr_image_plan *plan, uint32_t picture_w, uint32_t picture_h);

/* The part of the stored picture at 1/shrink that the plan's result can depend on: what
 * hr_image_sink_begin asks for lies in it. False: nothing of the picture, or no sane plan. */
bool hr_image_needs(const struct hr_image_plan *plan, uint32_t picture_w, uint32_t picture_h, uint32_t shrink,
                    struct hr_image_region *region);

/* picture_w, picture_h: the stored picture at full size. 0, HR_E_NOMEM, or HR_E_DECODE for a plan
 * that does not fit the picture. */
int hr_image_sink_begin(struct hr_image_sink *sink, const struct hr_image_plan *plan,
                        const struct hr_image_target *target, uint32_t picture_w,
                        uint32_t picture_h, uint32_t shrink, struct hr_image_region *region,
                        struct hr_error *err) HR_MUST_CHECK;
/* row: region.w * channels bytes, readable 64 past the end. False when no more is needed. */
bool hr_image_sink_push(struct hr_image_sink *sink, const uint8_t *row);
/* After begin: rows are to be pushed as red, green and blue, region.w bytes each, and only so. */
bool hr_image_sink_takes_planes(const struct hr_image_sink *sink);
bool hr_image_sink_push_planes(struct hr_image_sink *sink, const uint8_t *const rows[3]);
bool hr_image_sink_end(struct hr_image_sink *sink);

#endif
