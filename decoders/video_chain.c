/* Video fields: not built yet, every chain is refused. */
#include "decoders/chain_media.h"

static int create(const struct hr_chain_spec *spec, struct hr_chain **out, struct hr_error *err)
{
    return hr_fail(err, HR_E_UNSUPPORTED, "video fields are not supported in this build");
}

const struct hr_chain_media hr_video_chain_media = {.name = "video", .create = create};
