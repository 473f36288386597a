/* What an image field's chain holds, between the file that reads it from the pipeline file (image_spec.c) and the one
 * that carries it out (image_chain.c). */
#ifndef HR_DECODERS_IMAGE_CHAIN_H
#define HR_DECODERS_IMAGE_CHAIN_H

#include "decoders/chain_media.h"
#include "decoders/views.h"

struct hr_image_chain {
    struct hr_chain base; /* first */
    struct hr_views views;
    uint32_t channels; /* of all views */
    bool apply_exif, scaled, managed;
    uint32_t max_width;
};

/* chain: zeroed. Whatever comes back, the views' groups are the caller's to free. */
int hr_image_spec_read(const struct hr_chain_spec *spec, struct hr_image_chain *chain, struct hr_error *err)
    HR_MUST_CHECK;
/* The canonical text. */
void hr_image_spec_describe(const struct hr_image_chain *chain, struct hr_buf *text);

#endif
