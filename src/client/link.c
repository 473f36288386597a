/* The socket to the sidecar: connecting, hello and welcome, messages, and coming back after a loss.
 * Every step can stop at a deadline and be gone on with by a later call, so that a caller who waits
 * in slices (to see Ctrl-C, say) loses nothing. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client/internal.h"

enum { MAX_FDS = 8 };

static const uint64_t backoff_min_ns = 10 * HR_NS_PER_MS;
static const uint64_t backoff_max_ns = 500 * HR_NS_PER_MS;
/* A busy stream may be one whose last trainer was just killed; longer than this it is in use. */
static const uint64_t busy_limit_ns = 5 * HR_NS_PER_S;
static const uint64_t busy_backoff_ns = 250 * HR_NS_PER_MS;
static const unsigned fruitless_most = 4;

static uint64_t later(uint64_t ns, uint64_t more)
{
    uint64_t sum;

    return hr_add_u64(ns, more, &sum) ? sum : UINT64_MAX;
}

uint64_t hr_link_deadline(int64_t timeout_ms)
{
    uint64_t ns;

    if (timeout_ms < 0 || !hr_mul_u64((uint64_t)timeout_ms, HR_NS_PER_MS, &ns))
        return UINT64_MAX;
    return later(hr_clock_ns(), ns);
}

/* A sidecar that dies again and again before its first batch counts as one long loss. */
static void go_down(struct hr_client *client)
{
    client->phase = HR_LINK_DOWN;
    client->next_try_ns = 0;
    client->seek_sent = false;
    client->seeks_open = 0;
    if (client->fruitless > fruitless_most)
        return;
    client->down_since_ns = hr_clock_ns();
    client->backoff_ns = backoff_min_ns;
}

void hr_link_down(struct hr_client *client)
{
    hr_fd_close(&client->sock);
    go_down(client);
}

/* ---- state ---- */

/* The value of "key": in one-line JSON of integers and strings. */
static bool find_number(const char *json, const char *key, uint64_t *out)
{
    const char *p = strstr(json, key);

    if (!p)
        return false;
    p += strlen(key);
    p += strspn(p, " :");
    if (*p < '0' || *p > '9')
        return false;
    *out = strtoull(p, NULL, 10);
    return true;
}

void hr_link_set_state(struct hr_client *client, const char *state, size_t bytes)
{
    uint64_t step;

    bytes = hr_min_u64(bytes, sizeof(client->state) - 1);
    memmove(client->state, state, bytes);
    client->state[bytes] = 0;
    client->at_epoch_start = find_number(client->state, "\"epoch\"", &client->next_epoch) &&
                             find_number(client->state, "\"step\"", &step) && step == 0;
}

/* ---- messages ---- */

static void close_fds(int fds[MAX_FDS])
{
    for (int i = 0; i < MAX_FDS; i++)
        hr_fd_close(&fds[i]);
}

static int lost(struct hr_client *client, const char *how)
{
    if (client->refused && client->session && client->phase == HR_LINK_UP)
        hr_session_keep_held(client->session);
    hr_link_down(client);
    return hr_report_fail(&client->report, HR_E_DISCONNECTED, "%s", how);
}

/* Against a peer that breaks the protocol there is no point in coming back. */
static int broken(struct hr_client *client, const char *how)
{
    hr_link_down(client);
    client->ended = HR_E_PROTOCOL;
    return hr_report_fail(&client->report, HR_E_PROTOCOL, "the sidecar breaks the protocol: %s", how);
}

static int poll_ms(uint64_t deadline_ns)
{
    uint64_t now = hr_clock_ns();

    if (deadline_ns <= now)
        return 0;
    /* Rounded up, so that the last slice does not spin. */
    return (int)hr_min_u64((deadline_ns - now + HR_NS_PER_MS - 1) / HR_NS_PER_MS, 1000000);
}

/* 1 = there is something to read. */
static int readable(struct hr_client *client, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = client->sock, .events = POLLIN};

    for (;;) {
        int ms = poll_ms(deadline_ns);
        int n = poll(&p, 1, ms);
        if (n > 0)
            return 1;
        if (ms == 0)
            return 0;
    }
}

