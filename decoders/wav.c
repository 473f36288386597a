/* The WAV reader: chunk walk and sample conversion. */
#include "decoders/wav.h"

#include <inttypes.h>
#include <string.h>

enum { FORMAT_PCM = 1, FORMAT_FLOAT = 3, FORMAT_ALAW = 6, FORMAT_MULAW = 7, FORMAT_EXTENSIBLE = 0xfffe };

/* Streamed files cannot know their length: writers leave 0xffffffff, 0x7fffffff or a little less. */
enum { UNKNOWN_SIZE = 0x7ffff000 };

static enum hr_wav_coding coding_of(unsigned format, unsigned sample_bytes)
{
    if (format == FORMAT_PCM && sample_bytes >= 1 && sample_bytes <= 4)
        return (enum hr_wav_coding)(HR_WAV_U8 + sample_bytes - 1);
    if (format == FORMAT_FLOAT && sample_bytes == 4)
        return HR_WAV_F32;
    if (format == FORMAT_FLOAT && sample_bytes == 8)
        return HR_WAV_F64;
    if (format == FORMAT_ALAW && sample_bytes == 1)
        return HR_WAV_ALAW;
    if (format == FORMAT_MULAW && sample_bytes == 1)
        return HR_WAV_MULAW;
    return HR_WAV_OTHER;
}

static int parse_format(const uint8_t *b, uint64_t bytes, struct hr_wav *wav, struct hr_error *err)
{
    static const uint8_t guid_tail[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};

    if (bytes < 16)
        return hr_fail(err, HR_E_DECODE, "the WAV format chunk has %" PRIu64 " bytes, not 16", bytes);
    unsigned format = hr_load_le16(b);
    wav->channels = hr_load_le16(b + 2);
    wav->rate = hr_load_le32(b + 4);
    wav->block_bytes = hr_load_le16(b + 12);
    wav->bits = hr_load_le16(b + 14);
    if (format == FORMAT_EXTENSIBLE && bytes >= 40)
        format = memcmp(b + 26, guid_tail, sizeof(guid_tail)) == 0 ? hr_load_le16(b + 24) : 0;
    if (wav->channels == 0 || wav->rate == 0 || wav->block_bytes == 0)
        return hr_fail(err, HR_E_DECODE,
                       "the WAV header says %u channels, %u Hz, %u bytes a sample", wav->channels,
                       wav->rate, wav->block_bytes);
    unsigned sample_bytes = wav->block_bytes / wav->channels;
    wav->coding = wav->block_bytes % wav->channels ? HR_WAV_OTHER : coding_of(format, sample_bytes);
    if (wav->coding != HR_WAV_OTHER && (wav->bits == 0 || wav->bits > sample_bytes * 8))
        wav->bits = sample_bytes * 8;
    return 0;
}

static int set_data(const uint8_t *bytes, size_t count, size_t at, uint64_t size, bool wide,
                    struct hr_wav *wav, struct hr_error *err)
{
    uint32_t riff = hr_load_le32(bytes + 4);
    uint64_t rest = count - at;
    bool streamed = !wide && (size >= UNKNOWN_SIZE || (size == 0 && (riff == 0 || riff == UINT32_MAX)));

    if (streamed)
        size = rest;
    if (size > rest)
        return hr_fail(err, HR_E_TRUNCATED,
                       "the WAV header says %" PRIu64 " bytes of samples, %" PRIu64 " are there", size,
                       rest);
    if (streamed && size % wav->block_bytes && wav->coding != HR_WAV_OTHER)
        return hr_fail(err, HR_E_TRUNCATED, "the value ends in the middle of a sample");
    wav->data_off = at;
    wav->samples = size / wav->block_bytes;
    return 0;
}

int hr_wav_parse(const uint8_t *bytes, size_t count, struct hr_wav *wav, struct hr_error *err)
{
    uint64_t long_data = 0;
    bool has_format = false, has_long = false;
    size_t at = 12;

    *wav = (struct hr_wav){0};
    while (at <= count && count - at >= 8) {
        const uint8_t *chunk = bytes + at;
        uint64_t size = hr_load_le32(chunk + 4);
        at += 8;
        if (memcmp(chunk, "data", 4) == 0) {
            bool wide = has_long && size == UINT32_MAX;
            if (!has_format)
                return hr_fail(err, HR_E_DECODE, "the WAV samples come before their format");
            return set_data(bytes, count, at, wide ? long_data : size, wide, wav, err);
        }
        if (size > count - at)
            break;
        if (memcmp(chunk, "ds64", 4) == 0 && size >= 24) {
            has_long = true;
            long_data = hr_load_le64(bytes + at + 8);
        }
        if (memcmp(chunk, "fmt ", 4) == 0 && !has_format) {
            int ret = parse_format(bytes + at, size, wav, err);
            if (ret < 0)
                return ret;
            has_format = true;
        }
        at += size + (size & 1);
    }
    return hr_fail(err, HR_E_TRUNCATED, "the WAV file ends before its samples");
}

static float from_mulaw(uint8_t code)
{
    unsigned u = (uint8_t)~code;
    int v = (int)(((u & 15) * 2 + 33) << (u >> 4 & 7)) - 33;
    return (float)(u & 0x80 ? -v : v) * 4 / 32768.f;
}

static float from_alaw(uint8_t code)
{
    unsigned a = code ^ 0x55, exponent = a >> 4 & 7;
    int v = (int)((a & 15) * 16 + 8);
    if (exponent)
        v = (v + 256) << (exponent - 1);
    return (float)(a & 0x80 ? v : -v) / 32768.f;
}

static float read_one(enum hr_wav_coding coding, const uint8_t *b)
{
    switch (coding) {
    case HR_WAV_U8:
        return (float)(b[0] - 128) / 128.f;
    case HR_WAV_S16:
        return (float)(int16_t)hr_load_le16(b) / 32768.f;
    case HR_WAV_S24:
        return (float)(int32_t)((uint32_t)b[0] << 8 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 24) /
               2147483648.f;
    case HR_WAV_S32:
        return (float)(int32_t)hr_load_le32(b) / 2147483648.f;
    case HR_WAV_F32: {
        uint32_t bits = hr_load_le32(b);
        float f;
        memcpy(&f, &bits, sizeof(f));
        return f;
    }
    case HR_WAV_F64: {
        uint64_t bits = hr_load_le64(b);
        double d;
        memcpy(&d, &bits, sizeof(d));
        return (float)d;
    }
    case HR_WAV_ALAW:
        return from_alaw(b[0]);
    case HR_WAV_MULAW:
        return from_mulaw(b[0]);
    default:
        return 0;
    }
}

void hr_wav_read(const struct hr_wav *wav, const uint8_t *bytes, uint64_t first, uint32_t n,
                 float *const *planes)
{
    const uint8_t *data = bytes + wav->data_off + first * wav->block_bytes;
    size_t sample_bytes = wav->block_bytes / wav->channels;

    for (uint32_t c = 0; c < wav->channels; c++) {
        const uint8_t *b = data + c * sample_bytes;
        if (wav->coding == HR_WAV_S16)
            for (uint32_t i = 0; i < n; i++, b += wav->block_bytes)
                planes[c][i] = (float)(int16_t)hr_load_le16(b) / 32768.f;
        else
            for (uint32_t i = 0; i < n; i++, b += wav->block_bytes)
                planes[c][i] = read_one(wav->coding, b);
    }
}
