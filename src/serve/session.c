/* Trainer sessions: hello, seek, statistics, bye. Whatever a peer sends is checked; a peer that breaks
 * the protocol is told so and dropped, and nobody else notices. */
#include "serve/session.h"

#include <stdio.h>
#include <string.h>

#include <headrace/version.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "serve/replicas.h"

/* Sources listed in statistics: the JSON must fit a message. */
enum { STATS_SOURCES = 12 };
/* A trainer whose seek was refused has so long to copy what it holds. */
enum { REFUSED_MS = 1000 };

/* Copies a fixed-size text field of a message, which need not be terminated. */
static void copy_text(char *dst, size_t dst_bytes, const char *src, size_t src_bytes)
{
    size_t n = strnlen(src, src_bytes < dst_bytes - 1 ? src_bytes : dst_bytes - 1);

    memcpy(dst, src, n);
    dst[n] = 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)dst[i] < 0x20 || (unsigned char)dst[i] >= 0x7f)
            dst[i] = '?';
}

void hr_session_send_error(int fd, const struct hr_error *err)
{
    struct hr_wire_error msg = {
        .head = {.kind = HR_WIRE_ERROR, .bytes = sizeof(msg)},
        .code = err->code,
        .record = err->record,
    };
    char text[1280];
    struct hr_error ignored;

    hr_error_format(err, text, sizeof(text));
    snprintf(msg.text, sizeof(msg.text), "%.*s", (int)sizeof(msg.text) - 1, text);
    snprintf(msg.shard, sizeof(msg.shard), "%.*s", (int)sizeof(msg.shard) - 1, err->file);
    snprintf(msg.field, sizeof(msg.field), "%.*s", (int)sizeof(msg.field) - 1, err->field);
    if (hr_fd_send(fd, &msg, sizeof(msg), NULL, 0, &ignored) < 0)
        return; /* it left, or does not read: it is being dropped anyway */
}

static int refuse(struct hr_session *session, const struct hr_error *err)
{
    char text[1280];

    hr_log(HR_LOG_WARN, "trainer %s (pid %d) refused: %s",
           session->client[0] ? session->client : "?", (int)session->peer_pid,
           hr_error_format(err, text, sizeof(text)));
    hr_session_send_error(session->fd, err);
    return err->code;
}

/* A state as a trainer sent it: decoded, and ours unless forced. */
static int accept_state(const struct hr_plan *plan, const char *text, uint32_t bytes, bool force,
                        struct hr_state *state, struct hr_error *err)
{
    struct hr_state ours = hr_plan_state(plan);

    if (bytes > HR_WIRE_STATE_BYTES)
        return hr_fail(err, HR_E_PROTOCOL, "state of %u bytes; the most is %d", bytes,
                       HR_WIRE_STATE_BYTES);
    int ret = hr_state_decode(state, &ours, text, strnlen(text, bytes), err);
    if (ret < 0)
        return ret;
    ret = hr_plan_check_state(plan, state, err);
    if (ret < 0 && !force)
        return ret;
    state->dataset = ours.dataset;
    state->plan = ours.plan;
    state->seed = ours.seed;
    state->parts = ours.parts;
    return hr_order_check_cursor(&plan->order, state->cursor, err);
}

/* ---- the stream table ---- */

static struct hr_stream_entry *find_entry(struct hr_session_host *host, uint32_t rank,
                                          uint32_t world)
{
    for (int i = 0; i < host->stream_count; i++)
        if (host->streams[i].rank == rank && host->streams[i].world == world)
            return &host->streams[i];
    return NULL;
}

static struct hr_stream_entry *entry_of(struct hr_session_host *host,
                                        const struct hr_stream *stream)
{
    for (int i = 0; i < host->stream_count; i++)
        if (host->streams[i].stream == stream)
            return &host->streams[i];
    return NULL;
}

static void close_entry(struct hr_session_host *host, struct hr_stream_entry *entry)
{
    hr_stream_close(entry->stream);
    *entry = host->streams[--host->stream_count];
}

/* The job was resized: streams of another world that nobody reads any more give their memory back. */
static void close_idle_of_other_worlds(struct hr_session_host *host, uint32_t world)
{
    for (int i = 0; i < host->stream_count;) {
        if (host->streams[i].sessions == 0 && host->streams[i].world != world)
            close_entry(host, &host->streams[i]);
        else
            i++;
    }
}

static int open_entry(struct hr_session_host *host, const struct hr_wire_hello *hello,
                      struct hr_stream_entry **out, struct hr_error *err)
{
    close_idle_of_other_worlds(host, hello->world); /* moves entries */
    struct hr_stream_entry *entry = find_entry(host, hello->rank, hello->world);

