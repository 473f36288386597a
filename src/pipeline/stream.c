/* Streams: set-up, and the order in which finished batches leave. */
#include "pipeline/stream.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "pipeline/blend.h"
#include "pipeline/engine_parts.h"

int hr_stream_create(struct hr_engine *engine, const struct hr_plan *plan, uint32_t rank,
                     uint32_t world, bool shared, struct hr_stream **out, struct hr_error *err)
{
    int ret = hr_plan_check_world(plan, rank, world, err);
    char name[64];

    if (ret < 0)
        return ret;
    struct hr_stream *s = hr_alloc_zero(1, sizeof(*s));
    if (!s)
        return hr_fail(err, HR_E_NOMEM, "no memory for a stream");
    s->engine = engine;
    s->rank = rank;
    s->world = world;
    s->idle = true;
    s->slot_count = plan->slot_count;
    pthread_mutex_init(&s->lock, NULL);
    ret = hr_slot_layout_init(&s->layout, plan, (uint32_t)(plan->order.spec.batch / world), err);
    if (ret < 0)
        goto fail;
    s->batches = hr_alloc_aligned(HR_CACHE_LINE, s->slot_count * sizeof(*s->batches));
    if (!s->batches) {
        ret = hr_fail(err, HR_E_NOMEM, "no memory for %u batches", s->slot_count);
        goto fail;
    }
    memset(s->batches, 0, s->slot_count * sizeof(*s->batches));
    s->before = hr_alloc_zero(s->slot_count, sizeof(*s->before));
    if (!s->before) {
        ret = hr_fail(err, HR_E_NOMEM, "no memory for %u states", s->slot_count);
        goto fail;
    }
    for (uint32_t i = 0; i < s->slot_count; i++) {
        s->batches[i].stream = s;
        if (hr_batch_init(&s->batches[i], plan, &s->layout) < 0) {
            ret = hr_fail(err, HR_E_NOMEM, "no memory for %u batches of %u samples", s->slot_count,
                          s->layout.capacity);
            goto fail;
        }
    }
    snprintf(name, sizeof(name), "headrace-rank%u", rank);
    struct hr_ring_spec spec = {.name = name,
                                .slot_count = s->slot_count,
                                .slot_bytes = s->layout.slot_bytes,
                                .shared = shared};
    ret = hr_ring_create(&spec, &s->ring, err);
    if (ret < 0)
        goto fail;
    *out = s;
    return 0;
fail:
    hr_stream_destroy(s);
    return ret;
}

void hr_stream_destroy(struct hr_stream *s)
{
    if (!s)
        return;
    hr_ring_destroy(s->ring);
    for (uint32_t i = 0; s->batches && i < s->slot_count; i++)
        hr_batch_finish(&s->batches[i]);
    hr_free(s->batches);
    hr_free(s->before);
    hr_slot_layout_finish(&s->layout);
    pthread_mutex_destroy(&s->lock);
    hr_free(s);
}

/* Batches are cancelled one by one while workers finish them; once one was dropped, a later one that
 * was finished in time would leave a gap. */
static void leave(struct hr_stream *s, struct hr_batch *batch)
{
    bool cancelled = atomic_load_explicit(&batch->cancelled, memory_order_relaxed);
    const struct hr_state *before = &s->before[batch->slot_idx];

    atomic_store_explicit(&batch->age, 0, memory_order_relaxed);
    if (!s->dropping && (cancelled || (s->status < 0 && s->status != HR_E_END))) {
        s->dropping = true;
        s->dropped = *before;
    }
    if (s->dropping)
        hr_ring_abort(s->ring, batch->slot_idx);
    else
        hr_ring_publish(s->ring, batch->slot_idx,
                        (struct hr_ring_position){before->cursor.epoch, before->cursor.step});
    s->published++;
}

void hr_stream_batch_done(struct hr_batch *batch)
{
    struct hr_stream *s = batch->stream;
    bool cancelled = atomic_load_explicit(&batch->cancelled, memory_order_relaxed), idle;

    if (!cancelled)
        hr_blend_complete(batch); /* work on samples, not hand-off */
    uint64_t t0 = hr_clock_ns();
    if (cancelled)
        hr_batch_discard(batch);
    else
        hr_batch_complete(batch);
    pthread_mutex_lock(&s->lock);
    batch->done = true;
    while (s->published < s->begun) {
        struct hr_batch *next = &s->batches[s->published % s->slot_count];
        if (!next->done)
            break;
        leave(s, next);
    }
    idle = s->published == s->begun;
    bool ended = idle && s->status == HR_E_END;
    atomic_fetch_add_explicit(&s->engine->hand_off_ns, hr_clock_ns() - t0, memory_order_relaxed);
    pthread_mutex_unlock(&s->lock);
    /* Whoever waits for the stream to fall idle (a seek, a close) waits on the reader thread. */
    if (idle)
        hr_engine_wake(s->engine);
    if (ended)
        hr_engine_notify(s->engine);
}

uint64_t hr_stream_in_flight(struct hr_stream *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t n = s->begun - s->published;
    pthread_mutex_unlock(&s->lock);
    return n;
}

void hr_stream_fail(struct hr_stream *s, const struct hr_error *err)
{
    bool first;

    pthread_mutex_lock(&s->lock);
    first = s->status == 0 || s->status == HR_E_END;
    if (first) {
        s->status = err->code;
        s->error = *err;
    }
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; first && i < s->slot_count; i++)
        atomic_store_explicit(&s->batches[i].cancelled, true, memory_order_relaxed);
    if (first)
        hr_engine_notify(s->engine);
    hr_engine_wake(s->engine);
}

int hr_stream_status(struct hr_stream *s, struct hr_error *err)
{
    pthread_mutex_lock(&s->lock);
    /* The end has come when the last batch is out, not when it was planned. */
    int status = s->status == HR_E_END && s->begun != s->published ? 0 : s->status;
    if (status < 0 && err)
        *err = s->error;
    pthread_mutex_unlock(&s->lock);
    return status;
}

struct hr_state hr_stream_state_before(const struct hr_stream *s, uint32_t slot)
{
    HR_ASSERT(slot < s->slot_count);
    return s->before[slot];
}

struct hr_ring *hr_stream_ring(const struct hr_stream *s)
{
    return s->ring;
}
