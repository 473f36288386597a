/* Any bytes as a repacked JPEG: refused by every variant, or decoded by each to the same rows of the box's size;
 * planned for reading, and taken back to a JPEG. The first eight bytes choose the box, the rest is the value. Where
 * that begins like a JPEG file, it is repacked: refused, or restored to the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rjpeg/rjpeg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_PIXELS = 1 << 20 }; /* keeps runs short; larger claims are left to the header's own limits */

struct rows {
    uint64_t count, hash;
    uint32_t row_bytes;
};

static void take_row(void *user, const uint8_t *row)
{
    struct rows *rows = user;

    for (uint32_t i = 0; i < rows->row_bytes; i++)
        rows->hash = (rows->hash ^ row[i]) * 0x100000001b3ull;
    rows->count++;
}

static struct hr_rjpeg_box choose_box(const uint8_t *bytes, const struct hr_rjpeg_info *info)
{
    uint32_t shrink = 1u << (bytes[7] >> 6), width = (info->width + shrink - 1) / shrink;
    uint32_t height = (info->height + shrink - 1) / shrink;
    struct hr_rjpeg_box box = {hr_load_le16(bytes) % width, hr_load_le16(bytes + 2) % height, 0, 0, shrink};

    box.w = 1 + hr_load_le16(bytes + 4) % (width - box.x);
    box.h = 1 + hr_load_le16(bytes + 6) % (height - box.y);
    return box;
}

/* A hash of the pixels, 0 where there are none. */
static uint64_t decode(struct hr_rjpeg *decoder, const uint8_t *packed, size_t bytes, const struct hr_rjpeg_box *box,
                       uint32_t channels)
{
    struct hr_rjpeg_view view = hr_rjpeg_view_whole(packed, bytes);
    struct rows rows = {.row_bytes = box->w * channels};
    struct hr_rjpeg_sink sink = {.row = take_row, .user = &rows, .channels = channels};

    if (hr_rjpeg_decode(decoder, &view, box, &sink, NULL) < 0)
        return 0;
    if (rows.count != box->h)
        abort();
    return rows.hash | 1;
}

static void decode_alike(struct hr_rjpeg *decoder, const uint8_t *packed, size_t bytes, const struct hr_rjpeg_box *box,
                         uint32_t channels)
{
    static const char *const variants[] = {HR_RJPEG_VARIANTS};
    uint64_t first = 0;

    for (size_t v = 0; v < HR_ARRAY_SIZE(variants); v++) {
        if (!hr_rjpeg_set_variant(decoder, variants[v]))
            continue;
        uint64_t hash = decode(decoder, packed, bytes, box, channels);
        if (v && hash != first)
            abort();
        first = hash;
    }
}

static void repack(const uint8_t *jpeg, size_t bytes)
{
    struct hr_buf packed = {0}, restored = {0};

    if (hr_rjpeg_encode(jpeg, bytes, &packed, NULL, NULL) == 0 &&
        (hr_rjpeg_restore(packed.data, packed.used, &restored, NULL) < 0 || restored.used != bytes ||
         memcmp(restored.data, jpeg, bytes) != 0))
        abort();
    hr_buf_finish(&packed);
    hr_buf_finish(&restored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct hr_rjpeg *decoder;
    struct hr_rjpeg_info info;
    struct hr_rjpeg_range ranges[4];
    struct hr_buf jpeg = {0};

    if (!decoder && hr_rjpeg_create(&decoder) < 0)
        abort();
    if (bytes > 10 && data[8] == 0xff && data[9] == 0xd8)
        repack(data + 8, bytes - 8);
    if (bytes < 8 || hr_rjpeg_info(data + 8, bytes - 8, &info, NULL) < 0)
        return 0;
    struct hr_rjpeg_box box = choose_box(data, &info);
    if ((uint64_t)box.w * box.h <= MAX_PIXELS) {
        decode_alike(decoder, data + 8, bytes - 8, &box, info.components == 4 ? 4 : 3);
        decode_alike(decoder, data + 8, bytes - 8, &box, 1);
    }
    struct hr_rjpeg_view whole = hr_rjpeg_view_whole(data + 8, bytes - 8);
    if (hr_rjpeg_check(&whole, &box, NULL, NULL) > 0)
        abort();
    int n = hr_rjpeg_ranges(&info, data + 8, bytes - 8, &box, 64, ranges, 4, NULL);
    for (int i = 0; i < n; i++)
        if (ranges[i].off < info.head_bytes)
            abort();
    if (hr_rjpeg_restore(data + 8, bytes - 8, &jpeg, NULL) < 0)
        hr_buf_reset(&jpeg);
    hr_buf_finish(&jpeg);
    return 0;
}
