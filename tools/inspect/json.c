/* inspect's JSON: the dataset as one document, records as lines. */
#include "inspect.h"

#include "base/mem.h"
#include "decoders/rjpeg/rjpeg.h"

static const char *const codec_names[] = {"none", "lz4", "lz4hc"};

const char *hr_inspect_encoding_name(unsigned encoding)
{
    switch (encoding) {
    case HR_ENCODING_AS_IS:
        return "as-is";
    case HR_ENCODING_REPACKED_JPEG:
        return "repacked-jpeg";
    case HR_ENCODING_REPACKED_PNG:
        return "repacked-png";
    case HR_ENCODING_PACKETS:
        return "packets";
    case HR_ENCODING_RAW_PIXELS:
        return "raw-pixels";
    default:
        return "unknown";
    }
}

uint64_t hr_inspect_repacked(const struct hr_dataset *d, uint32_t field)
{
    uint64_t count = 0;
    struct hr_value_place p;

    for (uint64_t r = 0; r < hr_dataset_record_count(d); r++) {
        hr_dataset_locate(d, r, field, &p);
        count += p.present && (p.encoding == HR_ENCODING_REPACKED_JPEG || p.encoding == HR_ENCODING_REPACKED_PNG);
    }
    return count;
}

bool hr_inspect_progressive(const struct hr_dataset *d, uint64_t record, uint32_t field, unsigned encoding)
{
    struct hr_rjpeg_info info = {0};
    uint64_t bytes;
    void *data;

    if (encoding != HR_ENCODING_REPACKED_JPEG || hr_dataset_read_value(d, record, field, &data, &bytes, NULL) < 0)
        return false;
    bool known = hr_rjpeg_info(data, bytes, &info, NULL) == 0;
    hr_free(data);
    return known && info.progressive;
}

static void uint_if(struct hr_buf *b, const char *key, uint64_t v)
{
    if (v)
        hr_json_uint(b, key, v);
}

static void add_shape(struct hr_buf *b, const uint64_t *shape, uint32_t dims)
{
    hr_json_open(b, "shape", '[');
    for (uint32_t d = 0; d < dims && d < HR_MAX_DIMS; d++)
        hr_json_uint(b, NULL, shape[d]);
    hr_json_close(b, ']');
}

static void add_media_totals(struct hr_buf *b, const struct hr_field_totals *t)
{
    uint_if(b, "min_width", t->min_width);
    uint_if(b, "max_width", t->max_width);
    uint_if(b, "min_height", t->min_height);
    uint_if(b, "max_height", t->max_height);
    uint_if(b, "max_frames", t->max_frames);
    uint_if(b, "max_samples", t->max_samples);
    uint_if(b, "max_items", t->max_items);
    uint_if(b, "min_sample_rate", t->min_sample_rate);
    uint_if(b, "max_sample_rate", t->max_sample_rate);
    if (t->duration_ns)
        hr_json_double(b, "duration_s", (double)t->duration_ns * 1e-9);
}

static void add_field(struct hr_buf *b, const struct hr_dataset *d, uint32_t i)
{
    const struct hr_schema_field *f = &hr_dataset_schema(d)->fields[i];
    struct hr_field_totals t;

    hr_dataset_totals(d, i, &t);
    hr_json_open(b, f->name, '{');
    hr_json_str(b, "type", hr_field_type_name(f->type));
    if (f->dtype != HR_DTYPE_NONE)
        hr_json_str(b, "dtype", hr_dtype_name(f->dtype));
    if (f->dims > 0)
        add_shape(b, f->shape, f->dims);
    hr_json_uint(b, "present", t.present);
    if (!hr_field_type_is_scalar(f->type)) {
        hr_json_str(b, "codec", codec_names[f->codec]);
        hr_json_uint(b, "bytes", t.bytes);
        hr_json_uint(b, "original_bytes", t.original_bytes);
        if (f->type == HR_FIELD_IMAGE)
            hr_json_uint(b, "repacked", hr_inspect_repacked(d, i));
        hr_json_uint(b, "max_bytes", t.max_bytes);
        uint_if(b, "max_block_bytes", t.max_block_bytes);
        add_media_totals(b, &t);
        if (f->type == HR_FIELD_TENSOR)
            hr_json_bool(b, "uniform_shape", t.uniform_shape);
    }
    hr_json_close(b, '}');
}

