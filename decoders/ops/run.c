/* Drawn steps on pixels: tables are composed until something needs the pixels themselves. */
#include "decoders/ops/run.h"

#include <math.h>
#include <string.h>

#include "decoders/ops/warp.h"
#include "decoders/scratch.h"

void hr_canvas_finish(struct hr_canvas *canvas)
{
    hr_free(canvas->pixels);
    hr_free(canvas->spare);
    hr_free(canvas->floats);
    *canvas = (struct hr_canvas){0};
}

static size_t room(uint32_t w, uint32_t h, uint32_t channels)
{
    return (size_t)w * h * channels + HR_CANVAS_PAD;
}

int hr_canvas_size(struct hr_canvas *canvas, uint32_t w, uint32_t h, uint32_t channels)
{
    canvas->w = w;
    canvas->h = h;
    canvas->channels = channels;
    canvas->pending = false;
    if (!canvas->loops)
        canvas->loops = hr_loops_get();
    return hr_scratch_grow_bytes(&canvas->pixels, &canvas->pixels_bytes, room(w, h, channels));
}

int hr_canvas_spare(struct hr_canvas *canvas, uint32_t w, uint32_t h)
{
    return hr_scratch_grow_bytes(&canvas->spare, &canvas->spare_bytes, room(w, h, canvas->channels));
}

void hr_canvas_swap(struct hr_canvas *canvas, uint32_t w, uint32_t h)
{
    uint8_t *pixels = canvas->pixels;
    size_t bytes = canvas->pixels_bytes;

    canvas->pixels = canvas->spare;
    canvas->pixels_bytes = canvas->spare_bytes;
    canvas->spare = pixels;
    canvas->spare_bytes = bytes;
    canvas->w = w;
    canvas->h = h;
}

void hr_canvas_flush(struct hr_canvas *canvas)
{
    if (canvas->pending)
        canvas->loops->table(canvas->pixels, (size_t)canvas->w * canvas->h, canvas->channels,
                             (const uint8_t(*)[256])canvas->table);
    canvas->pending = false;
}

/* ---- tables ---- */

static uint8_t cut(double v)
{
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
}

/* Single precision throughout, as the pixel loops mix: from + factor (i - from). */
static void mix_table(uint8_t table[256], int from, double factor)
{
    float f = (float)factor;

    for (int i = 0; i < 256; i++) {
        float product = f * (float)(i - from);
        float v = (float)from + product;
        table[i] = cut((double)v);
    }
}

static void histogram(const struct hr_canvas *canvas, uint32_t counts[3][256])
{
    size_t bytes = (size_t)canvas->w * canvas->h * canvas->channels;
    const uint8_t *p = canvas->pixels;

    memset(counts, 0, sizeof(uint32_t[3][256]));
    if (canvas->channels == 1)
        for (size_t i = 0; i < bytes; i++)
            counts[0][p[i]]++;
    else
        for (size_t i = 0; i < bytes; i += 3) {
            counts[0][p[i]]++;
            counts[1][p[i + 1]]++;
            counts[2][p[i + 2]]++;
        }
}

/* Of the picture as the pending tables leave it. */
static void histogram_now(const struct hr_canvas *canvas, uint32_t counts[3][256])
{
    uint32_t before[3][256];

    if (!canvas->pending) {
        histogram(canvas, counts);
        return;
    }
    histogram(canvas, before);
    memset(counts, 0, sizeof(before));
    for (uint32_t c = 0; c < canvas->channels; c++)
        for (int i = 0; i < 256; i++)
            counts[c][canvas->table[c][i]] += before[c][i];
}

static void identity(uint8_t table[256])
{
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)i;
}

static void equalize_table(uint8_t table[256], const uint32_t counts[256])
{
    uint64_t total = 0, last = 0;
    int levels = 0;

    for (int i = 0; i < 256; i++) {
        total += counts[i];
        last = counts[i] ? counts[i] : last;
        levels += counts[i] != 0;
    }
    uint64_t step = (total - last) / 255;
    if (levels <= 1 || step == 0) {
        identity(table);
        return;
    }
    uint64_t n = step / 2;
    for (int i = 0; i < 256; i++) {
        table[i] = n / step > 255 ? 255 : (uint8_t)(n / step);
        n += counts[i];
    }
}

