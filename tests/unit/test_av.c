/* Audio and video: containers by their content, their own extents, and damage at every place of real files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "args.h"
#include "base/rng.h"
#include "decoders/av_container.h"
#include "decoders/chain.h"
#include "lib/shared.h"

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
    struct hr_arg named[] = {arg_number("rate", 16000), arg_word("channels", "keep")};
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
    struct hr_arg frames[] = {arg_number("frames", 6), arg_number("stride", 3)};
    struct hr_arg ragged[] = {{.name = "ragged", .kind = HR_ARG_BOOL, .boolean = true}};
    struct hr_arg rate[] = {arg_number("rate", 16000)};
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
        cmocka_unit_test(containers_are_told_by_content),
        cmocka_unit_test(extents_that_reach_past_the_end_are_truncation),
        cmocka_unit_test(ogg_without_its_last_page_is_truncation),
        cmocka_unit_test(ragged_sound_of_mixed_rates_has_room_for_the_longest),
        cmocka_unit_test(counting_packets_finds_what_decoding_finds),
        cmocka_unit_test(every_cut_is_told_or_follows_the_rule),
        cmocka_unit_test(damaged_bytes_never_crash),
        cmocka_unit_test(damaged_bytes_never_crash_a_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
