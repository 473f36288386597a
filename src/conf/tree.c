/* From text to nodes, by libfyaml's events. The tree is built here and not by libfyaml's document
 * API because the limits must hold while it is built: an alias costs what it expands to. */
#include "conf/tree.h"

#include <libfyaml.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

enum { CHUNK_BYTES = 16 << 10 };

struct chunk {
    struct chunk *next;
    size_t used, bytes;
    max_align_t data[];
};

void *hr_conf_take(struct hr_conf_private *memory, size_t bytes)
{
    size_t need = hr_align_up(bytes, sizeof(max_align_t));
    struct chunk *chunk = memory->chunks;

    if (!chunk || chunk->bytes - chunk->used < need) {
        size_t size = hr_max_u64(need, CHUNK_BYTES);
        chunk = hr_alloc_zero(1, sizeof(*chunk) + size);
        if (!chunk)
            return NULL;
        *chunk = (struct chunk){.next = memory->chunks, .bytes = size};
        memory->chunks = chunk;
    }
    void *p = (char *)chunk->data + chunk->used;
    chunk->used += need;
    return p;
}

char *hr_conf_take_text(struct hr_conf_private *memory, const char *text, size_t bytes)
{
    char *copy = hr_conf_take(memory, bytes + 1);

    if (copy && bytes)
        memcpy(copy, text, bytes);
    return copy;
}

void hr_conf_release(struct hr_conf_private *memory)
{
    while (memory->chunks) {
        struct chunk *next = memory->chunks->next;
        hr_free(memory->chunks);
        memory->chunks = next;
    }
}

int hr_conf_fail(struct hr_error *err, const char *file, const struct node *node, const char *fmt,
                 ...)
{
    char text[sizeof(err->text)];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    hr_fail(err, HR_E_CONFIG, "%s", text);
    hr_error_at_file(err, file, node->line, node->column);
    return HR_E_CONFIG;
}

struct builder {
    struct hr_conf_private *memory;
    const char *file;
    struct hr_error *err;
    struct node *root, *current;
    const struct node *key; /* read, its value not yet */
    struct node *anchored;
    int depth;
    int documents;
    int line, column; /* of the latest token, for nodes that have none */
    bool failed;
};

HR_PRINTF(2, 3) static bool refuse(struct builder *b, const char *fmt, ...)
{
    char text[sizeof(b->err->text)];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    hr_fail(b->err, HR_E_CONFIG, "%s", text);
    hr_error_at_file(b->err, b->file, b->line, b->column);
    b->failed = true;
    return false;
}

static bool out_of_memory(struct builder *b)
{
    hr_fail(b->err, HR_E_NOMEM, "out of memory while reading '%s'", b->file);
    b->failed = true;
    return false;
}

/* sign_columns: libfyaml's tokens begin after a quote, '&' or '*'; people count from it. */
static void note_place(struct builder *b, struct fy_token *token, int sign_columns)
{
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;

    if (!mark)
        return;
    b->line = mark->line + 1;
    b->column = mark->column + 1 - sign_columns;
}

static bool is_in_quotes(struct fy_token *scalar)
{
    enum fy_scalar_style style = fy_token_scalar_style(scalar);

    return style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED;
}

static const char *token_text(struct builder *b, struct fy_token *token)
{
    size_t bytes = 0;
    const char *text = token ? fy_token_get_text(token, &bytes) : "";

    if (!text || memchr(text, 0, bytes)) {
        refuse(b, "text with a NUL byte");
        return NULL;
    }
    const char *copy = hr_conf_take_text(b->memory, text, bytes);
    if (!copy)
        out_of_memory(b);
    return copy;
}

/* Every list and map that is being read grows by what was added below it. */
static bool count_nodes(struct builder *b, struct node *from, uint32_t nodes)
{
    for (struct node *n = from; n; n = n->parent) {
        n->expanded += nodes;
        if (n->expanded > HR_CONF_MAX_NODES)
            return refuse(b, "more than %d values, with every alias counted as what it stands for",
                          HR_CONF_MAX_NODES);
    }
    return true;
}

static bool check_key(struct builder *b, const struct node *key)
{
    if (key->kind != NODE_SCALAR) {
        refuse(b, "a key must be a word");
        hr_error_hint(b->err, "lists and mappings cannot be keys here");
        return false;
    }
    for (struct child *c = b->current->first; c; c = c->next) {
        if (strcmp(c->key->text, key->text) != 0)
            continue;
        refuse(b, "'%s' is given twice", key->text);
        hr_error_hint(b->err, "the first one is at line %d", c->key->line);
        return false;
    }
    return true;
}

