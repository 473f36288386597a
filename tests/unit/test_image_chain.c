/* image chains: whatever bytes a value holds, pixels come out or an error of the sample; steady state
 * allocates nothing; ragged outputs keep their bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/rng.h"
#include "decoders/chain.h"
#include "decoders/raw_pixels.h"
#include "decoders/rpng.h"
#include "jpeg_tool.h"
#include "lib/shared.h"

static struct hr_rng rng;
static struct hr_arg size_arg = {.name = "size", .kind = HR_ARG_INT, .integer = 64, .number = 64};
static struct hr_call crop_op = {.name = "random_resized_crop", .args = &size_arg, .arg_count = 1};
static struct hr_call flip_op[2];
static struct hr_arg icc_arg = {.name = "icc", .kind = HR_ARG_STR, .text = "srgb"};
static struct hr_call icc_option = {.name = "options", .args = &icc_arg, .arg_count = 1};

static struct hr_chain *make_chain(void)
{
    struct hr_chain *chain = NULL;
    struct hr_error err;

    flip_op[0] = crop_op;
    flip_op[1] = (struct hr_call){.name = "hflip"};
    struct hr_chain_spec spec = {
        .type = HR_FIELD_IMAGE, .field = "image", .ops = flip_op, .op_count = 2, .options = &icc_option};
    assert_int_equal(hr_chain_create(&spec, &chain, &err), 0);
    return chain;
}

static void damaged_bytes_give_pixels_or_a_sample_error(void **state)
{
    static uint8_t out[64 * 64 * 3];
    static const char *const names[] = {
        "open/img/J08-420-base.jpg", "open/img/J12-progressive.jpg", "open/img/P05-adam7.png",
        "open/img/P07-rgba.png", "open/img/W01b-lossless.webp", "open/img/J15-restart1.jpg",
        "open/img/J23b-bmp-named.jpg", "open/img/J24-gif-named.jpg", "open/img/J24b-tiff-named.jpg",
        "fetched/img/I01-hopper.avif", "fetched/img/I01f-10bit.avif",
        "fetched/img/J30-icc.jpg"};
    struct hr_chain *chain = make_chain();
    struct hr_context *context;
    char path[1024], below[128];
    int refused = 0;

    (void)state;
    assert_int_equal(hr_context_create(chain, &context, NULL), 0);
    for (int i = 0; i < 4500; i++) {
        void *dst[HR_CHAIN_MAX_OUTPUTS] = {out}, *bytes;
        struct hr_sample_plan plan;
        struct hr_facts facts;
        struct hr_error err;
        size_t count;
        snprintf(below, sizeof(below), "cases/%s", names[i % HR_ARRAY_SIZE(names)]);
        if (!hr_test_shared(below, path, sizeof(path)) ||
            hr_fd_read_file(path, 1 << 20, &bytes, &count, NULL) < 0) {
            print_message("# skipped: no shared cases (set HR_SHARED)\n");
            skip();
        }
        uint8_t *value = hr_alloc(count + HR_CHAIN_PADDING);
        memcpy(value, bytes, count);
        memset(value + count, 0, HR_CHAIN_PADDING);
        for (uint64_t k = 1 + hr_rng_below(&rng, 4); k; k--)
            value[hr_rng_below(&rng, count)] = (uint8_t)hr_rng_below(&rng, 256);
        if (hr_rng_below(&rng, 3) == 0)
            count -= hr_rng_below(&rng, count);
        int ret = hr_media_measure(value, count, HR_FIELD_IMAGE, i % 2, NULL, &facts, &err);
        if (ret == 0 && (uint64_t)facts.width * facts.height < 4000000)
            ret = hr_chain_plan(chain, &facts, count, 1, 0, (uint64_t)i, 0, &plan, &err);
        else if (ret == 0)
            ret = HR_E_LIMIT;
        if (ret == 0)
            ret = hr_chain_decode(chain, context, &plan, 0, value, count, dst, &err);
        refused += ret < 0;
        if (ret < 0)
            assert_int_equal(hr_error_scope_of(ret), HR_SCOPE_SAMPLE);
        hr_free(value);
        hr_free(bytes);
    }
    assert_in_range(refused, 450, 4490);
    hr_context_destroy(context);
    hr_chain_destroy(chain);
}

static void raw_pixels_of_any_header_are_refused_or_rows(void **state)
{
    static uint8_t out[64 * 64 * 3], value[32 + 90 * 70 * 3 + HR_CHAIN_PADDING];
    static const uint32_t header[4] = {0x31505248, 90, 70, 3};
    struct hr_chain *chain = make_chain();
    struct hr_facts facts = {.format = HR_MEDIA_PNG, .width = 90, .height = 70, .channels = 3};
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {out};
    struct hr_context *context;
    int refused = 0;

    (void)state;
    assert_int_equal(hr_context_create(chain, &context, NULL), 0);
    for (int i = 0; i < 3000; i++) {
        size_t count = 32 + 90 * 70 * 3;
        struct hr_sample_plan plan;
        struct hr_error err;
        for (int k = 0; k < 4; k++)
            hr_store_le32(value + 4 * k, header[k]);
        if (i) /* the first is sound */
            value[hr_rng_below(&rng, 20)] = (uint8_t)hr_rng_below(&rng, 256);
        if (i && hr_rng_below(&rng, 3) == 0)
            count = hr_rng_below(&rng, count);
        assert_int_equal(hr_chain_plan(chain, &facts, count, 1, 0, (uint64_t)i, 0, &plan, &err), 0);
        uint8_t *tight = hr_alloc(count + HR_CHAIN_PADDING);
        memcpy(tight, value, count + HR_CHAIN_PADDING);
        int ret = hr_chain_decode(chain, context, &plan, HR_ENCODING_RAW_PIXELS, tight, count, dst, &err);
        hr_free(tight);
        assert_true(i || ret == 0);
        refused += ret < 0;
        if (ret < 0)
            assert_int_equal(hr_error_scope_of(ret), HR_SCOPE_SAMPLE);
    }
    assert_in_range(refused, 1500, 2999);
    hr_context_destroy(context);
    hr_chain_destroy(chain);
}

