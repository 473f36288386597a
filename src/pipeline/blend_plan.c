/* The `blend` of a pipeline file, checked against the fields that a plan delivers. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "pipeline/blend.h"
#include "pipeline/plan_parts.h"

enum { MAX_CLASSES = 1000000 };

static const char *const mode_names[] = {"pair", "batch", "elem", "roll", NULL};

struct options {
    const struct hr_arg *images, *labels;
    int image_count, label_count, mode;
    int64_t num_classes; /* 0 = not given */
    double p, switch_p;  /* below 0 = not given */
    double smoothing, mixup_alpha, cutmix_alpha;
};

struct reader {
    const struct hr_conf *conf;
    struct hr_plan *plan;
    struct options o;
    struct hr_error *err;
};

/* ---- reading ---- */

static int read_alpha(const struct reader *r, const struct hr_call *call, double *alpha)
{
    const struct hr_arg_spec specs[] = {
        {.name = "alpha", .type = HR_ARG_TYPE_FLOAT, .out = alpha, .min = 1e-3, .max = 1e3, .positional = true}};

    if (!call->name)
        return 0;
    *alpha = 1;
    return hr_args_read(call, specs, 1, r->err);
}

static int read_options(struct reader *r)
{
    const struct hr_conf_blend *blend = r->conf->blend;
    struct options *o = &r->o;
    const struct hr_arg_spec specs[] = {
        {.name = "images", .type = HR_ARG_TYPE_STRS, .out = &o->images, .required = true, .min_items = 1,
         .max_items = HR_BLEND_MAX_FIELDS, .count = &o->image_count},
        {.name = "labels", .type = HR_ARG_TYPE_STRS, .out = &o->labels, .required = true, .min_items = 1,
         .max_items = 1, .count = &o->label_count},
        {.name = "num_classes", .type = HR_ARG_TYPE_INT, .out = &o->num_classes, .min = 1, .max = MAX_CLASSES},
        {.name = "mode", .type = HR_ARG_TYPE_ENUM, .out = &o->mode, .choices = mode_names},
        {.name = "p", .type = HR_ARG_TYPE_FLOAT, .out = &o->p, .min = 0, .max = 1},
        {.name = "switch", .type = HR_ARG_TYPE_FLOAT, .out = &o->switch_p, .min = 0, .max = 1},
        {.name = "smoothing", .type = HR_ARG_TYPE_FLOAT, .out = &o->smoothing, .min = 0, .max = 0.999},
        /* never in this call: for the list of what is known */
        {.name = "mixup", .type = HR_ARG_TYPE_FLOAT, .out = &o->mixup_alpha},
        {.name = "cutmix", .type = HR_ARG_TYPE_FLOAT, .out = &o->cutmix_alpha},
    };
    int ret = hr_args_read(&blend->options, specs, HR_ARRAY_SIZE(specs), r->err);

    if (ret == 0)
        ret = read_alpha(r, &blend->mixup, &o->mixup_alpha);
    if (ret == 0)
        ret = read_alpha(r, &blend->cutmix, &o->cutmix_alpha);
    return ret;
}

static int fail_at(const struct reader *r, int line, int column, const char *hint)
{
    hr_error_at_file(r->err, r->conf->file, line, column);
    hr_error_hint(r->err, "%s", hint);
    return HR_E_CONFIG;
}

static int fail_at_arg(const struct reader *r, const struct hr_arg *arg, const char *hint)
{
    return fail_at(r, arg->line, arg->column, hint);
}

static int fail_at_blend(const struct reader *r, const char *hint)
{
    return fail_at(r, r->conf->blend->options.line, r->conf->blend->options.column, hint);
}

