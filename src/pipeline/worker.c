/* The pool: each worker takes ready samples of the oldest batch, finishes them, and sleeps on a futex
 * when there are none. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/mem.h"
#include "pipeline/blend.h"
#include "pipeline/engine_parts.h"

enum { WARM_UP_SAMPLES = 2048, MAX_REREADS = 8 };

void hr_engine_wake_workers(struct hr_engine *e, uint32_t ready)
{
    /* Sequentially consistent with the sleeper's own pair of operations: either it sees the new
     * count, or we see it asleep. */
    atomic_fetch_add_explicit(&e->work_seq, 1, memory_order_seq_cst);
    uint32_t asleep = atomic_load_explicit(&e->sleepers, memory_order_seq_cst);
    if (asleep)
        hr_futex_wake(&e->work_seq, (int)(ready < asleep ? ready : asleep), false);
}

void hr_engine_sample_done(struct hr_batch *batch, uint32_t count)
{
    if (count && atomic_fetch_sub_explicit(&batch->remaining, count, memory_order_acq_rel) == count)
        hr_stream_batch_done(batch);
}

/* Substitutes come from the sample's own source: the mix stays what it is. */
static uint64_t substitutes_of(const struct hr_engine *e, const struct hr_sample *s)
{
    return hr_min_u64(HR_ENGINE_MAX_ATTEMPTS, e->plan->sources.items[s->place.source].kept - 1);
}

static HR_COLD void out_of_substitutes(const struct hr_engine *e, const struct hr_sample *s,
                                       struct hr_error *err)
{
    const struct hr_source *source = &e->plan->sources.items[s->place.source];

    if (source->kept <= HR_ENGINE_MAX_ATTEMPTS + 1)
        hr_fail(err, HR_E_BUDGET, "not one of the %" PRIu64 " records of '%s' that take part is good",
                source->kept, source->path);
    else
        hr_fail(err, HR_E_BUDGET, "%d substitutes in a row for one sample of '%s' are bad too",
                HR_ENGINE_MAX_ATTEMPTS, source->path);
    hr_error_hint(err, "run 'headrace verify' on it; without it, or with 'bad_records: mask', the run "
                       "goes on");
}

bool hr_engine_sample_bad(struct hr_engine *e, struct hr_sample *s, const struct hr_error *why)
{
    struct hr_batch *batch = s->batch;
    struct hr_error err;

    if (hr_bad_note(e->bad, s->place.source, s->record, why, &err) < 0) {
        hr_stream_fail(batch->stream, &err);
        return false;
    }
    if (s->attempt == 0)
        atomic_fetch_add_explicit(&batch->bad_count, 1, memory_order_relaxed);
    switch (e->plan->bad_records) {
    case HR_CONF_BAD_FAIL:
        hr_stream_fail(batch->stream, why);
        return false;
    case HR_CONF_BAD_MASK:
        hr_batch_mask(batch, s->index);
        return false;
    case HR_CONF_BAD_SUBSTITUTE:
        break;
    }
    if (++s->attempt <= substitutes_of(e, s)) {
        s->record = hr_order_substitute(&e->plan->order, &s->place, s->attempt);
        s->rereads = 0;
        return true;
    }
    out_of_substitutes(e, s, &err);
    hr_stream_fail(batch->stream, &err);
    return false;
}

static void give_back(struct hr_engine *e, struct hr_sample *s)
{
    struct hr_sample *top = atomic_load_explicit(&e->returned, memory_order_relaxed);

    do
        s->next = top;
    while (!atomic_compare_exchange_weak_explicit(&e->returned, &top, s, memory_order_release,
                                                  memory_order_relaxed));
    hr_engine_wake(e);
}

/* What can crash: everything that looks into the record's bytes. */
static int finish(struct hr_worker *w, struct hr_sample *s, uint64_t now_ns, struct hr_error *err)
{
    hr_flight_take(w->seat, s->place.source, s->record, now_ns);
    if (HR_UNLIKELY(w->engine->traps))
        hr_trap_look(s, w->seat);
    int ret = hr_sample_finish(&w->finisher, s, err);
    hr_flight_drop(w->seat);
    return ret;
}

