/* The decoders, in the order in which they are asked whether bytes are theirs, and what is the same
 * for all of them: sniffing, measuring, the picture size limit. */
#include <inttypes.h>
#include <string.h>

#include "decoders/av_container.h"
#include "decoders/av_measure.h"
#include "decoders/chain.h"
#include "decoders/decoder.h"

static const struct hr_decoder *const decoders[] = {
    &hr_decoder_jpeg,
    &hr_decoder_png,
    &hr_decoder_webp,
    &hr_decoder_gif,
    &hr_decoder_bmp,
    &hr_decoder_tiff,
    &hr_decoder_avif,
    &hr_decoder_av,
};
_Static_assert(HR_ARRAY_SIZE(decoders) <= HR_DECODER_MAX, "raise HR_DECODER_MAX");

const struct hr_decoder *hr_decoder_find(const uint8_t *bytes, size_t count,
                                         enum hr_media_format *format)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(decoders); i++) {
        enum hr_media_format found = decoders[i]->sniff(bytes, count);
        if (found == HR_MEDIA_UNKNOWN)
            continue;
        if (format)
            *format = found;
        return decoders[i];
    }
    if (format)
        *format = HR_MEDIA_UNKNOWN;
    return NULL;
}

const struct hr_decoder *hr_decoder_at(int i)
{
    return i >= 0 && i < (int)HR_ARRAY_SIZE(decoders) ? decoders[i] : NULL;
}

int hr_decoder_index(const struct hr_decoder *decoder)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(decoders); i++)
        if (decoders[i] == decoder)
            return (int)i;
    return -1;
}

enum hr_media_format hr_media_sniff(const uint8_t *bytes, size_t count)
{
    enum hr_media_format format;

    hr_decoder_find(bytes, count, &format);
    return format;
}

enum hr_field_type hr_media_format_type(enum hr_media_format format)
{
    if (format >= HR_MEDIA_JPEG && format <= HR_MEDIA_AVIF)
        return HR_FIELD_IMAGE;
    if (format >= HR_MEDIA_WAV && format <= HR_MEDIA_ADTS)
        return HR_FIELD_AUDIO;
    if (format >= HR_MEDIA_MP4 && format <= HR_MEDIA_OTHER_AV)
        return HR_FIELD_VIDEO;
    return HR_FIELD_NONE;
}

static int unknown_bytes(const uint8_t *bytes, size_t count, struct hr_error *err)
{
    if (count == 0)
        return hr_fail(err, HR_E_TRUNCATED, "the value is empty");
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return hr_fail(err, HR_E_FORMAT, "the bytes are of no known media format");
    return hr_fail(err, HR_E_FORMAT, "all %zu bytes are zero", count);
}

/* Containers like MP4 and Ogg hold either: their measure may correct a wanted audio or video. */
static bool type_fits(enum hr_field_type wanted, const struct hr_decoder *decoder)
{
    if (wanted == HR_FIELD_NONE || wanted == decoder->type)
        return true;
    return wanted != HR_FIELD_IMAGE && decoder->type != HR_FIELD_IMAGE;
}

int hr_media_measure(const uint8_t *bytes, size_t count, enum hr_field_type wanted, bool verify,
                     enum hr_field_type *type, struct hr_facts *facts, struct hr_error *err)
{
    enum hr_media_format format;
    const struct hr_decoder *decoder = hr_decoder_find(bytes, count, &format);
    struct hr_facts found = {.format = format};

    if (!decoder)
        return unknown_bytes(bytes, count, err);
    if (format == HR_MEDIA_GIF && wanted == HR_FIELD_VIDEO)
        decoder = &hr_decoder_av;
    if (!type_fits(wanted, decoder))
        return hr_fail(err, HR_E_FORMAT, "the bytes are %s, not %s", hr_media_format_name(format),
                       hr_field_type_name(wanted));
    int ret = decoder == &hr_decoder_av
                  ? hr_av_measure(bytes, count, wanted, verify, &found, err)
                  : decoder->measure(bytes, count, verify, &found, err);
    if (ret < 0)
        return ret;
    enum hr_field_type is = decoder->type;
    if (is != HR_FIELD_IMAGE)
        is = wanted ? wanted : found.frames ? HR_FIELD_VIDEO : HR_FIELD_AUDIO;
    *facts = found;
    if (type)
        *type = is;
    return 0;
}

static bool ignore_row(void *user, const uint8_t *row)
{
    return true;
}

int hr_image_verify(const struct hr_image_decoder *image, const uint8_t *bytes, size_t count,
                    const struct hr_facts *facts, struct hr_error *err)
{
    const struct hr_image_request all = {.bytes = bytes, .count = count, .w = facts->width, .h = facts->height,
                                         .picture_w = facts->width, .picture_h = facts->height, .channels = 3,
                                         .shrink = 1, .push = ignore_row};
    void *state;
    int ret = image->create(facts->width, &state);

    if (ret < 0)
        return hr_fail(err, ret, "no memory to decode a picture");
    ret = image->decode(state, &all, err);
    image->destroy(state);
    return ret;
}

int hr_image_no_ids(const char *what, struct hr_error *err)
{
    hr_fail(err, HR_E_FORMAT, "a mask's pixels are class ids, gray or of a palette, of 8 bits at most; this one is %s",
            what);
    hr_error_hint(err, "save masks as PNG of mode L or P (Pillow), and pack them with --png=keep or repack");
    return HR_E_FORMAT;
}

int hr_image_check_size(uint64_t width, uint64_t height, struct hr_error *err)
{
    if (width == 0 || height == 0)
        return hr_fail(err, HR_E_DECODE, "the picture is %" PRIu64 " x %" PRIu64 " pixels", width,
                       height);
    if (width > HR_IMAGE_MAX_PIXELS || height > HR_IMAGE_MAX_PIXELS / width)
        return hr_fail(err, HR_E_LIMIT,
                       "the picture says %" PRIu64 " x %" PRIu64 " pixels; the limit is %" PRIu64,
                       width, height, HR_IMAGE_MAX_PIXELS);
    return 0;
}
