/* Writes one tile of quantized coefficients as plain bit fields. */
#include <string.h>

#include "rjpeg/level.h"
#include "rjpeg/tile.h"

/* Whole 64-bit words are stored, so that up to 8 bytes behind the last field are written too. */
struct bits {
    uint8_t *out; /* the first byte that is not complete */
    uint64_t hold;
    unsigned held; /* < 8 between calls */
};

/* width <= 56 */
RJ_BODY void put(struct bits *b, uint64_t value, unsigned width)
{
    b->hold |= value << b->held;
    b->held += width;
    hr_store_le64(b->out, b->hold);
    b->out += b->held >> 3;
    b->hold >>= b->held & ~7u;
    b->held &= 7;
}

RJ_BODY void pad_to(struct bits *b, unsigned bits)
{
    put(b, 0, -b->held & (bits - 1));
}

RJ_BODY unsigned width_of(uint32_t v)
{
    return v ? 32 - (unsigned)__builtin_clz(v) : 0;
}

/* 0, -1, 1, -2 … become 0, 1, 2, 3 … */
RJ_BODY uint32_t fold(int v)
{
    return v < 0 ? (uint32_t)~v * 2 + 1 : (uint32_t)v * 2;
}

RJ_BODY unsigned last_of(uint64_t mask)
{
    return mask ? 63 - (unsigned)__builtin_clzll(mask) : 0;
}

RJ_BODY uint64_t reverse(uint64_t v)
{
    const uint64_t ones = 0x5555555555555555, twos = 0x3333333333333333, fours = 0x0f0f0f0f0f0f0f0f;

    v = (v >> 1 & ones) | (v & ones) << 1;
    v = (v >> 2 & twos) | (v & twos) << 2;
    v = (v >> 4 & fours) | (v & fours) << 4;
    return __builtin_bswap64(v);
}

struct writer {
    struct bits bits;
    const struct rj_block *blocks;
    uint32_t count;
    uint8_t fields[RJ_TILE_VALUES + 8];
    uint32_t field_count;
    int16_t exceptions[RJ_TILE_VALUES];
    uint32_t exception_count;
};

RJ_BODY uint8_t put_dc_differences(struct writer *w)
{
    uint32_t folded[RJ_TILE_BLOCKS] = {0}, all[2] = {0, 0};
    unsigned width[2];

    for (uint32_t i = 1; i < w->count; i++) {
        folded[i] = fold(w->blocks[i].dc - w->blocks[i - 1].dc);
        all[i / 8] |= folded[i];
    }
    width[0] = width_of(all[0]);
    width[1] = width_of(all[1]);
    for (uint32_t i = 0; i < RJ_TILE_BLOCKS; i++)
        put(&w->bits, folded[i], width[i / 8]);
    return (uint8_t)(width[0] | width[1] << 4);
}

/* Returns how many bits fewer than six each takes. */
RJ_BODY unsigned put_last(struct writer *w)
{
    unsigned width = RJ_LAST_BITS_MIN;
    uint64_t all = 0;

    for (uint32_t i = 0; i < w->count; i++)
        all |= w->blocks[i].mask;
    if (width_of(last_of(all)) > width)
        width = width_of(last_of(all));
    for (uint32_t i = 0; i < w->count; i++)
        put(&w->bits, last_of(w->blocks[i].mask), width);
    pad_to(&w->bits, 8);
    return RJ_LAST_BITS - width;
}

RJ_BODY void put_masks(struct writer *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        uint64_t mask = w->blocks[i].mask;
        unsigned last = last_of(mask);
        if (last < 2)
            continue;
        mask = (i & 1 ? reverse(mask) >> (64 - last) : mask >> 1) & ((1ull << (last - 1)) - 1);
        put(&w->bits, mask & 0x7fffffff, last - 1 < 31 ? last - 1 : 31);
        if (last - 1 > 31)
            put(&w->bits, mask >> 31, last - 1 - 31);
    }
}

static uint8_t add_exception(struct writer *w, int16_t v)
{
    w->exceptions[w->exception_count++] = v;
    return 255;
}

/* The values of all blocks, forwards in even and backwards in odd ones, with the sign in the lowest bit. */
RJ_BODY void fold_values(struct writer *w)
{
    uint8_t *out = w->fields;

    for (uint32_t i = 0; i < w->count; i++) {
        int count = __builtin_popcountll(w->blocks[i].mask), step = i & 1 ? -1 : 1;
        const int16_t *v = w->blocks[i].values + (i & 1 ? count - 1 : 0);
        for (; count; count--, v += step) {
            int sign = *v >> 15, size = (*v ^ sign) - sign;
            *out++ = HR_LIKELY(size <= 127) ? (uint8_t)((size - 1) * 2 - sign) : add_exception(w, *v);
        }
    }
    w->field_count = (uint32_t)(out - w->fields);
    memset(out, 0, -w->field_count & 7);
}

RJ_BODY unsigned width_of_four(const uint8_t *fields)
{
    uint32_t v = hr_load_le32(fields);

    v |= v >> 16;
    v |= v >> 8;
    return width_of((v & 255) | 1);
}

RJ_BODY uint32_t pack_four(const uint8_t *fields, unsigned width)
{
    uint32_t low = fields[0] | (uint32_t)fields[1] << width, high = fields[2] | (uint32_t)fields[3] << width;

    return low | high << 2 * width;
}

/* Returns whether some eight values take 64 bits. */
RJ_BODY bool put_values(struct writer *w)
{
    uint8_t width[2 * RJ_TILE_BLOCKS * 8 + 2];
    uint32_t fours = (w->field_count + 7) / 8 * 2;
    bool wide = false;

    for (uint32_t g = 0; g < fours; g += 2) {
        width[g] = (uint8_t)width_of_four(w->fields + 4 * g);
        width[g + 1] = (uint8_t)width_of_four(w->fields + 4 * g + 4);
        wide |= width[g] + width[g + 1] == 16;
        put(&w->bits, (width[g] - 1u) | (width[g + 1] - 1u) << 3, 6);
    }
    pad_to(&w->bits, 4);
    for (uint32_t g = 0; g < fours; g++)
        put(&w->bits, pack_four(w->fields + 4 * g, width[g]), 4u * width[g]);
    pad_to(&w->bits, 8);
    return wide;
}

RJ_BODY size_t write_tile(const struct rj_block *blocks, uint32_t count, uint8_t *out)
{
    struct writer w;
    uint32_t head = (uint32_t)blocks[0].dc & 0xfff;

    w.bits = (struct bits){.out = out + 3};
    w.blocks = blocks;
    w.count = count;
    w.exception_count = 0;
    head |= put_last(&w) << RJ_TILE_LAST_SHIFT;
    out[2] = put_dc_differences(&w);
    put_masks(&w);
    fold_values(&w);
    if (put_values(&w))
        head |= RJ_TILE_WIDE;
    if (w.exception_count)
        head |= RJ_TILE_EXCEPTIONS;
    for (uint32_t i = w.exception_count; i--; w.bits.out += 2)
        hr_store_le16(w.bits.out, (uint16_t)w.exceptions[i]);
    hr_store_le16(out, (uint16_t)head);
    return (size_t)(w.bits.out - out);
}

static RJ_BMI size_t write_tile_bmi(const struct rj_block *blocks, uint32_t count, uint8_t *out)
{
    return write_tile(blocks, count, out);
}

size_t rj_tile_write(const struct rj_block *blocks, uint32_t count, uint8_t *out)
{
    return rj_has_bmi() ? write_tile_bmi(blocks, count, out) : write_tile(blocks, count, out);
}
