/* image ops: every CPU level gives the same bytes, the order of ops is checked, and steady state allocates
 * nothing. Draws are tested in test_op_draws.c, pixels in tests/python/test_ops.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "decoders/ops/geometry.h"
#include "decoders/ops/loops.h"
#include "decoders/ops/picture.h"
#include "decoders/ops/run.h"

static struct hr_op_chain chain; /* too large for the stack */

/* ---- loops ---- */

static struct hr_rng rng;

static void random_bytes(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)hr_rng_u32(&rng);
}

/* All loops over one picture, into one buffer. */
static size_t run_all(const struct hr_loops *l, const uint8_t *src, uint32_t w, uint32_t h, uint32_t channels,
                      const uint8_t tables[3][256], uint8_t *out)
{
    size_t count = (size_t)w * h, bytes = count * channels;
    struct hr_canvas canvas = {.loops = l};
    uint8_t *p = out;

    memcpy(p, src, bytes);
    l->table(p, count, channels, tables);
    p += bytes;
    static const struct hr_step steps[] = {
        {.kind = HR_STEP_SATURATION, .value = 1.7}, {.kind = HR_STEP_HUE, .value = 0.31},
        {.kind = HR_STEP_GRAYSCALE}, {.kind = HR_STEP_SHARPNESS, .value = 1.3},
        {.kind = HR_STEP_CONTRAST, .value = 0.4}, {.kind = HR_STEP_BLUR, .value = 1.1, .kernel_w = 7, .kernel_h = 5},
        {.kind = HR_STEP_WARP, .map = {0.8, 0.33, 3.1, -0.29, 1.2, -1.7, 0, 0, 1}, .fill = {1, 2, 3}},
        {.kind = HR_STEP_WARP, .map = {0.8, 0.33, 3.1, -0.29, 1.2, -1.7, 0, 0, 1}, .fill = {1, 2, 3},
         .interpolation = HR_INTERPOLATION_BILINEAR},
        {.kind = HR_STEP_WARP, .map = {0.8, 0.33, 3.1, -0.29, 1.2, -1.7, 1e-3, 2e-3, 1}, .fill = {1, 2, 3},
         .interpolation = HR_INTERPOLATION_BILINEAR},
        {.kind = HR_STEP_WARP, .map = {0.8, 0.33, 3.1, -0.29, 1.2, -1.7, 0, 0, 1}, .fill = {1, 2, 3},
         .interpolation = HR_INTERPOLATION_BICUBIC},
        {.kind = HR_STEP_WARP, .map = {0.8, 0.33, 3.1, -0.29, 1.2, -1.7, 1e-3, 2e-3, 1}, .fill = {1, 2, 3},
         .interpolation = HR_INTERPOLATION_BICUBIC},
    };
    for (size_t i = 0; i < HR_ARRAY_SIZE(steps); i++, p += bytes) {
        struct hr_steps one = {.count = 1, .steps = {steps[i]}};
        assert_int_equal(hr_canvas_size(&canvas, w, h, channels), 0);
        memcpy(canvas.pixels, src, bytes);
        assert_int_equal(hr_canvas_run(&canvas, &one), 0);
        hr_canvas_flush(&canvas);
        memcpy(p, canvas.pixels, bytes);
    }
    hr_canvas_finish(&canvas);
    return (size_t)(p - out);
}

static void every_cpu_level_gives_the_same_bytes(void **state)
{
    static const uint32_t sizes[][2] = {{1, 1}, {2, 3}, {3, 2}, {64, 3}, {65, 7}, {127, 31}, {224, 5}};
    static const unsigned levels[] = {HR_CPU_AVX2, HR_CPU_AVX512};
    uint8_t tables[3][256];

    (void)state;
    hr_rng_init(&rng, 5, 0, 0, 0);
    for (size_t i = 0; i < HR_ARRAY_SIZE(sizes) * 2; i++) {
        uint32_t w = sizes[i / 2][0], h = sizes[i / 2][1], channels = i % 2 ? 3 : 1;
        size_t bytes = (size_t)w * h * channels;
        uint8_t *src = hr_alloc(bytes), *want = hr_alloc(bytes * 16), *got = hr_alloc(bytes * 16);
        random_bytes(src, bytes);
        random_bytes(&tables[0][0], sizeof(tables));
        size_t n = run_all(&hr_loops_c, src, w, h, channels, (const uint8_t(*)[256])tables, want);
        for (size_t k = 0; k < 2; k++) {
            if (!(hr_cpu_flags() & levels[k]))
                continue;
            memset(got, 0xee, n);
            run_all(hr_loops_of(levels[k]), src, w, h, channels, (const uint8_t(*)[256])tables, got);
            for (size_t b = 0; b < n; b++)
                if (got[b] != want[b])
                    fail_msg("level %zu, %ux%ux%u: job %zu, byte %zu: %u, not %u", k, w, h, channels,
                             b / bytes, b % bytes, got[b], want[b]);
        }
        hr_free(src);
        hr_free(want);
        hr_free(got);
    }
}

