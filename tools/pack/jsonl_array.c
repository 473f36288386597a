/* From nested JSON lists to one array, checked against the type that was said. */
#include "tools/pack/jsonl_array.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_AXIS = 1 << 24 };

bool hr_array_type_parse(const char *text, struct hr_array_type *type)
{
    static const enum hr_dtype dtypes[] = {HR_DTYPE_U8, HR_DTYPE_I32, HR_DTYPE_I64, HR_DTYPE_F32, HR_DTYPE_F64};
    struct hr_array_type t = {0};
    const char *at = strchr(text, '[');
    char *end;

    for (size_t i = 0; at && i < HR_ARRAY_SIZE(dtypes); i++)
        if (strncmp(text, hr_dtype_name(dtypes[i]), (size_t)(at - text)) == 0 &&
            strlen(hr_dtype_name(dtypes[i])) == (size_t)(at - text))
            t.dtype = dtypes[i];
    if (t.dtype == HR_DTYPE_NONE)
        return false;
    for (at++; t.dims < HR_MAX_DIMS; at++) {
        bool n = t.dims == 0 && *at == 'n';
        unsigned long long axis = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : 0;
        if (!n && (axis == 0 || axis > MAX_AXIS))
            return false;
        at = n ? at + 1 : end;
        t.varies |= n;
        t.shape[t.dims++] = axis;
        if (*at == ']' && !at[1]) {
            *type = t;
            return true;
        }
        if (*at != ',')
            return false;
    }
    return false;
}

/* A list on its way into an array. */
struct filler {
    const struct hr_array_type *type;
    uint8_t *out; /* NULL: only counted */
    uint64_t count;
    struct hr_error *err;
};

static int misfit(const struct filler *f, uint64_t is, uint64_t wanted)
{
    return hr_fail(f->err, HR_E_FORMAT, "a list of %" PRIu64 " where the type has %" PRIu64, is, wanted);
}

static int add_number(struct filler *f, struct json_object *v)
{
    enum hr_dtype dtype = f->type->dtype;
    bool is_int = json_object_is_type(v, json_type_int);
    bool whole = is_int && json_object_get_uint64(v) <= INT64_MAX; /* negative ones are 0 here */
    int64_t i64 = whole ? json_object_get_int64(v) : 0;
    double f64 = json_object_get_double(v);
    float f32 = (float)f64;
    int32_t i32 = (int32_t)i64;
    uint8_t u8 = (uint8_t)i64;

    if (!is_int && !json_object_is_type(v, json_type_double))
        return hr_fail(f->err, HR_E_FORMAT, "a list of numbers holds something else");
    bool fits = dtype == HR_DTYPE_F64   ? isfinite(f64)
                : dtype == HR_DTYPE_F32 ? isfinite(f32)
                : dtype == HR_DTYPE_I64 ? whole
                : dtype == HR_DTYPE_I32 ? whole && i32 == i64
                                        : whole && u8 == i64;
    if (!fits)
        return hr_fail(f->err, HR_E_FORMAT, "the number %.40s is no %s", json_object_get_string(v),
                       hr_dtype_name(dtype));
    const void *number = dtype == HR_DTYPE_F64   ? (const void *)&f64
                         : dtype == HR_DTYPE_F32 ? (const void *)&f32
                         : dtype == HR_DTYPE_I64 ? (const void *)&i64
                         : dtype == HR_DTYPE_I32 ? (const void *)&i32
                                                 : (const void *)&u8;
    size_t bytes = hr_dtype_bytes(dtype);
    if (f->out)
        memcpy(f->out + f->count * bytes, number, bytes);
    f->count++;
    return 0;
}

/* Numbers in all axes from this one on. */
static uint64_t below(const struct hr_array_type *type, uint32_t axis)
{
    uint64_t n = 1;

    for (uint32_t i = axis; i < type->dims; i++)
        if (!hr_mul_u64(n, type->shape[i], &n))
            return UINT64_MAX;
    return n;
}

static int add_list(struct filler *f, struct json_object *list, uint32_t axis)
{
    const struct hr_array_type *type = f->type;
    bool varies = axis == 0 && type->varies;
    int ret = 0;

    if (!json_object_is_type(list, json_type_array))
        return hr_fail(f->err, HR_E_FORMAT, "not a list of %u axes", type->dims);
    uint64_t n = json_object_array_length(list);
    bool nested = n && axis + 1 < type->dims &&
                  json_object_is_type(json_object_array_get_idx(list, 0), json_type_array);
    uint64_t wanted = nested ? type->shape[axis] : below(type, axis), unit = nested ? 1 : below(type, axis + 1);
    if (varies ? n % unit != 0 : n != wanted)
        return misfit(f, n, varies ? unit : wanted);
    for (uint64_t i = 0; i < n && ret == 0; i++) {
        struct json_object *item = json_object_array_get_idx(list, i);
        ret = nested ? add_list(f, item, axis + 1) : add_number(f, item);
    }
    return ret;
}

int hr_jsonl_set_array(struct hr_pack_record *record, uint32_t field, const struct hr_array_type *type,
                       struct json_object *value, struct hr_error *err)
{
    struct filler filler = {.type = type, .err = err};
    struct hr_facts facts = {.dtype = type->dtype, .dims = type->dims};
    int ret = add_list(&filler, value, 0);

    if (ret < 0)
        return ret;
    uint64_t bytes = filler.count * hr_dtype_bytes(type->dtype);
    filler.out = hr_pack_record_room(record, bytes, err);
    if (!filler.out)
        return err->code;
    memcpy(facts.shape, type->shape, sizeof(facts.shape));
    if (type->varies)
        facts.shape[0] = filler.count / below(type, 1);
    filler.count = 0;
    ret = add_list(&filler, value, 0);
    if (ret == 0)
        hr_pack_record_set_array(record, field, filler.out, bytes, &facts);
    return ret;
}
