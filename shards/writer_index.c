/* The index of a shard that is written: the columns as sections behind the payload, each compressed where
 * that helps, and the footer that lists them (docs/formats/hrs.md). */
#include "writer_parts.h"

#include "base/mem.h"
#include "proto.h"

static Headrace__Section *new_section(struct hr_shard_writer *w)
{
    Headrace__Section *grown = hr_array_grow(w->sections, w->section_count, &w->section_cap, 64,
                                             sizeof(*grown));
    if (!grown)
        return NULL;
    w->sections = grown;
    headrace__section__init(&w->sections[w->section_count]);
    return &w->sections[w->section_count++];
}

struct section_head {
    unsigned kind, owner, item, flags, width;
};

static int write_section(struct hr_shard_writer *w, struct section_head head, uint64_t count,
                         const void *raw, uint64_t raw_bytes, struct hr_error *err)
{
    Headrace__Section *s = new_section(w);
    struct hr_buf packed = {0};
    unsigned codec = HRS_PLAIN;

    if (!s)
        return hr_fail(err, HR_E_NOMEM, "no memory for the index");
    /* Checksums do not compress. */
    if (head.kind != HRS_CHECKSUMS && head.kind != HRS_EXTENT_CHECKSUMS)
        hr_section_compress(raw, raw_bytes, head.width, &packed, &codec);
    s->kind = head.kind;
    s->owner = head.owner;
    s->item = head.item;
    s->flags = head.flags;
    s->codec = codec;
    s->width = head.width;
    s->count = count;
    s->offset = w->pos;
    s->raw_bytes = raw_bytes;
    s->stored_bytes = codec == HRS_PLAIN ? raw_bytes : packed.used;
    const void *stored = codec == HRS_PLAIN ? raw : packed.data;
    s->checksum = hr_hash64(stored, s->stored_bytes, 0);
    hr_shard_digest_section(w->hasher, head.kind, head.owner, head.item, head.flags, head.width,
                            count, raw, raw_bytes);
    int ret = hr_writer_append(w, stored, s->stored_bytes, err);
    hr_buf_finish(&packed);
    return ret;
}

static int write_column(struct hr_shard_writer *w, unsigned kind, unsigned owner, unsigned item,
                        const struct hr_column_builder *b, struct hr_error *err)
{
    struct section_head head = {.kind = kind, .owner = owner, .item = item, .width = b->width};

    if (b->failed)
        return hr_fail(err, HR_E_NOMEM, "no memory for the index");
    if (b->count == 0)
        return 0;
    if (b->width > 0)
        return write_section(w, head, b->count, b->data, b->count * b->width, err);
    head.flags = HRS_SECTION_CONSTANT;
    head.width = hr_column_width_of(b->first);
    if (head.width < b->min_width)
        head.width = b->min_width;
    return write_section(w, head, 1, &b->first, head.width, err);
}

static int write_strings(struct hr_shard_writer *w, unsigned kind, unsigned owner,
                         const struct hr_column_builder *lengths, const struct hr_buf *data,
                         struct hr_error *err)
{
    struct section_head head = {.kind = kind + 1, .owner = owner};

    if (hr_buf_failed(data))
        return hr_fail(err, HR_E_NOMEM, "no memory for the index");
    if (hr_column_is_zero(lengths))
        return 0;
    int ret = write_column(w, kind, owner, 0, lengths, err);
    return ret < 0 ? ret : write_section(w, head, 0, data->data, data->used, err);
}

static int write_payload_columns(struct hr_shard_writer *w, uint32_t i, struct hr_error *err)
{
    struct field_writer *f = &w->fields[i];
    int ret = write_column(w, HRS_LENGTHS, i, 0, &f->lengths, err);

    if (ret == 0)
        ret = write_column(w, HRS_CHECKSUMS, i, 0, &f->checksums, err);
    if (ret == 0 && !hr_column_is_zero(&f->encodings))
        ret = write_column(w, HRS_ENCODINGS, i, 0, &f->encodings, err);
    if (ret == 0 && f->any_original)
        ret = write_column(w, HRS_ORIGINAL_BYTES, i, 0, &f->original_bytes, err);
    for (unsigned k = 1; ret == 0 && k < HRS_FACT_COUNT; k++)
        if (!hr_column_is_zero(&f->facts[k]))
            ret = write_column(w, HRS_FACT, i, k, &f->facts[k], err);
    return ret < 0 ? ret
                   : write_strings(w, HRS_SEEK_LENGTHS, i, &f->seek_lengths, &f->seek_data, err);
}

