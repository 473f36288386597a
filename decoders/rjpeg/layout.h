/* Shared inside the library: the bytes of a packed value (docs/formats/repacked-jpeg.md is the
 * specification), how tiles are counted, and what one tile can need at most. */
#ifndef HR_DECODERS_RJPEG_LAYOUT_H
#define HR_DECODERS_RJPEG_LAYOUT_H

#include "rjpeg/rjpeg.h"

#define RJ_MAGIC "HRJ2" /* HRJ1 is read as well: its values say less, but nothing else */

enum {
    RJ_FLAG_WIDE_QUANTIZERS = 1, /* 16-bit entries */
    RJ_FLAG_KEPT_LZ4 = 2,
    RJ_FLAG_PAD_ONES = 4, /* the file pads its scan with 1 bits */

    RJ_TILE_BLOCKS = HR_RJPEG_TILE_BLOCKS,
    RJ_TILE_VALUES = RJ_TILE_BLOCKS * 63,
    RJ_TILE_WIDE = 1 << 12,       /* some eight values take all 64 bits */
    RJ_TILE_EXCEPTIONS = 1 << 13, /* values beyond +-127 lie at the tile's end */
    RJ_TILE_LAST_SHIFT = 14,      /* 6 less this number: the bits of a `last` */
    RJ_LAST_BITS = 6,
    RJ_LAST_BITS_MIN = RJ_LAST_BITS - 3,
    /* head, last indices, DC differences, masks, widths, values, exceptions */
    RJ_TILE_MAX = 3 + 12 + 30 + 124 + 95 + 1 + RJ_TILE_VALUES + 2 * RJ_TILE_VALUES,
    /* However wrong a tile is, no decoder looks further than this from its first byte: values are
     * read in runs of 64 and with 8-byte loads. */
    RJ_TILE_READ = 3 + 12 + 30 + 124 + 96 + 1 + 1024 + 22 + 96,

    RJ_MAX_MCU_BLOCKS = 10, /* a rule of JPEG */
    RJ_MAX_DC_BITS = 12,
};

extern const uint8_t rj_natural_order[64]; /* scan position -> row * 8 + column */

/* First tile of block row by of component c, counted over the whole picture. */
static inline uint64_t rj_tile_index(const struct hr_rjpeg_info *info, uint32_t c, uint32_t by)
{
    const struct hr_rjpeg_component *k = &info->component[c];
    return (uint64_t)(by / k->v) * info->tiles_per_mcu_row + k->tile_first + by % k->v * k->tiles_w;
}

/* Blocks in the tile that begins at block bx. */
static inline uint32_t rj_tile_blocks(const struct hr_rjpeg_component *k, uint32_t bx)
{
    return k->blocks_w - bx < RJ_TILE_BLOCKS ? k->blocks_w - bx : RJ_TILE_BLOCKS;
}

static inline uint32_t rj_tile_min_bytes(uint32_t blocks)
{
    return 3 + (blocks * RJ_LAST_BITS_MIN + 7) / 8;
}

/* Bits of a `last` in a tile that begins with these two bytes. */
static inline uint32_t rj_tile_last_bits(uint32_t tile_head)
{
    return RJ_LAST_BITS - (tile_head >> RJ_TILE_LAST_SHIFT);
}

/* Quantizer q of a head, in scan order, as 64 numbers in natural order. */
void rj_load_quantizer(const struct hr_rjpeg_info *info, const uint8_t *head, uint32_t q,
                       uint16_t natural[64]);

/* Completes width, height, components, colour, sampling, quantizers and quantizer_bytes to a whole
 * geometry; false when they make no sense. */
bool rj_geometry(struct hr_rjpeg_info *info);
void rj_store_header(const struct hr_rjpeg_info *info, uint8_t header[HR_RJPEG_HEADER_BYTES]);

/* What a box needs of each component, clamped to the picture. All ends are one past the last. */
struct rj_reach {
    uint32_t mcu_row, mcu_row_end;
    struct {
        uint32_t x, x_end;            /* samples that output columns lie on, neighbours not counted */
        uint32_t block, block_end;    /* columns of blocks, neighbours counted */
        uint32_t row, row_end;        /* rows of blocks, neighbours counted */
        uint32_t h_step, v_step;      /* pixels a sample covers */
        bool smooth_h, smooth_v;      /* triangle filter, as libjpeg-turbo chooses */
    } component[HR_RJPEG_COMPONENTS];
    bool smooth_v; /* any of them: rows need their neighbours from the next strip */
};

void rj_find_reach(const struct hr_rjpeg_info *info, const struct hr_rjpeg_box *box,
                   uint32_t components, struct rj_reach *reach);
int rj_check_box(const struct hr_rjpeg_info *info, const struct hr_rjpeg_box *box,
                 struct hr_error *err) HR_MUST_CHECK;

/* Sum of count tile sizes from tile first on. The caller has checked that they are in the head. */
uint64_t rj_sum_sizes(const struct hr_rjpeg_info *info, const uint8_t *head, uint64_t first,
                      uint64_t count);

#endif
