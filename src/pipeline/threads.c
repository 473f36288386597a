/* The one place where the engine's threads are made: named, signals blocked (they belong to the
 * control thread; only those that a crash raises reach their handler), default stack. docs/threads.md lists them. */
#include <signal.h>
#include <string.h>

#include "pipeline/engine_parts.h"

int hr_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg,
                    struct hr_error *err)
{
    sigset_t all, old;

    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};

    sigfillset(&all);
    for (size_t i = 0; i < HR_ARRAY_SIZE(crashes); i++)
        sigdelset(&all, crashes[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int ret = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (ret != 0)
        return hr_fail_errno(err, ret, "cannot start thread '%s'", name);
    pthread_setname_np(*thread, name);
    return 0;
}
