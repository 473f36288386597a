/* The reader thread: begins batches where slots are free, plans samples in groups, turns what they
 * need into few large reads, and hands samples to the pool as their bytes arrive. It also replaces
 * bad records, retries failing storage, and carries out the control thread's commands. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "pipeline/engine_parts.h"

enum {
    REAP_MAX = 64,
    COALESCE_GAP = 8 * 1024,
    COALESCE_MAX = 1024 * 1024,
    DIRECT_IO_MIN = 64 * 1024,
    BACKOFF_FIRST_MS = 10,
    BACKOFF_MAX_MS = 1000,
};

/* ---- finishing samples here, and bad records found here ---- */

static void push_retry(struct hr_engine *e, struct hr_sample *s)
{
    s->next = NULL;
    *e->retry_end = s;
    e->retry_end = &s->next;
}

static void sample_bad(struct hr_engine *e, struct hr_sample *s, const struct hr_error *why)
{
    if (hr_engine_sample_bad(e, s, why))
        push_retry(e, s);
    else
        hr_engine_sample_done(s->batch, 1);
}

static void sample_ready(struct hr_engine *e, struct hr_sample *s)
{
    hr_batch_push_ready(s->batch, s->index);
    e->pushed++;
}

/* All reads of a sample are back. */
static void sample_read(struct hr_engine *e, struct hr_sample *s)
{
    struct hr_error err;

    if (s->io_error == 0) {
        sample_ready(e, s);
        return;
    }
    hr_sample_drop_buffers(s);
    hr_fail(&err, s->io_error, "the shard's file ends before this record's bytes");
    hr_sources_error_at(&e->plan->sources, s->place.source, s->record, NULL, -1, &err);
    sample_bad(e, s, &err);
}

/* ---- submitting ---- */

static struct hr_read *take_read(struct hr_engine *e)
{
    struct hr_read *r = e->free_reads;

    HR_ASSERT(r);
    e->free_reads = r->next;
    memset(r, 0, sizeof(*r));
    return r;
}

static void put_read(struct hr_engine *e, struct hr_read *r)
{
    r->next = e->free_reads;
    e->free_reads = r;
}

static void read_done(struct hr_engine *e, struct hr_read *r);

static void submit(struct hr_engine *e, struct hr_read *r)
{
    switch (e->reader->ops->submit(e->reader, &r->request)) {
    case HR_IO_DONE:
        read_done(e, r);
        return;
    case HR_IO_QUEUED:
        return;
    case HR_IO_BUSY:
        r->next = NULL;
        *e->backlog_end = r;
        e->backlog_end = &r->next;
        return;
    }
}

static void submit_backlog(struct hr_engine *e)
{
    struct hr_read *r = e->backlog;

    e->backlog = NULL;
    e->backlog_end = &e->backlog;
    while (r) {
        struct hr_read *next = r->next;
        submit(e, r);
        r = next;
    }
}

/* ---- completions ---- */

static void storage_failed(struct hr_engine *e, struct hr_read *r)
{
    struct hr_error err;

    hr_fail_errno(&err, r->request.sys_errno ? r->request.sys_errno : 5,
                  "storage failed for %.0f s and %u tries", e->plan->storage_deadline_s, r->tries);
    err.code = HR_E_IO;
    hr_error_at_value(&err, hr_sources_file_path(&e->plan->sources, (uint32_t)r->request.file), HR_NO_RECORD,
                      NULL, (int64_t)r->request.off);
    hr_error_hint(&err, "see the kernel log of this machine; storage_deadline sets how long to try");
    hr_stream_fail(r->batch->stream, &err);
}

/* Storage trouble is not bad data: the same bytes are asked for again, later and later, up to a
 * deadline, and never skipped. */