static void autocontrast_table(uint8_t table[256], const uint32_t counts[256])
{
    int low = 0, high = 255;

    while (low < 256 && !counts[low])
        low++;
    while (high >= 0 && !counts[high])
        high--;
    if (high <= low) {
        identity(table);
        return;
    }
    double scale = 255.0 / (high - low), offset = -low * scale;
    for (int i = 0; i < 256; i++)
        table[i] = cut((double)i * scale + offset);
}

/* The mean luma of the picture, rounded; contrast pulls towards it. */
static int mean_luma(struct hr_canvas *canvas)
{
    size_t count = (size_t)canvas->w * canvas->h;
    uint64_t sum = 0;

    if (canvas->channels == 3) {
        hr_canvas_flush(canvas);
        sum = canvas->loops->luma_sum(canvas->pixels, count);
    } else {
        uint32_t counts[3][256];
        histogram_now(canvas, counts);
        for (unsigned i = 0; i < 256; i++)
            sum += (uint64_t)counts[0][i] * i;
    }
    return (int)((double)sum / (double)count + 0.5);
}

/* The tables of one step, for each channel. */
static void make_tables(struct hr_canvas *canvas, const struct hr_step *step, uint8_t out[3][256])
{
    uint32_t counts[3][256];
    uint8_t *t = out[0];

    switch (step->kind) {
    case HR_STEP_EQUALIZE:
    case HR_STEP_AUTOCONTRAST:
        histogram_now(canvas, counts);
        for (uint32_t c = 0; c < canvas->channels; c++)
            (step->kind == HR_STEP_EQUALIZE ? equalize_table : autocontrast_table)(out[c], counts[c]);
        return;
    case HR_STEP_BRIGHTNESS:
        mix_table(t, 0, step->value);
        break;
    case HR_STEP_CONTRAST:
        mix_table(t, mean_luma(canvas), step->value);
        break;
    case HR_STEP_SOLARIZE:
        for (int i = 0; i < 256; i++)
            t[i] = (uint8_t)(i < step->value ? i : 255 - i);
        break;
    case HR_STEP_POSTERIZE:
        for (int i = 0; i < 256; i++)
            t[i] = (uint8_t)(i & ~((1 << (8 - step->bits)) - 1));
        break;
    default: /* invert */
        for (int i = 0; i < 256; i++)
            t[i] = (uint8_t)(255 - i);
    }
    memcpy(out[1], t, 256);
    memcpy(out[2], t, 256);
}

static void join_tables(struct hr_canvas *canvas, const struct hr_step *step)
{
    uint8_t next[3][256];

    make_tables(canvas, step, next);
    for (uint32_t c = 0; c < canvas->channels; c++)
        for (int i = 0; i < 256; i++)
            canvas->table[c][i] = canvas->pending ? next[c][canvas->table[c][i]] : next[c][i];
    canvas->pending = true;
}

/* ---- neighbours ---- */

static int sharpen(struct hr_canvas *canvas, double factor)
{
    size_t stride = (size_t)canvas->w * canvas->channels;
    int ret = hr_canvas_spare(canvas, canvas->w, canvas->h);

    if (ret < 0)
        return ret;
    for (uint32_t y = 0; y < canvas->h; y++) {
        const uint8_t *row = canvas->pixels + y * stride;
        uint8_t *dst = canvas->spare + y * stride;
        if (y == 0 || y + 1 == canvas->h || canvas->w < 3) {
            memcpy(dst, row, stride);
            continue;
        }
        memcpy(dst, row, canvas->channels);
        memcpy(dst + stride - canvas->channels, row + stride - canvas->channels, canvas->channels);
        canvas->loops->sharpen(dst, row - stride, row, row + stride, stride, canvas->channels,
                               (float)factor);
    }
    hr_canvas_swap(canvas, canvas->w, canvas->h);
    return 0;
}

enum { REACH_MAX = 63 };

static void gauss(float weights[REACH_MAX + 1], int reach, double sigma)
{
    double sum = 0;

    for (int k = -reach; k <= reach; k++)
        sum += exp(-0.5 * (k / sigma) * (k / sigma));
    for (int k = 0; k <= reach; k++)
        weights[k] = (float)(exp(-0.5 * (k / sigma) * (k / sigma)) / sum);
}

/* Mirrored about the outer pixels; a picture smaller than the kernel is mirrored over and over. */
static int64_t reflect(int64_t at, int64_t side)
{
    if (side == 1)
        return 0;
    int64_t period = 2 * (side - 1);
    at %= period;
    at = at < 0 ? at + period : at;
    return at < side ? at : period - at;
}

