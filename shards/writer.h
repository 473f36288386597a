/* Writing one .hrs shard, record by record (docs/formats/hrs.md). The file appears under its name
 * only when it is complete: NAME.tmp, fsync, rename. */
#ifndef HR_SHARDS_WRITER_H
#define HR_SHARDS_WRITER_H

#include "base/err.h"
#include "base/hash.h"
#include "shards/schema.h"

/* One field's value in one record. data is borrowed for the call. */
struct hr_value {
    bool present;
    const void *data; /* payload types, and STR */
    uint64_t bytes;
    enum hr_encoding encoding;
    const void *seek; /* seek table of the value, NULL = none */
    uint32_t seek_bytes;
    uint64_t original_bytes; /* size before a repacking; 0 = bytes */
    struct hr_facts facts;   /* media, tokens, tensor, text */
    int64_t i64;             /* I64, and BOOL as 0/1 */
    double f64;
};

struct hr_shard_info {
    char name[HR_STR_BYTES];
    uint64_t bytes, record_count;
    struct hr_digest digest; /* of the whole file's meaning: see hrs.md */
};

struct hr_shard_writer;

struct hr_shard_writer_options {
    uint32_t block_bytes; /* raw size of compressed blocks, 0 = 128 KiB */
    uint8_t uuid[16];     /* all zero: derived from the content, so that output is reproducible */
};

int hr_shard_writer_open(const char *path, const struct hr_schema *schema,
                         const struct hr_shard_writer_options *options,
                         struct hr_shard_writer **out, struct hr_error *err) HR_MUST_CHECK;
/* key: the record's name in its source (path without extension …), for people; at most 1,023 bytes. */
int hr_shard_writer_add(struct hr_shard_writer *writer, const char *key,
                        const struct hr_value *values, struct hr_error *err) HR_MUST_CHECK;
/* Completes the file and frees the writer, also on failure (then nothing is left behind). */
int hr_shard_writer_commit(struct hr_shard_writer *writer, struct hr_shard_info *info,
                           struct hr_error *err) HR_MUST_CHECK;
void hr_shard_writer_abort(struct hr_shard_writer *writer); /* removes the .tmp, frees; NULL is fine */

#endif
