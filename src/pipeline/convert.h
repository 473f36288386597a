/* Element type conversion for tokens, tensors and scalars on their way into the slot. */
#ifndef HR_PIPELINE_CONVERT_H
#define HR_PIPELINE_CONVERT_H

#include "base/types.h"

/* dst[i] = src[i] for count elements; the pair must be one that the plan allows (equal types are a
 * copy). Neither needs alignment. dst and src do not overlap. */
void hr_convert(enum hr_dtype from, enum hr_dtype to, const void *src, void *dst, uint64_t count);

#endif
