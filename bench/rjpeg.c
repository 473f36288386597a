/* Repacked JPEG against libjpeg-turbo on one core, data in memory, processor time: full decode, random-resized-crop
 * boxes, and boxes resized to 224 as normalized f16 CHW. All methods take turns within a round; the
 * medians over the rounds are printed. usage: bench_rjpeg ROUNDS FILE... (pin it with taskset) */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/rng.h"
#include "decoders/kernels/resample.h"
#include "rjpeg/rjpeg.h"

enum { SIZE = 224, MAX_ROUNDS = 101, METHODS = 32, RING = 256 };

struct item {
    uint8_t *jpeg;
    size_t jpeg_bytes;
    struct hr_buf packed;
    uint32_t width, height, channels;
};

struct bench {
    struct item *items;
    int count;
    struct hr_rjpeg_box *boxes;
    bool *flips;
    uint8_t *pixels; /* of the largest picture */
    uint16_t *slots; /* where results go, as in a ring of batches */
    struct hr_rjpeg *decoder;
    struct hr_resample *resample;
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
};

static struct hr_rjpeg_box crop_box(struct hr_rng *rng, const struct item *item)
{
    double area = (double)item->width * item->height;

    for (int i = 0; i < 10; i++) {
        double a = area * hr_rng_range(rng, 0.08, 1), ratio = exp(hr_rng_range(rng, log(0.75), log(4.0 / 3)));
        double w = rint(sqrt(a * ratio)), h = rint(sqrt(a / ratio));
        if (w >= 1 && h >= 1 && w <= item->width && h <= item->height)
            return (struct hr_rjpeg_box){(uint32_t)hr_rng_below(rng, item->width - (uint32_t)w + 1),
                                         (uint32_t)hr_rng_below(rng, item->height - (uint32_t)h + 1), (uint32_t)w,
                                         (uint32_t)h};
    }
    return (struct hr_rjpeg_box){0, 0, item->width, item->height};
}

static bool begin_resize(struct bench *b, const struct item *item, struct hr_rjpeg_box box, bool flip, uint16_t *dst)
{
    struct hr_resample_job job = {
        .in_w = box.w, .in_h = box.h, .out_w = SIZE, .out_h = SIZE, .channels = item->channels, .flip_h = flip,
        .dtype = HR_DTYPE_F16, .planar = true, .scale = {0.0171f, 0.0175f, 0.0174f}, .bias = {-2.1f, -2.0f, -1.8f},
        .dst = dst, .dst_row_stride = SIZE, .dst_plane_stride = SIZE * SIZE,
    };
    return hr_resample_begin(b->resample, &job) >= 0;
}

static void push_row(void *user, const uint8_t *row)
{
    hr_resample_push(user, row);
}

static void start_jpeg(struct bench *b, const struct item *item)
{
    jpeg_mem_src(&b->jpeg, item->jpeg, item->jpeg_bytes);
    jpeg_read_header(&b->jpeg, TRUE);
    b->jpeg.dct_method = JDCT_ISLOW;
    b->jpeg.out_color_space = item->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&b->jpeg);
}

static void read_jpeg_rows(struct bench *b, uint32_t end, uint8_t *out, size_t stride)
{
    while (b->jpeg.output_scanline < end) {
        JSAMPROW rows[8];
        uint32_t n = end - b->jpeg.output_scanline < 8 ? end - b->jpeg.output_scanline : 8;
        for (uint32_t i = 0; i < n; i++)
            rows[i] = out + i * stride;
        out += stride * jpeg_read_scanlines(&b->jpeg, rows, n);
    }
}

static void libjpeg_full(struct bench *b, const struct item *item)
{
    start_jpeg(b, item);
    read_jpeg_rows(b, item->height, b->pixels, (size_t)item->width * item->channels);
    jpeg_abort_decompress(&b->jpeg);
}

/* Returns the first wanted pixel in b->pixels. */
static const uint8_t *libjpeg_box(struct bench *b, const struct item *item, struct hr_rjpeg_box box, size_t *stride)
{
    JDIMENSION x = box.x, w = box.w;

    start_jpeg(b, item);
    jpeg_crop_scanline(&b->jpeg, &x, &w);
    if (box.y)
        jpeg_skip_scanlines(&b->jpeg, box.y);
    *stride = (size_t)b->jpeg.output_width * item->channels;
    read_jpeg_rows(b, box.y + box.h, b->pixels, *stride);
    jpeg_abort_decompress(&b->jpeg);
    return b->pixels + (box.x - x) * item->channels;
}

static void rjpeg_box(struct bench *b, const struct item *item, struct hr_rjpeg_box box, bool resize)
{
    struct hr_rjpeg_view view = hr_rjpeg_view_whole(item->packed.data, item->packed.used);
    struct hr_rjpeg_sink sink = {.row = resize ? push_row : NULL, .user = b->resample, .dst = b->pixels,
                                 .stride = (size_t)box.w * item->channels, .channels = item->channels};

    if (hr_rjpeg_decode(b->decoder, &view, &box, &sink, NULL) < 0)
        abort();
}

