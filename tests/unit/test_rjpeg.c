/* Repacked JPEG: files come back byte for byte, pixels are libjpeg-turbo's in every box and by every
 * variant, and damaged bytes do no harm. bench/rjpeg.c measures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <ftw.h>
#include <jpeglib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/shared.h"
#include "rjpeg_check.h"

static void random_init(struct hr_rng *rng, uint32_t stream)
{
    hr_rng_init(rng, 7, 0, 0, stream);
}

static void check_recipe(const struct recipe *r, struct hr_rng *rng, struct tally *tally)
{
    struct hr_error err = HR_ERROR_INIT;
    struct bytes jpeg = jpeg_make(r, rng);

    if (rjpeg_check_file(jpeg, 6, rng, &err, tally) < 0)
        fail_msg("%ux%u %dx%d quality %d: %s", r->width, r->height, r->h, r->v, r->quality, err.text);
    hr_free(jpeg.data);
}

static const int samplings[][4] = {
    {1, 1, 1, 1}, {2, 1, 1, 1}, {2, 2, 1, 1}, {1, 2, 1, 1}, {4, 1, 1, 1}, {4, 2, 1, 1}, {1, 4, 1, 1},
    {2, 4, 1, 1}, {2, 2, 2, 1}, {2, 2, 1, 2}, {1, 1, 2, 2}, {4, 2, 2, 1}, {3, 1, 1, 1}, {1, 3, 1, 1},
};

static void every_sampling_and_size(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};

    random_init(&rng, 1);
    for (size_t s = 0; s < HR_ARRAY_SIZE(samplings); s++)
        for (uint32_t i = 1; i <= 70; i++) {
            struct recipe r = {.width = i, .height = 1 + i * 37 % 70, .components = 3, .h = samplings[s][0],
                               .v = samplings[s][1], .h2 = samplings[s][2], .v2 = samplings[s][3],
                               .quality = 1 + (int)(i * 29 % 100), .optimize = i % 2,
                               .restart = i % 5 == 4 ? (int)i % 7 : 0};
            if (samplings[s][0] * samplings[s][1] + 2 * samplings[s][2] * samplings[s][3] > 10)
                continue;
            check_recipe(&r, &rng, &tally);
        }
}

static void larger_pictures_of_many_tiles(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};

    random_init(&rng, 2);
    for (size_t s = 0; s < 7; s++)
        for (uint32_t i = 0; i < 4; i++) {
            struct recipe r = {.width = 130 + 97 * i, .height = 90 + 31 * i, .components = 3, .h = samplings[s][0],
                               .v = samplings[s][1], .quality = 30 + 22 * (int)i, .restart = (int)i * 3};
            check_recipe(&r, &rng, &tally);
        }
}

static void gray_and_rgb(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};

    random_init(&rng, 3);
    for (uint32_t i = 1; i <= 70; i++) {
        bool gray = i % 2;
        struct recipe r = {.width = i, .height = 71 - i, .components = gray ? 1 : 3, .rgb = !gray,
                           .h = gray ? 1 + (int)i / 2 % 2 : 1, .v = gray ? 1 + (int)i / 4 % 2 : 1,
                           .quality = (int)i + 30, .restart = i % 3 ? 0 : 2};
        check_recipe(&r, &rng, &tally);
    }
}

static void every_quality(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};

    random_init(&rng, 4);
    for (int q = 1; q <= 100; q++) {
        struct recipe r = {.width = 50 + (uint32_t)q % 3, .height = 40, .components = 3, .h = 2, .v = 2, .quality = q,
                           .optimize = q % 3 == 0};
        check_recipe(&r, &rng, &tally);
    }
}

/* Quantizers of 16 bits: right, or refused for absurd coefficients. */
static void wide_quantizers(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};

    random_init(&rng, 5);
    for (int q = 1; q <= 40; q++) {
        struct recipe r = {.width = 60, .height = 33, .components = 3, .h = 1 + q % 2, .v = 1, .quality = 50,
                           .quantizer_scale = 100 * q, .force_16bit = true};
        struct hr_error err = HR_ERROR_INIT;
        struct bytes jpeg = jpeg_make(&r, &rng);
        int ret = rjpeg_check_file(jpeg, 4, &rng, &err, &tally);
        assert_true(ret == 0 || ret == HR_E_FORMAT);
        hr_free(jpeg.data);
    }
    assert_true(tally.packed >= 5);
}