static int check_choice(struct reader *r)
{
    struct options *o = &r->o;

    if (o->mixup_alpha == 0 && o->cutmix_alpha == 0) {
        hr_fail(r->err, HR_E_CONFIG, "'blend' has neither mixup nor cutmix");
        return fail_at_blend(r, "add 'mixup: 0.2' or 'cutmix: 1', the number being alpha, or both");
    }
    if (o->switch_p >= 0 && (o->mixup_alpha == 0 || o->cutmix_alpha == 0)) {
        hr_fail(r->err, HR_E_CONFIG, "'switch' chooses between mixup and cutmix, and there is one of them");
        return fail_at_blend(r, "leave 'switch' out, or name both");
    }
    if (o->switch_p < 0)
        o->switch_p = 0.5;
    return 0;
}

/* ---- fields ---- */

static struct hr_plan_field *find_field(const struct reader *r, const struct hr_arg *arg)
{
    struct hr_plan *plan = r->plan;
    const char *names[HR_MAX_FIELDS];

    for (uint32_t i = 0; i < plan->field_count; i++) {
        names[i] = plan->fields[i].name;
        if (strcmp(names[i], arg->text) == 0)
            return &plan->fields[i];
    }
    hr_fail(r->err, HR_E_CONFIG, "no field '%s' is delivered", arg->text);
    const char *near = hr_nearest_word(arg->text, names, (int)plan->field_count);
    fail_at_arg(r, arg, "list it under 'fields'");
    if (near)
        hr_error_hint(r->err, "did you mean '%s'?", near);
    return NULL;
}

/* The axes of a picture are the last ones; all before them are planes. False when it is no picture. */
static bool shape_of(const struct hr_plan_output *o, struct hr_blend_shape *shape)
{
    const char *layout = hr_layout_name(o->layout);
    uint32_t last = strchr(layout, 'h') && layout[strlen(layout) - 1] == 'c';

    if (!strchr(layout, 'h') || o->dims < 2 + last)
        return false;
    *shape = (struct hr_blend_shape){
        .type = hr_lerp_type_of(o->dtype),
        .value_bytes = (uint32_t)hr_dtype_bytes(o->dtype),
        .planes = 1,
        .height = (uint32_t)o->shape[o->dims - last - 2],
        .width = (uint32_t)o->shape[o->dims - last - 1],
        .channels = last ? (uint32_t)o->shape[o->dims - 1] : 1,
    };
    for (uint32_t i = 0; i + last + 2 < o->dims; i++)
        shape->planes *= o->shape[i];
    return shape->type != HR_LERP_COUNT;
}

static int check_size(struct reader *r, struct hr_blend *blend, const struct hr_arg *arg,
                      const struct hr_blend_shape *shape)
{
    struct hr_blend_spec *spec = &blend->spec;

    if (blend->array_count > 0 && spec->cutmix_alpha > 0 &&
        (spec->height != shape->height || spec->width != shape->width)) {
        hr_fail(r->err, HR_E_CONFIG, "cutmix of '%s', whose pictures are not as large as the first ones", arg->text);
        return fail_at_arg(r, arg, "one box must fit all pictures: make them of one size, or use mixup alone");
    }
    spec->height = shape->height;
    spec->width = shape->width;
    return 0;
}

/* Boxes, keypoints and masks belong to one picture, and to none that is mixed of two. */
static int check_followers(struct reader *r, const struct hr_arg *arg, const struct hr_plan_field *f)
{
    const struct hr_plan *plan = r->plan;

    if (f->leader >= 0) {
        hr_fail(r->err, HR_E_CONFIG, "'%s' is a mask, whose class ids cannot be mixed", arg->text);
        return fail_at_arg(r, arg, "mix pictures that nothing follows");
    }
    for (uint32_t i = 0; i < plan->field_count; i++)
        if (plan->fields[i].leader == f - plan->fields) {
            hr_fail(r->err, HR_E_CONFIG, "'%s' follows '%s', which is mixed of two pictures", plan->fields[i].name,
                    arg->text);
            return fail_at_arg(r, arg, "leave the blend out, or what follows the picture");
        }
    return 0;
}