static bool try_later(struct hr_engine *e, struct hr_read *r)
{
    uint64_t now = hr_clock_ns();
    uint64_t wait_ms = BACKOFF_FIRST_MS << (r->tries < 7 ? r->tries : 7);

    if (r->tries == 0) {
        r->give_up_ns = now + (uint64_t)(e->plan->storage_deadline_s * 1e9);
        hr_log(HR_LOG_WARN, "read of %u bytes at offset %" PRIu64 " of '%s' failed: %s; trying again",
               r->request.bytes, r->request.off,
               hr_sources_file_path(&e->plan->sources, (uint32_t)r->request.file),
               r->request.sys_errno ? strerror(r->request.sys_errno) : "fewer bytes than the file has");
    }
    r->tries++;
    atomic_fetch_add_explicit(&e->read_errors, 1, memory_order_relaxed);
    if (now >= r->give_up_ns) {
        storage_failed(e, r);
        return false;
    }
    if (wait_ms > BACKOFF_MAX_MS)
        wait_ms = BACKOFF_MAX_MS;
    r->due_ns = now + wait_ms * HR_NS_PER_MS;
    r->next = e->delayed;
    e->delayed = r;
    return true;
}

static void resubmit_due(struct hr_engine *e)
{
    struct hr_read *r = e->delayed;
    uint64_t now = r ? hr_clock_ns() : 0;

    e->delayed = NULL;
    while (r) {
        struct hr_read *next = r->next;
        bool moot = atomic_load_explicit(&r->batch->cancelled, memory_order_relaxed);
        if (r->due_ns <= now || moot) {
            atomic_fetch_add_explicit(&e->io_retries, 1, memory_order_relaxed);
            submit(e, r);
        } else {
            r->next = e->delayed;
            e->delayed = r;
        }
        r = next;
    }
}

/* A read that came back short although the file is long enough is storage trouble as well. */
static bool is_storage_trouble(const struct hr_engine *e, const struct hr_read *r)
{
    struct stat st;

    if (r->request.result != HR_E_TRUNCATED)
        return r->request.result == HR_E_IO;
    return fstat(e->files[r->request.file].fd, &st) == 0 &&
           (uint64_t)st.st_size >= r->request.off + r->request.bytes;
}

static void read_done(struct hr_engine *e, struct hr_read *r)
{
    bool cancelled = atomic_load_explicit(&r->batch->cancelled, memory_order_relaxed);
    struct hr_sample_field *sf = r->fields;

    if (r->request.result < 0 && !cancelled && is_storage_trouble(e, r) && try_later(e, r))
        return;
    while (sf) {
        struct hr_sample_field *next = sf->next;
        struct hr_sample *s = sf->sample;
        if (r->request.result < 0 &&
            (r->request.result != HR_E_TRUNCATED ||
             (uint64_t)r->skip + sf->delta + sf->want_bytes > r->request.done_bytes))
            s->io_error = HR_E_TRUNCATED;
        sf->bytes = r->buf ? r->buf->data + r->skip + sf->delta : (uint8_t *)r->request.dst;
        if (--s->pending == 0)
            sample_read(e, s);
        sf = next;
    }
    put_read(e, r);
}

/* ---- from a group of planned samples to reads ---- */

static bool goes_direct(const struct hr_engine *e, uint64_t bytes)
{
    return e->direct && bytes >= DIRECT_IO_MIN;
}

/* Bytes that a span's buffer takes, and its alignment. */
static uint64_t span_room(const struct hr_engine *e, const struct hr_io_span *span, uint32_t *align)
{
    const struct hr_shard_file *file = &e->files[span->file];

    *align = 64;
    if (!goes_direct(e, span->bytes) || file->direct_fd < 0)
        return span->bytes + HR_CHAIN_PADDING;
    *align = file->direct_align;
    return hr_align_up(span->off + span->bytes, file->direct_align) -
           hr_align_down(span->off, file->direct_align) + HR_CHAIN_PADDING;
}

