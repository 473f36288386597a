/* What became of JPEG pictures: of a record's, and of all. */
#ifndef HR_PACK_COUNTS_H
#define HR_PACK_COUNTS_H

#include "decoders/rjpeg/rjpeg.h"

struct hr_jpeg_counts {
    uint64_t repacked, kept[HR_RJPEG_REFUSALS];
    uint64_t progressive, cmyk; /* of those repacked; a file may be both */
    uint64_t file_bytes, stored_bytes; /* of those repacked, before and after */
};

static inline uint64_t hr_jpeg_counts_kept(const struct hr_jpeg_counts *counts)
{
    uint64_t kept = 0;

    for (int i = 0; i < HR_RJPEG_REFUSALS; i++)
        kept += counts->kept[i];
    return kept;
}

static inline void hr_jpeg_counts_add(struct hr_jpeg_counts *sum, const struct hr_jpeg_counts *counts)
{
    sum->repacked += counts->repacked;
    for (int i = 0; i < HR_RJPEG_REFUSALS; i++)
        sum->kept[i] += counts->kept[i];
    sum->progressive += counts->progressive;
    sum->cmyk += counts->cmyk;
    sum->file_bytes += counts->file_bytes;
    sum->stored_bytes += counts->stored_bytes;
}

#endif
