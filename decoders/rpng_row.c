/* Rows of one plane: a predictor byte, 4 bits of width for each 32 residuals, then the residuals, folded to
 * small numbers, eight fields to as many bytes as a field has bits. All arithmetic is modulo 256. */
#include "decoders/rpng.h"

#include <string.h>

#include "base/vec.h"

enum { LEFT = 1, UP = 2, PREDICTORS = 4 }; /* bits of the predictor; both: the gradient */

static uint32_t blocks_of(uint32_t width)
{
    return (width + HR_RPNG_BLOCK - 1) / HR_RPNG_BLOCK;
}

size_t hr_rpng_row_bound(uint32_t width)
{
    return 1 + (blocks_of(width) + 1) / 2 + (size_t)blocks_of(width) * HR_RPNG_BLOCK;
}

/* ---- packing ---- */

static uint8_t fold(uint8_t d)
{
    return (uint8_t)(d << 1 ^ (d & 0x80 ? 0xff : 0));
}

static uint8_t residual(const uint8_t *row, const uint8_t *above, uint32_t x, unsigned predictor)
{
    uint8_t left = x && predictor & LEFT ? row[x - 1] : 0, up = predictor & UP ? above[x] : 0;
    uint8_t corner = x && predictor == (LEFT | UP) ? above[x - 1] : 0;

    return fold((uint8_t)(row[x] - left - up + corner));
}

static unsigned block_width(const uint8_t *row, const uint8_t *above, uint32_t x, uint32_t end, unsigned predictor)
{
    unsigned bits = 0, width = 0;

    for (; x < end; x++)
        bits |= residual(row, above, x, predictor);
    while (bits >> width)
        width++;
    return width;
}

static uint32_t end_of(uint32_t block, uint32_t width)
{
    return (uint32_t)hr_min_u64((uint64_t)(block + 1) * HR_RPNG_BLOCK, width);
}

static unsigned choose(const uint8_t *row, const uint8_t *above, uint32_t width)
{
    uint64_t best = UINT64_MAX;
    unsigned chosen = 0;

    for (unsigned p = 0; p < PREDICTORS; p++) {
        uint64_t bits = 0;
        for (uint32_t b = 0; b < blocks_of(width); b++)
            bits += block_width(row, above, b * HR_RPNG_BLOCK, end_of(b, width), p);
        if (bits < best) {
            best = bits;
            chosen = p;
        }
    }
    return chosen;
}

static uint8_t *pack_block(uint8_t *dst, const uint8_t *row, const uint8_t *above, uint32_t x, uint32_t end,
                           unsigned predictor, unsigned width)
{
    for (unsigned chunk = 0; chunk < HR_RPNG_BLOCK / 8; chunk++, dst += width) {
        uint64_t fields = 0;
        uint8_t bytes[8];
        for (unsigned i = 0; i < 8; i++, x++)
            if (x < end)
                fields |= (uint64_t)residual(row, above, x, predictor) << (i * width);
        hr_store_le64(bytes, fields);
        memcpy(dst, bytes, width);
    }
    return dst;
}

size_t hr_rpng_row_encode(uint8_t *dst, const uint8_t *row, const uint8_t *above, uint32_t width)
{
    unsigned predictor = choose(row, above, width);
    uint32_t blocks = blocks_of(width);
    uint8_t *widths = dst + 1, *at = widths + (blocks + 1) / 2;

    dst[0] = (uint8_t)predictor;
    memset(widths, 0, (blocks + 1) / 2);
    for (uint32_t b = 0; b < blocks; b++) {
        uint32_t x = b * HR_RPNG_BLOCK, end = end_of(b, width);
        unsigned bits = block_width(row, above, x, end, predictor);
        widths[b / 2] |= (uint8_t)(bits << (b % 2 * 4));
        at = pack_block(at, row, above, x, end, predictor, bits);
    }
    return (size_t)(at - dst);
}

/* ---- reading ---- */

/* Masks that spread eight fields of a width to bytes, in three steps. */
struct spread {
    uint64_t all, halves, quarters, bytes;
    unsigned width;
};

