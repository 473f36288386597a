/* The words about time that audio and video fields share: where a clip starts and what happens
 * where the recording ends. They stand in the `clip:` table or among the field's options. */
#ifndef HR_DECODERS_CLIP_H
#define HR_DECODERS_CLIP_H

#include "base/arg.h"
#include "decoders/chain_media.h"

enum hr_clip_start { HR_START_RANDOM, HR_START_CENTER, HR_START_BEGIN, HR_START_UNIFORM };
enum hr_past_end { HR_PAST_PAD, HR_PAST_LOOP, HR_PAST_REJECT, HR_PAST_REPEAT_LAST, HR_PAST_MASK };

struct hr_clip {
    bool given;
    double seconds, fps;     /* 0 = not given */
    int64_t frames, stride;  /* 0 = not given */
    enum hr_clip_start start;
    enum hr_past_end past_end;
    /* options that only one of the two has */
    int64_t rate;     /* audio */
    const char *channels; /* borrowed; NULL = not given */
    double max_seconds;
};

/* Reads clip and options by the words of the media. HR_E_CONFIG with place. */
int hr_clip_read(const struct hr_chain_spec *spec, struct hr_clip *clip, struct hr_error *err)
    HR_MUST_CHECK;

const char *hr_start_name(enum hr_clip_start start);
const char *hr_past_end_name(enum hr_past_end past_end);

/* The draw of a clip's place, apart from those of the field's ops. */
struct hr_rng;
void hr_clip_rng(const struct hr_draw_key *key, struct hr_rng *rng);

#endif
