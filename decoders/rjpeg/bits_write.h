/* Bits of a scan on their way into a file, from the highest down. Zeros are stuffed in behind FF when a chunk is full,
 * which keeps that look out of inner loops. */
#ifndef HR_DECODERS_RJPEG_BITS_WRITE_H
#define HR_DECODERS_RJPEG_BITS_WRITE_H

#include "base/types.h"
#include "rjpeg/level.h"
#include "rjpeg/markers.h"

enum {
    RJ_CHUNK = 1 << 14,
    RJ_CODE_MISSING = 1u << 31, /* in codes: there is none */
    RJ_CODE_LENGTH_BITS = 5,
};

struct rj_bit_writer {
    void (*take)(void *user, const uint8_t *bytes, size_t count); /* gets the scan, part by part */
    void *user;
    bool pad_ones;
    bool failed; /* a value that the tables have no code for */
    uint32_t restarts;
    uint64_t hold; /* bits wait at the top */
    unsigned held; /* fewer than 8 */
    size_t used;
    uint8_t chunk[RJ_CHUNK]; /* as it is before zeros are stuffed in */
    uint8_t stuffed[2 * RJ_CHUNK];
};

/* A writer's place, copied to locals by inner loops, where it lives in registers. */
struct rj_bits {
    uint64_t hold;
    unsigned held;
    uint8_t *out;
    uint32_t flags; /* RJ_CODE_MISSING once a code was */
};

RJ_BODY struct rj_bits rj_bits_open(struct rj_bit_writer *w)
{
    return (struct rj_bits){w->hold, w->held, w->chunk + w->used, 0};
}

RJ_BODY void rj_bits_close(struct rj_bit_writer *w, const struct rj_bits *b)
{
    w->hold = b->hold;
    w->held = b->held;
    w->used = (size_t)(b->out - w->chunk);
    w->failed |= (b->flags & RJ_CODE_MISSING) != 0;
}

/* width <= 56; value has no bits above it. Whole words are stored. */
RJ_BODY void rj_bits_put(struct rj_bits *b, uint64_t value, unsigned width)
{
    b->hold |= value << 1 << (63 - b->held - width);
    b->held += width;
    hr_store_le64(b->out, __builtin_bswap64(b->hold));
    b->out += b->held >> 3;
    b->hold <<= b->held & ~7u;
    b->held &= 7;
}

RJ_BODY unsigned rj_category(int v)
{
    uint32_t size = (uint32_t)(v < 0 ? -v : v);
    return size ? 32 - (unsigned)__builtin_clz(size) : 0;
}

/* A code and the bits of its value in one go. */
RJ_BODY void rj_bits_put_coded(struct rj_bits *b, uint32_t code, int v, unsigned size)
{
    uint32_t value = (uint32_t)(v + (v >> 31)) & ((1u << size) - 1);
    unsigned length = code & ((1 << RJ_CODE_LENGTH_BITS) - 1);

    b->flags |= code;
    rj_bits_put(b, (uint64_t)(code >> RJ_CODE_LENGTH_BITS & 0xffff) << size | value, length + size);
}

void rj_bits_begin(struct rj_bit_writer *w, bool pad_ones, void (*take)(void *user, const uint8_t *bytes, size_t count),
                   void *user);
/* Gives out the whole bytes. */
void rj_bits_flush(struct rj_bit_writer *w);
/* Fills up the last byte and gives out all there is. */
void rj_bits_pad(struct rj_bit_writer *w);
/* The same, and the next restart marker. */
void rj_bits_restart(struct rj_bit_writer *w);

/* A table by symbol: code and its length, or RJ_CODE_MISSING. */
void rj_load_codes(uint32_t codes[256], const struct rj_huffman *h);

#endif
