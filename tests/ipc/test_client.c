/* The client library against sidecars: one played by the test itself, over a socket pair, which may
 * be as wrong as it likes, and numbered feeding by another process. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rng.h"
#include "client/internal.h"
#include "ipc/numbered.h"
#include "ring/consumer.h"
#include "ring/ring.h"

extern char **environ;

/* ---- a sidecar inside the test ---- */

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

static void server_start(struct server *s, uint32_t slots, bool shared)
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

static struct hr_wire_welcome good_welcome(struct server *s)
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

static void send_raw(struct server *s, const void *message, size_t bytes, const int *fds, int count)
{
    struct hr_error err;

    assert_int_equal(hr_fd_send(s->sock, message, bytes, fds, count, &err), 0);
}

static void server_open(struct server *s, uint32_t slots)
{
    server_start(s, slots, false);
    struct hr_wire_welcome w = good_welcome(s);
    send_raw(s, &w, sizeof(w), s->fds, 3);
    assert_int_equal(hr_client_ready(s->client, 1000), 0);
}

static void server_close(struct server *s)
{
    hr_client_close(s->client);
    hr_fd_close(&s->sock);
    hr_ring_destroy(s->ring);
}

/* Every batch is later than the one before it, also in another ring. */
static struct hr_ring_position next_position(void)
{
    static uint64_t step;

    return (struct hr_ring_position){.step = step++};
}

static bool publish(struct server *s)
{
    int slot = hr_ring_acquire(s->ring);

    if (slot < 0)
        return false;
    numbered_fill(hr_ring_slot(s->ring, (uint32_t)slot), &s->plan, s->cursor, s->sequence++);
    numbered_advance(&s->plan, &s->cursor);
    hr_ring_publish(s->ring, (uint32_t)slot, next_position());
    return true;
}

/* ---- looking at numbered batches ---- */

static uint64_t ordinal_of(struct hr_batch *b)
{
    struct hr_array label;

    assert_int_equal(hr_batch_field(b, "label", &label), 0);
    assert_string_equal(label.dtype, "i64");
    return (uint64_t)((int64_t *)label.data)[0] / 4;
}

static struct hr_batch *take(struct hr_client *client)
{
    struct hr_batch *b = NULL;
    int ret = hr_client_next(client, 5000, &b);

    if (ret < 0)
        fail_msg("%d: %s", ret, hr_client_error(client));
    return b;
}

static void take_and_release(struct hr_client *client, uint64_t ordinal)
{
    struct hr_batch *b = take(client);

    assert_int_equal(ordinal_of(b), ordinal);
    hr_batch_release(b);
}

/* ---- feeding ---- */

static void views_show_what_was_written(void **state)
{
    struct server s;
    struct hr_batch_info info;
    struct hr_client_info facts;
    struct hr_array a;

    (void)state;
    server_open(&s, 2);
    assert_int_equal(s.hello.rank, 1);
    assert_int_equal(s.hello.world, 2);
    publish(&s);
    publish(&s);
    take_and_release(s.client, 0);
    struct hr_batch *b = take(s.client);
    hr_batch_info(b, &info);
    assert_int_equal(info.count, 4);
    assert_int_equal(info.step, 1);
    assert_int_equal(info.field_count, 6);
    assert_int_equal(info.records[3], 7);
    assert_int_equal(info.valid[3], 1);
    assert_string_equal(info.state, hr_client_state(s.client));
    assert_non_null(strstr(info.state, "\"step\":2"));
    assert_int_equal(hr_batch_field(b, "x", &a), 0);
    assert_int_equal(a.dims, 2);
    assert_int_equal(a.shape[1], 3);
    assert_int_equal(a.strides[0], 12);
    assert_true(((float *)a.data)[3 * 3 + 2] == 1 + 3 + 0.5f);
    assert_int_equal(a.writable, 1);
    assert_int_equal(hr_batch_field(b, "image", &a), 0);
    assert_string_equal(a.layout, "nhwc");
    assert_string_equal(a.field_type, "image");
    assert_int_equal((uintptr_t)a.data % 64, 0);
    assert_int_equal(hr_batch_field(b, "caption", &a), 0);
    assert_memory_equal((char *)a.data + a.offsets[2], "1-2", 3);
    assert_int_equal(hr_batch_field_at(b, 5, &a), 0);
    assert_string_equal(a.name, "crop");
    assert_int_equal(a.shapes[3], 2);
    assert_int_equal(a.offsets[4], 36);
    assert_int_equal(hr_batch_field(b, "nothing", &a), HR_E_NOT_FOUND);
    assert_int_equal(hr_batch_field_at(b, 6, &a), HR_E_NOT_FOUND);
    hr_batch_release(b);
    assert_int_equal(hr_batch_field(b, "x", &a), HR_E_RELEASED);
    hr_batch_release(b); /* once more does nothing */
    hr_client_info(s.client, &facts);
    assert_int_equal(facts.slot_count, 2);
    assert_string_equal(facts.dataset_digest, "d0");
    server_close(&s);
}

