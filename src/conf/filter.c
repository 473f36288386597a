/* Filters at work: names bound to columns with their types checked, and the question put to each
 * record. */
#include <math.h>
#include <string.h>

#include "conf/filter_parts.h"

int hr_filter_name_count(const struct hr_filter *filter)
{
    return filter->name_count;
}

const char *hr_filter_name(const struct hr_filter *filter, int i)
{
    return filter->names[i].text;
}

/* ---- binding ---- */

static const char *const type_names[] = {"a whole number", "a number", "text", "a boolean",
                                         "a payload"};

static enum hr_filter_type type_of(const struct hr_filter *f, const struct filter_operand *o)
{
    if (o->name < 0)
        return o->named ? HR_FILTER_INTEGER : o->type;
    return f->names[o->name].column.type;
}

static bool is_lacking(const struct hr_filter *f, const struct filter_operand *o)
{
    return o->name >= 0 && f->names[o->name].lacking;
}

static bool is_numeric(enum hr_filter_type type)
{
    return type == HR_FILTER_INTEGER || type == HR_FILTER_NUMBER;
}

static int check_value(const struct hr_filter *f, const struct filter_operand *o,
                       struct hr_error *err)
{
    if (o->name < 0 || is_lacking(f, o) || type_of(f, o) != HR_FILTER_VALUE)
        return 0;
    hr_filter_fail(f, o->at, err, "'%s' is not in the index: its values cannot be compared",
                   f->names[o->name].text);
    hr_error_hint(err, "use has(%s), or one of its facts like %s.bytes", f->names[o->name].text,
                  f->names[o->name].text);
    return HR_E_CONFIG;
}

/* b is compared with a. */
static int check_pair(const struct hr_filter *f, const struct filter_operand *a,
                      const struct filter_operand *b, struct hr_error *err)
{
    int ret = check_value(f, a, err);

    if (ret == 0)
        ret = check_value(f, b, err);
    if (ret < 0 || is_lacking(f, a) || is_lacking(f, b))
        return ret;
    enum hr_filter_type left = type_of(f, a), right = type_of(f, b);
    if (left == right || (is_numeric(left) && is_numeric(right)))
        return 0;
    return hr_filter_fail(f, b->at, err, "%s is compared with %s", type_names[left],
                          type_names[right]);
}

static int check_node(const struct hr_filter *f, const struct filter_node *node,
                      struct hr_error *err)
{
    const struct filter_operand *left = &node->left;
    int ret = 0;

    switch (node->kind) {
    case FILTER_COMPARE:
        ret = check_pair(f, left, &node->right, err);
        if (ret == 0 && node->op != OP_EQ && node->op != OP_NE && (left->named || node->right.named))
            return hr_filter_fail(f, node->at, err, "names are equal or not, they have no order");
        if (ret == 0 && node->op != OP_EQ && node->op != OP_NE &&
            ((!is_lacking(f, left) && type_of(f, left) == HR_FILTER_BOOL) ||
             (!is_lacking(f, &node->right) && type_of(f, &node->right) == HR_FILTER_BOOL)))
            ret = hr_filter_fail(f, node->at, err, "booleans are equal or not, they have no order");
        return ret;
    case FILTER_IN:
        for (int i = 0; i < node->list_count && ret == 0; i++)
            ret = check_pair(f, left, &node->list[i], err);
        return ret;
    case FILTER_MATCH:
        ret = check_value(f, left, err);
        if (ret == 0 && !is_lacking(f, left) && type_of(f, left) != HR_FILTER_TEXT)
            ret = hr_filter_fail(f, left->at, err, "=~ looks at text, and '%s' is %s",
                                 f->names[left->name].text, type_names[type_of(f, left)]);
        return ret;
    case FILTER_TRUTH:
        if (is_lacking(f, left) || type_of(f, left) == HR_FILTER_BOOL)
            return 0;
        hr_filter_fail(f, left->at, err, "'%s' is %s, not a boolean", f->names[left->name].text,
                       type_names[type_of(f, left)]);
        hr_error_hint(err, "compare it, or ask has(%s)", f->names[left->name].text);
        return HR_E_CONFIG;
    default:
        return 0;
    }
}

/* A text beside a column whose numbers have names stands for the number. */
static int name_constant(const struct hr_filter *f, const struct hr_filter_columns *columns,
                         const struct filter_operand *beside, struct filter_operand *o,
                         struct hr_error *err)
{
    struct hr_error why = HR_ERROR_INIT;

    o->named = false;
    if (!columns->number_of || o->name >= 0 || o->type != HR_FILTER_TEXT || beside->name < 0 ||
        is_lacking(f, beside) || type_of(f, beside) != HR_FILTER_INTEGER)
        return 0;
    o->number = (struct hr_filter_value){.present = true};
    int ret = columns->number_of(columns->context, f->names[beside->name].column.id, o->value.text,
                                 o->value.text_bytes, &o->number.integer, &why);
    o->named = ret > 0;
    if (ret >= 0)
        return 0;
    hr_filter_fail(f, o->at, err, "%s", why.text);
    hr_error_hint(err, "%s", why.hint);
    return ret;
}

static int name_constants(const struct hr_filter *f, const struct hr_filter_columns *columns,
                          struct filter_node *node, struct hr_error *err)
{
    int ret = 0;

    if (node->kind == FILTER_COMPARE) {
        ret = name_constant(f, columns, &node->left, &node->right, err);
        if (ret == 0)
            ret = name_constant(f, columns, &node->right, &node->left, err);
    }
    for (int i = 0; node->kind == FILTER_IN && i < node->list_count && ret == 0; i++)
        ret = name_constant(f, columns, &node->left, &node->list[i], err);
    return ret;
}

