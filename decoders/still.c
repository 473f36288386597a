/* BMP, GIF and TIFF through FFmpeg's picture decoders: the whole picture, of which the box is passed
 * on. Rules: 16-bit samples keep their high byte, alpha is dropped, of a GIF the first frame is taken
 * with its palette's colours also where it is transparent, of a TIFF the first page. Tiled, Lab and JPEG-compressed
 * TIFFs are refused. */
#include <string.h>

#include "base/mem.h"
#include "decoders/av_source.h"
#include "decoders/chain.h"
#include "decoders/decoder.h"
#include "decoders/exif.h"
#include "decoders/pixels.h"
#include "decoders/scratch.h"

enum { ROW_PAD = 64 };
enum { TIFF_WIDTH = 256, TIFF_LENGTH = 257, TIFF_COMPRESSION = 259, TIFF_TILE_WIDTH = 322 };
enum { TIFF_PROFILE = 34675, TIFF_OLD_JPEG = 6, TIFF_JPEG = 7 };

struct still_state {
    AVPacket *packet;
    AVFrame *frame;
    uint8_t *bytes, *row; /* a copy that may be patched; one row of the box */
    size_t bytes_room, row_room;
};

/* ---- rows of FFmpeg's pixel formats to RGB ---- */

static void row_rgb(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    memcpy(dst, src, n * 3);
}

static void row_bgr(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    for (size_t i = 0; i < n; i++, dst += 3, src += 3)
        dst[0] = src[2], dst[1] = src[1], dst[2] = src[0];
}

static void row_rgba(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    hr_pixels_rgba_to_rgb(dst, src, n);
}

static void row_bgra(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    for (size_t i = 0; i < n; i++, dst += 3, src += 4)
        dst[0] = src[2], dst[1] = src[1], dst[2] = src[0];
}

static void row_gray(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    hr_pixels_gray_to_rgb(dst, src, n);
}

static void row_gray_alpha(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    for (size_t i = 0; i < n; i++, dst += 3)
        dst[0] = dst[1] = dst[2] = src[2 * i];
}

static void row_gray16(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    for (size_t i = 0; i < n; i++, dst += 3)
        dst[0] = dst[1] = dst[2] = src[2 * i + 1];
}

static void row_rgb48(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    for (size_t i = 0; i < n * 3; i++)
        dst[i] = src[2 * i + 1];
}

static void row_rgba64(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    for (size_t i = 0; i < n; i++, dst += 3, src += 8)
        dst[0] = src[1], dst[1] = src[3], dst[2] = src[5];
}

static void row_palette(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    for (size_t i = 0; i < n; i++, dst += 3) {
        uint32_t argb;
        memcpy(&argb, palette + 4 * src[i], 4);
        dst[0] = (uint8_t)(argb >> 16);
        dst[1] = (uint8_t)(argb >> 8);
        dst[2] = (uint8_t)argb;
    }
}

/* Five bits to eight, six to eight: the high bits again below. */
static void row_rgb555(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    for (size_t i = 0; i < n; i++, dst += 3) {
        unsigned v = hr_load_le16(src + 2 * i), r = v >> 10 & 31, g = v >> 5 & 31, b = v & 31;
        dst[0] = (uint8_t)(r << 3 | r >> 2);
        dst[1] = (uint8_t)(g << 3 | g >> 2);
        dst[2] = (uint8_t)(b << 3 | b >> 2);
    }
}

static void row_rgb565(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n)
{
    for (size_t i = 0; i < n; i++, dst += 3) {
        unsigned v = hr_load_le16(src + 2 * i), r = v >> 11, g = v >> 5 & 63, b = v & 31;
        dst[0] = (uint8_t)(r << 3 | r >> 2);
        dst[1] = (uint8_t)(g << 2 | g >> 4);
        dst[2] = (uint8_t)(b << 3 | b >> 2);
    }
}

