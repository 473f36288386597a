/* The reader that goes wrong on schedule: another reader, plus errors, cut reads, flipped bits,
 * delays and stalls. The same schedule over the same requests does the same again.
 *
 *   schedule = item { "," item }
 *   item     = "seed="  number          other draws, same chances (default 0)
 *            | "eio="   chance          fails with HR_E_IO (EIO); a retry may succeed
 *            | "burst=" number ":" share  so many requests in a row fail like eio, in this share of runs
 *            | "bad="   share           bad sectors: this share of blocks cannot be read, ever
 *            | "short=" chance          HR_E_TRUNCATED: fewer bytes arrive, the rest is overwritten
 *            | "flip="  share           bad media: this share of blocks has one wrong bit, always the same
 *            | "noise=" chance          one bit of what arrives is wrong; another read may be right
 *            | "delay=" time ":" share  comes back that much later
 *            | "delay=" time "@" number
 *            | "stall=" time "@" number from that request on nothing comes back for so long
 *   chance   = share | "@" number       by draw, or exactly the request of that number, from 1
 *   share    = 0 .. 1
 *   time     = number ( "ns" | "us" | "ms" | "s" ), at most an hour
 *
 * Draws are keyed by the request's number, in order of submission; those of bad and flip by the file's
 * blocks of 4 KiB, so that they depend neither on timing nor on how reads are cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/reader.h"

#define MAX_TIME_NS (3600 * HR_NS_PER_S)

enum { OVERWRITE_BYTE = 0xDB, REAP_BATCH = 32, BLOCK_BYTES = 4096 };

enum draw { DRAW_EIO, DRAW_BAD, DRAW_SHORT, DRAW_FLIP, DRAW_DELAY, DRAW_BURST, DRAW_NOISE };

struct chance {
    double share;
    uint64_t at; /* 0 = none */
};

struct schedule {
    uint64_t seed;
    struct chance eio, burst, bad, cut, flip, noise, delay, stall;
    uint64_t burst_requests, delay_ns, stall_ns;
};

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
    struct schedule schedule;
    struct slot *slots, *free;
    struct slot *held;        /* finished, not due */
    uint64_t numbers;         /* of requests so far */
    uint64_t stall_until_ns;
    uint64_t injected;
    char note[160];
};

/* ---- schedule ---- */

/* The rest of the item, as far as it is not read yet. */
struct cursor {
    const char *at, *end;
};

static bool take_char(struct cursor *c, char wanted)
{
    bool there = c->at < c->end && *c->at == wanted;

    c->at += there;
    return there;
}

static bool take_digits(struct cursor *c, char *out, size_t out_bytes, const char *set)
{
    size_t n = 0;

    while (c->at < c->end && strchr(set, *c->at) && n + 1 < out_bytes)
        out[n++] = *c->at++;
    out[n] = 0;
    return n > 0;
}

static bool take_number(struct cursor *c, uint64_t *out)
{
    char text[24], *stop;

    if (!take_digits(c, text, sizeof(text), "0123456789"))
        return false;
    errno = 0;
    *out = strtoull(text, &stop, 10);
    return errno == 0 && *stop == 0;
}

static bool take_real(struct cursor *c, double *out)
{
    char text[32], *stop;

    if (!take_digits(c, text, sizeof(text), "0123456789.e-"))
        return false;
    *out = strtod(text, &stop);
    return *stop == 0;
}

static bool take_share(struct cursor *c, struct chance *chance)
{
    return take_real(c, &chance->share) && chance->share >= 0 && chance->share <= 1;
}

static bool take_at(struct cursor *c, struct chance *chance)
{
    return take_char(c, '@') && take_number(c, &chance->at) && chance->at > 0;
}

static bool take_chance(struct cursor *c, struct chance *chance)
{
    return take_at(c, chance) || take_share(c, chance);
}

