/* Fields, and what is mixed of them: what they hold is handed on as calls (name, arguments, place) to those
 * who own ops, outputs, clips and mixing. Only the form is checked here. */
#include "conf/fields.h"

#include <string.h>

#include "base/types.h"

enum { MAX_OPS = 64 };

struct reader {
    struct hr_conf *conf;
    struct hr_error *err;
};

static int fail_hint(const struct reader *r, const char *hint)
{
    hr_error_hint(r->err, "%s", hint);
    return HR_E_CONFIG;
}

static void *take(const struct reader *r, size_t count, size_t item_bytes)
{
    void *p = hr_conf_take(r->conf->memory, count * item_bytes);

    if (!p)
        hr_fail(r->err, HR_E_NOMEM, "out of memory while reading '%s'", r->conf->file);
    return p;
}

static int read_list(const struct reader *r, const struct node *node, struct hr_arg *arg)
{
    arg->items = take(r, (size_t)node->child_count, sizeof(*arg->items));
    if (!arg->items)
        return HR_E_NOMEM;
    arg->kind = HR_ARG_LIST;
    for (const struct child *c = node->first; c; c = c->next) {
        if (c->value->kind != NODE_SCALAR) {
            hr_conf_fail(r->err, r->conf->file, c->value, "a list inside '%s' holds a %s",
                         arg->name, c->value->kind == NODE_LIST ? "list" : "mapping");
            return fail_hint(r, "its items must be single values");
        }
        int ret = hr_conf_scalar(c->value, r->conf->file, &arg->items[arg->item_count++], r->err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* A scalar or a list as an argument of that name. */
static int read_arg(const struct reader *r, const char *name, const struct node *node,
                    struct hr_arg *arg)
{
    if (node->kind == NODE_MAP) {
        hr_conf_fail(r->err, r->conf->file, node, "'%s' cannot be a mapping", name);
        return fail_hint(r, "give a value or a list");
    }
    if (node->kind == NODE_SCALAR) {
        int ret = hr_conf_scalar(node, r->conf->file, arg, r->err);
        arg->name = name;
        return ret;
    }
    *arg = (struct hr_arg){.name = name, .line = node->line, .column = node->column};
    return read_list(r, node, arg);
}

/* An error about a value points at the value, one about an unknown name at the name. */
static int read_named(const struct reader *r, const struct child *member, struct hr_arg *arg)
{
    int ret = read_arg(r, member->key->text, member->value, arg);

    arg->key_line = member->key->line;
    arg->key_column = member->key->column;
    return ret;
}

static int read_call(const struct reader *r, const struct node *key, const struct node *value,
                     struct hr_call *call)
{
    *call = (struct hr_call){.name = key->text, .file = r->conf->file, .line = key->line,
                             .column = key->column};
    if (!value)
        return 0;
    int count = value->kind == NODE_MAP ? value->child_count : 1;
    call->args = take(r, (size_t)count, sizeof(*call->args));
    if (!call->args)
        return HR_E_NOMEM;
    if (value->kind != NODE_MAP) {
        int ret = read_arg(r, "", value, &call->args[0]);
        call->arg_count = ret == 0 && call->args[0].kind != HR_ARG_NULL;
        return ret;
    }
    for (const struct child *c = value->first; c; c = c->next) {
        struct hr_arg *arg = &call->args[call->arg_count++];
        int ret = read_named(r, c, arg);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int read_op(const struct reader *r, const struct node *node, struct hr_call *op)
{
    if (node->kind == NODE_SCALAR && node->text[0] && strcmp(node->text, "~") != 0)
        return read_call(r, node, NULL, op);
    if (node->kind != NODE_MAP) {
        hr_conf_fail(r->err, r->conf->file, node, "an op must be a name or 'name: arguments'");
        return fail_hint(r, "like '- hflip' or '- resize: {size: 224}'");
    }
    if (node->child_count != 1) {
        const struct node *at = node->child_count ? node->first->next->key : node;
        hr_conf_fail(r->err, r->conf->file, at, "one op a list item, not %d", node->child_count);
        return fail_hint(r, "begin each op with '- ', and put its arguments in braces or indent "
                            "them further");
    }
    return read_call(r, node->first->key, node->first->value, op);
}

static bool is_null(const struct node *node)
{
    struct hr_arg arg;

    return node->kind == NODE_SCALAR && hr_conf_scalar(node, "", &arg, NULL) == 0 &&
           arg.kind == HR_ARG_NULL;
}

static int read_ops(const struct reader *r, const struct node *node, struct hr_conf_field *field)
{
    if (is_null(node))
        return 0;
    if (node->kind != NODE_LIST) {
        hr_conf_fail(r->err, r->conf->file, node, "'ops' must be a list");
        return fail_hint(r, "begin each op with '- '");
    }
    if (node->child_count > MAX_OPS)
        return hr_conf_fail(r->err, r->conf->file, node, "%d ops; a field has at most %d",
                            node->child_count, MAX_OPS);
    field->ops = take(r, (size_t)node->child_count, sizeof(*field->ops));
    if (!field->ops)
        return HR_E_NOMEM;
    for (const struct child *c = node->first; c; c = c->next) {
        int ret = read_op(r, c->value, &field->ops[field->op_count++]);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int read_members(const struct reader *r, const struct node *node, struct hr_conf_field *field);

static void name_field(const struct reader *r, const struct node *key, struct hr_conf_field *field)
{
    *field = (struct hr_conf_field){.name = key->text, .line = key->line, .column = key->column};
    field->options = (struct hr_call){.name = key->text, .file = r->conf->file, .line = key->line,
                                      .column = key->column};
}

static int read_view(const struct reader *r, const struct child *entry, struct hr_conf_field *view)
{
    name_field(r, entry->key, view);
    if (entry->value->kind != NODE_MAP) {
        hr_conf_fail(r->err, r->conf->file, entry->value, "view '%s' must be a mapping", view->name);
        return fail_hint(r, "'count', 'ops' and 'output' of these views");
    }
    int ret = read_members(r, entry->value, view);
    if (ret == 0 && view->views)
        return hr_conf_fail(r->err, r->conf->file, entry->value, "view '%s' has views of its own", view->name);
    return ret;
}

/* Views that differ: a mapping of names to what fields have. */
static int read_views(const struct reader *r, const struct node *node, struct hr_conf_field *field)
{
    if (node->kind != NODE_MAP || node->child_count == 0) {
        hr_conf_fail(r->err, r->conf->file, node, "'views' must be a number or a mapping of names");
        return fail_hint(r, "'views: 2', or 'views: {global: {count: 2, ops: [...]}, local: {...}}'");
    }
    field->views = take(r, (size_t)node->child_count, sizeof(*field->views));
    if (!field->views)
        return HR_E_NOMEM;
    for (const struct child *c = node->first; c; c = c->next) {
        int ret = read_view(r, c, &field->views[field->view_count++]);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int read_member(const struct reader *r, const struct child *member,
                       struct hr_conf_field *field)
{
    const struct node *key = member->key, *value = member->value;

    if (strcmp(key->text, "ops") == 0)
        return read_ops(r, value, field);
    if (strcmp(key->text, "views") == 0 && value->kind != NODE_SCALAR)
        return read_views(r, value, field);
    if (value->kind == NODE_MAP)
        return read_call(r, key, value, &field->tables[field->table_count++]);
    return read_named(r, member, &field->options.args[field->options.arg_count++]);
}

static int read_members(const struct reader *r, const struct node *node, struct hr_conf_field *field)
{
    field->tables = take(r, (size_t)node->child_count, sizeof(*field->tables));
    field->options.args = take(r, (size_t)node->child_count, sizeof(*field->options.args));
    if (!field->tables || !field->options.args)
        return HR_E_NOMEM;
    for (const struct child *c = node->first; c; c = c->next) {
        int ret = read_member(r, c, field);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int read_field(const struct reader *r, const struct child *entry,
                      struct hr_conf_field *field)
{
    const struct node *key = entry->key, *value = entry->value;

    name_field(r, key, field);
    if (!key->text[0] || strlen(key->text) >= HR_NAME_BYTES)
        return hr_conf_fail(r->err, r->conf->file, key, "a field's name has 1 to %d bytes",
                            HR_NAME_BYTES - 1);
    if (is_null(value))
        return 0;
    if (value->kind != NODE_MAP) {
        hr_conf_fail(r->err, r->conf->file, value, "field '%s' must be empty or a mapping",
                     key->text);
        return fail_hint(r, "'name:' alone takes the defaults; else 'ops', 'output' and options "
                            "indented below it");
    }
    return read_members(r, value, field);
}

int hr_conf_fields(const struct node *node, struct hr_conf *conf, struct hr_error *err)
{
    struct reader r = {.conf = conf, .err = err};

    if (is_null(node))
        return 0;
    if (node->kind != NODE_MAP) {
        hr_conf_fail(err, conf->file, node, "'fields' must be a mapping");
        return fail_hint(&r, "one line a field: '  image:'");
    }
    if (node->child_count > HR_MAX_FIELDS)
        return hr_conf_fail(err, conf->file, node, "%d fields; at most %d", node->child_count,
                            HR_MAX_FIELDS);
    conf->fields = take(&r, (size_t)node->child_count, sizeof(*conf->fields));
    if (!conf->fields)
        return HR_E_NOMEM;
    for (const struct child *c = node->first; c; c = c->next) {
        int ret = read_field(&r, c, &conf->fields[conf->field_count++]);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* `mixup` and `cutmix` are calls, with arguments or without; what stands beside them are arguments of all. */
static int read_blend_member(const struct reader *r, const struct child *member, struct hr_conf_blend *blend)
{
    const struct node *key = member->key;

    if (strcmp(key->text, "mixup") == 0)
        return read_call(r, key, member->value, &blend->mixup);
    if (strcmp(key->text, "cutmix") == 0)
        return read_call(r, key, member->value, &blend->cutmix);
    return read_named(r, member, &blend->options.args[blend->options.arg_count++]);
}

int hr_conf_blend(const struct node *node, struct hr_conf *conf, struct hr_error *err)
{
    struct reader r = {.conf = conf, .err = err};

    if (is_null(node))
        return 0;
    if (node->kind != NODE_MAP) {
        hr_conf_fail(err, conf->file, node, "'blend' must be a mapping");
        return fail_hint(&r, "like 'blend: {images: image, labels: label, mixup: 0.2, cutmix: 1}'");
    }
    struct hr_conf_blend *blend = take(&r, 1, sizeof(*blend));
    struct hr_arg *args = take(&r, (size_t)node->child_count, sizeof(*args));
    if (!blend || !args)
        return HR_E_NOMEM;
    blend->options = (struct hr_call){.name = "blend", .args = args, .file = conf->file, .line = node->line,
                                      .column = node->column};
    for (const struct child *c = node->first; c; c = c->next) {
        int ret = read_blend_member(&r, c, blend);
        if (ret < 0)
            return ret;
    }
    conf->blend = blend;
    return 0;
}
