/* Warps: matrices, and rows of the result gathered from the source. An affine map is walked in fixed
 * point with 32 fractional bits; the part of a row that comes from inside the source is found first, so
 * that the loops check nothing. */
#include "decoders/ops/warp.h"

#include <math.h>
#include <string.h>

#include "decoders/scratch.h"

#define RADIANS (3.14159265358979323846 / 180)

/* ---- matrices ---- */

void hr_warp_rotation(double map[9], double degrees, double w, double h)
{
    double turn = -fmod(degrees, 360) * RADIANS, c = cos(turn), s = sin(turn);
    double cx = w / 2, cy = h / 2;

    /* Right angles are to be exact. */
    c = fabs(c) < 1e-15 ? 0 : c;
    s = fabs(s) < 1e-15 ? 0 : s;
    memcpy(map, (double[9]){c, s, cx - c * cx - s * cy, -s, c, cy + s * cx - c * cy, 0, 0, 1},
           sizeof(double[9]));
}

void hr_warp_affine(double map[9], const struct hr_affine *p)
{
    double turn = p->degrees * RADIANS, sx = p->shear_x * RADIANS, sy = p->shear_y * RADIANS;
    double a = cos(turn - sy) / cos(sy), c = sin(turn - sy) / cos(sy);
    double b = -a * tan(sx) - sin(turn), d = -c * tan(sx) + cos(turn);
    double m[4] = {d / p->scale, -b / p->scale, -c / p->scale, a / p->scale};
    double x = -p->centre_x - p->dx, y = -p->centre_y - p->dy;

    memcpy(map, (double[9]){m[0], m[1], m[0] * x + m[1] * y + p->centre_x,
                            m[2], m[3], m[2] * x + m[3] * y + p->centre_y, 0, 0, 1},
           sizeof(double[9]));
}

/* Gauss-Jordan with the largest pivot; system is 8 x 9. */
static bool solve(double system[8][9], double out[8])
{
    for (int i = 0; i < 8; i++) {
        int best = i;
        for (int r = i + 1; r < 8; r++)
            if (fabs(system[r][i]) > fabs(system[best][i]))
                best = r;
        if (fabs(system[best][i]) < 1e-9)
            return false;
        for (int k = 0; k < 9; k++) {
            double t = system[i][k];
            system[i][k] = system[best][k];
            system[best][k] = t;
        }
        for (int r = 0; r < 8; r++) {
            double f = system[r][i] / system[i][i];
            for (int k = i; r != i && k < 9; k++)
                system[r][k] -= f * system[i][k];
        }
    }
    for (int i = 0; i < 8; i++)
        out[i] = system[i][8] / system[i][i];
    return true;
}

bool hr_warp_perspective(double map[9], double w, double h, const double corners[4][2])
{
    const double from[4][2] = {{0, 0}, {w - 1, 0}, {w - 1, h - 1}, {0, h - 1}};
    double system[8][9];

    for (int i = 0; i < 4; i++) {
        double x = corners[i][0], y = corners[i][1], u = from[i][0], v = from[i][1];
        memcpy(system[2 * i], (double[9]){x, y, 1, 0, 0, 0, -u * x, -u * y, u}, sizeof(double[9]));
        memcpy(system[2 * i + 1], (double[9]){0, 0, 0, x, y, 1, -v * x, -v * y, v},
               sizeof(double[9]));
    }
    map[8] = 1;
    return solve(system, map);
}

/* ---- pixels ---- */

static void fill_pixels(uint8_t *dst, uint32_t from, uint32_t to, uint32_t channels,
                        const uint8_t fill[4])
{
    for (size_t i = (size_t)from * channels; i < (size_t)to * channels; i++)
        dst[i] = fill[i % channels];
}

