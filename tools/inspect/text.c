/* inspect for people: aligned columns, sizes in units, text made safe for terminals. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "inspect.h"
#include "tools/cli.h"
#include "tools/safe_text.h"

enum { PREVIEW_BYTES = 160, MAX_SHARD_ROWS = 12 };

static const char *const codec_names[] = {"", "lz4", "lz4hc"};

void hr_inspect_double(struct hr_buf *b, double v)
{
    struct hr_buf text = {0};

    if (isfinite(v))
        hr_json_double(&text, NULL, v); /* the shortest that reads back */
    else
        hr_buf_addf(&text, "%g", v);
    hr_buf_add(b, text.data, text.used);
    hr_buf_finish(&text);
}

static void add_line(struct hr_buf *b, const char *name, const char *value)
{
    if (!value[0])
        return;
    hr_buf_addf(b, "%-10s ", name);
    hr_safe_text(b, value, strlen(value), 400);
    hr_buf_add_str(b, "\n");
}

static void type_text(const struct hr_schema_field *f, char *out, size_t bytes)
{
    size_t n = (size_t)snprintf(out, bytes, "%s", hr_field_type_name(f->type));

    if (f->dtype != HR_DTYPE_NONE && n < bytes)
        n += (size_t)snprintf(out + n, bytes - n, " %s", hr_dtype_name(f->dtype));
    for (uint32_t d = 0; d < f->dims && n < bytes; d++)
        n += (size_t)snprintf(out + n, bytes - n, "%s%" PRIu64 "%s", d ? "x" : "[", f->shape[d],
                              d + 1 == f->dims ? "]" : "");
}

static void add_ranges(struct hr_buf *b, const struct hr_field_totals *t)
{
    char text[32];

    if (t->max_width)
        hr_buf_addf(b, "  %ux%u to %ux%u", t->min_width, t->min_height, t->max_width, t->max_height);
    if (t->max_frames)
        hr_buf_addf(b, "  up to %s frames", hr_cli_format_count(t->max_frames, text));
    if (t->max_sample_rate)
        hr_buf_addf(b, "  %u to %u Hz", t->min_sample_rate, t->max_sample_rate);
    if (t->duration_ns)
        hr_buf_addf(b, "  %.2f h", (double)t->duration_ns / 3.6e12);
    if (t->max_items)
        hr_buf_addf(b, "  up to %s items", hr_cli_format_count(t->max_items, text));
}

static void add_fields(struct hr_buf *b, const struct hr_dataset *d)
{
    const struct hr_schema *schema = hr_dataset_schema(d);
    char type[64], count[32], size[32], mean[32], most[32];

    hr_buf_addf(b, "\n%-20s %-18s %-6s %14s %10s %10s %10s\n", "field", "type", "codec", "present",
                "bytes", "mean", "largest");
    for (uint32_t i = 0; i < schema->field_count; i++) {
        const struct hr_schema_field *f = &schema->fields[i];
        struct hr_field_totals t;
        hr_dataset_totals(d, i, &t);
        type_text(f, type, sizeof(type));
        hr_buf_addf(b, "%-20s %-18s %-6s %14s", f->name, type, codec_names[f->codec],
                    hr_cli_format_count(t.present, count));
        if (!hr_field_type_is_scalar(f->type) && t.present) {
            hr_buf_addf(b, " %10s %10s %10s", hr_cli_format_bytes(t.bytes, size),
                        hr_cli_format_bytes(t.bytes / t.present, mean), hr_cli_format_bytes(t.max_bytes, most));
            add_ranges(b, &t);
        }
        uint64_t repacked = f->type == HR_FIELD_IMAGE ? hr_inspect_repacked(d, i) : 0;
        if (repacked)
            hr_buf_addf(b, "  (%s repacked, originals %s)", hr_cli_format_count(repacked, count),
                        hr_cli_format_bytes(t.original_bytes, size));
        hr_buf_add_str(b, "\n");
    }
}

