/* The parts of headrace inspect: what it shows as JSON, and for people. */
#ifndef HR_TOOLS_INSPECT_H
#define HR_TOOLS_INSPECT_H

#include "base/buf.h"
#include "shards/dataset.h"
#include "shards/manifest.h"

/* What is known of the dataset as a whole. manifest NULL: a lone shard. */
struct hr_inspected {
    const struct hr_dataset *dataset;
    const struct hr_manifest *manifest;
    const struct hr_version_row *versions;
    uint32_t version_count;
};

/* One document. */
void hr_inspect_json(struct hr_buf *out, const struct hr_inspected *what);
/* One line: {"id","key","fields":{…}}. */
void hr_inspect_json_record(struct hr_buf *out, const struct hr_dataset *dataset, uint64_t record);
void hr_inspect_json_versions(struct hr_buf *out, const char *key, const struct hr_inspected *what);

void hr_inspect_text(struct hr_buf *out, const struct hr_inspected *what);
void hr_inspect_text_record(struct hr_buf *out, const struct hr_dataset *dataset, uint64_t record);
void hr_inspect_text_versions(struct hr_buf *out, const struct hr_inspected *what);
/* Sizes, widths and heights, durations, tokens and classes over all records. */
void hr_inspect_histograms(struct hr_buf *out, const struct hr_dataset *dataset);

/* How many values of a field are stored repacked. */
uint64_t hr_inspect_repacked(const struct hr_dataset *dataset, uint32_t field);
/* Whether the value is a repacked JPEG whose file is progressive; reads it, for no index says so. */
bool hr_inspect_progressive(const struct hr_dataset *dataset, uint64_t record, uint32_t field, unsigned encoding);
void hr_inspect_double(struct hr_buf *out, double v);
const char *hr_inspect_encoding_name(unsigned encoding);

#endif
