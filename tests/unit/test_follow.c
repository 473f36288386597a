/* Boxes and keypoints through drawn geometry: numbers by hand for every format, numbers that are none, horizons, and
 * what a pipeline file may not say. Pictures and masks are in tests/python/test_follow.py. */
#include <math.h>
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
#include "decoders/ops/follow.h"

/* 100 x 80 -> mirrored, twice as large, and the window of 120 x 100 at (20, 10) of that. */
static struct hr_geometry mirrored(void)
{
    struct hr_geometry g = {.to_result = {{-2, 0, 180, 0, 2, -10, 0, 0, 1}}, .w = 120, .h = 100};

    assert_true(hr_map_invert(&g.to_source, &g.to_result));
    return g;
}

static struct hr_follow boxes(enum hr_box_format from, enum hr_box_format to, enum hr_dtype dtype)
{
    return (struct hr_follow){.kind = HR_FOLLOW_BOXES, .from = {dtype, from, false}, .to = {dtype, to, false},
                              .clamp = true, .min_size = 1, .min_area = 1, .columns = 4};
}

static void assert_numbers(const double *is, const double *wanted, int count)
{
    for (int i = 0; i < count; i++)
        if (!(fabs(is[i] - wanted[i]) < 1e-9))
            fail_msg("number %d is %g, not %g", i, is[i], wanted[i]);
}

/* ---- boxes ---- */

static void a_box_is_the_same_in_every_format(void **state)
{
    /* 30 20 50 45 becomes 180 - 100, 40 - 10, 180 - 60, 90 - 10 */
    static const double in[3][4] = {{30, 20, 50, 45}, {30, 20, 20, 25}, {40, 32.5, 20, 25}};
    static const double out[3][4] = {{80, 30, 120, 80}, {80, 30, 40, 50}, {100, 55, 40, 50}};
    struct hr_geometry g = mirrored();

    (void)state;
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++)
            for (int normalized = 0; normalized < 4; normalized++) {
                struct hr_follow f = boxes((enum hr_box_format)from, (enum hr_box_format)to, HR_DTYPE_F64);
                double v[4], got[4], wanted[4];
                uint8_t kept = 9;
                f.from.normalized = normalized & 1;
                f.to.normalized = normalized >> 1;
                for (int i = 0; i < 4; i++) {
                    v[i] = in[from][i] / (f.from.normalized ? (i % 2 ? 80 : 100) : 1);
                    wanted[i] = out[to][i] / (f.to.normalized ? (i % 2 ? 100 : 120) : 1);
                }
                hr_follow_run(&f, &g, 100, 80, 1, v, got, &kept, 1);
                assert_numbers(got, wanted, 4);
                assert_int_equal(kept, 1);
            }
}

static void boxes_are_cut_at_the_edge_and_small_ones_are_not_kept(void **state)
{
    /* x from 180 - 2 x2 to 180 - 2 x1, y from 2 y1 - 10 to 2 y2 - 10, of 120 x 100 */
    static const double in[][4] = {
        {10, 0, 40, 20},       /* over the right and the upper edge */
        {0, 10, 30, 20},       /* touches the right edge from outside */
        {40, 10, 40.4, 50},    /* 0.8 wide */
        {40, 10, 40.6, 50},    /* 1.2 wide */
        {-500, -500, 500, 500},
        {40, 20, 40, 60},      /* no width at all */
        {0, 70, 10, 80},       /* far outside */
    };
    static const double out[][4] = {{100, 0, 120, 30}, {120, 10, 120, 30}, {99.2, 10, 100, 90}, {98.8, 10, 100, 90},
                                    {0, 0, 120, 100},  {100, 30, 100, 100}, {120, 100, 120, 100}};
    static const uint8_t wanted[] = {1, 0, 0, 1, 1, 0, 0};
    enum { N = HR_ARRAY_SIZE(in) };
    struct hr_follow f = boxes(HR_BOX_XYXY, HR_BOX_XYXY, HR_DTYPE_F64);
    struct hr_geometry g = mirrored();
    double got[N][4];
    uint8_t kept[N];

    (void)state;
    hr_follow_run(&f, &g, 100, 80, 1, in, got, kept, N);
    assert_numbers(&got[0][0], &out[0][0], N * 4);
    assert_memory_equal(kept, wanted, N);
    f.min_area = 600.5;
    hr_follow_run(&f, &g, 100, 80, 1, in, got, kept, N);
    assert_memory_equal(kept, ((uint8_t[N]){0, 0, 0, 0, 1, 0, 0}), N);
    f.clamp = false;
    f.min_area = 0;
    hr_follow_run(&f, &g, 100, 80, 1, in, got, kept, N);
    assert_numbers(got[0], (double[4]){100, -10, 160, 30}, 4);
    assert_int_equal(kept[0], 1);
    assert_int_equal(kept[1], 0);
}

