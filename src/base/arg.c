/* Table-driven reading of named arguments. */
#include "base/arg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_WORD = 64 };

static int edit_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    int row[MAX_WORD + 1];

    if (n > MAX_WORD || m > MAX_WORD)
        return MAX_WORD;
    for (size_t j = 0; j <= m; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int up = row[j];
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (up + 1 < best)
                best = up + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = up;
            row[j] = best;
        }
    }
    return row[m];
}

const char *hr_nearest_word(const char *word, const char *const *known, int known_count)
{
    const char *nearest = NULL;
    int nearest_distance = MAX_WORD;
    int limit = (int)strlen(word) / 3 > 2 ? (int)strlen(word) / 3 : 2;

    for (int i = 0; i < known_count; i++) {
        int d = known[i] ? edit_distance(word, known[i]) : MAX_WORD;
        if (d < nearest_distance) {
            nearest_distance = d;
            nearest = known[i];
        }
    }
    return nearest_distance <= limit ? nearest : NULL;
}

static const char *const kind_names[] = {"nothing", "a boolean", "an integer",
                                         "a number", "text", "a list"};

/* A value that was text only because of its quotes, or a boolean of YAML 1.1. */
static const char *text_hint(const struct hr_arg *arg, const struct hr_arg_spec *spec)
{
    static const char *const words[] = {"yes", "no", "on", "off"};
    char *end;

    if (arg->kind != HR_ARG_STR || !arg->text[0])
        return "";
    (void)strtod(arg->text, &end);
    if (!*end && spec->type != HR_ARG_TYPE_BOOL)
        return "remove the quotes: in quotes it is text";
    for (size_t i = 0; i < HR_ARRAY_SIZE(words); i++)
        if (spec->type == HR_ARG_TYPE_BOOL && strcasecmp(arg->text, words[i]) == 0)
            return "YAML 1.2: booleans are true and false";
    return "";
}

static int expected(const struct hr_call *call, const struct hr_arg *arg,
                    const struct hr_arg_spec *spec, const char *what, struct hr_error *err)
{
    hr_fail(err, HR_E_CONFIG, "'%s' of '%s' must be %s, not %s%s%s%s", spec->name, call->name, what,
            kind_names[arg->kind], arg->text ? " '" : "", arg->text ? arg->text : "",
            arg->text ? "'" : "");
    hr_error_at_file(err, call->file, arg->line, arg->column);
    hr_error_hint(err, "%s", text_hint(arg, spec));
    return HR_E_CONFIG;
}

static int check_range(const struct hr_call *call, const struct hr_arg *arg,
                       const struct hr_arg_spec *spec, struct hr_error *err)
{
    /* Written so that NaN is out of range. */
    if (spec->min >= spec->max || (arg->number >= spec->min && arg->number <= spec->max))
        return 0;
    hr_fail(err, HR_E_CONFIG, "'%s' of '%s' is %s; it must be from %g to %g", spec->name,
            call->name, arg->text, spec->min, spec->max);
    hr_error_at_file(err, call->file, arg->line, arg->column);
    return HR_E_CONFIG;
}

static int read_enum(const struct hr_call *call, const struct hr_arg *arg,
                     const struct hr_arg_spec *spec, struct hr_error *err)
{
    char list[256] = "";
    int count = 0;

    for (; spec->choices[count]; count++) {
        if (arg->text && strcmp(arg->text, spec->choices[count]) == 0) {
            *(int *)spec->out = count;
            return 0;
        }
        size_t n = strlen(list);
        snprintf(list + n, sizeof(list) - n, "%s%s", count ? ", " : "", spec->choices[count]);
    }
    hr_fail(err, HR_E_CONFIG, "'%s' of '%s' cannot be '%s'", spec->name, call->name,
            arg->text ? arg->text : kind_names[arg->kind]);
    hr_error_at_file(err, call->file, arg->line, arg->column);
    hr_error_hint(err, "one of: %s", list);
    return HR_E_CONFIG;
}

static int check_item(const struct hr_call *call, const struct hr_arg *item,
                      const struct hr_arg_spec *spec, struct hr_error *err)
{
    bool whole = item->kind == HR_ARG_INT;

    if (spec->type == HR_ARG_TYPE_STRS)
        return item->text && item->kind != HR_ARG_NULL ? 0
                                                       : expected(call, item, spec, "text or a list of texts", err);
    if (!whole && (item->kind != HR_ARG_FLOAT || spec->type == HR_ARG_TYPE_INTS))
        return expected(call, item, spec,
                        spec->type == HR_ARG_TYPE_INTS ? "a list of integers" : "a list of numbers", err);
    return check_range(call, item, spec, err);
}

