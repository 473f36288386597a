/* Shared by the decoders of packed values and of files: one worker's context, and what both do with strips of
 * samples. */
#ifndef HR_DECODERS_RJPEG_DECODE_H
#define HR_DECODERS_RJPEG_DECODE_H

#include "rjpeg/tiles.h"
#include "rjpeg/variant.h"

enum { RJ_SCRATCH_BYTES = 64 << 10 }; /* for any variant's run() */

/* One component inside of the box. */
struct rj_plane {
    uint8_t *samples;  /* of row 0 and the first decoded column */
    uint32_t row_mask; /* row y lies at y & row_mask */
    uint32_t column;   /* picture column of the first decoded one */
    uint32_t made_row; /* upsampled holds it, UINT32_MAX = none */
    uint8_t *upsampled;
};

struct hr_rjpeg {
    const struct rj_variant *variant; /* for rows */
    const struct rj_variant *blocks;  /* for whole tiles: the same, or C for large quantizers */

    uint32_t max_width;
    uint8_t *memory; /* everything below that depends on the width */
    size_t stride;
    uint8_t *planes, *rows[HR_RJPEG_COMPONENTS];
    uint8_t *pixels; /* a row of them, or three rows, pixels_stride apart */
    size_t pixels_stride;
    uint16_t *sums;
    struct rj_job *jobs;

    struct hr_rjpeg_info info;
    struct rj_reach reach;
    struct hr_rjpeg_box box;
    struct hr_rjpeg_sink sink;
    uint32_t components; /* decoded ones */
    struct rj_plane plane[HR_RJPEG_COMPONENTS];
    struct rj_tiles tiles;
    uint32_t job_count;
    uint32_t y; /* next row to give out */
    struct rj_scan *scan; /* of JPEG files; NULL: none was decoded yet */

    uint16_t quantizers[HR_RJPEG_COMPONENTS][64];
    _Alignas(64) uint8_t tables[HR_RJPEG_COMPONENTS][RJ_TABLE_BYTES];
    _Alignas(64) uint8_t scratch[RJ_SCRATCH_BYTES];
};

/* For d->info: takes the box and sink, and finds out what is needed. */
int rj_begin_box(struct hr_rjpeg *d, const struct hr_rjpeg_box *box, const struct hr_rjpeg_sink *sink,
                 struct hr_error *err) HR_MUST_CHECK;

/* Gives out what strip m completed: all its rows, but the last where a filter goes down and there is
 * another strip to reach into. */
void rj_give_strip(struct hr_rjpeg *d, uint32_t m);

void rj_scan_destroy(struct rj_scan *scan); /* NULL is fine */

#endif
