/* Audio and video: WAV by hand-made bytes, containers' own extents, mixing and storing, clips, and
 * damage at every place of real files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "decoders/av_container.h"
#include "decoders/chain.h"
#include "decoders/sound.h"
#include "decoders/wav.h"
#include "lib/shared.h"

/* ---- a WAV file in memory ---- */

struct file {
    uint8_t bytes[4096];
    size_t count;
};

static void put(struct file *f, const void *data, size_t n)
{
    assert_true(f->count + n <= sizeof(f->bytes));
    memcpy(f->bytes + f->count, data, n);
    f->count += n;
}

static void put_chunk(struct file *f, const char *id, uint32_t size)
{
    uint8_t le[4];

    hr_store_le32(le, size);
    put(f, id, 4);
    put(f, le, 4);
}

static void begin_wav(struct file *f, unsigned format, unsigned channels, unsigned bits)
{
    uint8_t fmt[16];

    f->count = 0;
    put_chunk(f, "RIFF", 0);
    put(f, "WAVE", 4);
    put_chunk(f, "fmt ", 16);
    hr_store_le16(fmt, (uint16_t)format);
    hr_store_le16(fmt + 2, (uint16_t)channels);
    hr_store_le32(fmt + 4, 8000);
    hr_store_le32(fmt + 8, 8000 * channels * bits / 8);
    hr_store_le16(fmt + 12, (uint16_t)(channels * bits / 8));
    hr_store_le16(fmt + 14, (uint16_t)bits);
    put(f, fmt, 16);
}

static void end_wav(struct file *f)
{
    hr_store_le32(f->bytes + 4, (uint32_t)f->count - 8);
}

static void read_all(const struct file *f, float *out)
{
    struct hr_wav wav;
    float *planes[1] = {out};

    assert_int_equal(hr_wav_parse(f->bytes, f->count, &wav, NULL), 0);
    hr_wav_read(&wav, f->bytes, 0, (uint32_t)wav.samples, planes);
}

/* ITU-T G.711: the ends of each law's scale, and the codes of silence. */
static void wav_samples_have_the_values_of_their_formats(void **state)
{
    static const struct {
        unsigned format, bits;
        uint8_t bytes[8];
        float values[2];
    } cases[] = {
        {1, 8, {0, 255}, {-1, 127 / 128.f}},
        {1, 16, {0x00, 0x80, 0xff, 0x7f}, {-1, 32767 / 32768.f}},
        {1, 24, {0x00, 0x00, 0x80, 0x00, 0x00, 0x40}, {-1, 0.5f}},
        {1, 32, {0, 0, 0, 0x80, 0, 0, 0, 0x20}, {-1, 0.25f}},
        {3, 32, {0, 0, 0, 0x3f, 0, 0, 0x20, 0xc0}, {0.5f, -2.5f}},
        {7, 8, {0x00, 0xff}, {-32124 / 32768.f, 0}},
        {7, 8, {0x80, 0x7f}, {32124 / 32768.f, 0}},
        {6, 8, {0x2a, 0xaa}, {-32256 / 32768.f, 32256 / 32768.f}},
        {6, 8, {0x55, 0xd5}, {-8 / 32768.f, 8 / 32768.f}},
    };

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(cases); i++) {
        struct file f;
        float out[2] = {9, 9};
        begin_wav(&f, cases[i].format, 1, cases[i].bits);
        put_chunk(&f, "data", cases[i].bits / 4);
        put(&f, cases[i].bytes, cases[i].bits / 4);
        end_wav(&f);
        read_all(&f, out);
        assert_true(out[0] == cases[i].values[0] && out[1] == cases[i].values[1]);
    }
}

