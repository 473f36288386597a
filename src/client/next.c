/* Taking the next batch. While batches are ready it is a load, a copy of the header and a few
 * checks, without a system call; otherwise it waits in slices, so that the death of the sidecar is
 * seen. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"
#include "client/internal.h"

/* How late the death of a sidecar is noticed at most. */
static const uint64_t slice_ns = 50 * HR_NS_PER_MS;
/* Between the closed word and the message that says why. */
static const uint64_t message_wait_ns = 500 * HR_NS_PER_MS;

static int malformed(struct hr_client *client, const struct hr_error *err)
{
    return client->ended = hr_report_set(&client->report, err);
}

static int check_sequence(struct hr_client *client, const struct hr_batch *batch,
                          struct hr_error *err)
{
    if (client->sequence_known && batch->info.sequence != client->sequence)
        return hr_fail(err, HR_E_PROTOCOL,
                       "malformed batch: number %" PRIu64 " came where %" PRIu64 " was due",
                       batch->info.sequence, client->sequence);
    client->sequence = batch->info.sequence + 1;
    client->sequence_known = true;
    return 0;
}

static void hand_over(struct hr_client *client, struct hr_batch *batch)
{
    struct hr_session *s = client->session;
    size_t n = strlen(batch->state);

    if (n)
        hr_link_set_state(client, batch->state, n);
    client->fruitless = 0;
    client->next_epoch = batch->info.epoch + (batch->info.last_of_epoch ? 1 : 0);
    client->at_epoch_start = batch->info.last_of_epoch != 0;
    if (batch->info.end_of_run) {
        hr_report_fail(&client->report, HR_E_END, "the configured number of epochs is done");
        client->ended = HR_E_END;
    }
    hr_session_ref(s);
    atomic_fetch_add_explicit(&s->held, 1, memory_order_relaxed);
    atomic_store_explicit(&batch->held, 1, memory_order_release);
}

/* 1 = *out is set, 0 = it was an entry to skip. */
static int take_entry(struct hr_client *client, const struct hr_wire_entry *entry,
                      struct hr_batch **out)
{
    struct hr_session *s = client->session;
    struct hr_error err = HR_ERROR_INIT;

    if (entry->slot >= s->slot_count || entry->ticket == 0 ||
        atomic_load_explicit(&s->batches[entry->slot].held, memory_order_acquire)) {
        hr_fail(&err, HR_E_PROTOCOL, "malformed batch: slot %" PRIu32 " cannot be published",
                entry->slot);
        return malformed(client, &err);
    }
    int32_t age = (int32_t)(client->generation - entry->generation);
    if (age > 0) { /* from before a seek */
        hr_session_release(s, entry->slot, entry->ticket);
        return 0;
    }
    if (age < 0) {
        client->generation = entry->generation;
        client->sequence_known = false;
    }
    struct hr_batch *batch = &s->batches[entry->slot];
    batch->ticket = entry->ticket;
    int ret = hr_batch_parse(batch, &err);
    if (ret == 0)
        ret = check_sequence(client, batch, &err);
    if (ret < 0)
        return malformed(client, &err);
    hand_over(client, batch);
    *out = batch;
    return 1;
}

/* 1 = *out is set, 0 = nothing is ready. */
static int take(struct hr_client *client, struct hr_batch **out)
{
    struct hr_session *s = client->session;

    if (client->astray || client->seeking)
        return 0;
    for (;;) {
        /* Acquire: pairs with the sidecar's release store; entry and slot are complete. */
        uint32_t head = atomic_load_explicit(&s->control->head, memory_order_acquire);
        if (head == s->tail)
            return 0;
        struct hr_wire_entry entry =
            hr_wire_load_entry(&s->control->queue[s->tail % HR_WIRE_MAX_SLOTS]);
        if (!hr_session_claim(s))
            continue; /* taken back */
        if (head - s->tail >= HR_WIRE_MAX_SLOTS) {
            struct hr_error err;
            hr_fail(&err, HR_E_PROTOCOL, "malformed queue: %" PRIu32 " batches ready",
                    head - s->tail + 1);
            return malformed(client, &err);
        }
        int ret = take_entry(client, &entry, out);
        if (ret)
            return ret;
    }
}

/* The sidecar closed the stream: the socket says why, the word alone only that. */
static int check_closed(struct hr_client *client)
{
    struct hr_session *s = client->session;
    uint32_t closed = atomic_load_explicit(&s->control->closed, memory_order_acquire);
    int code = hr_link_code(-(int64_t)closed);

    if (closed == 0 || atomic_load_explicit(&s->control->head, memory_order_acquire) != s->tail)
        return 0;
    int ret = 0;
    if (code != HR_E_END && client->phase == HR_LINK_UP)
        ret = hr_link_await(client, 0, hr_clock_ns() + message_wait_ns);
    if (client->ended)
        return client->ended;
    if (code == HR_E_DISCONNECTED || ret == HR_E_DISCONNECTED)
        return 0; /* it ends, or is gone: wait for one to come back */
    return client->ended = hr_report_fail(&client->report, code, "%s", hr_error_text(code));
}

