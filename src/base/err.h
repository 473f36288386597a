/* Errors: a code from <headrace/errors.h> plus, in the caller's struct hr_error, the place (file,
 * line and column, or shard, record, field and offset), the reason and the way out. */
#ifndef HR_BASE_ERR_H
#define HR_BASE_ERR_H

#include <headrace/errors.h>

#include "base/base.h"

#define HR_NO_RECORD UINT64_MAX

struct hr_error {
    int code;         /* HR_E_*, 0 when unset */
    int sys_errno;    /* errno behind it, or 0 */
    int line, column; /* 1-based, 0 = unknown */
    uint64_t record;  /* HR_NO_RECORD = unknown */
    int64_t offset;   /* byte offset in file or value, -1 = unknown */
    char file[256];   /* file or shard name, "" = unknown; long paths keep their tail */
    char field[64];   /* field name, "" = unknown */
    char text[384];   /* the reason, one line, no full stop */
    char hint[384];   /* what to do about it, "" = none */
};

/* An empty error, for initialisation. */
#define HR_ERROR_INIT                                                                              \
    (struct hr_error)                                                                              \
    {                                                                                              \
        .record = HR_NO_RECORD, .offset = -1                                                       \
    }

/* Fills err (reset first; NULL is allowed) with a code and a formatted reason, returns code. */
int hr_fail(struct hr_error *err, int code, const char *fmt, ...) HR_PRINTF(3, 4);

/* The same from errno: appends strerror text, and maps ENOSPC, EACCES, ENOENT, EISDIR, ENOMEM,
 * EMFILE, EEXIST and their like to their codes; everything else becomes HR_E_IO. */
int hr_fail_errno(struct hr_error *err, int sys_errno, const char *fmt, ...) HR_PRINTF(3, 4);

/* Add the place or the way out to an error that hr_fail() filled. NULL err is allowed. */
void hr_error_at_file(struct hr_error *err, const char *file, int line, int column);
void hr_error_at_value(struct hr_error *err, const char *shard, uint64_t record, const char *field,
                       int64_t offset);
void hr_error_hint(struct hr_error *err, const char *fmt, ...) HR_PRINTF(2, 3);

/* "file:line:column: reason (hint)" in one line; returns buf, always terminated. */
const char *hr_error_format(const struct hr_error *err, char *buf, size_t buf_bytes);

const char *hr_error_name(int code); /* "HR_E_CORRUPT" */
const char *hr_error_text(int code); /* "corrupt data" */
enum hr_error_scope hr_error_scope_of(int code);
bool hr_error_retryable(int code);

#endif
