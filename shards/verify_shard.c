/* Checking one shard: index and digest, then every value in file order, blocks, and the padding
 * between them. Payload is read once, through a window. */
#include "verify_shard.h"

#include <fcntl.h>
#include <lz4.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"

enum { WINDOW_BYTES = 4 << 20 };

/* A stretch of the file in memory. */
struct window {
    uint8_t *data;
    uint64_t cap, off, bytes;
};

struct check {
    struct hr_verify_job *job;
    int fd;
    struct hr_shard *shard;
    struct hr_schema schema;
    struct window window;
    uint8_t *block; /* decompressed */
    uint64_t block_cap;
};

static void report(struct check *c, uint64_t record, const char *field, int64_t off, int code,
                   const char *reason)
{
    struct hr_verify_problem p = {.shard = c->job->name, .record = HR_NO_RECORD, .field = field,
                                  .offset = off, .code = code, .reason = reason};
    uint64_t key_bytes;

    if (record != HR_NO_RECORD) {
        p.record = c->job->first_record + record;
        const uint8_t *key = hr_strings_get(&c->shard->keys, record, &key_bytes);
        p.key = key ? (const char *)key : "";
        p.key_bytes = (uint32_t)key_bytes;
    }
    c->job->problems++;
    c->job->report(c->job->arg, &p);
}

static bool stopped(const struct check *c)
{
    return atomic_load_explicit(c->job->stop, memory_order_relaxed);
}

/* bytes at off, from the window; reads on to at most limit. NULL: reason is in err. */
static const uint8_t *view(struct check *c, uint64_t off, uint64_t bytes, uint64_t limit,
                           struct hr_error *err)
{
    struct window *w = &c->window;

    if (off >= w->off && off - w->off <= w->bytes && bytes <= w->bytes - (off - w->off))
        return w->data + (off - w->off);
    uint64_t want = hr_min_u64(hr_max_u64(bytes, WINDOW_BYTES), limit - off);
    if (want > w->cap) {
        hr_free(w->data);
        w->cap = hr_max_u64(want, WINDOW_BYTES);
        w->data = hr_alloc(w->cap);
    }
    w->bytes = 0;
    if (!w->data) {
        w->cap = 0;
        hr_fail(err, HR_E_NOMEM, "no memory to read %llu bytes", (unsigned long long)want);
        return NULL;
    }
    if (hr_fd_pread_full(c->fd, w->data, want, off, err) < 0)
        return NULL;
    w->off = off;
    w->bytes = want;
    atomic_fetch_add_explicit(c->job->bytes_done, want, memory_order_relaxed);
    return w->data;
}

static void check_zeros(struct check *c, uint64_t off, uint64_t bytes)
{
    struct hr_error err = HR_ERROR_INIT;

    while (bytes > 0 && !stopped(c)) {
        uint64_t n = hr_min_u64(bytes, WINDOW_BYTES);
        const uint8_t *p = view(c, off, n, c->shard->payload_end, &err);
        if (!p) {
            report(c, HR_NO_RECORD, "", (int64_t)off, err.code, err.text);
            return;
        }
        for (uint64_t i = 0; i < n; i++)
            if (p[i]) {
                report(c, HR_NO_RECORD, "", (int64_t)(off + i), HR_E_CORRUPT, "padding is not zero");
                return;
            }
        off += n;
        bytes -= n;
    }
}

/* Everything between extents is zero. */
static void check_gaps(struct check *c)
{
    uint64_t next[HR_CODEC_LZ4HC + 1] = {0}, after = HRS_HEADER_BYTES;

    for (;;) {
        uint32_t first = UINT32_MAX;
        uint64_t first_off = c->shard->payload_end;
        for (uint32_t k = 0; k < c->shard->stream_count; k++) {
            const struct hr_stream_index *s = &c->shard->streams[k];
            if (next[k] < s->extent_count && hr_column_get(&s->extent_offsets, next[k]) < first_off) {
                first_off = hr_column_get(&s->extent_offsets, next[k]);
                first = k;
            }
        }
        check_zeros(c, after, first_off - after);
        if (first == UINT32_MAX)
            return;
        after = first_off + hr_column_get(&c->shard->streams[first].extent_stored, next[first]);
        next[first]++;
    }
}

/* ---- values ---- */

struct cursor {
    const struct hr_stream_index *s;
    uint64_t pos;               /* raw, after the value before */
    uint64_t extent;            /* that the position is in */
    uint64_t raw, end, off, stored; /* of the extent */
    const uint8_t *block;       /* its decompressed bytes; NULL = not readable */
    const char *block_fault;
};

static void enter_extent(struct cursor *at, uint64_t i)
{
    const struct hr_stream_index *s = at->s;

    at->extent = i;
    at->raw = hr_column_get(&s->extent_raw, i);
    at->end = i + 1 < s->extent_count ? hr_column_get(&s->extent_raw, i + 1) : s->raw_bytes;
    at->off = hr_column_get(&s->extent_offsets, i);
    at->stored = hr_column_get(&s->extent_stored, i);
}

