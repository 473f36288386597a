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

/* Digests of all readable versions, the current one first, then older ones along `previous`, then
 * whatever else lies in versions/, by digest. *out: hr_free. */
struct hr_version_row {
    struct hr_digest digest;
    uint64_t record_count, bytes;
    uint32_t shard_count;
};
int hr_manifest_versions(const char *folder, struct hr_version_row **out, uint32_t *count,
                         struct hr_error *err) HR_MUST_CHECK;

/* ---- versions.c ---- */

/* Says that the version is in use for as long as *fd is open: a shared lock on its manifest, which
 * stays the same file when a later version comes. *fd = -1 where there are no locks. HR_E_BUSY when
 * it is being deleted. */
int hr_manifest_hold(const char *folder, const struct hr_digest *digest, int *fd,
                     struct hr_error *err) HR_MUST_CHECK;

/* What is in a dataset's folder, over all versions. */
struct hr_versions {
    struct hr_manifest **manifests; /* readable ones, the current one first when it is readable */
    uint32_t count;
    uint32_t unreadable; /* other files in versions/ that should be manifests */
    bool has_current;
};
/* HR_E_NOT_FOUND when there is no dataset.hrm. A damaged manifest only counts. */
int hr_versions_read(const char *folder, struct hr_versions *versions,
                     struct hr_error *err) HR_MUST_CHECK;
void hr_versions_finish(struct hr_versions *versions);
/* Whether a manifest names a file of that name; except NULL = any of them counts. */
bool hr_versions_name_shard(const struct hr_versions *versions, const char *name,
                            const struct hr_manifest *except);
/* Names of .hrs files in the folder that no version has, sorted. *out and each of its strings:
 * hr_free. */
int hr_versions_strays(const struct hr_versions *versions, const char *folder, char ***out,
                       uint32_t *count, struct hr_error *err) HR_MUST_CHECK;

/* Removes an older version's manifest and the shards that no other version has; what is added up in
 * *row. version: digest or its beginning. HR_E_USAGE for the current one, HR_E_BUSY while it is held
 * and !force, HR_E_CORRUPT when another manifest cannot be read, so that nobody knows its shards. */
int hr_version_delete(const char *folder, const char *version, bool force,
                      struct hr_version_row *row, struct hr_error *err) HR_MUST_CHECK;

#endif
