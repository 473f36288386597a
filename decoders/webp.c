/* WebP through libwebp: lossy and lossless. Alpha is dropped; of an animation the first frame is
 * taken, on its canvas. A box of a still picture is decoded with a margin, since libwebp's
 * upsampling treats the edge of a crop as the edge of a picture. */
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "base/mem.h"
#include "decoders/decoder.h"
#include "decoders/exif.h"
#include "decoders/pixels.h"
#include "decoders/scratch.h"

enum { ROW_PAD = 64, MARGIN = 4 };

struct webp_state {
    uint8_t *pixels;
    size_t bytes;
};

static int fail(VP8StatusCode code, struct hr_error *err)
{
    if (code == VP8_STATUS_NOT_ENOUGH_DATA || code == VP8_STATUS_SUSPENDED)
        return hr_fail(err, HR_E_TRUNCATED, "the WebP is cut off");
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode a WebP");
    return hr_fail(err, HR_E_DECODE, "WebP cannot be decoded: status %d", (int)code);
}

static int create(uint32_t max_width, void **state)
{
    *state = hr_alloc_zero(1, sizeof(struct webp_state));
    return *state ? 0 : HR_E_NOMEM;
}

static void destroy(void *state)
{
    struct webp_state *s = state;

    if (!s)
        return;
    hr_free(s->pixels);
    hr_free(s);
}

static int reserve(struct webp_state *s, size_t bytes, struct hr_error *err)
{
    int ret = hr_scratch_grow_bytes(&s->pixels, &s->bytes, bytes);

    return ret < 0 ? hr_fail(err, ret, "no memory to decode a WebP") : 0;
}

static void push_rows(const struct hr_image_request *r, uint8_t *first, size_t stride)
{
    for (uint32_t y = 0; y < r->h; y++) {
        uint8_t *row = first + y * stride;
        if (r->channels == 1)
            hr_pixels_rgb_to_gray(row, row, r->w);
        if (!r->push(r->user, row))
            return;
    }
}

/* Even, and MARGIN before; the end MARGIN after, within the picture. */
static void widen(uint32_t at, uint32_t length, uint32_t whole, int *first, int *count)
{
    uint32_t begin = at > MARGIN ? (at - MARGIN) & ~1u : 0;
    uint32_t end = whole - at - length > MARGIN ? at + length + MARGIN : whole;

    *first = (int)begin;
    *count = (int)(end - begin);
}

static int decode_still(struct webp_state *s, const struct hr_image_request *r,
                        struct hr_error *err)
{
    WebPDecoderConfig config;

    if (!WebPInitDecoderConfig(&config))
        return hr_fail(err, HR_E_INTERNAL, "libwebp is of another version");
    widen(r->x, r->w, r->picture_w, &config.options.crop_left, &config.options.crop_width);
    widen(r->y, r->h, r->picture_h, &config.options.crop_top, &config.options.crop_height);
    config.options.use_cropping = config.options.crop_width != (int)r->picture_w ||
                                  config.options.crop_height != (int)r->picture_h;
    size_t stride = (size_t)config.options.crop_width * 3;
    size_t bytes = stride * (size_t)config.options.crop_height;
    int ret = reserve(s, bytes + ROW_PAD, err);
    if (ret < 0)
        return ret;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA =
        (WebPRGBABuffer){.rgba = s->pixels, .stride = (int)stride, .size = bytes};
    VP8StatusCode code = WebPDecode(r->bytes, r->count, &config);
    WebPFreeDecBuffer(&config.output);
    if (code != VP8_STATUS_OK)
        return fail(code, err);
    push_rows(r, s->pixels + (r->y - (uint32_t)config.options.crop_top) * stride +
                     (size_t)(r->x - (uint32_t)config.options.crop_left) * 3,
              stride);
    return 0;
}

static int decode_animated(struct webp_state *s, const struct hr_image_request *r,
                           struct hr_error *err)
{
    WebPData data = {.bytes = r->bytes, .size = r->count};
    WebPAnimDecoderOptions options;
    uint8_t *canvas = NULL;
    int time_ms, ret = reserve(s, (size_t)r->w * 3 + ROW_PAD, err);

