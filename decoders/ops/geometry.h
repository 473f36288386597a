/* Where a point of the picture goes: the drawn geometry of a whole chain (crops, resize, flips,
 * rotation, shear, perspective, also those inside policies) as one 3 x 3 matrix, so that boxes, masks
 * and points can follow. Coordinates are pixel edges: the first pixel spans 0 to 1. */
#ifndef HR_DECODERS_OPS_GEOMETRY_H
#define HR_DECODERS_OPS_GEOMETRY_H

#include "decoders/ops/op.h"

/* Row-major; (x, y, 1) is multiplied from the right and the result divided by its last member, which in to_result is
 * positive for what a perspective leaves in sight. */
struct hr_map {
    double m[9];
};

struct hr_geometry {
    struct hr_map to_result; /* oriented picture -> delivered picture */
    struct hr_map to_source; /* its inverse */
    uint32_t w, h;           /* delivered */
};

void hr_map_identity(struct hr_map *map);
/* out = a after b; out may be one of them. */
void hr_map_multiply(struct hr_map *out, const struct hr_map *a, const struct hr_map *b);
/* False when the map cannot be inverted. */
bool hr_map_invert(struct hr_map *out, const struct hr_map *map);
void hr_map_point(const struct hr_map *map, double x, double y, double out[2]);

/* What a view does alone. */
void hr_view_map(const struct hr_view *view, struct hr_map *to_result);

/* The geometry of a chain as drawn for key and an oriented picture of w x h: the same draw as the
 * pixels get. 0, or the errors of hr_op_chain_plan. */
int hr_op_chain_geometry(const struct hr_op_chain *chain, const struct hr_draw_key *key, uint32_t w,
                         uint32_t h, struct hr_geometry *geometry, struct hr_error *err)
    HR_MUST_CHECK;

#endif
