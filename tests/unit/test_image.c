/* images: a region decoded is the full decode cropped, bit for bit; damaged files are refused, never
 * believed. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <jpeglib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/rng.h"
#include "decoders/chain.h"
#include "decoders/decoder.h"
#include "decoders/exif.h"
#include "decoders/pixels.h"
#include "lib/shared.h"

/* ---- the reference: libjpeg, nothing else ---- */

struct escape {
    struct jpeg_error_mgr pub;
    jmp_buf out;
};

static void on_error(j_common_ptr cinfo)
{
    longjmp(((struct escape *)cinfo->err)->out, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
    if (level < 0)
        cinfo->err->num_warnings++;
}

struct picture {
    uint8_t *rgb;
    uint32_t w, h;
    long warnings;
};

static bool decode_whole(const uint8_t *bytes, size_t count, int shrink, struct picture *p)
{
    struct jpeg_decompress_struct c;
    struct escape err;

    *p = (struct picture){0};
    c.err = jpeg_std_error(&err.pub);
    err.pub.error_exit = on_error;
    err.pub.emit_message = on_message;
    jpeg_create_decompress(&c);
    if (setjmp(err.out)) {
        jpeg_destroy_decompress(&c);
        hr_free(p->rgb);
        p->rgb = NULL;
        return false;
    }
    jpeg_mem_src(&c, bytes, count);
    jpeg_read_header(&c, TRUE);
    if ((uint64_t)c.image_width * c.image_height > 100000000)
        on_error((j_common_ptr)&c);
    c.out_color_space = c.num_components == 4 ? JCS_CMYK : JCS_RGB;
    c.dct_method = JDCT_ISLOW;
    c.scale_num = 8 / (unsigned)shrink;
    c.scale_denom = 8;
    jpeg_start_decompress(&c);
    p->w = c.output_width;
    p->h = c.output_height;
    size_t stride = (size_t)p->w * (size_t)c.output_components;
    p->rgb = hr_alloc(stride * p->h + 64);
    while (c.output_scanline < p->h) {
        uint8_t *row = p->rgb + c.output_scanline * stride;
        jpeg_read_scanlines(&c, &row, 1);
    }
    if (c.output_components == 4)
        hr_pixels_cmyk_to_rgb(p->rgb, p->rgb, (size_t)p->w * p->h);
    jpeg_finish_decompress(&c);
    p->warnings = err.pub.num_warnings;
    jpeg_destroy_decompress(&c);
    return true;
}

/* ---- boxes ---- */

struct expected {
    const struct picture *whole;
    uint32_t x, y, w, h, row;
    bool same;
};

static bool push_box(void *user, const uint8_t *row)
{
    struct expected *e = user;

    if (e->row == 0)
        e->same = e->x + e->w <= e->whole->w && e->y + e->h <= e->whole->h;
    if (e->same && e->row < e->h)
        e->same = memcmp(row, e->whole->rgb + ((size_t)(e->y + e->row) * e->whole->w + e->x) * 3,
                         (size_t)e->w * 3) == 0;
    e->row++;
    return true;
}

static void *jpeg_state;
static long files, boxes;
static struct hr_rng rng;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)hr_rng_below(&rng, n);
}

/* Boxes of all sizes, often at edges, often one pixel. */
static void pick_side(uint32_t side, uint32_t *at, uint32_t *length)
{
    switch (pick(6)) {
    case 0:
        *length = 1;
        break;
    case 1:
        *length = side;
        break;
    case 2:
        *length = 1 + pick(side < 20 ? side : 20);
        break;
    default:
        *length = 1 + pick(side);
    }
    *at = pick(side - *length + 1);
    if (pick(8) == 0)
        *at = pick(2) ? 0 : side - *length;
}

static void check_boxes(const char *path, const uint8_t *bytes, size_t count, int shrink, int n)
{
    struct picture whole, plain;

    if (!decode_whole(bytes, count, shrink, &whole))
        return;
    assert_true(decode_whole(bytes, count, 1, &plain));
    for (int i = 0; i < n && whole.warnings == 0; i++) {
        struct hr_image_request r = {.bytes = bytes, .count = count, .picture_w = plain.w,
                                     .picture_h = plain.h, .channels = 3,
                                     .shrink = (uint32_t)shrink, .push = push_box};
        struct hr_error err = HR_ERROR_INIT;
        pick_side(whole.w, &r.x, &r.w);
        pick_side(whole.h, &r.y, &r.h);
        struct expected e = {.whole = &whole, .x = r.x, .y = r.y, .w = r.w, .h = r.h};
        r.user = &e;
        int ret = hr_decoder_jpeg.image->decode(jpeg_state, &r, &err);
        if (ret < 0 || !e.same || e.row != e.h)
            fail_msg("%s: box %u,%u %ux%u of %ux%u at 1/%d: %s, row %u of %u", path, r.x, r.y, r.w,
                     r.h, plain.w, plain.h, shrink, ret < 0 ? err.text : "pixels differ", e.row,
                     e.h);
        boxes++;
    }
    files++;
    hr_free(whole.rgb);
    hr_free(plain.rgb);
}

