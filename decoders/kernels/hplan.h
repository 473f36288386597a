/* Lays the coefficients of a horizontal axis out the way that the kernels of a level want them. */
#ifndef HR_DECODERS_KERNELS_HPLAN_H
#define HR_DECODERS_KERNELS_HPLAN_H

#include "decoders/kernels/axis.h"
#include "decoders/kernels/kernels.h"

struct hr_hplan_store {
    struct hr_hplan plan;
    hr_hresize_fn *resize;
    hr_hresize_planes_fn *resize_planes; /* may be NULL */
    bool lanes;          /* the layout is one of lanes: as good for one channel as for three */
    uint32_t pad_pixels; /* when not 0, rows must be copied and readable so far past axis->first */
    struct hr_block table;
};

/* Picks the best layout that the kernels have and that fits the axis. flip: mirrored output. */
int hr_hplan_build(struct hr_hplan_store *store, const struct hr_kernels *kernels,
                   const struct hr_axis *axis, uint32_t channels, bool flip) HR_MUST_CHECK;
int hr_hplan_reserve(struct hr_hplan_store *store, uint32_t max_in, uint32_t max_out) HR_MUST_CHECK;

#endif
