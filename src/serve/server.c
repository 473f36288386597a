/* The control loop: one epoll over the listening socket, sessions, the trainers' wake eventfds and our
 * own events. */
#include "serve/server.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "serve/listen.h"
#include "serve/replicas.h"
#include "serve/session.h"

enum { EVENTS_MAX = 64, HELLO_TIMEOUT_MS = 5000, LISTEN_PAUSE_MS = 1000 };

/* What an epoll event belongs to: kind in the high half, session index in the low one. */
enum event_kind { EVENT_LISTEN = 1, EVENT_NOTIFY, EVENT_SESSION, EVENT_WAKE, EVENT_LEASH };

struct hr_server {
    struct hr_server_options options;
    struct hr_session_host host;
    int epoll_fd, listen_fd, leash_fd;
    int notify_fd;             /* eventfd: engine news, drain, stop */
    _Atomic int wanted;        /* 0, 1 = drain, 2 = stop; from any thread or a signal handler */
    uint64_t drain_deadline_ns;
    struct hr_session sessions[HR_MAX_SESSIONS];
    int session_count;         /* in use, not dense */
    const struct hr_session *private_one; /* it ends with this one; NULL = there is none, or it has left */
    bool private_left;
    uint64_t watch_ns, watch_at_ns; /* for slow replicas; 0 = there are none */
    uint64_t listen_again_ns;  /* nobody can be taken until then; 0 = somebody can */
};

static int watch(struct hr_server *s, int fd, enum event_kind kind, uint32_t index,
                 struct hr_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)kind << 32 | index};

    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return hr_fail_errno(err, errno, "cannot watch a descriptor");
    return 0;
}

/* Takes the socket. NULL, with the error set, when there is no room; the trainer was told. */
static struct hr_session *add_session(struct hr_server *s, int fd, struct hr_error *err)
{
    struct ucred peer = {0};
    socklen_t peer_bytes = sizeof(peer);
    uint32_t i = 0;
    int ret = 0;

    while (i < HR_MAX_SESSIONS && s->sessions[i].fd >= 0)
        i++;
    if (i == HR_MAX_SESSIONS) {
        ret = hr_fail(err, HR_E_LIMIT, "this sidecar has %d trainers already", HR_MAX_SESSIONS);
        hr_error_hint(err, "start another one for the others, with a socket of its own");
    }
    if (ret == 0)
        ret = watch(s, fd, EVENT_SESSION, i, err);
    if (ret < 0) {
        hr_session_send_error(fd, err);
        close(fd);
        return NULL;
    }
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes);
    s->sessions[i] = (struct hr_session){
        .fd = fd,
        .wake_fd = -1,
        .peer_pid = peer.pid,
        .hello_deadline_ns = hr_clock_ns() + HELLO_TIMEOUT_MS * HR_NS_PER_MS,
    };
    s->session_count++;
    return &s->sessions[i];
}

static void end_session(struct hr_server *s, struct hr_session *session)
{
    /* The wake eventfd dies with its consumer, which takes it out of the epoll set. */
    if (session->wake_fd >= 0)
        epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, session->wake_fd, NULL);
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, session->fd, NULL);
    hr_session_end(&s->host, session);
    s->session_count--;
    if (session == s->private_one) {
        s->private_one = NULL;
        s->private_left = true;
    }
}

static void hear_connections(struct hr_server *s, bool wanted)
{
    struct epoll_event event = {.events = wanted ? EPOLLIN : 0,
                                .data.u64 = (uint64_t)EVENT_LISTEN << 32};

    s->listen_again_ns = wanted ? 0 : hr_clock_ns() + LISTEN_PAUSE_MS * HR_NS_PER_MS;
    if (s->listen_fd >= 0)
        epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listen_fd, &event);
}

static void accept_all(struct hr_server *s)
{
    struct hr_error err;

    for (;;) {
        int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            if (!add_session(s, fd, &err))
                hr_log_error(HR_LOG_WARN, "a trainer is turned away", &err);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno == EAGAIN)
            return;
        /* Out of descriptors, mostly: who waits in the backlog would wake us again at once. */
        hr_log(HR_LOG_WARN, "cannot accept a trainer: %s; it is tried again in a second%s",
               strerror(errno), errno == EMFILE ? " (raise 'ulimit -n')" : "");
        hear_connections(s, false);
        return;
    }
}

static void receive(struct hr_server *s, struct hr_session *session, uint32_t index)
{
    struct hr_error err;
    int had = session->wake_fd;
    int ret = hr_session_receive(&s->host, session);

    if (ret == 0 && had < 0 && session->wake_fd >= 0)
        ret = watch(s, session->wake_fd, EVENT_WAKE, index, &err);
    if (ret == 0)
        ret = hr_session_check_stream(session);
    if (ret < 0)
        end_session(s, session);
}

static void check_streams(struct hr_server *s)
{
    for (uint32_t i = 0; i < HR_MAX_SESSIONS; i++)
        if (s->sessions[i].fd >= 0 && hr_session_check_stream(&s->sessions[i]) < 0)
            end_session(s, &s->sessions[i]);
}

