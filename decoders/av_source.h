/* A media file in memory, opened through FFmpeg: demuxing and decoding of one of its streams, one
 * frame after the other in the order of presentation. No other byte than the given ones is ever
 * read: protocols are off, demuxers that open further files are not on the list. Work is bounded by
 * a packet count and a deadline that grow with the size of the value. One thread at a time. */
#ifndef HR_DECODERS_AV_SOURCE_H
#define HR_DECODERS_AV_SOURCE_H

#include "base/types.h"
#include "decoders/av_api.h"

struct hr_av_index;

struct hr_av_source {
    /* kept between values */
    AVPacket *packet;
    AVFrame *frame; /* the frame that hr_av_next gave */
    /* of the open value */
    const uint8_t *bytes;
    size_t count, pos;
    enum hr_media_format container;
    AVFormatContext *format;
    AVIOContext *io;
    AVStream *stream;
    AVCodecContext *codec;
    uint64_t deadline_ns, packets, packet_limit, frames;
    struct hr_av_index *queue; /* packets read ahead; NULL = from the demuxer */
    uint32_t queue_at;
    bool probed;     /* opened without `quick`, or where that does not apply */
    bool draining;   /* every packet was sent */
    bool held;       /* packet was taken and not yet sent */
    bool mid_stream; /* began without a keyframe: what cannot be decoded before one is skipped */
};

/* Starts as all zero. */
void hr_av_source_finish(struct hr_av_source *source);

/* Opens the best stream of that type (VIDEO or AUDIO; attached pictures do not count) and its
 * decoder. skip_manual: the decoder leaves priming and padding in. for_count: pictures need not be
 * right, only their number. HR_E_MISSING when there is no such stream. */
struct hr_av_open {
    enum hr_media_format container;
    enum hr_field_type type;
    bool for_count;
    bool quick; /* MP4, Matroska: no frames are decoded to find out what the header leaves open */
};
int hr_av_open(struct hr_av_source *source, const struct hr_av_open *how, const uint8_t *bytes,
               size_t count, struct hr_error *err) HR_MUST_CHECK;
void hr_av_close(struct hr_av_source *source); /* what is not open is fine */

/* 1: source->frame holds the next frame, valid until the next call. 0: the end. Negative: damage
 * (HR_E_DECODE, HR_E_TRUNCATED) or a limit. */
int hr_av_next(struct hr_av_source *source, struct hr_error *err) HR_MUST_CHECK;

/* Passes by packets that end at most that many samples further on, where that changes nothing of what
 * comes after: FLAC, whose frames know nothing of each other. How many samples were passed by. */
uint64_t hr_av_pass_by(struct hr_av_source *source, uint64_t samples);

/* Is there a stream of that type in the open file? Its parameters, or NULL. */
const AVCodecParameters *hr_av_find(const struct hr_av_source *source, enum hr_field_type type);

/* Clockwise turn in degrees (0, 90, 180, 270) that shows the stream upright. */
unsigned hr_av_rotation(const AVStream *stream);

enum { HR_AV_MAX_CHANNELS = 64, HR_AV_MAX_FRAMES = 50000000 };

#endif
