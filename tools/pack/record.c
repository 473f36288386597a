/* Values of a record: reading, checking, measuring. */
#include "tools/pack/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <json-c/json.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "decoders/chain.h"
#include "decoders/rpng.h"
#include "tools/pack/kinds.h"
#include "tools/pack/npy.h"

/* A single value beyond this is taken for a mistake (a disk image in the folder). */
#define MAX_VALUE_BYTES (UINT64_C(16) << 30)

void hr_pack_record_init(struct hr_pack_record *record, uint32_t field_count)
{
    record->key[0] = 0;
    memset(record->values, 0, field_count * sizeof(record->values[0]));
    record->owned_count = 0;
    record->bytes = record->payload = record->owned_bytes = 0;
    record->renamed = record->resized = record->unresized = record->raw = 0;
    record->jpeg = (struct hr_jpeg_counts){0};
    record->png_repacked = record->png_kept = 0;
}

void hr_pack_record_finish(struct hr_pack_record *record)
{
    for (int i = 0; i < record->owned_count; i++)
        hr_free(record->owned[i]);
    record->owned_count = 0;
}

void hr_pack_record_free_scratch(struct hr_pack_record *record)
{
    if (record->scratch)
        record->scratch_free(record->scratch);
    record->scratch = NULL;
}

void *hr_pack_record_room(struct hr_pack_record *record, uint64_t bytes, struct hr_error *err)
{
    if (record->owned_count == (int)HR_ARRAY_SIZE(record->owned)) {
        hr_fail(err, HR_E_LIMIT, "more than %d values in a record", HR_MAX_FIELDS);
        return NULL;
    }
    uint8_t *room = hr_alloc(bytes + HR_CHAIN_PADDING);
    if (!room) {
        hr_fail(err, HR_E_LIMIT, "no memory for a value of %" PRIu64 " bytes", bytes);
        return NULL;
    }
    memset(room + bytes, 0, HR_CHAIN_PADDING);
    record->owned[record->owned_count++] = room;
    record->owned_bytes += bytes;
    return room;
}

/* Somebody writes it: what was read may be the beginning of one content and the end of another. */
static bool has_changed(int fd, const struct stat *before)
{
    struct stat now;

    return fstat(fd, &now) < 0 || now.st_size != before->st_size ||
           now.st_mtim.tv_sec != before->st_mtim.tv_sec || now.st_mtim.tv_nsec != before->st_mtim.tv_nsec;
}

static int read_open_file(struct hr_pack_record *record, int fd, const void **data, uint64_t *bytes,
                          struct hr_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return hr_fail_errno(err, errno, "cannot look at the file");
    if (!S_ISREG(st.st_mode))
        return hr_fail(err, HR_E_FORMAT, "not a regular file");
    if ((uint64_t)st.st_size > MAX_VALUE_BYTES)
        return hr_fail(err, HR_E_LIMIT, "%" PRIu64 " bytes; the limit for one value is %" PRIu64,
                       (uint64_t)st.st_size, MAX_VALUE_BYTES);
    void *room = hr_pack_record_room(record, (uint64_t)st.st_size, err);
    if (!room)
        return err->code;
    int ret = hr_fd_pread_full(fd, room, (size_t)st.st_size, 0, err);
    if (ret == 0 && has_changed(fd, &st)) {
        ret = hr_fail(err, HR_E_TRUNCATED, "the file changed while it was read");
        hr_error_hint(err, "pack it when nobody writes it any more");
    }
    if (ret < 0)
        return ret;
    *data = room;
    *bytes = (uint64_t)st.st_size;
    return 0;
}

int hr_pack_record_read(struct hr_pack_record *record, const char *path, const void **data,
                        uint64_t *bytes, struct hr_error *err)
{
    /* O_NONBLOCK: a pipe in the folder must not stop the run. */
    int fd = hr_fd_open(path, O_RDONLY | O_NONBLOCK, 0, err);
    if (fd < 0) {
        hr_fail_errno(err, err->sys_errno, "cannot open");
        hr_error_at_file(err, path, 0, 0);
        return err->code;
    }
    int ret = read_open_file(record, fd, data, bytes, err);
    if (ret < 0)
        hr_error_at_file(err, path, 0, 0);
    hr_fd_close(&fd);
    return ret;
}

