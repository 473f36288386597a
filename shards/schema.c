/* What a schema may say, and its copies, comparison and hash. */
#include "shards/schema.h"

#include <string.h>

#include "base/mem.h"

enum { MAX_CLASS_BYTES = 1023, MAX_CLASSES = 1 << 24 };

/* More than any value can be, and far from overflow in every sum of values. */
#define MAX_TENSOR_BYTES (UINT64_C(1) << 40)

int hr_schema_find(const struct hr_schema *schema, const char *name)
{
    for (uint32_t i = 0; i < schema->field_count; i++)
        if (strcmp(schema->fields[i].name, name) == 0)
            return (int)i;
    return -1;
}

static bool name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && ((c >= '0' && c <= '9') || c == '.' || c == '-'));
}

static bool name_ok(const char *name)
{
    size_t n = strnlen(name, HR_NAME_BYTES);

    if (n == 0 || n == HR_NAME_BYTES)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!name_char(name[i], i == 0))
            return false;
    return true;
}

static int check_dtype(const struct hr_schema_field *f, struct hr_error *err)
{
    bool wants = f->type == HR_FIELD_TOKENS || f->type == HR_FIELD_TENSOR;

    if (!wants && (f->dtype != HR_DTYPE_NONE || f->dims != 0))
        return hr_fail(err, HR_E_CONFIG, "only tokens and tensors have a dtype or shape");
    if (f->type == HR_FIELD_TOKENS && f->dtype != HR_DTYPE_U16 && f->dtype != HR_DTYPE_U32)
        return hr_fail(err, HR_E_CONFIG, "tokens are u16 or u32");
    if (f->type == HR_FIELD_TOKENS && f->dims != 0)
        return hr_fail(err, HR_E_CONFIG, "tokens have no shape");
    if (f->dims > HR_MAX_DIMS)
        return hr_fail(err, HR_E_CONFIG, "more than %d dimensions", HR_MAX_DIMS);
    if (f->dims > 0 && hr_schema_fixed_bytes(f) == 0)
        return hr_fail(err, HR_E_CONFIG, "a fixed shape needs a dtype, and no axis may be 0 or huge");
    return 0;
}

static int check_field(const struct hr_schema *schema, uint32_t i, struct hr_error *err)
{
    const struct hr_schema_field *f = &schema->fields[i];

    if (!name_ok(f->name))
        return hr_fail(err, HR_E_CONFIG,
                       "a name has letters, digits, '_', '.', '-', begins with a letter or '_', and "
                       "is shorter than %d",
                       HR_NAME_BYTES);
    if (hr_schema_find(schema, f->name) != (int)i)
        return hr_fail(err, HR_E_CONFIG, "the name is used twice");
    if ((unsigned)f->type == HR_FIELD_NONE || (unsigned)f->type >= HR_FIELD_COUNT)
        return hr_fail(err, HR_E_CONFIG, "unknown type %u", (unsigned)f->type);
    if ((unsigned)f->codec > HR_CODEC_LZ4HC)
        return hr_fail(err, HR_E_CONFIG, "unknown codec %u", (unsigned)f->codec);
    if (hr_field_type_is_scalar(f->type) && f->codec != HR_CODEC_NONE)
        return hr_fail(err, HR_E_CONFIG, "scalars live in the index and take no codec");
    if ((unsigned)f->dtype >= HR_DTYPE_COUNT)
        return hr_fail(err, HR_E_CONFIG, "unknown dtype %u", (unsigned)f->dtype);
    return check_dtype(f, err);
}

int hr_schema_check(const struct hr_schema *schema, struct hr_error *err)
{
    if (schema->field_count == 0 || schema->field_count > HR_MAX_FIELDS)
        return hr_fail(err, HR_E_CONFIG, "a schema has 1 to %d fields, not %u", HR_MAX_FIELDS,
                       schema->field_count);
    for (uint32_t i = 0; i < schema->field_count; i++) {
        int ret = check_field(schema, i, err);
        if (ret < 0) {
            hr_error_at_value(err, NULL, HR_NO_RECORD,
                              name_ok(schema->fields[i].name) ? schema->fields[i].name : NULL, -1);
            return ret;
        }
    }
    if (schema->class_field < 0)
        return schema->class_count == 0
                   ? 0
                   : hr_fail(err, HR_E_CONFIG, "class names without a field that uses them");
    if ((uint32_t)schema->class_field >= schema->field_count ||
        schema->fields[schema->class_field].type != HR_FIELD_I64)
        return hr_fail(err, HR_E_CONFIG, "class indices are in an i64 field");
    if (schema->class_count > MAX_CLASSES)
        return hr_fail(err, HR_E_CONFIG, "more than %d classes", MAX_CLASSES);
    for (uint32_t i = 0; i < schema->class_count; i++)
        if (strlen(schema->classes[i]) > MAX_CLASS_BYTES)
            return hr_fail(err, HR_E_CONFIG, "name of class %u is longer than %d bytes", i,
                           MAX_CLASS_BYTES);
    return 0;
}

