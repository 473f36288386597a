/* The engine's set-up and tear-down, its control calls and statistics. */
#include "pipeline/engine.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/mem.h"
#include "pipeline/engine_parts.h"

enum {
    READ_COUNT = 2048,
    BUF_ENTRIES = 4096,
};

static int open_files(struct hr_engine *e, struct hr_error *err)
{
    const struct hr_sources *sources = &e->plan->sources;

    e->file_count = sources->file_count;
    e->files = hr_alloc_zero(e->file_count, sizeof(*e->files));
    if (!e->files)
        return hr_fail(err, HR_E_NOMEM, "no memory for %u shards", e->file_count);
    for (uint32_t i = 0; i < e->file_count; i++)
        e->files[i].fd = e->files[i].direct_fd = -1;
    e->direct = hr_io_choose_direct(e->options.io, sources->bytes, hr_io_available_bytes());
    for (uint32_t i = 0; i < e->file_count; i++) {
        struct hr_shard_file *f = &e->files[i];
        int ret = hr_io_open_file(hr_sources_file_path(sources, i), e->direct, &f->fd,
                                  &f->direct_fd, &f->direct_align, err);
        if (ret < 0)
            return ret;
        if (f->direct_align > 4096) /* more than our buffers are aligned to */
            hr_fd_close(&f->direct_fd);
    }
    return 0;
}

static int make_buffers(struct hr_engine *e, struct hr_error *err)
{
    uint32_t fields = e->plan->field_count;
    struct hr_arena_sizes sizes = hr_arena_sizes(e);

    if (hr_iobufs_init(&e->bufs, sizes.arena_bytes, sizes.room_bytes, BUF_ENTRIES) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for %llu bytes of read-ahead",
                       (unsigned long long)hr_max_u64(sizes.arena_bytes, sizes.room_bytes));
    hr_window_init(&e->window, sizes.window_bytes, e->bufs.arena_bytes, hr_clock_ns());
    e->bufs.window_bytes = e->window.bytes;
    atomic_store_explicit(&e->window_bytes, e->window.bytes, memory_order_relaxed);
    e->reads = hr_alloc_zero(READ_COUNT, sizeof(*e->reads));
    e->group.wants = hr_alloc_zero((size_t)HR_ENGINE_GROUP * fields, sizeof(*e->group.wants));
    e->group.ranges = hr_alloc_zero((size_t)HR_ENGINE_GROUP * fields, sizeof(*e->group.ranges));
    e->group.spans = hr_alloc_zero((size_t)HR_ENGINE_GROUP * fields, sizeof(*e->group.spans));
    if (!e->reads || !e->group.wants || !e->group.ranges || !e->group.spans)
        return hr_fail(err, HR_E_NOMEM, "no memory for reads");
    for (uint32_t i = 0; i < READ_COUNT; i++) {
        e->reads[i].next = e->free_reads;
        e->free_reads = &e->reads[i];
    }
    e->backlog_end = &e->backlog;
    e->retry_end = &e->retry_first;
    return 0;
}

static int make_workers(struct hr_engine *e, struct hr_error *err)
{
    int count = e->options.workers > 0 ? e->options.workers : hr_cpu_quota();

    if (count > HR_ENGINE_MAX_WORKERS)
        count = HR_ENGINE_MAX_WORKERS;
    e->workers = hr_alloc_aligned(HR_CACHE_LINE, (size_t)count * sizeof(*e->workers));
    if (!e->workers)
        return hr_fail(err, HR_E_NOMEM, "no memory for %d workers", count);
    memset(e->workers, 0, (size_t)count * sizeof(*e->workers));
    /* A row of whole cache lines for each worker. */
    e->by_source_stride = (uint32_t)hr_align_up(e->plan->sources.count, 8);
    size_t by_source_bytes = (size_t)count * e->by_source_stride * sizeof(*e->by_source);
    e->by_source = hr_alloc_aligned(HR_CACHE_LINE, by_source_bytes);
    if (!e->by_source)
        return hr_fail(err, HR_E_NOMEM, "no memory for statistics");
    memset((void *)e->by_source, 0, by_source_bytes);
    for (int i = 0; i < count; i++) {
        struct hr_worker *w = &e->workers[i];
        w->engine = e;
        w->seat = &e->flight->seats[i];
        int ret = hr_finisher_init(&w->finisher, e->plan, err);
        if (ret < 0)
            return ret;
        e->worker_count = i + 1;
        w->finisher.field_in_hand = &w->seat->field;
        w->finisher.no_decode = e->options.no_decode;
        w->finisher.no_checksum = e->options.no_checksum;
        w->finisher.timed = e->options.timed;
        w->finisher.by_source = e->by_source + (size_t)i * e->by_source_stride;
    }
    return 0;
}