static size_t least_bytes(uint32_t kind)
{
    switch (kind) {
    case HR_WIRE_WELCOME:
        return sizeof(struct hr_wire_welcome);
    case HR_WIRE_ERROR:
        return sizeof(struct hr_wire_error);
    case HR_WIRE_SEEKED:
        return sizeof(struct hr_wire_seeked);
    case HR_WIRE_RESTARTED:
        return sizeof(struct hr_wire_restarted);
    default:
        return sizeof(struct hr_wire_head);
    }
}

/* 1 = a well-formed message is in client->message, 0 = deadline. */
static int receive(struct hr_client *client, uint64_t deadline_ns, int fds[MAX_FDS])
{
    union hr_link_message *m = &client->message;
    struct hr_error err;
    int fd_count;

    for (int i = 0; i < MAX_FDS; i++)
        fds[i] = -1;
    if (!readable(client, deadline_ns))
        return 0;
    ssize_t n = hr_fd_recv(client->sock, m, sizeof(*m), fds, &fd_count, &err);
    if (n == HR_E_PROTOCOL)
        return broken(client, err.text);
    if (n == HR_E_LIMIT) {
        hr_link_down(client);
        return hr_report_set(&client->report, &err);
    }
    if (n <= 0)
        return lost(client, n == 0 ? "the sidecar closed the connection" : err.text);
    if ((size_t)n < sizeof(m->head) || m->head.bytes != (size_t)n ||
        (size_t)n < least_bytes(m->head.kind)) {
        close_fds(fds);
        return broken(client, "a message of the wrong size");
    }
    return 1;
}

int hr_link_code(int64_t said)
{
    return said < 0 && said > -1000 && said != HR_E_TIMEOUT && said != HR_E_ALL_LEASED ? (int)said : HR_E_PROTOCOL;
}

static int take_error(struct hr_client *client)
{
    struct hr_wire_error *e = &client->message.error;
    struct hr_report *report = &client->report;
    int code = hr_link_code(e->code);

    client->refused = true;
    e->shard[sizeof(e->shard) - 1] = 0;
    e->field[sizeof(e->field) - 1] = 0;
    e->text[sizeof(e->text) - 1] = 0;
    hr_report_fail(report, code, "%s", e->text[0] ? e->text : hr_error_text(code));
    report->record = e->record;
    memcpy(report->shard, e->shard, sizeof(report->shard));
    memcpy(report->field, e->field, sizeof(report->field));
    return code;
}

static void take_seeked(struct hr_client *client)
{
    const struct hr_wire_seeked *s = &client->message.seeked;

    client->generation = s->generation;
    client->sequence_known = false;
    client->steps_per_epoch = s->steps_per_epoch;
    hr_link_set_state(client, s->state, hr_min_u64(s->state_bytes, sizeof(s->state)));
    if (client->seeks_open > 0 && --client->seeks_open == 0 && client->seek_sent)
        client->seeking = false;
}

/* The socket stays; what was attached behind it is gone. */
static int take_restarted(struct hr_client *client)
{
    client->incarnation = client->message.restarted.incarnation;
    go_down(client);
    return hr_report_fail(&client->report, HR_E_DISCONNECTED, "the sidecar's engine was restarted");
}

/* A seek was refused, which ends the session. The sidecar waits a moment for our end of it before it gives the
 * slots that we hold to somebody else. */
static void hang_up_refused(struct hr_client *client)
{
    if (client->session)
        hr_session_keep_held(client->session);
    hr_link_down(client);
    client->seeking = false;
    client->astray = true;
}

int hr_link_await(struct hr_client *client, uint32_t wanted, uint64_t deadline_ns)
{
    int fds[MAX_FDS], ret;

    while ((ret = receive(client, deadline_ns, fds)) == 1) {
        uint32_t kind = client->message.head.kind;
        close_fds(fds);
        if (kind == HR_WIRE_SEEKED)
            take_seeked(client);
        if (kind == wanted && !(kind == HR_WIRE_SEEKED && client->seeking)) /* of an earlier one */
            return 1;
        if (kind == HR_WIRE_RESTARTED)
            return take_restarted(client);
        if (kind == HR_WIRE_BYE)
            return lost(client, "the sidecar ended");
        if (kind == HR_WIRE_ERROR) {
            client->ended = take_error(client);
            if (client->seeks_open)
                hang_up_refused(client);
            return client->ended;
        }
        if (kind != HR_WIRE_SEEKED && kind != HR_WIRE_STATS)
            return broken(client, "an unexpected message");
    }
    return ret;
}

