/* The io_uring reader: one ring, one issuing thread. submit only fills an entry, flush or a waiting
 * reap hands all of them to the kernel in one call, and reads that the page cache can serve are
 * complete when that call returns.
 *
 * The ring is created disabled and enabled by the first thread that flushes or reaps; from then on
 * that thread alone may use it (IORING_SETUP_SINGLE_ISSUER), except for wake. So open and add_file
 * may be called by another thread before. */
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "io/reader.h"

#define BUFFER_BYTES (UINT64_C(1) << 30) /* the most the kernel takes as one registered buffer */

enum { MAX_BUFFERS = 1024 };

struct uring {
    struct hr_reader base;
    struct io_uring ring;
    struct hr_io_files files;
    int *slots; /* per file: its registered slot, the direct one next to it; -1 = not registered */
    unsigned slot_count, slots_used;
    unsigned depth;
    unsigned in_flight;
    const uint8_t *arena; /* registered in pieces of BUFFER_BYTES; NULL = not registered */
    size_t arena_bytes;
    bool has_ring, enabled, disabled_at_birth, wake_armed, closing;
    int wake_fd;
    uint64_t wake_value; /* where the standing read of wake_fd goes */
    struct hr_reader_stats stats;
    char note[160];
};

/* ---- entries ---- */

static struct io_uring_sqe *next_entry(struct uring *u)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

    /* One entry for every request in flight and one for wake: there is always room. */
    HR_ASSERT(sqe);
    return sqe;
}

static int registered_slot(const struct uring *u, const struct hr_io_request *r)
{
    int slot = u->slots[r->file];

    return slot >= 0 && r->direct && u->files.items[r->file].direct_fd >= 0 ? slot + 1 : slot;
}

/* Index of the registered buffer that holds the whole range, or -1. */
static int registered_buffer(const struct uring *u, const uint8_t *dst, uint64_t bytes)
{
    uint64_t off = (uint64_t)(dst - u->arena);

    if (!u->arena || dst < u->arena || off >= u->arena_bytes || bytes > u->arena_bytes - off ||
        off / BUFFER_BYTES != (off + bytes - 1) / BUFFER_BYTES)
        return -1;
    return (int)(off / BUFFER_BYTES);
}

static void queue_read(struct uring *u, struct hr_io_request *r)
{
    struct io_uring_sqe *sqe = next_entry(u);
    uint8_t *dst = (uint8_t *)r->dst + r->done_bytes;
    uint32_t bytes = r->bytes - r->done_bytes;
    int buffer = registered_buffer(u, dst, bytes);
    int slot = registered_slot(u, r);

    io_uring_prep_rw(buffer >= 0 ? IORING_OP_READ_FIXED : IORING_OP_READ, sqe,
                     slot >= 0 ? slot : hr_io_files_fd(&u->files, r), dst, bytes,
                     r->off + r->done_bytes);
    if (buffer >= 0)
        sqe->buf_index = (uint16_t)buffer;
    if (slot >= 0)
        sqe->flags = IOSQE_FIXED_FILE;
    io_uring_sqe_set_data(sqe, r);
}

/* A read of the event descriptor stands in the ring at all times; its user data is NULL. */
static void arm_wake(struct uring *u)
{
    struct io_uring_sqe *sqe = next_entry(u);

    io_uring_prep_read(sqe, u->wake_fd, &u->wake_value, sizeof(u->wake_value), 0);
    io_uring_sqe_set_data(sqe, NULL);
    u->wake_armed = true;
}

/* ---- open ---- */

/* Newest first. Each row works on kernels that refuse the one before: 6.1, 6.0, 5.19, 5.11. */
static const unsigned setup_flags[] = {
    IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED |
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED |
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
        IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_CQSIZE,
};

static int refuse(struct hr_error *err, int sys_errno, const char *what)
{
    int ret = hr_fail(err, HR_E_UNSUPPORTED, "%s: %s", what, strerror(sys_errno));

    if (err)
        err->sys_errno = sys_errno;
    return ret;
}

