/* Accounting of bad records under one lock: a set of record ids, counters by reason, budgets and the
 * quarantine file. */
#include "pipeline/bad.h"

#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

/* The set's size: for as many records as the budget allows, and one more. */
enum { SET_BITS_LEAST = 16, SET_BITS_MOST = 24, MOST_TOLD_APART = 1 << (SET_BITS_MOST - 1) };
enum { MIN_RECORDS = 16, IDS_PER_LINE = 32, MENDED_LOGGED = 16 };

struct known {
    uint64_t mark; /* record + 1; 0 = free */
    uint32_t source;
};

struct hr_bad {
    const struct hr_plan *plan;
    pthread_mutex_t lock; /* everything below but row */
    struct known *set;    /* open addressing; full set: no more are told apart */
    unsigned set_bits;
    uint64_t set_used, set_most;
    struct known *order;  /* [set_most] the same records as they came; of both, pages are touched as they fill */
    struct hr_bad_stats stats;
    const char *quarantine_path; /* borrowed */
    int quarantine_fd;
    bool quarantine_failed, listed_all;
    int mended_logged;
    _Atomic uint64_t row; /* failures since the last good sample; relaxed, a budget is no barrier */
};

/* True when the record was not in the set yet. */
static bool insert(struct hr_bad *bad, uint32_t source, uint64_t record)
{
    uint64_t at = ((record + ((uint64_t)source << 40)) * UINT64_C(0x9e3779b97f4a7c15)) >>
                  (64 - bad->set_bits);
    struct known new = {.mark = record + 1, .source = source};

    if (bad->set_used >= bad->set_most)
        return false;
    for (;; at++) {
        struct known *slot = &bad->set[at & ((UINT64_C(1) << bad->set_bits) - 1)];
        if (slot->mark == new.mark && slot->source == source)
            return false;
        if (slot->mark == 0) {
            *slot = new;
            bad->order[bad->set_used++] = new;
            return true;
        }
    }
}

static void list_in_quarantine(struct hr_bad *bad, uint32_t source, uint64_t record,
                               const struct hr_error *why)
{
    const struct hr_source *from = &bad->plan->sources.items[source];
    struct hr_buf line = {0};
    struct hr_error err;
    uint32_t key_bytes;

    if (bad->quarantine_fd < 0 || bad->quarantine_failed)
        return;
    const char *key = hr_dataset_key(from->dataset, record, &key_bytes);
    hr_json_open(&line, NULL, '{');
    hr_json_str(&line, "dataset", from->path);
    hr_json_uint(&line, "record", record);
    hr_json_strn(&line, "key", key, key_bytes);
    hr_json_str(&line, "shard", why->file);
    hr_json_str(&line, "field", why->field);
    hr_json_int(&line, "offset", why->offset);
    hr_json_str(&line, "code", hr_error_name(why->code));
    hr_json_str(&line, "reason", why->text);
    hr_json_close(&line, '}');
    hr_buf_add(&line, "\n", 1);
    /* A full disk must not stop feeding: told once, then left alone. */
    if (!hr_buf_failed(&line) &&
        hr_fd_write_full(bad->quarantine_fd, line.data, line.used, &err) < 0) {
        hr_log_error(HR_LOG_WARN, "the quarantine file is left incomplete", &err);
        bad->quarantine_failed = true;
    }
    hr_buf_finish(&line);
}

/* The recorder outlives these datasets' reading: it is checked like anything from outside. */
static bool is_of_plan(const struct hr_plan *plan, const struct hr_culprit *c)
{
    return c->source < plan->sources.count &&
           c->record < hr_dataset_record_count(hr_plan_dataset(plan, c->source));
}

void hr_culprit_error(const struct hr_plan *plan, const struct hr_culprit *c, struct hr_error *err)
{
    const char *field = NULL;

    if (c->signal)
        hr_fail(err, HR_E_CRASHED, "crashed a decoder (%s)", strsignal(c->signal));
    else
        hr_fail(err, HR_E_CRASHED, "crashed a decoder: it did not come to an end in time");
    if (!is_of_plan(plan, c))
        return;
    if (c->field < plan->field_count)
        field = plan->fields[c->field].name;
    hr_sources_error_at(&plan->sources, c->source, c->record, field, -1, err);
}

