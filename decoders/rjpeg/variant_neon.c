/* NEON: bit fields are brought into bytes by lookups and shifts (tile_neon.h); a lookup puts 16 values at their
 * scan positions, with an index that two small tables give for any mask; another, over a block's four
 * vectors, turns scan order into rows. Bit for bit what variant_c.c gives, for any quantizer and any block. */
#include <pthread.h>

#include "rjpeg/inverse_neon.h"
#include "rjpeg/rows_neon.h"
#include "rjpeg/tile_neon.h"

struct scratch {
    struct tile tile;
    int16_t wide[VALUES_ROOM]; /* only where a tile has exceptions: all values */
    uint32_t exception_blocks; /* bit i: block i has some */
};

/* The quantizer as it is, and its low 4x4 corner. */
struct table {
    uint16_t full[64], corner[16];
};
_Static_assert(sizeof(struct table) <= RJ_TABLE_BYTES, "table");

/* Constants, made once. Orders say which scan position natural position n takes, [1] for backward blocks. */
static struct {
    _Alignas(16) uint8_t expand_low[256][16], expand_high[256][16]; /* by the mask's low and high byte */
    _Alignas(16) uint8_t order[2][64];     /* of all 64 */
    _Alignas(16) uint8_t near_order[2][64]; /* of the 32 that come first in scan order */
    _Alignas(16) uint8_t corner[2][16];    /* the same, of the low 4x4 corner */
    uint64_t near[2], inside[2]; /* masks: the 32 that come first, the corner */
} k;

/* The sum of one row of each table is a lookup's index: the low eight positions count set bits from 0, the
 * high ones go on from the low byte's count; 0x80 makes a zero. */
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

static void make_orders(void)
{
    k.near[0] = 0xffffffff;
    k.near[1] = ~k.near[0];
    for (unsigned i = 0; i < 64; i++) {
        unsigned n = rj_natural_order[i];
        k.order[0][n] = (uint8_t)i;
        k.order[1][n] = (uint8_t)(63 - i);
        k.near_order[0][n] = (uint8_t)(i < 32 ? i : 0x80);
        k.near_order[1][n] = (uint8_t)(i < 32 ? 31 - i : 0x80); /* in the upper half of the mask */
        if (n >> 3 > 3 || (n & 7) > 3)
            continue;
        for (int backward = 0; backward < 2; backward++)
            k.corner[backward][n / 8 * 4 + n % 8] = k.near_order[backward][n];
        k.inside[0] |= 1ull << i;
        k.inside[1] |= 1ull << (63 - i);
    }
}

static void make_constants(void)
{
    make_field_tables();
    make_expansions();
    make_orders();
}

static void init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_constants);
}

static void prepare(const uint16_t natural[64], void *memory)
{
    struct table *t = memory;

    memcpy(t->full, natural, sizeof(t->full));
    for (unsigned i = 0; i < 16; i++)
        t->corner[i] = natural[i / 4 * 8 + i % 4];
}

/* Values to scan positions. */

/* The exceptions' blocks, whose values are taken from words instead. */
NOINLINE void find_exceptions(struct scratch *s)
{
    struct tile *t = &s->tile;
    unsigned block = 0;

    widen_values(t, s->wide);
    for (uint32_t i = 0; i < t->wanted; i++) {
        if (t->values[i] != -128)
            continue;
        while (i >= t->first[block + 1])
            block++;
        s->exception_blocks |= 1u << block;
    }
}

static bool parse(struct scratch *s, const struct rj_job *job)
{
    if (!parse_front(&s->tile, job))
        return false;
    unpack_values(&s->tile);
    s->exception_blocks = 0;
    if (HR_UNLIKELY(s->tile.head & RJ_TILE_EXCEPTIONS))
        find_exceptions(s);
    return true;
}

/* Bits 16 g to 16 g + 15 of block i's mask. */
INLINE uint8x16_t expand(const struct tile *t, unsigned i, unsigned g)
{
    uint64_t mask = t->mask[i] >> 16 * g;
    uint8x16_t index = vaddq_u8(vld1q_u8(k.expand_low[mask & 255]), vld1q_u8(k.expand_high[mask >> 8 & 255]));
    const int8_t *values = t->values + t->first[i] + (g ? t->counts[i][2 * g - 1] : 0);

    return vqtbl1q_u8(vreinterpretq_u8_s8(vld1q_s8(values)), index);
}

/* Bytes to words, times 16 entries of the quantizer. */
INLINE void dequantize(uint8x16_t bytes, const uint16_t *quantizer, int16x8_t out[2])
{
    int8x16_t v = vreinterpretq_s8_u8(bytes);
    const int16_t *q = (const int16_t *)quantizer;

    out[0] = vmulq_s16(vmovl_s8(vget_low_s8(v)), vld1q_s16(q));
    out[1] = vmulq_s16(vmovl_high_s8(v), vld1q_s16(q + 8));
}

