/* Writes a sequential Huffman scan with a file's own tables and restart interval. */
#ifndef HR_DECODERS_RJPEG_SCAN_WRITE_H
#define HR_DECODERS_RJPEG_SCAN_WRITE_H

#include "rjpeg/layout.h"
#include "rjpeg/markers.h"
#include "rjpeg/tile.h"

enum { RJ_SCAN_CHUNK = 1 << 14 };

struct rj_scan_writer {
    const struct rj_markers *markers;
    const struct hr_rjpeg_info *info;
    void (*take)(void *user, const uint8_t *bytes, size_t count); /* gets the scan, part by part */
    void *user;
    void (*row)(struct rj_scan_writer *w, const struct rj_block *blocks);
    bool pad_ones;
    bool failed; /* a value that the tables have no code for */
    int previous_dc[HR_RJPEG_COMPONENTS];
    uint32_t until_restart, restarts;
    uint64_t hold; /* bits wait at the top */
    unsigned held; /* fewer than 8 */
    size_t used;
    uint32_t dc_codes[4][256], ac_codes[4][256]; /* by symbol: code and its length */
    uint8_t chunk[RJ_SCAN_CHUNK];                /* as it is before zeros are stuffed in */
    uint8_t stuffed[2 * RJ_SCAN_CHUNK];
};

void rj_scan_begin(struct rj_scan_writer *w, const struct rj_markers *markers, const struct hr_rjpeg_info *info,
                   void (*take)(void *user, const uint8_t *bytes, size_t count), void *user);

/* An MCU row: blocks of component c from tile_first[c] on, v rows of whole tiles. Odd ones are backwards. */
void rj_scan_row(struct rj_scan_writer *w, const struct rj_block *blocks);
void rj_scan_finish(struct rj_scan_writer *w);

#endif