static void take_culprits(struct hr_bad *bad, struct hr_flight *flight)
{
    struct hr_error why;

    for (uint32_t i = 0; i < flight->culprit_count; i++) {
        struct hr_culprit *c = &flight->culprits[i];
        if (!is_of_plan(bad->plan, c))
            continue;
        if (insert(bad, c->source, c->record))
            bad->stats.records++;
        if (c->listed)
            continue;
        c->listed = 1;
        hr_culprit_error(bad->plan, c, &why);
        hr_log_error(HR_LOG_WARN, "bad record, quarantined", &why);
        list_in_quarantine(bad, c->source, c->record, &why);
    }
}

/* A full disk or a kill leaves half a line, which would swallow the next one. */
static void end_last_line(const char *path, int fd)
{
    int in = hr_fd_open(path, O_RDONLY | O_NONBLOCK, 0, NULL);
    struct stat st;
    char last;

    if (in >= 0 && fstat(in, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        pread(in, &last, 1, st.st_size - 1) == 1 && last != '\n')
        (void)!hr_fd_write_full(fd, "\n", 1, NULL);
    hr_fd_close(&in);
}

static void open_quarantine(struct hr_bad *bad)
{
    struct hr_error why;

    if (!bad->quarantine_path)
        return;
    bad->quarantine_fd =
        hr_fd_open(bad->quarantine_path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, 0666, &why); /* it may be a pipe */
    if (bad->quarantine_fd < 0) {
        hr_log_error(HR_LOG_WARN, "bad records will not be listed", &why);
        bad->quarantine_fd = -1;
        return;
    }
    end_last_line(bad->quarantine_path, bad->quarantine_fd);
}

/* Whole records: 29 of 100 where the budget is 0.29, although 0.29 * 100 is a little less in doubles. */
static uint64_t most_records(const struct hr_plan *plan)
{
    double share = floor(plan->bad_budget * (double)plan->sources.kept * (1 + 4 * DBL_EPSILON));

    if (share < MIN_RECORDS)
        return MIN_RECORDS;
    uint64_t most = share < (double)plan->sources.kept ? (uint64_t)share : plan->sources.kept;
    return hr_min_u64(most, MOST_TOLD_APART - 1);
}

static int make_set(struct hr_bad *bad)
{
    bad->set_bits = SET_BITS_LEAST;
    while (bad->set_bits < SET_BITS_MOST &&
           UINT64_C(1) << (bad->set_bits - 1) <= most_records(bad->plan))
        bad->set_bits++;
    bad->set_most = UINT64_C(1) << (bad->set_bits - 1);
    bad->set = hr_alloc_zero(2 * bad->set_most, sizeof(*bad->set));
    bad->order = hr_alloc_zero(bad->set_most, sizeof(*bad->order));
    return bad->set && bad->order ? 0 : HR_E_NOMEM;
}

int hr_bad_create(const struct hr_plan *plan, const char *quarantine_path, struct hr_flight *flight,
                  struct hr_bad **out, struct hr_error *err)
{
    struct hr_bad *bad = hr_alloc_zero(1, sizeof(*bad));

    if (bad)
        bad->plan = plan;
    if (!bad || make_set(bad) < 0) {
        if (bad) {
            hr_free(bad->set);
            hr_free(bad->order);
        }
        hr_free(bad);
        return hr_fail(err, HR_E_NOMEM, "no memory for the list of bad records");
    }
    bad->quarantine_fd = -1;
    bad->quarantine_path = quarantine_path;
    pthread_mutex_init(&bad->lock, NULL);
    open_quarantine(bad);
    take_culprits(bad, flight);
    *out = bad;
    return 0;
}

void hr_bad_destroy(struct hr_bad *bad)
{
    if (!bad)
        return;
    hr_fd_close(&bad->quarantine_fd);
    pthread_mutex_destroy(&bad->lock);
    hr_free(bad->set);
    hr_free(bad->order);
    hr_free(bad);
}

static void count(struct hr_bad_stats *stats, int code)
{
    stats->occurrences++;
    if (code == HR_E_CHECKSUM || code == HR_E_CORRUPT)
        stats->checksum++;
    else if (code == HR_E_TRUNCATED || code == HR_E_MISSING)
        stats->truncated++;
    else if (code == HR_E_DECODE || code == HR_E_FORMAT)
        stats->decode++;
    else if (code == HR_E_CRASHED)
        stats->crashed++;
    else
        stats->other++;
}

/* "RECORD", or "SOURCE:RECORD" where there are several. Returns the length. */
static size_t name_known(const struct hr_bad *bad, uint64_t i, char *text, size_t bytes)
{
    const struct known *k = &bad->order[i];

    if (bad->plan->sources.count > 1)
        return (size_t)snprintf(text, bytes, "%" PRIu32 ":%" PRIu64, k->source, k->mark - 1);
    return (size_t)snprintf(text, bytes, "%" PRIu64, k->mark - 1);
}

/* All of them, for whoever has to look at what a run stumbled over. */
static void log_all(struct hr_bad *bad)
{
    char line[IDS_PER_LINE * 34];

    if (bad->listed_all)
        return;
    bad->listed_all = true;
    for (uint64_t i = 0; i < bad->set_used;) {
        size_t n = 0;
        for (uint64_t end = hr_min_u64(i + IDS_PER_LINE, bad->set_used); i < end; i++) {
            line[n++] = ' ';
            n += name_known(bad, i, line + n, sizeof(line) - n);
        }
        hr_log(HR_LOG_ERROR, "bad records:%s", line);
    }
}

/* As many ids as fit in an error's line, and how many do not. */
static void name_some(const struct hr_bad *bad, char *list, size_t list_bytes)
{
    size_t n = 0;
    uint64_t i = 0;

    list[0] = 0;
    for (; i < bad->set_used && n + 68 < list_bytes; i++) {
        n += (size_t)snprintf(list + n, list_bytes - n, "%s", i ? ", " : "");
        n += name_known(bad, i, list + n, list_bytes - n);
    }
    if (i < bad->set_used)
        snprintf(list + n, list_bytes - n, " and %" PRIu64 " more, see the log", bad->set_used - i);
}

static int over_budget(struct hr_bad *bad, uint64_t row, struct hr_error *err)
{
    const struct hr_plan *plan = bad->plan;
    uint64_t most = most_records(plan);
    char list[300];

    if (bad->stats.records <= most && row < plan->bad_consecutive)
        return 0;
    log_all(bad);
    name_some(bad, list, sizeof(list));
    if (row >= plan->bad_consecutive)
        hr_fail(err, HR_E_BUDGET, "%" PRIu64 " sample%s bad; bad records: %s", row,
                row == 1 ? " is" : "s in a row are", list);
    else
        hr_fail(err, HR_E_BUDGET, "%" PRIu64 " records are bad, more than the budget of %" PRIu64 ": %s",
                bad->stats.records, most, list);
    if (bad->quarantine_path)
        hr_error_hint(err, "'%s' has the reasons; raise bad_budget only if the loss is meant",
                      bad->quarantine_path);
    else
        hr_error_hint(err, "run 'headrace verify'; raise bad_budget only if the loss is meant");
    return HR_E_BUDGET;
}

int hr_bad_note(struct hr_bad *bad, uint32_t source, uint64_t record, const struct hr_error *why,
                struct hr_error *err)
{
    uint64_t row = 1 + atomic_fetch_add_explicit(&bad->row, 1, memory_order_relaxed);
    int ret;

    int depth = hr_mem_steady_pause();
    pthread_mutex_lock(&bad->lock);
    count(&bad->stats, why->code);
    if (insert(bad, source, record)) {
        bad->stats.records++;
        hr_log_error(HR_LOG_WARN, "bad record", why);
        list_in_quarantine(bad, source, record, why);
    }
    ret = over_budget(bad, row, err);
    pthread_mutex_unlock(&bad->lock);
    hr_mem_steady_resume(depth);
    return ret;
}

void hr_bad_note_mended(struct hr_bad *bad, uint32_t source, uint64_t record)
{
    struct hr_error err;

    int depth = hr_mem_steady_pause();
    pthread_mutex_lock(&bad->lock);
    if (bad->mended_logged < MENDED_LOGGED) {
        bad->mended_logged++;
        hr_fail(&err, HR_E_CHECKSUM, "bytes were wrong, and right when they were read again");
        hr_sources_error_at(&bad->plan->sources, source, record, NULL, -1, &err);
        hr_error_hint(&err, "this machine's memory, bus or disk may be failing");
        hr_log_error(HR_LOG_WARN, "a read went wrong", &err);
    }
    pthread_mutex_unlock(&bad->lock);
    hr_mem_steady_resume(depth);
}

void hr_bad_note_good(struct hr_bad *bad)
{
    if (atomic_load_explicit(&bad->row, memory_order_relaxed) != 0)
        atomic_store_explicit(&bad->row, 0, memory_order_relaxed);
}

void hr_bad_stats(struct hr_bad *bad, struct hr_bad_stats *stats)
{
    pthread_mutex_lock(&bad->lock);
    *stats = bad->stats;
    pthread_mutex_unlock(&bad->lock);
}
