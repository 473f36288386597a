/* The way back to JPEG: the kept bytes before the scan, the scan written again from the coefficients
 * with the file's own Huffman tables and restart interval, the kept bytes after it. */
#include <string.h>

#include <lz4.h>

#include "base/mem.h"
#include "rjpeg/kept.h"
#include "rjpeg/markers.h"
#include "rjpeg/tile.h"
#include "rjpeg/tiles.h"

enum {
    CHUNK = 1 << 14,
    BLOCK_ROOM = 1024, /* no block takes more: 64 symbols of up to 32 bits, every byte stuffed */
};

struct scan {
    const struct rj_markers *markers;
    struct hr_buf *out;
    uint64_t hold; /* bits wait in the low end */
    unsigned held;
    bool pad_ones, failed;
    int16_t previous_dc[3];
    size_t used;
    uint8_t chunk[CHUNK];
};

static void flush(struct scan *s)
{
    hr_buf_add(s->out, s->chunk, s->used);
    s->used = 0;
}

static inline void put(struct scan *s, uint32_t value, unsigned width)
{
    s->hold = s->hold << width | value;
    for (s->held += width; s->held >= 8; s->held -= 8) {
        uint8_t byte = (uint8_t)(s->hold >> (s->held - 8));
        s->chunk[s->used++] = byte;
        if (byte == 0xff)
            s->chunk[s->used++] = 0;
    }
}

static void pad(struct scan *s)
{
    unsigned missing = -s->held & 7;
    put(s, s->pad_ones ? (1u << missing) - 1 : 0, missing);
}

static inline void put_symbol(struct scan *s, const struct rj_huffman *table, unsigned symbol)
{
    if (!table->size[symbol])
        s->failed = true;
    put(s, table->code[symbol], table->size[symbol]);
}

static inline unsigned category(int v)
{
    return v ? 32 - (unsigned)__builtin_clz((unsigned)(v < 0 ? -v : v)) : 0;
}

static inline void put_magnitude(struct scan *s, int v, unsigned bits)
{
    put(s, (uint32_t)(v < 0 ? v - 1 : v) & ((1u << bits) - 1), bits);
}

static void put_dc(struct scan *s, uint32_t c, int16_t dc)
{
    int difference = dc - s->previous_dc[c];
    unsigned bits = category(difference);

    s->previous_dc[c] = dc;
    put_symbol(s, &s->markers->dc[s->markers->component[c].dc_table], bits);
    put_magnitude(s, difference, bits);
}

static void put_block(struct scan *s, uint32_t c, const int16_t coef[64])
{
    const struct rj_huffman *ac = &s->markers->ac[s->markers->component[c].ac_table];
    unsigned run = 0;

    put_dc(s, c, coef[0]);
    for (int i = 1; i < 64; i++) {
        int v = coef[rj_natural_order[i]];
        if (!v) {
            run++;
            continue;
        }
        for (; run > 15; run -= 16)
            put_symbol(s, ac, 0xf0);
        unsigned bits = category(v);
        if (bits > 15)
            s->failed = true;
        put_symbol(s, ac, run << 4 | (bits & 15));
        put_magnitude(s, v, bits);
        run = 0;
    }
    if (run)
        put_symbol(s, ac, 0);
    if (s->used > CHUNK - BLOCK_ROOM)
        flush(s);
}

static void put_restart(struct scan *s, uint32_t number)
{
    pad(s);
    s->chunk[s->used++] = 0xff;
    s->chunk[s->used++] = (uint8_t)(0xd0 + (number & 7));
    memset(s->previous_dc, 0, sizeof(s->previous_dc));
}

struct restore {
    struct hr_rjpeg_info info;
    struct rj_tiles tiles;
    struct rj_markers markers;
    struct scan scan;
    uint8_t guarded[RJ_TILE_MAX + RJ_TILE_READ]; /* the tile at hand, with readable bytes behind */
    int16_t (*coef)[64];                         /* one MCU row; each block row in whole tiles */
};

static int read_tile(struct restore *r, uint32_t p, uint32_t blocks, int16_t (*coef)[64], struct hr_error *err)
{
    const uint8_t *bytes = NULL;
    uint32_t size = 0;
    int ret = rj_tiles_take(&r->tiles, p, blocks, &bytes, &size, err);

    if (ret < 0)
        return ret;
    memcpy(r->guarded, bytes, size);
    memset(r->guarded + size, 0, RJ_TILE_READ);
    if (!rj_tile_coefficients(r->guarded, size, blocks, coef))
        return hr_fail(err, HR_E_DECODE, "repacked JPEG has a damaged tile");
    return 0;
}

