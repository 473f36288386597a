/* WAV (RIFF, RF64, BW64) with plain samples: integers of 8 to 32 bits, floats, mu-law and A-law.
 * Small enough to be read without a demuxer, and exact: a sample is at a known byte. */
#ifndef HR_DECODERS_WAV_H
#define HR_DECODERS_WAV_H

#include "base/err.h"
#include "base/types.h"

enum hr_wav_coding {
    HR_WAV_OTHER, /* compressed: FFmpeg reads it */
    HR_WAV_U8,
    HR_WAV_S16,
    HR_WAV_S24,
    HR_WAV_S32,
    HR_WAV_F32,
    HR_WAV_F64,
    HR_WAV_ALAW,
    HR_WAV_MULAW,
};

struct hr_wav {
    enum hr_wav_coding coding;
    uint32_t rate, channels;
    uint32_t bits;        /* of a sample as stored */
    uint32_t block_bytes; /* one sample of every channel */
    size_t data_off;
    uint64_t samples; /* per channel; all inside the bytes */
};

/* HR_E_TRUNCATED when the data chunk is longer than the bytes (placeholders of streamed files, from
 * 0x7ffff000 up, mean "to the end"), HR_E_DECODE when the headers make no sense. */
int hr_wav_parse(const uint8_t *bytes, size_t count, struct hr_wav *wav, struct hr_error *err)
    HR_MUST_CHECK;

/* Samples [first, first + n) as floats, one plane a channel; the range is inside. Integers are
 * divided by 2^(bits - 1). */
void hr_wav_read(const struct hr_wav *wav, const uint8_t *bytes, uint64_t first, uint32_t n,
                 float *const *planes);

#endif
