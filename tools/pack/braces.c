/* Brace expansion. */
#include "tools/pack/braces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { MAX_PATHS = 1000000 };

int hr_paths_add(struct hr_paths *paths, const char *path, struct hr_error *err)
{
    if (paths->count == MAX_PATHS)
        return hr_fail(err, HR_E_CONFIG, "more than %d paths", MAX_PATHS);
    char **items = hr_array_grow(paths->items, (uint64_t)paths->count, &paths->cap, 16,
                                 sizeof(*items));
    if (!items)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    paths->items = items;
    paths->items[paths->count] = hr_strdup(path);
    if (!paths->items[paths->count])
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    paths->count++;
    return 0;
}

static int expand(struct hr_paths *paths, const char *path, int depth, struct hr_error *err);

static int with_middle(struct hr_paths *paths, const char *path, size_t head, const char *middle,
                       size_t middle_bytes, const char *tail, int depth, struct hr_error *err)
{
    char *whole = hr_asprintf("%.*s%.*s%s", (int)head, path, (int)middle_bytes, middle, tail);

    if (!whole)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    int ret = expand(paths, whole, depth + 1, err);
    hr_free(whole);
    return ret;
}

static int expand_range(struct hr_paths *paths, const char *path, size_t head, const char *body,
                        const char *tail, int depth, struct hr_error *err)
{
    char number[32], *end;
    unsigned long long from = strtoull(body, &end, 10), to = strtoull(end + 2, NULL, 10);
    int width = (int)(end - body);

    if (to < from || to - from >= MAX_PATHS)
        return hr_fail(err, HR_E_CONFIG, "the range in %s runs from %llu to %llu", path, from, to);
    for (unsigned long long v = from; v <= to; v++) {
        int n = snprintf(number, sizeof(number), "%0*llu", width < 20 ? width : 20, v);
        int ret = with_middle(paths, path, head, number, (size_t)n, tail, depth, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int expand_list(struct hr_paths *paths, const char *path, size_t head, const char *body,
                       const char *close, int depth, struct hr_error *err)
{
    while (body <= close) {
        size_t n = strcspn(body, ",}");
        int ret = with_middle(paths, path, head, body, n, close + 1, depth, err);
        if (ret < 0)
            return ret;
        body += n + 1;
    }
    return 0;
}

static int expand(struct hr_paths *paths, const char *path, int depth, struct hr_error *err)
{
    static const char digits[] = "0123456789";
    const char *open = strchr(path, '{'), *close = open ? strchr(open, '}') : NULL;

    if (!close || depth > 8)
        return hr_paths_add(paths, path, err);
    size_t first = strspn(open + 1, digits);
    const char *dots = open + 1 + first;
    if (first && strncmp(dots, "..", 2) == 0 && dots + 2 + strspn(dots + 2, digits) == close &&
        close > dots + 2)
        return expand_range(paths, path, (size_t)(open - path), open + 1, close + 1, depth, err);
    if (memchr(open, ',', (size_t)(close - open)))
        return expand_list(paths, path, (size_t)(open - path), open + 1, close, depth, err);
    return hr_paths_add(paths, path, err);
}

int hr_paths_expand(struct hr_paths *paths, const char *path, struct hr_error *err)
{
    return access(path, F_OK) == 0 ? hr_paths_add(paths, path, err) : expand(paths, path, 0, err);
}

void hr_paths_finish(struct hr_paths *paths)
{
    for (int i = 0; i < paths->count; i++)
        hr_free(paths->items[i]);
    hr_free(paths->items);
    *paths = (struct hr_paths){0};
}
