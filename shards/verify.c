/* Checking a dataset: the manifests, then all shards, each by one of several threads. */
#include "shards/verify.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cpu.h"
#include "base/fd.h"
#include "base/mem.h"
#include "shards/manifest.h"
#include "verify_shard.h"

enum { MAX_THREADS = 256 };

/* A shard, the first manifest that names it, and the first of its records in that version. */
struct item {
    const struct hr_shard_info *info;
    const struct hr_manifest *manifest;
    uint64_t first_record;
};

struct verify {
    const struct hr_verify_options *options;
    const char *folder;
    struct hr_manifest manifest; /* its shards may be a listing when there is no readable manifest */
    bool known;                  /* the manifest was read */
    struct hr_versions versions; /* all that can be read, when all are checked */
    struct item *items;          /* what there is to check */
    uint32_t item_count;
    uint64_t bytes_total;
    const char *single;          /* path of a lone shard */
    _Atomic uint64_t bytes_done; /* written by checking threads, read by the calling one */
    _Atomic bool stop;           /* written by the calling thread */
    pthread_mutex_t lock;        /* guards what follows, and calls of options->problem */
    pthread_cond_t done;
    uint32_t next, running;
    struct hr_verify_result result;
};

static void report(void *arg, const struct hr_verify_problem *problem)
{
    struct verify *v = arg;

    pthread_mutex_lock(&v->lock);
    v->result.problems++;
    if (v->options->problem)
        v->options->problem(v->options->arg, problem);
    pthread_mutex_unlock(&v->lock);
}

static void report_file(struct verify *v, const char *name, const struct hr_error *err)
{
    struct hr_verify_problem p = {.shard = name, .record = HR_NO_RECORD, .field = err->field,
                                  .offset = err->offset, .code = err->code, .reason = err->text};

    report(v, &p);
}

/* ---- manifests ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct hr_shard_info *)a)->name, ((const struct hr_shard_info *)b)->name);
}

/* The .hrs files that lie there, when the manifest cannot say. */
static int list_shards(struct verify *v, struct hr_error *err)
{
    struct hr_manifest *m = &v->manifest;
    DIR *dir = opendir(v->folder);
    const char *name;
    int ret = 0;

    if (!dir)
        return hr_fail_errno(err, errno, "cannot list '%s'", v->folder);
    while (ret == 0 && (ret = hr_dir_next(dir, &name, err)) == 1) {
        size_t n = strlen(name);
        ret = 0;
        if (n < 5 || strcmp(name + n - 4, ".hrs") != 0 || !hr_shard_name_ok(name))
            continue;
        struct hr_shard_info *grown = hr_realloc(m->shards, m->shard_count + 1, sizeof(*grown));
        if (!grown) {
            ret = hr_fail(err, HR_E_NOMEM, "no memory for a list of shards");
            break;
        }
        m->shards = grown;
        m->shards[m->shard_count] = (struct hr_shard_info){0};
        memcpy(m->shards[m->shard_count++].name, name, n + 1);
    }
    closedir(dir);
    if (m->shard_count > 1)
        qsort(m->shards, m->shard_count, sizeof(*m->shards), by_name);
    return ret;
}

static void check_kept_manifest(struct verify *v, const char *name, struct hr_manifest *m)
{
    struct hr_error err = HR_ERROR_INIT;
    char hex[HR_DIGEST_HEX_BYTES];
    char *file = hr_asprintf("%s/" HR_VERSIONS_NAME "/%s", v->folder, name);
    const char *shown = file ? file + strlen(v->folder) + 1 : name;

    if (file && hr_manifest_read(file, m, &err) < 0) {
        report_file(v, shown, &err);
    } else if (file && strncmp(hr_digest_hex(&m->digest, hex), name, 32) != 0) {
        hr_fail(&err, HR_E_CORRUPT, "holds another version than its name says");
        report_file(v, shown, &err);
    }
    hr_manifest_finish(m);
    hr_free(file);
}

/* Every kept manifest is part of the dataset too. */
static void check_kept_manifests(struct verify *v)
{
    char *path = hr_asprintf("%s/" HR_VERSIONS_NAME, v->folder);
    DIR *dir = path ? opendir(path) : NULL;
    struct hr_manifest *m = hr_alloc_zero(1, sizeof(*m));
    struct hr_error err = HR_ERROR_INIT;
    const char *name;
    int ret = path && !dir && errno != ENOENT ? hr_fail_errno(&err, errno, "cannot list the folder") : 0;

    while (dir && m && (ret = hr_dir_next(dir, &name, &err)) == 1) {
        size_t n = strlen(name);
        if (n > 4 && strcmp(name + n - 4, ".hrm") == 0)
            check_kept_manifest(v, name, m);
    }
    if (ret < 0)
        report_file(v, HR_VERSIONS_NAME, &err);
    if (dir)
        closedir(dir);
    hr_free(m);
    hr_free(path);
}

