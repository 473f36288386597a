/* What a pack goes on from when it adds to a dataset: the version that is there, its schema with the
 * classes that are new, and how the source's fields and classes are numbered in it. */
#ifndef HR_PACK_APPEND_H
#define HR_PACK_APPEND_H

#include "shards/manifest.h"
#include "tools/pack/record.h"

struct hr_append {
    struct hr_manifest base; /* the current version */
    struct hr_schema schema; /* of new shards and of the manifest to come; owned */
    uint32_t field_of[HR_MAX_FIELDS]; /* source's field -> the dataset's */
    uint32_t *class_of;      /* likewise; NULL = no class names */
    uint32_t first_shard;    /* number of the first new shard */
    struct hr_value values[HR_MAX_FIELDS]; /* of the record at hand */
};

/* HR_E_CONFIG, naming the field, when the source's records do not fit the dataset. */
int hr_append_open(const char *folder, const struct hr_schema *source, struct hr_append **out,
                   struct hr_error *err) HR_MUST_CHECK;
void hr_append_close(struct hr_append *append); /* NULL is fine */

/* HR_E_BUSY when the dataset has another current version by now. */
int hr_append_check_current(const struct hr_append *append, const char *folder,
                            struct hr_error *err) HR_MUST_CHECK;

/* A record's values in the dataset's order; valid until the next call. */
const struct hr_value *hr_append_values(struct hr_append *append, const struct hr_schema *source,
                                        const struct hr_pack_record *record);

#endif