static int read_mcu_row(struct restore *r, uint32_t m, struct hr_error *err)
{
    int16_t(*coef)[64] = r->coef;
    int ret = rj_tiles_row(&r->tiles, m, err);

    for (uint32_t c = 0; c < r->info.components && ret >= 0; c++) {
        const struct hr_rjpeg_component *k = &r->info.component[c];
        for (uint32_t row = 0; row < k->v; row++)
            for (uint32_t p = 0, t = 0; p < r->info.panels; p++)
                for (; t < rj_panel_tile(&r->info, k, p + 1); t++, coef += RJ_TILE_BLOCKS) {
                    ret = read_tile(r, p, rj_tile_blocks(k, t * RJ_TILE_BLOCKS), coef, err);
                    if (ret < 0)
                        return ret;
                }
    }
    return ret;
}

static void put_mcu(struct restore *r, uint32_t x)
{
    for (uint32_t i = 0; i < r->info.components; i++) {
        uint32_t c = r->markers.scan_order[i];
        const struct hr_rjpeg_component *k = &r->info.component[c];
        const int16_t(*row)[64] = (const int16_t(*)[64])r->coef + k->tile_first * RJ_TILE_BLOCKS;
        for (uint32_t v = 0; v < k->v; v++, row += k->tiles_w * RJ_TILE_BLOCKS)
            for (uint32_t h = 0; h < k->h; h++)
                put_block(&r->scan, c, row[x * k->h + h]);
    }
}

static int put_scan(struct restore *r, struct hr_error *err)
{
    uint32_t interval = r->markers.restart_interval, left = interval, restarts = 0;

    for (uint32_t m = 0; m < r->info.mcu_rows; m++) {
        int ret = read_mcu_row(r, m, err);
        if (ret < 0)
            return ret;
        for (uint32_t x = 0; x < r->info.mcus_w; x++) {
            if (interval && !left--) {
                put_restart(&r->scan, restarts++);
                left = interval - 1;
            }
            put_mcu(r, x);
        }
        if (r->scan.failed)
            return hr_fail(err, HR_E_DECODE, "repacked JPEG has coefficients without a code");
    }
    pad(&r->scan);
    flush(&r->scan);
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

static int restore(struct restore *r, const uint8_t *kept, struct hr_buf *jpeg, struct hr_error *err)
{
    int ret = rj_read_markers(kept, r->info.jpeg_head_bytes, &r->markers, err);

    if (ret >= 0)
        ret = check_markers(r, err);
    if (ret < 0)
        return ret == HR_E_FORMAT ? HR_E_DECODE : ret;
    r->scan.markers = &r->markers;
    r->scan.out = jpeg;
    r->scan.pad_ones = r->info.pad_ones;
    hr_buf_add(jpeg, kept, r->info.jpeg_head_bytes);
    ret = put_scan(r, err);
    if (ret < 0)
        return ret;
    hr_buf_add(jpeg, kept + r->info.jpeg_head_bytes, r->info.jpeg_tail_bytes);
    return hr_buf_failed(jpeg) ? hr_fail(err, HR_E_NOMEM, "no memory for the restored JPEG") : 0;
}

int hr_rjpeg_restore(const uint8_t *packed, size_t bytes, struct hr_buf *jpeg, struct hr_error *err)
{
    struct hr_rjpeg_info info;
    uint8_t *kept = NULL;
    int ret = hr_rjpeg_info(packed, bytes, &info, err);

    hr_buf_reset(jpeg);
    if (ret < 0)
        return ret;
    if (bytes < info.value_bytes)
        return hr_fail(err, HR_E_TRUNCATED, "repacked JPEG is cut off: %zu of %llu bytes", bytes,
                       (unsigned long long)info.value_bytes);
    struct restore *r = hr_alloc_zero(1, sizeof(*r));
    if (r)
        r->coef = hr_alloc_zero(info.tiles_per_mcu_row * RJ_TILE_BLOCKS, sizeof(*r->coef));
    ret = r && r->coef ? rj_kept_load(&info, packed, &kept, err)
                       : hr_fail(err, HR_E_NOMEM, "no memory to restore a JPEG");
    if (ret >= 0) {
        struct hr_rjpeg_view view = hr_rjpeg_view_whole(packed, info.head_bytes + info.data_bytes);
        r->info = info;
        rj_tiles_begin(&r->tiles, &r->info, &view, 0, info.panels);
        ret = restore(r, kept, jpeg, err);
    }
    hr_free(kept);
    if (r)
        hr_free(r->coef);
    hr_free(r);
    return ret;
}