static void read_span(struct hr_engine *e, struct hr_batch *batch, const struct hr_io_span *span,
                      const struct hr_io_range *ranges)
{
    struct hr_read *r = take_read(e);
    const struct hr_shard_file *file = &e->files[span->file];
    uint32_t align;
    uint64_t room = span_room(e, span, &align);

    r->batch = batch;
    r->buf = hr_iobufs_take(&e->bufs, room, align, span->count);
    HR_ASSERT(r->buf); /* probed before */
    r->request.file = span->file;
    r->request.off = span->off;
    r->request.bytes = (uint32_t)span->bytes;
    if (align > 64) {
        r->request.direct = true;
        r->request.off = hr_align_down(span->off, file->direct_align);
        r->skip = (uint32_t)(span->off - r->request.off);
        r->request.bytes = (uint32_t)hr_align_up(r->skip + span->bytes, file->direct_align);
    }
    r->request.dst = r->buf->data;
    for (uint32_t i = 0; i < span->count; i++) {
        const struct hr_io_range *range = &ranges[span->first + i];
        struct hr_sample *s = e->group.members[range->tag / HR_MAX_FIELDS];
        struct hr_sample_field *sf = &s->fields[range->tag % HR_MAX_FIELDS];
        sf->buf = r->buf;
        sf->delta = (uint32_t)(range->off - span->off);
        sf->next = r->fields;
        r->fields = sf;
    }
    submit(e, r);
}

static void read_into_slot(struct hr_engine *e, struct hr_sample *s, uint32_t field,
                           const struct hr_sample_want *want, uint8_t *dst)
{
    struct hr_read *r = take_read(e);

    s->fields[field].direct = true;
    s->fields[field].next = NULL;
    r->batch = s->batch;
    r->fields = &s->fields[field];
    r->request.file = (int)want->shard;
    r->request.off = want->off;
    r->request.bytes = (uint32_t)want->bytes;
    r->request.dst = dst;
    submit(e, r);
}

/* Splits the group's wants into ranges for spans and direct reads (kept for later). */
static uint32_t collect_ranges(struct hr_engine *e, uint32_t first, uint32_t count)
{
    struct hr_group *g = &e->group;
    uint32_t fields = e->plan->field_count, n = 0;
    uint8_t *dst;

    for (uint32_t k = first; k < first + count; k++) {
        for (uint32_t f = 0; f < fields; f++) {
            const struct hr_sample_want *want = &g->wants[k * fields + f];
            if (want->bytes == 0 || hr_sample_direct(g->members[k], f, &dst))
                continue;
            g->ranges[n++] = (struct hr_io_range){.file = (int)want->shard,
                                                  .off = want->off,
                                                  .bytes = (uint32_t)want->bytes,
                                                  .tag = k * HR_MAX_FIELDS + f};
        }
    }
    return n;
}

static bool spans_fit(struct hr_engine *e, uint32_t span_count, uint32_t direct_count)
{
    struct hr_iobufs_probe probe;
    uint32_t needed = span_count + direct_count;
    struct hr_read *r = e->free_reads;

    while (r && needed > 0) {
        r = r->next;
        needed--;
    }
    if (needed > 0)
        return false;
    hr_iobufs_probe_begin(&e->bufs, &probe);
    for (uint32_t i = 0; i < span_count; i++) {
        uint32_t align;
        uint64_t room = span_room(e, &e->group.spans[i], &align);
        if (!hr_iobufs_probe_add(&e->bufs, &probe, room, align))
            return false;
    }
    return true;
}

