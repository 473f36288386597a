/* JPEG files decoded as they are: every variant gives libjpeg-turbo's pixels in every box; of damaged files
 * nothing is given out that libjpeg would not give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>

#include "base/mem.h"
#include "rjpeg_check.h"

static const int samplings[][4] = {
    {1, 1, 1, 1}, {2, 2, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {4, 1, 1, 1}, {4, 2, 1, 1}, {1, 4, 1, 1},
    {2, 4, 1, 1}, {2, 2, 2, 1}, {2, 2, 1, 2}, {1, 1, 2, 2}, {3, 1, 1, 1}, {1, 3, 1, 1},
};

static void quiet(j_common_ptr cinfo)
{
}

/* As libjpeg reads the head. */
static struct hr_rjpeg_file describe(struct bytes jpeg)
{
    struct hr_rjpeg_file file = {.jpeg = jpeg.data, .bytes = jpeg.count};
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr e;

    c.err = jpeg_std_error(&e);
    e.output_message = quiet;
    jpeg_create_decompress(&c);
    jpeg_mem_src(&c, jpeg.data, jpeg.count);
    jpeg_read_header(&c, TRUE);
    file.colour = c.num_components == 1              ? HR_RJPEG_GRAY
                  : c.jpeg_color_space == JCS_YCbCr ? HR_RJPEG_YCBCR
                                                    : HR_RJPEG_RGB;
    for (int i = 0; i < c.num_components; i++)
        memcpy(file.quantizer[i], c.quant_tbl_ptrs[c.comp_info[i].quant_tbl_no]->quantval, sizeof(file.quantizer[i]));
    jpeg_destroy_decompress(&c);
    return file;
}

/* What hr_rjpeg_decode_file says; every row that it gave out was right. */
static int check_box(const struct hr_rjpeg_file *file, const struct picture *p, struct hr_rjpeg_box box)
{
    struct rows rows = {.expected = p, .box = box};
    struct hr_rjpeg_sink sink = {.row = jpeg_check_row, .user = &rows, .channels = p->channels};
    struct hr_error err = HR_ERROR_INIT;
    uint32_t given = 0;
    int ret = hr_rjpeg_decode_file(decoder, file, &box, &sink, &given, &err);

    if (rows.wrong || rows.y != given || (ret == 0 && given != box.h))
        fail_msg("%s: %ux%u box %u,%u %ux%u: %u of %u rows are wrong", hr_rjpeg_variant(decoder), p->width, p->height,
                 box.x, box.y, box.w, box.h, rows.wrong, rows.y);
    return ret;
}

static struct hr_rjpeg_box random_box(struct hr_rng *rng, const struct picture *p)
{
    struct hr_rjpeg_box box = {.shrink = 1};

    box.w = 1 + (uint32_t)hr_rng_below(rng, hr_rng_bernoulli(rng, 0.5) && p->width > 40 ? 40 : p->width);
    box.h = 1 + (uint32_t)hr_rng_below(rng, hr_rng_bernoulli(rng, 0.5) && p->height > 40 ? 40 : p->height);
    box.x = (uint32_t)hr_rng_below(rng, p->width - box.w + 1);
    box.y = (uint32_t)hr_rng_below(rng, p->height - box.h + 1);
    return box;
}

static struct recipe random_recipe(struct hr_rng *rng, int i)
{
    const int *s = samplings[(size_t)i % HR_ARRAY_SIZE(samplings)];

    return (struct recipe){
        .width = 1 + (uint32_t)hr_rng_below(rng, 300), .height = 1 + (uint32_t)hr_rng_below(rng, 200),
        .components = i % 7 == 6 ? 1 : 3, .h = i % 7 == 6 ? 1 : s[0], .v = i % 7 == 6 ? 1 : s[1], .h2 = s[2],
        .v2 = s[3], .quality = 10 + (int)hr_rng_below(rng, 91), .restart = hr_rng_bernoulli(rng, 0.3) ? 3 : 0,
        .optimize = hr_rng_bernoulli(rng, 0.5), .rgb = i % 7 != 6 && hr_rng_bernoulli(rng, 0.1),
    };
}

