/* Image fields: decoding, ops and output of one picture. */
#include "decoders/chain_media.h"

static int create(const struct hr_chain_spec *spec, struct hr_chain **out, struct hr_error *err)
{
    return hr_fail(err, HR_E_UNSUPPORTED, "image fields are not supported in this build");
}

const struct hr_chain_media hr_image_chain_media = {.name = "image", .create = create};
