/* lerp: every level of the mixing loops against plain arithmetic, bit for bit; and samples mixed by rows against the
 * same done value by value. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "decoders/blend.h"
#include "decoders/kernels/half.h"

enum { MOST = 150, GUARD = 64, LEVELS = 4 };

static const unsigned level_flags[LEVELS] = {0, HR_CPU_AVX2, HR_CPU_AVX2 | HR_CPU_AVX512,
                                             HR_CPU_NEON};
static const size_t value_bytes[HR_LERP_COUNT] = {1, 2, 2, 4};

static bool has_level(int level)
{
    return !(level_flags[level] & ~hr_cpu_flags());
}

/* ---- one value, by the definition of its type ---- */

static float half_value(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float v = exponent == 31 ? (fraction ? NAN : INFINITY)
              : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                             : ldexpf((float)fraction, -24);

    return h & 0x8000 ? -v : v;
}

static float get(enum hr_lerp_type type, const void *p)
{
    uint16_t h;
    float f;

    if (type == HR_LERP_U8)
        return *(const uint8_t *)p;
    if (type == HR_LERP_F32) {
        memcpy(&f, p, 4);
        return f;
    }
    memcpy(&h, p, 2);
    uint32_t bits = (uint32_t)h << 16;
    memcpy(&f, &bits, 4);
    return type == HR_LERP_F16 ? half_value(h) : f;
}

static void put(enum hr_lerp_type type, void *p, float v)
{
    uint16_t h = type == HR_LERP_F16 ? hr_float_to_f16(v) : hr_float_to_bf16(v);

    if (type == HR_LERP_U8)
        *(uint8_t *)p = (uint8_t)nearbyintf(v);
    else if (type == HR_LERP_F32)
        memcpy(p, &v, 4);
    else
        memcpy(p, &h, 2);
}

static float mix(float a, float b, float w)
{
    volatile float x = w * a, y = (1 - w) * b; /* each rounded */

    return x + y;
}

/* ---- random rows ---- */

static void fill(enum hr_lerp_type type, struct hr_rng *rng, uint8_t *row, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = hr_rng_u32(rng);
        memcpy(row + i * value_bytes[type], &bits, value_bytes[type]);
        float v = get(type, row + i * value_bytes[type]);
        if (!isfinite(v) || fabsf(v) > 1e18f) /* sums of what is not finite have many faces */
            put(type, row + i * value_bytes[type], bits & 1 ? -0.0f : 1.5f);
    }
}

static float weight(struct hr_rng *rng)
{
    uint64_t choice = hr_rng_below(rng, 8);

    return choice < 2 ? (float)choice : (float)hr_rng_below(rng, 1 << 24) * 0x1p-24f;
}

static void every_level_is_the_arithmetic_of_the_page(void **state)
{
    uint8_t rows[2][GUARD + MOST * 4 + GUARD], before[2][sizeof(rows[0])], one[sizeof(rows[0])];
    struct hr_rng rng;

    (void)state;
    hr_rng_init(&rng, 3, 0, 0, 0);
    for (int round = 0; round < 2000; round++) {
        enum hr_lerp_type type = (enum hr_lerp_type)(round % HR_LERP_COUNT);
        size_t count = hr_rng_below(&rng, MOST), bytes = value_bytes[type];
        size_t at = GUARD + hr_rng_below(&rng, 8) * bytes;
        float wa = weight(&rng), wb = round & 16 ? wa : weight(&rng);
        count = hr_min_u64(count, MOST - 8);
        memset(before, 0xa5, sizeof(before));
        fill(type, &rng, before[0] + at, count);
        fill(type, &rng, before[1] + at, count);
        for (int level = 0; level < LEVELS; level++) {
            if (!has_level(level))
                continue;
            const struct hr_lerp *lerp = hr_lerp_of(level_flags[level]);
            memcpy(rows, before, sizeof(rows));
            memcpy(one, before[0], sizeof(one));
            lerp->both[type](rows[0] + at, rows[1] + at, count, wa, wb);
            lerp->one[type](one + at, before[1] + at, count, wa);
            assert_memory_equal(one, rows[0], sizeof(one));
            for (size_t i = 0; i < count; i++) {
                const size_t k = at + i * bytes;
                float a = get(type, before[0] + k), b = get(type, before[1] + k);
                uint8_t want[2][4];
                put(type, want[0], mix(a, b, wa));
                put(type, want[1], mix(b, a, wb));
                for (int s = 0; s < 2; s++)
                    if (memcmp(rows[s] + k, want[s], bytes) != 0)
                        fail_msg("level %d type %d: %a and %a by %a gave %a", level, (int)type, (double)(s ? b : a),
                                 (double)(s ? a : b), (double)(s ? wb : wa), (double)get(type, rows[s] + k));
            }
            for (int s = 0; s < 2; s++) { /* nothing beside the row is written */
                assert_memory_equal(rows[s], before[s], at);
                assert_memory_equal(rows[s] + at + count * bytes, before[s] + at + count * bytes,
                                    sizeof(rows[s]) - at - count * bytes);
            }
        }
    }
}

