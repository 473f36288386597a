/* The listening socket: path checks, stale paths, permissions. */
#ifndef HR_SERVE_LISTEN_H
#define HR_SERVE_LISTEN_H

#include "base/err.h"

/* Returns a non-blocking listening SOCK_SEQPACKET socket at path, or HR_E_*. */
int hr_listen_unix(const char *path, unsigned mode, struct hr_error *err) HR_MUST_CHECK;

#endif
