/* Whole reads and writes, atomic files, sealed memory files and descriptor passing. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"

enum { MAX_FDS = 8 };

void hr_fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

int hr_fd_open(const char *path, int flags, mode_t mode, struct hr_error *err)
{
    int fd;

    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return hr_fail_errno(err, errno, "cannot open '%s'", path);
    return fd;
}

int hr_fd_pread_full(int fd, void *buf, size_t bytes, uint64_t off, struct hr_error *err)
{
    uint8_t *p = buf;

    while (bytes > 0) {
        ssize_t n = pread(fd, p, bytes, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hr_fail_errno(err, errno, "read at offset %llu failed", (unsigned long long)off);
        if (n == 0)
            return hr_fail(err, HR_E_TRUNCATED, "file ends at offset %llu, %zu bytes short",
                           (unsigned long long)off, bytes);
        p += n;
        off += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

int hr_fd_write_full(int fd, const void *buf, size_t bytes, struct hr_error *err)
{
    const uint8_t *p = buf;

    while (bytes > 0) {
        ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hr_fail_errno(err, errno, "write failed");
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
}

int hr_fd_pwrite_full(int fd, const void *buf, size_t bytes, uint64_t off, struct hr_error *err)
{
    const uint8_t *p = buf;

    while (bytes > 0) {
        ssize_t n = pwrite(fd, p, bytes, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hr_fail_errno(err, errno, "write at offset %llu failed",
                                 (unsigned long long)off);
        p += n;
        off += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

int hr_fd_read_file(const char *path, size_t max_bytes, void **buf, size_t *bytes,
                    struct hr_error *err)
{
    int fd = hr_fd_open(path, O_RDONLY, 0, err);
    struct stat st;
    uint8_t *data = NULL;
    size_t used = 0, cap;
    int ret;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0) {
        ret = hr_fail_errno(err, errno, "cannot stat '%s'", path);
        goto out;
    }
    /* The size is a hint only: pipes and /proc files say 0, and files grow. */
    cap = st.st_size > 0 && (uint64_t)st.st_size <= max_bytes ? (size_t)st.st_size + 1 : 4096;
    for (;;) {
        uint8_t *grown = hr_realloc(data, cap, 1);
        if (!grown) {
            ret = hr_fail(err, HR_E_NOMEM, "no memory for '%s' (%zu bytes)", path, cap);
            goto out;
        }
        data = grown;
        ssize_t n = read(fd, data + used, cap - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            ret = hr_fail_errno(err, errno, "cannot read '%s'", path);
            goto out;
        }
        if (n == 0)
            break;
        used += (size_t)n;
        if (used > max_bytes) {
            ret = hr_fail(err, HR_E_LIMIT, "'%s' is larger than %zu bytes", path, max_bytes);
            goto out;
        }
        if (used == cap - 1)
            cap *= 2;
    }
    data[used] = 0;
    *buf = data;
    *bytes = used;
    data = NULL;
    ret = 0;
out:
    hr_free(data);
    hr_fd_close(&fd);
    return ret;
}

int hr_fd_sync_dir(const char *path, struct hr_error *err)
{
    int fd = hr_fd_open(path, O_RDONLY | O_DIRECTORY, 0, err);

    if (fd < 0)
        return fd;
    /* Some file systems refuse fsync on a directory; there is nothing better to do there. */
    int ret = fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP
                  ? hr_fail_errno(err, errno, "cannot sync directory '%s'", path)
                  : 0;
    hr_fd_close(&fd);
    return ret;
}

static int sync_parent(const char *path, struct hr_error *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? hr_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : hr_strdup(".");

    if (!dir)
        return hr_fail(err, HR_E_NOMEM, "no memory for a path");
    int ret = hr_fd_sync_dir(dir, err);
    hr_free(dir);
    return ret;
}

