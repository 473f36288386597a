/* AVX-512 (F, BW, DQ, VL, VBMI, VBMI2, VNNI): a tile's bit fields are widened with pdep, eight values
 * at a time; vpexpandb puts them at their scan positions; four blocks go through the inverse transform
 * side by side, one in each 128-bit lane. Bit for bit what variant_c.c gives.
 *
 * Sizes of functions matter here: with everything inlined into one, the instruction cache thrashes. */
#include <immintrin.h>
#include <pthread.h>
#include <string.h>

#include "rjpeg/rows_avx512.h"
#include "rjpeg/tile_bmi2.h"
#include "rjpeg/variant.h"

enum { GROUP = 4 }; /* blocks transformed at once */

/* The quantizer in the order in which coefficients meet it. */
struct table {
    vec full[8];   /* entry << 7; four rows of columns 0-3 or 4-7, see row_pair */
    vec corner[2]; /* for blocks whose values lie in the low 4x4 corner */
    uint16_t natural[64];
};
_Static_assert(sizeof(struct table) <= RJ_TABLE_BYTES, "table");

struct scratch {
    struct tile tile[2];
};

/* A multiply-add takes rows in pairs: 0 with 4, 2 with 6, 1 with 3, 5 with 7. Word c * 2 + side of a
 * pair's vector (in each lane) belongs to column c. */
static const uint8_t row_pair[8] = {0, 2, 1, 2, 0, 3, 1, 3}, row_side[8] = {0, 0, 0, 1, 1, 0, 1, 1};

/* Constants, made once. Vectors among them too: loads are cheaper here than broadcasts of immediates,
 * which the compiler makes of constant ones and which take the port that shuffles need. */
static struct {
    uint64_t outside_even, outside_odd; /* scan positions that are not in the low 4x4 corner */
    _Alignas(64) uint8_t order_even[64], order_odd[64], order_corner[GROUP][64];
    uint16_t word_full[64], word_corner[64]; /* natural order -> word of lane 0 in the tables */
    /* Pairs of factors of the transform, in its outputs' order. */
    vec sum, difference, even[4], odd13[4], odd57[4], even02[4];
    vec round1, round2, shift11, shift16, quarter, two_rows, dc_index[GROUP];
    vec exception, count_up, backwards; /* -128; 0 to 63; words 31 to 0 */
} k;

static void make_orders(void)
{
    uint8_t scan[64];

    k.outside_even = k.outside_odd = 0;
    for (unsigned i = 0; i < 64; i++)
        scan[rj_natural_order[i]] = (uint8_t)i;
    for (unsigned n = 0; n < 64; n++) {
        unsigned row = n >> 3, column = n & 7, pair = row_pair[row], side = row_side[row], i = scan[n];
        k.order_even[pair * 16 + column * 2 + side] = (uint8_t)i;
        k.order_odd[pair * 16 + column * 2 + side] = (uint8_t)(63 - i);
        k.word_full[n] = (uint16_t)((2 * pair + (column >> 2)) * 32 + (column & 3) * 2 + side);
        if (row > 3 || column > 3) {
            k.outside_even |= 1ull << i;
            k.outside_odd |= 1ull << (63 - i);
            continue;
        }
        /* In the corner: rows 0 with 2 in the first vector, 1 with 3 in the second. */
        k.word_corner[n] = (uint16_t)((row & 1) * 32 + column * 2 + (row >> 1));
        for (unsigned b = 0; b < GROUP; b++)
            k.order_corner[b][b * 16 + (row & 1) * 8 + column * 2 + (row >> 1)] = (uint8_t)(b & 1 ? 63 - i : i);
    }
}

