/* Pictures made smaller at pack, or stored as their pixels: decoded and resized by an image chain, then
 * written anew. */
#include "decoders/reduce.h"

#include <string.h>

#include "base/mem.h"
#include "decoders/chain.h"
#include "decoders/decoder.h"
#include "decoders/exif.h"
#include "decoders/icc.h"
#include "decoders/jpeg_write.h"
#include "decoders/raw_pixels.h"

/* ---- what is reduced, and to which size ---- */

/* Truecolour of 8 bits, where a lossless format may also hold masks, palettes and depths. */
static bool is_photograph(const uint8_t *b, size_t n, const struct hr_facts *f)
{
    enum { TIFF_PHOTOMETRIC = 262, TIFF_RGB = 2, PNG_COLOUR = 25, BMP_BITS = 28 };

    switch (f->format) {
    case HR_MEDIA_JPEG:
    case HR_MEDIA_WEBP:
    case HR_MEDIA_AVIF:
        return true;
    case HR_MEDIA_PNG:
        return n > PNG_COLOUR && (b[PNG_COLOUR] == 2 || b[PNG_COLOUR] == 6) && f->bit_depth == 8;
    case HR_MEDIA_BMP:
        return n > BMP_BITS && b[BMP_BITS] >= 24;
    case HR_MEDIA_TIFF:
        return f->bit_depth == 8 && hr_tiff_tag(b, n, TIFF_PHOTOMETRIC) == TIFF_RGB;
    default:
        return false;
    }
}

static uint64_t side_of(uint64_t to, uint64_t part, uint64_t whole)
{
    return hr_max_u64(1, to * part / whole);
}

/* size: height and width by the rules of the op `resize`; the picture's own where they stay. */
static enum hr_reduced choose_size(const struct hr_reduction *how, const uint8_t *bytes, size_t count,
                                   const struct hr_facts *facts, int64_t size[2])
{
    uint64_t w = facts->width, h = facts->height;
    uint64_t side = how->short_side ? hr_min_u64(w, h) : hr_max_u64(w, h);
    uint64_t to = how->short_side ? how->short_side : how->max_side;

    size[0] = (int64_t)h;
    size[1] = (int64_t)w;
    if (!to || side <= to)
        return HR_REDUCED_NOT;
    if (!is_photograph(bytes, count, facts))
        return HR_REDUCED_NEVER;
    size[0] = (int64_t)(side == h ? to : side_of(to, h, side));
    size[1] = (int64_t)(side == w ? to : side_of(to, w, side));
    return HR_REDUCED_SIZE;
}

enum hr_reduced hr_media_reduction_of(const struct hr_reduction *how, const uint8_t *bytes, size_t count,
                                      const struct hr_facts *facts)
{
    int64_t size[2];

    return choose_size(how, bytes, count, facts, size);
}

/* ---- pixels ---- */

static bool is_cmyk(const struct hr_facts *f)
{
    return f->format == HR_MEDIA_JPEG && f->channels == 4;
}

static int make_chain(const struct hr_facts *facts, const int64_t size[2], struct hr_chain **chain,
                      struct hr_error *err)
{
    bool gray = facts->channels == 1 || facts->channels == 2;
    bool same = size[0] == facts->height && size[1] == facts->width;
    struct hr_arg sides[2] = {{.kind = HR_ARG_INT, .integer = size[0], .number = (double)size[0]},
                              {.kind = HR_ARG_INT, .integer = size[1], .number = (double)size[1]}};
    struct hr_arg resize[2] = {{.name = "size", .kind = HR_ARG_LIST, .items = sides, .item_count = 2},
                               {.name = "filter", .kind = HR_ARG_STR, .text = "lanczos3"}};
    struct hr_arg options[2] = {{.name = "exif", .kind = HR_ARG_STR, .text = "ignore"},
                                {.name = "channels", .kind = HR_ARG_STR, .text = gray ? "gray" : "rgb"}};
    struct hr_arg ragged = {.name = "ragged", .kind = HR_ARG_BOOL, .boolean = true};
    struct hr_call op = {.name = "resize", .args = resize, .arg_count = 2};
    struct hr_call option = {.name = "options", .args = options, .arg_count = 2};
    struct hr_call output = {.name = "output", .args = &ragged, .arg_count = 1};
    struct hr_chain_spec spec = {.type = HR_FIELD_IMAGE, .field = "image", .ops = &op, .op_count = same ? 0 : 1,
                                 .options = &option, .output = &output};

