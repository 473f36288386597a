/* The marker segments before a JPEG file's scans, as far as writing them again needs them. */
#ifndef HR_DECODERS_RJPEG_MARKERS_H
#define HR_DECODERS_RJPEG_MARKERS_H

#include "rjpeg/rjpeg.h"

struct rj_huffman {
    bool present;
    uint8_t size[256]; /* bits of each symbol's code, 0 = none */
    uint16_t code[256];
};

/* A file's markers up to (and with) an SOS segment: what is in force in the scan behind it. */
struct rj_markers {
    size_t head_bytes; /* up to the scan's first byte */
    uint32_t width, height, components, restart_interval;
    bool progressive;
    struct {
        uint8_t id, h, v, dc_table, ac_table;
    } component[HR_RJPEG_COMPONENTS]; /* in the frame's order */
    uint32_t scans;                   /* so far */
    uint32_t scan_components;
    uint8_t scan_order[HR_RJPEG_COMPONENTS];    /* scan position -> component */
    uint8_t first, last, high, low;             /* Ss, Se, Ah, Al */
    struct rj_huffman dc[4], ac[4];
    enum hr_rjpeg_refusal refusal; /* where it was HR_E_FORMAT */
};

/* Goes from a file's first byte, or from its byte `at` behind a scan, to its next scan. 0; from a later call 1: there
 * is none, the file ends. HR_E_FORMAT: sound but another kind of JPEG (err says which); HR_E_DECODE, HR_E_TRUNCATED:
 * damaged. */
int rj_markers_begin(const uint8_t *jpeg, size_t bytes, struct rj_markers *markers,
                     struct hr_error *err) HR_MUST_CHECK;
int rj_markers_next(const uint8_t *jpeg, size_t bytes, size_t at, struct rj_markers *markers,
                    struct hr_error *err) HR_MUST_CHECK;

/* Whether the scan is one of several: of some components, or one step of a progression. */
bool rj_markers_several(const struct rj_markers *markers);

/* Reads the markers of a baseline or extended sequential file of one scan; others are HR_E_FORMAT. */
int rj_read_markers(const uint8_t *jpeg, size_t bytes, struct rj_markers *markers,
                    struct hr_error *err) HR_MUST_CHECK;

#endif