static int create_ring(struct uring *u, struct hr_error *err)
{
    int ret = -EINVAL;

    for (size_t i = 0; i < HR_ARRAY_SIZE(setup_flags) && ret == -EINVAL; i++) {
        struct io_uring_params params = {.flags = setup_flags[i], .cq_entries = 2 * u->depth + 2};
        ret = io_uring_queue_init_params(u->depth + 1, &u->ring, &params);
        u->disabled_at_birth = params.flags & IORING_SETUP_R_DISABLED;
    }
    if (ret < 0)
        return refuse(err, -ret, "io_uring_setup");
    u->has_ring = true;
    if (!(u->ring.features & IORING_FEAT_EXT_ARG) || !(u->ring.features & IORING_FEAT_NODROP))
        return refuse(err, ENOSYS, "io_uring of this kernel (5.11 or later is needed)");
    return 0;
}

/* Sandboxes may let the set-up through and refuse the other two calls. A ring that is not enabled
 * yet answers EBADFD. */
static int check_calls(struct uring *u, struct hr_error *err)
{
    int ret = io_uring_enter((unsigned)u->ring.ring_fd, 0, 0, 0, NULL);

    return ret >= 0 || ret == -EBADFD ? 0 : refuse(err, -ret, "io_uring_enter");
}

static int check_opcodes(struct uring *u, struct hr_error *err)
{
    enum { MAX_OPS = 256 };
    struct io_uring_probe *probe =
        hr_alloc_zero(1, sizeof(*probe) + MAX_OPS * sizeof(struct io_uring_probe_op));
    int ret = probe ? io_uring_register_probe(&u->ring, probe, MAX_OPS) : -ENOMEM;
    bool complete = ret >= 0 && io_uring_opcode_supported(probe, IORING_OP_READ) &&
                    io_uring_opcode_supported(probe, IORING_OP_READ_FIXED);

    hr_free(probe);
    if (ret < 0)
        return refuse(err, -ret, "io_uring_register");
    return complete ? 0 : refuse(err, ENOSYS, "io_uring without the read operations");
}

static void add_note(struct uring *u, const char *what, int sys_errno)
{
    size_t used = strlen(u->note);

    snprintf(u->note + used, sizeof(u->note) - used, "%s%s (%s)", used ? "; " : "", what,
             sys_errno == ENOMEM ? "over RLIMIT_MEMLOCK" : strerror(sys_errno));
}

/* The kernel takes no more slots than RLIMIT_NOFILE; files beyond that go by their number. */
static void register_slots(struct uring *u)
{
    struct rlimit limit;
    unsigned wanted = 2 * u->files.max;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted)
        wanted = (unsigned)limit.rlim_cur;
    int ret = io_uring_register_files_sparse(&u->ring, wanted);
    if (ret < 0)
        add_note(u, "descriptors not registered", -ret);
    else
        u->slot_count = wanted;
}

static void register_arena(struct uring *u, void *arena, size_t bytes)
{
    struct iovec pieces[MAX_BUFFERS];
    unsigned count = 0;

    if (!arena || bytes > MAX_BUFFERS * BUFFER_BYTES)
        return;
    for (size_t off = 0; off < bytes; off += BUFFER_BYTES)
        pieces[count++] = (struct iovec){(uint8_t *)arena + off,
                                         hr_min_u64(BUFFER_BYTES, bytes - off)};
    int ret = io_uring_register_buffers(&u->ring, pieces, count);
    if (ret < 0) {
        add_note(u, "buffers not registered", -ret);
        return;
    }
    u->arena = arena;
    u->arena_bytes = bytes;
}

static int init(struct uring *u, const struct hr_reader_options *options, struct hr_error *err)
{
    unsigned max_files;
    int ret = hr_io_options_check(options, &u->depth, &max_files, err);

    if (ret == 0)
        ret = hr_io_files_init(&u->files, max_files, err);
    if (ret < 0)
        return ret;
    u->slots = hr_alloc_zero(max_files, sizeof(*u->slots));
    if (!u->slots)
        return hr_fail(err, HR_E_NOMEM, "no memory for a table of %u files", max_files);
    /* Blocking on purpose: a non-blocking one would answer the standing read with EAGAIN. */
    u->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (u->wake_fd < 0)
        return hr_fail_errno(err, errno, "eventfd");
    ret = create_ring(u, err);
    if (ret == 0)
        ret = check_calls(u, err);
    if (ret == 0)
        ret = check_opcodes(u, err);
    if (ret == 0) {
        register_slots(u);
        register_arena(u, options->arena, options->arena_bytes);
    }
    return ret;
}

