/* Repacked pictures in the image chain: the decoder over decoders/rjpeg, and the way there and back for
 * pack and inspect. A value is repacked because the index says so, never because its bytes look
 * like it, so this decoder is not in the registry. */
#include "base/mem.h"
#include "decoders/chain.h"
#include "decoders/decoder.h"
#include "decoders/jpeg_segments.h"
#include "decoders/pixels.h"
#include "decoders/png_write.h"
#include "decoders/repacked.h"
#include "decoders/rjpeg/rjpeg.h"
#include "decoders/rpng.h"
#include "decoders/scratch.h"

enum { ROW_PAD = 64, MAX_MARKER_BYTES = 64 << 20 };

struct repacked {
    struct hr_rjpeg *codec;
    uint8_t *converted; /* one row, for pictures that are stored otherwise than wanted: CMYK, RGB as gray */
    size_t converted_room;
};

struct rows {
    const struct hr_image_request *request;
    struct repacked *repacked;
    bool more;
};

static void destroy(void *state)
{
    struct repacked *r = state;

    if (!r)
        return;
    hr_rjpeg_destroy(r->codec);
    hr_free(r->converted);
    hr_free(r);
}

static int create(uint32_t max_width, void **state)
{
    struct repacked *r = hr_alloc_zero(1, sizeof(*r));
    int ret = r ? hr_rjpeg_create(&r->codec) : HR_E_NOMEM;

    if (ret == 0 && max_width)
        ret = hr_rjpeg_reserve(r->codec, max_width);
    if (ret < 0) {
        destroy(r);
        return ret;
    }
    *state = r;
    return 0;
}

static void push_row(void *user, const uint8_t *row)
{
    struct rows *rows = user;

    if (rows->more)
        rows->more = rows->request->push(rows->request->user, row);
}

static void push_planes(void *user, const uint8_t *const planes[3])
{
    struct rows *rows = user;

    if (rows->more)
        rows->more = rows->request->push_planes(rows->request->user, planes);
}

static void push_row_as_gray(void *user, const uint8_t *row)
{
    struct rows *rows = user;
    uint8_t *gray = rows->repacked->converted;

    hr_pixels_rgb_to_gray(gray, row, rows->request->w);
    push_row(user, gray);
}

/* A row that lies before the room for its planes. */
static void push_split(struct rows *rows, uint8_t *rgb, size_t width)
{
    size_t step = width + ROW_PAD;
    uint8_t *first = rgb + 3 * width + ROW_PAD;

    for (size_t x = 0; x < width; x++)
        for (size_t c = 0; c < 3; c++)
            first[c * step + x] = rgb[3 * x + c];
    push_planes(rows, (const uint8_t *const[3]){first, first + step, first + 2 * step});
}

static void push_row_of_cmyk(void *user, const uint8_t *row)
{
    struct rows *rows = user;
    uint8_t *rgb = rows->repacked->converted;

    hr_pixels_cmyk_to_rgb(rgb, row, rows->request->w);
    if (rows->request->channels == 1)
        hr_pixels_rgb_to_gray(rgb, rgb, rows->request->w);
    if (rows->request->push_planes)
        push_split(user, rgb, rows->request->w);
    else
        push_row(user, rgb);
}

/* Takes the channels that the picture has, and makes of them what is wanted. */
static int choose_sink(struct repacked *r, const struct hr_rjpeg_info *info, const struct hr_image_request *q,
                       struct hr_rjpeg_sink *sink, struct hr_error *err)
{
    bool cmyk = info->components == 4 && q->channels != 4, as_gray = info->colour == HR_RJPEG_RGB && q->channels == 1;

    if (!cmyk && !as_gray)
        return 0;
    if (hr_scratch_grow_bytes(&r->converted, &r->converted_room, 6 * (size_t)q->w + 4 * ROW_PAD) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for a row of %u pixels", q->w);
    sink->row = cmyk ? push_row_of_cmyk : push_row_as_gray;
    sink->channels = cmyk ? 4 : 3;
    return 0;
}

static int decode(void *state, const struct hr_image_request *q, struct hr_error *err)
{
    struct repacked *r = state;
    struct rows rows = {.request = q, .repacked = r, .more = true};
    struct hr_rjpeg_view view = q->view ? *q->view : hr_rjpeg_view_whole(q->bytes, q->count);
    struct hr_rjpeg_box box = {q->x, q->y, q->w, q->h, q->shrink};
    struct hr_rjpeg_sink sink = {.row = push_row, .user = &rows, .channels = q->channels};
    struct hr_rjpeg_info info;

    if (q->push_planes)
        sink.planes = push_planes;
    int ret = hr_rjpeg_info(view.head, view.head_bytes, &info, err);
    if (ret < 0)
        return ret;
    if (info.width != q->picture_w || info.height != q->picture_h)
        return hr_fail(err, HR_E_DECODE, "the picture is %u x %u, the index says %u x %u",
                       info.width, info.height, q->picture_w, q->picture_h);
    ret = choose_sink(r, &info, q, &sink, err);
    return ret < 0 ? ret : hr_rjpeg_decode(r->codec, &view, &box, &sink, err);
}

/* The profile is in the original's markers, which are kept. */
static int find_profile(const uint8_t *bytes, size_t count, struct hr_profile *profile, struct hr_error *err)
{
    uint32_t head;
    int ret = hr_rjpeg_before(bytes, count, NULL, &head, err);

    if (ret == 0 && head > MAX_MARKER_BYTES)
        ret = hr_fail(err, HR_E_LIMIT, "the JPEG has %u MB of markers; a profile is looked for in %d", head >> 20,
                      MAX_MARKER_BYTES >> 20);
    if (ret == 0 && hr_scratch_grow_bytes(&profile->around, &profile->around_bytes, (size_t)head + 1) < 0)
        ret = hr_fail(err, HR_E_NOMEM, "no memory for a JPEG's markers");
    if (ret == 0)
        ret = hr_rjpeg_before(bytes, count, profile->around, &head, err);
    return ret < 0 ? ret : hr_jpeg_profile(profile->around, head, profile, err);
}

const struct hr_image_decoder hr_repacked_jpeg_decoder = {
    .create = create,
    .destroy = destroy,
    .decode = decode,
    .profile = find_profile,
};

int hr_media_repack(const uint8_t *bytes, size_t count, struct hr_buf *out, struct hr_buf *seek,
                    struct hr_error *err)
{
    if (hr_media_sniff(bytes, count) != HR_MEDIA_JPEG)
        return hr_fail(err, HR_E_FORMAT, "only JPEG pictures are repacked");
    return hr_rjpeg_encode(bytes, count, out, seek, err);
}

int hr_media_restore(unsigned encoding, const uint8_t *bytes, size_t count, struct hr_buf *out,
                     struct hr_error *err)
{
    if (encoding == HR_ENCODING_REPACKED_JPEG)
        return hr_rjpeg_restore(bytes, count, out, err);
    if (encoding == HR_ENCODING_REPACKED_PNG)
        return hr_rpng_restore(bytes, count, out, err);
    if (encoding == HR_ENCODING_RAW_PIXELS) {
        struct hr_raw_pixels raw;
        int ret = hr_raw_pixels_open(bytes, count, &raw, err);
        return ret < 0 ? ret : hr_png_write(&raw, out, err);
    }
    if (encoding != HR_ENCODING_AS_IS)
        return hr_fail(err, HR_E_FORMAT, "values of encoding %u are not known here", encoding);
    hr_buf_add(out, bytes, count);
    return hr_buf_failed(out) ? hr_fail(err, HR_E_NOMEM, "no memory for %zu bytes", count) : 0;
}
