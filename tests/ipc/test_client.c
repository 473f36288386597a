/* client: feeding by a sidecar that the test plays, over a socket pair. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rng.h"
#include "client/internal.h"
#include "ipc/numbered.h"
#include "ipc/played_sidecar.h"
#include "ring/ring.h"

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
    server_publish(&s);
    server_publish(&s);
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
    server_publish(&s);
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
        server_publish(&s);
        b[i] = take(s.client);
    }
    assert_int_equal(hr_client_next(s.client, -1, &more), HR_E_ALL_LEASED);
    assert_non_null(strstr(hr_client_error(s.client), "all 3 slots"));
    hr_batch_release(b[1]);
    assert_true(server_publish(&s));
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
        server_publish(&s);
        b[n] = take(s.client);
    }
    for (uint64_t n = 4; n < 400; n++) {
        uint32_t i = hr_rng_u32(&rng) % 4;
        assert_false(server_publish(&s));
        hr_batch_release(b[i]);
        assert_true(server_publish(&s));
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
    server_publish(&s);
    struct hr_batch *b = take(s.client);
    assert_int_equal(read(s.fds[2], &count, 8), -1);
    assert_false(server_publish(&s)); /* asks to be woken */
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
        if (server_publish(s))
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
    server_publish(&s);
    server_publish(&s);
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
    server_publish(&s);
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
    server_publish(&s);
    server_send(&s, &e, sizeof(e), NULL, 0);
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
    server_publish(&s);
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
    server_publish(s);
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
        server_publish(&s);
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
        server_publish(&s);
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
    server_publish(&s);
    struct hr_batch *b = take(s.client);
    void *memory = hr_batch_hold_memory(b);
    assert_int_equal(hr_batch_field(b, "image", &a), 0);
    hr_client_close(s.client);
    s.client = NULL;
    hr_ring_detach(s.ring, s.consumer);
    assert_true(server_publish(&s)); /* into the same slot */
    assert_int_equal(ordinal_of(b), 0);
    assert_int_equal(((uint8_t *)a.data)[0], 0);
    ((uint8_t *)a.data)[0] = 7;
    hr_batch_release(b);
    assert_int_equal(((uint8_t *)a.data)[0], 7); /* still mapped */
    hr_batch_drop_memory(memory);
    server_close(&s);
}

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
                server_publish(&s);
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
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
