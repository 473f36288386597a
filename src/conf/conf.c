/* The top level of a pipeline file: a table of keys, each with the function that reads it. Defaults
 * are set first and overwritten by what the file says. docs/pipeline-file.md lists every key. */
#include "conf/conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "conf/fields.h"
#include "conf/value.h"

#define READ_AHEAD_MAX (UINT64_C(1) << 40)

static int read_top_where(const struct reader *r, const char *key, const struct node *value)
{
    return hr_conf_read_where(r, key, value, &r->conf->where);
}

static int read_stop(const struct reader *r, const char *key, const struct node *value)
{
    static const char *const choices[] = {"all_exhausted", "first_exhausted", "steps", NULL};
    const struct node *word = value;
    int choice, ret;

    if (value->kind == NODE_MAP && value->child_count == 1)
        word = value->first->key;
    ret = hr_conf_read_choice(r, key, word, choices, &choice);
    if (ret < 0)
        return ret;
    r->conf->stop = (enum hr_conf_stop)choice;
    r->conf->stop_line = value->line;
    if (choice == HR_CONF_STOP_STEPS && word == value) {
        hr_conf_fail(r->err, r->conf->file, word, "'steps' needs a number");
        hr_error_hint(r->err, "write 'stop: {steps: 1000}'");
        return HR_E_CONFIG;
    }
    if (word == value)
        return 0;
    if (choice != HR_CONF_STOP_STEPS)
        return hr_conf_fail(r->err, r->conf->file, word, "'%s' takes no arguments", word->text);
    return hr_conf_read_count(r, "steps", value->first->value, 1, UINT64_C(1) << 40,
                              &r->conf->stop_steps);
}

/* The one value that may need all of 64 bits. */
static int read_seed(const struct reader *r, const char *key, const struct node *value)
{
    r->conf->seed_line = value->line;
    if (value->kind != NODE_SCALAR || !hr_conf_is_integer(value))
        return hr_conf_expected(r, key, value, "an integer");
    if (!hr_conf_integer_u64(value, &r->conf->seed))
        return hr_conf_out_of_range(r, key, value, "from 0 to 18446744073709551615");
    return 0;
}

static int read_batch(const struct reader *r, const char *key, const struct node *value)
{
    r->conf->batch_line = value->line;
    return hr_conf_read_count(r, key, value, 1, 1 << 20, &r->conf->batch);
}

static int read_window(const struct reader *r, const struct node *value)
{
    static const char *const keys[] = {"block", "open"};
    int ret = 0;

    if (value->kind != NODE_MAP)
        return hr_conf_expected(r, "window", value, "a mapping of 'block' and 'open'");
    for (const struct child *c = value->first; c && ret == 0; c = c->next) {
        if (strcmp(c->key->text, "block") == 0)
            ret = hr_conf_read_count(r, "block", c->value, 1, UINT64_C(1) << 40,
                                     &r->conf->window_block_records);
        else if (strcmp(c->key->text, "open") == 0)
            ret = hr_conf_read_count(r, "open", c->value, 1, UINT64_C(1) << 40,
                                     &r->conf->window_open_blocks);
        else
            ret = hr_conf_unknown_key(r, c->key, "'window' has", keys, HR_ARRAY_SIZE(keys));
    }
    return ret;
}

static int read_order(const struct reader *r, const char *key, const struct node *value)
{
    static const char *const choices[] = {"full", "window", "none", NULL};
    const struct node *word = value;
    int choice, ret;

    if (value->kind == NODE_MAP && value->child_count == 1)
        word = value->first->key;
    ret = hr_conf_read_choice(r, key, word, choices, &choice);
    if (ret < 0)
        return ret;
    r->conf->order = (enum hr_conf_order)choice;
    if (word == value)
        return 0;
    if (choice != HR_CONF_ORDER_WINDOW)
        return hr_conf_fail(r->err, r->conf->file, word, "'%s' takes no arguments", word->text);
    return read_window(r, value->first->value);
}

