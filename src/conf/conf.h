/* The pipeline file (YAML, JSON being a subset) as checked structs. Top-level keys are checked here;
 * ops, outputs and clips are handed on as calls with line and column for those who own them.
 * docs/pipeline-file.md lists every key. */
#ifndef HR_CONF_CONF_H
#define HR_CONF_CONF_H

#include "base/arg.h"
#include "base/err.h"

enum hr_conf_order { HR_CONF_ORDER_FULL, HR_CONF_ORDER_WINDOW, HR_CONF_ORDER_NONE };
enum hr_conf_last { HR_CONF_LAST_DROP, HR_CONF_LAST_PAD, HR_CONF_LAST_WRAP, HR_CONF_LAST_KEEP };
enum hr_conf_bad { HR_CONF_BAD_SUBSTITUTE, HR_CONF_BAD_MASK, HR_CONF_BAD_FAIL };
enum hr_conf_io { HR_CONF_IO_AUTO, HR_CONF_IO_CACHED, HR_CONF_IO_DIRECT };

enum hr_conf_stop { HR_CONF_STOP_ALL_EXHAUSTED, HR_CONF_STOP_FIRST_EXHAUSTED, HR_CONF_STOP_STEPS };

/* A filter expression and where it was written (conf/filter.h). */
struct hr_conf_where {
    const char *text; /* NULL = none */
    int line, column;
    int first_column; /* of the text's first character, when it lies in the file as it is; else 0 */
};

struct hr_conf_dataset {
    const char *path;
    const char *version; /* digest or its beginning; NULL = the current one */
    double weight;    /* 1 when absent */
    uint64_t repeats; /* 0 when absent; when any source has it, 1 for the others */
    struct hr_conf_where where;
    int line, column;
};

struct hr_conf_field {
    const char *name;
    int line, column;
    struct hr_call *ops; /* in order */
    int op_count;
    struct hr_call options;  /* scalar and list keys beside ops: max_bytes, start, channels … */
    struct hr_call *tables;  /* mapping keys beside ops: output, clip, log_mel … by their key */
    int table_count;
    struct hr_conf_field *views; /* `views:` as a mapping of names, each with ops, options and tables */
    int view_count;
};

/* `blend:` mixup and cutmix. What its arguments mean is for src/pipeline/blend_plan.c to say. */
struct hr_conf_blend {
    struct hr_call options;       /* images, labels, mode … */
    struct hr_call mixup, cutmix; /* name NULL = not given */
};

struct hr_conf {
    const char *file; /* as given, or "<config>" for text */
    struct hr_conf_dataset *datasets;
    int dataset_count;
    struct hr_conf_where where; /* for all datasets, beside their own */
    enum hr_conf_stop stop;     /* of weighted datasets */
    uint64_t stop_steps;
    uint64_t seed;
    uint64_t batch;
    enum hr_conf_order order;
    uint64_t window_block_records, window_open_blocks; /* `order: {window: {block:…, open:…}}`; 0 = default */
    enum hr_conf_last last;
    enum hr_conf_bad bad_records;
    double bad_budget;          /* share of samples, default 0.001 */
    uint64_t bad_consecutive;   /* default 100 */
    int64_t slots;              /* default 4 */
    int64_t workers;            /* 0 = auto */
    const char *reader;         /* "auto" when absent */
    enum hr_conf_io io;
    uint64_t read_ahead_bytes;  /* bytes in flight; 0 = auto */
    double storage_deadline_s;  /* default 60 */
    int64_t epochs;             /* 0 = without end */
    int batch_line, seed_line, stop_line; /* where they were written, for errors found later; 0 = default */
    struct hr_conf_field *fields; /* none given: every field of the dataset, with defaults */
    int field_count;
    const struct hr_conf_blend *blend; /* NULL = none */
    struct hr_conf_private *memory; /* owns all strings and arrays */
};

/* Parses a file, or text (file then only names it in errors). Relative dataset paths are taken from
 * the file's folder (for text: the working directory). On error nothing is left to free. */
int hr_conf_load(const char *file, struct hr_conf *conf, struct hr_error *err) HR_MUST_CHECK;
int hr_conf_parse(const char *text, size_t bytes, const char *file, struct hr_conf *conf,
                  struct hr_error *err) HR_MUST_CHECK;
/* Its text alone ("-": standard input's), for hr_conf_load_text; the caller frees it. HR_E_CONFIG when it is
 * larger than any can be. */
int hr_conf_read(const char *file, void **text, size_t *bytes, struct hr_error *err) HR_MUST_CHECK;
/* As hr_conf_load, of a file whose text was read before. */
int hr_conf_load_text(const char *text, size_t bytes, const char *file, struct hr_conf *conf,
                      struct hr_error *err) HR_MUST_CHECK;
void hr_conf_finish(struct hr_conf *conf);

/* Turns the column that a filter's error names (hr_filter_parse, hr_filter_bind) into a place in the
 * file. */
void hr_conf_where_failed(const struct hr_conf *conf, const struct hr_conf_where *where,
                          struct hr_error *err);

/* The table of that key, or NULL. */
const struct hr_call *hr_conf_field_table(const struct hr_conf_field *field, const char *key);

#endif
