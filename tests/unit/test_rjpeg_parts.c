/* Repacked JPEG in part: reduced sizes are libjpeg-turbo's scaled decode in every box and by every variant;
 * values in cells decode from the ranges that a box is said to need, and their checksums find damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "rjpeg_check.h"

static const int samplings[][4] = {
    {1, 1, 1, 1}, {2, 2, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {4, 1, 1, 1}, {4, 2, 1, 1}, {1, 4, 1, 1},
    {2, 4, 1, 1}, {2, 2, 2, 1}, {2, 2, 1, 2}, {1, 1, 2, 2}, {3, 1, 1, 1}, {1, 3, 1, 1},
};

static void check_box(const struct hr_rjpeg_view *view, const struct picture *p, struct hr_rjpeg_box box)
{
    struct rows rows = {.expected = p, .box = box};
    struct hr_rjpeg_sink sink = {.row = jpeg_check_row, .user = &rows, .channels = p->channels};
    struct hr_error err = HR_ERROR_INIT;

    if (hr_rjpeg_decode(decoder, view, &box, &sink, &err) < 0)
        fail_msg("%s: %s", hr_rjpeg_variant(decoder), err.text);
    if (rows.wrong || rows.y != box.h)
        fail_msg("%s: %ux%u at 1/%u, box %u,%u %ux%u: %llu of %u rows are wrong", hr_rjpeg_variant(decoder), p->width,
                 p->height, box.shrink, box.x, box.y, box.w, box.h, (unsigned long long)rows.wrong, rows.y);
}

static struct hr_rjpeg_box random_box(struct hr_rng *rng, const struct picture *p, uint32_t shrink)
{
    struct hr_rjpeg_box box = {.shrink = shrink};

    box.w = 1 + (uint32_t)hr_rng_below(rng, hr_rng_bernoulli(rng, 0.5) && p->width > 40 ? 40 : p->width);
    box.h = 1 + (uint32_t)hr_rng_below(rng, hr_rng_bernoulli(rng, 0.5) && p->height > 40 ? 40 : p->height);
    box.x = (uint32_t)hr_rng_below(rng, p->width - box.w + 1);
    box.y = (uint32_t)hr_rng_below(rng, p->height - box.h + 1);
    return box;
}

static struct hr_buf encode(struct bytes jpeg, struct hr_buf *seek)
{
    struct hr_buf packed = {0};
    struct hr_error err = HR_ERROR_INIT;

    if (hr_rjpeg_encode(jpeg.data, jpeg.count, &packed, seek, &err) < 0)
        fail_msg("%s", err.text);
    return packed;
}

/* ---- reduced sizes ---- */

static void check_shrunk(const struct recipe *r, struct hr_rng *rng, int boxes)
{
    struct bytes jpeg = jpeg_make(r, rng);
    struct hr_buf packed = encode(jpeg, NULL);
    struct hr_rjpeg_view view = hr_rjpeg_view_whole(packed.data, packed.used);

    for (uint32_t shrink = 2; shrink <= 8; shrink *= 2) {
        struct picture p = jpeg_decode(jpeg, shrink);
        for (size_t v = 0; v < RJPEG_VARIANTS; v++) {
            if (!hr_rjpeg_set_variant(decoder, rjpeg_variants[v]))
                continue;
            check_box(&view, &p, (struct hr_rjpeg_box){0, 0, p.width, p.height, shrink});
            for (int i = 0; i < boxes; i++)
                check_box(&view, &p, random_box(rng, &p, shrink));
        }
        hr_free(p.pixels);
    }
    hr_buf_finish(&packed);
    hr_free(jpeg.data);
}

static void reduced_sizes_are_those_of_libjpeg(void **state)
{
    struct hr_rng rng;

    hr_rng_init(&rng, 21, 0, 0, 0);
    for (size_t s = 0; s < HR_ARRAY_SIZE(samplings); s++)
        for (uint32_t i = 1; i <= 36; i++) {
            struct recipe r = {.width = i < 30 ? i : 37 * i - 1000, .height = 1 + i * 37 % 70, .components = 3,
                               .h = samplings[s][0], .v = samplings[s][1], .h2 = samplings[s][2],
                               .v2 = samplings[s][3], .quality = 1 + (int)(i * 29 % 100)};
            check_shrunk(&r, &rng, 4);
        }
}

static void reduced_gray_and_rgb(void **state)
{
    struct hr_rng rng;

    hr_rng_init(&rng, 22, 0, 0, 0);
    for (uint32_t i = 1; i <= 40; i++) {
        bool gray = i % 2;
        struct recipe r = {.width = 7 * i, .height = 91 - 2 * i, .components = gray ? 1 : 3, .rgb = !gray, .h = 1,
                           .v = 1, .quality = 60 + (int)i};
        check_shrunk(&r, &rng, 4);
    }
}

