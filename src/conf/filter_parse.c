/* The filter language's scanner and recursive-descent parser.
 *
 *   or      = and { "or" and }
 *   and     = not { "and" not }
 *   not     = "not" not | "(" or ")" | "has" "(" NAME ")" | test
 *   test    = operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=") operand
 *                     | ["not"] "in" "[" constant { "," constant } "]" | "=~" STRING ]
 *   operand = NAME | constant */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
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

static int out_of_memory(const struct parser *p)
{
    return hr_fail(p->err, HR_E_NOMEM, "no memory for a filter");
}

static int fail_hint(const struct parser *p, size_t at, const char *what, const char *hint)
{
    hr_filter_fail(p->filter, at, p->err, "%s", what);
    hr_error_hint(p->err, "%s", hint);
    return HR_E_CONFIG;
}

/* ---- scanner ---- */

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
        return fail_hint(p, i, "a number runs into something else", "leave a space, or quote text");
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
        return out_of_memory(p);
    char **strings = hr_realloc(p->filter->strings, (size_t)p->filter->string_count + 1, sizeof(*strings));
    if (!strings) {
        hr_free(copy);
        return out_of_memory(p);
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
        return fail_hint(p, p->at, "'=' alone", "'==' compares, '=~' matches");
    if (s[0] == '&')
        return fail_hint(p, p->at, "'&' means nothing here", "write 'and'");
    if (s[0] == '|')
        return fail_hint(p, p->at, "'|' means nothing here", "write 'or'");
    if (s[0] == '!')
        return fail_hint(p, p->at, "'!' alone", "write 'not', or '!='");
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

static int advance(struct parser *p)
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

/* ---- parser ---- */

static int expected(struct parser *p, const char *what)
{
    if (p->token == TOKEN_END)
        return hr_filter_fail(p->filter, p->at, p->err, "the filter ends where %s is expected", what);
    return hr_filter_fail(p->filter, p->at, p->err, "'%.*s' where %s is expected",
                          (int)(p->next - p->at < 40 ? p->next - p->at : 40), p->text + p->at, what);
}

static int take(struct parser *p, enum token token, const char *what)
{
    return p->token == token ? advance(p) : expected(p, what);
}

static int make_node(struct parser *p, enum filter_kind kind, size_t at, struct filter_node **out)
{
    struct filter_node *node;

    if (p->filter->node_count >= HR_FILTER_MAX_NODES)
        return hr_filter_fail(p->filter, at, p->err, "a filter of more than %d parts",
                              HR_FILTER_MAX_NODES);
    node = hr_alloc_zero(1, sizeof(*node));
    if (!node)
        return out_of_memory(p);
    node->kind = kind;
    node->at = at;
    node->made_before = p->filter->made;
    p->filter->made = node;
    p->filter->node_count++;
    *out = node;
    return 0;
}

static int take_name(struct parser *p, struct filter_operand *out)
{
    struct hr_filter *f = p->filter;
    size_t bytes = p->next - p->at;
    int i = 0;

    while (i < f->name_count && (strlen(f->names[i].text) != bytes ||
                                 memcmp(f->names[i].text, p->text + p->at, bytes) != 0))
        i++;
    if (i == HR_FILTER_MAX_NAMES)
        return hr_filter_fail(f, p->at, p->err, "more than %d different names", HR_FILTER_MAX_NAMES);
    if (i == f->name_count) {
        f->names[i] = (struct filter_name){.text = hr_strndup(p->text + p->at, bytes), .at = p->at};
        if (!f->names[i].text)
            return out_of_memory(p);
        f->name_count++;
    }
    *out = (struct filter_operand){.name = i, .at = p->at};
    return advance(p);
}

static int take_constant(struct parser *p, struct filter_operand *out)
{
    switch (p->token) {
    case TOKEN_NUMBER:
    case TOKEN_STRING:
        *out = p->constant;
        return advance(p);
    case TOKEN_TRUE:
    case TOKEN_FALSE:
        *out = (struct filter_operand){
            .name = -1,
            .type = HR_FILTER_BOOL,
            .at = p->at,
            .value = {.present = true, .integer = p->token == TOKEN_TRUE},
        };
        return advance(p);
    default:
        return expected(p, "a number or a text in quotes");
    }
}

static int take_operand(struct parser *p, struct filter_operand *out)
{
    if (p->token == TOKEN_NAME)
        return take_name(p, out);
    if (p->token == TOKEN_NUMBER || p->token == TOKEN_STRING || p->token == TOKEN_TRUE ||
        p->token == TOKEN_FALSE)
        return take_constant(p, out);
    return expected(p, "a column, a number or a text in quotes");
}

static int take_list(struct parser *p, struct filter_node *node)
{
    int ret = take(p, TOKEN_OPEN_LIST, "'['");

    while (ret == 0) {
        struct filter_operand *list =
            hr_realloc(node->list, (size_t)node->list_count + 1, sizeof(*list));
        if (!list)
            return out_of_memory(p);
        node->list = list;
        ret = take_constant(p, &list[node->list_count]);
        if (ret < 0)
            return ret;
        node->list_count++;
        if (p->token != TOKEN_COMMA)
            break;
        ret = advance(p);
    }
    return ret < 0 ? ret : take(p, TOKEN_CLOSE_LIST, "',' or ']'");
}

static int take_regex(struct parser *p, struct filter_node *node)
{
    const char *trouble;

    if (p->token != TOKEN_STRING)
        return expected(p, "a regular expression in quotes");
    int ret = hr_regex_create(p->constant.value.text, &node->regex, &trouble);
    if (ret == HR_E_NOMEM)
        return out_of_memory(p);
    if (ret < 0)
        return hr_filter_fail(p->filter, p->at, p->err, "not a regular expression to match with: %s",
                              trouble);
    return advance(p);
}

static int parse_comparison(struct parser *p, struct filter_node *node)
{
    node->kind = FILTER_COMPARE;
    node->op = p->op;
    node->at = p->at;
    int ret = advance(p);
    if (ret == 0)
        ret = take_operand(p, &node->right);
    if (ret < 0)
        return ret;
    if (node->left.name < 0 && node->right.name < 0)
        return hr_filter_fail(p->filter, node->at, p->err, "two constants are compared");
    if (p->token == TOKEN_COMPARE || p->token == TOKEN_MATCH)
        return fail_hint(p, p->at, "comparisons do not chain", "write 'a < b and b < c'");
    return 0;
}

static int parse_test(struct parser *p, struct filter_node **out)
{
    struct filter_node *node = NULL, *inverse = NULL;
    int ret = make_node(p, FILTER_TRUTH, p->at, &node);

    if (ret == 0)
        ret = take_operand(p, &node->left);
    if (ret < 0)
        return ret;
    *out = node;
    if (p->token == TOKEN_COMPARE)
        return parse_comparison(p, node);
    if (node->left.name < 0)
        return expected(p, "a comparison");
    node->at = p->at;
    if (p->token == TOKEN_NOT) {
        ret = make_node(p, FILTER_NOT, p->at, &inverse);
        if (ret == 0)
            ret = advance(p);
        if (ret == 0 && p->token != TOKEN_IN)
            ret = expected(p, "'in'");
        if (ret < 0)
            return ret;
        inverse->child = node;
        *out = inverse;
    }
    if (p->token == TOKEN_IN) {
        node->kind = FILTER_IN;
        ret = advance(p);
        return ret < 0 ? ret : take_list(p, node);
    }
    if (p->token == TOKEN_MATCH) {
        node->kind = FILTER_MATCH;
        ret = advance(p);
        return ret < 0 ? ret : take_regex(p, node);
    }
    node->at = node->left.at;
    return 0;
}

static int parse_has(struct parser *p, struct filter_node **out)
{
    int ret = make_node(p, FILTER_HAS, p->at, out);

    if (ret == 0)
        ret = advance(p);
    if (ret == 0)
        ret = take(p, TOKEN_OPEN, "'('");
    if (ret == 0)
        ret = p->token == TOKEN_NAME ? take_name(p, &(*out)->left) : expected(p, "a field's name");
    return ret < 0 ? ret : take(p, TOKEN_CLOSE, "')'");
}

static int parse_or(struct parser *p, struct filter_node **out);

static int parse_not(struct parser *p, struct filter_node **out)
{
    int ret;

    if (p->token == TOKEN_HAS)
        return parse_has(p, out);
    if (p->token != TOKEN_NOT && p->token != TOKEN_OPEN)
        return parse_test(p, out);
    if (++p->depth > HR_FILTER_MAX_DEPTH)
        return hr_filter_fail(p->filter, p->at, p->err, "nested more than %d deep",
                              HR_FILTER_MAX_DEPTH);
    if (p->token == TOKEN_NOT) {
        ret = make_node(p, FILTER_NOT, p->at, out);
        if (ret == 0)
            ret = advance(p);
        if (ret == 0)
            ret = parse_not(p, &(*out)->child);
    } else {
        ret = advance(p);
        if (ret == 0)
            ret = parse_or(p, out);
        if (ret == 0)
            ret = take(p, TOKEN_CLOSE, "'and', 'or' or ')'");
    }
    p->depth--;
    return ret;
}

/* one { word one }: a node with all of them as children when there are several. */
static int parse_list(struct parser *p, enum token word, enum filter_kind kind,
                      int (*one)(struct parser *p, struct filter_node **out),
                      struct filter_node **out)
{
    struct filter_node *list = NULL, *last = NULL;
    int ret = one(p, &last);

    if (ret < 0)
        return ret;
    *out = last;
    if (p->token != word)
        return 0;
    ret = make_node(p, kind, last->at, &list);
    if (ret < 0)
        return ret;
    list->child = last;
    *out = list;
    while (p->token == word) {
        ret = advance(p);
        if (ret == 0)
            ret = one(p, &last->next);
        if (ret < 0)
            return ret;
        last = last->next;
    }
    return 0;
}

static int parse_and(struct parser *p, struct filter_node **out)
{
    return parse_list(p, TOKEN_AND, FILTER_AND, parse_not, out);
}

static int parse_or(struct parser *p, struct filter_node **out)
{
    return parse_list(p, TOKEN_OR, FILTER_OR, parse_and, out);
}

static int parse(struct parser *p)
{
    int ret;

    if (strlen(p->text) > HR_FILTER_MAX_BYTES)
        return hr_filter_fail(p->filter, 0, p->err, "a filter of more than %d bytes",
                              HR_FILTER_MAX_BYTES);
    ret = advance(p);
    if (ret == 0)
        ret = parse_or(p, &p->filter->root);
    if (ret == 0 && p->token != TOKEN_END)
        ret = expected(p, "'and', 'or' or the end");
    return ret;
}

int hr_filter_parse(const char *text, struct hr_filter **out, struct hr_error *err)
{
    struct hr_filter *filter = hr_alloc_zero(1, sizeof(*filter));
    struct parser p = {.filter = filter, .err = err};

    if (!filter || !(filter->text = hr_strdup(text))) {
        hr_free(filter);
        return hr_fail(err, HR_E_NOMEM, "no memory for a filter");
    }
    p.text = filter->text;
    int ret = parse(&p);
    if (ret < 0)
        hr_filter_destroy(filter);
    else
        *out = filter;
    return ret;
}

void hr_filter_destroy(struct hr_filter *filter)
{
    if (!filter)
        return;
    while (filter->made) {
        struct filter_node *node = filter->made;
        filter->made = node->made_before;
        hr_regex_destroy(node->regex);
        hr_free(node->list);
        hr_free(node);
    }
    for (int i = 0; i < filter->name_count; i++)
        hr_free(filter->names[i].text);
    for (int i = 0; i < filter->string_count; i++)
        hr_free(filter->strings[i]);
    hr_free(filter->strings);
    hr_free(filter->text);
    hr_free(filter);
}
