/* Slots of one ring: who has each, the order in which they were published, and when they are free
 * again. One mutex protects all of it; no system call under it can block. */
#include "ring/ring.h"

#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "ring/consumer.h"
#include "ring/slab.h"

enum slot_state {
    SLOT_FREE,
    SLOT_ACQUIRED,
    SLOT_PENDING, /* published while nobody was attached */
    SLOT_LEASED,
};

struct slot {
    enum slot_state state;
    uint32_t ticket; /* of the last publication */
    uint32_t holders;
    struct hr_ring_position position;
};

struct hr_ring {
    /* constant */
    struct hr_slab slab;
    uint32_t slot_count;
    uint64_t slot_bytes;
    bool shared;

    pthread_mutex_t lock; /* protects all below */
    struct slot slots[HR_WIRE_MAX_SLOTS];
    uint32_t free[HR_WIRE_MAX_SLOTS]; /* a stack: the slot freed last is the warmest in the caches */
    uint32_t free_count, acquired_count, leased_count;
    uint32_t pending[HR_WIRE_MAX_SLOTS]; /* oldest first */
    uint32_t pending_count;
    uint32_t generation;
    struct hr_ring_position next; /* to be published; step counts on past an epoch's end */
    struct hr_ring_consumer *consumers;
    uint32_t consumer_count;
    uint64_t published, released;
    uint64_t waiting_since_ns; /* 0 = the producer does not wait */
    uint64_t producer_wait_ns;
    /* Replicas wait side by side, so the longest wait counts; consumers that follow each other
     * wait one after the other, so their waits add up. */
    uint64_t group_wait_ns, past_wait_ns;
};

static int check_spec(const struct hr_ring_spec *spec, uint64_t *slot_bytes, uint64_t *bytes,
                      struct hr_error *err)
{
    uint64_t page = hr_max_u64((uint64_t)sysconf(_SC_PAGESIZE), 4096), rounded;

    if (spec->slot_count < 1 || spec->slot_count > HR_WIRE_MAX_SLOTS)
        return hr_fail(err, HR_E_CONFIG, "a ring has 1 to %d slots, not %" PRIu32,
                       HR_WIRE_MAX_SLOTS, spec->slot_count);
    if (spec->slot_bytes == 0 || !hr_add_u64(spec->slot_bytes, page - 1, &rounded))
        return hr_fail(err, HR_E_CONFIG, "a slot cannot have %" PRIu64 " bytes", spec->slot_bytes);
    *slot_bytes = hr_align_down(rounded, page); /* a client replaces whole pages */
    if (!hr_mul_u64(*slot_bytes, spec->slot_count, bytes) || *bytes > INT64_MAX / 2)
        return hr_fail(err, HR_E_CONFIG, "%" PRIu32 " slots of %" PRIu64 " bytes are too many",
                       spec->slot_count, spec->slot_bytes);
    return 0;
}

int hr_ring_create(const struct hr_ring_spec *spec, struct hr_ring **out, struct hr_error *err)
{
    uint64_t slot_bytes = 0, bytes = 0;
    int ret = check_spec(spec, &slot_bytes, &bytes, err);
    struct hr_ring *ring = ret < 0 ? NULL : hr_alloc_zero(1, sizeof(*ring));

    if (ret < 0)
        return ret;
    if (!ring)
        return hr_fail(err, HR_E_NOMEM, "no memory for a ring");
    ring->slab = HR_SLAB_INIT;
    pthread_mutex_init(&ring->lock, NULL);
    ret = hr_slab_init(&ring->slab, spec->name, bytes, spec->shared, err);
    if (ret < 0) {
        hr_ring_destroy(ring);
        return ret;
    }
    ring->slot_count = spec->slot_count;
    ring->slot_bytes = slot_bytes;
    ring->shared = spec->shared;
    for (uint32_t i = spec->slot_count; i-- > 0;)
        ring->free[ring->free_count++] = i;
    *out = ring;
    return 0;
}

void hr_ring_destroy(struct hr_ring *ring)
{
    if (!ring)
        return;
    while (ring->consumers)
        hr_ring_detach(ring, ring->consumers);
    hr_slab_finish(&ring->slab);
    pthread_mutex_destroy(&ring->lock);
    hr_free(ring);
}

uint64_t hr_ring_slot_bytes(const struct hr_ring *ring)
{
    return ring->slot_bytes;
}

uint8_t *hr_ring_base(const struct hr_ring *ring, uint64_t *bytes)
{
    *bytes = ring->slab.bytes;
    return ring->slab.base;
}

uint8_t *hr_ring_slot(const struct hr_ring *ring, uint32_t slot)
{
    HR_ASSERT(slot < ring->slot_count);
    return ring->slab.base + slot * ring->slot_bytes;
}

