/* Futex wait and wake on a 32-bit word, shared between processes or private to this one. */
#ifndef HR_BASE_FUTEX_H
#define HR_BASE_FUTEX_H

#include <stdatomic.h>

#include "base/base.h"

/* Sleeps while *word == expected, until woken or deadline_ns (CLOCK_MONOTONIC, UINT64_MAX = none).
 * Returns false only when the deadline passed; spurious returns are possible. */
bool hr_futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                   bool shared);
void hr_futex_wake(const _Atomic uint32_t *word, int count, bool shared);

#endif