static void whole_numbers_are_the_nearest_corners(void **state)
{
    struct hr_geometry g = {.to_result = {{0.25, 0, 0, 0, 0.25, 0, 0, 0, 1}}, .w = 25, .h = 20};
    struct hr_follow f = boxes(HR_BOX_XYWH, HR_BOX_XYWH, HR_DTYPE_I32);
    int32_t v[4] = {13, 13, 30, 31}, got[4]; /* 3.25 3.25 to 10.75 11 */
    uint8_t kept;

    (void)state;
    assert_true(hr_map_invert(&g.to_source, &g.to_result));
    hr_follow_run(&f, &g, 100, 80, 1, v, got, &kept, 1);
    assert_memory_equal(got, ((int32_t[4]){3, 3, 8, 8}), sizeof(got));
    int64_t wide[4] = {13, 13, 30, 31}, wide_got[4];
    f.from.dtype = f.to.dtype = HR_DTYPE_I64;
    hr_follow_run(&f, &g, 100, 80, 1, wide, wide_got, &kept, 1);
    assert_memory_equal(wide_got, ((int64_t[4]){3, 3, 8, 8}), sizeof(wide_got));
}

static void a_turned_box_is_the_box_of_its_corners(void **state)
{
    /* By 30 degrees about (50, 40). */
    double c = cos(M_PI / 6), s = sin(M_PI / 6);
    struct hr_geometry g = {.to_result = {{c, -s, 50 - c * 50 + s * 40, s, c, 40 - s * 50 - c * 40, 0, 0, 1}},
                            .w = 100, .h = 80};
    struct hr_follow f = boxes(HR_BOX_XYXY, HR_BOX_XYXY, HR_DTYPE_F64);
    double v[4] = {40, 30, 60, 50}, got[4], half = 10 * c + 10 * s;
    uint8_t kept;

    (void)state;
    assert_true(hr_map_invert(&g.to_source, &g.to_result));
    hr_follow_run(&f, &g, 100, 80, 1, v, got, &kept, 1);
    assert_numbers(got, (double[4]){50 - half, 40 - half, 50 + half, 40 + half}, 4);
}

