/* Fields that follow an image field (`follow: image`): what the plan makes of them, and boxes and keypoints of one
 * sample. A follower needs no more of its picture than the facts in the index, and is absent where the picture is.
 * Private to src/pipeline. */
#ifndef HR_PIPELINE_FOLLOW_H
#define HR_PIPELINE_FOLLOW_H

#include "pipeline/sample.h"

/* The value of `follow`, or NULL. */
const struct hr_arg *hr_follow_option(const struct hr_conf_field *field);
/* The plan field that it names, all leaders being planned before their followers. HR_E_CONFIG with place. */
int hr_follow_leader(const struct hr_plan *plan, const struct hr_conf_field *field, uint32_t *leader,
                     struct hr_error *err) HR_MUST_CHECK;
/* Refuses what cannot follow: all but images and arrays. */
int hr_follow_check_type(const struct hr_schema_field *sf, const struct hr_conf_field *field, struct hr_error *err)
    HR_MUST_CHECK;
/* An array's part of the plan: route, mapping, and its two outputs. */
int hr_follow_plan_array(struct hr_plan *plan, struct hr_plan_field *f, const struct hr_schema_field *sf,
                         const struct hr_conf_field *conf, const struct hr_field_totals *totals, struct hr_error *err)
    HR_MUST_CHECK;

/* A mask has the size of its picture. 0 or HR_E_DECODE. */
int hr_follow_check_mask(const struct hr_sample *s, const struct hr_plan_field *f, struct hr_error *err) HR_MUST_CHECK;
/* Most bytes that the sample can put into that output of an array. */
uint64_t hr_follow_room(const struct hr_plan_field *f, uint64_t value_bytes, uint32_t output);
/* Maps the stored value into both outputs. 0 or a sample-scope error. */
int hr_follow_finish(struct hr_sample *s, const struct hr_plan_field *f, const uint8_t *value, uint64_t bytes,
                     struct hr_error *err) HR_MUST_CHECK;

#endif