/* ---- system calls ---- */

/* Binds the ring to this thread. A registered ring descriptor saves a reference count a call in
 * a process with threads; where it is refused the plain one serves. */
static void enable(struct uring *u)
{
    u->enabled = true;
    if (u->disabled_at_birth) {
        /* io_uring_enable_rings(), which liburing 2.3 declares but does not export. */
        int ret = io_uring_register((unsigned)u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL,
                                    0);
        HR_ASSERT(ret == 0);
    }
    io_uring_register_ring_fd(&u->ring);
    arm_wake(u);
}

static void enter_now(struct uring *u)
{
    int ret;

    do {
        ret = io_uring_submit(&u->ring);
        u->stats.system_calls++;
    } while (ret == -EINTR);
    /* EAGAIN and EBUSY: the entries stay queued and go along with the next call.
     * EEXIST is a call from a thread that does not own the ring. */
    HR_ASSERT(ret >= 0 || ret == -EAGAIN || ret == -EBUSY);
}

static void uring_flush(struct hr_reader *reader)
{
    struct uring *u = (struct uring *)reader;

    if (HR_UNLIKELY(!u->enabled))
        enable(u);
    if (io_uring_sq_ready(&u->ring))
        enter_now(u);
}

/* Submits what is queued and waits for one completion. False when the time is over. */
static bool wait_until(struct uring *u, uint64_t deadline_ns)
{
    struct io_uring_cqe *cqe;
    struct __kernel_timespec ts, *timeout = NULL;

    if (deadline_ns != UINT64_MAX) {
        uint64_t now = hr_clock_ns();
        uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
        ts = (struct __kernel_timespec){.tv_sec = (int64_t)(left / HR_NS_PER_S),
                                        .tv_nsec = (long long)(left % HR_NS_PER_S)};
        timeout = &ts;
    }
    int ret = io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, timeout, NULL);
    u->stats.system_calls++;
    HR_ASSERT(ret >= 0 || ret == -ETIME || ret == -EINTR || ret == -EAGAIN || ret == -EBUSY);
    return ret != -ETIME;
}

/* ---- reader table ---- */

static int uring_add_file(struct hr_reader *reader, int fd, int direct_fd, struct hr_error *err)
{
    struct uring *u = (struct uring *)reader;
    int fds[2] = {fd, direct_fd};
    unsigned wanted = direct_fd >= 0 ? 2 : 1;
    int idx = hr_io_files_add(&u->files, fd, direct_fd, err);

    if (idx < 0)
        return idx;
    u->slots[idx] = -1;
    if (u->slots_used + wanted <= u->slot_count &&
        io_uring_register_files_update(&u->ring, u->slots_used, fds, wanted) == (int)wanted) {
        u->slots[idx] = (int)u->slots_used;
        u->slots_used += wanted;
    }
    return idx;
}

static enum hr_io_status uring_submit(struct hr_reader *reader, struct hr_io_request *r)
{
    struct uring *u = (struct uring *)reader;

    if (u->in_flight == u->depth)
        return HR_IO_BUSY;
    u->stats.requests++;
    if (hr_io_request_begin(&u->files, r))
        return HR_IO_DONE;
    u->in_flight++;
    queue_read(u, r);
    return HR_IO_QUEUED;
}

/* True when the request is finished; else its rest is queued again. */
static bool take_in(struct uring *u, struct hr_io_request *r, int res)
{
    if (!hr_io_request_advance(r, res)) {
        u->stats.short_reads += res > 0;
        queue_read(u, r);
        return false;
    }
    u->stats.bytes += r->done_bytes;
    u->stats.errors += r->result < 0;
    u->in_flight--;
    return true;
}

