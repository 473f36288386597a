/* The listening socket: path checks, stale paths, permissions. */
#ifndef HR_SERVE_LISTEN_H
#define HR_SERVE_LISTEN_H

#include "base/err.h"

/* Where a socket is in the file system, and which file that was when we made it. */
struct hr_socket_place {
    const char *path; /* borrowed; NULL = none */
    uint64_t dev, ino;
};

/* Returns a non-blocking listening SOCK_SEQPACKET socket at path, or HR_E_*. */
int hr_listen_unix(const char *path, unsigned mode, struct hr_socket_place *place,
                   struct hr_error *err) HR_MUST_CHECK;
/* Removes it, unless another sidecar's stands there by now: somebody had removed ours. Empties the place. */
void hr_listen_remove(struct hr_socket_place *place);

#endif
