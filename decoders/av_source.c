/* FFmpeg's side of a value: memory as a file, one stream's packets into one decoder, damage told
 * from the end. */
#include "decoders/av_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "decoders/av_container.h"
#include "decoders/av_index.h"
#include "decoders/decoder.h"

enum {
    IO_BYTES = 32 << 10,
    PROBE_BYTES = 5 << 20,
    DEADLINE_BASE_S = 60,
    DEADLINE_BYTES_PER_S = 20000,
};

/* Containers that hold everything in one file. */
static const char demuxers[] = "mov,matroska,avi,mpegts,mpeg,mp3,aac,ogg,flac,wav,w64,aiff,au,caf,"
                               "flv,asf,amr,amrnb,amrwb,ivf,swf,gif";

static int av_fail(struct hr_error *err, int code, int averror, const char *what)
{
    if (averror == AVERROR(ENOMEM))
        code = HR_E_LIMIT; /* more than the cap in one piece: the numbers are wrong */
    return hr_fail(err, code, "%s: %s", what, hr_av_reason(averror));
}

/* ---- memory as a file ---- */

static int read_bytes(void *opaque, uint8_t *buf, int size)
{
    struct hr_av_source *s = opaque;
    size_t n = s->count - s->pos;

    if (hr_clock_ns() > s->deadline_ns)
        return AVERROR_EXIT;
    if (n == 0)
        return AVERROR_EOF;
    if (n > (size_t)size)
        n = (size_t)size;
    memcpy(buf, s->bytes + s->pos, n);
    s->pos += n;
    return (int)n;
}

static int64_t seek_bytes(void *opaque, int64_t offset, int whence)
{
    struct hr_av_source *s = opaque;

    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE)
        return (int64_t)s->count;
    if (whence == SEEK_CUR)
        offset += (int64_t)s->pos;
    else if (whence == SEEK_END)
        offset += (int64_t)s->count;
    if (offset < 0 || offset > (int64_t)s->count)
        return AVERROR(EINVAL);
    s->pos = (size_t)offset;
    return offset;
}

static int refuse_open(AVFormatContext *format, AVIOContext **io, const char *url, int flags,
                       AVDictionary **options)
{
    return AVERROR(EPERM);
}

static int interrupted(void *opaque)
{
    return hr_clock_ns() > ((struct hr_av_source *)opaque)->deadline_ns;
}

/* ---- life ---- */

void hr_av_source_finish(struct hr_av_source *s)
{
    if (!s->packet)
        return; /* nothing was ever opened */
    hr_av_close(s);
    hr_av.av_packet_free(&s->packet);
    hr_av.av_frame_free(&s->frame);
}

void hr_av_close(struct hr_av_source *s)
{
    s->stream = NULL;
    if (!s->frame)
        return;
    hr_av.av_frame_unref(s->frame);
    hr_av.av_packet_unref(s->packet);
    hr_av.avcodec_free_context(&s->codec);
    hr_av.avformat_close_input(&s->format);
    if (s->io)
        hr_av.av_freep(&s->io->buffer);
    hr_av.avio_context_free(&s->io);
}

static int open_io(struct hr_av_source *s)
{
    uint8_t *buffer = hr_av.av_malloc(IO_BYTES);

    if (buffer)
        s->io = hr_av.avio_alloc_context(buffer, IO_BYTES, 0, s, read_bytes, NULL, seek_bytes);
    if (!s->io) {
        hr_av.av_free(buffer);
        return HR_E_NOMEM;
    }
    s->io->seekable = AVIO_SEEKABLE_NORMAL;
    s->format = hr_av.avformat_alloc_context();
    return s->format ? 0 : HR_E_NOMEM;
}

/* Where sniffing leaves no doubt FFmpeg need not ask each of its hundreds of demuxers, which takes
 * longer than decoding a second of speech. NULL: ask them. */
static const AVInputFormat *known_demuxer(enum hr_media_format container)
{
    switch (container) {
    case HR_MEDIA_MP4:
        return hr_av.av_find_input_format("mov");
    case HR_MEDIA_MATROSKA:
        return hr_av.av_find_input_format("matroska");
    case HR_MEDIA_FLAC:
        return hr_av.av_find_input_format("flac");
    case HR_MEDIA_OGG:
        return hr_av.av_find_input_format("ogg");
    case HR_MEDIA_MP3:
        return hr_av.av_find_input_format("mp3");
    case HR_MEDIA_AVI:
        return hr_av.av_find_input_format("avi");
    default:
        return NULL;
    }
}

