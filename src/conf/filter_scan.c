/* The filter language's scanner: the next token of the text, with its value. */
#include "conf/filter_scan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

int hr_filter_fail(const struct hr_filter *filter, size_t at, struct hr_error *err, const char *fmt,
                   ...)
{
    char text[sizeof(((struct hr_error *)0)->text)];
    int column = 1;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    hr_fail(err, HR_E_CONFIG, "%s", text);
    for (size_t i = 0; i < at; i++)
        column += ((unsigned char)filter->text[i] & 0xc0) != 0x80;
    hr_error_at_file(err, "", 0, column);
    return HR_E_CONFIG;
}

int hr_filter_no_memory(const struct parser *p)
{
    return hr_fail(p->err, HR_E_NOMEM, "no memory for a filter");
}

int hr_filter_fail_hint(const struct parser *p, size_t at, const char *what, const char *hint)
{
    hr_filter_fail(p->filter, at, p->err, "%s", what);
    hr_error_hint(p->err, "%s", hint);
    return HR_E_CONFIG;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_part(char c)
{
    return is_letter(c) || is_digit(c) || c == '.' || c == '-';
}

static void scan_word(struct parser *p)
{
    static const struct {
        const char *word;
        enum token token;
    } words[] = {{"and", TOKEN_AND}, {"or", TOKEN_OR},     {"not", TOKEN_NOT},    {"in", TOKEN_IN},
                 {"has", TOKEN_HAS}, {"true", TOKEN_TRUE}, {"false", TOKEN_FALSE}};
    size_t bytes;

    while (is_name_part(p->text[p->next]))
        p->next++;
    bytes = p->next - p->at;
    p->token = TOKEN_NAME;
    for (size_t i = 0; i < HR_ARRAY_SIZE(words); i++)
        if (strlen(words[i].word) == bytes && memcmp(words[i].word, p->text + p->at, bytes) == 0)
            p->token = words[i].token;
}

static int scan_number(struct parser *p)
{
    const char *s = p->text;
    size_t i = p->at + (s[p->at] == '-');
    bool fraction = false;
    char copy[64];

    while (is_digit(s[i]))
        i++;
    if (s[i] == '.') {
        fraction = true;
        for (i++; is_digit(s[i]); i++)
            ;
    }
    if ((s[i] == 'e' || s[i] == 'E') &&
        (is_digit(s[i + 1]) || ((s[i + 1] == '-' || s[i + 1] == '+') && is_digit(s[i + 2])))) {
        fraction = true;
        for (i += 2; is_digit(s[i]); i++)
            ;
    }
    if (is_name_part(s[i]))
        return hr_filter_fail_hint(p, i, "a number runs into something else", "leave a space, or quote text");
    if (i - p->at >= sizeof(copy))
        return hr_filter_fail(p->filter, p->at, p->err, "a number of more than %zu digits",
                              sizeof(copy) - 1);
    memcpy(copy, s + p->at, i - p->at);
    copy[i - p->at] = 0;
    p->next = i;
    p->token = TOKEN_NUMBER;
    p->constant = (struct filter_operand){.name = -1, .at = p->at, .value = {.present = true}};
    p->constant.type = fraction ? HR_FILTER_NUMBER : HR_FILTER_INTEGER;
    errno = 0;
    p->constant.value.number = strtod(copy, NULL);
    if (!fraction)
        p->constant.value.integer = strtoll(copy, NULL, 10);
    if (errno == ERANGE && !(fraction && p->constant.value.number < 1 && p->constant.value.number > -1))
        return hr_filter_fail(p->filter, p->at, p->err, "%s is too large a number", copy);
    return 0;
}

/* A backslash before a quote or a backslash stands for it; before anything else it is itself, so
 * that regular expressions need no doubling. */
static int scan_string(struct parser *p)
{
    const char *s = p->text;
    char quote = s[p->at], *copy = hr_alloc(strlen(s + p->at));
    uint32_t bytes = 0;
    size_t i = p->at + 1;

    if (!copy)
        return hr_filter_no_memory(p);
    char **strings = hr_realloc(p->filter->strings, (size_t)p->filter->string_count + 1, sizeof(*strings));
    if (!strings) {
        hr_free(copy);
        return hr_filter_no_memory(p);
    }
    p->filter->strings = strings;
    strings[p->filter->string_count++] = copy;
    for (; s[i] && s[i] != quote; i++) {
        if (s[i] == '\\' && (s[i + 1] == '\\' || s[i + 1] == '"' || s[i + 1] == '\''))
            i++;
        copy[bytes++] = s[i];
    }
    if (!s[i])
        return hr_filter_fail(p->filter, p->at, p->err, "text without a closing %c", quote);
    copy[bytes] = 0;
    p->next = i + 1;
    p->token = TOKEN_STRING;
    p->constant = (struct filter_operand){
        .name = -1,
        .type = HR_FILTER_TEXT,
        .at = p->at,
        .value = {.present = true, .text = copy, .text_bytes = bytes},
    };
    return 0;
}

static int unexpected_character(struct parser *p)
{
    const char *s = p->text + p->at;

    if (s[0] == '=')
        return hr_filter_fail_hint(p, p->at, "'=' alone", "'==' compares, '=~' matches");
    if (s[0] == '&')
        return hr_filter_fail_hint(p, p->at, "'&' means nothing here", "write 'and'");
    if (s[0] == '|')
        return hr_filter_fail_hint(p, p->at, "'|' means nothing here", "write 'or'");
    if (s[0] == '!')
        return hr_filter_fail_hint(p, p->at, "'!' alone", "write 'not', or '!='");
    if ((unsigned char)s[0] < 0x20 || (unsigned char)s[0] > 0x7e)
        return hr_filter_fail(p->filter, p->at, p->err, "an unexpected character");
    return hr_filter_fail(p->filter, p->at, p->err, "an unexpected '%c'", s[0]);
}

static int scan_sign(struct parser *p)
{
    static const struct {
        const char *sign;
        enum token token;
        enum filter_op op;
    } signs[] = {
        {"==", TOKEN_COMPARE, OP_EQ},  {"!=", TOKEN_COMPARE, OP_NE}, {"<=", TOKEN_COMPARE, OP_LE},
        {">=", TOKEN_COMPARE, OP_GE},  {"=~", TOKEN_MATCH, OP_EQ},   {"<", TOKEN_COMPARE, OP_LT},
        {">", TOKEN_COMPARE, OP_GT},   {"(", TOKEN_OPEN, OP_EQ},     {")", TOKEN_CLOSE, OP_EQ},
        {"[", TOKEN_OPEN_LIST, OP_EQ}, {"]", TOKEN_CLOSE_LIST, OP_EQ}, {",", TOKEN_COMMA, OP_EQ}};

    for (size_t i = 0; i < HR_ARRAY_SIZE(signs); i++) {
        size_t bytes = strlen(signs[i].sign);
        if (strncmp(p->text + p->at, signs[i].sign, bytes) != 0)
            continue;
        p->token = signs[i].token;
        p->op = signs[i].op;
        p->next = p->at + bytes;
        return 0;
    }
    return unexpected_character(p);
}

int hr_filter_advance(struct parser *p)
{
    const char *s = p->text;

    p->at = p->next;
    while (s[p->at] && strchr(" \t\r\n", s[p->at]))
        p->at++;
    p->next = p->at;
    if (!s[p->at])
        p->token = TOKEN_END;
    else if (is_letter(s[p->at]))
        scan_word(p);
    else if (is_digit(s[p->at]) || (s[p->at] == '-' && is_digit(s[p->at + 1])))
        return scan_number(p);
    else if (s[p->at] == '"' || s[p->at] == '\'')
        return scan_string(p);
    else
        return scan_sign(p);
    return 0;
}
