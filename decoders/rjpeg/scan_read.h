/* Reads a sequential Huffman scan, one row of MCUs at a time. */
#ifndef HR_DECODERS_RJPEG_SCAN_READ_H
#define HR_DECODERS_RJPEG_SCAN_READ_H

#include "rjpeg/layout.h"
#include "rjpeg/markers.h"
#include "rjpeg/tile.h"

struct rj_scan_reader;

int rj_scan_reader_create(struct rj_scan_reader **out) HR_MUST_CHECK;
/* Begins a scan; may be called again for the next one, whose scratch is the same where it suffices. markers, info
 * and the bytes must stay. scan: what follows markers->head_bytes. HR_E_NOMEM. */
int rj_scan_reader_begin(struct rj_scan_reader *r, const struct rj_markers *markers, const struct hr_rjpeg_info *info,
                         const uint8_t *scan, size_t bytes) HR_MUST_CHECK;
void rj_scan_reader_destroy(struct rj_scan_reader *r); /* NULL is fine */

/* The next row of MCUs. Block row v of component c begins at rj_scan_blocks(); blocks and their values stay
 * until the next call. HR_E_TRUNCATED, HR_E_DECODE. */
int rj_scan_read_row(struct rj_scan_reader *r, struct hr_error *err) HR_MUST_CHECK;
const struct rj_block *rj_scan_blocks(const struct rj_scan_reader *r, uint32_t c, uint32_t v);

/* Once, after the last row: bytes of the scan, the padded last one included, and whether it is padded with 1
 * bits. */
size_t rj_scan_end(struct rj_scan_reader *r, bool *pad_ones);

#endif
