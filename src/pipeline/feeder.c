/* The reader thread: begins batches where slots are free, carries out the control thread's commands, and
 * sleeps in the reader until bytes arrive. Planning is in group.c, the reads in reads.c. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline/engine_parts.h"

enum { REAP_MAX = 64 };

/* ---- beginning batches ---- */

static void end_stream(struct hr_engine *e, struct hr_stream *s)
{
    s->running = false;
    s->ended = true;
    pthread_mutex_lock(&s->lock);
    if (s->status == 0) {
        s->status = HR_E_END;
        hr_fail(&s->error, HR_E_END, "the last epoch has ended");
    }
    pthread_mutex_unlock(&s->lock);
    hr_engine_notify(e);
}

static bool begin_batch(struct hr_engine *e, struct hr_stream *s)
{
    const struct hr_order *order = &e->plan->order;
    struct hr_cursor cursor = s->state.cursor, after;

    if (e->plan->epochs && cursor.epoch >= e->plan->epochs) {
        end_stream(e, s);
        return false;
    }
    uint64_t t0 = hr_clock_ns();
    pthread_mutex_lock(&s->lock);
    bool room = s->begun - s->published < s->slot_count && s->status == 0;
    struct hr_batch *batch = &s->batches[s->begun % s->slot_count];
    pthread_mutex_unlock(&s->lock);
    int slot = room ? hr_ring_acquire(s->ring) : -1;
    if (slot < 0)
        return false;

    struct hr_share share = hr_order_share(order, cursor, s->rank, s->world);
    /* The digest of the whole global batch's order: planning, not hand-off. */
    uint64_t t1 = hr_clock_ns();
    s->before[slot] = s->state;
    hr_state_advance(&s->state, order);
    uint64_t advance_ns = hr_clock_ns() - t1;
    atomic_fetch_add_explicit(&e->plan_ns, advance_ns, memory_order_relaxed);
    after = s->state.cursor;
    bool last = after.epoch != cursor.epoch;
    bool end = last && e->plan->epochs && after.epoch >= e->plan->epochs;
    hr_batch_begin(batch, hr_ring_slot(s->ring, (uint32_t)slot), (uint32_t)slot, &share, cursor,
                   s->sequence++, &s->state, last, end);
    hr_batch_header(batch)->global_first = hr_order_place(order, cursor, 0).position;
    atomic_store_explicit(&batch->age, ++e->next_age, memory_order_relaxed);
    pthread_mutex_lock(&s->lock);
    s->begun++;
    pthread_mutex_unlock(&s->lock);
    e->planning[e->planning_count++] = batch;
    atomic_fetch_add_explicit(&e->batches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->hand_off_ns, hr_clock_ns() - t0 - advance_ns,
                              memory_order_relaxed);
    return true;
}

/* One batch a stream at a time, so that ranks share the engine evenly. A stream has at most one
 * batch that is not planned to its end. */
static void begin_batches(struct hr_engine *e)
{
    bool begun;

    do {
        begun = false;
        for (int i = 0; i < HR_ENGINE_MAX_STREAMS; i++) {
            /* Acquire: pairs with the store in hr_engine_open_stream. */
            struct hr_stream *s = atomic_load_explicit(&e->streams[i], memory_order_acquire);
            if (!s)
                break;
            if (!s->running || e->planning_count == HR_ENGINE_MAX_STREAMS)
                continue;
            hr_ring_collect(s->ring);
            begun |= begin_batch(e, s);
        }
        if (begun)
            hr_group_feed(e);
        /* Bytes in flight are at their bound: what is begun comes first. */
        if (e->group.count || e->planning_count)
            break;
    } while (begun);
}

/* ---- commands ---- */

static void cancel_batches(struct hr_stream *s)
{
    for (uint32_t i = 0; i < s->slot_count; i++)
        atomic_store_explicit(&s->batches[i].cancelled, true, memory_order_relaxed);
}