/* One bit a pixel, from the high bit on; src is the row's begin. */
static void row_bits(uint8_t *dst, const uint8_t *src, size_t x, size_t n, uint8_t invert)
{
    for (size_t i = 0; i < n; i++, x++, dst += 3)
        dst[0] = dst[1] = dst[2] = (src[x / 8] ^ invert) >> (7 - x % 8) & 1 ? 255 : 0;
}

static const struct row_form {
    enum AVPixelFormat format;
    unsigned bytes; /* a pixel */
    uint32_t channels, bits;
    void (*convert)(uint8_t *dst, const uint8_t *src, const uint8_t *palette, size_t n);
} row_forms[] = {
    {AV_PIX_FMT_RGB24, 3, 3, 8, row_rgb},
    {AV_PIX_FMT_BGR24, 3, 3, 8, row_bgr},
    {AV_PIX_FMT_RGBA, 4, 4, 8, row_rgba},
    {AV_PIX_FMT_RGB0, 4, 3, 8, row_rgba},
    {AV_PIX_FMT_BGRA, 4, 4, 8, row_bgra},
    {AV_PIX_FMT_BGR0, 4, 3, 8, row_bgra},
    {AV_PIX_FMT_GRAY8, 1, 1, 8, row_gray},
    {AV_PIX_FMT_YA8, 2, 2, 8, row_gray_alpha},
    {AV_PIX_FMT_GRAY16LE, 2, 1, 16, row_gray16},
    {AV_PIX_FMT_RGB48LE, 6, 3, 16, row_rgb48},
    {AV_PIX_FMT_RGBA64LE, 8, 4, 16, row_rgba64},
    {AV_PIX_FMT_PAL8, 1, 3, 8, row_palette},
    {AV_PIX_FMT_RGB555LE, 2, 3, 8, row_rgb555},
    {AV_PIX_FMT_RGB565LE, 2, 3, 8, row_rgb565},
    {AV_PIX_FMT_MONOBLACK, 0, 1, 8, NULL}, /* row_bits */
    {AV_PIX_FMT_MONOWHITE, 0, 1, 8, NULL},
};

static const struct row_form *form_of(const AVFrame *frame)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(row_forms); i++)
        if ((int)row_forms[i].format == frame->format)
            return &row_forms[i];
    return NULL;
}

/* ---- state ---- */

static void destroy(void *state)
{
    struct still_state *s = state;

    if (!s)
        return;
    if (s->packet)
        hr_av.av_packet_free(&s->packet);
    if (s->frame)
        hr_av.av_frame_free(&s->frame);
    hr_free(s->bytes);
    hr_free(s->row);
    hr_free(s);
}

static int create(uint32_t max_width, void **state)
{
    struct still_state *s = hr_alloc_zero(1, sizeof(*s));

    if (!s)
        return HR_E_NOMEM;
    *state = s;
    return 0;
}

/* ---- what FFmpeg would let pass, and claims too large to try ---- */

enum { GIF_HEADER = 13, GIF_IMAGE = 0x2c, GIF_EXTENSION = 0x21, GIF_CONTROL = 0xf9 };

/* Behind a chain of sub-blocks, or n + 1 when it is cut off. */
static size_t skip_blocks(const uint8_t *b, size_t n, size_t i)
{
    while (i < n && b[i])
        i += (size_t)b[i] + 1;
    return i < n ? i + 1 : n + 1;
}

static size_t palette_bytes(uint8_t flags)
{
    return flags & 0x80 ? (size_t)3 << ((flags & 7) + 1) : 0;
}

/* The logical screen becomes at least as large as the first frame. */
static int widen_screen(uint8_t *b, const uint8_t *frame, struct hr_error *err)
{
    uint32_t w = (uint32_t)hr_load_le16(frame + 1) + hr_load_le16(frame + 5);
    uint32_t h = (uint32_t)hr_load_le16(frame + 3) + hr_load_le16(frame + 7);

    int ret = hr_image_check_size(hr_max_u64(w, hr_load_le16(b + 6)),
                                  hr_max_u64(h, hr_load_le16(b + 8)), err);
    if (ret < 0)
        return ret;
    if (w > UINT16_MAX || h > UINT16_MAX)
        return HR_E_DECODE;
    if (w > hr_load_le16(b + 6))
        hr_store_le16(b + 6, (uint16_t)w);
    if (h > hr_load_le16(b + 8))
        hr_store_le16(b + 8, (uint16_t)h);
    return 0;
}