static void stop_listening(struct hr_server *s)
{
    if (s->listen_fd < 0)
        return;
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->listen_fd, NULL);
    hr_fd_close(&s->listen_fd);
    hr_listen_remove(&s->options.place);
}

static void start_drain(struct hr_server *s)
{
    if (s->host.draining)
        return;
    s->host.draining = true;
    s->drain_deadline_ns = hr_clock_ns() + (uint64_t)(s->options.grace_s * 1e9);
    stop_listening(s);
    hr_log(HR_LOG_INFO, "draining: %d trainers are fed for up to %.0f s more", s->session_count,
           s->options.grace_s);
}

static void obey(struct hr_server *s)
{
    char order = 's';
    ssize_t n = read(s->leash_fd, &order, 1);

    if (n < 0)
        return;
    if (n == 0) { /* the supervisor is gone */
        epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->leash_fd, NULL);
        hr_fd_close(&s->leash_fd);
    }
    if (n > 0 && order == 'd')
        hr_server_drain(s);
    else
        hr_server_stop(s);
}

static void handle(struct hr_server *s, const struct epoll_event *event)
{
    uint32_t index = (uint32_t)event->data.u64;

    switch ((enum event_kind)(event->data.u64 >> 32)) {
    case EVENT_LISTEN:
        if (s->listen_fd >= 0)
            accept_all(s);
        break;
    case EVENT_NOTIFY:
        hr_fd_drain_event(s->notify_fd);
        check_streams(s);
        break;
    case EVENT_SESSION:
        if (s->sessions[index].fd >= 0)
            receive(s, &s->sessions[index], index);
        break;
    case EVENT_WAKE:
        if (s->sessions[index].wake_fd >= 0) {
            hr_fd_drain_event(s->sessions[index].wake_fd);
            hr_engine_wake(s->host.engine);
        }
        break;
    case EVENT_LEASH:
        if (s->leash_fd >= 0)
            obey(s);
        break;
    }
}

/* When the trainer is dropped if it does nothing; 0 = never. */
static uint64_t patience_ends(const struct hr_session *session)
{
    return session->hello_deadline_ns ? session->hello_deadline_ns : session->refused_until_ns;
}

static void drop_silent(struct hr_server *s, uint64_t now)
{
    for (uint32_t i = 0; i < HR_MAX_SESSIONS; i++) {
        struct hr_session *session = &s->sessions[i];
        if (session->fd < 0 || !patience_ends(session) || patience_ends(session) > now)
            continue;
        if (session->hello_deadline_ns)
            hr_log(HR_LOG_WARN, "a connection (pid %d) said no hello in %d s and is dropped",
                   (int)session->peer_pid, HELLO_TIMEOUT_MS / 1000);
        end_session(s, session);
    }
}

/* Milliseconds until something is due; -1 = nothing. */
static int next_timeout(struct hr_server *s, uint64_t now)
{
    uint64_t due = s->host.draining ? s->drain_deadline_ns : UINT64_MAX;

    for (uint32_t i = 0; i < HR_MAX_SESSIONS; i++)
        if (s->sessions[i].fd >= 0 && patience_ends(&s->sessions[i]))
            due = hr_min_u64(due, patience_ends(&s->sessions[i]));
    if (s->watch_ns)
        due = hr_min_u64(due, s->watch_at_ns);
    if (s->listen_again_ns)
        due = hr_min_u64(due, s->listen_again_ns);
    if (due == UINT64_MAX)
        return -1;
    return due <= now ? 0 : (int)hr_min_u64((due - now) / HR_NS_PER_MS + 1, 1000000);
}

static void detach_slow(struct hr_server *s, uint64_t now)
{
    struct hr_session *slow = NULL;
    struct hr_error err = HR_ERROR_INIT;
    uint64_t watch_ns = hr_replicas_watch_ns(&s->host);

    if (watch_ns && s->watch_ns && s->watch_at_ns <= now)
        slow = hr_replicas_watch(&s->host);
    if (!s->watch_ns || s->watch_at_ns <= now)
        s->watch_at_ns = now + watch_ns;
    s->watch_ns = watch_ns;
    if (!slow)
        return;
    hr_fail(&err, HR_E_DETACHED, "this replica kept its batches for %g s while another waited",
            s->options.detach_slow_s);
    hr_error_hint(&err, "release batches sooner, raise 'slots', or serve with a longer --detach-slow");
    hr_log_error(HR_LOG_WARN, "a replica is detached", &err);
    /* It lives, and must not take what is another one's soon. */
    hr_ring_recall(hr_stream_ring(slow->stream), slow->consumer);
    hr_ring_close_consumer(slow->consumer, HR_E_DETACHED);
    hr_session_send_error(slow->fd, &err);
    end_session(s, slow);
}

static bool finished(struct hr_server *s, uint64_t now)
{
    int wanted = atomic_load_explicit(&s->wanted, memory_order_acquire);

    if (wanted == 2)
        return true;
    if (wanted == 1)
        start_drain(s);
    if (s->private_left)
        return true;
    return s->host.draining && (s->session_count == 0 || now >= s->drain_deadline_ns);
}

