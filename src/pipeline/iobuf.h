/* Buffers for bytes in flight, cut from one arena in ring order: no allocation, no fragmentation, a
 * hard bound. The reader thread takes; workers give back by dropping references; the reader thread
 * notices when it needs the room, and can have itself woken when there is some. */
#ifndef HR_PIPELINE_IOBUF_H
#define HR_PIPELINE_IOBUF_H

#include <stdatomic.h>

#include "base/base.h"

/* The reader thread sleeps until this one is given back. */
#define HR_IOBUF_WATCHED (UINT32_C(1) << 31)

struct hr_iobuf {
    uint8_t *data;
    /* References, and HR_IOBUF_WATCHED. Workers drop (release); the reader thread reads (acquire) */
    _Atomic uint32_t refs;
    uint64_t start, end;   /* in the ring's endless byte count; reader thread only */
};

struct hr_iobufs {
    uint8_t *arena;
    uint64_t arena_bytes;     /* of the ring */
    uint64_t window_bytes;    /* of it, what is used now: the ring's end. May be changed at any time */
    uint64_t room_bytes;      /* of the memory: what is behind the ring serves rare, larger records */
    bool stretched;           /* the last probe may use all of it */
    struct hr_iobuf *entries; /* FIFO ring of entry_count */
    uint32_t entry_count;
    uint32_t first, last;     /* endless counts */
    uint64_t head, tail;      /* endless byte counts: [tail, head) is in use, or skipped at the ring's end */
    struct hr_iobuf *watched; /* see hr_iobufs_watch */
};

/* room_bytes: what the largest record takes, also where that is more than the ring. Memory behind the
 * ring is not touched before such a record comes. */
int hr_iobufs_init(struct hr_iobufs *bufs, uint64_t arena_bytes, uint64_t room_bytes,
                   uint32_t entry_count) HR_MUST_CHECK;
void hr_iobufs_finish(struct hr_iobufs *bufs);

/* Would these buffers fit one after the other right now? sizes include padding. single: they are all
 * that one record needs, and an empty ring may be exceeded for it. */
struct hr_iobufs_probe {
    uint64_t head;
    uint32_t entries;
};
void hr_iobufs_probe_begin(struct hr_iobufs *bufs, struct hr_iobufs_probe *probe, bool single);
bool hr_iobufs_probe_add(const struct hr_iobufs *bufs, struct hr_iobufs_probe *probe,
                         uint64_t bytes, uint32_t align);

/* A buffer with refs references; NULL when there is no room now. */
struct hr_iobuf *hr_iobufs_take(struct hr_iobufs *bufs, uint64_t bytes, uint32_t align,
                                uint32_t refs);
/* Drops one reference; any thread. True when it was the last and the reader thread is to be woken. */
static inline bool hr_iobuf_drop(struct hr_iobuf *buf)
{
    return atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_release) == (HR_IOBUF_WATCHED | 1);
}
static inline bool hr_iobufs_empty(const struct hr_iobufs *bufs)
{
    return bufs->first == bufs->last;
}
/* Reader thread: takes back what was given up at the old end. */
void hr_iobufs_reclaim(struct hr_iobufs *bufs);
/* Reader thread, before it sleeps for want of room: hr_iobuf_drop will say so when about `bytes` at the old end, or
 * all that is in use, have come back. False when something has come back meanwhile: look again. */
bool hr_iobufs_watch(struct hr_iobufs *bufs, uint64_t bytes);

#endif