static int read_last(const struct reader *r, const char *key, const struct node *value)
{
    static const char *const choices[] = {"drop", "pad", "wrap", "keep", NULL};
    int choice, ret = hr_conf_read_choice(r, key, value, choices, &choice);

    if (ret == 0)
        r->conf->last = (enum hr_conf_last)choice;
    return ret;
}

static int read_bad_records(const struct reader *r, const char *key, const struct node *value)
{
    static const char *const choices[] = {"substitute", "mask", "fail", NULL};
    int choice, ret = hr_conf_read_choice(r, key, value, choices, &choice);

    if (ret == 0)
        r->conf->bad_records = (enum hr_conf_bad)choice;
    return ret;
}

static int read_bad_budget(const struct reader *r, const char *key, const struct node *value)
{
    return hr_conf_read_number(r, key, value, -1e-300, 1, "from 0 to 1, a share of the samples",
                               &r->conf->bad_budget);
}

static int read_bad_consecutive(const struct reader *r, const char *key, const struct node *value)
{
    return hr_conf_read_count(r, key, value, 1, UINT64_C(1) << 40, &r->conf->bad_consecutive);
}

static bool is_word(const struct node *value, const char *word)
{
    return value->kind == NODE_SCALAR && strcmp(value->text, word) == 0;
}

static int read_signed(const struct reader *r, const char *key, const struct node *value,
                       uint64_t min, uint64_t max, int64_t *out)
{
    uint64_t v = 0;
    int ret = hr_conf_read_count(r, key, value, min, max, &v);

    if (ret == 0)
        *out = (int64_t)v;
    return ret;
}

static int read_slots(const struct reader *r, const char *key, const struct node *value)
{
    return read_signed(r, key, value, 1, 256, &r->conf->slots);
}

static int read_workers(const struct reader *r, const char *key, const struct node *value)
{
    if (is_word(value, "auto"))
        return 0;
    return read_signed(r, key, value, 0, 1024, &r->conf->workers);
}

static int read_reader(const struct reader *r, const char *key, const struct node *value)
{
    static const char *const choices[] = {"auto", "uring", "preadv", "nil", "fault", NULL};
    int choice, ret = hr_conf_read_choice(r, key, value, choices, &choice);

    if (ret == 0)
        r->conf->reader = choices[choice];
    return ret;
}

static int read_io(const struct reader *r, const char *key, const struct node *value)
{
    static const char *const choices[] = {"auto", "cached", "direct", NULL};
    int choice, ret = hr_conf_read_choice(r, key, value, choices, &choice);

    if (ret == 0)
        r->conf->io = (enum hr_conf_io)choice;
    return ret;
}

/* Bytes, or text like 64MiB. */
static int read_read_ahead(const struct reader *r, const char *key, const struct node *value)
{
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    char *end;

    if (is_word(value, "auto"))
        return 0;
    if (value->kind == NODE_SCALAR && value->text[0] >= '0' && value->text[0] <= '9') {
        unsigned long long v = strtoull(value->text, &end, 10);
        for (int i = 0; i < 3; i++) {
            int shift = 10 * (i + 1);
            if (strcmp(end, units[i]) != 0)
                continue;
            if (v < 1 || v > READ_AHEAD_MAX >> shift)
                return hr_conf_out_of_range(r, key, value, "at most 1024GiB");
            r->conf->read_ahead_bytes = (uint64_t)v << shift;
            return 0;
        }
    }
    int ret = hr_conf_read_count(r, key, value, 0, READ_AHEAD_MAX, &r->conf->read_ahead_bytes);
    if (ret < 0 && r->err && !r->err->hint[0])
        hr_error_hint(r->err, "bytes, like 67108864 or 64MiB, or auto");
    return ret;
}

static int read_storage_deadline(const struct reader *r, const char *key, const struct node *value)
{
    return hr_conf_read_number(r, key, value, 0, 86400, "above 0 and at most 86400 seconds",
                               &r->conf->storage_deadline_s);
}

