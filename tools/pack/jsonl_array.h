/* Lists of numbers in JSON as arrays: `--type boxes=f32[n,4]` says dtype and shape, n being an axis whose length
 * differs. */
#ifndef HR_PACK_JSONL_ARRAY_H
#define HR_PACK_JSONL_ARRAY_H

#include <json-c/json.h>

#include "tools/pack/record.h"

struct hr_array_type {
    enum hr_dtype dtype; /* U8, I32, I64, F32, F64 */
    uint32_t dims;       /* 0: not given */
    bool varies;         /* the first axis is n */
    uint64_t shape[HR_MAX_DIMS];
};

/* "i64[n]", "f32[n,17,3]", "f64[4]". False when it is none. */
bool hr_array_type_parse(const char *text, struct hr_array_type *type);

/* A list, nested as the shape is or with its last axes in one list, becomes the value of a field. An empty list is an
 * array of no rows. HR_E_FORMAT with the reason. */
int hr_jsonl_set_array(struct hr_pack_record *record, uint32_t field, const struct hr_array_type *type,
                       struct json_object *value, struct hr_error *err) HR_MUST_CHECK;

#endif