static void infinite_and_missing_numbers_are_the_same_at_every_level(void **state)
{
    static const uint16_t halves[] = {0x7c00, 0xfc00, 0x7e00, 0x7d01, 0x0001, 0x8000, 0x7bff, 0xfbff, 0x3c00, 0x83ff};
    enum { COUNT = HR_ARRAY_SIZE(halves) * HR_ARRAY_SIZE(halves) };
    uint16_t a[COUNT], b[COUNT], first[COUNT];

    (void)state;
    for (int level = 0; level < LEVELS; level++) {
        if (!has_level(level))
            continue;
        for (size_t i = 0; i < COUNT; i++) {
            a[i] = halves[i / HR_ARRAY_SIZE(halves)];
            b[i] = halves[i % HR_ARRAY_SIZE(halves)];
        }
        hr_lerp_of(level_flags[level])->both[HR_LERP_F16](a, b, COUNT, 0.25f, 0.75f);
        if (level == 0)
            memcpy(first, a, sizeof(a));
        for (size_t i = 0; i < COUNT; i++) { /* the sign and bits of a NaN are nobody's */
            bool nan = (a[i] & 0x7fff) > 0x7c00;
            assert_true(nan ? (first[i] & 0x7fff) > 0x7c00 : a[i] == first[i]);
        }
    }
}

/* ---- whole samples ---- */

static const struct hr_blend_shape shapes[] = {
    {.type = HR_LERP_F32, .value_bytes = 4, .planes = 3, .height = 9, .width = 7, .channels = 1},
    {.type = HR_LERP_F16, .value_bytes = 2, .planes = 1, .height = 5, .width = 11, .channels = 3},
    {.type = HR_LERP_U8, .value_bytes = 1, .planes = 1, .height = 2, .width = 1500, .channels = 3}, /* in parts */
    {.type = HR_LERP_F32, .value_bytes = 4, .planes = 2, .height = 1, .width = 2500, .channels = 1},
};
enum { SHAPES = HR_ARRAY_SIZE(shapes), SAMPLES = 5 };

static size_t values_of(const struct hr_blend_shape *s)
{
    return s->planes * s->height * s->width * s->channels;
}

static struct hr_blend_draw random_draw(const struct hr_blend_shape *s, struct hr_rng *rng)
{
    struct hr_blend_draw d = {.kind = (enum hr_blend_kind)hr_rng_below(rng, 3), .weight = weight(rng)};

    d.x0 = (uint32_t)hr_rng_below(rng, s->width + 1);
    d.x1 = d.x0 + (uint32_t)hr_rng_below(rng, s->width + 1 - d.x0);
    d.y0 = (uint32_t)hr_rng_below(rng, s->height + 1);
    d.y1 = d.y0 + (uint32_t)hr_rng_below(rng, s->height + 1 - d.y0);
    return d;
}

