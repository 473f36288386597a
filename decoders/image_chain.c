/* Image fields: the chain of one picture from stored bytes to output, or to the outputs of its views. */
#include <inttypes.h>

#include "base/mem.h"
#include "decoders/decoder.h"
#include "decoders/icc.h"
#include "decoders/image_chain.h"
#include "decoders/image_choice.h"
#include "decoders/image_lead.h"
#include "decoders/pixels.h"
#include "decoders/repacked.h"
#include "decoders/scratch.h"

struct image_context {
    struct hr_context base; /* first */
    struct hr_view_pictures *pictures;
    struct hr_image_states states;
    /* icc: srgb */
    struct hr_icc *icc;
    struct hr_profile profile;
    uint8_t *row; /* as it comes out of a transform */
    size_t row_room;
};

enum { ROW_PAD = 64 };

static int init(struct hr_chain *base, const struct hr_chain_spec *spec, struct hr_error *err)
{
    return hr_image_spec_read(spec, HR_CONTAINER_OF(base, struct hr_image_chain, base), err);
}

static void finish(struct hr_chain *base)
{
    hr_free(HR_CONTAINER_OF(base, struct hr_image_chain, base)->views.groups);
}

static void describe(const struct hr_chain *base, struct hr_buf *text)
{
    hr_image_spec_describe(HR_CONTAINER_OF(base, struct hr_image_chain, base), text);
}

static int plan_sample(const struct hr_chain *base, const struct hr_draw_key *key,
                       uint64_t value_bytes, struct hr_sample_plan *plan, struct hr_error *err)
{
    const struct hr_image_chain *chain = HR_CONTAINER_OF(base, struct hr_image_chain, base);
    const struct hr_facts *facts = &plan->facts;
    uint32_t w, h;

    int ret = hr_image_check_size(facts->width, facts->height, err);
    if (ret < 0)
        return ret;
    plan->image.orientation = hr_image_orient(facts, chain->apply_exif, &w, &h);
    plan->image.scaled = chain->scaled;
    ret = hr_views_plan(&chain->views, key, plan, err);
    if (ret < 0 || plan->bytes[0] <= base->outputs[0].max_bytes)
        return ret;
    return hr_fail(err, HR_E_LIMIT, "%" PRId32 " x %" PRId32 " pixels are more than the field's "
                   "samples may have", plan->image.end_w, plan->image.end_h);
}

/* A profile lies in the bytes around the scan, so that pictures with one are read whole. */
static void plan_parts(const struct hr_chain *base, unsigned encoding, const uint8_t *seek,
                       uint32_t seek_bytes, struct hr_sample_plan *plan)
{
    const struct hr_image_chain *chain = HR_CONTAINER_OF(base, struct hr_image_chain, base);
    struct hr_views_boxes boxes;

    if (encoding != HR_ENCODING_REPACKED_JPEG || chain->managed)
        return;
    hr_views_boxes(&chain->views, plan, &boxes);
    hr_repacked_plan_parts(seek, seek_bytes, &boxes, plan);
}

static void find_parts(const struct hr_chain *base, const struct hr_sample_plan *plan, struct hr_chain_parts *parts)
{
    struct hr_views_boxes boxes;

    hr_views_boxes(&HR_CONTAINER_OF(base, struct hr_image_chain, base)->views, plan, &boxes);
    hr_repacked_parts(plan, &boxes, parts);
}

static int check_parts(const struct hr_chain *base, const struct hr_sample_plan *plan, const uint8_t *value,
                       size_t bytes, struct hr_error *err)
{
    struct hr_views_boxes boxes;

    hr_views_boxes(&HR_CONTAINER_OF(base, struct hr_image_chain, base)->views, plan, &boxes);
    return hr_repacked_check(plan, &boxes, value, bytes, err);
}

static void context_finish(struct hr_context *base)
{
    struct image_context *context = HR_CONTAINER_OF(base, struct image_context, base);

    hr_image_states_finish(&context->states);
    hr_view_pictures_destroy(context->pictures);
    hr_icc_destroy(context->icc);
    hr_free(context->profile.room);
    hr_free(context->profile.around);
    hr_free(context->row);
}

