/* The schema between memory and protobuf, for footers and manifests. */
#ifndef HR_SHARDS_PROTO_H
#define HR_SHARDS_PROTO_H

#include "schema.pb-c.h"
#include "shards/schema.h"

/* A message that borrows the schema's strings; hr_proto_schema_destroy frees only the message.
 * NULL = out of memory. */
Headrace__Schema *hr_proto_schema_create(const struct hr_schema *schema) HR_MUST_CHECK;
void hr_proto_schema_destroy(Headrace__Schema *message);

/* Reads and checks; the schema owns copies. HR_E_CORRUPT when it makes no sense. */
int hr_proto_schema_read(const Headrace__Schema *message, struct hr_schema *schema,
                         struct hr_error *err) HR_MUST_CHECK;

#endif
