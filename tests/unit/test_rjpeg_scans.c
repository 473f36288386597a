/* Repacked JPEG of files of several scans and of four components: progressions by any script, restarts, long runs of
 * empty blocks, CMYK and YCCK come back byte for byte with libjpeg-turbo's pixels; what is incomplete or too much is
 * refused, and damage does no harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "jpeg_scripts.h"
#include "rjpeg_check.h"

enum { FLAGS = 4, FLAG_PAD_ONES = 4 };

static const int samplings[][4] = {
    {1, 1, 1, 1}, {2, 2, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {4, 1, 1, 1}, {4, 2, 1, 1}, {1, 4, 1, 1}, {2, 4, 1, 1},
    {2, 2, 2, 1}, {1, 1, 2, 2}, {3, 1, 1, 1},
};

static struct recipe random_recipe(struct hr_rng *rng, int i)
{
    const int *s = samplings[(size_t)i % HR_ARRAY_SIZE(samplings)];
    int components = i % 5 == 4 ? 1 : i % 7 == 6 ? 4 : 3;
    bool odd = components == 4 && 2 * (s[0] * s[1] + s[2] * s[3]) > 10;

    return (struct recipe){
        .width = 1 + (uint32_t)hr_rng_below(rng, 150), .height = 1 + (uint32_t)hr_rng_below(rng, 120),
        .components = components,
        .h = odd ? 2 : s[0], .v = odd ? 2 : s[1], .h2 = odd ? 1 : s[2], .v2 = odd ? 1 : s[3],
        .quality = 10 + (int)hr_rng_below(rng, 91),
        .restart = i % 4 == 1 ? 1 + (int)hr_rng_below(rng, 20) : 0, .restart_rows = i % 4 == 2,
        .rgb = components == 3 && i % 11 == 10, .ycck = components == 4 && i % 2, .optimize = i % 3 == 0,
    };
}

static void must_repack(const struct recipe *r, int boxes, struct hr_rng *rng, struct tally *tally)
{
    struct hr_error err = HR_ERROR_INIT;
    struct bytes jpeg = jpeg_make(r, rng);

    if (rjpeg_check_file(jpeg, boxes, rng, &err, tally) < 0)
        fail_msg("%ux%u, %d components %dx%d, %d scans: %s", r->width, r->height, r->components, r->h, r->v,
                 r->scan_count, err.text);
    hr_free(jpeg.data);
}

static void libjpegs_own_progression(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};

    hr_rng_init(&rng, 8, 0, 0, 1);
    for (int i = 0; i < 150; i++) {
        struct recipe r = random_recipe(&rng, i);
        r.progressive = true;
        must_repack(&r, 2, &rng, &tally);
    }
}

static void any_progression(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};
    struct jpeg_script script;

    hr_rng_init(&rng, 8, 0, 0, 2);
    for (int i = 0; i < 300; i++) {
        struct recipe r = random_recipe(&rng, i);
        jpeg_make_progression(&script, r.components, &rng);
        r.scans = script.scans;
        r.scan_count = script.count;
        must_repack(&r, 1, &rng, &tally);
    }
}

static void several_sequential_scans(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};
    struct jpeg_script script;

    hr_rng_init(&rng, 8, 0, 0, 3);
    for (int i = 0; i < 100; i++) {
        struct recipe r = random_recipe(&rng, i);
        jpeg_make_sequential(&script, r.components, &rng);
        r.scans = script.scans;
        r.scan_count = script.count;
        must_repack(&r, 1, &rng, &tally);
    }
}

static void four_components_in_one_scan(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};

    hr_rng_init(&rng, 8, 0, 0, 4);
    for (int i = 0; i < 90; i++) {
        struct recipe r = random_recipe(&rng, 6 + 35 * i); /* of four components */
        r.ycck = i % 2;
        r.h = 1 + i / 2 % 2;
        r.v = 1 + i / 4 % 2;
        r.h2 = r.v2 = 1;
        assert_int_equal(r.components, 4);
        must_repack(&r, 4, &rng, &tally);
    }
}

