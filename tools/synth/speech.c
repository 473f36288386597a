/* Vowel-like speech: a train of pulses through three resonances that glide from vowel to vowel, with a
 * burst of noise before each (the source and filter model of speech; formants after Peterson and
 * Barney, "Control methods used in a study of the vowels", 1952). */
#include "tools/synth/synth.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum { RATE = 16000 };

static const struct {
    const char *letter;
    float formants[3];
} vowels[] = {
    {"a", {730, 1090, 2440}}, {"e", {530, 1840, 2480}}, {"i", {270, 2290, 3010}},
    {"o", {570, 840, 2410}},  {"u", {300, 870, 2240}},
};

static const char consonants[] = "bdfgklmnprstvz";

struct resonance {
    float y1, y2;
};

static float resonate(struct resonance *r, float x, float hz)
{
    float radius = expf((float)-M_PI * (60 + hz * 0.06f) / RATE);
    float b = 2 * radius * cosf(2 * (float)M_PI * hz / RATE), c = -radius * radius;
    float y = (1 - b - c) * x + b * r->y1 + c * r->y2;

    r->y2 = r->y1;
    r->y1 = y;
    return y;
}

struct voice {
    struct resonance filters[3];
    float phase, pitch, formants[3];
};

static void speak_syllable(struct hr_rng *rng, struct voice *v, int vowel, int16_t *out, int count)
{
    float pitch = v->pitch * (float)hr_rng_range(rng, 0.9, 1.12);
    int burst = count / 6;

    for (int i = 0; i < count; i++) {
        float along = (float)i / (float)count;
        float loud = sinf((float)M_PI * along);
        float noise = (float)(int32_t)hr_rng_u32(rng) / 2147483648.0f;
        float source = i < burst ? noise * 0.5f : noise * 0.01f;

        v->phase += pitch * (1 + 0.03f * sinf(along * 9)) / RATE;
        if (v->phase >= 1) {
            v->phase -= 1;
            source += 1;
        }
        float sound = source;
        for (int f = 0; f < 3; f++) {
            v->formants[f] += (vowels[vowel].formants[f] - v->formants[f]) * 0.003f;
            sound = resonate(&v->filters[f], sound, v->formants[f]) * 1.6f;
        }
        float sample = sound * loud * 9000;
        out[i] = (int16_t)(sample > 32000 ? 32000 : sample < -32000 ? -32000 : sample);
    }
}

static void add_header(struct hr_buf *wav, uint32_t data_bytes)
{
    uint8_t h[44] = "RIFF....WAVEfmt ";

    hr_store_le32(h + 4, 36 + data_bytes);
    hr_store_le32(h + 16, 16);
    hr_store_le16(h + 20, 1);
    hr_store_le16(h + 22, 1);
    hr_store_le32(h + 24, RATE);
    hr_store_le32(h + 28, RATE * 2);
    hr_store_le16(h + 32, 2);
    hr_store_le16(h + 34, 16);
    memcpy(h + 36, "data", 4);
    hr_store_le32(h + 40, data_bytes);
    hr_buf_add(wav, h, sizeof(h));
}

static void speak(struct hr_rng *rng, int16_t *samples, int count, struct hr_buf *text)
{
    struct voice v = {.pitch = (float)hr_rng_range(rng, 95, 230), .formants = {500, 1500, 2500}};
    int at = 0;

    while (at < count) {
        int length = (int)(RATE * hr_rng_range(rng, 0.12, 0.28));
        int vowel = (int)hr_rng_below(rng, HR_ARRAY_SIZE(vowels));
        if (length > count - at || count - at - length < RATE / 20)
            length = count - at;
        hr_buf_addf(text, "%c%s", consonants[hr_rng_below(rng, sizeof(consonants) - 1)],
                    vowels[vowel].letter);
        speak_syllable(rng, &v, vowel, samples + at, length);
        at += length;
        if (hr_rng_below(rng, 3) == 0 && at < count) {
            /* a pause between words */
            int pause = (int)(RATE * hr_rng_range(rng, 0.03, 0.15));
            at += pause < count - at ? pause : count - at;
            hr_buf_add_str(text, at < count ? " " : "");
        }
    }
}

int hr_synth_speech(struct hr_rng *rng, double seconds, struct hr_buf *wav, struct hr_buf *text,
                    struct hr_error *err)
{
    int count = (int)(seconds * RATE);
    int16_t *samples = hr_alloc_zero((size_t)count + 1, sizeof(*samples));

    if (!samples)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    speak(rng, samples, count, text);
    add_header(wav, (uint32_t)count * 2);
    for (int i = 0; i < count; i++) {
        uint8_t le[2];
        hr_store_le16(le, (uint16_t)samples[i]);
        memcpy(samples + i, le, 2);
    }
    hr_buf_add(wav, samples, (size_t)count * 2);
    hr_free(samples);
    return hr_buf_failed(wav) || hr_buf_failed(text) ? hr_fail(err, HR_E_NOMEM, "out of memory") : 0;
}
