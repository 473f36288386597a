/* Every level of the resize kernels against the C reference, bit for bit, on random jobs; and the
 * reference against plain arithmetic. With --bench: time per picture of each level. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "decoders/kernels/axis.h"
#include "decoders/kernels/kernels.h"
#include "decoders/kernels/resample.h"

enum { SLACK = 64, GUARD = 96, MAX_LEVELS = 3 };

struct level {
    const char *name;
    unsigned flags;
    struct hr_kernels kernels;
    struct hr_resample *resample;
};

static struct level levels[MAX_LEVELS] = {
    {.name = "c", .flags = 0},
#ifdef __aarch64__
    {.name = "neon", .flags = HR_CPU_NEON},
#else
    {.name = "avx2", .flags = HR_CPU_AVX2},
    {.name = "avx512", .flags = HR_CPU_AVX2 | HR_CPU_AVX512},
#endif
};
static int level_count;

static uint64_t random_state = 88172645463325252ull;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % n;
}

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static void *must_alloc(size_t bytes)
{
    void *ptr = malloc(bytes ? bytes : 1);
    must(ptr != NULL, "out of memory");
    return ptr;
}

static void start_levels(void)
{
    for (int i = 0; i < MAX_LEVELS && levels[i].name && !(levels[i].flags & ~hr_cpu_flags()); i++) {
        hr_kernels_fill(&levels[i].kernels, levels[i].flags);
        must(hr_resample_create(&levels[i].resample) == 0, "create");
        hr_resample_use_kernels(levels[i].resample, &levels[i].kernels);
        level_count = i + 1;
    }
}

struct picture {
    uint32_t w, h, channels;
    uint8_t *pixels;
};

static struct picture random_picture(uint32_t w, uint32_t h, uint32_t channels)
{
    struct picture p = {w, h, channels, must_alloc((size_t)w * h * channels)};
    uint32_t kind = random_below(4);

    for (size_t i = 0; i < (size_t)w * h * channels; i++)
        p.pixels[i] = kind == 0 ? 255 : kind == 1 ? (random_below(2) ? 255 : 0)
                                                  : (uint8_t)random_below(256);
    return p;
}

/* Room for the needed columns of a row: `parts` rows of them, nothing in front of the first, noise behind. */
static uint8_t *row_with_noise(size_t bytes, size_t parts)
{
    uint8_t *row = must_alloc(parts * (bytes + SLACK));

    for (size_t i = 0; i < parts * (bytes + SLACK); i++)
        row[i] = (uint8_t)random_below(256);
    return row;
}

static void push_as_planes(struct level *level, const uint8_t *pixels, size_t from, size_t count)
{
    uint8_t *row = row_with_noise(count, 3);
    const uint8_t *planes[3];

    for (size_t c = 0; c < 3; c++) {
        uint8_t *own = row + c * (count + SLACK);
        for (size_t x = 0; x < count; x++)
            own[x] = pixels[3 * x + c];
        planes[c] = (const uint8_t *)((uintptr_t)own - from);
    }
    hr_resample_push_planes(level->resample, planes);
    free(row);
}

/* Pushes the rows; columns that are not needed hold noise, and so does what follows the row. */
static void run(struct level *level, const struct hr_resample_job *job, const struct picture *p)
{
    uint32_t top, bottom, left, right;

    must(hr_resample_begin(level->resample, job) == 0, "begin");
    hr_resample_rows_needed(level->resample, &top, &bottom);
    hr_resample_cols_needed(level->resample, &left, &right);
    must(top <= bottom && bottom < p->h && left <= right && right < p->w, "needed");
    size_t from = (size_t)left * p->channels, bytes = (size_t)(right + 1 - left) * p->channels;
    for (uint32_t y = top; y <= bottom; y++) {
        const uint8_t *pixels = p->pixels + (size_t)y * p->w * p->channels + from;
        must(!hr_resample_done(level->resample), "done too early");
        if (hr_resample_takes_planes(level->resample)) {
            push_as_planes(level, pixels, left, right + 1 - left);
            continue;
        }
        uint8_t *row = row_with_noise(bytes, 1);
        memcpy(row, pixels, bytes);
        hr_resample_push(level->resample, (const uint8_t *)((uintptr_t)row - from));
        free(row);
    }
    must(hr_resample_done(level->resample), "not done after the last needed row");
}