static void next_polls_and_times_out(void **state)
{
    struct server s;
    struct hr_batch *b;

    (void)state;
    server_open(&s, 2);
    assert_int_equal(hr_client_next(s.client, 0, &b), HR_E_TIMEOUT);
    assert_null(b);
    uint64_t begin = hr_clock_ns();
    assert_int_equal(hr_client_next(s.client, 120, &b), HR_E_TIMEOUT);
    uint64_t waited = hr_clock_ns() - begin;
    assert_true(waited >= 120 * HR_NS_PER_MS && waited < 2 * HR_NS_PER_S);
    assert_true(hr_client_wait_ns(s.client) >= 120 * HR_NS_PER_MS);
    struct hr_ring_stats stats;
    hr_ring_stats(s.ring, &stats);
    assert_true(stats.consumer_wait_ns >= 120 * HR_NS_PER_MS);
    publish(&s);
    assert_int_equal(hr_client_next(s.client, 0, &b), 0);
    hr_batch_release(b);
    server_close(&s);
}

static void all_slots_leased_is_said(void **state)
{
    struct server s;
    struct hr_batch *b[3], *more;

    (void)state;
    server_open(&s, 3);
    for (int i = 0; i < 3; i++) {
        publish(&s);
        b[i] = take(s.client);
    }
    assert_int_equal(hr_client_next(s.client, -1, &more), HR_E_ALL_LEASED);
    assert_non_null(strstr(hr_client_error(s.client), "all 3 slots"));
    hr_batch_release(b[1]);
    assert_true(publish(&s));
    more = take(s.client);
    assert_int_equal(ordinal_of(more), 3);
    assert_int_equal(ordinal_of(b[0]), 0);
    assert_int_equal(ordinal_of(b[2]), 2);
    hr_batch_release(b[0]);
    hr_batch_release(b[2]);
    hr_batch_release(more);
    server_close(&s);
}

static void releases_go_back_in_any_order(void **state)
{
    struct server s;
    struct hr_batch *b[4];
    struct hr_rng rng;

    (void)state;
    hr_rng_init(&rng, 1, 0, 0, 0);
    server_open(&s, 4);
    for (uint64_t n = 0; n < 4; n++) {
        publish(&s);
        b[n] = take(s.client);
    }
    for (uint64_t n = 4; n < 400; n++) {
        uint32_t i = hr_rng_u32(&rng) % 4;
        assert_false(publish(&s));
        hr_batch_release(b[i]);
        assert_true(publish(&s));
        b[i] = take(s.client);
        assert_int_equal(ordinal_of(b[i]), n);
    }
    for (int i = 0; i < 4; i++)
        hr_batch_release(b[i]);
    assert_int_equal(hr_ring_collect(s.ring), 4);
    server_close(&s);
}

static void release_wakes_a_waiting_sidecar(void **state)
{
    struct server s;
    uint64_t count = 0;

    (void)state;
    server_open(&s, 1);
    publish(&s);
    struct hr_batch *b = take(s.client);
    assert_int_equal(read(s.fds[2], &count, 8), -1);
    assert_false(publish(&s)); /* asks to be woken */
    hr_batch_release(b);
    assert_int_equal(read(s.fds[2], &count, 8), 8);
    assert_int_equal(count, 1);
    server_close(&s);
}

static void *release_later(void *arg)
{
    usleep(100);
    hr_batch_release(arg);
    return NULL;
}

static void *publish_many(void *arg)
{
    struct server *s = arg;

    for (int n = 0; n < 300;) {
        if (publish(s))
            n++;
        else
            usleep(50);
    }
    return NULL;
}

static void threads_release_while_one_takes(void **state)
{
    struct server s;
    pthread_t producer, releasers[300];

    (void)state;
    server_open(&s, 8);
    pthread_create(&producer, NULL, publish_many, &s);
    for (uint64_t n = 0; n < 300;) {
        struct hr_batch *b;
        int ret = hr_client_next(s.client, 5000, &b);
        if (ret == HR_E_ALL_LEASED) {
            usleep(50);
            continue;
        }
        assert_int_equal(ret, 0);
        assert_int_equal(ordinal_of(b), n);
        pthread_create(&releasers[n++], NULL, release_later, b);
    }
    pthread_join(producer, NULL);
    for (int i = 0; i < 300; i++)
        pthread_join(releasers[i], NULL);
    server_close(&s);
}

static void the_run_ends_after_its_last_batch(void **state)
{
    struct server s;
    struct hr_batch *b;
    struct hr_batch_info info;

    (void)state;
    server_open(&s, 4);
    s.plan.epochs = 1;
    s.plan.steps = 2;
    publish(&s);
    publish(&s);
    take_and_release(s.client, 0);
    b = take(s.client);
    hr_batch_info(b, &info);
    assert_true(info.last_of_epoch && info.end_of_run);
    hr_batch_release(b);
    assert_int_equal(hr_client_next(s.client, -1, &b), HR_E_END);
    assert_int_equal(hr_client_next(s.client, -1, &b), HR_E_END);
    server_close(&s);
}

