/* Writes a sequential Huffman scan of all components with a file's own tables and restart interval. */
#ifndef HR_DECODERS_RJPEG_SCAN_WRITE_H
#define HR_DECODERS_RJPEG_SCAN_WRITE_H

#include "rjpeg/bits_write.h"
#include "rjpeg/layout.h"
#include "rjpeg/tile.h"

struct rj_scan_writer {
    const struct rj_markers *markers;
    const struct hr_rjpeg_info *info;
    void (*row)(struct rj_scan_writer *w, const struct rj_block *blocks);
    int previous_dc[HR_RJPEG_COMPONENTS];
    uint32_t until_restart;
    uint32_t dc_codes[4][256], ac_codes[4][256];
    struct rj_bit_writer bits;
};

void rj_scan_begin(struct rj_scan_writer *w, const struct rj_markers *markers, const struct hr_rjpeg_info *info,
                   void (*take)(void *user, const uint8_t *bytes, size_t count), void *user);

/* An MCU row: blocks of component c from tile_first[c] on, v rows of whole tiles. Odd ones are backwards. */
void rj_scan_row(struct rj_scan_writer *w, const struct rj_block *blocks);
void rj_scan_finish(struct rj_scan_writer *w);

#endif
