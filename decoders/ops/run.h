/* Carries out drawn steps on an 8-bit picture. Steps that are tables are joined and go over the pixels
 * once; the others work in place or into a second picture of the same size. */
#ifndef HR_DECODERS_OPS_RUN_H
#define HR_DECODERS_OPS_RUN_H

#include "base/err.h"
#include "decoders/ops/loops.h"
#include "decoders/ops/step.h"

enum { HR_CANVAS_PAD = 64 };

/* A worker's pictures: packed rows, readable HR_CANVAS_PAD bytes past the end. Start with all zero. */
struct hr_canvas {
    uint8_t *pixels, *spare;
    size_t pixels_bytes, spare_bytes; /* room */
    void *floats;
    size_t floats_bytes;
    uint32_t w, h, channels;
    const struct hr_loops *loops; /* NULL: those of this CPU */
    /* what tables are still to be applied */
    bool pending;
    uint8_t table[3][256];
};

void hr_canvas_finish(struct hr_canvas *canvas);
/* Room for a picture of this size; what it held is lost. 0 or HR_E_NOMEM. */
int hr_canvas_size(struct hr_canvas *canvas, uint32_t w, uint32_t h, uint32_t channels) HR_MUST_CHECK;
/* Room in spare for a picture of this size. */
int hr_canvas_spare(struct hr_canvas *canvas, uint32_t w, uint32_t h) HR_MUST_CHECK;
/* The spare picture becomes the picture. */
void hr_canvas_swap(struct hr_canvas *canvas, uint32_t w, uint32_t h);

int hr_canvas_run(struct hr_canvas *canvas, const struct hr_steps *steps) HR_MUST_CHECK;
/* Of the steps the warps alone, to the nearest pixel and with that fill: what becomes of a mask. */
int hr_canvas_move(struct hr_canvas *canvas, const struct hr_steps *steps, uint8_t fill) HR_MUST_CHECK;
/* Applies the tables that are pending; after the last run. */
void hr_canvas_flush(struct hr_canvas *canvas);

#endif
