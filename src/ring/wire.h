/* The bytes shared between the sidecar and trainers: socket messages, the control page, and the
 * self-describing batch in a slot. docs/protocol.md explains them. Fixed-size little-endian structs
 * with explicit sizes: a client needs nothing but this file. Changes append fields; anything else
 * raises HR_WIRE_VERSION, and a peer with another version is refused politely. */
#ifndef HR_RING_WIRE_H
#define HR_RING_WIRE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HR_WIRE_VERSION 2u

enum {
    HR_WIRE_MAX_SLOTS = 256,
    HR_WIRE_MAX_FIELDS = 96,
    HR_WIRE_MAX_DIMS = 8,
    HR_WIRE_NAME_BYTES = 64,
    HR_WIRE_STATE_BYTES = 512,
    HR_WIRE_TEXT_BYTES = 1024,
    HR_WIRE_MAX_MESSAGE = 4096,
};

/* ---- socket messages (SOCK_SEQPACKET: one message, one packet) ---- */

enum hr_wire_kind {
    HR_WIRE_HELLO = 1,   /* trainer -> sidecar, first message, once */
    HR_WIRE_WELCOME = 2, /* sidecar -> trainer, with fds: data memfd, control memfd, wake eventfd */
    HR_WIRE_ERROR = 3,   /* sidecar -> trainer: the stream ends (or never began) for this reason */
    HR_WIRE_SEEK = 4,    /* trainer -> sidecar: go on from this state */
    HR_WIRE_SEEKED = 5,  /* sidecar -> trainer: batches of the new generation follow */
    HR_WIRE_STATS_ASK = 6,
    HR_WIRE_STATS = 7,   /* sidecar -> trainer: JSON text */
    HR_WIRE_BYE = 8,     /* either way: orderly end */
    HR_WIRE_RESTARTED = 9, /* sidecar -> trainer, private sockets: say hello again, here */
};

struct hr_wire_head {
    uint32_t kind;
    uint32_t bytes; /* of the whole message, this head included */
};

struct hr_wire_hello {
    struct hr_wire_head head;
    uint32_t wire_version;
    uint32_t rank, world;
    uint32_t want_shared; /* 1: join as a read-only replica */
    uint32_t force_state; /* 1: accept a state of another dataset or plan */
    uint32_t state_bytes; /* 0 = from the beginning */
    char state[HR_WIRE_STATE_BYTES];
    char client[HR_WIRE_NAME_BYTES]; /* program and version, for the sidecar's log */
    uint32_t incarnation;            /* of the last RESTARTED, 0 = there was none */
    uint32_t join_now;               /* 1: a replica without a state starts where the others are */
};

struct hr_wire_welcome {
    struct hr_wire_head head;
    uint32_t wire_version;
    uint32_t rank, world;
    uint32_t slot_count;
    uint64_t slot_bytes;    /* slot i of the data memfd starts at i * slot_bytes */
    uint64_t data_bytes;    /* size of the data memfd */
    uint64_t control_bytes; /* size of the control memfd */
    uint32_t writable;      /* data may be mapped read-write */
    uint32_t generation;
    uint64_t steps_per_epoch; /* of the epoch that the stream starts in */
    uint64_t batch;         /* global */
    uint64_t dataset_records;
    char dataset_digest[40], plan_digest[40]; /* hex, NUL-terminated */
    char server[HR_WIRE_NAME_BYTES];
    char state[HR_WIRE_STATE_BYTES]; /* the state that the first batch starts from */
    uint32_t state_bytes;
    uint32_t reserved;
};

struct hr_wire_error {
    struct hr_wire_head head;
    int32_t code; /* HR_E_* */
    uint32_t reserved;
    uint64_t record; /* UINT64_MAX = none */
    char shard[256], field[64];
    char text[HR_WIRE_TEXT_BYTES];
};

struct hr_wire_seek {
    struct hr_wire_head head;
    uint32_t force_state;
    uint32_t state_bytes;
    char state[HR_WIRE_STATE_BYTES];
    uint64_t epoch; /* when state_bytes is 0: start of this epoch */
};

struct hr_wire_seeked {
    struct hr_wire_head head;
    uint32_t generation;
    uint32_t state_bytes;
    uint64_t steps_per_epoch;
    char state[HR_WIRE_STATE_BYTES];
};

/* The engine behind this socket died and another one takes its place. What the trainer said before
 * is forgotten, and what it says before its next HELLO is not heard. */
struct hr_wire_restarted {
    struct hr_wire_head head;
    uint32_t incarnation; /* to be repeated in that HELLO */
    uint32_t reserved;
};

struct hr_wire_stats {
    struct hr_wire_head head;
    char json[HR_WIRE_MAX_MESSAGE - sizeof(struct hr_wire_head)];
};

/* ---- the control page: one memfd per consumer, mapped read-write by both ----
 *
 * Producer words are written by the sidecar only, consumer words by the trainer only. The sidecar
 * validates whatever it reads back: a word with an unexpected value is as if it were not written.
 *
 * Publishing: queue[head % HR_WIRE_MAX_SLOTS] = entry; head += 1 (release); if consumer_waits,
 * futex wake on head. Taking: load head (acquire); entries tail .. head - 1 are ready; one is taken
 * when tail is moved past it by compare-and-swap, since the sidecar moves tail up to head (and
 * publishes those batches again later) when it has to send replicas back.
 * Releasing slot i: released[i] = the entry's ticket (release); if producer_waits, write 1 to the
 * wake eventfd. A slot is free for the sidecar when released[i] equals the ticket it published. */

