/* Fitting a source to the dataset that it is added to. */
#include "tools/pack/append.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void hr_append_close(struct hr_append *append)
{
    if (!append)
        return;
    hr_manifest_finish(&append->base);
    hr_schema_finish(&append->schema);
    hr_free(append->class_of);
    hr_free(append);
}

/* ---- fields ---- */

static int misfit(const char *name, const struct hr_schema *dataset, const struct hr_schema *source,
                  struct hr_error *err)
{
    int d = hr_schema_find(dataset, name), s = hr_schema_find(source, name);

    if (s < 0)
        hr_fail(err, HR_E_CONFIG, "field '%s' of the dataset is not in the source", name);
    else if (d < 0)
        hr_fail(err, HR_E_CONFIG, "field '%s' of the source is not in the dataset", name);
    else if (dataset->fields[d].type != source->fields[s].type)
        hr_fail(err, HR_E_CONFIG, "field '%s' is %s in the dataset and %s in the source", name,
                hr_field_type_name(dataset->fields[d].type),
                hr_field_type_name(source->fields[s].type));
    else
        hr_fail(err, HR_E_CONFIG, "field '%s' has another dtype or shape in the source", name);
    hr_error_hint(err, d >= 0 && s >= 0 ? "all records of a dataset have the same fields; for JSONL, --type "
                                          "says what a key is"
                                        : "all records of a dataset have the same fields");
    return HR_E_CONFIG;
}

static int fit_fields(struct hr_append *a, const struct hr_schema *source, struct hr_error *err)
{
    const struct hr_schema *dataset = &a->base.schema;
    const char *name = hr_schema_differing_field(dataset, source);

    if (name)
        return misfit(name, dataset, source, err);
    for (uint32_t i = 0; i < source->field_count; i++)
        a->field_of[i] = (uint32_t)hr_schema_find(dataset, source->fields[i].name);
    bool named = dataset->class_field >= 0, ours = source->class_field >= 0;
    if (named != ours || (named && a->field_of[source->class_field] != (uint32_t)dataset->class_field)) {
        name = named ? dataset->fields[dataset->class_field].name
                     : source->fields[source->class_field].name;
        hr_fail(err, HR_E_CONFIG, "field '%s' has class names in the %s only", name,
                named ? "dataset" : "source");
        hr_error_hint(err, "numbers and named classes cannot be told apart in one field");
        return HR_E_CONFIG;
    }
    return 0;
}

/* ---- classes ---- */

struct named {
    const char *name;
    uint32_t index;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int add_class(struct hr_schema *schema, const char *name)
{
    schema->classes[schema->class_count] = hr_strdup(name);
    if (!schema->classes[schema->class_count])
        return HR_E_NOMEM;
    schema->class_count++;
    return 0;
}

/* Classes of the dataset keep their numbers; new ones get the next, in the source's order. */
static int fit_classes(struct hr_append *a, const struct hr_schema *source)
{
    uint32_t known = a->schema.class_count;
    struct named *names = hr_alloc_zero((size_t)known + 1, sizeof(*names));
    char **classes = hr_realloc(a->schema.classes, (size_t)known + source->class_count + 1, sizeof(char *));
    int ret = 0;

    if (classes)
        a->schema.classes = classes;
    a->class_of = hr_alloc_zero((size_t)source->class_count + 1, sizeof(*a->class_of));
    if (!names || !classes || !a->class_of)
        ret = HR_E_NOMEM;
    for (uint32_t i = 0; ret == 0 && i < known; i++)
        names[i] = (struct named){classes[i], i};
    if (ret == 0)
        qsort(names, known, sizeof(*names), by_name);
    for (uint32_t i = 0; ret == 0 && i < source->class_count; i++) {
        const struct named key = {.name = source->classes[i]};
        const struct named *found = bsearch(&key, names, known, sizeof(*names), by_name);
        a->class_of[i] = found ? found->index : a->schema.class_count;
        if (!found)
            ret = add_class(&a->schema, source->classes[i]);
    }
    hr_free(names);
    return ret;
}

/* ---- shards ---- */

/* One above the highest number that a version's shard has. */
static int number_shards(struct hr_append *a, const char *folder, struct hr_error *err)
{
    struct hr_versions versions;
    unsigned number;
    int ret = hr_versions_read(folder, &versions, err), end;

    if (ret < 0)
        return ret;
    for (uint32_t i = 0; i < versions.count; i++)
        for (uint32_t k = 0; k < versions.manifests[i]->shard_count; k++) {
            const char *name = versions.manifests[i]->shards[k].name;
            end = 0;
            if (sscanf(name, "data-%9u.hrs%n", &number, &end) == 1 && end && !name[end] &&
                number >= a->first_shard)
                a->first_shard = number + 1;
        }
    bool damaged = versions.unreadable > 0;
    hr_versions_finish(&versions);
    if (!damaged)
        return 0;
    hr_fail(err, HR_E_CORRUPT, "an earlier version's manifest cannot be read: its shards could be overwritten");
    hr_error_at_file(err, folder, 0, 0);
    hr_error_hint(err, "headrace verify names it; restore it or remove it");
    return HR_E_CORRUPT;
}

int hr_append_open(const char *folder, const struct hr_schema *source, struct hr_append **out,
                   struct hr_error *err)
{
    struct hr_append *a = hr_alloc_zero(1, sizeof(*a));

    if (!a)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    a->base.schema.class_field = -1;
    int ret = hr_manifest_read(folder, &a->base, err);
    if (ret == HR_E_NOT_FOUND)
        hr_error_hint(err, "there is no dataset to add to; pack without --append makes one");
    if (ret == 0)
        ret = fit_fields(a, source, err);
    if (ret == 0)
        ret = hr_schema_copy(&a->schema, &a->base.schema, err);
    if (ret == 0 && source->class_field >= 0 && fit_classes(a, source) < 0)
        ret = hr_fail(err, HR_E_NOMEM, "out of memory");
    if (ret == 0)
        ret = hr_schema_check(&a->schema, err);
    if (ret == 0)
        ret = number_shards(a, folder, err);
    if (ret < 0)
        hr_append_close(a);
    else
        *out = a;
    return ret;
}

int hr_append_check_current(const struct hr_append *append, const char *folder, struct hr_error *err)
{
    struct hr_manifest *now = hr_alloc_zero(1, sizeof(*now));

    if (!now)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    int ret = hr_manifest_read(folder, now, err);
    if (ret == 0) {
        if (!hr_digest_equal(&now->digest, &append->base.digest)) {
            ret = hr_fail(err, HR_E_BUSY, "another pack has just added to this dataset");
            hr_error_hint(err, "run the same command again");
        }
        hr_manifest_finish(now);
    }
    hr_free(now);
    return ret;
}

const struct hr_value *hr_append_values(struct hr_append *append, const struct hr_schema *source,
                                        const struct hr_pack_record *record)
{
    for (uint32_t i = 0; i < source->field_count; i++)
        append->values[append->field_of[i]] = record->values[i];
    if (append->class_of) {
        struct hr_value *label = &append->values[append->schema.class_field];
        if (label->present && label->i64 >= 0 && (uint64_t)label->i64 < source->class_count)
            label->i64 = append->class_of[label->i64];
    }
    return append->values;
}