static void a_closed_stream_ends_after_what_is_ready(void **state)
{
    struct server s;
    struct hr_batch *b;

    (void)state;
    server_open(&s, 4);
    publish(&s);
    hr_ring_close_consumer(s.consumer, HR_E_END);
    take_and_release(s.client, 0);
    assert_int_equal(hr_client_next(s.client, -1, &b), HR_E_END);
    server_close(&s);
}

static void the_sidecar_s_error_comes_with_its_place(void **state)
{
    struct server s;
    struct hr_batch *b;
    const char *shard, *field;
    uint64_t record;
    int code;
    struct hr_wire_error e = {.head = {HR_WIRE_ERROR, sizeof(e)}, .code = HR_E_CORRUPT,
                              .record = 12, .shard = "a-0000.hrs", .field = "image",
                              .text = "a-0000.hrs: record 12: corrupt data"};

    (void)state;
    server_open(&s, 4);
    publish(&s);
    send_raw(&s, &e, sizeof(e), NULL, 0);
    hr_ring_close_consumer(s.consumer, HR_E_CORRUPT);
    take_and_release(s.client, 0);
    assert_int_equal(hr_client_next(s.client, -1, &b), HR_E_CORRUPT);
    assert_int_equal(hr_client_error_detail(s.client, &code, &shard, &record, &field), HR_E_CORRUPT);
    assert_string_equal(shard, "a-0000.hrs");
    assert_string_equal(field, "image");
    assert_int_equal(record, 12);
    assert_string_equal(hr_client_error(s.client), e.text);
    server_close(&s);
}

static void hang_up_of_a_given_socket_is_final(void **state)
{
    struct server s;
    struct hr_batch *b;

    (void)state;
    server_open(&s, 4);
    publish(&s);
    hr_fd_close(&s.sock);
    take_and_release(s.client, 0);
    assert_int_equal(hr_client_next(s.client, -1, &b), HR_E_DISCONNECTED);
    assert_non_null(strstr(hr_client_error(s.client), "fd:N"));
    server_close(&s);
}

static void *answer_seek(void *arg)
{
    struct server *s = arg;
    struct hr_wire_seek seek;
    struct hr_wire_seeked answer = {.head = {HR_WIRE_SEEKED, sizeof(answer)}};
    struct hr_error err;
    int fds[8], fd_count;

    if (hr_fd_recv(s->sock, &seek, sizeof(seek), fds, &fd_count, &err) != sizeof(seek))
        return arg;
    s->cursor = seek.state_bytes ? numbered_parse(seek.state)
                                 : (struct numbered_cursor){seek.epoch, 0};
    s->sequence = 0;
    answer.generation = hr_ring_flush(s->ring, (struct hr_ring_position){0, 0});
    answer.state_bytes = (uint32_t)numbered_state(&s->plan, s->cursor, answer.state);
    publish(s);
    if (hr_fd_send(s->sock, &answer, sizeof(answer), NULL, 0, &err) < 0)
        return arg;
    return NULL;
}

static void seek_drops_what_was_ready(void **state)
{
    struct server s;
    pthread_t thread;
    void *wrong;

    (void)state;
    server_open(&s, 4);
    for (int i = 0; i < 3; i++)
        publish(&s);
    struct hr_batch *held = take(s.client);
    pthread_create(&thread, NULL, answer_seek, &s);
    assert_int_equal(hr_client_seek(s.client, "{\"epoch\":2,\"step\":3}", 0), 0);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    assert_non_null(strstr(hr_client_state(s.client), "\"step\":3"));
    take_and_release(s.client, 13);
    assert_int_equal(ordinal_of(held), 0);
    hr_batch_release(held);
    assert_int_equal(hr_ring_collect(s.ring), 4);
    server_close(&s);
}

static void seek_to_the_coming_epoch_asks_nothing(void **state)
{
    struct server s;
    pthread_t thread;

    (void)state;
    server_open(&s, 6);
    assert_int_equal(hr_client_seek_epoch(s.client, 0), 0);
    for (uint64_t i = 0; i < 5; i++) {
        publish(&s);
        take_and_release(s.client, i);
    }
    assert_int_equal(hr_client_seek_epoch(s.client, 1), 0);
    pthread_create(&thread, NULL, answer_seek, &s);
    assert_int_equal(hr_client_seek_epoch(s.client, 7), 0);
    pthread_join(thread, NULL);
    take_and_release(s.client, 35);
    server_close(&s);
}

static void held_batches_outlive_the_client(void **state)
{
    struct server s;
    struct hr_array a;

    (void)state;
    server_open(&s, 1);
    publish(&s);
    struct hr_batch *b = take(s.client);
    void *memory = hr_batch_hold_memory(b);
    assert_int_equal(hr_batch_field(b, "image", &a), 0);
    hr_client_close(s.client);
    s.client = NULL;
    hr_ring_detach(s.ring, s.consumer);
    assert_true(publish(&s)); /* into the same slot */
    assert_int_equal(ordinal_of(b), 0);
    assert_int_equal(((uint8_t *)a.data)[0], 0);
    ((uint8_t *)a.data)[0] = 7;
    hr_batch_release(b);
    assert_int_equal(((uint8_t *)a.data)[0], 7); /* still mapped */
    hr_batch_drop_memory(memory);
    server_close(&s);
}

