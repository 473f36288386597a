/* views: the first looks as if it were alone, each of the others as a field of its own with that view's key would,
 * in whatever form the picture is stored and however much of it was read; mistakes in the file are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <webp/encode.h>

#include "base/mem.h"
#include "base/rng.h"
#include "conf/conf.h"
#include "decoders/chain.h"
#include "decoders/jpeg_write.h"
#include "decoders/png_write.h"
#include "decoders/rpng.h"
#include "decoders/views.h"

enum { W = 1000, H = 900, FIELD = 3 };

/* ---- one picture, stored in all ways ---- */

enum form { RAW, PNG, REPACKED_PNG, JPEG, REPACKED_JPEG, WEBP, FORMS };

static const char *const form_names[FORMS] = {"raw pixels", "png", "repacked png", "jpeg", "repacked jpeg", "webp"};
static const unsigned encodings[FORMS] = {[RAW] = HR_ENCODING_RAW_PIXELS, [REPACKED_PNG] = HR_ENCODING_REPACKED_PNG,
                                          [REPACKED_JPEG] = HR_ENCODING_REPACKED_JPEG};
static struct hr_buf values[FORMS], seek;

static void fill_pixels(uint8_t *pixels)
{
    struct hr_rng rng;

    hr_rng_init(&rng, 5, 0, 0, 0);
    for (uint32_t y = 0; y < H; y++)
        for (uint32_t x = 0; x < W; x++)
            for (uint32_t c = 0; c < 3; c++)
                *pixels++ = (uint8_t)(((x * (c + 1) + y * 2) >> 2) + (hr_rng_u32(&rng) & 63));
}

static int store_pictures(void **state)
{
    static uint8_t pixels[W * H * 3];
    struct hr_raw_pixels raw = {.width = W, .height = H, .channels = 3, .pixels = pixels};
    struct hr_jpeg_picture jpeg = {.pixels = pixels, .width = W, .height = H, .channels = 3, .orientation = 6};
    uint8_t header[HR_RAW_HEADER_BYTES], *webp = NULL;

    (void)state;
    fill_pixels(pixels);
    hr_raw_pixels_header(&raw, header);
    hr_buf_add(&values[RAW], header, sizeof(header));
    hr_buf_add(&values[RAW], pixels, sizeof(pixels));
    assert_int_equal(hr_png_write(&raw, &values[PNG], NULL), 0);
    assert_int_equal(hr_rpng_encode(values[PNG].data, values[PNG].used, &values[REPACKED_PNG], NULL), 0);
    assert_int_equal(hr_jpeg_write(&jpeg, 92, &values[JPEG], NULL), 0);
    assert_int_equal(hr_media_repack(values[JPEG].data, values[JPEG].used, &values[REPACKED_JPEG], &seek, NULL), 0);
    assert_true(seek.used > 0);
    size_t bytes = WebPEncodeRGB(pixels, W, H, W * 3, 90, &webp);
    hr_buf_add(&values[WEBP], webp, bytes);
    WebPFree(webp);
    return 0;
}

static int drop_pictures(void **state)
{
    (void)state;
    for (int i = 0; i < FORMS; i++)
        hr_buf_finish(&values[i]);
    hr_buf_finish(&seek);
    return 0;
}

static struct hr_facts facts_of(enum form form)
{
    struct hr_facts facts = {.format = form == JPEG || form == REPACKED_JPEG ? HR_MEDIA_JPEG : HR_MEDIA_PNG, .width = W,
                             .height = H, .channels = 3};

    if (form == JPEG || form == REPACKED_JPEG)
        facts.orientation = 6;
    return facts;
}

/* ---- fields of a pipeline file ---- */

/* Chain, and the context of one worker. */
struct maker {
    struct hr_chain *chain;
    struct hr_context *context;
};

static int create_chain(const struct hr_conf_field *f, enum hr_field_type type, struct hr_chain **chain,
                        struct hr_error *err)
{
    struct hr_chain_view_spec views[16];
    struct hr_chain_spec spec = {.type = type, .field = f->name, .file = "t.yaml", .line = f->line,
                                 .column = f->column, .ops = f->ops, .op_count = f->op_count, .options = &f->options,
                                 .output = hr_conf_field_table(f, "output"), .views = views,
                                 .view_spec_count = f->view_count, .max_width = W, .max_height = H};

    for (int i = 0; i < f->view_count; i++)
        views[i] = (struct hr_chain_view_spec){
            .name = f->views[i].name, .line = f->views[i].line, .column = f->views[i].column, .ops = f->views[i].ops,
            .op_count = f->views[i].op_count, .options = &f->views[i].options,
            .output = hr_conf_field_table(&f->views[i], "output")};
    return hr_chain_create(&spec, chain, err);
}

