/* client: forks, sidecars that are processes and die, and finding the right one. */
#include <errno.h>
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
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client/internal.h"
#include "ipc/played_sidecar.h"
#include "ring/ring.h"

extern char **environ;

static void a_forked_child_is_refused(void **state)
{
    struct server s;
    int status;

    (void)state;
    server_open(&s, 4);
    server_publish(&s);
    server_publish(&s);
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
        server_publish(&own);
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
    unsetenv("WORLD_SIZE");
    rank = world = -1;
    assert_int_equal(hr_process_rank(&rank, &world, &err), 0); /* the whole pair counts */
    assert_int_equal(rank, 3);
    unsetenv("SLURM_NTASKS");
    unsetenv("SLURM_PROCID");
    rank = world = -1;
    assert_int_equal(hr_process_rank(&rank, &world, &err), HR_E_USAGE);
    assert_non_null(strstr(err.text, "WORLD_SIZE"));
    setenv("RANK", "0", 1);
    assert_int_equal(hr_process_rank(&rank, &world, &err), 0);
    assert_int_equal(world, 1);
    rank = 4, world = 4;
    assert_int_equal(hr_process_rank(&rank, &world, &err), HR_E_USAGE);
    for (size_t i = 0; i < HR_ARRAY_SIZE(names); i++)
        unsetenv(names[i]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(a_forked_child_keeps_no_socket_open),
        cmocka_unit_test(a_new_sidecar_goes_on_where_the_dead_one_stopped),
        cmocka_unit_test(nobody_there_is_an_error_with_a_way_out),
        cmocka_unit_test(a_private_sidecar_is_restarted_and_reaped),
        cmocka_unit_test(a_private_sidecar_that_cannot_start_says_why),
        cmocka_unit_test(rank_comes_from_the_launcher),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("client_processes", tests, NULL, NULL);
}