static int box_count(void)
{
    const char *env = getenv("HR_TEST_BOXES");
    return env ? atoi(env) : 4;
}

static int visit(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    void *bytes;
    size_t count;

    if (flag != FTW_F || hr_fd_read_file(path, 64 << 20, &bytes, &count, NULL) < 0)
        return 0;
    /* An exact-size copy lets the sanitizer see reads past the end. */
    uint8_t *tight = hr_alloc(count);
    memcpy(tight, bytes, count);
    if (hr_media_sniff(tight, count) == HR_MEDIA_JPEG) {
        check_boxes(path, tight, count, 1, box_count());
        if (files % 5 == 0)
            check_boxes(path, tight, count, 2 << files / 5 % 3, box_count());
    }
    hr_free(tight);
    hr_free(bytes);
    return 0;
}

static void jpeg_region_is_the_full_decode_cropped(void **state)
{
    char data[1024], cases[1024];

    (void)state;
    if (!hr_test_shared("data/images", data, sizeof(data)) ||
        !hr_test_shared("cases", cases, sizeof(cases))) {
        print_message("# skipped: no shared data (set HR_SHARED)\n");
        skip();
    }
    hr_rng_init(&rng, 7, 0, 0, 0);
    assert_int_equal(hr_decoder_jpeg.image->create(0, &jpeg_state), 0);
    nftw(data, visit, 16, FTW_PHYS);
    nftw(cases, visit, 16, FTW_PHYS);
    hr_decoder_jpeg.image->destroy(jpeg_state);
    print_message("# %ld pictures, %ld boxes\n", files, boxes);
    assert_true(files > 100);
}

/* ---- the other decoders: a region is their own whole picture cropped ---- */

struct grab {
    uint8_t *rgb;
    size_t stride;
    uint32_t rows;
};

static bool grab_row(void *user, const uint8_t *row)
{
    struct grab *g = user;

    memcpy(g->rgb + g->rows++ * g->stride, row, g->stride);
    return true;
}

static bool whole_picture(const struct hr_decoder *decoder, void *state, const uint8_t *bytes,
                          size_t count, struct picture *p)
{
    struct hr_facts facts;

    *p = (struct picture){0};
    if (hr_media_measure(bytes, count, HR_FIELD_IMAGE, false, NULL, &facts, NULL) < 0)
        return false;
    struct grab g = {.rgb = hr_alloc((size_t)facts.width * facts.height * 3),
                     .stride = (size_t)facts.width * 3};
    struct hr_image_request r = {.bytes = bytes, .count = count, .picture_w = facts.width,
                                 .picture_h = facts.height, .w = facts.width, .h = facts.height,
                                 .channels = 3, .shrink = 1, .push = grab_row, .user = &g};
    *p = (struct picture){.rgb = g.rgb, .w = facts.width, .h = facts.height};
    if (decoder->image->decode(state, &r, NULL) == 0)
        return true;
    hr_free(g.rgb);
    return false;
}

static void *other_states[HR_DECODER_MAX];

static int visit_other(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    void *bytes;
    size_t count;
    struct picture whole;

    if (flag != FTW_F || hr_fd_read_file(path, 64 << 20, &bytes, &count, NULL) < 0)
        return 0;
    const struct hr_decoder *decoder = hr_decoder_find(bytes, count, NULL);
    if (decoder && decoder->image && decoder != &hr_decoder_jpeg) {
        void **state = &other_states[hr_decoder_index(decoder)];
        if (!*state)
            assert_int_equal(decoder->image->create(0, state), 0);
        if (whole_picture(decoder, *state, bytes, count, &whole)) {
            for (int i = 0; i < 8; i++) {
                struct hr_image_request r = {.bytes = bytes, .count = count, .picture_w = whole.w,
                                             .picture_h = whole.h, .channels = 3, .shrink = 1,
                                             .push = push_box};
                pick_side(whole.w, &r.x, &r.w);
                pick_side(whole.h, &r.y, &r.h);
                struct expected e = {.whole = &whole, .x = r.x, .y = r.y, .w = r.w, .h = r.h};
                r.user = &e;
                if (decoder->image->decode(*state, &r, NULL) < 0 || !e.same || e.row != e.h)
                    fail_msg("%s: box %u,%u %ux%u differs", path, r.x, r.y, r.w, r.h);
            }
            files++;
            hr_free(whole.rgb);
        }
    }
    hr_free(bytes);
    return 0;
}

static void other_regions_are_the_whole_cropped(void **state)
{
    char data[1024], cases[1024];

    (void)state;
    if (!hr_test_shared("data/images/formats", data, sizeof(data)) ||
        !hr_test_shared("cases", cases, sizeof(cases))) {
        print_message("# skipped: no shared data (set HR_SHARED)\n");
        skip();
    }
    files = 0;
    nftw(data, visit_other, 16, FTW_PHYS);
    nftw(cases, visit_other, 16, FTW_PHYS);
    for (int i = 0; i < HR_DECODER_MAX; i++)
        if (other_states[i])
            hr_decoder_at(i)->image->destroy(other_states[i]);
    assert_true(files >= 20);
}

