/* Gathers a value's tiles as the scan brings them, block row by block row, in the order that the value has
 * them in: with cells, panel by panel. */
#ifndef HR_DECODERS_RJPEG_COLLECT_H
#define HR_DECODERS_RJPEG_COLLECT_H

#include "rjpeg/layout.h"
#include "rjpeg/tile.h"

struct rj_collect {
    const struct hr_rjpeg_info *info;
    struct {
        struct hr_buf sizes, tiles; /* of the cell at hand; without cells, of everything */
        struct hr_buf cells;        /* those that are complete */
    } panel[HR_RJPEG_MAX_PANELS];
    struct hr_buf tables; /* entries of cells in the order of completion */
    uint8_t tile[RJ_TILE_MAX + 16];
};

/* info must stay; its geometry must be complete. */
void rj_collect_begin(struct rj_collect *t, const struct hr_rjpeg_info *info);
void rj_collect_block_row(struct rj_collect *t, uint32_t c, const struct rj_block *blocks);
/* After all block rows of MCU row m. */
void rj_collect_end_row(struct rj_collect *t, uint32_t m);

/* Appends the rest of the head, and the tiles. Returns the bytes of all tiles or cells. HR_E_NOMEM. */
int64_t rj_collect_add(struct rj_collect *t, struct hr_buf *out) HR_MUST_CHECK;
void rj_collect_finish(struct rj_collect *t);

#endif