static const struct method {
    const char *name, *variant;
    enum { FULL, BOX, RESIZED } kind;
} methods[] = {
    {"libjpeg-turbo full", NULL, FULL}, {"libjpeg-turbo box", NULL, BOX}, {"libjpeg-turbo box, resized", NULL, RESIZED},
    {"c full", "c", FULL},              {"c box", "c", BOX},              {"c box, resized", "c", RESIZED},
    {"avx2 full", "avx2", FULL},        {"avx2 box", "avx2", BOX},        {"avx2 box, resized", "avx2", RESIZED},
    {"avx2-nopdep full", "avx2-nopdep", FULL},
    {"avx2-nopdep box", "avx2-nopdep", BOX},
    {"avx2-nopdep box, resized", "avx2-nopdep", RESIZED},
    {"avx512 full", "avx512", FULL},    {"avx512 box", "avx512", BOX},    {"avx512 box, resized", "avx512", RESIZED},
    {"neon full", "neon", FULL},        {"neon box", "neon", BOX},        {"neon box, resized", "neon", RESIZED},
};

static void run_method(struct bench *b, const struct method *m, int i, struct hr_rjpeg_box box, bool flip)
{
    const struct item *item = &b->items[i];
    size_t stride;

    if (m->kind == FULL)
        box = (struct hr_rjpeg_box){0, 0, item->width, item->height};
    if (m->kind == RESIZED && !begin_resize(b, item, box, flip, b->slots + (size_t)(i % RING) * 3 * SIZE * SIZE))
        abort();
    if (m->variant) {
        rjpeg_box(b, item, box, m->kind == RESIZED);
    } else if (m->kind == FULL) {
        libjpeg_full(b, item);
    } else {
        const uint8_t *p = libjpeg_box(b, item, box, &stride);
        for (uint32_t y = 0; y < box.h && m->kind == RESIZED; y++)
            hr_resample_push(b->resample, p + y * stride);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure(struct bench *b, int rounds)
{
    static double seconds[METHODS][MAX_ROUNDS];
    struct hr_rng rng;
    int n = (int)HR_ARRAY_SIZE(methods);

    hr_rng_init(&rng, 1, 0, 0, 0);
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < b->count; i++) {
            b->boxes[i] = crop_box(&rng, &b->items[i]);
            b->flips[i] = hr_rng_bernoulli(&rng, 0.5);
        }
        for (int m = 0; m < n; m++) {
            const struct method *method = &methods[(m + 5 * r) % n];
            if (method->variant && !hr_rjpeg_set_variant(b->decoder, method->variant))
                continue;
            uint64_t start = hr_clock_thread_ns();
            for (int i = 0; i < b->count; i++)
                run_method(b, method, i, b->boxes[i], b->flips[i]);
            seconds[method - methods][r] = (double)(hr_clock_thread_ns() - start) * 1e-9;
        }
    }
    for (int m = 0; m < n; m++) {
        qsort(seconds[m], (size_t)rounds, sizeof(double), by_value);
        double one = seconds[m][rounds / 2] / b->count;
        if (one > 0)
            printf("%-30s %9.1f us %9.0f /s  (%.1f to %.1f us)\n", methods[m].name, one * 1e6, 1 / one,
                   seconds[m][0] / b->count * 1e6, seconds[m][rounds - 1] / b->count * 1e6);
    }
}

static void load(struct bench *b, char **files, int count)
{
    uint64_t jpeg_bytes = 0, packed_bytes = 0, spent = 0;
    size_t largest = 0;

    b->items = hr_alloc_zero((size_t)count, sizeof(*b->items));
    for (int i = 0; i < count; i++) {
        struct item *item = &b->items[b->count];
        struct hr_rjpeg_info info;
        void *data;
        if (hr_fd_read_file(files[i], 1 << 28, &data, &item->jpeg_bytes, NULL) < 0)
            continue;
        item->jpeg = data;
        uint64_t start = hr_clock_thread_ns();
        if (hr_rjpeg_encode(item->jpeg, item->jpeg_bytes, &item->packed, NULL, NULL) < 0 ||
            hr_rjpeg_info(item->packed.data, item->packed.used, &info, NULL) < 0)
            continue;
        spent += hr_clock_thread_ns() - start;
        item->width = info.width;
        item->height = info.height;
        item->channels = info.components;
        size_t bytes = (size_t)info.width * info.height * 3;
        largest = bytes > largest ? bytes : largest;
        jpeg_bytes += item->jpeg_bytes;
        packed_bytes += item->packed.used;
        b->count++;
    }
    if (!b->count)
        exit(1);
    b->pixels = hr_alloc(largest + 65536);
    printf("%d pictures, packed to %.4f of their size, %.0f packed a second\n", b->count,
           (double)packed_bytes / (double)jpeg_bytes, b->count / ((double)spent * 1e-9));
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    int rounds = argc > 1 ? atoi(argv[1]) : 0;

    if (argc < 3 || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: %s ROUNDS FILE...\n", argv[0]);
        return 2;
    }
    b.jpeg.err = jpeg_std_error(&b.errors);
    jpeg_create_decompress(&b.jpeg);
    load(&b, argv + 2, argc - 2);
    b.boxes = hr_alloc_zero((size_t)b.count, sizeof(*b.boxes));
    b.flips = hr_alloc_zero((size_t)b.count, sizeof(*b.flips));
    b.slots = hr_alloc_zero(RING * 3 * SIZE * SIZE, sizeof(*b.slots));
    if (!b.boxes || !b.flips || !b.slots || hr_rjpeg_create(&b.decoder) < 0 || hr_resample_create(&b.resample) < 0)
        return 1;
    measure(&b, rounds);
    return 0;
}
