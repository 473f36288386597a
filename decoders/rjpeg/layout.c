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

static bool set_cells(struct hr_rjpeg_info *info)
{
    if (!info->cells) {
        info->panel_mcus = info->mcus_w;
        info->cell_rows = info->mcu_rows;
    }
    info->panels = ceil_div(info->mcus_w, info->panel_mcus);
    info->cells_per_panel = ceil_div(info->mcu_rows, info->cell_rows);
    info->cell_count = info->panels * info->cells_per_panel;
    info->head_bytes = info->sizes_off + (info->cells ? RJ_CELL_ENTRY_BYTES * info->cell_count : 2 * info->tile_count);
    return info->panels <= HR_RJPEG_MAX_PANELS;
}

bool rj_geometry(struct hr_rjpeg_info *info)
{
    if (!info->width || !info->height || info->width > 65535 || info->height > 65535)
        return false;
    if (info->colour > HR_RJPEG_YCCK || info->components != rj_components_of(info->colour) ||
        info->quantizers < 1 || info->quantizers > info->components)
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
    return set_cells(info);
}

void rj_store_header(const struct hr_rjpeg_info *info, uint8_t header[HR_RJPEG_HEADER_BYTES])
{
    uint32_t selectors = 0;

    memset(header, 0, HR_RJPEG_HEADER_BYTES);
    memcpy(header, info->several || info->components == 4 ? RJ_MAGIC_MORE : RJ_MAGIC, 4);
    header[4] = (uint8_t)((info->quantizer_bytes == 2 ? RJ_FLAG_WIDE_QUANTIZERS : 0) |
                          (info->kept_lz4 ? RJ_FLAG_KEPT_LZ4 : 0) |
                          (info->pad_ones ? RJ_FLAG_PAD_ONES : 0) |
                          (info->several ? RJ_FLAG_SEVERAL : 0) | (info->cells ? RJ_FLAG_CELLS : 0) |
                          (info->progressive ? RJ_FLAG_PROGRESSIVE : 0));
    header[5] = (uint8_t)info->colour;
    header[6] = (uint8_t)info->quantizers;
    hr_store_le16(header + 8, (uint16_t)info->width);
    hr_store_le16(header + 10, (uint16_t)info->height);
    for (uint32_t c = 0; c < info->components; c++) {
        const struct hr_rjpeg_component *k = &info->component[c];
        if (c < 3)
            header[12 + c] = (uint8_t)(k->h << 4 | k->v);
        else
            header[6] |= (uint8_t)((k->h - 1) << 6 | (k->v - 1) << 4);
        selectors |= k->quantizer << 2 * c;
    }
    header[7] = (uint8_t)selectors;
    if (info->cells)
        header[15] = (uint8_t)(__builtin_ctz(info->panel_mcus / RJ_TILE_BLOCKS) |
                               __builtin_ctz(info->cell_rows) << 4);
    hr_store_le32(header + 16, (uint32_t)info->data_bytes);
    hr_store_le32(header + 20, info->kept_bytes);
    hr_store_le32(header + 24, info->jpeg_head_bytes);
    hr_store_le32(header + 28, info->jpeg_tail_bytes);
}

/* Of any format. */
static bool is_ours(const uint8_t *bytes)
{
    return !memcmp(bytes, RJ_MAGIC, 3);
}

bool hr_rjpeg_sniff(const uint8_t *bytes, size_t count)
{
    return count >= HR_RJPEG_HEADER_BYTES && is_ours(bytes) && bytes[3] >= '1' && bytes[3] <= '3';
}

static void load_header(const uint8_t *p, struct hr_rjpeg_info *info)
{
    info->colour = p[5];
    info->components = rj_components_of(info->colour);
    info->quantizers = info->components == 4 ? p[6] & 15 : p[6];
    info->quantizer_bytes = p[4] & RJ_FLAG_WIDE_QUANTIZERS ? 2 : 1;
    info->kept_lz4 = p[4] & RJ_FLAG_KEPT_LZ4;
    info->pad_ones = p[4] & RJ_FLAG_PAD_ONES;
    info->several = p[4] & RJ_FLAG_SEVERAL;
    info->progressive = p[4] & RJ_FLAG_PROGRESSIVE;
    info->cells = p[4] & RJ_FLAG_CELLS;
    if (info->cells) {
        info->panel_mcus = (uint32_t)RJ_TILE_BLOCKS << (p[15] & 15);
        info->cell_rows = 1u << (p[15] >> 4);
    }
    info->width = hr_load_le16(p + 8);
    info->height = hr_load_le16(p + 10);
    for (uint32_t c = 0; c < info->components; c++) {
        info->component[c].h = c < 3 ? p[12 + c] >> 4 : (p[6] >> 6) + 1;
        info->component[c].v = c < 3 ? p[12 + c] & 15 : (p[6] >> 4 & 3) + 1;
        info->component[c].quantizer = p[7] >> 2 * c & 3;
    }
    info->data_bytes = hr_load_le32(p + 16);
    info->kept_bytes = hr_load_le32(p + 20);
    info->jpeg_head_bytes = hr_load_le32(p + 24);
    info->jpeg_tail_bytes = hr_load_le32(p + 28);
}

/* What the header's format does not say. */
static bool has_unknown(const uint8_t *p)
{
    unsigned flags = 7 | RJ_FLAG_CELLS, more = RJ_FLAG_SEVERAL | RJ_FLAG_PROGRESSIVE;

    if (p[3] != '3')
        return (p[4] & ~flags) || p[5] >= HR_RJPEG_CMYK;
    return (p[4] & ~(flags | more)) || (p[4] & more) == RJ_FLAG_PROGRESSIVE;
}