bool hr_ring_is_shared(const struct hr_ring *ring)
{
    return ring->shared;
}

/* ---- life of a slot ---- */

static void free_slot_locked(struct hr_ring *ring, uint32_t slot)
{
    ring->slots[slot].state = SLOT_FREE;
    ring->free[ring->free_count++] = slot;
}

static void drop_holder_locked(struct hr_ring *ring, uint32_t slot)
{
    HR_ASSERT(ring->slots[slot].state == SLOT_LEASED && ring->slots[slot].holders > 0);
    if (--ring->slots[slot].holders > 0)
        return;
    ring->leased_count--;
    ring->released++;
    free_slot_locked(ring, slot);
}

static uint32_t collect_locked(struct hr_ring *ring)
{
    uint32_t before = ring->free_count;

    for (struct hr_ring_consumer *c = ring->consumers; c; c = c->next) {
        for (uint32_t i = 0; i < ring->slot_count && c->held > 0; i++)
            if (hr_consumer_take_back(c, i))
                drop_holder_locked(ring, i);
    }
    return ring->free_count - before;
}

static void ask_wake_locked(struct hr_ring *ring, bool wanted)
{
    for (struct hr_ring_consumer *c = ring->consumers; c; c = c->next)
        hr_consumer_ask_wake(c, wanted);
}

static void begin_wait_locked(struct hr_ring *ring)
{
    if (ring->waiting_since_ns == 0)
        ring->waiting_since_ns = hr_clock_ns();
    ask_wake_locked(ring, true);
    /* Pairs with the trainer's fence between its lease word and its look at producer_waits: either
     * it sees that we wait, or the collect that follows sees the lease. */
    atomic_thread_fence(memory_order_seq_cst);
}

static uint64_t wait_ns_locked(const struct hr_ring *ring)
{
    return ring->producer_wait_ns +
           (ring->waiting_since_ns ? hr_clock_ns() - ring->waiting_since_ns : 0);
}

static void end_wait_locked(struct hr_ring *ring)
{
    if (ring->waiting_since_ns == 0)
        return;
    ring->producer_wait_ns = wait_ns_locked(ring);
    ring->waiting_since_ns = 0;
    ask_wake_locked(ring, false);
    for (struct hr_ring_consumer *c = ring->consumers; c; c = c->next)
        atomic_store_explicit(&c->page->producer_wait_ns, ring->producer_wait_ns,
                              memory_order_relaxed);
}

int hr_ring_acquire(struct hr_ring *ring)
{
    int slot = -1;

    pthread_mutex_lock(&ring->lock);
    if (ring->free_count == 0)
        collect_locked(ring);
    if (ring->free_count == 0) {
        begin_wait_locked(ring);
        collect_locked(ring);
    }
    if (ring->free_count > 0) {
        slot = (int)ring->free[--ring->free_count];
        ring->slots[slot].state = SLOT_ACQUIRED;
        ring->acquired_count++;
        end_wait_locked(ring);
    }
    pthread_mutex_unlock(&ring->lock);
    return slot;
}

void hr_ring_abort(struct hr_ring *ring, uint32_t slot)
{
    pthread_mutex_lock(&ring->lock);
    HR_ASSERT(slot < ring->slot_count && ring->slots[slot].state == SLOT_ACQUIRED);
    ring->acquired_count--;
    free_slot_locked(ring, slot);
    pthread_mutex_unlock(&ring->lock);
}

static bool is_before(struct hr_ring_position a, struct hr_ring_position b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.step < b.step);
}

static struct hr_ring_position after(struct hr_ring_position p)
{
    return (struct hr_ring_position){.epoch = p.epoch, .step = p.step + 1};
}

static void lease_locked(struct hr_ring *ring, struct hr_ring_consumer *consumer, uint32_t slot)
{
    struct slot *s = &ring->slots[slot];

    if (s->state != SLOT_LEASED)
        ring->leased_count++;
    s->state = SLOT_LEASED;
    s->holders++;
    consumer->from = after(s->position);
    hr_consumer_post(consumer, slot, s->ticket, ring->generation);
}

void hr_ring_publish(struct hr_ring *ring, uint32_t slot, struct hr_ring_position position)
{
    pthread_mutex_lock(&ring->lock);
    HR_ASSERT(slot < ring->slot_count && ring->slots[slot].state == SLOT_ACQUIRED);
    struct slot *s = &ring->slots[slot];
    ring->acquired_count--;
    ring->published++;
    if (++s->ticket == 0) /* 0 means "never released" on a fresh control page */
        s->ticket = 1;
    s->holders = 0;
    s->position = position;
    ring->next = after(position);
    if (!ring->consumers) {
        s->state = SLOT_PENDING;
        ring->pending[ring->pending_count++] = slot;
    }
    for (struct hr_ring_consumer *c = ring->consumers; c; c = c->next)
        if (!c->behind && !is_before(position, c->from))
            lease_locked(ring, c, slot);
    if (s->state == SLOT_ACQUIRED) {
        ring->released++;
        free_slot_locked(ring, slot);
    }
    pthread_mutex_unlock(&ring->lock);
}