static void make_factors(void)
{
    k.sum = PAIR(8192, 8192);
    k.difference = PAIR(8192, -8192);
    k.even[0] = PAIR(10703, 4433);
    k.even[1] = PAIR(4433, -10704);
    k.even[2] = PAIR(-4433, 10704);
    k.even[3] = PAIR(-10703, -4433);
    k.odd13[0] = PAIR(11363, 9633);
    k.odd57[0] = PAIR(6437, 2260);
    k.odd13[1] = PAIR(9633, -2259);
    k.odd57[1] = PAIR(-11362, -6436);
    k.odd13[2] = PAIR(6437, -11362);
    k.odd57[2] = PAIR(2261, 9633);
    k.odd13[3] = PAIR(2260, -6436);
    k.odd57[3] = PAIR(9633, -11363);
    k.even02[0] = PAIR(8192, 10703);
    k.even02[1] = PAIR(8192, 4433);
    k.even02[2] = PAIR(8192, -4433);
    k.even02[3] = PAIR(8192, -10703);
    k.round1 = _mm512_set1_epi32(1 << 10);
    k.round2 = _mm512_set1_epi16(RJ_SECOND_ROUND);
    k.shift11 = _mm512_set1_epi64(0x332b0000130b0000ll);
    k.shift16 = _mm512_set1_epi64(0x0000383000001810ll);
    k.quarter = _mm512_set1_epi16(1 << 14);
    k.two_rows = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    k.exception = _mm512_set1_epi8(-128);
    for (int i = 0; i < 64; i++)
        ((uint8_t *)&k.count_up)[i] = (uint8_t)i;
    for (int i = 0; i < 32; i++)
        ((uint16_t *)&k.backwards)[i] = (uint16_t)(31 - i);
    for (int g = 0; g < GROUP; g++)
        for (int i = 0; i < 32; i++)
            ((uint16_t *)&k.dc_index[g])[i] = (uint16_t)(GROUP * g + i / 8);
}

static void make_constants(void)
{
    make_field_tables();
    make_factors();
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
    uint16_t *full = (uint16_t *)t->full, *corner = (uint16_t *)t->corner;

    for (unsigned n = 0; n < 64; n++)
        for (unsigned b = 0; b < GROUP; b++) {
            full[k.word_full[n] + 8 * b] = (uint16_t)(natural[n] << 7);
            if (n >> 3 < 4 && (n & 7) < 4)
                corner[k.word_corner[n] + 8 * b] = (uint16_t)(natural[n] << 7);
        }
    memcpy(t->natural, natural, sizeof(t->natural));
}

/* Folded bytes to signed ones. */
NOINLINE void unfold(struct tile *t)
{
    const vec one = _mm512_set1_epi8(1), low7 = _mm512_set1_epi8(127), zero = _mm512_setzero_si512();
    unsigned count = t->wanted;

    for (unsigned i = 0; i < count; i += 64) {
        vec f = _mm512_load_si512(t->values + i);
        vec negative = _mm512_ternarylogic_epi32(_mm512_srli_epi16(f, 1), low7, low7, 0x3f); /* not (a and b) */
        __mmask64 positive = _mm512_testn_epi8_mask(f, one);
        _mm512_store_si512(t->values + i, _mm512_mask_sub_epi8(negative, positive, zero, negative));
    }
}

/* What was not unpacked meanwhile. */
INLINE void parse_rest(struct tile *t)
{
    if (t->unpacked < t->wanted)
        unpack_fields(t);
    unfold(t);
}

/* The inverse transform. See variant_c.c for the arithmetic. */

INLINE void butterfly(vec e0, vec e1, vec e2, vec e3, vec o0, vec o1, vec o2, vec o3, vec out[8])
{
    out[0] = _mm512_add_epi32(e0, o0);
    out[7] = _mm512_sub_epi32(e0, o0);
    out[1] = _mm512_add_epi32(e1, o1);
    out[6] = _mm512_sub_epi32(e1, o1);
    out[2] = _mm512_add_epi32(e2, o2);
    out[5] = _mm512_sub_epi32(e2, o2);
    out[3] = _mm512_add_epi32(e3, o3);
    out[4] = _mm512_sub_epi32(e3, o3);
}

/* The first sums. The first pass has its rounding from the start, the second one in coefficient 0 (with_rounding). */
INLINE vec begin(vec x, vec factors, bool first)
{
    return first ? _mm512_dpwssd_epi32(k.round1, x, factors) : _mm512_madd_epi16(x, factors);
}

INLINE vec with_rounding(vec x0)
{
    return _mm512_adds_epi16(x0, k.round2);
}