static int load_manifest(struct verify *v, const char *version, struct hr_error *err)
{
    struct hr_error fault = HR_ERROR_INIT;
    int ret = hr_manifest_read_version(v->folder, version, &v->manifest, &fault);

    v->known = ret == 0;
    if (ret == HR_E_CORRUPT || ret == HR_E_VERSION) {
        v->manifest = (struct hr_manifest){.schema.class_field = -1};
        report_file(v, version && version[0] ? version : HR_MANIFEST_NAME, &fault);
        ret = list_shards(v, &fault);
    }
    if (ret < 0) {
        if (err)
            *err = fault;
        return ret;
    }
    check_kept_manifests(v);
    return version && version[0] ? 0 : hr_versions_read(v->folder, &v->versions, err);
}

static void tell_strays(struct verify *v)
{
    char **names;
    uint32_t count;

    /* What an unreadable manifest names is not known. */
    if (!v->versions.has_current || v->versions.unreadable || !v->options->stray ||
        hr_versions_strays(&v->versions, v->folder, &names, &count, NULL) < 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        v->options->stray(v->options->arg, names[i]);
        hr_free(names[i]);
    }
    hr_free(names);
}

/* ---- shards ---- */

static void check_shard(struct verify *v, uint32_t i)
{
    const struct item *item = &v->items[i];
    const struct hr_shard_info *info = item->info;
    bool known = v->known || item->manifest != &v->manifest;
    char *path = v->single ? hr_strdup(v->single) : hr_asprintf("%s/%s", v->folder, info->name);
    const char *slash = path ? strrchr(path, '/') : NULL;
    struct hr_verify_job job = {
        .path = path,
        .name = slash ? slash + 1 : path,
        .expected = known ? info : NULL,
        .schema = known && info ? &item->manifest->schema : NULL,
        .first_record = item->first_record,
        .report = report,
        .arg = v,
        .bytes_done = &v->bytes_done,
        .stop = &v->stop,
    };

    if (path)
        hr_verify_shard(&job);
    pthread_mutex_lock(&v->lock);
    v->result.records += job.records;
    v->result.values += job.values;
    v->result.bad_shards += job.problems > 0 || !path;
    v->result.problems += !path;
    pthread_mutex_unlock(&v->lock);
    hr_free(path);
}

static void *work(void *arg)
{
    struct verify *v = arg;

    pthread_mutex_lock(&v->lock);
    while (v->next < v->result.shard_count && !atomic_load_explicit(&v->stop, memory_order_relaxed)) {
        uint32_t i = v->next++;
        pthread_mutex_unlock(&v->lock);
        check_shard(v, i);
        pthread_mutex_lock(&v->lock);
    }
    v->running--;
    pthread_cond_signal(&v->done);
    pthread_mutex_unlock(&v->lock);
    return NULL;
}

static void wait_for_threads(struct verify *v)
{
    uint64_t total = v->bytes_total;

    pthread_mutex_lock(&v->lock);
    while (v->running > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&v->done, &v->lock, &until);
        pthread_mutex_unlock(&v->lock);
        if (v->options->progress &&
            !v->options->progress(v->options->arg,
                                  atomic_load_explicit(&v->bytes_done, memory_order_relaxed), total))
            atomic_store_explicit(&v->stop, true, memory_order_relaxed);
        pthread_mutex_lock(&v->lock);
    }
    pthread_mutex_unlock(&v->lock);
}

static int run_threads(struct verify *v, struct hr_error *err)
{
    pthread_t threads[MAX_THREADS];
    int want = v->options->threads > 0 ? v->options->threads : hr_cpu_quota(), started = 0;

    want = (int)hr_min_u64((uint64_t)want, hr_min_u64(MAX_THREADS, v->result.shard_count));
    for (; started < want; started++) {
        pthread_mutex_lock(&v->lock);
        v->running++;
        pthread_mutex_unlock(&v->lock);
        if (pthread_create(&threads[started], NULL, work, v) != 0) {
            pthread_mutex_lock(&v->lock);
            v->running--;
            pthread_mutex_unlock(&v->lock);
            break;
        }
    }
    wait_for_threads(v);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return started > 0 || want == 0 ? 0 : hr_fail(err, HR_E_NOMEM, "cannot start a thread");
}

