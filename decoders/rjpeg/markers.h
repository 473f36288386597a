/* The marker segments before a JPEG file's scan, as far as writing that scan again needs them. */
#ifndef HR_DECODERS_RJPEG_MARKERS_H
#define HR_DECODERS_RJPEG_MARKERS_H

#include "rjpeg/rjpeg.h"

struct rj_huffman {
    bool present;
    uint8_t size[256]; /* bits of each symbol's code, 0 = none */
    uint16_t code[256];
};

struct rj_markers {
    size_t head_bytes; /* up to the scan's first byte */
    uint32_t width, height, components, restart_interval;
    struct {
        uint8_t id, h, v, dc_table, ac_table;
    } component[3];        /* in the frame's order */
    uint8_t scan_order[3]; /* scan position -> component */
    struct rj_huffman dc[4], ac[4];
    enum hr_rjpeg_refusal refusal; /* where it was HR_E_FORMAT */
};

/* Reads the markers of a baseline or extended sequential file with one scan. HR_E_FORMAT: sound but
 * another kind of JPEG (err says which); HR_E_DECODE, HR_E_TRUNCATED: damaged. */
int rj_read_markers(const uint8_t *jpeg, size_t bytes, struct rj_markers *markers,
                    struct hr_error *err) HR_MUST_CHECK;

#endif