INLINE void transform8(vec x04, vec x26, vec x13, vec x57, bool first, vec out[8])
{
    vec sum = begin(x04, k.sum, first), difference = begin(x04, k.difference, first);

    butterfly(_mm512_dpwssd_epi32(sum, x26, k.even[0]), _mm512_dpwssd_epi32(difference, x26, k.even[1]),
              _mm512_dpwssd_epi32(difference, x26, k.even[2]), _mm512_dpwssd_epi32(sum, x26, k.even[3]),
              _mm512_dpwssd_epi32(_mm512_madd_epi16(x13, k.odd13[0]), x57, k.odd57[0]),
              _mm512_dpwssd_epi32(_mm512_madd_epi16(x13, k.odd13[1]), x57, k.odd57[1]),
              _mm512_dpwssd_epi32(_mm512_madd_epi16(x13, k.odd13[2]), x57, k.odd57[2]),
              _mm512_dpwssd_epi32(_mm512_madd_epi16(x13, k.odd13[3]), x57, k.odd57[3]), out);
}

/* Inputs 4 to 7 are 0. */
INLINE void transform4(vec x02, vec x13, bool first, vec out[8])
{
    butterfly(begin(x02, k.even02[0], first), begin(x02, k.even02[1], first), begin(x02, k.even02[2], first),
              begin(x02, k.even02[3], first),
              _mm512_madd_epi16(x13, k.odd13[0]), _mm512_madd_epi16(x13, k.odd13[1]),
              _mm512_madd_epi16(x13, k.odd13[2]), _mm512_madd_epi16(x13, k.odd13[3]), out);
}

/* Words (a >> 11, b >> 11): vpmultishiftqb shifts b and puts it into the odd words at once. */
INLINE vec join_first(vec a, vec b)
{
    return _mm512_mask_multishift_epi64_epi8(_mm512_srli_epi32(a, 11), 0xccccccccccccccccull,
                                             k.shift11, b);
}

/* Words (a >> 18, b >> 18). */
INLINE vec join_second(vec a, vec b)
{
    vec high = _mm512_mask_multishift_epi64_epi8(b, 0x3333333333333333ull, k.shift16, a);
    return _mm512_mulhi_epi16(high, k.quarter);
}

INLINE void transpose4x4(const vec in[4], vec out[4])
{
    vec a = _mm512_unpacklo_epi32(in[0], in[1]), b = _mm512_unpackhi_epi32(in[0], in[1]);
    vec c = _mm512_unpacklo_epi32(in[2], in[3]), d = _mm512_unpackhi_epi32(in[2], in[3]);

    out[0] = _mm512_unpacklo_epi64(a, c);
    out[1] = _mm512_unpackhi_epi64(a, c);
    out[2] = _mm512_unpacklo_epi64(b, d);
    out[3] = _mm512_unpackhi_epi64(b, d);
}

INLINE void store_two_rows(vec rows, uint8_t *out, size_t stride)
{
    vec v = _mm512_permutexvar_epi64(k.two_rows, rows);

    _mm256_storeu_si256((__m256i *)out, _mm512_castsi512_si256(v));
    _mm256_storeu_si256((__m256i *)(out + stride), _mm512_extracti64x4_epi64(v, 1));
}

/* sums[h][c]: column c of rows 4h to 4h + 3 of each block, 32 bits. */
INLINE void store_pixels(vec sums[2][8], uint8_t *out, size_t stride)
{
    vec p[4];

    for (int c = 0; c < 4; c++)
        p[c] = _mm512_packus_epi16(join_second(sums[0][2 * c], sums[0][2 * c + 1]),
                                   join_second(sums[1][2 * c], sums[1][2 * c + 1]));
    vec a = _mm512_unpacklo_epi16(p[0], p[1]), b = _mm512_unpackhi_epi16(p[0], p[1]);
    vec c = _mm512_unpacklo_epi16(p[2], p[3]), d = _mm512_unpackhi_epi16(p[2], p[3]);
    store_two_rows(_mm512_unpacklo_epi32(a, c), out, stride);
    store_two_rows(_mm512_unpackhi_epi32(a, c), out + 2 * stride, stride);
    store_two_rows(_mm512_unpacklo_epi32(b, d), out + 4 * stride, stride);
    store_two_rows(_mm512_unpackhi_epi32(b, d), out + 6 * stride, stride);
}

/* Unpacks the next tile's fields in small doses, 64 values in all, between steps of a transform: those
 * wait for the two vector ports, while pdep and its loads have ports of their own. */
struct feed {
    struct tile *tile; /* NULL: nothing to unpack */
    uint64_t widths;
    size_t bit;
    uint8_t *out;
};

INLINE void feed_begin(struct feed *f)
{
    struct tile *t = f->tile;

    f->widths = _pdep_u64(load64(t->widths) >> t->width_shift, 0x3f3f3f3f3f3f3f3full);
    f->bit = t->field_bit;
    f->out = (uint8_t *)t->values + t->unpacked;
}

