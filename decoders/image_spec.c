/* What the pipeline file says of an image field, checked, as groups of views and their outputs. Options beside the
 * ops: channels (rgb, gray), exif (apply, ignore), icc (ignore, srgb), scaled_decode (never, auto), views. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "decoders/decoder.h"
#include "decoders/image_chain.h"
#include "decoders/kernels/resample.h"
#include "decoders/output.h"

struct options {
    int channels, exif, scaled_decode, icc;
    int64_t views; /* 0 = not given */
};

static const char *const channel_words[] = {"rgb", "gray", NULL};
static const char *const exif_words[] = {"apply", "ignore", NULL};
static const char *const scaled_words[] = {"never", "auto", NULL};
static const char *const icc_words[] = {"ignore", "srgb", NULL};

static int read_options(const struct hr_call *call, struct options *o, struct hr_error *err)
{
    const struct hr_arg_spec specs[] = {
        {.name = "channels", .type = HR_ARG_TYPE_ENUM, .out = &o->channels,
         .choices = channel_words},
        {.name = "exif", .type = HR_ARG_TYPE_ENUM, .out = &o->exif, .choices = exif_words},
        {.name = "scaled_decode", .type = HR_ARG_TYPE_ENUM, .out = &o->scaled_decode,
         .choices = scaled_words},
        {.name = "icc", .type = HR_ARG_TYPE_ENUM, .out = &o->icc, .choices = icc_words},
        {.name = "views", .type = HR_ARG_TYPE_INT, .out = &o->views, .min = 1, .max = HR_CHAIN_MAX_VIEWS},
    };

    return call ? hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err) : 0;
}

static int fail_at(const struct hr_chain_spec *spec, int line, int column, const char *text, const char *hint,
                   struct hr_error *err)
{
    hr_fail(err, HR_E_CONFIG, "%s", text);
    hr_error_at_file(err, spec->file, line ? line : spec->line, line ? column : spec->column);
    hr_error_hint(err, "%s", hint);
    return HR_E_CONFIG;
}

/* ---- one group ---- */

static int check_shape(const struct hr_chain_spec *spec, const struct hr_chain_view_spec *view,
                       const struct hr_view_group *group, const struct hr_output *output, struct hr_error *err)
{
    int line = output->line ? output->line : view->line, column = output->line ? output->column : view->column;
    bool fixed = group->ops.shape.w && group->ops.shape.h;

    if (group->axis && (!fixed || output->ragged))
        return fail_at(spec, line, column, "the views of a picture must be of one size",
                       "end the ops with random_resized_crop, center_crop, random_crop or resize: [H, W], and leave "
                       "'ragged' out", err);
    if (fixed || output->ragged)
        return 0;
    return fail_at(spec, line, column, "the ops leave pictures of different sizes",
                   "end with random_resized_crop, center_crop, random_crop or resize: "
                   "[H, W], or say output: {ragged: true}", err);
}

static int check_normalize(const struct hr_chain_spec *spec, const struct hr_view_group *group,
                           const struct hr_output *output, struct hr_error *err)
{
    if (!group->ops.normalize || group->target.dtype != HR_DTYPE_U8)
        return 0;
    return fail_at(spec, output->line, output->column, "'normalize' makes fractions, the output is u8",
                   "output: {dtype: f16} (or bf16, f32), or leave normalize out", err);
}

static uint64_t max_pixels(const struct hr_op_shape *shape)
{
    uint64_t pixels = shape->max_pixels;

    return pixels && pixels < HR_IMAGE_MAX_PIXELS ? pixels : HR_IMAGE_MAX_PIXELS;
}

static void fill_output(struct hr_image_chain *chain, struct hr_view_group *group, const char *name, bool ragged)
{
    const struct hr_image_target *t = &group->target;
    struct hr_chain_output *out = &chain->base.outputs[chain->base.output_count++];
    uint64_t w = ragged ? 0 : group->ops.shape.w, h = ragged ? 0 : group->ops.shape.h;
    uint64_t pixel_bytes = t->channels * hr_dtype_bytes(t->dtype);
    enum hr_layout plain = t->planar ? HR_LAYOUT_NCHW : HR_LAYOUT_NHWC;
    enum hr_layout views = t->planar ? HR_LAYOUT_NVCHW : HR_LAYOUT_NVHWC;

    *out = (struct hr_chain_output){
        .dtype = t->dtype,
        .layout = group->axis ? views : plain,
        .ragged = ragged,
        .max_bytes = max_pixels(&group->ops.shape) * pixel_bytes,
    };
    if (name[0])
        snprintf(out->suffix, sizeof(out->suffix), ".%s", name);
    out->dims = hr_view_group_shape(group, w, h, out->shape);
    if (group->axis) {
        group->view_bytes = w * h * pixel_bytes;
        out->max_bytes = group->view_bytes * group->count;
    }
}

