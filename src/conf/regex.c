/* Matching: all ways through the expression side by side (K. Thompson, "Regular expression search algorithm",
 * CACM 11:6, 1968), each node at most once a byte. */
#include "conf/regex.h"

#include <string.h>

#include "base/mem.h"
#include "conf/regex_parts.h"

void hr_regex_destroy(struct hr_regex *regex)
{
    if (!regex)
        return;
    hr_free(regex->nodes);
    hr_free(regex->sets);
    hr_free(regex->seen);
    hr_free(regex->now.items);
    hr_free(regex->next.items);
    hr_free(regex->stack);
    hr_free(regex);
}

/* A place between two bytes of the text. */
struct place {
    const uint8_t *text;
    size_t at, bytes;
};

static bool holds(enum regex_op op, const struct place *p)
{
    bool before = p->at > 0 && regex_is_word(p->text[p->at - 1]);
    bool after = p->at < p->bytes && regex_is_word(p->text[p->at]);

    switch (op) {
    case REGEX_BEGIN:
        return p->at == 0;
    case REGEX_END:
        return p->at == p->bytes;
    case REGEX_EDGE:
        return before != after;
    case REGEX_INSIDE:
        return before == after;
    case REGEX_WORD_BEGIN:
        return !before && after;
    default:
        return before && !after;
    }
}

static void push(struct hr_regex *r, uint32_t *depth, uint32_t node)
{
    if (r->seen[node] == r->step)
        return;
    r->seen[node] = r->step;
    r->stack[(*depth)++] = (uint16_t)node;
}

/* Adds what can be reached from a node without a byte. True: that is the end. */
static bool reach(struct hr_regex *r, struct regex_list *list, uint32_t node, const struct place *p)
{
    uint32_t depth = 0;

    push(r, &depth, node);
    while (depth > 0) {
        uint32_t i = r->stack[--depth];
        const struct regex_node *n = &r->nodes[i];
        switch ((enum regex_op)n->op) {
        case REGEX_MATCH:
            return true;
        case REGEX_SPLIT:
            push(r, &depth, i + (uint32_t)n->b);
            push(r, &depth, i + (uint32_t)n->a);
            break;
        case REGEX_JUMP:
            push(r, &depth, i + (uint32_t)n->a);
            break;
        case REGEX_BYTE:
        case REGEX_ANY:
        case REGEX_SET:
            list->items[list->count++] = (uint16_t)i;
            break;
        default:
            if (holds((enum regex_op)n->op, p))
                push(r, &depth, i + 1);
        }
    }
    return false;
}

static bool takes(const struct hr_regex *r, const struct regex_node *n, uint8_t c)
{
    return n->op == REGEX_ANY || (n->op == REGEX_BYTE ? n->a == c : regex_set_has(&r->sets[n->a], c));
}

static void begin_step(struct hr_regex *r)
{
    if (++r->step != 0)
        return;
    memset(r->seen, 0, r->node_count * sizeof(*r->seen));
    r->step = 1;
}

bool hr_regex_matches(struct hr_regex *r, const char *text, size_t bytes)
{
    struct place p = {.text = (const uint8_t *)text, .bytes = bytes};

    r->now.count = 0;
    begin_step(r);
    for (;; p.at++) {
        if (reach(r, &r->now, 0, &p)) /* a match may begin anywhere */
            return true;
        if (p.at == bytes)
            return false;
        struct place after = {.text = p.text, .at = p.at + 1, .bytes = bytes};
        uint8_t c = p.text[p.at];
        r->next.count = 0;
        begin_step(r);
        for (uint32_t k = 0; k < r->now.count; k++) {
            uint32_t i = r->now.items[k];
            if (takes(r, &r->nodes[i], c) && reach(r, &r->next, i + 1, &after))
                return true;
        }
        struct regex_list done = r->now;
        r->now = r->next;
        r->next = done;
    }
}
