/* The datasets that a pipeline draws from, what their filters leave of each, and one table of all
 * their files. Immutable once open; safe to read from any thread. */
#ifndef HR_PIPELINE_SOURCES_H
#define HR_PIPELINE_SOURCES_H

#include "base/hash.h"
#include "conf/conf.h"
#include "order/order.h"
#include "order/selection.h"
#include "shards/dataset.h"

struct hr_source {
    const struct hr_dataset *dataset; /* NULL when only counts are assumed */
    char *path;
    struct hr_selection *selection;   /* NULL = all records */
    uint64_t kept;                    /* records that take part */
    uint32_t first_file;              /* of its shards in the table of files */
};

struct hr_sources {
    struct hr_source *items;
    uint32_t count;
    uint32_t file_count;
    uint64_t record_count, kept; /* of all sources, before and after the filters */
    uint64_t bytes;
    struct hr_digest digest;     /* one source: its dataset's */
    bool owns_datasets;
};

/* Opens the datasets and evaluates the filters. HR_E_CONFIG and others, with the place in the
 * pipeline file. On failure nothing is left open. */
int hr_sources_open(const struct hr_conf *conf, struct hr_sources *sources,
                    struct hr_error *err) HR_MUST_CHECK;
/* The same over the only dataset, open already and the caller's. */
int hr_sources_of_dataset(const struct hr_conf *conf, const struct hr_dataset *dataset,
                          struct hr_sources *sources, struct hr_error *err) HR_MUST_CHECK;
/* Sources of so many records, with nothing behind them: enough for an order. */
int hr_sources_assume(const struct hr_conf *conf, const uint64_t *record_counts, uint32_t count,
                      struct hr_sources *sources, struct hr_error *err) HR_MUST_CHECK;
void hr_sources_finish(struct hr_sources *sources); /* all zero is fine */

/* The order that the pipeline file asks for. sources must outlive it. */
int hr_sources_order(const struct hr_conf *conf, const struct hr_sources *sources,
                     struct hr_order *order, struct hr_error *err) HR_MUST_CHECK;

/* File of the table of all sources' shards. */
const char *hr_sources_file_path(const struct hr_sources *sources, uint32_t file);
/* Puts the place of a value into an error: the shard's name, or its path where there are several
 * sources. field NULL and offset -1 = unknown. */
void hr_sources_error_at(const struct hr_sources *sources, uint32_t source, uint64_t record,
                         const char *field, int64_t offset, struct hr_error *err);

#endif
