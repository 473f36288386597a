/* AVX2 and BMI2: bit fields are widened with pdep as in the AVX-512 variant, or without it, for which this file is
 * compiled once more (RJ_VARIANT, RJ_VARIANT_NAME, RJ_RUN_SCALED); one byte shuffle puts up to 16 values at
 * their scan positions, with an index that two small tables give for any mask; two blocks go through the
 * inverse transform side by side. Bit for bit what variant_c.c gives. */
#include <immintrin.h>
#include <pthread.h>
#include <string.h>

#include "rjpeg/rows_avx2.h"
#include "rjpeg/tile_bmi2.h"
#include "rjpeg/variant.h"

enum {
    PAIR_BLOCKS = 2, /* blocks transformed at once, one in each 128-bit lane */
    PAIRS = RJ_TILE_BLOCKS / PAIR_BLOCKS,
    SEGMENTS = 4, /* of 16 scan positions */
};

/* The quantizer in the order in which coefficients meet it. */
struct table {
    vec full[8], corner[2];             /* entry << 7, for values << 8 */
    vec plain_full[8], plain_corner[2]; /* entry, for words */
    uint16_t natural[64];
};
_Static_assert(sizeof(struct table) <= RJ_TABLE_BYTES, "table");

/* Segments in scan order of a pair of blocks. Odd blocks run backwards: their segment 3 - s shares a vector
 * with segment s of the even one, so that both hold the same scan positions. */
struct pair {
    vec segment[SEGMENTS];
};

struct scratch {
    struct tile tile;
    /* Only where a tile has exceptions: the high byte of each value, less what its low byte's sign says. */
    _Alignas(64) uint8_t high_values[RJ_TILE_VALUES + 16 + 192];
    struct pair low[PAIRS], high[PAIRS];
    unsigned segments;        /* in use, the others are 0 */
    unsigned exception_pairs; /* bit p: pair p has some, and its high[] is made */
};

/* A multiply-add takes rows in pairs: 0 with 4, 2 with 6, 1 with 3, 5 with 7. Word c * 2 + side of a
 * pair's vector (in each lane) belongs to column c. */
static const uint8_t row_pair[8] = {0, 2, 1, 2, 0, 3, 1, 3}, row_side[8] = {0, 0, 0, 1, 1, 0, 1, 1};

/* Constants, made once. */
static struct {
    _Alignas(64) uint8_t expand_low[256][16], expand_high[256][16]; /* by the mask's low and high byte */
    _Alignas(64) uint8_t order_full[4][SEGMENTS][32], order_corner[2][32];
    uint64_t outside_even, outside_odd; /* scan positions that are not in the low 4x4 corner */
    uint16_t word_full[64], word_corner[64];
} k;

/* The sum of one row of each table is a shuffle: the low eight positions count set bits from 0, the high
 * ones go on from the low byte's count; 0x80 makes a zero. */
static void make_expansions(void)
{
    for (unsigned mask = 0; mask < 256; mask++) {
        uint8_t count = 0;
        for (unsigned i = 0; i < 8; i++) {
            bool set = mask >> i & 1;
            k.expand_low[mask][i] = set ? count : 0x80;
            k.expand_high[mask][i] = 0;
            k.expand_high[mask][8 + i] = set ? count : 0x80;
            count = (uint8_t)(count + set);
        }
        memset(k.expand_low[mask] + 8, count, 8);
    }
}

static void place_in_full(unsigned n, unsigned i)
{
    unsigned row = n >> 3, column = n & 7, pair = row_pair[row], at = column * 2 + row_side[row];

    k.order_full[pair][i / 16][at] = (uint8_t)(i % 16);
    k.order_full[pair][i / 16][16 + at] = (uint8_t)(15 - i % 16);
    k.word_full[n] = (uint16_t)((2 * pair + (column >> 2)) * 16 + (column & 3) * 2 + row_side[row]);
}

