/* The supervisor: a small parent that holds the sockets while an engine process does the work. An
 * engine that a broken record brought down is replaced, and the record is left alone from then on;
 * trainers see a pause. docs/recovery.md says what happens when. */
#ifndef HR_SERVE_SUPERVISOR_H
#define HR_SERVE_SUPERVISOR_H

#include "base/err.h"
#include "pipeline/flight.h"
#include "serve/listen.h"

/* What an engine process is given. Its descriptors are its own. */
struct hr_duty {
    struct hr_flight *flight;
    int leash_fd;         /* for hr_server_options.leash_fd */
    uint32_t incarnation; /* 0 = the first engine of this supervisor */
};

struct hr_supervisor_options {
    int listen_fd;           /* taken over; -1 = none */
    struct hr_socket_place place; /* its path, removed when no more trainers are taken */
    int private_fd;          /* one connected trainer (taken over); all ends with it; -1 = none */
    double grace_s;          /* how long a drain may take */
    double decode_limit_s;   /* a record in hand for longer is bad; 0 = no limit */
    int max_restarts;        /* in ten minutes, without a new culprit */
    /* Runs in the engine process until it is to end; returns the exit code. */
    int (*run)(const struct hr_duty *duty, void *arg);
    void *arg;
};

/* Blocks until the work is done. Returns the exit code: the engine's, or 128 + signal, or
 * HR_SUPERVISOR_FAILED after an error that is logged. */
enum { HR_SUPERVISOR_FAILED = 3 };
int hr_supervisor_run(const struct hr_supervisor_options *options);

#endif
