/* Image fields: the chain of one picture from stored bytes to output. Options beside the ops:
 * channels (rgb, gray), exif (apply, ignore), icc (ignore, srgb), scaled_decode (never, auto). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "decoders/decoder.h"
#include "decoders/icc.h"
#include "decoders/image_choice.h"
#include "decoders/image_lead.h"
#include "decoders/ops/picture.h"
#include "decoders/output.h"
#include "decoders/pixels.h"
#include "decoders/repacked.h"
#include "decoders/scratch.h"
#include "decoders/sink.h"

struct image_chain {
    struct hr_chain base; /* first */
    struct hr_op_chain ops;
    struct hr_image_target target; /* dst unset */
    bool apply_exif, scaled, managed;
    uint32_t max_width;
};

struct image_context {
    struct hr_context base; /* first */
    struct hr_picture *picture;
    struct hr_image_states states;
    /* icc: srgb */
    struct hr_icc *icc;
    struct hr_profile profile;
    uint8_t *row; /* as it comes out of a transform */
    size_t row_room;
};

enum { ROW_PAD = 64 };

struct options {
    int channels, exif, scaled_decode, icc;
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
    };

    return call ? hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err) : 0;
}

static int fail_at_output(const struct hr_chain_spec *spec, const struct hr_output *output,
                          const char *text, const char *hint, struct hr_error *err)
{
    hr_fail(err, HR_E_CONFIG, "%s", text);
    hr_error_at_file(err, spec->file, output->line ? output->line : spec->line,
                     output->line ? output->column : spec->column);
    hr_error_hint(err, "%s", hint);
    return HR_E_CONFIG;
}

static int check_shape(const struct hr_chain_spec *spec, const struct image_chain *chain,
                       const struct hr_output *output, struct hr_error *err)
{
    if ((chain->ops.shape.w && chain->ops.shape.h) || output->ragged)
        return 0;
    return fail_at_output(spec, output, "the ops leave pictures of different sizes",
                          "end with random_resized_crop, center_crop, random_crop or resize: "
                          "[H, W], or say output: {ragged: true}",
                          err);
}

static int check_normalize(const struct hr_chain_spec *spec, const struct image_chain *chain,
                           const struct hr_output *output, struct hr_error *err)
{
    if (!chain->ops.normalize || chain->target.dtype != HR_DTYPE_U8)
        return 0;
    return fail_at_output(spec, output, "'normalize' makes fractions, the output is u8",
                          "output: {dtype: f16} (or bf16, f32), or leave normalize out", err);
}

static uint64_t max_pixels(const struct hr_op_shape *shape)
{
    uint64_t pixels = shape->max_pixels;

    return pixels && pixels < HR_IMAGE_MAX_PIXELS ? pixels : HR_IMAGE_MAX_PIXELS;
}

static void fill_output(struct image_chain *chain, bool ragged)
{
    const struct hr_image_target *t = &chain->target;
    struct hr_chain_output *out = &chain->base.outputs[0];
    uint64_t w = ragged ? 0 : chain->ops.shape.w, h = ragged ? 0 : chain->ops.shape.h;

    *out = (struct hr_chain_output){
        .dtype = t->dtype,
        .layout = t->planar ? HR_LAYOUT_NCHW : HR_LAYOUT_NHWC,
        .dims = 3,
        .ragged = ragged,
        .max_bytes = max_pixels(&chain->ops.shape) * t->channels * hr_dtype_bytes(t->dtype),
    };
    out->shape[t->planar ? 0 : 2] = t->channels;
    out->shape[t->planar ? 1 : 0] = h;
    out->shape[t->planar ? 2 : 1] = w;
    chain->base.output_count = 1;
}

