/* Heap memory. All of Headrace's own allocations go through here so that a debug build can prove
 * that steady state allocates nothing: a thread that calls hr_mem_steady_enter() aborts on the
 * next allocation (builds with -Dsteady_check=true; otherwise the marks cost nothing).
 * Memory that codec libraries allocate inside themselves is not seen; docs/threads.md lists it. */
#ifndef HR_BASE_MEM_H
#define HR_BASE_MEM_H

#include "base/base.h"

/* All return NULL when out of memory (or when the size overflows), never abort. */
void *hr_alloc(size_t bytes) HR_MUST_CHECK;
void *hr_alloc_zero(size_t count, size_t item_bytes) HR_MUST_CHECK;
void *hr_realloc(void *ptr, size_t count, size_t item_bytes) HR_MUST_CHECK;
/* An array with room for one more behind count items: items as it is or, where *cap is reached, moved to
 * twice the room, first at the least. NULL when out of memory; items and *cap are then as they were. */
void *hr_array_grow(void *items, uint64_t count, uint64_t *cap, uint64_t first,
                    size_t item_bytes) HR_MUST_CHECK;
void *hr_alloc_aligned(size_t align, size_t bytes) HR_MUST_CHECK; /* contents undefined */
char *hr_strdup(const char *s) HR_MUST_CHECK;
char *hr_strndup(const char *s, size_t n) HR_MUST_CHECK;
char *hr_asprintf(const char *fmt, ...) HR_MUST_CHECK HR_PRINTF(1, 2);
void hr_free(void *ptr); /* NULL is fine; frees all of the above */

/* Marks the calling thread as steady (counts nest). pause and resume excuse a known rare path,
 * steady or not: int depth = hr_mem_steady_pause(); … hr_mem_steady_resume(depth). */
#ifdef HR_STEADY_CHECK
void hr_mem_steady_enter(void);
void hr_mem_steady_leave(void);
int hr_mem_steady_pause(void);
void hr_mem_steady_resume(int depth);
#else
static inline int hr_mem_steady_pause(void)
{
    return 0;
}
static inline void hr_mem_steady_resume(int depth)
{
}
static inline void hr_mem_steady_enter(void)
{
}
static inline void hr_mem_steady_leave(void)
{
}
#endif

#endif
