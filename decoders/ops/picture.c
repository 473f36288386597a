/* Pictures through chains: stages in turn, each a view of what the one before left and then its ops on
 * pixels, and last what works on the output itself. */
#include "decoders/ops/picture.h"

#include <string.h>

#include "base/mem.h"
#include "decoders/ops/finish.h"
#include "decoders/ops/run.h"

struct hr_picture {
    struct hr_image_sink *sink, *after; /* the decoder's rows; further passes */
    struct hr_canvas canvas;
    bool only_geometry;
    uint8_t fill; /* only_geometry: of what comes from outside */
    /* the picture at hand */
    const struct hr_op_chain *ops;
    struct hr_image_plan plan;
    struct hr_image_target target;
};

int hr_picture_create(struct hr_picture **out)
{
    struct hr_picture *picture = hr_alloc_zero(1, sizeof(*picture));

    if (!picture)
        return HR_E_NOMEM;
    int ret = hr_image_sink_create(&picture->sink);
    if (ret == 0)
        ret = hr_image_sink_create(&picture->after);
    if (ret < 0) {
        hr_picture_destroy(picture);
        return ret;
    }
    *out = picture;
    return 0;
}

void hr_picture_destroy(struct hr_picture *picture)
{
    if (!picture)
        return;
    hr_image_sink_destroy(picture->sink);
    hr_image_sink_destroy(picture->after);
    hr_canvas_finish(&picture->canvas);
    hr_free(picture);
}

static int no_memory(const struct hr_picture *p, struct hr_error *err)
{
    return hr_fail(err, HR_E_NOMEM, "no memory for a picture of %u x %u pixels", p->canvas.w,
                   p->canvas.h);
}

static struct hr_image_target bytes_target(const struct hr_picture *p, uint8_t *dst)
{
    return (struct hr_image_target){.dst = dst, .dtype = HR_DTYPE_U8, .channels = p->target.channels};
}

void hr_picture_only_geometry(struct hr_picture *picture, bool only_geometry, uint8_t fill)
{
    picture->only_geometry = only_geometry;
    picture->fill = fill;
}

static void adapt(const struct hr_picture *p, struct hr_image_plan *plan)
{
    if (!p->only_geometry)
        return;
    plan->filter = HR_FILTER_NEAREST;
    memset(plan->fill, p->fill, sizeof(plan->fill));
}

int hr_picture_begin(struct hr_picture *p, const struct hr_op_chain *ops,
                     const struct hr_image_plan *plan, const struct hr_image_target *target,
                     uint32_t picture_w, uint32_t picture_h, uint32_t shrink,
                     struct hr_image_region *region, struct hr_error *err)
{
    p->ops = ops;
    p->plan = *plan;
    p->target = *target;
    p->target.planes_in = false; /* only the decoder gives planes */
    adapt(p, &p->plan);
    if (hr_op_chain_folds(ops))
        return hr_image_sink_begin(p->sink, &p->plan, target, picture_w, picture_h, shrink, region, err);
    if (plan->out_w <= 0 || plan->out_h <= 0)
        return hr_fail(err, HR_E_DECODE, "the plan does not fit a picture of %u x %u pixels",
                       picture_w, picture_h);
    if (hr_canvas_size(&p->canvas, (uint32_t)plan->out_w, (uint32_t)plan->out_h,
                       target->channels) < 0)
        return no_memory(p, err);
    struct hr_image_target bytes = bytes_target(p, p->canvas.pixels);
    bytes.planes_in = target->planes_in;
    p->target.planes_in = false; /* what the last pass gets are rows of the canvas */
    return hr_image_sink_begin(p->sink, &p->plan, &bytes, picture_w, picture_h, shrink, region, err);
}

bool hr_picture_push(struct hr_picture *p, const uint8_t *row)
{
    return hr_image_sink_push(p->sink, row);
}

bool hr_picture_takes_planes(const struct hr_picture *p)
{
    return hr_image_sink_takes_planes(p->sink);
}

bool hr_picture_push_planes(struct hr_picture *p, const uint8_t *const rows[3])
{
    return hr_image_sink_push_planes(p->sink, rows);
}

/* The canvas through a view into dst. */
static int pass(struct hr_picture *p, const struct hr_image_plan *plan,
                const struct hr_image_target *target, struct hr_error *err)
{
    const struct hr_canvas *c = &p->canvas;
    size_t stride = (size_t)c->w * c->channels;
    struct hr_image_region region;
    int ret = hr_image_sink_begin(p->after, plan, target, c->w, c->h, 1, &region, err);

    if (ret < 0 || region.w == 0)
        return ret;
    for (uint32_t y = region.y; y < region.y + region.h; y++)
        if (!hr_image_sink_push(p->after, c->pixels + y * stride + (size_t)region.x * c->channels))
            break;
    HR_ASSERT(hr_image_sink_end(p->after));
    return 0;
}

static int pass_into_canvas(struct hr_picture *p, const struct hr_image_plan *plan,
                            struct hr_error *err)
{
    uint32_t w = (uint32_t)plan->out_w, h = (uint32_t)plan->out_h;