static int write_field(struct hr_shard_writer *w, uint32_t i, struct hr_error *err)
{
    struct field_writer *f = &w->fields[i];
    struct section_head presence = {.kind = HRS_PRESENCE, .owner = i};
    enum hr_field_type type = w->schema.fields[i].type;
    int ret = 0;

    if (hr_buf_failed(&f->presence))
        return hr_fail(err, HR_E_NOMEM, "no memory for the index");
    if (f->any_absent)
        ret = write_section(w, presence, 0, f->presence.data, f->presence.used, err);
    if (ret < 0)
        return ret;
    if (type == HR_FIELD_STR)
        return write_strings(w, HRS_STR_LENGTHS, i, &f->str_lengths, &f->str_data, err);
    return hr_field_type_is_scalar(type) ? write_column(w, HRS_SCALAR, i, 0, &f->scalar, err)
                                         : write_payload_columns(w, i, err);
}

static int write_extents(struct hr_shard_writer *w, unsigned owner, enum hr_codec codec,
                         struct hr_error *err)
{
    struct stream_writer *s = &w->streams[codec];
    int ret = write_column(w, HRS_EXTENT_RAW, owner, 0, &s->extent_raw_col, err);

    if (ret == 0)
        ret = write_column(w, HRS_EXTENT_OFFSETS, owner, 0, &s->extent_offsets, err);
    if (ret == 0)
        ret = write_column(w, HRS_EXTENT_STORED, owner, 0, &s->extent_stored, err);
    if (ret == 0 && codec != HR_CODEC_NONE)
        ret = write_column(w, HRS_EXTENT_CHECKSUMS, owner, 0, &s->extent_checksums, err);
    return ret;
}

int hr_writer_index(struct hr_shard_writer *w, struct hr_error *err)
{
    int ret = 0;
    unsigned stream = 0;

    hr_shard_digest_begin(w->hasher, w->records, &w->schema);
    for (unsigned codec = 0; codec < HR_WRITER_STREAMS; codec++)
        if (w->streams[codec].used)
            hr_shard_digest_stream(w->hasher, codec, w->streams[codec].raw_bytes);
    ret = write_strings(w, HRS_KEY_LENGTHS, 0, &w->key_lengths, &w->key_data, err);
    for (uint32_t i = 0; ret == 0 && i < w->schema.field_count; i++)
        ret = write_field(w, i, err);
    for (unsigned codec = 0; ret == 0 && codec < HR_WRITER_STREAMS; codec++)
        if (w->streams[codec].used)
            ret = write_extents(w, stream++, (enum hr_codec)codec, err);
    return ret;
}

int hr_writer_footer(struct hr_shard_writer *w, const uint8_t uuid[16], struct hrs_trailer *trailer,
                     struct hr_error *err)
{
    Headrace__Footer m = HEADRACE__FOOTER__INIT;
    Headrace__Stream streams[HR_WRITER_STREAMS], *stream_ptrs[HR_WRITER_STREAMS];
    Headrace__Section **sections = hr_alloc_zero(w->section_count, sizeof(*sections));
    uint8_t *packed = NULL;
    int ret = hr_fail(err, HR_E_NOMEM, "no memory for the footer");

    m.schema = hr_proto_schema_create(&w->schema);
    if (!sections || !m.schema)
        goto out;
    m.format = HRS_VERSION;
    m.uuid = (ProtobufCBinaryData){.len = 16, .data = (uint8_t *)uuid};
    m.record_count = w->records;
    for (unsigned codec = 0; codec < HR_WRITER_STREAMS; codec++) {
        Headrace__Stream *s = &streams[m.n_streams];
        if (!w->streams[codec].used)
            continue;
        headrace__stream__init(s);
        s->codec = codec;
        s->raw_bytes = w->streams[codec].raw_bytes;
        s->extent_count = w->streams[codec].extent_raw_col.count;
        stream_ptrs[m.n_streams++] = s;
    }
    m.streams = stream_ptrs;
    for (uint32_t i = 0; i < w->section_count; i++)
        sections[i] = &w->sections[i];
    m.sections = sections;
    m.n_sections = w->section_count;
    trailer->footer_off = w->pos;
    trailer->footer_bytes = headrace__footer__get_packed_size(&m);
    if (trailer->footer_bytes > HRS_MAX_FOOTER_BYTES) {
        ret = hr_fail(err, HR_E_LIMIT, "the class names take more than %d bytes",
                      HRS_MAX_FOOTER_BYTES);
        goto out;
    }
    packed = hr_alloc(trailer->footer_bytes);
    if (!packed)
        goto out;
    headrace__footer__pack(&m, packed);
    trailer->footer_checksum = hr_checksum(packed, trailer->footer_bytes);
    ret = hr_writer_append(w, packed, trailer->footer_bytes, err);
out:
    hr_proto_schema_destroy(m.schema);
    hr_free(sections);
    hr_free(packed);
    return ret;
}