/* Issues the reads of count samples from the group's front; false when there is no room now. */
static bool issue(struct hr_engine *e, uint32_t count)
{
    struct hr_group *g = &e->group;
    uint32_t fields = e->plan->field_count, first = g->first, direct = 0;
    uint32_t range_count = collect_ranges(e, first, count);
    uint8_t *dst;

    for (uint32_t k = first; k < first + count; k++)
        for (uint32_t f = 0; f < fields; f++)
            if (g->wants[k * fields + f].bytes && hr_sample_direct(g->members[k], f, &dst))
                direct++;
    uint32_t span_count =
        hr_io_coalesce(g->ranges, range_count, COALESCE_GAP, COALESCE_MAX, g->spans);
    if (!spans_fit(e, span_count, direct))
        return false;
    for (uint32_t k = first; k < first + count; k++) {
        struct hr_sample *s = g->members[k];
        s->pending = 1; /* held while its reads are handed out: they may complete at once */
        s->io_error = 0;
        for (uint32_t f = 0; f < fields; f++)
            s->pending += g->wants[k * fields + f].bytes > 0;
    }
    for (uint32_t i = 0; i < span_count; i++)
        read_span(e, g->batch, &g->spans[i], g->ranges);
    for (uint32_t k = first; k < first + count; k++) {
        struct hr_sample *s = g->members[k];
        for (uint32_t f = 0; f < fields; f++) {
            const struct hr_sample_want *want = &g->wants[k * fields + f];
            if (want->bytes && hr_sample_direct(s, f, &dst))
                read_into_slot(e, s, f, want, dst);
        }
        if (--s->pending == 0)
            sample_read(e, s);
    }
    g->first += count;
    return true;
}

/* Issues what the group still holds; false when it has to wait for room. */
static bool drain_group(struct hr_engine *e)
{
    struct hr_group *g = &e->group;

    while (g->first < g->count) {
        uint32_t n = g->count - g->first;
        while (!issue(e, n)) {
            if (n == 1)
                return false;
            n /= 2;
        }
    }
    g->first = g->count = 0;
    return true;
}

/* ---- planning ---- */

static void plan_member(struct hr_engine *e, struct hr_sample *s)
{
    struct hr_group *g = &e->group;
    struct hr_error err;

    const struct hr_culprit *culprit = hr_flight_culprit(e->flight, s->place.source, s->record);
    if (HR_UNLIKELY(culprit != NULL)) {
        hr_culprit_error(e->plan, culprit, &err);
        sample_bad(e, s, &err);
        return;
    }
    struct hr_flight_seat *seat = &e->flight->seats[HR_FLIGHT_READER];
    hr_flight_take(seat, s->place.source, s->record, 0);
    int ret = hr_sample_plan_record(s, &g->wants[g->count * e->plan->field_count], &err);
    hr_flight_drop(seat);
    if (ret < 0) {
        if (err.record == HR_NO_RECORD)
            hr_sources_error_at(&e->plan->sources, s->place.source, s->record, NULL, -1, &err);
        sample_bad(e, s, &err);
        return;
    }
    g->members[g->count++] = s;
}

static void plan_sample(struct hr_engine *e, struct hr_batch *batch, uint32_t index,
                        const struct hr_place *place)
{
    struct hr_sample *s = &batch->samples[index];

    s->place = *place;
    s->record = s->place.record;
    s->attempt = 0;
    s->next = NULL;
    if (!s->place.valid) {
        hr_batch_mask(batch, index);
        for (uint32_t i = 0; i < e->plan->output_count; i++)
            s->rooms[i] = (struct hr_sample_room){.start = batch->room_end[i]};
        hr_engine_sample_done(batch, 1);
        return;
    }
    plan_member(e, s);
}

/* Plans the next group of one batch; true when the batch is planned to its end. */
static bool plan_group(struct hr_engine *e, struct hr_batch *batch)
{
    struct hr_group *g = &e->group;

    g->batch = batch;
    if (atomic_load_explicit(&batch->cancelled, memory_order_relaxed)) {
        hr_engine_sample_done(batch, batch->count - batch->planned);
        batch->planned = batch->count;
        return true;
    }
    struct hr_place places[HR_ENGINE_GROUP];
    uint32_t n = batch->count - batch->planned;
    if (n > HR_ENGINE_GROUP - g->count)
        n = HR_ENGINE_GROUP - g->count;
    hr_order_places(&e->plan->order, batch->cursor,
                    hr_batch_header(batch)->first + batch->planned, n, places);
    for (uint32_t i = 0; i < n; i++)
        plan_sample(e, batch, batch->planned++, &places[i]);
    return batch->planned == batch->count;
}

