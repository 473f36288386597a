/* Creates a consumer's control page and speaks through it: posts entries, reads leases back, asks
 * to be woken. Callers hold the ring's lock. */
#include "ring/consumer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/mem.h"
#include "ring/ring.h"

#define CONTROL_BYTES hr_align_up(sizeof(struct hr_wire_control), 4096)

static int map_page(struct hr_ring_consumer *consumer, uint32_t slot_count, struct hr_error *err)
{
    int fd = hr_fd_memfd("headrace-control", CONTROL_BYTES, err);

    if (fd < 0)
        return fd;
    consumer->control_fd = fd;
    void *p = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (p == MAP_FAILED)
        return hr_fail_errno(err, errno, "cannot map a control page");
    consumer->page = p;
    consumer->page->magic = HR_WIRE_CONTROL_MAGIC;
    consumer->page->wire_version = HR_WIRE_VERSION;
    consumer->page->slot_count = slot_count;
    return 0;
}

int hr_consumer_create(uint32_t slot_count, struct hr_ring_consumer **out, struct hr_error *err)
{
    struct hr_ring_consumer *consumer = hr_alloc_zero(1, sizeof(*consumer));

    if (!consumer)
        return hr_fail(err, HR_E_NOMEM, "no memory for a consumer");
    consumer->control_fd = -1;
    consumer->attached_ns = hr_clock_ns();
    consumer->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int ret = consumer->wake_fd < 0 ? hr_fail_errno(err, errno, "cannot create an eventfd")
                                    : map_page(consumer, slot_count, err);
    if (ret < 0) {
        hr_consumer_destroy(consumer);
        return ret;
    }
    *out = consumer;
    return 0;
}

void hr_consumer_destroy(struct hr_ring_consumer *consumer)
{
    if (!consumer)
        return;
    if (consumer->page)
        munmap(consumer->page, CONTROL_BYTES);
    hr_fd_close(&consumer->control_fd);
    hr_fd_close(&consumer->wake_fd);
    hr_free(consumer);
}

/* The fence pairs with the trainer's: it says that it waits and then looks at head again, we move
 * head and then look whether it waits. One of us sees the other. */
static void wake(struct hr_ring_consumer *consumer)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&consumer->page->consumer_waits, memory_order_relaxed))
        hr_futex_wake(&consumer->page->head, 1, true);
}

void hr_consumer_post(struct hr_ring_consumer *consumer, uint32_t slot, uint32_t ticket,
                      uint32_t generation)
{
    hr_wire_store_entry(
        &consumer->page->queue[consumer->head % HR_WIRE_MAX_SLOTS],
        (struct hr_wire_entry){.slot = slot, .ticket = ticket, .generation = generation});
    consumer->posted[consumer->head % HR_WIRE_MAX_SLOTS] = slot;
    consumer->ticket[slot] = ticket;
    consumer->held++;
    consumer->starved_since_ns = 0;
    /* Release: pairs with the trainer's acquire load in next; entry and slot are seen with it. */
    atomic_store_explicit(&consumer->page->head, ++consumer->head, memory_order_release);
    wake(consumer);
}

bool hr_consumer_take_back(struct hr_ring_consumer *consumer, uint32_t slot)
{
    if (!consumer->ticket[slot])
        return false;
    /* Acquire: pairs with the trainer's release store; its last reads come before our writes. */
    if (atomic_load_explicit(&consumer->page->lease[slot].released, memory_order_acquire) !=
        consumer->ticket[slot])
        return false;
    consumer->ticket[slot] = 0;
    consumer->held--;
    return true;
}

/* Both sides move tail, the trainer by compare-and-swap: it has an entry when its swap succeeded, and
 * what is beyond tail at our exchange it never will. Acquire-release: its claims come before, and
 * what we do with the slots after. */
uint32_t hr_consumer_recall(struct hr_ring_consumer *consumer, uint32_t slots[HR_WIRE_MAX_SLOTS])
{
    uint32_t tail =
        atomic_exchange_explicit(&consumer->page->tail, consumer->head, memory_order_acq_rel);
    uint32_t n = 0;

    if (consumer->head - tail > consumer->held)
        return 0; /* no trainer of ours: to us it has taken all */
    for (; tail != consumer->head; tail++) {
        uint32_t slot = consumer->posted[tail % HR_WIRE_MAX_SLOTS];
        if (!consumer->ticket[slot])
            continue;
        consumer->ticket[slot] = 0;
        consumer->held--;
        slots[n++] = slot;
    }
    return n;
}

/* It may stop waiting for moments (it looks at its socket), so only a batch ends it. What it holds
 * meanwhile (the batch in use, mostly) does not count. */
void hr_consumer_look(struct hr_ring_consumer *consumer, uint64_t now_ns)
{
    if (hr_consumer_ready(consumer) > 0)
        consumer->starved_since_ns = 0;
    else if (!consumer->starved_since_ns &&
             atomic_load_explicit(&consumer->page->consumer_waits, memory_order_relaxed))
        consumer->starved_since_ns = now_ns;
}

void hr_consumer_ask_wake(struct hr_ring_consumer *consumer, bool wanted)
{
    atomic_store_explicit(&consumer->page->producer_waits, wanted, memory_order_relaxed);
}

uint32_t hr_consumer_ready(const struct hr_ring_consumer *consumer)
{
    uint32_t tail = atomic_load_explicit(&consumer->page->tail, memory_order_relaxed);
    uint32_t ready = consumer->head - tail;

    return ready < consumer->held ? ready : consumer->held;
}

uint64_t hr_consumer_wait_ns(struct hr_ring_consumer *consumer)
{
    uint64_t claimed = atomic_load_explicit(&consumer->page->consumer_wait_ns, memory_order_relaxed);

    if (claimed >= consumer->wait_ns && claimed <= hr_clock_ns() - consumer->attached_ns)
        consumer->wait_ns = claimed;
    return consumer->wait_ns;
}

int hr_ring_consumer_wake_fd(const struct hr_ring_consumer *consumer)
{
    return consumer->wake_fd;
}

void hr_ring_close_consumer(struct hr_ring_consumer *consumer, int code)
{
    HR_ASSERT(code < 0);
    atomic_store_explicit(&consumer->page->closed, (uint32_t)-code, memory_order_release);
    wake(consumer);
}