static uint32_t random_side(void)
{
    return 1 + (random_below(2) ? random_below(40) : random_below(600));
}

static struct hr_resample_job random_job(void)
{
    static const enum hr_dtype dtypes[] = {HR_DTYPE_U8, HR_DTYPE_F16, HR_DTYPE_BF16, HR_DTYPE_F32};
    struct hr_resample_job job = {
        .in_w = random_side(), .in_h = random_side(), .out_w = random_side(),
        .out_h = random_side(), .channels = random_below(2) ? 3 : 1,
        .filter = (enum hr_filter)random_below(HR_FILTER_COUNT), .flip_h = random_below(2),
        .flip_v = random_below(2), .dtype = dtypes[random_below(4)], .planar = random_below(2),
        .planes = random_below(2),
    };
    uint32_t same = random_below(8);

    if (same < 2)
        job.in_w = job.out_w;
    if (same == 1 || same == 2)
        job.in_h = job.out_h;
    if (random_below(2)) {
        job.full_out_w = job.out_w;
        job.full_out_h = job.out_h;
        job.out_x = random_below(job.out_w);
        job.out_y = random_below(job.out_h);
        job.out_w = 1 + random_below(job.full_out_w - job.out_x);
        job.out_h = 1 + random_below(job.full_out_h - job.out_y);
    }
    for (int c = 0; c < 4; c++) {
        job.scale[c] = ((float)random_below(2000) - 1000) / 50000;
        job.bias[c] = ((float)random_below(2000) - 1000) / 400;
    }
    return job;
}

struct target {
    size_t bytes, item;
    uint8_t *memory; /* GUARD bytes on both sides of the result */
};

static struct target place(struct hr_resample_job *job)
{
    bool planes = job->planar && job->channels == 3;
    uint64_t row = (uint64_t)job->out_w * (job->planar ? 1 : job->channels);
    struct target t = {.item = hr_dtype_bytes(job->dtype)};

    job->dst_row_stride = row + random_below(5);
    job->dst_plane_stride = job->dst_row_stride * job->out_h + random_below(9);
    t.bytes = (size_t)((planes ? 2 * job->dst_plane_stride : 0) +
                       job->dst_row_stride * (job->out_h - 1) + row) * t.item;
    t.memory = must_alloc(t.bytes + 2 * GUARD);
    job->dst = t.memory + GUARD;
    return t;
}

static void describe(const struct hr_resample_job *j, const char *level, const char *what)
{
    fprintf(stderr,
            "%s: %s: %ux%u -> %ux%u (+%u+%u of %ux%u) channels %u filter %d flips %d%d dtype %s %s\n",
            level, what, j->in_w, j->in_h, j->out_w, j->out_h, j->out_x, j->out_y, j->full_out_w,
            j->full_out_h, j->channels, j->filter, j->flip_h, j->flip_v, hr_dtype_name(j->dtype),
            j->planar ? "CHW" : "HWC");
    exit(1);
}

/* ---- axes ---- */

/* Both ways to the weights: every number, the zeros behind them too. */
static void check_axis(const struct level *level, const struct hr_axis_key *key)
{
    struct hr_axis plain = {0}, wide = {0};

    must(hr_axis_compute(&plain, key, NULL) == 0, "axis");
    must(hr_axis_compute(&wide, key, level->kernels.axis) == 0, "axis");
    must(plain.narrow == wide.narrow && plain.bits == wide.bits && plain.fine_shift == wide.fine_shift &&
             plain.taps == wide.taps && plain.stride == wide.stride && plain.first == wide.first &&
             plain.end == wide.end, "an axis differs");
    size_t entries = (size_t)key->out * plain.stride;
    must(!memcmp(plain.start, wide.start, key->out * sizeof(*plain.start)), "starts differ");
    must(!memcmp(plain.count, wide.count, key->out * sizeof(*plain.count)), "counts differ");
    must(!memcmp(plain.coeff, wide.coeff, entries * sizeof(*plain.coeff)), "coefficients differ");
    must(!plain.fine_shift || !memcmp(plain.fine, wide.fine, entries * sizeof(*plain.fine)), "fine parts differ");
    hr_axis_finish(&plain);
    hr_axis_finish(&wide);
}