/* Beyond the line x = 200 a point is behind the viewer: there its quotient means nothing. */
static void what_is_behind_a_horizon_is_not_seen(void **state)
{
    struct hr_geometry g = {.to_result = {{1, 0, 0, 0, 1, 0, -1.0 / 200, 0, 1}}, .w = 400, .h = 80};
    struct hr_follow f = boxes(HR_BOX_XYXY, HR_BOX_XYXY, HR_DTYPE_F64);
    double in[3][4] = {{20, 10, 100, 20}, {100, 10, 250, 20}, {300, 10, 350, 20}}, got[3][4];
    double points[3][2] = {{100, 20}, {199.999, 20}, {300, 20}}, at[3][2];
    uint8_t kept[3];

    (void)state;
    assert_true(hr_map_invert(&g.to_source, &g.to_result));
    hr_follow_run(&f, &g, 100, 80, 1, in, got, kept, 3);
    assert_numbers(got[0], (double[4]){20 / 0.9, 10 / 0.9, 200, 40}, 4);
    assert_numbers(got[1], (double[4]){200, 20, 400, 80}, 4); /* from the left side to the horizon */
    assert_numbers(got[2], (double[4]){0, 0, 0, 0}, 4);
    assert_memory_equal(kept, ((uint8_t[3]){1, 1, 0}), 3);
    f = (struct hr_follow){.kind = HR_FOLLOW_KEYPOINTS, .from = {HR_DTYPE_F64, 0, false},
                           .to = {HR_DTYPE_F64, 0, false}, .columns = 2};
    hr_follow_run(&f, &g, 100, 80, 1, points, at, kept, 3);
    assert_numbers(at[0], (double[2]){200, 40}, 2);
    assert_numbers(at[2], (double[2]){0, 0}, 2);
    assert_memory_equal(kept, ((uint8_t[3]){1, 0, 0}), 3);
}

/* ---- keypoints ---- */

static void keypoints_have_a_corner_or_a_middle_as_origin(void **state)
{
    struct hr_geometry g = mirrored();
    struct hr_follow f = {.kind = HR_FOLLOW_KEYPOINTS, .from = {HR_DTYPE_F32, 0, false},
                          .to = {HR_DTYPE_F64, 0, false}, .columns = 3};
    const float in[4][3] = {{40, 20, 2}, {10, 20, 1}, {40, 20, 0}, {30, 5, 2}};
    double got[4][3];
    uint8_t kept[4];

    (void)state;
    hr_follow_run(&f, &g, 100, 80, 1, in, got, kept, 4);
    assert_numbers(got[0], (double[3]){100, 30, 2}, 3);
    assert_numbers(got[1], (double[3]){160, 30, 0}, 3); /* outside: there, but not seen */
    assert_numbers(got[2], (double[3]){0, 0, 0}, 3);
    assert_numbers(got[3], (double[3]){120, 0, 2}, 3); /* on the corner */
    assert_memory_equal(kept, ((uint8_t[4]){1, 0, 0, 1}), 4);
    f.centres = true; /* 180 - 2 (40 + 0.5) - 0.5 */
    hr_follow_run(&f, &g, 100, 80, 1, in, got, kept, 4);
    assert_numbers(got[0], (double[3]){98.5, 30.5, 2}, 3);
}

static void mirrored_pictures_exchange_left_and_right(void **state)
{
    struct hr_geometry g = mirrored();
    struct hr_follow f = {.kind = HR_FOLLOW_KEYPOINTS, .from = {HR_DTYPE_I32, 0, false},
                          .to = {HR_DTYPE_I32, 0, false}, .columns = 2, .mirror_count = 3, .mirror = {0, 2, 1}};
    const int32_t in[8][2] = {{50, 10}, {51, 10}, {52, 10}, {53, 10}, {60, 20}, {61, 20}, {62, 20}, {63, 20}};
    static const int32_t wanted[8][2] = {{80, 10}, {76, 10}, {78, 10}, {74, 10},
                                         {60, 30}, {56, 30}, {58, 30}, {54, 30}};
    int32_t got[8][2];
    uint8_t kept[8];

    (void)state;
    hr_follow_run(&f, &g, 100, 80, 4, in, got, kept, 8);
    assert_memory_equal(got, wanted, sizeof(got));
    g.to_result = (struct hr_map){{2, 0, -20, 0, 2, -10, 0, 0, 1}};
    assert_true(hr_map_invert(&g.to_source, &g.to_result));
    hr_follow_run(&f, &g, 100, 80, 4, in, got, kept, 8);
    assert_memory_equal(got[1], ((int32_t[2]){82, 10}), sizeof(got[1]));
}

/* ---- numbers that are none ---- */

