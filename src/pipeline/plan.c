/* Joins a pipeline file with its datasets: resolves fields, builds their chains, names and sizes the
 * arrays of a batch, and digests all that changes what is delivered. */
#include "pipeline/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "decoders/ops/follow.h"
#include "pipeline/blend.h"
#include "pipeline/follow.h"
#include "pipeline/plan_parts.h"
#include "shards/index.h"

/* A field of any of the sources. */
struct merged_field {
    struct hr_schema_field field;
    uint32_t first_source; /* that has it */
    struct hr_field_totals totals;
    int16_t *schema_idx; /* [source] */
};

struct builder {
    const struct hr_conf *conf;
    struct hr_plan *plan;
    struct merged_field *merged;
    uint32_t merged_count;
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

static int find_merged(const struct builder *b, const char *name)
{
    for (uint32_t i = 0; i < b->merged_count; i++)
        if (strcmp(b->merged[i].field.name, name) == 0)
            return (int)i;
    return -1;
}

static int unknown_field(struct builder *b, const struct hr_conf_field *field)
{
    const char *names[HR_MAX_FIELDS];
    char list[256] = "";

    for (uint32_t i = 0; i < b->merged_count; i++) {
        size_t n = strlen(list);
        names[i] = b->merged[i].field.name;
        snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", names[i]);
    }
    const char *has = b->plan->sources.count > 1 ? "they have" : "it has";
    hr_fail(b->err, HR_E_CONFIG,
            b->plan->sources.count > 1 ? "none of the datasets has a field '%s'"
                                       : "the dataset has no field '%s'", field->name);
    hr_error_at_file(b->err, b->conf->file, field->line, field->column);
    const char *near = hr_nearest_word(field->name, names, (int)b->merged_count);
    if (near)
        hr_error_hint(b->err, "did you mean '%s'? %s: %s", near, has, list);
    else
        hr_error_hint(b->err, "%s: %s", has, list);
    return HR_E_CONFIG;
}

/* ---- the fields of all sources ---- */

static int differ(struct builder *b, const struct merged_field *m, uint32_t source,
                  const char *one, const char *other)
{
    const struct hr_sources *sources = &b->plan->sources;

    hr_fail(b->err, HR_E_CONFIG, "field '%s' is %s in '%s' and %s in '%s'", m->field.name, one,
            sources->items[m->first_source].path, other, sources->items[source].path);
    hr_error_at_file(b->err, b->conf->file, b->conf->datasets[source].line,
                     b->conf->datasets[source].column);
    hr_error_hint(b->err, "fields of one name must be of one type: pack one of them anew under "
                          "another name");
    return HR_E_CONFIG;
}

static int merge_field(struct builder *b, struct merged_field *m, uint32_t source,
                       const struct hr_schema_field *sf)
{
    struct hr_schema_field *known = &m->field;

    if (known->type != sf->type)
        return differ(b, m, source, hr_field_type_name(known->type), hr_field_type_name(sf->type));
    if (known->dtype != sf->dtype)
        return differ(b, m, source, hr_dtype_name(known->dtype), hr_dtype_name(sf->dtype));
    if (known->dims != sf->dims)
        known->dims = 0; /* shapes differ: ragged */
    return 0;
}

static int merge_source(struct builder *b, uint32_t source)
{
    const struct hr_dataset *dataset = hr_plan_dataset(b->plan, source);
    const struct hr_schema *schema = hr_dataset_schema(dataset);

    for (uint32_t i = 0; i < schema->field_count; i++) {
        const struct hr_schema_field *sf = &schema->fields[i];
        struct hr_field_totals totals;
        int at = find_merged(b, sf->name);
        if (at < 0 && b->merged_count == HR_MAX_FIELDS)
            return hr_fail(b->err, HR_E_CONFIG, "the datasets have more than %d fields in all",
                           HR_MAX_FIELDS);
        if (at < 0) {
            at = (int)b->merged_count++;
            b->merged[at].field = *sf;
            b->merged[at].first_source = source;
        }
        struct merged_field *m = &b->merged[at];
        int ret = merge_field(b, m, source, sf);
        if (ret < 0)
            return ret;
        m->schema_idx[source] = (int16_t)i;
        hr_dataset_totals(dataset, i, &totals);
        hr_totals_add(&m->totals, &totals);
    }
    return 0;
}

static int merge_sources(struct builder *b)
{
    uint32_t sources = b->plan->sources.count;
    int ret = 0;

    b->merged = hr_alloc_zero(HR_MAX_FIELDS, sizeof(*b->merged));
    b->plan->schema_idx = hr_alloc_zero((size_t)HR_MAX_FIELDS * sources, sizeof(int16_t));
    if (!b->merged || !b->plan->schema_idx)
        return hr_fail(b->err, HR_E_NOMEM, "no memory for the plan");
    for (uint32_t i = 0; i < HR_MAX_FIELDS * sources; i++)
        b->plan->schema_idx[i] = -1;
    for (uint32_t i = 0; i < HR_MAX_FIELDS; i++)
        b->merged[i].schema_idx = b->plan->schema_idx + (size_t)i * sources;
    for (uint32_t i = 0; i < sources && ret == 0; i++)
        ret = merge_source(b, i);
    return ret;
}

/* ---- options of fields that are not media ---- */

struct plain_options {
    int64_t max_bytes;
    const char *dtype; /* NULL = as stored */
    int line, column;  /* of the output table */
};

static int refuse_table(struct builder *b, const char *of, const struct hr_call *table)
{
    hr_fail(b->err, HR_E_CONFIG, "field '%s' takes no '%s'", of, table->name);
    hr_error_at_file(b->err, b->conf->file, table->line, table->column);
    return HR_E_CONFIG;
}

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
        if (strcmp(table->name, "output") != 0)
            return refuse_table(b, field->name, table);
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
    struct hr_plan_output *o = hr_plan_add_output(b->plan, sf->name, "", sf->type);
    if (!o)
        return hr_plan_too_many_outputs(b->err);
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
    struct hr_plan_output *o = hr_plan_add_output(b->plan, sf->name, "", sf->type);
    if (!o)
        return hr_plan_too_many_outputs(b->err);
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
    struct hr_plan_output *o = hr_plan_add_output(b->plan, sf->name, "", sf->type);
    if (!o)
        return hr_plan_too_many_outputs(b->err);
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

/* Views that the pipeline file names, at most HR_CHAIN_MAX_OUTPUTS + 1 of them: one more is refused by the chain. */
static int read_views(struct builder *b, const struct hr_conf_field *conf, struct hr_chain_view_spec *views,
                      int *count)
{
    *count = conf->view_count > HR_CHAIN_MAX_OUTPUTS ? HR_CHAIN_MAX_OUTPUTS + 1 : conf->view_count;
    for (int i = 0; i < *count; i++) {
        const struct hr_conf_field *view = &conf->views[i];
        views[i] = (struct hr_chain_view_spec){
            .name = view->name, .line = view->line, .column = view->column, .ops = view->ops,
            .op_count = view->op_count, .options = &view->options, .output = hr_conf_field_table(view, "output")};
        for (int k = 0; k < view->table_count; k++)
            if (&view->tables[k] != views[i].output)
                return refuse_table(b, view->name, &view->tables[k]);
    }
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
        .max_duration_ns = totals->max_duration_ns,
        .max_channels = totals->max_channels,
        .max_bytes = totals->max_bytes,
    };
    struct hr_chain_view_spec views[HR_CHAIN_MAX_OUTPUTS + 1];
    int ret = 0;