static void check_axes(int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t in = random_side(), out = random_side(), first = random_below(3) ? 0 : random_below(out);
        struct hr_axis_key key = {in, out, first, random_below(2) ? out - first : 1 + random_below(out - first),
                                  random_below(HR_FILTER_COUNT), random_below(2)};
        for (int l = 0; l < level_count; l++)
            check_axis(&levels[l], &key);
    }
}

/* ---- the reference against arithmetic ---- */

static float float_of_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float f;

    memcpy(&f, &wide, sizeof(f));
    return f;
}

/* got is the bfloat16 nearest to want; of two, the even one. */
static bool is_nearest_bf16(uint16_t got, float want)
{
    double error = fabs((double)float_of_bf16(got) - want);

    for (int d = -1; d <= 1; d += 2) {
        double other = fabs((double)float_of_bf16((uint16_t)(got + d)) - want);
        if (other < error || (other == error && (got & 1)))
            return false;
    }
    return true;
}

static bool is_nearest_f16(uint16_t got, float want)
{
#ifdef __FLT16_MANT_DIG__
    _Float16 half = (_Float16)want;
    return memcmp(&half, &got, sizeof(got)) == 0;
#else
    return true;
#endif
}

static bool value_is(const struct hr_resample_job *job, const uint8_t *at, uint8_t pixel, uint32_t c)
{
    float want = fmaf(pixel, job->scale[c], job->bias[c]), f;
    uint16_t half;

    memcpy(&half, at, job->dtype == HR_DTYPE_U8 ? 1 : 2);
    switch (job->dtype) {
    case HR_DTYPE_U8: return *at == pixel;
    case HR_DTYPE_F16: return is_nearest_f16(half, want);
    case HR_DTYPE_BF16: return is_nearest_bf16(half, want);
    default: memcpy(&f, at, sizeof(f)); return f == want;
    }
}

/* The result is the plain HWC bytes, flipped, laid out and converted. */
static void check_reference(const struct hr_resample_job *job, const struct picture *p,
                            const struct target *t)
{
    struct hr_resample_job plain = *job;
    size_t pixels = (size_t)job->out_w * job->out_h;
    uint8_t *bytes = must_alloc(pixels * job->channels);

    plain.flip_h = plain.flip_v = plain.planar = false;
    plain.dtype = HR_DTYPE_U8;
    plain.dst = bytes;
    plain.dst_row_stride = (uint64_t)job->out_w * job->channels;
    run(&levels[0], &plain, p);
    for (size_t i = 0; i < pixels * job->channels; i++) {
        uint32_t c = (uint32_t)(i % job->channels), x = (uint32_t)(i / job->channels % job->out_w);
        uint32_t y = (uint32_t)(i / job->channels / job->out_w);
        x = job->flip_h ? job->out_w - 1 - x : x;
        y = job->flip_v ? job->out_h - 1 - y : y;
        uint64_t at = y * job->dst_row_stride;
        at += job->planar ? c * job->dst_plane_stride + x : x * job->channels + c;
        if (!value_is(job, t->memory + GUARD + at * t->item, bytes[i], c))
            describe(job, "c", "wrong value");
    }
    free(bytes);
}

static size_t count_written(const struct hr_resample_job *job, const struct picture *p,
                            const struct target *t)
{
    uint8_t *first = must_alloc(t->bytes + 2 * GUARD);
    size_t written = 0;

    memset(t->memory, 0x5a, t->bytes + 2 * GUARD);
    run(&levels[0], job, p);
    memcpy(first, t->memory, t->bytes + 2 * GUARD);
    memset(t->memory, 0xa5, t->bytes + 2 * GUARD);
    run(&levels[0], job, p);
    for (size_t i = 0; i < t->bytes + 2 * GUARD; i++)
        written += first[i] == t->memory[i];
    free(first);
    return written;
}

