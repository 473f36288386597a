/* Any bytes as a shard: opened, asked for everything, every value read, and verified. Behind a byte of
 * flags comes the file as it is, or its footer (two bytes of length first) and what lies between header
 * and footer; of those a file is made whose places and checksums are right, so that lies get past them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "shards/hrs_index.h"
#include "shards/proto.h"
#include "shards/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { AS_IS = 1, OWN_PLACES = 2, OWN_CHECKSUMS = 4, OWN_DIGEST = 8 };
enum { MAX_RECORDS = 300, MAX_VERIFIED = 100000 };

static int fd = -1;
static char path[64];

static void write_file(const void *data, size_t bytes)
{
    if (fd < 0) {
        fd = memfd_create("shard", MFD_CLOEXEC);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) < 0 || hr_fd_pwrite_full(fd, data, bytes, 0, NULL) < 0)
        abort();
}

/* ---- making a file of footer and body ---- */

/* Sections one after the other up to the footer, where they fit; and their checksums. */
static void repair_sections(Headrace__Footer *m, const uint8_t *file, uint64_t footer_off, unsigned flags)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < m->n_sections; i++)
        if (!hr_add_u64(sum, m->sections[i]->stored_bytes, &sum))
            return;
    uint64_t at = sum <= footer_off ? footer_off - sum : footer_off;
    for (size_t i = 0; i < m->n_sections; i++) {
        Headrace__Section *s = m->sections[i];
        if (!(flags & OWN_PLACES)) {
            s->offset = at;
            at += s->stored_bytes;
        }
        if (!(flags & OWN_CHECKSUMS) && s->offset <= footer_off && s->stored_bytes <= footer_off - s->offset)
            s->checksum = hr_hash64(file + s->offset, s->stored_bytes, 0);
    }
}

static void add_section_to_digest(struct hr_hasher *hasher, const Headrace__Section *s, const uint8_t *file)
{
    uint8_t *raw = hr_alloc(s->raw_bytes);
    const uint8_t *stored = file + s->offset;

    if (s->codec == HRS_PLAIN || (raw && hr_section_expand(s->codec, stored, s->stored_bytes, s->width, raw,
                                                           s->raw_bytes, NULL) == 0))
        hr_shard_digest_section(hasher, s->kind, s->owner, s->item, s->flags, s->width, s->count,
                                s->codec == HRS_PLAIN ? stored : raw, s->raw_bytes);
    hr_free(raw);
}

/* Of a file that can be opened without one. */
static struct hr_digest digest_of(const Headrace__Footer *m, const uint8_t *file)
{
    struct hr_hasher *hasher = hr_hasher_create();
    struct hr_digest digest = {{0}};
    struct hr_schema schema;
    struct hr_shard *shard;

    if (hr_shard_open(path, false, &shard, &schema, NULL) == 0) {
        hr_shard_digest_begin(hasher, shard->record_count, &schema);
        for (uint32_t i = 0; i < shard->stream_count; i++)
            hr_shard_digest_stream(hasher, shard->streams[i].codec, shard->streams[i].raw_bytes);
        for (size_t i = 0; i < m->n_sections; i++)
            add_section_to_digest(hasher, m->sections[i], file);
        digest = hr_hasher_digest(hasher);
        hr_shard_close(shard);
        hr_schema_finish(&schema);
    }
    hr_hasher_destroy(hasher);
    return digest;
}

static void write_made(const Headrace__Footer *m, uint8_t *file, uint64_t footer_off, unsigned flags)
{
    struct hrs_trailer trailer = {.version = HRS_VERSION, .footer_off = footer_off};
    uint8_t *tail = file + footer_off;

    trailer.footer_bytes = headrace__footer__pack(m, tail);
    tail += trailer.footer_bytes;
    trailer.footer_checksum = hr_checksum(file + footer_off, trailer.footer_bytes);
    trailer.file_bytes = footer_off + trailer.footer_bytes + HRS_TRAILER_BYTES;
    for (int digested = 0; digested < (flags & OWN_DIGEST ? 1 : 2); digested++) {
        if (digested)
            trailer.digest = digest_of(m, file);
        hr_hrs_trailer_store(&trailer, tail);
        write_file(file, trailer.file_bytes);
    }
}

