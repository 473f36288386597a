/* Replicas: several trainers on one shared stream, each of which gets every batch from its own state on.
 * The stream feeds all that stand where it is; when one stands further back it goes back, and those that
 * are ahead wait where they are. */
#ifndef HR_SERVE_REPLICAS_H
#define HR_SERVE_REPLICAS_H

#include "serve/session.h"

/* Attaches the session's consumer to its stream, from *state on (now: from where the stream is, which
 * *state is set to). fds as in hr_ring_attach(). */
int hr_replicas_join(struct hr_session_host *host, struct hr_session *session,
                     struct hr_state *state, bool now, int fds[3], struct hr_error *err)
    HR_MUST_CHECK;

/* The session goes on from *state; what it has not taken is void. */
int hr_replicas_move(struct hr_session_host *host, struct hr_session *session,
                     const struct hr_state *state, struct hr_error *err) HR_MUST_CHECK;

/* One has left: the stream need not go where only that one was. */
void hr_replicas_left(struct hr_session_host *host, struct hr_stream *stream);

/* How often to look for slow ones; 0 = there are no replicas. */
uint64_t hr_replicas_watch_ns(const struct hr_session_host *host);
/* Looks for a replica that keeps the others waiting and tells of it, or, where the host says so,
 * returns it: the caller ends its session. NULL = there is none. */
struct hr_session *hr_replicas_watch(struct hr_session_host *host);

#endif