int hr_link_send(struct hr_client *client, const void *message)
{
    const struct hr_wire_head *head = message;
    struct hr_error err;
    int ret = hr_fd_send(client->sock, message, head->bytes, NULL, 0, &err);

    return ret < 0 ? lost(client, err.text) : 0;
}

/* ---- connecting ---- */

static int connect_path(struct hr_client *client)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(client->path);

    client->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client->sock < 0)
        return hr_report_fail(&client->report, HR_E_IO, "cannot create a socket: %s%s", strerror(errno),
                              errno == EMFILE ? " (raise 'ulimit -n')" : "");
    memcpy(address.sun_path, client->path, n + 1);
    if (connect(client->sock, (struct sockaddr *)&address, sizeof(address)) == 0)
        return 0;
    int failed = errno;
    hr_fd_close(&client->sock);
    bool final = failed != ENOENT && failed != ECONNREFUSED && failed != EAGAIN && failed != EINTR;
    int code = failed == EACCES || failed == EPERM ? HR_E_DENIED : HR_E_IO;
    return hr_report_fail(&client->report, final ? code : HR_E_DISCONNECTED,
                          "cannot connect to '%s': %s", client->path, strerror(failed));
}

static int check_child(struct hr_client *client)
{
    struct hr_error err = HR_ERROR_INIT;

    return hr_child_check(client->child, &err) < 0 ? hr_report_set(&client->report, &err) : 0;
}

static int start_child(struct hr_client *client)
{
    struct hr_error err = HR_ERROR_INIT;

    client->incarnation = 0;
    return hr_child_start(client->child, &client->sock, &err) < 0 ? hr_report_set(&client->report, &err) : 0;
}

static int connect_any(struct hr_client *client)
{
    if (client->sock >= 0) /* its engine was restarted */
        return 0;
    if (client->child || client->path) {
        int ret = client->child ? check_child(client) : 0;
        hr_process_hold_forks();
        if (ret == 0)
            ret = client->child ? start_child(client) : connect_path(client);
        hr_process_allow_forks();
        return ret;
    }
    client->sock = client->given_sock;
    client->given_sock = -1;
    if (client->sock >= 0)
        return 0;
    /* Final: nobody can give us this socket again. */
    hr_report_fail(&client->report, HR_E_DISCONNECTED,
                   "the sidecar is gone, and a socket given as fd:N cannot be reconnected");
    client->ended = HR_E_DISCONNECTED;
    return HR_E_DISCONNECTED;
}

static void send_hello(struct hr_client *client)
{
    struct hr_error err;
    const struct hr_wire_seek *seek = client->seeking ? &client->seek : NULL;
    const char *state = seek ? seek->state : client->state;
    struct hr_wire_hello hello = {
        .head = {HR_WIRE_HELLO, sizeof(hello)},
        .wire_version = HR_WIRE_VERSION,
        .rank = client->rank,
        .world = client->world,
        .want_shared = client->shared,
        .force_state = client->force_state || (seek && seek->force_state),
        .state_bytes = (uint32_t)strlen(state),
        .incarnation = client->incarnation,
        .join_now = client->join_now && !seek,
    };

    memcpy(hello.state, state, hello.state_bytes);
    memcpy(hello.client, client->name, sizeof(hello.client));
    /* A sidecar that could not start is gone by now; the reason that it left is still to be read. */
    int ret = hr_fd_send(client->sock, &hello, sizeof(hello), NULL, 0, &err);
    (void)ret;
}

static void copy_text(char *dst, size_t dst_bytes, const char *src, size_t src_bytes)
{
    snprintf(dst, dst_bytes, "%.*s", (int)src_bytes, src);
}