int hr_fd_write_file_atomic(const char *path, const void *buf, size_t bytes, struct hr_error *err)
{
    char *tmp = hr_asprintf("%s.tmp", path);
    int fd = -1, ret;

    if (!tmp)
        return hr_fail(err, HR_E_NOMEM, "no memory for a path");
    ret = fd = hr_fd_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0666, err);
    if (fd < 0)
        goto out;
    ret = hr_fd_write_full(fd, buf, bytes, err);
    if (ret == 0 && fsync(fd) < 0)
        ret = hr_fail_errno(err, errno, "cannot sync '%s'", tmp);
    if (ret == 0 && rename(tmp, path) < 0)
        ret = hr_fail_errno(err, errno, "cannot rename '%s' to '%s'", tmp, path);
    if (ret < 0)
        unlink(tmp);
    else
        ret = sync_parent(path, err);
out:
    hr_fd_close(&fd);
    hr_free(tmp);
    return ret;
}

int hr_dir_next(DIR *dir, const char **name, struct hr_error *err)
{
    struct dirent *entry;

    do {
        errno = 0;
        entry = readdir(dir);
    } while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    if (!entry)
        return errno ? hr_fail_errno(err, errno, "cannot list the folder") : 0;
    *name = entry->d_name;
    return 1;
}

int hr_fd_memfd(const char *name, uint64_t bytes, struct hr_error *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return hr_fail_errno(err, errno, "cannot create memory file '%s'", name);
    if (ftruncate(fd, (off_t)bytes) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        int ret = hr_fail_errno(err, errno, "cannot size and seal memory file '%s' (%llu bytes)",
                                name, (unsigned long long)bytes);
        hr_fd_close(&fd);
        return ret;
    }
    return fd;
}

/* Non-blocking is asked for with each read. Where the kernel cannot, what is left is the moment between
 * the poll and the read. */
void hr_fd_drain_event(int fd)
{
    uint64_t count;
    struct iovec iov = {.iov_base = &count, .iov_len = sizeof(count)};

    if (preadv2(fd, &iov, 1, -1, RWF_NOWAIT) >= 0 ||
        (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL))
        return;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 0) == 1) {
        ssize_t ignored = read(fd, &count, sizeof(count));
        (void)ignored;
    }
}

int hr_fd_send(int sock, const void *buf, size_t bytes, const int *fds, int fd_count,
               struct hr_error *err)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * MAX_FDS)];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    HR_ASSERT(fd_count >= 0 && fd_count <= MAX_FDS);
    if (fd_count > 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fd_count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fd_count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)fd_count);
    }
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
        return hr_fail(err, HR_E_DISCONNECTED, "peer closed the connection");
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return hr_fail(err, HR_E_BUSY, "peer does not read its socket");
    if (n < 0)
        return hr_fail_errno(err, errno, "cannot send a message");
    return 0;
}

ssize_t hr_fd_recv(int sock, void *buf, size_t bytes, int fds[8], int *fd_count,
                   struct hr_error *err)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * MAX_FDS)];
    } control;
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof(control.space)};
    ssize_t n;
    int resets = 0;

    for (int i = 0; i < MAX_FDS; i++)
        fds[i] = -1;
    *fd_count = 0;
    /* A peer that left without reading what we sent is a reset, told once and ahead of what it had
     * sent itself, which is often the reason why it left. */
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
    if (n < 0 && errno == ECONNRESET)
        return 0;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return hr_fail(err, HR_E_TIMEOUT, "no message from the peer in time");
    if (n < 0)
        return hr_fail_errno(err, errno, "cannot receive a message");
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + (size_t)i * sizeof(int), sizeof(fd));
            if (*fd_count < MAX_FDS)
                fds[(*fd_count)++] = fd;
            else
                close(fd);
        }
    }
    if (!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return n;
    for (int i = 0; i < *fd_count; i++)
        hr_fd_close(&fds[i]);
    bool too_many = *fd_count >= MAX_FDS;
    *fd_count = 0;
    if ((msg.msg_flags & MSG_TRUNC) || too_many)
        return hr_fail(err, HR_E_PROTOCOL, "message longer than %zu bytes", bytes);
    /* What was sent along is lost: there were no numbers left for it, or more came than anybody may send. */
    hr_fail(err, HR_E_LIMIT, "this process has no room for the descriptors of a message");
    hr_error_hint(err, "raise 'ulimit -n'");
    return HR_E_LIMIT;
}
