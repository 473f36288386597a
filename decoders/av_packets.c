/* Headers of H.264 (ISO/IEC 14496-10, 7.3.2.1 and 7.4.1; 14496-15 for avcC) and VP8 (RFC 6386, 9.1),
 * as far as they say how many frames a packet makes. Whatever is not plainly one is "no". */
#include "decoders/av_packets.h"

/* ---- bits of an SPS ---- */

struct bits {
    uint8_t bytes[128]; /* without emulation prevention */
    uint32_t count, at; /* in bits */
    bool bad;           /* read past the end */
};

static void bits_init(struct bits *bits, const uint8_t *b, size_t n)
{
    size_t zeros = 0, kept = 0;

    for (size_t i = 0; i < n && kept < sizeof(bits->bytes); i++) {
        bool escape = zeros >= 2 && b[i] == 3;
        zeros = b[i] == 0 ? zeros + 1 : 0;
        if (!escape)
            bits->bytes[kept++] = b[i];
    }
    bits->count = (uint32_t)kept * 8;
    bits->at = 0;
    bits->bad = false;
}

static uint32_t read_bits(struct bits *bits, unsigned n)
{
    uint32_t v = 0;

    for (; n > 0; n--, bits->at++) {
        bits->bad = bits->bad || bits->at >= bits->count;
        if (!bits->bad)
            v = v << 1 | (bits->bytes[bits->at / 8] >> (7 - bits->at % 8) & 1);
    }
    return v;
}

static uint32_t read_golomb(struct bits *bits)
{
    unsigned zeros = 0;

    while (!bits->bad && zeros < 32 && read_bits(bits, 1) == 0)
        zeros++;
    bits->bad = bits->bad || zeros >= 32;
    return bits->bad ? 0 : (1u << zeros) - 1 + read_bits(bits, zeros);
}

/* ---- H.264 ---- */

static bool has_chroma_format(uint32_t profile)
{
    static const uint8_t profiles[] = {44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244};

    for (size_t i = 0; i < HR_ARRAY_SIZE(profiles); i++)
        if (profiles[i] == profile)
            return true;
    return false;
}

/* False also for scaling matrices and separate colour planes: rare, and not worth reading on. */
static bool skip_chroma_format(struct bits *bits)
{
    uint32_t format = read_golomb(bits);

    if (format == 3 && read_bits(bits, 1))
        return false;
    read_golomb(bits); /* bit depths */
    read_golomb(bits);
    read_bits(bits, 1); /* lossless */
    return read_bits(bits, 1) == 0;
}

static void skip_picture_order(struct bits *bits)
{
    uint32_t type = read_golomb(bits);

    if (type == 0)
        read_golomb(bits);
    if (type != 1)
        return;
    read_bits(bits, 1);
    read_golomb(bits);
    read_golomb(bits);
    for (uint32_t n = read_golomb(bits); n > 0 && !bits->bad; n--)
        read_golomb(bits);
}

/* Frames only, numbered without gaps. */
static bool sps_is_plain(const uint8_t *b, size_t n)
{
    struct bits bits;

    if (n < 4 || (b[0] & 31) != 7)
        return false;
    bits_init(&bits, b + 4, n - 4);
    read_golomb(&bits); /* id */
    if (has_chroma_format(b[1]) && !skip_chroma_format(&bits))
        return false;
    read_golomb(&bits); /* bits of frame_num */
    skip_picture_order(&bits);
    read_golomb(&bits); /* reference frames */
    bool gaps = read_bits(&bits, 1);
    read_golomb(&bits); /* width, height */
    read_golomb(&bits);
    bool frames_only = read_bits(&bits, 1);
    return !bits.bad && frames_only && !gaps;
}

static bool config_is_plain(const AVCodecContext *codec)
{
    const uint8_t *b = codec->extradata;
    size_t n = codec->extradata_size > 0 ? (size_t)codec->extradata_size : 0;

    if (n < 8 || b[0] != 1 || (b[5] & 31) != 1)
        return false;
    size_t bytes = (size_t)b[6] << 8 | b[7];
    return bytes <= n - 8 && sps_is_plain(b + 8, bytes);
}

/* One NAL unit: 1 begins a picture, 0 belongs to one, -1 is of a kind that may change the count. */
static int judge_unit(const uint8_t *b, size_t n, bool *idr)
{
    enum { SLICE = 1, IDR = 5, SEI = 6, PPS = 8, DELIMITER = 9, FILLER = 12 };
    unsigned type = n > 0 ? b[0] & 31 : 0;

    *idr = *idr || type == IDR;
    if (type == SLICE || type == IDR)
        return n > 1 ? b[1] >> 7 : -1; /* first macroblock 0 is the single bit 1 */
    return type == SEI || type == PPS || type == DELIMITER || type == FILLER ? 0 : -1;
}

static bool is_one_picture(const AVPacket *packet, unsigned length_bytes, bool *idr)
{
    const uint8_t *b = packet->data;
    size_t n = (size_t)packet->size, at = 0;
    int pictures = 0;

    *idr = false;
    while (at < n) {
        size_t unit = 0;
        if (n - at <= length_bytes)
            return false;
        for (unsigned i = 0; i < length_bytes; i++)
            unit = unit << 8 | b[at++];
        int begins = unit <= n - at ? judge_unit(b + at, unit, idr) : -1;
        if (begins < 0)
            return false;
        pictures += begins;
        at += unit;
    }
    return pictures == 1;
}

/* The decoder must know how far frames are out of order: where it has to guess it may drop some. */
static bool h264(const struct hr_av_source *source, const struct hr_av_index *index)
{
    const AVCodecContext *codec = source->codec;
    bool idr, first_idr = false;

    if (!config_is_plain(codec) || hr_av_index_reorder(index) > codec->has_b_frames)
        return false;
    for (uint32_t i = 0; i < index->packet_count; i++) {
        if (!is_one_picture(index->packets[i], (codec->extradata[4] & 3u) + 1, &idr))
            return false;
        first_idr = i == 0 ? idr : first_idr;
    }
    return first_idr;
}

/* ---- VP8 ---- */

static bool vp8(const struct hr_av_source *source, const struct hr_av_index *index)
{
    enum { INTER = 1, SHOWN = 0x10, KEY_HEADER = 10 };

    for (uint32_t i = 0; i < index->packet_count; i++) {
        const AVPacket *packet = index->packets[i];
        const uint8_t *b = packet->data;
        if (packet->size < KEY_HEADER || !(b[0] & SHOWN))
            return false;
        if (b[0] & INTER) {
            if (i == 0)
                return false;
        } else if ((hr_load_le16(b + 6) & 0x3fff) != source->codec->width ||
                   (hr_load_le16(b + 8) & 0x3fff) != source->codec->height) {
            return false;
        }
    }
    return true;
}

bool hr_av_packets_may_be_frames(const struct hr_av_source *source)
{
    enum AVCodecID id = source->codec->codec_id;

    return hr_av_index_fits(source) && (id == AV_CODEC_ID_H264 || id == AV_CODEC_ID_VP8);
}

bool hr_av_packets_are_frames(const struct hr_av_source *source, const struct hr_av_index *index)
{
    for (uint32_t i = 0; i < index->packet_count; i++)
        if (index->packets[i]->flags & (AV_PKT_FLAG_DISCARD | AV_PKT_FLAG_CORRUPT))
            return false;
    if (source->codec->codec_id == AV_CODEC_ID_H264)
        return h264(source, index);
    return source->codec->codec_id == AV_CODEC_ID_VP8 && vp8(source, index);
}
