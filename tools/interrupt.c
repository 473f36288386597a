/* Signals as a flag. */
#include "tools/interrupt.h"

#include <signal.h>
#include <stdatomic.h>

/* Written by the handler, read by every thread; nothing else is published through it. */
static _Atomic int came;

static void on_signal(int sig)
{
    atomic_store_explicit(&came, sig, memory_order_relaxed);
}

void hr_interrupt_install(void)
{
    /* SA_RESETHAND: the second signal finds the default action. No SA_RESTART, so that a blocking
     * call returns. */
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < HR_ARRAY_SIZE(signals); i++)
        sigaction(signals[i], &action, NULL);
}

int hr_interrupt_signal(void)
{
    return atomic_load_explicit(&came, memory_order_relaxed);
}

int hr_interrupt_exit_code(void)
{
    int sig = hr_interrupt_signal();

    return sig ? 128 + sig : 0;
}
