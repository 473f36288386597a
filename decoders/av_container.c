/* Sniffing of audio and video containers and their own statements of length. Every walk moves on by
 * at least one byte and reads nothing past the end. */
#include "decoders/av_container.h"

#include <inttypes.h>
#include <string.h>

static uint32_t load_be32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint64_t load_be64(const uint8_t *b)
{
    return (uint64_t)load_be32(b) << 32 | load_be32(b + 4);
}

static int cut(struct hr_error *err, const char *what, uint64_t missing)
{
    return hr_fail(err, HR_E_TRUNCATED, "%s ends %" PRIu64 " bytes past the end of the value", what,
                   missing);
}

/* ---- MPEG audio frames and ID3 tags ---- */

/* Bytes of an ID3v2 tag at the start, 0 when there is none. */
static size_t id3_bytes(const uint8_t *b, size_t n)
{
    if (n < 10 || memcmp(b, "ID3", 3) != 0 || ((b[6] | b[7] | b[8] | b[9]) & 0x80))
        return 0;
    size_t size = (size_t)b[6] << 21 | (size_t)b[7] << 14 | (size_t)b[8] << 7 | b[9];
    return 10 + size + (b[5] & 0x10 ? 10 : 0);
}

/* Length of the MPEG audio frame whose header is at b (4 bytes); 0 when it is none. */
static size_t mpeg_frame_bytes(const uint8_t *b)
{
    static const uint16_t kbit[5][15] = {
        {0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448}, /* 1, layer I */
        {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},    /* 1, layer II */
        {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},     /* 1, layer III */
        {0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},    /* 2, layer I */
        {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},         /* 2, II and III */
    };
    static const uint32_t rates[3] = {44100, 48000, 32000};
    unsigned version = b[1] >> 3 & 3, layer = 4 - (b[1] >> 1 & 3); /* version 3 = 1, 2 = 2, 0 = 2.5 */
    unsigned bitrate = b[2] >> 4, rate = b[2] >> 2 & 3, padding = b[2] >> 1 & 1;

    if (b[0] != 0xff || (b[1] & 0xe0) != 0xe0 || version == 1 || layer == 4 || bitrate == 0 ||
        bitrate == 15 || rate == 3)
        return 0;
    uint32_t hz = rates[rate] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
    unsigned row = version == 3 ? layer - 1 : layer == 1 ? 3 : 4;
    uint32_t bits = kbit[row][bitrate] * 1000u;
    if (layer == 1)
        return (12 * bits / hz + padding) * 4;
    return (layer == 3 && version != 3 ? 72 : 144) * bits / hz + padding;
}

/* Length of the ADTS frame at b (7 bytes); 0 when it is none. */
static size_t adts_frame_bytes(const uint8_t *b)
{
    if (b[0] != 0xff || (b[1] & 0xf6) != 0xf0 || (b[2] >> 2 & 15) > 12)
        return 0;
    size_t bytes = (size_t)(b[3] & 3) << 11 | (size_t)b[4] << 3 | b[5] >> 5;
    return bytes >= 7 ? bytes : 0;
}

static bool followed_by(const uint8_t *b, size_t n, size_t at, size_t header,
                        size_t (*frame_bytes)(const uint8_t *))
{
    return at == n || (at < n && n - at < header) || (at < n && frame_bytes(b + at) != 0) || at > n;
}

/* Two frames in a row, as far as the bytes given reach. */
static enum hr_media_format sniff_frames(const uint8_t *b, size_t n)
{
    if (n >= 7 && adts_frame_bytes(b) &&
        followed_by(b, n, adts_frame_bytes(b), 7, adts_frame_bytes))
        return HR_MEDIA_ADTS;
    if (n >= 4 && mpeg_frame_bytes(b) &&
        followed_by(b, n, mpeg_frame_bytes(b), 4, mpeg_frame_bytes))
        return HR_MEDIA_MP3;
    return HR_MEDIA_UNKNOWN;
}

/* The samples' frames that the Xing or Info tag of the first frame promises; 0 = no tag. */
static uint32_t xing_frames(const uint8_t *b, size_t n)
{
    static const uint8_t side[2][2] = {{32, 17}, {17, 9}}; /* [version 2][mono] */
    size_t at = 4 + side[(b[1] >> 3 & 3) != 3][b[3] >> 6 == 3];

    if (n < at + 12 || (memcmp(b + at, "Xing", 4) != 0 && memcmp(b + at, "Info", 4) != 0))
        return 0;
    return load_be32(b + at + 4) & 1 ? load_be32(b + at + 8) : 0;
}

