/* The Huffman encoder of one scan among several (ITU-T T.81, annexes F and G). Where the standard leaves a choice, how
 * long a run of ended blocks grows, it is that of the Independent JPEG Group's library (jcphuff.c), which nearly all
 * writers share: as long as it may be, cut short only where correction bits pile up. */
#include "rjpeg/progressive_write.h"

#include <stddef.h>
#include <string.h>

enum { ROOM = 16 }; /* one code with its value, and whole words are stored */

/* The coefficients of a block's band that are not 0 after the point transform, in scan order. */
struct band {
    uint32_t count;
    uint8_t at[64];
    uint16_t size[64]; /* magnitude */
    bool minus[64];
};

static void load_band(struct band *band, const struct rj_block *block, bool backwards, const struct rj_markers *m)
{
    const int16_t *v = block->values + (backwards ? __builtin_popcountll(block->mask) - 1 : 0);
    unsigned first = m->first ? m->first : 1;
    uint64_t mask = block->mask;

    band->count = 0;
    while (mask) {
        unsigned at = (unsigned)(backwards ? __builtin_clzll(mask) : __builtin_ctzll(mask));
        unsigned size = (unsigned)(*v < 0 ? -*v : *v) >> m->low;
        if (size && at >= first && at <= m->last) {
            band->at[band->count] = (uint8_t)at;
            band->size[band->count] = (uint16_t)size;
            band->minus[band->count++] = *v < 0;
        }
        v += backwards ? -1 : 1;
        mask &= backwards ? ~(1ull << 63 >> at) : mask - 1;
    }
}

static void put_coded(struct rj_progressive_writer *w, uint32_t code, int v, unsigned size)
{
    struct rj_bits b = rj_bits_open(&w->bits);

    rj_bits_put_coded(&b, code, v, size);
    rj_bits_close(&w->bits, &b);
    if (HR_UNLIKELY(w->bits.used > RJ_CHUNK - ROOM))
        rj_bits_flush(&w->bits);
}

static void put_bit(struct rj_progressive_writer *w, unsigned bit)
{
    put_coded(w, 0, (int)bit, 1); /* a code of no bits */
}

static void put_corrections(struct rj_progressive_writer *w, const uint8_t *bits, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        put_bit(w, bits[i]);
}

static void end_run(struct rj_progressive_writer *w)
{
    if (!w->eob_run)
        return;
    unsigned size = rj_category((int)w->eob_run) - 1;
    put_coded(w, w->ac_codes[size << 4], (int)(w->eob_run & ((1u << size) - 1)), size);
    put_corrections(w, w->correction, w->corrections);
    w->eob_run = w->corrections = 0;
}

static void put_zeros(struct rj_progressive_writer *w, unsigned *run)
{
    for (; *run > 15; *run -= 16)
        put_coded(w, w->ac_codes[0xf0], 0, 0);
}

static void put_dc_first(struct rj_progressive_writer *w, uint32_t c, const struct rj_block *block)
{
    int dc = block->dc >> w->markers->low, difference = dc - w->previous_dc[c];
    unsigned size = rj_category(difference);

    w->previous_dc[c] = dc;
    put_coded(w, w->dc_table[w->markers->component[c].dc_table][size], difference, size);
}

static void put_dc_refinement(struct rj_progressive_writer *w, const struct rj_block *block)
{
    put_bit(w, (unsigned)(block->dc >> w->markers->low) & 1);
}

static void put_ac_first(struct rj_progressive_writer *w, const struct rj_block *block, bool backwards)
{
    unsigned next = w->markers->first ? w->markers->first : 1;
    struct band band;

    load_band(&band, block, backwards, w->markers);
    if (band.count)
        end_run(w);
    for (uint32_t i = 0; i < band.count; i++) {
        int v = band.minus[i] ? -(int)band.size[i] : band.size[i];
        unsigned run = band.at[i] - next, size = rj_category(v);
        put_zeros(w, &run);
        put_coded(w, size > 15 ? RJ_CODE_MISSING : w->ac_codes[run << 4 | size], v, size);
        next = band.at[i] + 1u;
    }
    if (next <= w->markers->last && ++w->eob_run == RJ_EOB_RUN_MAX)
        end_run(w);
}

/* How many of the band's come up to the last one that is new in this scan; 0 = none is. */
static uint32_t count_up_to_new(const struct band *band)
{
    uint32_t count = band->count;

    while (count && band->size[count - 1] != 1)
        count--;
    return count;
}

/* Bits of coefficients that were not 0 before wait until the next code: behind those of the run of ended blocks while
 * it goes on, else from the buffer's start. */