static void repacked_pngs_of_any_bytes_are_refused_or_rows(void **state)
{
    static uint8_t out[64 * 64 * 3];
    struct hr_chain *chain = make_chain();
    struct hr_facts facts = {.format = HR_MEDIA_PNG, .width = 101, .height = 67, .channels = 3};
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {out}, *png;
    struct hr_context *context;
    struct hr_buf packed = {0};
    char path[1024];
    size_t count;
    int refused = 0;

    (void)state;
    snprintf(path, sizeof(path), "%s/tests/data/cases/P07-rgba.png", getenv("HR_SOURCE_ROOT"));
    assert_int_equal(hr_fd_read_file(path, 1 << 20, &png, &count, NULL), 0);
    assert_int_equal(hr_rpng_encode(png, count, &packed, NULL), 0);
    assert_int_equal(hr_context_create(chain, &context, NULL), 0);
    for (int i = 0; i < 3000; i++) {
        struct hr_buf back = {0};
        struct hr_sample_plan plan;
        struct hr_error err;
        size_t n = i && hr_rng_below(&rng, 4) == 0 ? hr_rng_below(&rng, packed.used) : packed.used;
        uint8_t *tight = hr_alloc(n + HR_CHAIN_PADDING);
        memcpy(tight, packed.data, n);
        memset(tight + n, 0x5a, HR_CHAIN_PADDING);
        for (uint64_t k = i ? 1 + hr_rng_below(&rng, 4) : 0; k && n; k--) {
            uint64_t within = hr_rng_below(&rng, 2) ? n : hr_min_u64(n, 60);
            tight[hr_rng_below(&rng, within)] = (uint8_t)hr_rng_below(&rng, 256);
        }
        assert_int_equal(hr_chain_plan(chain, &facts, n, 1, 0, (uint64_t)i, 0, &plan, &err), 0);
        int ret = hr_chain_decode(chain, context, &plan, HR_ENCODING_REPACKED_PNG, tight, n, dst, &err);
        assert_true(i || ret == 0);
        refused += ret < 0;
        if (ret < 0)
            assert_int_equal(hr_error_scope_of(ret), HR_SCOPE_SAMPLE);
        if (i % 8 == 0)
            ret = hr_media_restore(HR_ENCODING_REPACKED_PNG, tight, n, &back, &err);
        hr_buf_finish(&back);
        hr_free(tight);
    }
    assert_in_range(refused, 700, 2999);
    hr_context_destroy(context);
    hr_chain_destroy(chain);
    hr_buf_finish(&packed);
    hr_free(png);
}

