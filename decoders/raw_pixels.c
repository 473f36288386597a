/* Raw pixels in the image chain: rows of the box are handed on where they lie; only a change between
 * gray and RGB costs a copy. */
#include "decoders/raw_pixels.h"

#include <string.h>

#include "base/mem.h"
#include "decoders/icc.h"
#include "decoders/pixels.h"
#include "decoders/scratch.h"

enum { ROW_PAD = 64 };

static const uint8_t magic[4] = {'H', 'R', 'P', '1'};

struct raw_state {
    uint8_t *row;
    size_t row_room;
};

static int create(uint32_t max_width, void **state)
{
    *state = hr_alloc_zero(1, sizeof(struct raw_state));
    return *state ? 0 : HR_E_NOMEM;
}

static void destroy(void *state)
{
    struct raw_state *s = state;

    if (!s)
        return;
    hr_free(s->row);
    hr_free(s);
}

void hr_raw_pixels_header(const struct hr_raw_pixels *raw, uint8_t header[HR_RAW_HEADER_BYTES])
{
    memset(header, 0, HR_RAW_HEADER_BYTES);
    memcpy(header, magic, sizeof(magic));
    hr_store_le32(header + 4, raw->width);
    hr_store_le32(header + 8, raw->height);
    hr_store_le32(header + 12, raw->channels);
    hr_store_le32(header + 16, raw->icc_bytes);
}

int hr_raw_pixels_open(const uint8_t *bytes, size_t count, struct hr_raw_pixels *raw, struct hr_error *err)
{
    struct hr_raw_pixels r = {0};

    if (count < HR_RAW_HEADER_BYTES)
        return hr_fail(err, HR_E_TRUNCATED, "the raw pixels are cut off");
    if (memcmp(bytes, magic, sizeof(magic)) != 0)
        return hr_fail(err, HR_E_DECODE, "the value is not raw pixels");
    r.width = hr_load_le32(bytes + 4);
    r.height = hr_load_le32(bytes + 8);
    r.channels = hr_load_le32(bytes + 12);
    r.icc_bytes = hr_load_le32(bytes + 16);
    if ((r.channels != 1 && r.channels != 3) || r.icc_bytes > HR_ICC_MAX_BYTES || hr_load_le32(bytes + 20) ||
        hr_load_le64(bytes + 24))
        return hr_fail(err, HR_E_DECODE, "the raw pixels' header makes no sense");
    int ret = hr_image_check_size(r.width, r.height, err);
    if (ret < 0)
        return ret;
    uint64_t pixels = (uint64_t)r.width * r.height * r.channels;
    if (count - HR_RAW_HEADER_BYTES != pixels + r.icc_bytes)
        return hr_fail(err, HR_E_TRUNCATED, "the raw pixels have %zu bytes, not as many as they say", count);
    r.pixels = bytes + HR_RAW_HEADER_BYTES;
    r.icc = r.icc_bytes ? r.pixels + pixels : NULL;
    *raw = r;
    return 0;
}

static int decode(void *state, const struct hr_image_request *r, struct hr_error *err)
{
    struct raw_state *s = state;
    struct hr_raw_pixels raw = {0};
    int ret = hr_raw_pixels_open(r->bytes, r->count, &raw, err);

    if (ret < 0)
        return ret;
    if (raw.width != r->picture_w || raw.height != r->picture_h)
        return hr_fail(err, HR_E_DECODE, "the picture is %u x %u pixels, its record says %u x %u", raw.width,
                       raw.height, r->picture_w, r->picture_h);
    if (r->ids && raw.channels != 1)
        return hr_image_no_ids("RGB (what --store raw makes of a palette)", err);
    bool convert = raw.channels != r->channels;
    if (convert && hr_scratch_grow_bytes(&s->row, &s->row_room, (size_t)r->w * 3 + ROW_PAD) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for a row of %u pixels", r->w);
    for (uint32_t y = r->y; y < r->y + r->h; y++) {
        const uint8_t *row = raw.pixels + ((size_t)y * raw.width + r->x) * raw.channels;
        if (convert && raw.channels == 1)
            hr_pixels_gray_to_rgb(s->row, row, r->w);
        else if (convert)
            hr_pixels_rgb_to_gray(s->row, row, r->w);
        if (!r->push(r->user, convert ? s->row : row))
            break;
    }
    return 0;
}

static int find_profile(const uint8_t *bytes, size_t count, struct hr_profile *profile, struct hr_error *err)
{
    struct hr_raw_pixels raw = {0};
    int ret = hr_raw_pixels_open(bytes, count, &raw, err);

    profile->bytes = ret < 0 ? NULL : raw.icc;
    profile->count = ret < 0 ? 0 : raw.icc_bytes;
    return ret;
}

const struct hr_image_decoder hr_raw_pixels_decoder = {
    .create = create, .destroy = destroy, .decode = decode, .profile = find_profile};
