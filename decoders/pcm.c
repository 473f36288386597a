/* Blocks of samples: sample formats to float, and the rules for what belongs to the recording. */
#include "decoders/pcm.h"

#include <inttypes.h>
#include <string.h>

#include "decoders/av_container.h"
#include "decoders/scratch.h"

enum { WAV_BLOCK = 8192, MAX_FRAME_SAMPLES = 1 << 22 };

void hr_pcm_finish(struct hr_pcm *pcm)
{
    hr_pcm_close(pcm);
    hr_av_source_finish(&pcm->av);
    hr_free(pcm->scratch);
    pcm->scratch = NULL;
}

void hr_pcm_close(struct hr_pcm *pcm)
{
    hr_av_close(&pcm->av);
    pcm->bytes = NULL;
}

/* Room for n samples of every channel; planes point into it. */
static int set_planes(struct hr_pcm *pcm, uint32_t n, struct hr_error *err)
{
    size_t plane = (size_t)hr_align_up(n, 16), need = plane * pcm->channels;

    if (hr_scratch_grow(&pcm->scratch, &pcm->scratch_bytes, need * sizeof(float)) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for %zu samples", need);
    for (uint32_t c = 0; c < pcm->channels; c++)
        pcm->planes[c] = (float *)pcm->scratch + c * plane;
    return 0;
}

/* ---- opening ---- */

static int check_channels(const struct hr_pcm *pcm, struct hr_error *err)
{
    if (pcm->channels == 0 || pcm->channels > HR_AV_MAX_CHANNELS)
        return hr_fail(err, HR_E_LIMIT, "the sound has %u channels; 1 to %d are read", pcm->channels,
                       HR_AV_MAX_CHANNELS);
    if (pcm->rate == 0 || pcm->rate > 4000000)
        return hr_fail(err, pcm->rate ? HR_E_LIMIT : HR_E_DECODE, "the sound says %u samples a second", pcm->rate);
    return 0;
}

static int open_wav(struct hr_pcm *pcm, struct hr_error *err)
{
    pcm->is_wav = true;
    pcm->rate = pcm->wav.rate;
    pcm->channels = pcm->wav.channels;
    pcm->bits = pcm->wav.bits;
    pcm->is_float = pcm->wav.coding == HR_WAV_F32 || pcm->wav.coding == HR_WAV_F64;
    pcm->limit = pcm->wav.samples;
    int ret = check_channels(pcm, err);
    return ret < 0 ? ret : set_planes(pcm, WAV_BLOCK, err);
}

static uint64_t rescale_samples(int64_t ticks, AVRational time_base, uint32_t rate)
{
    const AVRational to = {1, (int)rate};

    return ticks <= 0 ? 0 : (uint64_t)hr_av.av_rescale_q(ticks, time_base, to);
}

/* How many samples the container says there are, where it says more than the decoder knows: the
 * final granule position of Ogg Vorbis, the track's edited duration in MP4. */
static uint64_t stated_limit(const struct hr_pcm *pcm, const uint8_t *bytes, size_t count)
{
    const AVStream *stream = pcm->av.stream;
    int64_t start = stream->start_time == AV_NOPTS_VALUE ? 0 : stream->start_time;

    if (stream->codecpar->codec_id == AV_CODEC_ID_VORBIS && pcm->av.container == HR_MEDIA_OGG) {
        int64_t granule = hr_ogg_last_granule(bytes, count);
        return granule > start ? (uint64_t)granule - (uint64_t)start : UINT64_MAX;
    }
    if (pcm->av.container == HR_MEDIA_MP4 && stream->duration > start && stream->time_base.num == 1 &&
        pcm->rate % (uint32_t)stream->time_base.den == 0 &&
        stream->codecpar->codec_id == AV_CODEC_ID_AAC)
        return rescale_samples((int64_t)((uint64_t)stream->duration - (uint64_t)start), stream->time_base, pcm->rate);
    return UINT64_MAX;
}

static int open_av(struct hr_pcm *pcm, enum hr_media_format container, const uint8_t *bytes,
                   size_t count, struct hr_error *err)
{
    struct hr_av_open how = {.container = container, .type = HR_FIELD_AUDIO};
    int ret = hr_av_open(&pcm->av, &how, bytes, count, err);

    if (ret < 0)
        return ret;
    ret = hr_av_next(&pcm->av, err);
    if (ret < 0)
        return ret;
    pcm->primed = ret > 0;
    pcm->ended = ret == 0;
    const AVCodecContext *codec = pcm->av.codec;
    const AVFrame *frame = pcm->av.frame;
    pcm->rate = (uint32_t)(pcm->primed ? frame->sample_rate : codec->sample_rate);
    pcm->channels = (uint32_t)(pcm->primed ? frame->ch_layout.nb_channels
                                           : codec->ch_layout.nb_channels);
    enum AVSampleFormat format = hr_av.av_get_packed_sample_fmt(codec->sample_fmt);
    pcm->is_float = format == AV_SAMPLE_FMT_FLT || format == AV_SAMPLE_FMT_DBL;
    int bits = codec->bits_per_raw_sample > 0 ? codec->bits_per_raw_sample
                                              : hr_av.av_get_bytes_per_sample(format) * 8;
    pcm->bits = (uint32_t)bits;
    pcm->limit = stated_limit(pcm, bytes, count);
    return check_channels(pcm, err);
}

int hr_pcm_open(struct hr_pcm *pcm, enum hr_media_format container, const uint8_t *bytes,
                size_t count, struct hr_error *err)
{
    hr_pcm_close(pcm);
    pcm->bytes = bytes;
    pcm->is_wav = pcm->primed = pcm->ended = false;
    pcm->pos = 0;
    if (container == HR_MEDIA_WAV) {
        int ret = hr_wav_parse(bytes, count, &pcm->wav, err);
        if (ret < 0)
            return ret;
        if (pcm->wav.coding != HR_WAV_OTHER)
            return open_wav(pcm, err);
    }
    int ret = open_av(pcm, container, bytes, count, err);
    if (ret < 0)
        hr_pcm_close(pcm);
    return ret;
}

/* ---- samples ---- */

#define CONVERT(type, expr)                                                                        \
    for (int i = 0; i < n; i++) {                                                                  \
        type v = ((const type *)from)[(size_t)i * step];                                           \
        to[i] = (float)(expr);                                                                     \
    }                                                                                              \
    break

static int convert(const AVFrame *frame, uint32_t channels, int n, float *const *planes,
                   struct hr_error *err)
{
    enum AVSampleFormat format = hr_av.av_get_packed_sample_fmt(frame->format);
    bool planar = hr_av.av_sample_fmt_is_planar(frame->format);
    size_t bytes = (size_t)hr_av.av_get_bytes_per_sample(format), step = planar ? 1 : channels;

    for (uint32_t c = 0; c < channels; c++) {
        const uint8_t *from =
            planar ? frame->extended_data[c] : frame->extended_data[0] + c * bytes;
        float *to = planes[c];
        switch (format) {
        case AV_SAMPLE_FMT_U8:
            CONVERT(uint8_t, (v - 128) / 128.f);
        case AV_SAMPLE_FMT_S16:
            CONVERT(int16_t, v / 32768.f);
        case AV_SAMPLE_FMT_S32:
            CONVERT(int32_t, (float)v / 2147483648.f);
        case AV_SAMPLE_FMT_S64:
            CONVERT(int64_t, (double)v / 9223372036854775808.);
        case AV_SAMPLE_FMT_FLT:
            CONVERT(float, v);
        case AV_SAMPLE_FMT_DBL:
            CONVERT(double, v);
        default:
            return hr_fail(err, HR_E_DECODE, "unknown sample format %d", frame->format);
        }
    }
    return 0;
}

static int take_frame(struct hr_pcm *pcm, struct hr_error *err)
{
    const AVFrame *frame = pcm->av.frame;

    if ((uint32_t)frame->sample_rate != pcm->rate ||
        (uint32_t)frame->ch_layout.nb_channels != pcm->channels)
        return hr_fail(err, HR_E_DECODE,
                       "the sound changes from %u Hz, %u channels to %d Hz, %d channels", pcm->rate,
                       pcm->channels, frame->sample_rate, frame->ch_layout.nb_channels);
    if (frame->nb_samples < 0 || frame->nb_samples > MAX_FRAME_SAMPLES)
        return hr_fail(err, HR_E_LIMIT, "a frame has %d samples", frame->nb_samples);
    int n = (int)hr_min_u64((uint64_t)frame->nb_samples, pcm->limit - pcm->pos);
    if (n == 0)
        return 0;
    int ret = set_planes(pcm, (uint32_t)n, err);
    if (ret == 0)
        ret = convert(frame, pcm->channels, n, pcm->planes, err);
    return ret < 0 ? ret : n;
}

static int next_av(struct hr_pcm *pcm, struct hr_error *err)
{
    while (!pcm->ended && pcm->pos < pcm->limit) {
        int ret = pcm->primed ? 1 : hr_av_next(&pcm->av, err);
        pcm->primed = false;
        if (ret < 0)
            return ret;
        if (ret == 0)
            break;
        ret = take_frame(pcm, err);
        if (ret)
            return ret;
    }
    pcm->ended = true;
    return 0;
}

int hr_pcm_next(struct hr_pcm *pcm, struct hr_error *err)
{
    int n;

    if (pcm->is_wav) {
        n = (int)hr_min_u64(WAV_BLOCK, pcm->limit - pcm->pos);
        hr_wav_read(&pcm->wav, pcm->bytes, pcm->pos, (uint32_t)n, pcm->planes);
    } else {
        n = next_av(pcm, err);
    }
    if (n > 0)
        pcm->pos += (uint64_t)n;
    return n;
}

int hr_pcm_skip(struct hr_pcm *pcm, uint64_t samples, struct hr_error *err)
{
    uint64_t target = pcm->pos + samples;

    if (pcm->is_wav) {
        pcm->pos = hr_min_u64(target, pcm->limit);
        return 0;
    }
    while (pcm->pos < target) {
        int n = hr_pcm_next(pcm, err);
        if (n <= 0)
            return n;
        if (pcm->pos <= target) {
            pcm->pos += hr_av_pass_by(&pcm->av, target - pcm->pos);
            continue;
        }
        /* The rest of this block is given again: move it to the planes' front. */
        size_t rest = pcm->pos - target;
        for (uint32_t c = 0; c < pcm->channels; c++)
            memmove(pcm->planes[c], pcm->planes[c] + (size_t)n - rest, rest * sizeof(float));
        return (int)rest;
    }
    return 0;
}