/* Empties the completion queue as far as done[] has room. */
static int drain(struct uring *u, struct hr_io_request **done, int cap, bool *woken)
{
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    int n = 0;

    io_uring_for_each_cqe(&u->ring, head, cqe) {
        struct hr_io_request *r = io_uring_cqe_get_data(cqe);
        if (r && n == cap)
            break;
        seen++;
        if (!r) {
            *woken = true;
            u->wake_armed = false;
            if (!u->closing)
                arm_wake(u);
        } else if (take_in(u, r, cqe->res)) {
            done[n++] = r;
        }
    }
    io_uring_cq_advance(&u->ring, seen);
    return n;
}

/* What completed outside a system call of ours is posted only when we ask (DEFER_TASKRUN): peek
 * enters the kernel when the ring's flags say that there is something. */
static int look_without_waiting(struct uring *u, struct hr_io_request **done, int cap, bool *woken)
{
    struct io_uring_cqe *cqe;

    if (io_uring_sq_ready(&u->ring))
        enter_now(u);
    if (io_uring_peek_cqe(&u->ring, &cqe) < 0)
        return 0;
    return drain(u, done, cap, woken);
}

static int uring_reap(struct hr_reader *reader, struct hr_io_request **done, int cap,
                      uint64_t deadline_ns)
{
    struct uring *u = (struct uring *)reader;
    bool woken = false;
    bool in_time = deadline_ns > 0;
    int n;

    if (HR_UNLIKELY(!u->enabled))
        enable(u);
    while ((n = drain(u, done, cap, &woken)) == 0 && !woken && in_time)
        in_time = wait_until(u, deadline_ns);
    if (n == 0 && !woken)
        n = look_without_waiting(u, done, cap, &woken);
    /* Rests of short reads do not wait for the caller's next flush. */
    if (HR_UNLIKELY(io_uring_sq_ready(&u->ring)))
        enter_now(u);
    return n;
}

static void uring_wake(struct hr_reader *reader)
{
    struct uring *u = (struct uring *)reader;
    uint64_t one = 1;
    int saved = errno;

    while (write(u->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    errno = saved;
}

static void uring_stats(const struct hr_reader *reader, struct hr_reader_stats *stats)
{
    *stats = ((const struct uring *)reader)->stats;
}

/* The kernel writes into requests' memory and into wake_value until their completions are seen. */
static void wait_for_all(struct uring *u)
{
    struct hr_io_request *done[32];
    bool woken;

    u->closing = true;
    uring_wake(&u->base);
    while (u->in_flight || u->wake_armed) {
        wait_until(u, UINT64_MAX);
        drain(u, done, (int)HR_ARRAY_SIZE(done), &woken);
    }
}

static void uring_close(struct hr_reader *reader)
{
    struct uring *u = (struct uring *)reader;

    if (!u)
        return;
    if (u->has_ring && u->in_flight)
        uring_flush(reader);
    if (u->enabled)
        wait_for_all(u);
    if (u->has_ring)
        io_uring_queue_exit(&u->ring);
    hr_fd_close(&u->wake_fd);
    hr_io_files_finish(&u->files);
    hr_free(u->slots);
    hr_free(u);
}

static int uring_open(const struct hr_reader_options *options, struct hr_reader **out,
                      struct hr_error *err)
{
    struct uring *u = hr_alloc_zero(1, sizeof(*u));

    if (!u)
        return hr_fail(err, HR_E_NOMEM, "no memory for the reader");
    u->base.ops = &hr_uring_ops;
    u->wake_fd = -1;
    int ret = init(u, options, err);
    if (ret < 0)
        uring_close(&u->base);
    else
        *out = &u->base;
    return ret;
}

const char *hr_uring_note(const struct hr_reader *reader)
{
    return ((const struct uring *)reader)->note;
}

const struct hr_reader_ops hr_uring_ops = {
    .name = "uring",
    .about = "io_uring: one thread, batched system calls, registered files and buffers",
    .open = uring_open,
    .add_file = uring_add_file,
    .submit = uring_submit,
    .flush = uring_flush,
    .reap = uring_reap,
    .wake = uring_wake,
    .stats = uring_stats,
    .close = uring_close,
};
