/* The data memory of one ring: a sealed memory file, mapped 2 MiB-aligned and present from the
 * start. */
#ifndef HR_RING_SLAB_H
#define HR_RING_SLAB_H

#include "base/err.h"

struct hr_slab {
    int fd;      /* read-write; sent to an exclusive consumer */
    int read_fd; /* read-only reopen, sent to replicas; -1 unless shared */
    uint8_t *base;
    uint64_t bytes;
};

#define HR_SLAB_INIT                                                                               \
    (struct hr_slab)                                                                               \
    {                                                                                              \
        .fd = -1, .read_fd = -1                                                                    \
    }

/* bytes is a multiple of the page size. *slab is HR_SLAB_INIT before; finish it also after failure. */
int hr_slab_init(struct hr_slab *slab, const char *name, uint64_t bytes, bool shared,
                 struct hr_error *err) HR_MUST_CHECK;
void hr_slab_finish(struct hr_slab *slab);

#endif
