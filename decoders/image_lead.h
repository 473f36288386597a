/* What masks, boxes and keypoints that follow an image field need of its chain. */
#ifndef HR_DECODERS_IMAGE_LEAD_H
#define HR_DECODERS_IMAGE_LEAD_H

#include "decoders/ops/op.h"

struct hr_image_lead {
    const struct hr_op_chain *ops; /* lives as long as the chain */
    bool apply_exif, ragged;
};

/* False when it is no image field's chain, or one with views. */
bool hr_image_chain_lead(const struct hr_chain *chain, struct hr_image_lead *lead);

/* Facts of a picture -> its size, upright when EXIF is applied; 1 to 8, 1 where it is not. */
uint8_t hr_image_orient(const struct hr_facts *facts, bool apply_exif, uint32_t *w, uint32_t *h);

#endif
