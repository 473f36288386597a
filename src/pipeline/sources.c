/* Opening what a pipeline draws from, and the order over all of it. */
#include "pipeline/sources.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "pipeline/keep.h"

static int begin(struct hr_sources *sources, uint32_t count, struct hr_error *err)
{
    *sources = (struct hr_sources){.items = hr_alloc_zero(count, sizeof(struct hr_source))};
    if (!sources->items)
        return hr_fail(err, HR_E_NOMEM, "no memory for %u datasets", count);
    sources->count = count;
    return 0;
}

void hr_sources_finish(struct hr_sources *sources)
{
    for (uint32_t i = 0; i < sources->count; i++) {
        struct hr_source *source = &sources->items[i];
        hr_selection_destroy(source->selection);
        hr_free(source->path);
        if (sources->owns_datasets)
            hr_dataset_close((struct hr_dataset *)source->dataset);
    }
    hr_free(sources->items);
    *sources = (struct hr_sources){0};
}

static int digest_all(struct hr_sources *sources, struct hr_error *err)
{
    struct hr_hasher *hasher;

    if (sources->count == 1) {
        sources->digest = hr_dataset_digest(sources->items[0].dataset);
        return 0;
    }
    hasher = hr_hasher_create();
    if (!hasher)
        return hr_fail(err, HR_E_NOMEM, "no memory for a digest");
    for (uint32_t i = 0; i < sources->count; i++) {
        struct hr_digest digest = hr_dataset_digest(sources->items[i].dataset);
        hr_hasher_update(hasher, digest.bytes, sizeof(digest.bytes));
    }
    sources->digest = hr_hasher_digest(hasher);
    hr_hasher_destroy(hasher);
    return 0;
}

static int fail_at_dataset(const struct hr_conf *conf, uint32_t source, struct hr_error *err)
{
    hr_error_at_file(err, conf->file, conf->datasets[source].line, conf->datasets[source].column);
    return HR_E_CONFIG;
}

/* All datasets are open: filters, files, digest. */
static int complete(const struct hr_conf *conf, struct hr_sources *sources, struct hr_error *err)
{
    const struct hr_dataset *datasets[HR_ORDER_MAX_SOURCES];
    int ret;

    for (uint32_t i = 0; i < sources->count; i++)
        datasets[i] = sources->items[i].dataset;
    ret = hr_keep_check(conf, datasets, (int)sources->count, err);
    for (uint32_t i = 0; i < sources->count && ret == 0; i++) {
        struct hr_source *source = &sources->items[i];
        uint64_t records = hr_dataset_record_count(source->dataset);
        if (records == 0) {
            hr_fail(err, HR_E_CONFIG, "dataset '%s' has no records",
                    hr_dataset_path(source->dataset));
            return fail_at_dataset(conf, i, err);
        }
        source->path = hr_strdup(hr_dataset_path(source->dataset));
        if (!source->path)
            return hr_fail(err, HR_E_NOMEM, "no memory for a path");
        ret = hr_keep_records(conf, &conf->datasets[i], source->dataset, &source->selection,
                              &source->kept, err);
        source->first_file = sources->file_count;
        sources->file_count += hr_dataset_shard_count(source->dataset);
        sources->record_count += records;
        sources->kept += source->kept;
        sources->bytes += hr_dataset_bytes(source->dataset);
    }
    return ret < 0 ? ret : digest_all(sources, err);
}

static int too_many(const struct hr_conf *conf, struct hr_error *err)
{
    hr_fail(err, HR_E_CONFIG, "a mixture of %d datasets; the most is %d", conf->dataset_count,
            HR_ORDER_MAX_SOURCES);
    return fail_at_dataset(conf, HR_ORDER_MAX_SOURCES, err);
}

int hr_sources_open(const struct hr_conf *conf, struct hr_sources *sources, struct hr_error *err)
{
    if (conf->dataset_count > HR_ORDER_MAX_SOURCES)
        return too_many(conf, err);
    int ret = begin(sources, (uint32_t)conf->dataset_count, err);
    if (ret < 0)
        return ret;
    sources->owns_datasets = true;
    for (uint32_t i = 0; i < sources->count && ret == 0; i++) {
        struct hr_dataset *dataset = NULL;
        ret = hr_dataset_open(conf->datasets[i].path, conf->datasets[i].version, &dataset, err);
        sources->items[i].dataset = dataset;
        if (ret < 0 && err && !err->file[0])
            fail_at_dataset(conf, i, err);
    }
    if (ret == 0)
        ret = complete(conf, sources, err);
    if (ret < 0)
        hr_sources_finish(sources);
    return ret;
}

int hr_sources_of_dataset(const struct hr_conf *conf, const struct hr_dataset *dataset,
                          struct hr_sources *sources, struct hr_error *err)
{
    if (conf->dataset_count != 1)
        return hr_fail(err, HR_E_USAGE, "one dataset for a pipeline of %d", conf->dataset_count);
    int ret = begin(sources, 1, err);
    if (ret < 0)
        return ret;
    sources->items[0].dataset = dataset;
    ret = complete(conf, sources, err);
    if (ret < 0)
        hr_sources_finish(sources);
    return ret;
}