static void cut_files_are_refused(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};
    struct recipe r = {.width = 40, .height = 30, .components = 3, .h = 2, .v = 2, .quality = 80};
    struct hr_error err = HR_ERROR_INIT;

    random_init(&rng, 6);
    struct bytes jpeg = jpeg_make(&r, &rng);
    for (size_t cut = 0; cut + 3 < jpeg.count; cut += 1 + cut / 16)
        assert_true(rjpeg_check_file((struct bytes){jpeg.data, cut}, 1, &rng, &err, &tally) < 0);
    hr_free(jpeg.data);
}

static void bytes_after_the_picture_are_kept(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};
    struct recipe r = {.width = 40, .height = 30, .components = 3, .h = 2, .v = 1, .quality = 80};
    struct hr_error err = HR_ERROR_INIT;

    random_init(&rng, 8);
    struct bytes jpeg = jpeg_make(&r, &rng);
    uint8_t *longer = hr_alloc(jpeg.count + 5000);
    memcpy(longer, jpeg.data, jpeg.count);
    memset(longer + jpeg.count, 'x', 5000);
    assert_int_equal(rjpeg_check_file((struct bytes){longer, jpeg.count + 5000}, 1, &rng, &err, &tally), 0);
    assert_true(tally.packed_bytes < tally.jpeg_bytes);
    hr_free(longer);
    hr_free(jpeg.data);
}

/* Made by the encoder of format 1, before `last` had other widths than six bits. */
static void values_of_the_first_format_are_read(void **state)
{
    const char *root = getenv("HR_SOURCE_ROOT");
    struct hr_buf restored = {0};
    struct bytes jpeg, value;
    struct hr_rng rng;
    char path[2][1024];
    void *data[2];

    if (!root) {
        print_message("# HR_SOURCE_ROOT does not say where tests/data is\n");
        skip();
    }
    snprintf(path[0], sizeof(path[0]), "%s/tests/data/first-format.jpg", root);
    snprintf(path[1], sizeof(path[1]), "%s/tests/data/first-format.hrj", root);
    assert_int_equal(hr_fd_read_file(path[0], 1 << 20, &data[0], &jpeg.count, NULL), 0);
    assert_int_equal(hr_fd_read_file(path[1], 1 << 20, &data[1], &value.count, NULL), 0);
    jpeg.data = data[0];
    value.data = data[1];
    assert_int_equal(value.data[3], '1');
    assert_int_equal(hr_rjpeg_restore(value.data, value.count, &restored, NULL), 0);
    assert_int_equal(restored.used, jpeg.count);
    assert_memory_equal(restored.data, jpeg.data, jpeg.count);

    random_init(&rng, 12);
    rjpeg_check_pixels(jpeg, &(struct hr_buf){.data = value.data, .used = value.count}, 20, &rng);
    value.data[3] = '4';
    assert_int_equal(hr_rjpeg_restore(value.data, value.count, &restored, NULL), HR_E_FORMAT);
    hr_buf_finish(&restored);
    hr_free(jpeg.data);
    hr_free(value.data);
}

static void luma_alone(void **state)
{
    struct hr_rng rng;
    struct recipe r = {.width = 70, .height = 30, .components = 3, .h = 2, .v = 2, .quality = 80};
    struct hr_buf packed = {0};
    struct picture p = {.width = 70, .height = 30, .channels = 1};

    random_init(&rng, 9);
    struct bytes jpeg = jpeg_make(&r, &rng);
    assert_int_equal(hr_rjpeg_encode(jpeg.data, jpeg.count, &packed, NULL, NULL), 0);
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr e;
    d.err = jpeg_std_error(&e);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, jpeg.data, jpeg.count);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_GRAYSCALE;
    jpeg_start_decompress(&d);
    p.pixels = hr_alloc(70 * 30);
    for (uint32_t y = 0; y < 30; y++) {
        JSAMPROW row = p.pixels + y * 70;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_destroy_decompress(&d);
    struct hr_rjpeg_view view = hr_rjpeg_view_whole(packed.data, packed.used);
    rjpeg_check_box(&view, &p, (struct hr_rjpeg_box){3, 4, 60, 20});
    hr_free(p.pixels);
    hr_buf_finish(&packed);
    hr_free(jpeg.data);
}

