/* Any bytes as a pipeline file: parsed or refused, never a crash, a leak or a long wait. What parses is
 * walked, so that every pointer handed on is read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
const char *__lsan_default_suppressions(void);

/* libfyaml 0.7.12 itself loses a buffer when it refuses some texts (docs/dependencies.md). */
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml\n";
}

static volatile size_t sink;

static void walk_arg(const struct hr_arg *arg)
{
    sink += (size_t)arg->kind + (arg->text ? strlen(arg->text) : 0) +
            (arg->name ? strlen(arg->name) : 0);
    if (arg->kind != HR_ARG_LIST && !arg->text)
        abort();
    for (int i = 0; i < arg->item_count; i++)
        walk_arg(&arg->items[i]);
}

static void walk_call(const struct hr_call *call)
{
    sink += strlen(call->name) + strlen(call->file) + (size_t)call->line;
    for (int i = 0; i < call->arg_count; i++)
        walk_arg(&call->args[i]);
}

static void walk(const struct hr_conf *conf)
{
    if (conf->dataset_count < 1 || conf->batch < 1 || !(conf->bad_budget >= 0))
        abort();
    for (int i = 0; i < conf->dataset_count; i++)
        sink += strlen(conf->datasets[i].path);
    for (int i = 0; i < conf->field_count; i++) {
        const struct hr_conf_field *field = &conf->fields[i];
        for (int j = 0; j < field->op_count; j++)
            walk_call(&field->ops[j]);
        for (int j = 0; j < field->table_count; j++)
            walk_call(&field->tables[j]);
        walk_call(&field->options);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hr_conf conf;
    struct hr_error err = HR_ERROR_INIT;
    int ret = hr_conf_parse((const char *)data, bytes, "fuzz.yaml", &conf, &err);

    if (ret == 0) {
        walk(&conf);
        hr_conf_finish(&conf);
    } else if (err.code != ret || !err.text[0]) {
        abort();
    }
    return 0;
}
