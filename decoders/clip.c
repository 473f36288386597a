/* Reading of the `clip:` table and the clip's words among a field's options. */
#include "decoders/clip.h"

#include <string.h>

#include "base/rng.h"

static const char *const audio_starts[] = {"random", "center", "begin", NULL};
static const char *const video_starts[] = {"random", "center", "begin", "uniform", NULL};
static const char *const past_ends[] = {"pad", "loop", "reject", "repeat_last", "mask", NULL};
static const char *const audio_past_ends[] = {"pad", "loop", "reject", NULL};
static const char *const video_past_ends[] = {"repeat_last", "loop", "mask", "reject", NULL};

const char *hr_start_name(enum hr_clip_start start)
{
    return video_starts[start];
}

const char *hr_past_end_name(enum hr_past_end past_end)
{
    return past_ends[past_end];
}

static enum hr_past_end past_end_of(const char *word)
{
    int i = 0;

    while (past_ends[i] && strcmp(past_ends[i], word) != 0)
        i++;
    return (enum hr_past_end)i;
}

void hr_clip_rng(const struct hr_draw_key *key, struct hr_rng *rng)
{
    hr_rng_init(rng, key->seed, key->epoch, key->position, key->stream * 256 + 255);
}

int hr_clip_read(const struct hr_chain_spec *spec, struct hr_clip *clip, struct hr_error *err)
{
    bool audio = spec->type == HR_FIELD_AUDIO;
    const char *const *ends = audio ? audio_past_ends : video_past_ends;
    int start = 0, past_end = 0;
    const struct hr_arg_spec start_spec = {.name = "start", .type = HR_ARG_TYPE_ENUM, .out = &start,
                                           .choices = audio ? audio_starts : video_starts};
    const struct hr_arg_spec end_spec = {
        .name = "past_end", .type = HR_ARG_TYPE_ENUM, .out = &past_end, .choices = ends};
    const struct hr_arg_spec channels_spec = {
        .name = "channels", .type = HR_ARG_TYPE_STR, .out = &clip->channels};
    const struct hr_arg_spec seconds_spec = {.name = "seconds", .type = HR_ARG_TYPE_FLOAT,
                                             .out = &clip->seconds, .min = 1e-6, .max = 1e6};
    const struct hr_arg_spec audio_options[] = {
        start_spec, end_spec, channels_spec,
        {.name = "rate", .type = HR_ARG_TYPE_INT, .out = &clip->rate, .min = 100, .max = 768000},
        {.name = "max_seconds", .type = HR_ARG_TYPE_FLOAT, .out = &clip->max_seconds, .min = 1e-3,
         .max = 1e6},
    };
    const struct hr_arg_spec video_options[] = {start_spec, end_spec, channels_spec};
    const struct hr_arg_spec audio_clip[] = {seconds_spec, start_spec, end_spec};
    const struct hr_arg_spec video_clip[] = {
        seconds_spec, start_spec, end_spec,
        {.name = "frames", .type = HR_ARG_TYPE_INT, .out = &clip->frames, .min = 1, .max = 100000},
        {.name = "stride", .type = HR_ARG_TYPE_INT, .out = &clip->stride, .min = 1, .max = 1000000},
        {.name = "fps", .type = HR_ARG_TYPE_FLOAT, .out = &clip->fps, .min = 1e-3, .max = 10000},
    };
    int ret = 0;

    *clip = (struct hr_clip){.given = spec->clip != NULL};
    if (spec->options && audio)
        ret = hr_args_read(spec->options, audio_options, HR_ARRAY_SIZE(audio_options), err);
    else if (spec->options)
        ret = hr_args_read(spec->options, video_options, HR_ARRAY_SIZE(video_options), err);
    if (ret == 0 && spec->clip && audio)
        ret = hr_args_read(spec->clip, audio_clip, HR_ARRAY_SIZE(audio_clip), err);
    else if (ret == 0 && spec->clip)
        ret = hr_args_read(spec->clip, video_clip, HR_ARRAY_SIZE(video_clip), err);
    clip->start = (enum hr_clip_start)start;
    clip->past_end = past_end_of(ends[past_end]);
    return ret;
}