static void put_ac_refinement(struct rj_progressive_writer *w, const struct rj_block *block, bool backwards)
{
    unsigned next = w->markers->first, run = 0;
    uint32_t from = w->corrections, count = 0;
    struct band band;

    load_band(&band, block, backwards, w->markers);
    uint32_t up_to_new = count_up_to_new(&band);
    for (uint32_t i = 0; i < band.count; i++) {
        run += band.at[i] - next;
        next = band.at[i] + 1u;
        for (; run > 15 && i < up_to_new; run -= 16) {
            end_run(w);
            put_coded(w, w->ac_codes[0xf0], 0, 0);
            put_corrections(w, w->correction + from, count);
            from = count = 0;
        }
        if (band.size[i] > 1) {
            w->correction[from + count++] = band.size[i] & 1;
            continue;
        }
        end_run(w);
        put_coded(w, w->ac_codes[run << 4 | 1], band.minus[i] ? -1 : 1, 1);
        put_corrections(w, w->correction + from, count);
        from = count = run = 0;
    }
    run += w->markers->last + 1u - next;
    if (!run && !count)
        return;
    w->eob_run++;
    w->corrections = from + count;
    if (w->eob_run == RJ_EOB_RUN_MAX || w->corrections > RJ_CORRECTIONS_MAX - 64 + 1)
        end_run(w);
}

static void put_block(struct rj_progressive_writer *w, uint32_t c, const struct rj_block *block, bool backwards)
{
    const struct rj_markers *m = w->markers;

    w->ac_codes = w->ac_table[m->component[c].ac_table];
    if (m->first == 0 && m->high)
        put_dc_refinement(w, block);
    else if (m->first == 0)
        put_dc_first(w, c, block);
    if (m->last && m->high)
        put_ac_refinement(w, block, backwards);
    else if (m->last)
        put_ac_first(w, block, backwards);
    if (!m->progressive)
        end_run(w);
}

static void begin_mcu(struct rj_progressive_writer *w)
{
    if (!w->markers->restart_interval || w->until_restart--)
        return;
    end_run(w);
    rj_bits_restart(&w->bits);
    memset(w->previous_dc, 0, sizeof(w->previous_dc));
    w->until_restart = w->markers->restart_interval - 1;
}

/* The blocks of component c in block row v of the MCU row. */
static const struct rj_block *block_row(const struct rj_progressive_writer *w, const struct rj_block *blocks,
                                        uint32_t c, uint32_t v)
{
    const struct hr_rjpeg_component *k = &w->info->component[c];

    return blocks + ((size_t)k->tile_first + (size_t)v * k->tiles_w) * RJ_TILE_BLOCKS;
}

/* A scan of one component has no MCUs of several blocks: it goes through the block rows of the picture proper. */
static void put_alone(struct rj_progressive_writer *w, uint32_t m, const struct rj_block *blocks)
{
    uint32_t c = w->markers->scan_order[0];
    const struct hr_rjpeg_component *k = &w->info->component[c];
    uint32_t across = (k->width + 7) / 8, down = (k->height + 7) / 8;

    for (uint32_t v = 0; v < k->v && m * k->v + v < down; v++) {
        const struct rj_block *row = block_row(w, blocks, c, v);
        for (uint32_t bx = 0; bx < across; bx++) {
            begin_mcu(w);
            put_block(w, c, &row[bx], bx & 1);
        }
    }
}

static void put_together(struct rj_progressive_writer *w, const struct rj_block *blocks)
{
    for (uint32_t x = 0; x < w->info->mcus_w; x++) {
        begin_mcu(w);
        for (uint32_t i = 0; i < w->markers->scan_components; i++) {
            uint32_t c = w->markers->scan_order[i];
            const struct hr_rjpeg_component *k = &w->info->component[c];
            for (uint32_t v = 0; v < k->v; v++)
                for (uint32_t bx = x * k->h; bx < (x + 1) * k->h; bx++)
                    put_block(w, c, &block_row(w, blocks, c, v)[bx], bx & 1);
        }
    }
}

void rj_progressive_row(struct rj_progressive_writer *w, uint32_t m, const struct rj_block *blocks)
{
    if (w->markers->scan_components == 1)
        put_alone(w, m, blocks);
    else
        put_together(w, blocks);
}

void rj_progressive_begin(struct rj_progressive_writer *w, const struct rj_markers *markers,
                          const struct hr_rjpeg_info *info,
                          void (*take)(void *user, const uint8_t *bytes, size_t count), void *user)
{
    memset(w, 0, offsetof(struct rj_progressive_writer, dc_table));
    w->markers = markers;
    w->info = info;
    w->until_restart = markers->restart_interval;
    rj_bits_begin(&w->bits, info->pad_ones, take, user);
    for (uint32_t i = 0; i < markers->scan_components; i++) {
        unsigned dc = markers->component[markers->scan_order[i]].dc_table;
        unsigned ac = markers->component[markers->scan_order[i]].ac_table;
        rj_load_codes(w->dc_table[dc], &markers->dc[dc]);
        rj_load_codes(w->ac_table[ac], &markers->ac[ac]);
    }
}

void rj_progressive_finish(struct rj_progressive_writer *w)
{
    end_run(w);
    rj_bits_pad(&w->bits);
}