static int add_images(struct reader *r, struct hr_blend *blend, const struct hr_arg *arg)
{
    const struct hr_plan *plan = r->plan;
    const struct hr_plan_field *f = find_field(r, arg);
    uint32_t before = blend->array_count;

    int ret = f ? check_followers(r, arg, f) : HR_E_CONFIG;
    if (ret < 0)
        return ret;
    for (uint32_t i = 0; i < blend->field_count; i++)
        if (&plan->fields[blend->fields[i]] == f) {
            hr_fail(r->err, HR_E_CONFIG, "'%s' is listed twice", arg->text);
            return fail_at_arg(r, arg, "");
        }
    for (uint32_t i = f->first_output; i < f->first_output + f->output_count; i++) {
        struct hr_blend_array *array = &blend->arrays[blend->array_count];
        if (!shape_of(&plan->outputs[i], &array->shape))
            continue;
        if (plan->outputs[i].ragged) {
            hr_fail(r->err, HR_E_CONFIG, "pictures of '%s' have different sizes, so they cannot be mixed", arg->text);
            return fail_at_arg(r, arg, "end its ops with a crop or 'resize: [H, W]', and leave 'ragged' out");
        }
        ret = check_size(r, blend, arg, &array->shape);
        if (ret < 0)
            return ret;
        array->output = i;
        blend->array_count++;
    }
    if (blend->array_count == before) {
        hr_fail(r->err, HR_E_CONFIG, "mixup and cutmix work on image and video fields, and '%s' is %s", arg->text,
                hr_field_type_name(plan->outputs[f->first_output].field_type));
        return fail_at_arg(r, arg, "");
    }
    blend->fields[blend->field_count++] = (uint32_t)(f - plan->fields);
    return 0;
}

/* The classes that all datasets know by name; 0 where they do not, or do not agree. */
static uint32_t named_classes(const struct hr_plan *plan, const struct hr_plan_field *f)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < plan->sources.count; i++) {
        const struct hr_schema *schema = hr_dataset_schema(hr_plan_dataset(plan, i));
        if (f->schema_idx[i] < 0)
            continue;
        if (schema->class_field != f->schema_idx[i] || (count && count != schema->class_count))
            return 0;
        count = schema->class_count;
    }
    return count;
}

static int set_classes(struct reader *r, struct hr_blend *blend, const struct hr_plan_field *f)
{
    int64_t given = r->o.num_classes;

    blend->class_count = given ? (uint32_t)given : named_classes(r->plan, f);
    if (blend->class_count == 0) {
        hr_fail(r->err, HR_E_CONFIG, "'blend' needs 'num_classes'");
        return fail_at_blend(r, "'num_classes: 1000'; only where the dataset has names for its classes it is known");
    }
    blend->off = r->o.smoothing / blend->class_count;
    blend->on = 1 - r->o.smoothing + blend->off;
    return 0;
}

/* The label becomes a row of weights. */
static int set_labels(struct reader *r, struct hr_blend *blend)
{
    const struct hr_arg *arg = r->o.labels;
    struct hr_plan_field *f = find_field(r, arg);

    if (!f)
        return HR_E_CONFIG;
    struct hr_plan_output *o = &r->plan->outputs[f->first_output];
    if (f->route != HR_ROUTE_SCALAR || f->from != HR_DTYPE_I64) {
        hr_fail(r->err, HR_E_CONFIG, "labels must be whole numbers, and '%s' is %s", arg->text,
                hr_field_type_name(o->field_type));
        return fail_at_arg(r, arg, "name a field of type i64: the number of the class");
    }
    if (f->to != HR_DTYPE_I64 && f->to != HR_DTYPE_F32) {
        hr_fail(r->err, HR_E_CONFIG, "mixed labels are weights of classes, f32, and '%s' is asked for as %s",
                arg->text, hr_dtype_name(f->to));
        return fail_at_arg(r, arg, "leave its 'output' out");
    }
    int ret = set_classes(r, blend, f);
    if (ret < 0)
        return ret;
    f->classes = blend->class_count;
    blend->label_output = f->first_output;
    o->dtype = HR_DTYPE_F32;
    o->dims = 1;
    o->shape[0] = blend->class_count;
    o->sample_bytes = sizeof(float) * (uint64_t)blend->class_count;
    return 0;
}

