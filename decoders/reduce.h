/* Pictures made smaller at pack, or stored as their pixels. */
#ifndef HR_DECODERS_REDUCE_H
#define HR_DECODERS_REDUCE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/types.h"

struct hr_reduction {
    uint32_t short_side, max_side; /* at most one; 0 = sizes stay */
    uint32_t quality;              /* of JPEG, 1 to 100 */
    bool raw;                      /* pixels (HR_ENCODING_RAW_PIXELS) in place of JPEG */
};

enum hr_reduced {
    HR_REDUCED_NOT,   /* stays as it is: small enough */
    HR_REDUCED_NEVER, /* larger, but a mask, a palette or of another depth: its size stays */
    HR_REDUCED_SIZE,  /* becomes smaller */
};

/* What happens to a picture's size. */
enum hr_reduced hr_media_reduction_of(const struct hr_reduction *how, const uint8_t *bytes, size_t count,
                                      const struct hr_facts *facts);

/* The picture made anew: JPEG or raw pixels, of the size that it is to have; out is reset first. bytes:
 * readable HR_CHAIN_PADDING past their end. facts: in, the picture's; out, the result's (raw pixels keep
 * the format that they came from). Orientation and profile go along. HR_E_DECODE, HR_E_TRUNCATED: the
 * picture is damaged. */
int hr_media_reduce(const struct hr_reduction *how, const uint8_t *bytes, size_t count, struct hr_facts *facts,
                    struct hr_buf *out, struct hr_error *err) HR_MUST_CHECK;

#endif