static int take_welcome(struct hr_client *client, int fds[MAX_FDS])
{
    const struct hr_wire_welcome *w = &client->message.welcome;
    struct hr_session *session = NULL;
    struct hr_error err;

    if (w->wire_version != HR_WIRE_VERSION) {
        client->ended = HR_E_VERSION;
        return hr_report_fail(&client->report, HR_E_VERSION,
                              "the sidecar speaks version %" PRIu32
                              ", this library %u: install the same release on both sides",
                              w->wire_version, HR_WIRE_VERSION);
    }
    if (hr_session_create(w, fds, &session, &err) < 0)
        return client->ended = hr_report_set(&client->report, &err);
    hr_session_unref(client->session);
    client->session = session;
    client->generation = w->generation;
    client->sequence_known = false;
    client->steps_per_epoch = w->steps_per_epoch;
    client->batch = w->batch;
    client->dataset_records = w->dataset_records;
    copy_text(client->dataset_digest, sizeof(client->dataset_digest), w->dataset_digest,
              sizeof(w->dataset_digest));
    copy_text(client->plan_digest, sizeof(client->plan_digest), w->plan_digest,
              sizeof(w->plan_digest));
    hr_link_set_state(client, w->state, hr_min_u64(w->state_bytes, sizeof(w->state)));
    client->phase = HR_LINK_UP;
    client->refused = client->astray = false;
    client->force_state = false;
    client->was_up = true;
    client->fruitless++;
    return 0;
}

/* 0 = up, or nothing yet. */
static int await_welcome(struct hr_client *client, uint64_t deadline_ns)
{
    int fds[MAX_FDS];
    int ret = receive(client, deadline_ns, fds);

    if (ret <= 0)
        return ret;
    switch (client->message.head.kind) {
    case HR_WIRE_WELCOME:
        ret = take_welcome(client, fds);
        break;
    case HR_WIRE_ERROR:
        ret = take_error(client);
        break;
    case HR_WIRE_RESTARTED: /* it died over our hello: say it again */
        take_restarted(client);
        ret = 0;
        break;
    case HR_WIRE_BYE:
        ret = lost(client, "the sidecar takes no trainers any more");
        break;
    default:
        ret = broken(client, "no welcome after hello");
    }
    close_fds(fds);
    return ret;
}

static bool worth_retrying(const struct hr_client *client, int code, uint64_t now)
{
    if (client->ended)
        return false;
    if (code == HR_E_BUSY)
        return now < client->down_since_ns + hr_min_u64(busy_limit_ns, client->timeout_ns);
    return code == HR_E_DISCONNECTED && now < later(client->down_since_ns, client->timeout_ns);
}

static int give_up(struct hr_client *client, int code)
{
    const char *place = client->path ? client->path : "its socket";
    double seconds = (double)client->timeout_ns / (double)HR_NS_PER_S;

    if (code == HR_E_BUSY)
        return hr_report_fail(&client->report, code, "%s", client->reason);
    if (code != HR_E_DISCONNECTED) /* said in its own words */
        return client->ended = code;
    if (client->ended)
        return code;
    if (client->child && client->fruitless > 1)
        return hr_report_fail(&client->report, code,
                              "the private sidecar was lost %u times since the last batch: %s",
                              client->fruitless, client->reason);
    if (client->child)
        return hr_report_fail(&client->report, code, "no answer from the private sidecar: %s",
                              client->reason);
    if (client->was_up)
        return hr_report_fail(&client->report, code,
                              "the sidecar at '%s' is gone and did not come back in %g s: %s",
                              place, seconds, client->reason);
    return hr_report_fail(&client->report, code,
                          "no sidecar answered within %g s: %s (start one with 'headrace serve "
                          "CONFIG --socket %s')",
                          seconds, client->reason, place);
}

/* Connects and says hello, or sleeps while the next attempt is not due. */
static int attempt(struct hr_client *client, uint64_t deadline_ns)
{
    uint64_t now = hr_clock_ns();

    if (now < client->next_try_ns) {
        poll(NULL, 0, poll_ms(hr_min_u64(client->next_try_ns, deadline_ns)));
        return 0;
    }
    int ret = connect_any(client);
    if (ret < 0)
        return ret;
    client->phase = HR_LINK_ASKED;
    send_hello(client);
    return 0;
}

