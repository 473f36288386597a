/* Joining, moving and leaving of replicas. Whenever one of them stands behind the stream, the stream is
 * halted, what was not taken is taken back from all, and it begins again where the hindmost stands. */
#include "serve/replicas.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"

static struct hr_ring_position position_of(struct hr_cursor cursor)
{
    return (struct hr_ring_position){.epoch = cursor.epoch, .step = cursor.step};
}

static bool is_later(struct hr_ring_position a, struct hr_cursor b)
{
    return a.epoch > b.epoch || (a.epoch == b.epoch && a.step > b.step);
}

/* The next session of the stream, from *i on; NULL = no more. */
static struct hr_session *next_of(struct hr_session_host *host, const struct hr_stream *stream,
                                  uint32_t *i)
{
    while (*i < HR_MAX_SESSIONS) {
        struct hr_session *s = &host->sessions[(*i)++];
        if (s->fd >= 0 && s->consumer && s->stream == stream)
            return s;
    }
    return NULL;
}

/* Once a halt: what a replica has taken is known now. One that waits further ahead keeps the state that it came
 * with: the stream's own would be of batches that it never saw. */
static void find_place(struct hr_session *session, const struct hr_state *next)
{
    struct hr_ring *ring = hr_stream_ring(session->stream);
    int slot = hr_ring_recall(ring, session->consumer);

    if (slot >= 0)
        session->place = hr_stream_state_before(session->stream, (uint32_t)slot);
    else if (!is_later(hr_ring_wanted(ring, session->consumer), next->cursor))
        session->place = *next;
}

static void log_move(const struct hr_stream *stream, struct hr_cursor from, struct hr_cursor to)
{
    hr_log(HR_LOG_INFO,
           "the stream of %u replicas goes from epoch %" PRIu64 " step %" PRIu64
           " to epoch %" PRIu64 " step %" PRIu64 ", where the hindmost stands",
           hr_ring_consumer_count(hr_stream_ring(stream)), from.epoch, from.step, to.epoch, to.step);
}

/* Of a halted stream whose next batch is *next: finds where all but the mover stand. The hindmost, or
 * NULL when there is no other. */
static struct hr_session *find_places(struct hr_session_host *host, const struct hr_session *mover,
                                      const struct hr_stream *stream, const struct hr_state *next)
{
    struct hr_session *last = NULL;

    for (uint32_t i = 0;;) {
        struct hr_session *s = next_of(host, stream, &i);
        if (!s)
            return last;
        if (s == mover)
            continue;
        find_place(s, next);
        hr_ring_want(hr_stream_ring(stream), s->consumer, position_of(s->place.cursor));
        s->told_end = false;
        if (!last || is_later(position_of(last->place.cursor), s->place.cursor))
            last = s;
    }
}

/* Begins again at the hindmost replica. mover: the one whose place is known already, NULL = none;
 * last: the hindmost of the others, NULL = there are none. */
static int settle(struct hr_stream *stream, const struct hr_session *mover,
                  const struct hr_session *last, const struct hr_state *next, struct hr_error *err)
{
    if (mover) {
        hr_ring_want(hr_stream_ring(stream), mover->consumer, position_of(mover->place.cursor));
        if (!last || !is_later(position_of(mover->place.cursor), last->place.cursor))
            last = mover;
    }
    if (!last)
        return 0;
    if (hr_ring_consumer_count(hr_stream_ring(stream)) > 1)
        log_move(stream, next->cursor, last->place.cursor);
    return hr_stream_seek(stream, &last->place, err);
}

static int join_now(struct hr_session_host *host, struct hr_session *session,
                    struct hr_state *state, int fds[3], struct hr_error *err)
{
    struct hr_state next = hr_stream_halt(session->stream);
    const struct hr_session *last = find_places(host, session, session->stream, &next);

    session->place = *state = last ? last->place : next;
    int ret = hr_ring_attach(hr_stream_ring(session->stream), position_of(state->cursor),
                             &session->consumer, fds, err);
    int settled = settle(session->stream, ret < 0 ? NULL : session, last, &next, err);
    return ret < 0 ? ret : settled;
}

