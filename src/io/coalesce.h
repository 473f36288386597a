/* Joins neighbouring byte ranges into fewer, larger reads. Pure: integers in, integers out. */
#ifndef HR_IO_COALESCE_H
#define HR_IO_COALESCE_H

#include "base/base.h"

struct hr_io_range {
    int file;
    uint64_t off;
    uint32_t bytes;
    uint32_t tag; /* the caller's */
};

struct hr_io_span {
    int file;
    uint64_t off;
    uint64_t bytes;
    uint32_t first, count; /* its ranges, in the sorted array */
};

/* Sorts ranges by (file, off) and joins those whose gap is at most max_gap bytes (overlaps too)
 * while the span stays within max_bytes (a single larger range makes a span of its own).
 * spans has room for count entries. Returns the number of spans. */
uint32_t hr_io_coalesce(struct hr_io_range *ranges, uint32_t count, uint32_t max_gap,
                        uint64_t max_bytes, struct hr_io_span *spans);

#endif