/* row has room for reach pixels before and behind. */
static void mirror_ends(float *row, uint32_t w, uint32_t channels, int reach)
{
    for (int k = 1; k <= reach; k++)
        for (uint32_t c = 0; c < channels; c++) {
            row[-(int64_t)k * channels + c] = row[reflect(-k, w) * channels + c];
            row[((int64_t)w - 1 + k) * channels + c] =
                row[reflect((int64_t)w - 1 + k, w) * channels + c];
        }
}

static int blur(struct hr_canvas *canvas, const struct hr_step *step)
{
    int rx = step->kernel_w / 2, ry = step->kernel_h / 2;
    size_t stride = (size_t)canvas->w * canvas->channels, side = (size_t)rx * canvas->channels;
    float across[REACH_MAX + 1], along[REACH_MAX + 1];
    const uint8_t *up[REACH_MAX + 1], *down[REACH_MAX + 1];

    HR_ASSERT(rx <= REACH_MAX && ry <= REACH_MAX);
    int ret = hr_canvas_spare(canvas, canvas->w, canvas->h);
    if (ret == 0)
        ret = hr_scratch_grow(&canvas->floats, &canvas->floats_bytes,
                              (stride + 2 * side + 64) * sizeof(float));
    if (ret < 0)
        return ret;
    float *row = (float *)canvas->floats + side;
    gauss(across, rx, step->value);
    gauss(along, ry, step->value);
    for (uint32_t y = 0; y < canvas->h; y++) {
        for (int k = 0; k <= ry; k++) {
            up[k] = canvas->pixels + (size_t)reflect((int64_t)y - k, canvas->h) * stride;
            down[k] = canvas->pixels + (size_t)reflect((int64_t)y + k, canvas->h) * stride;
        }
        canvas->loops->blur_rows(row, up, down, along, ry, stride);
        mirror_ends(row, canvas->w, canvas->channels, rx);
        canvas->loops->blur_row(canvas->spare + y * stride, row, across, rx, stride,
                                canvas->channels);
    }
    hr_canvas_swap(canvas, canvas->w, canvas->h);
    return 0;
}

static void erase(struct hr_canvas *canvas, const struct hr_step *step)
{
    size_t channels = canvas->channels;

    for (uint32_t y = step->y; y < step->y + step->h; y++) {
        uint8_t *p = canvas->pixels + ((size_t)y * canvas->w + step->x) * channels;
        for (uint32_t x = 0; x < step->w; x++)
            for (size_t c = 0; c < channels; c++)
                *p++ = (uint8_t)step->colour[c];
    }
}

static int run_step(struct hr_canvas *canvas, const struct hr_step *step)
{
    size_t count = (size_t)canvas->w * canvas->h;
    bool colours = canvas->channels == 3;

    switch (step->kind) {
    case HR_STEP_SATURATION:
        if (colours)
            canvas->loops->saturate(canvas->pixels, count, (float)step->value);
        return 0;
    case HR_STEP_HUE:
        if (colours) /* a byte that wraps */
            canvas->loops->hue(canvas->pixels, count, (uint8_t)(int)(step->value * 255));
        return 0;
    case HR_STEP_GRAYSCALE:
        if (colours)
            canvas->loops->grayscale(canvas->pixels, count);
        return 0;
    case HR_STEP_SHARPNESS:
        return sharpen(canvas, step->value);
    case HR_STEP_BLUR:
        return blur(canvas, step);
    case HR_STEP_WARP:
        return hr_canvas_warp(canvas, step);
    default:
        erase(canvas, step);
        return 0;
    }
}

int hr_canvas_run(struct hr_canvas *canvas, const struct hr_steps *steps)
{
    int ret = 0;

    for (int i = 0; i < steps->count && ret == 0; i++) {
        const struct hr_step *step = &steps->steps[i];
        if (step->kind <= HR_STEP_TABLE_LAST) {
            join_tables(canvas, step);
        } else {
            hr_canvas_flush(canvas);
            ret = run_step(canvas, step);
        }
    }
    return ret;
}

int hr_canvas_move(struct hr_canvas *canvas, const struct hr_steps *steps, uint8_t fill)
{
    int ret = 0;

    for (int i = 0; i < steps->count && ret == 0; i++) {
        struct hr_step step = steps->steps[i];
        if (step.kind != HR_STEP_WARP)
            continue;
        step.interpolation = HR_INTERPOLATION_NEAREST;
        memset(step.fill, fill, sizeof(step.fill));
        ret = hr_canvas_warp(canvas, &step);
    }
    return ret;
}
