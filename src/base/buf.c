/* Growing buffer and JSON writer. */
#include "base/buf.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void hr_buf_finish(struct hr_buf *buf)
{
    hr_free(buf->data);
    *buf = (struct hr_buf){0};
}

void hr_buf_reset(struct hr_buf *buf)
{
    buf->used = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = 0;
}

static bool reserve(struct hr_buf *buf, size_t extra)
{
    if (buf->failed || extra > SIZE_MAX / 4 - buf->used)
        buf->failed = true;
    if (buf->failed)
        return false;
    size_t need = buf->used + extra + 1;
    if (need <= buf->cap)
        return true;
    size_t cap = buf->cap ? buf->cap : 256;
    while (cap < need)
        cap *= 2;
    uint8_t *grown = hr_realloc(buf->data, cap, 1);
    if (!grown) {
        buf->failed = true;
        return false;
    }
    buf->data = grown;
    buf->cap = cap;
    return true;
}

void hr_buf_add(struct hr_buf *buf, const void *data, size_t bytes)
{
    if (!reserve(buf, bytes))
        return;
    if (bytes)
        memcpy(buf->data + buf->used, data, bytes);
    buf->used += bytes;
    buf->data[buf->used] = 0;
}

void hr_buf_add_str(struct hr_buf *buf, const char *s)
{
    hr_buf_add(buf, s, strlen(s));
}

void hr_buf_addf(struct hr_buf *buf, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && reserve(buf, (size_t)n)) {
        vsnprintf((char *)buf->data + buf->used, (size_t)n + 1, fmt, again);
        buf->used += (size_t)n;
    }
    va_end(again);
}

size_t hr_utf8_valid_prefix(const void *s, size_t bytes)
{
    const uint8_t *p = s;
    size_t i = 0;

    while (i < bytes) {
        uint8_t c = p[i];
        size_t more;
        uint32_t cp, low;
        if (c < 0x80) {
            i++;
            continue;
        } else if (c >= 0xc2 && c <= 0xdf) {
            more = 1, cp = c & 0x1fu, low = 0x80;
        } else if (c >= 0xe0 && c <= 0xef) {
            more = 2, cp = c & 0x0fu, low = 0x800;
        } else if (c >= 0xf0 && c <= 0xf4) {
            more = 3, cp = c & 0x07u, low = 0x10000;
        } else {
            return i;
        }
        if (bytes - i <= more)
            return i;
        for (size_t k = 1; k <= more; k++) {
            if ((p[i + k] & 0xc0) != 0x80)
                return i;
            cp = cp << 6 | (p[i + k] & 0x3fu);
        }
        if (cp < low || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
            return i;
        i += more + 1;
    }
    return i;
}

static void add_quoted(struct hr_buf *buf, const char *s, size_t bytes)
{
    hr_buf_add(buf, "\"", 1);
    for (size_t i = 0; i < bytes;) {
        size_t valid = hr_utf8_valid_prefix(s + i, bytes - i);
        size_t end = i + valid;
        size_t start = i;
        for (; i < end; i++) {
            unsigned char c = (unsigned char)s[i];
            if (c >= 0x20 && c != '"' && c != '\\')
                continue;
            hr_buf_add(buf, s + start, i - start);
            start = i + 1;
            if (c == '"' || c == '\\')
                hr_buf_addf(buf, "\\%c", c);
            else if (c == '\n')
                hr_buf_add_str(buf, "\\n");
            else if (c == '\t')
                hr_buf_add_str(buf, "\\t");
            else
                hr_buf_addf(buf, "\\u%04x", c);
        }
        hr_buf_add(buf, s + start, end - start);
        if (i < bytes) {
            hr_buf_add_str(buf, "\xef\xbf\xbd");
            i++;
        }
    }
    hr_buf_add(buf, "\"", 1);
}

static void begin_item(struct hr_buf *buf, const char *key)
{
    char last = buf->used ? (char)buf->data[buf->used - 1] : 0;

    if (last && last != '{' && last != '[' && last != ':' && last != '\n')
        hr_buf_add(buf, ",", 1);
    if (key) {
        add_quoted(buf, key, strlen(key));
        hr_buf_add(buf, ":", 1);
    }
}

void hr_json_open(struct hr_buf *buf, const char *key, char bracket)
{
    begin_item(buf, key);
    hr_buf_add(buf, &bracket, 1);
}

void hr_json_close(struct hr_buf *buf, char bracket)
{
    hr_buf_add(buf, &bracket, 1);
}

void hr_json_int(struct hr_buf *buf, const char *key, int64_t v)
{
    begin_item(buf, key);
    hr_buf_addf(buf, "%" PRId64, v);
}

void hr_json_uint(struct hr_buf *buf, const char *key, uint64_t v)
{
    begin_item(buf, key);
    hr_buf_addf(buf, "%" PRIu64, v);
}

void hr_json_double(struct hr_buf *buf, const char *key, double v)
{
    char text[40];

    begin_item(buf, key);
    if (!isfinite(v)) {
        hr_buf_add_str(buf, "null");
        return;
    }
    /* The shortest of the usual precisions that reads back as the same number. */
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    hr_buf_add_str(buf, text);
}

void hr_json_bool(struct hr_buf *buf, const char *key, bool v)
{
    begin_item(buf, key);
    hr_buf_add_str(buf, v ? "true" : "false");
}

void hr_json_null(struct hr_buf *buf, const char *key)
{
    begin_item(buf, key);
    hr_buf_add_str(buf, "null");
}

void hr_json_strn(struct hr_buf *buf, const char *key, const char *s, size_t bytes)
{
    begin_item(buf, key);
    add_quoted(buf, s, bytes);
}

void hr_json_str(struct hr_buf *buf, const char *key, const char *s)
{
    hr_json_strn(buf, key, s, strlen(s));
}

void hr_json_raw(struct hr_buf *buf, const char *key, const char *json)
{
    begin_item(buf, key);
    hr_buf_add_str(buf, json);
}
