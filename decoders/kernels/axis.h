/* One axis of a resize: for each output position the source positions it is made of and their
 * fixed-point weights, computed in double precision by Pillow's rules. */
#ifndef HR_DECODERS_KERNELS_AXIS_H
#define HR_DECODERS_KERNELS_AXIS_H

#include "decoders/kernels/resample.h"

/* A 64-byte aligned block that only grows; its contents do not survive growing. */
struct hr_block {
    void *ptr;
    size_t bytes;
};

int hr_block_grow(struct hr_block *block, size_t bytes) HR_MUST_CHECK;
void hr_block_finish(struct hr_block *block);

struct hr_axis_key {
    uint32_t in, full_out;   /* the whole resize */
    uint32_t out_first, out; /* the window of it */
    uint32_t filter;         /* enum hr_filter */
    uint32_t vertical;       /* prefer coefficients for the narrow kernel; else fine ones if needed */
};

struct hr_axis {
    struct hr_axis_key key;
    bool narrow;         /* coefficients are for the narrow kernel */
    uint32_t bits;       /* coefficients are << bits; without fine_shift they sum to 1 << bits
                            exactly (but int16 has no 1 << 15: 32767) */
    uint32_t fine_shift; /* 0, or a coefficient is coeff << fine_shift | fine */
    uint32_t taps;       /* most taps of any position */
    uint32_t stride;     /* entries per position in coeff: taps + at least 1, zeros at the end */
    uint32_t padded_out; /* positions that there is room for: whole vectors of them */
    uint32_t first, end; /* source positions needed: [first, end) */
    uint32_t *start;     /* [out], never decreasing */
    uint32_t *count;     /* [out], at least 1 */
    int16_t *coeff;      /* [out][stride] */
    int16_t *fine;       /* [out][stride], only with fine_shift */
    struct hr_block table, scratch;
};

/* A level's way to the same numbers, several positions at a time. Weights are [tap][padded_out]. */
struct hr_axis_wide {
    /* Sets start, count and taps, the weights, and the largest of their magnitudes. False: the filter is none
     * that this knows. */
    bool (*weigh)(struct hr_axis *axis, double *w, double *largest);
    /* fixed: [out][stride] of zeros. carry: each tap takes over the rounding error of those before it. True: a first
     * or last tap of some position became 0. */
    bool (*round)(const struct hr_axis *axis, const double *w, double one, bool carry, int32_t *fixed);
};

/* Computes the axis unless it is the one already there. wide: NULL = one position after the other. */
int hr_axis_compute(struct hr_axis *axis, const struct hr_axis_key *key, const struct hr_axis_wide *wide) HR_MUST_CHECK;
int hr_axis_reserve(struct hr_axis *axis, uint32_t max_in, uint32_t max_out) HR_MUST_CHECK;
void hr_axis_finish(struct hr_axis *axis);

/* The most taps that an axis of this filter can have, at most in. */
uint32_t hr_axis_max_taps(uint32_t in, uint32_t full_out, enum hr_filter filter);

#endif