static void pixels_are_those_of_libjpeg(void **state)
{
    struct hr_rng rng;

    hr_rng_init(&rng, 1, 0, 0, 0);
    for (int i = 0; i < 90; i++) {
        struct recipe recipe = random_recipe(&rng, i);
        struct bytes jpeg = jpeg_make(&recipe, &rng);
        struct picture p = jpeg_decode(jpeg, 1);
        struct hr_rjpeg_file file = describe(jpeg);
        for (size_t v = 0; v < RJPEG_VARIANTS; v++) {
            if (!hr_rjpeg_set_variant(decoder, rjpeg_variants[v]))
                continue;
            assert_int_equal(check_box(&file, &p, (struct hr_rjpeg_box){0, 0, p.width, p.height, 1}), 0);
            for (int b = 0; b < 12; b++)
                assert_int_equal(check_box(&file, &p, random_box(&rng, &p)), 0);
        }
        hr_free(p.pixels);
        hr_free(jpeg.data);
    }
}

/* Flips, cuts and overwrites behind the head; some of that leaves a sound scan of other pixels. */
static void damage(struct bytes *jpeg, size_t head, struct hr_rng *rng)
{
    size_t at = head + hr_rng_below(rng, jpeg->count - head);

    switch (hr_rng_below(rng, 4)) {
    case 0: jpeg->data[at] ^= (uint8_t)(1u << hr_rng_below(rng, 8)); break;
    case 1: jpeg->data[at] = hr_rng_bernoulli(rng, 0.5) ? 0xff : (uint8_t)hr_rng_u32(rng); break;
    case 2: jpeg->count = at > head + 2 ? at : jpeg->count; break;
    default:
        for (size_t i = at; i < jpeg->count && i < at + 9; i++)
            jpeg->data[i] = (uint8_t)hr_rng_u32(rng);
    }
}

static size_t head_bytes(struct bytes jpeg)
{
    for (size_t i = 0; i + 12 < jpeg.count; i++)
        if (jpeg.data[i] == 0xff && jpeg.data[i + 1] == 0xda)
            return i + 12;
    return jpeg.count / 2;
}

static void damaged_files_are_left_to_libjpeg(void **state)
{
    struct hr_rng rng;
    int refused = 0, decoded = 0;

    hr_rng_init(&rng, 2, 0, 0, 0);
    hr_rjpeg_set_variant(decoder, "c");
    for (int i = 0; i < 60; i++) {
        struct recipe recipe = random_recipe(&rng, i);
        struct bytes whole = jpeg_make(&recipe, &rng);
        for (int k = 0; k < 25; k++) {
            struct bytes jpeg = {hr_alloc(whole.count), whole.count};
            memcpy(jpeg.data, whole.data, whole.count);
            damage(&jpeg, head_bytes(whole), &rng);
            struct picture p = jpeg_decode(jpeg, 1);
            struct hr_rjpeg_file file = describe(jpeg);
            int ret = check_box(&file, &p, random_box(&rng, &p));
            refused += ret < 0;
            decoded += ret == 0;
            hr_free(p.pixels);
            hr_free(jpeg.data);
        }
        hr_free(whole.data);
    }
    assert_true(refused > 100 && decoded > 100);
}

static void absurd_coefficients_are_left_to_libjpeg(void **state)
{
    struct recipe recipe = {.width = 64, .height = 64, .components = 1, .h = 1, .v = 1, .quality = 100};
    struct hr_rng rng;

    hr_rng_init(&rng, 3, 0, 0, 0);
    struct bytes jpeg = jpeg_make(&recipe, &rng);
    struct picture p = jpeg_decode(jpeg, 1);
    struct hr_rjpeg_file file = describe(jpeg);
    struct hr_rjpeg_box box = {0, 0, 64, 64, 1};
    assert_int_equal(check_box(&file, &p, box), 0);
    for (int i = 0; i < 64; i++)
        file.quantizer[0][i] = 255;
    assert_true(check_box(&file, &p, box) < 0);
    file.quantizer[0][0] = 65535;
    assert_true(check_box(&file, &p, box) < 0);
    hr_free(p.pixels);
    hr_free(jpeg.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_those_of_libjpeg),
        cmocka_unit_test(damaged_files_are_left_to_libjpeg),
        cmocka_unit_test(absurd_coefficients_are_left_to_libjpeg),
    };

    return cmocka_run_group_tests(tests, rjpeg_open, rjpeg_close);
}
