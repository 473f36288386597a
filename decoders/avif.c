/* AVIF: the boxes are read here (heif.c), AV1 is decoded by FFmpeg. The whole picture is decoded, grids
 * tile by tile into one frame, and the box passed on as RGB. Alpha is an item of its own and never
 * decoded; turns and mirrorings (irot, imir) become the picture's orientation. */
#include <string.h>

#include "base/mem.h"
#include "decoders/av_api.h"
#include "decoders/decoder.h"
#include "decoders/frame_rgb.h"
#include "decoders/heif.h"
#include "decoders/scratch.h"

struct avif_state {
    AVPacket *packet;
    AVFrame *tile, *whole; /* as decoded; the grid put together */
    uint8_t *bytes;        /* a tile's AV1 data, padded */
    size_t bytes_room;
    struct hr_frame_rgb rgb;
};

static void destroy(void *state)
{
    struct avif_state *s = state;

    if (!s)
        return;
    if (s->packet)
        hr_av.av_packet_free(&s->packet);
    if (s->tile)
        hr_av.av_frame_free(&s->tile);
    if (s->whole)
        hr_av.av_frame_free(&s->whole);
    hr_frame_rgb_finish(&s->rgb);
    hr_free(s->bytes);
    hr_free(s);
}

static int create(uint32_t max_width, void **state)
{
    *state = hr_alloc_zero(1, sizeof(struct avif_state));
    return *state ? 0 : HR_E_NOMEM;
}

static int set_up(struct avif_state *s, struct hr_error *err)
{
    int ret = hr_av_prepare(&s->packet, &s->tile, err);

    return ret < 0 ? ret : hr_av_prepare(&s->packet, &s->whole, err);
}

/* ---- AV1 ---- */

static int open_codec(AVCodecContext **out, struct hr_error *err)
{
    const AVCodec *codec = hr_av.avcodec_find_decoder(AV_CODEC_ID_AV1);
    AVCodecContext *context = codec ? hr_av.avcodec_alloc_context3(codec) : NULL;

    if (!codec)
        return hr_fail(err, HR_E_FORMAT, "this build of FFmpeg has no AV1 decoder");
    if (!context)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode an AVIF");
    context->thread_count = 1;
    context->max_pixels = (int64_t)HR_IMAGE_MAX_PIXELS;
    context->err_recognition = AV_EF_EXPLODE;
    int ret = hr_av.avcodec_open2(context, codec, NULL);
    if (ret < 0) {
        hr_av.avcodec_free_context(&context);
        return hr_fail(err, HR_E_FORMAT, "FFmpeg cannot decode AV1: %s", hr_av_reason(ret));
    }
    *out = context;
    return 0;
}

