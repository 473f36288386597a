/* Clips of moving shapes, written through libavformat into memory. One thread and the bit-exact flags,
 * so that a seed gives the same file again. */
#include "tools/synth/synth.h"

#include <string.h>

#include "base/mem.h"
#include "decoders/av_api.h"

enum { QUALITY = 4, GOP = 24 };

struct encoder {
    AVFormatContext *format;
    AVCodecContext *codec;
    AVStream *stream;
    AVFrame *frame;
    AVPacket *packet;
    bool open; /* format->pb is a buffer of libavformat's */
};

static int av_failed(struct hr_error *err, int ret, const char *what)
{
    char text[AV_ERROR_MAX_STRING_SIZE];

    hr_av.av_strerror(ret, text, sizeof(text));
    return hr_fail(err, HR_E_UNSUPPORTED, "cannot make a clip: %s: %s", what, text);
}

static int open_codec(struct encoder *e, int w, int h, int fps)
{
    const AVCodec *codec = hr_av.avcodec_find_encoder(AV_CODEC_ID_MPEG4);

    if (!codec)
        return AVERROR_ENCODER_NOT_FOUND;
    e->codec = hr_av.avcodec_alloc_context3(codec);
    if (!e->codec)
        return AVERROR(ENOMEM);
    e->codec->width = w;
    e->codec->height = h;
    e->codec->pix_fmt = AV_PIX_FMT_YUV420P;
    e->codec->time_base = (AVRational){1, fps};
    e->codec->framerate = (AVRational){fps, 1};
    e->codec->gop_size = GOP;
    e->codec->thread_count = 1;
    e->codec->global_quality = QUALITY * FF_QP2LAMBDA;
    e->codec->flags |= AV_CODEC_FLAG_QSCALE | AV_CODEC_FLAG_BITEXACT | AV_CODEC_FLAG_GLOBAL_HEADER;
    return hr_av.avcodec_open2(e->codec, codec, NULL);
}

static int open_format(struct encoder *e, int fps)
{
    int ret = hr_av.avformat_alloc_output_context2(&e->format, NULL, "mp4", NULL);

    if (ret < 0)
        return ret;
    e->format->flags |= AVFMT_FLAG_BITEXACT;
    e->stream = hr_av.avformat_new_stream(e->format, NULL);
    if (!e->stream)
        return AVERROR(ENOMEM);
    e->stream->time_base = (AVRational){1, fps};
    e->stream->avg_frame_rate = (AVRational){fps, 1};
    ret = hr_av.avcodec_parameters_from_context(e->stream->codecpar, e->codec);
    if (ret < 0)
        return ret;
    ret = hr_av.avio_open_dyn_buf(&e->format->pb);
    if (ret < 0)
        return ret;
    e->open = true;
    return hr_av.avformat_write_header(e->format, NULL);
}

static int open_frame(struct encoder *e)
{
    e->frame = hr_av.av_frame_alloc();
    e->packet = hr_av.av_packet_alloc();
    if (!e->frame || !e->packet)
        return AVERROR(ENOMEM);
    e->frame->format = AV_PIX_FMT_YUV420P;
    e->frame->width = e->codec->width;
    e->frame->height = e->codec->height;
    return hr_av.av_frame_get_buffer(e->frame, 0);
}

/* BT.601, limited range; colour is that of the upper left pixel of four. */
static void to_yuv(const uint8_t *rgb, AVFrame *frame)
{
    int w = frame->width, h = frame->height;

    for (int y = 0; y < h; y++) {
        uint8_t *luma = frame->data[0] + (ptrdiff_t)y * frame->linesize[0];
        uint8_t *u = frame->data[1] + (ptrdiff_t)(y / 2) * frame->linesize[1];
        uint8_t *v = frame->data[2] + (ptrdiff_t)(y / 2) * frame->linesize[2];
        for (int x = 0; x < w; x++, rgb += 3) {
            int r = rgb[0], g = rgb[1], b = rgb[2];
            luma[x] = (uint8_t)(((66 * r + 129 * g + 25 * b + 128) >> 8) + 16);
            if (x % 2 || y % 2)
                continue;
            u[x / 2] = (uint8_t)(((-38 * r - 74 * g + 112 * b + 128) >> 8) + 128);
            v[x / 2] = (uint8_t)(((112 * r - 94 * g - 18 * b + 128) >> 8) + 128);
        }
    }
}

