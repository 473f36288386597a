/* The manifest of a dataset, dataset.hrm: schema, shards, totals, where it came from
 * (docs/formats/dataset.md). It is written last: a folder without one holds no dataset. */
#ifndef HR_SHARDS_MANIFEST_H
#define HR_SHARDS_MANIFEST_H

#include "base/err.h"
#include "base/hash.h"
#include "shards/dataset.h"
#include "shards/schema.h"
#include "shards/writer.h"

#define HR_MANIFEST_NAME "dataset.hrm"
#define HR_VERSIONS_NAME "versions"

/* Strings, classes and shards are owned (hr_alloc family); hr_manifest_finish frees them. */
struct hr_manifest {
    struct hr_schema schema;
    struct hr_shard_info *shards;
    uint32_t shard_count;
    char *tool;    /* what wrote it, with version; NULL = "" */
    char *options; /* its options, as text */
    char *source;  /* what was packed */
    /* filled by read and commit */
    struct hr_digest digest;   /* of the dataset: its version */
    struct hr_digest previous; /* version that this one follows */
    bool has_previous;
    uint64_t record_count, bytes;
    /* only present, bytes, original_bytes, max_bytes and duration_ns are kept in the file */
    struct hr_field_totals totals[HR_MAX_FIELDS];
};

/* path: a dataset folder, or a .hrm file. HR_E_NOT_FOUND, HR_E_CORRUPT, HR_E_VERSION. */
int hr_manifest_read(const char *path, struct hr_manifest *manifest,
                     struct hr_error *err) HR_MUST_CHECK;
/* The manifest of a version: hex digest or unique prefix of it; NULL or "" = the current one. */
int hr_manifest_read_version(const char *folder, const char *version, struct hr_manifest *manifest,
                             struct hr_error *err) HR_MUST_CHECK;
void hr_manifest_finish(struct hr_manifest *manifest);

/* Makes the shards in folder, which are all complete, its current dataset: opens each of them to
 * check schema, counts and digest and to add up totals, keeps the manifest that was there as
 * versions/DIGEST.hrm, and writes dataset.hrm atomically. Names of shards are file names inside
 * folder; their order is the order of records. */
int hr_manifest_commit(const char *folder, struct hr_manifest *manifest,
                       struct hr_error *err) HR_MUST_CHECK;

/* Dataset digest of a schema and shards. */
struct hr_digest hr_manifest_digest(const struct hr_schema *schema,
                                    const struct hr_shard_info *shards, uint32_t shard_count);

/* Whether a shard of this name may be opened: a plain file name. */
bool hr_shard_name_ok(const char *name);

/* The info of a complete shard file, from the file itself (going on with an interrupted pack).
 * schema: what it has to hold, NULL = any. */
int hr_shard_info_read(const char *path, const struct hr_schema *schema,
                       struct hr_shard_info *info, struct hr_error *err) HR_MUST_CHECK;

/* Digests of all readable versions, the current one first, then older ones along `previous`, then
 * whatever else lies in versions/, by digest. *out: hr_free. */
struct hr_version_row {
    struct hr_digest digest;
    uint64_t record_count, bytes;
    uint32_t shard_count;
};
int hr_manifest_versions(const char *folder, struct hr_version_row **out, uint32_t *count,
                         struct hr_error *err) HR_MUST_CHECK;

#endif
