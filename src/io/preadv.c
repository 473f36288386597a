/* The reader for places where io_uring is refused: a few threads that call pread. What the page
 * cache holds is copied at flush by the reader thread itself (RWF_NOWAIT), as io_uring does it: a
 * hand-off would cost more than the copy. The rest goes to the threads through one locked queue and
 * comes back over a lock-free stack that reap empties at once; nobody spins, and a thread that finds
 * the reader awake makes no system call for it. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/mem.h"
#include "io/reader.h"

enum { DEFAULT_THREADS = 4, MAX_THREADS = 256, MAX_SHARE = 8, HAND_OVER = 8 };

struct worker {
    struct preadv *reader;
    pthread_t thread;
    /* written by the worker alone, read by stats: relaxed, nothing is ordered by them */
    _Atomic uint64_t bytes, system_calls, short_reads, errors;
    char pad[16]; /* one cache line each */
};

struct preadv {
    struct hr_reader base;
    /* set at open or add_file */
    struct hr_io_files files;
    struct worker *workers;
    unsigned worker_count;
    unsigned depth;

    /* reader thread */
    unsigned in_flight;       /* submitted, not yet given back by reap */
    struct hr_reader_stats stats; /* without the workers' part */
    struct hr_io_list queued; /* since the last flush */
    struct hr_io_list ready;  /* finished, beyond reap's cap */

    /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t work; /* pending is not empty, or stop */
    struct hr_io_list pending;
    unsigned idle; /* workers that wait */
    bool stop;

    /* between workers and reap. done: pushed by workers (release), emptied by reap (acquire).
     * events counts reasons to look again and is the word reap sleeps on. waiting says that it
     * does: stored by reap before it sleeps, taken by whoever wakes it; both sequentially
     * consistent with events, so that one side always sees the other. */
    _Alignas(HR_CACHE_LINE) _Atomic(struct hr_io_request *) done;
    _Atomic uint32_t events;
    _Atomic uint32_t waiting;
    _Atomic uint32_t woken; /* set by wake, taken by reap */
};

/* ---- workers ---- */

static void notify(struct preadv *p)
{
    atomic_fetch_add_explicit(&p->events, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&p->waiting, memory_order_seq_cst) &&
        atomic_exchange_explicit(&p->waiting, 0, memory_order_seq_cst))
        hr_futex_wake(&p->events, 1, false);
}

static void push_done(struct preadv *p, struct hr_io_request *r)
{
    struct hr_io_request *head = atomic_load_explicit(&p->done, memory_order_relaxed);

    do
        r->next = head;
    while (!atomic_compare_exchange_weak_explicit(&p->done, &head, r, memory_order_release,
                                                  memory_order_relaxed));
    notify(p);
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t v = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, v + n, memory_order_relaxed);
}

static void run(struct worker *w, struct hr_io_request *r)
{
    bool finished;

    do {
        ssize_t n = pread(hr_io_files_fd(&w->reader->files, r), (uint8_t *)r->dst + r->done_bytes,
                          r->bytes - r->done_bytes, (off_t)(r->off + r->done_bytes));
        finished = hr_io_request_advance(r, n < 0 ? -errno : n);
        count(&w->system_calls, 1);
        if (!finished && n > 0)
            count(&w->short_reads, 1);
    } while (!finished);
    count(&w->bytes, r->done_bytes); /* with those that the reader thread read before */
    if (r->result < 0)
        count(&w->errors, 1);
    push_done(w->reader, r);
}

/* A worker takes its share of the queue at once, so that short reads from the page cache do not
 * fight for the lock, but never what another idle thread could start now. */
static struct hr_io_list take_share_locked(struct preadv *p)
{
    unsigned share = (p->pending.count + p->worker_count - 1) / p->worker_count;
    struct hr_io_list taken = {0};

