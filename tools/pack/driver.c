/* A window of records underway, filled by loaders in any order and emptied in order. One mutex guards
 * the window's numbers; a record belongs to its loader until ready is set, then to the caller. Small
 * records are claimed, and taken, several at a time. */
#include "tools/pack/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

enum { WINDOW = 256, MAX_JOBS = 256, TICK_MS = 100, BATCH = 16, BATCH_BYTES = 32 << 10 };
/* Beyond this much underway, loaders wait (a single larger record still passes, alone). */
#define MAX_BYTES_UNDERWAY (UINT64_C(256) << 20)

struct slot {
    struct hr_pack_record record;
    struct hr_error err;
    uint64_t hint;
    int ret;
    bool ready;
};

struct driver {
    const struct hr_source *source;
    struct slot *slots;
    pthread_mutex_t lock;
    pthread_cond_t room, ready;
    /* under the lock */
    uint64_t next_claim, next_take, end, bytes_underway;
    bool stop;
};

static bool must_wait(const struct driver *d)
{
    return d->next_claim - d->next_take >= WINDOW ||
           (d->bytes_underway >= MAX_BYTES_UNDERWAY && d->next_claim != d->next_take);
}

static void load(struct driver *d, uint64_t i, struct slot *slot)
{
    hr_pack_record_init(&slot->record, d->source->schema.field_count);
    slot->err = HR_ERROR_INIT;
    slot->ret = d->source->kind->load(d->source, i, &slot->record, &slot->err);
}

/* Under the lock: claims one record, or neighbours as long as they are small. */
static uint64_t claim(struct driver *d)
{
    uint64_t count = 0, bytes = 0;

    while (count < BATCH && bytes < BATCH_BYTES && d->next_claim < d->end && !must_wait(d)) {
        struct slot *slot = &d->slots[d->next_claim % WINDOW];
        slot->hint = d->source->kind->size_hint(d->source, d->next_claim);
        d->bytes_underway += slot->hint;
        bytes += slot->hint;
        d->next_claim++;
        count++;
    }
    return count;
}

/* Under the lock: pictures stored as pixels are many times what their files were. */
static void hold(struct driver *d, struct slot *slot)
{
    uint64_t held = slot->record.owned_bytes;

    if (held <= slot->hint)
        return;
    d->bytes_underway += held - slot->hint;
    slot->hint = held;
}

static void *run_loader(void *arg)
{
    struct driver *d = arg;

    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (!d->stop && d->next_claim < d->end && must_wait(d))
            pthread_cond_wait(&d->room, &d->lock);
        if (d->stop || d->next_claim == d->end)
            break;
        uint64_t first = d->next_claim, count = claim(d);
        pthread_mutex_unlock(&d->lock);
        for (uint64_t i = first; i < first + count; i++)
            load(d, i, &d->slots[i % WINDOW]);
        pthread_mutex_lock(&d->lock);
        for (uint64_t i = first; i < first + count; i++) {
            hold(d, &d->slots[i % WINDOW]);
            d->slots[i % WINDOW].ready = true;
        }
        if (first <= d->next_take)
            pthread_cond_signal(&d->ready);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* How many records are ready in order: 0 when a tick has passed without one. */
static uint64_t wait_ready(struct driver *d)
{
    struct timespec until;
    uint64_t count = 0;
    int waited = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_mutex_lock(&d->lock);
    while (!d->slots[d->next_take % WINDOW].ready && waited == 0)
        waited = pthread_cond_timedwait(&d->ready, &d->lock, &until);
    while (count < BATCH && d->next_take + count < d->end &&
           d->slots[(d->next_take + count) % WINDOW].ready)
        count++;
    pthread_mutex_unlock(&d->lock);
    return count;
}

static void give_back(struct driver *d, uint64_t count)
{
    for (uint64_t i = d->next_take; i < d->next_take + count; i++)
        hr_pack_record_finish(&d->slots[i % WINDOW].record);
    pthread_mutex_lock(&d->lock);
    for (uint64_t i = d->next_take; i < d->next_take + count; i++) {
        d->slots[i % WINDOW].ready = false;
        d->bytes_underway -= d->slots[i % WINDOW].hint;
    }
    d->next_take += count;
    pthread_cond_broadcast(&d->room);
    pthread_mutex_unlock(&d->lock);
}

static int take(struct slot *slot, const struct hr_driver_sink *sink, struct hr_error *err)
{
    /* These two say nothing about the record. */
    if (slot->ret == HR_E_NOMEM || slot->ret == HR_E_INTERNAL) {
        *err = slot->err;
        return slot->ret;
    }
    return sink->take(sink->user, slot->record.key, slot->ret == 0 ? &slot->record : NULL, &slot->err,
                      err);
}

static int drain(struct driver *d, const struct hr_driver_sink *sink, struct hr_error *err)
{
    int ret = 0;

    while (ret == 0 && d->next_take < d->end) {
        uint64_t count = wait_ready(d);
        for (uint64_t i = 0; i < count && ret == 0; i++)
            ret = take(&d->slots[(d->next_take + i) % WINDOW], sink, err);
        give_back(d, count);
        if (ret == 0 && !sink->tick(sink->user))
            ret = hr_fail(err, HR_E_CANCELLED, "interrupted");
    }
    return ret;
}

static void stop_loaders(struct driver *d, pthread_t *threads, int count)
{
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_broadcast(&d->room);
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < WINDOW; i++) {
        hr_pack_record_finish(&d->slots[i].record);
        hr_pack_record_free_scratch(&d->slots[i].record);
    }
}

int hr_driver_run(const struct hr_source *source, uint64_t first, int jobs,
                  const struct hr_driver_sink *sink, struct hr_error *err)
{
    struct driver d = {.source = source,
                       .slots = hr_alloc_zero(WINDOW, sizeof(*d.slots)),
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .room = PTHREAD_COND_INITIALIZER,
                       .ready = PTHREAD_COND_INITIALIZER,
                       .next_claim = first,
                       .next_take = first,
                       .end = source->record_count};
    pthread_t threads[MAX_JOBS];
    int started = 0, ret = 0;

    if (!d.slots)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    jobs = jobs < 1 ? 1 : jobs > MAX_JOBS ? MAX_JOBS : jobs;
    while (started < jobs && pthread_create(&threads[started], NULL, run_loader, &d) == 0)
        started++;
    ret = started ? drain(&d, sink, err) : hr_fail(err, HR_E_NOMEM, "cannot start a thread");
    stop_loaders(&d, threads, started);
    hr_free(d.slots);
    return ret;
}
