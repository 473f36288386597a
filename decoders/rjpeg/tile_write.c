/* Writes one tile of quantized coefficients as plain bit fields. */
#include <string.h>

#include "rjpeg/tile.h"

struct bits {
    uint8_t *out;
    size_t bytes;
    uint64_t hold;
    unsigned held; /* < 8 between calls */
};

static void put(struct bits *b, uint32_t value, unsigned width)
{
    b->hold |= (uint64_t)value << b->held;
    for (b->held += width; b->held >= 8; b->held -= 8, b->hold >>= 8)
        b->out[b->bytes++] = (uint8_t)b->hold;
}

static void pad_to_byte(struct bits *b)
{
    if (b->held)
        put(b, 0, 8 - b->held);
}

static void pad_to_nibble(struct bits *b)
{
    put(b, 0, -b->held & 3);
}

static unsigned width_of(uint32_t v)
{
    return v ? 32 - (unsigned)__builtin_clz(v) : 0;
}

/* 0, -1, 1, -2 … become 0, 1, 2, 3 … */
static uint32_t fold(int v)
{
    return v < 0 ? (uint32_t)~v * 2 + 1 : (uint32_t)v * 2;
}

struct writer {
    struct bits bits;
    const int16_t (*coef)[64];
    uint32_t count;
    unsigned last[RJ_TILE_BLOCKS];
    uint8_t fields[RJ_TILE_VALUES + 8];
    uint32_t field_count;
    int16_t exceptions[RJ_TILE_VALUES];
    uint32_t exception_count;
};

static bool put_dc_differences(struct writer *w)
{
    uint32_t folded[RJ_TILE_BLOCKS] = {0};
    unsigned width[2] = {0, 0};

    for (uint32_t i = 0; i < w->count; i++) {
        if (w->coef[i][0] < -2048 || w->coef[i][0] > 2047)
            return false;
        folded[i] = i ? fold(w->coef[i][0] - w->coef[i - 1][0]) : 0;
        if (width_of(folded[i]) > width[i / 8])
            width[i / 8] = width_of(folded[i]);
    }
    w->bits.out[2] = (uint8_t)(width[0] | width[1] << 4);
    for (uint32_t i = 0; i < RJ_TILE_BLOCKS; i++)
        put(&w->bits, folded[i], width[i / 8]);
    return true;
}

/* Returns how many bits fewer than six each takes. */
static unsigned put_last(struct writer *w)
{
    unsigned all = 0, width;

    for (uint32_t i = 0; i < w->count; i++) {
        unsigned j = 63;
        while (j && !w->coef[i][rj_natural_order[j]])
            j--;
        w->last[i] = j;
        all |= j;
    }
    width = width_of(all) > RJ_LAST_BITS_MIN ? width_of(all) : RJ_LAST_BITS_MIN;
    for (uint32_t i = 0; i < w->count; i++)
        put(&w->bits, w->last[i], width);
    pad_to_byte(&w->bits);
    return RJ_LAST_BITS - width;
}

static void add_value(struct writer *w, int v)
{
    if (v > 127 || v < -127) {
        w->exceptions[w->exception_count++] = (int16_t)v;
        v = -128;
    }
    w->fields[w->field_count++] = (uint8_t)(v > 0 ? (v - 1) * 2 : ~v * 2 + 1);
}

/* Block i's scan, forwards in even blocks and backwards in odd ones. */
static void scan_block(struct writer *w, uint32_t i)
{
    unsigned last = w->last[i];

    for (unsigned t = 1; t <= last; t++) {
        unsigned j = i & 1 ? last + 1 - t : t;
        int v = w->coef[i][rj_natural_order[j]];
        if (j != last)
            put(&w->bits, v != 0, 1);
        if (v)
            add_value(w, v);
    }
}

/* Returns whether some eight values take 64 bits. */
static bool put_values(struct writer *w)
{
    uint8_t width[2 * RJ_TILE_BLOCKS * 8 + 2];
    uint32_t fours = (w->field_count + 7) / 8 * 2;
    bool wide = false;

    memset(w->fields + w->field_count, 0, fours * 4 - w->field_count);
    for (uint32_t g = 0; g < fours; g++) {
        uint32_t all = 1;
        for (int i = 0; i < 4; i++)
            all |= w->fields[4 * g + (unsigned)i];
        width[g] = (uint8_t)width_of(all);
        wide |= g & 1 && width[g] == 8 && width[g - 1] == 8;
        put(&w->bits, width[g] - 1u, 3);
    }
    pad_to_nibble(&w->bits);
    for (uint32_t i = 0; i < fours * 4; i++)
        put(&w->bits, w->fields[i], width[i / 4]);
    pad_to_byte(&w->bits);
    return wide;
}

size_t rj_tile_write(const int16_t (*coef)[64], uint32_t count, uint8_t *out)
{
    struct writer w = {.bits = {.out = out, .bytes = 3}, .coef = coef, .count = count};
    uint32_t head = (uint32_t)coef[0][0] & 0xfff;

    head |= put_last(&w) << RJ_TILE_LAST_SHIFT;
    if (!put_dc_differences(&w))
        return 0;
    for (uint32_t i = 0; i < count; i++)
        scan_block(&w, i);
    if (put_values(&w))
        head |= RJ_TILE_WIDE;
    if (w.exception_count)
        head |= RJ_TILE_EXCEPTIONS;
    for (uint32_t i = w.exception_count; i--; w.bits.bytes += 2)
        hr_store_le16(out + w.bits.bytes, (uint16_t)w.exceptions[i]);
    hr_store_le16(out, (uint16_t)head);
    return w.bits.bytes;
}