/* ---- damage ---- */

static uint8_t *make_jpeg(uint32_t w, uint32_t h, bool progressive, unsigned long *count)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr err;
    unsigned char *out = NULL;

    c.err = jpeg_std_error(&err);
    jpeg_create_compress(&c);
    *count = 0;
    jpeg_mem_dest(&c, &out, count);
    c.image_width = w;
    c.image_height = h;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    if (progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    uint8_t *row = hr_alloc((size_t)w * 3);
    while (c.next_scanline < h) {
        for (uint32_t x = 0; x < w * 3; x++)
            row[x] = (uint8_t)(x * 7 + c.next_scanline * 5 + pick(40));
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    hr_free(row);
    return out;
}

static int decode_jpeg(void *state, const uint8_t *bytes, size_t count, uint32_t w, uint32_t h,
                       uint32_t rows, struct hr_error *err)
{
    uint8_t *rgb = hr_alloc((size_t)w * h * 3);
    struct grab g = {.rgb = rgb, .stride = (size_t)w * 3};
    struct hr_image_request r = {.bytes = bytes, .count = count, .picture_w = w, .picture_h = h,
                                 .w = w, .h = rows, .channels = 3, .shrink = 1, .push = grab_row,
                                 .user = &g};
    int ret = hr_decoder_jpeg.image->decode(state, &r, err);

    hr_free(rgb);
    return ret;
}

static void cut_jpegs_are_truncated_at_every_length(void **state)
{
    void *s;
    struct hr_error err;

    (void)state;
    assert_int_equal(hr_decoder_jpeg.image->create(0, &s), 0);
    for (int progressive = 0; progressive < 2; progressive++) {
        unsigned long count;
        uint8_t *jpeg = make_jpeg(60, 50, progressive, &count);
        for (size_t n = 2; n + 8 < count; n++)
            assert_int_equal(decode_jpeg(s, jpeg, n, 60, 50, 50, &err), HR_E_TRUNCATED);
        assert_int_equal(decode_jpeg(s, jpeg, count - 2, 60, 50, 50, &err), 0); /* no EOI */
        assert_int_equal(decode_jpeg(s, jpeg, count, 60, 50, 50, &err), 0);
        if (!progressive) /* what is cut off below the rows needed does no harm */
            assert_int_equal(decode_jpeg(s, jpeg, count * 3 / 4, 60, 50, 8, &err), 0);
        free(jpeg);
    }
    hr_decoder_jpeg.image->destroy(s);
}

/* Without its own DQT and DHT a file must not borrow those of the one before. */
static void jpeg_tables_are_not_carried_over(void **state)
{
    unsigned long count;
    uint8_t *jpeg = make_jpeg(40, 40, false, &count), *bare = hr_alloc(count);
    size_t n = 2, i = 2;
    struct hr_error err;
    void *s;

    (void)state;
    memcpy(bare, jpeg, 2);
    while (jpeg[i + 1] != 0xda) {
        size_t length = ((size_t)jpeg[i + 2] << 8 | jpeg[i + 3]) + 2;
        if (jpeg[i + 1] != 0xdb) {
            memcpy(bare + n, jpeg + i, length);
            n += length;
        }
        i += length;
    }
    memcpy(bare + n, jpeg + i, count - i);
    n += count - i;
    assert_int_equal(hr_decoder_jpeg.image->create(0, &s), 0);
    assert_int_equal(decode_jpeg(s, jpeg, count, 40, 40, 40, &err), 0);
    assert_int_equal(decode_jpeg(s, bare, n, 40, 40, 40, &err), HR_E_DECODE);
    assert_non_null(strstr(err.text, "uantization"));
    hr_decoder_jpeg.image->destroy(s);
    hr_free(bare);
    free(jpeg);
}

static void orientation_is_read_strictly(void **state)
{
    uint8_t exif[] = {'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                      0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0};

    (void)state;
    assert_int_equal(hr_exif_orientation(exif, sizeof(exif)), 6);
    for (size_t n = 0; n < 28; n++)
        assert_int_equal(hr_exif_orientation(exif, n), 0);
    exif[24] = 9;
    assert_int_equal(hr_exif_orientation(exif, sizeof(exif)), 0);
    exif[24] = 6;
    exif[18] = 4; /* LONG instead of SHORT */
    assert_int_equal(hr_exif_orientation(exif, sizeof(exif)), 0);
    exif[18] = 3;
    exif[10] = 0xff; /* directory far outside */
    exif[13] = 0xff;
    assert_int_equal(hr_exif_orientation(exif, sizeof(exif)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jpeg_region_is_the_full_decode_cropped),
        cmocka_unit_test(other_regions_are_the_whole_cropped),
        cmocka_unit_test(cut_jpegs_are_truncated_at_every_length),
        cmocka_unit_test(jpeg_tables_are_not_carried_over),
        cmocka_unit_test(orientation_is_read_strictly),
    };

    hr_rng_init(&rng, 7, 0, 0, 0);
    return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
