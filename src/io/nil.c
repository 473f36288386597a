/* The reader that reads nothing: every request is complete at submit, its memory left as it is. It
 * measures what the rest of the pipeline can do when storage costs nothing. */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/mem.h"
#include "io/reader.h"

struct nil {
    struct hr_reader base;
    struct hr_io_files files;
    struct hr_reader_stats stats;
    _Atomic uint32_t woken; /* set by wake (any thread), taken by reap */
};

static void nil_close(struct hr_reader *reader)
{
    struct nil *nil = (struct nil *)reader;

    if (!nil)
        return;
    hr_io_files_finish(&nil->files);
    hr_free(nil);
}

static int nil_open(const struct hr_reader_options *options, struct hr_reader **out,
                    struct hr_error *err)
{
    unsigned depth, max_files;
    int ret = hr_io_options_check(options, &depth, &max_files, err);

    if (ret < 0)
        return ret;
    struct nil *nil = hr_alloc_zero(1, sizeof(*nil));
    if (!nil)
        return hr_fail(err, HR_E_NOMEM, "no memory for the reader");
    nil->base.ops = &hr_nil_ops;
    ret = hr_io_files_init(&nil->files, max_files, err);
    if (ret < 0)
        nil_close(&nil->base);
    else
        *out = &nil->base;
    return ret;
}

static int nil_add_file(struct hr_reader *reader, int fd, int direct_fd, struct hr_error *err)
{
    return hr_io_files_add(&((struct nil *)reader)->files, fd, direct_fd, err);
}

static enum hr_io_status nil_submit(struct hr_reader *reader, struct hr_io_request *r)
{
    struct nil *nil = (struct nil *)reader;

    nil->stats.requests++;
    if (hr_io_request_begin(&nil->files, r))
        return HR_IO_DONE;
    r->done_bytes = r->bytes;
    nil->stats.bytes += r->bytes;
    return HR_IO_DONE;
}

static void nil_flush(struct hr_reader *reader)
{
}

static int nil_reap(struct hr_reader *reader, struct hr_io_request **done, int cap,
                    uint64_t deadline_ns)
{
    struct nil *nil = (struct nil *)reader;

    while (!atomic_exchange_explicit(&nil->woken, 0, memory_order_acquire)) {
        if (deadline_ns == 0 || !hr_futex_wait(&nil->woken, 0, deadline_ns, false))
            break;
    }
    return 0;
}

static void nil_wake(struct hr_reader *reader)
{
    struct nil *nil = (struct nil *)reader;
    int saved = errno;

    atomic_store_explicit(&nil->woken, 1, memory_order_release); /* pairs with reap's exchange */
    hr_futex_wake(&nil->woken, 1, false);
    errno = saved;
}

static void nil_stats(const struct hr_reader *reader, struct hr_reader_stats *stats)
{
    *stats = ((const struct nil *)reader)->stats;
}

const struct hr_reader_ops hr_nil_ops = {
    .name = "nil",
    .about = "reads nothing, gives zeros at once: measures the rest",
    .open = nil_open,
    .add_file = nil_add_file,
    .submit = nil_submit,
    .flush = nil_flush,
    .reap = nil_reap,
    .wake = nil_wake,
    .stats = nil_stats,
    .close = nil_close,
};