static int read_list(const struct hr_call *call, const struct hr_arg *arg,
                     const struct hr_arg_spec *spec, struct hr_error *err)
{
    const struct hr_arg *items = arg->kind == HR_ARG_LIST ? arg->items : arg;
    int count = arg->kind == HR_ARG_LIST ? arg->item_count : 1;

    if (count < spec->min_items || count > spec->max_items) {
        hr_fail(err, HR_E_CONFIG, "'%s' of '%s' has %d items; it must have %d to %d", spec->name,
                call->name, count, spec->min_items, spec->max_items);
        hr_error_at_file(err, call->file, arg->line, arg->column);
        return HR_E_CONFIG;
    }
    for (int i = 0; i < count; i++) {
        int ret = check_item(call, &items[i], spec, err);
        if (ret < 0)
            return ret;
    }
    if (spec->type == HR_ARG_TYPE_STRS)
        *(const struct hr_arg **)spec->out = items;
    for (int i = 0; i < count && spec->type != HR_ARG_TYPE_STRS; i++) {
        if (spec->type == HR_ARG_TYPE_INTS)
            ((int64_t *)spec->out)[i] = items[i].integer;
        else
            ((double *)spec->out)[i] = items[i].number;
    }
    if (spec->count)
        *spec->count = count;
    return 0;
}

static int read_one(const struct hr_call *call, const struct hr_arg *arg,
                    const struct hr_arg_spec *spec, struct hr_error *err)
{
    int ret;

    switch (spec->type) {
    case HR_ARG_TYPE_BOOL:
        if (arg->kind != HR_ARG_BOOL)
            return expected(call, arg, spec, "true or false", err);
        *(bool *)spec->out = arg->boolean;
        return 0;
    case HR_ARG_TYPE_INT:
        if (arg->kind != HR_ARG_INT)
            return expected(call, arg, spec, "an integer", err);
        ret = check_range(call, arg, spec, err);
        if (ret == 0)
            *(int64_t *)spec->out = arg->integer;
        return ret;
    case HR_ARG_TYPE_FLOAT:
        if (arg->kind != HR_ARG_INT && arg->kind != HR_ARG_FLOAT)
            return expected(call, arg, spec, "a number", err);
        ret = check_range(call, arg, spec, err);
        if (ret == 0)
            *(double *)spec->out = arg->number;
        return ret;
    case HR_ARG_TYPE_STR:
        if (arg->kind == HR_ARG_LIST || arg->kind == HR_ARG_NULL)
            return expected(call, arg, spec, "text", err);
        *(const char **)spec->out = arg->text;
        return 0;
    case HR_ARG_TYPE_ENUM:
        return read_enum(call, arg, spec, err);
    case HR_ARG_TYPE_FLOATS:
    case HR_ARG_TYPE_INTS:
    case HR_ARG_TYPE_STRS:
        return read_list(call, arg, spec, err);
    }
    return hr_fail(err, HR_E_INTERNAL, "argument type %d", (int)spec->type);
}

static const struct hr_arg_spec *find_spec(const struct hr_arg *arg,
                                           const struct hr_arg_spec *specs, int spec_count)
{
    for (int i = 0; i < spec_count; i++)
        if (arg->name[0] ? strcmp(arg->name, specs[i].name) == 0 : specs[i].positional)
            return &specs[i];
    return NULL;
}

static int unknown(const struct hr_call *call, const struct hr_arg *arg,
                   const struct hr_arg_spec *specs, int spec_count, struct hr_error *err)
{
    const char *names[32];
    char list[256] = "";
    int n = 0;

    for (; n < spec_count && n < (int)HR_ARRAY_SIZE(names); n++) {
        size_t used = strlen(list);
        names[n] = specs[n].name;
        snprintf(list + used, sizeof(list) - used, "%s%s", n ? ", " : "", specs[n].name);
    }
    if (arg->name[0])
        hr_fail(err, HR_E_CONFIG, "'%s' has no argument '%s'", call->name, arg->name);
    else
        hr_fail(err, HR_E_CONFIG, "'%s' takes no bare value", call->name);
    hr_error_at_file(err, call->file, arg->key_line ? arg->key_line : arg->line,
                     arg->key_line ? arg->key_column : arg->column);
    const char *near = arg->name[0] ? hr_nearest_word(arg->name, names, n) : NULL;
    if (near)
        hr_error_hint(err, "did you mean '%s'?", near);
    else if (n)
        hr_error_hint(err, "known: %s", list);
    return HR_E_CONFIG;
}

int hr_args_read(const struct hr_call *call, const struct hr_arg_spec *specs, int spec_count,
                 struct hr_error *err)
{
    uint64_t seen = 0;

    HR_ASSERT(spec_count <= 64);
    for (int i = 0; i < call->arg_count; i++) {
        const struct hr_arg *arg = &call->args[i];
        const struct hr_arg_spec *spec = find_spec(arg, specs, spec_count);
        if (!spec)
            return unknown(call, arg, specs, spec_count, err);
        int ret = read_one(call, arg, spec, err);
        if (ret < 0)
            return ret;
        seen |= UINT64_C(1) << (spec - specs);
    }
    for (int i = 0; i < spec_count; i++) {
        if (!specs[i].required || (seen >> i & 1))
            continue;
        hr_fail(err, HR_E_CONFIG, "'%s' needs '%s'", call->name, specs[i].name);
        hr_error_at_file(err, call->file, call->line, call->column);
        return HR_E_CONFIG;
    }
    return 0;
}
