/* Filters over a dataset's index: names found among its fields and their facts, and every record
 * asked once. */
#include "pipeline/keep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arg.h"
#include "conf/filter.h"

/* A column's id: what it is of a field, and the field. */
enum column_kind {
    COLUMN_SCALAR,
    COLUMN_VALUE,
    COLUMN_WIDTH,
    COLUMN_HEIGHT,
    COLUMN_CHANNELS,
    COLUMN_SAMPLES,
    COLUMN_SAMPLE_RATE,
    COLUMN_DURATION,
    COLUMN_FRAMES,
    COLUMN_ITEMS,
    COLUMN_BYTES,
    COLUMN_KEY,
};

enum { NEAREST_CLASSES = 4096 }; /* beyond, a misspelt one is not looked for */

#define TYPE(x) (1u << HR_FIELD_##x)
#define PAYLOADS                                                                                   \
    (TYPE(IMAGE) | TYPE(VIDEO) | TYPE(AUDIO) | TYPE(TEXT) | TYPE(TOKENS) | TYPE(TENSOR) |          \
     TYPE(JSON) | TYPE(BYTES))

static const struct fact {
    const char *name;
    enum column_kind kind;
    uint32_t types; /* fields that have it */
} facts[] = {
    {"width", COLUMN_WIDTH, TYPE(IMAGE) | TYPE(VIDEO)},
    {"height", COLUMN_HEIGHT, TYPE(IMAGE) | TYPE(VIDEO)},
    {"channels", COLUMN_CHANNELS, TYPE(IMAGE) | TYPE(AUDIO)},
    {"samples", COLUMN_SAMPLES, TYPE(AUDIO)},
    {"sample_rate", COLUMN_SAMPLE_RATE, TYPE(AUDIO) | TYPE(VIDEO)},
    {"duration", COLUMN_DURATION, TYPE(AUDIO) | TYPE(VIDEO)},
    {"frames", COLUMN_FRAMES, TYPE(IMAGE) | TYPE(VIDEO)},
    {"items", COLUMN_ITEMS, TYPE(TOKENS) | TYPE(TEXT)},
    {"bytes", COLUMN_BYTES, PAYLOADS},
};

struct columns {
    const struct hr_dataset *dataset;
    bool may_lack;                /* a name that is not known stands for nothing ... */
    const struct hr_dataset *const *all; /* ... if one of these knows it; NULL = that is sure */
    int all_count;
    bool always[HR_MAX_FIELDS];   /* every record has the field */
};

static int found(struct hr_filter_column *out, enum hr_filter_type type, enum column_kind kind,
                 int field)
{
    *out = (struct hr_filter_column){.type = type, .id = (uint32_t)field << 8 | (uint32_t)kind};
    return HR_FILTER_FOUND;
}

static int find_scalar(const struct hr_schema_field *sf, int field, struct hr_filter_column *out)
{
    switch (sf->type) {
    case HR_FIELD_I64:
        return found(out, HR_FILTER_INTEGER, COLUMN_SCALAR, field);
    case HR_FIELD_F64:
        return found(out, HR_FILTER_NUMBER, COLUMN_SCALAR, field);
    case HR_FIELD_BOOL:
        return found(out, HR_FILTER_BOOL, COLUMN_SCALAR, field);
    case HR_FIELD_STR:
        return found(out, HR_FILTER_TEXT, COLUMN_SCALAR, field);
    default:
        return found(out, HR_FILTER_VALUE, COLUMN_VALUE, field);
    }
}

static const struct fact *fact_of(const char *name)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(facts); i++)
        if (strcmp(facts[i].name, name) == 0)
            return &facts[i];
    return NULL;
}

static int found_fact(const struct fact *fact, int field, struct hr_filter_column *out)
{
    return found(out, fact->kind == COLUMN_DURATION ? HR_FILTER_NUMBER : HR_FILTER_INTEGER,
                 fact->kind, field);
}

