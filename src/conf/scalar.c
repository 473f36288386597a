/* What a plain scalar means: YAML 1.2's core schema, and nothing more (1.1's yes, no, on, off,
 * 0777 and 1_000 are text). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conf/tree.h"

static bool is_one_of(const char *s, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(s, *words) == 0)
            return true;
    return false;
}

static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
static const char *const trues[] = {"true", "True", "TRUE", NULL};
static const char *const falses[] = {"false", "False", "FALSE", NULL};
static const char *const not_finite[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", NULL};

static const char *after_digits(const char *s)
{
    return s + strspn(s, "0123456789");
}

static bool is_decimal(const char *s)
{
    s += *s == '-' || *s == '+';
    return *s && !*after_digits(s);
}

static bool is_based(const char *s)
{
    if (s[0] != '0' || !s[1] || !s[2])
        return false;
    if (s[1] == 'x')
        return s[2 + strspn(s + 2, "0123456789abcdefABCDEF")] == 0;
    return s[1] == 'o' && s[2 + strspn(s + 2, "01234567")] == 0;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_float(const char *s)
{
    s += *s == '-' || *s == '+';
    const char *whole = s, *point = after_digits(s);
    const char *end = *point == '.' ? after_digits(point + 1) : point;
    if (point == whole && end <= point + 1)
        return false;
    if (*end == 'e' || *end == 'E') {
        end++;
        end += *end == '-' || *end == '+';
        return *end && !*after_digits(end);
    }
    return !*end;
}

/* The base of an integer; *digits is where its digits or sign begin. */
static int base_of(const char *s, const char **digits)
{
    *digits = is_based(s) ? s + 2 : s;
    return *digits == s ? 10 : s[1] == 'x' ? 16 : 8;
}

bool hr_conf_is_integer(const struct node *node)
{
    return !node->quoted && (is_decimal(node->text) || is_based(node->text));
}

bool hr_conf_integer_u64(const struct node *node, uint64_t *out)
{
    const char *digits;
    int base = base_of(node->text, &digits);

    errno = 0;
    unsigned long long v = strtoull(digits, NULL, base);
    if (errno || (*digits == '-' && v != 0))
        return false;
    *out = v;
    return true;
}

static int read_integer(const struct node *node, const char *file, struct hr_arg *arg,
                        struct hr_error *err)
{
    const char *digits;
    int base = base_of(node->text, &digits);

    errno = 0;
    arg->kind = HR_ARG_INT;
    arg->integer = strtoll(digits, NULL, base);
    arg->number = (double)arg->integer;
    if (errno)
        return hr_conf_fail(err, file, node, "'%s' does not fit 64 bits", node->text);
    return 0;
}

static int read_float(const struct node *node, const char *file, struct hr_arg *arg,
                      struct hr_error *err)
{
    arg->kind = HR_ARG_FLOAT;
    arg->number = strtod(node->text, NULL);
    if (!isfinite(arg->number))
        return hr_conf_fail(err, file, node, "'%s' is too large for a number", node->text);
    return 0;
}

int hr_conf_scalar(const struct node *node, const char *file, struct hr_arg *arg,
                   struct hr_error *err)
{
    const char *s = node->text;

    *arg = (struct hr_arg){
        .kind = HR_ARG_STR, .text = s, .line = node->line, .column = node->column};
    if (node->quoted)
        return 0;
    if (is_one_of(s, nulls)) {
        arg->kind = HR_ARG_NULL;
        return 0;
    }
    arg->boolean = is_one_of(s, trues);
    if (arg->boolean || is_one_of(s, falses)) {
        arg->kind = HR_ARG_BOOL;
        return 0;
    }
    if (hr_conf_is_integer(node))
        return read_integer(node, file, arg, err);
    if (is_one_of(s + (*s == '-' || *s == '+'), not_finite)) {
        hr_conf_fail(err, file, node, "'%s' is not a finite number", s);
        hr_error_hint(err, "put it in quotes if it is meant as text");
        return HR_E_CONFIG;
    }
    return is_float(s) ? read_float(node, file, arg, err) : 0;
}

const char *hr_conf_kind_hint(const struct node *node)
{
    static const char *const booleans_of_1_1[] = {"yes", "Yes", "YES", "no", "No",  "NO",
                                                  "on",  "On",  "ON",  "off", "Off", "OFF", NULL};

    if (node->kind != NODE_SCALAR)
        return "";
    if (node->quoted && (is_decimal(node->text) || is_based(node->text) || is_float(node->text)))
        return "remove the quotes: in quotes it is text";
    if (!node->quoted && is_one_of(node->text, booleans_of_1_1))
        return "YAML 1.2: booleans are true and false";
    return "";
}