static int describe(struct image_chain *chain)
{
    const struct hr_image_target *t = &chain->target;
    const struct hr_chain_output *out = &chain->base.outputs[0];
    struct hr_buf text = {0};

    hr_buf_addf(&text, "image ops[");
    hr_op_chain_describe(&chain->ops, &text);
    hr_buf_addf(&text, "] exif=%s scaled_decode=%s%s channels=%u output{%s %s%s}",
                exif_words[!chain->apply_exif], scaled_words[chain->scaled],
                chain->managed ? " icc=srgb" : "", t->channels,
                hr_dtype_name(t->dtype), hr_layout_name(out->layout), out->ragged ? " ragged" : "");
    if (!hr_buf_failed(&text))
        chain->base.description = hr_strdup(hr_buf_str(&text));
    hr_buf_finish(&text);
    return chain->base.description ? 0 : HR_E_NOMEM;
}

static int fill_chain(struct image_chain *chain, const struct hr_chain_spec *spec,
                      struct hr_error *err)
{
    struct options options = {0};
    struct hr_output output;
    struct hr_op_shape shape = {
        .max_w = spec->max_width,
        .max_h = spec->max_height,
        .max_pixels = (uint64_t)spec->max_width * spec->max_height,
    };

    if (spec->clip)
        return fail_at_output(spec, &(struct hr_output){.line = spec->clip->line,
                                                        .column = spec->clip->column},
                              "an image field has no clip", "clip is for video and audio", err);
    int ret = read_options(spec->options, &options, err);
    if (ret == 0)
        ret = hr_output_read(spec->output, HR_FIELD_IMAGE, &output, err);
    if (ret == 0)
        ret = hr_op_chain_init(&chain->ops, spec->ops, spec->op_count, &shape, err);
    if (ret < 0)
        return ret;
    bool gray = output.channels ? output.channels == HR_CHANNELS_GRAY : options.channels == 1;
    chain->target.channels = gray ? 1 : 3;
    chain->target.dtype = output.dtype ? output.dtype : HR_DTYPE_U8;
    chain->target.planar = output.layout == HR_LAYOUT_NCHW;
    chain->apply_exif = options.exif == 0;
    chain->scaled = options.scaled_decode == 1;
    chain->managed = options.icc == 1;
    chain->max_width = spec->max_width;
    ret = check_shape(spec, chain, &output, err);
    if (ret == 0)
        ret = check_normalize(spec, chain, &output, err);
    if (ret == 0)
        ret = hr_op_chain_scale(&chain->ops, chain->target.channels, chain->target.scale,
                                chain->target.bias, err);
    if (ret < 0)
        return ret;
    fill_output(chain, output.ragged);
    return describe(chain) < 0 ? hr_fail(err, HR_E_NOMEM, "no memory for a plan") : 0;
}

static int create(const struct hr_chain_spec *spec, struct hr_chain **out, struct hr_error *err)
{
    struct image_chain *chain = hr_alloc_zero(1, sizeof(*chain));

    if (!chain)
        return hr_fail(err, HR_E_NOMEM, "no memory for a plan");
    int ret = fill_chain(chain, spec, err);
    if (ret < 0) {
        hr_free(chain);
        return ret;
    }
    *out = &chain->base;
    return 0;
}

static void destroy(struct hr_chain *chain)
{
    hr_free(HR_CONTAINER_OF(chain, struct image_chain, base));
}

static int plan_sample(const struct hr_chain *base, const struct hr_draw_key *key,
                       uint64_t value_bytes, struct hr_sample_plan *plan, struct hr_error *err)
{
    const struct image_chain *chain = HR_CONTAINER_OF(base, struct image_chain, base);
    const struct hr_image_target *t = &chain->target;
    const struct hr_facts *facts = &plan->facts;

    int ret = hr_image_check_size(facts->width, facts->height, err);
    if (ret < 0)
        return ret;
    uint32_t upright_w, upright_h;
    plan->image.orientation = hr_image_orient(facts, chain->apply_exif, &upright_w, &upright_h);
    ret = hr_op_chain_plan(&chain->ops, key, upright_w, upright_h, &plan->image, err);
    if (ret < 0)
        return ret;
    plan->image.scaled = chain->scaled;
    uint64_t w = (uint64_t)plan->image.end_w, h = (uint64_t)plan->image.end_h;
    plan->shape[0][t->planar ? 0 : 2] = t->channels;
    plan->shape[0][t->planar ? 1 : 0] = h;
    plan->shape[0][t->planar ? 2 : 1] = w;
    plan->bytes[0] = w * h * t->channels * hr_dtype_bytes(t->dtype);
    if (plan->bytes[0] <= base->outputs[0].max_bytes)
        return 0;
    return hr_fail(err, HR_E_LIMIT, "%" PRIu64 " x %" PRIu64 " pixels are more than the field's "
                   "samples may have", w, h);
}

