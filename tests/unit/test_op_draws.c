/* image ops: what is drawn has the distributions that docs/ops.md states: chi-square over 100,000 draws. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "decoders/blend.h"
#include "decoders/ops/geometry.h"
#include "decoders/ops/policy.h"

#define PI 3.14159265358979323846
enum { DRAWS = 100000, SIDE = 1000 };

/* ---- calls, as the pipeline file's parser makes them ---- */

struct call_text {
    struct hr_call call;
    struct hr_arg args[6];
    double numbers[6][4];
    struct hr_arg items[6][4];
};

static void add_list(struct call_text *t, const char *name, int count, ...)
{
    int i = t->call.arg_count++;
    va_list list;

    t->call.args = t->args;
    t->args[i] = (struct hr_arg){.name = name, .kind = HR_ARG_LIST, .items = t->items[i],
                                 .item_count = count};
    va_start(list, count);
    for (int k = 0; k < count; k++) {
        double v = va_arg(list, double);
        bool whole = v == floor(v);
        t->items[i][k] = (struct hr_arg){.kind = whole ? HR_ARG_INT : HR_ARG_FLOAT, .number = v,
                                         .integer = (int64_t)v, .text = "number"};
    }
    va_end(list);
}

static void add_number(struct call_text *t, const char *name, double v)
{
    int i = t->call.arg_count++;

    t->call.args = t->args;
    t->args[i] = (struct hr_arg){.name = name, .kind = v == floor(v) ? HR_ARG_INT : HR_ARG_FLOAT,
                                 .number = v, .integer = (int64_t)v, .text = "number"};
}

static struct hr_op_chain chain; /* too large for the stack */

static void init(const struct call_text *t)
{
    struct hr_error err = HR_ERROR_INIT;

    if (hr_op_chain_init(&chain, &t->call, 1, &(struct hr_op_shape){0}, &err) < 0)
        fail_msg("%s", err.text);
}

static void draw(uint64_t position, struct hr_steps *steps)
{
    struct hr_draw_key key = {.seed = 11, .epoch = 3, .position = position};

    hr_op_chain_draw(&chain, &key, 0, SIDE, SIDE, steps);
}

/* ---- chi-square ---- */

struct cells {
    const char *what;
    int count;
    uint64_t seen[64];
};

/* u in [0, 1) when all is well. */
static void put(struct cells *c, double u)
{
    int i = (int)floor(u * c->count);

    if (i < 0 || i >= c->count)
        fail_msg("%s: %g is out of range", c->what, u);
    c->seen[i]++;
}

/* Wilson and Hilferty: the cube root is nearly normal; 3.9 sigma are passed once in 20,000. */
static void check(const struct cells *c, const double *expected)
{
    double total = 0, chi = 0, freedom = -1;

    for (int i = 0; i < c->count; i++)
        total += (double)c->seen[i];
    assert_true(total > 1000);
    for (int i = 0; i < c->count; i++) {
        double e = expected ? expected[i] * total : total / c->count;
        if (e == 0) {
            assert_int_equal(c->seen[i], 0);
            continue;
        }
        chi += ((double)c->seen[i] - e) * ((double)c->seen[i] - e) / e;
        freedom++;
    }
    double k = 2 / (9 * freedom), z = (cbrt(chi / freedom) - (1 - k)) / sqrt(k);
    if (z > 3.9)
        fail_msg("%s: chi-square %.1f with %.0f degrees of freedom", c->what, chi, freedom);
}

static void check_chance(const char *what, uint64_t hits, double n, double p)
{
    double z = ((double)hits - n * p) / sqrt(n * p * (1 - p));

    if (fabs(z) > 3.9)
        fail_msg("%s: %llu of %.0f, not a share of %g", what, (unsigned long long)hits, n, p);
}

