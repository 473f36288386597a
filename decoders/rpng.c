/* Repacked PNG in the image chain: groups of 16 rows, each decodable alone; of a box the groups that it lies
 * in, and in them the columns from the left to its end. */
#include "decoders/rpng.h"

#include <string.h>

#include "base/mem.h"
#include "decoders/pixels.h"
#include "decoders/scratch.h"

enum { ROW_PAD = 64, MAX_KEPT_BYTES = 64 << 20, PALETTE = 3 };

int hr_rpng_open(const uint8_t *bytes, size_t count, struct hr_rpng *png, struct hr_error *err)
{
    static const uint8_t channels_of[7] = {1, 0, 3, 1, 2, 0, 4};
    struct hr_rpng p = {0};

    if (count < HR_RPNG_HEADER_BYTES)
        return hr_fail(err, HR_E_TRUNCATED, "the repacked PNG is cut off");
    p.width = hr_load_le32(bytes + 4);
    p.height = hr_load_le32(bytes + 8);
    p.colour = bytes[12];
    p.group_bytes = hr_load_le32(bytes + 16);
    p.kept_bytes = hr_load_le32(bytes + 20);
    p.kept_before = hr_load_le32(bytes + 24);
    p.channels = p.colour < sizeof(channels_of) ? channels_of[p.colour] : 0;
    if (memcmp(bytes, "HRG1", 4) != 0 || !p.channels || p.kept_before > p.kept_bytes ||
        p.kept_bytes > MAX_KEPT_BYTES || bytes[13] || hr_load_le16(bytes + 14) || hr_load_le32(bytes + 28))
        return hr_fail(err, HR_E_DECODE, "the repacked PNG's header makes no sense");
    int ret = hr_image_check_size(p.width, p.height, err);
    if (ret < 0)
        return ret;
    p.group_count = (uint32_t)(((uint64_t)p.height + HR_RPNG_GROUP_ROWS - 1) / HR_RPNG_GROUP_ROWS);
    uint64_t head = HR_RPNG_HEADER_BYTES + (uint64_t)p.group_count * 4;
    if (count != head + p.group_bytes + p.kept_bytes)
        return hr_fail(err, HR_E_TRUNCATED, "the repacked PNG has %zu bytes, not as many as it says", count);
    p.sizes = bytes + HR_RPNG_HEADER_BYTES;
    p.groups = bytes + head;
    p.kept = p.groups + p.group_bytes;
    *png = p;
    return 0;
}

/* ---- rows ---- */

static int fail_damaged(struct hr_error *err)
{
    return hr_fail(err, HR_E_DECODE, "the repacked PNG is damaged");
}

/* The bytes of the group at hand. */
struct group {
    const uint8_t *at, *end;
};

/* Goes on to that group from the one before it (at all zero: from the beginning). False: its size leads out. */
static bool next_group(const struct hr_rpng *png, uint32_t group, struct group *g)
{
    const uint8_t *all_end = png->groups + png->group_bytes;

    if (!g->end) {
        g->end = png->groups;
        for (uint32_t i = 0; i < group; i++) {
            uint32_t size = hr_load_le32(png->sizes + (size_t)i * 4);
            if (size > (size_t)(all_end - g->end))
                return false;
            g->end += size;
        }
    }
    uint32_t size = hr_load_le32(png->sizes + (size_t)group * 4);
    g->at = g->end;
    if (size > (size_t)(all_end - g->end))
        return false;
    g->end += size;
    return true;
}

/* Red and blue are stored less green. */
static void add_green(uint8_t *const planes[4], uint32_t columns)
{
    for (uint32_t x = 0; x < columns; x++) {
        planes[0][x] = (uint8_t)(planes[0][x] + planes[1][x]);
        planes[2][x] = (uint8_t)(planes[2][x] + planes[1][x]);
    }
}

/* Three rows a plane: the stored form of this one and of that above, and the samples. */
struct rows {
    uint8_t *at[2][4], *samples[4];
    uint32_t stride;
};

static int make_rows(const struct hr_rpng *png, struct hr_rpng_scratch *scratch, struct rows *rows,
                     struct hr_error *err)
{
    rows->stride = (uint32_t)hr_align_up((uint64_t)png->width + ROW_PAD, 64);
    if (hr_scratch_grow_bytes(&scratch->room, &scratch->room_bytes, (size_t)rows->stride * 3 * png->channels) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for rows of %u pixels", png->width);
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t plane = c < png->channels ? c : 0;
            uint8_t *row = scratch->room + (size_t)rows->stride * (plane * 3 + i);
            *(i < 2 ? &rows->at[i][c] : &rows->samples[c]) = row;
        }
    return 0;
}

static void give_samples(const struct hr_rpng *png, const struct rows *rows, unsigned now, uint32_t columns)
{
    for (uint32_t c = 0; c < png->channels; c++)
        memcpy(rows->samples[c], rows->at[now][c], columns);
    if (png->channels >= 3)
        add_green(rows->samples, columns);
}

