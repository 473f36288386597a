/* Made-up data: pictures with shapes and a caption that says what is on them, vowel-like speech, word
 * salad, clips of moving shapes. Everything follows from (seed, number of the record) alone. Sizes
 * are log-normal, as those of real collections are. */
#ifndef HR_SYNTH_SYNTH_H
#define HR_SYNTH_SYNTH_H

#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"

enum {
    HR_SYNTH_SHAPES = 8,
    HR_SYNTH_COLOURS = 12,
    HR_SYNTH_MAX_THINGS = 4,
    HR_SYNTH_MAX_SIDE = 8192, /* pixels */
};

extern const char *const hr_synth_shape_names[HR_SYNTH_SHAPES];
extern const char *const hr_synth_colour_names[HR_SYNTH_COLOURS];

/* One shape: centre, radius and speed in parts of the picture's height. */
struct hr_synth_thing {
    int shape, colour;
    float x, y, radius, turn;
    float vx, vy; /* a second */
};

/* What a picture or clip shows. The first thing is the largest; its shape is the label. */
struct hr_synth_scene {
    int ground, ground2; /* colours that the background runs between */
    int thing_count;
    struct hr_synth_thing things[HR_SYNTH_MAX_THINGS];
    uint32_t grain; /* key of the noise */
    float roughness;
};

/* Independent streams of one record's randomness. */
enum hr_synth_stream { HR_SYNTH_SCENE, HR_SYNTH_SIZE, HR_SYNTH_WORDS, HR_SYNTH_VOICE, HR_SYNTH_MOVE };

/* median * e^(sigma * normal), cut to [low, high]. */
double hr_synth_log_normal(struct hr_rng *rng, double median, double sigma, double low, double high);

void hr_synth_scene_draw(struct hr_rng *rng, struct hr_synth_scene *scene);
/* Background into rgb (w * h * 3 bytes); then the things as they stand after so many seconds. */
void hr_synth_render_ground(const struct hr_synth_scene *scene, int w, int h, uint8_t *rgb);
void hr_synth_render_things(const struct hr_synth_scene *scene, int w, int h, double seconds,
                            uint8_t *rgb);

/* JPEG of quality 90, 4:2:0, appended to out. */
int hr_synth_jpeg(const uint8_t *rgb, int w, int h, struct hr_buf *out, struct hr_error *err)
    HR_MUST_CHECK;

/* "A large red circle and a small blue ring on a green background." */
void hr_synth_caption(struct hr_rng *rng, const struct hr_synth_scene *scene, struct hr_buf *out);
/* Words of a made-up language, frequent ones short (Zipf), of about so many bytes. */
void hr_synth_words(struct hr_rng *rng, size_t bytes, struct hr_buf *out);

/* Syllables as sound (16-bit mono WAV of 16 kHz, appended to wav) and as letters. */
int hr_synth_speech(struct hr_rng *rng, double seconds, struct hr_buf *wav, struct hr_buf *text,
                    struct hr_error *err) HR_MUST_CHECK;

/* The scene in motion: MPEG-4 in mp4, appended to out. */
int hr_synth_clip(const struct hr_synth_scene *scene, int w, int h, int frames, int fps,
                  struct hr_buf *out, struct hr_error *err) HR_MUST_CHECK;

#endif