static void wav_chunks_around_the_samples_do_not_leak_in(void **state)
{
    struct file f;
    struct hr_wav wav;

    (void)state;
    begin_wav(&f, 1, 1, 16);
    put_chunk(&f, "LIST", 3);
    put(&f, "abc\0", 4); /* odd: one byte of padding */
    put_chunk(&f, "data", 5); /* two samples and a stray byte */
    put(&f, "\1\0\2\0\3\0", 6);
    put_chunk(&f, "id3 ", 4);
    put(&f, "....", 4);
    end_wav(&f);
    assert_int_equal(hr_wav_parse(f.bytes, f.count, &wav, NULL), 0);
    assert_int_equal(wav.samples, 2);
    assert_int_equal(hr_load_le16(f.bytes + wav.data_off), 1);
}

static void streamed_wav_reaches_to_its_end_and_cut_wav_is_told(void **state)
{
    static const uint32_t unknown_sizes[] = {0xffffffff, 0x7fffffff, 0x7ffff000};
    struct file f;
    struct hr_wav wav;
    struct hr_error err;

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(unknown_sizes); i++) {
        begin_wav(&f, 1, 2, 16);
        put_chunk(&f, "data", unknown_sizes[i]);
        put(&f, "\0\0\0\0\0\0\0\0", 8);
        assert_int_equal(hr_wav_parse(f.bytes, f.count, &wav, NULL), 0);
        assert_int_equal(wav.samples, 2);
        assert_int_equal(hr_wav_parse(f.bytes, f.count - 1, &wav, &err), HR_E_TRUNCATED);
    }
    begin_wav(&f, 1, 2, 16);
    put_chunk(&f, "data", 12);
    put(&f, "\0\0\0\0\0\0\0\0", 8);
    for (size_t n = 0; n <= f.count; n++)
        assert_int_equal(hr_wav_parse(f.bytes, n < 12 ? 12 : n, &wav, &err), HR_E_TRUNCATED);
    assert_string_equal(hr_error_name(HR_E_TRUNCATED), "HR_E_TRUNCATED");
}

static void wav_headers_of_nonsense_are_refused(void **state)
{
    struct file f;
    struct hr_wav wav;

    (void)state;
    begin_wav(&f, 1, 0, 16);
    put_chunk(&f, "data", 0);
    assert_int_equal(hr_wav_parse(f.bytes, f.count, &wav, NULL), HR_E_DECODE);
    f.count = 12;
    put_chunk(&f, "data", 0);
    assert_int_equal(hr_wav_parse(f.bytes, f.count, &wav, NULL), HR_E_DECODE);
}

/* ---- containers ---- */

