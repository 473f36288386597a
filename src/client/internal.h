/* The client's own structs. A client has one link (the socket, whose state a slow call can leave
 * half-way and the next call resumes) and at most one session (the mappings behind the batches). A
 * session lives until its last batch is released, so that a new sidecar or a closed client does not
 * pull memory from under arrays. */
#ifndef HR_CLIENT_INTERNAL_H
#define HR_CLIENT_INTERNAL_H

#include <headrace/client.h>

#include "base/err.h"
#include "ring/wire.h"

/* ---- process.c: who are we ---- */

/* Differs between a process and its forked children, and costs no system call to compare. */
uint64_t hr_process_token(void);
/* A forked child closes its copies of the sockets of listed clients: while it kept one open, the
 * sidecar would not see this process die. */
void hr_process_enlist(struct hr_client *client);
void hr_process_delist(struct hr_client *client);
/* No other thread forks in between: a child would have copies of sockets that the list does not know yet. */
void hr_process_hold_forks(void);
void hr_process_allow_forks(void);
/* Rank and world from the launcher's environment where they are -1. */
int hr_process_rank(int32_t *rank, int32_t *world, struct hr_error *err) HR_MUST_CHECK;

/* ---- batch.c ---- */

struct hr_session;

struct hr_batch_view {
    char name[HR_WIRE_NAME_BYTES];
    struct hr_array array;
    bool ragged_checked;
};

/* One a slot, used again with every lease of that slot. Parsed from a copy of the header, so that
 * what was checked cannot change afterwards. */
struct hr_batch {
    struct hr_session *session;
    uint32_t slot;
    uint32_t ticket;
    _Atomic uint32_t held; /* 1 while leased. Written by next and release */
    struct hr_batch_info info;
    char state[HR_WIRE_STATE_BYTES];
    struct hr_batch_view *views;
    uint32_t view_cap;
};

/* Reads and checks the header of the batch in the slot; fills everything but the lease. */
int hr_batch_parse(struct hr_batch *batch, struct hr_error *err) HR_MUST_CHECK;

/* ---- session.c ---- */

struct hr_session {
    /* constant */
    uint64_t token; /* of the process that may use it */
    uint8_t *data;
    uint64_t data_bytes;
    struct hr_wire_control *control;
    uint64_t control_bytes;
    int wake_fd;
    uint32_t slot_count;
    uint64_t slot_bytes;
    bool writable;
    struct hr_batch *batches;

    /* the thread in next */
    uint32_t tail; /* our copy; the one in the page is shared */
    uint64_t wait_ns; /* of this session; what the sidecar is told */

    /* any thread */
    _Atomic uint32_t refs; /* the client, each held batch, each hold of its memory */
    _Atomic uint32_t held; /* leased slots */
};

/* Maps what a welcome describes, after checking it. The descriptors stay the caller's, except
 * fds[2], which is taken (set to -1) on success. */
int hr_session_create(const struct hr_wire_welcome *welcome, int fds[3], struct hr_session **out,
                      struct hr_error *err) HR_MUST_CHECK;
void hr_session_ref(struct hr_session *session);
void hr_session_unref(struct hr_session *session); /* NULL is fine */
/* Makes the queue's entry at tail ours; false when the sidecar took it back, and tail has moved. */
bool hr_session_claim(struct hr_session *session);
/* Gives slots back to the sidecar; any thread. */
void hr_session_release(struct hr_session *session, uint32_t slot, uint32_t ticket);
/* Puts copies in the place of held slots, which the sidecar will soon fill for somebody else. */
void hr_session_keep_held(struct hr_session *session);

/* ---- spawn.c ---- */

struct hr_child;

int hr_child_create(const char *binary, const char *config, struct hr_child **out,
                    struct hr_error *err) HR_MUST_CHECK;
/* Starts the sidecar (a former one is ended first); *sock is our end. */
int hr_child_start(struct hr_child *child, int *sock, struct hr_error *err) HR_MUST_CHECK;
/* After its socket hung up: 0 when it was killed or left in peace and may be started again,
 * else what it exited with, as an error. */
int hr_child_check(struct hr_child *child, struct hr_error *err) HR_MUST_CHECK;
/* Waits for its end, ever less politely, reaps it and frees. NULL is fine. */
void hr_child_destroy(struct hr_child *child);

/* ---- report.c: the last error ---- */

struct hr_report {
    int code;
    uint64_t record;
    char shard[256], field[64];
    char text[HR_WIRE_TEXT_BYTES + 256];
};