static void put(struct hr_pack_record *record, uint32_t field, const void *data, uint64_t bytes,
                const struct hr_facts *facts)
{
    record->values[field] = (struct hr_value){
        .present = true, .data = data, .bytes = bytes, .original_bytes = bytes, .facts = *facts};
    record->bytes += bytes;
    record->payload += bytes;
}

/* The record's own copy of what a buffer holds. */
static void *own(struct hr_pack_record *record, const struct hr_buf *buf, struct hr_error *err)
{
    void *room = hr_pack_record_room(record, buf->used, err);

    if (room)
        memcpy(room, buf->data, buf->used);
    return room;
}

/* Makes the picture anew: smaller, or as its pixels. v gives and takes its bytes. */
static int reduce_image(const struct hr_intake *intake, struct hr_pack_record *record, struct hr_value *v,
                        struct hr_error *err)
{
    const struct hr_reduction *how = &intake->reduction;
    enum hr_reduced reduced = hr_media_reduction_of(how, v->data, v->bytes, &v->facts);
    struct hr_buf out = {0};
    int ret = 0;

    record->unresized += reduced == HR_REDUCED_NEVER;
    if (!how->raw && reduced != HR_REDUCED_SIZE)
        return 0;
    ret = hr_media_reduce(how, v->data, v->bytes, &v->facts, &out, err);
    if (ret == 0) {
        record->payload += out.used - v->bytes;
        v->data = own(record, &out, err);
        v->bytes = v->original_bytes = out.used;
        v->encoding = how->raw ? HR_ENCODING_RAW_PIXELS : HR_ENCODING_AS_IS;
        record->resized += reduced == HR_REDUCED_SIZE;
        record->raw += how->raw;
        ret = v->data ? 0 : err->code;
    }
    hr_buf_finish(&out);
    return ret;
}

static void count_repacked(struct hr_jpeg_counts *counts, uint64_t file_bytes, const struct hr_buf *packed)
{
    struct hr_rjpeg_info info = {0};

    counts->repacked++;
    counts->file_bytes += file_bytes;
    counts->stored_bytes += packed->used;
    if (hr_rjpeg_info(packed->data, packed->used, &info, NULL) == 0) {
        counts->progressive += info.progressive;
        counts->cmyk += info.components == 4;
    }
}

/* Stores a JPEG repacked where that gives back every byte and pixel, else as it is. */
static int repack_image(struct hr_pack_record *record, struct hr_value *v, struct hr_error *err)
{
    struct hr_buf packed = {0}, seek = {0};
    int ret = 0;

    int refused = hr_media_repack(v->data, v->bytes, &packed, &seek, NULL);
    if (refused < 0) {
        record->jpeg.kept[hr_rjpeg_refusal(v->data, v->bytes, refused)]++;
    } else {
        uint8_t *room = hr_pack_record_room(record, packed.used + seek.used, err);
        if (room) {
            memcpy(room, packed.data, packed.used);
            memcpy(room + packed.used, seek.data, seek.used);
            count_repacked(&record->jpeg, v->bytes, &packed);
            v->data = room;
            v->bytes = packed.used;
            v->encoding = HR_ENCODING_REPACKED_JPEG;
            v->seek = room + packed.used;
            v->seek_bytes = (uint32_t)seek.used;
        } else {
            ret = err->code;
        }
    }
    hr_buf_finish(&packed);
    hr_buf_finish(&seek);
    return ret;
}

/* Stores a PNG repacked where that gives back its samples and is worth it, else as it is. */
static int repack_png(struct hr_pack_record *record, struct hr_value *v, struct hr_error *err)
{
    struct hr_buf packed = {0};
    int ret = 0;

    if (hr_rpng_encode(v->data, v->bytes, &packed, NULL) < 0) {
        record->png_kept++;
    } else {
        v->data = own(record, &packed, err);
        v->bytes = packed.used;
        v->encoding = HR_ENCODING_REPACKED_PNG;
        record->png_repacked++;
        ret = v->data ? 0 : err->code;
    }
    hr_buf_finish(&packed);
    return ret;
}

static int put_image(const struct hr_intake *intake, struct hr_pack_record *record, uint32_t field,
                     const void *data, uint64_t bytes, const struct hr_facts *facts,
                     struct hr_error *err)
{
    struct hr_value *v = &record->values[field];
    int ret = 0;