static void containers_are_told_by_content(void **state)
{
    static const struct {
        const char *bytes;
        size_t count;
        enum hr_media_format format;
    } cases[] = {
        {"RIFF\0\0\0\0WAVEfmt ", 16, HR_MEDIA_WAV},
        {"RIFF\0\0\0\0AVI LIST", 16, HR_MEDIA_AVI},
        {"RIFF\0\0\0\0WEBPVP8 ", 16, HR_MEDIA_UNKNOWN},
        {"fLaC\0\0\0\x22", 8, HR_MEDIA_FLAC},
        {"OggS\0\2", 6, HR_MEDIA_OGG},
        {"\x1a\x45\xdf\xa3\x01", 5, HR_MEDIA_MATROSKA},
        {"\0\0\0\x20" "ftypisom\0\0\0\0", 16, HR_MEDIA_MP4},
        {"ID3\4\0\0\0\0\0\0fLaC", 14, HR_MEDIA_FLAC},
        {"ID3\4\0\0\0\0\x10\0....", 14, HR_MEDIA_MP3},
        {"\xff\xfb\x90\x64", 4, HR_MEDIA_MP3},
        {"\xff\xf1\x50\x80\x02\x1f\xfc", 7, HR_MEDIA_ADTS},
        {"\xff\xd8\xff\xe0", 4, HR_MEDIA_UNKNOWN},
        {"\xff\xfb\xff\x64", 4, HR_MEDIA_UNKNOWN},
        {"plain words", 11, HR_MEDIA_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(cases); i++)
        assert_int_equal(hr_av_sniff((const uint8_t *)cases[i].bytes, cases[i].count),
                         cases[i].format);
}

static void extents_that_reach_past_the_end_are_truncation(void **state)
{
    static const struct {
        enum hr_media_format format;
        const char *bytes;
        size_t count;
        int code;
    } cases[] = {
        {HR_MEDIA_MP4, "\0\0\0\x08moov\0\0\0\x09mdatx", 17, 0},
        {HR_MEDIA_MP4, "\0\0\0\x08moov\0\0\0\x0amdatx", 17, HR_E_TRUNCATED},
        {HR_MEDIA_MP4, "\0\0\0\x08moov\0\0\0\0mdatx", 17, 0},
        {HR_MEDIA_MP4, "\0\0\0\x08" "free\0\0\0\x09mdatx", 17, HR_E_TRUNCATED},
        {HR_MEDIA_MP4, "\0\0\0\x08moov\0\0\0\1mdat\xff\xff\xff\xff\xff\xff\xff\xff", 24,
         HR_E_TRUNCATED},
        {HR_MEDIA_MATROSKA, "\x1a\x45\xdf\xa3\x81x\x18\x53\x80\x67\x82xy", 13, 0},
        {HR_MEDIA_MATROSKA, "\x1a\x45\xdf\xa3\x81x\x18\x53\x80\x67\x83xy", 13, HR_E_TRUNCATED},
        {HR_MEDIA_MATROSKA, "\x1a\x45\xdf\xa3\x81x\x18\x53\x80\x67\xff\xec\x82xy", 15, 0},
        {HR_MEDIA_MATROSKA, "\x1a\x45\xdf\xa3\x81x\x18\x53\x80\x67\xff\xec\x83xy", 15,
         HR_E_TRUNCATED},
        {HR_MEDIA_AVI, "RIFF\4\0\0\0AVI ", 12, 0},
        {HR_MEDIA_AVI, "RIFF\5\0\0\0AVI ", 12, HR_E_TRUNCATED},
    };

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(cases); i++)
        assert_int_equal(hr_av_check_complete(cases[i].format, (const uint8_t *)cases[i].bytes,
                                              cases[i].count, NULL),
                         cases[i].code);
}

static void ogg_without_its_last_page_is_truncation(void **state)
{
    uint8_t page[28] = "OggS\0\4";

    (void)state;
    page[26] = 1; /* one segment, of no bytes */
    assert_int_equal(hr_av_check_complete(HR_MEDIA_OGG, page, 28, NULL), 0);
    page[5] = 0;
    assert_int_equal(hr_av_check_complete(HR_MEDIA_OGG, page, 28, NULL), HR_E_TRUNCATED);
    page[5] = 4;
    page[27] = 1;
    assert_int_equal(hr_av_check_complete(HR_MEDIA_OGG, page, 28, NULL), HR_E_TRUNCATED);
}

/* ---- mixing and storing ---- */

static void run_sound(const struct hr_sound_job *job, float *const *planes, size_t n)
{
    struct hr_sound sound = {0};

    assert_int_equal(hr_sound_begin(&sound, job, NULL), 0);
    assert_int_equal(hr_sound_push(&sound, planes, n, NULL), 0);
    assert_int_equal(hr_sound_end(&sound, NULL), 0);
    hr_sound_finish(&sound);
}

static void mono_is_the_mean_so_opposite_channels_are_silence(void **state)
{
    float left[3] = {0.1f, -0.7f, 0.3f}, right[3] = {-0.1f, 0.7f, 0.3f}, out[4] = {9, 9, 9, 9};
    float *planes[2] = {left, right};
    struct hr_sound_job job = {.mix = HR_SOUND_MONO, .in_channels = 2, .in_rate = 8000,
                               .out_rate = 8000, .gain = 1, .dtype = HR_DTYPE_F32,
                               .out_samples = 3, .dst_samples = 4, .dst = out};

    (void)state;
    run_sound(&job, planes, 3);
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0.3f && out[3] == 0);
}