int hr_sources_assume(const struct hr_conf *conf, const uint64_t *record_counts, uint32_t count,
                      struct hr_sources *sources, struct hr_error *err)
{
    if ((uint32_t)conf->dataset_count != count) {
        hr_fail(err, HR_E_USAGE, "%u numbers of records for %d datasets", count,
                conf->dataset_count);
        hr_error_hint(err, "give one for each dataset, with commas between");
        return HR_E_USAGE;
    }
    if (count > HR_ORDER_MAX_SOURCES)
        return too_many(conf, err);
    int ret = begin(sources, count, err);
    for (uint32_t i = 0; i < count && ret == 0; i++) {
        sources->items[i].kept = record_counts[i];
        if (!hr_add_u64(sources->kept, record_counts[i], &sources->kept))
            sources->kept = UINT64_MAX;
    }
    sources->record_count = sources->kept;
    return ret;
}

/* ---- order ---- */

static int check_stop(const struct hr_conf *conf, struct hr_error *err)
{
    bool asked = conf->stop != HR_CONF_STOP_ALL_EXHAUSTED;

    if (!asked || (conf->dataset_count > 1 && conf->datasets[0].repeats == 0))
        return 0;
    hr_fail(err, HR_E_CONFIG, "'stop' is for datasets that are mixed by weight");
    hr_error_at_file(err, conf->file, conf->stop_line, 0);
    hr_error_hint(err, conf->dataset_count > 1 ? "with repeats an epoch is all of them"
                                               : "'epochs' ends a run");
    return HR_E_CONFIG;
}

int hr_sources_order(const struct hr_conf *conf, const struct hr_sources *sources,
                     struct hr_order *order, struct hr_error *err)
{
    static const enum hr_order_kind kinds[] = {[HR_CONF_ORDER_FULL] = HR_ORDER_FULL,
                                               [HR_CONF_ORDER_WINDOW] = HR_ORDER_WINDOW,
                                               [HR_CONF_ORDER_NONE] = HR_ORDER_NONE};
    static const enum hr_last_rule lasts[] = {[HR_CONF_LAST_DROP] = HR_LAST_DROP,
                                              [HR_CONF_LAST_PAD] = HR_LAST_PAD,
                                              [HR_CONF_LAST_WRAP] = HR_LAST_WRAP,
                                              [HR_CONF_LAST_KEEP] = HR_LAST_KEEP};
    static const enum hr_stop_rule stops[] = {
        [HR_CONF_STOP_ALL_EXHAUSTED] = HR_STOP_ALL_EXHAUSTED,
        [HR_CONF_STOP_FIRST_EXHAUSTED] = HR_STOP_FIRST_EXHAUSTED,
        [HR_CONF_STOP_STEPS] = HR_STOP_STEPS};
    struct hr_order_source items[HR_ORDER_MAX_SOURCES];
    struct hr_order_spec spec = {
        .kind = kinds[conf->order],
        .last = lasts[conf->last],
        .seed = conf->seed,
        .batch = conf->batch,
        .block_records = conf->window_block_records,
        .open_blocks = conf->window_open_blocks,
        .sources = items,
        .source_count = sources->count,
        .stop = stops[conf->stop],
        .stop_steps = conf->stop_steps,
    };

    int ret = check_stop(conf, err);
    if (ret < 0)
        return ret;
    for (uint32_t i = 0; i < sources->count; i++)
        items[i] = (struct hr_order_source){.record_count = sources->items[i].kept,
                                            .selection = sources->items[i].selection,
                                            .weight = conf->datasets[i].weight,
                                            .repeats = conf->datasets[i].repeats};
    ret = hr_order_init(order, &spec, err);
    if (ret < 0 && err && err->line == 0)
        hr_error_at_file(err, conf->file, conf->batch_line, 0);
    return ret;
}

/* ---- files and places ---- */

static const struct hr_source *source_of_file(const struct hr_sources *sources, uint32_t file)
{
    uint32_t i = sources->count - 1;

    while (i > 0 && sources->items[i].first_file > file)
        i--;
    return &sources->items[i];
}

const char *hr_sources_file_path(const struct hr_sources *sources, uint32_t file)
{
    const struct hr_source *source = source_of_file(sources, file);

    return hr_dataset_shard_path(source->dataset, file - source->first_file);
}

void hr_sources_error_at(const struct hr_sources *sources, uint32_t source, uint64_t record,
                         const char *field, int64_t offset, struct hr_error *err)
{
    const struct hr_dataset *dataset = sources->items[source].dataset;
    uint64_t local;
    uint32_t shard = hr_dataset_shard_of(dataset, record, &local);
    const char *name = sources->count > 1 ? hr_dataset_shard_path(dataset, shard)
                                          : hr_dataset_shard_info(dataset, shard)->name;

    hr_error_at_value(err, name, record, field, offset);
}