/* Narrows [*from, *to) to where 0 <= at + x step < end. */
static void cut_range(int64_t at, int64_t step, int64_t end, int64_t *from, int64_t *to)
{
    if (step == 0) {
        if (at < 0 || at >= end)
            *to = *from;
        return;
    }
    if (step < 0) { /* mirrored: the same numbers from the other side */
        at = end - 1 - at;
        step = -step;
    }
    int64_t first = at >= 0 ? 0 : (-at + step - 1) / step;
    int64_t past = at >= end ? 0 : (end - at + step - 1) / step;
    *from = first > *from ? first : *from;
    *to = past < *to ? past : *to;
}

/* Coordinates stay far below 2^31 pixels, or are outside anyway. */
static int64_t fixed(double v)
{
    return (int64_t)llrint(fmax(fmin(v, 0x1p28), -0x1p28) * 0x1p32);
}

/* Nearest pixels are found with 16 fractional bits, as Pillow does, so that the same ones are found. */
static bool is_coarse(const struct hr_canvas *canvas, const struct hr_step *step)
{
    return step->interpolation == HR_INTERPOLATION_NEAREST && canvas->w < 32768 &&
           canvas->h < 32768;
}

static int64_t coarse(double v)
{
    return (int64_t)floor(fmax(fmin(v, 0x1p28), -0x1p28) * 65536 + 0.5) * 65536;
}

/* start + slope * y. Under a steep shear both are far outside of rows that meet the picture all the same, so only
 * their sum is cut. */
static int64_t coarse_row(double start, double slope, uint32_t y)
{
    const __int128 most = (__int128)1 << 60;
    __int128 at = (__int128)floor(fmax(fmin(start, 0x1p60), -0x1p60) * 65536 + 0.5) +
                  (__int128)floor(fmax(fmin(slope, 0x1p60), -0x1p60) * 65536 + 0.5) * y;

    at *= 65536;
    return (int64_t)(at > most ? most : at < -most ? -most : at);
}

static void start_row(const struct hr_step *step, struct hr_warp *warp, uint32_t y, bool is_coarse_map)
{
    const double *m = step->map;

    if (is_coarse_map) {
        warp->u = coarse_row(m[2] + m[0] * 0.5 + m[1] * 0.5, m[1], y);
        warp->v = coarse_row(m[5] + m[3] * 0.5 + m[4] * 0.5, m[4], y);
    } else {
        warp->u = fixed(m[0] * 0.5 + m[1] * (y + 0.5) + m[2]);
        warp->v = fixed(m[3] * 0.5 + m[4] * (y + 0.5) + m[5]);
    }
}

typedef void gather(uint8_t *dst, const struct hr_warp *warp, uint32_t from, uint32_t to);

static gather *gather_of(const struct hr_canvas *canvas, const struct hr_step *step)
{
    return step->interpolation == HR_INTERPOLATION_BICUBIC    ? canvas->loops->warp_bicubic
           : step->interpolation == HR_INTERPOLATION_BILINEAR ? canvas->loops->warp_bilinear
                                                              : canvas->loops->warp_nearest;
}

static void affine_row(uint8_t *dst, const struct hr_canvas *canvas, const struct hr_step *step,
                       struct hr_warp *warp)
{
    int64_t from = 0, to = warp->w;

    cut_range(warp->u, warp->du, (int64_t)warp->w << 32, &from, &to);
    cut_range(warp->v, warp->dv, (int64_t)warp->h << 32, &from, &to);
    if (from >= to)
        from = to = 0;
    fill_pixels(dst, 0, (uint32_t)from, warp->channels, step->fill);
    fill_pixels(dst, (uint32_t)to, warp->w, warp->channels, step->fill);
    gather_of(canvas, step)(dst, warp, (uint32_t)from, (uint32_t)to);
}

static void perspective_row(uint8_t *dst, const struct hr_canvas *canvas, const struct hr_step *step,
                            struct hr_warp *warp, uint32_t y)
{
    const double *m = step->map;
    gather *gather_pixel = gather_of(canvas, step);
    double cy = y + 0.5;

