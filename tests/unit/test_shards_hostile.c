/* shards: a shard whose checksums are all right and whose content is a lie. Footers and columns are
 * changed and sealed again; the reader must refuse or cope, never crash, hang or take memory that the
 * file does not justify. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "hrs.pb-c.h"
#include "shards/dataset.h"
#include "shards/hrs_layout.h"
#include "shards/verify.h"
#include "shards/writer.h"

static char path[64];
static uint8_t *file; /* the honest shard */
static size_t file_bytes;

static void write_honest(uint64_t records, bool with_payload)
{
    struct hr_schema schema = {
        .fields = {{.name = "n", .type = HR_FIELD_I64},
                   {.name = "s", .type = HR_FIELD_STR},
                   {.name = "raw", .type = HR_FIELD_BYTES},
                   {.name = "text", .type = HR_FIELD_TEXT, .codec = HR_CODEC_LZ4},
                   {.name = "tensor", .type = HR_FIELD_TENSOR}},
        .field_count = with_payload ? 5 : 2,
        .class_field = -1,
    };
    static uint8_t big[70000];
    struct hr_shard_writer_options options = {.block_bytes = 2000};
    struct hr_shard_writer *w;

    assert_int_equal(hr_shard_writer_open(path, &schema, &options, &w, NULL), 0);
    for (uint64_t r = 0; r < records; r++) {
        struct hr_value v[5] = {
            {.present = r % 3 != 0, .i64 = (int64_t)r},
            {.present = true, .data = "tags", .bytes = r % 5},
            {.present = true, .data = big, .bytes = r == 7 ? sizeof(big) : r, .seek = "seek", .seek_bytes = r % 4},
            {.present = r % 4 != 0, .data = big, .bytes = 100 + r},
            {.present = true, .data = big, .bytes = 4 * (r % 6),
             .facts = {.dtype = HR_DTYPE_F32, .dims = 1, .shape = {r % 6}}}};
        assert_int_equal(hr_shard_writer_add(w, "key", v, NULL), 0);
    }
    assert_int_equal(hr_shard_writer_commit(w, NULL, NULL), 0);
    void *data;
    hr_free(file);
    assert_int_equal(hr_fd_read_file(path, 1 << 30, &data, &file_bytes, NULL), 0);
    file = data;
}

static int set_up(void **state)
{
    struct rlimit limit = {.rlim_cur = UINT64_C(2) << 30, .rlim_max = RLIM_INFINITY};

    (void)state;
    snprintf(path, sizeof(path), "/tmp/hr-hostile-%d.hrs", (int)getpid());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    setrlimit(RLIMIT_AS, &limit); /* an allocation the size of a lie fails here */
#else
    (void)limit;
#endif
    alarm(300);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    hr_free(file);
    return 0;
}

static Headrace__Footer *take_footer(void)
{
    const uint8_t *tail = file + file_bytes - HRS_TRAILER_BYTES;
    Headrace__Footer *m = headrace__footer__unpack(NULL, hr_load_le64(tail + 8), file + hr_load_le64(tail));

    assert_non_null(m);
    return m;
}

/* Writes body (header, payload, index) and the footer under a right trailer. */
static void seal(const uint8_t *body, const Headrace__Footer *m)
{
    const uint8_t *tail = file + file_bytes - HRS_TRAILER_BYTES;
    struct hrs_trailer t = {.version = HRS_VERSION, .footer_off = hr_load_le64(tail),
                            .footer_bytes = headrace__footer__get_packed_size(m)};
    size_t bytes = t.footer_off + t.footer_bytes + HRS_TRAILER_BYTES;
    uint8_t *out = malloc(bytes);

    memcpy(out, body, t.footer_off);
    headrace__footer__pack(m, out + t.footer_off);
    t.footer_checksum = hr_checksum(out + t.footer_off, t.footer_bytes);
    t.file_bytes = bytes;
    hr_hrs_trailer_store(&t, out + bytes - HRS_TRAILER_BYTES);
    unlink(path); /* a file that is truncated and written again is flushed at once by some systems */
    int fd = hr_fd_open(path, O_WRONLY | O_CREAT, 0600, NULL);
    assert_true(fd >= 0);
    assert_int_equal(hr_fd_write_full(fd, out, bytes, NULL), 0);
    hr_fd_close(&fd);
    free(out);
}