/* Quantizers beyond a byte, which leave values beyond one as well. */
static void reduced_wide_quantizers(void **state)
{
    struct hr_rng rng;

    hr_rng_init(&rng, 23, 0, 0, 0);
    struct recipe r = {.width = 300, .height = 70, .components = 3, .h = 2, .v = 2, .quality = 100};
    check_shrunk(&r, &rng, 10);
    r.quantizer_scale = 900;
    r.force_16bit = true;
    r.width = 301;
    check_shrunk(&r, &rng, 10);
}

/* ---- cells ---- */

static const struct recipe large[] = {
    {.width = 1500, .height = 1100, .components = 3, .h = 2, .v = 2, .quality = 90},
    {.width = 1100, .height = 701, .components = 3, .h = 1, .v = 1, .quality = 98},
    {.width = 2403, .height = 310, .components = 3, .h = 2, .v = 1, .quality = 92, .restart = 7},
    {.width = 1203, .height = 620, .components = 1, .h = 1, .v = 1, .quality = 95},
    {.width = 903, .height = 900, .components = 3, .h = 4, .v = 2, .quality = 95},
};

enum { PARTS = 32 };

/* Exactly the ranges of a box, one after the other in memory that ends with them. */
struct excerpt {
    struct hr_rjpeg_view view;
    struct hr_rjpeg_part parts[PARTS];
    uint8_t *bytes;
    uint64_t count;
};

static struct excerpt *cut_out(const struct hr_buf *packed, const struct hr_buf *seek, const struct hr_rjpeg_box *box,
                               uint64_t gap)
{
    struct excerpt *x = hr_alloc_zero(1, sizeof(*x));
    struct hr_rjpeg_range ranges[PARTS];
    struct hr_rjpeg_info info;

    assert_int_equal(hr_rjpeg_info(seek->data, seek->used, &info, NULL), 0);
    int n = hr_rjpeg_ranges(&info, seek->data, seek->used, box, gap, ranges, PARTS, NULL);
    assert_in_range(n, 1, PARTS);
    for (int i = 0; i < n; i++)
        x->count += ranges[i].bytes;
    uint8_t *at = x->bytes = hr_alloc(x->count);
    for (int i = 0; i < n; at += ranges[i++].bytes) {
        memcpy(at, packed->data + ranges[i].off, ranges[i].bytes);
        x->parts[i] = (struct hr_rjpeg_part){at, ranges[i].off, ranges[i].bytes};
    }
    x->view = (struct hr_rjpeg_view){.head = seek->data, .head_bytes = seek->used, .parts = x->parts,
                                     .part_count = (uint32_t)n};
    return x;
}

static void drop(struct excerpt *x)
{
    hr_free(x->bytes);
    hr_free(x);
}

static void check_parts(const struct hr_buf *packed, const struct hr_buf *seek, const struct picture *p,
                        struct hr_rng *rng, uint32_t shrink)
{
    struct hr_rjpeg_view whole = hr_rjpeg_view_whole(packed->data, packed->used);

    for (size_t v = 0; v < RJPEG_VARIANTS; v++) {
        if (!hr_rjpeg_set_variant(decoder, rjpeg_variants[v]))
            continue;
        check_box(&whole, p, (struct hr_rjpeg_box){0, 0, p->width, p->height, shrink});
        for (int i = 0; i < 12; i++) {
            struct hr_rjpeg_box box = random_box(rng, p, shrink);
            struct excerpt *x = cut_out(packed, seek, &box, i % 3 ? 0 : 50000);
            uint64_t checked;
            assert_int_equal(hr_rjpeg_check(&x->view, &box, &checked, NULL), 0);
            assert_in_range(checked, 1, x->count);
            check_box(&x->view, p, box);
            check_box(&whole, p, box);
            drop(x);
        }
    }
}

static void cells_hold_what_a_box_needs(void **state)
{
    struct hr_rng rng;

    hr_rng_init(&rng, 24, 0, 0, 0);
    for (size_t i = 0; i < HR_ARRAY_SIZE(large); i++) {
        struct bytes jpeg = jpeg_make(&large[i], &rng);
        struct hr_buf seek = {0}, restored = {0}, packed = encode(jpeg, &seek);
        struct hr_rjpeg_info info;
        assert_int_equal(hr_rjpeg_info(packed.data, packed.used, &info, NULL), 0);
        assert_true(info.cells && info.panels > 1);
        assert_int_equal(info.value_bytes, packed.used);
        assert_int_equal(hr_rjpeg_restore(packed.data, packed.used, &restored, NULL), 0);
        assert_int_equal(restored.used, jpeg.count);
        assert_memory_equal(restored.data, jpeg.data, jpeg.count);
        for (uint32_t shrink = 1; shrink <= 8; shrink *= 2) {
            struct picture p = jpeg_decode(jpeg, shrink);
            check_parts(&packed, &seek, &p, &rng, shrink);
            hr_free(p.pixels);
        }
        hr_buf_finish(&restored);
        hr_buf_finish(&seek);
        hr_buf_finish(&packed);
        hr_free(jpeg.data);
    }
}

