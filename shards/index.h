/* One shard's index in memory: columns as they lie in the file plus sampled positions. Every shard
 * format fills this; only where a value's bytes are (locate) differs between formats. */
#ifndef HR_SHARDS_INDEX_H
#define HR_SHARDS_INDEX_H

#include "shards/column.h"
#include "shards/dataset.h"
#include "shards/hrs_layout.h"

struct hr_field_index {
    const uint8_t *presence; /* bit i of byte i / 8, low bit first; NULL = in every record */
    struct hr_column lengths, checksums, encodings, original_bytes, scalar;
    struct hr_column facts[HRS_FACT_COUNT];
    struct hr_strings strs, seeks;
    bool has_originals;
    int stream; /* -1 for scalars */
    struct hr_field_totals totals;
};

/* Values of the fields that share a codec, one after the other in record and field order. */
struct hr_stream_index {
    enum hr_codec codec;
    uint32_t field_count;
    uint8_t fields[HR_MAX_FIELDS];
    bool aligned; /* holds large values of codec none: positions are not plain sums */
    uint64_t raw_bytes, extent_count;
    struct hr_column extent_raw, extent_offsets, extent_stored, extent_checksums;
    uint64_t *starts; /* raw position of every HR_SAMPLE_RECORDS-th record */
};

struct hr_shard_format;

struct hr_shard {
    const struct hr_shard_format *format;
    uint64_t file_bytes, record_count;
    uint64_t payload_end, footer_off, footer_bytes; /* of .hrs files */
    uint8_t uuid[16];
    struct hr_digest digest; /* as the file states it */
    struct hr_strings keys;
    uint32_t field_count, stream_count;
    struct hr_field_index *fields;
    struct hr_stream_index streams[HR_CODEC_LZ4HC + 1];
    uint64_t memory_bytes; /* what the columns take */
    void **buffers;        /* every allocation behind the columns */
    uint32_t buffer_count;
};

/* A row of the format table. No format reads payload here. */
struct hr_shard_format {
    const char *name;
    /* head: the file's first bytes, possibly fewer than asked for. */
    bool (*probe)(const char *path, const uint8_t *head, size_t head_bytes);
    /* Reads and validates the index. want_digest: also recompute the digest from what was read and
     * compare. The schema is the caller's to finish. */
    int (*index)(int fd, const char *path, uint64_t file_bytes, bool want_digest,
                 struct hr_shard **out, struct hr_schema *schema, struct hr_error *err);
    /* Never fails: index has checked everything. place is cleared and shard set by the caller. */
    void (*locate)(const struct hr_shard *shard, uint64_t record, uint32_t field,
                   struct hr_value_place *place);
};

extern const struct hr_shard_format *const hr_shard_formats[]; /* NULL-terminated */
extern const struct hr_shard_format hr_shard_format_hrs;

/* Finds the format, indexes. Errors name the path. */
int hr_shard_open(const char *path, bool want_digest, struct hr_shard **out,
                  struct hr_schema *schema, struct hr_error *err) HR_MUST_CHECK;
void hr_shard_close(struct hr_shard *shard); /* NULL is fine */

static inline bool hr_field_present(const struct hr_field_index *field, uint64_t record)
{
    return !field->presence || (field->presence[record / 8] >> (record % 8) & 1);
}

/* Fills fields[].totals from the columns; part of opening. */
void hr_shard_count_totals(struct hr_shard *shard, const struct hr_schema *schema);
void hr_shard_facts(const struct hr_shard *shard, const struct hr_schema *schema, uint64_t record,
                    uint32_t field, struct hr_facts *facts);
/* Adds a shard's totals to those of the shards before it. */
void hr_totals_add(struct hr_field_totals *to, const struct hr_field_totals *from);

/* The running digest of a shard, the same for writer and reader (docs/formats/hrs.md, "Digest"). */
void hr_shard_digest_begin(struct hr_hasher *hasher, uint64_t record_count,
                           const struct hr_schema *schema);
void hr_shard_digest_stream(struct hr_hasher *hasher, unsigned codec, uint64_t raw_bytes);
void hr_shard_digest_section(struct hr_hasher *hasher, unsigned kind, unsigned owner, unsigned item,
                             unsigned flags, unsigned width, uint64_t count, const void *raw,
                             uint64_t raw_bytes);

#endif
