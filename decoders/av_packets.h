/* Whether the packets of a video stream are its frames, told from their headers alone: then measuring
 * counts without decoding. */
#ifndef HR_DECODERS_AV_PACKETS_H
#define HR_DECODERS_AV_PACKETS_H

#include "decoders/av_index.h"

/* Is it a container and codec for which that can be told? */
bool hr_av_packets_may_be_frames(const struct hr_av_source *source);
/* True only when a decoder is bound to give one frame a packet, all of the size of the first: H.264
 * in avcC form with one SPS that allows neither fields nor gaps in frame numbers, every packet one
 * whole picture, beginning with an IDR picture; VP8 whose packets are all shown. The packets of the
 * open source lie in the index, in decode order. */
bool hr_av_packets_are_frames(const struct hr_av_source *source, const struct hr_av_index *index);

#endif
