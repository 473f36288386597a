/* The way back to JPEG: the kept bytes before the scan, the scan written again from the coefficients
 * with the file's own Huffman tables and restart interval, the kept bytes after it. */
#include "rjpeg/restore.h"

#include <string.h>

#include "base/mem.h"
#include "rjpeg/kept.h"
#include "rjpeg/markers.h"
#include "rjpeg/scan_write.h"
#include "rjpeg/tile.h"
#include "rjpeg/tiles.h"

enum { TILE_VALUES = RJ_TILE_VALUES + 8 };

struct restore {
    struct hr_rjpeg_info info;
    struct rj_tiles tiles;
    struct rj_markers markers;
    struct rj_scan_writer scan;
    /* One MCU row, each block row in whole tiles. */
    struct rj_block *blocks;
    int16_t *values; /* TILE_VALUES a tile */
};

/* The next tile of panel p, to place `at` in the row. */
static int read_tile(struct restore *r, uint32_t p, uint32_t blocks, uint32_t at, struct hr_error *err)
{
    const uint8_t *bytes = NULL;
    uint32_t size = 0;
    int ret = rj_tiles_take(&r->tiles, p, blocks, &bytes, &size, err);

    if (ret < 0)
        return ret;
    if (!rj_tile_read(bytes, size, blocks, r->blocks + (size_t)at * RJ_TILE_BLOCKS,
                      r->values + (size_t)at * TILE_VALUES))
        return hr_fail(err, HR_E_DECODE, "repacked JPEG has a damaged tile");
    return 0;
}

static int read_mcu_row(struct restore *r, uint32_t m, struct hr_error *err)
{
    uint32_t at = 0;
    int ret = rj_tiles_row(&r->tiles, m, err);

    for (uint32_t c = 0; c < r->info.components && ret >= 0; c++) {
        const struct hr_rjpeg_component *k = &r->info.component[c];
        for (uint32_t row = 0; row < k->v; row++)
            for (uint32_t p = 0, t = 0; p < r->info.panels; p++)
                for (; t < rj_panel_tile(&r->info, k, p + 1); t++, at++) {
                    ret = read_tile(r, p, rj_tile_blocks(k, t * RJ_TILE_BLOCKS), at, err);
                    if (ret < 0)
                        return ret;
                }
    }
    return ret;
}

static int put_scan(struct restore *r, struct hr_error *err)
{
    for (uint32_t m = 0; m < r->info.mcu_rows; m++) {
        int ret = read_mcu_row(r, m, err);
        if (ret < 0)
            return ret;
        rj_scan_row(&r->scan, r->blocks);
        if (r->scan.failed)
            return hr_fail(err, HR_E_DECODE, "repacked JPEG has coefficients without a code");
    }
    rj_scan_finish(&r->scan);
    return 0;
}

/* The kept markers must describe the picture that the head describes. */
static int check_markers(const struct restore *r, struct hr_error *err)
{
    const struct rj_markers *m = &r->markers;
    bool same = m->head_bytes == r->info.jpeg_head_bytes && m->width == r->info.width &&
                m->height == r->info.height && m->components == r->info.components;

    for (uint32_t c = 0; same && c < m->components && m->components > 1; c++)
        same = m->component[c].h == r->info.component[c].h && m->component[c].v == r->info.component[c].v;
    return same ? 0 : hr_fail(err, HR_E_DECODE, "repacked JPEG keeps markers of another picture");
}

static int restore(struct restore *r, const uint8_t *kept, void (*take)(void *, const uint8_t *, size_t), void *user,
                   struct hr_error *err)
{
    int ret = rj_read_markers(kept, r->info.jpeg_head_bytes, &r->markers, err);

    if (ret >= 0)
        ret = check_markers(r, err);
    if (ret < 0)
        return ret == HR_E_FORMAT ? HR_E_DECODE : ret;
    rj_scan_begin(&r->scan, &r->markers, &r->info, take, user);
    take(user, kept, r->info.jpeg_head_bytes);
    ret = put_scan(r, err);
    if (ret < 0)
        return ret;
    take(user, kept + r->info.jpeg_head_bytes, r->info.jpeg_tail_bytes);
    return 0;
}

static void destroy(struct restore *r)
{
    if (!r)
        return;
    hr_free(r->blocks);
    hr_free(r->values);
    hr_free(r);
}

static struct restore *create(const struct hr_rjpeg_info *info, const uint8_t *packed)
{
    struct restore *r = hr_alloc(sizeof(*r));

    if (!r)
        return NULL;
    struct hr_rjpeg_view view = hr_rjpeg_view_whole(packed, info->head_bytes + info->data_bytes);
    r->info = *info;
    rj_tiles_begin(&r->tiles, &r->info, &view, 0, info->panels);
    r->blocks = hr_alloc((size_t)info->tiles_per_mcu_row * RJ_TILE_BLOCKS * sizeof(*r->blocks));
    r->values = hr_alloc((size_t)info->tiles_per_mcu_row * TILE_VALUES * sizeof(*r->values));
    if (r->blocks && r->values)
        return r;
    destroy(r);
    return NULL;
}

int rj_restore(const uint8_t *packed, size_t bytes, void (*take)(void *user, const uint8_t *part, size_t count),
               void *user, struct hr_error *err)
{
    struct hr_rjpeg_info info;
    uint8_t *kept = NULL;
    int ret = hr_rjpeg_info(packed, bytes, &info, err);

    if (ret < 0)
        return ret;
    if (bytes < info.value_bytes)
        return hr_fail(err, HR_E_TRUNCATED, "repacked JPEG is cut off: %zu of %llu bytes", bytes,
                       (unsigned long long)info.value_bytes);
    struct restore *r = create(&info, packed);
    ret = r ? rj_kept_load(&info, packed, &kept, err) : hr_fail(err, HR_E_NOMEM, "no memory to restore a JPEG");
    if (ret >= 0)
        ret = restore(r, kept, take, user, err);
    hr_free(kept);
    destroy(r);
    return ret;
}

static void add_part(void *user, const uint8_t *part, size_t count)
{
    hr_buf_add(user, part, count);
}

int hr_rjpeg_restore(const uint8_t *packed, size_t bytes, struct hr_buf *jpeg, struct hr_error *err)
{
    hr_buf_reset(jpeg);
    int ret = rj_restore(packed, bytes, add_part, jpeg, err);
    if (ret >= 0 && hr_buf_failed(jpeg))
        ret = hr_fail(err, HR_E_NOMEM, "no memory for the restored JPEG");
    return ret;
}