static void describe(const struct reader *r, const struct hr_blend *blend, struct hr_buf *text)
{
    const struct options *o = &r->o;

    hr_buf_addf(text, "blend images=");
    for (uint32_t i = 0; i < blend->field_count; i++)
        hr_buf_addf(text, "%s%s", i ? "," : "", r->plan->fields[blend->fields[i]].name);
    hr_buf_addf(text, " labels=%s num_classes=%u smoothing=%.17g mode=%s p=%.17g", o->labels->text,
                blend->class_count, o->smoothing, mode_names[o->mode], o->p);
    if (o->mixup_alpha > 0)
        hr_buf_addf(text, " mixup=%.17g", o->mixup_alpha);
    if (o->cutmix_alpha > 0)
        hr_buf_addf(text, " cutmix=%.17g", o->cutmix_alpha);
    if (o->mixup_alpha > 0 && o->cutmix_alpha > 0)
        hr_buf_addf(text, " switch=%.17g", o->switch_p);
}

static int fill(struct reader *r, struct hr_blend *blend)
{
    struct options *o = &r->o;
    int ret = read_options(r);

    if (ret == 0)
        ret = check_choice(r);
    if (ret < 0)
        return ret;
    blend->mode = (enum hr_blend_mode)o->mode;
    blend->lerp = hr_lerp_get();
    blend->spec = (struct hr_blend_spec){
        .p = o->p, .mixup_alpha = o->mixup_alpha, .cutmix_alpha = o->cutmix_alpha, .switch_p = o->switch_p};
    for (int i = 0; i < o->image_count && ret == 0; i++)
        ret = add_images(r, blend, &o->images[i]);
    if (ret == 0)
        ret = set_labels(r, blend);
    return ret;
}

int hr_blend_plan(const struct hr_conf *conf, struct hr_plan *plan, struct hr_error *err)
{
    struct reader r = {.conf = conf, .plan = plan, .o = {.p = 1, .switch_p = -1}, .err = err};
    struct hr_buf text = {0};
    struct hr_blend *blend;

    if (!conf->blend)
        return 0;
    blend = plan->blend = hr_alloc_zero(1, sizeof(*blend)); /* freed with the plan */
    if (!blend)
        return hr_fail(err, HR_E_NOMEM, "no memory for the plan");
    int ret = fill(&r, blend);
    if (ret < 0)
        return ret;
    describe(&r, blend, &text);
    if (!hr_buf_failed(&text)) {
        hr_plan_add_part(plan, "'blend'", hr_buf_str(&text), text.used);
        blend->description = hr_strdup(hr_buf_str(&text));
    }
    hr_buf_finish(&text);
    return blend->description ? 0 : hr_fail(err, HR_E_NOMEM, "no memory for the plan");
}

void hr_blend_destroy(struct hr_blend *blend)
{
    if (blend)
        hr_free(blend->description);
    hr_free(blend);
}

int hr_blend_check_world(const struct hr_plan *plan, uint32_t world, struct hr_error *err)
{
    uint64_t batch = plan->order.spec.batch, share = batch / world;

    if (!plan->blend || plan->blend->mode == HR_BLEND_ROLL || share % 2 == 0)
        return 0;
    hr_fail(err, HR_E_CONFIG,
            "'blend' mixes neighbours of the global batch, and shares of %llu (batch %llu, %u rank%s) "
            "part some of them", (unsigned long long)share, (unsigned long long)batch, world, world == 1 ? "" : "s");
    hr_error_hint(err, "make 'batch' a multiple of %llu, or take 'mode: roll', which mixes within each rank's share",
                  2 * (unsigned long long)world);
    return HR_E_CONFIG;
}