static int make_type(const char *field, enum hr_field_type type, struct maker *m, struct hr_error *err)
{
    struct hr_conf conf;
    char text[2048];

    snprintf(text, sizeof(text), "dataset: d\nfields:\n  image: {%s}\n", field);
    int ret = hr_conf_parse(text, strlen(text), "t.yaml", &conf, err);
    if (ret < 0)
        return ret;
    ret = create_chain(&conf.fields[0], type, &m->chain, err);
    hr_conf_finish(&conf);
    return ret < 0 ? ret : hr_context_create(m->chain, &m->context, err);
}

static struct maker make(const char *field)
{
    struct maker m = {0};
    struct hr_error err = HR_ERROR_INIT;
    char line[1024];

    if (make_type(field, HR_FIELD_IMAGE, &m, &err) < 0)
        fail_msg("%s", hr_error_format(&err, line, sizeof(line)));
    return m;
}

static void drop(struct maker *m)
{
    hr_context_destroy(m->context);
    hr_chain_destroy(m->chain);
}

/* ---- decoding ---- */

static void plan_sample(const struct maker *m, enum form form, uint64_t position, uint32_t stream,
                        struct hr_sample_plan *plan)
{
    struct hr_facts facts = facts_of(form);
    struct hr_error err;

    if (hr_chain_plan(m->chain, &facts, values[form].used, 9, 1, position, stream, plan, &err) < 0)
        fail_msg("%s", err.text);
}

/* The planned parts one behind the other, everything else unreadable. */
static uint8_t *cut_parts(const struct maker *m, const struct hr_sample_plan *plan, enum form form, size_t *count)
{
    struct hr_chain_parts parts;
    size_t at = 0;

    hr_chain_parts(m->chain, plan, &parts);
    *count = parts.bytes;
    uint8_t *bytes = hr_alloc(parts.bytes + HR_CHAIN_PADDING);
    for (uint32_t i = 0; i < parts.count; at += parts.part[i++].bytes)
        memcpy(bytes + at, values[form].data + parts.part[i].off, parts.part[i].bytes);
    if (parts.count == 0)
        memcpy(bytes, values[form].data, parts.bytes);
    return bytes;
}

static void decode(const struct maker *m, const struct hr_sample_plan *plan, enum form form, void *const dst[])
{
    size_t count;
    uint8_t *bytes = cut_parts(m, plan, form, &count);
    struct hr_error err = HR_ERROR_INIT;
    int ret = hr_chain_check_parts(m->chain, plan, bytes, count, &err);

    if (ret == 0)
        ret = hr_chain_decode(m->chain, m->context, plan, encodings[form], bytes, count, dst, &err);
    if (ret < 0)
        fail_msg("%s: %s", form_names[form], err.text);
    hr_free(bytes);
}

static uint8_t *decode_alone(const struct maker *m, enum form form, uint64_t position, uint32_t view, size_t *bytes)
{
    struct hr_sample_plan plan;

    plan_sample(m, form, position, FIELD + HR_MAX_FIELDS * view, &plan);
    *bytes = plan.bytes[0];
    uint8_t *out = hr_alloc(*bytes);
    decode(m, &plan, form, (void *const[HR_CHAIN_MAX_OUTPUTS]){out});
    return out;
}

/* ---- views against fields of their own ---- */

struct group {
    const char *ops, *output;
    uint32_t count;
};

static const char changes[] =
    "{random_resized_crop: {size: 64}}, hflip, {color_jitter: {brightness: 0.4, hue: 0.1}}, trivial_augment, "
    "{normalize: {mean: [0.4, 0.5, 0.6], std: [0.2, 0.3, 0.2]}}, {erasing: {value: random}}";
static const char small[] = "{random_resized_crop: {size: [24, 40], scale: [0.01, 0.03]}}, vflip";
static const char padded[] = "{random_crop: {size: 300, pad: 200, fill: 9}}, {resize: [48, 48]}";
static const char crop[] =
    "{random_resized_crop: 64}, hflip, {normalize: {mean: [0.4, 0.5, 0.6], std: [0.2, 0.3, 0.2]}}";
static const char small_planar[] = "{random_resized_crop: {size: 40, scale: [0.01, 0.03]}}, vflip";
static const char tiny[] = "{resize: [3, 3]}";
static const char whole[] = "{resize: [500, 500]}";
static const char eighth[] = "{random_resized_crop: {size: 32, scale: [0.3, 0.35], ratio: [1, 1]}}";