/* Rows 0 with 2 in the first vector, 1 with 3 in the second. */
static void place_in_corner(unsigned n, unsigned i)
{
    unsigned row = n >> 3, column = n & 7, at = (row & 1) * 8 + column * 2 + (row >> 1);

    k.order_corner[i / 16][at] = (uint8_t)(i % 16);
    k.order_corner[i / 16][16 + at] = (uint8_t)(15 - i % 16);
    k.word_corner[n] = (uint16_t)((row & 1) * 16 + column * 2 + (row >> 1));
}

static void make_orders(void)
{
    memset(k.order_full, 0x80, sizeof(k.order_full));
    memset(k.order_corner, 0x80, sizeof(k.order_corner));
    for (unsigned i = 0; i < 64; i++) {
        unsigned n = rj_natural_order[i];
        place_in_full(n, i);
        if (n >> 3 < 4 && (n & 7) < 4) {
            place_in_corner(n, i);
            continue;
        }
        k.outside_even |= 1ull << i;
        k.outside_odd |= 1ull << (63 - i);
    }
}

static void make_constants(void)
{
    make_field_tables();
    make_expansions();
    make_orders();
    make_rows_constants();
}

static void init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_constants);
}

static void prepare(const uint16_t natural[64], void *memory)
{
    struct table *t = memory;

    for (unsigned n = 0; n < 64; n++)
        for (unsigned b = 0; b < 16; b += 8) {
            ((uint16_t *)t->full)[k.word_full[n] + b] = (uint16_t)(natural[n] << 7);
            ((uint16_t *)t->plain_full)[k.word_full[n] + b] = natural[n];
            if (n >> 3 > 3 || (n & 7) > 3)
                continue;
            ((uint16_t *)t->corner)[k.word_corner[n] + b] = (uint16_t)(natural[n] << 7);
            ((uint16_t *)t->plain_corner)[k.word_corner[n] + b] = natural[n];
        }
    memcpy(t->natural, natural, sizeof(t->natural));
}

/* Parsing: values to scan positions. */

/* Folded bytes to signed ones. */
INLINE void unfold(struct tile *t, unsigned count)
{
    const vec one = _mm256_set1_epi8(1), zero = _mm256_setzero_si256(), low7 = _mm256_set1_epi8(127);

    for (unsigned i = 0; i < count; i += 32) {
        vec f = load(t->values + i);
        vec half = _mm256_and_si256(_mm256_srli_epi16(f, 1), low7);
        vec positive = _mm256_cmpeq_epi8(_mm256_and_si256(f, one), zero); /* -1 or 0 */
        /* half + 1 or ~half */
        vec v = _mm256_xor_si256(half, _mm256_xor_si256(positive, _mm256_set1_epi8(-1)));
        _mm256_store_si256((vec *)(t->values + i), _mm256_sub_epi8(v, positive));
    }
}

/* Puts the exceptions' low bytes among the values and their high bytes into a plane of their own. */
NOINLINE void take_exceptions(struct scratch *s, unsigned count)
{
    struct tile *t = &s->tile;
    unsigned pair = 0;

    memset(s->high_values, 0, count);
    for (unsigned i = 0; i < count; i += 32) {
        vec marked = _mm256_cmpeq_epi8(load(t->values + i), _mm256_set1_epi8(-128));
        uint32_t marks = (uint32_t)_mm256_movemask_epi8(marked);
        for (marks = count - i < 32 ? _bzhi_u32(marks, count - i) : marks; marks; marks = _blsr_u32(marks)) {
            unsigned at = i + _tzcnt_u32(marks);
            uint16_t v = (uint16_t)next_exception(t);
            t->values[at] = (int8_t)v;
            s->high_values[at] = (uint8_t)((v >> 8) ^ (uint16_t)((int8_t)v >> 7));
            while (at >= t->first[2 * pair + 2])
                pair++;
            s->exception_pairs |= 1u << pair;
        }
    }
}