static void add_classes(struct hr_buf *b, const struct hr_schema *schema)
{
    if (schema->class_field < 0)
        return;
    hr_json_str(b, "class_field", schema->fields[schema->class_field].name);
    hr_json_open(b, "classes", '[');
    for (uint32_t i = 0; i < schema->class_count; i++)
        hr_json_str(b, NULL, schema->classes[i]);
    hr_json_close(b, ']');
}

static void add_shards(struct hr_buf *b, const struct hr_dataset *d)
{
    char hex[HR_DIGEST_HEX_BYTES];

    hr_json_open(b, "shards", '[');
    for (uint32_t i = 0; i < hr_dataset_shard_count(d); i++) {
        const struct hr_shard_info *info = hr_dataset_shard_info(d, i);
        hr_json_open(b, NULL, '{');
        hr_json_str(b, "name", info->name);
        hr_json_uint(b, "bytes", info->bytes);
        hr_json_uint(b, "records", info->record_count);
        hr_json_str(b, "digest", hr_digest_hex(&info->digest, hex));
        hr_json_close(b, '}');
    }
    hr_json_close(b, ']');
}

void hr_inspect_json_versions(struct hr_buf *b, const char *key, const struct hr_inspected *what)
{
    struct hr_digest current = hr_dataset_digest(what->dataset);
    char hex[HR_DIGEST_HEX_BYTES];

    hr_json_open(b, key, '[');
    for (uint32_t i = 0; i < what->version_count; i++) {
        const struct hr_version_row *v = &what->versions[i];
        hr_json_open(b, NULL, '{');
        hr_json_str(b, "digest", hr_digest_hex(&v->digest, hex));
        hr_json_uint(b, "records", v->record_count);
        hr_json_uint(b, "bytes", v->bytes);
        hr_json_uint(b, "shards", v->shard_count);
        hr_json_bool(b, "current", i == 0);
        hr_json_bool(b, "shown", hr_digest_equal(&v->digest, &current));
        hr_json_close(b, '}');
    }
    hr_json_close(b, ']');
}

void hr_inspect_json(struct hr_buf *b, const struct hr_inspected *what)
{
    const struct hr_dataset *d = what->dataset;
    const struct hr_manifest *m = what->manifest;
    struct hr_digest digest = hr_dataset_digest(d);
    char hex[HR_DIGEST_HEX_BYTES];

    hr_json_open(b, NULL, '{');
    hr_json_str(b, "digest", hr_digest_hex(&digest, hex));
    hr_json_uint(b, "records", hr_dataset_record_count(d));
    hr_json_uint(b, "bytes", hr_dataset_bytes(d));
    hr_json_uint(b, "index_bytes", hr_dataset_index_bytes(d));
    hr_json_open(b, "fields", '{');
    for (uint32_t i = 0; i < hr_dataset_schema(d)->field_count; i++)
        add_field(b, d, i);
    hr_json_close(b, '}');
    add_classes(b, hr_dataset_schema(d));
    add_shards(b, d);
    hr_inspect_json_versions(b, "versions", what);
    if (m) {
        hr_json_open(b, "provenance", '{');
        hr_json_str(b, "tool", m->tool);
        hr_json_str(b, "options", m->options);
        hr_json_str(b, "source", m->source);
        hr_json_close(b, '}');
        if (m->has_previous)
            hr_json_str(b, "previous", hr_digest_hex(&m->previous, hex));
    }
    hr_json_close(b, '}');
    hr_buf_add_str(b, "\n");
}

/* ---- records ---- */

