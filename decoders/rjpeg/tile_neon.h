/* Parses a tile with NEON: bit fields are brought into lanes by a byte lookup and shifted there, since Arm has
 * nothing like x86's pdep. Included by the NEON variant and by its reduced sizes. */
#ifndef HR_DECODERS_RJPEG_TILE_NEON_H
#define HR_DECODERS_RJPEG_TILE_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "rjpeg/variant.h"

#define INLINE   static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))

enum { VALUES_ROOM = RJ_TILE_VALUES + 16 + 192 }; /* unpacked in runs of 64, looked up in windows of 16 */

/* One tile, parsed: values as signed bytes, -128 for an exception. */
struct tile {
    uint64_t mask[RJ_TILE_BLOCKS];
    _Alignas(16) uint8_t counts[RJ_TILE_BLOCKS][8]; /* values up to the end of each byte of the mask */
    _Alignas(16) int8_t values[VALUES_ROOM];
    _Alignas(16) int16_t dc[RJ_TILE_BLOCKS];
    uint16_t first[RJ_TILE_BLOCKS + 1];
    uint8_t last[RJ_TILE_BLOCKS];
    const uint8_t *bytes;
    uint32_t size, head;
    size_t width_bit, field_bit; /* from the tile's first byte */
    uint32_t exception;          /* exceptions taken so far */
    uint32_t wanted;             /* values */
};

/* Constants, made once. A field that begins at bit b is in the bytes from b / 8 on. */
static struct {
    /* Widths of two groups, and whether they begin in the middle of a byte. */
    _Alignas(16) uint8_t value_bytes[64][2][16];
    int16_t value_left[64][2][8]; /* to the top of a word ... */
    int16_t value_right[64][8];   /* ... and down to the bottom */
    uint8_t pair_bits[64];
    _Alignas(16) uint8_t last_bytes[4][16]; /* by the head's two bits */
    int16_t last_right[4][8];
    _Alignas(16) uint8_t dc_bytes[16][2][16];
    int32_t dc_right[16][2][4];
} field;

static void make_value_fields(unsigned widths)
{
    for (unsigned half = 0; half < 2; half++) {
        unsigned bit = 4 * half;
        for (unsigned f = 0; f < 8; f++) {
            unsigned width = (f < 4 ? widths & 7 : widths >> 3) + 1;
            field.value_bytes[widths][half][2 * f] = (uint8_t)(bit >> 3);
            field.value_bytes[widths][half][2 * f + 1] = (uint8_t)((bit >> 3) + 1);
            field.value_left[widths][half][f] = (int16_t)(16 - (bit & 7) - width);
            field.value_right[widths][f] = (int16_t)(width - 16);
            bit += width;
        }
        field.pair_bits[widths] = (uint8_t)(bit - 4 * half);
    }
}

static void make_field_tables(void)
{
    for (unsigned i = 0; i < 64; i++)
        make_value_fields(i);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned f = 0; f < 8; f++) {
            unsigned bit = f * rj_tile_last_bits(i << RJ_TILE_LAST_SHIFT);
            field.last_bytes[i][2 * f] = (uint8_t)(bit >> 3);
            field.last_bytes[i][2 * f + 1] = (uint8_t)((bit >> 3) + 1);
            field.last_right[i][f] = (int16_t)-(bit & 7);
        }
    for (unsigned w = 0; w < 16; w++)
        for (unsigned f = 0; f < 8; f++) {
            for (unsigned b = 0; b < 4; b++)
                field.dc_bytes[w][f / 4][f % 4 * 4 + b] = (uint8_t)((f * w >> 3) + b);
            field.dc_right[w][f / 4][f % 4] = -(int32_t)(f * w & 7);
        }
}

INLINE uint64_t load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}

/* 64 bits from any bit on. */
INLINE uint64_t load64_at(const uint8_t *p, size_t bit)
{
    const uint8_t *q = p + (bit >> 3);
    unsigned shift = bit & 7;

    return load64(q) >> shift | load64(q + 1) << (8 - shift);
}