INLINE void feed16(struct feed *f)
{
    unpack8(f->tile, &f->bit, f->widths & 63, f->out, true);
    unpack8(f->tile, &f->bit, f->widths >> 8 & 63, f->out + 8, true);
    f->widths >>= 16;
    f->out += 16;
}

INLINE void feed_end(struct feed *f)
{
    f->tile->field_bit = f->bit;
    f->tile->widths += 6;
    f->tile->unpacked += 64;
}

/* x[2 p + h]: pair p of rows, columns 4h to 4h + 3. */
INLINE void inverse8(const vec x[8], uint8_t *out, size_t stride, struct feed *feed)
{
    vec columns[8], sums[2][8];

    for (int h = 0; h < 2; h++) {
        vec o[8], rows[4];
        transform8(x[h], x[2 + h], x[4 + h], x[6 + h], true, o);
        if (feed)
            feed16(feed);
        for (int q = 0; q < 4; q++)
            rows[q] = join_first(o[2 * q], o[2 * q + 1]);
        transpose4x4(rows, columns + 4 * h);
    }
    columns[0] = with_rounding(columns[0]);
    transform8(_mm512_unpacklo_epi16(columns[0], columns[4]), _mm512_unpacklo_epi16(columns[2], columns[6]),
               _mm512_unpacklo_epi16(columns[1], columns[3]), _mm512_unpacklo_epi16(columns[5], columns[7]), false,
               sums[0]);
    if (feed)
        feed16(feed);
    transform8(_mm512_unpackhi_epi16(columns[0], columns[4]), _mm512_unpackhi_epi16(columns[2], columns[6]),
               _mm512_unpackhi_epi16(columns[1], columns[3]), _mm512_unpackhi_epi16(columns[5], columns[7]), false,
               sums[1]);
    if (feed)
        feed16(feed);
    store_pixels(sums, out, stride);
}

/* Only the low corner: x[0] has rows 0 with 2, x[1] rows 1 with 3, of columns 0 to 3. */
INLINE void inverse4(const vec x[2], uint8_t *out, size_t stride, struct feed *feed)
{
    vec o[8], rows[4], columns[4], sums[2][8];

    transform4(x[0], x[1], true, o);
    for (int q = 0; q < 4; q++)
        rows[q] = join_first(o[2 * q], o[2 * q + 1]);
    if (feed) {
        feed16(feed);
        feed16(feed);
    }
    transpose4x4(rows, columns);
    columns[0] = with_rounding(columns[0]);
    transform4(_mm512_unpacklo_epi16(columns[0], columns[2]), _mm512_unpacklo_epi16(columns[1], columns[3]), false,
               sums[0]);
    transform4(_mm512_unpackhi_epi16(columns[0], columns[2]), _mm512_unpackhi_epi16(columns[1], columns[3]), false,
               sums[1]);
    if (feed) {
        feed16(feed);
        feed16(feed);
    }
    store_pixels(sums, out, stride);
}

/* From blocks to samples. */

/* Row `row` of four blocks. */
INLINE vec load_row(const int16_t (*blocks)[64], int row)
{
    vec v = _mm512_castsi128_si512(_mm_load_si128((const __m128i *)(blocks[0] + 8 * row)));

    v = _mm512_inserti32x4(v, _mm_load_si128((const __m128i *)(blocks[1] + 8 * row)), 1);
    v = _mm512_inserti32x4(v, _mm_load_si128((const __m128i *)(blocks[2] + 8 * row)), 2);
    return _mm512_inserti32x4(v, _mm_load_si128((const __m128i *)(blocks[3] + 8 * row)), 3);
}

static void inverse_all(const int16_t (*blocks)[64], uint32_t count, uint8_t *out, size_t stride)
{
    static const uint8_t rows[4][2] = {{0, 4}, {2, 6}, {1, 3}, {5, 7}}; /* as row_pair and row_side say */

    for (uint32_t i = 0; i < count; i += GROUP, blocks += GROUP) {
        vec x[8];
        for (int p = 0; p < 4; p++) {
            vec a = load_row(blocks, rows[p][0]), b = load_row(blocks, rows[p][1]);
            x[2 * p] = _mm512_unpacklo_epi16(a, b);
            x[2 * p + 1] = _mm512_unpackhi_epi16(a, b);
        }
        inverse8(x, out + 8 * i, stride, NULL);
    }
}

