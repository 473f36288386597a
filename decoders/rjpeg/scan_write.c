/* The Huffman encoder of the way back to JPEG, for files of one scan. */
#include "rjpeg/scan_write.h"

#include <stddef.h>
#include <string.h>

enum {
    BLOCK_ROOM = 64 * 4 + 16, /* no block takes more: codes and values of 31 bits, and whole words are stored */
};

RJ_BODY void put_ac(struct rj_bits *b, const uint32_t codes[256], const struct rj_block *block, bool backwards)
{
    const int16_t *v = block->values + (backwards ? __builtin_popcountll(block->mask) - 1 : 0);
    uint64_t mask = block->mask;
    unsigned at = 0;

    while (mask) {
        unsigned position = (unsigned)(backwards ? __builtin_clzll(mask) : __builtin_ctzll(mask));
        unsigned run = position - at - 1, size = rj_category(*v);
        for (; HR_UNLIKELY(run > 15); run -= 16)
            rj_bits_put_coded(b, codes[0xf0], 0, 0);
        if (HR_UNLIKELY(size - 1 > 14)) {
            b->flags |= RJ_CODE_MISSING;
            return;
        }
        rj_bits_put_coded(b, codes[run << 4 | size], *v, size);
        v += backwards ? -1 : 1;
        at = position;
        mask &= backwards ? ~(1ull << 63 >> position) : mask - 1;
    }
    if (at < 63)
        rj_bits_put_coded(b, codes[0], 0, 0);
}

RJ_BODY void put_block(struct rj_scan_writer *w, uint32_t c, const struct rj_block *block, bool backwards)
{
    struct rj_bits b = rj_bits_open(&w->bits);
    int difference = block->dc - w->previous_dc[c];
    unsigned size = rj_category(difference);
    const uint32_t *ac = w->ac_codes[w->markers->component[c].ac_table];

    w->previous_dc[c] = block->dc;
    rj_bits_put_coded(&b, w->dc_codes[w->markers->component[c].dc_table][size], difference, size);
    if (backwards)
        put_ac(&b, ac, block, true);
    else
        put_ac(&b, ac, block, false);
    rj_bits_close(&w->bits, &b);
    if (HR_UNLIKELY(w->bits.used > RJ_CHUNK - BLOCK_ROOM))
        rj_bits_flush(&w->bits);
}

RJ_BODY void put_mcu(struct rj_scan_writer *w, const struct rj_block *blocks, uint32_t x)
{
    for (uint32_t i = 0; i < w->info->components; i++) {
        uint32_t c = w->markers->scan_order[i];
        const struct hr_rjpeg_component *k = &w->info->component[c];
        const struct rj_block *row = blocks + (size_t)k->tile_first * RJ_TILE_BLOCKS;
        for (uint32_t v = 0; v < k->v; v++, row += k->tiles_w * RJ_TILE_BLOCKS)
            for (uint32_t bx = x * k->h; bx < (x + 1) * k->h; bx++)
                put_block(w, c, &row[bx], bx & 1);
    }
}

RJ_BODY void put_row(struct rj_scan_writer *w, const struct rj_block *blocks)
{
    for (uint32_t x = 0; x < w->info->mcus_w; x++) {
        if (w->markers->restart_interval && !w->until_restart--) {
            rj_bits_restart(&w->bits);
            memset(w->previous_dc, 0, sizeof(w->previous_dc));
            w->until_restart = w->markers->restart_interval - 1;
        }
        put_mcu(w, blocks, x);
    }
}

static void put_row_plain(struct rj_scan_writer *w, const struct rj_block *blocks)
{
    put_row(w, blocks);
}

static RJ_BMI void put_row_bmi(struct rj_scan_writer *w, const struct rj_block *blocks)
{
    put_row(w, blocks);
}

void rj_scan_row(struct rj_scan_writer *w, const struct rj_block *blocks)
{
    w->row(w, blocks);
}

void rj_scan_begin(struct rj_scan_writer *w, const struct rj_markers *markers, const struct hr_rjpeg_info *info,
                   void (*take)(void *user, const uint8_t *bytes, size_t count), void *user)
{
    memset(w, 0, offsetof(struct rj_scan_writer, dc_codes));
    w->markers = markers;
    w->info = info;
    w->row = rj_has_bmi() ? put_row_bmi : put_row_plain;
    w->until_restart = markers->restart_interval;
    rj_bits_begin(&w->bits, info->pad_ones, take, user);
    for (uint32_t c = 0; c < info->components; c++) {
        unsigned dc = markers->component[c].dc_table, ac = markers->component[c].ac_table;
        rj_load_codes(w->dc_codes[dc], &markers->dc[dc]);
        rj_load_codes(w->ac_codes[ac], &markers->ac[ac]);
    }
}

void rj_scan_finish(struct rj_scan_writer *w)
{
    rj_bits_pad(&w->bits);
}