static void leave_table(struct hr_engine *e, struct hr_stream *s)
{
    int i = 0, last;

    while (atomic_load_explicit(&e->streams[i], memory_order_relaxed) != s)
        i++;
    last = i;
    while (last + 1 < HR_ENGINE_MAX_STREAMS &&
           atomic_load_explicit(&e->streams[last + 1], memory_order_relaxed))
        last++;
    atomic_store_explicit(&e->streams[i],
                          atomic_load_explicit(&e->streams[last], memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(&e->streams[last], NULL, memory_order_seq_cst);
}

/* Nothing is in flight. */
static struct hr_state next_to_leave(struct hr_stream *s)
{
    pthread_mutex_lock(&s->lock);
    struct hr_state state = s->dropping ? s->dropped : s->state;
    pthread_mutex_unlock(&s->lock);
    return state;
}

static void begin_at(struct hr_stream *s, const struct hr_state *state)
{
    hr_ring_collect(s->ring);
    hr_ring_flush(s->ring, (struct hr_ring_position){state->cursor.epoch, state->cursor.step});
    s->state = *state;
    s->sequence = 0;
    s->ended = false;
    pthread_mutex_lock(&s->lock);
    s->status = 0;
    s->dropping = false;
    pthread_mutex_unlock(&s->lock);
    s->running = true;
}

static void carry_out(struct hr_engine *e, struct hr_stream *s, bool *left)
{
    s->running = false;
    if (s->seek_wanted || s->close_wanted || s->halt_wanted) {
        cancel_batches(s);
        if (hr_stream_in_flight(s) > 0)
            return; /* looked at again when its last batch is out of the way */
    }
    if (s->halt_wanted)
        s->seek_state = next_to_leave(s);
    if (s->seek_wanted)
        begin_at(s, &s->seek_state);
    if (s->close_wanted) {
        s->running = false;
        leave_table(e, s);
        *left = true;
    }
    s->seek_wanted = s->pause_wanted = s->halt_wanted = s->close_wanted = false;
    pthread_cond_broadcast(&e->command_done);
}

static void carry_out_commands(struct hr_engine *e)
{
    pthread_mutex_lock(&e->command_lock);
    for (int i = 0; i < HR_ENGINE_MAX_STREAMS; i++) {
        struct hr_stream *s = atomic_load_explicit(&e->streams[i], memory_order_acquire);
        bool left = false;
        if (!s)
            break;
        if (s->seek_wanted || s->pause_wanted || s->halt_wanted || s->close_wanted)
            carry_out(e, s, &left);
        if (left)
            i--;
    }
    pthread_mutex_unlock(&e->command_lock);
}

static void take_returned(struct hr_engine *e)
{
    struct hr_sample *s = NULL, *reversed = NULL;

    if (atomic_load_explicit(&e->returned, memory_order_relaxed))
        s = atomic_exchange_explicit(&e->returned, NULL, memory_order_acquire);
    while (s) { /* oldest first again */
        struct hr_sample *next = s->next;
        s->next = reversed;
        reversed = s;
        s = next;
    }
    while (reversed) {
        s = reversed;
        reversed = s->next;
        hr_reads_retry(e, s);
    }
}

/* ---- the loop ---- */

static bool waits_for_room(const struct hr_engine *e)
{
    return e->group.count > 0 && !hr_iobufs_empty(&e->bufs);
}

/* While all room is taken. */
static void mind_window(struct hr_engine *e)
{
    uint64_t now = hr_clock_ns();

    if (e->reads_out > 0 && atomic_load_explicit(&e->sleepers, memory_order_relaxed) > 0)
        hr_window_starved(&e->window, now);
    else
        hr_window_enough(&e->window, now);
    e->bufs.window_bytes = e->window.bytes;
    atomic_store_explicit(&e->window_bytes, e->window.bytes, memory_order_relaxed);
}

/* When to stop sleeping, whatever happens; 0: do not sleep. */
static uint64_t next_deadline(struct hr_engine *e)
{
    uint64_t deadline = UINT64_MAX;

    if (waits_for_room(e)) {
        if (!hr_iobufs_watch(&e->bufs, e->bufs.window_bytes / 2))
            return 0;
        mind_window(e);
    }
    for (const struct hr_read *r = e->delayed; r; r = r->next)
        deadline = hr_min_u64(deadline, r->due_ns);
    return deadline;
}

/* The reader's own counters are its thread's. Before samples go on to workers, so that whoever has the
 * batch finds its bytes counted. */
static void publish_stats(struct hr_engine *e)
{
    struct hr_reader_stats io = {0};

    e->reader->ops->stats(e->reader, &io);
    atomic_store_explicit(&e->read_requests, io.requests, memory_order_relaxed);
    atomic_store_explicit(&e->read_bytes, io.bytes, memory_order_relaxed);
}

static void reap(struct hr_engine *e)
{
    struct hr_io_request *done[REAP_MAX];
    int n;

    e->reader->ops->flush(e->reader);
    if (e->pushed) {
        hr_engine_wake_workers(e, e->pushed);
        e->pushed = 0;
    }
    /* What is there already says whether storage is waited for. The loop goes round once more before it sleeps: a look
     * may have taken in a wake. */
    n = e->reader->ops->reap(e->reader, done, REAP_MAX, e->nothing_there ? next_deadline(e) : 0);
    e->nothing_there = !e->nothing_there && n == 0;
    publish_stats(e);
    for (int i = 0; i < n; i++)
        hr_reads_done(e, (struct hr_read *)done[i]);
    if (n > 0 && e->backlog)
        hr_reads_submit_backlog(e);
    if (e->pushed) {
        hr_engine_wake_workers(e, e->pushed);
        e->pushed = 0;
    }
}

static int open_reader(struct hr_engine *e, struct hr_error *err)
{
    struct hr_reader_options options = {
        .depth = 128,
        .max_files = e->file_count,
        .arena = e->bufs.arena,
        .arena_bytes = e->bufs.arena_bytes,
        .fault = e->options.fault,
        .inner = e->options.fault ? e->options.reader : NULL,
    };
    int ret = hr_reader_open(e->options.fault ? "fault" : e->options.reader, &options, &e->reader,
                             e->reader_reason, sizeof(e->reader_reason), err);

    for (uint32_t i = 0; i < e->file_count && ret >= 0; i++) {
        ret = e->reader->ops->add_file(e->reader, e->files[i].fd, e->files[i].direct_fd, err);
        if (ret >= 0 && (uint32_t)ret != i)
            ret = hr_fail(err, HR_E_INTERNAL, "reader numbers file %u as %d", i, ret);
    }
    return ret < 0 ? ret : 0;
}

static void announce(struct hr_engine *e, int status)
{
    pthread_mutex_lock(&e->command_lock);
    e->feeder_ready = true;
    e->feeder_status = status;
    pthread_cond_broadcast(&e->command_done);
    pthread_mutex_unlock(&e->command_lock);
}

void *hr_feeder_main(void *arg)
{
    struct hr_engine *e = arg;
    /* The reader is opened here because a ring with a single issuer belongs to its thread. */
    int ret = open_reader(e, &e->feeder_error);

    announce(e, ret);
    hr_flight_sit(e->flight, HR_FLIGHT_READER);
    while (ret == 0 && !atomic_load_explicit(&e->stop, memory_order_acquire)) {
        carry_out_commands(e);
        take_returned(e);
        hr_reads_submit_due(e);
        hr_group_feed(e);
        begin_batches(e);
        reap(e);
        atomic_store_explicit(&e->reader_cpu_ns, hr_clock_thread_ns(), memory_order_relaxed);
    }
    /* Others may still wake the reader; it closes when they have ended, and on this thread. */
    pthread_mutex_lock(&e->command_lock);
    while (!e->close_reader)
        pthread_cond_wait(&e->command_done, &e->command_lock);
    pthread_mutex_unlock(&e->command_lock);
    if (e->reader)
        e->reader->ops->close(e->reader);
    hr_flight_leave();
    return NULL;
}
