/* Thin wrappers over clock_gettime and clock_nanosleep. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * HR_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t hr_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t hr_clock_thread_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t hr_clock_process_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void hr_clock_sleep_ns(uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / HR_NS_PER_S), .tv_nsec = (long)(ns % HR_NS_PER_S)};

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
        ;
}
