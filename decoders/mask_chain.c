/* Mask fields: pictures of class ids that follow an image field. Only what its ops do to the picture's shape is done,
 * by the same draw, each pixel taken from the nearest one; ids stay what they are. Options: fill. */
#include <inttypes.h>
#include <string.h>

#include "decoders/image_choice.h"
#include "decoders/image_lead.h"
#include "decoders/ops/picture.h"

struct mask_chain {
    struct hr_chain base; /* first */
    struct hr_image_lead lead;
    enum hr_dtype dtype;
    uint8_t fill;
    uint32_t max_width;
};

struct mask_context {
    struct hr_context base; /* first */
    struct hr_picture *picture;
    struct hr_image_states states;
};

static int read_options(const struct hr_chain_spec *spec, struct mask_chain *chain, struct hr_error *err)
{
    static const char *const dtypes[] = {"u8", "i32", "i64", NULL};
    static const char *const kinds[] = {"mask", NULL};
    const char *follow;
    int64_t fill = 0;
    int dtype = 0, kind = 0;
    const struct hr_arg_spec options[] = {
        {.name = "follow", .type = HR_ARG_TYPE_STR, .out = &follow},
        {.name = "as", .type = HR_ARG_TYPE_ENUM, .out = &kind, .choices = kinds},
        {.name = "fill", .type = HR_ARG_TYPE_INT, .out = &fill, .min = 0, .max = 255},
    };
    const struct hr_arg_spec output[] = {
        {.name = "dtype", .type = HR_ARG_TYPE_ENUM, .out = &dtype, .choices = dtypes},
    };

    int ret = spec->options ? hr_args_read(spec->options, options, HR_ARRAY_SIZE(options), err) : 0;
    if (ret == 0 && spec->output)
        ret = hr_args_read(spec->output, output, HR_ARRAY_SIZE(output), err);
    if (ret < 0)
        return ret;
    chain->fill = (uint8_t)fill;
    chain->dtype = hr_dtype_parse(dtypes[dtype]);
    return 0;
}

static void fill_output(struct mask_chain *chain)
{
    const struct hr_op_shape *shape = &chain->lead.ops->shape;
    uint64_t pixels = shape->max_pixels && shape->max_pixels < HR_IMAGE_MAX_PIXELS ? shape->max_pixels
                                                                                  : HR_IMAGE_MAX_PIXELS;

    chain->base.outputs[0] = (struct hr_chain_output){
        .dtype = chain->dtype,
        .dims = 2,
        .ragged = chain->lead.ragged,
        .shape = {chain->lead.ragged ? 0 : shape->h, chain->lead.ragged ? 0 : shape->w},
        .max_bytes = pixels * hr_dtype_bytes(chain->dtype),
    };
    chain->base.output_count = 1;
}

static void describe(const struct hr_chain *base, struct hr_buf *text)
{
    const struct mask_chain *chain = HR_CONTAINER_OF(base, struct mask_chain, base);

    hr_buf_addf(text, "mask ops[");
    hr_op_chain_describe(chain->lead.ops, text);
    hr_buf_addf(text, "] exif=%s fill=%u output{%s%s}", chain->lead.apply_exif ? "apply" : "ignore", chain->fill,
                hr_dtype_name(chain->dtype), chain->lead.ragged ? " ragged" : "");
}

static int init(struct hr_chain *base, const struct hr_chain_spec *spec, struct hr_error *err)
{
    struct mask_chain *chain = HR_CONTAINER_OF(base, struct mask_chain, base);

    HR_ASSERT(hr_image_chain_lead(spec->leader, &chain->lead));
    chain->max_width = spec->max_width;
    int ret = read_options(spec, chain, err);
    if (ret == 0)
        fill_output(chain);
    return ret;
}

static int plan_sample(const struct hr_chain *base, const struct hr_draw_key *key, uint64_t value_bytes,
                       struct hr_sample_plan *plan, struct hr_error *err)
{
    const struct mask_chain *chain = HR_CONTAINER_OF(base, struct mask_chain, base);
    uint32_t w, h;

