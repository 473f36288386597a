/* The `output:` table of a media field: element type, layout, raggedness, channels. Shared by all
 * media; what a media does not allow is refused here, with the place in the file. */
#ifndef HR_DECODERS_OUTPUT_H
#define HR_DECODERS_OUTPUT_H

#include "base/arg.h"
#include "base/err.h"
#include "base/types.h"

enum hr_channels {
    HR_CHANNELS_DEFAULT = 0,
    HR_CHANNELS_RGB,
    HR_CHANNELS_GRAY,
    HR_CHANNELS_MONO,
    HR_CHANNELS_STEREO,
    HR_CHANNELS_KEEP, /* audio: as many as the value has */
};

struct hr_output {
    enum hr_dtype dtype;   /* NONE when not given */
    enum hr_layout layout; /* NONE when not given */
    bool ragged;
    enum hr_channels channels;
    int line, column; /* of the table; 0 when it is absent */
};

/* table may be NULL: everything absent. Types: u8 f16 bf16 f32, for audio i16 f16 bf16 f32. Layouts
 * and channels by the media's type. `channels` may stand in the table or among the field's options
 * (those are read by the caller with hr_channels_parse). HR_E_CONFIG with place and known words. */
int hr_output_read(const struct hr_call *table, enum hr_field_type type, struct hr_output *output,
                   struct hr_error *err) HR_MUST_CHECK;

/* "rgb", "gray", … as the media's type allows; DEFAULT when unknown. */
enum hr_channels hr_channels_parse(const char *word, enum hr_field_type type);

#endif
