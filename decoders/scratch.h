/* Scratch that only grows: sizes repeat, so nothing is allocated in steady state. */
#ifndef HR_DECODERS_SCRATCH_H
#define HR_DECODERS_SCRATCH_H

#include "base/mem.h"
#include "base/err.h"

/* Makes *buf (NULL at first, freed by hr_free) at least need bytes; what it held is lost. 0 or
 * HR_E_NOMEM, after which it is empty. */
static inline int hr_scratch_grow(void **buf, size_t *have, size_t need)
{
    if (need <= *have)
        return 0;
    int depth = hr_mem_steady_pause();
    hr_free(*buf);
    *have = 0;
    *buf = hr_alloc_aligned(HR_CACHE_LINE, need);
    hr_mem_steady_resume(depth);
    if (!*buf)
        return HR_E_NOMEM;
    *have = need;
    return 0;
}

/* The same for bytes. */
static inline int hr_scratch_grow_bytes(uint8_t **buf, size_t *have, size_t need)
{
    void *grown = *buf;
    int ret = hr_scratch_grow(&grown, have, need);

    *buf = grown;
    return ret;
}

#endif
