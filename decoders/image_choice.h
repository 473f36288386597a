/* Which decoder takes a stored picture, by its encoding, and as-is values by their content; and a worker's decoder
 * states, each made when a picture first needs it. */
#ifndef HR_DECODERS_IMAGE_CHOICE_H
#define HR_DECODERS_IMAGE_CHOICE_H

#include "decoders/decoder.h"

struct hr_image_states {
    uint32_t max_width;           /* widest picture expected, 0 = not known */
    void *states[HR_DECODER_MAX]; /* by decoder index */
    void *repacked, *png, *raw;   /* of the decoders of other encodings */
};

struct hr_image_choice {
    const char *name;
    const struct hr_image_decoder *image;
    unsigned abilities;
    void *state;
};

void hr_image_states_finish(struct hr_image_states *states);
/* Makes a decoder's state ahead of its first picture. 0 or HR_E_NOMEM. */
int hr_image_states_prepare(struct hr_image_states *states, const struct hr_decoder *decoder) HR_MUST_CHECK;

int hr_image_choose(struct hr_image_states *states, unsigned encoding, const uint8_t *value, size_t value_bytes,
                    struct hr_image_choice *choice, struct hr_error *err) HR_MUST_CHECK;

#endif
