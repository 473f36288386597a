/* Joins a pipeline file with a dataset: resolves fields, builds their chains, names and sizes the
 * arrays of a batch, and digests all that changes what is delivered. */
#include "pipeline/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

struct builder {
    const struct hr_conf *conf;
    const struct hr_dataset *dataset;
    const struct hr_schema *schema;
    struct hr_plan *plan;
    struct hr_buf text; /* canonical description */
    struct hr_error *err;
};

static int fail_at(struct builder *b, const struct hr_conf_field *field, const char *hint)
{
    if (field)
        hr_error_at_file(b->err, b->conf->file, field->line, field->column);
    if (hint)
        hr_error_hint(b->err, "%s", hint);
    return HR_E_CONFIG;
}

static int unknown_field(struct builder *b, const struct hr_conf_field *field)
{
    const char *names[HR_MAX_FIELDS];
    char list[256] = "";

    for (uint32_t i = 0; i < b->schema->field_count; i++) {
        size_t n = strlen(list);
        names[i] = b->schema->fields[i].name;
        snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", names[i]);
    }
    hr_fail(b->err, HR_E_CONFIG, "the dataset has no field '%s'", field->name);
    hr_error_at_file(b->err, b->conf->file, field->line, field->column);
    const char *near = hr_nearest_word(field->name, names, (int)b->schema->field_count);
    if (near)
        hr_error_hint(b->err, "did you mean '%s'? it has: %s", near, list);
    else
        hr_error_hint(b->err, "it has: %s", list);
    return HR_E_CONFIG;
}

static struct hr_plan_output *add_output(struct builder *b, const char *name, const char *suffix,
                                         enum hr_field_type type)
{
    struct hr_plan *plan = b->plan;

    if (plan->output_count == HR_PLAN_MAX_OUTPUTS)
        return NULL;
    struct hr_plan_output *o = &plan->outputs[plan->output_count++];
    *o = (struct hr_plan_output){.field_type = type};
    snprintf(o->name, sizeof(o->name), "%s%s", name, suffix);
    return o;
}

static int too_many_outputs(struct builder *b)
{
    return hr_fail(b->err, HR_E_CONFIG, "the fields make more than %d arrays a batch",
                   HR_PLAN_MAX_OUTPUTS);
}

/* ---- options of fields that are not media ---- */

struct plain_options {
    int64_t max_bytes;
    const char *dtype; /* NULL = as stored */
    int line, column;  /* of the output table */
};

static int read_plain_options(struct builder *b, const struct hr_conf_field *field, bool text,
                              struct plain_options *out)
{
    const struct hr_arg_spec options[] = {
        {.name = "max_bytes", .type = HR_ARG_TYPE_INT, .out = &out->max_bytes, .min = 1,
         .max = 1 << 30},
    };
    bool ragged;
    const struct hr_arg_spec output[] = {
        {.name = "dtype", .type = HR_ARG_TYPE_STR, .out = &out->dtype},
        {.name = "ragged", .type = HR_ARG_TYPE_BOOL, .out = &ragged},
    };
    int ret;

