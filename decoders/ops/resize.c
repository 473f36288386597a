/* resize: to a short side, to an exact size, or within a long side. Sizes are torchvision's. */
#include "decoders/ops/op.h"

/* A ragged result's bound: pictures more drawn out than this are refused by the plan. */
enum { MAX_ASPECT = 8 };

static int parse(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    int64_t size[2] = {0};
    int count = 0;
    const struct hr_arg_spec specs[] = {
        {.name = "size", .type = HR_ARG_TYPE_INTS, .out = size, .min = 1, .max = HR_OP_MAX_SIDE,
         .positional = true, .min_items = 1, .max_items = 2, .count = &count},
        {.name = "max_side", .type = HR_ARG_TYPE_INT, .out = &p->max_side, .min = 1,
         .max = HR_OP_MAX_SIDE},
        {.name = "filter", .type = HR_ARG_TYPE_ENUM, .out = &p->filter,
         .choices = hr_filter_names},
    };

    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    if (ret < 0)
        return ret;
    if ((count == 0 && !p->max_side) || (count == 2 && p->max_side)) {
        hr_fail(err, HR_E_CONFIG, "'resize' needs a size");
        hr_error_at_file(err, call->file, call->line, call->column);
        hr_error_hint(err, "size: N (short side), size: [H, W], or max_side: N (long side)");
        return HR_E_CONFIG;
    }
    if (count == 1)
        p->side = size[0];
    else if (count == 2)
        hr_op_size(p, size, count);
    return 0;
}

static void shape(const struct hr_op_params *p, struct hr_op_shape *s)
{
    if (p->w) {
        *s = (struct hr_op_shape){.w = (uint64_t)p->w, .h = (uint64_t)p->h,
                                  .max_w = (uint64_t)p->w, .max_h = (uint64_t)p->h,
                                  .max_pixels = (uint64_t)p->w * (uint64_t)p->h};
        return;
    }
    uint64_t side = (uint64_t)p->side, longest = (uint64_t)p->max_side;
    if (!longest)
        longest = side * MAX_ASPECT;
    if (!side || side > longest)
        side = longest;
    /* A square before it (a crop of one size, say) stays one. */
    bool square = s->w && s->w == s->h;
    *s = (struct hr_op_shape){.w = square ? side : 0, .h = square ? side : 0, .max_w = longest,
                              .max_h = longest, .max_pixels = side * longest};
}

static int64_t scaled(int64_t to, int64_t part, int64_t whole)
{
    int64_t v = to * part / whole;

    return v > 0 ? v : 1;
}

static int plan(const struct hr_op_params *p, struct hr_rng *rng, struct hr_view *view,
                struct hr_error *err)
{
    bool wide = view->w > view->h;
    int64_t short_side = wide ? view->h : view->w, long_side = wide ? view->w : view->h;
    int64_t new_short, new_long;

    if (p->w) {
        hr_view_resize(view, p->w, p->h, p->filter);
        return 0;
    }
    if (p->side) {
        new_short = p->side;
        new_long = scaled(p->side, long_side, short_side);
    } else {
        new_long = p->max_side;
        new_short = scaled(p->max_side, short_side, long_side);
    }
    if (p->max_side && new_long > p->max_side) {
        new_short = scaled(p->max_side, new_short, new_long);
        new_long = p->max_side;
    }
    hr_view_resize(view, wide ? new_long : new_short, wide ? new_short : new_long, p->filter);
    return 0;
}

static void describe(const struct hr_op_params *p, struct hr_buf *text)
{
    if (p->w)
        hr_buf_addf(text, "size=%lldx%lld", (long long)p->h, (long long)p->w);
    else
        hr_buf_addf(text, "side=%lld max_side=%lld", (long long)p->side, (long long)p->max_side);
    hr_buf_addf(text, " filter=%s", hr_filter_names[p->filter]);
}

const struct hr_op hr_op_resize = {
    .name = "resize",
    .effects = HR_OP_RESIZES,
    .parse = parse,
    .shape = shape,
    .plan = plan,
    .describe = describe,
};
