/* Writes one scan of a file of several: of any components and, in progressive files, of any step. */
#ifndef HR_DECODERS_RJPEG_PROGRESSIVE_WRITE_H
#define HR_DECODERS_RJPEG_PROGRESSIVE_WRITE_H

#include "rjpeg/bits_write.h"
#include "rjpeg/layout.h"
#include "rjpeg/tile.h"

enum {
    RJ_EOB_RUN_MAX = 0x7fff,
    /* Where a block's end could leave more bits waiting than that less one block's, the run is ended. */
    RJ_CORRECTIONS_MAX = 1000,
};

struct rj_progressive_writer {
    const struct rj_markers *markers;
    const struct hr_rjpeg_info *info;
    int previous_dc[HR_RJPEG_COMPONENTS];
    uint32_t until_restart;
    uint32_t eob_run;     /* blocks that ended and have not been written yet */
    uint32_t corrections; /* bits of theirs */
    uint8_t correction[RJ_CORRECTIONS_MAX + 64];
    const uint32_t *ac_codes; /* of the component at hand */
    uint32_t dc_table[4][256], ac_table[4][256];
    struct rj_bit_writer bits;
};

/* The scan that the markers end with. */
void rj_progressive_begin(struct rj_progressive_writer *w, const struct rj_markers *markers,
                          const struct hr_rjpeg_info *info,
                          void (*take)(void *user, const uint8_t *bytes, size_t count), void *user);

/* MCU row m of the picture, as rj_scan_row() takes it; components that are not in the scan are not looked at. */
void rj_progressive_row(struct rj_progressive_writer *w, uint32_t m, const struct rj_block *blocks);
void rj_progressive_finish(struct rj_progressive_writer *w);

#endif
