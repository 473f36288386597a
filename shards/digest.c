/* The digest of a shard: everything that it means, nothing of where it lies in the file. */
#include "shards/index.h"

void hr_shard_digest_begin(struct hr_hasher *hasher, uint64_t record_count,
                           const struct hr_schema *schema)
{
    hr_hasher_update(hasher, hr_hrs_magic, sizeof(hr_hrs_magic));
    hr_hasher_update_u64(hasher, HRS_VERSION);
    hr_hasher_update_u64(hasher, 0); /* header flags */
    hr_hasher_update_u64(hasher, record_count);
    hr_schema_hash(schema, hasher);
}

void hr_shard_digest_stream(struct hr_hasher *hasher, unsigned codec, uint64_t raw_bytes)
{
    hr_hasher_update_u64(hasher, codec);
    hr_hasher_update_u64(hasher, raw_bytes);
}

void hr_shard_digest_section(struct hr_hasher *hasher, unsigned kind, unsigned owner, unsigned item,
                             unsigned flags, unsigned width, uint64_t count, const void *raw,
                             uint64_t raw_bytes)
{
    if (kind >= HRS_EXTENT_RAW && kind <= HRS_EXTENT_CHECKSUMS)
        return;
    hr_hasher_update_u64(hasher, kind);
    hr_hasher_update_u64(hasher, owner);
    hr_hasher_update_u64(hasher, item);
    hr_hasher_update_u64(hasher, flags);
    hr_hasher_update_u64(hasher, width);
    hr_hasher_update_u64(hasher, count);
    hr_hasher_update_u64(hasher, raw_bytes);
    hr_hasher_update(hasher, raw, raw_bytes);
}
