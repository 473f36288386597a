/* Audio and video containers seen from outside, without a demuxer: which one it is, and whether all
 * of it is there. Demuxers read a cut file up to the cut without a word, so the extents that the
 * container itself states are checked here. */
#ifndef HR_DECODERS_AV_CONTAINER_H
#define HR_DECODERS_AV_CONTAINER_H

#include "base/err.h"
#include "base/types.h"

/* From the first bytes of a value; UNKNOWN when it is none of the containers that are read. */
enum hr_media_format hr_av_sniff(const uint8_t *bytes, size_t count);

/* HR_E_TRUNCATED when the container says that it is longer than count bytes (a box, page, frame or
 * segment that ends past the end, an index or an end mark that is missing). 0 does not prove that
 * it is whole: docs/audio-video.md lists what each container can tell. WAV has its own reader. */
int hr_av_check_complete(enum hr_media_format format, const uint8_t *bytes, size_t count,
                         struct hr_error *err) HR_MUST_CHECK;

/* Granule position on the last page of the Ogg stream that begins the value, -1 when there is none. */
int64_t hr_ogg_last_granule(const uint8_t *bytes, size_t count);

#endif