static void swallow(void *user, const uint8_t *row)
{
    *(uint64_t *)user += row[0];
}

/* Damaged values: an error or wrong pixels. Under the address sanitizer this proves the bounds. */
static void damage_does_no_harm(void **state)
{
    struct hr_rng rng;
    struct hr_buf packed[8] = {{0}}, jpeg = {0};
    uint64_t sum = 0;
    int rounds = getenv("HR_RJPEG_ROUNDS") ? atoi(getenv("HR_RJPEG_ROUNDS")) : 20000, fine = 0;

    random_init(&rng, 10);
    for (int i = 0; i < 8; i++) {
        struct recipe r = {.width = 20 + 40 * (uint32_t)i, .height = 64 - 4 * (uint32_t)i, .components = i == 3 ? 1 : 3,
                           .h = 1 + i % 2, .v = 1 + i / 2 % 2, .quality = 40 + 8 * i};
        struct bytes made = jpeg_make(&r, &rng);
        assert_int_equal(hr_rjpeg_encode(made.data, made.count, &packed[i], NULL, NULL), 0);
        hr_free(made.data);
    }
    for (int i = 0; i < rounds; i++) {
        const struct hr_buf *from = &packed[hr_rng_below(&rng, 8)];
        size_t bytes = from->used;
        if (hr_rng_bernoulli(&rng, 0.1))
            bytes = hr_rng_below(&rng, bytes);
        uint8_t *bad = hr_alloc(bytes + !bytes);
        memcpy(bad, from->data, bytes);
        for (uint64_t n = hr_rng_below(&rng, hr_rng_bernoulli(&rng, 0.1) ? 500 : 6) + 1; n && bytes; n--)
            bad[hr_rng_below(&rng, hr_rng_bernoulli(&rng, 0.3) && bytes > 300 ? 300 : bytes)] =
                (uint8_t)hr_rng_u32(&rng);
        struct hr_rjpeg_info info;
        if (hr_rjpeg_info(bad, bytes, &info, NULL) == 0) {
            struct picture size = {.width = info.width, .height = info.height};
            struct hr_rjpeg_box box = rjpeg_random_box(&rng, &size);
            struct hr_rjpeg_view view = hr_rjpeg_view_whole(bad, bytes);
            struct hr_rjpeg_sink sink = {.row = swallow, .user = &sum, .channels = 3};
            struct hr_rjpeg_range ranges[4];
            hr_rjpeg_set_variant(decoder, rjpeg_variants[i % RJPEG_VARIANTS]);
            fine += hr_rjpeg_decode(decoder, &view, &box, &sink, NULL) == 0;
            fine += hr_rjpeg_ranges(&info, bad, bytes, &box, 0, ranges, 4, NULL) > 0;
        }
        if (i % 4 == 0)
            fine += hr_rjpeg_restore(bad, bytes, &jpeg, NULL) == 0;
        hr_free(bad);
    }
    assert_true(fine > 0);
    for (int i = 0; i < 8; i++)
        hr_buf_finish(&packed[i]);
    hr_buf_finish(&jpeg);
}

