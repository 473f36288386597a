/* Bit fields to bytes and words with BMI2's pdep. Included by tile_bmi2.h; fields_shuffle.h does the same. */
#ifndef HR_DECODERS_RJPEG_FIELDS_PDEP_H
#define HR_DECODERS_RJPEG_FIELDS_PDEP_H

/* Where pdep puts the fields; made once. */
static struct {
    uint64_t pair[64]; /* by the widths of two groups: their eight values */
    uint64_t last[4];  /* by the head's two bits */
    uint64_t dc[16];   /* by the width */
} deposit;

static void make_widenings(void)
{
    for (unsigned i = 0; i < 64; i++) {
        unsigned low = (i & 7) + 1, high = (i >> 3) + 1;
        deposit.pair[i] = 0;
        for (unsigned f = 0; f < 8; f++)
            deposit.pair[i] |= ((1ull << (f < 4 ? low : high)) - 1) << 8 * f;
    }
    for (unsigned i = 0; i < 4; i++)
        deposit.last[i] = 0x0101010101010101ull * ((1u << rj_tile_last_bits(i << RJ_TILE_LAST_SHIFT)) - 1);
    for (unsigned w = 0; w < 16; w++)
        deposit.dc[w] = ((1ull << w) - 1) * 0x0001000100010001ull;
}

/* Four differences of a width to words. */
INLINE uint64_t widen_dc(uint64_t v, unsigned width)
{
    return _pdep_u64(v, deposit.dc[width]);
}

/* Eight `last`s to bytes, of the size that a tile's first two bytes say. */
INLINE uint64_t widen_lasts(uint64_t v, unsigned head)
{
    return _pdep_u64(v, deposit.last[head >> RJ_TILE_LAST_SHIFT]);
}

/* Widths of eight pairs of groups to bytes. */
INLINE uint64_t widen_widths(uint64_t v)
{
    return _pdep_u64(v, 0x3f3f3f3f3f3f3f3full);
}

/* Of eight pairs of widths, as bytes: whether some pair is twice 8. Where its fields begin inside of a byte, a load
 * of 64 bits is too short. */
INLINE bool any_wide(uint64_t widths)
{
    return (widths + 0x0101010101010101ull) & 0x4040404040404040ull;
}

/* Eight fields from a bit on to eight bytes. */
INLINE uint64_t widen_values(const uint8_t *fields, size_t bit, unsigned widths, bool wide)
{
    uint64_t packed = wide ? load64_at(fields, bit) : load64(fields + (bit >> 3)) >> (bit & 7);

    return _pdep_u64(packed, deposit.pair[widths]);
}

#endif
