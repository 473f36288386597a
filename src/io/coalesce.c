/* Joining of neighbouring ranges: a sort by place, then one pass. */
#include "io/coalesce.h"

static bool before(const struct hr_io_range *a, const struct hr_io_range *b)
{
    if (a->file != b->file)
        return a->file < b->file;
    if (a->off != b->off)
        return a->off < b->off;
    return a->tag < b->tag;
}

static void sift_down(struct hr_io_range *r, uint32_t root, uint32_t count)
{
    struct hr_io_range moved = r[root];

    while (root < count / 2) {
        uint32_t child = 2 * root + 1;
        if (child + 1 < count && before(&r[child], &r[child + 1]))
            child++;
        if (!before(&moved, &r[child]))
            break;
        r[root] = r[child];
        root = child;
    }
    r[root] = moved;
}

/* Heap sort: in place, and without the allocation that the C library's qsort may make. */
static void sort_ranges(struct hr_io_range *r, uint32_t count)
{
    bool sorted = true;

    for (uint32_t i = 1; i < count && sorted; i++)
        sorted = !before(&r[i], &r[i - 1]);
    if (sorted)
        return;
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(r, i, count);
    for (uint32_t end = count - 1; end > 0; end--) {
        struct hr_io_range top = r[0];
        r[0] = r[end];
        r[end] = top;
        sift_down(r, 0, end);
    }
}

/* Offsets come from an index: sums that do not fit stop at the largest number. */
static uint64_t add_capped(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return hr_add_u64(a, b, &sum) ? sum : UINT64_MAX;
}

static bool join(struct hr_io_span *span, const struct hr_io_range *r, uint32_t max_gap,
                 uint64_t max_bytes)
{
    uint64_t span_end = add_capped(span->off, span->bytes);
    uint64_t end = hr_max_u64(span_end, add_capped(r->off, r->bytes));

    if (r->file != span->file || r->off > add_capped(span_end, max_gap))
        return false;
    /* A range inside the span costs nothing, even in one that is over the limit by itself. */
    if (end != span_end && end - span->off > max_bytes)
        return false;
    span->bytes = end - span->off;
    span->count++;
    return true;
}

uint32_t hr_io_coalesce(struct hr_io_range *ranges, uint32_t count, uint32_t max_gap,
                        uint64_t max_bytes, struct hr_io_span *spans)
{
    uint32_t n = 0;

    sort_ranges(ranges, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct hr_io_range *r = &ranges[i];
        if (n && join(&spans[n - 1], r, max_gap, max_bytes))
            continue;
        spans[n++] = (struct hr_io_span){
            .file = r->file, .off = r->off, .bytes = r->bytes, .first = i, .count = 1};
    }
    return n;
}
