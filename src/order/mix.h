/* Mixtures: which source each position of an endless sequence is taken from, and which visit of the
 * source it is. Private to src/order; docs/order.md specifies it. */
#ifndef HR_ORDER_MIX_H
#define HR_ORDER_MIX_H

#include "order/sequence.h"

/* Checks weights, repeats and stop rule. epoch_samples: positions of an epoch. */
int hr_mix_create(const struct hr_order_spec *spec, struct hr_mix **out, uint64_t *epoch_samples,
                  struct hr_error *err) HR_MUST_CHECK;
void hr_mix_destroy(struct hr_mix *mix); /* NULL is fine */

/* Positions of one epoch, at most HR_PERMUTATION_RUN. */
void hr_mix_places(const struct hr_mix *mix, uint64_t seed_key, uint64_t epoch, uint64_t position,
                   uint32_t count, struct hr_place *places);

/* The first time at or after (epoch, position) that an index of a source comes; false when that is past
 * what positions can count. */
bool hr_mix_find(const struct hr_mix *mix, uint64_t seed_key, uint32_t source, uint64_t index,
                 uint64_t *epoch, uint64_t *position);

const struct hr_sequence *hr_mix_sequence(const struct hr_mix *mix, uint32_t source);
uint64_t hr_mix_share(const struct hr_mix *mix, uint32_t source, uint64_t *total);

#endif