INLINE __m128i expand16(const void *values, uint16_t mask)
{
    __m128i index = _mm_add_epi8(_mm_load_si128((const __m128i *)k.expand_low[mask & 255]),
                                 _mm_load_si128((const __m128i *)k.expand_high[mask >> 8]));
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)values), index);
}

INLINE void expand_pair(const uint64_t masks[2], const uint8_t *even, const uint8_t *odd, struct pair *out,
                        unsigned segments)
{
    for (unsigned g = 0; g < segments; g++) {
        uint16_t mask = (uint16_t)(masks[0] >> 16 * g);
        ((__m128i *)&out->segment[g])[0] = expand16(even, mask);
        even += _mm_popcnt_u32(mask);
    }
    for (unsigned g = SEGMENTS - segments; g < SEGMENTS; g++) {
        uint16_t mask = (uint16_t)(masks[1] >> 16 * g);
        ((__m128i *)&out->segment[3 - g])[1] = expand16(odd, mask);
        odd += _mm_popcnt_u32(mask);
    }
    for (unsigned g = segments; g < SEGMENTS; g++)
        out->segment[g] = _mm256_setzero_si256();
}

INLINE void expand_all(const struct tile *t, const void *values, struct pair *out, unsigned first, unsigned end,
                       unsigned segments)
{
    const uint8_t *v = values;

    for (unsigned p = first; p < end; p++)
        expand_pair(&t->mask[2 * p], v + t->first[2 * p], v + t->first[2 * p + 1], &out[p], segments);
}

/* One copy of the loop for each number of segments, so that none has a branch inside. */
NOINLINE void expand(struct scratch *s, unsigned first, unsigned end)
{
    const struct tile *t = &s->tile;

    if (s->segments == 1)
        expand_all(t, t->values, s->low, first, end, 1);
    else if (s->segments == 2)
        expand_all(t, t->values, s->low, first, end, 2);
    else if (s->segments == 3)
        expand_all(t, t->values, s->low, first, end, 3);
    else
        expand_all(t, t->values, s->low, first, end, 4);
}

NOINLINE void expand_high(struct scratch *s)
{
    for (unsigned pairs = s->exception_pairs; pairs; pairs = _blsr_u32(pairs)) {
        unsigned p = _tzcnt_u32(pairs);
        expand_all(&s->tile, s->high_values, s->high, p, p + 1, SEGMENTS);
    }
}

static unsigned used_segments(const struct tile *t)
{
    __m128i last = _mm_loadu_si128((const __m128i *)t->last);

    last = _mm_max_epu8(last, _mm_srli_si128(last, 8));
    last = _mm_max_epu8(last, _mm_srli_si128(last, 4));
    last = _mm_max_epu8(last, _mm_srli_si128(last, 2));
    last = _mm_max_epu8(last, _mm_srli_si128(last, 1));
    return ((unsigned)_mm_cvtsi128_si32(last) & 63) / 16 + 1;
}

static bool parse(struct scratch *s, const struct rj_job *job)
{
    unsigned count, first = job->first / PAIR_BLOCKS, end = (job->end + PAIR_BLOCKS - 1u) / PAIR_BLOCKS;

    if (!parse_front(&s->tile, job, PAIR_BLOCKS))
        return false;
    count = s->tile.wanted;
    unpack_fields(&s->tile);
    unfold(&s->tile, count);
    s->segments = used_segments(&s->tile);
    s->exception_pairs = 0;
    if (HR_UNLIKELY(s->tile.head & RJ_TILE_EXCEPTIONS)) {
        take_exceptions(s, count);
        expand_high(s);
    }
    expand(s, first, end);
    return true;
}

/* The inverse transform. See variant_c.c for the arithmetic. */

INLINE vec dot(vec a, vec fa, vec b, vec fb)
{
    return _mm256_add_epi32(_mm256_madd_epi16(a, fa), _mm256_madd_epi16(b, fb));
}