/* FIELD.FACT, or FACT alone where one field has it. 1 when the name is neither. */
static int find_fact(const struct hr_schema *schema, const char *name, struct hr_filter_column *out,
                     struct hr_error *err)
{
    const char *dot = strrchr(name, '.');
    const struct fact *fact = fact_of(dot ? dot + 1 : name);
    char field_name[HR_NAME_BYTES];
    int field = -1;

    if (!fact)
        return 1;
    if (dot) {
        if (dot - name >= (ptrdiff_t)sizeof(field_name))
            return 1;
        snprintf(field_name, sizeof(field_name), "%.*s", (int)(dot - name), name);
        field = hr_schema_find(schema, field_name);
        if (field < 0)
            return 1;
        if (fact->types >> schema->fields[field].type & 1)
            return found_fact(fact, field, out);
        return hr_fail(err, HR_E_CONFIG, "a field of type %s has no %s",
                       hr_field_type_name(schema->fields[field].type), fact->name);
    }
    for (uint32_t i = 0; i < schema->field_count; i++) {
        if (!(fact->types >> schema->fields[i].type & 1))
            continue;
        if (field >= 0)
            return hr_fail(err, HR_E_CONFIG, "both '%s' and '%s' have %s: write '%s.%s'",
                           schema->fields[field].name, schema->fields[i].name, fact->name,
                           schema->fields[field].name, fact->name);
        field = (int)i;
    }
    return field >= 0 ? found_fact(fact, field, out) : 1;
}

static int unknown(const struct hr_dataset *dataset, const char *name, struct hr_error *err)
{
    const struct hr_schema *schema = hr_dataset_schema(dataset);
    const char *names[HR_MAX_FIELDS];

    for (uint32_t i = 0; i < schema->field_count; i++)
        names[i] = schema->fields[i].name;
    hr_fail(err, HR_E_CONFIG, "'%s' is no field", name);
    const char *near = hr_nearest_word(name, names, (int)schema->field_count);
    if (near)
        hr_error_hint(err, "did you mean '%s'?", near);
    else
        hr_error_hint(err, "a filter looks at scalar fields, key, and facts like FIELD.width; "
                           "'headrace inspect' lists the fields");
    return HR_E_CONFIG;
}

static bool known_to_one(const char *name, const struct hr_dataset *const *datasets, int count);

static int find(void *context, const char *name, struct hr_filter_column *out, struct hr_error *err)
{
    const struct columns *c = context;
    const struct hr_schema *schema = hr_dataset_schema(c->dataset);
    int field = hr_schema_find(schema, name);

    if (field >= 0)
        return find_scalar(&schema->fields[field], field, out);
    if (strcmp(name, "key") == 0)
        return found(out, HR_FILTER_TEXT, COLUMN_KEY, 0);
    int ret = find_fact(schema, name, out, err);
    if (ret != 1)
        return ret;
    if (c->may_lack && (!c->all || known_to_one(name, c->all, c->all_count)))
        return HR_FILTER_LACKING;
    return unknown(c->dataset, name, err);
}

static bool known_to_one(const char *name, const struct hr_dataset *const *datasets, int count)
{
    struct hr_filter_column column;
    struct hr_error err;

    for (int i = 0; i < count; i++) {
        struct columns c = {.dataset = datasets[i], .may_lack = true};
        if (find(&c, name, &column, &err) != HR_FILTER_LACKING)
            return true;
    }
    return false;
}

static bool is_class(const char *name, const char *text, uint32_t text_bytes)
{
    return strlen(name) == text_bytes && memcmp(name, text, text_bytes) == 0;
}

static int unknown_class(const struct hr_schema *schema, const char *text, uint32_t text_bytes,
                         struct hr_error *err)
{
    char name[64];

    snprintf(name, sizeof(name), "%.*s", (int)text_bytes, text);
    hr_fail(err, HR_E_CONFIG, "'%s' has no class '%s'", schema->fields[schema->class_field].name, name);
    const char *near = schema->class_count > NEAREST_CLASSES
                           ? NULL
                           : hr_nearest_word(name, (const char *const *)schema->classes,
                                             (int)schema->class_count);
    if (near)
        hr_error_hint(err, "did you mean '%s'?", near);
    else
        hr_error_hint(err, "'headrace inspect --json' lists the classes");
    return HR_E_CONFIG;
}

