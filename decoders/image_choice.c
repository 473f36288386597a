/* The choice of a picture's decoder. */
#include "decoders/image_choice.h"

#include "base/mem.h"
#include "decoders/raw_pixels.h"
#include "decoders/repacked.h"
#include "decoders/rpng.h"

void hr_image_states_finish(struct hr_image_states *s)
{
    for (int i = 0; i < HR_DECODER_MAX; i++)
        if (s->states[i])
            hr_decoder_at(i)->image->destroy(s->states[i]);
    hr_repacked_jpeg_decoder.destroy(s->repacked);
    hr_repacked_png_decoder.destroy(s->png);
    hr_raw_pixels_decoder.destroy(s->raw);
    *s = (struct hr_image_states){.max_width = s->max_width};
}

static int make_state(const struct hr_image_states *s, const struct hr_image_decoder *decoder, void **state)
{
    if (*state)
        return 0;
    int depth = hr_mem_steady_pause();
    int ret = decoder->create(s->max_width, state);
    hr_mem_steady_resume(depth);
    return ret;
}

int hr_image_states_prepare(struct hr_image_states *s, const struct hr_decoder *decoder)
{
    return make_state(s, decoder->image, &s->states[hr_decoder_index(decoder)]);
}

static int choose_encoded(struct hr_image_states *s, const struct hr_image_choice *known, void **state,
                          struct hr_image_choice *choice)
{
    int ret = make_state(s, known->image, state);

    *choice = *known;
    choice->state = *state;
    return ret;
}

int hr_image_choose(struct hr_image_states *s, unsigned encoding, const uint8_t *value, size_t value_bytes,
                    struct hr_image_choice *choice, struct hr_error *err)
{
    static const struct hr_image_choice jpeg = {"repacked jpeg", &hr_repacked_jpeg_decoder,
                                                HR_DECODER_REGION | HR_DECODER_SCALED | HR_DECODER_PLANES |
                                                    HR_DECODER_SEEKS, NULL};
    static const struct hr_image_choice png = {"repacked png", &hr_repacked_png_decoder,
                                               HR_DECODER_REGION | HR_DECODER_IDS, NULL};
    static const struct hr_image_choice raw = {"raw pixels", &hr_raw_pixels_decoder,
                                               HR_DECODER_REGION | HR_DECODER_IDS, NULL};
    enum hr_media_format format;
    int ret;

    if (encoding == HR_ENCODING_REPACKED_JPEG) {
        ret = choose_encoded(s, &jpeg, &s->repacked, choice);
    } else if (encoding == HR_ENCODING_REPACKED_PNG) {
        ret = choose_encoded(s, &png, &s->png, choice);
    } else if (encoding == HR_ENCODING_RAW_PIXELS) {
        ret = choose_encoded(s, &raw, &s->raw, choice);
    } else if (encoding != HR_ENCODING_AS_IS) {
        return hr_fail(err, HR_E_FORMAT, "pictures of encoding %u are not supported", encoding);
    } else {
        const struct hr_decoder *decoder = hr_decoder_find(value, value_bytes, &format);
        if (!decoder || !decoder->image)
            return hr_fail(err, HR_E_FORMAT, "pictures of format %s are not supported",
                           hr_media_format_name(format));
        ret = hr_image_states_prepare(s, decoder);
        *choice = (struct hr_image_choice){decoder->name, decoder->image, decoder->abilities,
                                           s->states[hr_decoder_index(decoder)]};
    }
    return ret < 0 ? hr_fail(err, ret, "no memory for a %s decoder", choice->name) : 0;
}
