/* Futex system calls with absolute monotonic deadlines. */
#include "base/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

bool hr_futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                   bool shared)
{
    struct timespec ts = {.tv_sec = (time_t)(deadline_ns / HR_NS_PER_S),
                          .tv_nsec = (long)(deadline_ns % HR_NS_PER_S)};
    int op = FUTEX_WAIT_BITSET | (shared ? 0 : FUTEX_PRIVATE_FLAG);
    long ret = syscall(SYS_futex, word, op, expected, deadline_ns == UINT64_MAX ? NULL : &ts, NULL,
                       FUTEX_BITSET_MATCH_ANY);

    return !(ret < 0 && errno == ETIMEDOUT);
}

void hr_futex_wake(const _Atomic uint32_t *word, int count, bool shared)
{
    syscall(SYS_futex, word, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG), count, NULL, NULL, 0);
}