/* More than 0x7fff blocks in a row end at once; and runs that are cut short since too many correction bits wait. */
static void long_runs(void **state)
{
    static const jpeg_scan_info fine[] = {
        {1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 2, 0, 3}, {1, {0}, 3, 63, 0, 0}, {1, {0}, 1, 2, 3, 2}, {1, {0}, 1, 2, 2, 1},
        {1, {0}, 1, 2, 1, 0},
    };
    struct hr_rng rng;
    struct tally tally = {0};
    struct recipe flat = {.width = 2048, .height = 1100, .components = 1, .h = 1, .v = 1, .quality = 80, .flat = true,
                          .progressive = true};
    struct recipe noise = {.width = 300, .height = 200, .components = 1, .h = 1, .v = 1, .quality = 98,
                           .scans = fine, .scan_count = HR_ARRAY_SIZE(fine)};

    hr_rng_init(&rng, 8, 0, 0, 5);
    must_repack(&flat, 1, &rng, &tally);
    must_repack(&noise, 1, &rng, &tally);
}

static void in_cells(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};
    struct recipe r = {.width = 900, .height = 800, .components = 3, .h = 2, .v = 2, .quality = 97,
                       .progressive = true};

    hr_rng_init(&rng, 8, 0, 0, 6);
    must_repack(&r, 4, &rng, &tally);
    assert_true(tally.jpeg_bytes >= HR_RJPEG_CELLS_BYTES);
    r = (struct recipe){.width = 700, .height = 500, .components = 4, .h = 1, .v = 1, .quality = 97, .ycck = true};
    tally = (struct tally){0};
    must_repack(&r, 4, &rng, &tally);
    assert_true(tally.jpeg_bytes >= HR_RJPEG_CELLS_BYTES);
}

/* Scans padded with 0 bits, which libjpeg reads but never writes: the restored file with the flag cleared. */
static void other_padding(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};
    struct hr_buf packed = {0}, other = {0};
    struct recipe r = {.width = 70, .height = 50, .components = 3, .h = 2, .v = 2, .quality = 80, .progressive = true,
                       .restart = 3};
    struct hr_error err = HR_ERROR_INIT;

    hr_rng_init(&rng, 8, 0, 0, 7);
    struct bytes jpeg = jpeg_make(&r, &rng);
    assert_int_equal(hr_rjpeg_encode(jpeg.data, jpeg.count, &packed, NULL, NULL), 0);
    assert_true(packed.data[FLAGS] & FLAG_PAD_ONES);
    packed.data[FLAGS] &= (uint8_t)~FLAG_PAD_ONES;
    assert_int_equal(hr_rjpeg_restore(packed.data, packed.used, &other, NULL), 0);
    assert_true(other.used != jpeg.count || memcmp(other.data, jpeg.data, jpeg.count) != 0);
    assert_int_equal(rjpeg_check_file((struct bytes){other.data, other.used}, 2, &rng, &err, &tally), 0);
    hr_buf_finish(&packed);
    hr_buf_finish(&other);
    hr_free(jpeg.data);
}

static void reduced_sizes_of_four_components(void **state)
{
    struct hr_rng rng;
    struct hr_buf packed = {0};

    hr_rng_init(&rng, 8, 0, 0, 8);
    for (int i = 0; i < 8; i++) {
        struct recipe r = {.width = 61 + 30 * (uint32_t)i, .height = 77, .components = 4, .h = 1 + i % 2,
                           .v = 1 + i / 2 % 2, .quality = 80, .ycck = i / 4, .progressive = i % 3 == 1};
        struct bytes jpeg = jpeg_make(&r, &rng);
        assert_int_equal(hr_rjpeg_encode(jpeg.data, jpeg.count, &packed, NULL, NULL), 0);
        struct hr_rjpeg_view view = hr_rjpeg_view_whole(packed.data, packed.used);
        for (uint32_t shrink = 2; shrink <= 8; shrink *= 2)
            for (int v = 0; v < RJPEG_VARIANTS; v++) {
                if (!hr_rjpeg_set_variant(decoder, rjpeg_variants[v]))
                    continue;
                struct picture p = jpeg_decode(jpeg, shrink);
                struct hr_rjpeg_box box = rjpeg_random_box(&rng, &p);
                box.shrink = shrink;
                rjpeg_check_box(&view, &p, box);
                hr_free(p.pixels);
            }
        hr_free(jpeg.data);
    }
    hr_buf_finish(&packed);
}

static void other_channels_are_refused(void **state)
{
    struct hr_rng rng;
    struct hr_buf packed = {0};
    struct recipe r = {.width = 20, .height = 20, .components = 4, .h = 1, .v = 1, .quality = 80};
    struct hr_rjpeg_box box = {0, 0, 20, 20, 1};
    uint8_t pixels[20 * 20 * 4];

    hr_rng_init(&rng, 8, 0, 0, 9);
    struct bytes jpeg = jpeg_make(&r, &rng);
    assert_int_equal(hr_rjpeg_encode(jpeg.data, jpeg.count, &packed, NULL, NULL), 0);
    struct hr_rjpeg_view view = hr_rjpeg_view_whole(packed.data, packed.used);
    for (uint32_t channels = 0; channels < 6; channels++) {
        struct hr_rjpeg_sink sink = {.dst = pixels, .stride = 20 * channels, .channels = channels};
        assert_int_equal(hr_rjpeg_decode(decoder, &view, &box, &sink, NULL), channels == 4 ? 0 : HR_E_FORMAT);
    }
    hr_buf_finish(&packed);
    hr_free(jpeg.data);
}