/* Replacements come first: their batches are the oldest. One group holds samples of one batch. */
static void plan_retries(struct hr_engine *e)
{
    struct hr_sample *s = e->retry_first;

    while (s && e->group.count < HR_ENGINE_GROUP &&
           (e->group.count == 0 || e->group.batch == s->batch)) {
        e->retry_first = s->next;
        if (!e->retry_first)
            e->retry_end = &e->retry_first;
        e->group.batch = s->batch;
        if (atomic_load_explicit(&s->batch->cancelled, memory_order_relaxed))
            hr_engine_sample_done(s->batch, 1);
        else
            plan_member(e, s);
        s = e->retry_first;
    }
}

static void planned_to_end(struct hr_engine *e)
{
    struct hr_batch *batch = e->planning[0];

    e->planning_count--;
    memmove(e->planning, e->planning + 1, e->planning_count * sizeof(e->planning[0]));
    /* Gives up planning's own hold, see hr_batch_begin. */
    hr_engine_sample_done(batch, 1);
}

static void plan_and_issue(struct hr_engine *e)
{
    uint64_t t0 = e->options.timed ? hr_clock_ns() : 0;

    while (drain_group(e)) {
        if (e->retry_first) {
            plan_retries(e);
        } else if (e->planning_count > 0) {
            bool end = plan_group(e, e->planning[0]);
            /* The group's samples keep the batch alive by their own counts. */
            if (end)
                planned_to_end(e);
        } else {
            break;
        }
    }
    if (e->options.timed)
        atomic_fetch_add_explicit(&e->plan_ns, hr_clock_ns() - t0, memory_order_relaxed);
}

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
            struct hr_stream *s = atomic_load_explicit(&e->streams[i], memory_order_relaxed);
            if (!s)
                break;
            if (!s->running || e->planning_count == HR_ENGINE_MAX_STREAMS)
                continue;
            hr_ring_collect(s->ring);
            begun |= begin_batch(e, s);
        }
        if (begun)
            plan_and_issue(e);
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

static void carry_out(struct hr_engine *e, struct hr_stream *s, bool *left)
{
    s->running = false;
    if (s->seek_wanted || s->close_wanted) {
        cancel_batches(s);
        if (hr_stream_in_flight(s) > 0)
            return; /* looked at again when its last batch is out of the way */
    }
    if (s->seek_wanted) {
        hr_ring_collect(s->ring);
        hr_ring_flush(s->ring);
        s->state = s->seek_state;
        s->sequence = 0;
        s->ended = false;
        pthread_mutex_lock(&s->lock);
        s->status = 0;
        pthread_mutex_unlock(&s->lock);
        s->running = true;
    }
    if (s->close_wanted) {
        s->running = false;
        leave_table(e, s);
        *left = true;
    }
    s->seek_wanted = s->pause_wanted = s->close_wanted = false;
    pthread_cond_broadcast(&e->command_done);
}

static void carry_out_commands(struct hr_engine *e)
{
    pthread_mutex_lock(&e->command_lock);
    for (int i = 0; i < HR_ENGINE_MAX_STREAMS; i++) {
        struct hr_stream *s = atomic_load_explicit(&e->streams[i], memory_order_relaxed);
        bool left = false;
        if (!s)
            break;
        if (s->seek_wanted || s->pause_wanted || s->close_wanted)
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
        push_retry(e, s);
    }
}

/* ---- the loop ---- */

static uint64_t next_deadline(const struct hr_engine *e)
{
    uint64_t deadline = UINT64_MAX;

    for (const struct hr_read *r = e->delayed; r; r = r->next)
        deadline = hr_min_u64(deadline, r->due_ns);
    /* Room in the buffers comes back without a wake: workers only drop references. */
    if (e->group.count)
        deadline = hr_min_u64(deadline, hr_clock_ns() + HR_NS_PER_MS / 2);
    return deadline;
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
    n = e->reader->ops->reap(e->reader, done, REAP_MAX, next_deadline(e));
    for (int i = 0; i < n; i++)
        read_done(e, (struct hr_read *)done[i]);
    if (n > 0 && e->backlog)
        submit_backlog(e);
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
        resubmit_due(e);
        plan_and_issue(e);
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
