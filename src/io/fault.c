/* The reader that goes wrong on schedule: another reader, plus errors, cut reads, flipped bits,
 * delays and stalls. The same schedule over the same requests does the same again.
 * Draws are keyed by the request's number, in order of submission; those of bad and flip by the file's
 * blocks of 4 KiB, so that they depend neither on timing nor on how reads are cut. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/fault_schedule.h"
#include "io/reader.h"

enum { OVERWRITE_BYTE = 0xDB, REAP_BATCH = 32, BLOCK_BYTES = 4096 };

enum draw { DRAW_EIO, DRAW_BAD, DRAW_SHORT, DRAW_FLIP, DRAW_DELAY, DRAW_BURST, DRAW_NOISE };

struct slot {
    struct hr_io_request inner;
    struct hr_io_request *outer;
    uint64_t number;
    uint64_t due_ns; /* 0 = at once */
    struct slot *next;
};

struct fault {
    struct hr_reader base;
    struct hr_reader *inner;
    struct hr_fault_schedule schedule;
    struct slot *slots, *free;
    struct slot *held;        /* finished, not due */
    uint64_t numbers;         /* of requests so far */
    uint64_t stall_until_ns;
    uint64_t injected;
    char note[160];
};

/* ---- draws ---- */

static struct hr_rng rng_by_number(const struct fault *f, const struct slot *slot, enum draw draw)
{
    struct hr_rng rng;

    hr_rng_init(&rng, f->schedule.seed, 0, slot->number, draw);
    return rng;
}

static struct hr_rng rng_by_block(const struct fault *f, const struct slot *slot, uint64_t block,
                                  enum draw draw)
{
    struct hr_rng rng;

    hr_rng_init(&rng, f->schedule.seed, 1 + (uint64_t)slot->inner.file, block, draw);
    return rng;
}

static bool happens(const struct hr_fault_chance *chance, struct hr_rng rng, uint64_t number)
{
    return chance->at ? number == chance->at
                      : chance->share > 0 && hr_rng_bernoulli(&rng, chance->share);
}

static bool in_burst(const struct fault *f, const struct slot *slot)
{
    struct hr_rng rng;

    if (f->schedule.burst_requests == 0)
        return false;
    hr_rng_init(&rng, f->schedule.seed, 0, slot->number / f->schedule.burst_requests, DRAW_BURST);
    return happens(&f->schedule.burst, rng, 0);
}

static bool meets_bad_block(const struct fault *f, const struct slot *slot)
{
    const struct hr_io_request *r = &slot->inner;
    uint64_t end = r->off + r->bytes;

    if (f->schedule.bad.share <= 0)
        return false;
    for (uint64_t block = r->off / BLOCK_BYTES; block * BLOCK_BYTES < end; block++)
        if (happens(&f->schedule.bad, rng_by_block(f, slot, block, DRAW_BAD), 0))
            return true;
    return false;
}

static bool fails(const struct fault *f, const struct slot *slot)
{
    return happens(&f->schedule.eio, rng_by_number(f, slot, DRAW_EIO), slot->number) ||
           in_burst(f, slot) || meets_bad_block(f, slot);
}

static void maybe_cut(struct fault *f, struct slot *slot)
{
    struct hr_io_request *r = &slot->inner;
    struct hr_rng rng = rng_by_number(f, slot, DRAW_SHORT);

    if (!happens(&f->schedule.cut, rng, slot->number) || r->done_bytes == 0)
        return;
    hr_rng_uniform(&rng); /* the draw that happens() used */
    uint32_t kept = (uint32_t)hr_rng_below(&rng, r->done_bytes);
    memset((uint8_t *)r->dst + kept, OVERWRITE_BYTE, r->done_bytes - kept);
    r->done_bytes = kept;
    r->result = HR_E_TRUNCATED;
    f->injected++;
}