int hr_server_run(struct hr_server *s, struct hr_error *err)
{
    struct epoll_event events[EVENTS_MAX];

    while (!finished(s, hr_clock_ns())) {
        int n = epoll_wait(s->epoll_fd, events, EVENTS_MAX, next_timeout(s, hr_clock_ns()));
        if (n < 0 && errno != EINTR)
            return hr_fail_errno(err, errno, "cannot wait for trainers");
        for (int i = 0; i < n; i++)
            handle(s, &events[i]);
        if (s->listen_again_ns && s->listen_again_ns <= hr_clock_ns())
            hear_connections(s, true);
        drop_silent(s, hr_clock_ns());
        detach_slow(s, hr_clock_ns());
    }
    return 0;
}

static int add_private(struct hr_server *s, struct hr_error *err)
{
    struct hr_session *session = add_session(s, s->options.private_fd, err);

    if (!session)
        return hr_fail(err, HR_E_USAGE, "descriptor %d is no socket", s->options.private_fd);
    s->private_one = session;
    session->incarnation = s->options.incarnation;
    /* A trainer that is at work looks at its socket when it wants the next batch. */
    if (session->incarnation)
        session->hello_deadline_ns = 0;
    return 0;
}

static int open_sockets(struct hr_server *s, struct hr_error *err)
{
    int ret = 0;

    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->notify_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->epoll_fd < 0 || s->notify_fd < 0)
        return hr_fail_errno(err, errno, "cannot create event descriptors");
    ret = watch(s, s->notify_fd, EVENT_NOTIFY, 0, err);
    if (ret == 0 && s->leash_fd >= 0)
        ret = watch(s, s->leash_fd, EVENT_LEASH, 0, err);
    if (ret == 0 && s->listen_fd < 0 && s->options.socket_path)
        ret = s->listen_fd =
            hr_listen_unix(s->options.socket_path,
                           s->options.socket_mode ? s->options.socket_mode : 0600, &s->options.place, err);
    if (ret >= 0 && s->listen_fd >= 0)
        ret = watch(s, s->listen_fd, EVENT_LISTEN, 0, err);
    if (ret >= 0 && s->options.private_fd >= 0)
        ret = add_private(s, err);
    return ret < 0 ? ret : 0;
}

int hr_server_create(const struct hr_server_options *options, struct hr_server **out,
                     struct hr_error *err)
{
    struct hr_server *s = hr_alloc_zero(1, sizeof(*s));
    int ret;

    if (!s)
        return hr_fail(err, HR_E_NOMEM, "no memory for the server");
    s->options = *options;
    s->epoll_fd = s->notify_fd = -1;
    s->listen_fd = options->listen_fd > 0 ? options->listen_fd : -1;
    s->leash_fd = options->leash_fd > 0 ? options->leash_fd : -1;
    for (uint32_t i = 0; i < HR_MAX_SESSIONS; i++)
        s->sessions[i].fd = s->sessions[i].wake_fd = -1;
    ret = open_sockets(s, err);
    if (ret == 0) {
        s->options.engine.notify_fd = s->notify_fd;
        s->host.plan = options->plan;
        s->host.sessions = s->sessions;
        s->host.detach_slow_ns = (uint64_t)(options->detach_slow_s * 1e9);
        ret = hr_engine_create(options->plan, &s->options.engine, &s->host.engine, err);
    }
    if (ret < 0)
        hr_server_destroy(s);
    else
        *out = s;
    return ret;
}

struct hr_engine *hr_server_engine(struct hr_server *s)
{
    return s->host.engine;
}

static void ask(struct hr_server *s, int wanted)
{
    uint64_t one = 1;
    int seen = atomic_load_explicit(&s->wanted, memory_order_relaxed);

    while (seen < wanted && !atomic_compare_exchange_weak_explicit(
                                &s->wanted, &seen, wanted, memory_order_release,
                                memory_order_relaxed))
        ;
    ssize_t ignored = write(s->notify_fd, &one, sizeof(one));
    (void)ignored;
}

void hr_server_drain(struct hr_server *s)
{
    ask(s, 1);
}

void hr_server_stop(struct hr_server *s)
{
    ask(s, 2);
}

void hr_server_destroy(struct hr_server *s)
{
    if (!s)
        return;
    /* First no more batches: trainers live on and read what they hold, and the slots of the first replica
     * that leaves must not be filled for the others. */
    s->host.ending = true;
    for (int i = 0; i < s->host.stream_count; i++)
        hr_stream_pause(s->host.streams[i].stream);
    for (uint32_t i = 0; i < HR_MAX_SESSIONS; i++)
        if (s->sessions[i].fd >= 0)
            end_session(s, &s->sessions[i]);
    while (s->host.stream_count > 0)
        hr_stream_close(s->host.streams[--s->host.stream_count].stream);
    hr_engine_destroy(s->host.engine);
    stop_listening(s);
    hr_fd_close(&s->leash_fd);
    hr_fd_close(&s->epoll_fd);
    hr_fd_close(&s->notify_fd);
    hr_free(s);
}