INLINE void butterfly(const vec e[4], const vec o[4], vec out[8])
{
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_add_epi32(e[i], o[i]);
        out[7 - i] = _mm256_sub_epi32(e[i], o[i]);
    }
}

/* round: the first pass adds its rounding here; the second has it in coefficient 0 (with_rounding). */
INLINE void transform8(vec x04, vec x26, vec x13, vec x57, bool round, vec out[8])
{
    vec sum = _mm256_madd_epi16(x04, PAIR(8192, 8192)), difference = _mm256_madd_epi16(x04, PAIR(8192, -8192));
    vec t3 = _mm256_madd_epi16(x26, PAIR(10703, 4433)), t2 = _mm256_madd_epi16(x26, PAIR(4433, -10704));

    if (round) {
        sum = _mm256_add_epi32(sum, _mm256_set1_epi32(1 << 10));
        difference = _mm256_add_epi32(difference, _mm256_set1_epi32(1 << 10));
    }
    const vec e[4] = {_mm256_add_epi32(sum, t3), _mm256_add_epi32(difference, t2), _mm256_sub_epi32(difference, t2),
                      _mm256_sub_epi32(sum, t3)};
    const vec o[4] = {
        dot(x13, PAIR(11363, 9633), x57, PAIR(6437, 2260)),
        dot(x13, PAIR(9633, -2259), x57, PAIR(-11362, -6436)),
        dot(x13, PAIR(6437, -11362), x57, PAIR(2261, 9633)),
        dot(x13, PAIR(2260, -6436), x57, PAIR(9633, -11363)),
    };
    butterfly(e, o, out);
}

/* Inputs 4 to 7 are 0. */
INLINE void transform4(vec x02, vec x13, bool round, vec out[8])
{
    vec e[4] = {_mm256_madd_epi16(x02, PAIR(8192, 10703)), _mm256_madd_epi16(x02, PAIR(8192, 4433)),
                _mm256_madd_epi16(x02, PAIR(8192, -4433)), _mm256_madd_epi16(x02, PAIR(8192, -10703))};
    const vec o[4] = {_mm256_madd_epi16(x13, PAIR(11363, 9633)), _mm256_madd_epi16(x13, PAIR(9633, -2259)),
                      _mm256_madd_epi16(x13, PAIR(6437, -11362)), _mm256_madd_epi16(x13, PAIR(2260, -6436))};

    for (int i = 0; i < 4 && round; i++)
        e[i] = _mm256_add_epi32(e[i], _mm256_set1_epi32(1 << 10));
    butterfly(e, o, out);
}

INLINE vec with_rounding(vec x0)
{
    return _mm256_adds_epi16(x0, _mm256_set1_epi16(RJ_SECOND_ROUND));
}

/* Words (a >> 11, b >> 11). */
INLINE vec join_first(vec a, vec b)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(a, 11), _mm256_slli_epi32(b, 5), 0xaa);
}

/* Words (a >> 18, b >> 18). */
INLINE vec join_second(vec a, vec b)
{
    return _mm256_srai_epi16(_mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xaa), 2);
}

INLINE void transpose4x4(const vec in[4], vec out[4])
{
    vec a = _mm256_unpacklo_epi32(in[0], in[1]), b = _mm256_unpackhi_epi32(in[0], in[1]);
    vec c = _mm256_unpacklo_epi32(in[2], in[3]), d = _mm256_unpackhi_epi32(in[2], in[3]);

    out[0] = _mm256_unpacklo_epi64(a, c);
    out[1] = _mm256_unpackhi_epi64(a, c);
    out[2] = _mm256_unpacklo_epi64(b, d);
    out[3] = _mm256_unpackhi_epi64(b, d);
}

INLINE void store_two_rows(vec rows, uint8_t *out, size_t stride)
{
    vec v = _mm256_permute4x64_epi64(rows, 0xd8);

    store_low(out, v);
    store_high(out + stride, v);
}