/* Puts a finished scalar or alias, or a list or map that just began, under the current node. */
static bool attach(struct builder *b, const struct node *node)
{
    struct node *parent = b->current;

    if (!parent) {
        b->root = (struct node *)node;
        return true;
    }
    if (parent->kind == NODE_MAP && !b->key) {
        if (!check_key(b, node))
            return false;
        b->key = node;
        return count_nodes(b, parent, 1);
    }
    struct child *child = hr_conf_take(b->memory, sizeof(*child));
    if (!child)
        return out_of_memory(b);
    *child = (struct child){.key = b->key, .value = node};
    b->key = NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->child_count++;
    return count_nodes(b, parent, node->expanded);
}

static struct node *begin_node(struct builder *b, enum node_kind kind, struct fy_token *place,
                               struct fy_token *anchor, struct fy_token *tag)
{
    if (place)
        note_place(b, place, kind == NODE_SCALAR && is_in_quotes(place));
    else
        note_place(b, anchor, 1);
    if (tag) {
        refuse(b, "tags ('!...') are not used in a pipeline file");
        return NULL;
    }
    struct node *node = hr_conf_take(b->memory, sizeof(*node));
    if (!node) {
        out_of_memory(b);
        return NULL;
    }
    *node = (struct node){.kind = kind, .line = b->line, .column = b->column, .expanded = 1};
    if (anchor) {
        node->anchor = token_text(b, anchor);
        if (!node->anchor)
            return NULL;
        node->next_anchored = b->anchored;
        b->anchored = node;
    }
    return node;
}

static bool begin_collection(struct builder *b, enum node_kind kind, struct fy_token *place,
                             struct fy_token *anchor, struct fy_token *tag)
{
    struct node *node = begin_node(b, kind, place, anchor, tag);

    if (!node)
        return false;
    if (++b->depth > HR_CONF_MAX_DEPTH)
        return refuse(b, "nested more than %d deep", HR_CONF_MAX_DEPTH);
    if (!attach(b, node))
        return false;
    node->parent = b->current;
    node->open = true;
    b->current = node;
    return true;
}

static bool end_collection(struct builder *b)
{
    b->current->open = false;
    b->current = b->current->parent;
    b->depth--;
    return true;
}

/* Then a character of the text is a column of the file. */
static bool is_verbatim(struct fy_token *token, const char *text)
{
    const struct fy_mark *start = token ? fy_token_start_mark(token) : NULL;
    const struct fy_mark *end = token ? fy_token_end_mark(token) : NULL;
    int characters = 0;

    for (; *text; text++)
        characters += ((unsigned char)*text & 0xc0) != 0x80;
    return start && end && start->line == end->line && end->column - start->column == characters;
}

static bool add_scalar(struct builder *b, const struct fy_event *event)
{
    struct fy_token *value = event->scalar.value;
    struct node *node =
        begin_node(b, NODE_SCALAR, value, event->scalar.anchor, event->scalar.tag);

    if (!node)
        return false;
    node->text = token_text(b, value);
    node->quoted = value && fy_token_scalar_style(value) != FYSS_PLAIN;
    node->verbatim = node->text && is_verbatim(value, node->text);
    return node->text && attach(b, node);
}

static bool add_alias(struct builder *b, struct fy_token *anchor)
{
    note_place(b, anchor, 1);
    const char *name = token_text(b, anchor);
    const struct node *node = b->anchored;

    if (!name)
        return false;
    while (node && strcmp(node->anchor, name) != 0)
        node = node->next_anchored;
    if (!node) {
        refuse(b, "no anchor '&%s' before this alias", name);
        return false;
    }
    if (node->open)
        return refuse(b, "'*%s' stands inside what it names", name);
    return attach(b, node);
}

static bool begin_document(struct builder *b, struct fy_token *place)
{
    note_place(b, place, 0);
    if (++b->documents == 1)
        return true;
    refuse(b, "a second document begins here");
    hr_error_hint(b->err, "a pipeline file is one document: remove the '---' and what follows, or "
                          "split the file");
    return false;
}

static bool take_event(struct builder *b, const struct fy_event *event)
{
    switch (event->type) {
    case FYET_DOCUMENT_START:
        return begin_document(b, event->document_start.document_start);
    case FYET_MAPPING_START:
        return begin_collection(b, NODE_MAP, event->mapping_start.mapping_start,
                                event->mapping_start.anchor, event->mapping_start.tag);
    case FYET_SEQUENCE_START:
        return begin_collection(b, NODE_LIST, event->sequence_start.sequence_start,
                                event->sequence_start.anchor, event->sequence_start.tag);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        return end_collection(b);
    case FYET_SCALAR:
        return add_scalar(b, event);
    case FYET_ALIAS:
        return add_alias(b, event->alias.anchor);
    default:
        return true;
    }
}

