/* Mixing, resampling and storing of sound. The resampler is libswresample with its default filter
 * (32 taps, Kaiser window, beta 9, cut-off 0.97), always fed floats, so that nothing depends on the
 * sample format of the file. */
#include "decoders/sound.h"

#include <math.h>
#include <string.h>

#include "decoders/av_source.h"
#include "decoders/kernels/half.h"
#include "decoders/scratch.h"

enum { CHUNK = 4096, RESAMPLED = 8192 };

void hr_sound_finish(struct hr_sound *sound)
{
    for (int i = 0; i < HR_SOUND_RESAMPLERS; i++)
        if (sound->resamplers[i].swr)
            hr_av.swr_free(&sound->resamplers[i].swr);
    hr_free(sound->mixed);
    hr_free(sound->resampled);
    *sound = (struct hr_sound){0};
}

uint32_t hr_sound_channels(enum hr_sound_mix mix, uint32_t in_channels)
{
    if (mix == HR_SOUND_MONO)
        return 1;
    if (mix == HR_SOUND_STEREO)
        return in_channels <= 2 ? 2 : 0;
    return in_channels;
}

/* ---- storing ---- */

static int16_t to_i16(float v)
{
    float scaled = v * 32768.f;

    if (!(scaled > -32768.f))
        return v != v ? 0 : -32768;
    return scaled >= 32767.f ? 32767 : (int16_t)lrintf(scaled);
}

/* The conversions are for finite numbers; a float file may hold others. */
static uint16_t to_half(enum hr_dtype dtype, float v)
{
    if (v != v)
        return dtype == HR_DTYPE_F16 ? 0x7e00 : 0x7fc0;
    return dtype == HR_DTYPE_F16 ? hr_float_to_f16(v) : hr_float_to_bf16(v);
}

/* Stores n samples of one channel at sample `at`. */
static void store(const struct hr_sound *s, uint32_t channel, uint64_t at, const float *from, size_t n)
{
    size_t step = s->job.interleaved ? s->channels : 1;
    size_t first = s->job.interleaved ? at * step + channel : channel * s->job.dst_samples + at;

    if (s->job.dtype == HR_DTYPE_F32) {
        float *to = (float *)s->job.dst + first;
        for (size_t i = 0; i < n; i++)
            to[i * step] = from[i];
    } else if (s->job.dtype == HR_DTYPE_I16) {
        int16_t *to = (int16_t *)s->job.dst + first;
        for (size_t i = 0; i < n; i++)
            to[i * step] = to_i16(from[i]);
    } else {
        uint16_t *to = (uint16_t *)s->job.dst + first;
        for (size_t i = 0; i < n; i++)
            to[i * step] = to_half(s->job.dtype, from[i]);
    }
}

/* More than was planned is dropped: the resampler may give a sample beyond the rounded count. */
static void emit(struct hr_sound *s, float *const *planes, size_t n)
{
    n = (size_t)hr_min_u64(n, s->job.out_samples - s->made);
    for (uint32_t c = 0; c < s->channels; c++)
        store(s, c, s->made, planes[c], n);
    s->made += n;
}

/* ---- resampling ---- */

static struct hr_resampler *find_resampler(struct hr_sound *s)
{
    struct hr_resampler *oldest = &s->resamplers[0];

    for (int i = 0; i < HR_SOUND_RESAMPLERS; i++) {
        struct hr_resampler *r = &s->resamplers[i];
        if (r->swr && r->in_rate == s->job.in_rate && r->out_rate == s->job.out_rate &&
            r->channels == s->channels)
            return r;
        if (r->last_use < oldest->last_use)
            oldest = r;
    }
    if (oldest->swr)
        hr_av.swr_free(&oldest->swr);
    return oldest;
}

static int make_resampler(struct hr_sound *s, struct hr_resampler *r)
{
    AVChannelLayout layout = {.order = AV_CHANNEL_ORDER_UNSPEC, .nb_channels = (int)s->channels};

    r->in_rate = s->job.in_rate;
    r->out_rate = s->job.out_rate;
    r->channels = s->channels;
    return hr_av.swr_alloc_set_opts2(&r->swr, &layout, AV_SAMPLE_FMT_FLTP, (int)r->out_rate, &layout,
                                     AV_SAMPLE_FMT_FLTP, (int)r->in_rate, 0, NULL);
}

