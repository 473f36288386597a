/* Named arguments with the place they were written at. The pipeline file's parser makes them, ops
 * and outputs read them through a table, and an error points at the line and column. Neither side
 * needs to know the other. */
#ifndef HR_BASE_ARG_H
#define HR_BASE_ARG_H

#include "base/base.h"
#include "base/err.h"

enum hr_arg_kind { HR_ARG_NULL, HR_ARG_BOOL, HR_ARG_INT, HR_ARG_FLOAT, HR_ARG_STR, HR_ARG_LIST };

/* One value. Lists hold scalars only. All pointers belong to whoever made the argument. */
struct hr_arg {
    const char *name; /* NULL inside lists */
    enum hr_arg_kind kind;
    bool boolean;
    int64_t integer;
    double number;     /* also set for HR_ARG_INT */
    const char *text;  /* the scalar as written */
    struct hr_arg *items;
    int item_count;
    int line, column;         /* of the value */
    int key_line, key_column; /* of the name; 0 = as the value */
};

/* One op or table: name plus arguments, where it was written. A bare scalar or list given where a
 * mapping was possible (`resize: 256`) is one argument with name "". */
struct hr_call {
    const char *name;
    struct hr_arg *args;
    int arg_count;
    const char *file;
    int line, column;
};

enum hr_arg_type {
    HR_ARG_TYPE_BOOL,  /* bool * */
    HR_ARG_TYPE_INT,   /* int64_t * */
    HR_ARG_TYPE_FLOAT, /* double * */
    HR_ARG_TYPE_STR,   /* const char ** (borrowed from the call) */
    HR_ARG_TYPE_ENUM,  /* int *: index into choices */
    HR_ARG_TYPE_FLOATS, /* double[max_items], *count (int) set; a scalar counts as a list of one */
    HR_ARG_TYPE_INTS,  /* int64_t[max_items], likewise */
    HR_ARG_TYPE_STRS,  /* const struct hr_arg **: the items with their places, borrowed; likewise */
};

struct hr_arg_spec {
    const char *name;
    enum hr_arg_type type;
    void *out;       /* left untouched when the argument is absent: preset the default */
    double min, max; /* numbers, and every list item; ignored when min == max */
    bool required;
    bool positional;            /* takes the "" argument of `op: value` */
    const char *const *choices; /* ENUM: NULL-terminated */
    int min_items, max_items;   /* FLOATS, INTS, STRS */
    int *count;                 /* FLOATS, INTS, STRS: may be NULL */
};

/* Reads a call's arguments by a table of specs. An unknown name is an error that names the nearest
 * known one; a wrong type, range or count an error that says what was expected. 0 or HR_E_CONFIG
 * with file, line and column. */
int hr_args_read(const struct hr_call *call, const struct hr_arg_spec *specs, int spec_count,
                 struct hr_error *err) HR_MUST_CHECK;

/* The known word nearest to the given one, or NULL when none is near (edit distance > 2 and more
 * than a third of the word). */
const char *hr_nearest_word(const char *word, const char *const *known, int known_count);

#endif
