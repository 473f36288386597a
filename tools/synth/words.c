/* Captions that tell what a scene shows, and text of a made-up language. */
#include "tools/synth/synth.h"

#include <math.h>
#include <string.h>

static void thing_phrase(const struct hr_synth_thing *t, struct hr_buf *out)
{
    hr_buf_addf(out, "a %s %s %s", t->radius > 0.25f ? "large" : t->radius > 0.1f ? "small" : "tiny",
                hr_synth_colour_names[t->colour], hr_synth_shape_names[t->shape]);
}

void hr_synth_caption(struct hr_rng *rng, const struct hr_synth_scene *scene, struct hr_buf *out)
{
    static const char *const openings[] = {"", "This picture shows ", "There is ", "We see ",
                                           "Here is "};
    static const char *const grounds[] = {"on a %s background", "in front of a %s wall",
                                          "over %s ground", "on %s paper"};
    size_t start = out->used;
    const char *ground = hr_synth_colour_names[scene->ground];

    hr_buf_add_str(out, openings[hr_rng_below(rng, HR_ARRAY_SIZE(openings))]);
    for (int i = 0; i < scene->thing_count; i++) {
        hr_buf_add_str(out, i == 0 ? "" : i + 1 < scene->thing_count ? ", " : " and ");
        thing_phrase(&scene->things[i], out);
    }
    hr_buf_add_str(out, " ");
    switch (hr_rng_below(rng, HR_ARRAY_SIZE(grounds))) {
    case 0:
        hr_buf_addf(out, grounds[0], ground);
        break;
    case 1:
        hr_buf_addf(out, grounds[1], ground);
        break;
    case 2:
        hr_buf_addf(out, grounds[2], ground);
        break;
    default:
        hr_buf_addf(out, grounds[3], ground);
    }
    hr_buf_add_str(out, ".");
    if (!hr_buf_failed(out) && out->data[start] >= 'a')
        out->data[start] = (uint8_t)(out->data[start] - 'a' + 'A');
}

/* The word of a rank: its syllables are the digits of the rank. */
static void word(uint64_t rank, struct hr_buf *out)
{
    static const char *const syllables[] = {
        "a",  "be", "co", "du", "el", "fi", "go", "ha", "in", "jo", "ka", "lu", "mi", "no",
        "or", "pe", "qui", "ra", "se", "to", "un", "ve", "wi", "xa", "yo", "ze", "th", "é",
        "ol", "em", "ta", "ri"};

    do {
        hr_buf_add_str(out, syllables[rank % HR_ARRAY_SIZE(syllables)]);
        rank /= HR_ARRAY_SIZE(syllables);
    } while (rank);
}

void hr_synth_words(struct hr_rng *rng, size_t bytes, struct hr_buf *out)
{
    static const double vocabulary = 50000;
    size_t start = out->used;
    int in_sentence = 0;

    while (out->used - start < bytes && !hr_buf_failed(out)) {
        size_t at = out->used;
        /* Density 1 / rank. */
        word((uint64_t)exp(hr_rng_uniform(rng) * log(vocabulary)) - 1, out);
        if (hr_buf_failed(out))
            break;
        if (in_sentence == 0 && out->data[at] < 0x80)
            out->data[at] = (uint8_t)(out->data[at] - 'a' + 'A');
        in_sentence++;
        bool ends = hr_rng_below(rng, 12) == 0 || out->used - start >= bytes;
        hr_buf_add_str(out, ends ? "." : hr_rng_below(rng, 10) == 0 ? "," : "");
        if (ends)
            in_sentence = 0;
        if (out->used - start < bytes)
            hr_buf_add_str(out, " ");
    }
}
