/* Garbage in the control pages of a shared ring. Two trainers write what they like where they may write,
 * come and go; a third is honest. Its batches must come in order and stay as they are until it gives them
 * back, no slot may be handed out twice, and in the end every slot must come free. Each operation is a byte
 * with its arguments. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ring/ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_SLOTS = 6, TRAINERS = 3, HONEST = 0, SLOT_BYTES = 4096, MAX_OPERATIONS = 400 };

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

/* Batches by number, oldest first. */
struct list {
    uint64_t number[HR_WIRE_MAX_SLOTS];
    uint32_t count;
};

struct trainer {
    struct hr_ring_consumer *consumer; /* NULL = not attached */
    struct hr_wire_control *page;
    int wake_fd;
    uint32_t tail;
};

struct game {
    const uint8_t *data;
    size_t bytes;
    struct hr_ring *ring;
    uint32_t slots;
    struct trainer trainers[TRAINERS];
    bool acquired[MAX_SLOTS];
    uint64_t next_number;
    struct list pending; /* published while nobody was there */
    struct list due;     /* to the honest one */
    struct hr_wire_entry held[MAX_SLOTS];
    uint64_t held_number[MAX_SLOTS];
    uint32_t held_count;
};

static uint32_t take_byte(struct game *g)
{
    if (g->bytes == 0)
        return 0;
    g->bytes--;
    return *g->data++;
}

static volatile uint64_t *number_in(const struct game *g, uint32_t slot)
{
    return (volatile uint64_t *)hr_ring_slot(g->ring, slot);
}

static bool attached(const struct game *g, uint32_t i)
{
    return g->trainers[i].consumer != NULL;
}

/* Batches are counted from 1. */
static struct hr_ring_position position(uint64_t number)
{
    return (struct hr_ring_position){.step = number - 1};
}

/* ---- the producer ---- */

static void acquire(struct game *g)
{
    int slot = hr_ring_acquire(g->ring);

    if (slot < 0)
        return;
    MUST((uint32_t)slot < g->slots && !g->acquired[slot]);
    for (uint32_t i = 0; i < g->held_count; i++)
        MUST(g->held[i].slot != (uint32_t)slot);
    g->acquired[slot] = true;
    *number_in(g, (uint32_t)slot) = UINT64_MAX;
}

/* An acquired slot, if there is one. */
static int pick_acquired(struct game *g)
{
    uint32_t from = take_byte(g) % g->slots;

    for (uint32_t i = 0; i < g->slots; i++)
        if (g->acquired[(from + i) % g->slots])
            return (int)((from + i) % g->slots);
    return -1;
}

static void publish(struct game *g)
{
    int slot = pick_acquired(g);

    if (slot < 0)
        return;
    *number_in(g, (uint32_t)slot) = ++g->next_number;
    g->acquired[slot] = false;
    if (attached(g, HONEST))
        g->due.number[g->due.count++] = g->next_number;
    else if (!attached(g, 1) && !attached(g, 2))
        g->pending.number[g->pending.count++] = g->next_number;
    hr_ring_publish(g->ring, (uint32_t)slot, position(g->next_number));
}

static void give_up(struct game *g)
{
    int slot = pick_acquired(g);

    if (slot < 0)
        return;
    g->acquired[slot] = false;
    hr_ring_abort(g->ring, (uint32_t)slot);
}

static void flush(struct game *g)
{
    uint32_t before = hr_ring_generation(g->ring);

    g->pending.count = 0;
    MUST(hr_ring_flush(g->ring, position(g->next_number + 1)) == before + 1);
}

static void check_stats(const struct game *g)
{
    struct hr_ring_stats s;

    hr_ring_stats(g->ring, &s);
    MUST(s.ready <= g->slots && s.leased <= g->slots &&
         s.free_slots + s.acquired_slots + s.ready + s.leased == g->slots);
}

/* ---- coming and going ---- */