    if (conf) {
        spec.line = conf->line;
        spec.column = conf->column;
        spec.ops = conf->ops;
        spec.op_count = conf->op_count;
        spec.options = &conf->options;
        spec.output = hr_conf_field_table(conf, "output");
        spec.clip = hr_conf_field_table(conf, "clip");
        spec.views = views;
        ret = read_views(b, conf, views, &spec.view_spec_count);
        if (ret < 0)
            return ret;
    }
    if (f->leader >= 0)
        spec.leader = b->plan->fields[f->leader].chain;
    for (int i = 0; conf && i < conf->table_count; i++) {
        const struct hr_call *table = &conf->tables[i];
        if (table == spec.output || table == spec.clip)
            continue;
        return refuse_table(b, sf->name, table);
    }
    ret = hr_chain_create(&spec, &f->chain, b->err);
    if (ret < 0)
        return ret;
    f->route = HR_ROUTE_CHAIN;
    f->plan_idx = (int)b->plan->chain_count++;
    f->stream = f->leader < 0 ? (uint32_t)f->plan_idx : b->plan->fields[f->leader].stream;
    for (int i = 0; i < hr_chain_output_count(f->chain); i++) {
        const struct hr_chain_output *c = hr_chain_output_at(f->chain, i);
        struct hr_plan_output *o = hr_plan_add_output(b->plan, sf->name, c->suffix, sf->type);
        if (!o)
            return hr_plan_too_many_outputs(b->err);
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
    o = hr_plan_add_output(b->plan, sf->name, ".present", HR_FIELD_BOOL);
    if (!o)
        return hr_plan_too_many_outputs(b->err);
    o->dtype = HR_DTYPE_BOOL;
    o->sample_bytes = 1;
    return 0;
}

static int join_leader(struct builder *b, const struct hr_schema_field *sf, const struct hr_conf_field *conf,
                       struct hr_plan_field *f)
{
    uint32_t leader = 0;
    int ret = hr_follow_check_type(sf, conf, b->err);

