/* The way back to JPEG: the kept bytes before the scan, the scan written again from the coefficients
 * with the file's own Huffman tables and restart interval, the kept bytes after it. Files of several scans are written
 * in as many passes over the tiles, so that a row of MCUs is all there is in memory. */
#include "rjpeg/restore.h"

#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "rjpeg/kept.h"
#include "rjpeg/markers.h"
#include "rjpeg/progressive_write.h"
#include "rjpeg/scan_write.h"
#include "rjpeg/script.h"
#include "rjpeg/tile.h"
#include "rjpeg/tiles.h"

enum { TILE_VALUES = RJ_TILE_VALUES + 8 };

struct restore {
    struct hr_rjpeg_info info;
    struct hr_rjpeg_view view;
    void (*take)(void *user, const uint8_t *part, size_t count);
    void *user;
    struct rj_tiles tiles;
    struct rj_markers markers;
    union {
        struct rj_scan_writer scan;
        struct rj_progressive_writer step; /* one scan of several */
    };
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

/* One block row of component c, to place `at`. */
static int read_block_row(struct restore *r, const struct hr_rjpeg_component *k, uint32_t at, struct hr_error *err)
{
    for (uint32_t p = 0, t = 0; p < r->info.panels; p++)
        for (; t < rj_panel_tile(&r->info, k, p + 1); t++, at++) {
            int ret = read_tile(r, p, rj_tile_blocks(k, t * RJ_TILE_BLOCKS), at, err);
            if (ret < 0)
                return ret;
        }
    return 0;
}

static void skip_block_row(struct restore *r, const struct hr_rjpeg_component *k)
{
    for (uint32_t p = 0; p < r->info.panels; p++)
        rj_tiles_skip(&r->tiles, p, rj_panel_tile(&r->info, k, p + 1) - rj_panel_tile(&r->info, k, p));
}

/* wanted: bit c for each component that is. */
static int read_mcu_row(struct restore *r, uint32_t m, unsigned wanted, struct hr_error *err)
{
    uint32_t at = 0;
    int ret = rj_tiles_row(&r->tiles, m, err);

    for (uint32_t c = 0; c < r->info.components && ret >= 0; c++) {
        const struct hr_rjpeg_component *k = &r->info.component[c];
        for (uint32_t row = 0; row < k->v && ret >= 0; row++, at += k->tiles_w)
            if (wanted >> c & 1)
                ret = read_block_row(r, k, at, err);
            else
                skip_block_row(r, k);
    }
    return ret;
}

static int fail_codes(struct hr_error *err)
{
    return hr_fail(err, HR_E_DECODE, "repacked JPEG has coefficients without a code");
}

static int put_scan(struct restore *r, struct hr_error *err)
{
    rj_scan_begin(&r->scan, &r->markers, &r->info, r->take, r->user);
    for (uint32_t m = 0; m < r->info.mcu_rows; m++) {
        int ret = read_mcu_row(r, m, UINT_MAX, err);
        if (ret < 0)
            return ret;
        rj_scan_row(&r->scan, r->blocks);
        if (r->scan.bits.failed)
            return fail_codes(err);
    }
    rj_scan_finish(&r->scan);
    return 0;
}

static int put_step(struct restore *r, struct hr_error *err)
{
    unsigned wanted = 0;

    for (uint32_t i = 0; i < r->markers.scan_components; i++)
        wanted |= 1u << r->markers.scan_order[i];
    rj_tiles_begin(&r->tiles, &r->info, &r->view, 0, r->info.panels);
    rj_progressive_begin(&r->step, &r->markers, &r->info, r->take, r->user);
    for (uint32_t m = 0; m < r->info.mcu_rows; m++) {
        int ret = read_mcu_row(r, m, wanted, err);
        if (ret < 0)
            return ret;
        rj_progressive_row(&r->step, m, r->blocks);
        if (r->step.bits.failed)
            return fail_codes(err);
    }
    rj_progressive_finish(&r->step);
    return r->step.bits.failed ? fail_codes(err) : 0;
}

static int fail_markers(struct hr_error *err)
{
    return hr_fail(err, HR_E_DECODE, "repacked JPEG keeps markers of another picture");
}

/* The kept markers must describe the picture that the head describes. */
static int check_markers(const struct restore *r, struct hr_error *err)
{
    const struct rj_markers *m = &r->markers;
    bool same = m->width == r->info.width && m->height == r->info.height && m->components == r->info.components &&
                m->progressive == r->info.progressive;

    for (uint32_t c = 0; same && c < m->components && m->components > 1; c++)
        same = m->component[c].h == r->info.component[c].h && m->component[c].v == r->info.component[c].v;
    return same ? 0 : fail_markers(err);
}

static int restore(struct restore *r, const uint8_t *kept, struct hr_error *err)
{
    size_t head = r->info.jpeg_head_bytes;
    int ret = rj_read_markers(kept, head, &r->markers, err);

    if (ret >= 0 && r->markers.head_bytes != head)
        ret = fail_markers(err);
    if (ret >= 0)
        ret = check_markers(r, err);
    if (ret < 0)
        return ret;
    r->take(r->user, kept, head);
    return put_scan(r, err);
}

/* The bytes between scans say of themselves where they end: where the next scan begins. */
static int restore_several(struct restore *r, const uint8_t *kept, struct hr_error *err)
{
    size_t head = r->info.jpeg_head_bytes, from = 0;
    struct rj_script script = {0};
    int ret = rj_markers_begin(kept, head, &r->markers, err);

    if (ret >= 0)
        ret = check_markers(r, err);
    while (ret >= 0) {
        ret = rj_script_add(&script, &r->markers, err);
        if (ret < 0)
            return ret;
        r->take(r->user, kept + from, r->markers.head_bytes - from);
        from = r->markers.head_bytes;
        ret = put_step(r, err);
        if (ret >= 0 && from == head)
            return 0;
        if (ret >= 0 && rj_markers_next(kept, head, from, &r->markers, err) != 0)
            ret = fail_markers(err);
    }
    return ret;
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
    r->view = hr_rjpeg_view_whole(packed, info->head_bytes + info->data_bytes);
    r->info = *info;
    rj_tiles_begin(&r->tiles, &r->info, &r->view, 0, info->panels);
    r->blocks = hr_alloc((size_t)info->tiles_per_mcu_row * RJ_TILE_BLOCKS * sizeof(*r->blocks));
    r->values = hr_alloc((size_t)info->tiles_per_mcu_row * TILE_VALUES * sizeof(*r->values));
    if (r->blocks && r->values)
        return r;
    destroy(r);
    return NULL;
}

static int restore_file(struct restore *r, const uint8_t *kept, struct hr_error *err)
{
    size_t head = r->info.jpeg_head_bytes;
    int ret = r->info.several ? restore_several(r, kept, err) : restore(r, kept, err);

    if (ret < 0)
        return ret == HR_E_FORMAT ? HR_E_DECODE : ret;
    r->take(r->user, kept + head, r->info.jpeg_tail_bytes);
    return 0;
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
    if (ret >= 0) {
        r->take = take;
        r->user = user;
        ret = restore_file(r, kept, err);
    }
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
