/* The layout of a slot: where the header, the id and valid arrays, and every output lie, for a given
 * number of samples. Computed once a stream. */
#ifndef HR_PIPELINE_SLOT_LAYOUT_H
#define HR_PIPELINE_SLOT_LAYOUT_H

#include "pipeline/plan.h"
#include "ring/wire.h"

struct hr_slot_layout_output {
    uint64_t data_off, data_bytes; /* bytes: room */
    uint64_t offsets_off;          /* ragged */
    uint64_t shapes_off;           /* ragged with shapes, else 0 */
};

struct hr_slot_layout {
    uint32_t capacity; /* samples */
    uint64_t slot_bytes;
    uint64_t records_off, sources_off, valid_off;
    struct hr_slot_layout_output outputs[HR_PLAN_MAX_OUTPUTS];
    uint64_t template_bytes;
    uint8_t *template; /* header and field table, ready but for what changes per batch */
};

int hr_slot_layout_init(struct hr_slot_layout *layout, const struct hr_plan *plan, uint32_t capacity,
                   struct hr_error *err) HR_MUST_CHECK;
void hr_slot_layout_finish(struct hr_slot_layout *layout);

#endif
