/* Folding of crops, a resize and flips into one plan. */
#include "decoders/ops/view.h"

#include <inttypes.h>
#include <string.h>

#include "decoders/decoder.h"

enum { MAX_RESIZED_SIDE = 1 << 24 };

void hr_view_init(struct hr_view *view, uint32_t w, uint32_t h)
{
    *view = (struct hr_view){.w = w, .h = h, .box_w = w, .box_h = h};
}

/* Flips come last in the plan, so a crop after a flip takes the mirrored place before it. */
void hr_view_crop(struct hr_view *view, int64_t x, int64_t y, int64_t w, int64_t h)
{
    if (view->flip_h)
        x = view->w - x - w;
    if (view->flip_v)
        y = view->h - y - h;
    if (view->resized) {
        view->out_x += x;
        view->out_y += y;
    } else {
        view->box_x += x;
        view->box_y += y;
        view->box_w = w;
        view->box_h = h;
    }
    view->w = w;
    view->h = h;
}

void hr_view_resize(struct hr_view *view, int64_t w, int64_t h, int filter)
{
    HR_ASSERT(!view->resized);
    if (view->w == w && view->h == h)
        return;
    view->resized = true;
    view->full_w = view->w = w;
    view->full_h = view->h = h;
    view->filter = filter;
}

void hr_view_flip(struct hr_view *view, bool horizontal)
{
    if (horizontal)
        view->flip_h = !view->flip_h;
    else
        view->flip_v = !view->flip_v;
}

int hr_view_plan(const struct hr_view *view, struct hr_image_plan *plan, struct hr_error *err)
{
    int ret = hr_image_check_size((uint64_t)view->w, (uint64_t)view->h, err);

    if (ret < 0)
        return ret;
    if (view->full_w > MAX_RESIZED_SIDE || view->full_h > MAX_RESIZED_SIDE)
        return hr_fail(err, HR_E_LIMIT,
                       "the resize makes a picture of %" PRId64 " x %" PRId64 " pixels",
                       view->full_w, view->full_h);
    plan->crop_x = (int32_t)view->box_x;
    plan->crop_y = (int32_t)view->box_y;
    plan->crop_w = (int32_t)view->box_w;
    plan->crop_h = (int32_t)view->box_h;
    plan->out_w = (int32_t)view->w;
    plan->out_h = (int32_t)view->h;
    bool windowed = view->resized && (view->w != view->full_w || view->h != view->full_h ||
                                      view->out_x != 0 || view->out_y != 0);
    plan->full_out_w = windowed ? (int32_t)view->full_w : 0;
    plan->full_out_h = windowed ? (int32_t)view->full_h : 0;
    plan->out_x = windowed ? (int32_t)view->out_x : 0;
    plan->out_y = windowed ? (int32_t)view->out_y : 0;
    plan->flip_h = view->flip_h;
    plan->flip_v = view->flip_v;
    plan->filter = (uint8_t)view->filter;
    memcpy(plan->fill, view->fill, sizeof(plan->fill));
    return 0;
}