    for (uint32_t x = 0; x < warp->w; x++) {
        double cx = x + 0.5, z = m[6] * cx + m[7] * cy + m[8];
        double u = (m[0] * cx + m[1] * cy + m[2]) / z, v = (m[3] * cx + m[4] * cy + m[5]) / z;
        if (!(u >= 0 && u < warp->w && v >= 0 && v < warp->h)) {
            fill_pixels(dst, x, x + 1, warp->channels, step->fill);
            continue;
        }
        warp->u = (int64_t)(u * 0x1p32);
        warp->v = (int64_t)(v * 0x1p32);
        gather_pixel(dst + (size_t)x * warp->channels, warp, 0, 1);
    }
}

/* Where each of count pixels comes from, or -1: steps are added up in double precision, as Pillow does
 * where a map neither turns nor shears. */
static void axis_table(int32_t *table, uint32_t count, double at, double step)
{
    for (uint32_t i = 0; i < count; i++, at += step)
        table[i] = at >= 0 && at < count ? (int32_t)at : -1;
}

/* canvas->floats holds the table of columns. */
static void scale_nearest(struct hr_canvas *canvas, const struct hr_step *step)
{
    const double *m = step->map;
    uint32_t channels = canvas->channels;
    int32_t *columns = canvas->floats;
    double v = m[5] + m[4] * 0.5;

    uint32_t first = 0, past = canvas->w;
    axis_table(columns, canvas->w, m[2] + m[0] * 0.5, m[0]);
    while (first < past && columns[first] < 0)
        first++;
    while (past > first && columns[past - 1] < 0)
        past--;
    for (uint32_t y = 0; y < canvas->h; y++, v += m[4]) {
        uint8_t *dst = canvas->spare + (size_t)y * canvas->w * channels;
        bool some = v >= 0 && v < canvas->h;
        const uint8_t *row = canvas->pixels + (some ? (size_t)v : 0) * canvas->w * channels;
        uint32_t from = some ? first : canvas->w, to = some ? past : canvas->w;
        fill_pixels(dst, 0, from, channels, step->fill);
        fill_pixels(dst, to, canvas->w, channels, step->fill);
        if (m[0] == 1 && from < to) /* moved as it is */
            memcpy(dst + (size_t)from * channels, row + (size_t)columns[from] * channels,
                   (size_t)(to - from) * channels);
        for (uint32_t x = m[0] == 1 ? to : from; x < to; x++)
            for (uint32_t c = 0; c < channels; c++)
                dst[(size_t)x * channels + c] = row[(size_t)columns[x] * channels + c];
    }
}

int hr_canvas_warp(struct hr_canvas *canvas, const struct hr_step *step)
{
    const double *m = step->map;
    bool flat = m[6] == 0 && m[7] == 0, is_coarse_map = is_coarse(canvas, step);
    struct hr_warp warp = {.w = canvas->w, .h = canvas->h, .channels = canvas->channels,
                           .src = canvas->pixels,
                           .du = is_coarse_map ? coarse(m[0]) : fixed(m[0]),
                           .dv = is_coarse_map ? coarse(m[3]) : fixed(m[3])};
    int ret = hr_canvas_spare(canvas, canvas->w, canvas->h);

    if (ret == 0)
        ret = hr_scratch_grow(&canvas->floats, &canvas->floats_bytes, canvas->w * sizeof(int32_t));
    if (ret < 0)
        return ret;
    bool straight = flat && m[1] == 0 && m[3] == 0 && step->interpolation == HR_INTERPOLATION_NEAREST;
    if (straight)
        scale_nearest(canvas, step);
    for (uint32_t y = straight ? canvas->h : 0; y < canvas->h; y++) {
        uint8_t *dst = canvas->spare + (size_t)y * canvas->w * canvas->channels;
        if (flat) {
            start_row(step, &warp, y, is_coarse_map);
            affine_row(dst, canvas, step, &warp);
        } else {
            perspective_row(dst, canvas, step, &warp, y);
        }
    }
    hr_canvas_swap(canvas, canvas->w, canvas->h);
    return 0;
}
