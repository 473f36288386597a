/* Where records go: shards of a stated size, the rejects list, the journal, and at the very end the
 * manifest that makes a dataset of them. Used by one thread, in the order of the source. Which record
 * goes into which shard follows from the records alone, so the same input gives the same bytes. */
#ifndef HR_PACK_OUTPUT_H
#define HR_PACK_OUTPUT_H

#include "tools/pack/append.h"
#include "tools/pack/journal.h"
#include "tools/pack/options.h"
#include "tools/pack/source.h"

#define HR_REJECTS_NAME "rejects.jsonl"

struct hr_output {
    const char *folder;
    const struct hr_source *source;
    struct hr_append *append;       /* NULL = a new dataset */
    const struct hr_schema *schema; /* of the shards */
    uint64_t shard_bytes;
    struct hr_journal_run run;
    struct hr_journal journal;
    struct hr_shard_writer *writer;
    char shard_name[HR_NAME_BYTES];
    uint64_t in_shard;   /* what the open shard holds, by the rule of the shard size */
    char rejects_name[32]; /* HR_REJECTS_NAME, or with the number of the first shard added */
    int rejects_fd;      /* -1: none rejected yet */
    uint64_t rejects_bytes;
    struct hr_tally tally;
    bool made_folder;
    bool complete;       /* the folder was a finished dataset already */
    struct hr_digest digest; /* after commit */
    struct hr_digest previous; /* likewise, when appending */
    uint64_t bytes_out; /* what this pack wrote */
    uint32_t shard_count;
    uint64_t total_records; /* of the dataset */
    uint32_t total_shards;
};

/* Makes or checks the folder. With --resume goes on after the last finished shard: tally.found says
 * how many of the source's records are dealt with. On failure nothing was changed. append: what it is
 * added to, borrowed; NULL = a new dataset. */
int hr_output_begin(struct hr_output *output, const char *folder, const struct hr_source *source,
                    struct hr_append *append, const struct hr_pack_options *options,
                    struct hr_error *err) HR_MUST_CHECK;
int hr_output_add(struct hr_output *output, const struct hr_pack_record *record,
                  struct hr_error *err) HR_MUST_CHECK;
int hr_output_reject(struct hr_output *output, const char *key, const struct hr_error *why,
                     struct hr_error *err) HR_MUST_CHECK;
/* Last shard, then the manifest, then the journal goes. */
int hr_output_commit(struct hr_output *output, struct hr_error *err) HR_MUST_CHECK;
/* Ends without a dataset. Finished shards stay for --resume; without any (and no rejects to look at)
 * the folder is as before. Safe after commit, where it only frees. */
void hr_output_end(struct hr_output *output);

#endif
