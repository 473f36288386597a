/* YUV (or whatever a codec gives) to 8-bit RGB at the same size. */
#include "decoders/frame_rgb.h"

#include "decoders/av_api.h"
#include "decoders/pixels.h"
#include "decoders/scratch.h"

enum { ROW_ALIGN = 64, FLAGS = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT };

void hr_frame_rgb_finish(struct hr_frame_rgb *rgb)
{
    if (rgb->sws)
        hr_av.sws_freeContext(rgb->sws);
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

/* What is converted: the box with a margin that holds every chroma tap, on aligned columns; all of the
 * frame where its planes are not plain or its sizes odd. */
struct part {
    int x, y, w, h;
};

static bool can_cut(const AVFrame *frame, const AVPixFmtDescriptor *pixel)
{
    return pixel && (pixel->flags & AV_PIX_FMT_FLAG_PLANAR) &&
           !(pixel->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM |
                             AV_PIX_FMT_FLAG_HWACCEL)) &&
           pixel->log2_chroma_w <= 1 && pixel->log2_chroma_h <= 1 && frame->width % 2 == 0 &&
           frame->height % 2 == 0;
}

static struct part choose_part(const AVFrame *frame, const struct hr_frame_box *box)
{
    enum { ALIGN = 64, MARGIN = 16 };
    struct part part = {0, 0, frame->width, frame->height};

    if (!can_cut(frame, hr_av.av_pix_fmt_desc_get(frame->format)))
        return part;
    uint64_t left = box->x > MARGIN ? hr_align_down(box->x - MARGIN, ALIGN) : 0;
    uint64_t top = box->y > MARGIN ? hr_align_down(box->y - MARGIN, MARGIN) : 0;
    uint64_t right = hr_align_up((uint64_t)box->x + box->w + MARGIN, ALIGN);
    uint64_t bottom = hr_align_up((uint64_t)box->y + box->h + MARGIN, MARGIN);
    part.x = (int)left;
    part.y = (int)top;
    part.w = (int)(hr_min_u64(right, (uint64_t)frame->width) - left);
    part.h = (int)(hr_min_u64(bottom, (uint64_t)frame->height) - top);
    return part;
}

/* Pointers to the part's first sample in each plane. */
static void find_planes(const AVFrame *frame, const struct part *part, const uint8_t *planes[4])
{
    const AVPixFmtDescriptor *pixel = hr_av.av_pix_fmt_desc_get(frame->format);

    for (int i = 0; i < 4; i++)
        planes[i] = frame->data[i];
    if (!part->x && !part->y)
        return;
    for (int c = 0; c < pixel->nb_components; c++) {
        const AVComponentDescriptor *component = &pixel->comp[c];
        bool chroma = c == 1 || c == 2;
        ptrdiff_t x = part->x >> (chroma ? pixel->log2_chroma_w : 0);
        ptrdiff_t y = part->y >> (chroma ? pixel->log2_chroma_h : 0);
        int p = component->plane;
        planes[p] = frame->data[p] + y * frame->linesize[p] + x * component->step;
    }
}

static int set_up(struct hr_frame_rgb *rgb, const AVFrame *frame, const struct part *part)
{
    bool full = frame->color_range == AVCOL_RANGE_JPEG;
    enum AVPixelFormat format = plain_format(frame->format, &full);

    rgb->sws = hr_av.sws_getCachedContext(rgb->sws, part->w, part->h, format, part->w, part->h,
                                    AV_PIX_FMT_RGB24, FLAGS, NULL, NULL, NULL);
    if (!rgb->sws)
        return HR_E_DECODE;
    /* No matrix applies to RGB sources, for which this fails and changes nothing. */
    const int *from = hr_av.sws_getCoefficients(frame->colorspace);
    const int *to = hr_av.sws_getCoefficients(SWS_CS_DEFAULT);
    hr_av.sws_setColorspaceDetails(rgb->sws, from, full, to, 1, 0, 1 << 16, 1 << 16);
    return 0;
}

static int make_room(struct hr_frame_rgb *rgb, const struct part *part)
{
    rgb->stride = (size_t)hr_align_up((uint64_t)part->w * 3, ROW_ALIGN) + ROW_ALIGN;
    return hr_scratch_grow(&rgb->pixels, &rgb->pixels_bytes, rgb->stride * ((size_t)part->h + 1));
}

int hr_frame_rgb_convert(struct hr_frame_rgb *rgb, const AVFrame *frame,
                         const struct hr_frame_box *box, struct hr_error *err)
{
    struct part part = choose_part(frame, box);
    const uint8_t *planes[4];

    if (make_room(rgb, &part) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for a picture of %dx%d", frame->width,
                       frame->height);
    if (set_up(rgb, frame, &part) < 0)
        return hr_fail(err, HR_E_FORMAT, "pixels of format %s cannot be converted",
                       hr_av.av_get_pix_fmt_name(frame->format));
    find_planes(frame, &part, planes);
    uint8_t *dst[4] = {rgb->pixels};
    int strides[4] = {(int)rgb->stride};
    int rows = hr_av.sws_scale(rgb->sws, planes, frame->linesize, 0, part.h, dst, strides);
    if (rows != part.h)
        return hr_fail(err, HR_E_DECODE, "only %d of %d rows can be converted", rows, part.h);
    for (int y = 0; box->channels == 1 && y < part.h; y++) {
        uint8_t *row = (uint8_t *)rgb->pixels + (size_t)y * rgb->stride;
        hr_pixels_rgb_to_gray(row, row, (size_t)part.w);
    }
    rgb->x = (uint32_t)part.x;
    rgb->y = (uint32_t)part.y;
    return 0;
}

const uint8_t *hr_frame_rgb_row(const struct hr_frame_rgb *rgb, const struct hr_frame_box *box,
                                uint32_t y)
{
    return (const uint8_t *)rgb->pixels + (size_t)(y - rgb->y) * rgb->stride +
           (size_t)(box->x - rgb->x) * box->channels;
}
