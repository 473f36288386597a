/* Rows of values mixed with one another, one table a CPU level. All levels are compiled from the same source,
 * without contraction of multiply and add, so that each gives the same bytes. */
#ifndef HR_DECODERS_KERNELS_LERP_H
#define HR_DECODERS_KERNELS_LERP_H

#include "base/types.h"

enum hr_lerp_type { HR_LERP_U8, HR_LERP_F16, HR_LERP_BF16, HR_LERP_F32, HR_LERP_COUNT };

/* mix(a, b, w) = w a + (1 - w) b in single precision, each step rounded, then rounded once to the type (to
 * nearest, halves to even). w is a multiple of 2^-24 from 0 to 1, so 1 - w is exact. Rows do not overlap;
 * no alignment is needed beyond the type's. */
struct hr_lerp {
    /* a = mix(a, b, wa) and b = mix(b, a, wb), of what they were before. */
    void (*both[HR_LERP_COUNT])(void *a, void *b, size_t count, float wa, float wb);
    /* a = mix(a, b, w). */
    void (*one[HR_LERP_COUNT])(void *a, const void *b, size_t count, float w);
};

/* HR_LERP_COUNT for types that are not mixed. */
enum hr_lerp_type hr_lerp_type_of(enum hr_dtype dtype);

/* The highest level that this CPU has. */
const struct hr_lerp *hr_lerp_get(void);
/* By CPU flags, for tests. */
const struct hr_lerp *hr_lerp_of(unsigned cpu_flags);

/* Of the machine's own there are as many as its processors have. */
extern const struct hr_lerp hr_lerp_c, hr_lerp_avx2, hr_lerp_avx512, hr_lerp_neon;

#endif