/* From parsed tiles to samples, four blocks at a time. */

INLINE vec expand(const struct tile *t, unsigned block)
{
    vec v = _mm512_loadu_si512(t->values + t->first[block]);

    __asm__("" : "+v"(v)); /* keeps vpexpandb in its register form: with memory it is microcode */
    return _mm512_maskz_expand_epi8(t->mask[block], v);
}

/* Spreads one number of each block over its lane. */
INLINE vec spread_dc(__m256i dc, unsigned group)
{
    return _mm512_permutexvar_epi16(k.dc_index[group], _mm512_castsi256_si512(dc));
}

INLINE void store_flat(vec dc, uint8_t *out, size_t stride)
{
    /* (4 dc 2^13 + 2^17) >> 18, then + 128 */
    vec v = _mm512_srai_epi16(_mm512_adds_epi16(_mm512_slli_epi16(dc, 2), _mm512_set1_epi16(16)), 5);
    v = _mm512_max_epi16(_mm512_adds_epi16(v, _mm512_set1_epi16(128)), _mm512_setzero_si512());
    __m256i pixels = _mm512_cvtusepi16_epi8(v);

    for (int row = 0; row < 8; row++, out += stride)
        _mm256_storeu_si256((__m256i *)out, pixels);
}

/* Counts the exceptions before a block, where a box begins inside of a tile. */
NOINLINE void skip_exceptions(struct tile *t, unsigned block)
{
    for (unsigned i = 0; i < t->first[block]; i++)
        t->exception += t->values[i] == -128;
}

/* Bytes to words << 8, times quantizer << 7, rounded at 2^15: the exact product. */
INLINE vec dequantize(vec bytes_high, vec table)
{
    return _mm512_mulhrs_epi16(bytes_high, table);
}

INLINE void gather_corner(const vec v[GROUP], const struct table *table, vec x[2])
{
    const vec zero = _mm512_setzero_si512();
    vec p = _mm512_maskz_permutexvar_epi8(0xffffull, _mm512_load_si512(k.order_corner[0]), v[0]);

    p = _mm512_mask_permutexvar_epi8(p, 0xffffull << 16, _mm512_load_si512(k.order_corner[1]), v[1]);
    p = _mm512_mask_permutexvar_epi8(p, 0xffffull << 32, _mm512_load_si512(k.order_corner[2]), v[2]);
    p = _mm512_mask_permutexvar_epi8(p, 0xffffull << 48, _mm512_load_si512(k.order_corner[3]), v[3]);
    x[0] = dequantize(_mm512_unpacklo_epi8(zero, p), table->corner[0]);
    x[1] = dequantize(_mm512_unpackhi_epi8(zero, p), table->corner[1]);
}

/* Values in the transform's order: p[i] has pair i of rows of all four blocks. */
INLINE void gather_pairs(const vec v[GROUP], vec p[4])
{
    const vec even = _mm512_load_si512(k.order_even), odd = _mm512_load_si512(k.order_odd);
    vec b0 = _mm512_permutexvar_epi8(even, v[0]), b1 = _mm512_permutexvar_epi8(odd, v[1]);
    vec b2 = _mm512_permutexvar_epi8(even, v[2]), b3 = _mm512_permutexvar_epi8(odd, v[3]);
    /* Lanes are pairs of rows, vectors are blocks; make it the other way round. */
    vec low01 = _mm512_shuffle_i64x2(b0, b1, 0x44), low23 = _mm512_shuffle_i64x2(b2, b3, 0x44);
    vec high01 = _mm512_shuffle_i64x2(b0, b1, 0xee), high23 = _mm512_shuffle_i64x2(b2, b3, 0xee);

    p[0] = _mm512_shuffle_i64x2(low01, low23, 0x88);
    p[1] = _mm512_shuffle_i64x2(low01, low23, 0xdd);
    p[2] = _mm512_shuffle_i64x2(high01, high23, 0x88);
    p[3] = _mm512_shuffle_i64x2(high01, high23, 0xdd);
}

INLINE void gather_full(const vec v[GROUP], const struct table *table, vec x[8])
{
    const vec zero = _mm512_setzero_si512();
    vec p[4];

    gather_pairs(v, p);
    for (int i = 0; i < 4; i++) {
        x[2 * i] = dequantize(_mm512_unpacklo_epi8(zero, p[i]), table->full[2 * i]);
        x[2 * i + 1] = dequantize(_mm512_unpackhi_epi8(zero, p[i]), table->full[2 * i + 1]);
    }
}