static void sixteen_bits_saturate_and_round(void **state)
{
    float in[7] = {1.5f, 1.f, -1.f, -7.f, 0.5f / 32768, 1.5f / 32768, 32767 / 32768.f};
    float *planes[1] = {in};
    int16_t out[7];
    struct hr_sound_job job = {.mix = HR_SOUND_MONO, .in_channels = 1, .in_rate = 8000,
                               .out_rate = 8000, .gain = 1, .dtype = HR_DTYPE_I16,
                               .out_samples = 7, .dst_samples = 7, .dst = out};
    static const int16_t expected[7] = {32767, 32767, -32768, -32768, 0, 2, 32767};

    (void)state;
    run_sound(&job, planes, 7);
    assert_memory_equal(out, expected, sizeof(expected));
}

static void layouts_differ_only_in_order(void **state)
{
    float a[2] = {1, 2}, b[2] = {3, 4}, together[6], apart[6];
    float *planes[2] = {a, b};
    struct hr_sound_job job = {.mix = HR_SOUND_STEREO, .in_channels = 2, .in_rate = 8000,
                               .out_rate = 8000, .gain = 2, .dtype = HR_DTYPE_F32,
                               .out_samples = 2, .dst_samples = 3, .dst = apart};
    static const float planar[6] = {2, 4, 0, 6, 8, 0}, packed[6] = {2, 6, 4, 8, 0, 0};

    (void)state;
    run_sound(&job, planes, 2);
    assert_memory_equal(apart, planar, sizeof(planar));
    job.interleaved = true;
    job.dst = together;
    run_sound(&job, planes, 2);
    assert_memory_equal(together, packed, sizeof(packed));
}

/* ---- chains ---- */

static struct hr_arg number(const char *name, double v)
{
    return (struct hr_arg){.name = name, .kind = v == (int)v ? HR_ARG_INT : HR_ARG_FLOAT,
                           .integer = (int64_t)v, .number = v, .text = "?"};
}

static struct hr_arg word(const char *name, const char *text)
{
    return (struct hr_arg){.name = name, .kind = HR_ARG_STR, .text = text};
}

static struct hr_chain *audio_chain(const char *past_end, const char *start)
{
    struct hr_arg clip_args[] = {number("seconds", 0.001), word("start", start),
                                 word("past_end", past_end)};
    struct hr_call clip = {.name = "clip", .args = clip_args, .arg_count = 3};
    struct hr_chain_spec spec = {
        .type = HR_FIELD_AUDIO, .field = "sound", .clip = &clip, .max_sample_rate = 8000};
    struct hr_chain *chain = NULL;

    assert_int_equal(hr_chain_create(&spec, &chain, NULL), 0);
    return chain;
}

/* Eight samples are wanted; the file holds 1 to `have` as s16. */
static int run_audio(struct hr_chain *chain, unsigned have, uint64_t position, float out[8],
                     int32_t *length, struct hr_sample_plan *plan)
{
    struct file f = {0};
    struct hr_facts facts;
    struct hr_context *context = NULL;
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {out, length};

    begin_wav(&f, 1, 1, 16);
    put_chunk(&f, "data", have * 2);
    for (unsigned i = 1; i <= have; i++)
        put(&f, (uint8_t[2]){(uint8_t)i, 0}, 2);
    end_wav(&f);
    assert_int_equal(
        hr_media_measure(f.bytes, f.count, HR_FIELD_AUDIO, true, NULL, &facts, NULL), 0);
    assert_int_equal(facts.samples, have);
    int ret = hr_chain_plan(chain, &facts, f.count, 7, 0, position, 0, plan, NULL);
    if (ret < 0)
        return ret;
    assert_int_equal(hr_context_create(chain, &context, NULL), 0);
    ret = hr_chain_decode(chain, context, plan, 0, f.bytes, f.count, dst, NULL);
    hr_context_destroy(context);
    return ret;
}