    if (entry && entry->sessions > 0 && !(entry->shared && hello->want_shared)) {
        hr_fail(err, HR_E_BUSY, "rank %u of %u is taken by another trainer", hello->rank,
                hello->world);
        hr_error_hint(err, "give each trainer process its own rank, or let all of them ask for a "
                           "shared stream");
        return HR_E_BUSY;
    }
    if (entry && entry->shared != (hello->want_shared != 0)) {
        close_entry(host, entry);
        entry = NULL;
    }
    if (!entry) {
        if (host->stream_count == HR_MAX_SESSIONS)
            return hr_fail(err, HR_E_LIMIT, "more than %d streams", HR_MAX_SESSIONS);
        struct hr_stream *stream;
        int ret = hr_engine_open_stream(host->engine, hello->rank, hello->world,
                                        hello->want_shared != 0, &stream, err);
        if (ret < 0)
            return ret;
        entry = &host->streams[host->stream_count++];
        *entry = (struct hr_stream_entry){.stream = stream,
                                          .rank = hello->rank,
                                          .world = hello->world,
                                          .shared = hello->want_shared != 0};
    }
    *out = entry;
    return 0;
}

/* First no more batches, then the slots: the trainer may still live and read what it holds or what is
 * ready (we are the one that ends). */
static void leave_stream(struct hr_session_host *host, struct hr_session *session)
{
    struct hr_stream *stream = session->stream;

    if (!stream)
        return;
    struct hr_stream_entry *entry = entry_of(host, stream);
    bool last = --entry->sessions == 0;
    if (last)
        hr_stream_pause(stream);
    if (session->consumer)
        hr_ring_detach(hr_stream_ring(stream), session->consumer);
    session->consumer = NULL;
    session->stream = NULL;
    if (!last && !host->ending)
        hr_replicas_left(host, stream);
    hr_engine_wake(host->engine); /* replicas that are left wait for the slots it held */
}

/* ---- messages ---- */

static int send_welcome(struct hr_session_host *host, struct hr_session *session,
                        const struct hr_stream_entry *entry, const struct hr_state *state,
                        const int fds[3], struct hr_error *err)
{
    struct hr_ring *ring = hr_stream_ring(entry->stream);
    const struct hr_plan *plan = host->plan;
    struct hr_wire_welcome msg = {
        .head = {.kind = HR_WIRE_WELCOME, .bytes = sizeof(msg)},
        .wire_version = HR_WIRE_VERSION,
        .rank = entry->rank,
        .world = entry->world,
        .slot_count = plan->slot_count,
        .slot_bytes = hr_ring_slot_bytes(ring),
        .control_bytes = sizeof(struct hr_wire_control),
        .writable = !entry->shared,
        .generation = hr_ring_generation(ring),
        .steps_per_epoch = hr_order_steps(&plan->order, state->cursor.epoch),
        .batch = plan->order.spec.batch,
        .dataset_records = plan->sources.kept,
        .server = "headrace " HR_VERSION_STRING,
    };

    hr_ring_base(ring, &msg.data_bytes);
    hr_digest_hex(&plan->sources.digest, msg.dataset_digest);
    hr_digest_hex(&plan->digest, msg.plan_digest);
    msg.state_bytes = (uint32_t)hr_state_encode(state, msg.state);
    return hr_fd_send(session->fd, &msg, sizeof(msg), fds, 3, err);
}

/* What can be said of a hello without the stream that it asks for. */
static int check_hello(const struct hr_session_host *host, const struct hr_session *session,
                       const struct hr_wire_hello *hello, struct hr_error *err)
{
    if (session->stream)
        return hr_fail(err, HR_E_PROTOCOL, "hello was said twice");
    if (hello->wire_version != HR_WIRE_VERSION) {
        hr_fail(err, HR_E_VERSION, "the client speaks protocol %u, the sidecar %u",
                hello->wire_version, HR_WIRE_VERSION);
        hr_error_hint(err, "install the same version of headrace on both sides");
        return HR_E_VERSION;
    }
    if (host->draining)
        return hr_fail(err, HR_E_BUSY, "the sidecar is draining and takes no new trainers");
    return hr_plan_check_world(host->plan, hello->rank, hello->world, err);
}

/* Gives the session its stream and its place in the ring. On failure it may have the stream already. */
static int attach(struct hr_session_host *host, struct hr_session *session,
                  const struct hr_wire_hello *hello, struct hr_stream_entry **entry,
                  struct hr_state *state, int fds[3], struct hr_error *err)
{
    bool now = hello->join_now && hello->want_shared && hello->state_bytes == 0;
    int ret = accept_state(host->plan, hello->state, hello->state_bytes, hello->force_state != 0, state, err);

