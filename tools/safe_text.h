/* Text from data, made safe for a terminal. */
#ifndef HR_TOOLS_SAFE_TEXT_H
#define HR_TOOLS_SAFE_TEXT_H

#include "base/buf.h"

/* Adds at most max_bytes of s: valid UTF-8 as it is; control characters and bytes that are not
 * UTF-8 as \n, \t or \xNN. What was left out shows as "…". */
void hr_safe_text(struct hr_buf *out, const char *s, size_t bytes, size_t max_bytes);

#endif
