/* Writing one shard: values go to the file as they come (or into their stream's block), the index
 * grows in memory as columns and follows at commit (docs/formats/hrs.md). */
#include "shards/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <lz4hc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "writer_check.h"
#include "writer_parts.h"

enum { BUFFER_BYTES = 1 << 20 };

static void writer_destroy(struct hr_shard_writer *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; w->fields && i < w->schema.field_count; i++) {
        struct field_writer *f = &w->fields[i];
        hr_buf_finish(&f->presence);
        hr_buf_finish(&f->str_data);
        hr_buf_finish(&f->seek_data);
        hr_column_builder_finish(&f->lengths);
        hr_column_builder_finish(&f->checksums);
        hr_column_builder_finish(&f->encodings);
        hr_column_builder_finish(&f->original_bytes);
        hr_column_builder_finish(&f->scalar);
        hr_column_builder_finish(&f->str_lengths);
        hr_column_builder_finish(&f->seek_lengths);
        for (int k = 0; k < HRS_FACT_COUNT; k++)
            hr_column_builder_finish(&f->facts[k]);
    }
    for (int i = 0; i < HR_WRITER_STREAMS; i++) {
        hr_buf_finish(&w->streams[i].block);
        hr_column_builder_finish(&w->streams[i].extent_raw_col);
        hr_column_builder_finish(&w->streams[i].extent_offsets);
        hr_column_builder_finish(&w->streams[i].extent_stored);
        hr_column_builder_finish(&w->streams[i].extent_checksums);
    }
    hr_column_builder_finish(&w->key_lengths);
    hr_buf_finish(&w->key_data);
    hr_hasher_destroy(w->hasher);
    hr_schema_finish(&w->schema);
    hr_fd_close(&w->fd);
    hr_free(w->fields);
    hr_free(w->sections);
    hr_free(w->buffer);
    hr_free(w->path);
    hr_free(w->tmp);
    hr_free(w);
}

/* ---- the file ---- */

static int flush_buffer(struct hr_shard_writer *w, struct hr_error *err)
{
    int ret = hr_fd_pwrite_full(w->fd, w->buffer, w->buffered, w->pos - w->buffered, err);

    if (ret == 0)
        w->buffered = 0;
    return ret;
}

int hr_writer_append(struct hr_shard_writer *w, const void *data, uint64_t bytes, struct hr_error *err)
{
    int ret = 0;

    if (bytes > BUFFER_BYTES - w->buffered)
        ret = flush_buffer(w, err);
    if (ret == 0 && bytes >= BUFFER_BYTES / 2) {
        ret = flush_buffer(w, err);
        if (ret == 0)
            ret = hr_fd_pwrite_full(w->fd, data, bytes, w->pos, err);
    } else if (ret == 0 && bytes > 0) {
        memcpy(w->buffer + w->buffered, data, bytes);
        w->buffered += bytes;
    }
    if (ret == 0)
        w->pos += bytes;
    return ret;
}

static int append_zeros(struct hr_shard_writer *w, uint64_t bytes, struct hr_error *err)
{
    static const uint8_t zeros[HRS_ALIGN];

    HR_ASSERT(bytes < HRS_ALIGN);
    return hr_writer_append(w, zeros, bytes, err);
}

static int create_file(struct hr_shard_writer *w, const char *path, struct hr_error *err)
{
    uint8_t header[HRS_HEADER_BYTES] = {0}; /* the real one follows at commit */

    w->path = hr_strdup(path);
    w->tmp = hr_asprintf("%s.tmp", path);
    w->buffer = hr_alloc(BUFFER_BYTES);
    w->hasher = hr_hasher_create();
    if (!w->path || !w->tmp || !w->buffer || !w->hasher)
        return hr_fail(err, HR_E_NOMEM, "no memory to write a shard");
    w->fd = hr_fd_open(w->tmp, O_RDWR | O_CREAT | O_TRUNC, 0666, err);
    if (w->fd < 0)
        return w->fd;
    return hr_writer_append(w, header, sizeof(header), err);
}

int hr_shard_writer_open(const char *path, const struct hr_schema *schema,
                         const struct hr_shard_writer_options *options,
                         struct hr_shard_writer **out, struct hr_error *err)
{
    struct hr_shard_writer *w;
    int ret = hr_schema_check(schema, err);

