/* A private sidecar as a child process: starting, restarting, reaping. It notices our end by itself,
 * through its end of the socket pair. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "client/internal.h"

extern char **environ;

enum { CHILD_FD = 3 };

struct hr_child {
    char *binary;
    char *config; /* path, or text when it is one */
    bool config_is_text;
    int folder_fd; /* where it was made: the trainer may go elsewhere before it is started again. -1 = unknown */
    pid_t pid; /* 0 = none, or reaped */
    int pidfd; /* -1 where the kernel has none */
};

int hr_child_create(const char *binary, const char *config, struct hr_child **out,
                    struct hr_error *err)
{
    struct hr_child *child = hr_alloc_zero(1, sizeof(*child));

    if (!child)
        return hr_fail(err, HR_E_NOMEM, "no memory for a sidecar");
    child->pidfd = -1;
    child->folder_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    child->binary = hr_strdup(binary ? binary : "headrace");
    child->config = hr_strdup(config);
    child->config_is_text = config[0] == '{' || strchr(config, '\n') != NULL;
    if (!child->binary || !child->config) {
        hr_child_destroy(child);
        return hr_fail(err, HR_E_NOMEM, "no memory for a sidecar");
    }
    *out = child;
    return 0;
}

/* ---- ending ---- */

enum exit_kind { EXIT_NOT_YET, EXIT_UNKNOWN, EXIT_CODE, EXIT_SIGNAL };

static enum exit_kind reap(struct hr_child *child, int *value)
{
    int status = 0;
    pid_t got = waitpid(child->pid, &status, WNOHANG);

    if (got == 0 || (got < 0 && errno == EINTR))
        return EXIT_NOT_YET;
    child->pid = 0;
    hr_fd_close(&child->pidfd);
    if (got < 0) /* somebody else in this process reaps all children */
        return EXIT_UNKNOWN;
    *value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    return WIFSIGNALED(status) ? EXIT_SIGNAL : EXIT_CODE;
}

static enum exit_kind reap_within(struct hr_child *child, uint64_t ns, int *value)
{
    uint64_t deadline_ns = hr_clock_ns() + ns;

    for (;;) {
        enum exit_kind kind = reap(child, value);
        uint64_t now = hr_clock_ns();
        if (kind != EXIT_NOT_YET || now >= deadline_ns)
            return kind;
        struct pollfd p = {.fd = child->pidfd, .events = POLLIN};
        int ms = (int)((deadline_ns - now) / HR_NS_PER_MS) + 1;
        poll(&p, 1, child->pidfd >= 0 ? ms : 5);
    }
}

/* Through the pidfd where there is one: the number may be another process's by now. */
static void send_signal(struct hr_child *child, int number)
{
    if (child->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, child->pidfd, number, NULL, 0);
    else
        kill(child->pid, number);
}

static enum exit_kind end_child(struct hr_child *child, int *value)
{
    enum exit_kind kind = reap_within(child, 3 * HR_NS_PER_S, value);

    if (kind == EXIT_NOT_YET) {
        send_signal(child, SIGTERM);
        kind = reap_within(child, 2 * HR_NS_PER_S, value);
    }
    if (kind == EXIT_NOT_YET) {
        send_signal(child, SIGKILL);
        kind = reap_within(child, 10 * HR_NS_PER_S, value);
    }
    return kind;
}

int hr_child_check(struct hr_child *child, struct hr_error *err)
{
    int value = 0;

    /* One that leaves in peace (after it refused a state, say) may be started again as well. */
    if (child->pid == 0 || end_child(child, &value) != EXIT_CODE || value == 0)
        return 0;
    hr_fail(err, value == 2 ? HR_E_CONFIG : HR_E_INTERNAL, "the private sidecar '%s' ended with exit "
            "code %d", child->binary, value);
    hr_error_hint(err, "its own message is on stderr");
    return err->code;
}