static void add_facts(struct hr_buf *b, const struct hr_facts *x)
{
    if (x->format)
        hr_json_str(b, "format", hr_media_format_name((enum hr_media_format)x->format));
    uint_if(b, "width", x->width);
    uint_if(b, "height", x->height);
    uint_if(b, "channels", x->channels);
    uint_if(b, "bit_depth", x->bit_depth);
    uint_if(b, "orientation", x->orientation);
    uint_if(b, "frames", x->frames);
    if (x->rate_num && x->rate_den)
        hr_json_double(b, "fps", (double)x->rate_num / x->rate_den);
    uint_if(b, "sample_rate", x->sample_rate);
    uint_if(b, "samples", x->samples);
    if (x->duration_ns)
        hr_json_double(b, "duration_s", (double)x->duration_ns * 1e-9);
    if (x->dtype)
        hr_json_str(b, "dtype", hr_dtype_name((enum hr_dtype)x->dtype));
    if (x->dims)
        add_shape(b, x->shape, x->dims);
    uint_if(b, "items", x->items);
}

static void add_value(struct hr_buf *b, const struct hr_dataset *d, uint64_t record, uint32_t i)
{
    struct hr_value_place p;
    struct hr_facts facts;
    uint64_t original;

    hr_dataset_locate(d, record, i, &p);
    if (!p.present) {
        hr_json_null(b, hr_dataset_schema(d)->fields[i].name);
        return;
    }
    hr_dataset_facts(d, record, i, &facts);
    original = hr_dataset_original_bytes(d, record, i);
    hr_json_open(b, hr_dataset_schema(d)->fields[i].name, '{');
    hr_json_uint(b, "bytes", p.bytes);
    if (original != p.bytes)
        hr_json_uint(b, "original_bytes", original);
    if (p.encoding != HR_ENCODING_AS_IS)
        hr_json_str(b, "encoding", hr_inspect_encoding_name(p.encoding));
    if (hr_inspect_progressive(d, record, i, p.encoding))
        hr_json_bool(b, "progressive", true);
    add_facts(b, &facts);
    hr_json_close(b, '}');
}

static void add_scalar(struct hr_buf *b, const struct hr_dataset *d, uint64_t record, uint32_t i)
{
    const struct hr_schema_field *f = &hr_dataset_schema(d)->fields[i];
    struct hr_scalar s;

    hr_dataset_scalar(d, record, i, &s);
    if (!s.present)
        hr_json_null(b, f->name);
    else if (f->type == HR_FIELD_STR)
        hr_json_strn(b, f->name, s.str, s.str_bytes);
    else if (f->type == HR_FIELD_F64)
        hr_json_double(b, f->name, s.f64);
    else if (f->type == HR_FIELD_BOOL)
        hr_json_bool(b, f->name, s.i64 != 0);
    else
        hr_json_int(b, f->name, s.i64);
}

static void add_class(struct hr_buf *b, const struct hr_dataset *d, uint64_t record)
{
    const struct hr_schema *schema = hr_dataset_schema(d);
    struct hr_scalar s;

    if (schema->class_field < 0)
        return;
    hr_dataset_scalar(d, record, (uint32_t)schema->class_field, &s);
    if (s.present && s.i64 >= 0 && (uint64_t)s.i64 < schema->class_count)
        hr_json_str(b, "class", schema->classes[s.i64]);
}

void hr_inspect_json_record(struct hr_buf *b, const struct hr_dataset *d, uint64_t record)
{
    const struct hr_schema *schema = hr_dataset_schema(d);
    uint32_t key_bytes;
    const char *key = hr_dataset_key(d, record, &key_bytes);

    hr_json_open(b, NULL, '{');
    hr_json_uint(b, "id", record);
    hr_json_strn(b, "key", key, key_bytes);
    add_class(b, d, record);
    hr_json_open(b, "fields", '{');
    for (uint32_t i = 0; i < schema->field_count; i++)
        if (hr_field_type_is_scalar(schema->fields[i].type))
            add_scalar(b, d, record, i);
        else
            add_value(b, d, record, i);
    hr_json_close(b, '}');
    hr_json_close(b, '}');
    hr_buf_add_str(b, "\n");
}
