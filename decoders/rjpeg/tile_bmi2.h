/* Parses a tile with BMI: masks as they are, values as folded bytes. Included by the vector variants, each of
 * which compiles its own copy for its CPU level, with pdep or (RJ_NO_PDEP) without. */
#ifndef HR_DECODERS_RJPEG_TILE_BMI2_H
#define HR_DECODERS_RJPEG_TILE_BMI2_H

#include <immintrin.h>
#include <string.h>

#include "rjpeg/variant.h"

#define INLINE   static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))

/* One tile, parsed: values as signed bytes, -128 for an exception. */
struct tile {
    uint64_t mask[RJ_TILE_BLOCKS];
    _Alignas(64) int8_t values[RJ_TILE_VALUES + 16 + 192];
    _Alignas(32) int16_t dc[RJ_TILE_BLOCKS];
    uint16_t first[RJ_TILE_BLOCKS + 1];
    uint8_t last[RJ_TILE_BLOCKS];
    const uint8_t *bytes;
    uint32_t size, head;
    const uint8_t *widths, *fields;
    unsigned width_shift, field_bit;
    uint32_t exception; /* exceptions taken so far */
    uint32_t unpacked, wanted; /* values; field_bit and widths are those of the next to unpack */
};

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

#ifdef RJ_NO_PDEP
#include "rjpeg/fields_shuffle.h"
#else
#include "rjpeg/fields_pdep.h"
#endif

/* Constants, made once. */
static struct {
    uint8_t pair_bits[64]; /* widths of two groups -> what their values take */
    uint8_t last_bits[64]; /* last -> mask bits that are stored */
    uint64_t last_even[64], last_odd[64];
} field;

static void make_field_tables(void)
{
    for (unsigned i = 0; i < 64; i++) {
        unsigned low = (i & 7) + 1, high = (i >> 3) + 1;
        field.pair_bits[i] = (uint8_t)(4 * (low + high));
        field.last_bits[i] = (uint8_t)(i ? i - 1 : 0);
        field.last_even[i] = i ? 1ull << i : 0;
        field.last_odd[i] = i ? 1ull << (63 - i) : 0;
    }
    make_widenings();
}

/* Parsing one tile. */

/* Eight folded differences to eight numbers summed up. */
INLINE __m128i sum_differences(const uint8_t *p, unsigned width)
{
    const __m128i one = _mm_set1_epi16(1);
    uint64_t low = widen_dc(load64(p), width), high = widen_dc(load64(p + (width >> 1)) >> (width & 1) * 4, width);
    __m128i f = _mm_set_epi64x((long long)high, (long long)low);

    f = _mm_xor_si128(_mm_srli_epi16(f, 1), _mm_sub_epi16(_mm_setzero_si128(), _mm_and_si128(f, one)));
    f = _mm_add_epi16(f, _mm_slli_si128(f, 2));
    f = _mm_add_epi16(f, _mm_slli_si128(f, 4));
    return _mm_add_epi16(f, _mm_slli_si128(f, 8));
}

INLINE const uint8_t *parse_head(struct tile *t, const struct rj_job *job)
{
    const uint8_t *p = job->bytes;
    unsigned blocks = job->blocks, width0 = p[2] & 15, width1 = p[2] >> 4, head = hr_load_le16(p);
    unsigned last_bits = rj_tile_last_bits(head);
    uint64_t low = widen_lasts(load64(p + 3), head), high = widen_lasts(load64(p + 3 + last_bits), head);

    t->bytes = p;
    t->size = job->size;
    t->head = head;
    t->exception = 0;
    if (blocks < RJ_TILE_BLOCKS) {
        low = _bzhi_u64(low, blocks < 8 ? 8 * blocks : 64);
        high = blocks > 8 ? _bzhi_u64(high, 8 * (blocks - 8)) : 0;
    }
    memcpy(t->last, &low, 8);
    memcpy(t->last + 8, &high, 8);

    p += 3 + (blocks * last_bits + 7) / 8;
    __m128i dc0 = sum_differences(p, width0), dc1 = sum_differences(p + width0, width1);
    dc0 = _mm_add_epi16(dc0, _mm_set1_epi16((int16_t)((int32_t)(t->head << 20) >> 20)));
    dc1 = _mm_add_epi16(dc1, _mm_shuffle_epi8(dc0, _mm_set1_epi16(0x0f0e)));
    _mm_store_si128((__m128i *)t->dc, dc0);
    _mm_store_si128((__m128i *)(t->dc + 8), dc1);
    return p + width0 + width1;
}