    return hr_chain_create(&spec, chain, err);
}

/* Room for a header, the pixels at it, and what a resampler may read past them. */
static int decode(const struct hr_chain *chain, const struct hr_facts *facts, const uint8_t *bytes, size_t count,
                  uint8_t **room, struct hr_sample_plan *plan, struct hr_error *err)
{
    struct hr_context *context = NULL;
    int ret = hr_chain_plan(chain, facts, count, 0, 0, 0, 0, plan, err);

    if (ret < 0)
        return ret;
    *room = hr_alloc(plan->bytes[0] + HR_RAW_HEADER_BYTES);
    if (!*room)
        return hr_fail(err, HR_E_LIMIT, "no memory for the pixels of a picture");
    ret = hr_context_create(chain, &context, err);
    if (ret == 0) {
        void *dst[HR_CHAIN_MAX_OUTPUTS] = {*room + HR_RAW_HEADER_BYTES};
        ret = hr_chain_decode(chain, context, plan, HR_ENCODING_AS_IS, bytes, count, dst, err);
    }
    hr_context_destroy(context);
    return ret;
}

/* ---- files ---- */

static int write_raw(struct hr_raw_pixels *raw, uint8_t *room, const struct hr_sample_plan *plan, struct hr_buf *out,
                     struct hr_error *err)
{
    hr_raw_pixels_header(raw, room);
    hr_buf_add(out, room, HR_RAW_HEADER_BYTES + plan->bytes[0]);
    if (raw->icc)
        hr_buf_add(out, raw->icc, raw->icc_bytes);
    return hr_buf_failed(out) ? hr_fail(err, HR_E_NOMEM, "no memory for the pixels of a picture") : 0;
}

static int write_value(const struct hr_reduction *how, uint8_t *room, const struct hr_sample_plan *plan,
                       const struct hr_profile *profile, struct hr_facts *facts, struct hr_buf *out,
                       struct hr_error *err)
{
    struct hr_raw_pixels raw = {.width = (uint32_t)plan->shape[0][1], .height = (uint32_t)plan->shape[0][0],
                                .channels = (uint32_t)plan->shape[0][2], .pixels = room + HR_RAW_HEADER_BYTES};

    if (profile->bytes && !is_cmyk(facts)) {
        raw.icc = profile->bytes;
        raw.icc_bytes = (uint32_t)profile->count;
    }
    if (how->raw) {
        facts->width = raw.width;
        facts->height = raw.height;
        facts->channels = raw.channels;
        facts->bit_depth = 8;
        return write_raw(&raw, room, plan, out, err);
    }
    struct hr_jpeg_picture jpeg = {.pixels = raw.pixels, .width = raw.width, .height = raw.height,
                                   .channels = raw.channels, .orientation = facts->orientation,
                                   .icc = raw.icc, .icc_bytes = raw.icc_bytes};
    int ret = hr_jpeg_write(&jpeg, (int)how->quality, out, err);
    return ret < 0 ? ret
                   : hr_media_measure((const uint8_t *)hr_buf_str(out), out->used, HR_FIELD_IMAGE, false, NULL,
                                      facts, err);
}

/* A profile that makes no sense, or is larger than any that is read, is left behind: nobody asked for it. */
static void find_profile(const uint8_t *bytes, size_t count, struct hr_profile *profile)
{
    const struct hr_decoder *decoder = hr_decoder_find(bytes, count, NULL);

    if (!decoder->image->profile || decoder->image->profile(bytes, count, profile, NULL) < 0 ||
        profile->count > HR_ICC_MAX_BYTES)
        profile->bytes = NULL;
}

int hr_media_reduce(const struct hr_reduction *how, const uint8_t *bytes, size_t count, struct hr_facts *facts,
                    struct hr_buf *out, struct hr_error *err)
{
    struct hr_profile profile = {0};
    struct hr_sample_plan plan;
    struct hr_chain *chain = NULL;
    uint8_t *room = NULL;
    int64_t size[2];

    hr_buf_reset(out);
    choose_size(how, bytes, count, facts, size);
    int ret = make_chain(facts, size, &chain, err);
    if (ret == 0)
        ret = decode(chain, facts, bytes, count, &room, &plan, err);
    if (ret == 0) {
        find_profile(bytes, count, &profile);
        ret = write_value(how, room, &plan, &profile, facts, out, err);
    }
    hr_free(room);
    hr_free(profile.room);
    hr_free(profile.around);
    hr_chain_destroy(chain);
    return ret;
}
