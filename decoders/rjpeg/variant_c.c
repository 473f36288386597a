/* The reference: tiles, inverse transform, upsampling and colours in plain C. */
#include <string.h>

#include "base/vec.h"
#include "rjpeg/tile.h"
#include "rjpeg/variant.h"

struct scratch {
    struct rj_tile tile;
    int16_t values[RJ_TILE_VALUES + 8];
    int16_t block[64];
};

#define INLINE static inline __attribute__((always_inline))

INLINE hr_u32x4 multiply(hr_i16x8 pairs, int16_t a, int16_t b)
{
    return (hr_u32x4)hr_vec_madd(pairs, hr_vec_set_pair(a, b));
}

static void prepare(const uint16_t natural[64], void *table)
{
    memcpy(table, natural, 128);
}

/* Rows of a block in pairs, interleaved: a multiply-add takes a column's two at once. */
struct pairs {
    hr_i16x8 x04, x26, x13, x57;
};

/* Four one-dimensional transforms side by side. This is the accurate integer transform of the
 * Independent JPEG Group (jidctint.c, after Loeffler, Ligtenberg and Moschytz, ICASSP 1989), its rotations
 * multiplied out: sums of products with 13-bit constants give the same integers in any order. Sums are
 * modulo 2^32, which only absurd blocks would notice. */
INLINE void transform4(struct pairs p, hr_u32x4 round, hr_u32x4 out[8])
{
    hr_u32x4 sum = multiply(p.x04, 8192, 8192) + round, difference = multiply(p.x04, 8192, -8192) + round;
    hr_u32x4 t3 = multiply(p.x26, 10703, 4433), t2 = multiply(p.x26, 4433, -10704);
    hr_u32x4 e0 = sum + t3, e3 = sum - t3, e1 = difference + t2, e2 = difference - t2;
    hr_u32x4 o0 = multiply(p.x13, 11363, 9633) + multiply(p.x57, 6437, 2260);
    hr_u32x4 o1 = multiply(p.x13, 9633, -2259) + multiply(p.x57, -11362, -6436);
    hr_u32x4 o2 = multiply(p.x13, 6437, -11362) + multiply(p.x57, 2261, 9633);
    hr_u32x4 o3 = multiply(p.x13, 2260, -6436) + multiply(p.x57, 9633, -11363);

    out[0] = e0 + o0;
    out[7] = e0 - o0;
    out[1] = e1 + o1;
    out[6] = e1 - o1;
    out[2] = e2 + o2;
    out[5] = e2 - o2;
    out[3] = e3 + o3;
    out[4] = e3 - o3;
}

/* in[k] holds coefficient k of eight lines; out[k] sample k of the first four (low) and the others. */
INLINE void transform(const hr_i16x8 in[8], uint32_t round, hr_u32x4 low[8], hr_u32x4 high[8])
{
    const hr_u32x4 r = (hr_u32x4)hr_vec_set32((int32_t)round);

    transform4((struct pairs){hr_vec_zip_low16(in[0], in[4]), hr_vec_zip_low16(in[2], in[6]),
                              hr_vec_zip_low16(in[1], in[3]), hr_vec_zip_low16(in[5], in[7])}, r, low);
    transform4((struct pairs){hr_vec_zip_high16(in[0], in[4]), hr_vec_zip_high16(in[2], in[6]),
                              hr_vec_zip_high16(in[1], in[3]), hr_vec_zip_high16(in[5], in[7])}, r, high);
}

/* Bits 11 to 26: modulo 2^16, not saturated. */
INLINE hr_i32x4 narrow_first(hr_u32x4 v)
{
    return (hr_i32x4)(v << 5) >> 16;
}