static int start_threads(struct hr_engine *e, struct hr_error *err)
{
    int ret = hr_thread_start(&e->feeder, "hr-reader", hr_feeder_main, e, err);

    if (ret < 0)
        return ret;
    e->feeder_started = true;
    pthread_mutex_lock(&e->command_lock);
    while (!e->feeder_ready)
        pthread_cond_wait(&e->command_done, &e->command_lock);
    ret = e->feeder_status;
    pthread_mutex_unlock(&e->command_lock);
    if (ret < 0) {
        if (err)
            *err = e->feeder_error;
        return ret;
    }
    for (int i = 0; i < e->worker_count; i++) {
        char name[16] = "hr-worker";
        ret = hr_thread_start(&e->workers[i].thread, name, hr_worker_main, &e->workers[i], err);
        if (ret < 0)
            return ret;
        e->workers[i].started = true;
    }
    return 0;
}

static int make_flight(struct hr_engine *e, struct hr_error *err)
{
    e->flight = e->options.flight;
    if (e->flight)
        return 0;
    e->flight = hr_flight_create(err);
    e->own_flight = true;
    return e->flight ? 0 : HR_E_NOMEM;
}

int hr_engine_create(const struct hr_plan *plan, const struct hr_engine_options *options,
                     struct hr_engine **out, struct hr_error *err)
{
    struct hr_engine *e = hr_alloc_aligned(HR_CACHE_LINE, sizeof(*e));
    int ret;

    if (!e)
        return hr_fail(err, HR_E_NOMEM, "no memory for the engine");
    memset(e, 0, sizeof(*e));
    e->plan = plan;
    e->options = *options;
    if (!e->options.reader)
        e->options.reader = "auto";
    /* The nil reader's zeros are no values: only the rest is measured. */
    if (strcmp(e->options.reader, "nil") == 0)
        e->options.no_checksum = e->options.no_decode = true;
    /* Tiny samples are claimed in bulk, so that the claim costs little beside the work. */
    e->grain = plan->chain_count > 0 ? 1 : HR_ENGINE_GROUP;
    pthread_mutex_init(&e->command_lock, NULL);
    pthread_cond_init(&e->command_done, NULL);
    pthread_mutex_init(&e->suspect_lock, NULL);
    e->traps = hr_trap_wanted();
    ret = make_flight(e, err);
    if (ret == 0)
        ret = hr_bad_create(plan, options->quarantine_path, e->flight, &e->bad, err);
    if (ret == 0)
        ret = open_files(e, err);
    if (ret == 0)
        ret = make_workers(e, err);
    if (ret == 0)
        ret = make_buffers(e, err);
    if (ret == 0)
        ret = start_threads(e, err);
    if (ret < 0)
        hr_engine_destroy(e);
    else
        *out = e;
    return ret;
}

static void stop_threads(struct hr_engine *e)
{
    atomic_store_explicit(&e->stop, true, memory_order_release);
    if (e->feeder_started && e->feeder_status == 0)
        hr_engine_wake(e);
    atomic_fetch_add_explicit(&e->work_seq, 1, memory_order_seq_cst);
    hr_futex_wake(&e->work_seq, INT32_MAX, false);
    for (int i = 0; i < e->worker_count; i++)
        if (e->workers[i].started)
            pthread_join(e->workers[i].thread, NULL);
    if (!e->feeder_started)
        return;
    pthread_mutex_lock(&e->command_lock);
    e->close_reader = true;
    pthread_cond_broadcast(&e->command_done);
    pthread_mutex_unlock(&e->command_lock);
    pthread_join(e->feeder, NULL);
}

