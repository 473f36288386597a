/* Maps the memory that a welcome message describes and gives slots back. The peer may be anything:
 * sizes are checked against the files, and files that could still shrink are refused, since touching
 * a page that is gone would kill this process. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "client/internal.h"

static int check_file(int fd, uint64_t bytes, const char *what, struct hr_error *err)
{
    struct stat st;

    if (fd < 0)
        return hr_fail(err, HR_E_PROTOCOL, "the sidecar's welcome has no %s descriptor", what);
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return hr_fail(err, HR_E_PROTOCOL, "the sidecar's %s memory is not sealed", what);
    if (fstat(fd, &st) < 0 || st.st_size < 0 || (uint64_t)st.st_size < bytes)
        return hr_fail(err, HR_E_PROTOCOL, "the sidecar's %s memory is shorter than it says", what);
    return 0;
}

static int check_welcome(const struct hr_wire_welcome *w, const int fds[3], struct hr_error *err)
{
    uint64_t need;
    int ret;

    if (w->slot_count < 1 || w->slot_count > HR_WIRE_MAX_SLOTS ||
        w->slot_bytes < sizeof(struct hr_wire_batch) || w->slot_bytes % 64 ||
        !hr_mul_u64(w->slot_bytes, w->slot_count, &need) || need > w->data_bytes ||
        w->data_bytes > INT64_MAX || w->control_bytes < sizeof(struct hr_wire_control) ||
        w->control_bytes > INT32_MAX)
        return hr_fail(err, HR_E_PROTOCOL,
                       "the sidecar's welcome describes no ring: %" PRIu32 " slots of %" PRIu64
                       " bytes in %" PRIu64,
                       w->slot_count, w->slot_bytes, w->data_bytes);
    ret = check_file(fds[0], w->data_bytes, "data", err);
    if (ret == 0)
        ret = check_file(fds[1], w->control_bytes, "control", err);
    if (ret == 0 && fds[2] < 0)
        ret = hr_fail(err, HR_E_PROTOCOL, "the sidecar's welcome has no wake descriptor");
    return ret;
}

static void *map(int fd, uint64_t bytes, int prot)
{
    void *p = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

static int map_all(struct hr_session *s, const int fds[3], struct hr_error *err)
{
    s->data = map(fds[0], s->data_bytes, PROT_READ | (s->writable ? PROT_WRITE : 0));
    if (!s->data)
        return hr_fail_errno(err, errno, "cannot map the sidecar's data");
    s->control = map(fds[1], s->control_bytes, PROT_READ | PROT_WRITE);
    if (!s->control)
        return hr_fail_errno(err, errno, "cannot map the sidecar's control page");
    if (s->control->magic != HR_WIRE_CONTROL_MAGIC || s->control->wire_version != HR_WIRE_VERSION ||
        s->control->slot_count != s->slot_count)
        return hr_fail(err, HR_E_PROTOCOL, "the sidecar's control page is not one");
    s->batches = hr_alloc_zero(s->slot_count, sizeof(*s->batches));
    if (!s->batches)
        return hr_fail(err, HR_E_NOMEM, "no memory for %" PRIu32 " batches", s->slot_count);
    for (uint32_t i = 0; i < s->slot_count; i++) {
        s->batches[i].session = s;
        s->batches[i].slot = i;
    }
    return 0;
}

int hr_session_create(const struct hr_wire_welcome *welcome, int fds[3], struct hr_session **out,
                      struct hr_error *err)
{
    int ret = check_welcome(welcome, fds, err);
    struct hr_session *s = ret < 0 ? NULL : hr_alloc_zero(1, sizeof(*s));

    if (ret < 0)
        return ret;
    if (!s)
        return hr_fail(err, HR_E_NOMEM, "no memory for a session");
    s->token = hr_process_token();
    s->wake_fd = -1;
    s->data_bytes = welcome->data_bytes;
    s->control_bytes = welcome->control_bytes;
    s->slot_count = welcome->slot_count;
    s->slot_bytes = welcome->slot_bytes;
    s->writable = welcome->writable != 0;
    atomic_init(&s->refs, 1);
    ret = map_all(s, fds, err);
    if (ret < 0) {
        hr_session_unref(s);
        return ret;
    }
    s->wake_fd = fds[2];
    fds[2] = -1;
    *out = s;
    return 0;
}

void hr_session_ref(struct hr_session *session)
{
    atomic_fetch_add_explicit(&session->refs, 1, memory_order_relaxed);
}

/* Acquire-release: what every holder did comes before the unmapping. */
void hr_session_unref(struct hr_session *session)
{
    if (!session || atomic_fetch_sub_explicit(&session->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (uint32_t i = 0; session->batches && i < session->slot_count; i++)
        hr_free(session->batches[i].views);
    hr_free(session->batches);
    if (session->data)
        munmap(session->data, session->data_bytes);
    if (session->control)
        munmap(session->control, session->control_bytes);
    hr_fd_close(&session->wake_fd);
    hr_free(session);
}

/* Acquire-release: what the sidecar did when it moved tail is seen, and our reads of the slot come
 * after the claim. */
bool hr_session_claim(struct hr_session *session)
{
    uint32_t tail = session->tail;

    if (!atomic_compare_exchange_strong_explicit(&session->control->tail, &tail, tail + 1,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        session->tail = tail;
        return false;
    }
    session->tail = tail + 1;
    return true;
}

void hr_session_release(struct hr_session *session, uint32_t slot, uint32_t ticket)
{
    uint64_t one = 1;

    /* Release: pairs with the sidecar's acquire load; our reads of the slot come before. */
    atomic_store_explicit(&session->control->lease[slot].released, ticket, memory_order_release);
    /* Pairs with the sidecar's fence between producer_waits and its look at the leases. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&session->control->producer_waits, memory_order_relaxed))
        return;
    ssize_t ignored = write(session->wake_fd, &one, sizeof(one));
    (void)ignored;
}

static void keep_slot(struct hr_session *s, uint32_t slot)
{
    uint8_t *at = s->data + slot * s->slot_bytes;
    void *copy = mmap(NULL, s->slot_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        return; /* the memory stays mapped; only its contents will be another batch's */
    memcpy(copy, at, s->slot_bytes);
    /* Readers of the slot find either page, never none. */
    if (mremap(copy, s->slot_bytes, s->slot_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
        munmap(copy, s->slot_bytes);
}

void hr_session_keep_held(struct hr_session *session)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    if (session->slot_bytes % page) /* not a sidecar of ours */
        return;
    for (uint32_t i = 0; i < session->slot_count; i++)
        if (atomic_load_explicit(&session->batches[i].held, memory_order_acquire))
            keep_slot(session, i);
}