static int read_epochs(const struct reader *r, const char *key, const struct node *value)
{
    return read_signed(r, key, value, 0, UINT64_C(1) << 62, &r->conf->epochs);
}

static int read_fields(const struct reader *r, const char *key, const struct node *value)
{
    return hr_conf_fields(value, r->conf, r->err);
}

static int read_blend(const struct reader *r, const char *key, const struct node *value)
{
    return hr_conf_blend(value, r->conf, r->err);
}

static const struct key {
    const char *name;
    int (*read)(const struct reader *r, const char *key, const struct node *value);
} keys[] = {
    {"dataset", hr_conf_read_dataset},
    {"where", read_top_where},
    {"stop", read_stop},
    {"seed", read_seed},
    {"batch", read_batch},
    {"order", read_order},
    {"last", read_last},
    {"epochs", read_epochs},
    {"bad_records", read_bad_records},
    {"bad_budget", read_bad_budget},
    {"bad_consecutive", read_bad_consecutive},
    {"slots", read_slots},
    {"workers", read_workers},
    {"reader", read_reader},
    {"io", read_io},
    {"read_ahead_bytes", read_read_ahead},
    {"storage_deadline_s", read_storage_deadline},
    {"fields", read_fields},
    {"blend", read_blend},
};

/* What other loaders call it. */
static const char *const synonyms[][2] = {
    {"batch_size", "batch"},   {"global_batch", "batch"}, {"shuffle", "order"},
    {"drop_last", "last"},     {"num_workers", "workers"}, {"threads", "workers"},
    {"prefetch", "slots"},     {"prefetch_factor", "slots"}, {"path", "dataset"},
    {"data", "dataset"},       {"datasets", "dataset"},   {"columns", "fields"},
    {"features", "fields"},    {"on_error", "bad_records"}, {"filter", "where"},
    {"stopping_strategy", "stop"}, {"mixup", "blend"},    {"cutmix", "blend"},
    {"mix", "blend"},
};

static int unknown_top_key(const struct reader *r, const struct node *key)
{
    const char *names[HR_ARRAY_SIZE(keys)];

    for (size_t i = 0; i < HR_ARRAY_SIZE(keys); i++)
        names[i] = keys[i].name;
    hr_conf_unknown_key(r, key, "there is", names, HR_ARRAY_SIZE(keys));
    for (size_t i = 0; i < HR_ARRAY_SIZE(synonyms); i++)
        if (strcmp(key->text, synonyms[i][0]) == 0)
            hr_error_hint(r->err, "did you mean '%s'?", synonyms[i][1]);
    return HR_E_CONFIG;
}

static int read_key(const struct reader *r, const struct child *entry)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(keys); i++)
        if (strcmp(entry->key->text, keys[i].name) == 0)
            return keys[i].read(r, keys[i].name, entry->value);
    return unknown_top_key(r, entry->key);
}

static int read_top(const struct reader *r, const struct node *root)
{
    if (root->kind != NODE_MAP) {
        hr_conf_fail(r->err, r->conf->file, root, "a pipeline file is a mapping of keys");
        hr_error_hint(r->err, "begin with 'dataset: PATH'");
        return HR_E_CONFIG;
    }
    for (const struct child *c = root->first; c; c = c->next) {
        int ret = read_key(r, c);
        if (ret < 0)
            return ret;
    }
    if (r->conf->dataset_count)
        return 0;
    hr_conf_fail(r->err, r->conf->file, root, "no 'dataset' is given");
    hr_error_hint(r->err, "add 'dataset: PATH'");
    return HR_E_CONFIG;
}

static void set_defaults(struct hr_conf *conf)
{
    conf->batch = 256;
    conf->seed = 1;
    conf->bad_budget = 0.001;
    conf->bad_consecutive = 100;
    conf->slots = 4;
    conf->reader = "auto";
    conf->storage_deadline_s = 60;
}