/* Suspects are finished one at a time: if the engine dies, it was this one or none of them. */
static HR_COLD int finish_suspect(struct hr_worker *w, struct hr_sample *s,
                                  struct hr_suspect *suspect, struct hr_error *err)
{
    struct hr_engine *e = w->engine;

    pthread_mutex_lock(&e->suspect_lock);
    int ret = finish(w, s, hr_clock_ns(), err);
    atomic_store_explicit(&suspect->cleared, 1, memory_order_relaxed);
    pthread_mutex_unlock(&e->suspect_lock);
    return ret;
}

static int finish_any(struct hr_worker *w, struct hr_sample *s, uint64_t now_ns, struct hr_error *err)
{
    struct hr_flight *f = w->engine->flight;
    struct hr_suspect *suspect =
        HR_UNLIKELY(f->suspect_count) ? hr_flight_suspect(f, s->place.source, s->record) : NULL;

    return suspect ? finish_suspect(w, s, suspect, err) : finish(w, s, now_ns, err);
}

/* Wrong bytes may be the fault of the way here. Two readings that agree are what the medium holds, and
 * will be for every rank and rerun. */
static HR_COLD bool read_again(struct hr_sample *s)
{
    if (s->rereads == MAX_REREADS || (s->rereads > 0 && s->damage == s->damage_before))
        return false;
    s->rereads++;
    s->damage_before = s->damage;
    return true;
}

static void blend(struct hr_worker *w, struct hr_sample *s)
{
    struct hr_finisher *f = &w->finisher;

    if (!f->plan->blend || f->no_decode)
        return;
    uint64_t t0 = f->timed ? hr_clock_ns() : 0;
    hr_blend_sample_in(s);
    if (f->timed)
        f->times.decode_ns += hr_clock_ns() - t0;
}

static void give_back_room(struct hr_engine *e, struct hr_sample *s)
{
    if (hr_sample_drop_buffers(s))
        hr_engine_wake(e);
}

/* 1 when the sample is finished, 0 when it comes again or nobody wants it. */
static uint32_t work_on(struct hr_worker *w, struct hr_batch *batch, uint32_t index, uint64_t now_ns)
{
    struct hr_engine *e = w->engine;
    struct hr_sample *s = &batch->samples[index];
    struct hr_error err;

    if (atomic_load_explicit(&batch->cancelled, memory_order_relaxed)) {
        give_back_room(e, s);
        hr_engine_sample_done(batch, 1);
        return 0;
    }
    int ret = finish_any(w, s, now_ns, &err);
    give_back_room(e, s);
    if (ret == 0) {
        if (HR_UNLIKELY(s->rereads > 0)) {
            atomic_fetch_add_explicit(&e->read_errors, 1, memory_order_relaxed);
            hr_bad_note_mended(e->bad, s->place.source, s->record);
        }
        hr_bad_note_good(e->bad);
        blend(w, s);
        hr_engine_sample_done(batch, 1);
    } else if (ret == HR_E_CHECKSUM && read_again(s)) {
        atomic_fetch_add_explicit(&e->io_retries, 1, memory_order_relaxed);
        give_back(e, s);
        return 0;
    } else if (hr_engine_sample_bad(e, s, &err)) {
        give_back(e, s);
        return 0;
    } else {
        hr_engine_sample_done(batch, 1);
    }
    return 1;
}

