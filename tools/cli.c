/* Parses a command's words by its table of options. */
#include "tools/cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arg.h"
#include "base/fd.h"
#include "base/log.h"

enum common { COMMON_JSON, COMMON_QUIET, COMMON_VERBOSE, COMMON_HELP };

/* The offset of a common option says which one it is: none of them is stored through it. */
const struct hr_opt hr_cli_common[] = {
    [COMMON_JSON] = {"json", 0, HR_OPT_FLAG, NULL, COMMON_JSON, "print the result as JSON"},
    [COMMON_QUIET] = {"quiet", 'q', HR_OPT_FLAG, NULL, COMMON_QUIET, "print errors only"},
    [COMMON_VERBOSE] = {"verbose", 'v', HR_OPT_FLAG, NULL, COMMON_VERBOSE,
                        "say more about what is being done"},
    [COMMON_HELP] = {"help", 'h', HR_OPT_FLAG, NULL, COMMON_HELP, "print this page and end"},
    HR_OPT_END,
};

const struct hr_exit_note hr_cli_exits[] = {
    {HR_EXIT_DONE, "done"},
    {HR_EXIT_FOUND, "done, and something was found wrong"},
    {HR_EXIT_USAGE, "wrong usage or configuration; nothing was done"},
    {HR_EXIT_FAILED, "failed underway"},
    {128, "plus n: ended by signal n"},
    {0, NULL},
};

struct parser {
    const struct hr_command *command;
    char *options;
    struct hr_cli *cli;
    bool help;
};

static bool is_common(const struct hr_opt *opt)
{
    return opt >= hr_cli_common && opt < hr_cli_common + COMMON_HELP + 1;
}

static const struct hr_opt *find_opt(const struct parser *p, const char *name, size_t length,
                                     char letter)
{
    const struct hr_opt *lists[] = {p->command->opts, hr_cli_common};

    for (size_t i = 0; i < HR_ARRAY_SIZE(lists); i++) {
        for (const struct hr_opt *opt = lists[i]; opt && opt->name; opt++) {
            if (opt == &hr_cli_common[COMMON_JSON] && !p->command->has_json)
                continue;
            if (name ? strlen(opt->name) == length && memcmp(opt->name, name, length) == 0
                     : opt->letter == letter)
                return opt;
        }
    }
    return NULL;
}

void hr_cli_each_opt(const struct hr_command *command,
                     void (*fn)(void *arg, const struct hr_opt *opt), void *arg)
{
    for (const struct hr_opt *opt = command->opts; opt && opt->name; opt++)
        fn(arg, opt);
    for (const struct hr_opt *opt = hr_cli_common; opt->name; opt++)
        if (opt != &hr_cli_common[COMMON_JSON] || command->has_json)
            fn(arg, opt);
}

int hr_cli_wrong(const struct hr_command *command, const char *fmt, ...)
{
    char text[768];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    hr_log(HR_LOG_ERROR, "%s: %s (see: headrace %s --help)", command->name, text,
           command->name);
    return HR_EXIT_USAGE;
}

int hr_cli_failed(const char *doing, const struct hr_error *err)
{
    hr_log_error(HR_LOG_ERROR, doing, err);
    return err->code == HR_E_USAGE || err->code == HR_E_CONFIG ? HR_EXIT_USAGE : HR_EXIT_FAILED;
}

int hr_cli_unopened(const char *doing, const struct hr_error *err)
{
    int code = hr_cli_failed(doing, err);
    bool named = err->code == HR_E_NOT_FOUND || err->code == HR_E_DENIED || err->code == HR_E_FORMAT;

    return named ? HR_EXIT_USAGE : code;
}

static void collect_name(void *arg, const struct hr_opt *opt)
{
    const char ***next = arg;

    *(*next)++ = opt->name;
}

static int unknown_opt(const struct parser *p, const char *word, size_t length)
{
    const char *names[HR_CLI_MAX_OPTS + COMMON_HELP + 1], **next = names;
    char name[64];

    hr_cli_each_opt(p->command, collect_name, &next);
    snprintf(name, sizeof(name), "%.*s", (int)length, word);
    const char *near = hr_nearest_word(name, names, (int)(next - names));
    if (near)
        return hr_cli_wrong(p->command, "unknown option --%s, did you mean --%s?", name, near);
    return hr_cli_wrong(p->command, "unknown option --%s", name);
}

bool hr_cli_parse_count(const char *text, uint64_t *out)
{
    uint64_t v = 0;

    for (const char *p = text; *p; p++)
        if (*p < '0' || *p > '9' || !hr_mul_u64(v, 10, &v) ||
            !hr_add_u64(v, (uint64_t)(*p - '0'), &v))
            return false;
    *out = v;
    return text[0] != 0;
}