static void short_recordings_are_padded_looped_or_rejected(void **state)
{
    struct hr_chain *pad = audio_chain("pad", "begin"), *loop = audio_chain("loop", "begin"),
                    *reject = audio_chain("reject", "begin");
    struct hr_sample_plan plan;
    int32_t length = -1;
    float out[8];

    (void)state;
    assert_int_equal(run_audio(pad, 3, 0, out, &length, &plan), 0);
    assert_int_equal(length, 3);
    for (int i = 0; i < 8; i++)
        assert_true(out[i] == (i < 3 ? (float)(i + 1) / 32768 : 0));
    assert_int_equal(run_audio(pad, 0, 0, out, &length, &plan), 0);
    assert_int_equal(length, 0);
    assert_int_equal(run_audio(loop, 3, 0, out, NULL, &plan), 0);
    for (int i = 0; i < 8; i++)
        assert_true(out[i] == (float)(i % 3 + 1) / 32768);
    assert_int_equal(run_audio(loop, 0, 0, out, NULL, &plan), HR_E_LIMIT);
    assert_int_equal(run_audio(reject, 7, 0, out, NULL, &plan), HR_E_LIMIT);
    assert_int_equal(run_audio(reject, 8, 0, out, NULL, &plan), 0);
    hr_chain_destroy(pad);
    hr_chain_destroy(loop);
    hr_chain_destroy(reject);
}

static void random_starts_cover_the_recording_and_repeat(void **state)
{
    struct hr_chain *chain = audio_chain("reject", "random");
    struct hr_sample_plan plan, again;
    unsigned seen = 0;
    float out[8];

    (void)state;
    for (uint64_t position = 0; position < 100; position++) {
        assert_int_equal(run_audio(chain, 12, position, out, NULL, &plan), 0);
        assert_int_equal(run_audio(chain, 12, position, out, NULL, &again), 0);
        assert_int_equal(plan.audio.first_sample, again.audio.first_sample);
        assert_true(plan.audio.first_sample <= 4);
        seen |= 1u << plan.audio.first_sample;
        assert_true(out[0] == (float)(plan.audio.first_sample + 1) / 32768);
    }
    assert_int_equal(seen, 31);
    hr_chain_destroy(chain);
}

static int create_code(enum hr_field_type type, struct hr_call *clip, struct hr_call *op,
                       struct hr_error *err)
{
    struct hr_chain_spec spec = {.type = type, .field = "f", .file = "a.yaml", .line = 9,
                                 .column = 3, .clip = clip, .ops = op, .op_count = op != NULL,
                                 .max_sample_rate = 8000, .max_width = 64, .max_height = 64};
    struct hr_chain *chain = NULL;

    int ret = hr_chain_create(&spec, &chain, err);
    if (ret == 0)
        hr_chain_destroy(chain);
    return ret;
}

static void wrong_configurations_say_the_way_out(void **state)
{
    struct hr_arg frames[] = {number("frames", 4)}, both[] = {number("frames", 4), number("seconds", 1)};
    struct hr_arg masked[] = {number("frames", 4), word("past_end", "mask")};
    struct hr_call clip = {.name = "clip", .args = frames, .arg_count = 1, .line = 4, .column = 2};
    struct hr_call two = {.name = "clip", .args = both, .arg_count = 2};
    struct hr_call mask = {.name = "clip", .args = masked, .arg_count = 2};
    struct hr_call op = {.name = "resampel"};
    struct hr_error err;

    (void)state;
    assert_int_equal(create_code(HR_FIELD_AUDIO, NULL, NULL, &err), HR_E_CONFIG);
    assert_non_null(strstr(err.hint, "clip: {seconds"));
    assert_int_equal(create_code(HR_FIELD_AUDIO, &clip, NULL, &err), HR_E_CONFIG);
    assert_int_equal(create_code(HR_FIELD_AUDIO, NULL, &op, &err), HR_E_CONFIG);
    assert_non_null(strstr(err.hint, "resample"));
    assert_int_equal(create_code(HR_FIELD_VIDEO, NULL, NULL, &err), HR_E_CONFIG);
    assert_int_equal(create_code(HR_FIELD_VIDEO, &two, NULL, &err), HR_E_CONFIG);
    assert_int_equal(create_code(HR_FIELD_VIDEO, &mask, NULL, &err), HR_E_CONFIG);
    assert_non_null(strstr(err.hint, "repeat_last"));
    assert_int_equal(create_code(HR_FIELD_VIDEO, &clip, NULL, &err), HR_E_CONFIG);
    assert_int_equal(err.line, 9);
}

