/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a counter
 * in, random bits out, no state to keep. A draw depends on (seed, epoch, position, stream) alone,
 * so every thread, rank and rerun gets the same one. */
#ifndef HR_BASE_RNG_H
#define HR_BASE_RNG_H

#include "base/base.h"

void hr_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

struct hr_rng {
    uint32_t key[2];
    uint32_t counter[4]; /* {draw block, stream, position low, position high}, epoch in the key */
    uint32_t block[4];
    unsigned used; /* words of block already given */
};

/* stream separates independent uses of one position: an op's index in its field's chain and the
 * field's index, as the caller composes them. */
void hr_rng_init(struct hr_rng *rng, uint64_t seed, uint64_t epoch, uint64_t position,
                 uint32_t stream);
uint32_t hr_rng_u32(struct hr_rng *rng);
double hr_rng_uniform(struct hr_rng *rng);                   /* [0, 1), 53 bits */
double hr_rng_range(struct hr_rng *rng, double lo, double hi); /* [lo, hi) */
uint64_t hr_rng_below(struct hr_rng *rng, uint64_t n);       /* [0, n), unbiased; n > 0 */
bool hr_rng_bernoulli(struct hr_rng *rng, double p);

#endif
