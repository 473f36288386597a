/* decoders: sniffing, and what the registry says of bytes that are none of ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "decoders/chain.h"
#include "decoders/output.h"

static void formats_are_told_by_content(void **state)
{
    static const struct {
        const char *bytes;
        size_t count;
        enum hr_media_format format;
    } cases[] = {
        {"GIF89a\1\0\1\0", 10, HR_MEDIA_GIF},
        {"II\x2a\0\x08\0\0\0", 8, HR_MEDIA_TIFF},
        {"MM\0\x2a\0\0\0\x08", 8, HR_MEDIA_TIFF},
        {"\0\0\0\x18" "ftypavif\0\0\0\0mif1miaf", 24, HR_MEDIA_AVIF},
        {"\0\0\0\x18" "ftypmif1\0\0\0\0avifmiaf", 24, HR_MEDIA_AVIF},
        {"BM, he said, and went on", 24, HR_MEDIA_UNKNOWN},
        {"GIF8", 4, HR_MEDIA_UNKNOWN},
        {"", 0, HR_MEDIA_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(cases); i++)
        assert_int_equal(hr_media_sniff((const uint8_t *)cases[i].bytes, cases[i].count),
                         cases[i].format);
}

static void bytes_of_no_format_are_refused_with_reason(void **state)
{
    uint8_t zeros[4096] = {0};
    struct hr_facts facts;
    struct hr_error err;

    (void)state;
    assert_int_equal(hr_media_measure(zeros, 0, HR_FIELD_NONE, false, NULL, &facts, &err),
                     HR_E_TRUNCATED);
    assert_int_equal(hr_media_measure(zeros, sizeof(zeros), HR_FIELD_NONE, false, NULL, &facts, &err),
                     HR_E_FORMAT);
    assert_string_equal(err.text, "all 4096 bytes are zero");
    assert_int_equal(hr_media_measure((const uint8_t *)"GIF89a\1\0\1\0", 10, HR_FIELD_IMAGE, false,
                                      NULL, &facts, &err),
                     HR_E_TRUNCATED);
    assert_non_null(strstr(err.text, "gif"));
    assert_int_equal(hr_media_measure((const uint8_t *)"\0\0\0\x18" "ftypavif\0\0\0\0mif1miaf", 24,
                                      HR_FIELD_IMAGE, false, NULL, &facts, &err),
                     HR_E_FORMAT);
    assert_non_null(strstr(err.text, "AVIF"));
}

static void output_table_names_the_known_words(void **state)
{
    struct hr_arg arg = {.name = "dtype", .kind = HR_ARG_STR, .text = "f64", .line = 4, .column = 9};
    struct hr_call call = {
        .name = "output", .args = &arg, .arg_count = 1, .file = "a.yaml", .line = 4, .column = 3};
    struct hr_output output;
    struct hr_error err;

    (void)state;
    assert_int_equal(hr_output_read(&call, HR_FIELD_IMAGE, &output, &err), HR_E_CONFIG);
    assert_int_equal(err.line, 4);
    assert_string_equal(err.hint, "one of: u8, f16, bf16, f32");
    arg.text = "bf16";
    assert_int_equal(hr_output_read(&call, HR_FIELD_IMAGE, &output, &err), 0);
    assert_int_equal(output.dtype, HR_DTYPE_BF16);
    assert_int_equal(output.layout, HR_LAYOUT_NONE);
    assert_int_equal(hr_channels_parse("gray", HR_FIELD_IMAGE), HR_CHANNELS_GRAY);
    assert_int_equal(hr_channels_parse("stereo", HR_FIELD_AUDIO), HR_CHANNELS_STEREO);
    assert_int_equal(hr_channels_parse("stereo", HR_FIELD_IMAGE), HR_CHANNELS_DEFAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_told_by_content),
        cmocka_unit_test(bytes_of_no_format_are_refused_with_reason),
        cmocka_unit_test(output_table_names_the_known_words),
    };

    return cmocka_run_group_tests_name("decoders", tests, NULL, NULL);
}
