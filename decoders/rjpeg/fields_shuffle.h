/* Bit fields to bytes and words without pdep, for CPUs where that is a loop in microcode (AMD's before Zen 3):
 * shifts and masks where there are few, a byte shuffle and two multiplications where there are many. */
#ifndef HR_DECODERS_RJPEG_FIELDS_SHUFFLE_H
#define HR_DECODERS_RJPEG_FIELDS_SHUFFLE_H

/* By the widths of two groups, and whether they begin in the middle of a byte: the two bytes that each field lies
 * in; what brings it to the top of a word; and what brings it down again. Made once. */
static struct {
    _Alignas(16) uint8_t bytes[64][2][16];
    uint16_t up[64][2][8], down[64][8];
} spread;

static void make_widenings(void)
{
    for (unsigned i = 0; i < 128; i++) {
        unsigned widths = i >> 1, half = i & 1, bit = 4 * half;
        for (unsigned f = 0; f < 8; f++) {
            unsigned width = (f < 4 ? widths & 7 : widths >> 3) + 1;
            spread.bytes[widths][half][2 * f] = (uint8_t)(bit >> 3);
            spread.bytes[widths][half][2 * f + 1] = (uint8_t)((bit >> 3) + 1);
            spread.up[widths][half][f] = (uint16_t)(1u << (16 - (bit & 7) - width));
            spread.down[widths][f] = (uint16_t)(1u << width);
            bit += width;
        }
    }
}

/* Four differences of a width to words. */
INLINE uint64_t widen_dc(uint64_t v, unsigned width)
{
    uint64_t one = (1ull << width) - 1, two = (v & one) | (v >> width & one) << 16;

    v >>= 2 * width;
    return two | (v & one) << 32 | (v >> width & one) << 48;
}

/* Eight `last`s to bytes, of the size that a tile's first two bytes say: by halves. */
INLINE uint64_t widen_lasts(uint64_t v, unsigned head)
{
    unsigned bits = rj_tile_last_bits(head);
    uint64_t four = (1ull << 4 * bits) - 1, two = ((1ull << 2 * bits) - 1) * 0x100000001ull;
    uint64_t one = ((1ull << bits) - 1) * 0x1000100010001ull;

    v = (v & four) | (v >> 4 * bits & four) << 32;
    v = (v & two) | (v >> 2 * bits & two) << 16;
    return (v & one) | (v >> bits & one) << 8;
}

/* Widths of eight pairs of groups to bytes: by halves. */
INLINE uint64_t widen_widths(uint64_t v)
{
    v = (v & 0xffffff) | (v << 8 & 0xffffff00000000);
    v = (v & 0xfff00000fff) | (v << 4 & 0xfff00000fff0000);
    return (v & 0x3f003f003f003f) | (v << 2 & 0x3f003f003f003f00);
}

/* Any fields are within reach of a load here. */
INLINE bool any_wide(uint64_t widths)
{
    return false;
}

/* Eight fields from a bit on to eight bytes. */
INLINE uint64_t widen_values(const uint8_t *fields, size_t bit, unsigned widths, bool wide)
{
    unsigned half = bit >> 2 & 1; /* fields begin at multiples of four bits */
    __m128i v = _mm_loadu_si128((const __m128i *)(fields + (bit >> 3)));

    v = _mm_shuffle_epi8(v, _mm_load_si128((const __m128i *)spread.bytes[widths][half]));
    v = _mm_mullo_epi16(v, _mm_load_si128((const __m128i *)spread.up[widths][half]));
    v = _mm_mulhi_epu16(v, _mm_load_si128((const __m128i *)spread.down[widths]));
    return (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(v, v));
}

#endif
