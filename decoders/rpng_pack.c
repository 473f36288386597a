/* PNG to its repacked form, proven before it is said to be done, and back. Chunks other than the header, the
 * pixels and the end are kept as they are; libspng inflates, and deflates on the way back. */
#include "decoders/rpng.h"

#include <spng.h>
#include <string.h>

#include "base/mem.h"
#include "decoders/png_write.h"

enum { SIGNATURE = 8, CHUNK = 12, IHDR_BYTES = 13, MAX_KEPT = 64 << 20 };

static uint32_t load_be32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void store_be32(uint8_t *b, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        b[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* ---- chunks ---- */

struct chunk {
    const uint8_t *bytes; /* length, type, body, CRC */
    size_t count;
};

static bool next_chunk(const uint8_t *png, size_t n, size_t *at, struct chunk *c)
{
    if (*at + CHUNK > n)
        return false;
    uint32_t body = load_be32(png + *at);
    if (body > n - *at - CHUNK)
        return false;
    *c = (struct chunk){png + *at, (size_t)body + CHUNK};
    *at += c->count;
    return true;
}

static bool is(const struct chunk *c, const char *type)
{
    return memcmp(c->bytes + 4, type, 4) == 0;
}

/* What is kept; *before: how much of it comes ahead of the pixels. */
static void keep_chunks(const uint8_t *png, size_t n, struct hr_buf *kept, uint32_t *before)
{
    struct chunk c;
    bool data = false;

    *before = 0;
    for (size_t at = SIGNATURE; next_chunk(png, n, &at, &c) && !is(&c, "IEND");) {
        data |= is(&c, "IDAT");
        if (is(&c, "IHDR") || is(&c, "IDAT"))
            continue;
        hr_buf_add(kept, c.bytes, c.count);
        if (!data)
            *before = (uint32_t)kept->used;
    }
}

/* ---- samples ---- */

struct samples {
    uint8_t *bytes; /* as PNG has them; hr_free */
    uint32_t width, height, channels, colour;
};

static int spng_failed(int code, struct hr_error *err)
{
    return hr_fail(err, code == SPNG_EMEM ? HR_E_NOMEM : HR_E_DECODE, "PNG cannot be decoded: %s", spng_strerror(code));
}

static int read_open(spng_ctx *ctx, const uint8_t *png, size_t count, struct samples *s, struct hr_error *err)
{
    struct spng_ihdr ihdr;
    size_t bytes;

    spng_set_crc_action(ctx, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
    int ret = spng_set_png_buffer(ctx, png, count);
    if (ret == 0)
        ret = spng_get_ihdr(ctx, &ihdr);
    if (ret)
        return spng_failed(ret, err);
    if (ihdr.bit_depth != 8)
        return hr_fail(err, HR_E_FORMAT, "only PNGs of 8 bits a sample are repacked");
    ret = hr_image_check_size(ihdr.width, ihdr.height, err);
    if (ret < 0)
        return ret;
    ret = spng_decoded_image_size(ctx, SPNG_FMT_PNG, &bytes);
    if (ret)
        return spng_failed(ret, err);
    *s = (struct samples){hr_alloc(bytes), ihdr.width, ihdr.height,
                          (uint32_t)(bytes / ((uint64_t)ihdr.width * ihdr.height)), ihdr.color_type};
    if (!s->bytes)
        return hr_fail(err, HR_E_NOMEM, "no memory for the pixels of a PNG");
    ret = spng_decode_image(ctx, s->bytes, bytes, SPNG_FMT_PNG, 0);
    if (ret == 0)
        ret = spng_decode_chunks(ctx);
    return ret ? spng_failed(ret, err) : 0;
}

static int read_samples(const uint8_t *png, size_t count, struct samples *s, struct hr_error *err)
{
    spng_ctx *ctx = spng_ctx_new(0);
    int ret = ctx ? read_open(ctx, png, count, s, err) : hr_fail(err, HR_E_NOMEM, "no memory to decode a PNG");

    spng_ctx_free(ctx);
    return ret;
}

/* ---- packing ---- */

struct packer {
    const struct samples *s;
    uint8_t *planes[2][4]; /* the row at hand and the one above, by turns */
    uint8_t *room, *row;
    size_t stride;
};

static void split_row(const struct packer *p, uint32_t y, uint8_t *const planes[4])
{
    const struct samples *s = p->s;
    const uint8_t *src = s->bytes + (size_t)y * s->width * s->channels;

    for (uint32_t x = 0; x < s->width; x++, src += s->channels) {
        uint8_t green = s->channels >= 3 ? src[1] : 0;
        for (uint32_t c = 0; c < s->channels; c++)
            planes[c][x] = (uint8_t)(src[c] - (c == 0 || c == 2 ? green : 0));
    }
}

static void pack_group(struct packer *p, uint32_t first, uint32_t end, struct hr_buf *groups)
{
    const struct samples *s = p->s;

    for (uint32_t c = 0; c < s->channels; c++)
        memset(p->planes[!(first & 1)][c], 0, p->stride);
    for (uint32_t y = first; y < end; y++) {
        uint8_t *const *now = p->planes[y & 1], *const *above = p->planes[!(y & 1)];
        split_row(p, y, now);
        for (uint32_t c = 0; c < s->channels; c++)
            hr_buf_add(groups, p->row, hr_rpng_row_encode(p->row, now[c], above[c], s->width));
    }
}

static void pack_groups(struct packer *p, struct hr_buf *groups, struct hr_buf *sizes)
{
    uint32_t height = p->s->height;
    uint8_t size[4];

    for (uint32_t y = 0; y < height && !hr_buf_failed(groups); y += HR_RPNG_GROUP_ROWS) {
        size_t before = groups->used;
        pack_group(p, y, (uint32_t)hr_min_u64((uint64_t)y + HR_RPNG_GROUP_ROWS, height), groups);
        hr_store_le32(size, (uint32_t)(groups->used - before));
        hr_buf_add(sizes, size, sizeof(size));
    }
}

static bool make_packer(const struct samples *s, struct packer *p)
{
    *p = (struct packer){.s = s, .stride = hr_align_up((uint64_t)s->width, HR_RPNG_BLOCK)};
    p->room = hr_alloc_zero(1, p->stride * 8 + hr_rpng_row_bound(s->width));
    for (uint32_t i = 0; p->room && i < 8; i++)
        p->planes[i / 4][i % 4] = p->room + p->stride * i;
    p->row = p->room ? p->room + p->stride * 8 : NULL;
    return p->room != NULL;
}

/* header, sizes, groups, kept. */
static void join(const struct samples *s, const struct hr_buf *sizes, const struct hr_buf *groups,
                 const struct hr_buf *kept, uint32_t before, struct hr_buf *out)
{
    uint8_t header[HR_RPNG_HEADER_BYTES] = {'H', 'R', 'G', '1'};

    hr_store_le32(header + 4, s->width);
    hr_store_le32(header + 8, s->height);
    header[12] = (uint8_t)s->colour;
    hr_store_le32(header + 16, (uint32_t)groups->used);
    hr_store_le32(header + 20, (uint32_t)kept->used);
    hr_store_le32(header + 24, before);
    hr_buf_add(out, header, sizeof(header));
    hr_buf_add(out, sizes->data, sizes->used);
    hr_buf_add(out, groups->data, groups->used);
    if (kept->used)
        hr_buf_add(out, kept->data, kept->used);
}

static int pack(const uint8_t *png, size_t count, const struct samples *s, struct hr_buf *out, struct hr_error *err)
{
    struct hr_buf groups = {0}, sizes = {0}, kept = {0};
    struct packer p;
    uint32_t before;
    bool good = make_packer(s, &p);

    if (good) {
        pack_groups(&p, &groups, &sizes);
        keep_chunks(png, count, &kept, &before);
        join(s, &sizes, &groups, &kept, before, out);
        good = !hr_buf_failed(&groups) && !hr_buf_failed(&sizes) && !hr_buf_failed(&kept) && !hr_buf_failed(out);
    }
    size_t kept_bytes = kept.used;
    hr_free(p.room);
    hr_buf_finish(&groups);
    hr_buf_finish(&sizes);
    hr_buf_finish(&kept);
    if (!good)
        return hr_fail(err, HR_E_NOMEM, "no memory to repack a PNG");
    if (kept_bytes > MAX_KEPT || out->used - out->used / 3 > count)
        return hr_fail(err, HR_E_FORMAT, "the PNG would become more than half as large again");
    return 0;
}

/* ---- proof, and the way back ---- */

struct gather {
    uint8_t *bytes; /* samples as PNG has them */
    const struct hr_rpng *png;
};

static bool gather_row(void *user, uint32_t y, uint8_t *const planes[4])
{
    const struct gather *g = user;
    uint32_t channels = g->png->channels;
    uint8_t *dst = g->bytes + (size_t)y * g->png->width * channels;

    for (uint32_t x = 0; x < g->png->width; x++)
        for (uint32_t c = 0; c < channels; c++)
            *dst++ = planes[c][x];
    return true;
}

/* All samples of a stored value; the caller frees *samples. */
static int unpack(const uint8_t *packed, size_t count, struct hr_rpng *png, uint8_t **samples, struct hr_error *err)
{
    struct hr_rpng_scratch scratch = {NULL, 0};
    int ret = hr_rpng_open(packed, count, png, err);

    if (ret < 0)
        return ret;
    struct gather g = {hr_alloc((uint64_t)png->width * png->height * png->channels), png};
    if (!g.bytes)
        return hr_fail(err, HR_E_NOMEM, "no memory for the pixels of a PNG");
    ret = hr_rpng_rows(png, &scratch, 0, png->height, png->width, gather_row, &g, err);
    hr_free(scratch.room);
    if (ret < 0)
        hr_free(g.bytes);
    else
        *samples = g.bytes;
    return ret;
}

static int prove(const struct samples *s, const struct hr_buf *packed, struct hr_error *err)
{
    struct hr_rpng png;
    uint8_t *again = NULL;
    int ret = unpack(packed->data, packed->used, &png, &again, err);

    if (ret == 0 && memcmp(again, s->bytes, (size_t)s->width * s->height * s->channels) != 0)
        ret = hr_fail(err, HR_E_INTERNAL, "the repacked PNG does not give its pixels back");
    hr_free(again);
    return ret;
}

int hr_rpng_encode(const uint8_t *png, size_t count, struct hr_buf *out, struct hr_error *err)
{
    struct samples s = {0};
    int ret = read_samples(png, count, &s, err);

    hr_buf_reset(out);
    if (ret == 0)
        ret = pack(png, count, &s, out, err);
    if (ret == 0)
        ret = prove(&s, out, err);
    hr_free(s.bytes);
    return ret;
}

static uint32_t crc_of(const uint8_t *bytes, size_t count)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static void add_header(const struct hr_rpng *png, struct hr_buf *out)
{
    uint8_t b[SIGNATURE + CHUNK + IHDR_BYTES] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, IHDR_BYTES,
                                                 'I', 'H', 'D', 'R'};

    store_be32(b + 16, png->width);
    store_be32(b + 20, png->height);
    b[24] = 8;
    b[25] = (uint8_t)png->colour;
    store_be32(b + 29, crc_of(b + 12, 4 + IHDR_BYTES));
    hr_buf_add(out, b, sizeof(b));
}

/* The IDAT chunks of a PNG that libspng made. */
static void add_data(const struct hr_buf *png, struct hr_buf *out)
{
    struct chunk c;

    for (size_t at = SIGNATURE; next_chunk(png->data, png->used, &at, &c);)
        if (is(&c, "IDAT"))
            hr_buf_add(out, c.bytes, c.count);
}

int hr_rpng_restore(const uint8_t *packed, size_t count, struct hr_buf *out, struct hr_error *err)
{
    static const uint8_t end[CHUNK] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
    struct hr_buf plain = {0};
    struct hr_rpng png;
    uint8_t *samples = NULL;
    int ret = unpack(packed, count, &png, &samples, err);

    if (ret == 0) {
        struct hr_raw_pixels raw = {.width = png.width, .height = png.height, .channels = png.channels,
                                    .pixels = samples};
        ret = hr_png_write(&raw, &plain, err);
    }
    hr_free(samples);
    if (ret == 0) {
        add_header(&png, out);
        hr_buf_add(out, png.kept, png.kept_before);
        add_data(&plain, out);
        hr_buf_add(out, png.kept + png.kept_before, png.kept_bytes - png.kept_before);
        hr_buf_add(out, end, sizeof(end));
        ret = hr_buf_failed(out) ? hr_fail(err, HR_E_NOMEM, "no memory for a PNG") : 0;
    }
    hr_buf_finish(&plain);
    return ret;
}