static void add_shards(struct hr_buf *b, const struct hr_dataset *d)
{
    uint32_t count = hr_dataset_shard_count(d), shown = count > MAX_SHARD_ROWS ? MAX_SHARD_ROWS - 2 : count;
    char size[32], records[32];

    hr_buf_addf(b, "\n%-40s %10s %14s\n", "shard", "bytes", "records");
    for (uint32_t i = 0; i < shown; i++) {
        const struct hr_shard_info *info = hr_dataset_shard_info(d, i);
        size_t before = b->used;
        hr_safe_text(b, info->name, strlen(info->name), 200);
        hr_buf_addf(b, "%*s %10s %14s\n", before + 40 > b->used ? (int)(before + 40 - b->used) : 0, "",
                    hr_cli_format_bytes(info->bytes, size), hr_cli_format_count(info->record_count, records));
    }
    if (shown < count)
        hr_buf_addf(b, "and %u more\n", count - shown);
}

void hr_inspect_text_versions(struct hr_buf *b, const struct hr_inspected *what)
{
    struct hr_digest current = hr_dataset_digest(what->dataset);
    char hex[HR_DIGEST_HEX_BYTES], size[32], records[32];

    hr_buf_addf(b, "%-32s %14s %10s %8s\n", "version", "records", "bytes", "shards");
    for (uint32_t i = 0; i < what->version_count; i++) {
        const struct hr_version_row *v = &what->versions[i];
        hr_buf_addf(b, "%s %14s %10s %8u%s%s\n", hr_digest_hex(&v->digest, hex),
                    hr_cli_format_count(v->record_count, records), hr_cli_format_bytes(v->bytes, size),
                    v->shard_count, i == 0 ? "  current" : "",
                    hr_digest_equal(&v->digest, &current) ? "  shown here" : "");
    }
}

void hr_inspect_text(struct hr_buf *b, const struct hr_inspected *what)
{
    const struct hr_dataset *d = what->dataset;
    struct hr_digest digest = hr_dataset_digest(d);
    char hex[HR_DIGEST_HEX_BYTES], text[32];

    add_line(b, "dataset", hr_dataset_path(d));
    add_line(b, "digest", hr_digest_hex(&digest, hex));
    add_line(b, "records", hr_cli_format_count(hr_dataset_record_count(d), text));
    hr_buf_addf(b, "%-10s %s in %u shard%s", "bytes", hr_cli_format_bytes(hr_dataset_bytes(d), text),
                hr_dataset_shard_count(d), hr_dataset_shard_count(d) == 1 ? "" : "s");
    hr_buf_addf(b, ", index %s in memory\n", hr_cli_format_bytes(hr_dataset_index_bytes(d), text));
    if (what->manifest) {
        add_line(b, "made by", what->manifest->tool);
        add_line(b, "options", what->manifest->options);
        add_line(b, "source", what->manifest->source);
    }
    add_fields(b, d);
    add_shards(b, d);
    if (what->version_count > 1) {
        hr_buf_add_str(b, "\n");
        hr_inspect_text_versions(b, what);
    }
}

/* ---- one record ---- */

static void add_facts(struct hr_buf *b, const struct hr_facts *x)
{
    if (x->format)
        hr_buf_addf(b, ", %s", hr_media_format_name((enum hr_media_format)x->format));
    if (x->width)
        hr_buf_addf(b, ", %ux%u", x->width, x->height);
    if (x->channels)
        hr_buf_addf(b, ", %u channel%s", x->channels, x->channels == 1 ? "" : "s");
    if (x->orientation)
        hr_buf_addf(b, ", orientation %u", x->orientation);
    if (x->frames)
        hr_buf_addf(b, ", %u frame%s", x->frames, x->frames == 1 ? "" : "s");
    if (x->rate_num && x->rate_den)
        hr_buf_addf(b, ", %.3f/s", (double)x->rate_num / x->rate_den);
    if (x->sample_rate)
        hr_buf_addf(b, ", %u Hz", x->sample_rate);
    if (x->duration_ns)
        hr_buf_addf(b, ", %.3f s", (double)x->duration_ns * 1e-9);
    if (x->dtype)
        hr_buf_addf(b, ", %s", hr_dtype_name((enum hr_dtype)x->dtype));
    for (uint32_t d = 0; d < x->dims && d < HR_MAX_DIMS; d++)
        hr_buf_addf(b, "%s%" PRIu64 "%s", d ? "x" : " [", x->shape[d], d + 1 == x->dims ? "]" : "");
    if (x->items)
        hr_buf_addf(b, ", %" PRIu64 " items", x->items);
}

