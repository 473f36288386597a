/* Binds the sidecar's unix socket: a live owner is respected, a stale path is replaced. */
#include "serve/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum { BACKLOG = 64 };

#define LEAVING_NS (5 * HR_NS_PER_S)

/* The socket outlives the process that opened it while an engine of that one is on its way out. */
static bool owner_is_gone(int fd)
{
    struct ucred owner;
    socklen_t bytes = sizeof(owner);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &bytes) == 0 && owner.pid > 0 &&
           kill(owner.pid, 0) < 0 && errno == ESRCH;
}

/* 0 when somebody answers at addr, else the errno of trying; negative: HR_E_*. */
static int knock(const struct sockaddr_un *addr, struct hr_error *err)
{
    uint64_t until = hr_clock_ns() + LEAVING_NS;

    for (;;) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return hr_fail_errno(err, errno, "cannot create a socket");
        int why = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ? errno : 0;
        bool again = why == 0 && owner_is_gone(fd) && hr_clock_ns() < until;
        hr_fd_close(&fd);
        if (!again)
            return why == EAGAIN ? 0 : why;
        hr_clock_sleep_ns(5 * HR_NS_PER_MS);
    }
}

/* Clears the way at a path that is taken: only for a socket that nobody answers on. */
static int remove_stale(const char *path, const struct sockaddr_un *addr, struct hr_error *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : hr_fail_errno(err, errno, "cannot look at '%s'", path);
    if (!S_ISSOCK(st.st_mode)) {
        hr_fail(err, HR_E_EXISTS, "'%s' exists and is not a socket", path);
        hr_error_hint(err, "choose another --socket path");
        return HR_E_EXISTS;
    }
    int why = knock(addr, err);
    if (why < 0)
        return why;
    if (why == 0) {
        hr_fail(err, HR_E_EXISTS, "a sidecar is already serving at '%s'", path);
        hr_error_hint(err, "stop it, or choose another --socket path");
        return HR_E_EXISTS;
    }
    if (why != ECONNREFUSED && why != EPROTOTYPE)
        return hr_fail_errno(err, why, "cannot tell whether '%s' is in use", path);
    if (why == EPROTOTYPE) {
        hr_fail(err, HR_E_EXISTS, "'%s' is a socket of another program", path);
        return HR_E_EXISTS;
    }
    if (unlink(path) < 0 && errno != ENOENT)
        return hr_fail_errno(err, errno, "cannot remove the stale socket '%s'", path);
    return 0;
}

/* Who looks for a stale socket, removes it and binds its own does so alone: between two that start at once, the
 * second would remove what the first had just bound. Where folders cannot be locked, that stays so. */
static int lock_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
    size_t n = slash ? (size_t)(slash - path) + 1 : 1;

    snprintf(folder, sizeof(folder), "%.*s", (int)n, slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t until = hr_clock_ns() + 2 * LEAVING_NS; /* somebody else may lock it for reasons of their own */
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && (errno == EINTR || errno == EWOULDBLOCK) &&
           hr_clock_ns() < until)
        hr_clock_sleep_ns(5 * HR_NS_PER_MS);
    return fd;
}

void hr_listen_remove(struct hr_socket_place *place)
{
    struct stat st;

    if (place->path && lstat(place->path, &st) == 0 && st.st_dev == place->dev &&
        st.st_ino == place->ino)
        unlink(place->path);
    *place = (struct hr_socket_place){0};
}

/* A listening socket at a path that is free, or HR_E_*. */
static int bind_at(const struct sockaddr_un *addr, unsigned mode, struct stat *st, struct hr_error *err)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return hr_fail_errno(err, errno, "cannot create a socket");
    mode_t old = umask(0777 & ~(mode_t)mode);
    int ret = bind(fd, (const struct sockaddr *)addr, sizeof(*addr));
    int why = errno;
    umask(old);
    if (ret == 0 && (listen(fd, BACKLOG) < 0 || lstat(addr->sun_path, st) < 0)) {
        why = errno;
        unlink(addr->sun_path);
        ret = -1;
    }
    if (ret == 0)
        return fd;
    ret = hr_fail_errno(err, why, "cannot listen at '%s'", addr->sun_path);
    if (why == ENOENT)
        hr_error_hint(err, "make its folder first");
    else if (why == EACCES || why == EROFS)
        hr_error_hint(err, "choose a folder that this user may write to, such as $XDG_RUNTIME_DIR");
    hr_fd_close(&fd);
    return ret;
}

int hr_listen_unix(const char *path, unsigned mode, struct hr_socket_place *place,
                   struct hr_error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st;

    if (strlen(path) >= sizeof(addr.sun_path)) {
        hr_fail(err, HR_E_USAGE, "socket path is %zu bytes long; the system takes %zu", strlen(path),
                sizeof(addr.sun_path) - 1);
        hr_error_hint(err, "use a shorter path, such as /run/headrace/NAME.sock");
        return HR_E_USAGE;
    }
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    int lock = lock_folder(path);
    int ret = remove_stale(path, &addr, err);
    if (ret == 0)
        ret = bind_at(&addr, mode, &st, err);
    hr_fd_close(&lock);
    if (ret >= 0)
        *place = (struct hr_socket_place){path, st.st_dev, st.st_ino};
    return ret;
}