/* Damaged files: refused, or sound by chance. Then the pixels are libjpeg's: what proves the bytes proves them too. */
static void damaged_files_are_refused_or_exact(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};
    int rounds = getenv("HR_RJPEG_ROUNDS") ? atoi(getenv("HR_RJPEG_ROUNDS")) : 4000;

    random_init(&rng, 13);
    for (int i = 0; i < rounds; i++) {
        uint32_t width = 9 + (uint32_t)hr_rng_below(&rng, 40), height = 9 + (uint32_t)hr_rng_below(&rng, 30);
        struct recipe r = {.width = width, .height = height, .components = i % 5 ? 3 : 1, .h = 1 + i % 2,
                           .v = 1 + i / 2 % 2, .quality = 30 + i % 71, .restart = i % 3 ? 0 : 2,
                           .optimize = i % 7 == 0};
        struct hr_error err = HR_ERROR_INIT;
        struct bytes jpeg = jpeg_make(&r, &rng);
        for (uint64_t n = hr_rng_below(&rng, 3) + 1; n; n--) {
            uint8_t *at = jpeg.data + hr_rng_below(&rng, hr_rng_bernoulli(&rng, 0.3) ? jpeg.count : jpeg.count / 2);
            *at = hr_rng_bernoulli(&rng, 0.7) ? (uint8_t)(*at ^ 1 << hr_rng_below(&rng, 8)) : (uint8_t)hr_rng_u32(&rng);
        }
        /* An exact copy, so that the address sanitizer sees reads past the end. */
        struct bytes exact = {hr_alloc(jpeg.count), jpeg.count};
        memcpy(exact.data, jpeg.data, jpeg.count);
        rjpeg_check_file(exact, 1, &rng, &err, &tally);
        hr_free(exact.data);
        hr_free(jpeg.data);
    }
    print_message("# %u of %u damaged files were sound enough\n", tally.packed, tally.files);
    assert_true(tally.packed > 0 && tally.packed < tally.files);
}

static struct {
    struct tally tally;
    struct hr_rng rng;
    int boxes;
    uint32_t seen, step;
    bool verbose;
} walk;

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const char *dot = strrchr(path, '.');
    struct hr_error err = HR_ERROR_INIT;
    void *data;
    size_t bytes;

    if (type != FTW_F || !dot || (strcasecmp(dot, ".jpg") && strcasecmp(dot, ".jpeg")))
        return 0;
    int boxes = walk.seen++ % walk.step ? 0 : walk.boxes;
    if (hr_fd_read_file(path, 1 << 28, &data, &bytes, NULL) < 0)
        return 0;
    if (rjpeg_check_file((struct bytes){data, bytes}, boxes, &walk.rng, &err, &walk.tally) < 0 && walk.verbose)
        print_message("# kept as it is: %s: %s\n", path, err.text);
    hr_free(data);
    return 0;
}

/* All files, and the pixels of every step-th; of all, with as many boxes as HR_RJPEG_BOXES says, where that is set. */
static void walk_folder(const char *name, int boxes, uint32_t step)
{
    char buf[1024];
    const char *folder = hr_test_shared(name, buf, sizeof(buf));

    if (!folder) {
        print_message("# no shared/%s here\n", name);
        skip();
    }
    memset(&walk, 0, sizeof(walk));
    walk.boxes = getenv("HR_RJPEG_BOXES") ? atoi(getenv("HR_RJPEG_BOXES")) : boxes;
    walk.verbose = getenv("HR_RJPEG_BOXES") != NULL;
    walk.step = walk.verbose ? 1 : step;
    random_init(&walk.rng, 11);
    nftw(folder, visit, 20, FTW_PHYS);
    print_message("# %s: %u of %u files repacked, %.4f of their size\n", name, walk.tally.packed, walk.tally.files,
                  (double)walk.tally.packed_bytes / (double)(walk.tally.jpeg_bytes + !walk.tally.jpeg_bytes));
    assert_true(walk.tally.packed > 0);
}

static void photographs(void **state)
{
    walk_folder("data", 2, 8);
}

static void odd_files(void **state)
{
    walk_folder("cases", 10, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sampling_and_size),
        cmocka_unit_test(larger_pictures_of_many_tiles),
        cmocka_unit_test(gray_and_rgb),
        cmocka_unit_test(every_quality),
        cmocka_unit_test(wide_quantizers),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(bytes_after_the_picture_are_kept),
        cmocka_unit_test(values_of_the_first_format_are_read),
        cmocka_unit_test(luma_alone),
        cmocka_unit_test(damage_does_no_harm),
        cmocka_unit_test(damaged_files_are_refused_or_exact),
        cmocka_unit_test(photographs),
        cmocka_unit_test(odd_files),
    };
    return cmocka_run_group_tests(tests, rjpeg_open, rjpeg_close);
}
