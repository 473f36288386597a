/* Repacked pictures read in part: which parts a sample needs, by what reading costs, and the parts as the
 * decoder takes them. */
#ifndef HR_DECODERS_REPACKED_H
#define HR_DECODERS_REPACKED_H

#include "decoders/chain.h"
#include "decoders/rjpeg/rjpeg.h"
#include "decoders/views.h"

/* Sets plan->seek and read_bytes where the parts that cover the boxes cost less than the whole value. */
void hr_repacked_plan_parts(const uint8_t *seek, uint32_t seek_bytes, const struct hr_views_boxes *boxes,
                            struct hr_sample_plan *plan);

/* plan->seek is set, and boxes are those that it was planned by. */
void hr_repacked_parts(const struct hr_sample_plan *plan, const struct hr_views_boxes *boxes,
                       struct hr_chain_parts *parts);
int hr_repacked_check(const struct hr_sample_plan *plan, const struct hr_views_boxes *boxes, const uint8_t *value,
                      size_t bytes, struct hr_error *err) HR_MUST_CHECK;

struct hr_repacked_view {
    struct hr_rjpeg_view view; /* points into parts and into the caller's bytes */
    struct hr_rjpeg_part parts[HR_CHAIN_MAX_PARTS];
};

/* value: the parts one behind the other, `bytes` of them. */
void hr_repacked_view_parts(const struct hr_sample_plan *plan, const struct hr_views_boxes *boxes,
                            const uint8_t *value, size_t bytes, struct hr_repacked_view *view);

#endif
