/* What a pack has finished, so that --resume goes on after a kill. One JSON line for the run (source,
 * options), then one for each finished shard, written only when the shard is on disk. The file is
 * locked while a pack runs. */
#ifndef HR_PACK_JOURNAL_H
#define HR_PACK_JOURNAL_H

#include "base/hash.h"
#include "shards/writer.h"
#include "tools/pack/counts.h"

#define HR_JOURNAL_NAME ".pack-journal"

/* What a resumed run must have in common with the one that it continues. */
struct hr_journal_run {
    struct hr_digest names, sizes, times; /* of the source's listing */
    uint64_t record_count;
    uint32_t first_shard; /* its number; kept, not compared */
    char *options; /* as text, in a fixed order */
};

/* Counts up to the end of a shard. */
struct hr_tally {
    uint64_t found, packed, rejected, renamed;
    struct hr_jpeg_counts jpeg;
    uint64_t png_repacked, png_kept;
    uint64_t resized, unresized, raw; /* pictures; unresized: larger than asked for */
    uint64_t bytes_in; /* payload of what was packed */
};

struct hr_journal_shard {
    struct hr_shard_info info;
    uint64_t rejects_bytes; /* length of the rejects file at that point */
    struct hr_tally tally;  /* found = records of the source that are dealt with */
};

struct hr_journal {
    int fd;
    char *path;
    struct hr_journal_shard *shards;
    uint32_t count;
    uint64_t cap;
    uint32_t first_shard; /* shards are numbered from here */
};

/* Starts a journal in a folder. */
int hr_journal_create(const char *folder, const struct hr_journal_run *run,
                      struct hr_journal *journal, struct hr_error *err) HR_MUST_CHECK;
/* Reads the one that is there. HR_E_CONFIG when the run differs, with what changed; HR_E_BUSY when
 * another pack holds it. */
int hr_journal_resume(const char *folder, const struct hr_journal_run *run,
                      struct hr_journal *journal, struct hr_error *err) HR_MUST_CHECK;
int hr_journal_add(struct hr_journal *journal, const struct hr_journal_shard *shard,
                   struct hr_error *err) HR_MUST_CHECK;
/* Removes the file: the dataset is complete, or nothing of it is. */
void hr_journal_remove(struct hr_journal *journal);
void hr_journal_close(struct hr_journal *journal);

#endif