/* Claims from the oldest batch that has something ready. */
static uint32_t claim(struct hr_engine *e, struct hr_batch **out, uint32_t *indices)
{
    for (;;) {
        struct hr_batch *oldest = NULL;
        uint64_t oldest_age = UINT64_MAX;
        for (int i = 0; i < HR_ENGINE_MAX_STREAMS; i++) {
            struct hr_stream *stream =
                atomic_load_explicit(&e->streams[i], memory_order_acquire);
            if (!stream)
                break; /* kept dense */
            for (uint32_t b = 0; b < stream->slot_count; b++) {
                struct hr_batch *batch = &stream->batches[b];
                uint64_t age = atomic_load_explicit(&batch->age, memory_order_relaxed);
                if (age == 0 || age >= oldest_age ||
                    atomic_load_explicit(&batch->ready_head, memory_order_relaxed) ==
                        atomic_load_explicit(&batch->ready_tail, memory_order_relaxed))
                    continue;
                oldest = batch;
                oldest_age = age;
            }
        }
        if (!oldest)
            return 0;
        uint32_t n = hr_batch_claim(oldest, e->grain, indices);
        if (n) {
            *out = oldest;
            return n;
        }
    }
}

static void publish_times(struct hr_worker *w)
{
    const struct hr_finisher_times *t = &w->finisher.times;

    atomic_store_explicit(&w->checksum_ns, t->checksum_ns, memory_order_relaxed);
    atomic_store_explicit(&w->decode_ns, t->decode_ns, memory_order_relaxed);
    atomic_store_explicit(&w->checksum_bytes, t->checksum_bytes, memory_order_relaxed);
    atomic_store_explicit(&w->decoded_bytes, t->decoded_bytes, memory_order_relaxed);
}

/* One writer per counter: a plain add, made visible. */
static void add(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t v = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, v + n, memory_order_relaxed);
}

/* Finishes one claim; false when there was nothing to claim. */
static bool work(struct hr_worker *w)
{
    uint32_t indices[HR_ENGINE_GROUP];
    struct hr_batch *batch;
    uint64_t q = atomic_load_explicit(&w->quiescence, memory_order_relaxed);

    /* Pairs with the closing stream: it has left the table before it looks at this word. */
    atomic_store_explicit(&w->quiescence, q + 1, memory_order_seq_cst);
    uint32_t n = claim(w->engine, &batch, indices);
    if (n) {
        uint64_t t0 = hr_clock_ns();
        uint32_t finished = 0;
        for (uint32_t i = 0; i < n; i++)
            finished += work_on(w, batch, indices[i], t0);
        add(&w->busy_ns, hr_clock_ns() - t0);
        add(&w->samples, finished);
        add(&w->seat->done, n);
        publish_times(w);
    }
    atomic_store_explicit(&w->quiescence, q + 2, memory_order_release);
    return n > 0;
}

static void sleep_until_work(struct hr_worker *w, uint32_t seen)
{
    struct hr_engine *e = w->engine;
    uint64_t t0 = hr_clock_ns();

    atomic_store_explicit(&w->cpu_ns, hr_clock_thread_ns(), memory_order_relaxed);
    atomic_fetch_add_explicit(&e->sleepers, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&e->work_seq, memory_order_seq_cst) == seen &&
        !atomic_load_explicit(&e->stop, memory_order_relaxed))
        hr_futex_wait(&e->work_seq, seen, UINT64_MAX, false);
    atomic_fetch_sub_explicit(&e->sleepers, 1, memory_order_relaxed);
    add(&w->idle_ns, hr_clock_ns() - t0);
}

void *hr_worker_main(void *arg)
{
    struct hr_worker *w = arg;
    struct hr_engine *e = w->engine;
    bool steady = false;

    hr_flight_sit(e->flight, (uint32_t)(w - e->workers));
    while (!atomic_load_explicit(&e->stop, memory_order_acquire)) {
        uint32_t seen = atomic_load_explicit(&e->work_seq, memory_order_acquire);
        if (!work(w))
            sleep_until_work(w, seen);
        if (!steady && atomic_load_explicit(&w->samples, memory_order_relaxed) > WARM_UP_SAMPLES) {
            hr_mem_steady_enter();
            steady = true;
        }
    }
    if (steady)
        hr_mem_steady_leave();
    atomic_store_explicit(&w->cpu_ns, hr_clock_thread_ns(), memory_order_relaxed);
    hr_flight_leave();
    return NULL;
}
