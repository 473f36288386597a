/* Samples planned together (reader thread): what they need becomes few large reads, or waits for room in
 * the buffers. Replacements of bad records come first. */
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline/engine_parts.h"

enum {
    COALESCE_GAP = 8 * 1024,
    COALESCE_MAX = 1024 * 1024,
    DIRECT_IO_MIN = 64 * 1024,
};

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
    struct hr_read *r = hr_reads_take(e);
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
    hr_reads_submit(e, r);
}

static void read_into_slot(struct hr_engine *e, struct hr_sample *s, uint32_t field,
                           const struct hr_sample_want *want, uint8_t *dst)
{
    struct hr_read *r = hr_reads_take(e);

    s->fields[field].direct = true;
    s->fields[field].next = NULL;
    r->batch = s->batch;
    r->fields = &s->fields[field];
    r->request.file = (int)want->shard;
    r->request.off = want->off;
    r->request.bytes = (uint32_t)want->bytes;
    r->request.dst = dst;
    hr_reads_submit(e, r);
}

/* The ranges of count samples that go through shared buffers; alone gets the number of reads that do not:
 * straight into the slot, and parts of values. */
static uint32_t collect_ranges(struct hr_engine *e, uint32_t first, uint32_t count, uint32_t *alone)
{
    struct hr_group *g = &e->group;
    uint32_t fields = e->plan->field_count, n = 0;
    uint8_t *dst;

    *alone = 0;
    for (uint32_t k = first; k < first + count; k++) {
        for (uint32_t f = 0; f < fields; f++) {
            const struct hr_sample_want *want = &g->wants[k * fields + f];
            if (want->bytes == 0)
                continue;
            if (want->in_parts || hr_sample_direct(g->members[k], f, &dst)) {
                *alone += want->in_parts ? hr_parts_count(g->members[k], f) : 1;
                continue;
            }
            g->ranges[n++] = (struct hr_io_range){.file = (int)want->shard,
                                                  .off = want->off,
                                                  .bytes = (uint32_t)want->bytes,
                                                  .tag = k * HR_MAX_FIELDS + f};
        }
    }
    return n;
}

static bool spans_fit(struct hr_engine *e, uint32_t span_count, uint32_t alone_count,
                      const struct hr_sample_want *wants, uint32_t sample_count)
{
    struct hr_iobufs_probe probe;
    uint32_t needed = span_count + alone_count;
    struct hr_read *r = e->free_reads;

    while (r && needed > 0) {
        r = r->next;
        needed--;
    }
    if (needed > 0)
        return false;
    hr_iobufs_probe_begin(&e->bufs, &probe, sample_count == 1);
    for (uint32_t i = 0; i < span_count; i++) {
        uint32_t align;
        uint64_t room = span_room(e, &e->group.spans[i], &align);
        if (!hr_iobufs_probe_add(&e->bufs, &probe, room, align))
            return false;
    }
    for (uint32_t i = 0; i < sample_count * e->plan->field_count; i++)
        if (wants[i].in_parts &&
            !hr_iobufs_probe_add(&e->bufs, &probe, hr_parts_room(&wants[i]), HR_CHAIN_PART_ALIGN))
            return false;
    return true;
}

/* Issues the reads of count samples from the group's front; false when there is no room now. */
static bool issue(struct hr_engine *e, uint32_t count)
{
    struct hr_group *g = &e->group;
    uint32_t fields = e->plan->field_count, first = g->first, alone;
    uint32_t range_count = collect_ranges(e, first, count, &alone);
    uint8_t *dst;

    uint32_t span_count =
        hr_io_coalesce(g->ranges, range_count, COALESCE_GAP, COALESCE_MAX, g->spans);
    if (!spans_fit(e, span_count, alone, &g->wants[first * fields], count))
        return false;
    for (uint32_t k = first; k < first + count; k++) {
        struct hr_sample *s = g->members[k];
        s->pending = 1; /* held while its reads are handed out: they may complete at once */
        s->io_error = 0;
        s->wanted_bytes = 0;
        for (uint32_t f = 0; f < fields; f++) {
            const struct hr_sample_want *want = &g->wants[k * fields + f];
            s->pending += want->in_parts ? hr_parts_count(s, f) : want->bytes > 0;
            s->wanted_bytes += want->bytes;
        }
    }
    for (uint32_t i = 0; i < span_count; i++)
        read_span(e, g->batch, &g->spans[i], g->ranges);
    for (uint32_t k = first; k < first + count; k++) {
        struct hr_sample *s = g->members[k];
        for (uint32_t f = 0; f < fields; f++) {
            const struct hr_sample_want *want = &g->wants[k * fields + f];
            if (want->in_parts)
                hr_parts_read(e, s, f, want);
            else if (want->bytes && hr_sample_direct(s, f, &dst))
                read_into_slot(e, s, f, want, dst);
        }
        if (--s->pending == 0)
            hr_reads_sample_back(e, s);
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

/* What lies in the page cache may be what was wrong: without it the bytes come from storage. */
static HR_COLD void drop_cached(const struct hr_engine *e, const struct hr_sample *s,
                                const struct hr_sample_want *want)
{
    for (uint32_t f = 0; f < e->plan->field_count; f++)
        if (want[f].bytes)
            posix_fadvise(e->files[want[f].shard].fd, (off_t)want[f].off,
                          (off_t)(want[f].in_parts ? s->fields[f].place.bytes : want[f].bytes),
                          POSIX_FADV_DONTNEED);
}

static void plan_member(struct hr_engine *e, struct hr_sample *s)
{
    struct hr_group *g = &e->group;
    struct hr_error err;

    const struct hr_culprit *culprit = hr_flight_culprit(e->flight, s->place.source, s->record);
    if (HR_UNLIKELY(culprit != NULL)) {
        hr_culprit_error(e->plan, culprit, &err);
        hr_reads_sample_bad(e, s, &err);
        return;
    }
    struct hr_flight_seat *seat = &e->flight->seats[HR_FLIGHT_READER];
    hr_flight_take(seat, s->place.source, s->record, 0);
    int ret = hr_sample_plan_record(s, &g->wants[g->count * e->plan->field_count], &err);
    hr_flight_drop(seat);
    if (ret < 0) {
        if (err.record == HR_NO_RECORD)
            hr_sources_error_at(&e->plan->sources, s->place.source, s->record, NULL, -1, &err);
        hr_reads_sample_bad(e, s, &err);
        return;
    }
    if (HR_UNLIKELY(s->rereads > 0))
        drop_cached(e, s, &g->wants[g->count * e->plan->field_count]);
    g->members[g->count++] = s;
}

static void plan_sample(struct hr_engine *e, struct hr_batch *batch, uint32_t index,
                        const struct hr_place *place)
{
    struct hr_sample *s = &batch->samples[index];

    s->place = *place;
    s->record = s->place.record;
    s->attempt = 0;
    s->rereads = 0;
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

void hr_group_feed(struct hr_engine *e)
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