/* Value i of a sample after it was mixed. */
static void expect(const struct hr_blend_shape *s, const struct hr_blend_draw *d, const uint8_t *own,
                   const uint8_t *partner, size_t i, uint8_t *want)
{
    size_t x = i / s->channels % s->width, y = i / s->channels / s->width % s->height, k = i * s->value_bytes;
    bool inside = x >= d->x0 && x < d->x1 && y >= d->y0 && y < d->y1;

    memcpy(want, d->kind == HR_BLEND_CUTMIX && inside ? partner + k : own + k, s->value_bytes);
    if (d->kind == HR_BLEND_MIXUP)
        put(s->type, want, mix(get(s->type, own + k), get(s->type, partner + k), (float)d->weight));
}

static void check_sample(const struct hr_blend_shape *s, const struct hr_blend_draw *d, const uint8_t *got,
                         const uint8_t *own, const uint8_t *partner)
{
    uint8_t want[4];

    for (size_t i = 0; i < values_of(s); i++) {
        expect(s, d, own, partner, i, want);
        if (memcmp(got + i * s->value_bytes, want, s->value_bytes) != 0)
            fail_msg("kind %d, value %zu of %zu", (int)d->kind, i, values_of(s));
    }
}

static void two_samples_are_mixed_from_what_both_were(void **state)
{
    struct hr_rng rng;

    (void)state;
    hr_rng_init(&rng, 4, 0, 0, 0);
    for (int round = 0; round < 400; round++) {
        const struct hr_blend_shape *s = &shapes[round % SHAPES];
        size_t bytes = values_of(s) * s->value_bytes;
        uint8_t *m = malloc(4 * bytes);
        struct hr_blend_draw a = random_draw(s, &rng), b = round & 4 ? a : random_draw(s, &rng);
        fill(s->type, &rng, m, 2 * values_of(s));
        memcpy(m + 2 * bytes, m, 2 * bytes);
        hr_blend_two(hr_lerp_get(), s, &a, m + 2 * bytes, &b, m + 3 * bytes);
        check_sample(s, &a, m + 2 * bytes, m, m + bytes);
        check_sample(s, &b, m + 3 * bytes, m + bytes, m);
        free(m);
    }
}

static void a_batch_is_rolled_from_what_all_were(void **state)
{
    static const struct hr_blend_draw none = {.kind = HR_BLEND_NONE};
    struct hr_rng rng;

    (void)state;
    hr_rng_init(&rng, 5, 0, 0, 0);
    for (int round = 0; round < 400; round++) {
        const struct hr_blend_shape *s = &shapes[round % SHAPES];
        size_t bytes = values_of(s) * s->value_bytes;
        uint32_t count = 1 + (uint32_t)hr_rng_below(&rng, SAMPLES);
        uint8_t in[SAMPLES], *m = malloc(2 * SAMPLES * bytes), *got = m + SAMPLES * bytes;
        struct hr_blend_draw d = random_draw(s, &rng);
        for (int i = 0; i < SAMPLES; i++)
            in[i] = round & 4 ? 1 : (uint8_t)hr_rng_below(&rng, 2);
        fill(s->type, &rng, m, SAMPLES * values_of(s));
        memcpy(got, m, SAMPLES * bytes);
        hr_blend_roll(hr_lerp_get(), s, &d, got, bytes, count, in);
        for (uint32_t i = 0; i < SAMPLES; i++) {
            uint32_t partner = i ? i - 1 : count - 1;
            bool takes_part = count > 1 && i < count && in[i] && in[partner];
            check_sample(s, takes_part ? &d : &none, got + i * bytes, m + i * bytes, m + partner * bytes);
        }
        free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_is_the_arithmetic_of_the_page),
        cmocka_unit_test(infinite_and_missing_numbers_are_the_same_at_every_level),
        cmocka_unit_test(two_samples_are_mixed_from_what_both_were),
        cmocka_unit_test(a_batch_is_rolled_from_what_all_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