static void flip_bit(struct hr_io_request *r, uint64_t bit)
{
    ((uint8_t *)r->dst)[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* The wrong bits of the blocks that the request meets, as far as they are in what arrived. */
static void flip_by_place(const struct fault *f, struct slot *slot)
{
    struct hr_io_request *r = &slot->inner;
    uint64_t end = r->off + r->done_bytes;

    if (f->schedule.flip.share <= 0)
        return;
    for (uint64_t block = r->off / BLOCK_BYTES; block * BLOCK_BYTES < end; block++) {
        struct hr_rng rng = rng_by_block(f, slot, block, DRAW_FLIP);
        if (!happens(&f->schedule.flip, rng, 0))
            continue;
        hr_rng_uniform(&rng); /* the draw that happens() used */
        uint64_t bit = block * BLOCK_BYTES * 8 + hr_rng_below(&rng, BLOCK_BYTES * 8);
        if (bit / 8 >= r->off && bit / 8 < end)
            flip_bit(r, bit - r->off * 8);
    }
}

static void maybe_noise(struct fault *f, struct slot *slot)
{
    struct hr_io_request *r = &slot->inner;
    struct hr_rng rng = rng_by_number(f, slot, DRAW_NOISE);

    if (r->done_bytes == 0 || !happens(&f->schedule.noise, rng, slot->number))
        return;
    hr_rng_uniform(&rng);
    flip_bit(r, hr_rng_below(&rng, (uint64_t)r->done_bytes * 8));
    f->injected++;
}

static void time_faults(struct fault *f, struct slot *slot)
{
    const struct hr_fault_schedule *s = &f->schedule;

    if (happens(&s->delay, rng_by_number(f, slot, DRAW_DELAY), slot->number))
        slot->due_ns = hr_clock_ns() + s->delay_ns;
    if (s->stall.at && s->stall.at == slot->number)
        f->stall_until_ns = hr_clock_ns() + s->stall_ns;
}

/* ---- requests ---- */

static struct hr_io_request *give_back(struct fault *f, struct slot *slot)
{
    struct hr_io_request *outer = slot->outer;

    outer->direct = slot->inner.direct;
    outer->result = slot->inner.result;
    outer->sys_errno = slot->inner.sys_errno;
    outer->done_bytes = slot->inner.done_bytes;
    slot->next = f->free;
    f->free = slot;
    return outer;
}

/* The read is over: damage what arrived, and hold it back when it is not due. */
static struct hr_io_request *finish_read(struct fault *f, struct slot *slot)
{
    flip_by_place(f, slot);
    maybe_noise(f, slot);
    maybe_cut(f, slot);
    if (slot->due_ns || f->stall_until_ns) {
        slot->next = f->held;
        f->held = slot;
        return NULL;
    }
    return give_back(f, slot);
}

static enum hr_io_status fault_submit(struct hr_reader *reader, struct hr_io_request *request)
{
    struct fault *f = (struct fault *)reader;
    struct slot *slot = f->free;

    if (!slot)
        return HR_IO_BUSY;
    slot->inner = *request;
    slot->inner.owner = slot;
    slot->outer = request;
    slot->number = f->numbers + 1;
    slot->due_ns = 0;
    enum hr_io_status status = HR_IO_DONE;
    if (fails(f, slot)) {
        slot->inner.result = HR_E_IO;
        slot->inner.sys_errno = EIO;
        slot->inner.done_bytes = 0;
        f->injected++;
    } else {
        status = f->inner->ops->submit(f->inner, &slot->inner);
    }
    if (status == HR_IO_BUSY)
        return status;
    f->numbers++;
    f->free = slot->next;
    time_faults(f, slot);
    if (status == HR_IO_DONE && !finish_read(f, slot))
        return HR_IO_QUEUED;
    return status;
}

static void fault_flush(struct hr_reader *reader)
{
    struct fault *f = (struct fault *)reader;

    f->inner->ops->flush(f->inner);
}

/* When the first held request may go; UINT64_MAX = none is held. */
static uint64_t next_due(const struct fault *f)
{
    uint64_t due = UINT64_MAX;

    for (const struct slot *slot = f->held; slot; slot = slot->next)
        due = hr_min_u64(due, slot->due_ns);
    return due == UINT64_MAX ? due : hr_max_u64(due, f->stall_until_ns);
}

static int give_due(struct fault *f, struct hr_io_request **done, int cap)
{
    uint64_t now = hr_clock_ns();
    int n = 0;

    if (f->stall_until_ns > now)
        return 0;
    f->stall_until_ns = 0;
    for (struct slot **at = &f->held; *at && n < cap;) {
        struct slot *slot = *at;
        if (slot->due_ns > now) {
            at = &slot->next;
            continue;
        }
        *at = slot->next;
        done[n++] = give_back(f, slot);
    }
    return n;
}

static int fault_reap(struct hr_reader *reader, struct hr_io_request **done, int cap,
                      uint64_t deadline_ns)
{
    struct fault *f = (struct fault *)reader;
    struct hr_io_request *arrived[REAP_BATCH];
    int n = give_due(f, done, cap);

    while (n == 0) {
        uint64_t until = hr_min_u64(deadline_ns, next_due(f));
        int count = f->inner->ops->reap(f->inner, arrived, cap < REAP_BATCH ? cap : REAP_BATCH,
                                        until);
        for (int i = 0; i < count; i++) {
            struct hr_io_request *finished = finish_read(f, arrived[i]->owner);
            if (finished)
                done[n++] = finished;
        }
        bool woken = count == 0 && hr_clock_ns() < until;
        if (n == 0)
            n = give_due(f, done, cap);
        if (woken || deadline_ns == 0 || hr_clock_ns() >= deadline_ns)
            break;
    }
    return n;
}

/* ---- reader table ---- */

static int fault_add_file(struct hr_reader *reader, int fd, int direct_fd, struct hr_error *err)
{
    struct fault *f = (struct fault *)reader;

    return f->inner->ops->add_file(f->inner, fd, direct_fd, err);
}

static void fault_wake(struct hr_reader *reader)
{
    struct fault *f = (struct fault *)reader;

    f->inner->ops->wake(f->inner);
}

static void fault_stats(const struct hr_reader *reader, struct hr_reader_stats *stats)
{
    const struct fault *f = (const struct fault *)reader;

    f->inner->ops->stats(f->inner, stats);
    stats->requests = f->numbers;
    stats->errors += f->injected;
}

static void fault_close(struct hr_reader *reader)
{
    struct fault *f = (struct fault *)reader;

    if (!f)
        return;
    if (f->inner)
        f->inner->ops->close(f->inner);
    hr_free(f->slots);
    hr_free(f);
}

static int init(struct fault *f, const struct hr_reader_options *options, struct hr_error *err)
{
    unsigned depth, max_files;
    const char *inner = options->inner ? options->inner : "auto";
    int ret = hr_io_options_check(options, &depth, &max_files, err);

    if (ret == 0)
        ret = hr_fault_schedule_parse(options->fault, &f->schedule, err);
    if (ret < 0)
        return ret;
    if (strcmp(inner, hr_fault_ops.name) == 0)
        return hr_fail(err, HR_E_CONFIG, "the reader 'fault' cannot wrap itself");
    f->slots = hr_alloc_zero(depth, sizeof(*f->slots));
    if (!f->slots)
        return hr_fail(err, HR_E_NOMEM, "no memory for %u requests", depth);
    for (unsigned i = 0; i < depth; i++)
        f->slots[i].next = i + 1 < depth ? &f->slots[i + 1] : NULL;
    f->free = f->slots;
    return hr_reader_open(inner, options, &f->inner, f->note, sizeof(f->note), err);
}

static int fault_open(const struct hr_reader_options *options, struct hr_reader **out,
                      struct hr_error *err)
{
    struct fault *f = hr_alloc_zero(1, sizeof(*f));

    if (!f)
        return hr_fail(err, HR_E_NOMEM, "no memory for the reader");
    f->base.ops = &hr_fault_ops;
    int ret = init(f, options, err);
    if (ret < 0)
        fault_close(&f->base);
    else
        *out = &f->base;
    return ret;
}

const char *hr_fault_note(const struct hr_reader *reader)
{
    return ((const struct fault *)reader)->note;
}

const struct hr_reader_ops hr_fault_ops = {
    .name = "fault",
    .about = "another reader that fails on a schedule: for tests",
    .open = fault_open,
    .add_file = fault_add_file,
    .submit = fault_submit,
    .flush = fault_flush,
    .reap = fault_reap,
    .wake = fault_wake,
    .stats = fault_stats,
    .close = fault_close,
};
