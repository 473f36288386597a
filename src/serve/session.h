/* One trainer's connection: its messages, its stream, its place in the ring. */
#ifndef HR_SERVE_SESSION_H
#define HR_SERVE_SESSION_H

#include <sys/types.h>

#include "pipeline/engine.h"
#include "ring/ring.h"
#include "ring/wire.h"

struct hr_session {
    int fd;
    int wake_fd;                     /* of the consumer; -1 before welcome */
    pid_t peer_pid;
    uint64_t hello_deadline_ns;      /* 0 once it has said hello */
    struct hr_stream *stream;        /* borrowed from the stream table */
    struct hr_ring_consumer *consumer;
    uint32_t incarnation;            /* nonzero: deaf until a hello that names it */
    uint64_t refused_until_ns;       /* nonzero: a seek was refused. What it holds stays until it hangs up,
                                        having copied that, or until then */
    bool told_end;                   /* its stream's end or error was passed on */
    bool told_slow;                  /* the log has it that others wait for this replica */
    /* Of a replica: the state with which it last joined, moved or was sent back. What the ring calls
     * `from` begins there and moves on with each batch; this does not, and a halt asks both. */
    struct hr_state place;
    char client[HR_WIRE_NAME_BYTES];
};

enum { HR_MAX_SESSIONS = 256 };

/* Streams outlive their sessions: a trainer that died finds its slots again. */
struct hr_stream_entry {
    struct hr_stream *stream;
    uint32_t rank, world;
    bool shared;
    int sessions;
};

struct hr_session_host {
    struct hr_engine *engine;
    const struct hr_plan *plan;
    struct hr_stream_entry streams[HR_MAX_SESSIONS];
    int stream_count;
    struct hr_session *sessions; /* [HR_MAX_SESSIONS], the server's */
    uint64_t detach_slow_ns;     /* a replica that keeps the others waiting for so long is detached;
                                    0 = it is waited for */
    bool draining;
    bool ending; /* streams are halted for good: what trainers hold stays as it is */
};

/* Reads and answers one message. 0, or the code to end the session with (the peer has been told);
 * HR_E_DISCONNECTED when it left. */
int hr_session_receive(struct hr_session_host *host, struct hr_session *session) HR_MUST_CHECK;

/* Tells the trainer at the other end why, as an ERROR message; failure to send is ignored. */
void hr_session_send_error(int fd, const struct hr_error *err);

/* Passes on the end or failure of its stream, once. Returns 0, or the code to end the session with. */
int hr_session_check_stream(struct hr_session *session) HR_MUST_CHECK;

/* Reclaims leases and closes the socket. */
void hr_session_end(struct hr_session_host *host, struct hr_session *session);

/* Writes the engine's and the stream's counters as JSON. */
void hr_session_stats_json(struct hr_session_host *host, const struct hr_session *session,
                           char *json, size_t json_bytes);

#endif
