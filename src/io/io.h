/* The reader table: how bytes get from storage into memory.
 *
 * Call order, all on one thread (the reader thread) unless marked otherwise:
 *
 *   open -> add_file* -> { submit* flush reap* }* -> close
 *                          wake (any thread)
 *
 * open and add_file may be called by another thread before the reader thread's first flush or reap,
 * which binds the reader to that thread.
 *
 * A request belongs to the caller; from submit (QUEUED) until reap returns it, the reader owns it
 * and its dst. The reader goes on by itself after short reads and EINTR; a request comes back when
 * all its bytes are in, the file ended, or the device failed. No allocation after open/add_file. */
#ifndef HR_IO_IO_H
#define HR_IO_IO_H

#include "base/base.h"
#include "base/err.h"

enum { HR_IO_MAX_BYTES = 1 << 30 };

struct hr_io_request {
    /* set by the caller */
    int file;       /* index from add_file */
    bool direct;    /* read past the page cache: off, bytes and dst are multiples of the file's
                       direct_align; ignored for files without a direct descriptor, and cleared
                       when the page cache had to serve the read or its rest after all */
    uint32_t bytes; /* 1 .. HR_IO_MAX_BYTES */
    uint64_t off;
    void *dst;
    void *owner; /* the caller's */
    /* set by the reader before the request comes back */
    int result;          /* 0, HR_E_IO or HR_E_TRUNCATED */
    int sys_errno;       /* behind HR_E_IO */
    uint32_t done_bytes; /* how many arrived */
    /* list link: the caller's while it owns the request, else the reader's */
    struct hr_io_request *next;
};

enum hr_io_status {
    HR_IO_DONE,   /* complete already: result is set, reap will not return it */
    HR_IO_QUEUED, /* reap will return it */
    HR_IO_BUSY,   /* no room now: reap, then submit again */
};

struct hr_reader_options {
    unsigned depth;      /* most requests in flight; 0 = 128 */
    unsigned max_files;  /* most files; 0 = 1024 */
    void *arena;         /* memory that most dst lie in, for registration; NULL = none */
    size_t arena_bytes;
    unsigned threads;    /* preadv: reading threads; 0 = 4 */
    const char *fault;   /* fault: its schedule, see fault.c */
    const char *inner;   /* fault: the reader underneath; NULL = auto */
};

struct hr_reader; /* opaque; begins with its ops table */

struct hr_reader_stats {
    uint64_t requests, bytes, system_calls, short_reads, errors;
};

struct hr_reader_ops {
    const char *name;
    const char *about; /* one line for --help and doctor */
    int (*open)(const struct hr_reader_options *options, struct hr_reader **out,
                struct hr_error *err);
    /* Descriptors stay the caller's and must outlive the reader; direct_fd -1 = none.
     * Returns the file's index or HR_E_*. */
    int (*add_file)(struct hr_reader *reader, int fd, int direct_fd, struct hr_error *err);
    enum hr_io_status (*submit)(struct hr_reader *reader, struct hr_io_request *request);
    void (*flush)(struct hr_reader *reader); /* hands what was queued to the kernel, one call */
    /* Waits until deadline_ns (0 = do not wait, UINT64_MAX = for ever) for at least one completion
     * or a wake; fills done[], returns how many. */
    int (*reap)(struct hr_reader *reader, struct hr_io_request **done, int cap,
                uint64_t deadline_ns);
    void (*wake)(struct hr_reader *reader); /* any thread, async-signal-safe; makes reap return */
    void (*stats)(const struct hr_reader *reader, struct hr_reader_stats *stats);
    void (*close)(struct hr_reader *reader); /* waits for what is in flight */
};

/* Every implementation embeds this first. */
struct hr_reader {
    const struct hr_reader_ops *ops;
};

extern const struct hr_reader_ops *const hr_readers[]; /* NULL-terminated: uring preadv nil fault */

/* Opens a reader by name. "auto" probes io_uring (setup, a real read, needed opcodes) and falls back
 * to preadv; why[] gets one line that says what was chosen and why. HR_E_CONFIG for an unknown name,
 * HR_E_UNSUPPORTED when the named one is refused here. */
int hr_reader_open(const char *name, const struct hr_reader_options *options,
                   struct hr_reader **out, char *why, size_t why_bytes, struct hr_error *err)
    HR_MUST_CHECK;

/* ---- page cache or direct ---- */

enum hr_io_mode { HR_IO_MODE_AUTO, HR_IO_MODE_CACHED, HR_IO_MODE_DIRECT };

/* The stated rule: auto reads through the page cache unless the dataset is larger than 3/4 of the
 * memory available to this process (MemAvailable and the cgroup's limit) and the file system takes
 * O_DIRECT; then reads of at least 64 KiB go direct, smaller ones stay cached. */
bool hr_io_choose_direct(enum hr_io_mode mode, uint64_t dataset_bytes, uint64_t available_bytes);
uint64_t hr_io_available_bytes(void);

/* Opens path for reading: *fd cached, *direct_fd O_DIRECT or -1 where refused or not wanted;
 * *direct_align from statx(STATX_DIOALIGN), else 4096. */
int hr_io_open_file(const char *path, bool want_direct, int *fd, int *direct_fd,
                    uint32_t *direct_align, struct hr_error *err) HR_MUST_CHECK;

#endif
