/* YUV (or whatever a codec gives) to 8-bit RGB at the same size. */
#include "decoders/frame_rgb.h"

#include <libavutil/frame.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#include "decoders/pixels.h"
#include "decoders/scratch.h"

enum { ROW_ALIGN = 64, FLAGS = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT };

void hr_frame_rgb_finish(struct hr_frame_rgb *rgb)
{
    sws_freeContext(rgb->sws);
    hr_free(rgb->pixels);
    *rgb = (struct hr_frame_rgb){0};
}

/* The "j" formats say full range in their name; libswscale wants it said apart. */
static enum AVPixelFormat plain_format(int format, bool *full)
{
    static const struct {
        enum AVPixelFormat j, plain;
    } pairs[] = {
        {AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUV420P}, {AV_PIX_FMT_YUVJ422P, AV_PIX_FMT_YUV422P},
        {AV_PIX_FMT_YUVJ444P, AV_PIX_FMT_YUV444P}, {AV_PIX_FMT_YUVJ440P, AV_PIX_FMT_YUV440P},
        {AV_PIX_FMT_YUVJ411P, AV_PIX_FMT_YUV411P},
    };

    for (size_t i = 0; i < HR_ARRAY_SIZE(pairs); i++)
        if (format == pairs[i].j) {
            *full = true;
            return pairs[i].plain;
        }
    return (enum AVPixelFormat)format;
}

static int set_up(struct hr_frame_rgb *rgb, const AVFrame *frame)
{
    bool full = frame->color_range == AVCOL_RANGE_JPEG;
    enum AVPixelFormat format = plain_format(frame->format, &full);

    rgb->sws = sws_getCachedContext(rgb->sws, frame->width, frame->height, format, frame->width,
                                    frame->height, AV_PIX_FMT_RGB24, FLAGS, NULL, NULL, NULL);
    if (!rgb->sws)
        return HR_E_DECODE;
    /* No matrix applies to RGB sources, for which this fails and changes nothing. */
    const int *from = sws_getCoefficients(frame->colorspace);
    sws_setColorspaceDetails(rgb->sws, from, full, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16,
                             1 << 16);
    return 0;
}

static int make_room(struct hr_frame_rgb *rgb, const AVFrame *frame)
{
    rgb->stride = (size_t)hr_align_up((uint64_t)frame->width * 3, ROW_ALIGN) + ROW_ALIGN;
    size_t need = rgb->stride * ((size_t)frame->height + 1);

    return hr_scratch_grow(&rgb->pixels, &rgb->pixels_bytes, need);
}

int hr_frame_rgb_convert(struct hr_frame_rgb *rgb, const AVFrame *frame, uint32_t channels,
                         struct hr_error *err)
{
    if (make_room(rgb, frame) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for a picture of %dx%d", frame->width,
                       frame->height);
    if (set_up(rgb, frame) < 0)
        return hr_fail(err, HR_E_FORMAT, "pixels of format %s cannot be converted",
                       av_get_pix_fmt_name(frame->format));
    uint8_t *dst[4] = {rgb->pixels};
    int strides[4] = {(int)rgb->stride};
    int rows = sws_scale(rgb->sws, (const uint8_t *const *)frame->data, frame->linesize, 0,
                         frame->height, dst, strides);
    if (rows != frame->height)
        return hr_fail(err, HR_E_DECODE, "only %d of %d rows can be converted", rows, frame->height);
    for (int y = 0; channels == 1 && y < frame->height; y++) {
        uint8_t *row = (uint8_t *)rgb->pixels + (size_t)y * rgb->stride;
        hr_pixels_rgb_to_gray(row, row, (size_t)frame->width);
    }
    return 0;
}