static void jitter_factors_are_uniform_and_the_order_is_any(void **state)
{
    struct call_text t = {.call = {.name = "color_jitter"}};
    struct cells factors[4] = {{"brightness", 40}, {"contrast", 40}, {"saturation", 40}, {"hue", 40}};
    struct cells orders = {"order", 24}, pairs = {"brightness and hue", 64};
    static const double low[4] = {0.6, 0.5, 0, -0.1}, high[4] = {1.4, 1.5, 2.2, 0.1};

    (void)state;
    add_number(&t, "brightness", 0.4);
    add_list(&t, "contrast", 2, 0.5, 1.5);
    add_number(&t, "saturation", 1.2);
    add_number(&t, "hue", 0.1);
    init(&t);
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct hr_steps s;
        int order = 0, places[4];
        double u[4];
        draw(i, &s);
        assert_int_equal(s.count, 4);
        for (int k = 0; k < 4; k++) {
            static const int of[] = {[HR_STEP_CONTRAST] = 1, [HR_STEP_SATURATION] = 2, [HR_STEP_HUE] = 3};
            int f = of[s.steps[k].kind];
            u[f] = (s.steps[k].value - low[f]) / (high[f] - low[f]);
            put(&factors[f], u[f]);
            places[k] = f;
        }
        for (int k = 0; k < 4; k++) { /* Lehmer code */
            int below = 0;
            for (int m = k + 1; m < 4; m++)
                below += places[m] < places[k];
            order = order * (4 - k) + below;
        }
        put(&orders, (order + 0.5) / 24);
        put(&pairs, (floor(u[0] * 8) * 8 + floor(u[3] * 8) + 0.5) / 64);
    }
    for (int k = 0; k < 4; k++)
        check(&factors[k], NULL);
    check(&orders, NULL);
    check(&pairs, NULL);
}

static void chances_are_as_stated(void **state)
{
    static const struct {
        const char *name;
        double p;
        const char *required;
        double value;
    } ops[] = {{"grayscale", 0.1}, {"solarize", 0.5}, {"posterize", 0.5, "bits", 3}, {"equalize", 0.5},
               {"autocontrast", 0.5}, {"sharpness", 0.5, "factor", 2}, {"invert", 0.5}, {"erasing", 0.5},
               {"perspective", 0.5}};

    (void)state;
    for (size_t k = 0; k < HR_ARRAY_SIZE(ops); k++)
        for (int given = 0; given < 2; given++) {
            struct call_text t = {.call = {.name = ops[k].name}};
            uint64_t hits = 0;
            if (ops[k].required)
                add_number(&t, ops[k].required, ops[k].value);
            if (given)
                add_number(&t, "p", 0.83);
            init(&t);
            for (uint64_t i = 0; i < DRAWS; i++) {
                struct hr_steps s;
                draw(i, &s);
                hits += s.count == 1;
            }
            /* perspective with its four corners in place is still drawn */
            check_chance(ops[k].name, hits, DRAWS, given ? 0.83 : ops[k].p);
        }
}

static void blur_and_rotation_are_uniform(void **state)
{
    struct call_text blur = {.call = {.name = "gaussian_blur"}}, turn = {.call = {.name = "rotate"}};
    struct cells sigmas = {"sigma", 50}, angles = {"angle", 50};
    struct hr_steps s;

    (void)state;
    add_number(&blur, "kernel_size", 9);
    init(&blur);
    for (uint64_t i = 0; i < DRAWS; i++) {
        draw(i, &s);
        put(&sigmas, (s.steps[0].value - 0.1) / 1.9);
    }
    check(&sigmas, NULL);
    add_list(&turn, "degrees", 2, -30.0, 50.0);
    init(&turn);
    for (uint64_t i = 0; i < DRAWS; i++) {
        draw(i, &s);
        double angle = atan2(s.steps[0].map[3], s.steps[0].map[0]) * 180 / PI;
        put(&angles, (angle + 30) / 80);
    }
    check(&angles, NULL);
}

