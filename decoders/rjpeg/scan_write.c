/* The Huffman encoder of the way back to JPEG. Zeros are stuffed in when a chunk is full, which keeps that look out
 * of the inner loop. */
#include "rjpeg/scan_write.h"

#include <stddef.h>
#include <string.h>

#include "rjpeg/level.h"

enum {
    BLOCK_ROOM = 64 * 4 + 16, /* no block takes more: codes and values of 31 bits, and whole words are stored */
    MISSING = 1u << 31,       /* in codes: there is none */
    LENGTH_BITS = 5,
};

/* Copied to locals by the inner loop, where it lives in registers. */
struct bits {
    uint64_t hold; /* from the top */
    unsigned held; /* < 8 between calls */
    uint8_t *out;
    uint32_t flags; /* MISSING once a code was */
};

/* width <= 56; value has no bits above it */
RJ_BODY void put(struct bits *b, uint64_t value, unsigned width)
{
    b->hold |= value << 1 << (63 - b->held - width);
    b->held += width;
    hr_store_le64(b->out, __builtin_bswap64(b->hold));
    b->out += b->held >> 3;
    b->hold <<= b->held & ~7u;
    b->held &= 7;
}

RJ_BODY unsigned category(int v)
{
    uint32_t size = (uint32_t)(v < 0 ? -v : v);
    return size ? 32 - (unsigned)__builtin_clz(size) : 0;
}

/* A code and the bits of its value in one go. */
RJ_BODY void put_coded(struct bits *b, uint32_t code, int v, unsigned size)
{
    uint32_t value = (uint32_t)(v + (v >> 31)) & ((1u << size) - 1);
    unsigned length = code & ((1 << LENGTH_BITS) - 1);

    b->flags |= code;
    put(b, (uint64_t)(code >> LENGTH_BITS & 0xffff) << size | value, length + size);
}

RJ_BODY void put_ac(struct bits *b, const uint32_t codes[256], const struct rj_block *block, bool backwards)
{
    const int16_t *v = block->values + (backwards ? __builtin_popcountll(block->mask) - 1 : 0);
    uint64_t mask = block->mask;
    unsigned at = 0;

    while (mask) {
        unsigned position = (unsigned)(backwards ? __builtin_clzll(mask) : __builtin_ctzll(mask));
        unsigned run = position - at - 1, size = category(*v);
        for (; HR_UNLIKELY(run > 15); run -= 16)
            put_coded(b, codes[0xf0], 0, 0);
        if (HR_UNLIKELY(size - 1 > 14)) {
            b->flags |= MISSING;
            return;
        }
        put_coded(b, codes[run << 4 | size], *v, size);
        v += backwards ? -1 : 1;
        at = position;
        mask &= backwards ? ~(1ull << 63 >> position) : mask - 1;
    }
    if (at < 63)
        put_coded(b, codes[0], 0, 0);
}

/* Gives out the whole bytes with a zero behind each FF. */
static void flush(struct rj_scan_writer *w)
{
    const uint8_t *p = w->chunk, *end = p + w->used;
    uint8_t *out = w->stuffed;

    while (p < end) {
        const uint8_t *ff = memchr(p, 0xff, (size_t)(end - p));
        size_t count = (size_t)((ff ? ff + 1 : end) - p);
        memcpy(out, p, count);
        out += count;
        p += count;
        if (ff)
            *out++ = 0;
    }
    w->take(w->user, w->stuffed, (size_t)(out - w->stuffed));
    w->used = 0;
}

RJ_BODY void put_block(struct rj_scan_writer *w, uint32_t c, const struct rj_block *block, bool backwards)
{
    struct bits b = {w->hold, w->held, w->chunk + w->used, 0};
    int difference = block->dc - w->previous_dc[c];
    unsigned size = category(difference);
    const uint32_t *ac = w->ac_codes[w->markers->component[c].ac_table];

    w->previous_dc[c] = block->dc;
    put_coded(&b, w->dc_codes[w->markers->component[c].dc_table][size], difference, size);
    if (backwards)
        put_ac(&b, ac, block, true);
    else
        put_ac(&b, ac, block, false);
    w->hold = b.hold;
    w->held = b.held;
    w->used = (size_t)(b.out - w->chunk);
    w->failed |= (b.flags & MISSING) != 0;
    if (HR_UNLIKELY(w->used > RJ_SCAN_CHUNK - BLOCK_ROOM))
        flush(w);
}

/* Fills up the last byte and gives out all there is. */
static void pad(struct rj_scan_writer *w)
{
    if (w->held) {
        w->chunk[w->used] = (uint8_t)(w->hold >> 56);
        if (w->pad_ones)
            w->chunk[w->used] |= (uint8_t)(0xff >> w->held);
        w->used++;
    }
    w->hold = 0;
    w->held = 0;
    flush(w);
}

static void put_restart(struct rj_scan_writer *w)
{
    const uint8_t marker[2] = {0xff, (uint8_t)(0xd0 + (w->restarts++ & 7))};

    pad(w);
    w->take(w->user, marker, sizeof(marker));
    memset(w->previous_dc, 0, sizeof(w->previous_dc));
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
            put_restart(w);
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

static void load_codes(uint32_t codes[256], const struct rj_huffman *h)
{
    for (int i = 0; i < 256; i++)
        codes[i] = h->size[i] ? (uint32_t)h->code[i] << LENGTH_BITS | h->size[i] : MISSING;
}

void rj_scan_begin(struct rj_scan_writer *w, const struct rj_markers *markers, const struct hr_rjpeg_info *info,
                   void (*take)(void *user, const uint8_t *bytes, size_t count), void *user)
{
    memset(w, 0, offsetof(struct rj_scan_writer, dc_codes));
    w->markers = markers;
    w->info = info;
    w->pad_ones = info->pad_ones;
    w->take = take;
    w->user = user;
    w->row = rj_has_bmi() ? put_row_bmi : put_row_plain;
    w->until_restart = markers->restart_interval;
    for (uint32_t c = 0; c < info->components; c++) {
        unsigned dc = markers->component[c].dc_table, ac = markers->component[c].ac_table;
        load_codes(w->dc_codes[dc], &markers->dc[dc]);
        load_codes(w->ac_codes[ac], &markers->ac[ac]);
    }
}

void rj_scan_finish(struct rj_scan_writer *w)
{
    pad(w);
}