static void add_preview(struct hr_buf *b, const struct hr_dataset *d, uint64_t record, uint32_t i)
{
    struct hr_error err = HR_ERROR_INIT;
    void *data;
    uint64_t bytes;

    if (hr_dataset_read_value(d, record, i, &data, &bytes, &err) < 0) {
        hr_buf_addf(b, "\n%24s%s", "", err.text);
        return;
    }
    hr_buf_addf(b, "\n%24s", "");
    hr_safe_text(b, data, bytes, PREVIEW_BYTES);
    hr_free(data);
}

static void add_value(struct hr_buf *b, const struct hr_dataset *d, uint64_t record, uint32_t i)
{
    enum hr_field_type type = hr_dataset_schema(d)->fields[i].type;
    struct hr_value_place p;
    struct hr_facts facts;
    char text[32];

    hr_dataset_locate(d, record, i, &p);
    if (!p.present) {
        hr_buf_add_str(b, "absent");
        return;
    }
    hr_dataset_facts(d, record, i, &facts);
    hr_buf_addf(b, "%s bytes", hr_cli_format_count(p.bytes, text));
    if (p.encoding != HR_ENCODING_AS_IS)
        hr_buf_addf(b, ", %s", hr_inspect_encoding_name(p.encoding));
    uint64_t original = hr_dataset_original_bytes(d, record, i);
    if (original != p.bytes) /* pixels alone have none */
        hr_buf_addf(b, " (original %s bytes)", hr_cli_format_count(original, text));
    if (hr_inspect_progressive(d, record, i, p.encoding))
        hr_buf_add_str(b, ", progressive");
    add_facts(b, &facts);
    hr_buf_addf(b, ", at offset %" PRIu64, p.off);
    if (p.codec != HR_CODEC_NONE)
        hr_buf_addf(b, " + %" PRIu64 " of a block", p.block_off);
    if (p.bytes > 0 && (type == HR_FIELD_TEXT || type == HR_FIELD_JSON))
        add_preview(b, d, record, i);
}

static void add_scalar(struct hr_buf *b, const struct hr_dataset *d, uint64_t record, uint32_t i)
{
    const struct hr_schema *schema = hr_dataset_schema(d);
    struct hr_scalar s;

    hr_dataset_scalar(d, record, i, &s);
    if (!s.present)
        hr_buf_add_str(b, "absent");
    else if (schema->fields[i].type == HR_FIELD_STR)
        hr_safe_text(b, s.str, s.str_bytes, SIZE_MAX);
    else if (schema->fields[i].type == HR_FIELD_F64)
        hr_inspect_double(b, s.f64);
    else if (schema->fields[i].type == HR_FIELD_BOOL)
        hr_buf_add_str(b, s.i64 ? "true" : "false");
    else
        hr_buf_addf(b, "%" PRId64, s.i64);
    if (s.present && schema->class_field == (int)i && s.i64 >= 0 && (uint64_t)s.i64 < schema->class_count) {
        hr_buf_add_str(b, "  ");
        hr_safe_text(b, schema->classes[s.i64], strlen(schema->classes[s.i64]), 120);
    }
}

void hr_inspect_text_record(struct hr_buf *b, const struct hr_dataset *d, uint64_t record)
{
    const struct hr_schema *schema = hr_dataset_schema(d);
    uint64_t local;
    uint32_t key_bytes, shard = hr_dataset_shard_of(d, record, &local);
    const char *key = hr_dataset_key(d, record, &key_bytes);

    hr_buf_addf(b, "record %" PRIu64, record);
    if (key_bytes) {
        hr_buf_add_str(b, "  ");
        hr_safe_text(b, key, key_bytes, SIZE_MAX);
    }
    hr_buf_add_str(b, "\nin ");
    hr_safe_text(b, hr_dataset_shard_info(d, shard)->name, strlen(hr_dataset_shard_info(d, shard)->name), 200);
    hr_buf_addf(b, ", its record %" PRIu64 "\n\n", local);
    for (uint32_t i = 0; i < schema->field_count; i++) {
        hr_buf_addf(b, "%-16s %-6s ", schema->fields[i].name, hr_field_type_name(schema->fields[i].type));
        if (hr_field_type_is_scalar(schema->fields[i].type))
            add_scalar(b, d, record, i);
        else
            add_value(b, d, record, i);
        hr_buf_add_str(b, "\n");
    }
}
