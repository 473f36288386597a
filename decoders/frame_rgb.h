/* A decoded frame as rows of RGB: libswscale converts with the stream's own matrix and range, nothing
 * is scaled here. */
#ifndef HR_DECODERS_FRAME_RGB_H
#define HR_DECODERS_FRAME_RGB_H

#include "base/err.h"
#include "base/types.h"

struct AVFrame;
struct SwsContext;

/* One per worker; grows with the largest frame. Start with all zero. */
struct hr_frame_rgb {
    struct SwsContext *sws;
    void *pixels;
    size_t pixels_bytes;
    size_t stride; /* of the picture at hand; rows are readable 64 bytes past their end */
    uint32_t x, y; /* of the frame, where the first pixel lies */
};

void hr_frame_rgb_finish(struct hr_frame_rgb *rgb);

/* The box of the frame that is needed; more around it may be converted, so that chroma is
 * interpolated as in the whole. channels: 3, or 1 for gray (luma of the RGB). */
struct hr_frame_box {
    uint32_t x, y, w, h, channels;
};
int hr_frame_rgb_convert(struct hr_frame_rgb *rgb, const struct AVFrame *frame,
                         const struct hr_frame_box *box, struct hr_error *err) HR_MUST_CHECK;
/* Row y of the frame, at the box's first column. */
const uint8_t *hr_frame_rgb_row(const struct hr_frame_rgb *rgb, const struct hr_frame_box *box,
                                uint32_t y);

#endif