void hr_engine_destroy(struct hr_engine *e)
{
    struct hr_stream *s;

    if (!e)
        return;
    while (e->feeder_started && e->feeder_status == 0 &&
           (s = atomic_load_explicit(&e->streams[0], memory_order_acquire)))
        hr_stream_close(s);
    stop_threads(e);
    for (int i = 0; i < e->worker_count; i++)
        hr_finisher_finish(&e->workers[i].finisher);
    hr_free(e->workers);
    hr_free((void *)e->by_source);
    for (uint32_t i = 0; e->files && i < e->file_count; i++) {
        hr_fd_close(&e->files[i].fd);
        hr_fd_close(&e->files[i].direct_fd);
    }
    hr_free(e->files);
    hr_iobufs_finish(&e->bufs);
    hr_free(e->reads);
    hr_free(e->group.wants);
    hr_free(e->group.ranges);
    hr_free(e->group.spans);
    hr_bad_destroy(e->bad);
    if (e->own_flight)
        hr_flight_destroy(e->flight);
    pthread_mutex_destroy(&e->suspect_lock);
    pthread_cond_destroy(&e->command_done);
    pthread_mutex_destroy(&e->command_lock);
    hr_free(e);
}

int hr_engine_worker_count(const struct hr_engine *e)
{
    return e->worker_count;
}

const char *hr_engine_reader_reason(const struct hr_engine *e)
{
    return e->reader_reason;
}

void hr_engine_wake(struct hr_engine *e)
{
    e->reader->ops->wake(e->reader);
}

void hr_engine_notify(struct hr_engine *e)
{
    uint64_t one = 1;

    if (e->options.notify_fd >= 0) {
        ssize_t ignored = write(e->options.notify_fd, &one, sizeof(one));
        (void)ignored;
    }
}

/* ---- streams ---- */

int hr_engine_open_stream(struct hr_engine *e, uint32_t rank, uint32_t world, bool shared,
                          struct hr_stream **out, struct hr_error *err)
{
    struct hr_stream *s;
    int ret = hr_stream_create(e, e->plan, rank, world, shared, &s, err), i = 0;

    if (ret < 0)
        return ret;
    pthread_mutex_lock(&e->command_lock);
    while (i < HR_ENGINE_MAX_STREAMS &&
           atomic_load_explicit(&e->streams[i], memory_order_relaxed))
        i++;
    if (i < HR_ENGINE_MAX_STREAMS)
        atomic_store_explicit(&e->streams[i], s, memory_order_release);
    pthread_mutex_unlock(&e->command_lock);
    if (i == HR_ENGINE_MAX_STREAMS) {
        hr_stream_destroy(s);
        return hr_fail(err, HR_E_LIMIT, "more than %d streams", (int)HR_ENGINE_MAX_STREAMS);
    }
    *out = s;
    return 0;
}

int hr_stream_seek(struct hr_stream *s, const struct hr_state *state, struct hr_error *err)
{
    struct hr_engine *e = s->engine;
    int ret = hr_order_check_cursor(&e->plan->order, state->cursor, err);

    if (ret < 0)
        return ret;
    pthread_mutex_lock(&e->command_lock);
    s->seek_state = *state;
    s->seek_wanted = true;
    hr_engine_wake(e);
    while (s->seek_wanted)
        pthread_cond_wait(&e->command_done, &e->command_lock);
    pthread_mutex_unlock(&e->command_lock);
    return 0;
}

void hr_stream_pause(struct hr_stream *s)
{
    struct hr_engine *e = s->engine;

    pthread_mutex_lock(&e->command_lock);
    s->pause_wanted = true;
    hr_engine_wake(e);
    while (s->pause_wanted)
        pthread_cond_wait(&e->command_done, &e->command_lock);
    pthread_mutex_unlock(&e->command_lock);
}

struct hr_state hr_stream_halt(struct hr_stream *s)
{
    struct hr_engine *e = s->engine;

