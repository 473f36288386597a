/* Measuring at pack: the whole value is decoded once, since in general packets are not frames
 * (superframes, dropped leading pictures, edit lists) and sample counts depend on decoder delay and
 * trims. Where packets are frames (av_packets.h), and verifying is not asked for, they are counted. */
#include "decoders/av_measure.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "decoders/av_container.h"
#include "decoders/av_packets.h"
#include "decoders/decoder.h"
#include "decoders/pcm.h"

static double frame_interval(const AVStream *stream)
{
    double rate = av_q2d(stream->avg_frame_rate.num ? stream->avg_frame_rate : stream->r_frame_rate);

    return rate > 0 && isfinite(rate) ? 1 / rate : 0.04;
}

double hr_frame_time(struct hr_frame_clock *clock, const AVFrame *frame, const AVStream *stream)
{
    double tick = av_q2d(stream->time_base), t = clock->next;

    if (frame->best_effort_timestamp != AV_NOPTS_VALUE)
        t = (double)frame->best_effort_timestamp * tick;
    if (clock->started && t <= clock->next - clock->step)
        t = clock->next; /* time never runs back: a restart continues where the last frame ended */
    double step = frame_interval(stream);
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 2, 100)
    int64_t duration = frame->duration;
#else
    int64_t duration = frame->pkt_duration;
#endif
    if (duration > 0)
        step = (double)duration * tick;
    clock->started = true;
    clock->step = step;
    clock->next = t + step;
    return t;
}

/* ---- video ---- */

static int check_same_size(const struct hr_facts *facts, const AVFrame *frame, struct hr_error *err)
{
    if ((uint32_t)frame->width == facts->width && (uint32_t)frame->height == facts->height)
        return 0;
    hr_fail(err, HR_E_FORMAT, "the picture changes from %ux%u to %dx%d at frame %u", facts->width,
            facts->height, frame->width, frame->height, facts->frames);
    hr_error_hint(err, "split the recording where its size changes");
    return HR_E_FORMAT;
}

static int count_frames(struct hr_av_source *av, struct hr_facts *facts, struct hr_error *err)
{
    struct hr_frame_clock clock = {0};
    double first = 0;
    int ret;

    while ((ret = hr_av_next(av, err)) > 0) {
        double t = hr_frame_time(&clock, av->frame, av->stream);
        if (facts->frames == 0) {
            first = t;
            facts->width = (uint32_t)av->frame->width;
            facts->height = (uint32_t)av->frame->height;
            ret = hr_image_check_size(facts->width, facts->height, err);
        } else {
            ret = check_same_size(facts, av->frame, err);
        }
        if (ret < 0)
            return ret;
        facts->frames++;
    }
    if (ret < 0)
        return ret;
    if (facts->frames == 0)
        return hr_fail(err, HR_E_TRUNCATED, "not one frame can be decoded");
    double seconds = clock.next - first;
    facts->duration_ns = seconds > 0 && seconds < 1e9 ? (uint64_t)llround(seconds * 1e9) : 0;
    return 0;
}

/* The average over the presentation: frames / duration, or what the container says when that is the
 * same within a tenth of a percent (30000/1001 rather than a long fraction). */
static void set_rate(const struct hr_av_source *av, struct hr_facts *facts)
{
    double mine = facts->duration_ns ? facts->frames / (facts->duration_ns / 1e9) : 0;
    AVRational said = av->stream->avg_frame_rate, rate;

    if (said.num > 0 && said.den > 0 && (mine == 0 || fabs(av_q2d(said) / mine - 1) < 0.001))
        rate = said;
    else
        rate = hr_av.av_d2q(mine, 1 << 20);
    facts->rate_num = rate.num > 0 ? (uint32_t)rate.num : 0;
    facts->rate_den = rate.num > 0 ? (uint32_t)rate.den : 0;
}

/* Duration as count_frames would find it: from the first frame's time to the end of the last. */
static void set_duration(const struct hr_av_source *av, const struct hr_av_index *index,
                         struct hr_facts *facts)
{
    const struct hr_av_entry *first = &index->shown[0], *last = &index->shown[index->shown_count - 1];
    double tick = av_q2d(av->stream->time_base);
    int64_t duration = index->packets[last->packet]->duration;
    double step = duration > 0 ? (double)duration * tick : frame_interval(av->stream);
    double seconds = (double)last->pts * tick + step - (double)first->pts * tick;

    facts->duration_ns = seconds > 0 && seconds < 1e9 ? (uint64_t)llround(seconds * 1e9) : 0;
}

/* 1: counted from packets, of which only the first frame is decoded. 0: what there is to count only
 * decoding can tell; the source has to be opened again. */
static int count_packets(struct hr_av_source *av, struct hr_av_index *index, struct hr_facts *facts,
                         struct hr_error *err)
{
    int ret = hr_av_index_read(index, av, 0, err);

    if (ret <= 0)
        return ret;
    hr_av_index_want(index, 0);
    hr_av_index_start(index, av, false);
    if (hr_av_next(av, NULL) <= 0 || av->frame->pts != index->shown[0].pts ||
        !hr_av_packets_are_frames(av, index))
        return 0;
    facts->width = (uint32_t)av->frame->width;
    facts->height = (uint32_t)av->frame->height;
    facts->frames = index->shown_count;
    set_duration(av, index, facts);
    ret = hr_image_check_size(facts->width, facts->height, err);
    return ret < 0 ? ret : 1;
}