/* False: the footer is no message. */
static bool make_file(const uint8_t *data, size_t bytes, unsigned flags)
{
    size_t footer_bytes = bytes < 2 ? 0 : hr_load_le16(data);
    struct hrs_header header = {.version = HRS_VERSION};

    if (bytes < 2 || footer_bytes > bytes - 2)
        return false;
    Headrace__Footer *m = headrace__footer__unpack(NULL, footer_bytes, data + 2);
    if (!m)
        return false;
    if (m->uuid.len)
        memcpy(header.uuid, m->uuid.data, m->uuid.len < 16 ? m->uuid.len : 16);
    uint64_t body_bytes = bytes - 2 - footer_bytes, footer_off = HRS_HEADER_BYTES + body_bytes;
    /* Places and checksums take up to 20 bytes more than they may have had. */
    uint8_t *file = malloc(footer_off + footer_bytes + 24 * m->n_sections + 4096 + HRS_TRAILER_BYTES);
    hr_hrs_header_store(&header, file);
    memcpy(file + HRS_HEADER_BYTES, data + 2 + footer_bytes, body_bytes);
    repair_sections(m, file, footer_off, flags);
    if (headrace__footer__get_packed_size(m) <= footer_bytes + 24 * m->n_sections + 4096)
        write_made(m, file, footer_off, flags);
    free(file);
    headrace__footer__free_unpacked(m, NULL);
    return true;
}

/* ---- reading it ---- */

static volatile uint64_t sink;

static void touch(const void *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        sink += ((const uint8_t *)p)[i];
}

static void read_field(const struct hr_dataset *d, uint64_t record, uint32_t field)
{
    struct hr_value_place place;
    struct hr_scalar scalar;
    struct hr_facts facts;
    struct hr_error err = HR_ERROR_INIT;
    uint64_t bytes;
    void *data;

    hr_dataset_facts(d, record, field, &facts);
    sink += hr_dataset_value_bytes(d, record, field) + hr_dataset_original_bytes(d, record, field);
    if (hr_field_type_is_scalar(hr_dataset_schema(d)->fields[field].type)) {
        hr_dataset_scalar(d, record, field, &scalar);
        touch(scalar.str, scalar.str_bytes);
        return;
    }
    hr_dataset_locate(d, record, field, &place);
    if (place.present)
        touch(place.seek, place.seek_bytes);
    int ret = hr_dataset_read_value(d, record, field, &data, &bytes, &err);
    if (ret == 0) {
        touch(data, bytes);
        hr_free(data);
    } else if (err.code != ret || !err.text[0]) {
        abort();
    }
}

/* The first records and the last ones. */
static void read_all(const struct hr_dataset *d)
{
    uint64_t count = hr_dataset_record_count(d), n = hr_min_u64(count, MAX_RECORDS);

    for (uint64_t i = 0; i < n; i++) {
        uint64_t record = i < n / 2 ? i : count - n + i;
        uint32_t bytes;
        touch(hr_dataset_key(d, record, &bytes), bytes);
        for (uint32_t f = 0; f < hr_dataset_schema(d)->field_count; f++)
            read_field(d, record, f);
    }
}

static void verify(void)
{
    const struct hr_verify_options options = {.threads = 1};
    struct hr_verify_result result;

    if (hr_dataset_verify(path, NULL, &options, &result, NULL) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_dataset *d = NULL;

    if (bytes == 0)
        return 0;
    if (data[0] & AS_IS)
        write_file(data + 1, bytes - 1);
    else if (!make_file(data + 1, bytes - 1, data[0]))
        return 0;
    int ret = hr_dataset_open(path, NULL, &d, &err);
    if (ret < 0 && (err.code != ret || !err.text[0]))
        abort();
    if (ret == 0) {
        read_all(d);
        if (hr_dataset_record_count(d) <= MAX_VERIFIED)
            verify();
    }
    hr_dataset_close(d);
    return 0;
}
