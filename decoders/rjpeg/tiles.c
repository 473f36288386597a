/* The walk over the tiles of a value. Sizes come from the head, or from the cell at hand. */
#include "rjpeg/tiles.h"

#include <string.h>

void rj_tiles_begin(struct rj_tiles *t, const struct hr_rjpeg_info *info, const struct hr_rjpeg_view *view,
                    uint32_t panel, uint32_t panel_end)
{
    t->info = info;
    t->view = *view;
    t->panel = panel;
    t->panel_end = panel_end;
    t->next_row = UINT32_MAX;
    t->tail_ready = false;
    const uint8_t *begin = view->part_count ? view->parts[0].data : view->data;
    t->readable_end = view->part_count
                          ? view->parts[view->part_count - 1].data + view->parts[view->part_count - 1].bytes
                          : view->data + view->data_bytes;
    size_t all = (size_t)(t->readable_end - begin);
    t->tail_bytes = all < RJ_TILE_READ ? all : RJ_TILE_READ;
}

static int open_cell(struct rj_tiles *t, uint32_t p, uint32_t m, bool follows, struct hr_error *err)
{
    const struct hr_rjpeg_info *info = t->info;
    struct rj_panel_place *place = &t->place[p];
    uint32_t row = m / info->cell_rows, cell = p * info->cells_per_panel + row, tiles = rj_panel_tiles(info, p);
    uint64_t off = follows ? place->end : rj_cell_off(info, t->view.head, cell);
    uint32_t bytes = hr_load_le32(rj_cell_entry(info, t->view.head, cell));
    uint64_t sizes_bytes = 2 * (uint64_t)tiles * rj_cell_mcu_rows(info, row);
    const uint8_t *data = rj_find_bytes(&t->view, off, bytes);

    if (!data)
        return hr_fail(err, HR_E_TRUNCATED, "repacked JPEG is cut off");
    if (bytes < sizes_bytes || off + bytes > info->head_bytes + info->data_bytes)
        return hr_fail(err, HR_E_DECODE, "repacked JPEG has a damaged cell table");
    *place = (struct rj_panel_place){
        .sizes = data, .data = data, .first = off, .off = off + sizes_bytes, .end = off + bytes};
    rj_tiles_skip(t, p, m % info->cell_rows * tiles);
    return 0;
}

/* Without cells the sizes are in the head. */
static void open_whole(struct rj_tiles *t, uint32_t m)
{
    const struct hr_rjpeg_info *info = t->info;

    t->place[0] = (struct rj_panel_place){
        .sizes = t->view.head + info->sizes_off,
        .data = t->view.data,
        .first = t->view.data_off,
        .off = info->head_bytes,
        .end = t->view.data_off + t->view.data_bytes,
    };
    rj_tiles_skip(t, 0, m * info->tiles_per_mcu_row);
}

int rj_tiles_row(struct rj_tiles *t, uint32_t m, struct hr_error *err)
{
    bool first = t->next_row == UINT32_MAX;
    int ret = 0;

    HR_ASSERT(first || m == t->next_row);
    t->next_row = m + 1;
    if (!t->info->cells) {
        if (first)
            open_whole(t, m);
        return 0;
    }
    for (uint32_t p = t->panel; (first || m % t->info->cell_rows == 0) && p < t->panel_end && ret == 0; p++)
        ret = open_cell(t, p, m, !first, err);
    return ret;
}

const uint8_t *rj_tiles_tail(struct rj_tiles *t, const uint8_t *at)
{
    if (!t->tail_ready) {
        memcpy(t->tail, t->readable_end - t->tail_bytes, t->tail_bytes);
        memset(t->tail + t->tail_bytes, 0, RJ_TILE_READ);
        t->tail_ready = true;
    }
    return t->tail + t->tail_bytes - (t->readable_end - at);
}

int rj_tiles_fail(const struct rj_tiles *t, uint32_t p, uint32_t blocks, struct hr_error *err)
{
    uint32_t size = hr_load_le16(t->place[p].sizes);

    if (size < rj_tile_min_bytes(blocks) || size > RJ_TILE_MAX)
        return hr_fail(err, HR_E_DECODE, "repacked JPEG has a damaged tile table");
    return hr_fail(err, HR_E_TRUNCATED, "repacked JPEG is cut off");
}