static int set_up_resampler(struct hr_sound *s, struct hr_error *err)
{
    int ret = hr_av_load(err);

    if (ret < 0)
        return ret;
    struct hr_resampler *r = find_resampler(s);
    if (!r->swr)
        ret = make_resampler(s, r);
    r->last_use = ++s->uses;
    s->swr = r->swr;
    /* Starting over drops what is left of the last clip and keeps the filter. */
    if (ret < 0 || (ret = hr_av.swr_init(s->swr)) < 0) {
        hr_av.swr_free(&r->swr);
        return hr_fail(err, HR_E_LIMIT, "no resampling of %u channels from %u to %u Hz", s->channels,
                       s->job.in_rate, s->job.out_rate);
    }
    if (hr_scratch_grow(&s->resampled, &s->resampled_bytes,
                        sizeof(float) * RESAMPLED * s->channels) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to resample");
    return 0;
}

/* planes NULL: flush. */
static int resample(struct hr_sound *s, float *const *planes, int n, struct hr_error *err)
{
    float *out[HR_AV_MAX_CHANNELS];
    int got;

    for (uint32_t c = 0; c < s->channels; c++)
        out[c] = (float *)s->resampled + (size_t)c * RESAMPLED;
    do {
        got = hr_av.swr_convert(s->swr, (uint8_t **)out, RESAMPLED,
                                (const uint8_t **)(uintptr_t)planes, n);
        if (got < 0)
            return hr_fail(err, HR_E_DECODE, "the sound cannot be resampled");
        emit(s, out, (size_t)got);
        n = 0; /* the rest waits inside */
    } while (got == RESAMPLED && s->made < s->job.out_samples);
    return 0;
}

/* ---- mixing ---- */

static void mix_mono(const struct hr_sound *s, float *const *planes, size_t at, size_t n, float *to)
{
    uint32_t channels = s->job.in_channels;

    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (uint32_t c = 0; c < channels; c++)
            sum += planes[c][at + i];
        to[i] = (float)(sum / channels);
    }
}

static void mix(struct hr_sound *s, float *const *planes, size_t at, size_t n, float **out)
{
    for (uint32_t c = 0; c < s->channels; c++) {
        out[c] = (float *)s->mixed + (size_t)c * CHUNK;
        if (s->job.mix == HR_SOUND_MONO && s->job.in_channels > 1)
            mix_mono(s, planes, at, n, out[c]);
        else
            memcpy(out[c], planes[c < s->job.in_channels ? c : 0] + at, n * sizeof(float));
        if (s->job.gain != 1)
            for (size_t i = 0; i < n; i++)
                out[c][i] *= s->job.gain;
    }
}

/* ---- a clip ---- */

int hr_sound_begin(struct hr_sound *s, const struct hr_sound_job *job, struct hr_error *err)
{
    s->job = *job;
    s->made = 0;
    s->channels = hr_sound_channels(job->mix, job->in_channels);
    if (s->channels == 0 || s->channels > HR_AV_MAX_CHANNELS)
        return hr_fail(err, HR_E_FORMAT, "no stereo of %u channels", job->in_channels);
    if (hr_scratch_grow(&s->mixed, &s->mixed_bytes, sizeof(float) * CHUNK * s->channels) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to mix sound");
    return job->in_rate == job->out_rate ? 0 : set_up_resampler(s, err);
}

int hr_sound_push(struct hr_sound *s, float *const *planes, size_t n, struct hr_error *err)
{
    float *out[HR_AV_MAX_CHANNELS];
    int ret = 0;

    for (size_t at = 0; at < n && ret == 0 && s->made < s->job.out_samples; at += CHUNK) {
        size_t part = n - at < CHUNK ? n - at : CHUNK;
        mix(s, planes, at, part, out);
        if (s->job.in_rate == s->job.out_rate)
            emit(s, out, part);
        else
            ret = resample(s, out, (int)part, err);
    }
    return ret;
}

int hr_sound_end(struct hr_sound *s, struct hr_error *err)
{
    static const float silence[256];

    if (s->job.in_rate != s->job.out_rate && s->made < s->job.out_samples) {
        int ret = resample(s, NULL, 0, err);
        if (ret < 0)
            return ret;
    }
    for (uint64_t at = s->made; at < s->job.dst_samples; at += HR_ARRAY_SIZE(silence))
        for (uint32_t c = 0; c < s->channels; c++)
            store(s, c, at, silence,
                  (size_t)hr_min_u64(HR_ARRAY_SIZE(silence), s->job.dst_samples - at));
    return 0;
}