/* ---- real files, damaged ---- */

static const char *const media[] = {
    "cases/open/aud/A04-junk-bext-list.wav", "cases/open/aud/A07-mp3-lame-gapless.mp3",
    "cases/open/aud/A08-aac-m4a.m4a",        "cases/open/aud/A08b-aac-adts.aac",
    "cases/open/aud/A09-opus.opus",          "cases/open/aud/A10-flac-total0.flac",
    "cases/open/aud/A11-vorbis.ogg",         "cases/open/aud/A06b-w64.w64",
    "cases/open/vid/V01-vfr.mp4",            "cases/open/vid/V04-avi-bframes-nopts.avi",
    "cases/open/vid/V06-hevc-opengop.mp4",   "cases/open/vid/V09-vp9-altref.webm",
    "cases/open/vid/V12-interlaced-tff.mpg", "cases/open/vid/V14-fragmented.mp4",
    "cases/open/vid/V19-ts-midgop.ts",       "cases/open/vid/V24b-gif-delays.gif",
};

/* Exactly count bytes on the heap, so that a sanitizer sees a read past them; skips the test without them. */
static uint8_t *load(const char *name, size_t *count)
{
    char path[1024];

    if (!hr_test_shared(name, path, sizeof(path))) {
        print_message("skipped: the shared test data is not there\n");
        skip();
    }
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *count = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*count);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *count, f), *count);
    fclose(f);
    return bytes;
}

static enum hr_field_type type_of(const char *name)
{
    return strstr(name, "/vid/") ? HR_FIELD_VIDEO : HR_FIELD_AUDIO;
}

static void check_sample_scope(int code)
{
    if (code < 0)
        assert_int_equal(hr_error_scope_of(code), HR_SCOPE_SAMPLE);
}

static void every_cut_is_told_or_follows_the_rule(void **state)
{
    struct hr_facts facts;
    size_t count;

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(media); i++) {
        uint8_t *bytes = load(media[i], &count);
        /* A program stream states no length; a transport stream only that of its packets. */
        bool loose = strstr(media[i], ".mpg") || strstr(media[i], ".ts");
        for (int cut = 0; cut < 64; cut++) {
            size_t n = count * (size_t)cut / 64;
            uint8_t *part = malloc(n ? n : 1);
            memcpy(part, bytes, n);
            int ret = hr_media_measure(part, n, type_of(media[i]), false, NULL, &facts, NULL);
            check_sample_scope(ret);
            if (!loose)
                assert_true(ret < 0);
            free(part);
        }
        assert_int_equal(
            hr_media_measure(bytes, count, type_of(media[i]), true, NULL, &facts, NULL), 0);
        free(bytes);
    }
}

static void damaged_bytes_never_crash(void **state)
{
    struct hr_facts facts;
    struct hr_rng rng;
    size_t count;

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(media); i++) {
        uint8_t *bytes = load(media[i], &count);
        for (uint64_t round = 0; round < 24; round++) {
            uint8_t *copy = malloc(count);
            memcpy(copy, bytes, count);
            hr_rng_init(&rng, 5, i, round, 0);
            /* Half of the rounds spoil the headers. */
            size_t reach = round % 2 && count > 512 ? 512 : count;
            for (int k = 0; k < 1 + (int)round; k++)
                copy[hr_rng_below(&rng, reach)] = (uint8_t)hr_rng_u32(&rng);
            check_sample_scope(
                hr_media_measure(copy, count, type_of(media[i]), false, NULL, &facts, NULL));
            free(copy);
        }
        free(bytes);
    }
}