int hr_rpng_rows(const struct hr_rpng *png, struct hr_rpng_scratch *scratch, uint32_t first, uint32_t end,
                 uint32_t columns, hr_rpng_push *push, void *user, struct hr_error *err)
{
    struct group group = {NULL, NULL};
    struct rows rows;
    int ret = make_rows(png, scratch, &rows, err);

    if (ret < 0)
        return ret;
    for (uint32_t y = first - first % HR_RPNG_GROUP_ROWS; y < end; y++) {
        unsigned now = y & 1;
        if (y % HR_RPNG_GROUP_ROWS == 0) {
            if (!next_group(png, y / HR_RPNG_GROUP_ROWS, &group))
                return fail_damaged(err);
            for (uint32_t c = 0; c < png->channels; c++)
                memset(rows.at[!now][c], 0, rows.stride);
        }
        for (uint32_t c = 0; c < png->channels; c++)
            if (!hr_rpng_row_decode(&group.at, group.end, rows.at[now][c], rows.at[!now][c], png->width, columns))
                return fail_damaged(err);
        if (y < first)
            continue;
        give_samples(png, &rows, now, columns);
        if (!push(user, y, rows.samples))
            break;
    }
    return 0;
}

/* ---- the decoder ---- */

struct rpng_state {
    struct hr_rpng_scratch scratch;
    uint8_t *row;
    size_t row_room;
};

struct job {
    const struct hr_image_request *request;
    const struct hr_rpng *png;
    uint8_t *row;
    uint8_t palette[256 * 3];
};

static int create(uint32_t max_width, void **state)
{
    *state = hr_alloc_zero(1, sizeof(struct rpng_state));
    return *state ? 0 : HR_E_NOMEM;
}

static void destroy(void *state)
{
    struct rpng_state *s = state;

    if (!s)
        return;
    hr_free(s->scratch.room);
    hr_free(s->row);
    hr_free(s);
}

/* Colours that the palette lacks are black, as libspng has them. */
static void read_palette(const struct hr_rpng *png, uint8_t palette[256 * 3])
{
    memset(palette, 0, 256 * 3);
    for (size_t i = 0; i + 12 <= png->kept_before;) {
        const uint8_t *b = png->kept + i;
        size_t bytes = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
        if (bytes > png->kept_before - i - 12)
            return;
        if (memcmp(b + 4, "PLTE", 4) == 0)
            memcpy(palette, b + 8, hr_min_u64(bytes, 256 * 3));
        i += 12 + bytes;
    }
}

static void fill_row(struct job *j, uint8_t *const planes[4])
{
    const struct hr_image_request *r = j->request;
    uint8_t *dst = j->row;
    uint32_t x = r->x, end = r->x + r->w;

    if (r->ids)
        memcpy(dst, planes[0] + x, r->w);
    else if (j->png->colour == PALETTE)
        for (; x < end; x++, dst += 3)
            memcpy(dst, j->palette + 3 * planes[0][x], 3);
    else if (j->png->channels < 3)
        hr_pixels_gray_to_rgb(dst, planes[0] + x, r->w);
    else
        for (; x < end; x++, dst += 3) {
            dst[0] = planes[0][x];
            dst[1] = planes[1][x];
            dst[2] = planes[2][x];
        }
    if (r->channels == 1 && !r->ids)
        hr_pixels_rgb_to_gray(j->row, j->row, r->w);
}

static bool push_row(void *user, uint32_t y, uint8_t *const planes[4])
{
    struct job *j = user;

    fill_row(j, planes);
    return j->request->push(j->request->user, j->row);
}

static int decode(void *state, const struct hr_image_request *r, struct hr_error *err)
{
    struct rpng_state *s = state;
    struct hr_rpng png = {0};
    int ret = hr_rpng_open(r->bytes, r->count, &png, err);

    if (ret < 0)
        return ret;
    if (png.width != r->picture_w || png.height != r->picture_h)
        return hr_fail(err, HR_E_DECODE, "the picture is %u x %u pixels, its record says %u x %u", png.width,
                       png.height, r->picture_w, r->picture_h);
    if (r->ids && png.channels >= 3)
        return hr_image_no_ids("RGB", err);
    if (hr_scratch_grow_bytes(&s->row, &s->row_room, (size_t)r->w * 3 + ROW_PAD) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for a row of %u pixels", r->w);
    struct job job = {.request = r, .png = &png, .row = s->row};
    if (png.colour == PALETTE)
        read_palette(&png, job.palette);
    return hr_rpng_rows(&png, &s->scratch, r->y, r->y + r->h, r->x + r->w, push_row, &job, err);
}

/* The PNG decoder finds the profile in a file of the kept chunks and no pixels. */
static int find_profile(const uint8_t *bytes, size_t count, struct hr_profile *profile, struct hr_error *err)
{
    static const uint8_t head[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0,
                                   0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde};
    static const uint8_t no_data[] = {0, 0, 0, 0, 'I', 'D', 'A', 'T', 0x35, 0xaf, 0x06, 0x1e};
    struct hr_rpng png = {0};
    int ret = hr_rpng_open(bytes, count, &png, err);

    profile->bytes = NULL;
    profile->count = 0;
    if (ret < 0)
        return ret;
    size_t all = sizeof(head) + png.kept_before + sizeof(no_data);
    if (hr_scratch_grow_bytes(&profile->around, &profile->around_bytes, all) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for a colour profile");
    memcpy(profile->around, head, sizeof(head));
    memcpy(profile->around + sizeof(head), png.kept, png.kept_before);
    memcpy(profile->around + all - sizeof(no_data), no_data, sizeof(no_data));
    return hr_decoder_png.image->profile(profile->around, all, profile, err);
}

const struct hr_image_decoder hr_repacked_png_decoder = {
    .create = create, .destroy = destroy, .decode = decode, .profile = find_profile};