/* ---- order ---- */

static int init_names(const char *const *names, int count, struct hr_error *err)
{
    struct hr_call calls[8];
    static struct hr_arg size = {.name = "", .kind = HR_ARG_INT, .integer = 32, .number = 32, .text = "32"};
    static struct hr_arg means[2] = {
        {.name = "mean", .kind = HR_ARG_FLOAT, .number = 0.5, .text = "0.5"},
        {.name = "std", .kind = HR_ARG_FLOAT, .number = 0.5, .text = "0.5"}};

    for (int i = 0; i < count; i++) {
        calls[i] = (struct hr_call){.name = names[i], .line = 1 + i, .column = 7};
        if (strstr(names[i], "crop") || strcmp(names[i], "resize") == 0 || strcmp(names[i], "rotate") == 0) {
            calls[i].args = &size;
            calls[i].arg_count = 1;
        } else if (strcmp(names[i], "normalize") == 0) {
            calls[i].args = means;
            calls[i].arg_count = 2;
        }
    }
    return hr_op_chain_init(&chain, calls, count, &(struct hr_op_shape){0}, err);
}

static void stages_are_as_few_as_can_be(void **state)
{
    struct hr_error err;
#define NAMES(...) (const char *const[]){__VA_ARGS__}, HR_ARRAY_SIZE(((const char *const[]){__VA_ARGS__}))

    (void)state;
    assert_int_equal(init_names(NAMES("random_resized_crop", "hflip", "normalize"), &err), 0);
    assert_true(hr_op_chain_folds(&chain));
    assert_int_equal(init_names(NAMES("random_resized_crop", "color_jitter", "grayscale", "normalize"), &err), 0);
    assert_int_equal(chain.stage_count, 1);
    assert_false(hr_op_chain_folds(&chain));
    assert_int_equal(init_names(NAMES("resize", "rotate", "center_crop", "hflip", "normalize"), &err), 0);
    assert_int_equal(chain.stage_count, 2);
    assert_int_equal(init_names(NAMES("resize", "normalize", "hflip", "erasing"), &err), 0);
    assert_int_equal(chain.late, 3);
    assert_int_equal(init_names(NAMES("resize", "rotate", "resize"), &err), 0);
    assert_int_equal(init_names(NAMES("resize", "hflip", "resize"), &err), HR_E_CONFIG);
    assert_int_equal(err.line, 3);
    assert_int_equal(init_names(NAMES("resize", "normalize", "rotate"), &err), HR_E_CONFIG);
    assert_int_equal(err.line, 3);
    assert_int_equal(init_names(NAMES("normalize", "erasing", "hflip"), &err), HR_E_CONFIG);
    assert_int_equal(init_names(NAMES("resize", "sharpen"), &err), HR_E_CONFIG);
    assert_non_null(strstr(err.hint, "rotate"));
}

static void steady_state_allocates_nothing(void **state)
{
    struct hr_error err;
    struct hr_picture *picture;
    static uint8_t row[100 * 3 + 64];
    static float out[32 * 32 * 3];

    (void)state;
    assert_int_equal(init_names(NAMES("random_resized_crop", "color_jitter", "rand_augment", "rotate",
                                      "center_crop", "normalize", "erasing"), &err), 0);
    assert_int_equal(hr_picture_create(&picture), 0);
    /* The second time round everything has been as large as it gets. */
    for (uint64_t i = 0; i < 120; i++) {
        struct hr_draw_key key = {.seed = 1, .position = i % 60};
        struct hr_image_plan plan = {.orientation = 1};
        struct hr_image_target target = {.dst = out, .dtype = HR_DTYPE_F32, .channels = 3,
                                         .scale = {1, 1, 1, 1}};
        struct hr_image_region region;
        if (i >= 60)
            hr_mem_steady_enter();
        assert_int_equal(hr_op_chain_plan(&chain, &key, 100, 80, &plan, &err), 0);
        assert_int_equal(hr_picture_begin(picture, &chain, &plan, &target, 100, 80, 1, &region, &err), 0);
        for (uint32_t y = 0; y < region.h && hr_picture_push(picture, row); y++)
            ;
        assert_int_equal(hr_picture_end(picture, &err), 0);
        if (i >= 60)
            hr_mem_steady_leave();
    }
    hr_picture_destroy(picture);
}

