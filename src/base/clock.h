/* Time: monotonic for durations, in nanoseconds; CPU time of the calling thread. */
#ifndef HR_BASE_CLOCK_H
#define HR_BASE_CLOCK_H

#include "base/base.h"

#define HR_NS_PER_S  UINT64_C(1000000000)
#define HR_NS_PER_MS UINT64_C(1000000)
#define HR_NS_PER_US UINT64_C(1000)

uint64_t hr_clock_ns(void);        /* CLOCK_MONOTONIC */
uint64_t hr_clock_thread_ns(void); /* CPU time used by this thread */
uint64_t hr_clock_process_ns(void);
void hr_clock_sleep_ns(uint64_t ns);

#endif