    if (hr_canvas_spare(&p->canvas, w, h) < 0)
        return no_memory(p, err);
    struct hr_image_target bytes = bytes_target(p, p->canvas.spare);
    int ret = pass(p, plan, &bytes, err);
    if (ret == 0)
        hr_canvas_swap(&p->canvas, w, h);
    return ret;
}

static int64_t repeated(int64_t at, int64_t side, enum hr_pad_mode mode)
{
    int64_t period = mode == HR_PAD_REFLECT ? 2 * side - 2 : 2 * side;

    if (at >= 0 && at < side)
        return at;
    if (mode == HR_PAD_EDGE || period <= 0)
        return at < 0 ? 0 : side - 1;
    at %= period;
    at = at < 0 ? at + period : at;
    return at < side ? at : (mode == HR_PAD_REFLECT ? period : period - 1) - at;
}

/* The plan's box becomes the canvas, with borders that repeat pixels. */
static int repeat_borders(struct hr_picture *p, struct hr_image_plan *plan, enum hr_pad_mode mode,
                          struct hr_error *err)
{
    struct hr_canvas *c = &p->canvas;
    uint32_t w = (uint32_t)plan->crop_w, h = (uint32_t)plan->crop_h;

    if (hr_canvas_spare(c, w, h) < 0)
        return no_memory(p, err);
    uint8_t *dst = c->spare;
    for (uint32_t y = 0; y < h; y++) {
        const uint8_t *row = c->pixels + (size_t)repeated((int64_t)plan->crop_y + y, c->h, mode) *
                                             c->w * c->channels;
        for (uint32_t x = 0; x < w; x++, dst += c->channels)
            memcpy(dst, row + (size_t)repeated((int64_t)plan->crop_x + x, c->w, mode) * c->channels,
                   c->channels);
    }
    hr_canvas_swap(c, w, h);
    plan->crop_x = plan->crop_y = 0;
    return 0;
}

static int run_pixel_ops(struct hr_picture *p, const struct hr_op_stage *stage, struct hr_error *err)
{
    struct hr_steps steps;

    for (int i = stage->pixels; i < stage->end; i++) {
        hr_op_chain_draw(p->ops, &p->plan.key, i, p->canvas.w, p->canvas.h, &steps);
        int ret = p->only_geometry ? hr_canvas_move(&p->canvas, &steps, p->fill)
                                   : hr_canvas_run(&p->canvas, &steps);
        if (ret < 0)
            return no_memory(p, err);
    }
    hr_canvas_flush(&p->canvas);
    return 0;
}

/* A stage after the first; *written when it ended in the output. */
static int run_stage(struct hr_picture *p, int i, bool *written, struct hr_error *err)
{
    const struct hr_op_stage *stage = &p->ops->stages[i];
    struct hr_image_plan plan = {.orientation = 1};
    struct hr_view view;
    int ret = hr_op_chain_view(p->ops, &p->plan.key, i, p->canvas.w, p->canvas.h, &view, err);

    if (ret == 0)
        ret = hr_view_plan(&view, &plan, err);
    adapt(p, &plan);
    if (ret == 0 && stage->pads && stage->pad_mode != HR_PAD_CONSTANT)
        ret = repeat_borders(p, &plan, stage->pad_mode, err);
    if (ret < 0)
        return ret;
    *written = i + 1 == p->ops->stage_count && stage->pixels == stage->end;
    ret = *written ? pass(p, &plan, &p->target, err) : pass_into_canvas(p, &plan, err);
    return ret < 0 ? ret : run_pixel_ops(p, stage, err);
}

static int write_canvas(struct hr_picture *p, struct hr_error *err)
{
    int32_t w = (int32_t)p->canvas.w, h = (int32_t)p->canvas.h;
    struct hr_image_plan plan = {.crop_w = w, .crop_h = h, .out_w = w, .out_h = h, .orientation = 1};

    return pass(p, &plan, &p->target, err);
}

static void run_late_ops(struct hr_picture *p)
{
    uint32_t w = (uint32_t)p->plan.end_w, h = (uint32_t)p->plan.end_h;
    struct hr_steps steps;

    for (int i = p->ops->late; i < p->ops->count; i++) {
        hr_op_chain_draw(p->ops, &p->plan.key, i, w, h, &steps);
        for (int k = 0; k < steps.count; k++)
            hr_finish_erase(&p->target, &steps.steps[k], w, h);
    }
}

int hr_picture_end(struct hr_picture *p, struct hr_error *err)
{
    const struct hr_op_chain *ops = p->ops;
    bool written = false;

    if (!hr_image_sink_end(p->sink))
        return 1;
    if (hr_op_chain_folds(ops))
        return 0;
    int ret = run_pixel_ops(p, &ops->stages[0], err);
    for (int i = 1; ret == 0 && i < ops->stage_count; i++)
        ret = run_stage(p, i, &written, err);
    if (ret == 0 && !written)
        ret = write_canvas(p, err);
    if (ret == 0 && !p->only_geometry)
        run_late_ops(p);
    return ret;
}
