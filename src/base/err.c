/* The error table's text form and the functions that fill and print struct hr_error. */
#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    int code;
    enum hr_error_scope scope;
    bool retryable;
    const char *name, *text;
} table[] = {
#define ROW(name, value, scope, retryable, text)                                                   \
    {value, HR_SCOPE_##scope, retryable, "HR_E_" #name, text},
    HR_ERROR_TABLE(ROW)
#undef ROW
};

void hr_assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "headrace: %s:%d: assertion failed: %s\n", file, line, cond);
    abort();
}

static const struct row *find(int code)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(table); i++)
        if (table[i].code == code)
            return &table[i];
    return NULL;
}

const char *hr_error_name(int code)
{
    const struct row *row = find(code);
    return row ? row->name : code == 0 ? "HR_OK" : "HR_E_?";
}

const char *hr_error_text(int code)
{
    const struct row *row = find(code);
    return row ? row->text : code == 0 ? "no error" : "unknown error";
}

enum hr_error_scope hr_error_scope_of(int code)
{
    const struct row *row = find(code);
    return row ? row->scope : HR_SCOPE_PROCESS;
}

bool hr_error_retryable(int code)
{
    const struct row *row = find(code);
    return row && row->retryable;
}

/* Keeps the tail of a long path, since the tail tells files apart. */
static void copy_tail(char *dst, size_t dst_bytes, const char *src)
{
    size_t n = src ? strlen(src) : 0;

    if (n < dst_bytes)
        snprintf(dst, dst_bytes, "%s", src ? src : "");
    else
        snprintf(dst, dst_bytes, "...%s", src + n - (dst_bytes - 4));
}

int hr_fail(struct hr_error *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return code;
    *err = HR_ERROR_INIT;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    return code;
}

static int code_of_errno(int sys_errno)
{
    switch (sys_errno) {
    case ENOSPC:
    case EDQUOT:
        return HR_E_NO_SPACE;
    case EACCES:
    case EPERM:
    case EROFS:
        return HR_E_DENIED;
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
        return HR_E_NOT_FOUND;
    case EISDIR:
        return HR_E_FORMAT;
    case ENOMEM:
    case EMFILE: /* of this process too, and says nothing about the file */
    case ENFILE:
        return HR_E_NOMEM;
    case EEXIST:
        return HR_E_EXISTS;
    default:
        return HR_E_IO;
    }
}

int hr_fail_errno(struct hr_error *err, int sys_errno, const char *fmt, ...)
{
    int code = code_of_errno(sys_errno);
    va_list ap;

    if (!err)
        return code;
    *err = HR_ERROR_INIT;
    err->code = code;
    err->sys_errno = sys_errno;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    size_t n = strlen(err->text);
    snprintf(err->text + n, sizeof(err->text) - n, ": %s", strerror(sys_errno));
    if (sys_errno == EMFILE)
        hr_error_hint(err, "raise 'ulimit -n'");
    return code;
}

void hr_error_at_file(struct hr_error *err, const char *file, int line, int column)
{
    if (!err)
        return;
    if (file)
        copy_tail(err->file, sizeof(err->file), file);
    err->line = line;
    err->column = column;
}

void hr_error_at_value(struct hr_error *err, const char *shard, uint64_t record, const char *field,
                       int64_t offset)
{
    if (!err)
        return;
    if (shard)
        copy_tail(err->file, sizeof(err->file), shard);
    err->record = record;
    if (field)
        snprintf(err->field, sizeof(err->field), "%s", field);
    err->offset = offset;
}

void hr_error_hint(struct hr_error *err, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return;
    va_start(ap, fmt);
    vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
    va_end(ap);
}

const char *hr_error_format(const struct hr_error *err, char *buf, size_t buf_bytes)
{
    char place[512];
    size_t n = 0;

#define ADD(...)                                                                                   \
    do {                                                                                           \
        if (n < sizeof(place))                                                                     \
            n += (size_t)snprintf(place + n, sizeof(place) - n, __VA_ARGS__);                      \
    } while (0)
    place[0] = 0;
    if (err->file[0])
        ADD("%s:", err->file);
    if (err->line > 0)
        ADD("%d:", err->line);
    if (err->column > 0)
        ADD("%d:", err->column);
    if (err->record != HR_NO_RECORD)
        ADD("%srecord %" PRIu64 ":", n ? " " : "", err->record);
    if (err->field[0])
        ADD("%sfield '%s':", n ? " " : "", err->field);
    if (err->offset >= 0)
        ADD("%soffset %" PRId64 ":", n ? " " : "", err->offset);
#undef ADD
    const char *text = err->text[0] ? err->text : hr_error_text(err->code);
    snprintf(buf, buf_bytes, "%s%s%s%s%s%s", place, place[0] ? " " : "", text,
             err->hint[0] ? " (" : "", err->hint, err->hint[0] ? ")" : "");
    return buf;
}
