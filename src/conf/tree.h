/* A YAML text as a tree of nodes with their places, bounded in size, depth and expansion. Private to
 * src/conf: the one part that knows libfyaml is tree.c. */
#ifndef HR_CONF_TREE_H
#define HR_CONF_TREE_H

#include "base/arg.h"
#include "base/err.h"

enum {
    HR_CONF_MAX_BYTES = 1 << 20, /* of text */
    HR_CONF_MAX_NODES = 20000,   /* with every alias expanded */
    HR_CONF_MAX_DEPTH = 16,
};

/* Memory that lives as long as the configuration: small pieces out of chunks, freed at once. */
struct hr_conf_private {
    struct chunk *chunks;
};

void *hr_conf_take(struct hr_conf_private *memory, size_t bytes) HR_MUST_CHECK; /* zeroed */
char *hr_conf_take_text(struct hr_conf_private *memory, const char *text, size_t bytes)
    HR_MUST_CHECK;
void hr_conf_release(struct hr_conf_private *memory);

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    bool quoted;        /* scalar: never a number, boolean or null */
    bool verbatim;      /* scalar: lies in the file as it is, on one line, without escapes */
    bool open;          /* while its children are being read */
    int line, column;
    uint32_t expanded;  /* nodes below and with it, aliases expanded */
    const char *text;   /* scalar */
    const char *anchor;
    struct node *parent;
    struct child *first, *last;
    int child_count;
    struct node *next_anchored;
};

struct child {
    const struct node *key; /* map only: a scalar */
    const struct node *value;
    struct child *next;
};

/* The single document of a text, or NULL with err filled (code, place, reason, hint). */
const struct node *hr_conf_tree(struct hr_conf_private *memory, const char *text, size_t bytes,
                                const char *file, struct hr_error *err) HR_MUST_CHECK;

/* Fails at a node. */
int hr_conf_fail(struct hr_error *err, const char *file, const struct node *node, const char *fmt,
                 ...) HR_PRINTF(4, 5);

/* What a scalar means by YAML 1.2's core schema, as an argument without a name. HR_E_CONFIG for a
 * number that is not finite or fits no 64 bits. */
int hr_conf_scalar(const struct node *node, const char *file, struct hr_arg *arg,
                   struct hr_error *err) HR_MUST_CHECK;

/* Whether a scalar is a whole number, of any size; and its value, where that fits: false below 0 and past
 * 2^64 - 1. */
bool hr_conf_is_integer(const struct node *node);
bool hr_conf_integer_u64(const struct node *node, uint64_t *out);

/* Hint for a scalar of the wrong kind: quoted numbers, yes/no. "" when there is nothing to say. */
const char *hr_conf_kind_hint(const struct node *node);

#endif