/* The matrix taken apart again: rotation, scale and shear by the formula of the page. */
static void affine_parameters_are_uniform(void **state)
{
    struct call_text t = {.call = {.name = "affine"}};
    struct cells angle = {"angle", 40}, x = {"x", 41}, y = {"y", 21}, scale = {"scale", 40},
                 shear = {"shear", 40};
    double share_x[41], share_y[21];

    (void)state;
    add_number(&t, "degrees", 20);
    add_list(&t, "translate", 2, 0.02, 0.01);
    add_list(&t, "scale", 2, 0.8, 1.3);
    add_number(&t, "shear", 15);
    init(&t);
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct hr_steps s;
        struct hr_map back, there;
        double middle[2];
        draw(i, &s);
        memcpy(back.m, s.steps[0].map, sizeof(back.m));
        assert_true(hr_map_invert(&there, &back));
        /* the first column of scale R(angle) SHx is the rotated and scaled axis itself */
        put(&angle, (atan2(there.m[3], there.m[0]) * 180 / PI + 20) / 40);
        put(&scale, (hypot(there.m[0], there.m[3]) - 0.8) / 0.5);
        double area = there.m[0] * there.m[4] - there.m[1] * there.m[3];
        double lean = (there.m[0] * there.m[1] + there.m[3] * there.m[4]) / area;
        put(&shear, (-atan(lean) * 180 / PI + 15) / 30);
        hr_map_point(&there, SIDE / 2, SIDE / 2, middle);
        put(&x, (middle[0] - SIDE / 2 + 20.5) / 41);
        put(&y, (middle[1] - SIDE / 2 + 10.5) / 21);
    }
    /* rounding of a uniform number between -20 and 20 leaves half a share for the ends */
    for (int i = 0; i < 41; i++)
        share_x[i] = (i == 0 || i == 40 ? 0.5 : 1) / 40;
    for (int i = 0; i < 21; i++)
        share_y[i] = (i == 0 || i == 20 ? 0.5 : 1) / 20;
    check(&angle, NULL);
    check(&scale, NULL);
    check(&shear, NULL);
    check(&x, share_x);
    check(&y, share_y);
}

static void erased_boxes_are_log_uniform_in_shape(void **state)
{
    struct call_text t = {.call = {.name = "erasing"}};
    struct cells ratio = {"ratio", 25}, area = {"area", 20}, place = {"place", 64};

    (void)state;
    add_number(&t, "p", 1);
    add_list(&t, "scale", 2, 0.05, 0.2);
    init(&t);
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct hr_steps s;
        draw(i, &s);
        assert_int_equal(s.count, 1);
        double w = s.steps[0].w, h = s.steps[0].h;
        /* whole pixels: the outermost values may step over their ends */
        double r = (log(h / w) - log(0.3)) / (log(3.3) - log(0.3)), a = (w * h / SIDE / SIDE - 0.05) / 0.15;
        put(&ratio, fmin(fmax(r, 0), 0.99999));
        put(&area, fmin(fmax(a, 0), 0.99999));
        double u = (s.steps[0].x + 0.5) / (SIDE - w + 1), v = (s.steps[0].y + 0.5) / (SIDE - h + 1);
        put(&place, (floor(u * 8) * 8 + floor(v * 8) + 0.5) / 64);
    }
    check(&ratio, NULL);
    check(&area, NULL);
    check(&place, NULL);
}