/* A row of 2^24 + 1 pixels is within the limit of pixels, but not of what is resized. */
static void sides_too_long_to_resize_are_told(void **state)
{
    enum { WIDTH = (1 << 24) + 1 };
    static uint8_t out[64 * 64 * 3];
    struct hr_arg sides[2] = {size_arg, size_arg};
    struct hr_arg size = {.name = "size", .kind = HR_ARG_LIST, .items = sides, .item_count = 2};
    struct hr_call op = {.name = "resize", .args = &size, .arg_count = 1};
    struct hr_chain_spec spec = {.type = HR_FIELD_IMAGE, .field = "image", .ops = &op, .op_count = 1};
    struct hr_facts facts = {.format = HR_MEDIA_PNG, .width = WIDTH, .height = 1, .channels = 1};
    struct hr_raw_pixels raw = {.width = WIDTH, .height = 1, .channels = 1};
    size_t bytes = HR_RAW_HEADER_BYTES + (size_t)WIDTH;
    uint8_t *value = hr_alloc_zero(1, bytes + HR_CHAIN_PADDING);
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {out};
    struct hr_context *context;
    struct hr_sample_plan plan;
    struct hr_chain *chain;
    struct hr_error err;

    (void)state;
    hr_raw_pixels_header(&raw, value);
    assert_int_equal(hr_chain_create(&spec, &chain, NULL), 0);
    assert_int_equal(hr_context_create(chain, &context, NULL), 0);
    assert_int_equal(hr_chain_plan(chain, &facts, bytes, 1, 0, 0, 0, &plan, NULL), 0);
    assert_int_equal(hr_chain_decode(chain, context, &plan, HR_ENCODING_RAW_PIXELS, value, bytes, dst, &err),
                     HR_E_LIMIT);
    assert_non_null(strstr(err.text, "longer than can be resized"));
    hr_context_destroy(context);
    hr_chain_destroy(chain);
    hr_free(value);
}

/* LZ4 makes 255 bytes of one: what a value claims of markers must not become a worker's memory. */
static void markers_take_no_more_memory_than_profiles_need(void **state)
{
    enum { TAIL = 65 << 20, HEAD_BYTES = 24, TAIL_BYTES = 28 };
    static uint8_t out[64 * 64 * 3];
    struct recipe recipe = {.width = 90, .height = 70, .components = 3, .h = 2, .v = 2, .quality = 75};
    struct bytes jpeg = jpeg_make(&recipe, &rng);
    uint8_t *longer = hr_alloc_zero(1, jpeg.count + TAIL);
    struct hr_facts facts = {.format = HR_MEDIA_JPEG, .width = 90, .height = 70, .channels = 3};
    struct hr_chain *chain = make_chain();
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {out};
    struct hr_buf packed = {0};
    struct hr_context *context;
    struct hr_sample_plan plan;
    struct hr_error err;

    (void)state;
    memcpy(longer, jpeg.data, jpeg.count);
    assert_int_equal(hr_rjpeg_encode(longer, jpeg.count + TAIL, &packed, NULL, NULL), 0);
    assert_true(packed.used < 1 << 20);
    hr_buf_add(&packed, longer + jpeg.count, HR_CHAIN_PADDING);
    size_t bytes = packed.used - HR_CHAIN_PADDING;
    assert_int_equal(hr_context_create(chain, &context, NULL), 0);
    assert_int_equal(hr_chain_plan(chain, &facts, bytes, 1, 0, 0, 0, &plan, NULL), 0);
    assert_int_equal(hr_chain_decode(chain, context, &plan, HR_ENCODING_REPACKED_JPEG, packed.data, bytes, dst, &err),
                     0);
    hr_store_le32(packed.data + HEAD_BYTES, hr_load_le32(packed.data + HEAD_BYTES) + TAIL);
    hr_store_le32(packed.data + TAIL_BYTES, hr_load_le32(packed.data + TAIL_BYTES) - TAIL);
    assert_int_equal(hr_chain_decode(chain, context, &plan, HR_ENCODING_REPACKED_JPEG, packed.data, bytes, dst, &err),
                     HR_E_LIMIT);
    hr_context_destroy(context);
    hr_chain_destroy(chain);
    hr_buf_finish(&packed);
    hr_free(longer);
    hr_free(jpeg.data);
}

/* So that what a later format says there is not misread. */
static void bytes_that_must_be_zero_are(void **state)
{
    uint8_t raw[HR_RAW_HEADER_BYTES + 1] = {0}, png[HR_RPNG_HEADER_BYTES + 4 + 2] = {'H', 'R', 'G', '1', 1, 0, 0, 0, 1};
    const struct hr_raw_pixels pixel = {.width = 1, .height = 1, .channels = 1};
    struct hr_raw_pixels opened;
    struct hr_rpng reopened;

    (void)state;
    hr_raw_pixels_header(&pixel, raw);
    png[16] = png[32] = 2;
    assert_int_equal(hr_raw_pixels_open(raw, sizeof(raw), &opened, NULL), 0);
    assert_int_equal(hr_rpng_open(png, sizeof(png), &reopened, NULL), 0);
    for (int i = 13; i < 32; i++) {
        bool zero[2] = {i >= 20, i < 16 || i >= 28};
        raw[i] ^= zero[0];
        png[i] ^= zero[1];
        assert_int_equal(hr_raw_pixels_open(raw, sizeof(raw), &opened, NULL), zero[0] ? HR_E_DECODE : 0);
        assert_int_equal(hr_rpng_open(png, sizeof(png), &reopened, NULL), zero[1] ? HR_E_DECODE : 0);
        raw[i] ^= zero[0];
        png[i] ^= zero[1];
    }
}

