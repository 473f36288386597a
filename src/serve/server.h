/* The sidecar's control thread: accepts trainers, opens streams for them, and carries what they say to
 * the engine. It never touches sample data. */
#ifndef HR_SERVE_SERVER_H
#define HR_SERVE_SERVER_H

#include "base/err.h"
#include "pipeline/engine.h"
#include "serve/listen.h"

struct hr_server;

struct hr_server_options {
    const struct hr_plan *plan;
    struct hr_engine_options engine; /* notify_fd is filled in here */
    const char *socket_path; /* listen here; NULL = none */
    unsigned socket_mode;    /* permissions, 0 = 0600 */
    int listen_fd;           /* instead: a socket that listens already (taken over); 0 = none */
    struct hr_socket_place place; /* of that one, to be removed in the end */
    int private_fd;          /* one connected trainer (taken over); the server ends with it; -1 = none */
    uint32_t incarnation;    /* of the engine behind private_fd: 0 = the first */
    int leash_fd;            /* orders of a supervisor, a letter each: d = drain, s = stop; its end is
                                a stop too. Taken over; 0 = none */
    double grace_s;          /* how long a drain may take */
    double detach_slow_s;    /* a replica that keeps others waiting for so long is detached; 0 = it is
                                waited for */
};

/* Makes the engine and the socket. A path in use by a live sidecar is HR_E_EXISTS, a stale one is
 * replaced. */
int hr_server_create(const struct hr_server_options *options, struct hr_server **out,
                     struct hr_error *err) HR_MUST_CHECK;
struct hr_engine *hr_server_engine(struct hr_server *server);

/* Serves until stopped, drained, or the private trainer leaves. 0, or the error that ended it. */
int hr_server_run(struct hr_server *server, struct hr_error *err) HR_MUST_CHECK;

/* Any thread, async-signal-safe. The first drain stops accepting and goes on until all trainers have
 * left or the grace period is over; stop ends at once. */
void hr_server_drain(struct hr_server *server);
void hr_server_stop(struct hr_server *server);
void hr_server_destroy(struct hr_server *server); /* removes the socket; NULL is fine */

#endif
