/* Filters: predicates over the columns of a dataset's index, such as `width >= 256 and lang == "en"`.
 * Parsed once, bound to the columns of one dataset, then asked for each record.
 * docs/pipeline-file.md has the grammar. */
#ifndef HR_CONF_FILTER_H
#define HR_CONF_FILTER_H

#include "base/base.h"
#include "base/err.h"

enum {
    HR_FILTER_MAX_BYTES = 4096,   /* of an expression */
    HR_FILTER_MAX_NODES = 1024,
    HR_FILTER_MAX_DEPTH = 64,     /* parentheses and nots */
    HR_FILTER_MAX_NAMES = 64,     /* different ones */
    HR_FILTER_MAX_MATCH = 1024,   /* bytes of a text that =~ looks at; a longer one does not match */
};

enum hr_filter_type {
    HR_FILTER_INTEGER,
    HR_FILTER_NUMBER,
    HR_FILTER_TEXT,
    HR_FILTER_BOOL,
    HR_FILTER_VALUE, /* a payload: it can only be asked for by has() */
};

struct hr_filter_column {
    enum hr_filter_type type;
    uint32_t id; /* handed to get */
};

struct hr_filter_value {
    bool present;
    int64_t integer; /* INTEGER, BOOL */
    double number;
    const char *text; /* not terminated */
    uint32_t text_bytes;
};

enum hr_filter_found { HR_FILTER_FOUND, HR_FILTER_LACKING };

/* The columns of one dataset. */
struct hr_filter_columns {
    void *context;
    /* HR_FILTER_FOUND; HR_FILTER_LACKING when no record can have it; or HR_E_CONFIG with the reason. */
    int (*find)(void *context, const char *name, struct hr_filter_column *out, struct hr_error *err);
    void (*get)(void *context, uint32_t id, uint64_t record, struct hr_filter_value *out);
    /* The number that a text stands for in an INTEGER column whose numbers have names: 1 and *out; 0 when
     * they have none; or HR_E_CONFIG with the reason. NULL = no column has any. */
    int (*number_of)(void *context, uint32_t id, const char *text, uint32_t text_bytes, int64_t *out,
                     struct hr_error *err);
};

struct hr_filter;

/* On failure err->column is the character of the text that is wrong, from 1. HR_E_CONFIG, HR_E_NOMEM. */
int hr_filter_parse(const char *text, struct hr_filter **out, struct hr_error *err) HR_MUST_CHECK;
void hr_filter_destroy(struct hr_filter *filter); /* NULL is fine */

/* The columns that it names, each once. */
int hr_filter_name_count(const struct hr_filter *filter);
const char *hr_filter_name(const struct hr_filter *filter, int i);

/* Finds the columns and checks types; may be done again for another dataset. Errors as in parse. */
int hr_filter_bind(struct hr_filter *filter, const struct hr_filter_columns *columns,
                   struct hr_error *err) HR_MUST_CHECK;
/* columns: as bound. One thread at a time. */
bool hr_filter_keeps(const struct hr_filter *filter, const struct hr_filter_columns *columns,
                     uint64_t record);

#endif
