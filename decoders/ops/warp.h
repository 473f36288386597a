/* Moving pixels by a matrix: what rotate, affine and perspective do, and the matrices of the first
 * two. */
#ifndef HR_DECODERS_OPS_WARP_H
#define HR_DECODERS_OPS_WARP_H

#include "base/err.h"
#include "decoders/ops/run.h"

/* The step's map on the canvas; what lies outside of the source gets the fill. 0 or HR_E_NOMEM. */
int hr_canvas_warp(struct hr_canvas *canvas, const struct hr_step *step) HR_MUST_CHECK;

/* From the result to the source: rotation counter-clockwise about the middle. */
void hr_warp_rotation(double map[9], double degrees, double w, double h);

struct hr_affine {
    double degrees;    /* clockwise */
    double dx, dy, scale;
    double shear_x, shear_y; /* degrees */
    double centre_x, centre_y;
};
/* From the result to the source. */
void hr_warp_affine(double map[9], const struct hr_affine *affine);
/* From the result to the source: the corners of a w x h picture (top left, top right, bottom right,
 * bottom left; pixel indices) are moved to these. False when they are in no general position. */
bool hr_warp_perspective(double map[9], double w, double h, const double corners[4][2]);

#endif
