/* Which parts of a large repacked picture a sample needs. The rule is a pure function of the planned boxes and
 * the seek table, so that the reader thread and the workers come to the same parts, and so does every rerun. */
#include "decoders/repacked.h"

#include <string.h>

/* A request costs as much as reading so many bytes more: what a disk of 10,000 requests and 300 MB a
 * second says. So parts that are closer are joined, and parts that would not save as much are not made. */
enum { REQUEST_BYTES = 32 << 10 };

/* Whole pages are joined where their ranges would be. */
enum { JOIN_BYTES = REQUEST_BYTES - 2 * HR_CHAIN_PART_ALIGN };

static struct hr_rjpeg_box box_at(const struct hr_views_boxes *boxes, uint32_t i)
{
    const struct hr_image_region *box = &boxes->box[i];

    return (struct hr_rjpeg_box){box->x, box->y, box->w, box->h, boxes->shrink};
}

/* Parts stay in order and apart. When there is room for no more, the nearest one after (or before) grows. */
static void add_part(struct hr_chain_parts *parts, uint64_t off, uint64_t end)
{
    uint32_t first = 0;

    while (first < parts->count && parts->part[first].off + parts->part[first].bytes + JOIN_BYTES < off)
        first++;
    if (parts->count == HR_CHAIN_MAX_PARTS && first == parts->count)
        first--;
    uint32_t past = first;
    while (past < parts->count && (parts->part[past].off <= end + JOIN_BYTES ||
                                   (past == first && parts->count == HR_CHAIN_MAX_PARTS))) {
        off = hr_min_u64(off, parts->part[past].off);
        end = hr_max_u64(end, parts->part[past].off + parts->part[past].bytes);
        past++;
    }
    memmove(&parts->part[first + 1], &parts->part[past], (parts->count - past) * sizeof(parts->part[0]));
    parts->count = parts->count + 1 - (past - first);
    parts->part[first].off = off;
    parts->part[first].bytes = end - off;
}

static bool add_box(const struct hr_rjpeg_info *info, const uint8_t *seek, uint32_t seek_bytes,
                    const struct hr_rjpeg_box *box, struct hr_chain_parts *parts)
{
    struct hr_rjpeg_range ranges[HR_CHAIN_MAX_PARTS];
    int n = hr_rjpeg_ranges(info, seek, seek_bytes, box, REQUEST_BYTES, ranges, HR_CHAIN_MAX_PARTS, NULL);

    for (int i = 0; i < n; i++) {
        uint64_t end = ranges[i].off + ranges[i].bytes;
        if (end > info->value_bytes)
            return false;
        add_part(parts, hr_align_down(ranges[i].off, HR_CHAIN_PART_ALIGN),
                 hr_min_u64(hr_align_up(end, HR_CHAIN_PART_ALIGN), info->value_bytes));
    }
    return n > 0;
}

/* Parts of whole pages. False when the table is not one of this picture. */
static bool find_parts(const struct hr_sample_plan *plan, const uint8_t *seek, uint32_t seek_bytes,
                       const struct hr_views_boxes *boxes, struct hr_chain_parts *parts)
{
    struct hr_rjpeg_info info;

    *parts = (struct hr_chain_parts){0};
    if (hr_rjpeg_info(seek, seek_bytes, &info, NULL) < 0 || !info.cells ||
        info.value_bytes != plan->value_bytes || info.width != plan->facts.width ||
        info.height != plan->facts.height)
        return false;
    for (uint32_t i = 0; i < boxes->count; i++) {
        struct hr_rjpeg_box box = box_at(boxes, i);
        if (!add_box(&info, seek, seek_bytes, &box, parts))
            return false;
    }
    for (uint32_t i = 0; i < parts->count; i++)
        parts->bytes += parts->part[i].bytes;
    return parts->count > 0;
}

void hr_repacked_plan_parts(const uint8_t *seek, uint32_t seek_bytes, const struct hr_views_boxes *boxes,
                            struct hr_sample_plan *plan)
{
    struct hr_chain_parts parts;

    if (!find_parts(plan, seek, seek_bytes, boxes, &parts) ||
        parts.bytes + (uint64_t)REQUEST_BYTES * (parts.count - 1) >= plan->value_bytes)
        return;
    plan->seek = seek;
    plan->seek_bytes = seek_bytes;
    plan->read_bytes = parts.bytes;
}

void hr_repacked_parts(const struct hr_sample_plan *plan, const struct hr_views_boxes *boxes,
                       struct hr_chain_parts *parts)
{
    if (!find_parts(plan, plan->seek, plan->seek_bytes, boxes, parts))
        parts->count = 0;
}

void hr_repacked_view_parts(const struct hr_sample_plan *plan, const struct hr_views_boxes *boxes,
                            const uint8_t *value, size_t bytes, struct hr_repacked_view *view)
{
    struct hr_chain_parts parts;
    uint64_t at = 0;

    hr_repacked_parts(plan, boxes, &parts);
    HR_ASSERT(parts.count > 0 && parts.bytes == bytes);
    view->view = (struct hr_rjpeg_view){.head = plan->seek, .head_bytes = plan->seek_bytes,
                                        .parts = view->parts, .part_count = parts.count};
    for (uint32_t i = 0; i < parts.count; at += parts.part[i++].bytes)
        view->parts[i] = (struct hr_rjpeg_part){value + at, parts.part[i].off, parts.part[i].bytes};
}

int hr_repacked_check(const struct hr_sample_plan *plan, const struct hr_views_boxes *boxes, const uint8_t *value,
                      size_t bytes, struct hr_error *err)
{
    struct hr_repacked_view view;
    int ret = 0;

    hr_repacked_view_parts(plan, boxes, value, bytes, &view);
    for (uint32_t i = 0; i < boxes->count && ret == 0; i++) {
        struct hr_rjpeg_box box = box_at(boxes, i);
        ret = hr_rjpeg_check(&view.view, &box, NULL, err);
    }
    return ret;
}
