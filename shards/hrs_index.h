/* The parts of the .hrs reader (internal to it). */
#ifndef HR_SHARDS_HRS_INDEX_H
#define HR_SHARDS_HRS_INDEX_H

#include "hrs.pb-c.h"
#include "shards/index.h"

int hr_hrs_index(int fd, const char *path, uint64_t file_bytes, bool want_digest,
                 struct hr_shard **out, struct hr_schema *schema, struct hr_error *err) HR_MUST_CHECK;
void hr_hrs_locate(const struct hr_shard *shard, uint64_t record, uint32_t field,
                   struct hr_value_place *place);

/* What is needed only while a shard is being opened. */
struct hr_hrs_opening {
    int fd;
    uint64_t file_bytes;
    struct hr_error *err;
    struct hr_shard *shard;
    const struct hr_schema *schema;
    const Headrace__Footer *footer;
    struct hr_hasher *hasher; /* NULL = digest not wanted */
    uint64_t seen[HRS_KIND_COUNT];      /* bit = owner */
    uint32_t seen_facts[HR_MAX_FIELDS]; /* bit = fact */
    /* bytes of the string sections, until lengths and data are matched */
    uint64_t key_bytes, str_bytes[HR_MAX_FIELDS], seek_bytes[HR_MAX_FIELDS];
};

/* HR_E_CORRUPT, with the section's name and place. */
int hr_hrs_bad_section(const struct hr_hrs_opening *o, const Headrace__Section *s,
                       const char *what);
/* All sections are read: they agree with each other and with the schema. */
int hr_hrs_check_index(struct hr_hrs_opening *o) HR_MUST_CHECK;

/* Lengths and extents make sense together: every value lies inside one extent, extents lie in the
 * payload and do not overlap. Samples positions. */
int hr_hrs_check_streams(struct hr_shard *shard, struct hr_error *err) HR_MUST_CHECK;

#endif