/* The JPEG state is made up front; the others when a picture of their format comes. */
static int context_init(const struct hr_chain *base, struct hr_context *context_base)
{
    const struct hr_image_chain *chain = HR_CONTAINER_OF(base, struct hr_image_chain, base);
    struct image_context *context = HR_CONTAINER_OF(context_base, struct image_context, base);

    context->states.max_width = chain->max_width;
    int ret = hr_view_pictures_create(&chain->views, &context->pictures);
    if (ret == 0)
        ret = hr_image_states_prepare(&context->states, &hr_decoder_jpeg);
    if (ret == 0 && chain->managed)
        ret = hr_icc_create(&context->icc);
    return ret;
}

static bool push(void *user, const uint8_t *row)
{
    return hr_views_push(user, row);
}

static bool push_planes(void *user, const uint8_t *const rows[3])
{
    return hr_views_push_planes(user, rows);
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
    return hr_views_push(m->context->pictures, out);
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

static int decode_regions(struct hr_view_pictures *pictures, const struct hr_image_choice *choice,
                          struct hr_image_request *request, struct hr_error *err)
{
    struct hr_image_region region;
    int ret = 0;

    while (ret == 0 && hr_views_next(pictures, &region)) {
        request->x = region.x;
        request->y = region.y;
        request->w = region.w;
        request->h = region.h;
        ret = choice->image->decode(choice->state, request, err);
    }
    return ret;
}

static int decode(const struct hr_chain *base, struct hr_context *context_base,
                  const struct hr_sample_plan *plan, unsigned encoding, const uint8_t *value,
                  size_t value_bytes, void *const dst[HR_CHAIN_MAX_OUTPUTS], struct hr_error *err)
{
    const struct hr_image_chain *chain = HR_CONTAINER_OF(base, struct hr_image_chain, base);
    struct image_context *context = HR_CONTAINER_OF(context_base, struct image_context, base);
    struct hr_image_choice choice = {0};

    int ret = hr_image_choose(&context->states, encoding, value, value_bytes, &choice, err);
    if (ret < 0)
        return ret;
    struct hr_views_need need = {.scaled = choice.abilities & HR_DECODER_SCALED,
                                 .planes = choice.abilities & HR_DECODER_PLANES && !chain->managed,
                                 .seeks = choice.abilities & HR_DECODER_SEEKS && !chain->managed};
    ret = hr_views_begin(context->pictures, plan, dst, &need, err);
    if (ret < 0)
        return ret;
    struct hr_image_request request = {
        .bytes = value, .count = value_bytes,
        .picture_w = plan->facts.width, .picture_h = plan->facts.height,
        .shrink = need.shrink,
        .channels = chain->channels, .push = push, .user = context->pictures,
    };
    if (need.planes)
        request.push_planes = push_planes;
    struct hr_repacked_view view;
    if (plan->seek) {
        struct hr_views_boxes boxes;
        hr_views_boxes(&chain->views, plan, &boxes);
        hr_repacked_view_parts(plan, &boxes, value, value_bytes, &view);
        request.view = &view.view;
    }
    struct managed managed = {.context = context, .pixels = need.region.w, .channels = chain->channels};
    if (chain->managed)
        ret = find_transform(context, &choice, &plan->facts, value, value_bytes, &managed, err);
    if (ret < 0)
        return ret;
    if (managed.transform) {
        request.channels = hr_icc_channels(managed.transform);
        request.push = push_managed;
        request.user = &managed;
    }
    ret = decode_regions(context->pictures, &choice, &request, err);
    if (ret == 0)
        ret = hr_views_end(context->pictures, err);
    if (ret > 0)
        return hr_fail(err, HR_E_DECODE, "the %s decoder gave too few rows", choice.name);
    return ret;
}

const struct hr_chain_media hr_image_chain_media = {
    .name = "image",
    .chain_bytes = sizeof(struct hr_image_chain),
    .context_bytes = sizeof(struct image_context),
    .init = init,
    .finish = finish,
    .describe = describe,
    .plan = plan_sample,
    .plan_parts = plan_parts,
    .parts = find_parts,
    .check_parts = check_parts,
    .context_init = context_init,
    .context_finish = context_finish,
    .decode = decode,
};

bool hr_image_chain_lead(const struct hr_chain *base, struct hr_image_lead *lead)
{
    if (base->media != &hr_image_chain_media)
        return false;
    const struct hr_image_chain *chain = HR_CONTAINER_OF(base, struct hr_image_chain, base);
    const struct hr_view_group *group = &chain->views.groups[0];
    *lead = (struct hr_image_lead){&group->ops, chain->apply_exif, base->outputs[0].ragged};
    return !group->axis; /* there is one geometry to follow */
}