enum { MAX_GROUPS = 4 };

static struct maker make_views(const char *options, const struct group *groups, int group_count)
{
    char text[2000];
    size_t n = (size_t)snprintf(text, sizeof(text), "%s, views: {", options);

    for (int g = 0; g < group_count; g++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%sg%d: {count: %u, ops: [%s], output: {%s}}", g ? ", " : "",
                              g, groups[g].count, groups[g].ops, groups[g].output);
    snprintf(text + n, sizeof(text) - n, "}");
    return make(text);
}

static struct maker make_alone(const char *options, const struct group *group)
{
    char text[1000];

    snprintf(text, sizeof(text), "ops: [%s], output: {%s}, %s", group->ops, group->output, options);
    return make(text);
}

static void compare_group(const struct maker *alone, const struct group *group, enum form form, uint64_t position,
                          uint32_t view, const uint8_t *got, uint64_t got_bytes)
{
    for (uint32_t v = 0; v < group->count; v++) {
        size_t bytes;
        uint8_t *expected = decode_alone(alone, form, position, view + v, &bytes);
        assert_int_equal(bytes * group->count, got_bytes);
        if (memcmp(expected, got + v * bytes, bytes) != 0)
            fail_msg("%s, sample %d: view %u differs", form_names[form], (int)position, view + v);
        hr_free(expected);
    }
}

/* Returns whether the sample was read in part. */
static bool compare_sample(const struct maker *all, const struct maker *alone, const struct group *groups, int count,
                           enum form form, uint64_t position)
{
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {0};
    struct hr_sample_plan plan;
    uint32_t view = 0;

    plan_sample(all, form, position, FIELD, &plan);
    if (form == REPACKED_JPEG)
        hr_chain_plan_parts(all->chain, encodings[form], seek.data, (uint32_t)seek.used, &plan);
    for (int g = 0; g < count; g++)
        dst[g] = hr_alloc(plan.bytes[g]);
    decode(all, &plan, form, dst);
    for (int g = 0; g < count; view += groups[g++].count) {
        compare_group(&alone[g], &groups[g], form, position, view, dst[g], plan.bytes[g]);
        hr_free(dst[g]);
    }
    return plan.seek != NULL;
}

/* Every view of some samples; returns how many were read in part. alone_options: of the fields to compare with. */
static int compare(const char *options, const char *alone_options, const struct group *groups, int count,
                   enum form form, int samples)
{
    struct maker all = make_views(options, groups, count), alone[MAX_GROUPS];
    int parted = 0;

    for (int g = 0; g < count; g++)
        alone[g] = make_alone(alone_options, &groups[g]);
    for (int i = 0; i < samples; i++)
        parted += compare_sample(&all, alone, groups, count, form, (uint64_t)i);
    for (int g = 0; g < count; g++)
        drop(&alone[g]);
    drop(&all);
    return parted;
}

static void views_are_those_of_fields_of_their_own(void **state)
{
    static const struct group groups[] = {{changes, "dtype: f16, layout: nchw", 2}, {small, "dtype: u8", 5},
                                          {padded, "dtype: u8", 1}};

    (void)state;
    for (int form = 0; form < FORMS; form++)
        compare("channels: rgb", "channels: rgb", groups, 3, (enum form)form, 4);
    compare("channels: gray", "channels: gray", groups + 1, 2, REPACKED_JPEG, 2);
    compare("exif: ignore", "exif: ignore", groups + 1, 2, JPEG, 2);
}

static void one_read_of_parts_is_enough_for_all(void **state)
{
    static const struct group groups[] = {{"{random_resized_crop: {size: 32, scale: [0.1, 0.3]}}", "dtype: u8", 2}};
    static const struct group apart[] = {{"{random_crop: 40}", "layout: nchw", 2},
                                         {"{center_crop: 2000}, {random_crop: 30}", "layout: nchw", 2}};

    (void)state;
    assert_in_range(compare("exif: apply", "exif: apply", groups, 1, REPACKED_JPEG, 60), 5, 59);
    /* decoded one by one: far apart, or one beside what is outside of the picture */
    assert_in_range(compare("exif: apply", "exif: apply", apart, 2, REPACKED_JPEG, 60), 20, 60);
    compare("channels: gray", "channels: gray", apart, 2, REPACKED_JPEG, 5);
}