    put(record, field, data, bytes, facts);
    if (intake->schema->fields[field].type == HR_FIELD_IMAGE)
        ret = reduce_image(intake, record, v, err);
    if (ret < 0 || v->encoding != HR_ENCODING_AS_IS)
        return ret;
    if (intake->repack_jpeg && v->facts.format == HR_MEDIA_JPEG)
        return repack_image(record, v, err);
    return intake->repack_png && v->facts.format == HR_MEDIA_PNG ? repack_png(record, v, err) : 0;
}

static int set_media(const struct hr_intake *intake, struct hr_pack_record *record, uint32_t field,
                     const void *data, uint64_t bytes, const char *name, bool may_move,
                     struct hr_error *err)
{
    const struct hr_schema *schema = intake->schema;
    const struct hr_kind *kind = hr_kind_of_name(name);
    enum hr_field_type wanted = schema->fields[field].type, type = wanted;
    enum hr_field_type content = hr_media_format_type(hr_media_sniff(data, bytes));
    struct hr_facts facts = {0};

    /* A picture under a recording's name, or the other way round. Containers hold sound or moving
     * pictures alike: those two are told apart by measuring only. */
    if (content != HR_FIELD_NONE && (content == HR_FIELD_IMAGE) != (wanted == HR_FIELD_IMAGE)) {
        int other = may_move ? hr_schema_find(schema, hr_field_type_name(content)) : -1;
        if (other < 0 || schema->fields[other].type != content)
            return hr_fail(err, HR_E_FORMAT, "content is %s (%s), not %s", hr_kind_noun(content),
                           hr_media_format_name(hr_media_sniff(data, bytes)), hr_kind_noun(wanted));
        field = (uint32_t)other;
        wanted = content;
    }
    int ret = hr_media_measure(data, bytes, wanted, intake->verify_media, &type, &facts, err);
    if (ret == HR_E_FORMAT && may_move && wanted == HR_FIELD_VIDEO) {
        /* A clip without pictures is a recording. */
        int audio = hr_schema_find(schema, hr_field_type_name(HR_FIELD_AUDIO));
        if (audio >= 0 && hr_media_measure(data, bytes, HR_FIELD_AUDIO, intake->verify_media, &type,
                                           &facts, NULL) == 0) {
            field = (uint32_t)audio;
            record->renamed++;
            ret = 0;
        }
    }
    if (ret < 0)
        return ret;
    if (kind && kind->format != HR_MEDIA_UNKNOWN && (uint32_t)kind->format != facts.format)
        record->renamed++;
    return put_image(intake, record, field, data, bytes, &facts, err);
}

static int set_text(struct hr_pack_record *record, uint32_t field, const void *data, uint64_t bytes,
                    struct hr_error *err)
{
    const uint8_t *text = data;
    struct hr_facts facts = {0};
    size_t good = hr_utf8_valid_prefix(data, bytes);

    if (good < bytes) {
        hr_fail(err, HR_E_FORMAT, "text is not UTF-8: byte 0x%02X at offset %zu", text[good], good);
        hr_error_hint(err, "convert it first: iconv -f ISO-8859-1 -t UTF-8");
        return err->code;
    }
    for (uint64_t i = 0; i < bytes; i++)
        facts.items += (text[i] & 0xc0) != 0x80;
    put(record, field, data, bytes, &facts);
    return 0;
}

static int set_tensor(const struct hr_intake *intake, struct hr_pack_record *record, uint32_t field,
                      const void *data, uint64_t bytes, struct hr_error *err)
{
    enum hr_dtype wanted = intake->schema->fields[field].dtype;
    struct hr_facts facts = {0};
    struct hr_npy npy;

    int ret = hr_npy_parse(data, bytes, bytes, &npy, err);
    if (ret < 0)
        return ret;
    if (npy.dtype != wanted)
        return hr_fail(err, HR_E_FORMAT, "array of %s; the others are %s",
                       hr_dtype_name(npy.dtype), hr_dtype_name(wanted));
    facts.dtype = npy.dtype;
    facts.dims = npy.dims;
    memcpy(facts.shape, npy.shape, sizeof(facts.shape));
    put(record, field, (const uint8_t *)data + npy.data_off, npy.data_bytes, &facts);
    return 0;
}

static int set_json(struct hr_pack_record *record, uint32_t field, const void *data, uint64_t bytes,
                    struct hr_error *err)
{
    struct json_tokener *tok = json_tokener_new_ex(128);

