/* Reading a dataset: the manifest, every shard's index, and where each value lies. Nothing here reads
 * payload, except hr_dataset_read_value() for tools. Everything that comes from a file is validated
 * when the dataset opens; a lie in it is HR_E_CORRUPT with shard, section and offset, never a crash
 * or an allocation of its size. After open a dataset is immutable and safe to read from any thread. */
#ifndef HR_SHARDS_DATASET_H
#define HR_SHARDS_DATASET_H

#include "base/err.h"
#include "base/hash.h"
#include "shards/schema.h"
#include "shards/writer.h"

struct hr_dataset;

/* path: a dataset folder, or a single .hrs file. version: hex digest (or unique prefix) of an older
 * manifest, NULL = current. */
int hr_dataset_open(const char *path, const char *version, struct hr_dataset **out,
                    struct hr_error *err) HR_MUST_CHECK;
void hr_dataset_close(struct hr_dataset *dataset); /* NULL is fine */

const char *hr_dataset_path(const struct hr_dataset *dataset);
const struct hr_schema *hr_dataset_schema(const struct hr_dataset *dataset);
struct hr_digest hr_dataset_digest(const struct hr_dataset *dataset);
uint64_t hr_dataset_record_count(const struct hr_dataset *dataset);
uint64_t hr_dataset_bytes(const struct hr_dataset *dataset);

/* Memory that the indexes take. */
uint64_t hr_dataset_index_bytes(const struct hr_dataset *dataset);

uint32_t hr_dataset_shard_count(const struct hr_dataset *dataset);
/* Full path of the shard's file; index < shard_count. */
const char *hr_dataset_shard_path(const struct hr_dataset *dataset, uint32_t shard);
const struct hr_shard_info *hr_dataset_shard_info(const struct hr_dataset *dataset, uint32_t shard);
/* Shard of a record, and the record's index in it. */
uint32_t hr_dataset_shard_of(const struct hr_dataset *dataset, uint64_t record, uint64_t *local);

/* Where a value's stored bytes are. For HR_CODEC_NONE the value is file bytes [off, off + bytes).
 * Otherwise read the whole block [off, off + stored_bytes), decompress it to block_bytes, and the
 * value is its bytes [block_off, block_off + bytes). codec is that of the block at hand: one that
 * would not shrink is HR_CODEC_NONE. A value of 0 bytes is complete without a read. */
struct hr_value_place {
    bool present;
    uint8_t codec;    /* enum hr_codec */
    uint16_t encoding; /* enum hr_encoding */
    uint32_t shard;
    uint32_t checksum; /* hr_checksum() over the value's bytes (decompressed, still encoded) */
    uint64_t off, stored_bytes;
    uint64_t block_off, block_bytes;
    uint64_t bytes;
    const uint8_t *seek; /* seek table, NULL = none; lives as long as the dataset */
    uint32_t seek_bytes;
};

/* A few loads and adds; never fails for record < record_count and field < field_count of a payload
 * type. */
void hr_dataset_locate(const struct hr_dataset *dataset, uint64_t record, uint32_t field,
                       struct hr_value_place *place);
void hr_dataset_facts(const struct hr_dataset *dataset, uint64_t record, uint32_t field,
                      struct hr_facts *facts);

/* Size of a value as stored, 0 when absent: cheaper than locating it. */
uint64_t hr_dataset_value_bytes(const struct hr_dataset *dataset, uint64_t record, uint32_t field);
/* Size of a value before a repacking; its stored size when it was not repacked. */
uint64_t hr_dataset_original_bytes(const struct hr_dataset *dataset, uint64_t record, uint32_t field);

struct hr_scalar {
    bool present;
    int64_t i64; /* I64, BOOL */
    double f64;
    const char *str; /* STR: not terminated */
    uint32_t str_bytes;
};
void hr_dataset_scalar(const struct hr_dataset *dataset, uint64_t record, uint32_t field,
                       struct hr_scalar *scalar);
/* The record's key, not terminated. */
const char *hr_dataset_key(const struct hr_dataset *dataset, uint64_t record, uint32_t *bytes);

/* Totals over the dataset, from the manifest and indexes. */
struct hr_field_totals {
    uint64_t present;      /* records that have it */
    uint64_t bytes;        /* stored, before block compression */
    uint64_t original_bytes;
    uint64_t max_bytes;    /* largest single value */
    uint64_t max_block_bytes, max_stored_bytes; /* largest block: decompressed, stored */
    uint32_t min_width, max_width, min_height, max_height;
    uint64_t max_samples, max_items, max_frames;
    uint64_t duration_ns, max_duration_ns;
    uint32_t min_sample_rate, max_sample_rate, max_channels;
    bool uniform_shape;    /* tensor, tokens: every record has the dtype and shape of `first` */
    struct hr_facts first; /* facts of the first present record */
};
void hr_dataset_totals(const struct hr_dataset *dataset, uint32_t field,
                       struct hr_field_totals *totals);

/* For tools: reads, decompresses and checks one value into a fresh buffer (hr_free). */
int hr_dataset_read_value(const struct hr_dataset *dataset, uint64_t record, uint32_t field,
                          void **data, uint64_t *bytes, struct hr_error *err) HR_MUST_CHECK;

#endif