    if (ret < 0)
        return ret;
    w = hr_alloc_zero(1, sizeof(*w));
    if (!w)
        return hr_fail(err, HR_E_NOMEM, "no memory to write a shard");
    w->fd = -1;
    if (options)
        w->options = *options;
    if (w->options.block_bytes == 0)
        w->options.block_bytes = HRS_BLOCK_BYTES;
    w->options.block_bytes = (uint32_t)hr_min_u64(w->options.block_bytes, HRS_MAX_BLOCK_BYTES);
    ret = hr_schema_copy(&w->schema, schema, err);
    if (ret < 0)
        goto fail;
    w->fields = hr_alloc_zero(schema->field_count, sizeof(*w->fields));
    if (!w->fields) {
        ret = hr_fail(err, HR_E_NOMEM, "no memory to write a shard");
        goto fail;
    }
    for (uint32_t i = 0; i < schema->field_count; i++) {
        w->fields[i].checksums.min_width = 4;
        w->fields[i].checksums.never_constant = true;
        if (schema->fields[i].type == HR_FIELD_F64)
            w->fields[i].scalar.min_width = 8;
        if (!hr_field_type_is_scalar(schema->fields[i].type))
            w->streams[schema->fields[i].codec].used = true;
    }
    ret = create_file(w, path, err);
    if (ret < 0)
        goto fail;
    *out = w;
    return 0;
fail:
    hr_shard_writer_abort(w);
    return ret;
}

/* ---- payload ---- */

static void close_extent(struct stream_writer *s, uint64_t stored, uint32_t checksum)
{
    hr_column_push(&s->extent_raw_col, s->extent_raw);
    hr_column_push(&s->extent_offsets, s->extent_off);
    hr_column_push(&s->extent_stored, stored);
    hr_column_push(&s->extent_checksums, checksum);
    s->extent_open = false;
}

static void close_plain_extent(struct hr_shard_writer *w)
{
    struct stream_writer *s = &w->streams[HR_CODEC_NONE];

    if (s->extent_open)
        close_extent(s, s->raw_bytes - s->extent_raw, 0);
}

static int add_plain(struct hr_shard_writer *w, const void *data, uint64_t bytes,
                     struct hr_error *err)
{
    struct stream_writer *s = &w->streams[HR_CODEC_NONE];
    uint64_t gap = hr_hrs_value_start(s->raw_bytes, bytes) - s->raw_bytes;
    int ret = 0;

    if (!s->extent_open) {
        /* File offset and raw offset agree modulo the alignment, so what is aligned in the stream
         * is aligned in the file. */
        ret = append_zeros(w, (s->raw_bytes - w->pos) & (HRS_ALIGN - 1), err);
        s->extent_open = true;
        s->extent_raw = s->raw_bytes;
        s->extent_off = w->pos;
    }
    if (ret == 0)
        ret = append_zeros(w, gap, err);
    if (ret == 0)
        ret = hr_writer_append(w, data, bytes, err);
    s->raw_bytes += gap + bytes;
    return ret;
}

/* Compresses what the block holds; stored as it is when that does not make it smaller. */
static int flush_block(struct hr_shard_writer *w, enum hr_codec codec, struct hr_error *err)
{
    struct stream_writer *s = &w->streams[codec];
    int raw = (int)s->block.used, bound = LZ4_compressBound(raw), n;
    char *packed;
    int ret;

    if (raw == 0)
        return 0;
    packed = hr_alloc((size_t)bound);
    if (!packed)
        return hr_fail(err, HR_E_NOMEM, "no memory for a block of %d bytes", raw);
    n = codec == HR_CODEC_LZ4HC
            ? LZ4_compress_HC((const char *)s->block.data, packed, raw, bound, LZ4HC_CLEVEL_DEFAULT)
            : LZ4_compress_default((const char *)s->block.data, packed, raw, bound);
    const void *stored = n > 0 && n < raw ? packed : (const char *)s->block.data;
    uint64_t stored_bytes = n > 0 && n < raw ? (uint64_t)n : (uint64_t)raw;
    close_plain_extent(w);
    s->extent_off = w->pos;
    close_extent(s, stored_bytes, hr_checksum(stored, stored_bytes));
    ret = hr_writer_append(w, stored, stored_bytes, err);
    hr_free(packed);
    if (s->block.cap > 4 * (size_t)w->options.block_bytes)
        hr_buf_finish(&s->block); /* do not keep the memory of a huge value */
    else
        hr_buf_reset(&s->block);
    return ret;
}

static int add_to_block(struct hr_shard_writer *w, enum hr_codec codec, const void *data,
                        uint64_t bytes, struct hr_error *err)
{
    struct stream_writer *s = &w->streams[codec];
    int ret = 0;

    if (s->block.used > 0 && s->block.used + bytes > w->options.block_bytes)
        ret = flush_block(w, codec, err);
    if (ret < 0)
        return ret;
    if (s->block.used == 0)
        s->extent_raw = s->raw_bytes;
    hr_buf_add(&s->block, data, bytes);
    if (hr_buf_failed(&s->block))
        return hr_fail(err, HR_E_NOMEM, "no memory for a block");
    s->raw_bytes += bytes;
    return s->block.used >= w->options.block_bytes ? flush_block(w, codec, err) : 0;
}

