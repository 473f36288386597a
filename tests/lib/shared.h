/* Finds the folder of shared test data: HR_SHARED, else `shared` one or two levels above the source
 * root. Tests that need it skip, saying so, where it is missing. */
#ifndef HR_TESTS_SHARED_H
#define HR_TESTS_SHARED_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* buf: at least 1024 bytes. NULL when the folder is not there. */
static inline const char *hr_test_shared(const char *below, char *buf, size_t buf_bytes)
{
    const char *env = getenv("HR_SHARED"), *root = getenv("HR_SOURCE_ROOT");
    const char *const ups[] = {"/../shared", "/../../shared"};

    if (env) {
        snprintf(buf, buf_bytes, "%s/%s", env, below);
        return access(buf, R_OK) == 0 ? buf : NULL;
    }
    for (int i = 0; root && i < 2; i++) {
        snprintf(buf, buf_bytes, "%s%s/%s", root, ups[i], below);
        if (access(buf, R_OK) == 0)
            return buf;
    }
    return NULL;
}

#endif
