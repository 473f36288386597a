/* A window of records underway, filled by loaders in any order and emptied in order. One mutex guards
 * the window's numbers; a record belongs to its loader until ready is set, then to the caller. */
#include "tools/pack/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

enum { WINDOW = 256, MAX_JOBS = 256, TICK_MS = 100 };
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

static void *run_loader(void *arg)
{
    struct driver *d = arg;

    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (!d->stop && d->next_claim < d->end && must_wait(d))
            pthread_cond_wait(&d->room, &d->lock);
        if (d->stop || d->next_claim == d->end)
            break;
        uint64_t i = d->next_claim++;
        struct slot *slot = &d->slots[i % WINDOW];
        slot->hint = d->source->kind->size_hint(d->source, i);
        d->bytes_underway += slot->hint;
        pthread_mutex_unlock(&d->lock);
        load(d, i, slot);
        pthread_mutex_lock(&d->lock);
        slot->ready = true;
        if (i == d->next_take)
            pthread_cond_signal(&d->ready);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* The next record in order, or NULL when a tick has passed without it. */
static struct slot *wait_slot(struct driver *d)
{
    struct slot *slot = &d->slots[d->next_take % WINDOW];
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_mutex_lock(&d->lock);
    int waited = 0;
    while (!slot->ready && waited == 0)
        waited = pthread_cond_timedwait(&d->ready, &d->lock, &until);
    bool ready = slot->ready;
    pthread_mutex_unlock(&d->lock);
    return ready ? slot : NULL;
}

static void give_back(struct driver *d, struct slot *slot)
{
    hr_pack_record_finish(&slot->record);
    pthread_mutex_lock(&d->lock);
    slot->ready = false;
    d->bytes_underway -= slot->hint;
    d->next_take++;
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
        struct slot *slot = wait_slot(d);
        if (slot) {
            ret = take(slot, sink, err);
            give_back(d, slot);
        }
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
    for (int i = 0; i < WINDOW; i++)
        hr_pack_record_finish(&d->slots[i].record);
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
