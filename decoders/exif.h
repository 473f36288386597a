/* The one EXIF tag that changes pixels, orientation, and single tags of TIFF files. */
#ifndef HR_DECODERS_EXIF_H
#define HR_DECODERS_EXIF_H

#include "base/base.h"

/* tiff: an EXIF block from its byte-order mark on (an "Exif\0\0" before it is skipped). The
 * orientation 1..8 of its first directory, or 0 when there is none or the block makes no sense. */
uint32_t hr_exif_orientation(const uint8_t *tiff, size_t count);

/* The number in that tag of a TIFF file's first directory (its first, when it holds several that fit
 * into the entry), or 0. */
uint32_t hr_tiff_tag(const uint8_t *tiff, size_t count, uint32_t tag);

/* The bytes of that tag (of type BYTE or UNDEFINED, too many to fit into its entry), or NULL. */
const uint8_t *hr_tiff_bytes(const uint8_t *tiff, size_t count, uint32_t tag, size_t *bytes);

#endif