    for (unsigned i = 0; i < share && i < MAX_SHARE; i++)
        hr_io_list_push(&taken, hr_io_list_pop(&p->pending));
    return taken;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct preadv *p = w->reader;

    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->pending.count && !p->stop) {
            p->idle++;
            pthread_cond_wait(&p->work, &p->lock);
            p->idle--;
        }
        if (!p->pending.count)
            break;
        struct hr_io_list taken = take_share_locked(p);
        pthread_mutex_unlock(&p->lock);
        while (taken.count)
            run(w, hr_io_list_pop(&taken));
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Signals stay with the threads that expect them. */
static int start_workers(struct preadv *p, unsigned threads, struct hr_error *err)
{
    sigset_t all, before;
    int ret = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (ret == 0 && p->worker_count < threads) {
        struct worker *w = &p->workers[p->worker_count];
        w->reader = p;
        ret = pthread_create(&w->thread, NULL, worker_main, w);
        if (ret == 0) {
            pthread_setname_np(w->thread, "hr-pread");
            pthread_mutex_lock(&p->lock);
            p->worker_count++;
            pthread_mutex_unlock(&p->lock);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ret == 0 ? 0 : hr_fail_errno(err, ret, "cannot start %u reading threads", threads);
}

static void stop_workers(struct preadv *p)
{
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->worker_count; i++)
        pthread_join(p->workers[i].thread, NULL);
}

/* ---- reader thread ---- */

static int preadv_add_file(struct hr_reader *reader, int fd, int direct_fd, struct hr_error *err)
{
    return hr_io_files_add(&((struct preadv *)reader)->files, fd, direct_fd, err);
}

static enum hr_io_status preadv_submit(struct hr_reader *reader, struct hr_io_request *r)
{
    struct preadv *p = (struct preadv *)reader;

    if (p->in_flight == p->depth)
        return HR_IO_BUSY;
    p->stats.requests++;
    if (hr_io_request_begin(&p->files, r))
        return HR_IO_DONE;
    p->in_flight++;
    hr_io_list_push(&p->queued, r);
    return HR_IO_QUEUED;
}

/* Reads what the page cache holds. True when the request is finished by that. */
static bool read_cached(struct preadv *p, struct hr_io_request *r)
{
    struct hr_io_file *file = &p->files.items[r->file];
    struct iovec to = {r->dst, r->bytes};

    if (file->blocking || (r->direct && file->direct_fd >= 0))
        return false;
    ssize_t n = preadv2(file->fd, &to, 1, (off_t)r->off, RWF_NOWAIT);
    p->stats.system_calls++;
    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != EFAULT)
        file->blocking = true; /* this file system, or kernel, does not do it */
    if (n <= 0)
        return false;
    if (!hr_io_request_advance(r, n)) {
        p->stats.short_reads++;
        return false;
    }
    p->stats.bytes += r->bytes;
    return true;
}

