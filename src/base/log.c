/* Line-at-a-time messages on stderr. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};

/* Written at start-up or by a tool's flags, read by every thread; no ordering needed. */
static _Atomic int log_level = HR_LOG_INFO;

void hr_log_set_level(enum hr_log_level level)
{
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

enum hr_log_level hr_log_get_level(void)
{
    return (enum hr_log_level)atomic_load_explicit(&log_level, memory_order_relaxed);
}

void hr_log_init_from_env(void)
{
    const char *wanted = getenv("HEADRACE_LOG");

    for (size_t i = 0; wanted && i < HR_ARRAY_SIZE(level_names); i++)
        if (strcmp(wanted, level_names[i]) == 0)
            hr_log_set_level((enum hr_log_level)i);
}

void hr_log(enum hr_log_level level, const char *fmt, ...)
{
    char line[1536];
    va_list ap;

    if (level > hr_log_get_level())
        return;
    int head = level == HR_LOG_INFO ? snprintf(line, sizeof(line), "headrace: ")
                                    : snprintf(line, sizeof(line), "headrace: %s: ",
                                               level_names[level]);
    va_start(ap, fmt);
    vsnprintf(line + head, sizeof(line) - (size_t)head - 1, fmt, ap);
    va_end(ap);
    size_t n = strlen(line);
    line[n++] = '\n';
    /* A full or closed stderr must not stop feeding. */
    ssize_t ignored = write(STDERR_FILENO, line, n);
    (void)ignored;
}

void hr_log_error(enum hr_log_level level, const char *doing, const struct hr_error *err)
{
    char text[1280];

    hr_error_format(err, text, sizeof(text));
    hr_log(level, "%s%s%s", doing, doing[0] ? ": " : "", text);
}