static void steady_state_allocates_nothing(void **state)
{
    static uint8_t out[64 * 64 * 3];
    struct hr_chain *chain = make_chain();
    struct hr_context *context;
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {out};
    struct recipe recipe = {
        .width = 300, .height = 200, .components = 3, .h = 2, .v = 2, .quality = 75};
    struct bytes jpeg = jpeg_make(&recipe, &rng);
    uint8_t *value = hr_alloc_zero(1, jpeg.count + HR_CHAIN_PADDING);
    struct hr_facts facts;

    (void)state;
    memcpy(value, jpeg.data, jpeg.count);
    assert_int_equal(hr_media_measure(value, jpeg.count, HR_FIELD_IMAGE, true, NULL, &facts, NULL), 0);
    assert_int_equal(hr_context_create(chain, &context, NULL), 0);
    for (uint64_t i = 0; i < 40; i++) {
        struct hr_sample_plan plan;
        struct hr_error err;
        if (i > 20) /* a build with the check aborts on an allocation from here on */
            hr_mem_steady_enter();
        int ret = hr_chain_plan(chain, &facts, jpeg.count, 1, 0, i, 0, &plan, &err);
        if (ret == 0)
            ret = hr_chain_decode(chain, context, &plan, 0, value, jpeg.count, dst, &err);
        if (i > 20)
            hr_mem_steady_leave();
        assert_int_equal(ret, 0);
    }
    hr_context_destroy(context);
    hr_chain_destroy(chain);
    hr_free(value);
    hr_free(jpeg.data);
}

static void bounds_of_ragged_outputs_hold(void **state)
{
    struct hr_arg ragged = {.name = "ragged", .kind = HR_ARG_BOOL, .boolean = true};
    struct hr_call output = {.name = "output", .args = &ragged, .arg_count = 1};
    struct hr_arg short_side = {.name = "", .kind = HR_ARG_INT, .integer = 100, .number = 100,
                                .text = "100"};
    struct hr_call resize = {.name = "resize", .args = &short_side, .arg_count = 1};
    struct hr_chain_spec spec = {.type = HR_FIELD_IMAGE, .field = "image", .ops = &resize,
                                 .op_count = 1, .output = &output, .max_width = 2000,
                                 .max_height = 1000};
    struct hr_facts facts = {.width = 300, .height = 200};
    struct hr_sample_plan plan;
    struct hr_chain *chain;
    struct hr_error err;

    (void)state;
    assert_int_equal(hr_chain_create(&spec, &chain, &err), 0);
    const struct hr_chain_output *out = hr_chain_output_at(chain, 0);
    assert_true(out->ragged && out->shape[0] == 0 && out->shape[1] == 0 && out->shape[2] == 3);
    assert_int_equal(hr_chain_plan(chain, &facts, 1, 0, 0, 0, 0, &plan, &err), 0);
    assert_int_equal(plan.shape[0][0], 100);
    assert_int_equal(plan.shape[0][1], 150);
    assert_int_equal(plan.bytes[0], 100 * 150 * 3);
    facts.height = 1; /* 30,000 pixels wide after the resize */
    assert_int_equal(hr_chain_plan(chain, &facts, 1, 0, 0, 0, 0, &plan, &err), HR_E_LIMIT);
    facts.height = 0;
    assert_true(hr_chain_plan(chain, &facts, 1, 0, 0, 0, 0, &plan, &err) < 0);
    hr_chain_destroy(chain);
    spec.output = NULL;
    assert_int_equal(hr_chain_create(&spec, &chain, &err), HR_E_CONFIG);
    assert_non_null(strstr(err.hint, "ragged: true"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_bytes_give_pixels_or_a_sample_error),
        cmocka_unit_test(raw_pixels_of_any_header_are_refused_or_rows),
        cmocka_unit_test(repacked_pngs_of_any_bytes_are_refused_or_rows),
        cmocka_unit_test(sides_too_long_to_resize_are_told),
        cmocka_unit_test(markers_take_no_more_memory_than_profiles_need),
        cmocka_unit_test(bytes_that_must_be_zero_are),
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(bounds_of_ragged_outputs_hold),
    };

    hr_rng_init(&rng, 7, 0, 0, 0);
    return cmocka_run_group_tests_name("image_chain", tests, NULL, NULL);
}