/* Where the n-th segment of a kind begins, 0 = there are not so many. */
static size_t find_segment(struct bytes jpeg, uint8_t marker, int n)
{
    for (size_t i = 0; i + 1 < jpeg.count; i++)
        if (jpeg.data[i] == 0xff && jpeg.data[i + 1] == marker && !n--)
            return i;
    return 0;
}

/* A progression without its last scan: libjpeg would smooth its blocks. */
static void incomplete_ones_are_refused(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};
    struct recipe r = {.width = 40, .height = 30, .components = 3, .h = 2, .v = 2, .quality = 80, .progressive = true};
    struct hr_error err = HR_ERROR_INIT;

    hr_rng_init(&rng, 8, 0, 0, 10);
    struct bytes jpeg = jpeg_make(&r, &rng);
    for (int scan = 1; find_segment(jpeg, 0xda, scan); scan++) {
        size_t at = find_segment(jpeg, 0xda, scan);
        struct bytes shorter = {hr_alloc(at + 2), at + 2};
        memcpy(shorter.data, jpeg.data, at);
        memcpy(shorter.data + at, "\xff\xd9", 2);
        assert_int_equal(rjpeg_check_file(shorter, 0, &rng, &err, &tally), HR_E_FORMAT);
        assert_int_equal(hr_rjpeg_refusal(shorter.data, shorter.count, HR_E_FORMAT), HR_RJPEG_REFUSED_PROGRESSIVE);
        hr_free(shorter.data);
    }
    hr_free(jpeg.data);
}

/* Its last scan over and over; libjpeg only warns of that. */
static void repeated_scans_are_refused(void **state)
{
    enum { TIMES = 200 };
    struct hr_rng rng;
    struct tally tally = {0};
    struct recipe r = {.width = 40, .height = 30, .components = 3, .h = 2, .v = 2, .quality = 80, .progressive = true};
    struct hr_error err = HR_ERROR_INIT;

    hr_rng_init(&rng, 8, 0, 0, 11);
    struct bytes jpeg = jpeg_make(&r, &rng);
    size_t last = 0;
    for (int scan = 0; find_segment(jpeg, 0xda, scan); scan++)
        last = find_segment(jpeg, 0xda, scan);
    size_t once = jpeg.count - 2 - last;
    struct bytes bomb = {hr_alloc(jpeg.count + TIMES * once), jpeg.count + TIMES * once};
    memcpy(bomb.data, jpeg.data, last);
    for (size_t i = 0; i <= TIMES; i++)
        memcpy(bomb.data + last + i * once, jpeg.data + last, once);
    memcpy(bomb.data + bomb.count - 2, "\xff\xd9", 2);
    assert_int_equal(rjpeg_check_file(bomb, 0, &rng, &err, &tally), HR_E_DECODE);
    assert_non_null(strstr(err.text, "order"));
    hr_free(bomb.data);
    hr_free(jpeg.data);
}

/* One coefficient a scan. */
static void too_many_scans_are_refused(void **state)
{
    jpeg_scan_info scans[2 * 64] = {{0}};
    struct hr_rng rng;
    struct tally tally = {0};
    struct recipe r = {.width = 20, .height = 20, .components = 1, .h = 1, .v = 1, .quality = 80, .scans = scans};
    struct hr_error err = HR_ERROR_INIT;

    hr_rng_init(&rng, 8, 0, 0, 12);
    for (int i = 0; i < 128; i++)
        scans[i] = (jpeg_scan_info){.comps_in_scan = 1, .Ss = i & 63, .Se = i & 63, .Ah = i / 64, .Al = 1 - i / 64};
    r.scan_count = 128;
    struct bytes jpeg = jpeg_make(&r, &rng);
    assert_int_equal(rjpeg_check_file(jpeg, 0, &rng, &err, &tally), HR_E_FORMAT);
    assert_non_null(strstr(err.text, "100 scans"));
    hr_free(jpeg.data);
    for (int i = 0; i < 64; i++)
        scans[i].Al = 0;
    r.scan_count = 64;
    must_repack(&r, 1, &rng, &tally);
}