/* Overwrites the exceptions among a group's dequantized coefficients one after the other. */
NOINLINE void patch(struct tile *t, const vec values[GROUP], const struct table *table, vec x[8])
{
    for (unsigned b = 0; b < GROUP; b++)
        for (uint64_t m = _mm512_cmpeq_epi8_mask(values[b], k.exception); m; m = _blsr_u64(m)) {
            unsigned i = (unsigned)_tzcnt_u64(m), n = rj_natural_order[b & 1 ? 63 - i : i];
            unsigned word = k.word_full[n] + 8 * b;
            short v = (short)(next_exception(t) * (int)table->natural[n]);
            x[word / 32] = _mm512_mask_set1_epi16(x[word / 32], 1u << word % 32, v);
        }
}

/* The next exceptions, up to 32; they lie backwards before those taken. 0 where the tile has no more. */
INLINE vec load_exceptions(const struct tile *t, unsigned count)
{
    uint32_t left = t->size / 2 > t->exception ? t->size / 2 - t->exception : 0;
    __mmask32 valid = (__mmask32)(0xffffffff00000000ull >> (left < count ? left : count));
    uintptr_t end = (uintptr_t)t->bytes + t->size - 2 * (uintptr_t)t->exception;

    return _mm512_permutexvar_epi16(k.backwards, _mm512_maskz_loadu_epi16(valid, (const void *)(end - 64)));
}

/* gather_full() of a group with exceptions: values as low and high bytes, the exceptions' expanded into both. */
NOINLINE void gather_wide(struct tile *t, const vec v[GROUP], const struct table *table, vec x[8])
{
    vec low[GROUP], high[GROUP], low_pairs[4], high_pairs[4];
    __mmask64 at[GROUP];
    unsigned count = 0;

    for (int b = 0; b < GROUP; b++) {
        at[b] = _mm512_cmpeq_epi8_mask(v[b], k.exception);
        count += (unsigned)_mm_popcnt_u64(at[b]);
    }
    if (HR_UNLIKELY(count > 32)) {
        gather_full(v, table, x);
        patch(t, v, table, x);
        return;
    }
    vec words = load_exceptions(t, count), index = k.count_up;
    vec low_bytes = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(words));
    vec high_bytes = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(_mm512_srli_epi16(words, 8)));
    t->exception += count;
    for (int b = 0; b < GROUP; b++) {
        vec signs = _mm512_movm_epi8(_mm512_movepi8_mask(v[b]));
        low[b] = _mm512_mask_expand_epi8(v[b], at[b], _mm512_permutexvar_epi8(index, low_bytes));
        high[b] = _mm512_mask_expand_epi8(signs, at[b], _mm512_permutexvar_epi8(index, high_bytes));
        index = _mm512_add_epi8(index, _mm512_set1_epi8((char)_mm_popcnt_u64(at[b])));
    }
    gather_pairs(low, low_pairs);
    gather_pairs(high, high_pairs);
    for (int i = 0; i < 4; i++) {
        x[2 * i] = _mm512_mullo_epi16(_mm512_unpacklo_epi8(low_pairs[i], high_pairs[i]),
                                      _mm512_srli_epi16(table->full[2 * i], 7));
        x[2 * i + 1] = _mm512_mullo_epi16(_mm512_unpackhi_epi8(low_pairs[i], high_pairs[i]),
                                          _mm512_srli_epi16(table->full[2 * i + 1], 7));
    }
}

INLINE bool any_exception(const struct tile *t, const vec v[GROUP])
{
    const vec mark = k.exception;

    return HR_UNLIKELY(t->head & RJ_TILE_EXCEPTIONS) &&
           (_mm512_cmpeq_epi8_mask(v[0], mark) | _mm512_cmpeq_epi8_mask(v[1], mark) |
            _mm512_cmpeq_epi8_mask(v[2], mark) | _mm512_cmpeq_epi8_mask(v[3], mark));
}