INLINE uint16x8_t eight_lasts(const uint8_t *p, unsigned narrow)
{
    uint8x16_t bytes = vqtbl1q_u8(vld1q_u8(p), vld1q_u8(field.last_bytes[narrow]));

    return vshlq_u16(vreinterpretq_u16_u8(bytes), vld1q_s16(field.last_right[narrow]));
}

INLINE void parse_lasts(struct tile *t, const uint8_t *p, unsigned blocks, unsigned last_bits)
{
    static const uint8_t order[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    unsigned narrow = RJ_LAST_BITS - last_bits;
    uint8x16_t present = vcltq_u8(vld1q_u8(order), vdupq_n_u8((uint8_t)blocks));
    uint8x16_t lasts = vuzp1q_u8(vreinterpretq_u8_u16(eight_lasts(p, narrow)),
                                 vreinterpretq_u8_u16(eight_lasts(p + last_bits, narrow)));

    lasts = vandq_u8(lasts, vdupq_n_u8((uint8_t)((1u << last_bits) - 1)));
    vst1q_u8(t->last, vandq_u8(lasts, present));
}

INLINE uint32x4_t four_differences(uint8x16_t bytes, unsigned width, int half)
{
    uint8x16_t v = vqtbl1q_u8(bytes, vld1q_u8(field.dc_bytes[width][half]));

    return vshlq_u32(vreinterpretq_u32_u8(v), vld1q_s32(field.dc_right[width][half]));
}

/* Eight folded differences to eight numbers summed up. */
INLINE int16x8_t sum_differences(const uint8_t *p, unsigned width)
{
    const uint16x8_t zero = vdupq_n_u16(0);
    uint8x16_t bytes = vld1q_u8(p);
    uint16x8_t f = vuzp1q_u16(vreinterpretq_u16_u32(four_differences(bytes, width, 0)),
                              vreinterpretq_u16_u32(four_differences(bytes, width, 1)));

    f = vandq_u16(f, vdupq_n_u16((uint16_t)((1u << width) - 1)));
    f = veorq_u16(vshrq_n_u16(f, 1), vtstq_u16(f, vdupq_n_u16(1)));
    f = vaddq_u16(f, vextq_u16(zero, f, 7));
    f = vaddq_u16(f, vextq_u16(zero, f, 6));
    return vreinterpretq_s16_u16(vaddq_u16(f, vextq_u16(zero, f, 4)));
}

INLINE const uint8_t *parse_head(struct tile *t, const struct rj_job *job)
{
    const uint8_t *p = job->bytes;
    unsigned blocks = job->blocks, width0 = p[2] & 15, width1 = p[2] >> 4, head = hr_load_le16(p);
    unsigned last_bits = rj_tile_last_bits(head);

    t->bytes = p;
    t->size = job->size;
    t->head = head;
    t->exception = 0;
    parse_lasts(t, p + 3, blocks, last_bits);
    p += 3 + (blocks * last_bits + 7) / 8;
    int16x8_t dc0 = sum_differences(p, width0), dc1 = sum_differences(p + width0, width1);
    dc0 = vaddq_s16(dc0, vdupq_n_s16((int16_t)((int32_t)(head << 20) >> 20)));
    dc1 = vaddq_s16(dc1, vdupq_laneq_s16(dc0, 7));
    vst1q_s16(t->dc, dc0);
    vst1q_s16(t->dc + 8, dc1);
    return p + width0 + width1;
}

/* Running counts of set bits, two blocks at a time; returns all of them. */
INLINE unsigned count_values(struct tile *t)
{
    unsigned count = 0;

    for (unsigned i = 0; i < RJ_TILE_BLOCKS; i += 2) {
        uint64x2_t v = vreinterpretq_u64_u8(vcntq_u8(vreinterpretq_u8_u64(vld1q_u64(t->mask + i))));
        v = vaddq_u64(v, vshlq_n_u64(v, 8));
        v = vaddq_u64(v, vshlq_n_u64(v, 16));
        v = vaddq_u64(v, vshlq_n_u64(v, 32));
        vst1q_u64((uint64_t *)t->counts[i], v);
    }
    for (unsigned i = 0; i < RJ_TILE_BLOCKS; i++) {
        t->first[i] = (uint16_t)count;
        count += t->counts[i][7];
    }
    t->first[RJ_TILE_BLOCKS] = (uint16_t)count;
    return count;
}

/* Masks of all blocks; then where widths and values begin. */
INLINE bool parse_masks(struct tile *t, const uint8_t *p)
{
    size_t bit = 8 * (size_t)(p - t->bytes);

    for (unsigned i = 0; i < RJ_TILE_BLOCKS; i += 2) {
        /* `last` 0 has neither flags nor a value: both shifts lose what is there. */
        unsigned last = t->last[i], bits = last - (last > 0);
        uint64_t flags = load64_at(t->bytes, bit) & ~(~0ull << bits);
        t->mask[i] = (flags | 1ull << bits) << 1 & (0 - (uint64_t)(last > 0));
        bit += bits;

        last = t->last[i + 1], bits = last - (last > 0);
        flags = load64_at(t->bytes, bit) & ~(~0ull << bits);
        t->mask[i + 1] = last ? flags << 1 << (63 - last) | 1ull << (63 - last) : 0;
        bit += bits;
    }
    unsigned count = count_values(t);
    t->width_bit = bit;
    t->field_bit = (bit + (count + 7) / 8 * 6 + 3) & ~(size_t)3;
    return t->field_bit <= 8 * (size_t)t->size;
}

/* Eight fields to eight words. */
INLINE uint8x16_t unpack8(const uint8_t *p, size_t *bit, unsigned widths)
{
    unsigned half = *bit >> 2 & 1;
    uint8x16_t bytes = vqtbl1q_u8(vld1q_u8(p + (*bit >> 3)), vld1q_u8(field.value_bytes[widths][half]));
    uint16x8_t words = vshlq_u16(vreinterpretq_u16_u8(bytes), vld1q_s16(field.value_left[widths][half]));

    *bit += field.pair_bits[widths];
    return vreinterpretq_u8_u16(vshlq_u16(words, vld1q_s16(field.value_right[widths])));
}

/* Sixteen fields to sixteen signed bytes. */
INLINE int8x16_t unpack16(const uint8_t *p, size_t *bit, unsigned widths)
{
    uint8x16_t low = unpack8(p, bit, widths & 63), high = unpack8(p, bit, widths >> 6 & 63);
    uint8x16_t f = vuzp1q_u8(low, high), odd = vtstq_u8(f, vdupq_n_u8(1));

    f = veorq_u8(vaddq_u8(vshrq_n_u8(f, 1), vdupq_n_u8(1)), odd);
    return vreinterpretq_s8_u8(vsubq_u8(f, odd));
}

/* Values of the blocks up to the last one wanted, in runs of 64. */
INLINE void unpack_values(struct tile *t)
{
    const uint8_t *p = t->bytes;
    size_t bit = t->field_bit, width_bit = t->width_bit;

    for (uint32_t i = 0; i < t->wanted; i += 64, width_bit += 48) {
        uint64_t widths = load64(p + (width_bit >> 3)) >> (width_bit & 7);
        for (unsigned j = 0; j < 64; j += 16, widths >>= 12)
            vst1q_s8(t->values + i + j, unpack16(p, &bit, (unsigned)widths));
    }
}

/* All but the values. */
NOINLINE bool parse_front(struct tile *t, const struct rj_job *job)
{
    bool good = parse_masks(t, parse_head(t, job));

    t->wanted = t->first[job->end];
    return good;
}

INLINE int16_t next_exception(struct tile *t)
{
    uint32_t back = 2 * ++t->exception;
    return back <= t->size ? (int16_t)hr_load_le16(t->bytes + t->size - back) : 0;
}

/* Values as words, exceptions looked up. */
NOINLINE void widen_values(struct tile *t, int16_t *values)
{
    for (uint32_t i = 0; i < t->wanted; i += 16) {
        int8x16_t v = vld1q_s8(t->values + i);
        vst1q_s16(values + i, vmovl_s8(vget_low_s8(v)));
        vst1q_s16(values + i + 8, vmovl_high_s8(v));
    }
    for (uint32_t i = 0; t->head & RJ_TILE_EXCEPTIONS && i < t->wanted; i++)
        if (values[i] == -128)
            values[i] = next_exception(t);
}

#endif
