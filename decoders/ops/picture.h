/* One picture through a chain of ops, from a decoder's rows to finished output. A chain that folds is one
 * pass of the sink; where ops work on pixels, the first pass ends in an 8-bit picture of the worker's,
 * the ops run there, and a last pass writes the output. Same calls as the sink. */
#ifndef HR_DECODERS_OPS_PICTURE_H
#define HR_DECODERS_OPS_PICTURE_H

#include "decoders/ops/op.h"
#include "decoders/sink.h"

struct hr_picture; /* one per worker */

int hr_picture_create(struct hr_picture **out) HR_MUST_CHECK;
void hr_picture_destroy(struct hr_picture *picture); /* NULL is fine */

/* For pictures whose values are names, not colours (masks): from now on, or no more, only what moves pixels is
 * done, each to the nearest one, and what comes from outside is fill. The draw is the same. */
void hr_picture_only_geometry(struct hr_picture *picture, bool only_geometry, uint8_t fill);

/* ops is borrowed until the end. As hr_image_sink_begin. */
int hr_picture_begin(struct hr_picture *picture, const struct hr_op_chain *ops,
                     const struct hr_image_plan *plan, const struct hr_image_target *target,
                     uint32_t picture_w, uint32_t picture_h, uint32_t shrink,
                     struct hr_image_region *region, struct hr_error *err) HR_MUST_CHECK;
bool hr_picture_push(struct hr_picture *picture, const uint8_t *row);
/* As hr_image_sink_takes_planes. */
bool hr_picture_takes_planes(const struct hr_picture *picture);
bool hr_picture_push_planes(struct hr_picture *picture, const uint8_t *const rows[3]);
/* 0, 1 when rows are missing, or HR_E_NOMEM. */
int hr_picture_end(struct hr_picture *picture, struct hr_error *err) HR_MUST_CHECK;

#endif