/* view->output may be NULL; name "" for a field without names of views. */
static int fill_group(struct hr_image_chain *chain, const struct hr_chain_spec *spec,
                      const struct hr_chain_view_spec *view, const struct options *options, struct hr_error *err)
{
    struct hr_view_group *group = &chain->views.groups[chain->views.group_count];
    struct hr_output output;
    struct hr_op_shape shape = {
        .max_w = spec->max_width,
        .max_h = spec->max_height,
        .max_pixels = (uint64_t)spec->max_width * spec->max_height,
    };

    int ret = hr_output_read(view->output, HR_FIELD_IMAGE, &output, err);
    if (ret == 0)
        ret = hr_op_chain_init(&group->ops, view->ops, view->op_count, &shape, err);
    if (ret < 0)
        return ret;
    bool gray = output.channels ? output.channels == HR_CHANNELS_GRAY : options->channels == 1;
    group->target.channels = gray ? 1 : 3;
    group->target.dtype = output.dtype ? output.dtype : HR_DTYPE_U8;
    group->target.planar = output.layout == HR_LAYOUT_NCHW;
    if (chain->channels && chain->channels != group->target.channels)
        return fail_at(spec, output.line, output.column, "some views are rgb and some gray",
                       "say 'channels' once, beside 'views'", err);
    chain->channels = group->target.channels;
    ret = check_shape(spec, view, group, &output, err);
    if (ret == 0)
        ret = check_normalize(spec, group, &output, err);
    if (ret == 0)
        ret = hr_op_chain_scale(&group->ops, group->target.channels, group->target.scale,
                                group->target.bias, err);
    if (ret < 0)
        return ret;
    fill_output(chain, group, view->name, output.ragged);
    bool planar = group->target.planar && hr_op_chain_folds(&group->ops); /* else the decoder's rows go into a canvas */
    bool takes_planes = group->target.channels == 3 && hr_resample_may_take_planes(planar);
    chain->views.may_take_planes = takes_planes && (chain->views.may_take_planes || chain->views.group_count == 0);
    chain->views.group_count++;
    chain->views.count += group->count;
    return 0;
}

/* ---- all groups ---- */

static int check_name(const struct hr_chain_spec *spec, const struct hr_chain_view_spec *view, struct hr_error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t bytes = strlen(view->name), room = sizeof(((struct hr_chain_output *)0)->suffix) - 2;

    if (bytes > 0 && bytes <= room && view->name[strspn(view->name, letters)] == '\0' &&
        strcmp(view->name, "present") != 0)
        return 0;
    return fail_at(spec, view->line, view->column, "this cannot be the name of views",
                   "1 to 14 letters, digits and '_', and not 'present'", err);
}

static int fill_named(struct hr_image_chain *chain, const struct hr_chain_spec *spec,
                      const struct hr_chain_view_spec *view, const struct options *options, struct hr_error *err)
{
    struct hr_chain_view_spec filled = *view;
    int64_t count = 1;
    const struct hr_arg_spec specs[] = {
        {.name = "count", .type = HR_ARG_TYPE_INT, .out = &count, .min = 1, .max = HR_CHAIN_MAX_VIEWS},
    };

    int ret = check_name(spec, view, err);
    if (ret == 0)
        ret = view->options ? hr_args_read(view->options, specs, HR_ARRAY_SIZE(specs), err) : 0;
    if (ret < 0)
        return ret;
    if (chain->views.count + count > HR_CHAIN_MAX_VIEWS)
        return fail_at(spec, view->line, view->column, "more than 64 views of a picture", "lower a 'count'", err);
    chain->views.groups[chain->views.group_count].count = (uint32_t)count;
    chain->views.groups[chain->views.group_count].axis = true;
    if (!filled.output)
        filled.output = spec->output;
    return fill_group(chain, spec, &filled, options, err);
}