static int check_mp3(const uint8_t *b, size_t n, struct hr_error *err)
{
    size_t at = 0, step, frames = 0;
    uint32_t promised = 0;

    while (at < n && (step = id3_bytes(b + at, n - at)) != 0)
        at = step > n - at ? n : at + step;
    if (at >= n)
        return hr_fail(err, HR_E_TRUNCATED, "the value ends inside or right after its ID3 tag");
    while (n - at >= 4 && (step = mpeg_frame_bytes(b + at)) != 0) {
        if (step > n - at)
            return cut(err, "the last MPEG audio frame", step - (n - at));
        if (frames == 0 && (promised = xing_frames(b + at, n - at)) != 0)
            frames--; /* the tag's own frame carries no sound */
        at += step;
        frames++;
    }
    if (promised && frames < promised)
        return hr_fail(err, HR_E_TRUNCATED, "the tag promises %" PRIu32 " frames, %zu are there",
                       promised, frames);
    return 0;
}

static int check_adts(const uint8_t *b, size_t n, struct hr_error *err)
{
    size_t at = id3_bytes(b, n), step;

    while (at < n && n - at >= 7 && (step = adts_frame_bytes(b + at)) != 0) {
        if (step > n - at)
            return cut(err, "the last ADTS frame", step - (n - at));
        at += step;
    }
    if (at < n && n - at < 7 && b[at] == 0xff)
        return hr_fail(err, HR_E_TRUNCATED, "the value ends inside an ADTS header");
    return 0;
}

static int check_amr(const uint8_t *b, size_t n, struct hr_error *err)
{
    static const uint8_t narrow[16] = {13, 14, 16, 18, 20, 21, 27, 32, 6, 1, 1, 1, 1, 1, 1, 1};
    static const uint8_t wide[16] = {18, 24, 33, 37, 41, 47, 51, 59, 61, 6, 1, 1, 1, 1, 1, 1};
    bool is_wide = n >= 9 && memcmp(b, "#!AMR-WB\n", 9) == 0;
    size_t at = is_wide ? 9 : 6;

    while (at < n) {
        size_t step = (is_wide ? wide : narrow)[b[at] >> 3 & 15];
        if (step > n - at)
            return cut(err, "the last AMR frame", step - (n - at));
        at += step;
    }
    return 0;
}

/* ---- containers ---- */

static int check_mp4(const uint8_t *b, size_t n, struct hr_error *err)
{
    size_t at = 0;
    bool index = false;

    while (n - at >= 8) {
        uint64_t size = load_be32(b + at);
        char what[32] = "the '....' box";
        for (int i = 0; i < 4; i++)
            what[5 + i] = b[at + 4 + i] >= ' ' && b[at + 4 + i] < 127 ? (char)b[at + 4 + i] : '.';
        if (size == 1 && n - at >= 16)
            size = load_be64(b + at + 8);
        if (memcmp(b + at + 4, "moov", 4) == 0)
            index = true;
        if (size == 0 && load_be32(b + at + 4) != 0) /* reaches to the end */
            at = n;
        else if (size < 8)
            break; /* padding or junk */
        else if (size > n - at)
            return cut(err, what, size - (n - at));
        else
            at += size;
    }
    if (!index)
        return hr_fail(err, HR_E_TRUNCATED,
                       "the file has no 'moov' box: the recording was not finished, or it is cut");
    for (size_t i = at; n - at < 8 && i < n; i++)
        if (b[i])
            return hr_fail(err, HR_E_TRUNCATED, "the value ends inside a box header");
    return 0;
}

/* Reads an EBML variable-length number; false past the end. unknown: all value bits set. */
static bool ebml_number(const uint8_t *b, size_t n, size_t *at, bool keep_marker, uint64_t *value,
                        bool *unknown)
{
    if (*at >= n || b[*at] == 0)
        return false;
    int length = __builtin_clz(b[*at]) - 24 + 1;
    if (n - *at < (size_t)length)
        return false;
    uint64_t v = keep_marker ? b[*at] : b[*at] & ((1u << (8 - length)) - 1);
    bool ones = (b[*at] | ~((1u << (8 - length)) - 1)) == ~0u;
    for (int i = 1; i < length; i++) {
        v = v << 8 | b[*at + i];
        ones = ones && b[*at + i] == 0xff;
    }
    *at += (size_t)length;
    *value = v;
    if (unknown)
        *unknown = ones;
    return true;
}

