/* Accounting of bad records under one lock: a set of record ids, counters by reason, budgets and the
 * quarantine file. */
#include "pipeline/bad.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

enum { SET_SLOTS = 1 << 16, SET_MOST = SET_SLOTS / 2, MIN_RECORDS = 16, IDS_PER_LINE = 32 };

struct hr_bad {
    const struct hr_plan *plan;
    pthread_mutex_t lock; /* everything below but row */
    uint64_t *set;        /* open addressing, record + 1; full set: no more are told apart */
    uint64_t set_used;
    uint64_t *order;      /* [SET_MOST] the same records as they came; pages are touched as it grows */
    struct hr_bad_stats stats;
    const char *quarantine_path; /* borrowed */
    int quarantine_fd;
    bool quarantine_failed, listed_all;
    _Atomic uint64_t row; /* failures since the last good sample; relaxed, a budget is no barrier */
};

/* True when the record was not in the set yet. */
static bool insert(struct hr_bad *bad, uint64_t record)
{
    uint64_t at = (record * UINT64_C(0x9e3779b97f4a7c15)) >> 48;

    if (bad->set_used >= SET_MOST)
        return false;
    for (;; at++) {
        uint64_t *slot = &bad->set[at % SET_SLOTS];
        if (*slot == record + 1)
            return false;
        if (*slot == 0) {
            *slot = record + 1;
            bad->order[bad->set_used++] = record;
            return true;
        }
    }
}