    int ret = hr_image_check_size(plan->facts.width, plan->facts.height, err);
    if (ret < 0)
        return ret;
    plan->image.orientation = hr_image_orient(&plan->facts, chain->lead.apply_exif, &w, &h);
    ret = hr_op_chain_plan(chain->lead.ops, key, w, h, &plan->image, err);
    if (ret < 0)
        return ret;
    plan->shape[0][0] = (uint64_t)plan->image.end_h;
    plan->shape[0][1] = (uint64_t)plan->image.end_w;
    plan->bytes[0] = plan->shape[0][0] * plan->shape[0][1] * hr_dtype_bytes(chain->dtype);
    if (plan->bytes[0] <= base->outputs[0].max_bytes)
        return 0;
    return hr_fail(err, HR_E_LIMIT, "%" PRIu64 " x %" PRIu64 " pixels are more than the field's samples may have",
                   plan->shape[0][1], plan->shape[0][0]);
}

static void context_finish(struct hr_context *base)
{
    struct mask_context *context = HR_CONTAINER_OF(base, struct mask_context, base);

    hr_image_states_finish(&context->states);
    hr_picture_destroy(context->picture);
}

static int context_init(const struct hr_chain *base, struct hr_context *context_base)
{
    const struct mask_chain *chain = HR_CONTAINER_OF(base, struct mask_chain, base);
    struct mask_context *context = HR_CONTAINER_OF(context_base, struct mask_context, base);

    context->states.max_width = chain->max_width;
    int ret = hr_picture_create(&context->picture);
    if (ret == 0)
        hr_picture_only_geometry(context->picture, true, chain->fill);
    return ret;
}

static bool push(void *user, const uint8_t *row)
{
    return hr_picture_push(user, row);
}

/* Bytes at the end of their own result become numbers from its beginning on: none is written over before it is read. */
static void widen(uint8_t *dst, uint64_t count, enum hr_dtype dtype)
{
    size_t bytes = hr_dtype_bytes(dtype);
    const uint8_t *src = dst + count * (bytes - 1);

    for (uint64_t i = 0; bytes > 1 && i < count; i++) {
        int64_t id = src[i];
        uint8_t number[8];
        hr_store_le64(number, (uint64_t)id);
        memcpy(dst + i * bytes, number, bytes);
    }
}

static int decode(const struct hr_chain *base, struct hr_context *context_base, const struct hr_sample_plan *plan,
                  unsigned encoding, const uint8_t *value, size_t value_bytes,
                  void *const dst[HR_CHAIN_MAX_OUTPUTS], struct hr_error *err)
{
    const struct mask_chain *chain = HR_CONTAINER_OF(base, struct mask_chain, base);
    struct mask_context *context = HR_CONTAINER_OF(context_base, struct mask_context, base);
    uint64_t pixels = (uint64_t)plan->image.end_w * (uint64_t)plan->image.end_h;
    uint8_t *ids = (uint8_t *)dst[0] + pixels * (hr_dtype_bytes(chain->dtype) - 1);
    struct hr_image_target target = {.dst = ids, .dtype = HR_DTYPE_U8, .channels = 1};
    struct hr_image_region region;
    struct hr_image_choice choice;

    int ret = hr_image_choose(&context->states, encoding, value, value_bytes, &choice, err);
    if (ret == 0 && !(choice.abilities & HR_DECODER_IDS))
        ret = hr_image_no_ids(choice.name, err);
    if (ret == 0)
        ret = hr_picture_begin(context->picture, chain->lead.ops, &plan->image, &target, plan->facts.width,
                               plan->facts.height, 1, &region, err);
    if (ret < 0)
        return ret;
    struct hr_image_request request = {
        .bytes = value, .count = value_bytes,
        .picture_w = plan->facts.width, .picture_h = plan->facts.height,
        .shrink = 1, .x = region.x, .y = region.y, .w = region.w, .h = region.h,
        .channels = 1, .ids = true, .push = push, .user = context->picture,
    };
    if (region.w) /* else nothing of the picture shows */
        ret = choice.image->decode(choice.state, &request, err);
    if (ret == 0)
        ret = hr_picture_end(context->picture, err);
    if (ret > 0)
        return hr_fail(err, HR_E_DECODE, "the %s decoder gave too few rows", choice.name);
    if (ret == 0)
        widen(dst[0], pixels, chain->dtype);
    return ret;
}

const struct hr_chain_media hr_mask_chain_media = {
    .name = "mask",
    .chain_bytes = sizeof(struct mask_chain),
    .context_bytes = sizeof(struct mask_context),
    .init = init,
    .describe = describe,
    .plan = plan_sample,
    .context_init = context_init,
    .context_finish = context_finish,
    .decode = decode,
};