/* Where a group's blocks have values. */
INLINE void do_busy_group(struct tile *t, unsigned group, const struct table *table, vec spread, uint8_t *out,
                          size_t stride, struct feed *feed)
{
    const uint64_t *m = t->mask + GROUP * group;
    uint64_t even = m[0] | m[2], odd = m[1] | m[3];
    vec v[GROUP] = {expand(t, GROUP * group), expand(t, GROUP * group + 1), expand(t, GROUP * group + 2),
                    expand(t, GROUP * group + 3)};
    const __mmask32 dc_words = 0x01010101;
    bool exceptions = any_exception(t, v);

    if (!exceptions && !(even & k.outside_even) && !(odd & k.outside_odd)) {
        vec corner[2];
        gather_corner(v, table, corner);
        corner[0] = _mm512_mask_mov_epi16(corner[0], dc_words, spread);
        inverse4(corner, out, stride, feed);
        return;
    }
    vec x[8];
    if (exceptions) {
        vec own[8]; /* x stays in registers */
        gather_wide(t, v, table, own);
        memcpy(x, own, sizeof(x));
    } else {
        gather_full(v, table, x);
    }
    x[0] = _mm512_mask_mov_epi16(x[0], dc_words, spread);
    inverse8(x, out, stride, feed);
}

NOINLINE void do_group_alone(struct tile *t, unsigned group, const struct table *table, vec spread, uint8_t *out,
                             size_t stride)
{
    do_busy_group(t, group, table, spread, out, stride, NULL);
}

NOINLINE void do_group_and_feed(struct tile *t, unsigned group, const struct table *table, vec spread, uint8_t *out,
                                size_t stride, struct tile *next)
{
    struct feed feed = {.tile = next};

    feed_begin(&feed);
    do_busy_group(t, group, table, spread, out, stride, &feed);
    feed_end(&feed);
}

/* next: a tile to unpack meanwhile, or NULL. */
INLINE void do_group(struct tile *t, unsigned group, const struct table *table, __m256i dc, uint8_t *out,
                     size_t stride, struct tile *next)
{
    const uint64_t *m = t->mask + GROUP * group;
    vec spread = spread_dc(dc, group);

    if (!(m[0] | m[1] | m[2] | m[3]))
        store_flat(spread, out, stride);
    else if (next && next->unpacked < next->wanted)
        do_group_and_feed(t, group, table, spread, out, stride, next);
    else
        do_group_alone(t, group, table, spread, out, stride);
}

/* A tile is parsed while the one before it is transformed. next may be NULL. */
INLINE bool do_tile(struct tile *t, const struct rj_job *job, const struct table *table, size_t stride,
                    struct tile *next, const struct rj_job *next_job)
{
    unsigned group = job->first / GROUP, end = (job->end + GROUP - 1u) / GROUP;
    __m256i dc = _mm256_mullo_epi16(_mm256_load_si256((const __m256i *)t->dc),
                                    _mm256_set1_epi16((short)table->natural[0]));

    if (next && !parse_front(next, next_job, GROUP))
        return false;
    if (HR_UNLIKELY(t->head & RJ_TILE_EXCEPTIONS) && group)
        skip_exceptions(t, GROUP * group);
    for (; group < end; group++)
        do_group(t, group, table, dc, job->out + 8 * GROUP * group, stride, next);
    if (next)
        parse_rest(next);
    return true;
}

static bool run(const struct rj_job *jobs, uint32_t count, uint8_t (*tables)[RJ_TABLE_BYTES], size_t stride,
                void *memory)
{
    struct scratch *s = memory;

    if (!count || !parse_front(&s->tile[0], &jobs[0], GROUP))
        return !count;
    parse_rest(&s->tile[0]);
    for (uint32_t i = 0; i < count; i++) {
        const struct table *table = (const struct table *)tables[jobs[i].component];
        bool more = i + 1 < count;
        if (!do_tile(&s->tile[i & 1], &jobs[i], table, stride, more ? &s->tile[~i & 1] : NULL, &jobs[i + more]))
            return false;
    }
    return true;
}

const struct rj_variant rj_variant_avx512 = {
    .name = "avx512",
    .scratch_bytes = sizeof(struct scratch),
    .max_quantizer = 255,
    .init = init,
    .prepare = prepare,
    .run = run,
    .inverse = inverse_all,
    .run_scaled = rj_run_scaled_avx512,
    .across = across,
    .down = down,
    .both = both,
    .ycc_to_rgb = ycc_to_rgb,
    .ycc_to_planes = ycc_to_planes,
    .interleave = interleave,
};
