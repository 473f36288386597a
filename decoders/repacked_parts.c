/* Which parts of a large repacked picture a sample needs. The rule is a pure function of the planned box and
 * the seek table, so that the reader thread and the workers come to the same parts, and so does every rerun. */
#include "decoders/repacked.h"

/* A request costs as much as reading so many bytes more: what a disk of 10,000 requests and 300 MB a
 * second says. So parts that are closer are joined, and parts that would not save as much are not made. */
enum { REQUEST_BYTES = 32 << 10 };

static struct hr_rjpeg_box box_of(const struct hr_image_box *box)
{
    return (struct hr_rjpeg_box){box->x, box->y, box->w, box->h, box->shrink};
}

static void add_part(struct hr_chain_parts *parts, uint64_t off, uint64_t end)
{
    parts->part[parts->count].off = off;
    parts->part[parts->count++].bytes = end - off;
    parts->bytes += end - off;
}

/* Parts of whole pages. False when the table is not one of this picture. */
static bool find_parts(const struct hr_sample_plan *plan, const uint8_t *seek, uint32_t seek_bytes,
                       const struct hr_image_box *needs, struct hr_chain_parts *parts)
{
    struct hr_rjpeg_box box = box_of(needs);
    struct hr_rjpeg_range ranges[HR_CHAIN_MAX_PARTS];
    struct hr_rjpeg_info info;

    *parts = (struct hr_chain_parts){0};
    if (hr_rjpeg_info(seek, seek_bytes, &info, NULL) < 0 || !info.cells ||
        info.value_bytes != plan->value_bytes || info.width != plan->facts.width ||
        info.height != plan->facts.height)
        return false;
    int n = hr_rjpeg_ranges(&info, seek, seek_bytes, &box, REQUEST_BYTES, ranges, HR_CHAIN_MAX_PARTS, NULL);
    for (int i = 0; i < n; i++) {
        uint64_t end = hr_align_up(ranges[i].off + ranges[i].bytes, HR_CHAIN_PART_ALIGN);
        if (ranges[i].off + ranges[i].bytes > plan->value_bytes)
            return false;
        add_part(parts, hr_align_down(ranges[i].off, HR_CHAIN_PART_ALIGN), hr_min_u64(end, plan->value_bytes));
    }
    return n > 0;
}

void hr_repacked_plan_parts(const uint8_t *seek, uint32_t seek_bytes, const struct hr_image_box *box,
                            struct hr_sample_plan *plan)
{
    struct hr_chain_parts parts;

    if (!find_parts(plan, seek, seek_bytes, box, &parts) ||
        parts.bytes + (uint64_t)REQUEST_BYTES * (parts.count - 1) >= plan->value_bytes)
        return;
    plan->box = *box;
    plan->seek = seek;
    plan->seek_bytes = seek_bytes;
    plan->read_bytes = parts.bytes;
}

void hr_repacked_parts(const struct hr_sample_plan *plan, struct hr_chain_parts *parts)
{
    if (!find_parts(plan, plan->seek, plan->seek_bytes, &plan->box, parts))
        parts->count = 0;
}

void hr_repacked_view_parts(const struct hr_sample_plan *plan, const uint8_t *value, size_t bytes,
                            struct hr_repacked_view *view)
{
    struct hr_chain_parts parts;
    uint64_t at = 0;

    hr_repacked_parts(plan, &parts);
    HR_ASSERT(parts.count > 0 && parts.bytes == bytes);
    view->view = (struct hr_rjpeg_view){.head = plan->seek, .head_bytes = plan->seek_bytes,
                                        .parts = view->parts, .part_count = parts.count};
    for (uint32_t i = 0; i < parts.count; at += parts.part[i++].bytes)
        view->parts[i] = (struct hr_rjpeg_part){value + at, parts.part[i].off, parts.part[i].bytes};
}

int hr_repacked_check(const struct hr_sample_plan *plan, const uint8_t *value, size_t bytes,
                      struct hr_error *err)
{
    struct hr_repacked_view view;
    struct hr_rjpeg_box box = box_of(&plan->box);

    hr_repacked_view_parts(plan, value, bytes, &view);
    return hr_rjpeg_check(&view.view, &box, NULL, err);
}