static struct spread spread_of(unsigned w)
{
    uint64_t field = w ? UINT64_MAX >> (64 - w) : 0, pair = w ? UINT64_MAX >> (64 - 2 * w) : 0;
    uint64_t four = w ? UINT64_MAX >> (64 - 4 * w) : 0;

    return (struct spread){w ? UINT64_MAX >> (64 - 8 * w) : 0, four, pair * UINT64_C(0x0000000100000001),
                           field * UINT64_C(0x0001000100010001), w};
}

static uint64_t take_eight(const uint8_t *p, const struct spread *s)
{
    uint64_t v = hr_load_le64(p) & s->all, odd;

    v = (v & s->halves) | (v >> (4 * s->width) & s->halves) << 32;
    v = (v & s->quarters) | (v >> (2 * s->width) & s->quarters) << 16;
    v = (v & s->bytes) | (v >> s->width & s->bytes) << 8;
    odd = v & UINT64_C(0x0101010101010101);
    return (v >> 1 & UINT64_C(0x7f7f7f7f7f7f7f7f)) ^ odd * 0xff;
}

/* room: bytes readable from p on; wide loads near the end go to a copy. */
static void take_block(const uint8_t *p, size_t room, unsigned width, uint8_t *row)
{
    struct spread s = spread_of(width);
    uint8_t copy[HR_RPNG_BLOCK + 8];

    if (HR_UNLIKELY(room < sizeof(copy))) {
        memset(copy, 0, sizeof(copy));
        memcpy(copy, p, (size_t)width * (HR_RPNG_BLOCK / 8));
        p = copy;
    }
    for (unsigned i = 0; i < HR_RPNG_BLOCK; i += 8, p += width)
        hr_store_le64(row + i, take_eight(p, &s));
}

/* Sums from the left, sixteen at a time. */
static void add_left(uint8_t *row, uint32_t columns)
{
    const hr_u8x16 zero = {0};
    hr_u8x16 carry = zero;

    for (uint32_t x = 0; x < columns; x += 16) {
        hr_u8x16 v = hr_vec_load(row + x);
        v += HR_VEC_SHUFFLE(hr_u8x16, zero, v, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
        v += HR_VEC_SHUFFLE(hr_u8x16, zero, v, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29);
        v += HR_VEC_SHUFFLE(hr_u8x16, zero, v, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27);
        v += HR_VEC_SHUFFLE(hr_u8x16, zero, v, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
        v += carry;
        hr_vec_store(row + x, v);
        uint8_t last = v[15];
        carry = (hr_u8x16){last, last, last, last, last, last, last, last,
                           last, last, last, last, last, last, last, last};
    }
}

static void add_up(uint8_t *row, const uint8_t *above, uint32_t columns)
{
    for (uint32_t x = 0; x < columns; x += 16)
        hr_vec_store(row + x, hr_vec_load(row + x) + hr_vec_load(above + x));
}

bool hr_rpng_row_decode(const uint8_t **at, const uint8_t *end, uint8_t *row, const uint8_t *above, uint32_t width,
                        uint32_t columns)
{
    uint32_t blocks = blocks_of(width), wanted = blocks_of(columns);
    size_t head = 1 + (size_t)(blocks + 1) / 2, left = (size_t)(end - *at);
    const uint8_t *p = *at, *data = p + head;
    size_t bytes = 0;

    if (left < head || p[0] >= PREDICTORS)
        return false;
    for (uint32_t b = 0; b < blocks; b++) {
        unsigned bits = p[1 + b / 2] >> (b % 2 * 4) & 15;
        if (bits > 8 || left - head < bytes + bits * (HR_RPNG_BLOCK / 8))
            return false;
        if (b < wanted)
            take_block(data + bytes, left - head - bytes, bits, row + (size_t)b * HR_RPNG_BLOCK);
        bytes += bits * (HR_RPNG_BLOCK / 8);
    }
    if (p[0] & LEFT)
        add_left(row, wanted * HR_RPNG_BLOCK);
    if (p[0] & UP)
        add_up(row, above, wanted * HR_RPNG_BLOCK);
    *at = data + bytes;
    return true;
}