/* A profile lies in the bytes around the scan, so that pictures with one are read whole. */
static void plan_parts(const struct hr_chain *base, unsigned encoding, const uint8_t *seek,
                       uint32_t seek_bytes, struct hr_sample_plan *plan)
{
    const struct image_chain *chain = HR_CONTAINER_OF(base, struct image_chain, base);

    if (encoding == HR_ENCODING_REPACKED_JPEG && !chain->managed)
        hr_repacked_plan_parts(seek, seek_bytes, plan);
}

static void context_destroy(struct hr_context *base)
{
    struct image_context *context = HR_CONTAINER_OF(base, struct image_context, base);

    hr_image_states_finish(&context->states);
    hr_picture_destroy(context->picture);
    hr_icc_destroy(context->icc);
    hr_free(context->profile.room);
    hr_free(context->profile.around);
    hr_free(context->row);
    hr_free(context);
}

/* The JPEG state is made up front; the others when a picture of their format comes. */
static int context_create(const struct hr_chain *base, struct hr_context **out,
                          struct hr_error *err)
{
    const struct image_chain *chain = HR_CONTAINER_OF(base, struct image_chain, base);
    struct image_context *context = hr_alloc_zero(1, sizeof(*context));

    if (!context)
        return hr_fail(err, HR_E_NOMEM, "no memory for a decoder");
    context->states.max_width = chain->max_width;
    int ret = hr_picture_create(&context->picture);
    if (ret == 0)
        ret = hr_image_states_prepare(&context->states, &hr_decoder_jpeg);
    if (ret == 0 && chain->managed)
        ret = hr_icc_create(&context->icc);
    if (ret < 0) {
        context_destroy(&context->base);
        return hr_fail(err, ret, "no memory for a decoder");
    }
    *out = &context->base;
    return 0;
}

static bool push(void *user, const uint8_t *row)
{
    return hr_picture_push(user, row);
}

static bool push_planes(void *user, const uint8_t *const rows[3])
{
    return hr_picture_push_planes(user, rows);
}

/* ---- colour profiles ---- */

/* Rows on their way through a transform. */
struct managed {
    struct image_context *context;
    const struct hr_icc_transform *transform; /* NULL: none is needed */
    uint32_t pixels, channels;
};

static bool push_managed(void *user, const uint8_t *row)
{
    const struct managed *m = user;
    uint8_t *out = m->context->row;

    hr_icc_row(m->transform, out, row, m->pixels);
    if (m->channels == 1)
        hr_pixels_rgb_to_gray(out, out, m->pixels);
    return hr_picture_push(m->context->picture, out);
}

/* What kind of profile a picture can have: 1 gray, 3 RGB, 4 CMYK. */
static uint32_t samples_of(const struct hr_image_choice *choice, const struct hr_facts *facts)
{
    if (facts->channels == 4 && (choice->image == hr_decoder_jpeg.image || choice->image == &hr_repacked_jpeg_decoder))
        return 4;
    return facts->channels == 1 || facts->channels == 2 ? 1 : 3;
}

static int find_transform(struct image_context *context, const struct hr_image_choice *choice,
                          const struct hr_facts *facts, const uint8_t *value, size_t value_bytes,
                          struct managed *m, struct hr_error *err)
{
    struct hr_profile *profile = &context->profile;

