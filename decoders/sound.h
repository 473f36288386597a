/* A clip's way after decoding: mixing of channels, gain, resampling, and the output's type and
 * layout. Blocks go in as they are decoded; out come exactly as many samples as were planned. */
#ifndef HR_DECODERS_SOUND_H
#define HR_DECODERS_SOUND_H

#include "base/err.h"
#include "base/types.h"

enum hr_sound_mix { HR_SOUND_KEEP, HR_SOUND_MONO, HR_SOUND_STEREO };

struct hr_sound_job {
    enum hr_sound_mix mix;
    uint32_t in_channels, in_rate, out_rate;
    float gain;
    enum hr_dtype dtype; /* F32, F16, BF16, I16 */
    bool interleaved;    /* false: a plane a channel */
    uint64_t out_samples;  /* made from the input */
    uint64_t dst_samples;  /* room in dst; what is not made is silence */
    void *dst;
};

struct SwrContext;

/* A resampler that is set up; its filter takes longer to make than a short clip to resample. */
struct hr_resampler {
    struct SwrContext *swr; /* NULL = empty */
    uint32_t in_rate, out_rate, channels;
    uint64_t last_use;
};
enum { HR_SOUND_RESAMPLERS = 8 };

/* One per worker, all zero at first; everything but the job is kept between clips. */
struct hr_sound {
    struct hr_sound_job job;
    uint32_t channels; /* after mixing */
    uint64_t made;
    struct hr_resampler resamplers[HR_SOUND_RESAMPLERS]; /* the one used longest ago makes room */
    struct SwrContext *swr; /* the job's, one of them */
    uint64_t uses;
    void *mixed, *resampled;
    size_t mixed_bytes, resampled_bytes;
};

void hr_sound_finish(struct hr_sound *sound);

/* Channels that a mix gives; 0 when it cannot be made from that many (stereo of more than two). */
uint32_t hr_sound_channels(enum hr_sound_mix mix, uint32_t in_channels);

int hr_sound_begin(struct hr_sound *sound, const struct hr_sound_job *job, struct hr_error *err)
    HR_MUST_CHECK;
int hr_sound_push(struct hr_sound *sound, float *const *planes, size_t n, struct hr_error *err)
    HR_MUST_CHECK;
int hr_sound_end(struct hr_sound *sound, struct hr_error *err) HR_MUST_CHECK;

#endif