/* words[h][c]: columns 2c and 2c + 1 of rows 4h to 4h + 3 of each block. */
INLINE void store_pixels(vec words[2][4], uint8_t *out, size_t stride)
{
    vec p[4];

    for (int c = 0; c < 4; c++)
        p[c] = _mm256_packus_epi16(words[0][c], words[1][c]);
    vec a = _mm256_unpacklo_epi16(p[0], p[1]), b = _mm256_unpackhi_epi16(p[0], p[1]);
    vec c = _mm256_unpacklo_epi16(p[2], p[3]), d = _mm256_unpackhi_epi16(p[2], p[3]);
    store_two_rows(_mm256_unpacklo_epi32(a, c), out, stride);
    store_two_rows(_mm256_unpackhi_epi32(a, c), out + 2 * stride, stride);
    store_two_rows(_mm256_unpacklo_epi32(b, d), out + 4 * stride, stride);
    store_two_rows(_mm256_unpackhi_epi32(b, d), out + 6 * stride, stride);
}

/* x[2 p + h]: pair p of rows, columns 4h to 4h + 3. */
INLINE void inverse8(const vec x[8], uint8_t *out, size_t stride)
{
    vec c[8], o[8], words[2][4];

    for (int h = 0; h < 2; h++) {
        vec rows[4];
        transform8(x[h], x[2 + h], x[4 + h], x[6 + h], true, o);
        for (int q = 0; q < 4; q++)
            rows[q] = join_first(o[2 * q], o[2 * q + 1]);
        transpose4x4(rows, c + 4 * h);
    }
    c[0] = with_rounding(c[0]);
    transform8(_mm256_unpacklo_epi16(c[0], c[4]), _mm256_unpacklo_epi16(c[2], c[6]), _mm256_unpacklo_epi16(c[1], c[3]),
               _mm256_unpacklo_epi16(c[5], c[7]), false, o);
    for (int q = 0; q < 4; q++)
        words[0][q] = join_second(o[2 * q], o[2 * q + 1]);
    transform8(_mm256_unpackhi_epi16(c[0], c[4]), _mm256_unpackhi_epi16(c[2], c[6]), _mm256_unpackhi_epi16(c[1], c[3]),
               _mm256_unpackhi_epi16(c[5], c[7]), false, o);
    for (int q = 0; q < 4; q++)
        words[1][q] = join_second(o[2 * q], o[2 * q + 1]);
    store_pixels(words, out, stride);
}

/* Only the low corner: x[0] has rows 0 with 2, x[1] rows 1 with 3, of columns 0 to 3. */
INLINE void inverse4(const vec x[2], uint8_t *out, size_t stride)
{
    vec c[4], o[8], rows[4], words[2][4];

    transform4(x[0], x[1], true, o);
    for (int q = 0; q < 4; q++)
        rows[q] = join_first(o[2 * q], o[2 * q + 1]);
    transpose4x4(rows, c);
    c[0] = with_rounding(c[0]);
    transform4(_mm256_unpacklo_epi16(c[0], c[2]), _mm256_unpacklo_epi16(c[1], c[3]), false, o);
    for (int q = 0; q < 4; q++)
        words[0][q] = join_second(o[2 * q], o[2 * q + 1]);
    transform4(_mm256_unpackhi_epi16(c[0], c[2]), _mm256_unpackhi_epi16(c[1], c[3]), false, o);
    for (int q = 0; q < 4; q++)
        words[1][q] = join_second(o[2 * q], o[2 * q + 1]);
    store_pixels(words, out, stride);
}

/* From blocks to samples. */

/* Row `row` of two blocks. */
INLINE vec load_row(const int16_t (*blocks)[64], int row)
{
    vec v = _mm256_castsi128_si256(_mm_load_si128((const __m128i *)(blocks[0] + 8 * row)));

    return _mm256_inserti128_si256(v, _mm_load_si128((const __m128i *)(blocks[1] + 8 * row)), 1);
}