static void read_some(const struct hr_dataset *d)
{
    uint64_t n = hr_dataset_record_count(d);

    for (uint64_t i = 0; i < hr_min_u64(n, 600); i++) {
        uint64_t r = i < 300 ? i : n - 1 - (i - 300) % n;
        uint32_t bytes;
        hr_dataset_key(d, r % n, &bytes);
        for (uint32_t f = 0; f < hr_dataset_schema(d)->field_count; f++) {
            struct hr_scalar s;
            struct hr_facts facts;
            void *data;
            uint64_t count;
            hr_dataset_facts(d, r % n, f, &facts);
            if (hr_field_type_is_scalar(hr_dataset_schema(d)->fields[f].type))
                hr_dataset_scalar(d, r % n, f, &s);
            else if (hr_dataset_read_value(d, r % n, f, &data, &count, NULL) == 0)
                hr_free(data);
        }
    }
}

static int try_open(struct hr_error *err)
{
    struct hr_verify_options options = {.threads = 1};
    struct hr_verify_result result;
    struct hr_dataset *d;
    int ret = hr_dataset_open(path, NULL, &d, err);

    if (ret == 0) {
        read_some(d);
        if (hr_dataset_record_count(d) < 100000)
            assert_int_equal(hr_dataset_verify(path, NULL, &options, &result, NULL), 0);
        hr_dataset_close(d);
    }
    return ret;
}

static uint64_t odd_number(struct hr_rng *rng, uint64_t now)
{
    static const uint64_t odd[] = {0, 1, 2, 63, 255, 4096, 65536, UINT64_C(1) << 31, UINT64_C(1) << 32,
                                   UINT64_C(1) << 50, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 63};
    uint32_t k = hr_rng_below(rng, HR_ARRAY_SIZE(odd) + 4);

    switch (k) {
    case 0:
        return now + 1;
    case 1:
        return now - 1;
    case 2:
        return now * 2;
    case 3:
        return now + (UINT64_C(1) << 32);
    default:
        return odd[k - 4];
    }
}

static void spoil_section(struct hr_rng *rng, Headrace__Section *s)
{
    switch (hr_rng_below(rng, 9)) {
    case 0:
        s->kind = hr_rng_below(rng, 20);
        break;
    case 1:
        s->owner = (uint32_t)odd_number(rng, s->owner);
        break;
    case 2:
        s->item = (uint32_t)odd_number(rng, s->item);
        break;
    case 3:
        s->flags = hr_rng_below(rng, 8);
        break;
    case 4:
        s->codec = hr_rng_below(rng, 4);
        break;
    case 5:
        s->width = hr_rng_below(rng, 10);
        break;
    case 6:
        s->count = odd_number(rng, s->count);
        break;
    case 7:
        s->raw_bytes = s->width ? s->width * (s->count = odd_number(rng, s->count))
                                : odd_number(rng, s->raw_bytes);
        break;
    default:
        s->stored_bytes = odd_number(rng, s->stored_bytes);
        break;
    }
}

static void spoil_column(struct hr_rng *rng, uint8_t *body, Headrace__Section *s)
{
    if (s->stored_bytes == 0 || s->offset > file_bytes || s->stored_bytes > file_bytes - s->offset)
        return;
    for (uint32_t i = 0; i < 1 + hr_rng_below(rng, 3); i++) {
        uint8_t *p = body + s->offset + hr_rng_below(rng, (uint32_t)s->stored_bytes);
        *p = hr_rng_below(rng, 2) ? (uint8_t)hr_rng_u32(rng) : *p ^ (uint8_t)(1u << hr_rng_below(rng, 8));
    }
    s->checksum = hr_hash64(body + s->offset, s->stored_bytes, 0);
}

static void spoil(struct hr_rng *rng, uint8_t *body, Headrace__Footer *m)
{
    Headrace__Section *s = m->sections[hr_rng_below(rng, (uint32_t)m->n_sections)];
    Headrace__Stream *stream = m->n_streams ? m->streams[hr_rng_below(rng, (uint32_t)m->n_streams)] : NULL;
    Headrace__SchemaField *f = m->schema->fields[hr_rng_below(rng, (uint32_t)m->schema->n_fields)];

    switch (hr_rng_below(rng, 12)) {
    case 0:
        m->record_count = odd_number(rng, m->record_count);
        break;
    case 1:
        if (stream)
            stream->raw_bytes = odd_number(rng, stream->raw_bytes);
        break;
    case 2:
        if (stream)
            stream->extent_count = odd_number(rng, stream->extent_count);
        break;
    case 3:
        f->type = hr_rng_below(rng, 14);
        break;
    case 4:
        f->codec = hr_rng_below(rng, 4);
        break;
    case 5:
        f->dtype = hr_rng_below(rng, 16);
        break;
    case 6:
    case 7:
    case 8:
        spoil_section(rng, s);
        break;
    default:
        spoil_column(rng, body, s);
        break;
    }
}