/* The low 32 scan positions, in two vectors. */
INLINE uint8x16x2_t expand_near(const struct tile *t, unsigned i)
{
    unsigned g = i & 1 ? 2 : 0;

    return (uint8x16x2_t){{expand(t, i, g), expand(t, i, g + 1)}};
}

NOINLINE void do_corner(const struct tile *t, unsigned i, const struct table *table, int16_t dc, uint8_t *out,
                        size_t stride)
{
    int16x8_t pairs[2];

    dequantize(vqtbl2q_u8(expand_near(t, i), vld1q_u8(k.corner[i & 1])), table->corner, pairs);
    pairs[0] = vsetq_lane_s16(dc, pairs[0], 0);
    rj_inverse_corner(pairs, out, stride);
}

NOINLINE void do_near(const struct tile *t, unsigned i, const struct table *table, int16_t dc, uint8_t *out,
                      size_t stride)
{
    uint8x16x2_t v = expand_near(t, i);
    int16x8_t rows[8];

    for (int p = 0; p < 4; p++)
        dequantize(vqtbl2q_u8(v, vld1q_u8(k.near_order[i & 1] + 16 * p)), table->full + 16 * p, rows + 2 * p);
    rows[0] = vsetq_lane_s16(dc, rows[0], 0);
    rj_inverse_block(rows, out, stride);
}

NOINLINE void do_full(const struct tile *t, unsigned i, const struct table *table, int16_t dc, uint8_t *out,
                      size_t stride)
{
    const uint8x16x4_t v = {{expand(t, i, 0), expand(t, i, 1), expand(t, i, 2), expand(t, i, 3)}};
    int16x8_t rows[8];

    for (int p = 0; p < 4; p++)
        dequantize(vqtbl4q_u8(v, vld1q_u8(k.order[i & 1] + 16 * p)), table->full + 16 * p, rows + 2 * p);
    rows[0] = vsetq_lane_s16(dc, rows[0], 0);
    rj_inverse_block(rows, out, stride);
}

/* One value after the other. */
NOINLINE void do_wide(const struct scratch *s, unsigned i, const struct table *table, int16_t dc, uint8_t *out,
                      size_t stride)
{
    const int16_t *v = s->wide + s->tile.first[i];
    int16_t block[64] = {0};
    int16x8_t rows[8];

    for (uint64_t m = s->tile.mask[i]; m; m &= m - 1) {
        int j = __builtin_ctzll(m), n = rj_natural_order[i & 1 ? 63 - j : j];
        block[n] = (int16_t)((int)table->full[n] * *v++);
    }
    block[0] = dc;
    for (int r = 0; r < 8; r++)
        rows[r] = vld1q_s16(block + 8 * r);
    rj_inverse_block(rows, out, stride);
}

INLINE void do_block(const struct scratch *s, unsigned i, const struct table *table, int16_t dc, uint8_t *out,
                     size_t stride)
{
    uint64_t mask = s->tile.mask[i];

    if (!mask)
        rj_flat_block(dc, out, stride);
    else if (HR_UNLIKELY(s->exception_blocks >> i & 1))
        do_wide(s, i, table, dc, out, stride);
    else if (!(mask & ~k.inside[i & 1]))
        do_corner(&s->tile, i, table, dc, out, stride);
    else if (!(mask & ~k.near[i & 1]))
        do_near(&s->tile, i, table, dc, out, stride);
    else
        do_full(&s->tile, i, table, dc, out, stride);
}

static bool run(const struct rj_job *jobs, uint32_t count, uint8_t (*tables)[RJ_TABLE_BYTES], size_t stride,
                void *memory)
{
    struct scratch *s = memory;

    for (const struct rj_job *job = jobs; job < jobs + count; job++) {
        const struct table *table = (const struct table *)tables[job->component];
        if (!parse(s, job))
            return false;
        for (unsigned i = job->first; i < job->end; i++)
            do_block(s, i, table, (int16_t)((int)table->full[0] * s->tile.dc[i]), job->out + 8 * i, stride);
    }
    return true;
}

static void inverse_all(const int16_t (*blocks)[64], uint32_t count, uint8_t *out, size_t stride)
{
    int16x8_t rows[8];

    for (uint32_t i = 0; i < count; i++) {
        for (int r = 0; r < 8; r++)
            rows[r] = vld1q_s16(blocks[i] + 8 * r);
        rj_inverse_block(rows, out + 8 * i, stride);
    }
}

const struct rj_variant rj_variant_neon = {
    .name = "neon",
    .scratch_bytes = sizeof(struct scratch),
    .max_quantizer = 65535,
    .init = init,
    .prepare = prepare,
    .run = run,
    .inverse = inverse_all,
    .run_scaled = rj_run_scaled_neon,
    .across = rj_across_neon,
    .down = rj_down_neon,
    .both = rj_both_neon,
    .ycc_to_rgb = rj_ycc_to_rgb_neon,
    .ycc_to_planes = rj_ycc_to_planes_neon,
    .interleave = rj_interleave_neon,
};