int hr_replicas_join(struct hr_session_host *host, struct hr_session *session,
                     struct hr_state *state, bool now, int fds[3], struct hr_error *err)
{
    struct hr_ring *ring = hr_stream_ring(session->stream);

    if (now)
        return join_now(host, session, state, fds, err);
    int ret = hr_ring_attach(ring, position_of(state->cursor), &session->consumer, fds, err);
    session->place = *state;
    if (ret < 0 || !hr_ring_is_behind(ring, session->consumer))
        return ret;
    struct hr_state next = hr_stream_halt(session->stream);
    return settle(session->stream, session, find_places(host, session, session->stream, &next),
                  &next, err);
}

int hr_replicas_move(struct hr_session_host *host, struct hr_session *session,
                     const struct hr_state *state, struct hr_error *err)
{
    struct hr_stream *stream = session->stream;

    session->place = *state;
    /* A trainer with a stream of its own gives what is void back by itself, when it learns of the new generation.
     * From a replica it is taken back, also when that is alone: for one that joins before it has learned, what it
     * has not taken says where it stands. */
    if (!hr_ring_is_shared(hr_stream_ring(stream)))
        return hr_stream_seek(stream, state, err);
    struct hr_state next = hr_stream_halt(stream);
    hr_ring_recall(hr_stream_ring(stream), session->consumer);
    return settle(stream, session, find_places(host, session, stream, &next), &next, err);
}

void hr_replicas_left(struct hr_session_host *host, struct hr_stream *stream)
{
    struct hr_error err = HR_ERROR_INIT;

    if (!hr_ring_is_unwanted(hr_stream_ring(stream)))
        return;
    struct hr_state next = hr_stream_halt(stream);
    if (settle(stream, NULL, find_places(host, NULL, stream, &next), &next, &err) < 0)
        hr_log_error(HR_LOG_ERROR, "replicas cannot go on", &err);
}

/* ---- slow ones ---- */

static const uint64_t warn_after_ns = 30 * HR_NS_PER_S;

static struct hr_session *session_of(struct hr_session_host *host,
                                     const struct hr_ring_consumer *consumer)
{
    for (uint32_t i = 0; consumer && i < HR_MAX_SESSIONS; i++)
        if (host->sessions[i].fd >= 0 && host->sessions[i].consumer == consumer)
            return &host->sessions[i];
    return NULL;
}

uint64_t hr_replicas_watch_ns(const struct hr_session_host *host)
{
    uint64_t limit_ns = host->detach_slow_ns ? host->detach_slow_ns : warn_after_ns;

    for (int i = 0; i < host->stream_count; i++)
        if (host->streams[i].shared && host->streams[i].sessions > 1)
            return hr_min_u64(limit_ns / 4 + HR_NS_PER_MS, HR_NS_PER_S);
    return 0;
}

struct hr_session *hr_replicas_watch(struct hr_session_host *host)
{
    uint64_t limit_ns = host->detach_slow_ns ? host->detach_slow_ns : warn_after_ns;

    for (int i = 0; i < host->stream_count; i++) {
        const struct hr_stream_entry *entry = &host->streams[i];
        if (!entry->shared || entry->sessions < 2)
            continue;
        struct hr_session *slow =
            session_of(host, hr_ring_find_slow(hr_stream_ring(entry->stream), limit_ns));
        if (slow && host->detach_slow_ns)
            return slow;
        if (slow && !slow->told_slow)
            hr_log(HR_LOG_WARN,
                   "trainer %s (pid %d) of rank %u has kept its batches for %u s while a replica "
                   "waits; more 'slots' help where all wait for each other, --detach-slow would "
                   "end it",
                   slow->client, (int)slow->peer_pid, entry->rank,
                   (unsigned)(warn_after_ns / HR_NS_PER_S));
        if (slow)
            slow->told_slow = true;
    }
    return NULL;
}