    if (ret == 0)
        ret = hr_follow_leader(b->plan, conf, &leader, b->err);
    if (ret < 0)
        return ret;
    f->leader = (int)leader;
    f->stream = b->plan->fields[leader].stream;
    f->may_be_absent |= b->plan->fields[leader].may_be_absent;
    return 0;
}

static int add_field(struct builder *b, uint32_t merged_idx, const struct hr_conf_field *conf)
{
    const struct merged_field *m = &b->merged[merged_idx];
    const struct hr_schema_field *sf = &m->field;
    struct hr_plan_field *f = &b->plan->fields[b->plan->field_count++];
    struct hr_field_totals totals = m->totals;
    size_t text_start = b->text.used;
    int ret;

    *f = (struct hr_plan_field){
        .schema_idx = m->schema_idx,
        .plan_idx = -1,
        .leader = -1,
        .may_be_absent = totals.present < b->plan->sources.record_count,
        .first_output = b->plan->output_count,
    };
    snprintf(f->name, sizeof(f->name), "%s", sf->name);
    ret = hr_follow_option(conf) ? join_leader(b, sf, conf, f) : 0;
    if (ret < 0)
        return ret;
    if (conf && conf->view_count > 0 && !hr_field_type_is_media(sf->type)) {
        hr_fail(b->err, HR_E_CONFIG, "'views' works on image fields, and '%s' is none", conf->name);
        return fail_at(b, &conf->views[0], NULL);
    }
    if (f->leader >= 0 && sf->type == HR_FIELD_TENSOR)
        ret = hr_follow_plan_array(b->plan, f, sf, conf, &totals, b->err);
    else if (sf->type == HR_FIELD_STR || sf->type == HR_FIELD_TEXT || sf->type == HR_FIELD_JSON ||
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
    if (f->leader >= 0)
        hr_buf_addf(&b->text, " follow=%s", b->plan->fields[f->leader].name);
    if (f->follow) {
        hr_buf_add_str(&b->text, " ");
        hr_follow_describe(f->follow, &b->text);
    }
    if (!hr_buf_failed(&b->text))
        hr_plan_add_field_parts(b->plan, sf->name, hr_buf_str(&b->text) + text_start);
    hr_buf_add_str(&b->text, "\n");
    return add_present(b, sf, f);
}

/* Names of views and the like can make a name that another field has. */
static int check_names(struct builder *b)
{
    const struct hr_plan *plan = b->plan;

    for (uint32_t i = 0; i < plan->output_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(plan->outputs[i].name, plan->outputs[k].name) == 0)
                return hr_fail(b->err, HR_E_CONFIG, "two arrays of a batch would be named '%s'", plan->outputs[i].name);
    return 0;
}

static int add_fields(struct builder *b)
{
    const struct hr_conf *conf = b->conf;
    int ret = 0;

    if (conf->field_count == 0) {
        for (uint32_t i = 0; i < b->merged_count && ret == 0; i++)
            ret = add_field(b, i, NULL);
        return ret < 0 ? ret : check_names(b);
    }
    if (conf->field_count > HR_MAX_FIELDS)
        return hr_fail(b->err, HR_E_CONFIG, "more than %d fields", HR_MAX_FIELDS);
    /* Those that follow another come after all that do not, so that a mask changes nobody's draws. */
    for (int i = 0; i < 2 * conf->field_count && ret == 0; i++) {
        const struct hr_conf_field *field = &conf->fields[i % conf->field_count];
        if ((hr_follow_option(field) != NULL) != (i >= conf->field_count))
            continue;
        int idx = find_merged(b, field->name);
        if (idx < 0)
            return unknown_field(b, field);
        ret = add_field(b, (uint32_t)idx, field);
    }
    return ret < 0 ? ret : check_names(b);
}

/* Mixture and filters, where there are any. */
static void describe_sources(struct builder *b)
{
    static const char *const stop_names[] = {"all_exhausted", "first_exhausted", "steps"};
    const struct hr_conf *conf = b->conf;
    bool mixed = conf->dataset_count > 1 || conf->datasets[0].repeats;
    size_t start = b->text.used;

    for (int i = 0; mixed && i < conf->dataset_count; i++) {
        uint64_t total, share = hr_order_share_of(&b->plan->order, (uint32_t)i, &total);
        hr_buf_addf(&b->text, "source %d share=%" PRIu64 "/%" PRIu64 " repeats=%" PRIu64 "\n", i, share,
                    total, conf->datasets[i].repeats);
    }
    if (mixed)
        hr_buf_addf(&b->text, "stop %s %" PRIu64 "\n", stop_names[conf->stop], conf->stop_steps);
    hr_plan_add_part(b->plan, "the mixture (weights, repeats, stop)", hr_buf_str(&b->text) + start,
                     b->text.used - start);
    start = b->text.used;
    if (conf->where.text)
        hr_buf_addf(&b->text, "where %s\n", conf->where.text);
    for (int i = 0; i < conf->dataset_count; i++)
        if (conf->datasets[i].where.text)
            hr_buf_addf(&b->text, "where of source %d %s\n", i, conf->datasets[i].where.text);
    hr_plan_add_part(b->plan, "a filter ('where')", hr_buf_str(&b->text) + start,
                     b->text.used - start);
}

static int plan_order(struct builder *b)
{
    static const char *const kind_names[] = {"full", "window", "none"};
    static const char *const last_names[] = {"drop", "pad", "wrap", "keep"};
    static const char *const bad_names[] = {"substitute", "mask", "fail"};
    const struct hr_conf *conf = b->conf;
    const struct hr_order_spec *spec = &b->plan->order.spec;
    bool window = conf->order == HR_CONF_ORDER_WINDOW;

    int ret = hr_sources_order(conf, &b->plan->sources, &b->plan->order, b->err);
    if (ret < 0)
        return ret;
    hr_plan_add_source_parts(b->plan);
    hr_plan_add_part(b->plan, "'batch'", &spec->batch, sizeof(spec->batch));
    size_t start = b->text.used;
    hr_buf_addf(&b->text, "batch %" PRIu64 "\norder %s block=%" PRIu64 " open=%" PRIu64
                          "\nlast %s\nbad %s\n",
                spec->batch, kind_names[conf->order], window ? spec->block_records : 0,
                window ? spec->open_blocks : 0, last_names[conf->last],
                bad_names[conf->bad_records]);
    if (!hr_buf_failed(&b->text))
        hr_plan_add_part(b->plan, "'order', 'last' or 'bad_records'", hr_buf_str(&b->text) + start,
                         b->text.used - start);
    if (!hr_buf_failed(&b->text))
        describe_sources(b);
    return 0;
}

static int build(struct builder *b)
{
    struct hr_plan *plan = b->plan;
    const struct hr_conf *conf = b->conf;
    int ret;

    plan->bad_records = conf->bad_records;
    plan->bad_budget = conf->bad_budget;
    plan->bad_consecutive = conf->bad_consecutive;
    plan->epochs = (uint64_t)conf->epochs;
    plan->storage_deadline_s = conf->storage_deadline_s;
    plan->slot_count = (uint32_t)conf->slots;
    ret = merge_sources(b);
    if (ret == 0)
        ret = plan_order(b);
    if (ret == 0)
        ret = add_fields(b);
    if (ret == 0)
        ret = hr_blend_plan(conf, plan, b->err);
    if (ret < 0)
        return ret;
    if (plan->blend)
        hr_buf_addf(&b->text, "%s\n", plan->blend->description);
    if (hr_buf_failed(&b->text))
        return hr_fail(b->err, HR_E_NOMEM, "no memory for the plan");
    plan->digest = hr_digest_of(hr_buf_str(&b->text), b->text.used);
    plan->description = hr_strdup(hr_buf_str(&b->text));
    return plan->description ? 0 : hr_fail(b->err, HR_E_NOMEM, "no memory for the plan");
}

/* Takes over the sources, also when it fails. */
static int create(const struct hr_conf *conf, struct hr_sources *sources, struct hr_plan **out,
                  struct hr_error *err)
{
    struct builder b = {.conf = conf, .plan = hr_alloc_zero(1, sizeof(*b.plan)), .err = err};

    if (!b.plan) {
        hr_sources_finish(sources);
        return hr_fail(err, HR_E_NOMEM, "no memory for the plan");
    }
    b.plan->sources = *sources;
    int ret = build(&b);
    hr_buf_finish(&b.text);
    hr_free(b.merged);
    if (ret < 0)
        hr_plan_destroy(b.plan);
    else
        *out = b.plan;
    return ret;
}

int hr_plan_open(const struct hr_conf *conf, struct hr_plan **out, struct hr_error *err)
{
    struct hr_sources sources;
    int ret = hr_sources_open(conf, &sources, err);

    return ret < 0 ? ret : create(conf, &sources, out, err);
}

int hr_plan_create(const struct hr_conf *conf, const struct hr_dataset *dataset,
                   struct hr_plan **out, struct hr_error *err)
{
    struct hr_sources sources;
    int ret = hr_sources_of_dataset(conf, dataset, &sources, err);

    return ret < 0 ? ret : create(conf, &sources, out, err);
}

int hr_plan_check_world(const struct hr_plan *plan, uint32_t rank, uint32_t world, struct hr_error *err)
{
    int ret = hr_order_check_world(&plan->order, rank, world, err);

    return ret < 0 ? ret : hr_blend_check_world(plan, world, err);
}

void hr_plan_destroy(struct hr_plan *plan)
{
    if (!plan)
        return;
    for (uint32_t i = 0; i < plan->field_count; i++) {
        hr_chain_destroy(plan->fields[i].chain);
        hr_free(plan->fields[i].follow);
    }
    hr_blend_destroy(plan->blend);
    hr_order_finish(&plan->order);
    hr_sources_finish(&plan->sources);
    hr_free(plan->schema_idx);
    hr_free(plan->description);
    hr_free(plan);
}
