/* Whether a value may be written: checked for a whole record before any of it is, so that a refused
 * record leaves the writer as it was. */
#include "writer_check.h"

#include <string.h>

#include "shards/hrs_layout.h"

enum { MAX_KEY_BYTES = 1023, MAX_STR_BYTES = 255 };

/* dtype, shape and size of a tensor agree; per-record shapes come with the facts. */
static int check_tensor(const struct hr_schema_field *f, const struct hr_value *v,
                        struct hr_error *err)
{
    uint64_t bytes = hr_dtype_bytes((enum hr_dtype)v->facts.dtype);

    if (f->dims > 0)
        return v->bytes == hr_schema_fixed_bytes(f)
                   ? 0
                   : hr_fail(err, HR_E_FORMAT, "%llu bytes, the schema's shape has %llu",
                             (unsigned long long)v->bytes,
                             (unsigned long long)hr_schema_fixed_bytes(f));
    if (f->dtype != HR_DTYPE_NONE && v->facts.dtype != f->dtype)
        return hr_fail(err, HR_E_FORMAT, "dtype is %s, the schema says %s",
                       hr_dtype_name((enum hr_dtype)v->facts.dtype), hr_dtype_name(f->dtype));
    if (bytes == 0 || v->facts.dims > HR_MAX_DIMS)
        return hr_fail(err, HR_E_FORMAT, "a tensor needs a dtype and at most %d dimensions",
                       HR_MAX_DIMS);
    for (uint32_t d = 0; d < v->facts.dims; d++)
        if (!hr_mul_u64(bytes, v->facts.shape[d], &bytes))
            return hr_fail(err, HR_E_FORMAT, "shape is too large");
    if (v->encoding == HR_ENCODING_AS_IS && bytes != v->bytes)
        return hr_fail(err, HR_E_FORMAT, "%llu bytes, its shape has %llu",
                       (unsigned long long)v->bytes, (unsigned long long)bytes);
    return 0;
}

static int check_value(const struct hr_schema_field *f, const struct hr_value *v,
                       struct hr_error *err)
{
    if (!v->present)
        return 0;
    if (f->type == HR_FIELD_STR && v->bytes > MAX_STR_BYTES)
        return hr_fail(err, HR_E_LIMIT, "a str has at most %d bytes, this has %llu", MAX_STR_BYTES,
                       (unsigned long long)v->bytes);
    if (hr_field_type_is_scalar(f->type))
        return 0;
    if (f->codec != HR_CODEC_NONE && v->bytes > HRS_MAX_BLOCK_BYTES)
        return hr_fail(err, HR_E_LIMIT, "%llu bytes are too many for a compressed block",
                       (unsigned long long)v->bytes);
    if (v->bytes > HRS_MAX_RAW_BYTES / 2)
        return hr_fail(err, HR_E_LIMIT, "value is too large");
    if ((unsigned)v->encoding > UINT16_MAX)
        return hr_fail(err, HR_E_FORMAT, "unknown encoding %u", (unsigned)v->encoding);
    if (f->type == HR_FIELD_TOKENS && v->bytes % hr_dtype_bytes(f->dtype) != 0)
        return hr_fail(err, HR_E_FORMAT, "%llu bytes are no whole number of %s tokens",
                       (unsigned long long)v->bytes, hr_dtype_name(f->dtype));
    return f->type == HR_FIELD_TENSOR ? check_tensor(f, v, err) : 0;
}

int hr_writer_check(const struct hr_schema *schema, const char *key, const struct hr_value *values,
                    uint64_t record, struct hr_error *err)
{
    if (strnlen(key, MAX_KEY_BYTES + 1) > MAX_KEY_BYTES) {
        int ret = hr_fail(err, HR_E_LIMIT, "key is longer than %d bytes", MAX_KEY_BYTES);
        hr_error_at_value(err, NULL, record, NULL, -1);
        return ret;
    }
    for (uint32_t i = 0; i < schema->field_count; i++) {
        int ret = check_value(&schema->fields[i], &values[i], err);
        if (ret < 0) {
            hr_error_at_value(err, NULL, record, schema->fields[i].name, -1);
            return ret;
        }
    }
    return 0;
}
