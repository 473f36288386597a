/* What a plan is put together from: its outputs, and short digests of its parts with names, which let a refused
 * checkpoint say what differs. Private to src/pipeline. */
#ifndef HR_PIPELINE_PLAN_PARTS_H
#define HR_PIPELINE_PLAN_PARTS_H

#include "pipeline/plan.h"

/* In the order that docs/state.md gives; what no longer fits is left out. */
void hr_plan_add_part(struct hr_plan *plan, const char *name, const void *data, size_t bytes);
void hr_plan_add_source_parts(struct hr_plan *plan);
/* description: the field's line of the plan's text, its ops and options in words of their own. */
void hr_plan_add_field_parts(struct hr_plan *plan, const char *field, const char *description);

/* One more array of the batch, or NULL. */
struct hr_plan_output *hr_plan_add_output(struct hr_plan *plan, const char *name, const char *suffix,
                                          enum hr_field_type type);
int hr_plan_too_many_outputs(struct hr_error *err);

#endif