static void damage(struct bytes jpeg, struct hr_rng *rng)
{
    for (uint64_t n = hr_rng_below(rng, 3) + 1; n; n--) {
        uint8_t *at = jpeg.data + hr_rng_below(rng, jpeg.count);
        *at = hr_rng_bernoulli(rng, 0.7) ? (uint8_t)(*at ^ 1 << hr_rng_below(rng, 8)) : (uint8_t)hr_rng_u32(rng);
    }
}

static struct bytes copy(const uint8_t *data, size_t count)
{
    struct bytes exact = {hr_alloc(count), count}; /* so that the address sanitizer sees reads past the end */

    memcpy(exact.data, data, count);
    return exact;
}

static void damaged_files_are_refused_or_exact(void **state)
{
    struct hr_rng rng;
    struct tally tally = {0};
    struct jpeg_script script;

    hr_rng_init(&rng, 8, 0, 0, 13);
    for (int i = 0; i < 100; i++) {
        struct recipe r = random_recipe(&rng, i);
        jpeg_make_progression(&script, r.components, &rng);
        r.scans = i % 4 ? script.scans : NULL; /* else one scan */
        r.scan_count = script.count;
        struct bytes jpeg = jpeg_make(&r, &rng);
        for (int k = 0; k < 20; k++) {
            struct hr_error err = HR_ERROR_INIT;
            struct bytes bad = copy(jpeg.data, jpeg.count);
            damage(bad, &rng);
            rjpeg_check_file(bad, 1, &rng, &err, &tally);
            hr_free(bad.data);
        }
        hr_free(jpeg.data);
    }
    print_message("# %u of %u damaged files were sound enough\n", tally.packed, tally.files);
    assert_true(tally.packed > 0 && tally.packed < tally.files);
}

static void swallow(void *user, const uint8_t *row)
{
    *(uint64_t *)user += row[0];
}

static void damaged_values_do_no_harm(void **state)
{
    struct hr_rng rng;
    struct hr_buf packed = {0}, jpeg = {0};
    uint64_t sum = 0;
    int fine = 0;

    hr_rng_init(&rng, 8, 0, 0, 14);
    for (int i = 0; i < 30; i++) {
        struct recipe r = random_recipe(&rng, i);
        r.progressive = r.components != 4 || i % 2;
        struct bytes made = jpeg_make(&r, &rng);
        assert_int_equal(hr_rjpeg_encode(made.data, made.count, &packed, NULL, NULL), 0);
        hr_free(made.data);
        for (int k = 0; k < 200; k++) {
            struct bytes bad = copy(packed.data, packed.used - (k % 10 ? 0 : hr_rng_below(&rng, packed.used)));
            damage(bad, &rng);
            struct hr_rjpeg_info info;
            if (hr_rjpeg_info(bad.data, bad.count, &info, NULL) == 0) {
                struct picture size = {.width = info.width, .height = info.height};
                struct hr_rjpeg_box box = rjpeg_random_box(&rng, &size);
                struct hr_rjpeg_view view = hr_rjpeg_view_whole(bad.data, bad.count);
                struct hr_rjpeg_sink sink = {.row = swallow, .user = &sum, .channels = info.components};
                hr_rjpeg_set_variant(decoder, rjpeg_variants[k % RJPEG_VARIANTS]);
                fine += hr_rjpeg_decode(decoder, &view, &box, &sink, NULL) == 0;
            }
            fine += hr_rjpeg_restore(bad.data, bad.count, &jpeg, NULL) == 0;
            hr_free(bad.data);
        }
    }
    assert_true(fine > 0);
    hr_buf_finish(&packed);
    hr_buf_finish(&jpeg);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libjpegs_own_progression),
        cmocka_unit_test(any_progression),
        cmocka_unit_test(several_sequential_scans),
        cmocka_unit_test(four_components_in_one_scan),
        cmocka_unit_test(long_runs),
        cmocka_unit_test(in_cells),
        cmocka_unit_test(other_padding),
        cmocka_unit_test(reduced_sizes_of_four_components),
        cmocka_unit_test(other_channels_are_refused),
        cmocka_unit_test(incomplete_ones_are_refused),
        cmocka_unit_test(repeated_scans_are_refused),
        cmocka_unit_test(too_many_scans_are_refused),
        cmocka_unit_test(damaged_files_are_refused_or_exact),
        cmocka_unit_test(damaged_values_do_no_harm),
    };
    return cmocka_run_group_tests(tests, rjpeg_open, rjpeg_close);
}
