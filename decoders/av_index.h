/* The packets of an open video stream, read ahead, with their places in the presentation: where
 * decoding may begin for the wanted frames, and which packets nobody needs. Only for streams whose
 * packets and frames correspond one to one; all others are decoded from the start. */
#ifndef HR_DECODERS_AV_INDEX_H
#define HR_DECODERS_AV_INDEX_H

#include "decoders/av_source.h"

struct hr_av_entry {
    int64_t pts;
    uint32_t packet; /* in decode order */
};

struct hr_av_index {
    AVPacket **packets; /* slots are kept between values */
    uint8_t *wanted;    /* by packet */
    struct hr_av_entry *shown; /* in order of presentation */
    uint32_t packet_count, shown_count, room;
    uint32_t first_wanted; /* earliest packet that is wanted */
    int64_t first_pts;     /* of the wanted frames */
};

void hr_av_index_finish(struct hr_av_index *index);
void hr_av_index_drop(struct hr_av_index *index); /* lets the packets go */

/* Is it a container and codec for which this is worth trying? */
bool hr_av_index_fits(const struct hr_av_source *source);
/* Reads all packets of the source. 1: index->shown is the presentation, frames long (0: of any
 * length). 0: the stream is of another kind; the source has to be opened again. */
int hr_av_index_read(struct hr_av_index *index, struct hr_av_source *source, uint32_t frames,
                     struct hr_error *err) HR_MUST_CHECK;
/* Frames that a decoder has to hold back: the largest number of packets before one that are shown
 * after it. */
int hr_av_index_reorder(const struct hr_av_index *index);
void hr_av_index_want(struct hr_av_index *index, uint32_t shown_idx);
/* After all wants: lets the source decode from the right packet on. tell_order: the decoder is told
 * how far frames are out of order, where its stream does not say. */
void hr_av_index_start(struct hr_av_index *index, struct hr_av_source *source, bool tell_order);
/* Place of a frame in the presentation, -1 when it is none of them. */
int64_t hr_av_index_place(const struct hr_av_index *index, const AVFrame *frame);

#endif