void hr_child_destroy(struct hr_child *child)
{
    int value;

    if (!child)
        return;
    if (child->pid != 0)
        end_child(child, &value);
    hr_fd_close(&child->pidfd);
    hr_fd_close(&child->folder_fd);
    hr_free(child->binary);
    hr_free(child->config);
    hr_free(child);
}

/* ---- starting ---- */

/* The text comes as the child's stdin: a memory file, which takes any length without a writer. */
static int open_config(const struct hr_child *child, struct hr_error *err)
{
    if (!child->config_is_text)
        return hr_fd_open("/dev/null", O_RDONLY, 0, err);
    int fd = memfd_create("headrace-config", MFD_CLOEXEC);
    if (fd < 0)
        return hr_fail_errno(err, errno, "cannot create a memory file");
    int ret = hr_fd_write_full(fd, child->config, strlen(child->config), err);
    if (ret == 0 && lseek(fd, 0, SEEK_SET) < 0)
        ret = hr_fail_errno(err, errno, "cannot rewind a memory file");
    if (ret < 0)
        hr_fd_close(&fd);
    return ret < 0 ? ret : fd;
}

/* Out of the way of the numbers that the child's descriptors get, in case this process had closed
 * its own. Takes *fd. */
static int move_up(int *fd, struct hr_error *err)
{
    int moved = fcntl(*fd, F_DUPFD_CLOEXEC, CHILD_FD + 1);

    if (moved < 0)
        return hr_fail_errno(err, errno, "cannot duplicate a descriptor");
    hr_fd_close(fd);
    *fd = moved;
    return 0;
}

static void set_files(posix_spawn_file_actions_t *files, int folder_fd, int config_fd, int sock)
{
    int out = fcntl(STDERR_FILENO, F_GETFD) < 0 ? config_fd : STDERR_FILENO;

    posix_spawn_file_actions_init(files);
    if (folder_fd >= 0) /* first: the others may take its number */
        posix_spawn_file_actions_addfchdir_np(files, folder_fd);
    posix_spawn_file_actions_adddup2(files, config_fd, STDIN_FILENO);
    /* Results would go to stdout; the trainer's is not the sidecar's. */
    posix_spawn_file_actions_adddup2(files, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(files, sock, CHILD_FD);
    posix_spawn_file_actions_addclosefrom_np(files, CHILD_FD + 1);
}

/* A group of its own, so that the terminal's Ctrl-C is the trainer's; and the signals of a fresh
 * process, whatever this one blocks or ignores. */
static void set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t all, none;

    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_init(attributes);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                             POSIX_SPAWN_SETSIGMASK);
}

static int run(struct hr_child *child, int config_fd, int sock, struct hr_error *err)
{
    char fd_text[12];
    const char *config = child->config_is_text ? "-" : child->config;
    const char *argv[] = {child->binary, "serve", config, "--fd", fd_text, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;

    snprintf(fd_text, sizeof(fd_text), "%d", CHILD_FD);
    set_files(&files, child->folder_fd, config_fd, sock);
    set_attributes(&attributes);
    int failed = posix_spawnp(&child->pid, child->binary, &files, &attributes,
                              (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failed) {
        child->pid = 0;
        hr_fail_errno(err, failed, "cannot start the private sidecar '%s'", child->binary);
        hr_error_hint(err, "install headrace, put it into PATH, or name the binary");
        return err->code;
    }
    child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
    return 0;
}

int hr_child_start(struct hr_child *child, int *sock, struct hr_error *err)
{
    int pair[2];
    int config_fd = open_config(child, err);

    if (config_fd < 0)
        return config_fd;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        int ret = hr_fail_errno(err, errno, "cannot create a socket pair");
        hr_fd_close(&config_fd);
        return ret;
    }
    int ret = move_up(&config_fd, err);
    if (ret == 0)
        ret = move_up(&pair[1], err);
    if (ret == 0)
        ret = run(child, config_fd, pair[1], err);
    hr_fd_close(&config_fd);
    hr_fd_close(&pair[1]);
    if (ret < 0)
        hr_fd_close(&pair[0]);
    else
        *sock = pair[0];
    return ret;
}