static void note_reason(struct hr_client *client, int code, const char *text)
{
    client->reason_code = code;
    snprintf(client->reason, sizeof(client->reason), "%.511s", text);
}

static void back_off(struct hr_client *client, uint64_t since_ns)
{
    uint64_t backoff = client->backoff_ns;

    if (client->reason_code == HR_E_BUSY)
        backoff = hr_max_u64(backoff, busy_backoff_ns); /* it answers, and logs each refusal */
    hr_link_down(client);
    client->down_since_ns = since_ns;
    client->next_try_ns = hr_clock_ns() + backoff;
    client->backoff_ns = hr_min_u64(2 * backoff, backoff_max_ns);
}

int hr_link_establish(struct hr_client *client, uint64_t deadline_ns)
{
    uint64_t since_ns = client->down_since_ns;
    uint64_t limit_ns = later(since_ns, client->timeout_ns);

    while (client->phase != HR_LINK_UP) {
        uint64_t until_ns = hr_min_u64(deadline_ns, limit_ns);
        uint64_t backoff = client->backoff_ns;
        int ret = client->phase == HR_LINK_DOWN ? attempt(client, until_ns)
                                                : await_welcome(client, until_ns);
        uint64_t now = hr_clock_ns();
        if (ret < 0) {
            client->backoff_ns = backoff;
            note_reason(client, ret, client->report.text);
            back_off(client, since_ns);
            if (!worth_retrying(client, ret, now))
                return give_up(client, ret);
        } else if (client->phase != HR_LINK_UP && now >= limit_ns) {
            if (client->phase == HR_LINK_ASKED || !client->reason_code)
                note_reason(client, HR_E_DISCONNECTED, "it does not answer");
            back_off(client, since_ns);
            return give_up(client, client->reason_code);
        }
        if (client->phase != HR_LINK_UP && now >= deadline_ns)
            return hr_report_fail(&client->report, HR_E_TIMEOUT, "the sidecar has not answered yet");
    }
    return 0;
}

/* ---- seeking ---- */

/* Entries that were published before the seek go back unread. */
static void drop_old_entries(struct hr_client *client)
{
    struct hr_session *s = client->session;
    uint32_t head = atomic_load_explicit(&s->control->head, memory_order_acquire);

    for (uint32_t n = 0; s->tail != head && n < HR_WIRE_MAX_SLOTS; n++) {
        struct hr_wire_entry entry =
            hr_wire_load_entry(&s->control->queue[s->tail % HR_WIRE_MAX_SLOTS]);
        if (entry.slot >= s->slot_count || (int32_t)(client->generation - entry.generation) <= 0)
            return;
        if (hr_session_claim(s))
            hr_session_release(s, entry.slot, entry.ticket);
    }
}

static int send_seek(struct hr_client *client)
{
    int ret = client->seek_sent ? 0 : hr_link_send(client, &client->seek);

    if (ret == 0 && !client->seek_sent) {
        client->seek_sent = true;
        client->seeks_open++;
    }
    return ret;
}

int hr_link_seek(struct hr_client *client, uint64_t deadline_ns)
{
    int ret, established;

    do {
        ret = established = hr_link_establish(client, deadline_ns);
        if (ret == 0)
            ret = send_seek(client);
        if (ret == 0)
            ret = hr_link_await(client, HR_WIRE_SEEKED, deadline_ns);
        /* A sidecar that dies meanwhile is waited for, and asked again. */
    } while (ret == HR_E_DISCONNECTED && established == 0 && !client->ended);
    if (ret == 0)
        ret = hr_report_fail(&client->report, HR_E_TIMEOUT, "the sidecar did not answer a seek");
    if (ret == HR_E_TIMEOUT)
        return ret;
    client->seeking = false;
    client->astray = ret < 0 && client->refused;
    if (ret < 0)
        return ret;
    drop_old_entries(client);
    return 0;
}