/* A mask of two names goes where the picture goes, and holds no third one. */
static void masks_move_and_do_not_change(void **state)
{
    enum { W = 90, H = 70 };
    static uint8_t in[H][W + 64], out[32 * 32];
    struct hr_picture *picture;
    struct hr_error err;
    long found = 0, outside = 0;

    (void)state;
    for (int y = 0; y < H; y++)
        memset(in[y], y < H / 2 ? 7 : 200, sizeof(in[y]));
    assert_int_equal(init_names(NAMES("random_resized_crop", "color_jitter", "rand_augment", "rotate", "invert",
                                      "center_crop", "hflip", "erasing"), &err), 0);
    assert_int_equal(hr_picture_create(&picture), 0);
    hr_picture_only_geometry(picture, true, 0);
    for (uint64_t i = 0; i < 50; i++) {
        struct hr_draw_key key = {.seed = 2, .position = i};
        struct hr_image_plan plan = {.orientation = 1};
        struct hr_image_target target = {.dst = out, .dtype = HR_DTYPE_U8, .channels = 1};
        struct hr_image_region region;
        struct hr_geometry g;
        assert_int_equal(hr_op_chain_plan(&chain, &key, W, H, &plan, &err), 0);
        assert_int_equal(hr_op_chain_geometry(&chain, &key, W, H, &g, &err), 0);
        assert_int_equal(hr_picture_begin(picture, &chain, &plan, &target, W, H, 1, &region, &err), 0);
        for (uint32_t y = 0; y < region.h && hr_picture_push(picture, &in[region.y + y][region.x]); y++)
            ;
        assert_int_equal(hr_picture_end(picture, &err), 0);
        for (int k = 0; k < 32 * 32; k++) {
            double from[2];
            hr_map_point(&g.to_source, k % 32 + 0.5, k / 32 + 0.5, from);
            assert_true(out[k] == 0 || out[k] == 7 || out[k] == 200);
            outside += out[k] == 0;
            /* three nearest steps may each be half a pixel off, of up to 3 of the source */
            if (out[k] == 0 || fabs(from[1] - H / 2) < 5)
                continue;
            assert_int_equal(out[k], from[1] < H / 2 ? 7 : 200);
            found++;
        }
    }
    assert_true(found > 20000 && outside > 100);
    hr_picture_destroy(picture);
}

/* Of a tall picture sheared so steeply that its rows lie thousands of millions of pixels apart, one meets it. */
static void steep_shears_find_their_row(void **state)
{
    enum { W = 3, H = 32767, MEETS = 20000, SOURCE = 500 };
    static const double slopes[] = {0x1p20, -0x1p20, 0x1p33, -0x1p33};

    for (size_t k = 0; k < HR_ARRAY_SIZE(slopes); k++) {
        struct hr_canvas canvas = {0};
        struct hr_steps steps = {.count = 1, .steps = {{
            .kind = HR_STEP_WARP, .interpolation = HR_INTERPOLATION_NEAREST, .fill = {77},
            .map = {1, 1e-9, 0, 0, slopes[k], SOURCE + 0.5 - slopes[k] * (MEETS + 0.5), 0, 0, 1}}}};
        assert_int_equal(hr_canvas_size(&canvas, W, H, 1), 0);
        for (uint32_t y = 0; y < H; y++)
            memset(canvas.pixels + (size_t)y * W, (int)(y % 76), W);
        assert_int_equal(hr_canvas_run(&canvas, &steps), 0);
        for (uint32_t y = 0; y < H; y++)
            for (uint32_t x = 0; x < W; x++)
                assert_int_equal(canvas.pixels[(size_t)y * W + x], y == MEETS ? SOURCE % 76 : 77);
        hr_canvas_finish(&canvas);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cpu_level_gives_the_same_bytes),
        cmocka_unit_test(stages_are_as_few_as_can_be),
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(masks_move_and_do_not_change),
        cmocka_unit_test(steep_shears_find_their_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
