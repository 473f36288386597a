/* Reading a .hrs index: trailer, footer, sections, each checked before it is believed
 * (docs/formats/hrs.md). What they say together is checked in hrs_check.c, positions in hrs_streams.c. */
#include "hrs_index.h"

#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "proto.h"

enum scope { SHARD, FIELD, STREAM };
enum shape { COLUMN, BYTES, EXTENTS };

static const struct kind_rule {
    const char *name;
    enum scope scope;
    enum shape shape;
    uint8_t min_width, max_width;
    bool never_constant;
} kinds[HRS_KIND_COUNT] = {
    [HRS_KEY_LENGTHS] = {"key lengths", SHARD, COLUMN, 1, 2},
    [HRS_KEY_DATA] = {"keys", SHARD, BYTES},
    [HRS_PRESENCE] = {"presence", FIELD, BYTES},
    [HRS_LENGTHS] = {"lengths", FIELD, COLUMN, 1, 8},
    [HRS_CHECKSUMS] = {"checksums", FIELD, COLUMN, 4, 4, true},
    [HRS_ENCODINGS] = {"encodings", FIELD, COLUMN, 1, 2},
    [HRS_ORIGINAL_BYTES] = {"original bytes", FIELD, COLUMN, 1, 8},
    [HRS_FACT] = {"facts", FIELD, COLUMN, 1, 8},
    [HRS_SCALAR] = {"scalar", FIELD, COLUMN, 1, 8},
    [HRS_STR_LENGTHS] = {"string lengths", FIELD, COLUMN, 1, 1},
    [HRS_STR_DATA] = {"strings", FIELD, BYTES},
    [HRS_SEEK_LENGTHS] = {"seek table lengths", FIELD, COLUMN, 1, 4},
    [HRS_SEEK_DATA] = {"seek tables", FIELD, BYTES},
    [HRS_EXTENT_RAW] = {"extent raw starts", STREAM, EXTENTS, 1, 8},
    [HRS_EXTENT_OFFSETS] = {"extent offsets", STREAM, EXTENTS, 1, 8},
    [HRS_EXTENT_STORED] = {"extent sizes", STREAM, EXTENTS, 1, 8},
    [HRS_EXTENT_CHECKSUMS] = {"extent checksums", STREAM, EXTENTS, 1, 4},
};

static int corrupt_at(struct hr_error *err, uint64_t off, int ret)
{
    hr_error_at_value(err, NULL, HR_NO_RECORD, NULL, (int64_t)off);
    return ret;
}

static const char *kind_name(unsigned kind)
{
    return kind < HRS_KIND_COUNT && kinds[kind].name ? kinds[kind].name : "unknown section";
}

int hr_hrs_bad_section(const struct hr_hrs_opening *o, const Headrace__Section *s, const char *what)
{
    hr_fail(o->err, HR_E_CORRUPT, "index section '%s' (kind %u, owner %u, item %u): %s",
            kind_name(s->kind), s->kind, s->owner, s->item, what);
    return corrupt_at(o->err, s->offset, HR_E_CORRUPT);
}

/* Memory behind a column: freed with the shard. */
static int keep_buffer(struct hr_hrs_opening *o, void *buffer, uint64_t bytes)
{
    struct hr_shard *shard = o->shard;

    if ((shard->buffer_count & (shard->buffer_count - 1)) == 0) {
        uint32_t cap = shard->buffer_count ? 2 * shard->buffer_count : 1;
        void **grown = hr_realloc(shard->buffers, cap, sizeof(*grown));
        if (!grown) {
            hr_free(buffer);
            return hr_fail(o->err, HR_E_NOMEM, "no memory for the index");
        }
        shard->buffers = grown;
    }
    shard->buffers[shard->buffer_count++] = buffer;
    shard->memory_bytes += bytes;
    return 0;
}

/* ---- one section ---- */

