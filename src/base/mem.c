/* Checked heap allocation and the steady-state guard. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#ifdef HR_STEADY_CHECK
static _Thread_local int steady_depth;

void hr_mem_steady_enter(void)
{
    steady_depth++;
}

void hr_mem_steady_leave(void)
{
    HR_ASSERT(steady_depth > 0);
    steady_depth--;
}

int hr_mem_steady_pause(void)
{
    int depth = steady_depth;

    steady_depth = 0;
    return depth;
}

void hr_mem_steady_resume(int depth)
{
    steady_depth = depth;
}

static void check_steady(void)
{
    HR_ASSERT(steady_depth == 0 && "allocation in steady state");
}
#else
static void check_steady(void)
{
}
#endif

void *hr_alloc(size_t bytes)
{
    check_steady();
    return malloc(bytes ? bytes : 1);
}

void *hr_alloc_zero(size_t count, size_t item_bytes)
{
    check_steady();
    return calloc(count ? count : 1, item_bytes ? item_bytes : 1);
}

void *hr_realloc(void *ptr, size_t count, size_t item_bytes)
{
    size_t bytes;

    check_steady();
    if (__builtin_mul_overflow(count, item_bytes, &bytes))
        return NULL;
    return realloc(ptr, bytes ? bytes : 1);
}

void *hr_array_grow(void *items, uint64_t count, uint64_t *cap, uint64_t first, size_t item_bytes)
{
    uint64_t wanted;

    if (count < *cap)
        return items;
    if (!hr_mul_u64(*cap, 2, &wanted))
        return NULL;
    wanted = wanted ? wanted : first;
    void *grown = hr_realloc(items, wanted, item_bytes);
    if (grown)
        *cap = wanted;
    return grown;
}

void *hr_alloc_aligned(size_t align, size_t bytes)
{
    void *p = NULL;

    check_steady();
    return posix_memalign(&p, align, bytes ? bytes : 1) == 0 ? p : NULL;
}

char *hr_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = hr_alloc(len + 1);

    if (copy) {
        memcpy(copy, s, len);
        copy[len] = 0;
    }
    return copy;
}

char *hr_strdup(const char *s)
{
    return hr_strndup(s, strlen(s));
}

char *hr_asprintf(const char *fmt, ...)
{
    va_list ap;
    char *out = NULL;

    check_steady();
    va_start(ap, fmt);
    int n = vasprintf(&out, fmt, ap);
    va_end(ap);
    return n < 0 ? NULL : out;
}

void hr_free(void *ptr)
{
    free(ptr);
}