static void numbers_that_are_none_become_zeros_that_are_not_kept(void **state)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    struct hr_geometry g = mirrored();
    uint8_t kept;

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(bad); i++)
        for (int at = 0; at < 4; at++) {
            double v[4] = {30, 20, 50, 45}, got[4];
            struct hr_follow f = boxes(HR_BOX_XYXY, HR_BOX_XYXY, HR_DTYPE_F64);
            v[at] = bad[i];
            hr_follow_run(&f, &g, 100, 80, 1, v, got, &kept, 1);
            assert_numbers(got, (double[4]){0}, 4);
            assert_int_equal(kept, 0);
            f.kind = HR_FOLLOW_KEYPOINTS;
            f.columns = 3;
            hr_follow_run(&f, &g, 100, 80, 1, v, got, &kept, 1);
            assert_numbers(got, at < 3 ? (double[3]){0} : (double[3]){120, 30, 50}, 3);
        }
    double inverted[4] = {50, 20, 30, 45}, got[4];
    struct hr_follow f = boxes(HR_BOX_XYXY, HR_BOX_XYXY, HR_DTYPE_F64);
    hr_follow_run(&f, &g, 100, 80, 1, inverted, got, &kept, 1);
    assert_numbers(got, (double[4]){0}, 4);
    assert_int_equal(kept, 0);
}

/* Any bits through any map: all results are finite, and boxes lie in the picture. */
static void any_bits_give_finite_numbers(void **state)
{
    static const enum hr_dtype dtypes[] = {HR_DTYPE_F32, HR_DTYPE_F64, HR_DTYPE_I32, HR_DTYPE_I64};
    struct hr_rng rng;

    (void)state;
    hr_rng_init(&rng, 3, 0, 0, 0);
    for (int i = 0; i < 200000; i++) {
        struct hr_follow f = boxes((enum hr_box_format)hr_rng_below(&rng, 3), (enum hr_box_format)hr_rng_below(&rng, 3),
                                   dtypes[i % 4]);
        struct hr_geometry g = {.w = 120, .h = 100};
        uint64_t in[4];
        double got[4];
        uint8_t kept;
        for (int k = 0; k < 9; k++)
            g.to_result.m[k] = ldexp(hr_rng_range(&rng, -1, 1), (int)hr_rng_below(&rng, 24) - 12);
        if (!hr_map_invert(&g.to_source, &g.to_result))
            continue;
        for (int k = 0; k < 4; k++)
            in[k] = ((uint64_t)hr_rng_u32(&rng) << 32 | hr_rng_u32(&rng)) >> (i % 3 ? 0 : hr_rng_below(&rng, 60));
        f.to = (struct hr_follow_form){HR_DTYPE_F64, HR_BOX_XYXY, false};
        if (i % 5 == 0) {
            f.kind = HR_FOLLOW_KEYPOINTS;
            f.columns = 2 + (uint32_t)i % 2;
        }
        hr_follow_run(&f, &g, 100, 80, 1, in, got, &kept, 1);
        for (uint32_t k = 0; k < f.columns; k++) {
            assert_true(isfinite(got[k]));
            if (f.kind == HR_FOLLOW_BOXES)
                assert_true(got[k] >= 0 && got[k] <= (k % 2 ? 100 : 120));
        }
        assert_true(kept <= 1);
    }
}

/* ---- masks ---- */

static struct hr_chain *make_chain(const struct hr_chain *leader)
{
    struct hr_arg size = {.name = "", .kind = HR_ARG_INT, .integer = 20, .number = 20, .text = "20"};
    struct hr_call ops[] = {{.name = "random_resized_crop", .args = &size, .arg_count = 1},
                            {.name = "rotate", .args = &size, .arg_count = 1}};
    struct hr_chain_spec spec = {.type = HR_FIELD_IMAGE, .field = "f", .leader = leader};
    struct hr_chain *chain;
    struct hr_error err;

    spec.ops = leader ? NULL : ops;
    spec.op_count = leader ? 0 : 2;
    assert_int_equal(hr_chain_create(&spec, &chain, &err), 0);
    return chain;
}

