/* Tiles on their way from the scan to the value. */
#include "rjpeg/collect.h"

#include <string.h>

#include "base/hash.h"

void rj_collect_begin(struct rj_collect *t, const struct hr_rjpeg_info *info)
{
    memset(t, 0, sizeof(*t));
    t->info = info;
}

void rj_collect_block_row(struct rj_collect *t, uint32_t c, const struct rj_block *blocks)
{
    const struct hr_rjpeg_component *k = &t->info->component[c];
    uint8_t size[2];

    for (uint32_t p = 0, i = 0; p < t->info->panels; p++)
        for (; i < rj_panel_tile(t->info, k, p + 1); i++) {
            uint32_t bx = i * RJ_TILE_BLOCKS;
            size_t bytes = rj_tile_write(blocks + bx, rj_tile_blocks(k, bx), t->tile);
            hr_store_le16(size, (uint16_t)bytes);
            hr_buf_add(&t->panel[p].sizes, size, sizeof(size));
            hr_buf_add(&t->panel[p].tiles, t->tile, bytes);
        }
}

static void add(struct hr_buf *out, const struct hr_buf *part)
{
    hr_buf_add(out, part->data, part->used);
    out->failed |= part->failed;
}

/* The table gets the cell's size and checksum. */
static void end_cell(struct rj_collect *t, uint32_t p)
{
    struct hr_buf *cells = &t->panel[p].cells;
    size_t start = cells->used;
    uint8_t entry[RJ_CELL_ENTRY_BYTES];

    add(cells, &t->panel[p].sizes);
    add(cells, &t->panel[p].tiles);
    hr_buf_reset(&t->panel[p].sizes);
    hr_buf_reset(&t->panel[p].tiles);
    if (hr_buf_failed(cells))
        return;
    hr_store_le32(entry, (uint32_t)(cells->used - start));
    hr_store_le32(entry + 4, hr_checksum(cells->data + start, cells->used - start));
    hr_buf_add(&t->tables, entry, sizeof(entry));
}

void rj_collect_end_row(struct rj_collect *t, uint32_t m)
{
    if (t->info->cells && ((m + 1) % t->info->cell_rows == 0 || m + 1 == t->info->mcu_rows))
        for (uint32_t p = 0; p < t->info->panels; p++)
            end_cell(t, p);
}

/* Entries came row by row; the table has them panel by panel. */
static void add_table(const struct rj_collect *t, struct hr_buf *out)
{
    for (uint32_t p = 0; p < t->info->panels; p++)
        for (uint32_t row = 0; row < t->info->cells_per_panel; row++)
            hr_buf_add(out, t->tables.data + RJ_CELL_ENTRY_BYTES * (size_t)(row * t->info->panels + p),
                       RJ_CELL_ENTRY_BYTES);
}

int64_t rj_collect_add(struct rj_collect *t, struct hr_buf *out)
{
    size_t start;

    for (uint32_t p = 0; p < t->info->panels; p++)
        if (hr_buf_failed(&t->panel[p].cells) || hr_buf_failed(&t->panel[p].sizes) || hr_buf_failed(&t->panel[p].tiles))
            return HR_E_NOMEM;
    if (hr_buf_failed(&t->tables))
        return HR_E_NOMEM;
    if (t->info->cells)
        add_table(t, out);
    else
        add(out, &t->panel[0].sizes);
    start = out->used;
    for (uint32_t p = 0; p < t->info->panels; p++)
        add(out, t->info->cells ? &t->panel[p].cells : &t->panel[p].tiles);
    return hr_buf_failed(out) ? HR_E_NOMEM : (int64_t)(out->used - start);
}

void rj_collect_finish(struct rj_collect *t)
{
    for (uint32_t p = 0; p < HR_RJPEG_MAX_PANELS; p++) {
        hr_buf_finish(&t->panel[p].sizes);
        hr_buf_finish(&t->panel[p].tiles);
        hr_buf_finish(&t->panel[p].cells);
    }
    hr_buf_finish(&t->tables);
}
