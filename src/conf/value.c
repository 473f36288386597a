/* See value.h. */
#include "conf/value.h"

#include <stdio.h>
#include <string.h>

int hr_conf_no_memory(const struct reader *r)
{
    return hr_fail(r->err, HR_E_NOMEM, "out of memory while reading '%s'", r->conf->file);
}

static const char *const kind_names[] = {"nothing", "a boolean", "an integer",
                                         "a number", "text",      "a list"};

/* "'batch' must be an integer, not text '256'", with a hint where the cause can be guessed. */
int hr_conf_expected(const struct reader *r, const char *key, const struct node *value,
                     const char *what)
{
    struct hr_arg arg = {0};

    if (value->kind != NODE_SCALAR) {
        return hr_conf_fail(r->err, r->conf->file, value, "'%s' must be %s, not a %s", key, what,
                            value->kind == NODE_LIST ? "list" : "mapping");
    }
    int ret = hr_conf_scalar(value, r->conf->file, &arg, r->err);
    if (ret < 0)
        return ret;
    if (arg.kind == HR_ARG_NULL)
        hr_conf_fail(r->err, r->conf->file, value, "'%s' has no value; it must be %s", key, what);
    else
        hr_conf_fail(r->err, r->conf->file, value, "'%s' must be %s, not %s '%s'", key, what,
                     kind_names[arg.kind], arg.text);
    hr_error_hint(r->err, "%s", hr_conf_kind_hint(value));
    return HR_E_CONFIG;
}

int hr_conf_out_of_range(const struct reader *r, const char *key, const struct node *value,
                         const char *range)
{
    return hr_conf_fail(r->err, r->conf->file, value, "'%s' is %s; it must be %s", key, value->text,
                        range);
}

/* The scalar of the wanted kind, or the error. An integer counts as a number. */
int hr_conf_read_scalar(const struct reader *r, const char *key, const struct node *value,
                        enum hr_arg_kind kind, const char *what, struct hr_arg *arg)
{
    if (value->kind != NODE_SCALAR)
        return hr_conf_expected(r, key, value, what);
    int ret = hr_conf_scalar(value, r->conf->file, arg, r->err);
    if (ret < 0)
        return ret;
    if (arg->kind == kind || (kind == HR_ARG_FLOAT && arg->kind == HR_ARG_INT))
        return 0;
    return hr_conf_expected(r, key, value, what);
}

int hr_conf_read_count(const struct reader *r, const char *key, const struct node *value,
                       uint64_t min, uint64_t max, uint64_t *out)
{
    struct hr_arg arg;
    char range[64];
    int ret = hr_conf_read_scalar(r, key, value, HR_ARG_INT, "an integer", &arg);

    if (ret < 0)
        return ret;
    if (arg.integer < 0 || (uint64_t)arg.integer < min || (uint64_t)arg.integer > max) {
        snprintf(range, sizeof(range), "from %llu to %llu", (unsigned long long)min,
                 (unsigned long long)max);
        return hr_conf_out_of_range(r, key, value, range);
    }
    *out = (uint64_t)arg.integer;
    return 0;
}

int hr_conf_read_number(const struct reader *r, const char *key, const struct node *value,
                        double above, double max, const char *range, double *out)
{
    struct hr_arg arg;
    int ret = hr_conf_read_scalar(r, key, value, HR_ARG_FLOAT, "a number", &arg);

    if (ret < 0)
        return ret;
    if (!(arg.number > above && arg.number <= max))
        return hr_conf_out_of_range(r, key, value, range);
    *out = arg.number;
    return 0;
}

int hr_conf_read_choice(const struct reader *r, const char *key, const struct node *value,
                        const char *const *choices, int *out)
{
    char list[128] = "";
    int count = 0;

    for (; choices[count]; count++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", count ? ", " : "", choices[count]);
        if (value->kind == NODE_SCALAR && strcmp(value->text, choices[count]) == 0) {
            *out = count;
            return 0;
        }
    }
    if (value->kind != NODE_SCALAR)
        return hr_conf_expected(r, key, value, "a word");
    hr_conf_fail(r->err, r->conf->file, value, "'%s' cannot be '%s'", key, value->text);
    const char *near = hr_nearest_word(value->text, choices, count);
    if (near && value->text[0])
        hr_error_hint(r->err, "did you mean '%s'? one of: %s", near, list);
    else
        hr_error_hint(r->err, "one of: %s", list);
    return HR_E_CONFIG;
}

/* Names the nearest of the known keys, or lists them. */
int hr_conf_unknown_key(const struct reader *r, const struct node *key, const char *where,
                        const char *const *known, int known_count)
{
    char list[320] = "";

    hr_conf_fail(r->err, r->conf->file, key, "%s no key '%s'", where, key->text);
    const char *near = hr_nearest_word(key->text, known, known_count);
    if (strcmp(key->text, "<<") == 0) {
        hr_error_hint(r->err, "merge keys are not part of YAML 1.2; write the keys out");
    } else if (near) {
        hr_error_hint(r->err, "did you mean '%s'?", near);
    } else {
        for (int i = 0; i < known_count; i++) {
            size_t used = strlen(list);
            snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", known[i]);
        }
        hr_error_hint(r->err, "known: %s", list);
    }
    return HR_E_CONFIG;
}
