/* Checking a dataset: every byte of every shard that means anything, and the manifests. Goes on
 * after a bad shard; tells of each problem when it is found. */
#ifndef HR_SHARDS_VERIFY_H
#define HR_SHARDS_VERIFY_H

#include "base/err.h"

/* One thing that is wrong. All pointers live for the call only. */
struct hr_verify_problem {
    const char *shard;   /* file name of a shard or manifest */
    uint64_t record;     /* in the dataset; HR_NO_RECORD when no record is named */
    const char *key;     /* of the record, not terminated; NULL with HR_NO_RECORD */
    uint32_t key_bytes;
    const char *field;   /* "" = none */
    int64_t offset;      /* in the file, -1 = none */
    int code;            /* HR_E_* */
    const char *reason;
};

struct hr_verify_options {
    int threads; /* 0 = the CPU quota */
    /* One at a time, from any thread. May be NULL. */
    void (*problem)(void *arg, const struct hr_verify_problem *problem);
    /* A shard that no version has: nothing is wrong with that. Told when all versions are checked.
     * May be NULL. */
    void (*stray)(void *arg, const char *shard);
    /* From the calling thread, about ten times a second. Returns false to stop. May be NULL. */
    bool (*progress)(void *arg, uint64_t bytes_done, uint64_t bytes_total);
    void *arg;
};

struct hr_verify_result {
    uint32_t shard_count, bad_shards;
    uint32_t version_count; /* manifests whose shards were looked at */
    uint64_t records, values, bytes; /* checked */
    uint64_t problems;
};

/* path: a dataset folder, or one .hrs file. version: digest or its beginning; NULL = the shards of all
 * versions, each once, those of the current one first. Returns 0 when
 * everything was looked at, whatever was found; HR_E_NOT_FOUND and the like when there is nothing to
 * look at; HR_E_CANCELLED when progress said so. */
int hr_dataset_verify(const char *path, const char *version,
                      const struct hr_verify_options *options, struct hr_verify_result *result,
                      struct hr_error *err) HR_MUST_CHECK;

#endif