/* Classes have names where a dataset was packed from folders. */
static int number_of(void *context, uint32_t id, const char *text, uint32_t text_bytes, int64_t *out,
                     struct hr_error *err)
{
    const struct columns *c = context;
    const struct hr_schema *schema = hr_dataset_schema(c->dataset);

    if ((id & 0xff) != COLUMN_SCALAR || (int)(id >> 8) != schema->class_field ||
        schema->class_count == 0)
        return 0;
    for (uint32_t i = 0; i < schema->class_count; i++) {
        if (is_class(schema->classes[i], text, text_bytes)) {
            *out = i;
            return 1;
        }
    }
    return unknown_class(schema, text, text_bytes, err);
}

static void get_scalar(const struct columns *c, uint64_t record, uint32_t field,
                       struct hr_filter_value *out)
{
    struct hr_scalar v;

    hr_dataset_scalar(c->dataset, record, field, &v);
    *out = (struct hr_filter_value){.present = v.present,
                                    .integer = v.i64,
                                    .number = v.f64,
                                    .text = v.str,
                                    .text_bytes = v.str_bytes};
}

static bool has_value(const struct columns *c, uint64_t record, uint32_t field)
{
    struct hr_value_place place;

    if (c->always[field])
        return true;
    hr_dataset_locate(c->dataset, record, field, &place);
    return place.present;
}

static uint64_t fact_value(enum column_kind kind, const struct hr_facts *f)
{
    switch (kind) {
    case COLUMN_WIDTH:
        return f->width;
    case COLUMN_HEIGHT:
        return f->height;
    case COLUMN_CHANNELS:
        return f->channels;
    case COLUMN_SAMPLES:
        return f->samples;
    case COLUMN_SAMPLE_RATE:
        return f->sample_rate;
    case COLUMN_FRAMES:
        return f->frames;
    default:
        return f->items;
    }
}

