/* Packets read ahead: their order of presentation and the points where decoding can begin with
 * the same result as from the start. */
#include "decoders/av_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Larger values are decoded from the start, packet by packet. */
enum { MAX_VALUE_BYTES = 256 << 20, FIRST_ROOM = 512 };

void hr_av_index_finish(struct hr_av_index *index)
{
    for (uint32_t i = 0; i < index->room; i++)
        hr_av.av_packet_free(&index->packets[i]);
    hr_free(index->packets);
    hr_free(index->wanted);
    hr_free(index->shown);
    *index = (struct hr_av_index){0};
}

static int grow(struct hr_av_index *index)
{
    uint32_t room = index->room ? index->room * 2 : FIRST_ROOM;
    int depth = hr_mem_steady_pause();
    AVPacket **packets = hr_realloc(index->packets, room, sizeof(*packets));
    uint8_t *wanted = hr_realloc(index->wanted, room, sizeof(*wanted));
    struct hr_av_entry *shown = hr_realloc(index->shown, room, sizeof(*shown));

    hr_mem_steady_resume(depth);
    index->packets = packets ? packets : index->packets;
    index->wanted = wanted ? wanted : index->wanted;
    index->shown = shown ? shown : index->shown;
    if (!packets || !wanted || !shown)
        return HR_E_NOMEM;
    for (; index->room < room; index->room++)
        if (!(index->packets[index->room] = hr_av.av_packet_alloc()))
            return HR_E_NOMEM;
    return 0;
}

void hr_av_index_drop(struct hr_av_index *index)
{
    for (uint32_t i = 0; i < index->packet_count; i++)
        hr_av.av_packet_unref(index->packets[i]);
    index->packet_count = index->shown_count = 0;
}

static int by_pts(const void *a, const void *b)
{
    int64_t x = ((const struct hr_av_entry *)a)->pts, y = ((const struct hr_av_entry *)b)->pts;
    return x < y ? -1 : x > y;
}

bool hr_av_index_fits(const struct hr_av_source *source)
{
    switch (source->codec->codec_id) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_MPEG4:
        break;
    default:
        return false;
    }
    return source->count <= MAX_VALUE_BYTES &&
           (source->container == HR_MEDIA_MP4 || source->container == HR_MEDIA_MATROSKA);
}

static bool all_different(const struct hr_av_index *index)
{
    for (uint32_t i = 1; i < index->shown_count; i++)
        if (index->shown[i].pts == index->shown[i - 1].pts)
            return false;
    return true;
}

int hr_av_index_read(struct hr_av_index *index, struct hr_av_source *source, uint32_t frames,
                     struct hr_error *err)
{
    bool ordered = true;
    int ret;

    hr_av_index_drop(index);
    for (;;) {
        if (index->packet_count == index->room && grow(index) < 0)
            return hr_fail(err, HR_E_NOMEM, "no memory for packets");
        AVPacket *packet = index->packets[index->packet_count];
        ret = hr_av.av_read_frame(source->format, packet);
        if (ret < 0)
            break;
        if (packet->stream_index != source->stream->index || packet->size == 0) {
            hr_av.av_packet_unref(packet);
            continue;
        }
        ordered = ordered && packet->pts != AV_NOPTS_VALUE;
        if (!(packet->flags & AV_PKT_FLAG_DISCARD))
            index->shown[index->shown_count++] =
                (struct hr_av_entry){packet->pts, index->packet_count};
        index->packet_count++;
        if (index->packet_count > source->packet_limit)
            break;
    }
    if (ret != AVERROR_EOF || !ordered || index->shown_count == 0 ||
        (frames && index->shown_count != frames))
        return 0;
    qsort(index->shown, index->shown_count, sizeof(*index->shown), by_pts);
    memset(index->wanted, 0, index->packet_count);
    index->first_wanted = UINT32_MAX;
    index->first_pts = INT64_MAX;
    return all_different(index);
}

void hr_av_index_want(struct hr_av_index *index, uint32_t shown_idx)
{
    const struct hr_av_entry *entry = &index->shown[shown_idx];

    index->wanted[entry->packet] = 1;
    if (entry->packet < index->first_wanted)
        index->first_wanted = entry->packet;
    if (entry->pts < index->first_pts)
        index->first_pts = entry->pts;
}

/* Is there an IDR picture in this H.264 packet? A recovery point alone will not do: pictures after
 * it may refer to pictures before it. */
static bool has_idr(const AVCodecContext *codec, const AVPacket *packet)
{
    const uint8_t *b = packet->data;
    size_t n = (size_t)packet->size, at = 0;

    if (codec->extradata_size < 7 || codec->extradata[0] != 1)
        return false;
    unsigned length_bytes = (codec->extradata[4] & 3u) + 1;
    while (n - at > length_bytes) {
        size_t unit = 0;
        for (unsigned i = 0; i < length_bytes; i++)
            unit = unit << 8 | b[at++];
        if (unit == 0 || unit > n - at)
            return false;
        if ((b[at] & 31) == 5)
            return true;
        at += unit;
    }
    return false;
}

/* Decoding from here gives every frame that is shown from here on. */
static bool can_begin(const AVCodecContext *codec, const AVPacket *packet)
{
    if (!(packet->flags & AV_PKT_FLAG_KEY))
        return false;
    return codec->codec_id != AV_CODEC_ID_H264 || has_idr(codec, packet);
}

/* Known exactly here, where a decoder would have to guess. */
int hr_av_index_reorder(const struct hr_av_index *index)
{
    enum { WINDOW = 32 };
    int depth = 0;

    for (uint32_t i = 0; i < index->packet_count; i++) {
        int later = 0;
        for (uint32_t j = i > WINDOW ? i - WINDOW : 0; j < i; j++)
            later += index->packets[j]->pts > index->packets[i]->pts;
        depth = later > depth ? later : depth;
    }
    return depth < 16 ? depth : 16;
}

void hr_av_index_start(struct hr_av_index *index, struct hr_av_source *source, bool tell_order)
{
    uint32_t begin = 0;

    for (uint32_t i = index->first_wanted; i > 0 && begin == 0; i--)
        if (i < index->packet_count && index->packets[i]->pts <= index->first_pts &&
            can_begin(source->codec, index->packets[i]))
            begin = i;
    int depth = tell_order && source->codec->codec_id == AV_CODEC_ID_H264 ? hr_av_index_reorder(index) : 0;
    if (source->codec->has_b_frames < depth)
        source->codec->has_b_frames = depth;
    source->queue = index;
    source->queue_at = begin;
}

int64_t hr_av_index_place(const struct hr_av_index *index, const AVFrame *frame)
{
    const struct hr_av_entry key = {.pts = frame->pts};
    const struct hr_av_entry *found =
        bsearch(&key, index->shown, index->shown_count, sizeof(key), by_pts);

    return found ? found - index->shown : -1;
}