    if (ret == 0)
        ret = open_entry(host, hello, entry, err);
    if (ret < 0)
        return ret;
    /* The first says where to go on; one that joins others may have to wait for them, or they for it. */
    bool first = (*entry)->sessions == 0;
    if (first)
        ret = hr_stream_seek((*entry)->stream, state, err);
    if (ret < 0)
        return ret;
    session->stream = (*entry)->stream;
    (*entry)->sessions++;
    return hr_replicas_join(host, session, state, now && !first, fds, err);
}

static int handle_hello(struct hr_session_host *host, struct hr_session *session,
                        const struct hr_wire_hello *hello)
{
    struct hr_stream_entry *entry = NULL;
    struct hr_error err = HR_ERROR_INIT;
    struct hr_state state;
    int fds[3];

    copy_text(session->client, sizeof(session->client), hello->client, sizeof(hello->client));
    int ret = check_hello(host, session, hello, &err);
    if (ret < 0)
        return refuse(session, &err);
    ret = attach(host, session, hello, &entry, &state, fds, &err);
    if (ret < 0) {
        leave_stream(host, session);
        return refuse(session, &err);
    }
    session->hello_deadline_ns = 0;
    session->wake_fd = hr_ring_consumer_wake_fd(session->consumer);
    ret = send_welcome(host, session, entry, &state, fds, &err);
    if (ret < 0)
        return ret;
    hr_log(HR_LOG_INFO, "trainer %s (pid %d) attached as rank %u of %u", session->client,
           (int)session->peer_pid, entry->rank, entry->world);
    return 0;
}

static int handle_seek(struct hr_session_host *host, struct hr_session *session,
                       const struct hr_wire_seek *seek)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_state state;
    int ret = 0;

    if (seek->state_bytes) {
        ret = accept_state(host->plan, seek->state, seek->state_bytes, seek->force_state != 0,
                           &state, &err);
    } else {
        state = hr_plan_state(host->plan);
        state.cursor.epoch = seek->epoch;
        ret = hr_order_check_cursor(&host->plan->order, state.cursor, &err);
    }
    /* Checked by now: a stream that was halted for a place that does not exist would halt for all. */
    if (ret == 0)
        ret = hr_replicas_move(host, session, &state, &err);
    if (ret < 0) {
        refuse(session, &err);
        session->refused_until_ns = hr_clock_ns() + REFUSED_MS * HR_NS_PER_MS;
        return 0;
    }
    session->told_end = false;
    struct hr_wire_seeked msg = {
        .head = {.kind = HR_WIRE_SEEKED, .bytes = sizeof(msg)},
        .generation = hr_ring_generation(hr_stream_ring(session->stream)),
        .steps_per_epoch = hr_order_steps(&host->plan->order, state.cursor.epoch),
    };
    msg.state_bytes = (uint32_t)hr_state_encode(&state, msg.state);
    return hr_fd_send(session->fd, &msg, sizeof(msg), NULL, 0, &err);
}

void hr_session_stats_json(struct hr_session_host *host, const struct hr_session *session,
                           char *json, size_t json_bytes)
{
    struct hr_engine_stats e;
    struct hr_ring_stats r;
    struct hr_buf b = {0};

    hr_engine_stats(host->engine, &e);
    hr_ring_stats(hr_stream_ring(session->stream), &r);
    hr_json_open(&b, NULL, '{');
    hr_json_uint(&b, "samples", e.samples);
    hr_json_uint(&b, "batches", e.batches);
    hr_json_uint(&b, "workers", (uint64_t)hr_engine_worker_count(host->engine));
    hr_json_str(&b, "reader", hr_engine_reader_reason(host->engine));
    hr_json_uint(&b, "read_requests", e.read_requests);
    hr_json_uint(&b, "read_bytes", e.read_bytes);
    hr_json_uint(&b, "wanted_bytes", e.wanted_bytes);
    hr_json_uint(&b, "read_errors", e.read_errors);
    hr_json_uint(&b, "read_retries", e.io_retries);
    hr_json_uint(&b, "reader_cpu_ns", e.reader_cpu_ns);
    hr_json_uint(&b, "worker_cpu_ns", e.worker_cpu_ns);
    hr_json_uint(&b, "worker_busy_ns", e.worker_busy_ns);
    hr_json_uint(&b, "worker_idle_ns", e.worker_idle_ns);
    hr_json_uint(&b, "bad_records", e.bad.records);
    hr_json_uint(&b, "bad_samples", e.bad.occurrences);
    hr_json_uint(&b, "bad_checksum", e.bad.checksum);
    hr_json_uint(&b, "bad_truncated", e.bad.truncated);
    hr_json_uint(&b, "bad_decode", e.bad.decode);
    hr_json_uint(&b, "bad_crashed", e.bad.crashed);
    hr_json_uint(&b, "bad_other", e.bad.other);
    hr_json_uint(&b, "published", r.published);
    hr_json_uint(&b, "released", r.released);
    hr_json_uint(&b, "ready", r.ready);
    hr_json_uint(&b, "leased", r.leased);
    hr_json_uint(&b, "free_slots", r.free_slots);
    hr_json_uint(&b, "producer_wait_ns", r.producer_wait_ns);
    hr_json_uint(&b, "consumer_wait_ns", r.consumer_wait_ns);
    hr_engine_sources_json(host->engine, &b, STATS_SOURCES);
    hr_json_close(&b, '}');
    /* Half of it would be no JSON. */
    bool fits = !hr_buf_failed(&b) && b.used < json_bytes;
    snprintf(json, json_bytes, "%s", fits ? hr_buf_str(&b) : "{}");
    hr_buf_finish(&b);
}