uint32_t hr_ring_collect(struct hr_ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    for (struct hr_ring_consumer *c = ring->consumers; c; c = c->next)
        hr_fd_drain_event(c->wake_fd);
    uint32_t freed = collect_locked(ring);
    pthread_mutex_unlock(&ring->lock);
    return freed;
}

/* What a consumer has taken is known to the consumer alone; it gives the entries of older
 * generations back by itself. A stream that had ended goes on. */
uint32_t hr_ring_flush(struct hr_ring *ring, struct hr_ring_position next)
{
    pthread_mutex_lock(&ring->lock);
    for (uint32_t i = 0; i < ring->pending_count; i++)
        free_slot_locked(ring, ring->pending[i]);
    ring->pending_count = 0;
    ring->next = next;
    for (struct hr_ring_consumer *c = ring->consumers; c; c = c->next) {
        atomic_store_explicit(&c->page->closed, 0, memory_order_release);
        if (ring->consumer_count == 1)
            c->from = next;
        c->behind = is_before(c->from, next);
    }
    uint32_t generation = ++ring->generation;
    pthread_mutex_unlock(&ring->lock);
    return generation;
}

uint32_t hr_ring_generation(const struct hr_ring *ring)
{
    struct hr_ring *r = (struct hr_ring *)ring;

    pthread_mutex_lock(&r->lock);
    uint32_t generation = r->generation;
    pthread_mutex_unlock(&r->lock);
    return generation;
}

/* ---- consumers ---- */

/* What nobody was there for: the newcomer's, if it does not stand behind or beyond it. */
static void give_pending_locked(struct hr_ring *ring, struct hr_ring_consumer *consumer)
{
    struct hr_ring_position first =
        ring->pending_count ? ring->slots[ring->pending[0]].position : ring->next;

    consumer->behind = is_before(consumer->from, first);
    for (uint32_t i = 0; i < ring->pending_count; i++) {
        uint32_t slot = ring->pending[i];
        if (consumer->behind || is_before(ring->slots[slot].position, consumer->from))
            free_slot_locked(ring, slot);
        else
            lease_locked(ring, consumer, slot);
    }
    ring->pending_count = 0;
}

static int link_consumer(struct hr_ring *ring, struct hr_ring_consumer *consumer,
                         struct hr_error *err)
{
    int ret = 0;

    pthread_mutex_lock(&ring->lock);
    if (ring->consumers && !ring->shared) {
        ret = hr_fail(err, HR_E_BUSY, "the stream already feeds a trainer");
        hr_error_hint(err, "end the other trainer, or serve the stream as shared");
    } else {
        consumer->next = ring->consumers;
        ring->consumers = consumer;
        ring->consumer_count++;
        hr_consumer_ask_wake(consumer, ring->waiting_since_ns != 0);
        give_pending_locked(ring, consumer);
    }
    pthread_mutex_unlock(&ring->lock);
    return ret;
}

int hr_ring_attach(struct hr_ring *ring, struct hr_ring_position from,
                   struct hr_ring_consumer **out, int fds[3], struct hr_error *err)
{
    struct hr_ring_consumer *consumer = NULL;
    int ret = hr_consumer_create(ring->slot_count, &consumer, err);

    if (ret == 0) {
        consumer->from = from;
        ret = link_consumer(ring, consumer, err);
    }
    if (ret < 0) {
        hr_consumer_destroy(consumer);
        return ret;
    }
    fds[0] = ring->shared ? ring->slab.read_fd : ring->slab.fd;
    fds[1] = consumer->control_fd;
    fds[2] = consumer->wake_fd;
    *out = consumer;
    return 0;
}

static void unlink_locked(struct hr_ring *ring, struct hr_ring_consumer *consumer)
{
    struct hr_ring_consumer **link = &ring->consumers;

    while (*link && *link != consumer)
        link = &(*link)->next;
    HR_ASSERT(*link == consumer);
    *link = consumer->next;
    ring->consumer_count--;
}

void hr_ring_detach(struct hr_ring *ring, struct hr_ring_consumer *consumer)
{
    pthread_mutex_lock(&ring->lock);
    unlink_locked(ring, consumer);
    for (uint32_t i = 0; i < ring->slot_count; i++) {
        if (consumer->ticket[i]) {
            consumer->ticket[i] = 0;
            drop_holder_locked(ring, i);
        }
    }
    ring->group_wait_ns = hr_max_u64(ring->group_wait_ns, hr_consumer_wait_ns(consumer));
    if (!ring->consumers) {
        ring->past_wait_ns += ring->group_wait_ns;
        ring->group_wait_ns = 0;
    }
    pthread_mutex_unlock(&ring->lock);
    hr_consumer_destroy(consumer);
}