/* With `verify` every frame is decoded; without it some kinds of video are counted by packets. */
static void counting_packets_finds_what_decoding_finds(void **state)
{
    static const char *const videos[] = {
        "data/video/asl-gestures/again.mkv", "data/video/camera/intel-bottle-detection.mp4",
        "data/video/camera/mdn-rabbit.webm", "data/video/codecs/h264-bpyramid.mp4",
        "data/video/codecs/h264-vfr-240p.mp4", "data/video/codecs/h264-fragmented.mp4",
        "data/video/codecs/h264-rotated90.mp4", "data/video/codecs/h264-ac3.mkv",
        "cases/open/vid/V01-vfr.mp4", "cases/open/vid/V14-fragmented.mp4",
        "cases/open/vid/V02-bframes-editlist.mp4", "cases/open/vid/V12b-h264-mbaff.mp4"};
    struct hr_facts counted, decoded;
    size_t count;

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(videos); i++) {
        uint8_t *bytes = load(videos[i], &count);
        assert_int_equal(
            hr_media_measure(bytes, count, HR_FIELD_VIDEO, false, NULL, &counted, NULL), 0);
        assert_int_equal(
            hr_media_measure(bytes, count, HR_FIELD_VIDEO, true, NULL, &decoded, NULL), 0);
        assert_memory_equal(&counted, &decoded, sizeof(counted));
        free(bytes);
    }
}

/* 1 s of 48 kHz stereo and 4 s of 8 kHz mono: the recording of most samples is not the longest. */
static void ragged_sound_of_mixed_rates_has_room_for_the_longest(void **state)
{
    struct hr_arg ragged[] = {{.name = "ragged", .kind = HR_ARG_BOOL, .boolean = true}};
    struct hr_arg named[] = {number("rate", 16000), word("channels", "keep")};
    struct hr_call output = {.name = "output", .args = ragged, .arg_count = 1};
    struct hr_call options = {.name = "f", .args = named, .arg_count = 2};
    struct hr_chain_spec spec = {.type = HR_FIELD_AUDIO, .field = "f", .output = &output,
                                 .options = &options, .max_samples = 48000,
                                 .max_sample_rate = 48000, .max_channels = 12,
                                 .max_duration_ns = UINT64_C(4000000000)};
    const struct hr_facts facts[] = {
        {.format = HR_MEDIA_WAV, .sample_rate = 48000, .channels = 12, .samples = 48000},
        {.format = HR_MEDIA_WAV, .sample_rate = 8000, .channels = 1, .samples = 32000}};
    struct hr_sample_plan plan;
    struct hr_chain *chain = NULL;

    (void)state;
    assert_int_equal(hr_chain_create(&spec, &chain, NULL), 0);
    assert_int_equal(hr_chain_plan(chain, &facts[0], 1, 1, 0, 0, 0, &plan, NULL), 0);
    assert_true(plan.bytes[0] == 16000 * 12 * sizeof(float));
    assert_int_equal(hr_chain_plan(chain, &facts[1], 1, 1, 0, 0, 0, &plan, NULL), 0);
    assert_true(plan.bytes[0] == 64000 * sizeof(float));
    hr_chain_destroy(chain);
}

