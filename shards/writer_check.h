/* Whether a record may be written (internal to the writer). */
#ifndef HR_SHARDS_WRITER_CHECK_H
#define HR_SHARDS_WRITER_CHECK_H

#include "shards/writer.h"

int hr_writer_check(const struct hr_schema *schema, const char *key, const struct hr_value *values,
                    uint64_t record, struct hr_error *err) HR_MUST_CHECK;

#endif