static int write_packets(struct encoder *e)
{
    int ret;

    while ((ret = hr_av.avcodec_receive_packet(e->codec, e->packet)) == 0) {
        hr_av.av_packet_rescale_ts(e->packet, e->codec->time_base, e->stream->time_base);
        e->packet->stream_index = e->stream->index;
        if (!e->packet->duration)
            e->packet->duration = hr_av.av_rescale_q(1, e->codec->time_base, e->stream->time_base);
        ret = hr_av.av_interleaved_write_frame(e->format, e->packet);
        if (ret < 0)
            return ret;
    }
    return ret == AVERROR(EAGAIN) || ret == AVERROR_EOF ? 0 : ret;
}

static int encode(struct encoder *e, const struct hr_synth_scene *scene, int frames, int fps,
                  const uint8_t *ground, uint8_t *rgb)
{
    int w = e->codec->width, h = e->codec->height, ret = 0;

    for (int i = 0; i < frames && ret >= 0; i++) {
        memcpy(rgb, ground, (size_t)w * (size_t)h * 3);
        hr_synth_render_things(scene, w, h, (double)i / fps, rgb);
        ret = hr_av.av_frame_make_writable(e->frame);
        if (ret < 0)
            return ret;
        to_yuv(rgb, e->frame);
        e->frame->pts = i;
        ret = hr_av.avcodec_send_frame(e->codec, e->frame);
        if (ret >= 0)
            ret = write_packets(e);
    }
    if (ret >= 0)
        ret = hr_av.avcodec_send_frame(e->codec, NULL);
    if (ret >= 0)
        ret = write_packets(e);
    return ret >= 0 ? hr_av.av_write_trailer(e->format) : ret;
}

static void close_encoder(struct encoder *e, struct hr_buf *out)
{
    if (e->open) {
        uint8_t *data = NULL;
        int bytes = hr_av.avio_close_dyn_buf(e->format->pb, &data);
        e->format->pb = NULL;
        if (out)
            hr_buf_add(out, data, (size_t)bytes);
        hr_av.av_freep(&data);
    }
    hr_av.avcodec_free_context(&e->codec);
    hr_av.avformat_free_context(e->format);
    hr_av.av_frame_free(&e->frame);
    hr_av.av_packet_free(&e->packet);
}

int hr_synth_clip(const struct hr_synth_scene *scene, int w, int h, int frames, int fps,
                  struct hr_buf *out, struct hr_error *err)
{
    struct encoder e = {0};
    size_t bytes = (size_t)w * (size_t)h * 3;

    if (hr_av_load(err) < 0)
        return HR_E_UNSUPPORTED;
    uint8_t *ground = hr_alloc(bytes), *rgb = hr_alloc(bytes);
    int ret = ground && rgb ? 0 : AVERROR(ENOMEM);

    if (ret >= 0)
        ret = open_codec(&e, w, h, fps);
    if (ret >= 0)
        ret = open_format(&e, fps);
    if (ret >= 0)
        ret = open_frame(&e);
    if (ret >= 0) {
        hr_synth_render_ground(scene, w, h, ground);
        ret = encode(&e, scene, frames, fps, ground, rgb);
    }
    close_encoder(&e, ret >= 0 ? out : NULL);
    hr_free(ground);
    hr_free(rgb);
    if (ret < 0)
        return av_failed(err, ret, "MPEG-4 in mp4");
    return hr_buf_failed(out) ? hr_fail(err, HR_E_NOMEM, "out of memory") : 0;
}