/* A small box of a large picture needs the cells around it and no more. */
static void a_small_box_needs_few_bytes(void **state)
{
    struct hr_rng rng;
    struct recipe r = {.width = 3000, .height = 2400, .components = 3, .h = 2, .v = 2, .quality = 85};
    struct hr_rjpeg_box box = {1200, 900, 300, 200, 1};

    hr_rng_init(&rng, 25, 0, 0, 0);
    struct bytes jpeg = jpeg_make(&r, &rng);
    struct hr_buf seek = {0}, packed = encode(jpeg, &seek);
    struct excerpt *x = cut_out(&packed, &seek, &box, 0);
    assert_in_range(x->count, 1, packed.used / 10);
    assert_in_range(seek.used, 1, packed.used / 1000);
    drop(x);
    hr_buf_finish(&seek);
    hr_buf_finish(&packed);
    hr_free(jpeg.data);
}

static void every_damaged_byte_of_a_part_is_found(void **state)
{
    struct hr_rng rng;
    struct hr_rjpeg_box box = {300, 200, 600, 300, 1};

    hr_rng_init(&rng, 26, 0, 0, 0);
    struct bytes jpeg = jpeg_make(&large[0], &rng);
    struct hr_buf seek = {0}, packed = encode(jpeg, &seek);
    struct excerpt *x = cut_out(&packed, &seek, &box, 0);
    for (int i = 0; i < 300; i++) {
        uint64_t at = hr_rng_below(&rng, x->count);
        x->bytes[at] ^= (uint8_t)(1u << i % 8);
        assert_int_equal(hr_rjpeg_check(&x->view, &box, NULL, NULL), HR_E_CHECKSUM);
        x->bytes[at] ^= (uint8_t)(1u << i % 8);
    }
    assert_int_equal(hr_rjpeg_check(&x->view, &box, NULL, NULL), 0);
    x->parts[x->view.part_count - 1].bytes--;
    assert_int_equal(hr_rjpeg_check(&x->view, &box, NULL, NULL), HR_E_TRUNCATED);
    drop(x);
    hr_buf_finish(&seek);
    hr_buf_finish(&packed);
    hr_free(jpeg.data);
}

static void take_row(void *user, const uint8_t *row)
{
}

/* Wrong tables and tiles: an error or wrong pixels, and no stray access (run with -Dsanitize=address). */
static void damaged_cells_do_no_harm(void **state)
{
    struct hr_rng rng;
    struct picture size = {.width = large[3].width, .height = large[3].height};

    hr_rng_init(&rng, 27, 0, 0, 0);
    struct bytes jpeg = jpeg_make(&large[3], &rng);
    struct hr_buf restored = {0}, packed = encode(jpeg, NULL);
    struct hr_rjpeg_info info;
    assert_int_equal(hr_rjpeg_info(packed.data, packed.used, &info, NULL), 0);
    for (int i = 0; i < 400; i++) {
        size_t bytes = i % 4 ? packed.used : (size_t)hr_rng_below(&rng, packed.used);
        uint8_t *bad = hr_alloc(bytes + 1);
        memcpy(bad, packed.data, bytes);
        for (int k = 0; k < 5 && bytes; k++) {
            uint64_t reach = k < 3 && bytes > info.head_bytes ? info.head_bytes : bytes;
            bad[hr_rng_below(&rng, reach)] = (uint8_t)hr_rng_u32(&rng);
        }
        hr_rjpeg_set_variant(decoder, rjpeg_variants[i % 3]);
        struct hr_rjpeg_box box = random_box(&rng, &size, 1);
        struct hr_rjpeg_view view = hr_rjpeg_view_whole(bad, bytes);
        struct hr_rjpeg_sink sink = {.row = take_row, .channels = 1};
        struct hr_rjpeg_range ranges[4];
        struct hr_rjpeg_info read;
        int ret = hr_rjpeg_decode(decoder, &view, &box, &sink, NULL);
        ret |= hr_rjpeg_check(&view, &box, NULL, NULL);
        if (hr_rjpeg_info(bad, bytes, &read, NULL) == 0)
            ret |= hr_rjpeg_ranges(&read, bad, bytes, &box, 0, ranges, 4, NULL);
        if (i % 8 == 1)
            ret |= hr_rjpeg_restore(bad, bytes, &restored, NULL);
        (void)ret;
        hr_free(bad);
    }
    hr_buf_finish(&restored);
    hr_buf_finish(&packed);
    hr_free(jpeg.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reduced_sizes_are_those_of_libjpeg),
        cmocka_unit_test(reduced_gray_and_rgb),
        cmocka_unit_test(reduced_wide_quantizers),
        cmocka_unit_test(cells_hold_what_a_box_needs),
        cmocka_unit_test(a_small_box_needs_few_bytes),
        cmocka_unit_test(every_damaged_byte_of_a_part_is_found),
        cmocka_unit_test(damaged_cells_do_no_harm),
    };

    return cmocka_run_group_tests(tests, rjpeg_open, rjpeg_close);
}
