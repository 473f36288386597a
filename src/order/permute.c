/* The Feistel network. Its halves split the bits of count - 1 as evenly as they go, so the domain is
 * less than twice the count and a walk takes fewer than two tries on average. */
#include "order/permute.h"

/* 2^64 over the golden ratio: spaces the round keys (Steele, Lea, Flood: "Fast splittable
 * pseudorandom number generators", OOPSLA 2014). */
#define WEYL UINT64_C(0x9E3779B97F4A7C15)

/* Multipliers of SplitMix64 (Stafford's 13th variant of the murmur finalizer). */
#define MUL_1 UINT64_C(0xBF58476D1CE4E5B9)
#define MUL_2 UINT64_C(0x94D049BB133111EB)

enum { ROUNDS = 8, ROUNDS_SMALL = 32, SMALL_BITS = 8 };

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * MUL_1;
    z = (z ^ z >> 27) * MUL_2;
    return z ^ z >> 31;
}

/* The round function: the top bits of two multiplications, which depend on every bit below. */
static inline uint64_t scramble(uint64_t z, unsigned shift)
{
    z *= MUL_1;
    return (z ^ z >> 32) * MUL_2 >> shift;
}

uint64_t hr_key_absorb(uint64_t key, uint64_t word)
{
    return mix((key ^ word) + WEYL);
}

void hr_permutation_init(struct hr_permutation *perm, uint64_t count, uint64_t key)
{
    unsigned bits = count > 4 ? 64 - (unsigned)__builtin_clzll(count - 1) : 2;

    *perm = (struct hr_permutation){.count = count, .key = key};
    perm->left_bits = bits / 2;
    perm->right_bits = bits - bits / 2;
    /* With few bits a round has few functions to choose from, so it takes more of them until
     * every permutation is as likely as any other. */
    perm->rounds = bits > SMALL_BITS ? ROUNDS : ROUNDS_SMALL;
}

static inline uint64_t encipher(const struct hr_permutation *perm, uint64_t x, unsigned rounds)
{
    unsigned left_shift = 64 - perm->left_bits, right_shift = 64 - perm->right_bits;
    uint64_t left = x >> perm->right_bits;
    uint64_t right = x & ((UINT64_C(1) << perm->right_bits) - 1);
    uint64_t key = perm->key;

    for (unsigned i = 0; i < rounds; i += 2) {
        left ^= scramble(right + key, left_shift);
        right ^= scramble(left + key + WEYL, right_shift);
        key += 2 * WEYL;
    }
    return left << perm->right_bits | right;
}

static uint64_t decipher(const struct hr_permutation *perm, uint64_t x)
{
    unsigned left_shift = 64 - perm->left_bits, right_shift = 64 - perm->right_bits;
    uint64_t left = x >> perm->right_bits;
    uint64_t right = x & ((UINT64_C(1) << perm->right_bits) - 1);
    uint64_t key = perm->key + perm->rounds * WEYL;

    for (unsigned i = 0; i < perm->rounds; i += 2) {
        key -= 2 * WEYL;
        right ^= scramble(left + key + WEYL, right_shift);
        left ^= scramble(right + key, left_shift);
    }
    return left << perm->right_bits | right;
}

uint64_t hr_permutation_at(const struct hr_permutation *perm, uint64_t index)
{
    do
        index = encipher(perm, index, perm->rounds);
    while (index >= perm->count);
    return index;
}

uint64_t hr_permutation_index_of(const struct hr_permutation *perm, uint64_t value)
{
    do
        value = decipher(perm, value);
    while (value >= perm->count);
    return value;
}

/* Every value takes one step; those that fell outside are gathered, without a branch that the CPU
 * could only guess, and take another. */
void hr_permutation_map(const struct hr_permutation *perm, uint64_t *values, unsigned count)
{
    uint8_t walking[HR_PERMUTATION_RUN];

    HR_ASSERT(count <= HR_PERMUTATION_RUN);
    for (unsigned i = 0; i < count; i++)
        walking[i] = (uint8_t)i;
    while (count > 0) {
        unsigned left = 0;
        for (unsigned i = 0; i < count; i++) {
            unsigned at = walking[i];
            values[at] = perm->rounds == ROUNDS ? encipher(perm, values[at], ROUNDS)
                                                : encipher(perm, values[at], ROUNDS_SMALL);
            walking[left] = (uint8_t)at;
            left += values[at] >= perm->count;
        }
        count = left;
    }
}
