/* Reading a value in part: how large pictures are cut into cells, which bytes a box needs, and whether the
 * cells that were read are sound. */
#include "base/hash.h"
#include "rjpeg/layout.h"

/* A cell of about 512 x 256 pixels has some 30 kB: small beside a crop of a large picture, large beside
 * what a request costs. */
enum { PANEL_PIXELS = 512, CELL_PIXELS = 256 };

void rj_choose_cells(struct hr_rjpeg_info *info, uint64_t file_bytes)
{
    info->cells = file_bytes >= HR_RJPEG_CELLS_BYTES;
    if (!info->cells)
        return;
    info->panel_mcus = RJ_TILE_BLOCKS; /* so that panels end where tiles do, in all components */
    while (info->panel_mcus * 8 * info->h_max < PANEL_PIXELS ||
           info->panel_mcus * HR_RJPEG_MAX_PANELS < info->mcus_w)
        info->panel_mcus *= 2;
    info->cell_rows = 1;
    while (info->cell_rows * 8 * info->v_max < CELL_PIXELS)
        info->cell_rows *= 2;
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

/* The wanted cells of a panel follow each other. */
static void add_cells(const struct hr_rjpeg_info *info, const uint8_t *head, const struct rj_reach *reach,
                      struct range_list *list)
{
    uint32_t first = reach->mcu_row / info->cell_rows, end = (reach->mcu_row_end - 1) / info->cell_rows + 1;
    uint32_t cell = reach->panel * info->cells_per_panel;
    uint64_t off = rj_cell_off(info, head, cell);

    for (uint32_t p = reach->panel; p < reach->panel_end; p++)
        for (uint32_t row = 0; row < info->cells_per_panel; row++, cell++) {
            uint32_t bytes = hr_load_le32(rj_cell_entry(info, head, cell));
            if (row >= first && row < end)
                add_range(list, off, bytes);
            off += bytes;
        }
}

static void add_tiles(const struct hr_rjpeg_info *info, const uint8_t *head, const struct rj_reach *reach,
                      struct range_list *list)
{
    uint64_t tile = (uint64_t)reach->mcu_row * info->tiles_per_mcu_row;
    uint64_t off = info->head_bytes + rj_sum_sizes(info, head, 0, tile);

    for (uint32_t m = reach->mcu_row; m < reach->mcu_row_end; m++)
        for (uint32_t c = 0; c < info->components; c++) {
            const struct hr_rjpeg_component *k = &info->component[c];
            uint32_t first = reach->component[c].block / RJ_TILE_BLOCKS;
            uint32_t end = (reach->component[c].block_end - 1) / RJ_TILE_BLOCKS + 1;
            for (uint32_t by = m * k->v; by < (m + 1) * k->v; by++, tile += k->tiles_w) {
                uint64_t skipped = rj_sum_sizes(info, head, tile, first);
                uint64_t wanted = rj_sum_sizes(info, head, tile + first, end - first);
                if (by >= reach->component[c].row && by < reach->component[c].row_end)
                    add_range(list, off + skipped, wanted);
                off += skipped + wanted + rj_sum_sizes(info, head, tile + end, k->tiles_w - end);
            }
        }
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
    if (info->cells)
        add_cells(info, head, &reach, &list);
    else
        add_tiles(info, head, &reach, &list);
    return list.count;
}

const uint8_t *rj_find_bytes(const struct hr_rjpeg_view *view, uint64_t off, uint64_t bytes)
{
    struct hr_rjpeg_part only = {view->data, view->data_off, view->data_bytes};
    const struct hr_rjpeg_part *part = view->part_count ? view->parts : &only;

    for (uint32_t i = view->part_count ? view->part_count : 1; i > 0; i--, part++)
        if (off >= part->off && off - part->off <= part->bytes && bytes <= part->bytes - (off - part->off))
            return part->data + (off - part->off);
    return NULL;
}

static int check_cell(const struct hr_rjpeg_view *view, const uint8_t *entry, uint64_t off, struct hr_error *err)
{
    uint32_t bytes = hr_load_le32(entry), sum;
    const uint8_t *cell = rj_find_bytes(view, off, bytes);

    if (!cell)
        return hr_fail(err, HR_E_TRUNCATED, "repacked JPEG is cut off");
    sum = hr_checksum(cell, bytes);
    if (sum == hr_load_le32(entry + 4))
        return 0;
    return hr_fail(err, HR_E_CHECKSUM, "checksum of bytes %llu to %llu is %08x, not %08x", (unsigned long long)off,
                   (unsigned long long)(off + bytes), sum, hr_load_le32(entry + 4));
}

int hr_rjpeg_check(const struct hr_rjpeg_view *view, const struct hr_rjpeg_box *box, uint64_t *checked,
                   struct hr_error *err)
{
    struct hr_rjpeg_info info;
    struct rj_reach reach;
    uint64_t total = 0;
    int ret = hr_rjpeg_info(view->head, view->head_bytes, &info, err);

    if (ret == 0 && view->head_bytes < info.head_bytes)
        return hr_fail(err, HR_E_TRUNCATED, "repacked JPEG's head is cut off");
    if (ret == 0)
        ret = rj_check_box(&info, box, err);
    if (ret < 0)
        return ret;
    rj_find_reach(&info, box, info.components, &reach);
    uint32_t row = reach.mcu_row / info.cell_rows, row_end = (reach.mcu_row_end - 1) / info.cell_rows + 1;
    for (uint32_t p = reach.panel; info.cells && p < reach.panel_end; p++) {
        uint32_t cell = p * info.cells_per_panel + row, end = p * info.cells_per_panel + row_end;
        uint64_t off = rj_cell_off(&info, view->head, cell);
        for (; cell < end && ret == 0; cell++) {
            const uint8_t *entry = rj_cell_entry(&info, view->head, cell);
            ret = check_cell(view, entry, off, err);
            off += hr_load_le32(entry);
            total += hr_load_le32(entry);
        }
    }
    if (checked)
        *checked = total;
    return ret;
}