/* ---- index ---- */

static void set_presence(struct field_writer *f, uint64_t record, bool present)
{
    static const uint8_t zero;

    if (record % 8 == 0)
        hr_buf_add(&f->presence, &zero, 1);
    if (present && !hr_buf_failed(&f->presence))
        f->presence.data[record / 8] |= (uint8_t)(1u << record % 8);
    f->any_absent |= !present;
}

static void index_scalar(struct field_writer *f, enum hr_field_type type, const struct hr_value *v)
{
    uint64_t bits = 0;

    if (type == HR_FIELD_STR) {
        hr_column_push(&f->str_lengths, v->present ? v->bytes : 0);
        if (v->present)
            hr_buf_add(&f->str_data, v->data, v->bytes);
        return;
    }
    if (v->present && type == HR_FIELD_F64)
        memcpy(&bits, &v->f64, sizeof(bits));
    else if (v->present && type == HR_FIELD_BOOL)
        bits = v->i64 != 0;
    else if (v->present) /* zigzag: small magnitudes make small numbers */
        bits = (uint64_t)v->i64 << 1 ^ (uint64_t)(v->i64 >> 63);
    hr_column_push(&f->scalar, bits);
}

/* A fact that follows from the schema and the length is not stored. */
static bool fact_is_implied(const struct hr_schema_field *schema, unsigned fact)
{
    bool shape = fact == HRS_FACT_DIMS || (fact >= HRS_FACT_SHAPE && fact < HRS_FACT_SHAPE + HR_MAX_DIMS);

    if (schema->type == HR_FIELD_TOKENS)
        return fact == HRS_FACT_DTYPE || fact == HRS_FACT_ITEMS;
    return schema->type == HR_FIELD_TENSOR &&
           ((fact == HRS_FACT_DTYPE && schema->dtype != HR_DTYPE_NONE) ||
            (shape && schema->dims > 0));
}

static void index_value(struct field_writer *f, const struct hr_schema_field *schema,
                        const struct hr_value *v)
{
    uint64_t bytes = v->present ? v->bytes : 0;
    uint64_t original = v->present && v->original_bytes ? v->original_bytes : bytes;
    uint64_t seek = v->present && v->seek ? v->seek_bytes : 0;

    hr_column_push(&f->lengths, bytes);
    hr_column_push(&f->checksums, v->present ? hr_checksum(v->data, bytes) : 0);
    hr_column_push(&f->encodings, v->present ? v->encoding : 0);
    hr_column_push(&f->original_bytes, original);
    f->any_original |= original != bytes;
    hr_column_push(&f->seek_lengths, seek);
    hr_buf_add(&f->seek_data, v->seek, seek);
    for (unsigned k = 1; k < HRS_FACT_COUNT; k++)
        hr_column_push(&f->facts[k], v->present && !fact_is_implied(schema, k)
                                         ? hr_hrs_fact_get(&v->facts, k)
                                         : 0);
}

static int add_value(struct hr_shard_writer *w, uint32_t i, const struct hr_value *v,
                     struct hr_error *err)
{
    const struct hr_schema_field *schema = &w->schema.fields[i];
    struct field_writer *f = &w->fields[i];

    set_presence(f, w->records, v->present);
    if (hr_field_type_is_scalar(schema->type)) {
        index_scalar(f, schema->type, v);
        return 0;
    }
    index_value(f, schema, v);
    if (!v->present || v->bytes == 0)
        return 0;
    w->payload_bytes += v->bytes;
    return schema->codec == HR_CODEC_NONE ? add_plain(w, v->data, v->bytes, err)
                                          : add_to_block(w, schema->codec, v->data, v->bytes, err);
}

/* After a failed write the file is of no use: every later call says why. */
static int fail_writer(struct hr_shard_writer *w, int ret, struct hr_error *err)
{
    w->failed = ret;
    if (err) {
        hr_error_at_value(err, w->tmp, HR_NO_RECORD, NULL, -1);
        w->failure = *err;
    }
    return ret;
}

static int repeat_failure(const struct hr_shard_writer *w, struct hr_error *err)
{
    if (err && w->failure.code)
        *err = w->failure;
    else if (err)
        hr_fail(err, w->failed, "an earlier write failed");
    return w->failed;
}

