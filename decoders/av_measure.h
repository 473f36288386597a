/* Facts of audio and video values, exact: everything is decoded once. */
#ifndef HR_DECODERS_AV_MEASURE_H
#define HR_DECODERS_AV_MEASURE_H

#include "base/err.h"
#include "base/types.h"

/* facts->format says the container. A file with moving pictures is a video: frames > 0, and
 * sample_rate and channels are those of its soundtrack (0 = silent). Otherwise it is audio: frames
 * is 0. wanted: as in hr_media_measure. */
int hr_av_measure(const uint8_t *bytes, size_t count, enum hr_field_type wanted, bool verify,
                  struct hr_facts *facts, struct hr_error *err) HR_MUST_CHECK;

/* Seconds since the stream's origin at which the frame is shown, by the rules of docs/audio-video.md.
 * The clock is zeroed for each stream. */
struct AVFrame;
struct AVStream;
struct hr_frame_clock {
    double step;     /* of the last frame, seconds */
    double next;     /* where the next one is expected */
    bool started;
};
double hr_frame_time(struct hr_frame_clock *clock, const struct AVFrame *frame,
                     const struct AVStream *stream);

#endif
