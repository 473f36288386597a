/* Regular expressions for filters: POSIX extended ones over bytes, asked only whether a text holds a match.
 * Time is bounded by nodes times bytes whatever the expression, which the C library's cannot promise. */
#ifndef HR_CONF_REGEX_H
#define HR_CONF_REGEX_H

#include "base/base.h"

enum {
    HR_REGEX_MAX_BYTES = 512,  /* of an expression */
    HR_REGEX_MAX_NODES = 4096, /* with its repetitions multiplied out */
    HR_REGEX_MAX_DEPTH = 32,   /* groups in groups */
};

struct hr_regex;

/* HR_E_CONFIG with *trouble saying what is wrong, or HR_E_NOMEM. */
int hr_regex_create(const char *text, struct hr_regex **out, const char **trouble) HR_MUST_CHECK;
void hr_regex_destroy(struct hr_regex *regex); /* NULL is fine */
/* One thread at a time. */
bool hr_regex_matches(struct hr_regex *regex, const char *text, size_t bytes);

#endif