int hr_shard_writer_add(struct hr_shard_writer *w, const char *key, const struct hr_value *values,
                        struct hr_error *err)
{
    int ret;

    if (w->failed)
        return repeat_failure(w, err);
    if (w->records == HRS_MAX_RECORDS)
        return hr_fail(err, HR_E_LIMIT, "a shard holds at most %llu records",
                       (unsigned long long)HRS_MAX_RECORDS);
    ret = hr_writer_check(&w->schema, key, values, w->records, err);
    if (ret < 0)
        return ret;
    for (uint32_t i = 0; ret == 0 && i < w->schema.field_count; i++)
        ret = add_value(w, i, &values[i], err);
    if (ret < 0)
        return fail_writer(w, ret, err);
    hr_column_push(&w->key_lengths, strlen(key));
    hr_buf_add_str(&w->key_data, key);
    w->records++;
    return 0;
}

/* ---- commit ---- */

/* Content decides the uuid, marked as version 8 (custom) of RFC 9562. */
static void make_uuid(const struct hr_shard_writer *w, const struct hr_digest *digest,
                      uint8_t uuid[16])
{
    static const uint8_t none[16];

    memcpy(uuid, w->options.uuid, 16);
    if (memcmp(uuid, none, 16) != 0)
        return;
    memcpy(uuid, digest->bytes, 16);
    uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80);
    uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

static int write_tail(struct hr_shard_writer *w, struct hr_shard_info *info, struct hr_error *err)
{
    struct hrs_header header = {.version = HRS_VERSION};
    struct hrs_trailer trailer = {.version = HRS_VERSION, .digest = hr_hasher_digest(w->hasher)};
    uint8_t bytes[HRS_TRAILER_BYTES];
    int ret;

    make_uuid(w, &trailer.digest, header.uuid);
    ret = hr_writer_footer(w, header.uuid, &trailer, err);
    if (ret < 0)
        return ret;
    trailer.file_bytes = w->pos + HRS_TRAILER_BYTES;
    hr_hrs_trailer_store(&trailer, bytes);
    ret = hr_writer_append(w, bytes, HRS_TRAILER_BYTES, err);
    if (ret == 0)
        ret = flush_buffer(w, err);
    hr_hrs_header_store(&header, bytes);
    if (ret == 0)
        ret = hr_fd_pwrite_full(w->fd, bytes, HRS_HEADER_BYTES, 0, err);
    info->bytes = trailer.file_bytes;
    info->digest = trailer.digest;
    return ret;
}

static int finish_file(struct hr_shard_writer *w, struct hr_error *err)
{
    const char *slash = strrchr(w->path, '/');
    char *dir;
    int ret;

    if (fsync(w->fd) < 0)
        return hr_fail_errno(err, errno, "cannot sync '%s'", w->tmp);
    if (rename(w->tmp, w->path) < 0)
        return hr_fail_errno(err, errno, "cannot rename '%s' to '%s'", w->tmp, w->path);
    dir = !slash ? hr_strdup(".") : hr_strndup(w->path, slash == w->path ? 1 : (size_t)(slash - w->path));
    if (!dir)
        return hr_fail(err, HR_E_NOMEM, "no memory for a path");
    ret = hr_fd_sync_dir(dir, err);
    hr_free(dir);
    return ret;
}

int hr_shard_writer_commit(struct hr_shard_writer *w, struct hr_shard_info *info,
                           struct hr_error *err)
{
    struct hr_shard_info done = {.record_count = w->records};
    const char *slash = strrchr(w->path, '/');
    int ret = w->failed ? repeat_failure(w, err) : 0;

    for (unsigned codec = HR_CODEC_LZ4; ret == 0 && codec < HR_WRITER_STREAMS; codec++)
        ret = flush_block(w, (enum hr_codec)codec, err);
    close_plain_extent(w);
    if (ret == 0)
        ret = hr_writer_index(w, err);
    if (ret == 0 && hr_buf_failed(&w->key_data))
        ret = hr_fail(err, HR_E_NOMEM, "no memory for the index");
    if (ret == 0)
        ret = write_tail(w, &done, err);
    if (ret == 0)
        ret = finish_file(w, err);
    if (ret < 0) {
        hr_error_at_value(err, w->path, HR_NO_RECORD, NULL, -1);
        hr_shard_writer_abort(w);
        return ret;
    }
    snprintf(done.name, sizeof(done.name), "%s", slash ? slash + 1 : w->path);
    if (info)
        *info = done;
    writer_destroy(w);
    return 0;
}

void hr_shard_writer_abort(struct hr_shard_writer *w)
{
    if (w && w->fd >= 0)
        unlink(w->tmp);
    writer_destroy(w);
}