static bool take_time(struct cursor *c, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", HR_NS_PER_US}, {"ms", HR_NS_PER_MS}, {"s", HR_NS_PER_S}};
    double value;

    if (!take_real(c, &value) || !(value >= 0))
        return false;
    for (size_t i = 0; i < HR_ARRAY_SIZE(units); i++) {
        size_t n = strlen(units[i].name);
        if ((size_t)(c->end - c->at) < n || memcmp(c->at, units[i].name, n) != 0)
            continue;
        c->at += n;
        if (value * (double)units[i].ns > (double)MAX_TIME_NS)
            return false;
        *out = (uint64_t)(value * (double)units[i].ns);
        return true;
    }
    return false;
}

/* NULL when the item is right, else what was expected. */
static const char *read_item(struct schedule *s, const char *name, struct cursor *c)
{
    if (strcmp(name, "seed") == 0)
        return take_number(c, &s->seed) ? NULL : "a number";
    if (strcmp(name, "eio") == 0)
        return take_chance(c, &s->eio) ? NULL : "a share from 0 to 1, or @ and a request's number";
    if (strcmp(name, "short") == 0)
        return take_chance(c, &s->cut) ? NULL : "a share from 0 to 1, or @ and a request's number";
    if (strcmp(name, "burst") == 0)
        return take_number(c, &s->burst_requests) && s->burst_requests > 0 && take_char(c, ':') &&
                       take_share(c, &s->burst)
                   ? NULL
                   : "a number of requests and a share, such as 20:0.05";
    if (strcmp(name, "noise") == 0)
        return take_chance(c, &s->noise) ? NULL : "a share from 0 to 1, or @ and a request's number";
    if (strcmp(name, "bad") == 0)
        return take_share(c, &s->bad) ? NULL : "a share from 0 to 1";
    if (strcmp(name, "flip") == 0)
        return take_share(c, &s->flip) ? NULL : "a share from 0 to 1";
    if (strcmp(name, "delay") == 0)
        return take_time(c, &s->delay_ns) &&
                       (take_at(c, &s->delay) || (take_char(c, ':') && take_share(c, &s->delay)))
                   ? NULL
                   : "a time and a share, such as 2ms:0.05, or a time and a request, such as 2ms@7";
    if (strcmp(name, "stall") == 0)
        return take_time(c, &s->stall_ns) && take_at(c, &s->stall)
                   ? NULL
                   : "a time and a request's number, such as 2s@1000";
    return "one of seed, eio, burst, bad, short, flip, noise, delay, stall";
}

static int parse_item(struct schedule *s, const char *text, const char *item, const char *end,
                      struct hr_error *err)
{
    char name[16];
    const char *equals = memchr(item, '=', (size_t)(end - item));
    size_t n = (size_t)((equals ? equals : end) - item);
    struct cursor c = {equals ? equals + 1 : end, end};

    snprintf(name, sizeof(name), "%.*s", (int)hr_min_u64(n, 15), item);
    const char *expected = read_item(s, name, &c);
    if (!expected && c.at == end)
        return 0;
    hr_fail(err, HR_E_CONFIG, "fault schedule: '%.*s' is not understood",
            (int)hr_min_u64((uint64_t)(end - item), 100), item);
    if (err)
        err->offset = item - text;
    hr_error_hint(err, "expected %s", expected ? expected : "',' after the value");
    return HR_E_CONFIG;
}

static int parse_schedule(const char *text, struct schedule *s, struct hr_error *err)
{
    *s = (struct schedule){0};
    if (!text || !*text) {
        hr_fail(err, HR_E_CONFIG, "the reader 'fault' needs a schedule");
        hr_error_hint(err, "for example seed=7,eio=0.01,delay=2ms:0.05,stall=2s@1000");
        return HR_E_CONFIG;
    }
    for (const char *item = text;;) {
        const char *end = item + strcspn(item, ",");
        int ret = parse_item(s, text, item, end, err);
        if (ret < 0 || *end == 0)
            return ret;
        item = end + 1;
    }
}

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

static bool happens(const struct chance *chance, struct hr_rng rng, uint64_t number)
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
    const struct schedule *s = &f->schedule;

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
        ret = parse_schedule(options->fault, &f->schedule, err);
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
