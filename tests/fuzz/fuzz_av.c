/* Any bytes as sound and as moving pictures: measured, and decoded through a chain by the facts that
 * measuring found, or by made-up ones where it refused. Every failure is one of a sample, with a reason. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "decoders/chain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(int ret, const struct hr_error *err)
{
    if (ret < 0 && (err->code != ret || !err->text[0] || hr_error_scope_of(ret) != HR_SCOPE_SAMPLE))
        abort();
}

static const struct hr_arg ragged = {.name = "ragged", .kind = HR_ARG_BOOL, .boolean = true};
static const struct hr_arg rate = {.name = "rate", .kind = HR_ARG_INT, .integer = 16000, .number = 16000,
                                   .text = "16000"};
static const struct hr_arg frames[] = {
    {.name = "frames", .kind = HR_ARG_INT, .integer = 4, .number = 4, .text = "4"},
    {.name = "stride", .kind = HR_ARG_INT, .integer = 2, .number = 2, .text = "2"},
};

static struct hr_chain *make_chain(enum hr_field_type type, const struct hr_facts *facts)
{
    const struct hr_call output = {.name = "output", .args = (struct hr_arg *)&ragged, .arg_count = 1};
    const struct hr_call options = {.name = "f", .args = (struct hr_arg *)&rate, .arg_count = 1};
    const struct hr_call clip = {.name = "clip", .args = (struct hr_arg *)frames, .arg_count = 2};
    bool video = type == HR_FIELD_VIDEO;
    struct hr_chain_spec spec = {
        .type = type, .field = "f", .output = &output, .options = video ? NULL : &options,
        .clip = video ? &clip : NULL, .max_width = facts->width, .max_height = facts->height,
        .max_samples = facts->samples, .max_frames = facts->frames,
        .max_sample_rate = facts->sample_rate, .max_channels = facts->channels};
    struct hr_chain *chain = NULL;

    if (hr_chain_create(&spec, &chain, NULL) < 0)
        abort();
    return chain;
}

static void decode(enum hr_field_type type, const struct hr_facts *facts, const uint8_t *value,
                   size_t bytes)
{
    struct hr_chain *chain = make_chain(type, facts);
    struct hr_context *context = NULL;
    struct hr_error err = HR_ERROR_INIT;
    struct hr_sample_plan plan;

    if (hr_context_create(chain, &context, NULL) < 0)
        abort();
    for (uint64_t position = 0; position < 2; position++) { /* the second in a context in use */
        void *dst[HR_CHAIN_MAX_OUTPUTS] = {0};
        if (hr_chain_plan(chain, facts, bytes, 1, 0, position, 0, &plan, &err) < 0)
            break;
        for (int i = 0; i < hr_chain_output_count(chain); i++)
            dst[i] = malloc(plan.bytes[i] ? plan.bytes[i] : 1);
        check(hr_chain_decode(chain, context, &plan, 0, value, bytes, dst, &err), &err);
        for (int i = 0; i < HR_CHAIN_MAX_OUTPUTS; i++)
            free(dst[i]);
    }
    hr_context_destroy(context);
    hr_chain_destroy(chain);
}

static void run(enum hr_field_type type, const uint8_t *bytes, const uint8_t *padded, size_t count)
{
    struct hr_facts facts = {.format = hr_media_sniff(bytes, count), .width = 64, .height = 48,
                             .frames = 12, .sample_rate = 8000, .channels = 1, .samples = 4000};
    struct hr_error err = HR_ERROR_INIT;

    check(hr_media_measure(bytes, count, type, false, NULL, &facts, &err), &err);
    if ((uint64_t)facts.width * facts.height <= 1 << 20 && facts.samples <= 1 << 20)
        decode(type, &facts, padded, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *padded = calloc(bytes + HR_CHAIN_PADDING, 1);

    memcpy(padded, data, bytes);
    run(HR_FIELD_AUDIO, data, padded, bytes);
    run(HR_FIELD_VIDEO, data, padded, bytes);
    free(padded);
    return 0;
}
