/* What must hold of every repacked file, for the tests of repacked JPEG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "rjpeg_check.h"

const char *const rjpeg_variants[RJPEG_VARIANTS] = {HR_RJPEG_VARIANTS};
struct hr_rjpeg *decoder;

int rjpeg_open(void **state)
{
    return hr_rjpeg_create(&decoder);
}

int rjpeg_close(void **state)
{
    hr_rjpeg_destroy(decoder);
    return 0;
}

void rjpeg_check_box(const struct hr_rjpeg_view *view, const struct picture *p, struct hr_rjpeg_box box)
{
    struct rows rows = {.expected = p, .box = box};
    struct hr_rjpeg_sink sink = {.row = jpeg_check_row, .user = &rows, .channels = p->channels};
    struct hr_error err = HR_ERROR_INIT;

    if (p->channels == 3 && box.x & 1) /* some of the boxes */
        sink.planes = jpeg_check_planes;
    if (hr_rjpeg_decode(decoder, view, &box, &sink, &err) < 0)
        fail_msg("%s: %s", hr_rjpeg_variant(decoder), err.text);
    if (rows.wrong || rows.y != box.h)
        fail_msg("%s: %ux%u box %u,%u %ux%u: %llu of %u rows are wrong", hr_rjpeg_variant(decoder), p->width, p->height,
                 box.x, box.y, box.w, box.h, (unsigned long long)rows.wrong, rows.y);
}

struct hr_rjpeg_box rjpeg_random_box(struct hr_rng *rng, const struct picture *p)
{
    struct hr_rjpeg_box box = {0};

    box.w = 1 + (uint32_t)hr_rng_below(rng, hr_rng_bernoulli(rng, 0.3) && p->width > 40 ? 40 : p->width);
    box.h = 1 + (uint32_t)hr_rng_below(rng, hr_rng_bernoulli(rng, 0.3) && p->height > 40 ? 40 : p->height);
    box.x = (uint32_t)hr_rng_below(rng, p->width - box.w + 1);
    box.y = (uint32_t)hr_rng_below(rng, p->height - box.h + 1);
    return box;
}

/* The box again, from a buffer that holds only the ranges that it is said to need. */
static void check_ranges(const struct hr_buf *packed, const struct picture *p, struct hr_rjpeg_box box)
{
    struct hr_rjpeg_info info;
    struct hr_rjpeg_range ranges[64];

    assert_int_equal(hr_rjpeg_info(packed->data, packed->used, &info, NULL), 0);
    int n = hr_rjpeg_ranges(&info, packed->data, info.head_bytes, &box, 200, ranges, 64, NULL);
    assert_true(n >= 1);
    uint64_t first = ranges[0].off, bytes = ranges[n - 1].off + ranges[n - 1].bytes - first;
    uint8_t *part = hr_alloc(bytes);
    memset(part, 0xee, bytes);
    for (int i = 0; i < n; i++)
        memcpy(part + (ranges[i].off - first), packed->data + ranges[i].off, ranges[i].bytes);
    struct hr_rjpeg_view view = {
        .head = packed->data, .head_bytes = info.head_bytes, .data = part, .data_off = first, .data_bytes = bytes};
    rjpeg_check_box(&view, p, box);
    hr_free(part);
}

/* A picture written into the middle of guard bytes by row pointers. */
static void check_direct(const struct hr_rjpeg_view *view, const struct picture *p)
{
    struct hr_rjpeg_box box = {0, 0, p->width, p->height};
    size_t row = (size_t)p->width * p->channels, stride = row + 7;
    uint8_t *dst = hr_alloc(stride * p->height);
    struct hr_rjpeg_sink sink = {.dst = dst, .stride = stride, .channels = p->channels};

    memset(dst, 0x5a, stride * p->height);
    assert_int_equal(hr_rjpeg_decode(decoder, view, &box, &sink, NULL), 0);
    for (uint32_t y = 0; y < p->height; y++) {
        assert_memory_equal(dst + y * stride, p->pixels + y * row, row);
        for (size_t i = row; i < stride; i++)
            assert_int_equal(dst[y * stride + i], 0x5a);
    }
    hr_free(dst);
}

void rjpeg_check_pixels(struct bytes jpeg, const struct hr_buf *packed, int boxes, struct hr_rng *rng)
{
    struct picture p = jpeg_decode(jpeg, 1);
    /* An exact copy, so that the address sanitizer sees reads past the end. */
    uint8_t *exact = hr_alloc(packed->used);
    memcpy(exact, packed->data, packed->used);
    struct hr_rjpeg_view view = hr_rjpeg_view_whole(exact, packed->used);

    for (size_t v = 0; v < RJPEG_VARIANTS; v++) {
        if (!hr_rjpeg_set_variant(decoder, rjpeg_variants[v]))
            continue;
        rjpeg_check_box(&view, &p, (struct hr_rjpeg_box){0, 0, p.width, p.height});
        check_direct(&view, &p);
        for (int i = 0; i < boxes; i++)
            rjpeg_check_box(&view, &p, rjpeg_random_box(rng, &p));
        for (int i = 0; i < boxes / 20 + 1; i++)
            check_ranges(packed, &p, rjpeg_random_box(rng, &p));
    }
    hr_free(exact);
    hr_free(p.pixels);
}

int rjpeg_check_file(struct bytes jpeg, int boxes, struct hr_rng *rng, struct hr_error *err, struct tally *tally)
{
    struct hr_buf packed = {0}, seek = {0}, restored = {0};
    struct hr_rjpeg_info info;
    int ret = hr_rjpeg_encode(jpeg.data, jpeg.count, &packed, &seek, err);

    tally->files++;
    if (ret >= 0) {
        assert_int_equal(hr_rjpeg_restore(packed.data, packed.used, &restored, NULL), 0);
        assert_int_equal(restored.used, jpeg.count);
        assert_memory_equal(restored.data, jpeg.data, jpeg.count);
        assert_int_equal(hr_rjpeg_info(packed.data, HR_RJPEG_HEADER_BYTES, &info, NULL), 0);
        assert_int_equal(info.value_bytes, packed.used);
        assert_int_equal(info.cells, jpeg.count >= HR_RJPEG_CELLS_BYTES);
        assert_int_equal(seek.used, info.cells ? info.head_bytes : 0);
        if (info.cells)
            assert_memory_equal(seek.data, packed.data, seek.used);
        if (boxes)
            rjpeg_check_pixels(jpeg, &packed, boxes, rng);
        tally->packed++;
        tally->jpeg_bytes += jpeg.count;
        tally->packed_bytes += packed.used;
    } else {
        assert_true(err->text[0]);
        assert_int_equal(packed.used, 0);
    }
    hr_buf_finish(&packed);
    hr_buf_finish(&seek);
    hr_buf_finish(&restored);
    return ret;
}