static void check_job(void)
{
    struct hr_resample_job job = random_job();
    struct picture p = random_picture(job.in_w, job.in_h, job.channels);
    struct target t = place(&job);

    if (count_written(&job, &p, &t) != (size_t)job.out_w * job.out_h * job.channels * t.item)
        describe(&job, "c", "writes too much or too little");
    check_reference(&job, &p, &t);
    uint8_t *reference = must_alloc(t.bytes + 2 * GUARD);
    memcpy(reference, t.memory, t.bytes + 2 * GUARD);
    for (int i = 1; i < level_count; i++) {
        memset(t.memory, 0xa5, t.bytes + 2 * GUARD);
        run(&levels[i], &job, &p);
        if (memcmp(reference, t.memory, t.bytes + 2 * GUARD) != 0)
            describe(&job, levels[i].name, "differs from C");
    }
    free(reference);
    free(t.memory);
    free(p.pixels);
}

static void check_limits(void)
{
    struct hr_resample *r = levels[0].resample;
    struct hr_resample_job good = {.in_w = 4, .in_h = 4, .out_w = 2, .out_h = 2, .channels = 3,
                                   .dtype = HR_DTYPE_U8}, bad;

    bad = good, bad.in_w = 0;
    must(hr_resample_begin(r, &bad) == HR_E_LIMIT, "empty input accepted");
    bad = good, bad.in_h = UINT32_MAX;
    must(hr_resample_begin(r, &bad) == HR_E_LIMIT, "huge input accepted");
    bad = good, bad.full_out_w = 3, bad.full_out_h = 2, bad.out_x = 2;
    must(hr_resample_begin(r, &bad) == HR_E_LIMIT, "window outside accepted");
    bad = good, bad.channels = 2;
    must(hr_resample_begin(r, &bad) == HR_E_UNSUPPORTED, "two channels accepted");
    bad = good, bad.dtype = HR_DTYPE_I64;
    must(hr_resample_begin(r, &bad) == HR_E_UNSUPPORTED, "i64 accepted");
    must(hr_resample_reserve(r, 500, 400, 224, 224) == 0, "reserve");
    hr_resample_destroy(NULL);
}

/* ---- bench ---- */

struct bench {
    const char *name;
    uint32_t in_w, in_h, out; /* in_w 0: boxes as random-resized-crop draws them from 500x375 */
    enum hr_filter filter;
    enum hr_dtype dtype;
    bool planar, flip;
    uint32_t channels;
    bool begin_only;
};

static const struct bench benches[] = {
    {"300x300 -> 224 bilinear f16 CHW", 300, 300, 224, HR_FILTER_BILINEAR, HR_DTYPE_F16, true, true, 3},
    {"RRC of 500x375 -> 224 bilinear f16 CHW", 0, 0, 224, HR_FILTER_BILINEAR, HR_DTYPE_F16, true, false, 3},
    {"  of which begin (coefficients)", 0, 0, 224, HR_FILTER_BILINEAR, HR_DTYPE_F16, true, false, 3, true},
    {"RRC of 500x375 -> 224 bicubic f16 CHW", 0, 0, 224, HR_FILTER_BICUBIC, HR_DTYPE_F16, true, false, 3},
    {"  of which begin (coefficients)", 0, 0, 224, HR_FILTER_BICUBIC, HR_DTYPE_F16, true, false, 3, true},
    {"300x300 -> 224 bilinear u8 HWC", 300, 300, 224, HR_FILTER_BILINEAR, HR_DTYPE_U8, false, false, 3},
    {"300x300 -> 224 bilinear f32 CHW", 300, 300, 224, HR_FILTER_BILINEAR, HR_DTYPE_F32, true, false, 3},
    {"300x300 -> 224 bilinear bf16 HWC", 300, 300, 224, HR_FILTER_BILINEAR, HR_DTYPE_BF16, false, false, 3},
    {"300x300 -> 224 bicubic f16 CHW", 300, 300, 224, HR_FILTER_BICUBIC, HR_DTYPE_F16, true, false, 3},
    {"300x300 -> 224 lanczos3 f16 CHW", 300, 300, 224, HR_FILTER_LANCZOS3, HR_DTYPE_F16, true, false, 3},
    {"300x300 -> 224 area f16 CHW", 300, 300, 224, HR_FILTER_AREA, HR_DTYPE_F16, true, false, 3},
    {"1000x1000 -> 224 bilinear f16 CHW", 1000, 1000, 224, HR_FILTER_BILINEAR, HR_DTYPE_F16, true, false, 3},
    {"300x300 -> 224 bilinear f16 gray", 300, 300, 224, HR_FILTER_BILINEAR, HR_DTYPE_F16, true, false, 1},
    {"224x224 f16 CHW", 224, 224, 224, HR_FILTER_BILINEAR, HR_DTYPE_F16, true, false, 3},
    {"224x224 f16 CHW flip", 224, 224, 224, HR_FILTER_BILINEAR, HR_DTYPE_F16, true, true, 3},
};