static const char *section_fault(const struct hr_hrs_opening *o, const Headrace__Section *s)
{
    uint64_t raw;

    if (s->flags & ~(uint32_t)(HRS_SECTION_OPTIONAL | HRS_SECTION_CONSTANT))
        return "unknown flags";
    if (s->codec > HRS_PLANES_LZ4)
        return "unknown codec";
    if (s->width != 0 && s->width != 1 && s->width != 2 && s->width != 4 && s->width != 8)
        return "impossible width";
    if (s->width > 0 && (!hr_mul_u64(s->count, s->width, &raw) || raw != s->raw_bytes))
        return "size is not count times width";
    if (s->width == 0 && s->count != 0)
        return "items without a width";
    if ((s->flags & HRS_SECTION_CONSTANT) && s->count != 1)
        return "constant, but not one item";
    if (s->codec == HRS_PLAIN && s->stored_bytes != s->raw_bytes)
        return "stored plainly, but sizes differ";
    if (s->codec == HRS_PLANES_LZ4 && s->width < 2)
        return "byte planes without wide items";
    if (s->raw_bytes / HRS_LZ4_MAX_RATIO > s->stored_bytes)
        return "cannot expand to so many bytes";
    return NULL;
}

static const char *kind_fault(const struct hr_hrs_opening *o, const Headrace__Section *s)
{
    const struct kind_rule *rule = &kinds[s->kind];
    bool constant = s->flags & HRS_SECTION_CONSTANT;
    uint64_t items = rule->shape == COLUMN ? o->shard->record_count : 0;

    if (s->owner >= (rule->scope == SHARD   ? 1
                     : rule->scope == FIELD ? o->shard->field_count
                                            : o->shard->stream_count))
        return "belongs to nothing";
    if (rule->shape == EXTENTS)
        items = o->shard->streams[s->owner].extent_count;
    if (rule->shape == BYTES)
        return s->width == 0 ? NULL : "plain bytes have no width";
    if (s->width < rule->min_width || s->width > rule->max_width)
        return "impossible width";
    if (constant && rule->never_constant)
        return "may not be constant";
    if (!constant && s->count != items)
        return "wrong number of items";
    return constant && items == 0 ? "items where there are none" : NULL;
}

/* Reads the stored bytes, checks them, expands them. *raw is the shard's when keep is set. */
static int load_section(struct hr_hrs_opening *o, const Headrace__Section *s, bool keep, uint8_t **raw)
{
    uint8_t *stored = hr_alloc(s->stored_bytes), *out = stored;
    int ret;

    if (!stored)
        return hr_fail(o->err, HR_E_NOMEM, "no memory for the index");
    ret = hr_fd_pread_full(o->fd, stored, s->stored_bytes, s->offset, o->err);
    if (ret == 0 && hr_hash64(stored, s->stored_bytes, 0) != s->checksum)
        ret = hr_hrs_bad_section(o, s, "checksum mismatch");
    if (ret == 0 && s->codec != HRS_PLAIN) {
        out = hr_alloc(s->raw_bytes);
        ret = !out ? hr_fail(o->err, HR_E_NOMEM, "no memory for the index")
              : hr_section_expand(s->codec, stored, s->stored_bytes, s->width, out, s->raw_bytes,
                                  o->err) < 0
                  ? hr_hrs_bad_section(o, s, "does not expand")
                  : 0;
        hr_free(stored);
    }
    if (ret < 0) {
        hr_free(out);
        return ret;
    }
    if (o->hasher)
        hr_shard_digest_section(o->hasher, s->kind, s->owner, s->item, s->flags, s->width, s->count,
                                out, s->raw_bytes);
    if (!keep) {
        hr_free(out);
        return 0;
    }
    *raw = out;
    return keep_buffer(o, out, s->raw_bytes);
}

static struct hr_column *column_of(struct hr_hrs_opening *o, const Headrace__Section *s)
{
    struct hr_field_index *f = &o->shard->fields[s->owner];
    struct hr_stream_index *stream = &o->shard->streams[s->owner % HR_ARRAY_SIZE(o->shard->streams)];

    switch (s->kind) {
    case HRS_KEY_LENGTHS:
        return &o->shard->keys.lengths;
    case HRS_LENGTHS:
        return &f->lengths;
    case HRS_CHECKSUMS:
        return &f->checksums;
    case HRS_ENCODINGS:
        return &f->encodings;
    case HRS_ORIGINAL_BYTES:
        return &f->original_bytes;
    case HRS_FACT:
        return &f->facts[s->item];
    case HRS_SCALAR:
        return &f->scalar;
    case HRS_STR_LENGTHS:
        return &f->strs.lengths;
    case HRS_SEEK_LENGTHS:
        return &f->seeks.lengths;
    case HRS_EXTENT_RAW:
        return &stream->extent_raw;
    case HRS_EXTENT_OFFSETS:
        return &stream->extent_offsets;
    case HRS_EXTENT_STORED:
        return &stream->extent_stored;
    default:
        return &stream->extent_checksums;
    }
}

