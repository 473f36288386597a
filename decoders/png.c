/* PNG through libspng, row by row (interlaced ones as a whole). Rules: 16-bit samples keep their high
 * byte, palettes and gray are expanded, alpha and tRNS are dropped, gAMA, cHRM, sRGB and iCCP change
 * nothing, of an APNG the default image is taken. A bad CRC in a critical chunk is an error (seen when
 * decoding reaches it), a bad ancillary chunk is ignored, a file cut off behind the pixels is taken. */
#include <string.h>

#include <spng.h>

#include "base/mem.h"
#include "decoders/decoder.h"
#include "decoders/exif.h"
#include "decoders/pixels.h"
#include "decoders/scratch.h"

enum {
    ROW_PAD = 64,
    MAX_CHUNK_BYTES = 8 << 20,  /* of one ancillary chunk, also decompressed */
    MAX_CACHE_BYTES = 32 << 20, /* of all of them */
};

struct png_state {
    uint8_t *pixels; /* a row, or an interlaced picture */
    size_t bytes;
    uint8_t *ids; /* a row of them */
    size_t ids_bytes;
};

/* How rows come out of libspng. */
struct rows {
    enum spng_format format;
    size_t stride;
    unsigned id_bits, pixel_bits; /* of a pixel that is an id; 0: RGB8 */
};

static int fail(int code, struct hr_error *err)
{
    if (code == SPNG_IO_EOF)
        return hr_fail(err, HR_E_TRUNCATED, "the PNG is cut off");
    if (code == SPNG_EMEM)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode a PNG");
    if (code == SPNG_ECHUNK_LIMITS)
        return hr_fail(err, HR_E_LIMIT, "the PNG has a chunk beyond all reason");
    return hr_fail(err, HR_E_DECODE, "PNG cannot be decoded: %s", spng_strerror(code));
}

