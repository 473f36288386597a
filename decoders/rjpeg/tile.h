/* One tile: up to 16 neighbouring blocks of one component's block row, written and read back. The
 * reader here is the plain one; the vector ones are in kernels_*.c. */
#ifndef HR_DECODERS_RJPEG_TILE_H
#define HR_DECODERS_RJPEG_TILE_H

#include "rjpeg/layout.h"

/* Writes blocks coef[0..count) (64 quantized coefficients each, natural order). Returns the bytes
 * written to out (room for RJ_TILE_MAX + 16), or 0 when a DC is beyond 12 bits. */
size_t rj_tile_write(const int16_t (*coef)[64], uint32_t count, uint8_t *out);

/* What a tile says of its blocks before any value is unpacked. */
struct rj_tile {
    const uint8_t *bytes; /* RJ_TILE_READ bytes are readable */
    uint32_t size, blocks, head;
    uint32_t value_count, exception; /* values in all blocks; exceptions taken so far */
    size_t width_bit, value_bit;     /* where the widths and the values begin */
    int16_t dc[RJ_TILE_BLOCKS];
    uint16_t first[RJ_TILE_BLOCKS + 1]; /* index of a block's first value */
    /* Bit i: a value at scan position i (even blocks), 63 - i (odd blocks, stored backwards). */
    uint64_t mask[RJ_TILE_BLOCKS];
};

/* False when masks and widths do not fit into the tile. */
bool rj_tile_open(struct rj_tile *tile, const uint8_t *bytes, uint32_t size, uint32_t blocks);

/* Unpacks the first `count` values of the tile (rounded up to eight); room for RJ_TILE_VALUES + 8.
 * Exceptions are looked up. */
void rj_tile_values(struct rj_tile *tile, uint32_t count, int16_t *values);

/* All coefficients of a tile, natural order, for the way back to JPEG. False: damaged. */
bool rj_tile_coefficients(const uint8_t *bytes, uint32_t size, uint32_t blocks,
                          int16_t (*coef)[64]);

#endif