/* Masks of all blocks; then where widths and values begin. */
INLINE bool parse_masks(struct tile *t, const uint8_t *p)
{
    size_t bit = 0;
    unsigned count = 0;

    for (unsigned i = 0; i < RJ_TILE_BLOCKS; i += 2) {
        unsigned last = t->last[i], bits = field.last_bits[last];
        uint64_t mask = _bzhi_u64(load64_at(p, bit), bits) << 1 | field.last_even[last];
        t->mask[i] = mask;
        t->first[i] = (uint16_t)count;
        count += (unsigned)_mm_popcnt_u64(mask);
        bit += bits;

        last = t->last[i + 1], bits = field.last_bits[last];
        mask = _bzhi_u64(load64_at(p, bit), bits) << ((64 - last) & 63) | field.last_odd[last];
        t->mask[i + 1] = mask;
        t->first[i + 1] = (uint16_t)count;
        count += (unsigned)_mm_popcnt_u64(mask);
        bit += bits;
    }
    t->first[RJ_TILE_BLOCKS] = (uint16_t)count;
    bit += 8 * (size_t)(p - t->bytes);
    t->widths = t->bytes + (bit >> 3);
    t->width_shift = bit & 7;
    bit = (bit + (count + 7) / 8 * 6 + 3) & ~(size_t)3;
    t->fields = t->bytes + (bit >> 3);
    t->field_bit = bit & 4;
    return bit <= 8 * (size_t)t->size;
}

/* Eight fields at *bit to eight bytes. */
INLINE void unpack8(const struct tile *t, size_t *bit, unsigned widths, uint8_t *out, bool wide)
{
    uint64_t fields = widen_values(t->fields, *bit, widths, wide);

    memcpy(out, &fields, 8);
    *bit += field.pair_bits[widths];
}

/* 64 values. */
INLINE size_t unpack64(const struct tile *t, size_t bit, uint64_t widths, uint8_t *out, bool wide)
{
    unpack8(t, &bit, widths & 63, out, wide);
    unpack8(t, &bit, widths >> 8 & 63, out + 8, wide);
    unpack8(t, &bit, widths >> 16 & 63, out + 16, wide);
    unpack8(t, &bit, widths >> 24 & 63, out + 24, wide);
    unpack8(t, &bit, widths >> 32 & 63, out + 32, wide);
    unpack8(t, &bit, widths >> 40 & 63, out + 40, wide);
    unpack8(t, &bit, widths >> 48 & 63, out + 48, wide);
    unpack8(t, &bit, (unsigned)(widths >> 56), out + 56, wide);
    return bit;
}

NOINLINE size_t unpack64_wide(const struct tile *t, size_t bit, uint64_t widths, uint8_t *out)
{
    return unpack64(t, bit, widths, out, true);
}

/* Values of the blocks up to the last one wanted, whole groups of blocks. The tile's own word for wide pairs is not
 * taken: it may be wrong. */
NOINLINE void unpack_fields(struct tile *t)
{
    const uint8_t *p = t->widths;
    uint8_t *out = (uint8_t *)t->values;
    size_t bit = t->field_bit;
    uint32_t i;

    for (i = t->unpacked; i < t->wanted; i += 64, p += 6) {
        uint64_t widths = widen_widths(load64(p) >> t->width_shift);
        bit = HR_UNLIKELY(any_wide(widths)) ? unpack64_wide(t, bit, widths, out + i)
                                            : unpack64(t, bit, widths, out + i, false);
    }
    t->unpacked = i;
}

/* All but the values. group: blocks that are transformed at once. */
NOINLINE bool parse_front(struct tile *t, const struct rj_job *job, unsigned group)
{
    bool good = parse_masks(t, parse_head(t, job));

    t->unpacked = 0;
    t->wanted = t->first[(job->end + group - 1) & ~(group - 1u)];
    return good;
}

INLINE int16_t next_exception(struct tile *t)
{
    uint32_t back = 2 * ++t->exception;
    return back <= t->size ? (int16_t)hr_load_le16(t->bytes + t->size - back) : 0;
}

#endif