/* A file as it is, then with bytes changed or cut off: rows of ids, or an error of that sample. */
static void damaged_masks_are_refused_or_rows(void **state)
{
    static const char *const names[] = {"P02-palette-trns", "P03-palette4-trns", "P03b-palette1-trns", "P07b-la",
                                        "P05-adam7", "P01-rgb16", "P08-idat-crc-bad"};
    struct hr_chain *leader = make_chain(NULL), *mask = make_chain(leader);
    struct hr_context *context;
    struct hr_rng rng;
    uint8_t out[20 * 20];
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {out};

    (void)state;
    hr_rng_init(&rng, 4, 0, 0, 0);
    assert_int_equal(hr_context_create(mask, &context, NULL), 0);
    for (size_t i = 0; i < HR_ARRAY_SIZE(names) * 200; i++) {
        struct hr_facts facts;
        struct hr_sample_plan plan;
        struct hr_error err;
        char path[1024];
        void *png;
        size_t count;
        snprintf(path, sizeof(path), "%s/tests/data/cases/%s.png", getenv("HR_SOURCE_ROOT"), names[i / 200]);
        assert_int_equal(hr_fd_read_file(path, 1 << 20, &png, &count, NULL), 0);
        assert_int_equal(hr_media_measure(png, count, HR_FIELD_IMAGE, false, NULL, &facts, &err), 0);
        size_t left = i % 4 == 3 ? hr_rng_below(&rng, count) : count;
        uint8_t *tight = hr_alloc_zero(1, left + HR_CHAIN_PADDING);
        memcpy(tight, png, left);
        for (size_t k = 0; k < i % 200 / 10 && left > 60; k++)
            tight[41 + hr_rng_below(&rng, left - 41)] ^= (uint8_t)(1 << hr_rng_below(&rng, 8));
        assert_int_equal(hr_chain_plan(mask, &facts, left, 1, 0, i, 0, &plan, &err), 0);
        int ret = hr_chain_decode(mask, context, &plan, HR_ENCODING_AS_IS, tight, left, dst, &err);
        if (i % 200 == 0)
            assert_int_equal(ret, i / 200 < 4 ? 0 : i / 200 < 6 ? HR_E_FORMAT : ret);
        if (ret < 0)
            assert_int_equal(hr_error_scope_of(ret), HR_SCOPE_SAMPLE);
        hr_free(tight);
        hr_free(png);
    }
    hr_context_destroy(context);
    hr_chain_destroy(mask);
    hr_chain_destroy(leader);
}

/* ---- options ---- */

static struct hr_arg word(const char *name, const char *text)
{
    return (struct hr_arg){.name = name, .kind = HR_ARG_STR, .text = text, .line = 7, .column = 9};
}

static int read_with(struct hr_arg *options, int count, struct hr_arg *output, int output_count,
                     enum hr_follow_kind kind, enum hr_dtype dtype, struct hr_follow *f, struct hr_error *err)
{
    struct hr_call o = {.name = "boxes", .args = options, .arg_count = count, .file = "p.yaml", .line = 4, .column = 3};
    struct hr_call t = {.name = "output", .args = output, .arg_count = output_count, .file = "p.yaml", .line = 5,
                        .column = 5};

    *err = (struct hr_error)HR_ERROR_INIT;
    return hr_follow_read(&o, output_count ? &t : NULL, kind, dtype, f, err);
}