bool hr_cli_parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;

    /* strtod would take "inf", "nan" and hexadecimal numbers as well. */
    if (text[strspn(text, "0123456789.")] && !strchr("KMGTBkmgtb", text[strspn(text, "0123456789.")]))
        return false;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    double v = strtod(text, &end);
    if (errno)
        return false;
    const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
    if (unit) {
        for (long i = 0; i <= unit - units; i++)
            v *= 1024;
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    if (*end || v >= 9.2e18 || v != floor(v))
        return false;
    *bytes = (uint64_t)v;
    return true;
}

static bool in_range(const struct hr_opt *opt, double v)
{
    return opt->min >= opt->max || (v >= opt->min && v <= opt->max);
}

static int out_of_range(const struct parser *p, const struct hr_opt *opt, const char *text)
{
    return hr_cli_wrong(p->command, "--%s is %s; it must be from %.15g to %.15g", opt->name, text,
                        opt->min, opt->max);
}

static int set_number(struct parser *p, const struct hr_opt *opt, const char *text, void *value)
{
    uint64_t size = 0;
    long long whole = 0;
    double number = 0;
    char *end = NULL;
    const char *what = "a whole number";
    bool good = *text != 0;

    errno = 0;
    if (opt->type == HR_OPT_INT) {
        whole = strtoll(text, &end, 10);
        number = (double)whole;
    } else if (opt->type == HR_OPT_FLOAT) {
        number = strtod(text, &end);
        what = "a number";
    } else {
        good = hr_cli_parse_size(text, &size);
        number = (double)size;
        what = "a size such as 4096, 256K, 64M or 1G";
    }
    if (!good || (end && *end) || errno || !isfinite(number))
        return hr_cli_wrong(p->command, "--%s needs %s, not '%s'", opt->name, what, text);
    if (!in_range(opt, number))
        return out_of_range(p, opt, text);
    if (opt->type == HR_OPT_INT)
        *(int64_t *)value = whole;
    else if (opt->type == HR_OPT_FLOAT)
        *(double *)value = number;
    else
        *(uint64_t *)value = size;
    return HR_CLI_RUN;
}

static int set_choice(struct parser *p, const struct hr_opt *opt, const char *text, int *value)
{
    char list[256] = "";
    size_t n = 0;

    for (int i = 0; opt->choices[i]; i++) {
        if (strcmp(opt->choices[i], text) == 0) {
            *value = i;
            return HR_CLI_RUN;
        }
        if (n < sizeof(list))
            n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "",
                                  opt->choices[i]);
    }
    return hr_cli_wrong(p->command, "--%s cannot be '%s'; one of: %s", opt->name, text, list);
}

static int set_common(struct parser *p, const struct hr_opt *opt)
{
    switch ((enum common)opt->offset) {
    case COMMON_JSON:
        p->cli->json = true;
        break;
    case COMMON_QUIET:
        hr_log_set_level(HR_LOG_ERROR);
        break;
    case COMMON_VERBOSE:
        hr_log_set_level(HR_LOG_DEBUG);
        break;
    case COMMON_HELP:
        p->help = true;
        break;
    }
    return HR_CLI_RUN;
}

static int set_opt(struct parser *p, const struct hr_opt *opt, const char *text)
{
    if (is_common(opt))
        return set_common(p, opt);

    void *value = p->options + opt->offset;
    struct hr_cli_list *list = value;
    bool automatic = opt->fallback && strcmp(opt->fallback, "auto") == 0 && text &&
                     strcmp(text, "auto") == 0;

    switch (opt->type) {
    case HR_OPT_FLAG:
        *(bool *)value = true;
        return HR_CLI_RUN;
    case HR_OPT_STR:
        *(const char **)value = text;
        return HR_CLI_RUN;
    case HR_OPT_CHOICE:
        return set_choice(p, opt, text, value);
    case HR_OPT_LIST:
        if (list->count == HR_CLI_MAX_LIST)
            return hr_cli_wrong(p->command, "--%s was given more than %d times", opt->name,
                                HR_CLI_MAX_LIST);
        list->items[list->count++] = text;
        return HR_CLI_RUN;
    case HR_OPT_INT:
    case HR_OPT_SIZE:
    case HR_OPT_FLOAT:
        break;
    }
    /* Zero is what an automatic number holds already, unless it was given before. */
    if (automatic) {
        if (opt->type == HR_OPT_FLOAT)
            *(double *)value = 0;
        else
            *(uint64_t *)value = 0;
        return HR_CLI_RUN;
    }
    return set_number(p, opt, text, value);
}