static void attach(struct hr_hrs_opening *o, const Headrace__Section *s, uint8_t *raw)
{
    struct hr_field_index *f = &o->shard->fields[s->owner];
    uint64_t value = 0;

    if (s->kind == HRS_KEY_DATA) {
        o->shard->keys.data = raw;
        o->key_bytes = s->raw_bytes;
    } else if (s->kind == HRS_PRESENCE) {
        f->presence = raw;
    } else if (s->kind == HRS_STR_DATA) {
        f->strs.data = raw;
        o->str_bytes[s->owner] = s->raw_bytes;
    } else if (s->kind == HRS_SEEK_DATA) {
        f->seeks.data = raw;
        o->seek_bytes[s->owner] = s->raw_bytes;
    } else if (s->flags & HRS_SECTION_CONSTANT) {
        memcpy(&value, raw, s->width);
        *column_of(o, s) = (struct hr_column){.value = value};
    } else {
        *column_of(o, s) = (struct hr_column){.data = raw, .width = s->width};
    }
    if (s->kind == HRS_ORIGINAL_BYTES)
        f->has_originals = true;
}

static const char *note_seen(struct hr_hrs_opening *o, const Headrace__Section *s)
{
    uint64_t bit = UINT64_C(1) << s->owner;
    bool again = s->kind == HRS_FACT ? o->seen_facts[s->owner] >> s->item & 1
                                     : (o->seen[s->kind] & bit) != 0;

    o->seen[s->kind] |= bit;
    if (s->kind == HRS_FACT)
        o->seen_facts[s->owner] |= UINT32_C(1) << s->item;
    return again ? "occurs twice" : NULL;
}

static int read_section(struct hr_hrs_opening *o, const Headrace__Section *s)
{
    const char *fault = section_fault(o, s);
    bool known = s->kind > 0 && s->kind < HRS_KIND_COUNT &&
                 (s->kind == HRS_FACT ? s->item > 0 && s->item < HRS_FACT_COUNT : s->item == 0);
    uint8_t *raw = NULL;
    int ret;

    if (!fault && known)
        fault = kind_fault(o, s);
    if (!fault && known)
        fault = note_seen(o, s);
    if (fault)
        return hr_hrs_bad_section(o, s, fault);
    if (!known && !(s->flags & HRS_SECTION_OPTIONAL)) {
        hr_hrs_bad_section(o, s, "not known to this version, and needed");
        if (o->err)
            o->err->code = HR_E_VERSION;
        return HR_E_VERSION;
    }
    if (!known)
        return o->hasher ? load_section(o, s, false, NULL) : 0;
    ret = load_section(o, s, true, &raw);
    if (ret == 0)
        attach(o, s, raw);
    return ret;
}

/* ---- header, trailer, footer ---- */

static int read_ends(struct hr_hrs_opening *o, struct hrs_header *header, struct hrs_trailer *trailer)
{
    uint8_t head[HRS_HEADER_BYTES], tail[HRS_TRAILER_BYTES];
    uint64_t tail_off = o->file_bytes - HRS_TRAILER_BYTES;
    int ret;

    if (o->file_bytes < HRS_HEADER_BYTES + HRS_TRAILER_BYTES)
        return corrupt_at(o->err, o->file_bytes,
                          hr_fail(o->err, HR_E_CORRUPT, "too short for a shard (%llu bytes)",
                                  (unsigned long long)o->file_bytes));
    ret = hr_fd_pread_full(o->fd, head, sizeof(head), 0, o->err);
    if (ret == 0)
        ret = hr_hrs_header_load(head, header, o->err);
    if (ret == 0)
        ret = hr_fd_pread_full(o->fd, tail, sizeof(tail), tail_off, o->err);
    if (ret < 0)
        return ret;
    ret = hr_hrs_trailer_load(tail, trailer, o->err);
    if (ret < 0 && o->err)
        o->err->offset += (int64_t)tail_off;
    if (ret < 0)
        return ret;
    uint64_t end;
    if (trailer->file_bytes != o->file_bytes || trailer->footer_off < HRS_HEADER_BYTES ||
        trailer->footer_bytes > HRS_MAX_FOOTER_BYTES ||
        !hr_add_u64(trailer->footer_off, trailer->footer_bytes, &end) || end != tail_off)
        return corrupt_at(o->err, tail_off,
                          hr_fail(o->err, HR_E_CORRUPT, "trailer: sizes do not fit the file"));
    return 0;
}