int hr_filter_bind(struct hr_filter *f, const struct hr_filter_columns *columns,
                   struct hr_error *err)
{
    for (int i = 0; i < f->name_count; i++) {
        struct filter_name *name = &f->names[i];
        struct hr_error why = HR_ERROR_INIT;
        int ret = columns->find(columns->context, name->text, &name->column, &why);
        if (ret < 0) {
            hr_filter_fail(f, name->at, err, "%s", why.text);
            hr_error_hint(err, "%s", why.hint);
            return ret;
        }
        name->lacking = ret == HR_FILTER_LACKING;
    }
    for (struct filter_node *node = f->made; node; node = node->made_before) {
        int ret = name_constants(f, columns, node, err);
        if (ret == 0)
            ret = check_node(f, node, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* ---- evaluation ---- */

struct question {
    const struct hr_filter *filter;
    const struct hr_filter_columns *columns;
    uint64_t record;
};

/* False when the record lacks it. */
static bool value_of(const struct question *q, const struct filter_operand *o,
                     struct hr_filter_value *value)
{
    if (o->name < 0) {
        *value = o->named ? o->number : o->value;
        return true;
    }
    const struct filter_name *name = &q->filter->names[o->name];
    value->present = false;
    if (!name->lacking)
        q->columns->get(q->columns->context, name->column.id, q->record, value);
    return value->present;
}

enum { UNORDERED = 2 };

static int order_of(double a, double b)
{
    return a < b ? -1 : a > b ? 1 : a == b ? 0 : UNORDERED;
}

/* Exact, where a conversion to double would round the integer. */
static int order_of_mixed(int64_t a, double b)
{
    if (isnan(b))
        return UNORDERED;
    if (b >= 9223372036854775808.0)
        return -1;
    if (b < -9223372036854775808.0)
        return 1;
    int64_t whole = (int64_t)b;
    if (a != whole)
        return a < whole ? -1 : 1;
    return order_of(0, b - (double)whole);
}

static int order_of_text(const struct hr_filter_value *a, const struct hr_filter_value *b)
{
    uint32_t common = a->text_bytes < b->text_bytes ? a->text_bytes : b->text_bytes;
    int order = common ? memcmp(a->text, b->text, common) : 0;

    if (order == 0)
        order = (a->text_bytes > b->text_bytes) - (a->text_bytes < b->text_bytes);
    return order < 0 ? -1 : order > 0;
}

static int order_of_values(enum hr_filter_type left, const struct hr_filter_value *a,
                           enum hr_filter_type right, const struct hr_filter_value *b)
{
    if (left == HR_FILTER_TEXT)
        return order_of_text(a, b);
    if (left == HR_FILTER_NUMBER && right == HR_FILTER_NUMBER)
        return order_of(a->number, b->number);
    if (left == HR_FILTER_NUMBER) {
        int order = order_of_mixed(b->integer, a->number);
        return order == UNORDERED ? order : -order;
    }
    if (right == HR_FILTER_NUMBER)
        return order_of_mixed(a->integer, b->number);
    return (a->integer > b->integer) - (a->integer < b->integer);
}

static bool holds(enum filter_op op, int order)
{
    switch (op) {
    case OP_EQ:
        return order == 0;
    case OP_NE:
        return order != 0;
    case OP_LT:
        return order == -1;
    case OP_LE:
        return order == -1 || order == 0;
    case OP_GT:
        return order == 1;
    default:
        return order == 1 || order == 0;
    }
}

static bool compare(const struct question *q, const struct filter_node *node)
{
    struct hr_filter_value a, b;

    if (!value_of(q, &node->left, &a) || !value_of(q, &node->right, &b))
        return false;
    return holds(node->op, order_of_values(type_of(q->filter, &node->left), &a,
                                           type_of(q->filter, &node->right), &b));
}

static bool is_in(const struct question *q, const struct filter_node *node)
{
    struct hr_filter_value value;

    if (!value_of(q, &node->left, &value))
        return false;
    for (int i = 0; i < node->list_count; i++) {
        struct hr_filter_value item;
        if (value_of(q, &node->list[i], &item) &&
            order_of_values(type_of(q->filter, &node->left), &value,
                            type_of(q->filter, &node->list[i]), &item) == 0)
            return true;
    }
    return false;
}

static bool matches(const struct question *q, const struct filter_node *node)
{
    struct hr_filter_value value;

    if (!value_of(q, &node->left, &value) || value.text_bytes > HR_FILTER_MAX_MATCH)
        return false;
    return hr_regex_matches(node->regex, value.text_bytes ? value.text : "", value.text_bytes);
}

static bool is_true(const struct question *q, const struct filter_node *node)
{
    struct hr_filter_value value;

    switch (node->kind) {
    case FILTER_AND:
    case FILTER_OR:
        for (const struct filter_node *c = node->child; c; c = c->next)
            if (is_true(q, c) == (node->kind == FILTER_OR))
                return node->kind == FILTER_OR;
        return node->kind == FILTER_AND;
    case FILTER_NOT:
        return !is_true(q, node->child);
    case FILTER_HAS:
        return value_of(q, &node->left, &value);
    case FILTER_TRUTH:
        return value_of(q, &node->left, &value) && value.integer != 0;
    case FILTER_COMPARE:
        return compare(q, node);
    case FILTER_IN:
        return is_in(q, node);
    default:
        return matches(q, node);
    }
}

bool hr_filter_keeps(const struct hr_filter *filter, const struct hr_filter_columns *columns,
                     uint64_t record)
{
    struct question q = {.filter = filter, .columns = columns, .record = record};

    return is_true(&q, filter->root);
}
