/* What the sections of a .hrs index say together: that each field has the columns it needs, and that lengths,
 * presence, shapes and strings agree (docs/formats/hrs.md). */
#include "hrs_index.h"

static int missing(struct hr_hrs_opening *o, const char *what, uint32_t field)
{
    int ret = hr_fail(o->err, HR_E_CORRUPT, "index: no %s", what);

    hr_error_at_value(o->err, NULL, HR_NO_RECORD, o->schema->fields[field].name,
                      (int64_t)o->shard->payload_end);
    return ret;
}

static int bad_field(struct hr_hrs_opening *o, uint32_t field, const char *what)
{
    int ret = hr_fail(o->err, HR_E_CORRUPT, "index: %s", what);

    hr_error_at_value(o->err, NULL, HR_NO_RECORD, o->schema->fields[field].name,
                      (int64_t)o->shard->payload_end);
    return ret;
}

static int check_presence(struct hr_hrs_opening *o, uint32_t field)
{
    const struct hr_field_index *f = &o->shard->fields[field];
    uint64_t n = o->shard->record_count;

    if (!f->presence)
        return 0;
    for (size_t i = 0; i < o->footer->n_sections; i++) {
        const Headrace__Section *s = o->footer->sections[i];
        if (s->kind == HRS_PRESENCE && s->owner == field && s->raw_bytes != (n + 7) / 8)
            return hr_hrs_bad_section(o, s, "wrong size");
    }
    if (n % 8 && f->presence[n / 8] >> n % 8)
        return bad_field(o, field, "presence of records that do not exist");
    for (uint64_t i = 0; i < n; i++) {
        if (i % 8 == 0 && f->presence[i / 8] == 0xff) {
            i += 7;
            continue;
        }
        if (!hr_field_present(f, i) && hr_column_get(&f->lengths, i) != 0)
            return bad_field(o, field, "an absent value has bytes");
    }
    return 0;
}

/* A tensor's length is that of its shape, so that nobody after this has to ask. */
static int check_tensor(struct hr_hrs_opening *o, uint32_t field)
{
    const struct hr_field_index *f = &o->shard->fields[field];
    const struct hr_schema_field *schema = &o->schema->fields[field];
    struct hr_facts facts;
    uint64_t n = o->shard->record_count, fixed = hr_schema_fixed_bytes(schema);

    if (fixed && !f->lengths.data && !f->presence)
        return n == 0 || f->lengths.value == fixed ? 0 : bad_field(o, field, "size is not its shape's");
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bytes = fixed;
        if (!hr_field_present(f, i) || hr_column_get(&f->encodings, i) != HR_ENCODING_AS_IS)
            continue;
        if (!fixed) {
            hr_shard_facts(o->shard, o->schema, i, field, &facts);
            bytes = hr_dtype_bytes((enum hr_dtype)facts.dtype);
            if (bytes == 0 || facts.dims > HR_MAX_DIMS)
                return bad_field(o, field, "a tensor without dtype or shape");
            for (uint32_t d = 0; d < facts.dims; d++)
                if (!hr_mul_u64(bytes, facts.shape[d], &bytes))
                    return bad_field(o, field, "a tensor's shape overflows");
        }
        if (hr_column_get(&f->lengths, i) != bytes)
            return bad_field(o, field, "size is not its shape's");
    }
    return 0;
}

static int check_scalar(struct hr_hrs_opening *o, uint32_t field)
{
    struct hr_field_index *f = &o->shard->fields[field];
    enum hr_field_type type = o->schema->fields[field].type;
    uint64_t bit = UINT64_C(1) << field, low, high;

    if (type == HR_FIELD_STR) {
        int ret = hr_strings_init(&f->strs, o->shard->record_count, o->str_bytes[field], o->err);
        return ret == HR_E_CORRUPT ? bad_field(o, field, "string lengths do not fit the strings") : ret;
    }
    if (o->shard->record_count > 0 && !(o->seen[HRS_SCALAR] & bit))
        return missing(o, "scalar column", field);
    if (type == HR_FIELD_F64 && f->scalar.data && f->scalar.width != 8)
        return bad_field(o, field, "a float column of another width");
    if (type == HR_FIELD_BOOL) {
        hr_column_range(&f->scalar, o->shard->record_count, &low, &high);
        if (high > 1)
            return bad_field(o, field, "a bool that is neither 0 nor 1");
    }
    return 0;
}

static int check_payload_field(struct hr_hrs_opening *o, uint32_t field)
{
    struct hr_field_index *f = &o->shard->fields[field];
    uint64_t bit = UINT64_C(1) << field;
    int ret;

    if (o->shard->record_count > 0 && !(o->seen[HRS_LENGTHS] & bit))
        return missing(o, "lengths", field);
    if (o->shard->record_count > 0 && !(o->seen[HRS_CHECKSUMS] & bit))
        return missing(o, "checksums", field);
    ret = hr_strings_init(&f->seeks, o->shard->record_count, o->seek_bytes[field], o->err);
    if (ret == HR_E_CORRUPT)
        return bad_field(o, field, "seek table lengths do not fit the seek tables");
    if (ret == 0)
        ret = check_presence(o, field);
    if (ret == 0 && o->schema->fields[field].type == HR_FIELD_TENSOR)
        ret = check_tensor(o, field);
    return ret;
}

int hr_hrs_check_index(struct hr_hrs_opening *o)
{
    struct hr_shard *shard = o->shard;
    int ret = hr_strings_init(&shard->keys, shard->record_count, o->key_bytes, o->err);

    if (ret == HR_E_CORRUPT)
        return hr_fail(o->err, HR_E_CORRUPT, "index: key lengths do not fit the keys");
    for (uint32_t i = 0; ret == 0 && i < shard->field_count; i++) {
        bool scalar = hr_field_type_is_scalar(o->schema->fields[i].type);
        ret = scalar ? check_scalar(o, i) : check_payload_field(o, i);
        if (ret == 0 && scalar)
            ret = check_presence(o, i);
    }
    for (uint32_t i = 0; ret == 0 && i < shard->stream_count; i++) {
        uint64_t bit = UINT64_C(1) << i;
        const struct hr_stream_index *s = &shard->streams[i];
        if (s->extent_count > 0 &&
            (!(o->seen[HRS_EXTENT_RAW] & bit) || !(o->seen[HRS_EXTENT_OFFSETS] & bit) ||
             !(o->seen[HRS_EXTENT_STORED] & bit) ||
             (s->codec != HR_CODEC_NONE && !(o->seen[HRS_EXTENT_CHECKSUMS] & bit))))
            return hr_fail(o->err, HR_E_CORRUPT, "index: no extents for stream %u", i);
    }
    return ret < 0 ? ret : hr_hrs_check_streams(shard, o->err);
}
