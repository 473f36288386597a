/* A mixture as it is set up. Private to mix*.c. */
#ifndef HR_ORDER_MIX_PARTS_H
#define HR_ORDER_MIX_PARTS_H

#include "order/mix.h"

struct hr_mix_source {
    struct hr_sequence sequence;
    uint64_t share;
    uint64_t below;  /* shares of the sources before this one */
    uint64_t repeats; /* passes an epoch; 0 with weights */
};

struct hr_mix {
    bool by_repeats; /* periods begin anew with each epoch */
    uint32_t source_count;
    uint64_t total; /* of the shares */
    uint64_t period;
    uint64_t epoch_samples;
    struct hr_mix_source sources[];
};

#endif
