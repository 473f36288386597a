/* Audio fields: a clip or the whole recording, mixed, resampled and stored. Everything about a
 * sample is fixed by its facts: the draw of the start, how many samples are read, how many come out. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "decoders/clip.h"
#include "decoders/output.h"
#include "decoders/pcm.h"
#include "decoders/scratch.h"
#include "decoders/sound.h"

#define MAX_SAMPLES (UINT64_C(1) << 40) /* a channel; more are not sound */
#define MAX_LOOP_BYTES (UINT64_C(1) << 30) /* of a recording that is kept whole, to be repeated */

struct audio_chain {
    struct hr_chain head;
    enum hr_sound_mix mix;
    enum hr_clip_start start;
    enum hr_past_end past_end;
    bool clip, interleaved, lengths;
    enum hr_dtype dtype;
    uint32_t rate;         /* asked for; 0 = as recorded */
    uint32_t fixed_rate;   /* of fixed-length outputs */
    uint64_t clip_samples; /* delivered; 0 = whole recordings */
    double gain_db;
};

struct audio_context {
    struct hr_context head;
    struct hr_pcm pcm;
    struct hr_sound sound;
    void *loop; /* a short recording, whole, to be repeated: plane after plane of floats */
    size_t loop_bytes;
};

/* samples * to / from, rounded half up; no overflow for anything that fits a file. */
static uint64_t scale(uint64_t samples, uint32_t from, uint32_t to)
{
    unsigned __int128 v = (unsigned __int128)samples * to + from / 2;
    return (uint64_t)(v / from);
}

static uint64_t scale_up(uint64_t samples, uint64_t from, uint32_t to)
{
    unsigned __int128 v = (unsigned __int128)samples * to + from - 1;
    return (uint64_t)(v / from);
}

/* ---- init ---- */

static const char *const op_names[] = {"downmix", "resample", "gain"};

static int read_op(struct audio_chain *chain, const struct hr_call *op, struct hr_error *err)
{
    static const char *const mixes[] = {"mono", "stereo", NULL};
    int mix = 0;
    int64_t rate = 0;
    const struct hr_arg_spec downmix[] = {{.name = "to", .type = HR_ARG_TYPE_ENUM, .out = &mix,
                                           .choices = mixes, .positional = true}};
    const struct hr_arg_spec resample[] = {{.name = "rate", .type = HR_ARG_TYPE_INT, .out = &rate,
                                            .min = 100, .max = 768000, .required = true,
                                            .positional = true}};
    const struct hr_arg_spec gain[] = {{.name = "db", .type = HR_ARG_TYPE_FLOAT,
                                        .out = &chain->gain_db, .min = -120, .max = 120,
                                        .required = true, .positional = true}};
    int ret;

    if (strcmp(op->name, "downmix") == 0) {
        ret = hr_args_read(op, downmix, 1, err);
        chain->mix = mix ? HR_SOUND_STEREO : HR_SOUND_MONO;
    } else if (strcmp(op->name, "resample") == 0) {
        ret = hr_args_read(op, resample, 1, err);
        chain->rate = (uint32_t)rate;
    } else if (strcmp(op->name, "gain") == 0) {
        ret = hr_args_read(op, gain, 1, err);
    } else {
        const char *near = hr_nearest_word(op->name, op_names, HR_ARRAY_SIZE(op_names));
        ret = hr_fail(err, HR_E_CONFIG, "audio fields have no op '%s'", op->name);
        hr_error_at_file(err, op->file, op->line, op->column);
        hr_error_hint(err, near ? "did you mean '%s'?" : "known: downmix, resample, gain", near);
    }
    return ret;
}