/* One tile into s->tile. A decoder per tile: nothing of one may help out another. */
static int decode_tile(struct avif_state *s, const struct hr_heif *heif, uint32_t i, struct hr_error *err)
{
    AVCodecContext *context = NULL;
    uint64_t bytes;
    int ret = hr_heif_tile(heif, i, NULL, &bytes, err);

    if (ret < 0)
        return ret;
    if (bytes == 0 || bytes > INT32_MAX - AV_INPUT_BUFFER_PADDING_SIZE)
        return hr_fail(err, HR_E_DECODE, "the AVIF has no pixels");
    if (hr_scratch_grow_bytes(&s->bytes, &s->bytes_room, (size_t)bytes + AV_INPUT_BUFFER_PADDING_SIZE) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode an AVIF");
    ret = hr_heif_tile(heif, i, s->bytes, &bytes, err);
    if (ret == 0)
        ret = open_codec(&context, err);
    if (ret < 0)
        return ret;
    memset(s->bytes + bytes, 0, AV_INPUT_BUFFER_PADDING_SIZE);
    hr_av_forget();
    s->packet->data = s->bytes;
    s->packet->size = (int)bytes;
    ret = hr_av.avcodec_send_packet(context, s->packet);
    if (ret >= 0)
        ret = hr_av.avcodec_send_packet(context, NULL);
    if (ret >= 0)
        ret = hr_av.avcodec_receive_frame(context, s->tile);
    hr_av.av_packet_unref(s->packet);
    hr_av.avcodec_free_context(&context);
    return ret < 0 ? hr_fail(err, HR_E_DECODE, "the AVIF cannot be decoded: %s", hr_av_reason(ret)) : 0;
}

/* ---- grids ---- */

/* Room for the whole grid, of the first tile's kind. */
static int begin_grid(struct avif_state *s, const struct hr_heif *heif, struct hr_error *err)
{
    const AVPixFmtDescriptor *pixel = hr_av.av_pix_fmt_desc_get(s->tile->format);
    uint64_t w = (uint64_t)heif->columns * (uint64_t)s->tile->width;
    uint64_t h = (uint64_t)heif->rows * (uint64_t)s->tile->height;

    if (w < heif->width || h < heif->height || w - heif->width >= (uint64_t)s->tile->width ||
        h - heif->height >= (uint64_t)s->tile->height)
        return hr_fail(err, HR_E_DECODE, "the AVIF's tiles do not cover its picture");
    if (!pixel || s->tile->width % (1 << pixel->log2_chroma_w) || s->tile->height % (1 << pixel->log2_chroma_h))
        return hr_fail(err, HR_E_FORMAT, "the AVIF's tiles have an odd size");
    s->whole->format = s->tile->format;
    s->whole->width = (int)heif->width;
    s->whole->height = (int)heif->height;
    s->whole->colorspace = s->tile->colorspace;
    s->whole->color_range = s->tile->color_range;
    int ret = hr_av.av_frame_get_buffer(s->whole, 0);
    if (ret == AVERROR(EINVAL)) /* its limit on width times height, with margins around both */
        return hr_fail(err, HR_E_LIMIT, "an AVIF of %u x %u pixels is too long and narrow", heif->width, heif->height);
    return ret < 0 ? hr_fail(err, HR_E_NOMEM, "no memory to decode an AVIF") : 0;
}

static int ceil_shift(int v, int shift)
{
    return (v + (1 << shift) - 1) >> shift;
}

static void copy_tile(struct avif_state *s, int column, int row)
{
    const AVPixFmtDescriptor *pixel = hr_av.av_pix_fmt_desc_get(s->tile->format);
    int x = column * s->tile->width, y = row * s->tile->height;
    int w = x + s->tile->width < s->whole->width ? s->tile->width : s->whole->width - x;
    int h = y + s->tile->height < s->whole->height ? s->tile->height : s->whole->height - y;

    for (int c = 0; c < pixel->nb_components; c++) {
        bool chroma = (c == 1 || c == 2) && !(pixel->flags & AV_PIX_FMT_FLAG_RGB);
        int across = chroma ? pixel->log2_chroma_w : 0, down = chroma ? pixel->log2_chroma_h : 0;
        int plane = pixel->comp[c].plane, step = pixel->comp[c].step;
        for (int i = 0; i < ceil_shift(h, down); i++)
            memcpy(s->whole->data[plane] + (ptrdiff_t)((y >> down) + i) * s->whole->linesize[plane] +
                       (ptrdiff_t)(x >> across) * step,
                   s->tile->data[plane] + (ptrdiff_t)i * s->tile->linesize[plane],
                   (size_t)ceil_shift(w, across) * (size_t)step);
    }
}

static int decode_grid(struct avif_state *s, const struct hr_heif *heif, struct hr_error *err)
{
    int ret = 0, format = 0, w = 0, h = 0;

    for (uint32_t i = 0; ret == 0 && i < heif->rows * heif->columns; i++) {
        ret = decode_tile(s, heif, i, err);
        if (ret == 0 && i == 0)
            ret = begin_grid(s, heif, err);
        if (ret < 0)
            break;
        if (i == 0)
            format = s->tile->format, w = s->tile->width, h = s->tile->height;
        if (s->tile->format != format || s->tile->width != w || s->tile->height != h)
            ret = hr_fail(err, HR_E_DECODE, "the AVIF's tiles differ in kind or size");
        else
            copy_tile(s, (int)(i % heif->columns), (int)(i / heif->columns));
        hr_av.av_frame_unref(s->tile);
    }
    return ret;
}

/* The whole picture into s->whole. What colr says of the samples goes before what AV1 says. */
static int decode_whole(struct avif_state *s, const struct hr_heif *heif, struct hr_error *err)
{
    bool grid = heif->rows * heif->columns > 1;
    int ret = set_up(s, err);

    if (ret == 0)
        ret = grid ? decode_grid(s, heif, err) : decode_tile(s, heif, 0, err);
    if (ret == 0 && !grid)
        hr_av.av_frame_move_ref(s->whole, s->tile);
    if (ret == 0 && ((uint32_t)s->whole->width != heif->width || (uint32_t)s->whole->height != heif->height))
        ret = hr_fail(err, HR_E_DECODE, "the AVIF holds %d x %d pixels and says %u x %u", s->whole->width,
                      s->whole->height, heif->width, heif->height);
    if (ret == 0 && heif->matrix >= 0) {
        s->whole->colorspace = (enum AVColorSpace)heif->matrix;
        s->whole->color_range = heif->full_range ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    }
    return ret;
}

static void forget(struct avif_state *s)
{
    if (s->tile)
        hr_av.av_frame_unref(s->tile);
    if (s->whole)
        hr_av.av_frame_unref(s->whole);
}

static int push_rows(struct avif_state *s, const struct hr_image_request *r, struct hr_error *err)
{
    struct hr_frame_box box = {r->x, r->y, r->w, r->h, r->channels};
    int ret = hr_frame_rgb_convert(&s->rgb, s->whole, &box, err);

    for (uint32_t y = r->y; ret == 0 && y < r->y + r->h; y++)
        if (!r->push(r->user, hr_frame_rgb_row(&s->rgb, &box, y)))
            break;
    return ret;
}

static int decode(void *state, const struct hr_image_request *r, struct hr_error *err)
{
    struct avif_state *s = state;
    struct hr_heif heif;
    int ret = hr_heif_open(r->bytes, r->count, &heif, err);

    if (ret < 0)
        return ret;
    if (heif.width != r->picture_w || heif.height != r->picture_h)
        return hr_fail(err, HR_E_DECODE, "the AVIF is %u x %u pixels, its record says %u x %u", heif.width,
                       heif.height, r->picture_w, r->picture_h);
    ret = decode_whole(s, &heif, err);
    if (ret == 0)
        ret = push_rows(s, r, err);
    forget(s);
    return ret;
}

static int verify_all(const struct hr_heif *heif, struct hr_error *err)
{
    struct avif_state *s;
    void *state;
    int ret = create(0, &state);

    if (ret < 0)
        return hr_fail(err, ret, "no memory to decode an AVIF");
    s = state;
    ret = decode_whole(s, heif, err);
    destroy(s);
    return ret;
}

static int measure(const uint8_t *bytes, size_t count, bool verify, struct hr_facts *facts,
                   struct hr_error *err)
{
    struct hr_heif heif;
    int ret = hr_heif_open(bytes, count, &heif, err);
    uint64_t last;

    /* Pixels that are cut off show at the last tile. */
    if (ret == 0)
        ret = hr_heif_tile(&heif, heif.rows * heif.columns - 1, NULL, &last, err);
    if (ret < 0)
        return ret;
    facts->width = heif.width;
    facts->height = heif.height;
    facts->channels = heif.mono ? 1 : 3;
    facts->bit_depth = heif.bit_depth;
    facts->orientation = heif.orientation;
    return verify ? verify_all(&heif, err) : 0;
}

static enum hr_media_format sniff(const uint8_t *b, size_t n)
{
    if (n < 16 || memcmp(b + 4, "ftyp", 4) != 0)
        return HR_MEDIA_UNKNOWN;
    size_t box = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
    size_t end = box < n ? box : n;
    for (size_t i = 8; i + 4 <= end; i += 4)
        if (i != 12 && (memcmp(b + i, "avif", 4) == 0 || memcmp(b + i, "avis", 4) == 0))
            return HR_MEDIA_AVIF;
    return HR_MEDIA_UNKNOWN;
}

static int find_profile(const uint8_t *bytes, size_t count, struct hr_profile *profile, struct hr_error *err)
{
    struct hr_heif heif;
    int ret = hr_heif_open(bytes, count, &heif, err);

    profile->bytes = ret < 0 ? NULL : heif.icc.b;
    profile->count = ret < 0 ? 0 : heif.icc.n;
    return ret;
}

static const struct hr_image_decoder image = {
    .create = create, .destroy = destroy, .decode = decode, .profile = find_profile};

const struct hr_decoder hr_decoder_avif = {
    .name = "avif",
    .type = HR_FIELD_IMAGE,
    .format = HR_MEDIA_AVIF,
    .sniff = sniff,
    .measure = measure,
    .image = &image,
};