/* The facts are those of the whole file: decoding meets damage that measuring would have refused. */
static void damaged_bytes_never_crash_a_chain(void **state)
{
    struct hr_arg frames[] = {number("frames", 6), number("stride", 3)};
    struct hr_arg ragged[] = {{.name = "ragged", .kind = HR_ARG_BOOL, .boolean = true}};
    struct hr_arg rate[] = {number("rate", 16000)};
    struct hr_call clip = {.name = "clip", .args = frames, .arg_count = 2};
    struct hr_call output = {.name = "output", .args = ragged, .arg_count = 1};
    struct hr_call options = {.name = "f", .args = rate, .arg_count = 1};
    size_t count;

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(media); i++) {
        struct hr_chain *chain = NULL;
        struct hr_context *context = NULL;
        struct hr_sample_plan plan;
        struct hr_facts facts;
        struct hr_rng rng;
        enum hr_field_type type = type_of(media[i]);
        uint8_t *bytes = load(media[i], &count);
        bool video = type == HR_FIELD_VIDEO;
        assert_int_equal(hr_media_measure(bytes, count, type, false, NULL, &facts, NULL), 0);
        struct hr_chain_spec spec = {
            .type = type, .field = "f", .clip = video ? &clip : NULL, .output = &output,
            .options = video ? NULL : &options, .max_width = facts.width,
            .max_height = facts.height, .max_samples = facts.samples,
            .max_sample_rate = facts.sample_rate};
        assert_int_equal(hr_chain_create(&spec, &chain, NULL), 0);
        assert_int_equal(hr_context_create(chain, &context, NULL), 0);
        for (uint64_t round = 0; round < 24; round++) {
            void *dst[HR_CHAIN_MAX_OUTPUTS] = {0};
            uint8_t *copy = malloc(count + HR_CHAIN_PADDING);
            memcpy(copy, bytes, count);
            hr_rng_init(&rng, 6, i, round, 0);
            size_t reach = round % 2 && count > 512 ? 512 : count;
            for (uint64_t k = 0; k < round; k++)
                copy[hr_rng_below(&rng, reach)] = (uint8_t)hr_rng_u32(&rng);
            assert_int_equal(
                hr_chain_plan(chain, &facts, count, 1, 0, round, 0, &plan, NULL), 0);
            for (int o = 0; o < hr_chain_output_count(chain); o++)
                dst[o] = malloc(plan.bytes[o] ? plan.bytes[o] : 1);
            size_t n = round % 5 == 4 ? count * round / 24 : count;
            int ret = hr_chain_decode(chain, context, &plan, 0, copy, n, dst, NULL);
            check_sample_scope(ret);
            if (round == 0)
                assert_int_equal(ret, 0);
            for (int o = 0; o < HR_CHAIN_MAX_OUTPUTS; o++)
                free(dst[o]);
            free(copy);
        }
        hr_context_destroy(context);
        hr_chain_destroy(chain);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wav_samples_have_the_values_of_their_formats),
        cmocka_unit_test(wav_chunks_around_the_samples_do_not_leak_in),
        cmocka_unit_test(streamed_wav_reaches_to_its_end_and_cut_wav_is_told),
        cmocka_unit_test(wav_headers_of_nonsense_are_refused),
        cmocka_unit_test(containers_are_told_by_content),
        cmocka_unit_test(extents_that_reach_past_the_end_are_truncation),
        cmocka_unit_test(ogg_without_its_last_page_is_truncation),
        cmocka_unit_test(mono_is_the_mean_so_opposite_channels_are_silence),
        cmocka_unit_test(sixteen_bits_saturate_and_round),
        cmocka_unit_test(layouts_differ_only_in_order),
        cmocka_unit_test(short_recordings_are_padded_looped_or_rejected),
        cmocka_unit_test(random_starts_cover_the_recording_and_repeat),
        cmocka_unit_test(wrong_configurations_say_the_way_out),
        cmocka_unit_test(ragged_sound_of_mixed_rates_has_room_for_the_longest),
        cmocka_unit_test(counting_packets_finds_what_decoding_finds),
        cmocka_unit_test(every_cut_is_told_or_follows_the_rule),
        cmocka_unit_test(damaged_bytes_never_crash),
        cmocka_unit_test(damaged_bytes_never_crash_a_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