static void spoiled_and_sealed_shards_do_no_harm(void **state)
{
    struct hr_rng rng;
    unsigned opened = 0;
    const int trials = 6000;

    (void)state;
    hr_rng_init(&rng, 11, 0, 0, 0);
    for (int trial = 0; trial < trials; trial++) {
        if (trial % (trials / 3) == 0)
            write_honest(trial ? 150 : 40, trial < trials * 2 / 3);
        Headrace__Footer *m = take_footer();
        uint8_t *body = malloc(file_bytes);
        memcpy(body, file, file_bytes);
        for (uint32_t k = 0; k <= hr_rng_below(&rng, 3); k++)
            spoil(&rng, body, m);
        seal(body, m);
        opened += try_open(NULL) == 0;
        free(body);
        headrace__footer__free_unpacked(m, NULL);
    }
    printf("# %u of %d spoiled shards could be opened\n", opened, trials);
}

static Headrace__Section *find(Headrace__Footer *m, unsigned kind, unsigned owner)
{
    for (size_t i = 0; i < m->n_sections; i++)
        if (m->sections[i]->kind == kind && m->sections[i]->owner == owner)
            return m->sections[i];
    fail_msg("no section %u of %u", kind, owner);
    return NULL;
}

static void refused(Headrace__Footer *m, const uint8_t *body, int code, const char *word)
{
    struct hr_error err = HR_ERROR_INIT;

    seal(body, m);
    assert_int_equal(try_open(&err), code);
    if (!strstr(err.text, word))
        fail_msg("'%s' does not say '%s'", err.text, word);
    assert_true(err.offset >= 0);
    headrace__footer__free_unpacked(m, NULL);
}

static void named_lies_are_refused(void **state)
{
    Headrace__Footer *m;
    uint8_t *body;

    (void)state;
    write_honest(200, true);
    body = malloc(file_bytes);
    memcpy(body, file, file_bytes);

    m = take_footer();
    m->record_count = UINT64_MAX;
    refused(m, body, HR_E_CORRUPT, "more records");
    m = take_footer();
    m->record_count = UINT64_C(1) << 31;
    refused(m, body, HR_E_CORRUPT, "wrong number of items");
    m = take_footer();
    m->streams[0]->raw_bytes += 1;
    refused(m, body, HR_E_CORRUPT, "stream 0");
    m = take_footer();
    find(m, HRS_LENGTHS, 3)->kind = 99;
    refused(m, body, HR_E_VERSION, "not known to this version");
    m = take_footer();
    find(m, HRS_CHECKSUMS, 3)->offset += 1;
    refused(m, body, HR_E_CORRUPT, "does not follow");
    /* an LZ4 block that lies where another one does */
    m = take_footer();
    Headrace__Section *s = find(m, HRS_EXTENT_OFFSETS, 1);
    assert_int_equal(s->codec, HRS_PLAIN);
    memcpy(body + s->offset + s->width, body + s->offset, s->width);
    s->checksum = hr_hash64(body + s->offset, s->stored_bytes, 0);
    refused(m, body, HR_E_CORRUPT, "extent 1");
    free(body);
}

static void unknown_optional_section_is_skipped(void **state)
{
    Headrace__Footer *m;
    struct hr_error err = HR_ERROR_INIT;

    (void)state;
    write_honest(100, true);
    m = take_footer();
    /* Seek tables become a kind that nobody knows yet. */
    for (size_t i = 0; i < m->n_sections; i++)
        if (m->sections[i]->kind == HRS_SEEK_LENGTHS || m->sections[i]->kind == HRS_SEEK_DATA) {
            m->sections[i]->kind += 100;
            m->sections[i]->flags |= HRS_SECTION_OPTIONAL;
        }
    seal(file, m);
    assert_int_equal(try_open(&err), 0);
    headrace__footer__free_unpacked(m, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_lies_are_refused),
        cmocka_unit_test(unknown_optional_section_is_skipped),
        cmocka_unit_test(spoiled_and_sealed_shards_do_no_harm),
    };
    return cmocka_run_group_tests_name("shards_hostile", tests, set_up, tear_down);
}