static int check_matroska(const uint8_t *b, size_t n, struct hr_error *err)
{
    enum { SEGMENT = 0x18538067, CLUSTER = 0x1f43b675 };
    size_t at = 0;

    while (at < n) {
        uint64_t id, size;
        bool unknown;
        if (!ebml_number(b, n, &at, true, &id, NULL) ||
            !ebml_number(b, n, &at, false, &size, &unknown))
            return at < n && b[at] == 0 ? 0
                                        : hr_fail(err, HR_E_TRUNCATED,
                                                  "the value ends inside an element's head");
        if (id == SEGMENT && (unknown || size > n - at)) {
            if (!unknown)
                return cut(err, "the segment", size - (n - at));
            continue; /* a live recording: its children are walked */
        }
        if (unknown && id == CLUSTER)
            continue;
        if (unknown)
            return 0;
        if (size > n - at)
            return cut(err, "the last element", size - (n - at));
        at += size;
    }
    return 0;
}

static int check_riff(const uint8_t *b, size_t n, struct hr_error *err)
{
    size_t at = 0;

    while (n - at >= 12 && memcmp(b + at, "RIFF", 4) == 0) {
        uint64_t size = (uint64_t)hr_load_le32(b + at + 4) + 8;
        if (size == 8 || size == (uint64_t)UINT32_MAX + 8)
            return 0; /* never filled in */
        if (size > n - at)
            return cut(err, "the RIFF chunk", size - (n - at));
        at += size + (size & 1);
        if (at > n)
            break;
    }
    return 0;
}

/* Walks the pages of an Ogg file. ended: of every stream that began. */
static int check_ogg(const uint8_t *b, size_t n, struct hr_error *err)
{
    uint32_t open[32];
    int open_count = 0;
    size_t at = 0;

    while (n - at >= 27 && memcmp(b + at, "OggS", 4) == 0) {
        size_t step = 27 + b[at + 26];
        uint32_t serial = hr_load_le32(b + at + 14);
        int i = 0;
        for (size_t s = 0; s < b[at + 26] && at + 27 + s < n; s++)
            step += b[at + 27 + s];
        if (step > n - at)
            return cut(err, "the last Ogg page", step - (n - at));
        while (i < open_count && open[i] != serial)
            i++;
        if (i == open_count && open_count < (int)HR_ARRAY_SIZE(open))
            open[open_count++] = serial;
        if ((b[at + 5] & 4) && i < open_count)
            open[i] = open[--open_count];
        at += step;
    }
    if (at < n && n - at < 27 && b[at] == 'O')
        return hr_fail(err, HR_E_TRUNCATED, "the value ends inside an Ogg page header");
    if (open_count)
        return hr_fail(err, HR_E_TRUNCATED, "the Ogg stream has no end-of-stream page");
    return 0;
}

int64_t hr_ogg_last_granule(const uint8_t *b, size_t n)
{
    size_t at = 0;
    int64_t last = -1;

    while (n - at >= 27 && memcmp(b + at, "OggS", 4) == 0) {
        size_t step = 27 + b[at + 26];
        for (size_t s = 0; s < b[at + 26] && at + 27 + s < n; s++)
            step += b[at + 27 + s];
        if (step > n - at)
            break;
        if (hr_load_le32(b + at + 14) == hr_load_le32(b + 14) &&
            hr_load_le64(b + at + 6) != UINT64_MAX)
            last = (int64_t)hr_load_le64(b + at + 6);
        at += step;
    }
    return last;
}

static int check_flv(const uint8_t *b, size_t n, struct hr_error *err)
{
    size_t at = n >= 9 ? load_be32(b + 5) : 0;

    if (at < 9 || at > n)
        return 0;
    at += 4;
    while (at < n && n - at >= 11) {
        size_t step = 11 + (load_be32(b + at) & 0xffffff) + 4;
        if ((b[at] & 0x1f) != 8 && (b[at] & 0x1f) != 9 && (b[at] & 0x1f) != 18)
            return 0;
        if (step > n - at)
            return cut(err, "the last FLV tag", step - (n - at));
        at += step;
    }
    if (at < n && b[at])
        return hr_fail(err, HR_E_TRUNCATED, "the value ends inside an FLV tag header");
    return 0;
}

static int check_ts(const uint8_t *b, size_t n, struct hr_error *err)
{
    size_t packet = n > 196 && b[4] == 0x47 && b[196] == 0x47 ? 192 : 188;

    if (n % packet && b[n - n % packet + (packet == 192 && n % packet > 4 ? 4 : 0)] == 0x47)
        return cut(err, "the last transport packet", packet - n % packet);
    return 0;
}

