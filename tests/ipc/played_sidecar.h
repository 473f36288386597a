/* A sidecar inside the test, at the other end of a socket pair: a ring with one consumer, batches that are
 * numbered, and messages that may be as wrong as the test likes. */
#ifndef HR_TESTS_IPC_PLAYED_SIDECAR_H
#define HR_TESTS_IPC_PLAYED_SIDECAR_H

#include "client/internal.h"
#include "ipc/numbered.h"
#include "ring/consumer.h"
#include "ring/ring.h"

struct server {
    struct hr_ring *ring;
    struct hr_ring_consumer *consumer;
    struct numbered_plan plan;
    struct numbered_cursor cursor;
    uint64_t sequence;
    int sock, fds[3];
    struct hr_wire_hello hello;
    struct hr_client *client;
};

/* The client has said hello, as rank 1 of 2, and waits for a welcome. */
void server_start(struct server *s, uint32_t slots, bool shared);
struct hr_wire_welcome server_good_welcome(struct server *s);
void server_send(struct server *s, const void *message, size_t bytes, const int *fds, int count);
/* Started and welcomed. */
void server_open(struct server *s, uint32_t slots);
void server_close(struct server *s);
/* Every batch is later than the one before it, also in another ring. */
struct hr_ring_position next_position(void);
/* The next numbered batch; false when no slot is free. */
bool server_publish(struct server *s);

/* The number of a batch that is as numbered.h says. */
uint64_t ordinal_of(struct hr_batch *b);
/* The next batch, or the test fails. */
struct hr_batch *take(struct hr_client *client);
void take_and_release(struct hr_client *client, uint64_t ordinal);

#endif