/* --name, --name=value, --name value. *i is left on the last word that was used. */
static int parse_long(struct parser *p, int argc, char **argv, int *i)
{
    const char *word = argv[*i] + 2;
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const struct hr_opt *opt = find_opt(p, word, length, 0);

    if (!opt)
        return unknown_opt(p, word, length);
    if (opt->type == HR_OPT_FLAG)
        return equals ? hr_cli_wrong(p->command, "--%s takes no value", opt->name)
                      : set_opt(p, opt, NULL);
    if (equals)
        return set_opt(p, opt, equals + 1);
    if (*i + 1 >= argc)
        return hr_cli_wrong(p->command, "--%s needs a value", opt->name);
    return set_opt(p, opt, argv[++*i]);
}

/* -q, -qv, -j4, -j 4 */
static int parse_short(struct parser *p, int argc, char **argv, int *i)
{
    for (const char *c = argv[*i] + 1; *c; c++) {
        const struct hr_opt *opt = find_opt(p, NULL, 0, *c);
        if (!opt)
            return hr_cli_wrong(p->command, "unknown option -%c", *c);
        if (opt->type != HR_OPT_FLAG) {
            if (c[1])
                return set_opt(p, opt, c + 1);
            if (*i + 1 >= argc)
                return hr_cli_wrong(p->command, "-%c needs a value", *c);
            return set_opt(p, opt, argv[++*i]);
        }
        int code = set_opt(p, opt, NULL);
        if (code != HR_CLI_RUN)
            return code;
    }
    return HR_CLI_RUN;
}

static int set_defaults(struct parser *p)
{
    for (const struct hr_opt *opt = p->command->opts; opt && opt->name; opt++) {
        if (!opt->fallback || opt->type == HR_OPT_FLAG)
            continue;
        int code = set_opt(p, opt, opt->fallback);
        if (code != HR_CLI_RUN)
            return code;
    }
    return HR_CLI_RUN;
}

static int check_args(const struct parser *p)
{
    int i = 0;
    bool repeats = false;

    for (const struct hr_cli_arg *arg = p->command->args; arg && arg->name; arg++, i++) {
        if (i >= p->cli->arg_count && !arg->optional)
            return hr_cli_wrong(p->command, "%s is missing", arg->name);
        repeats |= arg->repeats;
    }
    if (p->cli->arg_count > i && !repeats)
        return hr_cli_wrong(p->command, "'%s' is one argument too many", p->cli->args[i]);
    return HR_CLI_RUN;
}

static int parse_words(struct parser *p, int argc, char **argv)
{
    bool only_args = false;

    for (int i = 1; i < argc; i++) {
        int code = HR_CLI_RUN;
        if (!only_args && strcmp(argv[i], "--") == 0) {
            only_args = true;
        } else if (!only_args && strncmp(argv[i], "--", 2) == 0) {
            code = parse_long(p, argc, argv, &i);
        } else if (!only_args && argv[i][0] == '-' && argv[i][1]) {
            code = parse_short(p, argc, argv, &i);
        } else if (p->cli->arg_count == HR_CLI_MAX_ARGS) {
            code = hr_cli_wrong(p->command, "more than %d arguments", HR_CLI_MAX_ARGS);
        } else {
            p->cli->args[p->cli->arg_count++] = argv[i];
        }
        if (code != HR_CLI_RUN)
            return code;
    }
    return HR_CLI_RUN;
}

int hr_cli_parse(const struct hr_command *command, int argc, char **argv, void *options,
                 size_t option_bytes)
{
    struct parser p = {.command = command, .options = options, .cli = options};

    memset(options, 0, option_bytes);
    int code = set_defaults(&p);
    if (code == HR_CLI_RUN)
        code = parse_words(&p, argc, argv);
    if (code == HR_CLI_RUN && p.help) {
        struct hr_buf out = {0};
        hr_cli_help(&out, command);
        return hr_cli_print(&out);
    }
    return code == HR_CLI_RUN ? check_args(&p) : code;
}

int hr_cli_print(struct hr_buf *buf)
{
    struct hr_error err = HR_ERROR_INIT;
    int code = HR_EXIT_DONE;

    fflush(stdout);
    if (hr_buf_failed(buf))
        code = hr_cli_failed("", (hr_fail(&err, HR_E_NOMEM, "out of memory"), &err));
    else if (hr_fd_write_full(STDOUT_FILENO, buf->data, buf->used, &err) < 0)
        code = err.sys_errno == EPIPE ? HR_EXIT_FAILED : hr_cli_failed("standard output", &err);
    hr_buf_finish(buf);
    return code;
}

