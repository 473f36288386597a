/* Reads on their way (reader thread): handed to the reader, back from it, tried again when storage fails;
 * samples go to the pool when all their bytes are in. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/engine_parts.h"

enum { BACKOFF_FIRST_MS = 10, BACKOFF_MAX_MS = 1000 };

/* ---- finishing samples here, and bad records found here ---- */

void hr_reads_retry(struct hr_engine *e, struct hr_sample *s)
{
    s->next = NULL;
    *e->retry_end = s;
    e->retry_end = &s->next;
}

void hr_reads_sample_bad(struct hr_engine *e, struct hr_sample *s, const struct hr_error *why)
{
    if (hr_engine_sample_bad(e, s, why))
        hr_reads_retry(e, s);
    else
        hr_engine_sample_done(s->batch, 1);
}

static void sample_ready(struct hr_engine *e, struct hr_sample *s)
{
    hr_batch_push_ready(s->batch, s->index);
    e->pushed++;
}

/* All reads of a sample are back. */
void hr_reads_sample_back(struct hr_engine *e, struct hr_sample *s)
{
    struct hr_error err;

    atomic_fetch_add_explicit(&e->wanted_bytes, s->wanted_bytes, memory_order_relaxed);
    if (s->io_error == 0) {
        sample_ready(e, s);
        return;
    }
    hr_sample_drop_buffers(s);
    /* Its reads were not tried again once nobody wanted them: that says nothing about the record. */
    if (atomic_load_explicit(&s->batch->cancelled, memory_order_relaxed)) {
        hr_engine_sample_done(s->batch, 1);
        return;
    }
    hr_fail(&err, s->io_error, "the shard's file ends before this record's bytes");
    hr_sources_error_at(&e->plan->sources, s->place.source, s->record, NULL, -1, &err);
    hr_reads_sample_bad(e, s, &err);
}

/* ---- submitting ---- */

struct hr_read *hr_reads_take(struct hr_engine *e)
{
    struct hr_read *r = e->free_reads;

    HR_ASSERT(r);
    e->free_reads = r->next;
    e->reads_out++;
    memset(r, 0, sizeof(*r));
    return r;
}

static void put_read(struct hr_engine *e, struct hr_read *r)
{
    r->next = e->free_reads;
    e->free_reads = r;
    e->reads_out--;
}

void hr_reads_submit(struct hr_engine *e, struct hr_read *r)
{
    switch (e->reader->ops->submit(e->reader, &r->request)) {
    case HR_IO_DONE:
        hr_reads_done(e, r);
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

void hr_reads_submit_backlog(struct hr_engine *e)
{
    struct hr_read *r = e->backlog;

    e->backlog = NULL;
    e->backlog_end = &e->backlog;
    while (r) {
        struct hr_read *next = r->next;
        hr_reads_submit(e, r);
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
    hr_error_hint(&err, "see the kernel log of this machine; storage_deadline_s sets how long to try");
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

void hr_reads_submit_due(struct hr_engine *e)
{
    struct hr_read *r = e->delayed;
    uint64_t now = r ? hr_clock_ns() : 0;

    e->delayed = NULL;
    while (r) {
        struct hr_read *next = r->next;
        bool moot = atomic_load_explicit(&r->batch->cancelled, memory_order_relaxed);
        if (r->due_ns <= now || moot) {
            atomic_fetch_add_explicit(&e->io_retries, 1, memory_order_relaxed);
            hr_reads_submit(e, r);
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

void hr_reads_done(struct hr_engine *e, struct hr_read *r)
{
    bool cancelled = atomic_load_explicit(&r->batch->cancelled, memory_order_relaxed);
    struct hr_sample_field *sf = r->fields;

    if (r->request.result < 0 && !cancelled && is_storage_trouble(e, r) && try_later(e, r))
        return;
    while (sf) {
        struct hr_sample_field *next = sf->next;
        struct hr_sample *s = sf->sample;
        uint64_t needed = r->part_bytes ? r->part_bytes : (uint64_t)r->skip + sf->delta + sf->want_bytes;
        if (r->request.result < 0 &&
            (r->request.result != HR_E_TRUNCATED || needed > r->request.done_bytes))
            s->io_error = HR_E_TRUNCATED;
        sf->bytes = r->buf ? r->buf->data + r->skip + sf->delta : (uint8_t *)r->request.dst;
        if (--s->pending == 0)
            hr_reads_sample_back(e, s);
        sf = next;
    }
    put_read(e, r);
}
