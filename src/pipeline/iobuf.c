/* Ring allocator over one arena: taken in order, given back in any order, reclaimed in order. */
#include "pipeline/iobuf.h"

#include <sys/mman.h>

#include "base/err.h"
#include "base/mem.h"

int hr_iobufs_init(struct hr_iobufs *bufs, uint64_t arena_bytes, uint64_t room_bytes,
                   uint32_t entry_count)
{
    *bufs = (struct hr_iobufs){.arena_bytes = hr_align_up(arena_bytes, 4096),
                               .window_bytes = hr_align_up(arena_bytes, 4096),
                               .room_bytes = hr_align_up(hr_max_u64(arena_bytes, room_bytes), 4096),
                               .entry_count = entry_count};
    void *arena = mmap(NULL, bufs->room_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bufs->arena = arena == MAP_FAILED ? NULL : arena;
    bufs->entries = hr_alloc_zero(entry_count, sizeof(*bufs->entries));
    if (!bufs->arena || !bufs->entries) {
        hr_iobufs_finish(bufs);
        return HR_E_NOMEM;
    }
    madvise(bufs->arena, bufs->room_bytes, MADV_HUGEPAGE);
    return 0;
}

void hr_iobufs_finish(struct hr_iobufs *bufs)
{
    if (bufs->arena)
        munmap(bufs->arena, bufs->room_bytes);
    hr_free(bufs->entries);
    *bufs = (struct hr_iobufs){0};
}

static uint32_t references(uint32_t refs)
{
    return refs & ~HR_IOBUF_WATCHED;
}

void hr_iobufs_reclaim(struct hr_iobufs *bufs)
{
    while (bufs->first != bufs->last) {
        struct hr_iobuf *buf = &bufs->entries[bufs->first % bufs->entry_count];
        /* Acquire pairs with the release in hr_iobuf_drop: the worker is done reading. */
        if (references(atomic_load_explicit(&buf->refs, memory_order_acquire)) != 0)
            return;
        bufs->tail = buf->end;
        bufs->first++;
    }
}

bool hr_iobufs_watch(struct hr_iobufs *bufs, uint64_t bytes)
{
    struct hr_iobuf *last = NULL;

    /* More than the mark alone: marked and in use. The entry may have been taken anew since. */
    if (bufs->watched &&
        atomic_load_explicit(&bufs->watched->refs, memory_order_relaxed) > HR_IOBUF_WATCHED)
        return true;
    hr_iobufs_reclaim(bufs);
    /* Those that are given back already come along with the ones before them. */
    for (uint32_t i = bufs->first; i != bufs->last; i++) {
        struct hr_iobuf *buf = &bufs->entries[i % bufs->entry_count];
        if (references(atomic_load_explicit(&buf->refs, memory_order_relaxed)) != 0)
            last = buf;
        if (last && buf->end - bufs->tail >= bytes)
            break;
    }
    bufs->watched = last;
    /* One word holds the mark and the count: whoever comes second sees what the first one did. */
    return last && references(atomic_fetch_or_explicit(&last->refs, HR_IOBUF_WATCHED,
                                                       memory_order_relaxed)) != 0;
}

/* Start of the next buffer, skipping the ring's end when it would be cut there. What is skipped counts as in use, so
 * that a smaller window leaves as much less for buffers. */
static uint64_t place(const struct hr_iobufs *bufs, uint64_t head, uint64_t bytes, uint32_t align)
{
    uint64_t start = hr_align_up(head, align);
    uint64_t in_arena = start % bufs->arena_bytes;

    if (bufs->stretched)
        return start;
    if (in_arena + bytes > (in_arena > 0 ? bufs->window_bytes : bufs->arena_bytes))
        start += bufs->arena_bytes - in_arena;
    return start;
}

/* Bytes that may be in use from the tail on. */
static uint64_t limit(const struct hr_iobufs *bufs)
{
    return bufs->stretched ? bufs->room_bytes : bufs->arena_bytes;
}

void hr_iobufs_probe_begin(struct hr_iobufs *bufs, struct hr_iobufs_probe *probe, bool single)
{
    hr_iobufs_reclaim(bufs);
    /* An empty ring starts over at the arena's beginning, so that a buffer of up to the whole arena
     * always fits in the end. */
    if (hr_iobufs_empty(bufs))
        bufs->head = bufs->tail = 0;
    bufs->stretched = single && hr_iobufs_empty(bufs);
    probe->head = bufs->head;
    probe->entries = bufs->last - bufs->first;
}

bool hr_iobufs_probe_add(const struct hr_iobufs *bufs, struct hr_iobufs_probe *probe,
                         uint64_t bytes, uint32_t align)
{
    uint64_t start = place(bufs, probe->head, bytes, align);

    if (start + bytes - bufs->tail > limit(bufs) || probe->entries == bufs->entry_count)
        return false;
    probe->head = start + bytes;
    probe->entries++;
    return true;
}

struct hr_iobuf *hr_iobufs_take(struct hr_iobufs *bufs, uint64_t bytes, uint32_t align,
                                uint32_t refs)
{
    uint64_t start = place(bufs, bufs->head, bytes, align);

    HR_ASSERT(align <= 4096);
    if (start + bytes - bufs->tail > limit(bufs) ||
        bufs->last - bufs->first == bufs->entry_count)
        return NULL;
    struct hr_iobuf *buf = &bufs->entries[bufs->last++ % bufs->entry_count];
    buf->start = start;
    buf->end = start + bytes;
    buf->data = bufs->arena + (bufs->stretched ? start : start % bufs->arena_bytes);
    atomic_store_explicit(&buf->refs, refs, memory_order_relaxed);
    bufs->head = buf->end;
    return buf;
}