static void options_have_defaults_and_are_described(void **state)
{
    struct hr_arg options[] = {word("follow", "image"), word("format", "xywh")};
    struct hr_arg output[] = {word("format", "cxcywh"), word("dtype", "f32")};
    struct hr_buf text = {0};
    struct hr_follow f;
    struct hr_error err;

    (void)state;
    assert_int_equal(read_with(options, 2, output, 2, HR_FOLLOW_BOXES, HR_DTYPE_I64, &f, &err), 0);
    hr_follow_describe(&f, &text);
    assert_string_equal(hr_buf_str(&text), "as=boxes from{xywh pixels i64} output{cxcywh pixels f32} clamp=true "
                                           "min_size=1 min_area=1");
    hr_buf_reset(&text);
    assert_int_equal(read_with(options, 1, NULL, 0, HR_FOLLOW_KEYPOINTS, HR_DTYPE_F32, &f, &err), 0);
    hr_follow_describe(&f, &text);
    assert_string_equal(hr_buf_str(&text), "as=keypoints from{pixels f32} output{pixels f32} origin=corner");
    hr_buf_finish(&text);
}

static void options_that_make_no_sense_are_refused_with_a_place(void **state)
{
    struct hr_arg normalized = {.name = "normalized", .kind = HR_ARG_BOOL, .boolean = true, .line = 7, .column = 9};
    struct hr_arg format = word("format", "xyzw"), dtype = word("dtype", "u8"), whole = word("dtype", "i32");
    struct hr_arg items[4];
    struct hr_arg mirror = {.name = "mirror", .kind = HR_ARG_LIST, .items = items, .item_count = 4, .line = 7};
    static const int64_t lists[][4] = {{1, 2, 2, 3}, {1, 1, 2, 3}, {1, 2, 3, 0}};
    struct hr_follow f;
    struct hr_error err;

    (void)state;
    assert_int_equal(read_with(&format, 1, NULL, 0, HR_FOLLOW_BOXES, HR_DTYPE_F32, &f, &err), HR_E_CONFIG);
    assert_int_equal(err.line, 7);
    assert_int_equal(read_with(&format, 1, NULL, 0, HR_FOLLOW_KEYPOINTS, HR_DTYPE_F32, &f, &err), HR_E_CONFIG);
    assert_int_equal(read_with(NULL, 0, &dtype, 1, HR_FOLLOW_BOXES, HR_DTYPE_F32, &f, &err), HR_E_CONFIG);
    assert_int_equal(err.line, 5);
    assert_int_equal(read_with(NULL, 0, NULL, 0, HR_FOLLOW_BOXES, HR_DTYPE_F16, &f, &err), HR_E_CONFIG);
    assert_int_equal(read_with(&normalized, 1, NULL, 0, HR_FOLLOW_BOXES, HR_DTYPE_I32, &f, &err), HR_E_CONFIG);
    assert_int_equal(read_with(&normalized, 1, &whole, 1, HR_FOLLOW_BOXES, HR_DTYPE_F32, &f, &err), HR_E_CONFIG);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 4; k++)
            items[k] = (struct hr_arg){.kind = HR_ARG_INT, .integer = lists[i][k], .number = (double)lists[i][k],
                                       .text = "1"};
        mirror.item_count = i < 2 ? 4 : 3;
        assert_int_equal(read_with(&mirror, 1, NULL, 0, HR_FOLLOW_KEYPOINTS, HR_DTYPE_F32, &f, &err), HR_E_CONFIG);
        assert_non_null(strstr(err.hint, "mirror: [1, 2"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_box_is_the_same_in_every_format),
        cmocka_unit_test(boxes_are_cut_at_the_edge_and_small_ones_are_not_kept),
        cmocka_unit_test(whole_numbers_are_the_nearest_corners),
        cmocka_unit_test(a_turned_box_is_the_box_of_its_corners),
        cmocka_unit_test(what_is_behind_a_horizon_is_not_seen),
        cmocka_unit_test(keypoints_have_a_corner_or_a_middle_as_origin),
        cmocka_unit_test(mirrored_pictures_exchange_left_and_right),
        cmocka_unit_test(numbers_that_are_none_become_zeros_that_are_not_kept),
        cmocka_unit_test(any_bits_give_finite_numbers),
        cmocka_unit_test(damaged_masks_are_refused_or_rows),
        cmocka_unit_test(options_have_defaults_and_are_described),
        cmocka_unit_test(options_that_make_no_sense_are_refused_with_a_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
