/* A parsed filter, shared by parser and evaluation. Private to src/conf. */
#ifndef HR_CONF_FILTER_PARTS_H
#define HR_CONF_FILTER_PARTS_H

#include "conf/filter.h"
#include "conf/regex.h"

enum filter_op { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE };

enum filter_kind {
    FILTER_AND,     /* children */
    FILTER_OR,      /* children */
    FILTER_NOT,     /* one child */
    FILTER_HAS,     /* left */
    FILTER_TRUTH,   /* left: a boolean column */
    FILTER_COMPARE, /* left op right */
    FILTER_IN,      /* left, list */
    FILTER_MATCH,   /* left, regex */
};

struct filter_operand {
    int name; /* index of the column's name; -1 = constant */
    enum hr_filter_type type;
    struct hr_filter_value value; /* constant */
    size_t at;                    /* byte in the expression */
    bool named;                   /* bound: a text that stands for a number of the column beside it */
    struct hr_filter_value number; /* that one */
};

struct filter_node {
    enum filter_kind kind;
    enum filter_op op;
    size_t at;
    struct filter_operand left, right;
    struct filter_operand *list;
    int list_count;
    struct hr_regex *regex;
    struct filter_node *child, *next; /* first child; next sibling */
    struct filter_node *made_before;  /* all nodes, for freeing */
};

struct filter_name {
    char *text;
    size_t at;    /* where it was first used */
    bool lacking; /* bound: no record has it */
    struct hr_filter_column column;
};

struct hr_filter {
    char *text;
    struct filter_node *root, *made;
    int node_count;
    struct filter_name names[HR_FILTER_MAX_NAMES];
    int name_count;
    char **strings; /* constants */
    int string_count;
};

/* Fails at a byte of the expression. */
int hr_filter_fail(const struct hr_filter *filter, size_t at, struct hr_error *err, const char *fmt,
                   ...) HR_PRINTF(4, 5);

#endif