    pthread_mutex_lock(&e->command_lock);
    s->halt_wanted = true;
    hr_engine_wake(e);
    while (s->halt_wanted)
        pthread_cond_wait(&e->command_done, &e->command_lock);
    struct hr_state state = s->seek_state;
    pthread_mutex_unlock(&e->command_lock);
    return state;
}

/* Waits until no worker can still hold a pointer that it took from the table before the stream left
 * it. */
static void wait_quiescent(struct hr_engine *e)
{
    for (int i = 0; i < e->worker_count; i++) {
        struct hr_worker *w = &e->workers[i];
        uint64_t seen = atomic_load_explicit(&w->quiescence, memory_order_seq_cst);
        while ((seen & 1) &&
               atomic_load_explicit(&w->quiescence, memory_order_acquire) == seen)
            hr_clock_sleep_ns(20 * HR_NS_PER_US);
    }
}

void hr_stream_close(struct hr_stream *s)
{
    if (!s)
        return;
    struct hr_engine *e = s->engine;
    pthread_mutex_lock(&e->command_lock);
    s->close_wanted = true;
    hr_engine_wake(e);
    while (s->close_wanted)
        pthread_cond_wait(&e->command_done, &e->command_lock);
    pthread_mutex_unlock(&e->command_lock);
    wait_quiescent(e);
    hr_stream_destroy(s);
}

/* ---- statistics ---- */

static uint64_t get(_Atomic uint64_t *v)
{
    return atomic_load_explicit(v, memory_order_relaxed);
}

void hr_engine_stats(struct hr_engine *e, struct hr_engine_stats *st)
{
    *st = (struct hr_engine_stats){
        .batches = get(&e->batches),
        .plan_ns = get(&e->plan_ns),
        .hand_off_ns = get(&e->hand_off_ns),
        .reader_cpu_ns = get(&e->reader_cpu_ns),
        .io_retries = get(&e->io_retries),
        .read_errors = get(&e->read_errors),
        .read_requests = get(&e->read_requests),
        .read_bytes = get(&e->read_bytes),
        .wanted_bytes = get(&e->wanted_bytes),
        .window_bytes = get(&e->window_bytes),
    };
    for (int i = 0; i < e->worker_count; i++) {
        struct hr_worker *w = &e->workers[i];
        st->samples += get(&w->samples);
        st->worker_busy_ns += get(&w->busy_ns);
        st->worker_idle_ns += get(&w->idle_ns);
        st->worker_cpu_ns += get(&w->cpu_ns);
        st->checksum_ns += get(&w->checksum_ns);
        st->decode_ns += get(&w->decode_ns);
        st->checksum_bytes += get(&w->checksum_bytes);
        st->decoded_bytes += get(&w->decoded_bytes);
    }
    hr_bad_stats(e->bad, &st->bad);
}

uint64_t hr_engine_source_samples(struct hr_engine *e, uint32_t source)
{
    uint64_t samples = 0;

    for (int i = 0; i < e->worker_count; i++)
        samples += get(&e->by_source[(size_t)i * e->by_source_stride + source]);
    return samples;
}

void hr_engine_sources_json(struct hr_engine *e, struct hr_buf *buf, uint32_t most)
{
    const struct hr_sources *sources = &e->plan->sources;
    uint64_t samples = 0, total;

    for (uint32_t i = 0; i < sources->count; i++)
        samples += hr_engine_source_samples(e, i);
    hr_json_open(buf, "sources", '[');
    for (uint32_t i = 0; i < sources->count && i < most; i++) {
        const char *path = sources->items[i].path;
        size_t bytes = strlen(path);
        uint64_t own = hr_engine_source_samples(e, i);
        uint64_t share = hr_order_share_of(&e->plan->order, i, &total);
        hr_json_open(buf, NULL, '{');
        hr_json_str(buf, "dataset", path + (bytes > 64 ? bytes - 64 : 0));
        hr_json_uint(buf, "records", sources->items[i].kept);
        hr_json_uint(buf, "samples", own);
        hr_json_double(buf, "share", samples ? (double)own / (double)samples : 0);
        hr_json_double(buf, "asked", (double)share / (double)total);
        hr_json_close(buf, '}');
    }
    hr_json_close(buf, ']');
}
