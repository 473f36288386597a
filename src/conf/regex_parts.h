/* A compiled regular expression, between its parser and its matcher. Private to src/conf. */
#ifndef HR_CONF_REGEX_PARTS_H
#define HR_CONF_REGEX_PARTS_H

#include "conf/regex.h"

/* Nodes follow each other; jumps are relative, so that a stretch of nodes can be moved and copied. */
enum regex_op {
    REGEX_BYTE,  /* a */
    REGEX_ANY,
    REGEX_SET,   /* sets[a] */
    REGEX_SPLIT, /* to a and to b */
    REGEX_JUMP,  /* to a */
    REGEX_BEGIN, /* of the text */
    REGEX_END,
    REGEX_EDGE,  /* between a word and something else */
    REGEX_INSIDE, /* not there */
    REGEX_WORD_BEGIN,
    REGEX_WORD_END,
    REGEX_MATCH,
};

struct regex_node {
    int16_t op, a, b;
};

struct regex_set {
    uint8_t bits[32];
};

struct regex_list {
    uint16_t *items;
    uint32_t count;
};

struct hr_regex {
    struct regex_node *nodes;
    uint32_t node_count;
    struct regex_set *sets;
    uint32_t set_count;
    /* matching */
    uint32_t *seen; /* by node: the last step that reached it */
    uint32_t step;
    struct regex_list now, next;
    uint16_t *stack;
};

static inline bool regex_set_has(const struct regex_set *set, uint8_t c)
{
    return set->bits[c / 8] >> (c % 8) & 1;
}

static inline bool regex_is_word(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

#endif