int hr_rjpeg_info(const uint8_t *packed, size_t bytes, struct hr_rjpeg_info *info,
                  struct hr_error *err)
{
    struct hr_rjpeg_info read = {0};

    if (bytes < HR_RJPEG_HEADER_BYTES)
        return hr_fail(err, HR_E_TRUNCATED, "repacked JPEG of %zu bytes has no header", bytes);
    if (!hr_rjpeg_sniff(packed, bytes))
        return hr_fail(err, HR_E_FORMAT, "%s", is_ours(packed) ? "repacked JPEG of a format that is not known here"
                                                              : "not a repacked JPEG");
    load_header(packed, &read);
    if (has_unknown(packed) || (packed[15] && !read.cells) || !rj_geometry(&read))
        return hr_fail(err, HR_E_DECODE, "repacked JPEG has a damaged header");
    /* The smallest tiles set a floor, so that a short value cannot claim a large picture. */
    if (read.data_bytes < 4ull * read.tile_count ||
        read.data_bytes > (RJ_TILE_MAX + 2ull * read.cells) * read.tile_count)
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
    uint32_t shrink = box->shrink ? box->shrink : 1;

    if (shrink > 8 || shrink & (shrink - 1))
        return hr_fail(err, HR_E_USAGE, "no picture is decoded at 1/%u", shrink);
    uint32_t w = ceil_div(info->width, shrink), h = ceil_div(info->height, shrink);
    if (!box->w || !box->h || box->x >= w || box->y >= h || box->w > w - box->x || box->h > h - box->y)
        return hr_fail(err, HR_E_USAGE, "box %u,%u %ux%u is not inside of a picture of %ux%u", box->x,
                       box->y, box->w, box->h, w, h);
    return 0;
}

/* libjpeg's choice: a subsampled component is shrunk less, up to not at all, where that spares its
 * upsampling in both directions. smallest: samples of an unsubsampled block's side. */
static uint32_t block_size(const struct hr_rjpeg_info *info, const struct hr_rjpeg_component *k, uint32_t smallest)
{
    uint32_t size = smallest;

    while (size < 8 && info->h_max * smallest % (k->h * size * 2) == 0 &&
           info->v_max * smallest % (k->v * size * 2) == 0)
        size *= 2;
    return size;
}

static void reach_component(const struct hr_rjpeg_info *info, const struct hr_rjpeg_box *box, uint32_t smallest,
                            uint32_t c, struct rj_reach *reach)
{
    const struct hr_rjpeg_component *k = &info->component[c];
    uint32_t size = block_size(info, k, smallest);
    uint32_t hs = info->h_max * smallest / (k->h * size), vs = info->v_max * smallest / (k->v * size);
    uint32_t width = ceil_div((uint64_t)info->width * k->h * size, info->h_max * 8);
    uint32_t height = ceil_div((uint64_t)info->height * k->v * size, info->v_max * 8);
    /* libjpeg-turbo's choice: triangle filters for 2:1 across, 2:1 down and both; rows of one or
     * two samples are repeated where the filter goes across, and so is everything at 1/8. */
    bool smooth_h = smallest > 1 && hs == 2 && vs <= 2 && width > 2;
    bool smooth_v = smallest > 1 && vs == 2 && (hs == 1 || smooth_h);
    uint32_t left = box->x / hs, right = (box->x + box->w - 1) / hs + 1;
    uint32_t top = box->y / vs, bottom = (box->y + box->h - 1) / vs + 1;

    reach->component[c].size = size;
    reach->component[c].width = width;
    reach->component[c].height = height;
    reach->component[c].h_step = hs;
    reach->component[c].v_step = vs;
    reach->component[c].smooth_h = smooth_h;
    reach->component[c].smooth_v = smooth_v;
    reach->component[c].x = left;
    reach->component[c].x_end = right;
    if (smooth_h) {
        left -= left > 0;
        right += right < width;
    }
    if (smooth_v) {
        top -= top > 0;
        bottom += bottom < height;
    }
    uint32_t row = top / size, row_end = ceil_div(bottom, size);
    uint32_t block = left / size, block_end = ceil_div(right, size);
    reach->component[c].block = block;
    reach->component[c].block_end = block_end;
    reach->component[c].row = row;
    reach->component[c].row_end = row_end;
    reach->mcu_row = row / k->v < reach->mcu_row ? row / k->v : reach->mcu_row;
    if (ceil_div(row_end, k->v) > reach->mcu_row_end)
        reach->mcu_row_end = ceil_div(row_end, k->v);
    uint32_t panel = block / k->h / info->panel_mcus, panel_end = (block_end - 1) / k->h / info->panel_mcus + 1;
    reach->panel = panel < reach->panel ? panel : reach->panel;
    reach->panel_end = panel_end > reach->panel_end ? panel_end : reach->panel_end;
    reach->smooth_v |= smooth_v;
}

void rj_find_reach(const struct hr_rjpeg_info *info, const struct hr_rjpeg_box *box,
                   uint32_t components, struct rj_reach *reach)
{
    uint32_t smallest = 8 / (box->shrink ? box->shrink : 1);

    reach->mcu_row = reach->panel = UINT32_MAX;
    reach->mcu_row_end = reach->panel_end = 0;
    reach->mcu_height = info->v_max * smallest;
    reach->smooth_v = false;
    for (uint32_t c = 0; c < components; c++)
        reach_component(info, box, smallest, c, reach);
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