static void hand_over(struct preadv *p, struct hr_io_list *list)
{
    unsigned added = list->count;

    if (!added)
        return;
    pthread_mutex_lock(&p->lock);
    hr_io_list_append(&p->pending, list);
    unsigned wanted = added < p->idle ? added : p->idle;
    while (wanted--)
        pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

/* What must wait for the device is handed over a few at a time, so that it does not wait for the
 * copying as well. */
static void preadv_flush(struct hr_reader *reader)
{
    struct preadv *p = (struct preadv *)reader;
    struct hr_io_list misses = {0};

    while (p->queued.count) {
        struct hr_io_request *r = hr_io_list_pop(&p->queued);
        hr_io_list_push(read_cached(p, r) ? &p->ready : &misses, r);
        if (misses.count == HAND_OVER)
            hand_over(p, &misses);
    }
    hand_over(p, &misses);
}

/* The stack has the newest first; callers get the oldest first. */
static void collect(struct preadv *p)
{
    struct hr_io_request *r = atomic_exchange_explicit(&p->done, NULL, memory_order_acquire);
    struct hr_io_request *reversed = NULL;

    while (r) {
        struct hr_io_request *next = r->next;
        r->next = reversed;
        reversed = r;
        r = next;
    }
    while (reversed) {
        struct hr_io_request *next = reversed->next;
        hr_io_list_push(&p->ready, reversed);
        reversed = next;
    }
}

static int give(struct preadv *p, struct hr_io_request **done, int cap)
{
    int n = 0;

    while (n < cap && p->ready.count)
        done[n++] = hr_io_list_pop(&p->ready);
    p->in_flight -= (unsigned)n;
    return n;
}

static int preadv_reap(struct hr_reader *reader, struct hr_io_request **done, int cap,
                       uint64_t deadline_ns)
{
    struct preadv *p = (struct preadv *)reader;

    preadv_flush(reader);
    for (bool in_time = deadline_ns > 0;; ) {
        uint32_t seen = atomic_load_explicit(&p->events, memory_order_seq_cst);
        collect(p);
        bool woken = atomic_load_explicit(&p->woken, memory_order_relaxed) &&
                     atomic_exchange_explicit(&p->woken, 0, memory_order_acquire);
        if (p->ready.count || woken || !in_time)
            return give(p, done, cap);
        atomic_store_explicit(&p->waiting, 1, memory_order_seq_cst);
        in_time = hr_futex_wait(&p->events, seen, deadline_ns, false);
        atomic_store_explicit(&p->waiting, 0, memory_order_relaxed);
    }
}

static void preadv_wake(struct hr_reader *reader)
{
    struct preadv *p = (struct preadv *)reader;
    int saved = errno;

    atomic_store_explicit(&p->woken, 1, memory_order_release);
    notify(p);
    errno = saved;
}

static void preadv_stats(const struct hr_reader *reader, struct hr_reader_stats *stats)
{
    const struct preadv *p = (const struct preadv *)reader;

    *stats = p->stats;
    for (unsigned i = 0; i < p->worker_count; i++) {
        const struct worker *w = &p->workers[i];
        stats->bytes += atomic_load_explicit(&w->bytes, memory_order_relaxed);
        stats->system_calls += atomic_load_explicit(&w->system_calls, memory_order_relaxed);
        stats->short_reads += atomic_load_explicit(&w->short_reads, memory_order_relaxed);
        stats->errors += atomic_load_explicit(&w->errors, memory_order_relaxed);
    }
}

static void preadv_close(struct hr_reader *reader)
{
    struct preadv *p = (struct preadv *)reader;

    if (!p)
        return;
    preadv_flush(reader);
    stop_workers(p); /* they finish the queue first */
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    hr_io_files_finish(&p->files);
    hr_free(p->workers);
    hr_free(p);
}

static int preadv_open(const struct hr_reader_options *options, struct hr_reader **out,
                       struct hr_error *err)
{
    unsigned threads = options->threads ? options->threads : DEFAULT_THREADS;
    unsigned depth, max_files;
    int ret = hr_io_options_check(options, &depth, &max_files, err);

    if (ret < 0)
        return ret;
    if (threads > MAX_THREADS)
        return hr_fail(err, HR_E_CONFIG, "%u reading threads; the most is %d", threads,
                       MAX_THREADS);
    struct preadv *p = hr_alloc_aligned(HR_CACHE_LINE, sizeof(*p));
    if (!p)
        return hr_fail(err, HR_E_NOMEM, "no memory for the reader");
    memset(p, 0, sizeof(*p));
    p->base.ops = &hr_preadv_ops;
    p->depth = depth;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    p->workers = hr_alloc_zero(threads, sizeof(*p->workers));
    ret = p->workers ? hr_io_files_init(&p->files, max_files, err)
                     : hr_fail(err, HR_E_NOMEM, "no memory for %u reading threads", threads);
    if (ret == 0)
        ret = start_workers(p, threads, err);
    if (ret < 0)
        preadv_close(&p->base);
    else
        *out = &p->base;
    return ret;
}

const struct hr_reader_ops hr_preadv_ops = {
    .name = "preadv",
    .about = "page cache inline, else a pool of reading threads: works everywhere",
    .open = preadv_open,
    .add_file = preadv_add_file,
    .submit = preadv_submit,
    .flush = preadv_flush,
    .reap = preadv_reap,
    .wake = preadv_wake,
    .stats = preadv_stats,
    .close = preadv_close,
};
