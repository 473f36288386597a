/* Checking one shard (internal to verify). */
#ifndef HR_SHARDS_VERIFY_SHARD_H
#define HR_SHARDS_VERIFY_SHARD_H

#include <stdatomic.h>

#include "shards/index.h"
#include "shards/verify.h"

/* What one shard's check needs and reports to. */
struct hr_verify_job {
    const char *path, *name;
    const struct hr_shard_info *expected; /* what the manifest says; NULL = nothing known */
    const struct hr_schema *schema;       /* likewise */
    uint64_t first_record;
    void (*report)(void *arg, const struct hr_verify_problem *problem);
    void *arg;
    _Atomic uint64_t *bytes_done; /* added to by the checking thread, read for progress */
    const _Atomic bool *stop;     /* set by the progress callback's thread */
    uint64_t records, values, problems; /* results */
};

void hr_verify_shard(struct hr_verify_job *job);

#endif