/* The open source's frames, by the quickest way that is exact. */
static int count(struct hr_av_source *av, const struct hr_av_open *how, const uint8_t *bytes,
                 size_t bytes_count, struct hr_facts *facts, struct hr_error *err)
{
    struct hr_av_index index = {0};

    if (!how->for_count || !hr_av_packets_may_be_frames(av))
        return count_frames(av, facts, err);
    int ret = count_packets(av, &index, facts, err);
    if (ret == 0) {
        ret = hr_av_open(av, how, bytes, bytes_count, err);
        if (ret == 0)
            ret = count_frames(av, facts, err);
    }
    av->queue = NULL;
    hr_av_index_finish(&index);
    return ret < 0 ? ret : 0;
}

static int measure_video(struct hr_av_source *av, const struct hr_av_open *how, const uint8_t *bytes,
                         size_t bytes_count, struct hr_facts *facts, struct hr_error *err)
{
    int ret = count(av, how, bytes, bytes_count, facts, err);

    if (ret < 0)
        return ret;
    const AVPixFmtDescriptor *pixel = hr_av.av_pix_fmt_desc_get(av->codec->pix_fmt);
    facts->bit_depth = pixel ? (uint32_t)pixel->comp[0].depth : 0;
    facts->orientation = hr_av_rotation(av->stream);
    const AVCodecParameters *sound = hr_av_find(av, HR_FIELD_AUDIO);
    if (sound && sound->sample_rate > 0) {
        facts->sample_rate = (uint32_t)sound->sample_rate;
        facts->channels = (uint32_t)sound->ch_layout.nb_channels;
    }
    set_rate(av, facts);
    return 0;
}

/* ---- audio ---- */

/* STREAMINFO's count, 0 = unknown. */
static uint64_t flac_samples(const uint8_t *b, size_t n)
{
    for (size_t at = 0; at + 26 <= n && at < (1u << 20); at++)
        if (memcmp(b + at, "fLaC", 4) == 0)
            return (uint64_t)(b[at + 21] & 15) << 32 | (uint64_t)b[at + 22] << 24 |
                   (uint64_t)b[at + 23] << 16 | (uint64_t)b[at + 24] << 8 | b[at + 25];
    return 0;
}

static int count_samples(struct hr_pcm *pcm, bool verify, uint64_t *samples, struct hr_error *err)
{
    int n;

    if (pcm->is_wav) { /* the header was checked against the bytes; every sample is decodable */
        *samples = pcm->limit;
        return 0;
    }
    while ((n = hr_pcm_next(pcm, err)) > 0)
        ;
    *samples = pcm->pos;
    return n;
}

static int measure_audio(struct hr_pcm *pcm, const uint8_t *bytes, size_t count, bool verify,
                         struct hr_facts *facts, struct hr_error *err)
{
    int ret = hr_pcm_open(pcm, facts->format, bytes, count, err);

    if (ret == 0)
        ret = count_samples(pcm, verify, &facts->samples, err);
    if (ret < 0)
        return ret;
    uint64_t stated = facts->format == HR_MEDIA_FLAC ? flac_samples(bytes, count) : 0;
    if (facts->samples < stated)
        return hr_fail(err, HR_E_TRUNCATED,
                       "the header says %" PRIu64 " samples, %" PRIu64 " are there", stated,
                       facts->samples);
    if (facts->samples == 0 && !pcm->is_wav)
        return hr_fail(err, HR_E_TRUNCATED, "not one sample can be decoded");
    facts->sample_rate = pcm->rate;
    facts->channels = pcm->channels;
    facts->bit_depth = pcm->bits;
    facts->duration_ns =
        (uint64_t)llround((double)facts->samples / pcm->rate * 1e9);
    return 0;
}

static int measure(struct hr_pcm *pcm, const uint8_t *bytes, size_t count, enum hr_field_type wanted,
                   bool verify, struct hr_facts *facts, struct hr_error *err)
{
    struct hr_av_open how = {
        .container = facts->format, .type = HR_FIELD_VIDEO, .for_count = !verify};

    if (facts->format == HR_MEDIA_WAV || wanted == HR_FIELD_AUDIO)
        return wanted == HR_FIELD_VIDEO
                   ? hr_fail(err, HR_E_FORMAT, "the file has no video stream")
                   : measure_audio(pcm, bytes, count, verify, facts, err);
    int ret = hr_av_open(&pcm->av, &how, bytes, count, err);
    if (ret == 0)
        return measure_video(&pcm->av, &how, bytes, count, facts, err);
    if (ret != HR_E_MISSING)
        return ret;
    if (wanted == HR_FIELD_VIDEO)
        return hr_fail(err, HR_E_FORMAT, "the file has no video stream");
    return measure_audio(pcm, bytes, count, verify, facts, err);
}

int hr_av_measure(const uint8_t *bytes, size_t count, enum hr_field_type wanted, bool verify,
                  struct hr_facts *facts, struct hr_error *err)
{
    struct hr_pcm pcm = {0};
    int ret;

    if (count == 0)
        return hr_fail(err, HR_E_TRUNCATED, "the value is empty");
    ret = hr_av_check_complete(facts->format, bytes, count, err);
    if (ret < 0)
        return ret;
    ret = measure(&pcm, bytes, count, wanted, verify, facts, err);
    hr_pcm_finish(&pcm);
    return ret == HR_E_MISSING ? hr_fail(err, HR_E_FORMAT, "the file has no audio stream") : ret;
}

static int measure_any(const uint8_t *bytes, size_t count, bool verify, struct hr_facts *facts,
                       struct hr_error *err)
{
    return hr_av_measure(bytes, count, HR_FIELD_NONE, verify, facts, err);
}

const struct hr_decoder hr_decoder_av = {
    .name = "ffmpeg",
    .type = HR_FIELD_VIDEO,
    .sniff = hr_av_sniff,
    .measure = measure_any,
};
