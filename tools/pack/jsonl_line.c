/* Splits a line that json-c has found good. */
#include "tools/pack/jsonl_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 128, MAX_NUMBER = 400 };

struct json_tokener *hr_jsonl_tokener(void)
{
    struct json_tokener *tok = json_tokener_new_ex(MAX_DEPTH);

    if (tok)
        json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    return tok;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
        at++;
    return at;
}

/* The line is good JSON: strings close, brackets match. A quote ends the string unless an odd number
 * of backslashes stands before it. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end; at++) {
        const char *start = at;
        at = memchr(at, '"', (size_t)(end - at));
        if (!at)
            return end;
        const char *back = at;
        while (back > start && back[-1] == '\\')
            back--;
        if ((at - back) % 2 == 0)
            return at + 1;
    }
    return end;
}

static const char *skip_value(const char *at, const char *end)
{
    int depth = 0;

    while (at < end) {
        if (*at == '"') {
            at = skip_string(at, end);
            if (!depth)
                return at;
            continue;
        }
        if (!depth && strchr(",}] \t\r\n", *at))
            return at;
        if (*at == '{' || *at == '[')
            depth++;
        else if ((*at == '}' || *at == ']') && --depth == 0)
            return at + 1;
        at++;
    }
    return end;
}

static bool copy_number(const struct hr_jsonl_member *member, char *out, size_t out_bytes)
{
    if (member->raw_bytes >= out_bytes)
        return false;
    memcpy(out, member->raw, member->raw_bytes);
    out[member->raw_bytes] = 0;
    return true;
}

static bool fits_i64(const struct hr_jsonl_member *member)
{
    char text[32];

    if (!copy_number(member, text, sizeof(text)))
        return false;
    errno = 0;
    strtoll(text, NULL, 10);
    return errno == 0;
}

/* NaN and Infinity, which json-c lets pass, are no kind: HR_JSONL_KINDS. */
static enum hr_jsonl_kind kind_of(const struct hr_jsonl_member *member)
{
    char c = member->raw_bytes ? member->raw[0] : 0;

    switch (c) {
    case '{':
    case '[':
        return HR_JSONL_NESTED;
    case '"':
        return HR_JSONL_STR;
    case 't':
    case 'f':
        return HR_JSONL_BOOL;
    case 'n':
        return HR_JSONL_NULL;
    }
    if (c == '-' && member->raw_bytes > 1)
        c = member->raw[1];
    if (c < '0' || c > '9' || member->raw_bytes >= MAX_NUMBER)
        return HR_JSONL_KINDS;
    if (memchr(member->raw, '.', member->raw_bytes) || memchr(member->raw, 'e', member->raw_bytes) ||
        memchr(member->raw, 'E', member->raw_bytes))
        return HR_JSONL_FLOAT;
    return fits_i64(member) ? HR_JSONL_INT : HR_JSONL_FLOAT;
}

static int split(struct hr_jsonl_line *line, const char *text, size_t bytes, struct hr_error *err)
{
    const char *end = text + bytes, *at = skip_space(text, end) + 1;

    for (at = skip_space(at, end); at < end && *at != '}'; at = skip_space(at, end)) {
        if (line->count == HR_JSONL_MAX_MEMBERS)
            return hr_fail(err, HR_E_LIMIT, "more than %d keys", HR_JSONL_MAX_MEMBERS);
        struct hr_jsonl_member *member = &line->members[line->count++];
        at = skip_space(skip_string(at, end), end) + 1;
        at = skip_space(at, end);
        member->raw = at;
        at = skip_value(at, end);
        member->raw_bytes = (size_t)(at - member->raw);
        member->kind = kind_of(member);
        if (member->kind == HR_JSONL_KINDS) {
            line->column = (int)(member->raw - text) + 1;
            return hr_fail(err, HR_E_FORMAT, "not JSON: '%.*s' (null stands for no value)",
                           (int)(member->raw_bytes < 24 ? member->raw_bytes : 24), member->raw);
        }
        at = skip_space(at, end);
        if (at < end && *at == ',')
            at++;
    }
    return 0;
}

/* json-c keeps the order of keys, and one value for a key that is written twice. */
static int join(struct hr_jsonl_line *line, struct hr_error *err)
{
    int i = 0;

    if (json_object_object_length(line->object) != line->count)
        return hr_fail(err, HR_E_FORMAT, "a key is written twice");
    json_object_object_foreach(line->object, key, value)
    {
        line->members[i].key = key;
        line->members[i++].value = value;
    }
    return 0;
}

int hr_jsonl_parse(struct json_tokener *tok, const char *text, size_t bytes,
                   struct hr_jsonl_line *line, struct hr_error *err)
{
    line->count = 0;
    line->column = 1;
    line->object = NULL;
    if (bytes > INT32_MAX)
        return hr_fail(err, HR_E_LIMIT, "a line of %zu bytes", bytes);
    json_tokener_reset(tok);
    line->object = json_tokener_parse_ex(tok, text, (int)bytes);
    enum json_tokener_error why = json_tokener_get_error(tok);
    int ret = 0;
    if (why != json_tokener_success) {
        size_t at = json_tokener_get_parse_end(tok);
        line->column = (int)(at < bytes ? at : bytes) + 1;
        ret = hr_fail(err, HR_E_FORMAT, "not JSON: %s",
                      why == json_tokener_continue ? "the line ends too early"
                                                   : json_tokener_error_desc(why));
    } else if (!json_object_is_type(line->object, json_type_object)) {
        ret = hr_fail(err, HR_E_FORMAT, "not a JSON object ({\"key\": value, ...})");
    }
    if (ret == 0)
        ret = split(line, text, bytes, err);
    if (ret == 0)
        ret = join(line, err);
    if (ret < 0)
        hr_jsonl_line_finish(line);
    return ret;
}

void hr_jsonl_line_finish(struct hr_jsonl_line *line)
{
    json_object_put(line->object);
    line->object = NULL;
    line->count = 0;
}

int64_t hr_jsonl_i64(const struct hr_jsonl_member *member)
{
    char text[32];

    return copy_number(member, text, sizeof(text)) ? strtoll(text, NULL, 10) : 0;
}

double hr_jsonl_f64(const struct hr_jsonl_member *member)
{
    char text[MAX_NUMBER];

    return copy_number(member, text, sizeof(text)) ? strtod(text, NULL) : 0;
}

const char *hr_jsonl_kind_name(enum hr_jsonl_kind kind)
{
    static const char *const names[] = {"null",     "true or false", "a whole number",
                                        "a number", "a string",      "a list or object"};

    return kind < HR_JSONL_KINDS ? names[kind] : "?";
}
