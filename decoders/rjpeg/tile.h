/* One tile: up to 16 neighbouring blocks of one component's block row, written and read back. The
 * reader here is the plain one; the vector ones are in variant_*.c. */
#ifndef HR_DECODERS_RJPEG_TILE_H
#define HR_DECODERS_RJPEG_TILE_H

#include "rjpeg/layout.h"

/* A block's quantized coefficients between scan and tile: those AC values that are not 0. */
struct rj_block {
    uint64_t mask;         /* bit i: a value at scan position i; at 63 - i where the block is backwards */
    const int16_t *values; /* in the order of the mask's bits, from the lowest up */
    int16_t dc;            /* of 12 bits */
};

/* Writes blocks (none of them backwards). Returns the bytes written to out (room for RJ_TILE_MAX + 16). */
size_t rj_tile_write(const struct rj_block *blocks, uint32_t count, uint8_t *out);

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

/* All of a tile, for the way back to JPEG: odd blocks are backwards. values: room for RJ_TILE_VALUES + 8.
 * False: damaged. */
bool rj_tile_read(const uint8_t *bytes, uint32_t size, uint32_t count, struct rj_block *blocks, int16_t *values);

#endif