static int handle_stats(struct hr_session_host *host, struct hr_session *session)
{
    struct hr_wire_stats msg = {.head = {.kind = HR_WIRE_STATS}};
    struct hr_error err;

    hr_session_stats_json(host, session, msg.json, sizeof(msg.json));
    msg.head.bytes = (uint32_t)(offsetof(struct hr_wire_stats, json) + strlen(msg.json) + 1);
    return hr_fd_send(session->fd, &msg, msg.head.bytes, NULL, 0, &err);
}

/* Messages grow at their end: what an older client leaves out is zero. */
static bool read_hello(struct hr_wire_hello *hello, const void *msg, size_t bytes)
{
    if (bytes < offsetof(struct hr_wire_hello, incarnation))
        return false;
    memset(hello, 0, sizeof(*hello));
    memcpy(hello, msg, hr_min_u64(bytes, sizeof(*hello)));
    return true;
}

static int dispatch(struct hr_session_host *host, struct hr_session *session, const void *msg,
                    size_t bytes)
{
    const struct hr_wire_head *head = msg;
    struct hr_wire_hello hello;
    struct hr_error err;

    if (bytes >= sizeof(*head) && head->bytes == bytes) {
        bool is_hello = head->kind == HR_WIRE_HELLO && read_hello(&hello, msg, bytes);
        /* Said to the engine that died before us. */
        if (session->incarnation && !session->stream && head->kind != HR_WIRE_BYE &&
            !(is_hello && hello.incarnation == session->incarnation))
            return 0;
        if (session->refused_until_ns && head->kind != HR_WIRE_BYE)
            return 0; /* said before it read the refusal */
        if (is_hello)
            return handle_hello(host, session, &hello);
        if (head->kind == HR_WIRE_BYE)
            return HR_E_DISCONNECTED;
        if (session->stream && head->kind == HR_WIRE_SEEK && bytes >= sizeof(struct hr_wire_seek))
            return handle_seek(host, session, msg);
        if (session->stream && head->kind == HR_WIRE_STATS_ASK)
            return handle_stats(host, session);
    }
    hr_fail(&err, HR_E_PROTOCOL, "a message of %zu bytes that means nothing%s", bytes,
            session->stream ? "" : " before hello");
    return refuse(session, &err);
}

int hr_session_receive(struct hr_session_host *host, struct hr_session *session)
{
    _Alignas(8) char msg[HR_WIRE_MAX_MESSAGE];
    int fds[8], fd_count;
    struct hr_error err;
    ssize_t n = hr_fd_recv(session->fd, msg, sizeof(msg), fds, &fd_count, &err);

    for (int i = 0; i < fd_count; i++) /* nobody has a reason to send us any */
        hr_fd_close(&fds[i]);
    if (n == 0)
        return HR_E_DISCONNECTED;
    if (n == HR_E_TIMEOUT)
        return 0; /* nothing there after all */
    if (n < 0)
        return refuse(session, &err);
    return dispatch(host, session, msg, (size_t)n);
}

int hr_session_check_stream(struct hr_session *session)
{
    struct hr_error err = HR_ERROR_INIT;

    if (!session->stream || session->told_end)
        return 0;
    int status = hr_stream_status(session->stream, &err);
    if (status == 0)
        return 0;
    session->told_end = true;
    if (status != HR_E_END) {
        hr_log_error(HR_LOG_ERROR, "feeding stopped", &err);
        hr_session_send_error(session->fd, &err);
    }
    hr_ring_close_consumer(session->consumer, status);
    return 0;
}

void hr_session_end(struct hr_session_host *host, struct hr_session *session)
{
    if (session->stream) {
        hr_log(HR_LOG_INFO, "trainer %s (pid %d) of rank %u left; its leases are reclaimed",
               session->client, (int)session->peer_pid, entry_of(host, session->stream)->rank);
        leave_stream(host, session);
    }
    hr_fd_close(&session->fd);
    *session = (struct hr_session){.fd = -1, .wake_fd = -1};
}
