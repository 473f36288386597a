/* Reads one tile in plain C: the reference for the vector code, and the reader for the way back to
 * JPEG. Safe on any bytes as long as RJ_TILE_READ of them can be read from the tile's start. */
#include <string.h>

#include "rjpeg/tile.h"

/* Up to 57 bits at any bit position. */
static inline uint64_t peek(const uint8_t *p, size_t bit)
{
    return hr_load_le64(p + (bit >> 3)) >> (bit & 7);
}

/* 64 bits at any bit position. */
static inline uint64_t peek64(const uint8_t *p, size_t bit)
{
    return peek(p, bit) | (uint64_t)p[(bit >> 3) + 8] << 1 << (63 - (bit & 7));
}

static inline int unfold(uint32_t f)
{
    return (int)(f >> 1) ^ -(int)(f & 1);
}

static void read_dc(struct rj_tile *t, size_t byte)
{
    unsigned width[2] = {t->bytes[2] & 15u, t->bytes[2] >> 4};
    uint32_t dc = (t->head & 0xfff) ^ 0x800; /* sign extension, modulo 2^16 */

    dc -= 0x800;
    for (unsigned i = 0; i < RJ_TILE_BLOCKS; i++) {
        unsigned w = width[i / 8];
        size_t bit = 8 * (byte + (i < 8 ? 0 : width[0])) + (i & 7) * w;
        dc += (uint32_t)unfold((uint32_t)peek(t->bytes, bit) & ((1u << w) - 1));
        t->dc[i] = (int16_t)dc;
    }
}

static size_t read_masks(struct rj_tile *t, size_t bit)
{
    uint32_t count = 0, last_bits = rj_tile_last_bits(t->head);

    for (uint32_t i = 0; i < t->blocks; i++) {
        unsigned last = (unsigned)peek(t->bytes + 3, last_bits * i) & ((1u << last_bits) - 1);
        t->first[i] = (uint16_t)count;
        t->mask[i] = 0;
        if (!last)
            continue;
        uint64_t flags = peek64(t->bytes, bit) & ((1ull << (last - 1)) - 1);
        t->mask[i] = i & 1 ? (last > 1 ? flags << (64 - last) : 0) | 1ull << (63 - last)
                           : flags << 1 | 1ull << last;
        bit += last - 1;
        count += (uint32_t)__builtin_popcountll(t->mask[i]);
    }
    t->first[t->blocks] = (uint16_t)count;
    t->value_count = count;
    return bit;
}

bool rj_tile_open(struct rj_tile *t, const uint8_t *bytes, uint32_t size, uint32_t blocks)
{
    size_t dc_byte;

    t->bytes = bytes;
    t->size = size;
    t->blocks = blocks;
    t->head = hr_load_le16(bytes);
    t->exception = 0;
    dc_byte = 3 + (blocks * rj_tile_last_bits(t->head) + 7) / 8;
    read_dc(t, dc_byte);
    t->width_bit = read_masks(t, 8 * (dc_byte + (bytes[2] & 15) + (bytes[2] >> 4)));
    t->value_bit = (t->width_bit + (t->value_count + 7) / 8 * 6 + 3) & ~(size_t)3;
    return t->value_bit <= 8 * (size_t)size;
}

/* Exceptions lie backwards from the tile's end; one that is not there is 0. */
static int16_t next_exception(struct rj_tile *t)
{
    uint32_t back = 2 * ++t->exception;
    return back <= t->size ? (int16_t)hr_load_le16(t->bytes + t->size - back) : 0;
}

static inline void unpack4(uint64_t packed, unsigned width, int16_t *values)
{
    for (int i = 0; i < 4; i++) {
        uint32_t f = (uint32_t)packed & ((1u << width) - 1);
        int sign = -(int)(f & 1);
        values[i] = (int16_t)(((int)(f >> 1) ^ sign) + 1 + sign);
        packed >>= width;
    }
}

/* The field 254, which no packer writes, is 255's value: what a signed byte makes of 128. */
static void take_bytes(int16_t *values)
{
    for (int i = 0; i < 4; i++)
        values[i] = (int8_t)values[i];
}

void rj_tile_values(struct rj_tile *t, uint32_t count, int16_t *values)
{
    size_t bit = t->value_bit;

    for (uint32_t i = 0; i < count; i += 8) {
        uint32_t widths = (uint32_t)peek(t->bytes, t->width_bit + i / 8 * 6);
        for (int half = 0; half < 2; half++, widths >>= 3) {
            unsigned width = (widths & 7) + 1;
            unpack4(peek(t->bytes, bit), width, values + i + 4 * half);
            if (HR_UNLIKELY(width == 8))
                take_bytes(values + i + 4 * half);
            bit += 4 * width;
        }
    }
    if (t->head & RJ_TILE_EXCEPTIONS)
        for (uint32_t i = 0; i < count; i++)
            if (values[i] == -128)
                values[i] = next_exception(t);
}

bool rj_tile_read(const uint8_t *bytes, uint32_t size, uint32_t count, struct rj_block *blocks, int16_t *values)
{
    struct rj_tile t;

    if (!rj_tile_open(&t, bytes, size, count))
        return false;
    rj_tile_values(&t, t.value_count, values);
    for (uint32_t i = 0; i < count; i++)
        blocks[i] = (struct rj_block){t.mask[i], values + t.first[i], t.dc[i]};
    return true;
}
