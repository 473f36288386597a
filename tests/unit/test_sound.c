/* Sound: WAV by hand-made bytes, mixing and storing, and clips of recordings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "args.h"
#include "decoders/chain.h"
#include "decoders/sound.h"
#include "decoders/wav.h"

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

static struct hr_chain *audio_chain(const char *past_end, const char *start)
{
    struct hr_arg clip_args[] = {arg_number("seconds", 0.001), arg_word("start", start),
                                 arg_word("past_end", past_end)};
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

enum { CHANNELS = 8, HAVE = 100 };

static void make_eight_channels(struct file *f, uint32_t rate, struct hr_facts *facts)
{
    begin_wav(f, 1, CHANNELS, 16);
    hr_store_le32(f->bytes + 24, rate);
    put_chunk(f, "data", HAVE * CHANNELS * 2);
    for (unsigned i = 0; i < HAVE * CHANNELS; i++)
        put(f, (uint8_t[2]){1, 2}, 2);
    end_wav(f);
    assert_int_equal(hr_media_measure(f->bytes, f->count, HR_FIELD_AUDIO, true, NULL, facts, NULL), 0);
}

/* An index that says of a few samples that they are 39 million. */
static void loops_take_no_memory_for_what_is_claimed(void **state)
{
    struct hr_arg seconds[] = {arg_number("seconds", 10), arg_word("past_end", "loop")};
    struct hr_call clip = {.name = "clip", .args = seconds, .arg_count = 2};
    struct hr_chain_spec spec = {
        .type = HR_FIELD_AUDIO, .field = "sound", .clip = &clip, .max_sample_rate = 4000000};
    struct file f = {0};
    struct hr_context *context = NULL;
    struct hr_sample_plan plan;
    struct hr_chain *chain = NULL;
    struct hr_facts facts;
    struct hr_error err;
    float out;

    (void)state;
    make_eight_channels(&f, 4000000, &facts);
    facts.samples = 39000000;
    assert_int_equal(hr_chain_create(&spec, &chain, NULL), 0);
    assert_int_equal(hr_context_create(chain, &context, NULL), 0);
    assert_int_equal(hr_chain_plan(chain, &facts, f.count, 7, 0, 0, 0, &plan, NULL), 0);
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {&out}; /* nothing is written */
    assert_int_equal(hr_chain_decode(chain, context, &plan, 0, f.bytes, f.count, dst, &err), HR_E_LIMIT);
    assert_non_null(strstr(err.hint, "past_end: pad"));
    hr_context_destroy(context);
    hr_chain_destroy(chain);
}

/* The index may say anything: here, as many samples as come to 22 MB modulo 2^64 once they are resampled. */
static void sizes_beyond_64_bits_are_refused(void **state)
{
    struct hr_arg rate = arg_number("rate", 768000), keep = arg_word("channels", "keep");
    struct hr_arg ragged = {.name = "ragged", .kind = HR_ARG_BOOL, .boolean = true};
    struct hr_call op = {.name = "resample", .args = &rate, .arg_count = 1};
    struct hr_call options = {.name = "options", .args = &keep, .arg_count = 1};
    struct hr_call output = {.name = "output", .args = &ragged, .arg_count = 1};
    struct hr_chain_spec spec = {.type = HR_FIELD_AUDIO, .field = "sound", .ops = &op, .op_count = 1,
                                 .options = &options, .output = &output, .max_sample_rate = 1,
                                 .max_samples = HAVE, .max_channels = CHANNELS};
    struct file f = {0};
    struct hr_sample_plan plan;
    struct hr_chain *chain = NULL;
    struct hr_facts facts;
    struct hr_error err;

    (void)state;
    make_eight_channels(&f, 1, &facts);
    assert_int_equal(hr_chain_create(&spec, &chain, &err), 0);
    facts.samples = UINT64_C(750599937896); /* times 768000 * 8 * 4 is 2^64 and a little */
    assert_int_equal(hr_chain_plan(chain, &facts, f.count, 7, 0, 0, 0, &plan, &err), HR_E_LIMIT);
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
    struct hr_arg frames[] = {arg_number("frames", 4)}, both[] = {arg_number("frames", 4), arg_number("seconds", 1)};
    struct hr_arg masked[] = {arg_number("frames", 4), arg_word("past_end", "mask")};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wav_samples_have_the_values_of_their_formats),
        cmocka_unit_test(wav_chunks_around_the_samples_do_not_leak_in),
        cmocka_unit_test(streamed_wav_reaches_to_its_end_and_cut_wav_is_told),
        cmocka_unit_test(wav_headers_of_nonsense_are_refused),
        cmocka_unit_test(mono_is_the_mean_so_opposite_channels_are_silence),
        cmocka_unit_test(sixteen_bits_saturate_and_round),
        cmocka_unit_test(layouts_differ_only_in_order),
        cmocka_unit_test(short_recordings_are_padded_looped_or_rejected),
        cmocka_unit_test(random_starts_cover_the_recording_and_repeat),
        cmocka_unit_test(loops_take_no_memory_for_what_is_claimed),
        cmocka_unit_test(sizes_beyond_64_bits_are_refused),
        cmocka_unit_test(wrong_configurations_say_the_way_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
