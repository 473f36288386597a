/* Values of a pipeline file as numbers, words and choices, each checked against its range; what is wrong is
 * said with its place and a way out. Private to src/conf. */
#ifndef HR_CONF_VALUE_H
#define HR_CONF_VALUE_H

#include "conf/conf.h"
#include "conf/tree.h"

struct reader {
    struct hr_conf *conf;
    const char *folder; /* relative dataset paths start here; "" = as they are */
    struct hr_error *err;
};

/* The scalar of the wanted kind, or the error. An integer counts as a number. */
int hr_conf_read_scalar(const struct reader *r, const char *key, const struct node *value,
                        enum hr_arg_kind kind, const char *what, struct hr_arg *arg) HR_MUST_CHECK;
int hr_conf_read_count(const struct reader *r, const char *key, const struct node *value,
                       uint64_t min, uint64_t max, uint64_t *out) HR_MUST_CHECK;
/* above < value <= max; range says so in words. */
int hr_conf_read_number(const struct reader *r, const char *key, const struct node *value,
                        double above, double max, const char *range, double *out) HR_MUST_CHECK;
/* The number of the word in choices, which ends with NULL. */
int hr_conf_read_choice(const struct reader *r, const char *key, const struct node *value,
                        const char *const *choices, int *out) HR_MUST_CHECK;

/* Errors: all return their code. */
int hr_conf_no_memory(const struct reader *r);
/* "'batch' must be an integer, not text '256'", with a hint where the cause can be guessed. */
int hr_conf_expected(const struct reader *r, const char *key, const struct node *value,
                     const char *what);
int hr_conf_out_of_range(const struct reader *r, const char *key, const struct node *value,
                         const char *range);
/* Names the nearest of the known keys, or lists them. */
int hr_conf_unknown_key(const struct reader *r, const struct node *key, const char *where,
                        const char *const *known, int known_count);

/* `dataset:` (dataset.c). */
int hr_conf_read_dataset(const struct reader *r, const char *key,
                         const struct node *value) HR_MUST_CHECK;
/* A filter; the expression itself is checked too, so that it fails where it stands. */
int hr_conf_read_where(const struct reader *r, const char *key, const struct node *value,
                       struct hr_conf_where *where) HR_MUST_CHECK;

#endif
