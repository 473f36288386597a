/* Scenes: which shapes lie where, and drawing them with smooth edges over a background of two colours
 * and several octaves of noise. */
#include "tools/synth/synth.h"

#include <math.h>
#include <string.h>

const char *const hr_synth_shape_names[HR_SYNTH_SHAPES] = {
    "circle", "cross", "diamond", "hexagon", "ring", "square", "stripe", "triangle"};

const char *const hr_synth_colour_names[HR_SYNTH_COLOURS] = {
    "black", "blue", "brown", "cyan", "gray", "green", "orange", "pink", "purple", "red", "white",
    "yellow"};

static const uint8_t colours[HR_SYNTH_COLOURS][3] = {
    {24, 22, 26},   {38, 76, 190},  {118, 78, 44},  {60, 190, 200}, {128, 128, 124}, {48, 150, 66},
    {232, 138, 38}, {236, 140, 178}, {120, 60, 160}, {200, 42, 40},  {238, 238, 232}, {236, 212, 56}};

double hr_synth_log_normal(struct hr_rng *rng, double median, double sigma, double low, double high)
{
    /* Box and Muller. */
    double r = sqrt(-2 * log(1 - hr_rng_uniform(rng)));
    double v = median * exp(sigma * r * cos(2 * M_PI * hr_rng_uniform(rng)));

    return v < low ? low : v > high ? high : v;
}

static int other_colour(struct hr_rng *rng, int not_this)
{
    int colour = (int)hr_rng_below(rng, HR_SYNTH_COLOURS - 1);

    return colour + (colour >= not_this);
}

void hr_synth_scene_draw(struct hr_rng *rng, struct hr_synth_scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    scene->ground = (int)hr_rng_below(rng, HR_SYNTH_COLOURS);
    scene->ground2 = (int)hr_rng_below(rng, HR_SYNTH_COLOURS);
    scene->grain = hr_rng_u32(rng);
    scene->roughness = (float)hr_rng_range(rng, 0.25, 1.0);
    scene->thing_count = 1 + (int)hr_rng_below(rng, HR_SYNTH_MAX_THINGS);
    for (int i = 0; i < scene->thing_count; i++) {
        struct hr_synth_thing *t = &scene->things[i];
        t->shape = (int)hr_rng_below(rng, HR_SYNTH_SHAPES);
        t->colour = other_colour(rng, scene->ground);
        t->radius = (float)(i ? hr_rng_range(rng, 0.06, 0.14) : hr_rng_range(rng, 0.16, 0.36));
        t->x = (float)hr_rng_range(rng, 0.2, 1.1);
        t->y = (float)hr_rng_range(rng, 0.2, 0.8);
        t->turn = (float)hr_rng_range(rng, 0, M_PI);
        t->vx = (float)hr_rng_range(rng, -0.4, 0.4);
        t->vy = (float)hr_rng_range(rng, -0.4, 0.4);
    }
}

static inline uint32_t mix(uint32_t x, uint32_t y, uint32_t key)
{
    uint32_t h = x * 0x9e3779b1u ^ y * 0x85ebca6bu ^ key;

    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    h ^= h >> 12;
    h *= 0x297a2d39u;
    return h ^ h >> 15;
}

static inline float grid_value(uint32_t gx, uint32_t gy, uint32_t key)
{
    return (float)mix(gx, gy, key) * (2.0f / 4294967296.0f) - 1.0f;
}

/* Adds a row of noise in [-weight, weight]: random at the points of a grid, linear between them. */
static void add_noise(float *row, int w, int y, int step, float weight, uint32_t key)
{
    uint32_t gy = (uint32_t)(y / step);
    float fy = (float)(y % step) / (float)step;
    float left = 0, right = 0;

    for (int x = 0; x < w; x++) {
        int in_cell = x % step;
        if (in_cell == 0) {
            uint32_t gx = (uint32_t)(x / step);
            float a = grid_value(gx, gy, key);
            left = step == 1 ? a : x ? right : a + (grid_value(gx, gy + 1, key) - a) * fy;
            a = step == 1 ? a : grid_value(gx + 1, gy, key);
            right = step == 1 ? a : a + (grid_value(gx + 1, gy + 1, key) - a) * fy;
        }
        row[x] += weight * (left + (right - left) * (float)in_cell / (float)step);
    }
}