/* Rows come as planes where all views can take them so; a picture that shrinks a lot cannot. */
static void planes_are_for_all_views_or_none(void **state)
{
    static const struct group groups[] = {{crop, "dtype: f16, layout: nchw", 3}, {small_planar, "layout: nchw", 2},
                                          {whole, "dtype: f32, layout: nchw", 1}, {tiny, "layout: nchw", 1}};

    (void)state;
    compare("exif: ignore", "exif: ignore", groups, 3, REPACKED_JPEG, 10);
    compare("exif: ignore", "exif: ignore", groups, 4, REPACKED_JPEG, 3);
    compare("exif: apply", "exif: apply", groups, 3, REPACKED_JPEG, 3);
}

/* The picture is decoded at the size that the most demanding view needs. */
static void views_share_the_least_shrink(void **state)
{
    static const struct group equal[] = {{eighth, "dtype: u8", 3}}, mixed[] = {{whole, "dtype: u8", 1},
                                                                             {eighth, "dtype: u8", 2}};
    static const char scaled[] = "scaled_decode: auto", exact[] = "scaled_decode: never";

    (void)state;
    compare(scaled, scaled, equal, 1, JPEG, 6);
    compare(scaled, scaled, equal, 1, REPACKED_JPEG, 6);
    compare(scaled, exact, mixed, 2, JPEG, 3);
    compare(scaled, exact, mixed, 2, REPACKED_JPEG, 3);
    compare(scaled, exact, equal, 1, PNG, 3);
}

static void a_number_of_views_is_one_array(void **state)
{
    struct maker plain = make("ops: [{random_resized_crop: 32}], output: {layout: nchw}");
    struct maker two = make("ops: [{random_resized_crop: 32}], output: {layout: nchw}, views: 2");
    const struct hr_chain_output *out = hr_chain_output_at(two.chain, 0);
    uint8_t both[2 * 3 * 32 * 32];
    size_t bytes;

    (void)state;
    assert_int_equal(hr_chain_output_count(two.chain), 1);
    assert_string_equal(out->suffix, "");
    assert_int_equal(out->layout, HR_LAYOUT_NVCHW);
    assert_int_equal(out->dims, 4);
    assert_true(out->shape[0] == 2 && out->shape[1] == 3 && out->shape[2] == 32 && out->shape[3] == 32);
    assert_int_equal(out->max_bytes, sizeof(both));
    for (uint32_t i = 0; i < 20; i++) {
        struct hr_sample_plan plan;
        uint8_t *alone = decode_alone(&plain, JPEG, i, 0, &bytes);
        plan_sample(&two, JPEG, i, FIELD, &plan);
        decode(&two, &plan, JPEG, (void *const[HR_CHAIN_MAX_OUTPUTS]){both});
        assert_memory_equal(both, alone, bytes);
        assert_memory_not_equal(both + bytes, alone, bytes);
        hr_free(alone);
    }
    drop(&plain);
    drop(&two);
}

/* Fields and views never share a stream, and what two views draw has nothing to do with each other. */
static void views_draw_apart(void **state)
{
    static bool seen[HR_MAX_FIELDS * HR_CHAIN_MAX_VIEWS];
    struct maker m = make("ops: [{random_resized_crop: 32}], output: {}");
    struct hr_facts facts = facts_of(RAW);
    double sum[2] = {0}, square[2] = {0}, product = 0;
    enum { N = 20000 };

    (void)state;
    for (uint32_t field = 0; field < HR_MAX_FIELDS; field++)
        for (uint32_t view = 0; view < HR_CHAIN_MAX_VIEWS; view++) {
            struct hr_draw_key key = hr_views_key(&(struct hr_draw_key){.stream = field}, view);
            assert_true(key.stream < HR_ARRAY_SIZE(seen) && !seen[key.stream]);
            seen[key.stream] = true;
            assert_true(view || key.stream == field);
        }
    for (uint64_t i = 0; i < N; i++) {
        double at[2];
        for (uint32_t v = 0; v < 2; v++) {
            struct hr_sample_plan plan;
            assert_int_equal(hr_chain_plan(m.chain, &facts, 1, 9, 1, i, FIELD + HR_MAX_FIELDS * v, &plan, NULL), 0);
            at[v] = plan.image.crop_x + plan.image.crop_w / 2.0;
            sum[v] += at[v];
            square[v] += at[v] * at[v];
        }
        product += at[0] * at[1];
    }
    double variance = square[0] / N - sum[0] / N * (sum[0] / N);
    double covariance = product / N - sum[0] / N * (sum[1] / N);
    assert_true(variance > 1000);
    assert_true(covariance * covariance < variance * variance * 16 / N); /* within 4 sigma of none */
    drop(&m);
}

