/* See played_sidecar.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "base/fd.h"
#include "client/internal.h"
#include "ipc/numbered.h"
#include "ipc/played_sidecar.h"
#include "ring/consumer.h"
#include "ring/ring.h"

void server_start(struct server *s, uint32_t slots, bool shared)
{
    struct hr_ring_spec spec = {
        .name = "test", .slot_count = slots, .slot_bytes = NUMBERED_SLOT_BYTES, .shared = shared};
    struct hr_client_options options = HR_CLIENT_OPTIONS_INIT;
    struct hr_error err;
    char address[32];
    int pair[2], ignored_fds[8], fd_count;

    *s = (struct server){.plan = {.count = 4, .steps = 5}};
    assert_int_equal(hr_ring_create(&spec, &s->ring, &err), 0);
    assert_int_equal(hr_ring_attach(s->ring, (struct hr_ring_position){0, 0}, &s->consumer, s->fds, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    s->sock = pair[0];
    snprintf(address, sizeof(address), "fd:%d", pair[1]);
    options.no_wait = 1;
    options.rank = 1;
    options.world = 2;
    options.timeout_ms = 2000;
    assert_int_equal(hr_client_open(address, &options, &s->client), 0);
    assert_int_equal(hr_client_ready(s->client, 0), HR_E_TIMEOUT);
    assert_int_equal(hr_fd_recv(s->sock, &s->hello, sizeof(s->hello), ignored_fds, &fd_count, &err),
                     sizeof(s->hello));
}

struct hr_wire_welcome server_good_welcome(struct server *s)
{
    struct hr_wire_welcome w = {
        .head = {HR_WIRE_WELCOME, sizeof(w)},
        .wire_version = HR_WIRE_VERSION,
        .slot_bytes = hr_ring_slot_bytes(s->ring),
        .control_bytes = sizeof(struct hr_wire_control),
        .slot_count = s->consumer->page->slot_count,
        .writable = 1,
        .steps_per_epoch = s->plan.steps,
        .batch = s->plan.count,
        .dataset_digest = "d0",
    };
    uint64_t bytes;

    hr_ring_base(s->ring, &bytes);
    w.data_bytes = bytes;
    w.state_bytes = (uint32_t)numbered_state(&s->plan, s->cursor, w.state);
    return w;
}

void server_send(struct server *s, const void *message, size_t bytes, const int *fds, int count)
{
    struct hr_error err;

    assert_int_equal(hr_fd_send(s->sock, message, bytes, fds, count, &err), 0);
}

void server_open(struct server *s, uint32_t slots)
{
    server_start(s, slots, false);
    struct hr_wire_welcome w = server_good_welcome(s);
    server_send(s, &w, sizeof(w), s->fds, 3);
    assert_int_equal(hr_client_ready(s->client, 1000), 0);
}

void server_close(struct server *s)
{
    hr_client_close(s->client);
    hr_fd_close(&s->sock);
    hr_ring_destroy(s->ring);
}

struct hr_ring_position next_position(void)
{
    static uint64_t step;

    return (struct hr_ring_position){.step = step++};
}

bool server_publish(struct server *s)
{
    int slot = hr_ring_acquire(s->ring);

    if (slot < 0)
        return false;
    numbered_fill(hr_ring_slot(s->ring, (uint32_t)slot), &s->plan, s->cursor, s->sequence++);
    numbered_advance(&s->plan, &s->cursor);
    hr_ring_publish(s->ring, (uint32_t)slot, next_position());
    return true;
}

uint64_t ordinal_of(struct hr_batch *b)
{
    struct hr_array label;

    assert_int_equal(hr_batch_field(b, "label", &label), 0);
    assert_string_equal(label.dtype, "i64");
    return (uint64_t)((int64_t *)label.data)[0] / 4;
}

struct hr_batch *take(struct hr_client *client)
{
    struct hr_batch *b = NULL;
    int ret = hr_client_next(client, 5000, &b);

    if (ret < 0)
        fail_msg("%d: %s", ret, hr_client_error(client));
    return b;
}

void take_and_release(struct hr_client *client, uint64_t ordinal)
{
    struct hr_batch *b = take(client);

    assert_int_equal(ordinal_of(b), ordinal);
    hr_batch_release(b);
}
