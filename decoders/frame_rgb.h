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
};

void hr_frame_rgb_finish(struct hr_frame_rgb *rgb);

/* channels: 3, or 1 for gray (luma of the RGB). */
int hr_frame_rgb_convert(struct hr_frame_rgb *rgb, const struct AVFrame *frame, uint32_t channels,
                         struct hr_error *err) HR_MUST_CHECK;

#endif