/* Each corner of the picture goes to one of 50 x 50 places: the map from the result, turned round, tells where. */
static void corners_of_a_perspective_are_uniform(void **state)
{
    static const double from[4][2] = {{0, 0}, {SIDE - 1, 0}, {SIDE - 1, SIDE - 1}, {0, SIDE - 1}};
    struct call_text t = {.call = {.name = "perspective"}};
    struct cells offsets[8] = {{"top left x", 50}, {"top left y", 50}, {"top right x", 50}, {"top right y", 50},
                               {"bottom right x", 50}, {"bottom right y", 50}, {"bottom left x", 50},
                               {"bottom left y", 50}};
    struct cells pairs[8];

    (void)state;
    add_number(&t, "distortion_scale", 0.0985); /* of 500: 49 */
    add_number(&t, "p", 1);
    init(&t);
    for (int k = 0; k < 8; k++)
        pairs[k] = (struct cells){"two of the corners' offsets", 50};
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct hr_map back, there;
        struct hr_steps s;
        double at[4][2];
        int offset[8];
        draw(i, &s);
        memcpy(back.m, s.steps[0].map, sizeof(back.m));
        assert_true(hr_map_invert(&there, &back));
        for (int k = 0; k < 8; k++) {
            if (k % 2 == 0)
                hr_map_point(&there, from[k / 2][0], from[k / 2][1], at[k / 2]);
            double v = at[k / 2][k % 2] - (from[k / 2][k % 2] > 0 ? SIDE - 50 : 0);
            offset[k] = (int)nearbyint(v);
            assert_true(fabs(v - offset[k]) < 1e-6);
            put(&offsets[k], (offset[k] + 0.5) / 50);
        }
        for (int k = 0; k < 8; k++)
            pairs[k].seen[offset[k] / 10 * 10 + offset[(k + 1) % 8] / 5]++;
    }
    for (int k = 0; k < 8; k++) {
        check(&offsets[k], NULL);
        check(&pairs[k], NULL);
    }
}

static void places_of_a_random_crop_are_uniform(void **state)
{
    (void)state;
    for (int pad = 0; pad < 6; pad += 5) { /* 60 places across and 40 down, some of them over the edge */
        struct call_text t = {.call = {.name = "random_crop"}};
        struct cells x = {"x", 60}, y = {"y", 40}, both = {"x and y", 60};
        add_list(&t, "size", 2, SIDE + 2.0 * pad - 39, SIDE + 2.0 * pad - 59);
        add_number(&t, "pad", pad);
        init(&t);
        for (uint64_t i = 0; i < DRAWS; i++) {
            struct hr_draw_key key = {.seed = 11, .epoch = 3, .position = i};
            struct hr_error err;
            struct hr_view view;
            assert_int_equal(hr_op_chain_view(&chain, &key, 0, SIDE, SIDE, &view, &err), 0);
            int64_t left = view.box_x + pad, top = view.box_y + pad;
            put(&x, ((double)left + 0.5) / 60);
            put(&y, ((double)top + 0.5) / 40);
            put(&both, (double)(left / 10 * 10 + top / 4) / 60 + 1e-9);
        }
        check(&x, NULL);
        check(&y, NULL);
        check(&both, NULL);
    }
}

/* ---- policies ---- */

static enum hr_change change_of(const struct hr_steps *s, double *magnitude)
{
    if (s->count == 0)
        return HR_CHANGE_IDENTITY;
    const struct hr_step *step = &s->steps[0];
    const double *m = step->map;
    *magnitude = step->value - 1;
    switch (step->kind) {
    case HR_STEP_BRIGHTNESS:
        return HR_CHANGE_BRIGHTNESS;
    case HR_STEP_SATURATION:
        return HR_CHANGE_COLOR;
    case HR_STEP_CONTRAST:
        return HR_CHANGE_CONTRAST;
    case HR_STEP_SHARPNESS:
        return HR_CHANGE_SHARPNESS;
    case HR_STEP_POSTERIZE:
        *magnitude = step->bits;
        return HR_CHANGE_POSTERIZE;
    case HR_STEP_SOLARIZE:
        *magnitude = step->value;
        return HR_CHANGE_SOLARIZE;
    case HR_STEP_AUTOCONTRAST:
        return HR_CHANGE_AUTOCONTRAST;
    case HR_STEP_EQUALIZE:
        return HR_CHANGE_EQUALIZE;
    case HR_STEP_INVERT:
        return HR_CHANGE_INVERT;
    default:
        break;
    }
    assert_int_equal(step->kind, HR_STEP_WARP);
    if (fabs(m[1]) > 1e-12 && fabs(m[3]) > 1e-12) {
        *magnitude = atan2(m[3], m[0]) * 180 / PI;
        return HR_CHANGE_ROTATE;
    }
    if (fabs(m[1]) > 1e-12 || fabs(m[3]) > 1e-12) {
        *magnitude = fabs(m[1]) > 1e-12 ? m[1] : m[3];
        return fabs(m[1]) > 1e-12 ? HR_CHANGE_SHEAR_X : HR_CHANGE_SHEAR_Y;
    }
    *magnitude = -(m[2] != 0 ? m[2] : m[5]);
    return m[2] != 0 ? HR_CHANGE_TRANSLATE_X : HR_CHANGE_TRANSLATE_Y;
}