/* Is the header enough? In FLAC it always is; in MP4 and Matroska where the caller can do without
 * what probing finds out. */
static bool header_is_enough(const struct hr_av_source *s, bool quick)
{
    if (s->container == HR_MEDIA_FLAC)
        return true;
    return quick && (s->container == HR_MEDIA_MP4 || s->container == HR_MEDIA_MATROSKA);
}

static int open_format(struct hr_av_source *s, bool quick, struct hr_error *err)
{
    const AVInputFormat *demuxer = known_demuxer(s->container);
    AVDictionary *options = NULL;

    if (open_io(s) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to open a media file");
    s->format->pb = s->io;
    s->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    s->format->io_open = refuse_open;
    s->format->interrupt_callback = (AVIOInterruptCB){interrupted, s};
    s->format->probesize = PROBE_BYTES;
    s->format->error_recognition = AV_EF_CRCCHECK;
    hr_av.av_dict_set(&options, "format_whitelist", demuxers, 0);
    hr_av.av_dict_set(&options, "protocol_whitelist", "none", 0);
    hr_av.av_dict_set(&options, "max_streams", "64", 0);
    int ret = hr_av.avformat_open_input(&s->format, NULL, demuxer, &options);
    hr_av.av_dict_free(&options);
    if (ret < 0) /* the context is freed, the I/O is ours still */
        return av_fail(err, HR_E_DECODE, ret, "the container cannot be read");
    s->probed = !header_is_enough(s, quick);
    ret = s->probed ? hr_av.avformat_find_stream_info(s->format, NULL) : 0;
    if (ret < 0)
        return av_fail(err, HR_E_DECODE, ret, "the streams cannot be read");
    return 0;
}

/* A FLAC file has one stream of sound; its rate stands in the codec's header, where
 * av_find_best_stream does not look. */
static AVStream *find_flac(const struct hr_av_source *s)
{
    AVStream *first = s->format->nb_streams > 0 ? s->format->streams[0] : NULL;

    return first && first->codecpar->codec_id == AV_CODEC_ID_FLAC ? first : NULL;
}

static AVStream *find(const struct hr_av_source *s, enum hr_field_type type)
{
    if (s->container == HR_MEDIA_FLAC)
        return type == HR_FIELD_AUDIO ? find_flac(s) : NULL;
    int i = hr_av.av_find_best_stream(s->format, type == HR_FIELD_VIDEO ? AVMEDIA_TYPE_VIDEO
                                                                  : AVMEDIA_TYPE_AUDIO,
                                -1, -1, NULL, 0);
    if (i < 0)
        return NULL;
    AVStream *stream = s->format->streams[i];
    return stream->disposition & AV_DISPOSITION_ATTACHED_PIC ? NULL : stream;
}

const AVCodecParameters *hr_av_find(const struct hr_av_source *s, enum hr_field_type type)
{
    AVStream *stream = find(s, type);

    return stream ? stream->codecpar : NULL;
}

/* Sample tables may point past a cut that no box shows. */
static int check_index(struct hr_av_source *s, struct hr_error *err)
{
    int n = hr_av.avformat_index_get_entries_count(s->stream);

    for (int i = 0; i < n; i++) {
        const AVIndexEntry *entry = hr_av.avformat_index_get_entry(s->stream, i);
        if (entry && entry->pos >= 0 && (uint64_t)entry->pos + (uint64_t)entry->size > s->count)
            return hr_fail(err, HR_E_TRUNCATED,
                           "packet %d of %d ends past the end of the value", i, n);
    }
    return 0;
}

static int open_codec(struct hr_av_source *s, bool for_count, struct hr_error *err)
{
    const AVCodec *decoder = hr_av.avcodec_find_decoder(s->stream->codecpar->codec_id);

    if (!decoder)
        return hr_fail(err, HR_E_FORMAT, "there is no decoder for %s on this machine",
                       hr_av.avcodec_get_name(s->stream->codecpar->codec_id));
    s->codec = hr_av.avcodec_alloc_context3(decoder);
    if (!s->codec || hr_av.avcodec_parameters_to_context(s->codec, s->stream->codecpar) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for a decoder");
    s->codec->pkt_timebase = s->stream->time_base;
    s->codec->thread_count = 1;
    s->codec->max_pixels = (int64_t)HR_IMAGE_MAX_PIXELS;
    s->codec->err_recognition = AV_EF_CRCCHECK;
    if (s->codec->codec_type == AVMEDIA_TYPE_AUDIO)
        s->codec->err_recognition |= AV_EF_EXPLODE;
    if (for_count)
        s->codec->skip_loop_filter = AVDISCARD_ALL;
    if (s->codec->codec_id == AV_CODEC_ID_VORBIS)
        s->codec->flags2 |= AV_CODEC_FLAG2_SKIP_MANUAL; /* trimmed by granule: pcm.c */
    int ret = hr_av.avcodec_open2(s->codec, decoder, NULL);
    return ret < 0 ? av_fail(err, HR_E_DECODE, ret, "the decoder does not start") : 0;
}

static int video_streams(const struct hr_av_source *s)
{
    int n = 0;

    for (unsigned i = 0; i < s->format->nb_streams; i++)
        n += s->format->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
    return n;
}

static int open_stream(struct hr_av_source *s, const struct hr_av_open *how, struct hr_error *err)
{
    int ret = open_format(s, how->quick, err);

    if (ret < 0)
        return ret;
    if (!s->probed && video_streams(s) > 1) { /* the best one is known only after probing */
        s->probed = true;
        ret = hr_av.avformat_find_stream_info(s->format, NULL);
        if (ret < 0)
            return av_fail(err, HR_E_DECODE, ret, "the streams cannot be read");
    }
    s->stream = find(s, how->type);
    if (!s->stream)
        return hr_fail(err, HR_E_MISSING, "the file has no %s stream", hr_field_type_name(how->type));
    for (unsigned i = 0; i < s->format->nb_streams; i++)
        if (s->format->streams[i] != s->stream)
            s->format->streams[i]->discard = AVDISCARD_ALL;
    ret = check_index(s, err);
    return ret < 0 ? ret : open_codec(s, how->for_count, err);
}

int hr_av_open(struct hr_av_source *s, const struct hr_av_open *how, const uint8_t *bytes,
               size_t count, struct hr_error *err)
{
    int ret = hr_av_prepare(&s->packet, &s->frame, err);
    if (ret < 0)
        return ret;
    hr_av_close(s);
    s->bytes = bytes;
    s->count = count;
    s->pos = 0;
    s->container = how->container;
    s->packets = s->frames = 0;
    s->packet_limit = count + 1024;
    s->draining = s->mid_stream = s->held = false;
    s->queue = NULL;
    s->deadline_ns =
        hr_clock_ns() + (DEADLINE_BASE_S + count / DEADLINE_BYTES_PER_S) * HR_NS_PER_S;
    hr_av_forget();
    ret = open_stream(s, how, err);
    if (ret < 0)
        hr_av_close(s);
    return ret;
}

/* ---- packets and frames ---- */

/* A packet that cannot be decoded is a cut when nothing comes after it. */
static int damaged(struct hr_av_source *s, int averror, struct hr_error *err)
{
    bool last = true;

    while (last && hr_av.av_read_frame(s->format, s->packet) >= 0) {
        last = s->packet->stream_index != s->stream->index;
        hr_av.av_packet_unref(s->packet);
    }
    if (last)
        return av_fail(err, HR_E_TRUNCATED, averror, "the last packet is cut or damaged");
    return av_fail(err, HR_E_DECODE, averror, "the stream is damaged");
}

/* Packets that were read ahead. Those of H.264 that no other refers to and nobody wants are passed by:
 * elsewhere "not referred to" holds for a sub-layer only. */
static int take_queued(struct hr_av_source *s)
{
    const struct hr_av_index *queue = s->queue;

    if (s->queue_at >= queue->packet_count)
        return AVERROR_EOF;
    bool wanted = queue->wanted[s->queue_at] || s->codec->codec_id != AV_CODEC_ID_H264;
    s->codec->skip_frame = wanted ? AVDISCARD_DEFAULT : AVDISCARD_NONREF;
    return hr_av.av_packet_ref(s->packet, queue->packets[s->queue_at++]);
}

/* The next packet of the stream into s->packet. 0 or FFmpeg's error. */
static int take_packet(struct hr_av_source *s)
{
    int ret = 0;

    if (s->held) {
        s->held = false;
        return 0;
    }
    while ((ret = s->queue ? take_queued(s) : hr_av.av_read_frame(s->format, s->packet)) >= 0) {
        if (s->packet->stream_index == s->stream->index)
            return 0;
        hr_av.av_packet_unref(s->packet);
        if (hr_clock_ns() > s->deadline_ns)
            return AVERROR_EXIT;
    }
    return ret;
}

uint64_t hr_av_pass_by(struct hr_av_source *s, uint64_t samples)
{
    const AVRational tick = s->stream->time_base;
    uint64_t passed = 0;

    if (s->container != HR_MEDIA_FLAC || tick.num != 1 || tick.den != s->codec->sample_rate)
        return 0;
    while (!s->held && s->packets < s->packet_limit && take_packet(s) == 0) {
        uint64_t n = s->packet->duration > 0 ? (uint64_t)s->packet->duration : UINT64_MAX;
        s->held = n > samples - passed;
        if (s->held)
            break;
        passed += n;
        s->packets++;
        hr_av.av_packet_unref(s->packet);
    }
    return passed;
}

/* Sends the next packet of the stream, or the end. 0 or an error. */
static int send_next(struct hr_av_source *s, struct hr_error *err)
{
    if (hr_clock_ns() > s->deadline_ns)
        return hr_fail(err, HR_E_LIMIT, "decoding takes longer than its deadline");
    int ret = take_packet(s);
    if (ret == AVERROR_EXIT)
        return hr_fail(err, HR_E_LIMIT, "reading takes longer than its deadline");
    if (ret < 0 && ret != AVERROR_EOF)
        return av_fail(err, HR_E_DECODE, ret, "a packet cannot be read");
    if (ret == AVERROR_EOF) {
        s->draining = true;
        hr_av.avcodec_send_packet(s->codec, NULL);
        return 0;
    }
    if (++s->packets > s->packet_limit) {
        hr_av.av_packet_unref(s->packet);
        return hr_fail(err, HR_E_LIMIT, "the stream has more packets than bytes");
    }
    if (s->packets == 1)
        s->mid_stream = s->codec->codec_type == AVMEDIA_TYPE_VIDEO &&
                        (s->container == HR_MEDIA_MPEGTS || s->container == HR_MEDIA_OTHER_AV) &&
                        !(s->packet->flags & AV_PKT_FLAG_KEY);
    ret = hr_av.avcodec_send_packet(s->codec, s->packet);
    hr_av.av_packet_unref(s->packet);
    if (ret >= 0 || ret == AVERROR(EAGAIN) || (s->mid_stream && s->frames == 0))
        return 0;
    return damaged(s, ret, err);
}

/* 1 good, 0 to be skipped, negative: damage. */
static int judge_frame(struct hr_av_source *s, struct hr_error *err)
{
    bool bad = (s->frame->flags & AV_FRAME_FLAG_CORRUPT) || s->frame->decode_error_flags;

    if (bad && s->mid_stream && s->frames == 0)
        return 0;
    if (bad)
        return hr_fail(err, HR_E_DECODE, "frame %" PRIu64 " is damaged%s%s", s->frames,
                       hr_av_message()[0] ? ": " : "", hr_av_message());
    if (++s->frames > HR_AV_MAX_FRAMES)
        return hr_fail(err, HR_E_LIMIT, "the stream has more than %d frames", HR_AV_MAX_FRAMES);
    return 1;
}

int hr_av_next(struct hr_av_source *s, struct hr_error *err)
{
    for (;;) {
        int ret = hr_av.avcodec_receive_frame(s->codec, s->frame);
        if (ret == AVERROR_EOF)
            return 0;
        if (ret == AVERROR(EAGAIN)) {
            if (s->draining)
                return 0;
            ret = send_next(s, err);
            if (ret < 0)
                return ret;
        } else if (ret < 0) {
            if (!(s->mid_stream && s->frames == 0))
                return damaged(s, ret, err);
        } else {
            ret = judge_frame(s, err);
            if (ret)
                return ret;
        }
    }
}

unsigned hr_av_rotation(const AVStream *stream)
{
    const int32_t *matrix = NULL;

#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
    const AVPacketSideData *data =
        hr_av.av_packet_side_data_get(stream->codecpar->coded_side_data,
                                stream->codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    if (data && data->size >= 36)
        matrix = (const int32_t *)data->data;
#else
    size_t bytes = 0;
    const uint8_t *data = hr_av.av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &bytes);
    if (data && bytes >= 36)
        matrix = (const int32_t *)data;
#endif
    if (!matrix)
        return 0;
    double turn = -hr_av.av_display_rotation_get(matrix);
    if (isnan(turn))
        return 0;
    int quarter = (int)lround(turn / 90);
    return fabs(turn - quarter * 90) > 1 ? 0 : (unsigned)(quarter & 3) * 90;
}
