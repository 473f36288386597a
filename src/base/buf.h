/* A growing byte buffer and a small JSON writer over it, for results and messages (not for the hot
 * path). Failed growth is sticky: check hr_buf_failed() once at the end. */
#ifndef HR_BASE_BUF_H
#define HR_BASE_BUF_H

#include "base/base.h"

struct hr_buf {
    uint8_t *data; /* NUL-terminated when anything was added */
    size_t used, cap;
    bool failed;
};

void hr_buf_finish(struct hr_buf *buf);
void hr_buf_reset(struct hr_buf *buf); /* keeps the memory */
void hr_buf_add(struct hr_buf *buf, const void *data, size_t bytes);
void hr_buf_addf(struct hr_buf *buf, const char *fmt, ...) HR_PRINTF(2, 3);
void hr_buf_add_str(struct hr_buf *buf, const char *s);
static inline bool hr_buf_failed(const struct hr_buf *buf)
{
    return buf->failed;
}
static inline const char *hr_buf_str(const struct hr_buf *buf)
{
    return buf->data ? (const char *)buf->data : "";
}

/* JSON writer: commas are placed by itself. Keys are NULL inside arrays.
 *   hr_json_open(&b, NULL, '{'); hr_json_int(&b, "n", 3); hr_json_close(&b, '}');  */
void hr_json_open(struct hr_buf *buf, const char *key, char bracket);
void hr_json_close(struct hr_buf *buf, char bracket);
void hr_json_int(struct hr_buf *buf, const char *key, int64_t v);
void hr_json_uint(struct hr_buf *buf, const char *key, uint64_t v);
void hr_json_double(struct hr_buf *buf, const char *key, double v); /* not finite: null */
void hr_json_bool(struct hr_buf *buf, const char *key, bool v);
void hr_json_null(struct hr_buf *buf, const char *key);
void hr_json_str(struct hr_buf *buf, const char *key, const char *s);
/* Bytes that are not UTF-8 become U+FFFD, so that the document stays valid. */
void hr_json_strn(struct hr_buf *buf, const char *key, const char *s, size_t bytes);
void hr_json_raw(struct hr_buf *buf, const char *key, const char *json);

/* Length of the valid UTF-8 prefix of s; equals bytes when all of it is valid. */
size_t hr_utf8_valid_prefix(const void *s, size_t bytes);

#endif
