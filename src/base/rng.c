/* Philox4x32-10 and the distributions drawn from it. */
#include "base/rng.h"


void hr_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void hr_rng_init(struct hr_rng *rng, uint64_t seed, uint64_t epoch, uint64_t position,
                 uint32_t stream)
{
    /* Seed and epoch share the 64-bit key: mixed by one Philox block so that neighbouring seeds
     * and epochs have unrelated keys. */
    uint32_t mix_in[4] = {(uint32_t)epoch, (uint32_t)(epoch >> 32), 0x68726167u, 0};
    uint32_t mix_key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t mixed[4];

    hr_philox4x32(mix_in, mix_key, mixed);
    rng->key[0] = mixed[0];
    rng->key[1] = mixed[1];
    rng->counter[0] = 0;
    rng->counter[1] = stream;
    rng->counter[2] = (uint32_t)position;
    rng->counter[3] = (uint32_t)(position >> 32);
    rng->used = 4;
}

uint32_t hr_rng_u32(struct hr_rng *rng)
{
    if (rng->used == 4) {
        hr_philox4x32(rng->counter, rng->key, rng->block);
        rng->counter[0]++;
        rng->used = 0;
    }
    return rng->block[rng->used++];
}

double hr_rng_uniform(struct hr_rng *rng)
{
    uint64_t hi = hr_rng_u32(rng) >> 5, lo = hr_rng_u32(rng) >> 6;

    return (double)(hi << 26 | lo) * 0x1p-53;
}

double hr_rng_range(struct hr_rng *rng, double lo, double hi)
{
    return lo + (hi - lo) * hr_rng_uniform(rng);
}

uint64_t hr_rng_below(struct hr_rng *rng, uint64_t n)
{
    HR_ASSERT(n > 0);
    /* Values at or above the largest multiple of n are drawn again, which removes the bias. */
    uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    for (;;) {
        uint64_t v = (uint64_t)hr_rng_u32(rng) << 32;
        v |= hr_rng_u32(rng);
        if (v < limit)
            return v % n;
    }
}

bool hr_rng_bernoulli(struct hr_rng *rng, double p)
{
    return hr_rng_uniform(rng) < p;
}
