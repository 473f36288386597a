/* Sound as blocks of float samples, one plane a channel, from whatever the value is: WAV directly,
 * everything else through FFmpeg. What comes out is what was recorded: encoder priming and padding
 * are taken off where the container states them. */
#ifndef HR_DECODERS_PCM_H
#define HR_DECODERS_PCM_H

#include "decoders/av_source.h"
#include "decoders/wav.h"

/* Starts as all zero. */
struct hr_pcm {
    struct hr_av_source av; /* kept between values */
    void *scratch; /* kept; planes lie in it */
    size_t scratch_bytes;
    /* of the open value */
    const uint8_t *bytes;
    struct hr_wav wav;
    bool is_wav, primed, ended;
    uint32_t rate, channels, bits;
    bool is_float;
    uint64_t pos, limit; /* samples given; samples to give at most */
    float *planes[HR_AV_MAX_CHANNELS];
};

void hr_pcm_finish(struct hr_pcm *pcm);

/* Opens the sound of a value; rate, channels, bits are then those of its first frame. */
int hr_pcm_open(struct hr_pcm *pcm, enum hr_media_format container, const uint8_t *bytes,
                size_t count, struct hr_error *err) HR_MUST_CHECK;
void hr_pcm_close(struct hr_pcm *pcm);

/* Moves on by that many samples: free for WAV, reading for FLAC; otherwise everything before is
 * decoded and dropped.
 * Positive: that many samples from there on are in pcm->planes already. 0: ask hr_pcm_next, which
 * says the end when it was passed. */
int hr_pcm_skip(struct hr_pcm *pcm, uint64_t samples, struct hr_error *err) HR_MUST_CHECK;

/* The next block into pcm->planes: its length (> 0), 0 at the end, or an error. */
int hr_pcm_next(struct hr_pcm *pcm, struct hr_error *err) HR_MUST_CHECK;

#endif
