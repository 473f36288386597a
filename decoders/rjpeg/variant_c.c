/* The reference: tiles, inverse transform, upsampling and colours in plain C. */
#include <string.h>

#include "rjpeg/tile.h"
#include "rjpeg/variant.h"

struct scratch {
    struct rj_tile tile;
    int16_t values[RJ_TILE_VALUES + 8];
    int16_t block[64];
};

static void prepare(const uint16_t natural[64], void *table)
{
    memcpy(table, natural, 128);
}

static inline uint32_t times(int16_t x, int16_t factor)
{
    return (uint32_t)((int32_t)x * factor);
}

/* Eight one-dimensional transforms side by side: in[8 * k + i] is coefficient k of line i. This is the
 * accurate integer transform of the Independent JPEG Group (jidctint.c, after Loeffler, Ligtenberg and
 * Moschytz, ICASSP 1989), its rotations multiplied out: sums of products with 13-bit constants give
 * the same integers in any order. Sums are modulo 2^32, which only absurd blocks would notice. */
static inline void transform(const int16_t *in, uint32_t round, int32_t out[8][8])
{
    for (int i = 0; i < 8; i++) {
        int16_t x1 = in[8 + i], x2 = in[16 + i], x3 = in[24 + i], x5 = in[40 + i], x6 = in[48 + i], x7 = in[56 + i];
        uint32_t s0 = times(in[i], 8192) + round, s4 = times(in[32 + i], 8192);
        uint32_t t3 = times(x2, 10703) + times(x6, 4433), t2 = times(x2, 4433) + times(x6, -10704);
        uint32_t e0 = s0 + s4 + t3, e3 = s0 + s4 - t3, e1 = s0 - s4 + t2, e2 = s0 - s4 - t2;
        uint32_t o0 = times(x1, 11363) + times(x3, 9633) + times(x5, 6437) + times(x7, 2260);
        uint32_t o1 = times(x1, 9633) + times(x3, -2259) + times(x5, -11362) + times(x7, -6436);
        uint32_t o2 = times(x1, 6437) + times(x3, -11362) + times(x5, 2261) + times(x7, 9633);
        uint32_t o3 = times(x1, 2260) + times(x3, -6436) + times(x5, 9633) + times(x7, -11363);
        out[0][i] = (int32_t)(e0 + o0);
        out[7][i] = (int32_t)(e0 - o0);
        out[1][i] = (int32_t)(e1 + o1);
        out[6][i] = (int32_t)(e1 - o1);
        out[2][i] = (int32_t)(e2 + o2);
        out[5][i] = (int32_t)(e2 - o2);
        out[3][i] = (int32_t)(e3 + o3);
        out[4][i] = (int32_t)(e3 - o3);
    }
}

static inline uint8_t clamp(int v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void inverse(const int16_t *block, uint8_t *out, size_t stride)
{
    int32_t wide[8][8];
    int16_t lines[64];

    transform(block, 1 << 10, wide);
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < 8; i++)
            lines[8 * k + i] = (int16_t)(wide[i][k] >> 11);
    transform(lines, (1 << 17) + (128 << 18), wide);
    for (int row = 0; row < 8; row++)
        for (int column = 0; column < 8; column++)
            out[row * stride + (size_t)column] = clamp(wide[column][row] >> 18);
}

/* Only a DC: both passes come down to one rounding. */
static void flat(int16_t dc, uint8_t *out, size_t stride)
{
    int v = clamp((((int16_t)(dc * 4) * 8192 + (1 << 17)) >> 18) + 128);

    for (int row = 0; row < 8; row++)
        memset(out + row * stride, v, 8);
}

/* Puts block i's values at their places, dequantized modulo 2^16. */
static void place(struct scratch *s, uint32_t i, const uint16_t *quantizer)
{
    const int16_t *v = s->values + s->tile.first[i];
    int16_t *block = s->block;

    memset(block, 0, sizeof(s->block));
    for (uint64_t m = s->tile.mask[i]; m; m &= m - 1) {
        int j = __builtin_ctzll(m), n = rj_natural_order[i & 1 ? 63 - j : j];
        block[n] = (int16_t)((int)quantizer[n] * *v++);
    }
}

static bool run_tile(const struct rj_job *job, const uint16_t *quantizer, size_t stride, struct scratch *s)
{
    if (!rj_tile_open(&s->tile, job->bytes, job->size, job->blocks))
        return false;
    rj_tile_values(&s->tile, s->tile.first[job->end], s->values);
    for (uint32_t i = job->first; i < job->end; i++) {
        int16_t dc = (int16_t)((int)quantizer[0] * s->tile.dc[i]);
        if (!s->tile.mask[i]) {
            flat(dc, job->out + 8 * i, stride);
            continue;
        }
        place(s, i, quantizer);
        s->block[0] = dc;
        inverse(s->block, job->out + 8 * i, stride);
    }
    return true;
}

static bool run(const struct rj_job *jobs, uint32_t count, uint8_t (*tables)[RJ_TABLE_BYTES], size_t stride,
                void *scratch)
{
    for (uint32_t i = 0; i < count; i++)
        if (!run_tile(&jobs[i], (const uint16_t *)tables[jobs[i].component], stride, scratch))
            return false;
    return true;
}

static void across(const uint8_t *in, uint32_t count, uint8_t *out)
{
    for (uint32_t x = 0; x < count; x++) {
        const uint8_t *p = in + x;
        out[2 * x] = (uint8_t)((3 * p[0] + p[-1] + 1) >> 2);
        out[2 * x + 1] = (uint8_t)((3 * p[0] + p[1] + 2) >> 2);
    }
}

static void down(const uint8_t *near, const uint8_t *far, unsigned bias, uint32_t count, uint8_t *out)
{
    for (uint32_t x = 0; x < count; x++)
        out[x] = (uint8_t)((3 * near[x] + far[x] + bias) >> 2);
}

static void both(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out, uint16_t *sums)
{
    for (uint32_t x = 0; x < count + 2; x++)
        sums[x] = (uint16_t)(3 * near[(ptrdiff_t)x - 1] + far[(ptrdiff_t)x - 1]);
    for (uint32_t x = 0; x < count; x++) {
        out[2 * x] = (uint8_t)((3 * sums[x + 1] + sums[x] + 8) >> 4);
        out[2 * x + 1] = (uint8_t)((3 * sums[x + 1] + sums[x + 2] + 7) >> 4);
    }
}

/* ITU-R BT.601 as JFIF has it, in 16-bit fixed point rounded as libjpeg's tables are. */
static void ycc_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count, uint8_t *rgb)
{
    for (uint32_t x = 0; x < count; x++, rgb += 3) {
        int u = cb[x] - 128, v = cr[x] - 128;
        rgb[0] = clamp(y[x] + ((91881 * v + 32768) >> 16));
        rgb[1] = clamp(y[x] + ((-22554 * u - 46802 * v + 32768) >> 16));
        rgb[2] = clamp(y[x] + ((116130 * u + 32768) >> 16));
    }
}

static void interleave(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint32_t count, uint8_t *rgb)
{
    for (uint32_t x = 0; x < count; x++, rgb += 3) {
        rgb[0] = r[x];
        rgb[1] = g[x];
        rgb[2] = b[x];
    }
}

const struct rj_variant rj_variant_c = {
    .name = "c",
    .scratch_bytes = sizeof(struct scratch),
    .max_quantizer = 65535,
    .prepare = prepare,
    .run = run,
    .across = across,
    .down = down,
    .both = both,
    .ycc_to_rgb = ycc_to_rgb,
    .interleave = interleave,
};