static int check_other(const uint8_t *b, size_t n, struct hr_error *err)
{
    if (n >= 9 && memcmp(b, "FLV", 3) == 0)
        return check_flv(b, n, err);
    if (n >= 6 && memcmp(b, "#!AMR", 5) == 0)
        return check_amr(b, n, err);
    if (n >= 12 && memcmp(b, "FORM", 4) == 0 && (uint64_t)load_be32(b + 4) + 8 > n)
        return cut(err, "the FORM chunk", (uint64_t)load_be32(b + 4) + 8 - n);
    if (n >= 24 && memcmp(b, "riff", 4) == 0 && hr_load_le64(b + 16) > n)
        return cut(err, "the Wave64 file", hr_load_le64(b + 16) - n);
    if (n >= 6 && memcmp(b, "GIF8", 4) == 0 && b[n - 1] != 0x3b)
        return hr_fail(err, HR_E_TRUNCATED, "the animation has no end mark");
    return 0;
}

int hr_av_check_complete(enum hr_media_format format, const uint8_t *b, size_t n,
                         struct hr_error *err)
{
    switch (format) {
    case HR_MEDIA_MP3:
        return check_mp3(b, n, err);
    case HR_MEDIA_ADTS:
        return check_adts(b, n, err);
    case HR_MEDIA_OGG:
        return check_ogg(b, n, err);
    case HR_MEDIA_MP4:
        return check_mp4(b, n, err);
    case HR_MEDIA_MATROSKA:
        return check_matroska(b, n, err);
    case HR_MEDIA_AVI:
        return check_riff(b, n, err);
    case HR_MEDIA_MPEGTS:
        return check_ts(b, n, err);
    case HR_MEDIA_OTHER_AV:
    case HR_MEDIA_GIF:
        return check_other(b, n, err);
    default:
        return 0;
    }
}

/* ---- sniffing ---- */

static bool starts(const uint8_t *b, size_t n, const char *magic, size_t bytes)
{
    return n >= bytes && memcmp(b, magic, bytes) == 0;
}

static bool is_mp4(const uint8_t *b, size_t n)
{
    static const char *const boxes[] = {"ftyp", "moov", "mdat", "wide", "free", "skip", "pnot",
                                        "styp"};

    for (size_t i = 0; n >= 8 && i < HR_ARRAY_SIZE(boxes); i++)
        if (memcmp(b + 4, boxes[i], 4) == 0)
            return load_be32(b) == 1 || load_be32(b) >= 8;
    return false;
}

static bool is_ts(const uint8_t *b, size_t n, size_t packet, size_t at)
{
    if (n < at + packet + 1)
        return false;
    for (int i = 0; i < 4 && at < n; i++, at += packet)
        if (b[at] != 0x47)
            return false;
    return true;
}

static bool is_other(const uint8_t *b, size_t n)
{
    static const struct {
        const char *magic;
        size_t bytes;
    } others[] = {
        {"FLV\1", 4},
        {"\0\0\1\xba", 4}, /* MPEG program stream */
        {"\x30\x26\xb2\x75\x8e\x66\xcf\x11", 8}, /* ASF */
        {"caff", 4},
        {".snd", 4},
        {"#!AMR", 5},
        {"DKIF", 4},
        {"riff\x2e\x91\xcf\x11", 8}, /* Wave64 */
        {"FWS", 3},
        {"CWS", 3},
    };

    for (size_t i = 0; i < HR_ARRAY_SIZE(others); i++)
        if (starts(b, n, others[i].magic, others[i].bytes))
            return n >= 16;
    return starts(b, n, "FORM", 4) && n >= 12 &&
           (memcmp(b + 8, "AIFF", 4) == 0 || memcmp(b + 8, "AIFC", 4) == 0);
}

enum hr_media_format hr_av_sniff(const uint8_t *b, size_t n)
{
    size_t tag = id3_bytes(b, n);

    if (n >= 12 && memcmp(b + 8, "WAVE", 4) == 0 &&
        (!memcmp(b, "RIFF", 4) || !memcmp(b, "RF64", 4) || !memcmp(b, "BW64", 4)))
        return HR_MEDIA_WAV;
    if (n >= 12 && memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "AVI ", 4) == 0)
        return HR_MEDIA_AVI;
    if (starts(b, n, "fLaC", 4) || (tag < n && starts(b + tag, n - tag, "fLaC", 4)))
        return HR_MEDIA_FLAC;
    if (starts(b, n, "OggS", 4))
        return HR_MEDIA_OGG;
    if (starts(b, n, "\x1a\x45\xdf\xa3", 4))
        return HR_MEDIA_MATROSKA;
    if (is_mp4(b, n))
        return HR_MEDIA_MP4;
    if (is_ts(b, n, 188, 0) || is_ts(b, n, 192, 4))
        return HR_MEDIA_MPEGTS;
    if (is_other(b, n))
        return HR_MEDIA_OTHER_AV;
    if (tag && (tag >= n || sniff_frames(b + tag, n - tag) != HR_MEDIA_ADTS))
        return HR_MEDIA_MP3;
    return sniff_frames(b + tag, n - tag);
}
