/* The parts of the .hrs reader (internal to it). */
#ifndef HR_SHARDS_HRS_INDEX_H
#define HR_SHARDS_HRS_INDEX_H

#include "hrs.pb-c.h"
#include "shards/index.h"

int hr_hrs_index(int fd, const char *path, uint64_t file_bytes, bool want_digest,
                 struct hr_shard **out, struct hr_schema *schema, struct hr_error *err) HR_MUST_CHECK;
void hr_hrs_locate(const struct hr_shard *shard, uint64_t record, uint32_t field,
                   struct hr_value_place *place);

/* Lengths and extents make sense together: every value lies inside one extent, extents lie in the
 * payload and do not overlap. Samples positions. */
int hr_hrs_check_streams(struct hr_shard *shard, struct hr_error *err) HR_MUST_CHECK;

#endif
