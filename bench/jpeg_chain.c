/* How fast one core turns JPEG files in memory into training samples: random_resized_crop 224, flip,
 * normalize, f16 NCHW, against libjpeg-turbo decoding the whole picture and doing nothing else.
 * Rounds alternate; the medians and their ratio are printed.
 *
 * usage: taskset -c 0 jpeg_chain FOLDER [ROUNDS] [chain|decode|both] */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "decoders/chain.h"

enum { MAX_FILES = 4096, MAX_ROUNDS = 101 };

static struct file {
    uint8_t *bytes;
    size_t count;
    struct hr_facts facts;
} files[MAX_FILES];
static int file_count;

static int take(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    void *bytes;
    size_t count;
    struct hr_facts facts;

    if (flag != FTW_F || file_count == MAX_FILES ||
        hr_fd_read_file(path, 64 << 20, &bytes, &count, NULL) < 0)
        return 0;
    if (hr_media_sniff(bytes, count) == HR_MEDIA_JPEG &&
        hr_media_measure(bytes, count, HR_FIELD_IMAGE, true, NULL, &facts, NULL) == 0) {
        uint8_t *padded = hr_alloc_zero(1, count + HR_CHAIN_PADDING);
        memcpy(padded, bytes, count);
        files[file_count++] = (struct file){padded, count, facts};
    }
    hr_free(bytes);
    return 0;
}

static void decode_whole(struct jpeg_decompress_struct *c, const struct file *f, uint8_t *rgb)
{
    jpeg_mem_src(c, f->bytes, f->count);
    jpeg_read_header(c, TRUE);
    c->out_color_space = JCS_RGB;
    jpeg_start_decompress(c);
    while (c->output_scanline < c->output_height) {
        JSAMPROW rows[16];
        for (unsigned i = 0; i < 16; i++)
            rows[i] = rgb + (size_t)(c->output_scanline + i) * c->output_width * 3;
        jpeg_read_scanlines(c, rows, 16);
    }
    jpeg_finish_decompress(c);
}

static double decode_round(uint8_t *rgb)
{
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    int done = 0;

    c.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&c);
    uint64_t start = hr_clock_thread_ns();
    for (int i = 0; i < file_count; i++)
        if (files[i].facts.channels == 3) {
            decode_whole(&c, &files[i], rgb);
            done++;
        }
    uint64_t ns = hr_clock_thread_ns() - start;
    jpeg_destroy_decompress(&c);
    return done * 1e9 / (double)ns;
}

static double chain_round(const struct hr_chain *chain, struct hr_context *context, uint64_t epoch,
                          void *sample)
{
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {sample};
    uint64_t start = hr_clock_thread_ns();
    int done = 0;

    for (int i = 0; i < file_count; i++) {
        struct hr_sample_plan plan;
        struct hr_error err;
        if (files[i].facts.channels != 3)
            continue;
        if (hr_chain_plan(chain, &files[i].facts, files[i].count, 1, epoch, (uint64_t)i, 0, &plan,
                          &err) < 0 ||
            hr_chain_decode(chain, context, &plan, 0, files[i].bytes, files[i].count, dst, &err) < 0)
            fprintf(stderr, "%s\n", err.text);
        done++;
    }
    return done * 1e9 / (double)(hr_clock_thread_ns() - start);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return v[n / 2];
}

static struct hr_chain *make_chain(void)
{
    static struct hr_arg size = {.name = "size", .kind = HR_ARG_INT, .integer = 224, .number = 224};
    static struct hr_arg means[3] = {{.kind = HR_ARG_FLOAT, .number = 0.485},
                                     {.kind = HR_ARG_FLOAT, .number = 0.456},
                                     {.kind = HR_ARG_FLOAT, .number = 0.406}};
    static struct hr_arg stds[3] = {{.kind = HR_ARG_FLOAT, .number = 0.229},
                                    {.kind = HR_ARG_FLOAT, .number = 0.224},
                                    {.kind = HR_ARG_FLOAT, .number = 0.225}};
    static struct hr_arg both[2] = {
        {.name = "mean", .kind = HR_ARG_LIST, .items = means, .item_count = 3},
        {.name = "std", .kind = HR_ARG_LIST, .items = stds, .item_count = 3}};
    static struct hr_arg form[2] = {{.name = "dtype", .kind = HR_ARG_STR, .text = "f16"},
                                    {.name = "layout", .kind = HR_ARG_STR, .text = "nchw"}};
    static struct hr_call ops[3] = {{.name = "random_resized_crop", .args = &size, .arg_count = 1},
                                    {.name = "hflip"},
                                    {.name = "normalize", .args = both, .arg_count = 2}};
    static struct hr_call output = {.name = "output", .args = form, .arg_count = 2};
    struct hr_chain_spec spec = {.type = HR_FIELD_IMAGE, .field = "image", .ops = ops,
                                 .op_count = 3, .output = &output};
    struct hr_chain *chain = NULL;
    struct hr_error err;

    if (hr_chain_create(&spec, &chain, &err) < 0)
        fprintf(stderr, "%s\n", err.text);
    return chain;
}

int main(int argc, char **argv)
{
    static double decoded[MAX_ROUNDS], chained[MAX_ROUNDS];
    int rounds = argc > 2 ? atoi(argv[2]) : 7;
    const char *what = argc > 3 ? argv[3] : "both";
    struct hr_context *context = NULL;
    struct hr_error err;

    if (argc < 2 || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: jpeg_chain FOLDER [ROUNDS] [chain|decode|both]\n");
        return 2;
    }
    nftw(argv[1], take, 16, FTW_PHYS);
    struct hr_chain *chain = make_chain();
    if (!chain || !file_count || hr_context_create(chain, &context, &err) < 0)
        return 1;
    uint8_t *rgb = hr_alloc(400u << 20), *sample = hr_alloc_aligned(64, 224 * 224 * 3 * 2);
    for (int i = 0; i < rounds; i++) {
        if (what[0] != 'c')
            decoded[i] = decode_round(rgb);
        if (what[0] != 'd')
            chained[i] = chain_round(chain, context, (uint64_t)i, sample);
    }
    double a = median(decoded, rounds), b = median(chained, rounds);
    printf("%d files; decode only %.0f/s, chain %.0f/s, ratio %.3f\n", file_count, a, b,
           a > 0 ? b / a : 0);
    hr_free(rgb);
    hr_free(sample);
    hr_context_destroy(context);
    hr_chain_destroy(chain);
    return 0;
}