/* *ctx is set in any case and goes to spng_ctx_free (NULL is fine). */
static int open_png(const uint8_t *bytes, size_t count, spng_ctx **ctx, struct spng_ihdr *ihdr,
                    struct hr_error *err)
{
    *ctx = spng_ctx_new(0);
    if (!*ctx)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode a PNG");
    spng_set_crc_action(*ctx, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
    spng_set_chunk_limits(*ctx, MAX_CHUNK_BYTES, MAX_CACHE_BYTES);
    int ret = spng_set_png_buffer(*ctx, bytes, count);
    if (ret == 0)
        ret = spng_get_ihdr(*ctx, ihdr);
    return ret ? fail(ret, err) : hr_image_check_size(ihdr->width, ihdr->height, err);
}

static int create(uint32_t max_width, void **state)
{
    *state = hr_alloc_zero(1, sizeof(struct png_state));
    return *state ? 0 : HR_E_NOMEM;
}

static void destroy(void *state)
{
    struct png_state *s = state;

    if (!s)
        return;
    hr_free(s->pixels);
    hr_free(s->ids);
    hr_free(s);
}

static int reserve(struct png_state *s, size_t bytes, const struct hr_image_request *r, struct hr_error *err)
{
    int ret = hr_scratch_grow_bytes(&s->pixels, &s->bytes, bytes);

    if (ret == 0 && r->ids)
        ret = hr_scratch_grow_bytes(&s->ids, &s->ids_bytes, (size_t)r->w + ROW_PAD);
    return ret < 0 ? hr_fail(err, ret, "no memory to decode a PNG") : 0;
}

/* A palette's indices, or gray samples, as they are: 1, 2, 4 bits from the high ones on, or 8 (and alpha). */
static void copy_ids(uint8_t *ids, const uint8_t *row, const struct rows *rows, size_t x, size_t n)
{
    unsigned mask = (1u << rows->id_bits) - 1;

    if (rows->pixel_bits == 8) {
        memcpy(ids, row + x, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        size_t bit = (x + i) * rows->pixel_bits;
        ids[i] = (uint8_t)(row[bit / 8] >> (8 - rows->id_bits - bit % 8) & mask);
    }
}

static bool push_row(struct png_state *s, const struct hr_image_request *r, const struct rows *rows, uint8_t *row)
{
    uint8_t *pixels = row + (size_t)r->x * 3;

    if (r->ids) {
        copy_ids(s->ids, row, rows, r->x, r->w);
        return r->push(r->user, s->ids);
    }
    if (r->channels == 1)
        hr_pixels_rgb_to_gray(pixels, pixels, r->w);
    return r->push(r->user, pixels);
}

/* The checksum of the last piece of image data comes after it. A file cut off behind the pixels is
 * taken. */
static int check_rest(spng_ctx *ctx, struct hr_error *err)
{
    int ret = spng_decode_chunks(ctx);

    return ret == 0 || ret == SPNG_IO_EOF ? 0 : fail(ret, err);
}

static int decode_rows(spng_ctx *ctx, struct png_state *s, const struct hr_image_request *r,
                       const struct rows *rows, struct hr_error *err)
{
    int ret = reserve(s, rows->stride + ROW_PAD, r, err);
    bool more = true;

    if (ret < 0)
        return ret;
    for (uint32_t y = 0; y < r->y + r->h && more; y++) {
        ret = spng_decode_row(ctx, s->pixels, rows->stride);
        if (ret && ret != SPNG_EOI)
            return fail(ret, err);
        if (y >= r->y)
            more = push_row(s, r, rows, s->pixels);
        if (y + 1 == r->picture_h)
            return check_rest(ctx, err);
    }
    return 0;
}

static int decode_interlaced(spng_ctx *ctx, struct png_state *s, const struct hr_image_request *r,
                             const struct rows *rows, struct hr_error *err)
{
    size_t stride = rows->stride;
    int ret = reserve(s, stride * r->picture_h + ROW_PAD, r, err);

    if (ret < 0)
        return ret;
    if (rows->id_bits && rows->id_bits < 8) /* libspng adds bits to what is there */
        memset(s->pixels, 0, stride * r->picture_h);
    do {
        struct spng_row_info info;
        ret = spng_get_row_info(ctx, &info);
        if (ret == 0)
            ret = spng_decode_row(ctx, s->pixels + info.row_num * stride, stride);
    } while (ret == 0);
    ret = ret == SPNG_EOI ? check_rest(ctx, err) : fail(ret, err);
    if (ret < 0)
        return ret;
    for (uint32_t y = r->y; y < r->y + r->h; y++)
        if (!push_row(s, r, rows, s->pixels + y * stride))
            break;
    return 0;
}

static int choose_rows(const struct spng_ihdr *ihdr, const struct hr_image_request *r, struct rows *rows,
                       struct hr_error *err)
{
    unsigned samples = ihdr->color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ? 2 : 1;

    *rows = (struct rows){.format = SPNG_FMT_RGB8, .stride = (size_t)r->picture_w * 3};
    if (!r->ids)
        return 0;
    if (ihdr->color_type == SPNG_COLOR_TYPE_TRUECOLOR || ihdr->color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA)
        return hr_image_no_ids("RGB", err);
    if (ihdr->bit_depth > 8)
        return hr_image_no_ids("of 16 bits", err);
    rows->format = SPNG_FMT_RAW;
    rows->id_bits = ihdr->bit_depth;
    rows->pixel_bits = ihdr->bit_depth * samples;
    rows->stride = ((size_t)r->picture_w * rows->pixel_bits + 7) / 8;
    return 0;
}

static int decode_open(spng_ctx *ctx, const struct spng_ihdr *ihdr, struct png_state *s,
                       const struct hr_image_request *r, struct hr_error *err)
{
    if (ihdr->width != r->picture_w || ihdr->height != r->picture_h)
        return hr_fail(err, HR_E_DECODE, "the PNG is %u x %u pixels, its record says %u x %u",
                       ihdr->width, ihdr->height, r->picture_w, r->picture_h);
    struct rows rows;
    int ret = choose_rows(ihdr, r, &rows, err);
    if (ret < 0)
        return ret;
    ret = spng_decode_image(ctx, NULL, 0, rows.format, SPNG_DECODE_PROGRESSIVE);
    if (ret)
        return fail(ret, err);
    return ihdr->interlace_method ? decode_interlaced(ctx, s, r, &rows, err) : decode_rows(ctx, s, r, &rows, err);
}

static int decode(void *state, const struct hr_image_request *r, struct hr_error *err)
{
    struct spng_ihdr ihdr;
    spng_ctx *ctx;
    int ret = open_png(r->bytes, r->count, &ctx, &ihdr, err);

    if (ret == 0)
        ret = decode_open(ctx, &ihdr, state, r, err);
    spng_ctx_free(ctx);
    return ret;
}

static uint32_t channels_of(const struct spng_ihdr *ihdr)
{
    switch (ihdr->color_type) {
    case SPNG_COLOR_TYPE_GRAYSCALE:
        return 1;
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
        return 2;
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
        return 4;
    default:
        return 3;
    }
}

static int measure(const uint8_t *bytes, size_t count, bool verify, struct hr_facts *facts,
                   struct hr_error *err)
{
    struct spng_ihdr ihdr;
    struct spng_exif exif;
    spng_ctx *ctx;
    int ret = open_png(bytes, count, &ctx, &ihdr, err);

    if (ret == 0) {
        facts->width = ihdr.width;
        facts->height = ihdr.height;
        facts->channels = channels_of(&ihdr);
        facts->bit_depth = ihdr.color_type == SPNG_COLOR_TYPE_INDEXED ? 8 : ihdr.bit_depth;
        if (spng_get_exif(ctx, &exif) == 0)
            facts->orientation = hr_exif_orientation((const uint8_t *)exif.data, exif.length);
    }
    spng_ctx_free(ctx);
    return ret == 0 && verify ? hr_image_verify(hr_decoder_png.image, bytes, count, facts, err) : ret;
}

static enum hr_media_format sniff(const uint8_t *b, size_t n)
{
    return n >= 8 && memcmp(b, "\x89PNG\r\n\x1a\n", 8) == 0 ? HR_MEDIA_PNG : HR_MEDIA_UNKNOWN;
}

static int copy_profile(spng_ctx *ctx, struct hr_profile *profile, struct hr_error *err)
{
    struct spng_iccp iccp;
    uint8_t intent;

    if (spng_get_srgb(ctx, &intent) == 0 || spng_get_iccp(ctx, &iccp) != 0 || !iccp.profile_len)
        return 0;
    if (hr_scratch_grow_bytes(&profile->room, &profile->room_bytes, iccp.profile_len) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for a colour profile");
    memcpy(profile->room, iccp.profile, iccp.profile_len);
    profile->bytes = profile->room;
    profile->count = iccp.profile_len;
    return 0;
}

static int find_profile(const uint8_t *bytes, size_t count, struct hr_profile *profile, struct hr_error *err)
{
    struct spng_ihdr ihdr;
    spng_ctx *ctx;
    int ret = open_png(bytes, count, &ctx, &ihdr, err);

    profile->bytes = NULL;
    profile->count = 0;
    if (ret == 0)
        ret = copy_profile(ctx, profile, err);
    spng_ctx_free(ctx);
    return ret;
}

static const struct hr_image_decoder image = {
    .create = create, .destroy = destroy, .decode = decode, .profile = find_profile};

const struct hr_decoder hr_decoder_png = {
    .name = "png",
    .type = HR_FIELD_IMAGE,
    .format = HR_MEDIA_PNG,
    .abilities = HR_DECODER_REGION | HR_DECODER_IDS,
    .sniff = sniff,
    .measure = measure,
    .image = &image,
};