static void rand_augment_chooses_evenly(void **state)
{
    struct call_text t = {.call = {.name = "rand_augment"}};
    struct cells choice = {"choice", 14}, sign = {"sign", 18};
    /* torchvision's spaces at bin 9 of 31, as numbers */
    static const double strength[HR_CHANGE_OF_RANDOM] = {
        [HR_CHANGE_SHEAR_X] = 0.09, [HR_CHANGE_SHEAR_Y] = 0.09, [HR_CHANGE_TRANSLATE_X] = 135,
        [HR_CHANGE_TRANSLATE_Y] = 135, [HR_CHANGE_ROTATE] = 9, [HR_CHANGE_BRIGHTNESS] = 0.27,
        [HR_CHANGE_COLOR] = 0.27, [HR_CHANGE_CONTRAST] = 0.27, [HR_CHANGE_SHARPNESS] = 0.27,
        [HR_CHANGE_POSTERIZE] = 7, [HR_CHANGE_SOLARIZE] = 178.5};

    (void)state;
    add_number(&t, "num_ops", 1);
    init(&t);
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct hr_steps s;
        double magnitude = 0;
        draw(i, &s);
        enum hr_change change = change_of(&s, &magnitude);
        put(&choice, (change + 0.5) / 14);
        if (strength[change] > 0)
            assert_true(fabs(fabs(magnitude) - strength[change]) < 1e-9);
        if (change >= HR_CHANGE_SHEAR_X && change <= HR_CHANGE_SHARPNESS)
            put(&sign, (2 * (change - HR_CHANGE_SHEAR_X) + (magnitude < 0) + 0.5) / 18);
    }
    check(&choice, NULL);
    check(&sign, NULL);
}

static void trivial_augment_draws_all_magnitudes(void **state)
{
    struct call_text t = {.call = {.name = "trivial_augment"}};
    struct cells choice = {"choice", 14}, turns = {"rotation", 61};
    double share[61];

    (void)state;
    init(&t);
    for (uint64_t i = 0; i < 5 * DRAWS; i++) {
        struct hr_steps s;
        double magnitude = 0;
        draw(i, &s);
        enum hr_change change = change_of(&s, &magnitude);
        bool none = s.count && s.steps[0].kind == HR_STEP_WARP && s.steps[0].map[1] == 0 &&
                    s.steps[0].map[3] == 0 && s.steps[0].map[2] == 0 && s.steps[0].map[5] == 0;
        if (none) /* a shear, shift or turn by nothing cannot be told apart */
            continue;
        if (change == HR_CHANGE_ROTATE)
            put(&turns, (magnitude / 4.5 + 30.5) / 61);
        if (change > HR_CHANGE_ROTATE || change == HR_CHANGE_IDENTITY)
            put(&choice, (change + 0.5) / 14);
    }
    for (int i = 0; i < 61; i++)
        share[i] = i == 30 ? 0 : 1.0 / 60;
    check(&turns, share);
    double shares[14] = {0};
    for (int i = 0; i < 14; i++)
        shares[i] = i >= HR_CHANGE_SHEAR_X && i <= HR_CHANGE_ROTATE ? 0 : 1.0 / 9;
    check(&choice, shares);
}