/* Makes the first frame opaque and the screen large enough, and sees to it that the frame's data is
 * all there. */
static int prepare_gif(uint8_t *b, size_t n, struct hr_error *err)
{
    size_t i = n < GIF_HEADER ? n + 1 : GIF_HEADER + palette_bytes(b[10]);

    while (i + 4 <= n && b[i] == GIF_EXTENSION) {
        if (b[i + 1] == GIF_CONTROL && b[i + 2] >= 4)
            b[i + 3] &= (uint8_t)~1u;
        i = skip_blocks(b, n, i + 2);
    }
    if (i >= n || n - i < 11)
        return HR_E_TRUNCATED;
    if (b[i] != GIF_IMAGE)
        return HR_E_DECODE;
    int ret = widen_screen(b, b + i, err);
    if (ret == 0 && skip_blocks(b, n, i + 11 + palette_bytes(b[i + 9])) > n)
        ret = HR_E_TRUNCATED;
    return ret;
}

/* Rows that are not compressed must all be there: FFmpeg would take shorter rows for unpadded ones. */
static int check_bmp(const uint8_t *b, size_t n, struct hr_error *err)
{
    bool old = n >= 18 && hr_load_le32(b + 14) == 12;

    if (n < (old ? 26u : 54u))
        return HR_E_TRUNCATED;
    uint64_t w = old ? hr_load_le16(b + 18) : hr_load_le32(b + 18) & INT32_MAX;
    int64_t h = old ? hr_load_le16(b + 20) : (int32_t)hr_load_le32(b + 22);
    uint32_t bits = hr_load_le16(b + (old ? 24 : 28)), packing = old ? 0 : hr_load_le32(b + 30);
    int ret = hr_image_check_size(w, (uint64_t)(h < 0 ? -h : h), err);
    if (ret < 0)
        return ret;
    if ((packing != 0 && packing != 3) || bits > 64)
        return 0;
    uint64_t row = (w * bits + 31) / 32 * 4, rows = (uint64_t)(h < 0 ? -h : h), all;
    if (!hr_mul_u64(row, rows, &all) || !hr_add_u64(all, hr_load_le32(b + 10), &all) || all > n)
        return HR_E_TRUNCATED;
    return 0;
}

/* FFmpeg 5 takes a tiled picture for an empty one, and YCbCr of JPEG strips for RGB. */
static int check_tiff(const uint8_t *b, size_t n, struct hr_error *err)
{
    uint32_t w = hr_tiff_tag(b, n, TIFF_WIDTH), h = hr_tiff_tag(b, n, TIFF_LENGTH);

    if (w && h && hr_image_check_size(w, h, err) < 0)
        return HR_E_LIMIT;
    if (hr_tiff_tag(b, n, TIFF_TILE_WIDTH))
        return hr_fail(err, HR_E_FORMAT, "a tiled tiff picture is not supported");
    uint32_t packing = hr_tiff_tag(b, n, TIFF_COMPRESSION);
    if (packing == TIFF_OLD_JPEG || packing == TIFF_JPEG)
        return hr_fail(err, HR_E_FORMAT, "a tiff picture with JPEG compression is not supported");
    return 0;
}

/* b may be changed. */
static int prepare(enum hr_media_format format, uint8_t *b, size_t n, struct hr_error *err)
{
    int ret = format == HR_MEDIA_GIF   ? prepare_gif(b, n, err)
              : format == HR_MEDIA_BMP ? check_bmp(b, n, err)
                                       : check_tiff(b, n, err);

    if (ret == HR_E_TRUNCATED)
        return hr_fail(err, ret, "the %s picture is cut off", hr_media_format_name(format));
    if (ret == HR_E_DECODE)
        return hr_fail(err, ret, "the %s picture makes no sense", hr_media_format_name(format));
    return ret;
}

