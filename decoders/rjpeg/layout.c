/* The packed value's fixed header, its geometry, and what a box needs of it: the arithmetic that
 * encoder, decoder and read planner share. */
#include <string.h>

#include "rjpeg/layout.h"

const uint8_t rj_natural_order[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

static uint32_t ceil_div(uint64_t a, uint32_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

static bool check_sampling(struct hr_rjpeg_info *info)
{
    uint32_t blocks = 0;

    info->h_max = info->v_max = 1;
    for (uint32_t c = 0; c < info->components; c++) {
        const struct hr_rjpeg_component *k = &info->component[c];
        if (k->h < 1 || k->h > 4 || k->v < 1 || k->v > 4 || k->quantizer >= info->quantizers)
            return false;
        info->h_max = k->h > info->h_max ? k->h : info->h_max;
        info->v_max = k->v > info->v_max ? k->v : info->v_max;
        blocks += k->h * k->v;
    }
    if (info->components == 1 && blocks != 1)
        return false;
    for (uint32_t c = 0; c < info->components; c++)
        if (info->h_max % info->component[c].h || info->v_max % info->component[c].v)
            return false;
    return blocks <= RJ_MAX_MCU_BLOCKS;
}

bool rj_geometry(struct hr_rjpeg_info *info)
{
    if (!info->width || !info->height || info->width > 65535 || info->height > 65535)
        return false;
    if (info->components != (info->colour == HR_RJPEG_GRAY ? 1u : 3u) ||
        info->colour > HR_RJPEG_RGB || info->quantizers < 1 || info->quantizers > info->components)
        return false;
    if (!check_sampling(info))
        return false;

    info->mcus_w = ceil_div(info->width, 8 * info->h_max);
    info->mcu_rows = ceil_div(info->height, 8 * info->v_max);
    info->tiles_per_mcu_row = 0;
    for (uint32_t c = 0; c < info->components; c++) {
        struct hr_rjpeg_component *k = &info->component[c];
        k->width = ceil_div((uint64_t)info->width * k->h, info->h_max);
        k->height = ceil_div((uint64_t)info->height * k->v, info->v_max);
        k->blocks_w = info->mcus_w * k->h;
        k->blocks_h = info->mcu_rows * k->v;
        k->tiles_w = ceil_div(k->blocks_w, RJ_TILE_BLOCKS);
        k->tile_first = info->tiles_per_mcu_row;
        info->tiles_per_mcu_row += k->tiles_w * k->v;
    }
    info->tile_count = info->tiles_per_mcu_row * info->mcu_rows; /* < 2^27 */
    info->sizes_off = HR_RJPEG_HEADER_BYTES + info->quantizers * 64 * info->quantizer_bytes;
    info->head_bytes = info->sizes_off + 2 * info->tile_count;
    return true;
}

void rj_store_header(const struct hr_rjpeg_info *info, uint8_t header[HR_RJPEG_HEADER_BYTES])
{
    uint32_t selectors = 0;

    memset(header, 0, HR_RJPEG_HEADER_BYTES);
    memcpy(header, RJ_MAGIC, 4);
    header[4] = (uint8_t)((info->quantizer_bytes == 2 ? RJ_FLAG_WIDE_QUANTIZERS : 0) |
                          (info->kept_lz4 ? RJ_FLAG_KEPT_LZ4 : 0) |
                          (info->pad_ones ? RJ_FLAG_PAD_ONES : 0));
    header[5] = (uint8_t)info->colour;
    header[6] = (uint8_t)info->quantizers;
    hr_store_le16(header + 8, (uint16_t)info->width);
    hr_store_le16(header + 10, (uint16_t)info->height);
    for (uint32_t c = 0; c < info->components; c++) {
        header[12 + c] = (uint8_t)(info->component[c].h << 4 | info->component[c].v);
        selectors |= info->component[c].quantizer << 2 * c;
    }
    header[7] = (uint8_t)selectors;
    header[15] = 0;
    hr_store_le32(header + 16, (uint32_t)info->data_bytes);
    hr_store_le32(header + 20, info->kept_bytes);
    hr_store_le32(header + 24, info->jpeg_head_bytes);
    hr_store_le32(header + 28, info->jpeg_tail_bytes);
}

bool hr_rjpeg_sniff(const uint8_t *bytes, size_t count)
{
    return count >= HR_RJPEG_HEADER_BYTES && !memcmp(bytes, RJ_MAGIC, 3) && (bytes[3] == '1' || bytes[3] == '2');
}

static void load_header(const uint8_t *p, struct hr_rjpeg_info *info)
{
    info->colour = p[5];
    info->components = p[5] == HR_RJPEG_GRAY ? 1 : 3;
    info->quantizers = p[6];
    info->quantizer_bytes = p[4] & RJ_FLAG_WIDE_QUANTIZERS ? 2 : 1;
    info->kept_lz4 = p[4] & RJ_FLAG_KEPT_LZ4;
    info->pad_ones = p[4] & RJ_FLAG_PAD_ONES;
    info->width = hr_load_le16(p + 8);
    info->height = hr_load_le16(p + 10);
    for (uint32_t c = 0; c < info->components; c++) {
        info->component[c].h = p[12 + c] >> 4;
        info->component[c].v = p[12 + c] & 15;
        info->component[c].quantizer = p[7] >> 2 * c & 3;
    }
    info->data_bytes = hr_load_le32(p + 16);
    info->kept_bytes = hr_load_le32(p + 20);
    info->jpeg_head_bytes = hr_load_le32(p + 24);
    info->jpeg_tail_bytes = hr_load_le32(p + 28);
}

int hr_rjpeg_info(const uint8_t *packed, size_t bytes, struct hr_rjpeg_info *info,
                  struct hr_error *err)
{
    struct hr_rjpeg_info read = {0};

    if (bytes < HR_RJPEG_HEADER_BYTES)
        return hr_fail(err, HR_E_TRUNCATED, "repacked JPEG of %zu bytes has no header", bytes);
    if (!hr_rjpeg_sniff(packed, bytes))
        return hr_fail(err, HR_E_FORMAT, "not a repacked JPEG");
    load_header(packed, &read);
    if (packed[4] & ~7u || packed[15] || !rj_geometry(&read))
        return hr_fail(err, HR_E_DECODE, "repacked JPEG has a damaged header");
    /* The smallest tiles set a floor, so that a short value cannot claim a large picture. */
    if (read.data_bytes < 4ull * read.tile_count || read.data_bytes > (uint64_t)RJ_TILE_MAX * read.tile_count)
        return hr_fail(err, HR_E_DECODE, "repacked JPEG claims a wrong amount of data");
    read.value_bytes = read.head_bytes + read.data_bytes + read.kept_bytes;
    *info = read;
    return 0;
}

void rj_load_quantizer(const struct hr_rjpeg_info *info, const uint8_t *head, uint32_t q,
                       uint16_t natural[64])
{
    const uint8_t *p = head + HR_RJPEG_HEADER_BYTES + q * 64 * info->quantizer_bytes;

    for (int i = 0; i < 64; i++)
        natural[rj_natural_order[i]] =
            info->quantizer_bytes == 2 ? hr_load_le16(p + 2 * i) : (uint16_t)p[i];
}

int rj_check_box(const struct hr_rjpeg_info *info, const struct hr_rjpeg_box *box,
                 struct hr_error *err)
{
    if (!box->w || !box->h || box->x >= info->width || box->y >= info->height ||
        box->w > info->width - box->x || box->h > info->height - box->y)
        return hr_fail(err, HR_E_USAGE, "box %u,%u %ux%u is not inside of a picture of %ux%u", box->x,
                       box->y, box->w, box->h, info->width, info->height);
    return 0;
}

static void reach_component(const struct hr_rjpeg_info *info, const struct hr_rjpeg_box *box,
                            uint32_t c, struct rj_reach *reach)
{
    const struct hr_rjpeg_component *k = &info->component[c];
    uint32_t hs = info->h_max / k->h, vs = info->v_max / k->v;
    /* libjpeg-turbo's choice: triangle filters for 2:1 across, 2:1 down and both; rows of one or
     * two samples are repeated where the filter goes across. */
    bool smooth_h = hs == 2 && vs <= 2 && k->width > 2;
    bool smooth_v = vs == 2 && (hs == 1 || smooth_h);
    uint32_t left = box->x / hs, right = (box->x + box->w - 1) / hs + 1;
    uint32_t top = box->y / vs, bottom = (box->y + box->h - 1) / vs + 1;

    reach->component[c].h_step = hs;
    reach->component[c].v_step = vs;
    reach->component[c].smooth_h = smooth_h;
    reach->component[c].smooth_v = smooth_v;
    reach->component[c].x = left;
    reach->component[c].x_end = right;
    if (smooth_h) {
        left -= left > 0;
        right += right < k->width;
    }
    if (smooth_v) {
        top -= top > 0;
        bottom += bottom < k->height;
    }
    reach->component[c].block = left / 8;
    reach->component[c].block_end = (right + 7) / 8;
    reach->component[c].row = top / 8;
    reach->component[c].row_end = (bottom + 7) / 8;
    if (top / 8 / k->v < reach->mcu_row)
        reach->mcu_row = top / 8 / k->v;
    if (ceil_div((bottom + 7) / 8, k->v) > reach->mcu_row_end)
        reach->mcu_row_end = ceil_div((bottom + 7) / 8, k->v);
    reach->smooth_v |= smooth_v;
}

void rj_find_reach(const struct hr_rjpeg_info *info, const struct hr_rjpeg_box *box,
                   uint32_t components, struct rj_reach *reach)
{
    reach->mcu_row = UINT32_MAX;
    reach->mcu_row_end = 0;
    reach->smooth_v = false;
    for (uint32_t c = 0; c < components; c++)
        reach_component(info, box, c, reach);
}

uint64_t rj_sum_sizes(const struct hr_rjpeg_info *info, const uint8_t *head, uint64_t first,
                      uint64_t count)
{
    const uint8_t *p = head + info->sizes_off + 2 * first;
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++)
        sum += hr_load_le16(p + 2 * i);
    return sum;
}

struct range_list {
    struct hr_rjpeg_range *ranges;
    int count, max;
    uint64_t gap;
};

static void add_range(struct range_list *list, uint64_t off, uint64_t bytes)
{
    struct hr_rjpeg_range *last = list->count ? &list->ranges[list->count - 1] : NULL;

    if (last && (off - (last->off + last->bytes) <= list->gap || list->count == list->max)) {
        last->bytes = off + bytes - last->off;
        return;
    }
    list->ranges[list->count++] = (struct hr_rjpeg_range){off, bytes};
}

int hr_rjpeg_ranges(const struct hr_rjpeg_info *info, const uint8_t *head, size_t head_bytes,
                    const struct hr_rjpeg_box *box, uint64_t gap, struct hr_rjpeg_range *ranges,
                    int max, struct hr_error *err)
{
    struct range_list list = {ranges, 0, max, gap};
    struct rj_reach reach;
    int ret = rj_check_box(info, box, err);

    if (ret < 0)
        return ret;
    if (max < 1)
        return hr_fail(err, HR_E_USAGE, "no room for a range");
    if (head_bytes < info->head_bytes)
        return hr_fail(err, HR_E_TRUNCATED, "repacked JPEG's head is cut off");
    rj_find_reach(info, box, info->components, &reach);

    uint64_t tile = (uint64_t)reach.mcu_row * info->tiles_per_mcu_row;
    uint64_t off = info->head_bytes + rj_sum_sizes(info, head, 0, tile);
    for (uint32_t m = reach.mcu_row; m < reach.mcu_row_end; m++)
        for (uint32_t c = 0; c < info->components; c++) {
            const struct hr_rjpeg_component *k = &info->component[c];
            uint32_t first = reach.component[c].block / RJ_TILE_BLOCKS;
            uint32_t end = ceil_div(reach.component[c].block_end, RJ_TILE_BLOCKS);
            for (uint32_t by = m * k->v; by < (m + 1) * k->v; by++, tile += k->tiles_w) {
                uint64_t skipped = rj_sum_sizes(info, head, tile, first);
                uint64_t wanted = rj_sum_sizes(info, head, tile + first, end - first);
                if (by >= reach.component[c].row && by < reach.component[c].row_end)
                    add_range(&list, off + skipped, wanted);
                off += skipped + wanted + rj_sum_sizes(info, head, tile + end, k->tiles_w - end);
            }
        }
    return list.count;
}