static void open_block(struct check *c, struct cursor *at, uint64_t record)
{
    struct hr_error err = HR_ERROR_INIT;
    uint64_t bytes = at->end - at->raw;
    const uint8_t *stored = view(c, at->off, at->stored, c->shard->payload_end, &err);

    at->block = NULL;
    at->block_fault = "its block cannot be read";
    if (!stored) {
        report(c, HR_NO_RECORD, "", (int64_t)at->off, err.code, err.text);
        return;
    }
    if (hr_checksum(stored, at->stored) != hr_column_get(&at->s->extent_checksums, at->extent))
        report(c, record, "", (int64_t)at->off, HR_E_CHECKSUM, "checksum mismatch of a compressed block");
    if (at->stored == bytes) {
        at->block = stored;
        return;
    }
    if (bytes > c->block_cap) {
        hr_free(c->block);
        c->block = hr_alloc(bytes);
        c->block_cap = c->block ? bytes : 0;
    }
    at->block_fault = c->block ? "its block cannot be decompressed" : "no memory for its block";
    if (c->block && LZ4_decompress_safe((const char *)stored, (char *)c->block, (int)at->stored,
                                        (int)bytes) == (int)bytes)
        at->block = c->block;
}

/* Padding before a large value; it may begin in the extent before. */
static void check_padding(struct check *c, struct cursor *at, uint64_t start)
{
    while (at->pos < start) {
        while (at->pos >= at->end)
            enter_extent(at, at->extent + 1);
        uint64_t n = hr_min_u64(start, at->end) - at->pos;
        check_zeros(c, at->off + (at->pos - at->raw), n);
        at->pos += n;
    }
}

static const uint8_t *value_bytes(struct check *c, struct cursor *at, uint64_t record, uint64_t bytes,
                                  uint64_t *off, struct hr_error *err)
{
    bool entered = false;

    if (at->s->codec == HR_CODEC_NONE)
        check_padding(c, at, hr_hrs_value_start(at->pos, bytes));
    while (at->pos >= at->end) {
        enter_extent(at, at->extent + 1);
        entered = true;
    }
    if (at->s->codec == HR_CODEC_NONE) {
        *off = at->off + (at->pos - at->raw);
        return view(c, *off, bytes, at->off + at->stored, err);
    }
    if (entered || at->pos == at->raw)
        open_block(c, at, record);
    *off = at->off;
    if (!at->block)
        hr_fail(err, HR_E_CHECKSUM, "%s", at->block_fault);
    return at->block ? at->block + (at->pos - at->raw) : NULL;
}

static void check_value(struct check *c, struct cursor *at, uint64_t record, uint32_t field)
{
    const struct hr_field_index *f = &c->shard->fields[field];
    const char *name = c->schema.fields[field].name;
    struct hr_error err = HR_ERROR_INIT;
    uint64_t bytes = hr_column_get(&f->lengths, record), off = 0;
    uint32_t checksum = (uint32_t)hr_column_get(&f->checksums, record);
    const uint8_t *p = (const uint8_t *)"";

    if (!hr_field_present(f, record))
        return;
    if (bytes > 0) {
        p = value_bytes(c, at, record, bytes, &off, &err);
        at->pos += bytes;
    }
    c->job->values++;
    if (!p)
        report(c, record, name, (int64_t)off, err.code, err.text);
    else if (hr_checksum(p, bytes) != checksum)
        report(c, record, name, (int64_t)off, HR_E_CHECKSUM, "checksum mismatch");
}

static void check_stream(struct check *c, uint32_t stream)
{
    struct cursor at = {.s = &c->shard->streams[stream]};

    if (at.s->extent_count > 0)
        enter_extent(&at, 0);
    for (uint64_t r = 0; r < c->shard->record_count && !stopped(c); r++)
        for (uint32_t k = 0; k < at.s->field_count; k++)
            check_value(c, &at, r, at.s->fields[k]);
}

/* ---- the shard ---- */

static void check_manifest_row(struct check *c)
{
    const struct hr_shard_info *want = c->job->expected;

    if (!want)
        return;
    if (c->job->schema && !hr_schema_covers(c->job->schema, &c->schema))
        report(c, HR_NO_RECORD, "", -1, HR_E_CORRUPT, "schema differs from the manifest's");
    if (c->shard->file_bytes != want->bytes)
        report(c, HR_NO_RECORD, "", -1, HR_E_CORRUPT, "size differs from the manifest's");
    if (c->shard->record_count != want->record_count)
        report(c, HR_NO_RECORD, "", -1, HR_E_CORRUPT, "number of records differs from the manifest's");
    if (!hr_digest_equal(&c->shard->digest, &want->digest))
        report(c, HR_NO_RECORD, "", -1, HR_E_CORRUPT, "digest differs from the manifest's");
}

static void check_payload(struct check *c)
{
    c->fd = hr_fd_open(c->job->path, O_RDONLY | O_NONBLOCK, 0, NULL);
    if (c->fd < 0) {
        report(c, HR_NO_RECORD, "", -1, c->fd, "cannot be opened any more");
        return;
    }
    posix_fadvise(c->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    check_gaps(c);
    for (uint32_t i = 0; i < c->shard->stream_count; i++)
        check_stream(c, i);
    if (!stopped(c))
        c->job->records = c->shard->record_count;
}

void hr_verify_shard(struct hr_verify_job *job)
{
    struct check c = {.job = job, .fd = -1};
    struct hr_error err = HR_ERROR_INIT;

    if (hr_shard_open(job->path, true, &c.shard, &c.schema, &err) < 0) {
        report(&c, HR_NO_RECORD, err.field, err.offset, err.code, err.text);
        return;
    }
    atomic_fetch_add_explicit(job->bytes_done, c.shard->file_bytes - c.shard->payload_end,
                              memory_order_relaxed);
    check_manifest_row(&c);
    check_payload(&c);
    hr_fd_close(&c.fd);
    hr_free(c.window.data);
    hr_free(c.block);
    hr_shard_close(c.shard);
    hr_schema_finish(&c.schema);
}