static void auto_augment_takes_every_pair_alike(void **state)
{
    (void)state;
    for (int policy = 0; policy < HR_AUTO_POLICIES; policy++) {
        struct call_text t = {.call = {.name = "auto_augment"}};
        struct cells kinds = {"kinds of steps", HR_STEP_ERASE + 1};
        double expected[HR_STEP_ERASE + 1] = {0}, sum = 0;
        static const int step_of[HR_CHANGE_COUNT] = {
            [HR_CHANGE_SHEAR_X] = HR_STEP_WARP, [HR_CHANGE_SHEAR_Y] = HR_STEP_WARP,
            [HR_CHANGE_TRANSLATE_X] = HR_STEP_WARP, [HR_CHANGE_TRANSLATE_Y] = HR_STEP_WARP,
            [HR_CHANGE_ROTATE] = HR_STEP_WARP, [HR_CHANGE_BRIGHTNESS] = HR_STEP_BRIGHTNESS,
            [HR_CHANGE_COLOR] = HR_STEP_SATURATION, [HR_CHANGE_CONTRAST] = HR_STEP_CONTRAST,
            [HR_CHANGE_SHARPNESS] = HR_STEP_SHARPNESS, [HR_CHANGE_POSTERIZE] = HR_STEP_POSTERIZE,
            [HR_CHANGE_SOLARIZE] = HR_STEP_SOLARIZE, [HR_CHANGE_AUTOCONTRAST] = HR_STEP_AUTOCONTRAST,
            [HR_CHANGE_EQUALIZE] = HR_STEP_EQUALIZE, [HR_CHANGE_INVERT] = HR_STEP_INVERT};
        t.args[0] = (struct hr_arg){.name = "", .kind = HR_ARG_STR, .text = hr_auto_policy_names[policy]};
        t.call.args = t.args;
        t.call.arg_count = 1;
        init(&t);
        for (uint64_t i = 0; i < DRAWS; i++) {
            struct hr_steps s;
            draw(i, &s);
            for (int k = 0; k < s.count; k++)
                kinds.seen[s.steps[k].kind]++;
        }
        for (int i = 0; i < HR_AUTO_PAIRS; i++)
            for (int k = 0; k < 2; k++) {
                expected[step_of[hr_auto_policies[policy][i].changes[k].change]] +=
                    hr_auto_policies[policy][i].changes[k].tenths;
                sum += hr_auto_policies[policy][i].changes[k].tenths;
            }
        for (int i = 0; i <= HR_STEP_ERASE; i++)
            expected[i] /= sum;
        check(&kinds, expected);
    }
}

/* ---- mixup and cutmix ---- */

/* The distribution function of Beta(a, a) by the continued fraction of the incomplete beta function (Lentz), which
 * converges fast up to 1/2; above, by symmetry. */