static void place_of_byte(const char *text, size_t at, int *line, int *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

/* Is there a tab in the indentation of that line? */
static bool tab_indents(const char *text, size_t bytes, int line)
{
    const char *p = text, *end = text + bytes;

    for (; line > 1 && p < end; p++)
        line -= *p == '\n';
    while (p < end && *p == ' ')
        p++;
    return p < end && *p == '\t';
}

/* libfyaml's first complaint, in our form. */
static void parser_error(struct builder *b, struct fy_diag *diag, const char *text, size_t bytes)
{
    void *iterator = NULL;
    const struct fy_diag_error *first = fy_diag_errors_iterate(diag, &iterator);
    const char *message = first && first->msg ? first->msg : "not YAML";
    int line = first ? first->line : b->line, column = first ? first->column : b->column;

    hr_fail(b->err, HR_E_CONFIG, "%.*s", (int)strcspn(message, "\n"), message);
    hr_error_at_file(b->err, b->file, line, column);
    b->failed = true;
    if (tab_indents(text, bytes, line))
        hr_error_hint(b->err, "indent with spaces: YAML allows no tabs there");
}

static bool check_bytes(struct builder *b, const char **text, size_t *bytes)
{
    if (*bytes > HR_CONF_MAX_BYTES)
        return refuse(b, "%zu bytes; a pipeline file has at most %d", *bytes, HR_CONF_MAX_BYTES);
    if (*bytes >= 2 && (memcmp(*text, "\xff\xfe", 2) == 0 || memcmp(*text, "\xfe\xff", 2) == 0)) {
        b->line = b->column = 1;
        refuse(b, "the text is UTF-16");
        hr_error_hint(b->err, "save it as UTF-8");
        return false;
    }
    if (*bytes >= 3 && memcmp(*text, "\xef\xbb\xbf", 3) == 0) {
        *text += 3;
        *bytes -= 3;
    }
    size_t valid = hr_utf8_valid_prefix(*text, *bytes);
    const char *nul = memchr(*text, 0, valid);
    if (nul || valid < *bytes) {
        place_of_byte(*text, nul ? (size_t)(nul - *text) : valid, &b->line, &b->column);
        return refuse(b, nul ? "a NUL byte" : "bytes that are not UTF-8");
    }
    return true;
}

static void build(struct builder *b, struct fy_parser *parser, struct fy_diag *diag,
                  const char *text, size_t bytes)
{
    bool more = true;

    while (more && !b->failed) {
        struct fy_event *event = fy_parser_parse(parser);
        if (!event) {
            if (fy_parser_get_stream_error(parser))
                parser_error(b, diag, text, bytes);
            return;
        }
        more = event->type != FYET_STREAM_END && take_event(b, event);
        fy_parser_event_free(parser, event);
    }
}

static void parse(struct builder *b, const char *text, size_t bytes)
{
    struct fy_diag_cfg diag_config = {.level = FYET_ERROR, .module_mask = UINT_MAX};
    struct fy_diag *diag = fy_diag_create(&diag_config);
    struct fy_parse_cfg config = {
        .flags = FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE, .diag = diag};
    struct fy_parser *parser = NULL;

    if (diag) {
        fy_diag_set_collect_errors(diag, true);
        parser = fy_parser_create(&config);
    }
    if (!parser || fy_parser_set_string(parser, text, bytes) != 0)
        out_of_memory(b);
    else
        build(b, parser, diag, text, bytes);
    if (parser)
        fy_parser_destroy(parser);
    if (diag)
        fy_diag_destroy(diag);
}

const struct node *hr_conf_tree(struct hr_conf_private *memory, const char *text, size_t bytes,
                                const char *file, struct hr_error *err)
{
    struct hr_error unused;
    struct builder b = {.memory = memory, .file = file, .err = err ? err : &unused};

    if (check_bytes(&b, &text, &bytes) && bytes)
        parse(&b, text, bytes);
    bool nothing = !b.root || (b.root->kind == NODE_SCALAR && !b.root->text[0]);
    if (!b.failed && nothing) {
        b.line = b.column = 0;
        refuse(&b, "the file is empty");
        hr_error_hint(b.err, "it needs at least 'dataset: PATH'; 'headrace init DATASET' prints a "
                             "whole one");
    }
    return b.failed ? NULL : b.root;
}