static inline uint8_t to_u8(float v)
{
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)(v + 0.5f);
}

void hr_synth_render_ground(const struct hr_synth_scene *scene, int w, int h, uint8_t *rgb)
{
    const uint8_t *a = colours[scene->ground], *b = colours[scene->ground2];
    float light[HR_SYNTH_MAX_SIDE];
    static const struct {
        int step;
        float weight;
    } octaves[] = {{64, 18}, {16, 12}, {4, 10}, {2, 9}, {1, 12}};

    HR_ASSERT(w <= HR_SYNTH_MAX_SIDE);
    for (int y = 0; y < h; y++) {
        memset(light, 0, (size_t)w * sizeof(*light));
        for (unsigned o = 0; o < HR_ARRAY_SIZE(octaves); o++)
            add_noise(light, w, y, octaves[o].step, octaves[o].weight * scene->roughness,
                      scene->grain + o);
        for (int x = 0; x < w; x++, rgb += 3) {
            float part = 0.6f * ((float)x / (float)w + (float)y / (float)h) * 0.5f;
            for (int c = 0; c < 3; c++)
                rgb[c] = to_u8((float)a[c] + part * (float)(b[c] - a[c]) + light[x]);
        }
    }
}

/* Distance to the edge of a shape of radius 1, negative inside. */
static float distance(int shape, float x, float y)
{
    float ax = fabsf(x), ay = fabsf(y), r = sqrtf(x * x + y * y);

    switch (shape) {
    case 0: /* circle */
        return r - 1;
    case 1: /* cross */
        return fminf(fmaxf(ax - 0.3f, ay - 1), fmaxf(ax - 1, ay - 0.3f));
    case 2: /* diamond */
        return (ax + ay - 1) * 0.7071f;
    case 3: /* hexagon */
        return fmaxf(ax * 0.866f + ay * 0.5f, ay) - 0.9f;
    case 4: /* ring */
        return fabsf(r - 0.75f) - 0.25f;
    case 5: /* square */
        return fmaxf(ax, ay) - 0.85f;
    case 6: /* stripe */
        return fmaxf(ax - 1.3f, ay - 0.22f);
    default: /* triangle */
        return fmaxf(ax * 0.866f + y * 0.5f, -y) - 0.5f;
    }
}

/* Back and forth between low and high. */
static double bounce(double v, double low, double high)
{
    double span = high - low, t = fmod(v - low, 2 * span);

    if (t < 0)
        t += 2 * span;
    return low + (t < span ? t : 2 * span - t);
}

static void render_thing(const struct hr_synth_thing *t, int w, int h, double seconds, uint8_t *rgb)
{
    double wide = (double)w / h;
    float cx = (float)(bounce(t->x + t->vx * seconds, 0.1, wide - 0.1) * h);
    float cy = (float)(bounce(t->y + t->vy * seconds, 0.1, 0.9) * h);
    float r = t->radius * (float)h, s = sinf(t->turn), c = cosf(t->turn);
    int reach = (int)(r * 1.4f) + 2;
    int x0 = (int)cx - reach, x1 = (int)cx + reach, y0 = (int)cy - reach, y1 = (int)cy + reach;

    for (int y = y0 < 0 ? 0 : y0; y < (y1 > h ? h : y1); y++) {
        for (int x = x0 < 0 ? 0 : x0; x < (x1 > w ? w : x1); x++) {
            float dx = ((float)x - cx) / r, dy = ((float)y - cy) / r;
            float cover = 0.5f - distance(t->shape, dx * c + dy * s, dy * c - dx * s) * r;
            if (cover <= 0)
                continue;
            uint8_t *p = rgb + 3 * ((size_t)y * (size_t)w + (size_t)x);
            cover = cover > 1 ? 1 : cover;
            for (int i = 0; i < 3; i++)
                p[i] = to_u8((float)p[i] + cover * (float)(colours[t->colour][i] - p[i]) * 0.92f);
        }
    }
}

void hr_synth_render_things(const struct hr_synth_scene *scene, int w, int h, double seconds,
                            uint8_t *rgb)
{
    for (int i = 0; i < scene->thing_count; i++)
        render_thing(&scene->things[i], w, h, seconds, rgb);
}
