/* Chains by media type: picks the table of the field's media and keeps what is common to all (making
 * and freeing chains and contexts, outputs, description, clearing the plan). */
#include "decoders/chain.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "decoders/chain_media.h"

static const struct hr_chain_media *media_of(const struct hr_chain_spec *spec)
{
    if (spec->leader && spec->type == HR_FIELD_IMAGE)
        return &hr_mask_chain_media;
    switch (spec->type) {
    case HR_FIELD_IMAGE:
        return &hr_image_chain_media;
    case HR_FIELD_VIDEO:
        return &hr_video_chain_media;
    case HR_FIELD_AUDIO:
        return &hr_audio_chain_media;
    default:
        return NULL;
    }
}

/* Views are of pictures: several frames of a clip go through one draw. */
static int refuse_views(const struct hr_chain_spec *spec, struct hr_error *err)
{
    const struct hr_call *options = spec->options;
    const struct hr_arg *views = NULL;

    for (int i = 0; options && i < options->arg_count; i++)
        if (strcmp(options->args[i].name, "views") == 0)
            views = &options->args[i];
    if ((spec->type == HR_FIELD_IMAGE && !spec->leader) || (!views && spec->view_spec_count == 0))
        return 0;
    hr_fail(err, HR_E_CONFIG, "'views' works on image fields, and '%s' is %s", spec->field,
            spec->leader ? "a mask" : hr_field_type_name(spec->type));
    hr_error_at_file(err, spec->file, views ? views->line : spec->views[0].line,
                     views ? views->column : spec->views[0].column);
    return HR_E_CONFIG;
}

static int describe(struct hr_chain *chain)
{
    struct hr_buf text = {0};

    chain->media->describe(chain, &text);
    if (!hr_buf_failed(&text))
        chain->description = hr_strdup(hr_buf_str(&text));
    hr_buf_finish(&text);
    return chain->description ? 0 : HR_E_NOMEM;
}

static int create(const struct hr_chain_media *media, const struct hr_chain_spec *spec, struct hr_chain **out,
                  struct hr_error *err)
{
    struct hr_chain *chain = hr_alloc_zero(1, media->chain_bytes);

    if (!chain)
        return hr_fail(err, HR_E_NOMEM, "no memory for a plan");
    chain->media = media;
    snprintf(chain->field, sizeof(chain->field), "%s", spec->field ? spec->field : "");
    int ret = media->init(chain, spec, err);
    if (ret == 0 && describe(chain) < 0)
        ret = hr_fail(err, HR_E_NOMEM, "no memory for a plan");
    if (ret < 0) {
        hr_chain_destroy(chain);
        return ret;
    }
    *out = chain;
    return 0;
}

int hr_chain_create(const struct hr_chain_spec *spec, struct hr_chain **out, struct hr_error *err)
{
    const struct hr_chain_media *media = media_of(spec);

    if (!media)
        return hr_fail(err, HR_E_INTERNAL, "a field of type %s has no decoder chain",
                       hr_field_type_name(spec->type));
    int ret = refuse_views(spec, err);
    if (ret == 0)
        ret = create(media, spec, out, err);
    if (ret < 0 && err && !err->file[0])
        hr_error_at_file(err, spec->file, spec->line, spec->column);
    if (ret < 0 && err && !err->field[0] && spec->field)
        hr_error_at_value(err, NULL, err->record, spec->field, err->offset);
    return ret;
}

void hr_chain_destroy(struct hr_chain *chain)
{
    if (!chain)
        return;
    if (chain->media->finish)
        chain->media->finish(chain);
    hr_free(chain->description);
    hr_free(chain);
}

int hr_chain_output_count(const struct hr_chain *chain)
{
    return chain->output_count;
}

const struct hr_chain_output *hr_chain_output_at(const struct hr_chain *chain, int i)
{
    HR_ASSERT(i >= 0 && i < chain->output_count);
    return &chain->outputs[i];
}

const char *hr_chain_describe(const struct hr_chain *chain)
{
    return chain->description;
}

int hr_chain_plan(const struct hr_chain *chain, const struct hr_facts *facts, uint64_t value_bytes,
                  uint64_t seed, uint64_t epoch, uint64_t position, uint32_t stream,
                  struct hr_sample_plan *plan, struct hr_error *err)
{
    struct hr_draw_key key = {
        .seed = seed, .epoch = epoch, .position = position, .stream = stream};

    memset(plan, 0, sizeof(*plan));
    plan->facts = *facts;
    plan->read_bytes = plan->value_bytes = value_bytes;
    return chain->media->plan(chain, &key, value_bytes, plan, err);
}

void hr_chain_plan_parts(const struct hr_chain *chain, unsigned encoding, const uint8_t *seek,
                         uint32_t seek_bytes, struct hr_sample_plan *plan)
{
    if (chain->media->plan_parts)
        chain->media->plan_parts(chain, encoding, seek, seek_bytes, plan);
}

void hr_chain_parts(const struct hr_chain *chain, const struct hr_sample_plan *plan,
                    struct hr_chain_parts *parts)
{
    parts->count = 0;
    parts->bytes = plan->read_bytes;
    if (plan->seek)
        chain->media->parts(chain, plan, parts);
}

int hr_chain_check_parts(const struct hr_chain *chain, const struct hr_sample_plan *plan,
                         const uint8_t *value, size_t bytes, struct hr_error *err)
{
    return plan->seek ? chain->media->check_parts(chain, plan, value, bytes, err) : 0;
}

int hr_context_create(const struct hr_chain *chain, struct hr_context **out, struct hr_error *err)
{
    struct hr_context *context = hr_alloc_zero(1, chain->media->context_bytes);

    if (!context)
        return hr_fail(err, HR_E_NOMEM, "no memory for a decoder");
    context->media = chain->media;
    int ret = chain->media->context_init ? chain->media->context_init(chain, context) : 0;
    if (ret < 0) {
        hr_context_destroy(context);
        return hr_fail(err, ret, "no memory for a decoder");
    }
    *out = context;
    return 0;
}

void hr_context_destroy(struct hr_context *context)
{
    if (!context)
        return;
    context->media->context_finish(context);
    hr_free(context);
}

int hr_chain_decode(const struct hr_chain *chain, struct hr_context *context,
                    const struct hr_sample_plan *plan, unsigned encoding, const uint8_t *value,
                    size_t value_bytes, void *const dst[HR_CHAIN_MAX_OUTPUTS],
                    struct hr_error *err)
{
    HR_ASSERT(context->media == chain->media);
    return chain->media->decode(chain, context, plan, encoding, value, value_bytes, dst, err);
}
