/* A dataset's schema: named, typed fields, the same for every record. */
#ifndef HR_SHARDS_SCHEMA_H
#define HR_SHARDS_SCHEMA_H

#include "base/err.h"
#include "base/hash.h"
#include "base/types.h"

/* Compression of a field's values in shared blocks; media and large values stay HR_CODEC_NONE. */
enum hr_codec { HR_CODEC_NONE = 0, HR_CODEC_LZ4 = 1, HR_CODEC_LZ4HC = 2 };

struct hr_schema_field {
    char name[HR_NAME_BYTES];
    enum hr_field_type type;
    enum hr_dtype dtype;          /* tokens, tensor; else NONE */
    uint32_t dims;                /* tensor with a fixed shape; 0 = per record */
    uint64_t shape[HR_MAX_DIMS];
    enum hr_codec codec;
};

struct hr_schema {
    struct hr_schema_field fields[HR_MAX_FIELDS];
    uint32_t field_count;
    /* Class names where a scalar field holds indices into them (folder of class folders);
     * class_field = -1 when there are none. Owned by whoever owns the schema. */
    int class_field;
    char **classes;
    uint32_t class_count;
};

int hr_schema_find(const struct hr_schema *schema, const char *name); /* index or -1 */

/* Names are [A-Za-z0-9_.-], start with a letter or _, are unique; types and shapes make sense. */
int hr_schema_check(const struct hr_schema *schema, struct hr_error *err) HR_MUST_CHECK;

/* A deep copy, whose classes the copy owns. HR_E_NOMEM. */
int hr_schema_copy(struct hr_schema *to, const struct hr_schema *from,
                   struct hr_error *err) HR_MUST_CHECK;
void hr_schema_finish(struct hr_schema *schema); /* frees the classes */
/* Feeds the schema's meaning, classes included, to a hasher (docs/formats/hrs.md, "Digest"). */
void hr_schema_hash(const struct hr_schema *schema, struct hr_hasher *hasher);
bool hr_schema_equal(const struct hr_schema *a, const struct hr_schema *b);
/* Whether records of a shard with schema `part` belong in a dataset of `whole`: equal, but that a
 * later version may have more classes behind those that the shard knows. */
bool hr_schema_covers(const struct hr_schema *whole, const struct hr_schema *part);
/* The first field that the two do not have alike in name, type, dtype and shape, whatever the order
 * of fields, or that only one of them has. NULL = none. */
const char *hr_schema_differing_field(const struct hr_schema *a, const struct hr_schema *b);
/* Bytes of one value of a tensor field with a fixed shape; 0 when its shape is not fixed. */
uint64_t hr_schema_fixed_bytes(const struct hr_schema_field *field);

#endif