static void inverse_all(const int16_t (*blocks)[64], uint32_t count, uint8_t *out, size_t stride)
{
    static const uint8_t rows[4][2] = {{0, 4}, {2, 6}, {1, 3}, {5, 7}}; /* as row_pair and row_side say */

    for (uint32_t i = 0; i < count; i += PAIR_BLOCKS, blocks += PAIR_BLOCKS) {
        vec x[8];
        for (int p = 0; p < 4; p++) {
            vec a = load_row(blocks, rows[p][0]), b = load_row(blocks, rows[p][1]);
            x[2 * p] = _mm256_unpacklo_epi16(a, b);
            x[2 * p + 1] = _mm256_unpackhi_epi16(a, b);
        }
        inverse8(x, out + 8 * i, stride);
    }
}

/* From pairs of blocks to samples. */

INLINE vec gather_corner(const struct pair *p)
{
    return _mm256_or_si256(_mm256_shuffle_epi8(p->segment[0], load(k.order_corner[0])),
                           _mm256_shuffle_epi8(p->segment[1], load(k.order_corner[1])));
}

INLINE vec gather_rows(const struct pair *p, int pair)
{
    vec a = _mm256_or_si256(_mm256_shuffle_epi8(p->segment[0], load(k.order_full[pair][0])),
                            _mm256_shuffle_epi8(p->segment[1], load(k.order_full[pair][1])));
    vec b = _mm256_or_si256(_mm256_shuffle_epi8(p->segment[2], load(k.order_full[pair][2])),
                            _mm256_shuffle_epi8(p->segment[3], load(k.order_full[pair][3])));
    return _mm256_or_si256(a, b);
}

/* Bytes to words << 8, times quantizer << 7, rounded at 2^15: the exact products. */
INLINE void dequantize(vec bytes, const vec table[2], vec x[2])
{
    const vec zero = _mm256_setzero_si256();

    x[0] = _mm256_mulhrs_epi16(_mm256_unpacklo_epi8(zero, bytes), table[0]);
    x[1] = _mm256_mulhrs_epi16(_mm256_unpackhi_epi8(zero, bytes), table[1]);
}

/* The same where there are high bytes. */
INLINE void dequantize_words(vec bytes, vec high, const vec plain[2], vec x[2])
{
    high = _mm256_xor_si256(high, _mm256_cmpgt_epi8(_mm256_setzero_si256(), bytes));
    x[0] = _mm256_mullo_epi16(_mm256_unpacklo_epi8(bytes, high), plain[0]);
    x[1] = _mm256_mullo_epi16(_mm256_unpackhi_epi8(bytes, high), plain[1]);
}

/* A tile's DC parts: dequantized, and as the flat blocks they make. */
struct dcs {
    _Alignas(32) int16_t dc[RJ_TILE_BLOCKS];
    uint8_t flat[RJ_TILE_BLOCKS];
};

INLINE void make_dcs(const struct tile *t, const struct table *table, struct dcs *d)
{
    vec dc = _mm256_mullo_epi16(load(t->dc), _mm256_set1_epi16((short)table->natural[0]));

    _mm256_store_si256((vec *)d->dc, dc);
    /* (4 dc 2^13 + 2^17) >> 18, then + 128 */
    dc = _mm256_srai_epi16(_mm256_adds_epi16(_mm256_slli_epi16(dc, 2), _mm256_set1_epi16(16)), 5);
    dc = _mm256_adds_epi16(dc, _mm256_set1_epi16(128));
    _mm_storeu_si128((__m128i *)d->flat, _mm_packus_epi16(_mm256_castsi256_si128(dc), _mm256_extracti128_si256(dc, 1)));
}