static void get(void *context, uint32_t id, uint64_t record, struct hr_filter_value *out)
{
    const struct columns *c = context;
    enum column_kind kind = (enum column_kind)(id & 0xff);
    uint32_t field = id >> 8;
    struct hr_facts f;
    uint64_t v;

    *out = (struct hr_filter_value){.present = true};
    if (kind == COLUMN_SCALAR) {
        get_scalar(c, record, field, out);
        return;
    }
    if (kind == COLUMN_KEY) {
        out->text = hr_dataset_key(c->dataset, record, &out->text_bytes);
        return;
    }
    out->present = has_value(c, record, field);
    if (!out->present || kind == COLUMN_VALUE)
        return;
    if (kind == COLUMN_BYTES) {
        v = hr_dataset_value_bytes(c->dataset, record, field);
    } else {
        hr_dataset_facts(c->dataset, record, field, &f);
        out->number = (double)f.duration_ns / 1e9;
        v = fact_value(kind, &f);
    }
    out->integer = v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static struct hr_filter_columns columns_of(struct columns *c, const struct hr_dataset *dataset,
                                           bool may_lack)
{
    const struct hr_schema *schema = hr_dataset_schema(dataset);

    *c = (struct columns){.dataset = dataset, .may_lack = may_lack};
    for (uint32_t i = 0; i < schema->field_count; i++) {
        struct hr_field_totals totals;
        hr_dataset_totals(dataset, i, &totals);
        c->always[i] = totals.present == hr_dataset_record_count(dataset);
    }
    return (struct hr_filter_columns){
        .context = c, .find = find, .get = get, .number_of = number_of};
}

/* Which of several datasets a filter does not suit. */
static void name_dataset(const struct hr_dataset *dataset, struct hr_error *err)
{
    char text[sizeof(err->text)];

    if (!err)
        return;
    snprintf(text, sizeof(text), "%.240s, in '%.120s'", err->text, hr_dataset_path(dataset));
    memcpy(err->text, text, sizeof(text));
}

/* Parsed and bound; NULL without an expression. */
static int prepare(const struct hr_conf *conf, const struct hr_conf_where *where,
                   const struct hr_filter_columns *columns, struct hr_filter **out,
                   struct hr_error *err)
{
    const struct columns *c = columns->context;

    *out = NULL;
    if (!where->text)
        return 0;
    int ret = hr_filter_parse(where->text, out, err);
    if (ret == 0)
        ret = hr_filter_bind(*out, columns, err);
    if (ret < 0 && conf->dataset_count > 1)
        name_dataset(c->dataset, err);
    if (ret < 0)
        hr_conf_where_failed(conf, where, err);
    return ret;
}

int hr_keep_check(const struct hr_conf *conf, const struct hr_dataset *const *datasets, int count,
                  struct hr_error *err)
{
    int ret = 0;

    /* Binding says what is wrong, and where: before any of them is evaluated. */
    for (int i = 0; i < count && ret == 0; i++) {
        struct hr_filter *filter;
        struct columns c;
        struct hr_filter_columns columns = columns_of(&c, datasets[i], count > 1);
        c.all = datasets;
        c.all_count = count;
        ret = prepare(conf, &conf->where, &columns, &filter, err);
        hr_filter_destroy(filter);
    }
    return ret;
}

static int select_records(const struct hr_dataset *dataset, const struct hr_filter *all,
                          const struct hr_filter_columns *all_columns, const struct hr_filter *own,
                          const struct hr_filter_columns *own_columns, struct hr_selection **out,
                          uint64_t *kept, struct hr_error *err)
{
    uint64_t count = hr_dataset_record_count(dataset);
    struct hr_selection_builder *builder = hr_selection_begin(count);

    *kept = 0;
    if (!builder)
        return hr_fail(err, HR_E_NOMEM, "no memory to filter %" PRIu64 " records", count);
    for (uint64_t r = 0; r < count; r++) {
        if ((all && !hr_filter_keeps(all, all_columns, r)) ||
            (own && !hr_filter_keeps(own, own_columns, r)))
            continue;
        hr_selection_keep(builder, r);
        ++*kept;
    }
    if (*kept == count || *kept == 0) {
        hr_selection_abort(builder);
        return 0;
    }
    *out = hr_selection_commit(builder);
    return *out ? 0 : hr_fail(err, HR_E_NOMEM, "no memory for %" PRIu64 " kept records", *kept);
}

int hr_keep_records(const struct hr_conf *conf, const struct hr_conf_dataset *entry,
                    const struct hr_dataset *dataset, struct hr_selection **out, uint64_t *kept,
                    struct hr_error *err)
{
    struct hr_filter *all = NULL, *own = NULL;
    struct columns c_all, c_own;
    struct hr_filter_columns all_columns = columns_of(&c_all, dataset, conf->dataset_count > 1);
    struct hr_filter_columns own_columns = columns_of(&c_own, dataset, false);

    *out = NULL;
    *kept = hr_dataset_record_count(dataset);
    if (!conf->where.text && !entry->where.text)
        return 0;
    int ret = prepare(conf, &conf->where, &all_columns, &all, err);
    if (ret == 0)
        ret = prepare(conf, &entry->where, &own_columns, &own, err);
    if (ret == 0)
        ret = select_records(dataset, all, &all_columns, own, &own_columns, out, kept, err);
    hr_filter_destroy(all);
    hr_filter_destroy(own);
    if (ret < 0 || *kept > 0 || hr_dataset_record_count(dataset) == 0)
        return ret;
    const struct hr_conf_where *where = entry->where.text ? &entry->where : &conf->where;
    hr_fail(err, HR_E_CONFIG, "the filter keeps none of the %" PRIu64 " records of '%s'",
            hr_dataset_record_count(dataset), hr_dataset_path(dataset));
    hr_error_at_file(err, conf->file, where->line, where->column);
    hr_error_hint(err, "'headrace inspect' shows what the fields hold");
    return HR_E_CONFIG;
}