struct hr_wire_entry {
    uint32_t slot;
    uint32_t ticket;     /* never 0, counts up per slot */
    uint32_t generation; /* batches of an older generation than the last SEEKED are to be released */
    uint32_t reserved;
};

struct hr_wire_control {
    /* constant after WELCOME */
    uint64_t magic;
    uint32_t wire_version;
    uint32_t slot_count;
    uint8_t pad0[48];

    /* producer's cache line: written by the sidecar, read by the trainer */
    _Atomic uint32_t head;           /* entries published; futex word. Pairs with the loads in next */
    _Atomic uint32_t producer_waits; /* the sidecar has no free slot */
    _Atomic uint32_t closed;         /* nonzero: no more batches; HR_E_* negated. head is woken */
    uint32_t pad1;
    _Atomic uint64_t producer_wait_ns; /* total time without a free slot */
    uint8_t pad2[40];

    /* consumer's cache line: written by the trainer, read by the sidecar */
    _Atomic uint32_t tail; /* entries taken; both sides move it, see above */
    _Atomic uint32_t consumer_waits;
    _Atomic uint64_t consumer_wait_ns; /* total time in next() without a batch */
    uint8_t pad3[48];

    /* one lease word a slot, a cache line each: written by the trainer */
    struct {
        _Atomic uint32_t released;
        uint8_t pad[60];
    } lease[HR_WIRE_MAX_SLOTS];

    struct hr_wire_entry queue[HR_WIRE_MAX_SLOTS];
};

/* An entry that was taken back can be written again while a slow trainer still reads it, to find at its
 * compare-and-swap that it was not its own. */
static inline struct hr_wire_entry hr_wire_load_entry(const struct hr_wire_entry *at)
{
    return (struct hr_wire_entry){.slot = __atomic_load_n(&at->slot, __ATOMIC_RELAXED),
                                  .ticket = __atomic_load_n(&at->ticket, __ATOMIC_RELAXED),
                                  .generation = __atomic_load_n(&at->generation, __ATOMIC_RELAXED)};
}

static inline void hr_wire_store_entry(struct hr_wire_entry *at, struct hr_wire_entry entry)
{
    __atomic_store_n(&at->slot, entry.slot, __ATOMIC_RELAXED);
    __atomic_store_n(&at->ticket, entry.ticket, __ATOMIC_RELAXED);
    __atomic_store_n(&at->generation, entry.generation, __ATOMIC_RELAXED);
}

#define HR_WIRE_CONTROL_MAGIC 0x316c7463656e6168ull

/* ---- a batch in a slot: header, field table, then data at 64-byte aligned offsets ---- */

#define HR_WIRE_BATCH_MAGIC 0x3168637461627268ull

enum hr_wire_batch_flag {
    HR_WIRE_LAST_OF_EPOCH = 1,
    HR_WIRE_END_OF_RUN = 2, /* the configured number of epochs ends with this batch */
};

/* All offsets count from the slot's first byte; 0 = not there. */
struct hr_wire_batch {
    uint64_t magic;
    uint32_t wire_version;
    uint32_t header_bytes; /* of this struct; the field table follows at this offset */
    uint64_t sequence;     /* batches of this stream and generation, from 0 */
    uint64_t epoch, step;
    uint64_t global_first;  /* position of the global batch's first sample in its epoch */
    uint32_t count;         /* samples here (this rank's share) */
    uint32_t global_count;  /* of the global batch */
    uint32_t first;         /* this rank's first sample in the global batch */
    uint32_t field_count;
    uint32_t flags;
    uint32_t bad_count;     /* samples substituted or masked here */
    uint64_t records_off;   /* u64[count]: record ids delivered (after substitution) */
    uint64_t sources_off;   /* u32[count] */
    uint64_t valid_off;     /* u8[count]: 0 = padding or masked */
    uint32_t state_bytes;
    uint32_t field_bytes;   /* of one field entry */
    char state[HR_WIRE_STATE_BYTES]; /* the state that follows this batch: JSON, NUL-terminated */
    uint8_t reserved[24];
};

struct hr_wire_field {
    char name[HR_WIRE_NAME_BYTES]; /* NUL-terminated */
    uint32_t dtype;                /* enum hr_dtype (base/types.h) */
    uint32_t layout;               /* enum hr_layout */
    uint32_t dims;                 /* of the whole batch, batch axis first; ragged: of the values, 1
                                      for bytes, or 0 when samples have shapes of their own */
    uint32_t ragged;
    uint64_t data_off, data_bytes; /* ragged: the values of all samples, one after the other */
    int64_t shape[HR_WIRE_MAX_DIMS];
    int64_t strides[HR_WIRE_MAX_DIMS]; /* in bytes */
    /* ragged only */
    uint64_t offsets_off;  /* i64[count + 1], in elements of dtype */
    uint64_t shapes_off;   /* i32[count][sample_dims], 0 when samples are flat */
    uint32_t sample_dims;
    uint32_t field_type;   /* enum hr_field_type */
    uint64_t reserved[3];
};

_Static_assert(sizeof(struct hr_wire_head) == 8, "wire layout");
_Static_assert(sizeof(struct hr_wire_batch) % 64 == 0, "wire layout");
_Static_assert(sizeof(struct hr_wire_field) % 16 == 0, "wire layout");
_Static_assert(offsetof(struct hr_wire_control, head) == 64, "wire layout");
_Static_assert(offsetof(struct hr_wire_control, tail) == 128, "wire layout");
_Static_assert(offsetof(struct hr_wire_control, lease) == 192, "wire layout");

#endif