INLINE void store_flat(const uint8_t *flat, uint8_t *out, size_t stride)
{
    __m128i two = _mm_cvtsi32_si128(flat[0] | flat[1] << 8);
    __m128i row = _mm_shuffle_epi8(two, _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));

    for (int i = 0; i < 8; i++, out += stride)
        _mm_storeu_si128((__m128i *)out, row);
}

/* Word 0 of each lane. */
INLINE vec place_dc(const int16_t *dc)
{
    /* Bytes 0 and 1, or 2 and 3; -1 makes zeros. */
    const vec words = _mm256_set_epi64x(-1, (int64_t)0xffffffffffff0302, -1, (int64_t)0xffffffffffff0100);
    int32_t two;

    memcpy(&two, dc, 4);
    return _mm256_shuffle_epi8(_mm256_set1_epi32(two), words);
}

INLINE void do_pair(const struct scratch *s, unsigned p, const struct table *table, const struct dcs *d, uint8_t *out,
                    size_t stride, bool exceptions)
{
    uint64_t even = s->tile.mask[2 * p], odd = s->tile.mask[2 * p + 1];
    vec x[8];

    if (!(even | odd)) {
        store_flat(d->flat + 2 * p, out, stride);
        return;
    }
    if (!(even & k.outside_even) && !(odd & k.outside_odd)) {
        if (exceptions)
            dequantize_words(gather_corner(&s->low[p]), gather_corner(&s->high[p]), table->plain_corner, x);
        else
            dequantize(gather_corner(&s->low[p]), table->corner, x);
        x[0] = _mm256_or_si256(x[0], place_dc(d->dc + 2 * p));
        inverse4(x, out, stride);
        return;
    }
    for (int i = 0; i < 4; i++)
        if (exceptions)
            dequantize_words(gather_rows(&s->low[p], i), gather_rows(&s->high[p], i), table->plain_full + 2 * i,
                             x + 2 * i);
        else
            dequantize(gather_rows(&s->low[p], i), table->full + 2 * i, x + 2 * i);
    x[0] = _mm256_or_si256(x[0], place_dc(d->dc + 2 * p));
    inverse8(x, out, stride);
}

NOINLINE void do_plain_pair(const struct scratch *s, unsigned p, const struct table *table, const struct dcs *d,
                            uint8_t *out, size_t stride)
{
    do_pair(s, p, table, d, out, stride, false);
}

NOINLINE void do_pair_with_exceptions(const struct scratch *s, unsigned p, const struct table *table,
                                      const struct dcs *d, uint8_t *out, size_t stride)
{
    do_pair(s, p, table, d, out, stride, true);
}

static bool run(const struct rj_job *jobs, uint32_t count, uint8_t (*tables)[RJ_TABLE_BYTES], size_t stride,
                void *memory)
{
    struct scratch *s = memory;
    struct dcs dcs;

    for (const struct rj_job *job = jobs; job < jobs + count; job++) {
        const struct table *table = (const struct table *)tables[job->component];
        if (!parse(s, job))
            return false;
        make_dcs(&s->tile, table, &dcs);
        for (unsigned p = job->first / PAIR_BLOCKS; p * PAIR_BLOCKS < job->end; p++)
            if (HR_UNLIKELY(s->exception_pairs >> p & 1))
                do_pair_with_exceptions(s, p, table, &dcs, job->out + 16 * p, stride);
            else
                do_plain_pair(s, p, table, &dcs, job->out + 16 * p, stride);
    }
    return true;
}

const struct rj_variant RJ_VARIANT = {
    .name = RJ_VARIANT_NAME,
    .scratch_bytes = sizeof(struct scratch),
    .max_quantizer = 255,
    .init = init,
    .prepare = prepare,
    .run = run,
    .inverse = inverse_all,
    .run_scaled = RJ_RUN_SCALED,
    .across = across,
    .down = down,
    .both = both,
    .ycc_to_rgb = ycc_to_rgb,
    .ycc_to_planes = ycc_to_planes,
    .interleave = interleave,
};
