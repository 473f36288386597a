/* Reading of the `output:` table. */
#include "decoders/output.h"

#include <string.h>

static const char *const pixel_dtypes[] = {"u8", "f16", "bf16", "f32", NULL};
static const char *const sound_dtypes[] = {"i16", "f16", "bf16", "f32", NULL};
static const char *const image_layouts[] = {"nhwc", "nchw", NULL};
static const char *const video_layouts[] = {"nthwc", "ntchw", "ncthw", NULL};
static const char *const audio_layouts[] = {"nt", "ntc", "nct", NULL};
static const char *const pixel_channels[] = {"rgb", "gray", NULL};
static const char *const sound_channels[] = {"mono", "stereo", "keep", NULL};

static const struct words {
    const char *const *dtypes, *const *layouts, *const *channels;
} words_of[HR_FIELD_COUNT] = {
    [HR_FIELD_IMAGE] = {pixel_dtypes, image_layouts, pixel_channels},
    [HR_FIELD_VIDEO] = {pixel_dtypes, video_layouts, pixel_channels},
    [HR_FIELD_AUDIO] = {sound_dtypes, audio_layouts, sound_channels},
};

enum hr_channels hr_channels_parse(const char *word, enum hr_field_type type)
{
    const char *const *known = words_of[type].channels;

    for (int i = 0; word && known && known[i]; i++)
        if (strcmp(known[i], word) == 0)
            return (type == HR_FIELD_AUDIO ? HR_CHANNELS_MONO : HR_CHANNELS_RGB) +
                   (enum hr_channels)i;
    return HR_CHANNELS_DEFAULT;
}

int hr_output_read(const struct hr_call *table, enum hr_field_type type, struct hr_output *output,
                   struct hr_error *err)
{
    const struct words *words = &words_of[type];
    int dtype = -1, layout = -1, channels = -1;
    bool ragged = false;
    const struct hr_arg_spec specs[] = {
        {.name = "dtype", .type = HR_ARG_TYPE_ENUM, .out = &dtype, .choices = words->dtypes},
        {.name = "layout", .type = HR_ARG_TYPE_ENUM, .out = &layout, .choices = words->layouts},
        {.name = "ragged", .type = HR_ARG_TYPE_BOOL, .out = &ragged},
        {.name = "channels", .type = HR_ARG_TYPE_ENUM, .out = &channels, .choices = words->channels},
    };

    HR_ASSERT(words->dtypes);
    *output = (struct hr_output){0};
    if (!table)
        return 0;
    int ret = hr_args_read(table, specs, HR_ARRAY_SIZE(specs), err);
    if (ret < 0)
        return ret;
    *output = (struct hr_output){
        .dtype = dtype < 0 ? HR_DTYPE_NONE : hr_dtype_parse(words->dtypes[dtype]),
        .layout = layout < 0 ? HR_LAYOUT_NONE : hr_layout_parse(words->layouts[layout]),
        .ragged = ragged,
        .channels = channels < 0 ? HR_CHANNELS_DEFAULT
                                 : hr_channels_parse(words->channels[channels], type),
        .line = table->line,
        .column = table->column,
    };
    return 0;
}