uint32_t hr_ring_consumer_count(const struct hr_ring *ring)
{
    struct hr_ring *r = (struct hr_ring *)ring;

    pthread_mutex_lock(&r->lock);
    uint32_t count = r->consumer_count;
    pthread_mutex_unlock(&r->lock);
    return count;
}

/* ---- replicas ---- */

bool hr_ring_is_behind(struct hr_ring *ring, const struct hr_ring_consumer *consumer)
{
    pthread_mutex_lock(&ring->lock);
    bool behind = consumer->behind;
    pthread_mutex_unlock(&ring->lock);
    return behind;
}

bool hr_ring_is_unwanted(struct hr_ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    bool unwanted = ring->consumers != NULL;
    for (struct hr_ring_consumer *c = ring->consumers; c && unwanted; c = c->next)
        unwanted = is_before(ring->next, c->from);
    pthread_mutex_unlock(&ring->lock);
    return unwanted;
}

struct hr_ring_position hr_ring_wanted(struct hr_ring *ring,
                                       const struct hr_ring_consumer *consumer)
{
    pthread_mutex_lock(&ring->lock);
    struct hr_ring_position from = consumer->from;
    pthread_mutex_unlock(&ring->lock);
    return from;
}

void hr_ring_want(struct hr_ring *ring, struct hr_ring_consumer *consumer,
                  struct hr_ring_position from)
{
    pthread_mutex_lock(&ring->lock);
    consumer->from = from;
    consumer->behind = is_before(from, ring->next);
    pthread_mutex_unlock(&ring->lock);
}

int hr_ring_recall(struct hr_ring *ring, struct hr_ring_consumer *consumer)
{
    uint32_t slots[HR_WIRE_MAX_SLOTS];

    pthread_mutex_lock(&ring->lock);
    uint32_t n = hr_consumer_recall(consumer, slots);
    if (n > 0)
        consumer->from = ring->slots[slots[0]].position;
    for (uint32_t i = 0; i < n; i++)
        drop_holder_locked(ring, slots[i]);
    pthread_mutex_unlock(&ring->lock);
    return n > 0 ? (int)slots[0] : -1;
}

struct hr_ring_consumer *hr_ring_find_slow(struct hr_ring *ring, uint64_t limit_ns)
{
    struct hr_ring_consumer *slow = NULL, *foremost = NULL;
    uint64_t now_ns = hr_clock_ns();
    uint32_t most = 0; /* held by one that starves: what it lacks, it may be keeping itself */
    bool starved = false;

    pthread_mutex_lock(&ring->lock);
    for (struct hr_ring_consumer *c = ring->consumers; c; c = c->next) {
        hr_consumer_look(c, now_ns);
        if (c->starved_since_ns) {
            most = (uint32_t)hr_max_u64(most, c->held);
            starved |= now_ns - c->starved_since_ns >= limit_ns;
        } else if (!slow || c->held > slow->held) {
            slow = c;
        }
        if (c->held > 0 && (!foremost || is_before(foremost->from, c->from)))
            foremost = c;
    }
    if (slow && slow->held <= most)
        slow = NULL;
    else if (!slow) /* all starve, over batches that each of them holds */
        slow = foremost;
    if (!starved || !ring->waiting_since_ns || now_ns - ring->waiting_since_ns < limit_ns)
        slow = NULL;
    pthread_mutex_unlock(&ring->lock);
    return slow;
}

void hr_ring_stats(const struct hr_ring *ring, struct hr_ring_stats *stats)
{
    struct hr_ring *r = (struct hr_ring *)ring;
    uint64_t wait_ns;
    uint32_t ready = 0;

    pthread_mutex_lock(&r->lock);
    wait_ns = r->group_wait_ns;
    for (struct hr_ring_consumer *c = r->consumers; c; c = c->next) {
        wait_ns = hr_max_u64(wait_ns, hr_consumer_wait_ns(c));
        ready = (uint32_t)hr_max_u64(ready, hr_consumer_ready(c));
    }
    *stats = (struct hr_ring_stats){
        .published = r->published,
        .released = r->released,
        .producer_wait_ns = wait_ns_locked(r),
        .consumer_wait_ns = r->past_wait_ns + wait_ns,
        .free_slots = r->free_count,
        .acquired_slots = r->acquired_count,
        .ready = ready + r->pending_count,
        .leased = r->leased_count - ready,
    };
    pthread_mutex_unlock(&r->lock);
}