    if (ret < 0)
        return ret;
    if (!WebPAnimDecoderOptionsInit(&options))
        return hr_fail(err, HR_E_INTERNAL, "libwebp is of another version");
    WebPAnimDecoder *decoder = WebPAnimDecoderNew(&data, &options);
    if (!decoder || !WebPAnimDecoderGetNext(decoder, &canvas, &time_ms))
        ret = hr_fail(err, HR_E_DECODE, "the WebP animation cannot be decoded");
    for (uint32_t y = r->y; ret == 0 && y < r->y + r->h; y++) {
        hr_pixels_rgba_to_rgb(s->pixels, canvas + ((size_t)y * r->picture_w + r->x) * 4, r->w);
        if (r->channels == 1)
            hr_pixels_rgb_to_gray(s->pixels, s->pixels, r->w);
        if (!r->push(r->user, s->pixels))
            break;
    }
    WebPAnimDecoderDelete(decoder);
    return ret;
}

static int decode(void *state, const struct hr_image_request *r, struct hr_error *err)
{
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(r->bytes, r->count, &features);

    if (code != VP8_STATUS_OK)
        return fail(code, err);
    if ((uint32_t)features.width != r->picture_w || (uint32_t)features.height != r->picture_h)
        return hr_fail(err, HR_E_DECODE, "the WebP is %d x %d pixels, its record says %u x %u",
                       features.width, features.height, r->picture_w, r->picture_h);
    return features.has_animation ? decode_animated(state, r, err) : decode_still(state, r, err);
}

/* The body of a chunk (EXIF comes after the pictures); chunks are padded to even sizes. */
static const uint8_t *find_chunk(const uint8_t *b, size_t n, const char *name, size_t *bytes)
{
    for (size_t i = 12; i + 8 <= n;) {
        *bytes = hr_load_le32(b + i + 4);
        if (*bytes > n - i - 8)
            return NULL;
        if (memcmp(b + i, name, 4) == 0)
            return b + i + 8;
        i += 8 + *bytes + (*bytes & 1);
    }
    return NULL;
}

static uint32_t find_orientation(const uint8_t *b, size_t n)
{
    size_t bytes;
    const uint8_t *exif = find_chunk(b, n, "EXIF", &bytes);

    return exif ? hr_exif_orientation(exif, bytes) : 0;
}

static int find_profile(const uint8_t *bytes, size_t count, struct hr_profile *profile, struct hr_error *err)
{
    profile->bytes = find_chunk(bytes, count, "ICCP", &profile->count);
    return 0;
}

static int measure(const uint8_t *bytes, size_t count, bool verify, struct hr_facts *facts,
                   struct hr_error *err)
{
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(bytes, count, &features);

    if (code != VP8_STATUS_OK)
        return fail(code, err);
    int ret = hr_image_check_size((uint64_t)features.width, (uint64_t)features.height, err);
    if (ret < 0)
        return ret;
    facts->width = (uint32_t)features.width;
    facts->height = (uint32_t)features.height;
    facts->channels = features.has_alpha ? 4 : 3;
    facts->bit_depth = 8;
    facts->orientation = find_orientation(bytes, count);
    return verify ? hr_image_verify(hr_decoder_webp.image, bytes, count, facts, err) : 0;
}

static enum hr_media_format sniff(const uint8_t *b, size_t n)
{
    return n >= 12 && memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "WEBP", 4) == 0
               ? HR_MEDIA_WEBP
               : HR_MEDIA_UNKNOWN;
}

static const struct hr_image_decoder image = {
    .create = create, .destroy = destroy, .decode = decode, .profile = find_profile};

const struct hr_decoder hr_decoder_webp = {
    .name = "webp",
    .type = HR_FIELD_IMAGE,
    .format = HR_MEDIA_WEBP,
    .abilities = HR_DECODER_REGION,
    .sniff = sniff,
    .measure = measure,
    .image = &image,
};