void hr_report_clear(struct hr_report *report);
int hr_report_set(struct hr_report *report, const struct hr_error *err); /* returns the code */
int hr_report_fail(struct hr_report *report, int code, const char *fmt, ...) HR_PRINTF(3, 4);
struct hr_report *hr_report_of_thread(void);

/* ---- client ---- */

enum hr_link_phase {
    HR_LINK_DOWN,  /* no socket, or one with a new engine behind it; next attempt at next_try_ns */
    HR_LINK_ASKED, /* hello is sent */
    HR_LINK_UP,
};

union hr_link_message {
    struct hr_wire_head head;
    struct hr_wire_welcome welcome;
    struct hr_wire_error error;
    struct hr_wire_seeked seeked;
    struct hr_wire_restarted restarted;
    struct hr_wire_stats stats;
    uint8_t bytes[HR_WIRE_MAX_MESSAGE];
};

struct hr_client {
    struct hr_client *next_listed; /* process.c */

    /* constant */
    uint64_t token;
    char *path;             /* socket path; NULL for fd:N and private sidecars */
    struct hr_child *child; /* private sidecar, or NULL */
    uint32_t rank, world;
    bool shared, join_now;
    bool force_state; /* of the state that it was opened with, until that is accepted */
    bool astray;  /* the last seek was refused: what is ready is not what was asked for, or gone */
    bool refused; /* the sidecar's last word was an error: it lives, and will fill our slots again */
    uint64_t timeout_ns, seek_wait_ns;
    char name[HR_WIRE_NAME_BYTES];

    /* the link */
    int given_sock; /* from fd:N until it is used */
    int sock;
    uint32_t incarnation; /* of the engine behind a private socket, as it said */
    enum hr_link_phase phase;
    bool was_up;
    uint64_t down_since_ns, next_try_ns, backoff_ns;
    unsigned fruitless;     /* times that the link came up since the last batch */
    bool seeking;           /* seek is under way: nothing is taken before it is answered, and hello asks for */
    struct hr_wire_seek seek; /* its state instead of our own */
    bool seek_sent;         /* on this link */
    unsigned seeks_open;    /* sent on this link, earlier ones too, and not answered yet */
    int reason_code;        /* why the last attempt failed, */
    char reason[512];       /* in words */
    union hr_link_message message;

    /* the stream */
    struct hr_session *session; /* of the present or last link */
    uint32_t generation;
    uint64_t sequence; /* of the next batch */
    bool sequence_known;
    int ended; /* sticky result of next, 0 = going on */
    uint64_t next_epoch;
    bool at_epoch_start; /* of next_epoch */
    uint64_t wait_ns;

    /* what the last welcome said */
    uint64_t batch, dataset_records, steps_per_epoch;
    char dataset_digest[40], plan_digest[40];

    char state[HR_WIRE_STATE_BYTES]; /* after the last batch taken */
    char stats_text[HR_WIRE_MAX_MESSAGE];
    struct hr_report report;
};

/* link.c. Deadlines are CLOCK_MONOTONIC nanoseconds. What fails is in client->report. */

/* Brings the link up, going on where an earlier call stopped. HR_E_TIMEOUT: not yet. */
int hr_link_establish(struct hr_client *client, uint64_t deadline_ns) HR_MUST_CHECK;
/* Reads messages until one of the wanted kind (0 = none: read what is there) is in client->message.
 * 1 = it is, 0 = the deadline passed, HR_E_DISCONNECTED = the link is down now, else the error that
 * the sidecar sent, which is in client->ended too. */
int hr_link_await(struct hr_client *client, uint32_t wanted, uint64_t deadline_ns) HR_MUST_CHECK;
/* Brings the seek that is under way to its end, and the link up for it where need be. HR_E_TIMEOUT: not yet. */
int hr_link_seek(struct hr_client *client, uint64_t deadline_ns) HR_MUST_CHECK;
/* HR_E_DISCONNECTED = the link is down now. */
int hr_link_send(struct hr_client *client, const void *message) HR_MUST_CHECK;
void hr_link_down(struct hr_client *client);
/* Takes a new state over, and where in an epoch it stands. */
void hr_link_set_state(struct hr_client *client, const char *state, size_t bytes);

/* The code of an error as a sidecar said it. What only this side can know, and callers go on after, it cannot
 * say. */
int hr_link_code(int64_t said);

/* deadline of a wait of so many milliseconds from now; negative = for ever. */
uint64_t hr_link_deadline(int64_t timeout_ms);

#endif
