/* Lists of paths, and braces in them as shells write them: data-{000..012}.tar, {a,b}.tar. */
#ifndef HR_PACK_BRACES_H
#define HR_PACK_BRACES_H

#include "base/err.h"

struct hr_paths {
    char **items;
    int count;
    uint64_t cap;
};

/* Adds the path, or all that its first pair of braces stands for (and so on for what follows).
 * A path that exists as it is written is taken as it is. */
int hr_paths_expand(struct hr_paths *paths, const char *path, struct hr_error *err) HR_MUST_CHECK;
int hr_paths_add(struct hr_paths *paths, const char *path, struct hr_error *err) HR_MUST_CHECK;
void hr_paths_finish(struct hr_paths *paths);

#endif
