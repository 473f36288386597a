/* What a filter keeps of a dataset. */
#ifndef HR_PIPELINE_KEEP_H
#define HR_PIPELINE_KEEP_H

#include "conf/conf.h"
#include "order/selection.h"
#include "shards/dataset.h"

/* The names of the filter that holds for all datasets must be known to one of them at least. */
int hr_keep_check(const struct hr_conf *conf, const struct hr_dataset *const *datasets, int count,
                  struct hr_error *err) HR_MUST_CHECK;

/* Evaluates both filters, that of all datasets and its own, for every record. *out is NULL when all
 * are kept. */
int hr_keep_records(const struct hr_conf *conf, const struct hr_conf_dataset *entry,
                    const struct hr_dataset *dataset, struct hr_selection **out, uint64_t *kept,
                    struct hr_error *err) HR_MUST_CHECK;

#endif
