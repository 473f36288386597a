/* Arguments of ops and options, as a pipeline file would give them. */
#ifndef HR_TESTS_UNIT_ARGS_H
#define HR_TESTS_UNIT_ARGS_H

#include "base/arg.h"

static inline struct hr_arg arg_number(const char *name, double v)
{
    return (struct hr_arg){.name = name, .kind = v == (int)v ? HR_ARG_INT : HR_ARG_FLOAT,
                           .integer = (int64_t)v, .number = v, .text = "?"};
}

static inline struct hr_arg arg_word(const char *name, const char *text)
{
    return (struct hr_arg){.name = name, .kind = HR_ARG_STR, .text = text};
}

#endif
