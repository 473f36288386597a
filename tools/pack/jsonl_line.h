/* One line of JSONL taken apart: json-c checks it and decodes keys and strings; beside each value
 * stand its bytes as written, so that numbers and nested values lose nothing. */
#ifndef HR_PACK_JSONL_LINE_H
#define HR_PACK_JSONL_LINE_H

#include <json-c/json.h>

#include "base/err.h"

enum { HR_JSONL_MAX_MEMBERS = 256 };

enum hr_jsonl_kind {
    HR_JSONL_NULL,
    HR_JSONL_BOOL,
    HR_JSONL_INT,   /* fits int64_t */
    HR_JSONL_FLOAT, /* any other number */
    HR_JSONL_STR,
    HR_JSONL_NESTED,
    HR_JSONL_KINDS,
};

struct hr_jsonl_member {
    const char *key;
    struct json_object *value;
    const char *raw; /* in the line */
    size_t raw_bytes;
    enum hr_jsonl_kind kind;
};

struct hr_jsonl_line {
    struct json_object *object;
    struct hr_jsonl_member members[HR_JSONL_MAX_MEMBERS];
    int count;
    int column; /* of an error, 1-based, in bytes */
};

/* The tokener is reused from line to line. line need not be terminated and must outlive the result.
 * HR_E_FORMAT with the reason, and line->column set. */
struct json_tokener *hr_jsonl_tokener(void) HR_MUST_CHECK; /* NULL = out of memory */
int hr_jsonl_parse(struct json_tokener *tok, const char *text, size_t bytes,
                   struct hr_jsonl_line *line, struct hr_error *err) HR_MUST_CHECK;
void hr_jsonl_line_finish(struct hr_jsonl_line *line);

/* The numbers of a member of that kind, from the bytes as written. */
int64_t hr_jsonl_i64(const struct hr_jsonl_member *member);
double hr_jsonl_f64(const struct hr_jsonl_member *member);

const char *hr_jsonl_kind_name(enum hr_jsonl_kind kind); /* "a whole number" */

#endif