    if (!choice->image->profile)
        return 0;
    int ret = choice->image->profile(value, value_bytes, profile, err);
    if (ret < 0 || !profile->bytes)
        return ret;
    ret = hr_icc_find(context->icc, profile->bytes, profile->count, samples_of(choice, facts), &m->transform, err);
    if (ret == 0 && m->transform &&
        hr_scratch_grow_bytes(&context->row, &context->row_room, (size_t)m->pixels * 3 + ROW_PAD) < 0)
        ret = hr_fail(err, HR_E_NOMEM, "no memory for a row of %u pixels", m->pixels);
    return ret;
}

static int decode(const struct hr_chain *base, struct hr_context *context_base,
                  const struct hr_sample_plan *plan, unsigned encoding, const uint8_t *value,
                  size_t value_bytes, void *const dst[HR_CHAIN_MAX_OUTPUTS], struct hr_error *err)
{
    const struct image_chain *chain = HR_CONTAINER_OF(base, struct image_chain, base);
    struct image_context *context = HR_CONTAINER_OF(context_base, struct image_context, base);
    struct hr_image_target target = chain->target;
    struct hr_image_region region;
    struct hr_image_choice choice = {0};

    int ret = hr_image_choose(&context->states, encoding, value, value_bytes, &choice, err);
    if (ret < 0)
        return ret;
    target.dst = dst[0];
    target.planes_in = choice.abilities & HR_DECODER_PLANES && !chain->managed;
    bool scaled = plan->image.scaled && choice.abilities & HR_DECODER_SCALED;
    uint32_t shrink = scaled ? hr_image_shrink(&plan->image, plan->facts.width, plan->facts.height) : 1;
    ret = hr_picture_begin(context->picture, &chain->ops, &plan->image, &target,
                           plan->facts.width, plan->facts.height, shrink, &region, err);
    if (ret < 0)
        return ret;
    struct hr_image_request request = {
        .bytes = value, .count = value_bytes,
        .picture_w = plan->facts.width, .picture_h = plan->facts.height,
        .shrink = shrink, .x = region.x, .y = region.y, .w = region.w, .h = region.h,
        .channels = target.channels, .push = push, .user = context->picture,
    };
    if (hr_picture_takes_planes(context->picture))
        request.push_planes = push_planes;
    struct hr_repacked_view view;
    if (plan->seek) {
        hr_repacked_view_parts(plan, value, value_bytes, &view);
        request.view = &view.view;
    }
    struct managed managed = {.context = context, .pixels = region.w, .channels = target.channels};
    if (chain->managed)
        ret = find_transform(context, &choice, &plan->facts, value, value_bytes, &managed, err);
    if (ret < 0)
        return ret;
    if (managed.transform) {
        request.channels = hr_icc_channels(managed.transform);
        request.push = push_managed;
        request.user = &managed;
    }
    if (region.w) /* else nothing of the picture shows */
        ret = choice.image->decode(choice.state, &request, err);
    if (ret == 0)
        ret = hr_picture_end(context->picture, err);
    if (ret > 0)
        return hr_fail(err, HR_E_DECODE, "the %s decoder gave too few rows", choice.name);
    return ret;
}

const struct hr_chain_media hr_image_chain_media = {
    .name = "image",
    .create = create,
    .destroy = destroy,
    .plan = plan_sample,
    .plan_parts = plan_parts,
    .context_create = context_create,
    .context_destroy = context_destroy,
    .decode = decode,
};

bool hr_image_chain_lead(const struct hr_chain *base, struct hr_image_lead *lead)
{
    if (base->media != &hr_image_chain_media)
        return false;
    const struct image_chain *chain = HR_CONTAINER_OF(base, struct image_chain, base);
    *lead = (struct hr_image_lead){&chain->ops, chain->apply_exif, base->outputs[0].ragged};
    return true;
}