int hr_schema_copy(struct hr_schema *to, const struct hr_schema *from, struct hr_error *err)
{
    struct hr_schema copy = *from;

    copy.classes = hr_alloc_zero(from->class_count, sizeof(char *));
    if (!copy.classes)
        return hr_fail(err, HR_E_NOMEM, "no memory for a schema");
    for (uint32_t i = 0; i < from->class_count; i++) {
        copy.classes[i] = hr_strdup(from->classes[i]);
        if (!copy.classes[i]) {
            hr_schema_finish(&copy);
            return hr_fail(err, HR_E_NOMEM, "no memory for a schema");
        }
    }
    *to = copy;
    return 0;
}

void hr_schema_finish(struct hr_schema *schema)
{
    for (uint32_t i = 0; schema->classes && i < schema->class_count; i++)
        hr_free(schema->classes[i]);
    hr_free(schema->classes);
    schema->classes = NULL;
    schema->class_count = 0;
}

void hr_schema_hash(const struct hr_schema *schema, struct hr_hasher *hasher)
{
    hr_hasher_update_u64(hasher, schema->field_count);
    for (uint32_t i = 0; i < schema->field_count; i++) {
        const struct hr_schema_field *f = &schema->fields[i];
        hr_hasher_update_str(hasher, f->name);
        hr_hasher_update_u64(hasher, f->type);
        hr_hasher_update_u64(hasher, f->dtype);
        hr_hasher_update_u64(hasher, f->codec);
        hr_hasher_update_u64(hasher, f->dims);
        for (uint32_t d = 0; d < f->dims; d++)
            hr_hasher_update_u64(hasher, f->shape[d]);
    }
    hr_hasher_update_u64(hasher, (uint64_t)(schema->class_field + 1));
    hr_hasher_update_u64(hasher, schema->class_count);
    for (uint32_t i = 0; i < schema->class_count; i++)
        hr_hasher_update_str(hasher, schema->classes[i]);
}

static bool field_equal(const struct hr_schema_field *a, const struct hr_schema_field *b)
{
    return strcmp(a->name, b->name) == 0 && a->type == b->type && a->dtype == b->dtype &&
           a->codec == b->codec && a->dims == b->dims &&
           memcmp(a->shape, b->shape, a->dims * sizeof(a->shape[0])) == 0;
}

bool hr_schema_equal(const struct hr_schema *a, const struct hr_schema *b)
{
    return a->class_count == b->class_count && hr_schema_covers(a, b);
}

bool hr_schema_covers(const struct hr_schema *whole, const struct hr_schema *part)
{
    if (whole->field_count != part->field_count || whole->class_field != part->class_field ||
        whole->class_count < part->class_count)
        return false;
    for (uint32_t i = 0; i < whole->field_count; i++)
        if (!field_equal(&whole->fields[i], &part->fields[i]))
            return false;
    for (uint32_t i = 0; i < part->class_count; i++)
        if (strcmp(whole->classes[i], part->classes[i]) != 0)
            return false;
    return true;
}

static bool has_like(const struct hr_schema *schema, const struct hr_schema_field *field)
{
    int i = hr_schema_find(schema, field->name);
    struct hr_schema_field other;

    if (i < 0)
        return false;
    other = schema->fields[i];
    other.codec = field->codec;
    return field_equal(&other, field);
}

const char *hr_schema_differing_field(const struct hr_schema *a, const struct hr_schema *b)
{
    for (uint32_t i = 0; i < a->field_count; i++)
        if (!has_like(b, &a->fields[i]))
            return a->fields[i].name;
    for (uint32_t i = 0; i < b->field_count; i++)
        if (!has_like(a, &b->fields[i]))
            return b->fields[i].name;
    return NULL;
}

uint64_t hr_schema_fixed_bytes(const struct hr_schema_field *field)
{
    uint64_t bytes = hr_dtype_bytes(field->dtype);

    if (field->type != HR_FIELD_TENSOR || field->dims == 0 || field->dims > HR_MAX_DIMS)
        return 0;
    for (uint32_t d = 0; d < field->dims; d++)
        if (!hr_mul_u64(bytes, field->shape[d], &bytes) || bytes > MAX_TENSOR_BYTES)
            return 0;
    return bytes;
}
