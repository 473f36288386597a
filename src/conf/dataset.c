/* The `dataset:` and `where:` parts of a pipeline file: one path, or sources that are mixed by weights or by
 * repeats, each with a version and a filter of its own. */
#include <stdio.h>
#include <string.h>

#include "conf/filter.h"
#include "conf/value.h"

enum { MAX_DATASETS = 256 };

static int read_path(const struct reader *r, const char *key, const struct node *value,
                     struct hr_conf_dataset *dataset)
{
    struct hr_arg arg;
    int ret = hr_conf_read_scalar(r, key, value, HR_ARG_STR, "a path", &arg);

    if (ret < 0)
        return ret;
    if (!arg.text[0])
        return hr_conf_fail(r->err, r->conf->file, value, "'%s' is an empty path", key);
    bool absolute = arg.text[0] == '/' || strstr(arg.text, "://") || !r->folder[0];
    size_t bytes = strlen(r->folder) + strlen(arg.text) + 2;
    char *path = hr_conf_take(r->conf->memory, bytes);
    if (!path)
        return hr_conf_no_memory(r);
    snprintf(path, bytes, "%s%s%s", absolute ? "" : r->folder, absolute ? "" : "/", arg.text);
    dataset->path = path;
    return 0;
}

/* Hex digits, which may look like a number: taken as they are written. */
static int read_version(const struct reader *r, const char *key, const struct node *value,
                        struct hr_conf_dataset *dataset)
{
    enum { MIN_DIGITS = 4, MAX_DIGITS = 32 };

    if (value->kind != NODE_SCALAR)
        return hr_conf_expected(r, key, value, "a digest");
    size_t n = strlen(value->text);
    if (n < MIN_DIGITS || n > MAX_DIGITS ||
        value->text[strspn(value->text, "0123456789abcdefABCDEF")])
        return hr_conf_expected(r, key, value, "a digest or its first digits (4 to 32 hex digits)");
    dataset->version = value->text;
    return 0;
}

/* The expression itself is checked too, so that it fails where it stands. */
int hr_conf_read_where(const struct reader *r, const char *key, const struct node *value,
                       struct hr_conf_where *where)
{
    struct hr_filter *filter;
    struct hr_arg arg;
    int ret = hr_conf_read_scalar(r, key, value, HR_ARG_STR, "a filter", &arg);

    if (ret < 0)
        return ret;
    *where = (struct hr_conf_where){.text = arg.text, .line = value->line, .column = value->column};
    if (value->verbatim)
        where->first_column = value->column + value->quoted;
    ret = hr_filter_parse(arg.text, &filter, r->err);
    if (ret < 0) {
        hr_conf_where_failed(r->conf, where, r->err);
        return ret;
    }
    hr_filter_destroy(filter);
    return 0;
}

static int read_source_key(const struct reader *r, const struct child *c,
                           struct hr_conf_dataset *dataset, const struct node **weight,
                           const struct node **repeats)
{
    static const char *const keys[] = {"path", "version", "weight", "repeats", "where"};
    const char *key = c->key->text;

    if (strcmp(key, "path") == 0)
        return read_path(r, key, c->value, dataset);
    if (strcmp(key, "version") == 0)
        return read_version(r, key, c->value, dataset);
    if (strcmp(key, "where") == 0)
        return hr_conf_read_where(r, key, c->value, &dataset->where);
    if (strcmp(key, "weight") == 0) {
        *weight = c->value;
        return hr_conf_read_number(r, key, c->value, 0, 1e9, "above 0 and at most 1e9",
                                   &dataset->weight);
    }
    if (strcmp(key, "repeats") == 0) {
        *repeats = c->value;
        return hr_conf_read_count(r, key, c->value, 1, UINT64_C(1) << 32, &dataset->repeats);
    }
    return hr_conf_unknown_key(r, c->key, "a dataset has", keys, HR_ARRAY_SIZE(keys));
}

static int read_source(const struct reader *r, const struct node *value,
                       struct hr_conf_dataset *dataset, const struct node **weight,
                       const struct node **repeats)
{
    *dataset =
        (struct hr_conf_dataset){.weight = 1, .line = value->line, .column = value->column};
    if (value->kind != NODE_MAP)
        return read_path(r, "dataset", value, dataset);
    for (const struct child *c = value->first; c; c = c->next) {
        int ret = read_source_key(r, c, dataset, weight, repeats);
        if (ret < 0)
            return ret;
    }
    if (!dataset->path)
        return hr_conf_fail(r->err, r->conf->file, value, "a dataset needs 'path'");
    return 0;
}

/* Sources are mixed by weights or by repeats, not by both. */
static int settle_repeats(const struct reader *r, const struct node *weight,
                          const struct node *repeats)
{
    if (!repeats)
        return 0;
    if (weight) {
        hr_conf_fail(r->err, r->conf->file, weight, "'weight' where a dataset has 'repeats'");
        hr_error_hint(r->err, "datasets are mixed by weights or by repeats, not by both");
        return HR_E_CONFIG;
    }
    for (int i = 0; i < r->conf->dataset_count; i++)
        if (r->conf->datasets[i].repeats == 0)
            r->conf->datasets[i].repeats = 1;
    return 0;
}

int hr_conf_read_dataset(const struct reader *r, const char *key, const struct node *value)
{
    struct hr_conf *conf = r->conf;
    int count = value->kind == NODE_LIST ? value->child_count : 1, ret = 0;
    const struct node *weight = NULL, *repeats = NULL;

    if (count == 0 || count > MAX_DATASETS)
        return hr_conf_fail(r->err, conf->file, value, "'%s' lists %d; it must be 1 to %d", key,
                            count, MAX_DATASETS);
    conf->datasets = hr_conf_take(conf->memory, (size_t)count * sizeof(*conf->datasets));
    if (!conf->datasets)
        return hr_conf_no_memory(r);
    if (value->kind != NODE_LIST) {
        conf->dataset_count = 1;
        ret = read_source(r, value, conf->datasets, &weight, &repeats);
        return ret < 0 ? ret : settle_repeats(r, weight, repeats);
    }
    for (const struct child *c = value->first; c; c = c->next) {
        ret = read_source(r, c->value, &conf->datasets[conf->dataset_count++], &weight, &repeats);
        if (ret < 0)
            return ret;
    }
    return settle_repeats(r, weight, repeats);
}