static void steady_state_allocates_nothing(void **state)
{
    static const struct group groups[] = {{changes, "dtype: f16", 2}, {small, "dtype: u8", 8}};
    struct maker m = make_views("scaled_decode: auto", groups, 2);
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {0};

    (void)state;
    for (int g = 0; g < 2; g++)
        dst[g] = hr_alloc(hr_chain_output_at(m.chain, g)->max_bytes);
    for (uint64_t i = 0; i < 60; i++) {
        struct hr_facts facts = facts_of(REPACKED_JPEG);
        struct hr_sample_plan plan;
        if (i > 30) /* a build with the check aborts on an allocation from here on */
            hr_mem_steady_enter();
        int ret = hr_chain_plan(m.chain, &facts, values[REPACKED_JPEG].used, 9, 1, i, FIELD, &plan, NULL);
        if (ret == 0)
            ret = hr_chain_decode(m.chain, m.context, &plan, HR_ENCODING_REPACKED_JPEG, values[REPACKED_JPEG].data,
                                  values[REPACKED_JPEG].used, dst, NULL);
        if (i > 30)
            hr_mem_steady_leave();
        assert_int_equal(ret, 0);
    }
    hr_free(dst[0]);
    hr_free(dst[1]);
    drop(&m);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *field, *text, *hint;
    } mistakes[] = {
        {"views: 2", "one size", "random_resized_crop"},
        {"ops: [{resize: [8, 8]}], output: {ragged: true}, views: 2", "one size", "ragged"},
        {"ops: [{resize: [8, 8]}], views: 0", "from 1 to 64", ""},
        {"ops: [{resize: [8, 8]}], views: 65", "from 1 to 64", ""},
        {"ops: [{resize: [8, 8]}], views: [1, 2]", "a number or a mapping", "views: 2"},
        {"ops: [{resize: [8, 8]}], views: {}", "a number or a mapping", "views: 2"},
        {"views: {a: 2}", "must be a mapping", "count"},
        {"views: {a: {ops: [{resize: [8, 8]}], views: {b: {count: 1}}}}", "views of its own", ""},
        {"views: {a: {ops: [{resize: [8, 8]}], exif: apply}}", "no argument 'exif'", "count"},
        {"views: {a b: {ops: [{resize: [8, 8]}]}}", "name of views", "letters"},
        {"views: {present: {ops: [{resize: [8, 8]}]}}", "name of views", "letters"},
        {"views: {much_too_long_a: {ops: [{resize: [8, 8]}]}}", "name of views", "14"},
        {"views: {a: {ops: [{resize: 8}]}}", "one size", "resize: [H, W]"},
        {"views: {a: {count: 60, ops: [{resize: [8, 8]}]}, b: {count: 5, ops: [{resize: [8, 8]}]}}", "more than 64",
         "count"},
        {"ops: [hflip], views: {a: {ops: [{resize: [8, 8]}]}}", "ops of its own", "move"},
        {"views: {a: {ops: [{resize: [8, 8]}]}, b: {ops: [{resize: [8, 8]}], output: {channels: gray}}}", "some gray",
         "channels"},
        {"views: {a: {ops: [{resize: [8, 8]}, {normalize: {mean: 0, std: 1}}]}}", "fractions", "f16"},
    };

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(mistakes); i++) {
        struct hr_error err = HR_ERROR_INIT;
        struct maker m = {0};
        assert_int_equal(make_type(mistakes[i].field, HR_FIELD_IMAGE, &m, &err), HR_E_CONFIG);
        if (!strstr(err.text, mistakes[i].text) || !strstr(err.hint, mistakes[i].hint) || err.line != 3)
            fail_msg("%s: line %d: %s (%s)", mistakes[i].field, err.line, err.text, err.hint);
    }
    for (int i = 0; i < 2; i++) {
        struct hr_error err = HR_ERROR_INIT;
        struct maker m = {0};
        assert_int_equal(make_type(i ? "views: 2" : "views: {a: {count: 2}}", HR_FIELD_VIDEO, &m, &err), HR_E_CONFIG);
        assert_non_null(strstr(err.text, "works on image fields"));
        assert_int_equal(err.line, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_those_of_fields_of_their_own),
        cmocka_unit_test(one_read_of_parts_is_enough_for_all),
        cmocka_unit_test(planes_are_for_all_views_or_none),
        cmocka_unit_test(views_share_the_least_shrink),
        cmocka_unit_test(a_number_of_views_is_one_array),
        cmocka_unit_test(views_draw_apart),
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(mistakes_are_named),
    };

    return cmocka_run_group_tests_name("views", tests, store_pictures, drop_pictures);
}