static int parse(const char *text, size_t bytes, const char *file, const char *folder,
                 struct hr_conf *out, struct hr_error *err)
{
    struct hr_conf conf = {.memory = hr_alloc_zero(1, sizeof(*conf.memory))};
    struct reader r = {.conf = &conf, .folder = folder, .err = err};
    int ret;

    conf.file = file;
    if (!conf.memory)
        return hr_conf_no_memory(&r);
    conf.file = hr_conf_take_text(conf.memory, file, strlen(file));
    if (!conf.file) {
        conf.file = file;
        ret = hr_conf_no_memory(&r);
        goto fail;
    }
    set_defaults(&conf);
    struct hr_error tree_error = HR_ERROR_INIT;
    const struct node *root = hr_conf_tree(conf.memory, text, bytes, conf.file, &tree_error);
    if (!root) {
        ret = tree_error.code;
        if (err)
            *err = tree_error;
        goto fail;
    }
    ret = read_top(&r, root);
    if (ret < 0)
        goto fail;
    *out = conf;
    return 0;
fail:
    hr_conf_finish(&conf);
    return ret;
}

int hr_conf_parse(const char *text, size_t bytes, const char *file, struct hr_conf *conf,
                  struct hr_error *err)
{
    return parse(text, bytes, file ? file : "<config>", "", conf, err);
}

int hr_conf_read(const char *file, void **text, size_t *bytes, struct hr_error *err)
{
    bool standard_input = strcmp(file, "-") == 0;
    int ret = hr_fd_read_file(standard_input ? "/dev/stdin" : file, HR_CONF_MAX_BYTES, text, bytes, err);

    if (ret == HR_E_LIMIT) {
        ret = hr_fail(err, HR_E_CONFIG, "a pipeline file has at most %d bytes", HR_CONF_MAX_BYTES);
        hr_error_at_file(err, standard_input ? "<stdin>" : file, 0, 0);
    } else if (ret < 0 && err && err->sys_errno == EISDIR) {
        hr_error_hint(err, "a pipeline file is wanted; 'headrace init DATASET > train.yaml' writes one for a dataset");
    }
    return ret;
}

int hr_conf_load(const char *file, struct hr_conf *conf, struct hr_error *err)
{
    void *text;
    size_t bytes;
    int ret = hr_conf_read(file, &text, &bytes, err);

    if (ret < 0)
        return ret;
    ret = hr_conf_load_text(text, bytes, file, conf, err);
    hr_free(text);
    return ret;
}

int hr_conf_load_text(const char *text, size_t bytes, const char *file, struct hr_conf *conf,
                      struct hr_error *err)
{
    const char *slash = strrchr(file, '/');
    char *folder = hr_strndup(file, slash ? (size_t)(slash - file) : 0);
    int ret = folder ? parse(text, bytes, file, slash == file ? "/." : folder, conf, err)
                     : hr_fail(err, HR_E_NOMEM, "out of memory while reading '%s'", file);
    hr_free(folder);
    return ret;
}

void hr_conf_finish(struct hr_conf *conf)
{
    if (conf->memory)
        hr_conf_release(conf->memory);
    hr_free(conf->memory);
    *conf = (struct hr_conf){0};
}

void hr_conf_where_failed(const struct hr_conf *conf, const struct hr_conf_where *where,
                          struct hr_error *err)
{
    char text[sizeof(err->text)];

    if (!err)
        return;
    if (where->first_column || err->column == 0) {
        int column = where->first_column + err->column - 1;
        hr_error_at_file(err, conf->file, where->line, err->column ? column : where->column);
        return;
    }
    snprintf(text, sizeof(text), "%.320s (character %d of the filter)", err->text, err->column);
    memcpy(err->text, text, sizeof(text));
    hr_error_at_file(err, conf->file, where->line, where->column);
}

const struct hr_call *hr_conf_field_table(const struct hr_conf_field *field, const char *key)
{
    for (int i = 0; i < field->table_count; i++)
        if (strcmp(field->tables[i].name, key) == 0)
            return &field->tables[i];
    return NULL;
}