static int read_footer(struct hr_hrs_opening *o, const struct hrs_trailer *trailer,
                       Headrace__Footer **footer)
{
    uint8_t *bytes = hr_alloc(trailer->footer_bytes);
    int ret;

    if (!bytes)
        return hr_fail(o->err, HR_E_NOMEM, "no memory for the footer");
    ret = hr_fd_pread_full(o->fd, bytes, trailer->footer_bytes, trailer->footer_off, o->err);
    if (ret == 0 && hr_checksum(bytes, trailer->footer_bytes) != trailer->footer_checksum)
        ret = corrupt_at(o->err, trailer->footer_off,
                         hr_fail(o->err, HR_E_CORRUPT, "footer: checksum mismatch"));
    if (ret == 0) {
        *footer = headrace__footer__unpack(NULL, trailer->footer_bytes, bytes);
        if (!*footer)
            ret = corrupt_at(o->err, trailer->footer_off,
                             hr_fail(o->err, HR_E_CORRUPT, "footer: not a valid message"));
    }
    hr_free(bytes);
    return ret;
}

/* The streams are those that the schema's codecs ask for, in codec order. */
static int set_streams(struct hr_hrs_opening *o)
{
    struct hr_shard *shard = o->shard;
    const Headrace__Footer *m = o->footer;

    for (unsigned codec = 0; codec <= HR_CODEC_LZ4HC; codec++) {
        struct hr_stream_index *s = &shard->streams[shard->stream_count];
        for (uint32_t i = 0; i < shard->field_count; i++) {
            const struct hr_schema_field *f = &o->schema->fields[i];
            if (hr_field_type_is_scalar(f->type) || f->codec != codec)
                continue;
            s->fields[s->field_count++] = (uint8_t)i;
            shard->fields[i].stream = (int)shard->stream_count;
        }
        if (s->field_count == 0)
            continue;
        if (shard->stream_count >= m->n_streams || m->streams[shard->stream_count]->codec != codec)
            return hr_fail(o->err, HR_E_CORRUPT, "footer: streams do not fit the schema");
        s->codec = (enum hr_codec)codec;
        s->raw_bytes = m->streams[shard->stream_count]->raw_bytes;
        s->extent_count = m->streams[shard->stream_count]->extent_count;
        if (s->raw_bytes > HRS_MAX_RAW_BYTES || s->extent_count > o->file_bytes)
            return hr_fail(o->err, HR_E_CORRUPT, "footer: stream %u is larger than can be",
                           shard->stream_count);
        shard->stream_count++;
    }
    return m->n_streams == shard->stream_count
               ? 0
               : hr_fail(o->err, HR_E_CORRUPT, "footer: streams do not fit the schema");
}

/* Sections lie one after the other from the end of the payload to the footer. */
static int check_section_places(struct hr_hrs_opening *o)
{
    const Headrace__Footer *m = o->footer;
    uint64_t at = m->n_sections ? m->sections[0]->offset : o->shard->footer_off;

    o->shard->payload_end = at;
    if (at < HRS_HEADER_BYTES)
        return hr_fail(o->err, HR_E_CORRUPT, "footer: the index begins inside the header");
    for (size_t i = 0; i < m->n_sections; i++) {
        const Headrace__Section *s = m->sections[i];
        if (s->offset != at || s->offset > o->shard->footer_off ||
            s->stored_bytes > o->shard->footer_off - s->offset)
            return hr_hrs_bad_section(o, s, "does not follow the one before it");
        at += s->stored_bytes;
    }
    return at == o->shard->footer_off
               ? 0
               : hr_fail(o->err, HR_E_CORRUPT, "footer: a gap between index and footer");
}

