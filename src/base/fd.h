/* File descriptors: close-on-exec at birth, -1 = empty; whole reads and writes; files that appear
 * complete or not at all; descriptors passed over unix sockets; sealed memory files. */
#ifndef HR_BASE_FD_H
#define HR_BASE_FD_H

#include <dirent.h>
#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

/* Closes and sets to -1; -1 is ignored. */
void hr_fd_close(int *fd);

/* open(2) with O_CLOEXEC; the error names the path. Returns the fd or HR_E_*. */
int hr_fd_open(const char *path, int flags, mode_t mode, struct hr_error *err) HR_MUST_CHECK;

/* Reads or writes exactly so many bytes, going on after EINTR and short counts.
 * A file that ends early is HR_E_TRUNCATED. 0 or HR_E_*. */
int hr_fd_pread_full(int fd, void *buf, size_t bytes, uint64_t off, struct hr_error *err)
    HR_MUST_CHECK;
int hr_fd_write_full(int fd, const void *buf, size_t bytes, struct hr_error *err) HR_MUST_CHECK;
int hr_fd_pwrite_full(int fd, const void *buf, size_t bytes, uint64_t off, struct hr_error *err)
    HR_MUST_CHECK;

/* Whole file into a fresh NUL-terminated buffer (*bytes excludes the NUL) that the caller frees
 * with hr_free(). Larger than max_bytes: HR_E_LIMIT. */
int hr_fd_read_file(const char *path, size_t max_bytes, void **buf, size_t *bytes,
                    struct hr_error *err) HR_MUST_CHECK;

/* Writes path.tmp, fsyncs, renames to path, fsyncs the directory: all or nothing. */
int hr_fd_write_file_atomic(const char *path, const void *buf, size_t bytes, struct hr_error *err)
    HR_MUST_CHECK;
int hr_fd_sync_dir(const char *path, struct hr_error *err) HR_MUST_CHECK;

/* The next name in a folder, but for . and ..: 1, or 0 after the last, or HR_E_*: a list that broke off is not
 * taken for a whole one. The name lives until the next call. */
int hr_dir_next(DIR *dir, const char **name, struct hr_error *err) HR_MUST_CHECK;

/* Anonymous memory file of a fixed size, sealed against shrink and grow (a seal that fails is an
 * error). Returns the fd or HR_E_*. */
int hr_fd_memfd(const char *name, uint64_t bytes, struct hr_error *err) HR_MUST_CHECK;

/* Empties an eventfd; never blocks, also when another process that holds the same open file made it
 * blocking and emptied it first. */
void hr_fd_drain_event(int fd);

/* One SOCK_SEQPACKET message with up to 8 descriptors. send: 0 or HR_E_*, never SIGPIPE.
 * recv: bytes received (0 = peer closed) or HR_E_*; unused fds[] are set to -1; received ones are
 * the caller's. */
int hr_fd_send(int sock, const void *buf, size_t bytes, const int *fds, int fd_count,
               struct hr_error *err) HR_MUST_CHECK;
ssize_t hr_fd_recv(int sock, void *buf, size_t bytes, int fds[8], int *fd_count,
                   struct hr_error *err) HR_MUST_CHECK;

#endif