static int all_leased(struct hr_client *client)
{
    struct hr_session *s = client->session;

    if (atomic_load_explicit(&s->held, memory_order_acquire) < s->slot_count)
        return 0;
    return hr_report_fail(&client->report, HR_E_ALL_LEASED,
                          "all %" PRIu32 " slots are held by this process (release batches before "
                          "asking for more, or raise 'slots' in the pipeline file)",
                          s->slot_count);
}

/* Sleeps until something is published, the slice ends or the deadline passes; then looks at the
 * socket. A closed stream sleeps on the socket. 0 or the sidecar's error. */
static int wait_slice(struct hr_client *client, uint64_t deadline_ns)
{
    struct hr_session *s = client->session;
    struct hr_wire_control *c = s->control;
    uint64_t until_ns = hr_min_u64(deadline_ns, hr_clock_ns() + slice_ns);
    bool closed = atomic_load_explicit(&c->closed, memory_order_relaxed) != 0;

    atomic_store_explicit(&c->consumer_waits, 1, memory_order_relaxed);
    /* Pairs with the sidecar's fence between head and its look at consumer_waits. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!closed)
        hr_futex_wait(&c->head, s->tail, until_ns, true);
    atomic_store_explicit(&c->consumer_waits, 0, memory_order_relaxed);
    if (atomic_load_explicit(&c->head, memory_order_relaxed) != s->tail)
        return 0;
    int ret = hr_link_await(client, 0, closed ? until_ns : 0);
    return ret == HR_E_DISCONNECTED ? 0 : ret;
}

/* One round of waiting: for a batch, for the answer to a seek, or for the sidecar to come back. */
static int wait_round(struct hr_client *client, uint64_t deadline_ns)
{
    int ret;

    if (client->seeking) {
        ret = hr_link_seek(client, deadline_ns);
    } else if (client->phase == HR_LINK_UP) {
        ret = check_closed(client);
        if (ret == 0)
            ret = all_leased(client);
        if (ret == 0 && client->phase == HR_LINK_UP)
            ret = wait_slice(client, deadline_ns);
        return ret < 0 && ret != client->ended ? ret : 0;
    } else {
        ret = hr_link_establish(client, deadline_ns);
    }
    return ret == HR_E_TIMEOUT ? 0 : ret;
}

static bool is_malformed(int code)
{
    return code == HR_E_PROTOCOL || code == HR_E_VERSION;
}

/* A session is told of waits that began and ended in it: longer ones it would not believe. */
static void count_wait(struct hr_client *client, const struct hr_session *begun, uint64_t ns)
{
    struct hr_session *s = client->session;

    client->wait_ns += ns;
    if (!s || s != begun)
        return;
    s->wait_ns += ns;
    atomic_store_explicit(&s->control->consumer_wait_ns, s->wait_ns, memory_order_relaxed);
}

static int next_slow(struct hr_client *client, int64_t timeout_ms, struct hr_batch **out)
{
    uint64_t begin_ns = hr_clock_ns();
    uint64_t deadline_ns = hr_link_deadline(timeout_ms);
    struct hr_session *session = client->session;
    int ret;

    for (;;) {
        ret = wait_round(client, deadline_ns);
        if (ret < 0)
            break;
        ret = client->session && !is_malformed(client->ended) ? take(client, out) : 0;
        if (ret == 0)
            ret = client->ended;
        if (ret != 0)
            break;
        if (hr_clock_ns() >= deadline_ns) {
            ret = hr_report_fail(&client->report, HR_E_TIMEOUT, "no batch within %lld ms",
                                 (long long)timeout_ms);
            break;
        }
    }
    count_wait(client, session, hr_clock_ns() - begin_ns);
    return ret;
}

int hr_client_next(struct hr_client *client, int64_t timeout_ms, struct hr_batch **out)
{
    int ret;

    *out = NULL;
    if (client->token != hr_process_token())
        return hr_report_fail(&client->report, HR_E_FORKED,
                              "a client cannot be used in a forked process: open one there");
    if (is_malformed(client->ended))
        return client->ended;
    ret = client->session ? take(client, out) : 0;
    if (ret == 0)
        ret = client->ended ? client->ended : next_slow(client, timeout_ms, out);
    return ret > 0 ? 0 : ret;
}