static int set_up_shard(struct hr_hrs_opening *o, const struct hrs_header *header)
{
    const Headrace__Footer *m = o->footer;
    struct hr_shard *shard = o->shard;

    if (m->format != HRS_VERSION)
        return hr_fail(o->err, HR_E_VERSION, "footer: format %u, this version reads %u", m->format,
                       HRS_VERSION);
    if (m->uuid.len != 16 || memcmp(m->uuid.data, header->uuid, 16) != 0)
        return hr_fail(o->err, HR_E_CORRUPT, "footer: uuid differs from the header's");
    if (m->record_count > HRS_MAX_RECORDS)
        return hr_fail(o->err, HR_E_CORRUPT, "footer: more records than a shard can hold");
    memcpy(shard->uuid, header->uuid, 16);
    shard->record_count = m->record_count;
    shard->field_count = o->schema->field_count;
    shard->fields = hr_alloc_zero(shard->field_count, sizeof(*shard->fields));
    if (!shard->fields)
        return hr_fail(o->err, HR_E_NOMEM, "no memory for the index");
    for (uint32_t i = 0; i < shard->field_count; i++)
        shard->fields[i].stream = -1;
    int ret = set_streams(o);
    return ret < 0 ? ret : check_section_places(o);
}

static int check_digest(struct hr_hrs_opening *o, const struct hrs_trailer *trailer)
{
    struct hr_digest digest;

    if (!o->hasher)
        return 0;
    digest = hr_hasher_digest(o->hasher);
    if (hr_digest_equal(&digest, &trailer->digest))
        return 0;
    return corrupt_at(o->err, o->file_bytes - HRS_TRAILER_BYTES + 24,
                      hr_fail(o->err, HR_E_CORRUPT, "trailer: digest is not that of the content"));
}

static int open_shard(struct hr_hrs_opening *o, struct hr_schema *schema, Headrace__Footer **footer)
{
    struct hrs_header header;
    struct hrs_trailer trailer;
    int ret = read_ends(o, &header, &trailer);

    if (ret == 0)
        ret = read_footer(o, &trailer, footer);
    if (ret < 0)
        return ret;
    o->footer = *footer;
    o->shard->footer_off = trailer.footer_off;
    o->shard->footer_bytes = trailer.footer_bytes;
    o->shard->digest = trailer.digest;
    ret = hr_proto_schema_read(o->footer->schema, schema, o->err);
    if (ret == 0)
        ret = set_up_shard(o, &header);
    if (ret < 0)
        return o->err && o->err->offset < 0 ? corrupt_at(o->err, trailer.footer_off, ret) : ret;
    if (o->hasher) {
        hr_shard_digest_begin(o->hasher, o->shard->record_count, schema);
        for (uint32_t i = 0; i < o->shard->stream_count; i++)
            hr_shard_digest_stream(o->hasher, o->shard->streams[i].codec,
                                   o->shard->streams[i].raw_bytes);
    }
    for (size_t i = 0; ret == 0 && i < o->footer->n_sections; i++)
        ret = read_section(o, o->footer->sections[i]);
    if (ret == 0)
        ret = hr_hrs_check_index(o);
    if (ret == HR_E_CORRUPT && o->err && o->err->offset < 0)
        return corrupt_at(o->err, o->shard->payload_end, ret);
    if (ret == 0)
        ret = check_digest(o, &trailer);
    if (ret == 0)
        hr_shard_count_totals(o->shard, schema);
    return ret;
}

int hr_hrs_index(int fd, const char *path, uint64_t file_bytes, bool want_digest,
                 struct hr_shard **out, struct hr_schema *schema, struct hr_error *err)
{
    struct hr_schema found = {.class_field = -1};
    struct hr_shard *shard = hr_alloc_zero(1, sizeof(*shard));
    struct hr_hrs_opening o = {
        .fd = fd, .file_bytes = file_bytes, .err = err, .shard = shard, .schema = &found};
    Headrace__Footer *footer = NULL;
    int ret = 0;

    if (want_digest)
        o.hasher = hr_hasher_create();
    if (!shard || (want_digest && !o.hasher)) {
        ret = hr_fail(err, HR_E_NOMEM, "no memory for the index");
    } else {
        shard->format = &hr_shard_format_hrs;
        shard->file_bytes = file_bytes;
        ret = open_shard(&o, &found, &footer);
    }
    if (footer)
        headrace__footer__free_unpacked(footer, NULL);
    hr_hasher_destroy(o.hasher);
    if (ret < 0) {
        hr_schema_finish(&found);
        hr_shard_close(shard);
        return ret;
    }
    *schema = found;
    *out = shard;
    return 0;
}
