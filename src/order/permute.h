/* A keyed permutation of [0, count) that computes any entry, or its inverse, in O(1): a small
 * Feistel network over the next power of two, with cycle walking. Private to src/order;
 * docs/order.md specifies it to the bit. */
#ifndef HR_ORDER_PERMUTE_H
#define HR_ORDER_PERMUTE_H

#include "base/base.h"

struct hr_permutation {
    uint64_t count; /* 1 .. 2^63 */
    uint64_t key;
    unsigned left_bits, right_bits, rounds;
};

enum { HR_PERMUTATION_RUN = 256 };

/* Folds one more word into a key. Keys start from hr_key_absorb(0, seed). */
uint64_t hr_key_absorb(uint64_t key, uint64_t word);

void hr_permutation_init(struct hr_permutation *perm, uint64_t count, uint64_t key);
uint64_t hr_permutation_at(const struct hr_permutation *perm, uint64_t index); /* index < count */
/* hr_permutation_at() of each of up to HR_PERMUTATION_RUN values, in place; faster than one by one. */
void hr_permutation_map(const struct hr_permutation *perm, uint64_t *values, unsigned count);
uint64_t hr_permutation_index_of(const struct hr_permutation *perm, uint64_t value);

#endif