static double beta_below(double a, double x)
{
    double front = exp(a * log(x * (1 - x)) - 2 * lgamma(a) + lgamma(2 * a)) / a, c = 1, d, f;

    if (x > 0.5)
        return 1 - beta_below(a, 1 - x);
    d = 1 / (1 - 2 * a * x / (a + 1));
    f = d;
    for (int m = 1; m < 400; m++) {
        double even = m * (a - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (2 * a + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / (1 + even * d);
        c = 1 + even / c;
        f *= c * d;
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        f *= c * d;
    }
    return front * f;
}

static void weights_have_the_beta_distribution(void **state)
{
    static const double alphas[] = {0.1, 0.2, 0.5, 0.8, 1, 2, 8, 60};

    (void)state;
    for (size_t k = 0; k < HR_ARRAY_SIZE(alphas); k++) {
        struct cells cells = {"weight", 50};
        struct hr_blend_spec spec = {.p = 1, .mixup_alpha = alphas[k]};
        double expected[50], low = 0;
        for (int i = 0; i < 50; i++) {
            double up = i == 49 ? 1 : beta_below(alphas[k], (i + 1) / 50.0);
            expected[i] = (up - low) * DRAWS < 1 ? 0 : up - low;
            low = up;
        }
        for (uint64_t i = 0; i < DRAWS; i++) {
            struct hr_blend_draw d;
            hr_blend_decide(&spec, 11, 3, i, &d);
            assert_true(d.weight >= 0 && d.weight <= 1 && d.weight * 0x1p24 == floor(d.weight * 0x1p24));
            int cell = (int)fmin(d.weight * 50, 49);
            if (expected[cell] > 0) /* once in the whole test is too rare to count */
                cells.seen[cell]++;
        }
        check(&cells, expected);
    }
}

static void chances_of_mixing_are_as_stated(void **state)
{
    const struct hr_blend_spec spec = {.p = 0.7, .mixup_alpha = 0.3, .cutmix_alpha = 1, .switch_p = 0.2,
                                       .height = 30, .width = 50};
    uint64_t seen[3] = {0};

    (void)state;
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct hr_blend_draw d;
        hr_blend_decide(&spec, 11, 3, i, &d);
        seen[d.kind]++;
        if (d.kind == HR_BLEND_NONE)
            assert_true(d.weight == 1);
    }
    check_chance("none", seen[HR_BLEND_NONE], DRAWS, 0.3);
    check_chance("cutmix", seen[HR_BLEND_CUTMIX], DRAWS, 0.7 * 0.2);
}

/* The middle of a box that is not cut is anywhere, its area is that of the weight, and cut boxes weigh what is left. */
static void boxes_of_cutmix_are_anywhere(void **state)
{
    const struct hr_blend_spec spec = {.p = 1, .cutmix_alpha = 1, .height = SIDE, .width = SIDE / 2};
    struct cells places = {"place", 64};
    uint64_t touching = 0;

    (void)state;
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct hr_blend_draw d;
        hr_blend_decide(&spec, 11, 3, i, &d);
        assert_true(d.x0 <= d.x1 && d.x1 <= SIDE / 2 && d.y0 <= d.y1 && d.y1 <= SIDE);
        double w = d.x1 - d.x0, h = d.y1 - d.y0;
        assert_true(d.weight == 1 - w * h / (SIDE * (SIDE / 2.0)));
        if (d.x0 == 0 || d.y0 == 0 || d.x1 == SIDE / 2 || d.y1 == SIDE) {
            touching++;
            continue;
        }
        if (w < 1 || w > SIDE / 16) /* small ones: nearly all of their places are inside */
            continue;
        put(&places, (floor((d.x0 + w / 2) / (SIDE / 2) * 8) * 8 + floor((d.y0 + h / 2) / SIDE * 8) + 0.5) / 64);
        assert_true(fabs(h / w - 2) <= 2 / w + 1e-9); /* as the picture, but for whole pixels */
    }
    assert_true(touching > DRAWS / 3);
    double inner = 0;
    for (int i = 0; i < 64; i++)
        inner += (i % 8 && i % 8 < 7 && i / 8 && i / 8 < 7) ? (double)places.seen[i] : 0;
    for (int i = 0; i < 64; i++) { /* the outer ones lose those that touch the border */
        bool is_inner = i % 8 && i % 8 < 7 && i / 8 && i / 8 < 7;
        if (is_inner)
            assert_true(fabs((double)places.seen[i] - inner / 36) < 4.5 * sqrt(inner / 36));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jitter_factors_are_uniform_and_the_order_is_any),
        cmocka_unit_test(chances_are_as_stated),
        cmocka_unit_test(blur_and_rotation_are_uniform),
        cmocka_unit_test(affine_parameters_are_uniform),
        cmocka_unit_test(erased_boxes_are_log_uniform_in_shape),
        cmocka_unit_test(corners_of_a_perspective_are_uniform),
        cmocka_unit_test(places_of_a_random_crop_are_uniform),
        cmocka_unit_test(rand_augment_chooses_evenly),
        cmocka_unit_test(trivial_augment_draws_all_magnitudes),
        cmocka_unit_test(auto_augment_takes_every_pair_alike),
        cmocka_unit_test(weights_have_the_beta_distribution),
        cmocka_unit_test(chances_of_mixing_are_as_stated),
        cmocka_unit_test(boxes_of_cutmix_are_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
