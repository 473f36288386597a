/* Ctrl-C and SIGTERM, asked politely: the first one sets a flag that long work looks at, a second one
 * kills. */
#ifndef HR_TOOLS_INTERRUPT_H
#define HR_TOOLS_INTERRUPT_H

#include "base/base.h"

/* SIGINT, SIGTERM and SIGHUP set the flag from now on. */
void hr_interrupt_install(void);

/* The signal that came, or 0. Safe from any thread. */
int hr_interrupt_signal(void);

/* 128 + signal, for the process to return; 0 when none came. */
int hr_interrupt_exit_code(void);

#endif