    if (!tok)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    /* The terminating NUL (from the padding) tells a lone number that it has ended. */
    int length = bytes < INT32_MAX ? (int)bytes + 1 : -1;
    struct json_object *object = length < 0 ? NULL : json_tokener_parse_ex(tok, data, length);
    enum json_tokener_error why = json_tokener_get_error(tok);
    size_t at = json_tokener_get_parse_end(tok);
    json_object_put(object);
    json_tokener_free(tok);
    if (length < 0)
        return hr_fail(err, HR_E_LIMIT, "JSON of %" PRIu64 " bytes", bytes);
    if (why != json_tokener_success) {
        hr_fail(err, HR_E_FORMAT, "not JSON: %s", json_tokener_error_desc(why));
        err->offset = (int64_t)at;
        return err->code;
    }
    hr_pack_record_set_bytes(record, field, data, bytes);
    return 0;
}

/* The number in a .cls file, as `echo 7 > x.cls` writes it. */
static int set_i64_text(struct hr_pack_record *record, uint32_t field, const char *text,
                        uint64_t bytes, struct hr_error *err)
{
    char copy[32], *end;

    while (bytes && strchr(" \t\r\n", text[bytes - 1]))
        bytes--;
    if (bytes == 0 || bytes >= sizeof(copy))
        return hr_fail(err, HR_E_FORMAT, "not a whole number");
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    errno = 0;
    long long v = strtoll(copy, &end, 10);
    if (*end || errno)
        return hr_fail(err, HR_E_FORMAT, "not a whole number: '%s'", copy);
    hr_pack_record_set_i64(record, field, v);
    return 0;
}

static int set_value(const struct hr_intake *intake, struct hr_pack_record *record, uint32_t field,
                     const void *data, uint64_t bytes, const char *name, bool may_move,
                     struct hr_error *err)
{
    switch (intake->schema->fields[field].type) {
    case HR_FIELD_IMAGE:
    case HR_FIELD_VIDEO:
    case HR_FIELD_AUDIO:
        return set_media(intake, record, field, data, bytes, name, may_move, err);
    case HR_FIELD_TEXT:
        return set_text(record, field, data, bytes, err);
    case HR_FIELD_TENSOR:
        return set_tensor(intake, record, field, data, bytes, err);
    case HR_FIELD_JSON:
        return set_json(record, field, data, bytes, err);
    case HR_FIELD_I64:
        return set_i64_text(record, field, data, bytes, err);
    case HR_FIELD_STR:
        return hr_pack_record_set_str(record, field, data, bytes, err);
    default:
        hr_pack_record_set_bytes(record, field, data, bytes);
        return 0;
    }
}

void hr_pack_record_set_bytes(struct hr_pack_record *record, uint32_t field, const void *data,
                              uint64_t bytes)
{
    static const struct hr_facts none;

    put(record, field, data, bytes, &none);
}

void hr_pack_record_set_array(struct hr_pack_record *record, uint32_t field, const void *data, uint64_t bytes,
                              const struct hr_facts *facts)
{
    put(record, field, data, bytes, facts);
}

int hr_pack_record_set(const struct hr_intake *intake, struct hr_pack_record *record, uint32_t field,
                       const void *data, uint64_t bytes, const char *name, bool may_move,
                       struct hr_error *err)
{
    int ret = set_value(intake, record, field, data, bytes, name, may_move, err);

    if (ret < 0 && !err->file[0])
        hr_error_at_file(err, name, 0, 0);
    return ret;
}

void hr_pack_record_set_i64(struct hr_pack_record *record, uint32_t field, int64_t v)
{
    record->values[field] = (struct hr_value){.present = true, .i64 = v};
}

void hr_pack_record_set_f64(struct hr_pack_record *record, uint32_t field, double v)
{
    record->values[field] = (struct hr_value){.present = true, .f64 = v};
}

int hr_pack_record_set_str(struct hr_pack_record *record, uint32_t field, const char *s,
                           uint64_t bytes, struct hr_error *err)
{
    if (bytes >= HR_STR_BYTES)
        return hr_fail(err, HR_E_LIMIT, "%" PRIu64 " bytes; a short string has at most %d", bytes,
                       HR_STR_BYTES - 1);
    record->values[field] = (struct hr_value){.present = true, .data = s, .bytes = bytes};
    return 0;
}