enum { BOXES = 64 };

static void random_box(uint32_t *w, uint32_t *h)
{
    do {
        double area = 500.0 * 375 * (0.08 + 0.92 * random_below(1 << 20) / (1 << 20));
        double ratio = exp(log(0.75) + (log(4.0 / 3) - log(0.75)) * random_below(1 << 20) / (1 << 20));
        *w = (uint32_t)lround(sqrt(area * ratio));
        *h = (uint32_t)lround(sqrt(area / ratio));
    } while (*w < 1 || *h < 1 || *w > 500 || *h > 375);
}

static void push_all(struct hr_resample *r, const struct hr_resample_job *job, const uint8_t *pixels)
{
    must(hr_resample_begin(r, job) == 0, "begin");
    for (uint32_t y = 0; y < job->in_h; y++)
        hr_resample_push(r, pixels + (size_t)y * job->in_w * job->channels);
}

static double bench_once(const struct level *level, const struct bench *b, const uint8_t *pixels,
                         void *dst, const uint32_t (*boxes)[2])
{
    uint64_t start = hr_clock_thread_ns();

    for (int i = 0; i < BOXES; i++) {
        struct hr_resample_job job = {
            .in_w = b->in_w ? b->in_w : boxes[i][0], .in_h = b->in_h ? b->in_h : boxes[i][1],
            .out_w = b->out, .out_h = b->out, .channels = b->channels, .filter = b->filter,
            .flip_h = b->flip, .dtype = b->dtype, .planar = b->planar,
            .scale = {0.017f, 0.0175f, 0.0174f}, .bias = {-2.1f, -2.0f, -1.8f}, .dst = dst,
            .dst_row_stride = (uint64_t)b->out * (b->planar ? 1 : b->channels),
            .dst_plane_stride = (uint64_t)b->out * b->out,
        };
        if (b->begin_only)
            must(hr_resample_begin(level->resample, &job) == 0, "begin");
        else
            push_all(level->resample, &job, pixels);
    }
    return (double)(hr_clock_thread_ns() - start) / BOXES;
}

static void bench_all(void)
{
    uint8_t *pixels = must_alloc(1000 * 1000 * 3 + SLACK);
    void *dst = must_alloc(224 * 224 * 3 * 4 + 64);
    uint32_t boxes[BOXES][2];

    for (size_t i = 0; i < 1000 * 1000 * 3 + SLACK; i++)
        pixels[i] = (uint8_t)random_below(256);
    for (int i = 0; i < BOXES; i++)
        random_box(&boxes[i][0], &boxes[i][1]);
    for (size_t k = 0; k < HR_ARRAY_SIZE(benches); k++) {
        double best[MAX_LEVELS];
        for (int i = 0; i < level_count; i++)
            best[i] = 1e18;
        for (int round = 0; round < 9; round++)
            for (int i = 0; i < level_count; i++)
                best[i] = fmin(best[i], bench_once(&levels[i], &benches[k], pixels, dst, boxes));
        printf("%-40s", benches[k].name);
        for (int i = 0; i < level_count; i++)
            printf("  %s %8.1f us (x%.1f)", levels[i].name, best[i] / 1000, best[0] / best[i]);
        printf("\n");
    }
    free(pixels);
    free(dst);
}

int main(int argc, char **argv)
{
    bool bench = argc > 1 && strcmp(argv[1], "--bench") == 0;
    int jobs = argc > 1 && !bench ? atoi(argv[1]) : 400;

    start_levels();
    if (bench) {
        bench_all();
    } else {
        check_limits();
        check_axes(5 * jobs);
        for (int i = 0; i < jobs; i++)
            check_job();
        printf("%d jobs, levels up to %s: identical\n", jobs, levels[level_count - 1].name);
    }
    for (int i = 0; i < level_count; i++)
        hr_resample_destroy(levels[i].resample);
    return 0;
}