INLINE void transpose(const hr_i16x8 in[8], hr_i16x8 out[8])
{
    hr_i32x4 pairs[8], fours[8];

    for (int i = 0; i < 8; i += 2) {
        pairs[i] = (hr_i32x4)hr_vec_zip_low16(in[i], in[i + 1]);
        pairs[i + 1] = (hr_i32x4)hr_vec_zip_high16(in[i], in[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int half = 0; half < 2; half++) {
            fours[i + 2 * half] = hr_vec_zip_low32(pairs[i + half], pairs[i + 2 + half]);
            fours[i + 2 * half + 1] = hr_vec_zip_high32(pairs[i + half], pairs[i + 2 + half]);
        }
    for (int i = 0; i < 4; i++) {
        out[2 * i] = (hr_i16x8)hr_vec_zip_low64((hr_i64x2)fours[i], (hr_i64x2)fours[4 + i]);
        out[2 * i + 1] = (hr_i16x8)hr_vec_zip_high64((hr_i64x2)fours[i], (hr_i64x2)fours[4 + i]);
    }
}

INLINE void store_rows(hr_i32x4 two, uint8_t *out, size_t stride)
{
    hr_i64x2 v = (hr_i64x2)two;
    int64_t first = v[0], second = v[1];

    memcpy(out, &first, 8);
    memcpy(out + stride, &second, 8);
}

/* Columns a and b of the block, as bytes. */
INLINE hr_u8x16 two_columns(const hr_u32x4 low[8], const hr_u32x4 high[8], int a, int b)
{
    return hr_vec_pack16(hr_vec_pack32((hr_i32x4)low[a] >> 18, (hr_i32x4)high[a] >> 18),
                         hr_vec_pack32((hr_i32x4)low[b] >> 18, (hr_i32x4)high[b] >> 18));
}

static void store_block(const hr_u32x4 low[8], const hr_u32x4 high[8], uint8_t *out, size_t stride)
{
    hr_u8x16 c04 = two_columns(low, high, 0, 4), c15 = two_columns(low, high, 1, 5);
    hr_u8x16 c26 = two_columns(low, high, 2, 6), c37 = two_columns(low, high, 3, 7);
    hr_i16x8 c01 = (hr_i16x8)hr_vec_zip_low8(c04, c15), c23 = (hr_i16x8)hr_vec_zip_low8(c26, c37);
    hr_i16x8 c45 = (hr_i16x8)hr_vec_zip_high8(c04, c15), c67 = (hr_i16x8)hr_vec_zip_high8(c26, c37);
    hr_i32x4 left = (hr_i32x4)hr_vec_zip_low16(c01, c23), right = (hr_i32x4)hr_vec_zip_low16(c45, c67);

    store_rows(hr_vec_zip_low32(left, right), out, stride);
    store_rows(hr_vec_zip_high32(left, right), out + 2 * stride, stride);
    left = (hr_i32x4)hr_vec_zip_high16(c01, c23);
    right = (hr_i32x4)hr_vec_zip_high16(c45, c67);
    store_rows(hr_vec_zip_low32(left, right), out + 4 * stride, stride);
    store_rows(hr_vec_zip_high32(left, right), out + 6 * stride, stride);
}

static void inverse(const int16_t *block, uint8_t *out, size_t stride)
{
    hr_u32x4 low[8], high[8];
    hr_i16x8 rows[8], lines[8];

    for (int k = 0; k < 8; k++)
        rows[k] = (hr_i16x8)hr_vec_load(block + 8 * k);
    transform(rows, 1 << 10, low, high);
    for (int k = 0; k < 8; k++)
        rows[k] = hr_vec_pack32(narrow_first(low[k]), narrow_first(high[k]));
    transpose(rows, lines);
    lines[0] = hr_vec_add_saturated16(lines[0], hr_vec_set16(RJ_SECOND_ROUND));
    transform(lines, 0, low, high);
    store_block(low, high, out, stride);
}

static inline uint8_t clamp(int v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void inverse_all(const int16_t (*blocks)[64], uint32_t count, uint8_t *out, size_t stride)
{
    for (uint32_t i = 0; i < count; i++)
        inverse(blocks[i], out + 8 * i, stride);
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

/* Two pixels of r, g, b, 0 in 64 bits to six bytes; the two after them are written too. */
INLINE void store_pixels(hr_i16x8 four, uint8_t *rgb)
{
    const int64_t pixel = 0xffffff, next = 0xffffff000000;
    hr_i64x2 v = (hr_i64x2)four;

    v = (v & (hr_i64x2){pixel, pixel}) | (v >> 8 & (hr_i64x2){next, next});
    int64_t first = v[0], second = v[1];
    memcpy(rgb, &first, 8);
    memcpy(rgb + 6, &second, 8);
}

/* 48 bytes, and two after them. */
INLINE void store_16_pixels(hr_u8x16 r, hr_u8x16 g, hr_u8x16 b, uint8_t *rgb)
{
    hr_i16x8 rg = (hr_i16x8)hr_vec_zip_low8(r, g), blue = hr_vec_widen_low8(b);

    store_pixels(hr_vec_zip_low16(rg, blue), rgb);
    store_pixels(hr_vec_zip_high16(rg, blue), rgb + 12);
    rg = (hr_i16x8)hr_vec_zip_high8(r, g);
    blue = hr_vec_widen_high8(b);
    store_pixels(hr_vec_zip_low16(rg, blue), rgb + 24);
    store_pixels(hr_vec_zip_high16(rg, blue), rgb + 36);
}

/* (factor v + 2^15) >> 16. */
INLINE hr_i16x8 part(hr_i16x8 v, int16_t factor)
{
    hr_i16x8 f = hr_vec_set16(factor);

    return hr_vec_mulhi_i16(v, f) + (hr_i16x8)((hr_u16x8)v * (hr_u16x8)f >> 15);
}

struct rgb {
    hr_i16x8 r, g, b;
};

/* ITU-R BT.601 as JFIF has it, in 16-bit fixed point rounded as libjpeg's tables are: red 91881 v, green
 * -22554 u - 46802 v, blue 116130 u; multiples of 2^16 need no product. */
INLINE struct rgb convert(hr_i16x8 y, hr_i16x8 u, hr_i16x8 v)
{
    const hr_u32x4 half = (hr_u32x4)hr_vec_set32(32768);
    hr_u32x4 low = multiply(hr_vec_zip_low16(u, v), -22554, 65536 - 46802) + half;
    hr_u32x4 high = multiply(hr_vec_zip_high16(u, v), -22554, 65536 - 46802) + half;

    return (struct rgb){
        .r = y + v + part(v, 91881 - 65536),
        .g = y - v + hr_vec_pack32((hr_i32x4)low >> 16, (hr_i32x4)high >> 16),
        .b = y + u + u + part(u, 116130 - 131072),
    };
}

struct pixels {
    hr_u8x16 r, g, b;
};

INLINE struct pixels convert_16(hr_u8x16 y, hr_u8x16 cb, hr_u8x16 cr)
{
    const hr_i16x8 centre = hr_vec_set16(128);
    struct rgb low = convert(hr_vec_widen_low8(y), hr_vec_widen_low8(cb) - centre, hr_vec_widen_low8(cr) - centre);
    struct rgb high = convert(hr_vec_widen_high8(y), hr_vec_widen_high8(cb) - centre, hr_vec_widen_high8(cr) - centre);

    return (struct pixels){hr_vec_pack16(low.r, high.r), hr_vec_pack16(low.g, high.g), hr_vec_pack16(low.b, high.b)};
}

INLINE void store_converted(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *rgb)
{
    struct pixels p = convert_16(hr_vec_load(y), hr_vec_load(cb), hr_vec_load(cr));

    store_16_pixels(p.r, p.g, p.b, rgb);
}

static void ycc_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count, uint8_t *rgb)
{
    uint8_t last[64];
    uint32_t x = 0;

    for (; count - x > 16; x += 16)
        store_converted(y + x, cb + x, cr + x, rgb + 3 * (size_t)x);
    store_converted(y + x, cb + x, cr + x, last);
    memcpy(rgb + 3 * (size_t)x, last, 3 * (size_t)(count - x));
}

static void ycc_to_planes(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count, uint8_t *const rgb[3])
{
    for (uint32_t x = 0; x < count; x += 16) {
        struct pixels p = convert_16(hr_vec_load(y + x), hr_vec_load(cb + x), hr_vec_load(cr + x));
        hr_vec_store(rgb[0] + x, p.r);
        hr_vec_store(rgb[1] + x, p.g);
        hr_vec_store(rgb[2] + x, p.b);
    }
}

static void interleave(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint32_t count, uint8_t *rgb)
{
    uint8_t last[64];
    uint32_t x = 0;

    for (; count - x > 16; x += 16)
        store_16_pixels(hr_vec_load(r + x), hr_vec_load(g + x), hr_vec_load(b + x), rgb + 3 * (size_t)x);
    store_16_pixels(hr_vec_load(r + x), hr_vec_load(g + x), hr_vec_load(b + x), last);
    memcpy(rgb + 3 * (size_t)x, last, 3 * (size_t)(count - x));
}

const struct rj_variant rj_variant_c = {
    .name = "c",
    .scratch_bytes = sizeof(struct scratch),
    .max_quantizer = 65535,
    .prepare = prepare,
    .run = run,
    .inverse = inverse_all,
    .run_scaled = rj_run_scaled_c,
    .across = across,
    .down = down,
    .both = both,
    .ycc_to_rgb = ycc_to_rgb,
    .ycc_to_planes = ycc_to_planes,
    .interleave = interleave,
};