/* ---- no system call ---- */

static void forbid_system_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {.len = HR_ARRAY_SIZE(code), .filter = code};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(77);
}

static void take_ready_ones(struct server *s)
{
    for (int i = 0; i < 4; i++) {
        struct hr_batch *b;
        struct hr_array a;
        if (hr_client_next(s->client, -1, &b) < 0 || hr_batch_field(b, "image", &a) < 0 ||
            hr_batch_field(b, "caption", &a) < 0)
            syscall(SYS_exit, 1);
        hr_batch_release(b);
    }
}

static void ready_batches_cost_no_system_call(void **state)
{
    int status;

    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("skipped: sanitizers make system calls of their own\n");
    skip();
#endif
    pid_t pid = fork();
    if (pid == 0) {
        struct server s;
        server_open(&s, 4);
        for (int round = 0; round < 2; round++) { /* the first allocates the views of each slot */
            for (int i = 0; i < 4; i++)
                publish(&s);
            if (round == 1)
                forbid_system_calls();
            take_ready_ones(&s);
        }
        syscall(SYS_exit, 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("skipped: no seccomp here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* ---- processes ---- */

static void a_forked_child_is_refused(void **state)
{
    struct server s;
    int status;

    (void)state;
    server_open(&s, 4);
    publish(&s);
    publish(&s);
    struct hr_batch *held = take(s.client);
    pid_t pid = fork();
    if (pid == 0) {
        struct hr_batch *b;
        struct hr_array a;
        int bad = hr_client_next(s.client, 0, &b) != HR_E_FORKED;
        bad |= hr_batch_field(held, "x", &a) != HR_E_FORKED;
        bad |= hr_client_seek(s.client, "", 0) != HR_E_FORKED;
        bad |= hr_client_ready(s.client, 0) != HR_E_FORKED;
        bad |= hr_client_stats(s.client) != NULL;
        bad |= strstr(hr_client_error(s.client), "forked") == NULL;
        hr_batch_release(held);
        hr_client_close(s.client);
        struct server own; /* a client of its own works */
        server_open(&own, 1);
        publish(&own);
        bad |= hr_client_next(own.client, 0, &b) != 0;
        _exit(bad);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(hr_ring_collect(s.ring), 0); /* the child released nothing */
    hr_batch_release(held);
    assert_int_equal(hr_ring_collect(s.ring), 1);
    take_and_release(s.client, 1);
    server_close(&s);
}

static void a_forked_child_keeps_no_socket_open(void **state)
{
    struct server s;
    struct hr_wire_hello message;
    struct hr_error err;
    int fds[8], fd_count, status;

    (void)state;
    server_open(&s, 1);
    pid_t pid = fork();
    if (pid == 0) {
        usleep(500000);
        _exit(0);
    }
    uint64_t begin = hr_clock_ns();
    hr_fd_close(&s.client->sock); /* as if this process had died */
    assert_int_equal(hr_fd_recv(s.sock, &message, sizeof(message), fds, &fd_count, &err), 0);
    assert_true(hr_clock_ns() - begin < 400 * HR_NS_PER_MS);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    s.client->phase = HR_LINK_DOWN;
    server_close(&s);
}

static pid_t start_sidecar(const char *path, const char *options)
{
    const char *argv[] = {"fake_sidecar", "--socket", path, options, NULL};
    pid_t pid;

    assert_int_equal(posix_spawn(&pid, getenv("FAKE_SIDECAR_BINARY"), NULL, NULL,
                                 (char *const *)argv, environ), 0);
    return pid;
}

struct comeback {
    const char *path;
    pid_t pid;
};

static void *restart_when_dead(void *arg)
{
    struct comeback *c = arg;

    waitpid(c->pid, NULL, 0);
    usleep(150000);
    c->pid = start_sidecar(c->path, "slots=3");
    return NULL;
}

static void a_new_sidecar_goes_on_where_the_dead_one_stopped(void **state)
{
    char path[] = "/tmp/headrace-test-XXXXXX", socket_path[64];
    struct hr_client *client;
    struct hr_batch *held = NULL;
    pthread_t thread;

    (void)state;
    assert_non_null(mkdtemp(path));
    snprintf(socket_path, sizeof(socket_path), "%s/s", path);
    struct comeback c = {socket_path, start_sidecar(socket_path, "slots=3,kill_at=17")};
    pthread_create(&thread, NULL, restart_when_dead, &c);
    assert_int_equal(hr_client_open(socket_path, NULL, &client), 0); /* waits for the socket */
    for (uint64_t n = 0; n < 40; n++) {
        struct hr_batch *b = take(client);
        assert_int_equal(ordinal_of(b), n);
        if (n == 14)
            held = b;
        else
            hr_batch_release(b);
    }
    assert_int_equal(ordinal_of(held), 14);
    hr_batch_release(held);
    pthread_join(thread, NULL);
    hr_client_close(client);
    kill(c.pid, SIGKILL);
    waitpid(c.pid, NULL, 0);
    unlink(socket_path);
    rmdir(path);
}

static void nobody_there_is_an_error_with_a_way_out(void **state)
{
    struct hr_client_options options = HR_CLIENT_OPTIONS_INIT;
    struct hr_client *client;

    (void)state;
    options.timeout_ms = 150;
    uint64_t begin = hr_clock_ns();
    assert_int_equal(hr_client_open("unix:/nonexistent/s", &options, &client), HR_E_DISCONNECTED);
    assert_true(hr_clock_ns() - begin >= 150 * HR_NS_PER_MS);
    assert_null(client);
    assert_non_null(strstr(hr_client_error(NULL), "/nonexistent/s"));
    assert_non_null(strstr(hr_client_error(NULL), "headrace serve"));
    char longest[200];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    assert_int_equal(hr_client_open(longest, NULL, &client), HR_E_USAGE);
    assert_int_equal(hr_client_open("fd:12345", NULL, &client), HR_E_USAGE);
    assert_int_equal(hr_client_open("fd:x", NULL, &client), HR_E_USAGE);
}

static void kill_only_child(void)
{
    char path[64], text[64] = "";

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
    fclose(f);
    kill((pid_t)atoi(text), SIGKILL);
}

static void a_private_sidecar_is_restarted_and_reaped(void **state)
{
    struct hr_client *client;
    char *binary = getenv("FAKE_SIDECAR_BINARY");

    (void)state;
    assert_int_equal(hr_client_spawn(binary, "{\"slots\": 3, \"kill_at\": 17}", NULL, &client), 0);
    for (uint64_t n = 0; n < 14; n++)
        take_and_release(client, n);
    hr_client_close(client);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);

    assert_int_equal(hr_client_spawn(binary, "slots: 3\n", NULL, &client), 0);
    take_and_release(client, 0);
    kill_only_child();
    for (uint64_t n = 1; n < 20; n++)
        take_and_release(client, n);
    hr_client_close(client);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void a_private_sidecar_that_cannot_start_says_why(void **state)
{
    struct hr_client *client;
    char *binary = getenv("FAKE_SIDECAR_BINARY");

    (void)state;
    assert_int_equal(hr_client_spawn("/nonexistent/headrace", "{}", NULL, &client), HR_E_NOT_FOUND);
    assert_int_equal(hr_client_spawn(binary, "{\"bad_config\": 1}", NULL, &client), HR_E_CONFIG);
    assert_non_null(strstr(hr_client_error(NULL), "exit code 2"));
    assert_int_equal(hr_client_spawn(binary, "{\"refuse\": -21}", NULL, &client), HR_E_STATE);
    assert_string_equal(hr_client_error(NULL), "refused as asked");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void rank_comes_from_the_launcher(void **state)
{
    struct hr_error err;
    int32_t rank = -1, world = -1;

    (void)state;
    static const char *const names[] = {"RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"};
    for (size_t i = 0; i < HR_ARRAY_SIZE(names); i++)
        unsetenv(names[i]);
    assert_int_equal(hr_process_rank(&rank, &world, &err), 0);
    assert_int_equal(rank, 0);
    assert_int_equal(world, 1);
    setenv("SLURM_PROCID", "3", 1);
    setenv("SLURM_NTASKS", "8", 1);
    rank = world = -1;
    assert_int_equal(hr_process_rank(&rank, &world, &err), 0);
    assert_int_equal(rank, 3);
    assert_int_equal(world, 8);
    setenv("RANK", "5", 1);
    setenv("WORLD_SIZE", "4x", 1);
    rank = world = -1;
    assert_int_equal(hr_process_rank(&rank, &world, &err), HR_E_USAGE);
    assert_non_null(strstr(err.text, "WORLD_SIZE"));
    rank = 4, world = 4;
    assert_int_equal(hr_process_rank(&rank, &world, &err), HR_E_USAGE);
    for (size_t i = 0; i < HR_ARRAY_SIZE(names); i++)
        unsetenv(names[i]);
}

/* ---- a sidecar that is wrong ---- */

struct welcome_fault {
    const char *name;
    int code;
    void (*break_it)(struct hr_wire_welcome *w, int fds[3], int *fd_count, size_t *bytes);
};

#define FAULT(name_)                                                                               \
    static void name_(struct hr_wire_welcome *w, int fds[3], int *fd_count, size_t *bytes)
FAULT(other_version) { w->wire_version = 9; }
FAULT(no_slots) { w->slot_count = 0; }
FAULT(many_slots) { w->slot_count = 1000; }
FAULT(huge_slots) { w->slot_bytes = UINT64_MAX - 63; }
FAULT(tiny_slots) { w->slot_bytes = 64; }
FAULT(odd_slots) { w->slot_bytes -= 1; }
FAULT(long_data) { w->data_bytes = 1ull << 40; }
FAULT(long_control) { w->control_bytes = 1 << 20; }
FAULT(short_control) { w->control_bytes = 64; }
FAULT(no_descriptors) { *fd_count = 0; }
FAULT(no_wake) { *fd_count = 2; }
FAULT(swapped) { int t = fds[0]; fds[0] = fds[2]; fds[2] = t; }
FAULT(wrong_size) { w->head.bytes = 12; }
FAULT(cut_short) { w->head.bytes = *bytes = 100; }
FAULT(no_head) { *bytes = 3; }
FAULT(wrong_kind) { w->head.kind = 77; }
FAULT(not_sealed) { fds[0] = memfd_create("x", MFD_CLOEXEC); if (ftruncate(fds[0], 1 << 20) < 0) abort(); }
FAULT(a_pipe) { int p[2]; if (pipe(p) < 0) abort(); fds[0] = p[0]; }
FAULT(data_for_control) { fds[1] = fds[0]; }

static void malformed_welcomes_are_refused(void **state)
{
    static const struct welcome_fault faults[] = {
#define ROW(f, code) {#f, code, f}
        ROW(other_version, HR_E_VERSION), ROW(no_slots, HR_E_PROTOCOL),
        ROW(many_slots, HR_E_PROTOCOL), ROW(huge_slots, HR_E_PROTOCOL),
        ROW(tiny_slots, HR_E_PROTOCOL), ROW(odd_slots, HR_E_PROTOCOL),
        ROW(long_data, HR_E_PROTOCOL), ROW(long_control, HR_E_PROTOCOL),
        ROW(short_control, HR_E_PROTOCOL), ROW(no_descriptors, HR_E_PROTOCOL),
        ROW(no_wake, HR_E_PROTOCOL), ROW(swapped, HR_E_PROTOCOL),
        ROW(wrong_size, HR_E_PROTOCOL), ROW(cut_short, HR_E_PROTOCOL),
        ROW(no_head, HR_E_PROTOCOL), ROW(wrong_kind, HR_E_PROTOCOL),
        ROW(not_sealed, HR_E_PROTOCOL), ROW(a_pipe, HR_E_PROTOCOL),
        ROW(data_for_control, HR_E_PROTOCOL),
    };

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(faults); i++) {
        struct server s;
        struct hr_batch *b;
        server_start(&s, 2, false);
        struct hr_wire_welcome w = good_welcome(&s);
        int fds[3] = {s.fds[0], s.fds[1], s.fds[2]}, fd_count = 3;
        size_t bytes = sizeof(w);
        faults[i].break_it(&w, fds, &fd_count, &bytes);
        send_raw(&s, &w, bytes, fds, fd_count);
        int ret = hr_client_ready(s.client, 1000);
        if (ret != faults[i].code)
            fail_msg("%s: %d, not %d (%s)", faults[i].name, ret, faults[i].code,
                     hr_client_error(s.client));
        assert_int_equal(hr_client_next(s.client, 0, &b), faults[i].code);
        server_close(&s);
    }
}

static struct hr_wire_field *fields_of(struct hr_wire_batch *h)
{
    return (struct hr_wire_field *)((uint8_t *)h + sizeof(*h));
}

/* Fields: 0 label i64, 1 x f32, 2 image, 3 half, 4 caption ragged, 5 crop ragged. */
#define WRONG(name_, change)                                                                       \
    static void name_(struct hr_wire_batch *h, struct hr_wire_field *f)                            \
    {                                                                                              \
        (void)h;                                                                                   \
        (void)f;                                                                                   \
        change;                                                                                    \
    }
WRONG(bad_magic, h->magic++)
WRONG(bad_version, h->wire_version = HR_WIRE_VERSION + 1)
WRONG(bad_header_bytes, h->header_bytes = UINT32_MAX & ~7u)
WRONG(short_header, h->header_bytes = 64)
WRONG(many_fields, h->field_count = 1u << 30)
WRONG(bad_field_bytes, h->field_bytes = 8)
WRONG(huge_field_bytes, h->field_bytes = UINT32_MAX & ~7u)
WRONG(data_outside, f[0].data_off = NUMBERED_SLOT_BYTES - 64 + 64)
WRONG(data_overflows, f[0].data_off = UINT64_MAX - 63)
WRONG(data_unaligned, f[0].data_off += 8)
WRONG(data_missing, f[0].data_off = 0)
WRONG(negative_shape, f[1].shape[1] = -1)
WRONG(huge_shape, f[1].shape[1] = INT64_MAX)
WRONG(wrong_batch_axis, f[1].shape[0] = 3)
WRONG(huge_stride, f[1].strides[0] = INT64_MAX & ~3ll)
WRONG(negative_stride, f[1].strides[0] = -12)
WRONG(odd_stride, f[1].strides[1] = 3)
WRONG(many_dims, f[1].dims = 9)
WRONG(no_dims, f[1].dims = 0)
WRONG(unknown_dtype, f[2].dtype = 99)
WRONG(endless_name, memset(f[2].name, 'a', sizeof(f[2].name)))
WRONG(no_name, f[2].name[0] = 0)
WRONG(records_outside, h->records_off = NUMBERED_SLOT_BYTES - 8)
WRONG(records_odd, h->records_off += 4)
WRONG(many_samples, h->count = UINT32_MAX)
WRONG(more_samples, h->count = 5)
WRONG(long_state, h->state_bytes = 512)
WRONG(offsets_outside, f[4].offsets_off = NUMBERED_SLOT_BYTES - 8)
WRONG(no_offsets, f[4].offsets_off = 0)
WRONG(shapes_outside, f[5].shapes_off = NUMBERED_SLOT_BYTES - 4)
WRONG(many_sample_dims, f[5].sample_dims = 1u << 31)
WRONG(sequence_jump, h->sequence = 7)

static void malformed_batches_are_refused(void **state)
{
    static void (*const wrongs[])(struct hr_wire_batch *, struct hr_wire_field *) = {
        bad_magic, bad_version, bad_header_bytes, short_header, many_fields, bad_field_bytes,
        huge_field_bytes, data_outside, data_overflows, data_unaligned, data_missing,
        negative_shape, huge_shape, wrong_batch_axis, huge_stride, negative_stride, odd_stride,
        many_dims, no_dims, unknown_dtype, endless_name, no_name, records_outside, records_odd,
        many_samples, more_samples, long_state, offsets_outside, no_offsets, shapes_outside,
        many_sample_dims, sequence_jump};

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(wrongs); i++) {
        struct server s;
        struct hr_batch *b;
        server_open(&s, 2);
        publish(&s);
        take_and_release(s.client, 0);
        int slot = hr_ring_acquire(s.ring);
        struct hr_wire_batch *h = (struct hr_wire_batch *)hr_ring_slot(s.ring, (uint32_t)slot);
        numbered_fill((uint8_t *)h, &s.plan, s.cursor, 1);
        wrongs[i](h, fields_of(h));
        hr_ring_publish(s.ring, (uint32_t)slot, next_position());
        int ret = hr_client_next(s.client, 1000, &b);
        if (ret != (wrongs[i] == bad_version ? HR_E_VERSION : HR_E_PROTOCOL))
            fail_msg("fault %zu: %d", i, ret);
        assert_null(b);
        assert_int_equal(hr_client_next(s.client, 0, &b), ret); /* and it stays so */
        server_close(&s);
    }
}

static void malformed_ragged_offsets_are_refused(void **state)
{
    static const int64_t bad[] = {-1, 1 << 20, INT64_MAX, INT64_MIN};

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(bad); i++) {
        struct server s;
        struct hr_array a;
        server_open(&s, 1);
        publish(&s);
        struct hr_batch *b = take(s.client);
        assert_int_equal(hr_batch_field(b, "label", &a), 0);
        uint8_t *slot = hr_ring_slot(s.ring, 0);
        struct hr_wire_field *f = fields_of((struct hr_wire_batch *)slot);
        ((int64_t *)(slot + f[4].offsets_off))[2] = bad[i];
        ((int32_t *)(slot + f[5].shapes_off))[1] = (int32_t)bad[i];
        assert_int_equal(hr_batch_field(b, "caption", &a), HR_E_PROTOCOL);
        assert_int_equal(hr_batch_field(b, "crop", &a), HR_E_PROTOCOL);
        hr_batch_release(b);
        server_close(&s);
    }
}

/* Whatever passes the checks must be safe to read to the last byte. */
static void read_everything(struct hr_batch *b)
{
    struct hr_batch_info info;
    volatile uint64_t sum = 0;

    hr_batch_info(b, &info);
    for (uint32_t i = 0; i < info.count; i++)
        sum += (info.records ? info.records[i] : 0) + (info.valid ? info.valid[i] : 0) +
               (info.sources ? info.sources[i] : 0);
    for (uint32_t i = 0; i < info.field_count; i++) {
        struct hr_array a;
        if (hr_batch_field_at(b, i, &a) < 0)
            continue;
        uint64_t last = 0;
        bool empty = a.dims == 0;
        for (int32_t d = 0; !a.ragged && d < a.dims; d++) {
            empty |= a.shape[d] == 0;
            last += (uint64_t)(a.shape[d] - 1) * (uint64_t)a.strides[d];
        }
        if (!a.ragged && !empty)
            sum += ((uint8_t *)a.data)[0] + ((uint8_t *)a.data)[last];
        if (a.ragged && a.offsets[info.count] > 0)
            sum += ((uint8_t *)a.data)[a.offsets[info.count] - 1];
    }
}

static void random_bytes_in_batches_do_no_harm(void **state)
{
    struct server s;
    struct hr_rng rng;
    int parsed = 0;

    (void)state;
    hr_rng_init(&rng, 3, 0, 0, 0);
    server_open(&s, 1);
    uint8_t *slot = hr_ring_slot(s.ring, 0);
    struct hr_batch *b = &s.client->session->batches[0];
    atomic_store(&b->held, 1);
    for (int i = 0; i < 20000; i++) {
        numbered_fill(slot, &s.plan, s.cursor, 0);
        uint32_t flips = 1 + hr_rng_u32(&rng) % 4;
        while (flips--) {
            uint32_t at = hr_rng_u32(&rng) % 2800;
            uint32_t v = hr_rng_u32(&rng);
            if (v & 1)
                slot[at] = (uint8_t)(v >> 8);
            else
                memset(slot + (at & ~7u), (int)(v >> 8 & 1) * 255, 8);
        }
        struct hr_error err;
        if (hr_batch_parse(b, &err) == 0) {
            parsed++;
            read_everything(b);
        }
    }
    assert_true(parsed > 1000 && parsed < 19000);
    atomic_store(&b->held, 0);
    server_close(&s);
}

static void random_bytes_in_the_control_page_do_no_harm(void **state)
{
    struct hr_rng rng;

    (void)state;
    hr_rng_init(&rng, 4, 0, 0, 0);
    for (int round = 0; round < 24; round++) {
        struct server s;
        server_open(&s, 2);
        publish(&s);
        volatile uint8_t *page = (volatile uint8_t *)s.consumer->page;
        for (int i = 0; i < 40; i++) {
            uint32_t at = round % 2 ? 64 + hr_rng_u32(&rng) % 64
                                    : hr_rng_u32(&rng) % sizeof(struct hr_wire_control);
            page[at] = (uint8_t)hr_rng_u32(&rng);
            struct hr_batch *b;
            if (hr_client_next(s.client, 0, &b) == 0) {
                read_everything(b);
                hr_batch_release(b);
            }
        }
        server_close(&s);
    }
}

static void random_messages_do_no_harm(void **state)
{
    struct hr_rng rng;

    (void)state;
    hr_rng_init(&rng, 5, 0, 0, 0);
    for (int round = 0; round < 300; round++) {
        struct server s;
        struct hr_batch *b;
        uint32_t message[HR_WIRE_MAX_MESSAGE / 4 + 10];
        server_start(&s, 2, false);
        struct hr_wire_welcome w = good_welcome(&s);
        if (round % 2) {
            send_raw(&s, &w, sizeof(w), s.fds, 3);
            assert_int_equal(hr_client_ready(s.client, 1000), 0);
        } else if (round % 4 == 0) { /* a welcome with a few wrong bytes */
            for (int i = 0; i < 3; i++)
                ((uint8_t *)&w)[8 + hr_rng_u32(&rng) % 100] = (uint8_t)hr_rng_u32(&rng);
            send_raw(&s, &w, sizeof(w), s.fds, 3);
            (void)!hr_client_ready(s.client, 50);
        }
        size_t bytes = 8 + hr_rng_u32(&rng) % (sizeof(message) - 8);
        for (size_t i = 0; i < bytes / 4; i++)
            message[i] = hr_rng_u32(&rng);
        message[0] = hr_rng_u32(&rng) % 10;
        message[1] = (uint32_t)bytes;
        struct hr_error err;
        (void)!hr_fd_send(s.sock, message, bytes, s.fds, round % 3, &err);
        if (hr_client_next(s.client, 1, &b) == 0)
            hr_batch_release(b);
        server_close(&s);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_show_what_was_written),
        cmocka_unit_test(next_polls_and_times_out),
        cmocka_unit_test(all_slots_leased_is_said),
        cmocka_unit_test(releases_go_back_in_any_order),
        cmocka_unit_test(release_wakes_a_waiting_sidecar),
        cmocka_unit_test(threads_release_while_one_takes),
        cmocka_unit_test(the_run_ends_after_its_last_batch),
        cmocka_unit_test(a_closed_stream_ends_after_what_is_ready),
        cmocka_unit_test(the_sidecar_s_error_comes_with_its_place),
        cmocka_unit_test(hang_up_of_a_given_socket_is_final),
        cmocka_unit_test(seek_drops_what_was_ready),
        cmocka_unit_test(seek_to_the_coming_epoch_asks_nothing),
        cmocka_unit_test(held_batches_outlive_the_client),
        cmocka_unit_test(ready_batches_cost_no_system_call),
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(a_forked_child_keeps_no_socket_open),
        cmocka_unit_test(a_new_sidecar_goes_on_where_the_dead_one_stopped),
        cmocka_unit_test(nobody_there_is_an_error_with_a_way_out),
        cmocka_unit_test(a_private_sidecar_is_restarted_and_reaped),
        cmocka_unit_test(a_private_sidecar_that_cannot_start_says_why),
        cmocka_unit_test(rank_comes_from_the_launcher),
        cmocka_unit_test(malformed_welcomes_are_refused),
        cmocka_unit_test(malformed_batches_are_refused),
        cmocka_unit_test(malformed_ragged_offsets_are_refused),
        cmocka_unit_test(random_bytes_in_batches_do_no_harm),
        cmocka_unit_test(random_bytes_in_the_control_page_do_no_harm),
        cmocka_unit_test(random_messages_do_no_harm),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
