/* The filter language's tokens. Private to src/conf. */
#ifndef HR_CONF_FILTER_SCAN_H
#define HR_CONF_FILTER_SCAN_H

#include "conf/filter_parts.h"

enum token {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_COMPARE,
    TOKEN_MATCH,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_OPEN_LIST,
    TOKEN_CLOSE_LIST,
    TOKEN_COMMA,
    TOKEN_AND,
    TOKEN_OR,
    TOKEN_NOT,
    TOKEN_IN,
    TOKEN_HAS,
    TOKEN_TRUE,
    TOKEN_FALSE,
};

struct parser {
    struct hr_filter *filter;
    const char *text;
    size_t at, next; /* of the token; behind it */
    enum token token;
    enum filter_op op;
    struct filter_operand constant; /* NUMBER, STRING */
    int depth;
    struct hr_error *err;
};

/* To the next token; what was scanned before is gone. */
int hr_filter_advance(struct parser *p) HR_MUST_CHECK;

/* Errors: both return their code. */
int hr_filter_no_memory(const struct parser *p);
int hr_filter_fail_hint(const struct parser *p, size_t at, const char *what, const char *hint);

#endif