    if (!field)
        return 0;
    if (field->op_count > 0) {
        hr_fail(b->err, HR_E_CONFIG, "op '%s' works on image, video and audio fields, and '%s' is none",
                field->ops[0].name, field->name);
        hr_error_at_file(b->err, b->conf->file, field->ops[0].line, field->ops[0].column);
        return HR_E_CONFIG;
    }
    ret = hr_args_read(&field->options, options, text ? 1 : 0, b->err);
    if (ret < 0)
        return ret;
    for (int i = 0; i < field->table_count; i++) {
        const struct hr_call *table = &field->tables[i];
        if (strcmp(table->name, "output") != 0) {
            hr_fail(b->err, HR_E_CONFIG, "field '%s' takes no '%s'", field->name, table->name);
            hr_error_at_file(b->err, b->conf->file, table->line, table->column);
            return HR_E_CONFIG;
        }
        out->line = table->line;
        out->column = table->column;
        ret = hr_args_read(table, output, HR_ARRAY_SIZE(output), b->err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* Conversions that lose nothing but range that the stored type does not have, or float precision. */
static bool convertible(enum hr_dtype from, enum hr_dtype to)
{
    if (from == to)
        return true;
    switch (from) {
    case HR_DTYPE_U16:
        return to == HR_DTYPE_I32 || to == HR_DTYPE_I64;
    case HR_DTYPE_U32:
        return to == HR_DTYPE_I64 || to == HR_DTYPE_I32;
    case HR_DTYPE_I64:
        return to == HR_DTYPE_I32 || to == HR_DTYPE_F32 || to == HR_DTYPE_F64;
    case HR_DTYPE_F64:
        return to == HR_DTYPE_F32;
    case HR_DTYPE_BOOL:
        return to == HR_DTYPE_U8 || to == HR_DTYPE_I64 || to == HR_DTYPE_F32;
    default:
        return false;
    }
}

static int choose_dtype(struct builder *b, const struct hr_conf_field *field,
                        const struct plain_options *options, enum hr_dtype from, enum hr_dtype *to)
{
    *to = from;
    if (!options->dtype)
        return 0;
    *to = hr_dtype_parse(options->dtype);
    if (*to != HR_DTYPE_NONE && convertible(from, *to))
        return 0;
    hr_fail(b->err, HR_E_CONFIG, "field '%s' is stored as %s and cannot be given as '%s'",
            field->name, hr_dtype_name(from), options->dtype);
    hr_error_at_file(b->err, b->conf->file, options->line, options->column);
    hr_error_hint(b->err, "u16 and u32 become i32 or i64; i64 becomes i32, f32 or f64; f64 becomes "
                          "f32; bool becomes u8, i64 or f32");
    return HR_E_CONFIG;
}

/* ---- one builder per route ---- */

static int add_scalar(struct builder *b, const struct hr_schema_field *sf,
                      const struct hr_conf_field *conf, struct hr_plan_field *f)
{
    static const enum hr_dtype stored[] = {
        [HR_FIELD_I64] = HR_DTYPE_I64, [HR_FIELD_F64] = HR_DTYPE_F64, [HR_FIELD_BOOL] = HR_DTYPE_BOOL};
    struct plain_options options = {0};
    int ret = read_plain_options(b, conf, false, &options);

    if (ret < 0)
        return ret;
    f->from = stored[sf->type];
    ret = choose_dtype(b, conf, &options, f->from, &f->to);
    if (ret < 0)
        return ret;
    struct hr_plan_output *o = add_output(b, sf->name, "", sf->type);
    if (!o)
        return too_many_outputs(b);
    f->route = HR_ROUTE_SCALAR;
    o->dtype = f->to;
    o->sample_bytes = hr_dtype_bytes(f->to);
    return 0;
}

static int add_ragged_bytes(struct builder *b, const struct hr_schema_field *sf,
                            const struct hr_conf_field *conf, const struct hr_field_totals *totals,
                            struct hr_plan_field *f)
{
    struct plain_options options = {0};
    int ret = read_plain_options(b, conf, true, &options);

    if (ret < 0)
        return ret;
    struct hr_plan_output *o = add_output(b, sf->name, "", sf->type);
    if (!o)
        return too_many_outputs(b);
    f->route = sf->type == HR_FIELD_STR ? HR_ROUTE_STR : HR_ROUTE_RAGGED;
    f->from = f->to = HR_DTYPE_U8;
    f->max_bytes = (uint64_t)options.max_bytes;
    o->dtype = HR_DTYPE_U8;
    o->dims = 1;
    o->ragged = true;
    o->sample_bytes = sf->type == HR_FIELD_STR ? HR_STR_BYTES : totals->max_bytes;
    if (f->max_bytes && f->max_bytes < o->sample_bytes)
        o->sample_bytes = f->max_bytes;
    return 0;
}

static int add_array(struct builder *b, const struct hr_schema_field *sf,
                     const struct hr_conf_field *conf, const struct hr_field_totals *totals,
                     struct hr_plan_field *f)
{
    bool tokens = sf->type == HR_FIELD_TOKENS;
    struct plain_options options = {0};
    int ret = read_plain_options(b, conf, false, &options);

    if (ret < 0)
        return ret;
    f->from = sf->dtype != HR_DTYPE_NONE ? sf->dtype : (enum hr_dtype)totals->first.dtype;
    if (hr_dtype_bytes(f->from) == 0) {
        hr_fail(b->err, HR_E_CONFIG, "field '%s' has records of different types", sf->name);
        return fail_at(b, conf, "leave it out, or pack it with one type");
    }
    ret = choose_dtype(b, conf, &options, f->from, &f->to);
    if (ret < 0)
        return ret;
    struct hr_plan_output *o = add_output(b, sf->name, "", sf->type);
    if (!o)
        return too_many_outputs(b);
    uint64_t scale = hr_dtype_bytes(f->to), per = hr_dtype_bytes(f->from);
    o->dtype = f->to;
    if (totals->uniform_shape && totals->present > 0) {
        f->route = HR_ROUTE_FIXED;
        o->dims = tokens ? 1 : totals->first.dims;
        for (uint32_t i = 0; i < o->dims; i++)
            o->shape[i] = tokens ? totals->first.items : totals->first.shape[i];
        o->sample_bytes = totals->max_bytes / per * scale;
        return 0;
    }
    f->route = HR_ROUTE_RAGGED;
    o->ragged = true;
    o->dims = tokens ? 1 : totals->first.dims;
    o->sample_dims = tokens ? 0 : totals->first.dims;
    o->sample_bytes = totals->max_bytes / per * scale;
    return 0;
}

static int add_media(struct builder *b, const struct hr_schema_field *sf,
                     const struct hr_conf_field *conf, const struct hr_field_totals *totals,
                     struct hr_plan_field *f)
{
    struct hr_chain_spec spec = {
        .type = sf->type,
        .field = sf->name,
        .file = b->conf->file,
        .max_width = totals->max_width,
        .max_height = totals->max_height,
        .max_samples = totals->max_samples,
        .max_frames = totals->max_frames,
        .max_sample_rate = totals->max_sample_rate,
        .max_bytes = totals->max_bytes,
    };

    if (conf) {
        spec.line = conf->line;
        spec.column = conf->column;
        spec.ops = conf->ops;
        spec.op_count = conf->op_count;
        spec.options = &conf->options;
        spec.output = hr_conf_field_table(conf, "output");
        spec.clip = hr_conf_field_table(conf, "clip");
    }
    for (int i = 0; conf && i < conf->table_count; i++) {
        const struct hr_call *table = &conf->tables[i];
        if (table == spec.output || table == spec.clip)
            continue;
        hr_fail(b->err, HR_E_CONFIG, "field '%s' takes no '%s'", sf->name, table->name);
        hr_error_at_file(b->err, b->conf->file, table->line, table->column);
        return HR_E_CONFIG;
    }
    int ret = hr_chain_create(&spec, &f->chain, b->err);
    if (ret < 0)
        return ret;
    f->route = HR_ROUTE_CHAIN;
    f->plan_idx = (int)b->plan->chain_count++;
    for (int i = 0; i < hr_chain_output_count(f->chain); i++) {
        const struct hr_chain_output *c = hr_chain_output_at(f->chain, i);
        struct hr_plan_output *o = add_output(b, sf->name, c->suffix, sf->type);
        if (!o)
            return too_many_outputs(b);
        o->dtype = c->dtype;
        o->layout = c->layout;
        o->dims = c->dims;
        memcpy(o->shape, c->shape, sizeof(o->shape));
        o->ragged = c->ragged;
        o->sample_dims = c->ragged ? c->dims : 0;
        o->sample_bytes = c->max_bytes;
    }
    return 0;
}

static int add_present(struct builder *b, const struct hr_schema_field *sf, struct hr_plan_field *f)
{
    struct hr_plan_output *o;

    f->present_output = -1;
    if (!f->may_be_absent)
        return 0;
    f->present_output = (int)b->plan->output_count;
    o = add_output(b, sf->name, ".present", HR_FIELD_BOOL);
    if (!o)
        return too_many_outputs(b);
    o->dtype = HR_DTYPE_BOOL;
    o->sample_bytes = 1;
    return 0;
}

static int add_field(struct builder *b, uint32_t schema_idx, const struct hr_conf_field *conf)
{
    const struct hr_schema_field *sf = &b->schema->fields[schema_idx];
    struct hr_plan_field *f = &b->plan->fields[b->plan->field_count++];
    struct hr_field_totals totals;
    int ret;

    hr_dataset_totals(b->dataset, schema_idx, &totals);
    *f = (struct hr_plan_field){
        .schema_idx = schema_idx,
        .plan_idx = -1,
        .may_be_absent = totals.present < hr_dataset_record_count(b->dataset),
        .first_output = b->plan->output_count,
    };
    if (sf->type == HR_FIELD_STR || sf->type == HR_FIELD_TEXT || sf->type == HR_FIELD_JSON ||
        sf->type == HR_FIELD_BYTES)
        ret = add_ragged_bytes(b, sf, conf, &totals, f);
    else if (hr_field_type_is_scalar(sf->type))
        ret = add_scalar(b, sf, conf, f);
    else if (hr_field_type_is_media(sf->type))
        ret = add_media(b, sf, conf, &totals, f);
    else
        ret = add_array(b, sf, conf, &totals, f);
    if (ret < 0) {
        if (b->err && b->err->line == 0 && conf)
            fail_at(b, conf, NULL);
        return ret;
    }
    f->output_count = b->plan->output_count - f->first_output;
    /* Room for the value itself, or for the block that it comes in. */
    b->plan->max_record_bytes += hr_max_u64(totals.max_bytes, totals.max_stored_bytes) + 4096;
    hr_buf_addf(&b->text, "field %s %s max_bytes=%" PRIu64 " dtype=%s", sf->name,
                hr_field_type_name(sf->type), f->max_bytes,
                hr_dtype_name(b->plan->outputs[f->first_output].dtype));
    if (f->chain)
        hr_buf_addf(&b->text, " %s", hr_chain_describe(f->chain));
    hr_buf_add_str(&b->text, "\n");
    return add_present(b, sf, f);
}

static int add_fields(struct builder *b)
{
    const struct hr_conf *conf = b->conf;
    int ret = 0;

    if (conf->field_count == 0) {
        for (uint32_t i = 0; i < b->schema->field_count && ret == 0; i++)
            ret = add_field(b, i, NULL);
        return ret;
    }
    if (conf->field_count > HR_MAX_FIELDS)
        return hr_fail(b->err, HR_E_CONFIG, "more than %d fields", HR_MAX_FIELDS);
    for (int i = 0; i < conf->field_count && ret == 0; i++) {
        int idx = hr_schema_find(b->schema, conf->fields[i].name);
        if (idx < 0)
            return unknown_field(b, &conf->fields[i]);
        ret = add_field(b, (uint32_t)idx, &conf->fields[i]);
    }
    return ret;
}

static int plan_order(struct builder *b)
{
    static const enum hr_order_kind kinds[] = {[HR_CONF_ORDER_FULL] = HR_ORDER_FULL,
                                               [HR_CONF_ORDER_WINDOW] = HR_ORDER_WINDOW,
                                               [HR_CONF_ORDER_NONE] = HR_ORDER_NONE};
    static const enum hr_last_rule lasts[] = {[HR_CONF_LAST_DROP] = HR_LAST_DROP,
                                              [HR_CONF_LAST_PAD] = HR_LAST_PAD,
                                              [HR_CONF_LAST_WRAP] = HR_LAST_WRAP,
                                              [HR_CONF_LAST_KEEP] = HR_LAST_KEEP};
    static const char *const kind_names[] = {"full", "window", "none"};
    static const char *const last_names[] = {"drop", "pad", "wrap", "keep"};
    static const char *const bad_names[] = {"substitute", "mask", "fail"};
    const struct hr_conf *conf = b->conf;
    struct hr_order_spec spec = {
        .kind = kinds[conf->order],
        .last = lasts[conf->last],
        .seed = conf->seed,
        .record_count = hr_dataset_record_count(b->dataset),
        .batch = conf->batch,
        .block_records = conf->window_block_records,
        .open_blocks = conf->window_open_blocks,
    };

    if (spec.record_count == 0) {
        hr_fail(b->err, HR_E_CONFIG, "dataset '%s' has no records", hr_dataset_path(b->dataset));
        hr_error_at_file(b->err, conf->file, conf->datasets[0].line, conf->datasets[0].column);
        return HR_E_CONFIG;
    }
    int ret = hr_order_init(&b->plan->order, &spec, b->err);
    if (ret < 0) {
        if (b->err && b->err->line == 0)
            hr_error_at_file(b->err, conf->file, conf->batch_line, 0);
        return ret;
    }
    hr_buf_addf(&b->text, "batch %" PRIu64 "\norder %s block=%" PRIu64 " open=%" PRIu64
                          "\nlast %s\nbad %s\n",
                spec.batch, kind_names[conf->order],
                spec.kind == HR_ORDER_WINDOW ? b->plan->order.spec.block_records : 0,
                spec.kind == HR_ORDER_WINDOW ? b->plan->order.spec.open_blocks : 0,
                last_names[conf->last], bad_names[conf->bad_records]);
    return 0;
}

static int build(struct builder *b)
{
    struct hr_plan *plan = b->plan;
    const struct hr_conf *conf = b->conf;
    int ret;

    if (conf->dataset_count != 1) {
        hr_fail(b->err, HR_E_CONFIG, "a mixture of %d datasets is not possible yet",
                conf->dataset_count);
        hr_error_at_file(b->err, conf->file, conf->datasets[conf->dataset_count - 1].line,
                         conf->datasets[conf->dataset_count - 1].column);
        hr_error_hint(b->err, "give one dataset");
        return HR_E_CONFIG;
    }
    plan->dataset = b->dataset;
    plan->bad_records = conf->bad_records;
    plan->bad_budget = conf->bad_budget;
    plan->bad_consecutive = conf->bad_consecutive;
    plan->epochs = (uint64_t)conf->epochs;
    plan->storage_deadline_s = conf->storage_deadline_s;
    plan->slot_count = (uint32_t)conf->slots;
    ret = plan_order(b);
    if (ret == 0)
        ret = add_fields(b);
    if (ret < 0)
        return ret;
    if (hr_buf_failed(&b->text))
        return hr_fail(b->err, HR_E_NOMEM, "no memory for the plan");
    plan->digest = hr_digest_of(hr_buf_str(&b->text), b->text.used);
    plan->description = hr_strdup(hr_buf_str(&b->text));
    return plan->description ? 0 : hr_fail(b->err, HR_E_NOMEM, "no memory for the plan");
}

int hr_plan_create(const struct hr_conf *conf, const struct hr_dataset *dataset,
                   struct hr_plan **out, struct hr_error *err)
{
    struct builder b = {
        .conf = conf,
        .dataset = dataset,
        .schema = hr_dataset_schema(dataset),
        .plan = hr_alloc_zero(1, sizeof(*b.plan)),
        .err = err,
    };

    if (!b.plan)
        return hr_fail(err, HR_E_NOMEM, "no memory for the plan");
    int ret = build(&b);
    hr_buf_finish(&b.text);
    if (ret < 0)
        hr_plan_destroy(b.plan);
    else
        *out = b.plan;
    return ret;
}

void hr_plan_destroy(struct hr_plan *plan)
{
    if (!plan)
        return;
    for (uint32_t i = 0; i < plan->field_count; i++)
        hr_chain_destroy(plan->fields[i].chain);
    hr_free(plan->description);
    hr_free(plan);
}