static void list_in_quarantine(struct hr_bad *bad, uint64_t record, const struct hr_error *why)
{
    struct hr_buf line = {0};
    struct hr_error err;
    uint32_t key_bytes;

    if (bad->quarantine_fd < 0 || bad->quarantine_failed)
        return;
    const char *key = hr_dataset_key(bad->plan->dataset, record, &key_bytes);
    hr_json_open(&line, NULL, '{');
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

void hr_culprit_error(const struct hr_plan *plan, const struct hr_culprit *c, struct hr_error *err)
{
    const struct hr_dataset *dataset = plan->dataset;
    const char *field = NULL;
    uint64_t local;

    if (c->signal)
        hr_fail(err, HR_E_CRASHED, "crashed a decoder (%s)", strsignal(c->signal));
    else
        hr_fail(err, HR_E_CRASHED, "crashed a decoder: it did not come to an end in time");
    /* The recorder outlives this dataset's reading: it is checked like anything from outside. */
    if (c->record >= hr_dataset_record_count(dataset))
        return;
    if (c->field < plan->field_count)
        field = hr_dataset_schema(dataset)->fields[plan->fields[c->field].schema_idx].name;
    uint32_t shard = hr_dataset_shard_of(dataset, c->record, &local);
    hr_error_at_value(err, hr_dataset_shard_info(dataset, shard)->name, c->record, field, -1);
}

static void take_culprits(struct hr_bad *bad, struct hr_flight *flight)
{
    struct hr_error why;

    for (uint32_t i = 0; i < flight->culprit_count; i++) {
        struct hr_culprit *c = &flight->culprits[i];
        if (c->record >= hr_dataset_record_count(bad->plan->dataset))
            continue;
        if (insert(bad, c->record))
            bad->stats.records++;
        if (c->listed)
            continue;
        c->listed = 1;
        hr_culprit_error(bad->plan, c, &why);
        hr_log_error(HR_LOG_WARN, "bad record, quarantined", &why);
        list_in_quarantine(bad, c->record, &why);
    }
}

static void open_quarantine(struct hr_bad *bad)
{
    struct hr_error why;

    if (!bad->quarantine_path)
        return;
    bad->quarantine_fd =
        hr_fd_open(bad->quarantine_path, O_WRONLY | O_CREAT | O_APPEND, 0666, &why);
    if (bad->quarantine_fd < 0) {
        hr_log_error(HR_LOG_WARN, "bad records will not be listed", &why);
        bad->quarantine_fd = -1;
    }
}

int hr_bad_create(const struct hr_plan *plan, const char *quarantine_path, struct hr_flight *flight,
                  struct hr_bad **out, struct hr_error *err)
{
    struct hr_bad *bad = hr_alloc_zero(1, sizeof(*bad));

    if (bad) {
        bad->set = hr_alloc_zero(SET_SLOTS, sizeof(*bad->set));
        bad->order = hr_alloc_zero(SET_MOST, sizeof(*bad->order));
    }
    if (!bad || !bad->set || !bad->order) {
        if (bad) {
            hr_free(bad->set);
            hr_free(bad->order);
        }
        hr_free(bad);
        return hr_fail(err, HR_E_NOMEM, "no memory for the list of bad records");
    }
    bad->plan = plan;
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

/* All of them, for whoever has to look at what a run stumbled over. */
static void log_all(struct hr_bad *bad)
{
    char line[IDS_PER_LINE * 22];

    if (bad->listed_all)
        return;
    bad->listed_all = true;
    for (uint64_t i = 0; i < bad->set_used;) {
        size_t n = 0;
        for (uint64_t end = hr_min_u64(i + IDS_PER_LINE, bad->set_used); i < end; i++)
            n += (size_t)snprintf(line + n, sizeof(line) - n, " %" PRIu64, bad->order[i]);
        hr_log(HR_LOG_ERROR, "bad records:%s", line);
    }
}

/* As many ids as fit in an error's line, and how many do not. */
static void name_some(const struct hr_bad *bad, char *list, size_t list_bytes)
{
    size_t n = 0;
    uint64_t i = 0;

    list[0] = 0;
    for (; i < bad->set_used && n + 56 < list_bytes; i++)
        n += (size_t)snprintf(list + n, list_bytes - n, "%s%" PRIu64, i ? ", " : "", bad->order[i]);
    if (i < bad->set_used)
        snprintf(list + n, list_bytes - n, " and %" PRIu64 " more, see the log", bad->set_used - i);
}

static int over_budget(struct hr_bad *bad, uint64_t row, struct hr_error *err)
{
    const struct hr_plan *plan = bad->plan;
    double share = plan->bad_budget * (double)hr_dataset_record_count(plan->dataset);
    double most = share > MIN_RECORDS ? share : MIN_RECORDS;
    char list[300];

    if ((double)bad->stats.records <= most && row < plan->bad_consecutive)
        return 0;
    log_all(bad);
    name_some(bad, list, sizeof(list));
    if (row >= plan->bad_consecutive)
        hr_fail(err, HR_E_BUDGET, "%" PRIu64 " samples in a row are bad; bad records: %s", row, list);
    else
        hr_fail(err, HR_E_BUDGET, "%" PRIu64 " records are bad, more than the budget of %.0f: %s",
                bad->stats.records, most, list);
    if (bad->quarantine_path)
        hr_error_hint(err, "'%s' has the reasons; raise bad_budget only if the loss is meant",
                      bad->quarantine_path);
    else
        hr_error_hint(err, "run 'headrace verify'; raise bad_budget only if the loss is meant");
    return HR_E_BUDGET;
}

int hr_bad_note(struct hr_bad *bad, uint64_t record, const struct hr_error *why,
                struct hr_error *err)
{
    uint64_t row = 1 + atomic_fetch_add_explicit(&bad->row, 1, memory_order_relaxed);
    int ret;

    int depth = hr_mem_steady_pause();
    pthread_mutex_lock(&bad->lock);
    count(&bad->stats, why->code);
    if (insert(bad, record)) {
        bad->stats.records++;
        hr_log_error(HR_LOG_WARN, "bad record", why);
        list_in_quarantine(bad, record, why);
    }
    ret = over_budget(bad, row, err);
    pthread_mutex_unlock(&bad->lock);
    hr_mem_steady_resume(depth);
    return ret;
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
