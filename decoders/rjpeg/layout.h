/* Shared inside the library: the bytes of a packed value (docs/formats/repacked-jpeg.md is the
 * specification), how tiles are counted, and what one tile can need at most. */
#ifndef HR_DECODERS_RJPEG_LAYOUT_H
#define HR_DECODERS_RJPEG_LAYOUT_H

#include "rjpeg/rjpeg.h"

/* HRJ1 is read as well: its values say less, but nothing else. HRJ3 is only for what HRJ2 cannot say: several scans,
 * four components. */
#define RJ_MAGIC "HRJ2"
#define RJ_MAGIC_MORE "HRJ3"

enum {
    RJ_FLAG_WIDE_QUANTIZERS = 1, /* 16-bit entries */
    RJ_FLAG_KEPT_LZ4 = 2,
    RJ_FLAG_PAD_ONES = 4, /* the file pads its scan with 1 bits */
    RJ_FLAG_SEVERAL = 8, /* scans */
    RJ_FLAG_CELLS = 16,
    RJ_FLAG_PROGRESSIVE = 32,

    RJ_CELL_ENTRY_BYTES = 8, /* bytes of a cell, checksum */

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

static inline uint32_t rj_components_of(enum hr_rjpeg_colour colour)
{
    return colour == HR_RJPEG_GRAY ? 1 : colour >= HR_RJPEG_CMYK ? 4 : 3;
}

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

/* First tile of panel p in a block row of component k; of the panel behind the last one, their count. */
static inline uint32_t rj_panel_tile(const struct hr_rjpeg_info *info, const struct hr_rjpeg_component *k,
                                     uint32_t p)
{
    return p < info->panels ? p * info->panel_mcus * k->h / RJ_TILE_BLOCKS : k->tiles_w;
}

/* Tiles of panel p in one MCU row. */
static inline uint32_t rj_panel_tiles(const struct hr_rjpeg_info *info, uint32_t p)
{
    uint32_t tiles = 0;

    for (uint32_t c = 0; c < info->components; c++)
        tiles += info->component[c].v * (rj_panel_tile(info, &info->component[c], p + 1) -
                                         rj_panel_tile(info, &info->component[c], p));
    return tiles;
}

/* MCU rows of the row-th cell of a panel. */
static inline uint32_t rj_cell_mcu_rows(const struct hr_rjpeg_info *info, uint32_t row)
{
    uint32_t left = info->mcu_rows - row * info->cell_rows;

    return left < info->cell_rows ? left : info->cell_rows;
}

static inline const uint8_t *rj_cell_entry(const struct hr_rjpeg_info *info, const uint8_t *head, uint32_t cell)
{
    return head + info->sizes_off + (size_t)cell * RJ_CELL_ENTRY_BYTES;
}

/* Where cell `cell` begins in the value: the sum of those before it. */
static inline uint64_t rj_cell_off(const struct hr_rjpeg_info *info, const uint8_t *head, uint32_t cell)
{
    uint64_t off = info->head_bytes;

    for (uint32_t i = 0; i < cell; i++)
        off += hr_load_le32(rj_cell_entry(info, head, i));
    return off;
}

/* Stores a picture whose file has so many bytes in cells, or not: sets cells, panel_mcus and cell_rows.
 * To be called on a geometry without cells; the caller makes it anew. */
void rj_choose_cells(struct hr_rjpeg_info *info, uint64_t file_bytes);

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

/* What a box needs of each component, clamped to the picture. All ends are one past the last. Samples
 * are those of the shrunk picture: a block gives size x size of them. */
struct rj_reach {
    uint32_t mcu_row, mcu_row_end;
    uint32_t panel, panel_end;
    uint32_t mcu_height; /* pixels of an MCU row */
    struct {
        uint32_t size;                /* 8, 4, 2 or 1 */
        uint32_t width, height;       /* samples that belong to the picture */
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

/* Where the value's bytes [off, off + bytes) are, NULL when they are not all in one part. */
const uint8_t *rj_find_bytes(const struct hr_rjpeg_view *view, uint64_t off, uint64_t bytes);

/* Sum of count tile sizes from tile first on. The caller has checked that they are in the head. */
uint64_t rj_sum_sizes(const struct hr_rjpeg_info *info, const uint8_t *head, uint64_t first,
                      uint64_t count);

#endif