/* The honest one wants all that there is; the others want anything. */
static void attach(struct game *g, uint32_t i)
{
    struct trainer *t = &g->trainers[i];
    uint64_t from = i == HONEST ? g->pending.count ? g->pending.number[0] : g->next_number + 1
                                : g->next_number + 1 + take_byte(g) % 4;
    int fds[3];

    if (hr_ring_attach(g->ring, position(from), &t->consumer, fds, NULL) < 0)
        abort();
    t->page = mmap(NULL, sizeof(*t->page), PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    MUST(t->page != MAP_FAILED);
    t->wake_fd = fds[2];
    t->tail = 0;
    if (i == HONEST)
        g->due = g->pending;
    g->pending.count = 0;
}

static void detach(struct game *g, uint32_t i)
{
    struct trainer *t = &g->trainers[i];

    munmap(t->page, sizeof(*t->page));
    hr_ring_detach(g->ring, t->consumer);
    *t = (struct trainer){.wake_fd = -1};
    if (i == HONEST)
        g->due.count = g->held_count = 0;
}

static void come_or_go(struct game *g)
{
    uint32_t i = take_byte(g) % TRAINERS;

    if (attached(g, i))
        detach(g, i);
    else
        attach(g, i);
}

/* ---- the honest one ---- */

static void take(struct game *g)
{
    struct trainer *t = &g->trainers[HONEST];

    if (!t->consumer)
        return;
    MUST(atomic_load_explicit(&t->page->head, memory_order_acquire) - t->tail == g->due.count);
    if (g->due.count == 0)
        return;
    struct hr_wire_entry entry = t->page->queue[t->tail % HR_WIRE_MAX_SLOTS];
    atomic_store_explicit(&t->page->tail, ++t->tail, memory_order_relaxed);
    MUST(entry.slot < g->slots && entry.ticket && *number_in(g, entry.slot) == g->due.number[0]);
    g->held[g->held_count] = entry;
    g->held_number[g->held_count++] = g->due.number[0];
    memmove(g->due.number, g->due.number + 1, --g->due.count * sizeof(g->due.number[0]));
}

static void release(struct game *g)
{
    uint32_t i = take_byte(g);

    if (g->held_count == 0)
        return;
    i %= g->held_count;
    atomic_store_explicit(&g->trainers[HONEST].page->lease[g->held[i].slot].released, g->held[i].ticket,
                          memory_order_release);
    g->held[i] = g->held[--g->held_count];
    g->held_number[i] = g->held_number[g->held_count];
}

static void check_held(const struct game *g)
{
    for (uint32_t i = 0; i < g->held_count; i++)
        MUST(*number_in(g, g->held[i].slot) == g->held_number[i]);
}

/* ---- the others ---- */

static struct trainer *pick_hostile(struct game *g)
{
    struct trainer *t = &g->trainers[1 + take_byte(g) % (TRAINERS - 1)];

    return t->consumer ? t : NULL;
}

static void scribble(struct game *g)
{
    struct trainer *t = pick_hostile(g);
    size_t at = take_byte(g) | take_byte(g) << 8, n = take_byte(g);

    n = n < g->bytes ? n : g->bytes;
    if (t && at < sizeof(*t->page))
        memcpy((uint8_t *)t->page + at, g->data, n < sizeof(*t->page) - at ? n : sizeof(*t->page) - at);
    g->data += n;
    g->bytes -= n;
}

/* A lease given back that may be held, given back already, or never have been given. */
static void release_anything(struct game *g)
{
    struct trainer *t = pick_hostile(g);
    uint32_t slot = take_byte(g) % HR_WIRE_MAX_SLOTS, ticket = take_byte(g);

    if (!t)
        return;
    if (ticket & 128)
        ticket = t->page->queue[slot % HR_WIRE_MAX_SLOTS].ticket + (ticket & 3) - 1;
    atomic_store_explicit(&t->page->lease[slot % g->slots].released, ticket, memory_order_release);
}

static void abuse_wake(struct game *g)
{
    struct trainer *t = pick_hostile(g);
    uint32_t how = take_byte(g);
    uint64_t value = how & 1 ? 1 : UINT64_MAX - 1;

    if (!t)
        return;
    ssize_t ignored = how & 2 ? read(t->wake_fd, &value, sizeof(value)) : write(t->wake_fd, &value, sizeof(value));
    (void)ignored;
    if (how & 4)
        fcntl(t->wake_fd, F_SETFL, 0);
    hr_ring_collect(g->ring);
    fcntl(t->wake_fd, F_SETFL, O_NONBLOCK);
}

static void close_one(struct game *g)
{
    struct trainer *t = pick_hostile(g);

    if (t)
        hr_ring_close_consumer(t->consumer, HR_E_END);
}

/* What was not taken is taken back, and goes on with the next. */
static void recall(struct game *g)
{
    struct trainer *t = &g->trainers[take_byte(g) % TRAINERS];
    uint32_t from = take_byte(g) % 4;

    if (!t->consumer)
        return;
    bool honest = t == &g->trainers[HONEST];
    uint32_t first = t->page->queue[t->tail % HR_WIRE_MAX_SLOTS].slot;
    int slot = hr_ring_recall(g->ring, t->consumer);
    MUST(slot < (int)g->slots && (!honest || slot == (g->due.count ? (int)first : -1)));
    hr_ring_want(g->ring, t->consumer, position(g->next_number + 1 + (honest ? 0 : from)));
    MUST(!honest || !hr_ring_is_behind(g->ring, t->consumer));
    if (!honest)
        return;
    g->due.count = 0;
    t->tail = atomic_load_explicit(&t->page->tail, memory_order_relaxed);
}

static void look(struct game *g)
{
    const struct hr_ring_consumer *slow = hr_ring_find_slow(g->ring, 0);
    bool known = !slow;

    for (uint32_t i = 0; i < TRAINERS; i++)
        known |= slow == g->trainers[i].consumer;
    MUST(known && (!hr_ring_is_unwanted(g->ring) || !attached(g, HONEST)));
}

/* ---- the game ---- */

static void play(struct game *g)
{
    static void (*const operations[])(struct game *g) = {
        acquire, publish, take,    release,  scribble,         come_or_go,
        flush,   give_up, acquire, publish,  release_anything, abuse_wake,
        close_one, recall,  look};

    for (int i = 0; i < MAX_OPERATIONS && g->bytes > 0; i++) {
        operations[take_byte(g) % (sizeof(operations) / sizeof(operations[0]))](g);
        hr_ring_collect(g->ring);
        check_held(g);
        check_stats(g);
    }
}

static void end(struct game *g)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < TRAINERS; i++)
        if (attached(g, i))
            detach(g, i);
    flush(g);
    for (uint32_t i = 0; i < g->slots; i++)
        count += g->acquired[i];
    while (hr_ring_acquire(g->ring) >= 0)
        count++;
    MUST(count == g->slots);
    hr_ring_destroy(g->ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct game g = {.data = data, .bytes = bytes};

    g.slots = 1 + take_byte(&g) % MAX_SLOTS;
    const struct hr_ring_spec spec = {.name = "fuzz", .slot_count = g.slots, .slot_bytes = SLOT_BYTES, .shared = true};
    if (hr_ring_create(&spec, &g.ring, NULL) < 0)
        abort();
    attach(&g, HONEST);
    attach(&g, 1);
    play(&g);
    end(&g);
    return 0;
}