static int fill_views(struct hr_image_chain *chain, const struct hr_chain_spec *spec, const struct options *options,
                      struct hr_error *err)
{
    struct hr_chain_view_spec whole = {.name = "", .line = spec->line, .column = spec->column, .ops = spec->ops,
                                       .op_count = spec->op_count, .output = spec->output};
    int ret = 0;

    if (spec->view_spec_count == 0) {
        chain->views.groups[0].count = options->views ? (uint32_t)options->views : 1;
        chain->views.groups[0].axis = options->views > 0;
        return fill_group(chain, spec, &whole, options, err);
    }
    if (spec->op_count > 0)
        return fail_at(spec, spec->ops[0].line, spec->ops[0].column, "each of the views has ops of its own",
                       "move these into the views", err);
    for (int i = 0; i < spec->view_spec_count && ret == 0; i++)
        ret = fill_named(chain, spec, &spec->views[i], options, err);
    return ret;
}

int hr_image_spec_read(const struct hr_chain_spec *spec, struct hr_image_chain *chain, struct hr_error *err)
{
    size_t groups = spec->view_spec_count ? (size_t)spec->view_spec_count : 1;
    struct options options = {0};

    if (spec->clip)
        return fail_at(spec, spec->clip->line, spec->clip->column, "an image field has no clip",
                       "clip is for video and audio", err);
    if (groups > HR_CHAIN_MAX_OUTPUTS)
        return fail_at(spec, spec->views[HR_CHAIN_MAX_OUTPUTS].line, spec->views[HR_CHAIN_MAX_OUTPUTS].column,
                       "more than 8 names of views", "give views that are made alike one name and a 'count'", err);
    int ret = read_options(spec->options, &options, err);
    if (ret < 0)
        return ret;
    chain->apply_exif = options.exif == 0;
    chain->scaled = options.scaled_decode == 1;
    chain->managed = options.icc == 1;
    chain->max_width = spec->max_width;
    chain->views.groups = hr_alloc_zero(groups, sizeof(*chain->views.groups));
    if (!chain->views.groups)
        return hr_fail(err, HR_E_NOMEM, "no memory for a plan");
    return fill_views(chain, spec, &options, err);
}

/* ---- the canonical text ---- */

static void describe_ops(const struct hr_view_group *group, struct hr_buf *text)
{
    hr_buf_addf(text, "ops[");
    hr_op_chain_describe(&group->ops, text);
    hr_buf_addf(text, "]");
}

static void describe_output(const struct hr_view_group *group, bool ragged, struct hr_buf *text)
{
    hr_buf_addf(text, "output{%s %s%s}", hr_dtype_name(group->target.dtype),
                hr_layout_name(group->target.planar ? HR_LAYOUT_NCHW : HR_LAYOUT_NHWC), ragged ? " ragged" : "");
}

void hr_image_spec_describe(const struct hr_image_chain *chain, struct hr_buf *text)
{
    const struct hr_views *views = &chain->views;
    const struct hr_chain_output *out = chain->base.outputs;
    bool named = out[0].suffix[0];

    hr_buf_addf(text, "image ");
    if (!named) {
        describe_ops(&views->groups[0], text);
        hr_buf_addf(text, " ");
    }
    hr_buf_addf(text, "exif=%s scaled_decode=%s%s channels=%u", exif_words[!chain->apply_exif],
                scaled_words[chain->scaled], chain->managed ? " icc=srgb" : "", chain->channels);
    for (int i = 0; named && i < views->group_count; i++) {
        hr_buf_addf(text, " views%s{count=%u ", out[i].suffix, views->groups[i].count);
        describe_ops(&views->groups[i], text);
        hr_buf_addf(text, " ");
        describe_output(&views->groups[i], false, text);
        hr_buf_addf(text, "}");
    }
    if (!named) {
        hr_buf_addf(text, " ");
        describe_output(&views->groups[0], out[0].ragged, text);
        if (views->groups[0].axis)
            hr_buf_addf(text, " views=%u", views->count);
    }
}
