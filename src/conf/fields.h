/* The parts of a pipeline file that are handed on as calls: `fields:` and `blend:`. Private to src/conf. */
#ifndef HR_CONF_FIELDS_H
#define HR_CONF_FIELDS_H

#include "conf/conf.h"
#include "conf/tree.h"

int hr_conf_fields(const struct node *node, struct hr_conf *conf, struct hr_error *err)
    HR_MUST_CHECK;
int hr_conf_blend(const struct node *node, struct hr_conf *conf, struct hr_error *err) HR_MUST_CHECK;

#endif