/* Compares as strcmp does; a name may stand for different shards in different versions. */
static int compare_shards(const struct hr_shard_info *a, const struct hr_shard_info *b)
{
    int order = strcmp(a->name, b->name);

    return order ? order : memcmp(&a->digest, &b->digest, sizeof(a->digest));
}

static int by_shard(const void *a, const void *b)
{
    return compare_shards(((const struct item *)a)->info, ((const struct item *)b)->info);
}

static void add_items(struct verify *v, const struct hr_manifest *m)
{
    uint64_t first = 0;

    for (uint32_t i = 0; i < m->shard_count; i++) {
        v->items[v->item_count++] = (struct item){&m->shards[i], m, first};
        first += m->shards[i].record_count;
    }
    v->result.version_count++;
}

/* Shards of other versions that the versions before them do not name. */
static int add_version(struct verify *v, const struct hr_manifest *m, struct hr_error *err)
{
    uint32_t before = v->item_count;
    struct item *sorted = hr_alloc(((size_t)before + 1) * sizeof(*sorted));

    if (!sorted)
        return hr_fail(err, HR_E_NOMEM, "no memory to verify");
    memcpy(sorted, v->items, before * sizeof(*sorted));
    qsort(sorted, before, sizeof(*sorted), by_shard);
    add_items(v, m);
    uint32_t kept = before;
    for (uint32_t i = before; i < v->item_count; i++) {
        const struct item *item = &v->items[i];
        uint32_t low = 0, high = before;
        while (low < high) {
            uint32_t mid = low + (high - low) / 2;
            if (compare_shards(sorted[mid].info, item->info) < 0)
                low = mid + 1;
            else
                high = mid;
        }
        if (low == before || compare_shards(sorted[low].info, item->info) != 0)
            v->items[kept++] = *item;
    }
    v->item_count = kept;
    hr_free(sorted);
    return 0;
}

static int list_items(struct verify *v, struct hr_error *err)
{
    const struct hr_versions *all = &v->versions;
    size_t room = (size_t)v->manifest.shard_count + 1;
    int ret = 0;

    for (uint32_t i = 0; i < all->count; i++)
        room += all->manifests[i]->shard_count;
    v->items = hr_alloc_zero(room, sizeof(*v->items));
    if (!v->items)
        return hr_fail(err, HR_E_NOMEM, "no memory to verify");
    if (v->single)
        v->items[v->item_count++] = (struct item){.manifest = &v->manifest};
    else
        add_items(v, &v->manifest);
    /* Without the current manifest every shard that lies there is in the list already. */
    for (uint32_t i = 0; ret == 0 && v->known && i < all->count; i++)
        if (!hr_digest_equal(&all->manifests[i]->digest, &v->manifest.digest))
            ret = add_version(v, all->manifests[i], err);
    for (uint32_t i = 0; i < v->item_count; i++)
        v->bytes_total += v->items[i].info ? v->items[i].info->bytes : v->manifest.bytes;
    return ret;
}

static int check_shards(struct verify *v, struct hr_error *err)
{
    int ret = list_items(v, err);

    if (ret < 0)
        return ret;
    v->result.shard_count = v->item_count;
    ret = run_threads(v, err);
    v->result.bytes = atomic_load_explicit(&v->bytes_done, memory_order_relaxed);
    if (ret == 0 && atomic_load_explicit(&v->stop, memory_order_relaxed))
        ret = hr_fail(err, HR_E_CANCELLED, "stopped before the end");
    return ret;
}

int hr_dataset_verify(const char *path, const char *version, const struct hr_verify_options *options,
                      struct hr_verify_result *result, struct hr_error *err)
{
    struct verify *v = hr_alloc_zero(1, sizeof(*v));
    struct stat st;
    int ret = 0;

    if (!v)
        return hr_fail(err, HR_E_NOMEM, "no memory to verify");
    v->options = options;
    v->folder = path;
    v->manifest.schema.class_field = -1;
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->done, NULL);
    if (stat(path, &st) < 0)
        ret = hr_fail_errno(err, errno, "cannot open '%s'", path);
    else if (S_ISDIR(st.st_mode))
        ret = load_manifest(v, version, err);
    else if (version && version[0])
        ret = hr_fail(err, HR_E_USAGE, "a single shard has no versions");
    else {
        v->single = path;
        v->manifest.bytes = (uint64_t)st.st_size;
    }
    if (ret == 0)
        ret = check_shards(v, err);
    if (ret == 0)
        tell_strays(v);
    *result = v->result;
    hr_manifest_finish(&v->manifest);
    pthread_cond_destroy(&v->done);
    pthread_mutex_destroy(&v->lock);
    hr_versions_finish(&v->versions);
    hr_free(v->items);
    hr_free(v);
    return ret;
}
