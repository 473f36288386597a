/* The filter language's recursive-descent parser.
 *
 *   or      = and { "or" and }
 *   and     = not { "and" not }
 *   not     = "not" not | "(" or ")" | "has" "(" NAME ")" | test
 *   test    = operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=") operand
 *                     | ["not"] "in" "[" constant { "," constant } "]" | "=~" STRING ]
 *   operand = NAME | constant */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "conf/filter_scan.h"

static int expected(struct parser *p, const char *what)
{
    if (p->token == TOKEN_END)
        return hr_filter_fail(p->filter, p->at, p->err, "the filter ends where %s is expected", what);
    return hr_filter_fail(p->filter, p->at, p->err, "'%.*s' where %s is expected",
                          (int)(p->next - p->at < 40 ? p->next - p->at : 40), p->text + p->at, what);
}

static int take(struct parser *p, enum token token, const char *what)
{
    return p->token == token ? hr_filter_advance(p) : expected(p, what);
}

static int make_node(struct parser *p, enum filter_kind kind, size_t at, struct filter_node **out)
{
    struct filter_node *node;

    if (p->filter->node_count >= HR_FILTER_MAX_NODES)
        return hr_filter_fail(p->filter, at, p->err, "a filter of more than %d parts",
                              HR_FILTER_MAX_NODES);
    node = hr_alloc_zero(1, sizeof(*node));
    if (!node)
        return hr_filter_no_memory(p);
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
            return hr_filter_no_memory(p);
        f->name_count++;
    }
    *out = (struct filter_operand){.name = i, .at = p->at};
    return hr_filter_advance(p);
}

static int take_constant(struct parser *p, struct filter_operand *out)
{
    switch (p->token) {
    case TOKEN_NUMBER:
    case TOKEN_STRING:
        *out = p->constant;
        return hr_filter_advance(p);
    case TOKEN_TRUE:
    case TOKEN_FALSE:
        *out = (struct filter_operand){
            .name = -1,
            .type = HR_FILTER_BOOL,
            .at = p->at,
            .value = {.present = true, .integer = p->token == TOKEN_TRUE},
        };
        return hr_filter_advance(p);
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
            return hr_filter_no_memory(p);
        node->list = list;
        ret = take_constant(p, &list[node->list_count]);
        if (ret < 0)
            return ret;
        node->list_count++;
        if (p->token != TOKEN_COMMA)
            break;
        ret = hr_filter_advance(p);
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
        return hr_filter_no_memory(p);
    if (ret < 0)
        return hr_filter_fail(p->filter, p->at, p->err, "not a regular expression to match with: %s",
                              trouble);
    return hr_filter_advance(p);
}

static int parse_comparison(struct parser *p, struct filter_node *node)
{
    node->kind = FILTER_COMPARE;
    node->op = p->op;
    node->at = p->at;
    int ret = hr_filter_advance(p);
    if (ret == 0)
        ret = take_operand(p, &node->right);
    if (ret < 0)
        return ret;
    if (node->left.name < 0 && node->right.name < 0)
        return hr_filter_fail(p->filter, node->at, p->err, "two constants are compared");
    if (p->token == TOKEN_COMPARE || p->token == TOKEN_MATCH)
        return hr_filter_fail_hint(p, p->at, "comparisons do not chain", "write 'a < b and b < c'");
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
            ret = hr_filter_advance(p);
        if (ret == 0 && p->token != TOKEN_IN)
            ret = expected(p, "'in'");
        if (ret < 0)
            return ret;
        inverse->child = node;
        *out = inverse;
    }
    if (p->token == TOKEN_IN) {
        node->kind = FILTER_IN;
        ret = hr_filter_advance(p);
        return ret < 0 ? ret : take_list(p, node);
    }
    if (p->token == TOKEN_MATCH) {
        node->kind = FILTER_MATCH;
        ret = hr_filter_advance(p);
        return ret < 0 ? ret : take_regex(p, node);
    }
    node->at = node->left.at;
    return 0;
}

static int parse_has(struct parser *p, struct filter_node **out)
{
    int ret = make_node(p, FILTER_HAS, p->at, out);

    if (ret == 0)
        ret = hr_filter_advance(p);
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
            ret = hr_filter_advance(p);
        if (ret == 0)
            ret = parse_not(p, &(*out)->child);
    } else {
        ret = hr_filter_advance(p);
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
        ret = hr_filter_advance(p);
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
    ret = hr_filter_advance(p);
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