/* ---- decoding ---- */

static enum AVCodecID codec_of(enum hr_media_format format)
{
    return format == HR_MEDIA_GIF ? AV_CODEC_ID_GIF
           : format == HR_MEDIA_BMP ? AV_CODEC_ID_BMP
                                    : AV_CODEC_ID_TIFF;
}

static int run_codec(struct still_state *s, const AVCodec *codec)
{
    AVCodecContext *context = hr_av.avcodec_alloc_context3(codec);

    if (!context)
        return AVERROR(ENOMEM);
    context->thread_count = 1;
    context->max_pixels = (int64_t)HR_IMAGE_MAX_PIXELS;
    if (codec->id != AV_CODEC_ID_TIFF) /* there it refuses alpha and JPEG pages, too */
        context->err_recognition = AV_EF_EXPLODE;
    int ret = hr_av.avcodec_open2(context, codec, NULL);
    if (ret >= 0)
        ret = hr_av.avcodec_send_packet(context, s->packet);
    if (ret >= 0)
        ret = hr_av.avcodec_receive_frame(context, s->frame);
    hr_av.avcodec_free_context(&context);
    return ret;
}

/* The whole picture into s->frame. */
static int decode_frame(struct still_state *s, enum hr_media_format format, const uint8_t *bytes,
                        size_t count, struct hr_error *err)
{
    const char *name = hr_media_format_name(format);
    int ret = hr_av_prepare(&s->packet, &s->frame, err);

    if (ret < 0)
        return ret;
    const AVCodec *codec = hr_av.avcodec_find_decoder(codec_of(format));
    if (!codec)
        return hr_fail(err, HR_E_FORMAT, "this build of FFmpeg has no %s decoder", name);
    if (count > INT32_MAX - AV_INPUT_BUFFER_PADDING_SIZE)
        return hr_fail(err, HR_E_LIMIT, "the %s picture is larger than 2 GB", name);
    if (hr_scratch_grow_bytes(&s->bytes, &s->bytes_room, count + AV_INPUT_BUFFER_PADDING_SIZE) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode a %s picture", name);
    memcpy(s->bytes, bytes, count);
    memset(s->bytes + count, 0, AV_INPUT_BUFFER_PADDING_SIZE);
    ret = prepare(format, s->bytes, count, err);
    if (ret < 0)
        return ret;
    hr_av_forget();
    s->packet->data = s->bytes;
    s->packet->size = (int)count;
    ret = run_codec(s, codec);
    hr_av.av_packet_unref(s->packet);
    if (ret < 0)
        return hr_fail(err, HR_E_DECODE, "the %s picture cannot be decoded: %s", name,
                       hr_av_reason(ret));
    if (!form_of(s->frame))
        return hr_fail(err, HR_E_FORMAT, "a %s picture of pixel format %d is not supported", name,
                       s->frame->format);
    return hr_image_check_size((uint64_t)s->frame->width, (uint64_t)s->frame->height, err);
}

static int push_rows(struct still_state *s, const struct hr_image_request *r, struct hr_error *err)
{
    const struct row_form *form = form_of(s->frame);

    if ((uint32_t)s->frame->width != r->picture_w || (uint32_t)s->frame->height != r->picture_h)
        return hr_fail(err, HR_E_DECODE, "the picture is %d x %d pixels, its record says %u x %u",
                       s->frame->width, s->frame->height, r->picture_w, r->picture_h);
    if (r->ids && form->format != AV_PIX_FMT_GRAY8 && form->format != AV_PIX_FMT_PAL8)
        return hr_image_no_ids("neither", err);
    if (hr_scratch_grow_bytes(&s->row, &s->row_room, (size_t)r->w * 3 + ROW_PAD) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode a picture");
    for (uint32_t y = r->y; y < r->y + r->h; y++) {
        const uint8_t *src = s->frame->data[0] + (ptrdiff_t)y * s->frame->linesize[0];
        if (r->ids)
            memcpy(s->row, src + r->x, r->w);
        else if (form->convert)
            form->convert(s->row, src + (size_t)r->x * form->bytes, s->frame->data[1], r->w);
        else
            row_bits(s->row, src, r->x, r->w, form->format == AV_PIX_FMT_MONOWHITE ? 0xff : 0);
        if (r->channels == 1 && !r->ids)
            hr_pixels_rgb_to_gray(s->row, s->row, r->w);
        if (!r->push(r->user, s->row))
            break;
    }
    return 0;
}

static int decode(void *state, const struct hr_image_request *r, struct hr_error *err)
{
    struct still_state *s = state;
    int ret = decode_frame(s, hr_media_sniff(r->bytes, r->count), r->bytes, r->count, err);

    if (ret == 0)
        ret = push_rows(s, r, err);
    if (s->frame)
        hr_av.av_frame_unref(s->frame);
    return ret;
}

/* The sizes in these headers are not what comes out (frames beyond a GIF's screen, TIFF pages), so
 * the picture is decoded; FFmpeg checks the pixel limit before it allocates. */
static int measure(const uint8_t *bytes, size_t count, bool verify, struct hr_facts *facts,
                   struct hr_error *err)
{
    void *state = NULL;

    if (create(0, &state) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode a picture");
    struct still_state *s = state;
    int ret = decode_frame(s, (enum hr_media_format)facts->format, bytes, count, err);
    if (ret == 0) {
        facts->width = (uint32_t)s->frame->width;
        facts->height = (uint32_t)s->frame->height;
        facts->channels = form_of(s->frame)->channels;
        facts->bit_depth = form_of(s->frame)->bits;
        if (facts->format == HR_MEDIA_TIFF)
            facts->orientation = hr_exif_orientation(bytes, count);
    }
    destroy(s);
    return ret;
}

/* ---- sniffing ---- */

static enum hr_media_format sniff_gif(const uint8_t *b, size_t n)
{
    return n >= 6 && (memcmp(b, "GIF87a", 6) == 0 || memcmp(b, "GIF89a", 6) == 0)
               ? HR_MEDIA_GIF
               : HR_MEDIA_UNKNOWN;
}

/* "BM" alone is two letters of text: the reserved words and the header size must fit too. */
static enum hr_media_format sniff_bmp(const uint8_t *b, size_t n)
{
    if (n < 26 || b[0] != 'B' || b[1] != 'M' || hr_load_le32(b + 6) != 0)
        return HR_MEDIA_UNKNOWN;
    uint32_t header = hr_load_le32(b + 14);
    return header >= 12 && header <= 124 ? HR_MEDIA_BMP : HR_MEDIA_UNKNOWN;
}

static enum hr_media_format sniff_tiff(const uint8_t *b, size_t n)
{
    if (n < 8)
        return HR_MEDIA_UNKNOWN;
    bool little = memcmp(b, "II\x2a\0", 4) == 0 || memcmp(b, "II\x2b\0", 4) == 0;
    bool big = memcmp(b, "MM\0\x2a", 4) == 0 || memcmp(b, "MM\0\x2b", 4) == 0;
    return little || big ? HR_MEDIA_TIFF : HR_MEDIA_UNKNOWN;
}

static int find_profile(const uint8_t *bytes, size_t count, struct hr_profile *profile, struct hr_error *err)
{
    profile->bytes = sniff_tiff(bytes, count) ? hr_tiff_bytes(bytes, count, TIFF_PROFILE, &profile->count) : NULL;
    return 0;
}

static const struct hr_image_decoder image = {
    .create = create, .destroy = destroy, .decode = decode, .profile = find_profile};

#define STILL(word, upper)                                                                         \
    const struct hr_decoder hr_decoder_##word = {.name = #word,                                    \
                                                 .type = HR_FIELD_IMAGE,                           \
                                                 .format = HR_MEDIA_##upper,                       \
                                                 .abilities = HR_DECODER_IDS,                      \
                                                 .sniff = sniff_##word,                            \
                                                 .measure = measure,                               \
                                                 .image = &image}

STILL(gif, GIF);
STILL(bmp, BMP);
STILL(tiff, TIFF);