static int read_ops(struct audio_chain *chain, const struct hr_chain_spec *spec, struct hr_error *err)
{
    for (int i = 0; i < spec->op_count; i++) {
        for (int j = 0; j < i; j++)
            if (strcmp(spec->ops[i].name, spec->ops[j].name) == 0) {
                hr_fail(err, HR_E_CONFIG, "op '%s' is given twice", spec->ops[i].name);
                hr_error_at_file(err, spec->ops[i].file, spec->ops[i].line, spec->ops[i].column);
                return HR_E_CONFIG;
            }
        int ret = read_op(chain, &spec->ops[i], err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int read_channels(struct audio_chain *chain, const struct hr_clip *clip,
                         const struct hr_output *output, struct hr_error *err)
{
    enum hr_channels channels = output->channels;

    if (clip->channels) {
        channels = hr_channels_parse(clip->channels, HR_FIELD_AUDIO);
        if (channels == HR_CHANNELS_DEFAULT)
            return hr_fail(err, HR_E_CONFIG, "'channels' is '%s'; known: mono, stereo, keep",
                           clip->channels);
    }
    if (channels == HR_CHANNELS_MONO)
        chain->mix = HR_SOUND_MONO;
    else if (channels == HR_CHANNELS_STEREO)
        chain->mix = HR_SOUND_STEREO;
    else if (channels == HR_CHANNELS_KEEP)
        chain->mix = HR_SOUND_KEEP;
    if (chain->mix == HR_SOUND_KEEP && !output->ragged)
        return hr_fail(err, HR_E_CONFIG,
                       "'channels: keep' gives arrays of different shapes: it needs "
                       "'output: {ragged: true}', or take mono or stereo");
    return 0;
}

static int check_layout(struct audio_chain *chain, struct hr_output *output, struct hr_error *err)
{
    bool mono = chain->mix == HR_SOUND_MONO;

    if (output->layout == HR_LAYOUT_NONE)
        output->layout = mono ? HR_LAYOUT_NT : HR_LAYOUT_NCT;
    if (output->layout == HR_LAYOUT_NT && !mono) {
        hr_fail(err, HR_E_CONFIG, "layout nt has no channel axis: take nct or ntc");
        hr_error_at_file(err, NULL, output->line, output->column);
        return HR_E_CONFIG;
    }
    chain->interleaved = output->layout == HR_LAYOUT_NTC;
    if (output->dtype == HR_DTYPE_NONE)
        output->dtype = HR_DTYPE_F32;
    chain->dtype = output->dtype;
    return 0;
}

static int check_length(struct audio_chain *chain, const struct hr_chain_spec *spec,
                        const struct hr_clip *clip, const struct hr_output *output,
                        struct hr_error *err)
{
    if (!chain->clip && !output->ragged) {
        hr_fail(err, HR_E_CONFIG, "whole recordings have different lengths");
        hr_error_hint(err, "cut them with 'clip: {seconds: 10}', or take 'output: {ragged: true}'");
        return HR_E_CONFIG;
    }
    if (!chain->clip)
        return 0;
    if (clip->seconds <= 0) {
        hr_fail(err, HR_E_CONFIG, "an audio clip needs 'seconds'");
        hr_error_at_file(err, spec->clip->file, spec->clip->line, spec->clip->column);
        return HR_E_CONFIG;
    }
    chain->fixed_rate = chain->rate ? chain->rate : spec->max_sample_rate;
    if (chain->fixed_rate == 0)
        return hr_fail(err, HR_E_CONFIG, "the sample rate is not known: add 'rate: 16000'");
    chain->clip_samples = (uint64_t)llround(clip->seconds * chain->fixed_rate);
    if (chain->clip_samples == 0)
        return hr_fail(err, HR_E_CONFIG, "a clip of %g seconds has no sample", clip->seconds);
    return 0;
}

/* The largest sample of a ragged field, unless the file says max_seconds: the longest recording in
 * seconds at the rate asked for (with mixed rates it need not be the one of most samples), or the
 * most samples as recorded. Durations are rounded to nanoseconds. */
static uint64_t largest(const struct audio_chain *chain, const struct hr_chain_spec *spec,
                        const struct hr_clip *clip)
{
    if (chain->clip)
        return chain->clip_samples;
    uint32_t rate = chain->rate ? chain->rate : spec->max_sample_rate;
    if (clip->max_seconds > 0 && rate)
        return (uint64_t)ceil(clip->max_seconds * rate);
    if (chain->rate && spec->max_duration_ns)
        return scale_up(spec->max_duration_ns + 1, HR_NS_PER_S, chain->rate) + 1;
    if (chain->rate && spec->max_sample_rate)
        return scale_up(spec->max_samples, spec->max_sample_rate, chain->rate);
    return spec->max_samples;
}

static void set_outputs(struct audio_chain *chain, const struct hr_chain_spec *spec,
                        const struct hr_clip *clip, const struct hr_output *output)
{
    struct hr_chain_output *main = &chain->head.outputs[0];
    uint64_t samples = hr_min_u64(largest(chain, spec, clip), MAX_SAMPLES);
    uint64_t channels = chain->mix == HR_SOUND_MONO     ? 1
                        : chain->mix == HR_SOUND_STEREO ? 2
                        : spec->max_channels
                            ? hr_min_u64(spec->max_channels, HR_AV_MAX_CHANNELS)
                                                        : 8;
    int time_axis = output->layout == HR_LAYOUT_NCT ? 1 : 0;

    *main = (struct hr_chain_output){.dtype = output->dtype, .layout = output->layout,
                                     .dims = output->layout == HR_LAYOUT_NT ? 1 : 2,
                                     .ragged = output->ragged};
    main->shape[time_axis] = output->ragged && !chain->clip ? 0 : samples;
    if (main->dims == 2)
        main->shape[!time_axis] = chain->mix == HR_SOUND_KEEP ? 0 : channels;
    main->max_bytes = samples * channels * hr_dtype_bytes(output->dtype);
    chain->head.output_count = 1;
    chain->lengths = chain->clip && chain->past_end == HR_PAST_PAD;
    if (chain->lengths) {
        chain->head.outputs[1] = (struct hr_chain_output){
            .suffix = ".lengths", .dtype = HR_DTYPE_I32, .max_bytes = sizeof(int32_t)};
        chain->head.output_count = 2;
    }
}

static void describe(const struct hr_chain *head, struct hr_buf *text)
{
    static const char *const mixes[] = {"keep", "mono", "stereo"};
    const struct audio_chain *chain = HR_CONTAINER_OF(head, struct audio_chain, head);
    const struct hr_chain_output *main = &head->outputs[0];

    hr_buf_addf(text, "audio ");
    if (chain->clip)
        hr_buf_addf(text, "clip{samples: %" PRIu64 ", start: %s, past_end: %s} ", chain->clip_samples,
                    hr_start_name(chain->start), hr_past_end_name(chain->past_end));
    hr_buf_addf(text, "downmix{to: %s} gain{db: %g} resample{rate: %u} output{dtype: %s, layout: %s, ragged: %s}",
                mixes[chain->mix], chain->gain_db, chain->rate, hr_dtype_name(main->dtype),
                hr_layout_name(main->layout), main->ragged ? "true" : "false");
}

static int init(struct hr_chain *head, const struct hr_chain_spec *spec, struct hr_error *err)
{
    struct audio_chain *chain = HR_CONTAINER_OF(head, struct audio_chain, head);
    struct hr_output output;
    struct hr_clip clip;
    int ret = hr_output_read(spec->output, HR_FIELD_AUDIO, &output, err);

    if (ret == 0)
        ret = hr_clip_read(spec, &clip, err);
    if (ret < 0)
        return ret;
    chain->mix = HR_SOUND_MONO;
    chain->rate = (uint32_t)clip.rate;
    chain->clip = clip.given;
    chain->start = clip.start;
    chain->past_end = clip.past_end;
    if ((ret = read_ops(chain, spec, err)) < 0 ||
        (ret = read_channels(chain, &clip, &output, err)) < 0 ||
        (ret = check_layout(chain, &output, err)) < 0 ||
        (ret = check_length(chain, spec, &clip, &output, err)) < 0)
        return ret;
    set_outputs(chain, spec, &clip, &output);
    return 0;
}

/* ---- plan ---- */

static int plan_short(const struct audio_chain *chain, const struct hr_draw_key *key, uint64_t have,
                      uint64_t need, uint32_t rate, struct hr_audio_plan *plan, struct hr_error *err)
{
    struct hr_rng rng;

    if (chain->past_end == HR_PAST_REJECT || (chain->past_end == HR_PAST_LOOP && have == 0))
        return hr_fail(err, HR_E_LIMIT,
                       "the clip needs %" PRIu64 " samples, the recording has %" PRIu64, need, have);
    if (chain->past_end == HR_PAST_PAD) {
        plan->sample_count = have;
        plan->out_samples = hr_min_u64(scale(have, rate, chain->fixed_rate), chain->clip_samples);
        return 0;
    }
    hr_clip_rng(key, &rng);
    plan->first_sample = chain->start == HR_START_RANDOM ? hr_rng_below(&rng, have) : 0;
    plan->sample_count = need;
    plan->out_samples = chain->clip_samples;
    return 0;
}

static int plan_clip(const struct audio_chain *chain, const struct hr_draw_key *key,
                     const struct hr_facts *facts, struct hr_audio_plan *plan, struct hr_error *err)
{
    uint64_t need = scale_up(chain->clip_samples, chain->fixed_rate, facts->sample_rate);
    struct hr_rng rng;

    if (!chain->rate && facts->sample_rate != chain->fixed_rate) {
        hr_fail(err, HR_E_FORMAT, "the sample rate is %u, the field is delivered at %u",
                facts->sample_rate, chain->fixed_rate);
        hr_error_hint(err, "add 'rate: %u' to the field", chain->fixed_rate);
        return HR_E_FORMAT;
    }
    if (facts->samples < need)
        return plan_short(chain, key, facts->samples, need, facts->sample_rate, plan, err);
    hr_clip_rng(key, &rng);
    uint64_t room = facts->samples - need;
    plan->first_sample = chain->start == HR_START_RANDOM   ? hr_rng_below(&rng, room + 1)
                         : chain->start == HR_START_CENTER ? room / 2
                                                           : 0;
    plan->sample_count = need;
    plan->out_samples = chain->clip_samples;
    return 0;
}

/* Numbers come from the index, which may say anything. */
static int set_shapes(const struct audio_chain *chain, uint32_t channels, struct hr_sample_plan *plan,
                      struct hr_error *err)
{
    const struct hr_chain_output *main = &chain->head.outputs[0];
    uint64_t samples = chain->clip ? chain->clip_samples : plan->audio.out_samples;
    int time_axis = main->layout == HR_LAYOUT_NCT ? 1 : 0;

    plan->shape[0][time_axis] = samples;
    if (main->dims == 2)
        plan->shape[0][!time_axis] = channels;
    if (chain->lengths)
        plan->bytes[1] = sizeof(int32_t);
    if (hr_mul_u64(samples, channels * (uint64_t)hr_dtype_bytes(main->dtype), &plan->bytes[0]) &&
        plan->bytes[0] <= main->max_bytes)
        return 0;
    hr_fail(err, HR_E_LIMIT, "the sound is %" PRIu64 " samples of %u channels, more than the %" PRIu64
            " bytes that the field allows", samples, channels, main->max_bytes);
    hr_error_hint(err, "raise 'max_seconds' of the field");
    return HR_E_LIMIT;
}

static int plan_sample(const struct hr_chain *head, const struct hr_draw_key *key,
                       uint64_t value_bytes, struct hr_sample_plan *plan, struct hr_error *err)
{
    const struct audio_chain *chain = HR_CONTAINER_OF(head, struct audio_chain, head);
    const struct hr_facts *facts = &plan->facts;
    uint32_t channels = hr_sound_channels(chain->mix, facts->channels);
    int ret = 0;

    if (facts->sample_rate == 0 || facts->channels == 0 || facts->samples >= MAX_SAMPLES)
        return hr_fail(err, HR_E_FORMAT, "the record's facts hold no sound");
    if (channels == 0) {
        hr_fail(err, HR_E_FORMAT, "no stereo of %u channels", facts->channels);
        hr_error_hint(err, "take 'channels: mono', or 'keep' with ragged output");
        return HR_E_FORMAT;
    }
    plan->audio.past_end = (uint8_t)chain->past_end;
    if (chain->clip) {
        ret = plan_clip(chain, key, facts, &plan->audio, err);
    } else {
        plan->audio.sample_count = facts->samples;
        plan->audio.out_samples = scale(facts->samples, facts->sample_rate,
                                        chain->rate ? chain->rate : facts->sample_rate);
    }
    return ret < 0 ? ret : set_shapes(chain, channels, plan, err);
}

/* ---- decode ---- */

static void context_finish(struct hr_context *head)
{
    struct audio_context *context = HR_CONTAINER_OF(head, struct audio_context, head);

    hr_pcm_finish(&context->pcm);
    hr_sound_finish(&context->sound);
    hr_free(context->loop);
}

static int ended_early(uint64_t want, uint64_t got, struct hr_error *err)
{
    return hr_fail(err, HR_E_TRUNCATED,
                   "the sound ends %" PRIu64 " samples before the %" PRIu64 " that were counted",
                   want - got, want);
}

/* Samples [first, first + count) go to the mixer as they come. */
static int push_range(struct audio_context *context, const struct hr_audio_plan *plan,
                      struct hr_error *err)
{
    struct hr_pcm *pcm = &context->pcm;
    uint64_t left = plan->sample_count;
    int n = hr_pcm_skip(pcm, plan->first_sample, err);

    while (n >= 0 && left > 0) {
        if (n == 0)
            n = hr_pcm_next(pcm, err);
        if (n == 0)
            return ended_early(plan->first_sample + plan->sample_count, pcm->pos, err);
        if (n < 0)
            break;
        size_t part = (size_t)hr_min_u64((uint64_t)n, left);
        int ret = hr_sound_push(&context->sound, pcm->planes, part, err);
        if (ret < 0)
            return ret;
        left -= part;
        n = 0;
    }
    return n < 0 ? n : 0;
}

/* A recording shorter than its clip: all of it into context->loop, plane after plane. */
static int read_whole(struct audio_context *context, uint64_t samples, struct hr_error *err)
{
    struct hr_pcm *pcm = &context->pcm;
    uint64_t need, at = 0;
    int n;

    if (!hr_mul_u64(samples, pcm->channels * sizeof(float), &need) || need > MAX_LOOP_BYTES) {
        hr_fail(err, HR_E_LIMIT, "a loop of %" PRIu64 " samples is too long", samples);
        hr_error_hint(err, "take 'past_end: pad' for recordings of this length");
        return HR_E_LIMIT;
    }
    if (hr_scratch_grow(&context->loop, &context->loop_bytes, need) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to repeat %" PRIu64 " samples", samples);
    while (at < samples && (n = hr_pcm_next(pcm, err)) != 0) {
        if (n < 0)
            return n;
        size_t part = (size_t)hr_min_u64((uint64_t)n, samples - at);
        for (uint32_t c = 0; c < pcm->channels; c++)
            memcpy((float *)context->loop + c * samples + at, pcm->planes[c], part * sizeof(float));
        at += part;
    }
    return at < samples ? ended_early(samples, at, err) : 0;
}

static int push_loop(struct audio_context *context, const struct hr_sample_plan *plan,
                     struct hr_error *err)
{
    uint64_t samples = plan->facts.samples, at = plan->audio.first_sample;
    float *planes[HR_AV_MAX_CHANNELS];
    int ret = read_whole(context, samples, err);

    for (uint64_t left = plan->audio.sample_count; ret == 0 && left > 0;) {
        uint64_t part = hr_min_u64(left, samples - at);
        for (uint32_t c = 0; c < context->pcm.channels; c++)
            planes[c] = (float *)context->loop + c * samples + at;
        ret = hr_sound_push(&context->sound, planes, part, err);
        left -= part;
        at = 0;
    }
    return ret;
}

static int run(const struct audio_chain *chain, struct audio_context *context,
               const struct hr_sample_plan *plan, void *dst, struct hr_error *err)
{
    const struct hr_pcm *pcm = &context->pcm;
    struct hr_sound_job job = {
        .mix = chain->mix,
        .in_channels = pcm->channels,
        .in_rate = pcm->rate,
        .out_rate = chain->rate ? chain->rate : pcm->rate,
        .gain = chain->gain_db == 0 ? 1.f : (float)pow(10, chain->gain_db / 20),
        .dtype = chain->dtype,
        .interleaved = chain->interleaved,
        .out_samples = plan->audio.out_samples,
        .dst_samples = chain->clip ? chain->clip_samples : plan->audio.out_samples,
        .dst = dst,
    };

    if (pcm->rate != plan->facts.sample_rate || pcm->channels != plan->facts.channels)
        return hr_fail(err, HR_E_DECODE, "the sound is %u Hz, %u channels; %u Hz, %u were recorded",
                       pcm->rate, pcm->channels, plan->facts.sample_rate, plan->facts.channels);
    int ret = hr_sound_begin(&context->sound, &job, err);
    if (ret < 0)
        return ret;
    bool loop = plan->audio.past_end == HR_PAST_LOOP &&
                plan->audio.first_sample + plan->audio.sample_count > plan->facts.samples;
    ret = loop ? push_loop(context, plan, err) : push_range(context, &plan->audio, err);
    return ret < 0 ? ret : hr_sound_end(&context->sound, err);
}

static int decode(const struct hr_chain *head, struct hr_context *context_head,
                  const struct hr_sample_plan *plan, unsigned encoding, const uint8_t *value,
                  size_t value_bytes, void *const dst[HR_CHAIN_MAX_OUTPUTS], struct hr_error *err)
{
    const struct audio_chain *chain = HR_CONTAINER_OF(head, struct audio_chain, head);
    struct audio_context *context = HR_CONTAINER_OF(context_head, struct audio_context, head);

    if (encoding != 0)
        return hr_fail(err, HR_E_FORMAT, "sound stored with encoding %u is not known", encoding);
    int ret = hr_pcm_open(&context->pcm, (enum hr_media_format)plan->facts.format, value,
                          value_bytes, err);
    if (ret == 0)
        ret = run(chain, context, plan, dst[0], err);
    hr_pcm_close(&context->pcm);
    if (ret == 0 && chain->lengths) {
        int32_t length = (int32_t)hr_min_u64(plan->audio.out_samples, INT32_MAX);
        memcpy(dst[1], &length, sizeof(length));
    }
    return ret;
}

const struct hr_chain_media hr_audio_chain_media = {
    .name = "audio",
    .chain_bytes = sizeof(struct audio_chain),
    .context_bytes = sizeof(struct audio_context),
    .init = init,
    .describe = describe,
    .plan = plan_sample,
    .context_finish = context_finish,
    .decode = decode,
};
