/* The way back to JPEG, inside of the library. */
#ifndef HR_DECODERS_RJPEG_RESTORE_H
#define HR_DECODERS_RJPEG_RESTORE_H

#include "rjpeg/rjpeg.h"

/* hr_rjpeg_restore() with the file given out part by part. */
int rj_restore(const uint8_t *packed, size_t bytes, void (*take)(void *user, const uint8_t *part, size_t count),
               void *user, struct hr_error *err) HR_MUST_CHECK;

#endif
