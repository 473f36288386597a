/* The engine from a dataset on disk to published slots: order, contents, ragged arrays, bad records,
 * seeking, failing storage. The consumer here reads the control page as a trainer does. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/mem.h"
#include "pipeline/engine.h"
#include "shards/manifest.h"

enum { RECORDS = 500, SHARD_RECORDS = 120, TOKENS = 33, TENSOR = 5000 };

static char folder[] = "/tmp/hr-pipeline-XXXXXX";

/* ---- what record r holds, by arithmetic ---- */

static uint32_t text_bytes(uint64_t r)
{
    return (uint32_t)(r * 37 % 400);
}

static char text_byte(uint64_t r, uint32_t i)
{
    return (char)('a' + (r + i) % 26);
}

static bool has_note(uint64_t r)
{
    return r % 3 != 0;
}

static void fill_schema(struct hr_schema *schema, enum hr_codec codec)
{
    *schema = (struct hr_schema){
        .field_count = 6,
        .class_field = -1,
        .fields = {{.name = "text", .type = HR_FIELD_TEXT, .codec = codec},
                   {.name = "label", .type = HR_FIELD_I64},
                   {.name = "tokens", .type = HR_FIELD_TOKENS, .dtype = HR_DTYPE_U16},
                   {.name = "tensor", .type = HR_FIELD_TENSOR, .dtype = HR_DTYPE_F32, .dims = 1,
                    .shape = {TENSOR}},
                   {.name = "tag", .type = HR_FIELD_STR},
                   {.name = "note", .type = HR_FIELD_BYTES}},
    };
}

static void add_record(struct hr_shard_writer *w, uint64_t r)
{
    static float tensor[TENSOR];
    char text[512], tag[32], key[32];
    uint16_t tokens[TOKENS];
    struct hr_error err;

    for (uint32_t i = 0; i < text_bytes(r); i++)
        text[i] = text_byte(r, i);
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (uint16_t)(r * 7 + (uint64_t)i);
    for (int i = 0; i < TENSOR; i++)
        tensor[i] = (float)r + (float)i;
    snprintf(tag, sizeof(tag), "tag%llu", (unsigned long long)r);
    snprintf(key, sizeof(key), "k%llu", (unsigned long long)r);
    struct hr_value values[6] = {
        {.present = true, .data = text, .bytes = text_bytes(r)},
        {.present = true, .i64 = (int64_t)r * 3 - 5},
        {.present = true, .data = tokens, .bytes = sizeof(tokens),
         .facts = {.dtype = HR_DTYPE_U16, .items = TOKENS}},
        {.present = true, .data = tensor, .bytes = sizeof(tensor),
         .facts = {.dtype = HR_DTYPE_F32, .dims = 1, .shape = {TENSOR}}},
        {.present = true, .data = tag, .bytes = strlen(tag)},
        {.present = has_note(r), .data = "note", .bytes = 4},
    };
    assert_int_equal(hr_shard_writer_add(w, key, values, &err), 0);
}

static char *make_dataset(const char *name, enum hr_codec codec)
{
    static struct hr_shard_info infos[16];
    struct hr_manifest manifest = {.shards = infos};
    struct hr_shard_writer_options options = {0};
    struct hr_error err;
    char *path = hr_asprintf("%s/%s", folder, name);

    fill_schema(&manifest.schema, codec);
    assert_int_equal(mkdir(path, 0777), 0);
    for (uint64_t r = 0; r < RECORDS;) {
        struct hr_shard_writer *w;
        char *file = hr_asprintf("%s/s-%02u.hrs", path, manifest.shard_count);
        assert_int_equal(hr_shard_writer_open(file, &manifest.schema, &options, &w, &err), 0);
        for (uint64_t end = r + SHARD_RECORDS; r < end && r < RECORDS; r++)
            add_record(w, r);
        assert_int_equal(hr_shard_writer_commit(w, &infos[manifest.shard_count++], &err), 0);
        hr_free(file);
    }
    char text[512];
    if (hr_manifest_commit(path, &manifest, &err) < 0)
        fail_msg("%s", hr_error_format(&err, text, sizeof(text)));
    return path;
}

/* ---- engine and consumer ---- */

struct rig {
    struct hr_conf conf;
    struct hr_dataset *dataset;
    struct hr_plan *plan;
    struct hr_engine *engine;
    struct hr_stream *stream;
    struct hr_ring_consumer *consumer;
    struct hr_wire_control *control;
    uint8_t *data;
    uint64_t data_bytes;
    uint32_t tail;
    struct hr_engine_options options;
};

static void must(int ret, const struct hr_error *err)
{
    char text[1024];

    if (ret < 0)
        fail_msg("%s", hr_error_format(err, text, sizeof(text)));
}

static struct hr_state start_state(const struct rig *rig)
{
    return hr_plan_state(rig->plan);
}

static void seek(struct rig *rig, const struct hr_state *state)
{
    struct hr_error err;

    hr_stream_halt(rig->stream);
    hr_ring_want(hr_stream_ring(rig->stream), rig->consumer,
                 (struct hr_ring_position){state->cursor.epoch, state->cursor.step});
    must(hr_stream_seek(rig->stream, state, &err), &err);
}

/* dataset: a path, or a list of sources as in a pipeline file. */
static void open_rig(struct rig *rig, const char *dataset, const char *yaml, uint32_t rank,
                     uint32_t world)
{
    struct hr_error err;
    int fds[3];
    char *text = hr_asprintf("dataset: %s\n%s", dataset, yaml);

    must(hr_conf_parse(text, strlen(text), "test.yaml", &rig->conf, &err), &err);
    hr_free(text);
    if (dataset[0] == '[') {
        must(hr_plan_open(&rig->conf, &rig->plan, &err), &err);
    } else {
        must(hr_dataset_open(dataset, NULL, &rig->dataset, &err), &err);
        must(hr_plan_create(&rig->conf, rig->dataset, &rig->plan, &err), &err);
    }
    rig->options.notify_fd = -1;
    if (!rig->options.workers)
        rig->options.workers = 3;
    must(hr_engine_create(rig->plan, &rig->options, &rig->engine, &err), &err);
    must(hr_engine_open_stream(rig->engine, rank, world, false, &rig->stream, &err), &err);
    struct hr_ring *ring = hr_stream_ring(rig->stream);
    must(hr_ring_attach(ring, (struct hr_ring_position){0, 0}, &rig->consumer, fds, &err), &err);
    hr_ring_base(ring, &rig->data_bytes);
    rig->data = mmap(NULL, rig->data_bytes, PROT_READ, MAP_SHARED, fds[0], 0);
    rig->control = mmap(NULL, sizeof(*rig->control), PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    assert_true(rig->data != MAP_FAILED && rig->control != MAP_FAILED);
    rig->tail = 0;
}

static void close_rig(struct rig *rig)
{
    hr_ring_detach(hr_stream_ring(rig->stream), rig->consumer);
    munmap(rig->data, rig->data_bytes);
    munmap(rig->control, sizeof(*rig->control));
    hr_stream_close(rig->stream);
    hr_engine_destroy(rig->engine);
    hr_plan_destroy(rig->plan);
    hr_dataset_close(rig->dataset);
    hr_conf_finish(&rig->conf);
}

static void release(struct rig *rig, const struct hr_wire_entry *entry)
{
    atomic_store_explicit(&rig->control->lease[entry->slot].released, entry->ticket,
                          memory_order_release);
    hr_engine_wake(rig->engine);
}

/* Next batch of the present generation, or NULL after ten seconds or when the stream has stopped. */
static const struct hr_wire_batch *next(struct rig *rig, struct hr_wire_entry *entry)
{
    uint64_t deadline = hr_clock_ns() + 10 * HR_NS_PER_S;

    for (;;) {
        uint32_t head = atomic_load_explicit(&rig->control->head, memory_order_acquire);
        if (head != rig->tail) {
            *entry = rig->control->queue[rig->tail++ % HR_WIRE_MAX_SLOTS];
            if (entry->generation == hr_ring_generation(hr_stream_ring(rig->stream)))
                return (const struct hr_wire_batch *)(rig->data +
                                                      entry->slot *
                                                          hr_ring_slot_bytes(
                                                              hr_stream_ring(rig->stream)));
            release(rig, entry);
            continue;
        }
        bool ended = hr_stream_status(rig->stream, NULL) < 0;
        if (atomic_load_explicit(&rig->control->head, memory_order_acquire) != head)
            continue; /* published before the end */
        if (ended || hr_clock_ns() > deadline)
            return NULL;
        atomic_store_explicit(&rig->control->consumer_waits, 1, memory_order_seq_cst);
        hr_futex_wait(&rig->control->head, head, hr_clock_ns() + 20 * HR_NS_PER_MS, true);
    }
}

static const struct hr_wire_field *field(const struct hr_wire_batch *b, const char *name)
{
    const struct hr_wire_field *f =
        (const struct hr_wire_field *)((const uint8_t *)b + b->header_bytes);

    for (uint32_t i = 0; i < b->field_count; i++)
        if (strcmp(f[i].name, name) == 0)
            return &f[i];
    fail_msg("no field %s", name);
    return NULL;
}

#define AT(b, off, type) ((const type *)((const uint8_t *)(b) + (off)))

static void check_text(const struct hr_wire_batch *b, uint32_t i, uint64_t r, uint32_t max)
{
    const struct hr_wire_field *f = field(b, "text");
    const int64_t *offsets = AT(b, f->offsets_off, int64_t);
    uint32_t want = text_bytes(r) < max ? text_bytes(r) : max;

    assert_int_equal(offsets[i + 1] - offsets[i], want);
    for (uint32_t k = 0; k < want; k++)
        assert_int_equal(AT(b, f->data_off, char)[offsets[i] + k], text_byte(r, k));
}

static void check_sample(const struct hr_wire_batch *b, uint32_t i, uint64_t r)
{
    const struct hr_wire_field *tokens = field(b, "tokens"), *tensor = field(b, "tensor"),
                               *tag = field(b, "tag"), *note = field(b, "note");
    const int64_t *offsets = AT(b, tag->offsets_off, int64_t);
    char want[32];

    check_text(b, i, r, UINT32_MAX);
    assert_int_equal(AT(b, field(b, "label")->data_off, int64_t)[i], (int64_t)r * 3 - 5);
    assert_false(tokens->ragged); /* all of one length */
    assert_int_equal(tokens->shape[1], TOKENS);
    for (int k = 0; k < TOKENS; k++)
        assert_int_equal(AT(b, tokens->data_off, int64_t)[i * TOKENS + k],
                         (uint16_t)(r * 7 + (uint64_t)k));
    for (int k = 0; k < TENSOR; k += 97)
        assert_true(AT(b, tensor->data_off, float)[i * TENSOR + k] == (float)r + (float)k);
    snprintf(want, sizeof(want), "tag%llu", (unsigned long long)r);
    assert_int_equal(offsets[i + 1] - offsets[i], strlen(want));
    assert_memory_equal(AT(b, tag->data_off, char) + offsets[i], want, strlen(want));
    offsets = AT(b, note->offsets_off, int64_t);
    assert_int_equal(offsets[i + 1] - offsets[i], has_note(r) ? 4 : 0);
    assert_int_equal(AT(b, field(b, "note.present")->data_off, uint8_t)[i], has_note(r));
}

static const char all_fields[] = "fields:\n  text:\n  label:\n  tokens: {output: {dtype: i64}}\n"
                                 "  tensor:\n  tag:\n  note:\n";

static char *yaml(const char *head)
{
    return hr_asprintf("%s\n%s", head, all_fields);
}

/* ---- tests ---- */

static void feed_epochs(const char *dataset, const char *reader)
{
    struct rig rig = {.options = {.reader = reader}};
    char *text = yaml("batch: 32\nslots: 3\nlast: keep\nseed: 9");
    uint8_t seen[RECORDS];
    struct hr_wire_entry entry;

    open_rig(&rig, dataset, text, 0, 1);
    hr_free(text);
    struct hr_state state = start_state(&rig);
    seek(&rig, &state);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        memset(seen, 0, sizeof(seen));
        for (uint64_t step = 0; step < (RECORDS + 31) / 32; step++) {
            const struct hr_wire_batch *b = next(&rig, &entry);
            assert_non_null(b);
            assert_int_equal(b->epoch, epoch);
            assert_int_equal(b->step, step);
            assert_int_equal(b->count, step == 15 ? RECORDS % 32 : 32);
            assert_int_equal((b->flags & HR_WIRE_LAST_OF_EPOCH) != 0, step == 15);
            for (uint32_t i = 0; i < b->count; i++) {
                uint64_t r = AT(b, b->records_off, uint64_t)[i];
                struct hr_place place =
                    hr_order_place(&rig.plan->order, (struct hr_cursor){epoch, step}, i);
                assert_int_equal(r, place.record);
                assert_int_equal(AT(b, b->valid_off, uint8_t)[i], 1);
                assert_int_equal(seen[r]++, 0);
                check_sample(b, i, r);
            }
            hr_state_advance(&state, &rig.plan->order);
            char want[HR_STATE_BYTES];
            hr_state_encode(&state, want);
            assert_string_equal(b->state, want);
            release(&rig, &entry);
        }
        for (int r = 0; r < RECORDS; r++)
            assert_int_equal(seen[r], 1);
    }
    close_rig(&rig);
}

static void every_epoch_delivers_each_record_once(void **state)
{
    feed_epochs(*state, "auto");
}

static void preadv_delivers_the_same(void **state)
{
    feed_epochs(*state, "preadv");
}

static void compressed_blocks_deliver_the_same(void **state)
{
    (void)state;
    char *path = make_dataset("lz4", HR_CODEC_LZ4);
    feed_epochs(path, "auto");
    hr_free(path);
}

static void ranks_share_the_global_batch(void **state)
{
    struct hr_wire_entry entry;
    uint64_t got[4][8];
    char *text = yaml("batch: 32\nslots: 2");

    for (uint32_t rank = 0; rank < 4; rank++) {
        struct rig rig = {0};
        open_rig(&rig, *state, text, rank, 4);
        struct hr_state s = start_state(&rig);
        seek(&rig, &s);
        const struct hr_wire_batch *b = next(&rig, &entry);
        assert_non_null(b);
        assert_int_equal(b->count, 8);
        assert_int_equal(b->first, 8 * rank);
        memcpy(got[rank], AT(b, b->records_off, uint64_t), sizeof(got[rank]));
        for (uint32_t i = 0; rank == 3 && i < 32; i++)
            assert_int_equal(got[i / 8][i % 8],
                             hr_order_place(&rig.plan->order, (struct hr_cursor){0, 0}, i).record);
        close_rig(&rig);
    }
    hr_free(text);
}

static _Atomic bool enough;

static void *read_statistics(void *arg)
{
    struct hr_engine_stats stats = {0};
    uint64_t last = 0;

    while (!atomic_load(&enough)) {
        hr_engine_stats(arg, &stats);
        if (stats.read_bytes < last)
            return arg;
        last = stats.read_bytes;
    }
    return NULL;
}

static void statistics_can_be_read_while_batches_flow(void **state)
{
    struct rig rig = {0};
    struct hr_wire_entry entry;
    pthread_t thread;
    char *text = yaml("batch: 20\nslots: 3");
    void *wrong;

    open_rig(&rig, *state, text, 0, 1);
    hr_free(text);
    struct hr_state s = start_state(&rig);
    atomic_store(&enough, false);
    pthread_create(&thread, NULL, read_statistics, rig.engine);
    seek(&rig, &s);
    for (int i = 0; i < 60; i++) {
        assert_non_null(next(&rig, &entry));
        release(&rig, &entry);
    }
    atomic_store(&enough, true);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    struct hr_engine_stats stats;
    hr_engine_stats(rig.engine, &stats);
    assert_true(stats.batches >= 60 && stats.read_requests > 0 && stats.read_bytes > 0);
    close_rig(&rig);
}

static void seek_goes_on_exactly_there(void **state)
{
    struct rig rig = {0};
    struct hr_wire_entry entry;
    char *text = yaml("batch: 50\nslots: 4");

    open_rig(&rig, *state, text, 0, 1);
    hr_free(text);
    struct hr_state s = start_state(&rig);
    seek(&rig, &s);
    for (uint64_t k = 0; k < 40; k++) {
        s.cursor = (struct hr_cursor){k * 7 % 5, k * 3 % 10};
        seek(&rig, &s);
        for (int n = 0; n < (int)(k % 3); n++) {
            const struct hr_wire_batch *b = next(&rig, &entry);
            assert_non_null(b);
            assert_int_equal(b->sequence, n);
            assert_int_equal(AT(b, b->records_off, uint64_t)[0],
                             hr_order_place(&rig.plan->order,
                                            (struct hr_cursor){b->epoch, b->step}, 0)
                                 .record);
            if (n == 0)
                assert_true(b->epoch == s.cursor.epoch && b->step == s.cursor.step);
            release(&rig, &entry);
        }
    }
    close_rig(&rig);
}

static void text_is_cut_at_a_code_point(void **state)
{
    struct rig rig = {0};
    struct hr_wire_entry entry;

    open_rig(&rig, *state, "batch: 100\nfields:\n  text: {max_bytes: 17}\n", 0, 1);
    struct hr_state s = start_state(&rig);
    seek(&rig, &s);
    const struct hr_wire_batch *b = next(&rig, &entry);
    assert_non_null(b);
    for (uint32_t i = 0; i < b->count; i++)
        check_text(b, i, AT(b, b->records_off, uint64_t)[i], 17);
    close_rig(&rig);
}

enum { OTHER_RECORDS = 7 };

/* A second source: two of the fields, the text in blocks, and one field of its own. */
static char *make_other_dataset(const char *name)
{
    struct hr_shard_info info;
    struct hr_manifest manifest = {.shards = &info, .shard_count = 1};
    struct hr_shard_writer_options options = {0};
    struct hr_shard_writer *w;
    struct hr_error err;
    char *path = hr_asprintf("%s/%s", folder, name), *file = hr_asprintf("%s/o.hrs", path);

    manifest.schema = (struct hr_schema){
        .field_count = 3,
        .class_field = -1,
        .fields = {{.name = "extra", .type = HR_FIELD_F64},
                   {.name = "text", .type = HR_FIELD_TEXT, .codec = HR_CODEC_LZ4},
                   {.name = "label", .type = HR_FIELD_I64}},
    };
    assert_int_equal(mkdir(path, 0777), 0);
    must(hr_shard_writer_open(file, &manifest.schema, &options, &w, &err), &err);
    for (uint64_t r = 0; r < OTHER_RECORDS; r++) {
        char key[32], text[512];
        for (uint32_t i = 0; i < text_bytes(r); i++)
            text[i] = text_byte(r, i);
        struct hr_value values[3] = {{.present = r != 3, .f64 = (double)r / 4},
                                     {.present = true, .data = text, .bytes = text_bytes(r)},
                                     {.present = true, .i64 = -(int64_t)r}};
        snprintf(key, sizeof(key), "o%llu", (unsigned long long)r);
        must(hr_shard_writer_add(w, key, values, &err), &err);
    }
    must(hr_shard_writer_commit(w, &info, &err), &err);
    must(hr_manifest_commit(path, &manifest, &err), &err);
    hr_free(file);
    return path;
}

static void check_other_sample(const struct hr_wire_batch *b, uint32_t i, uint64_t r)
{
    check_text(b, i, r, UINT32_MAX);
    assert_int_equal(AT(b, field(b, "label")->data_off, int64_t)[i], -(int64_t)r);
    assert_true(AT(b, field(b, "extra")->data_off, double)[i] == (r == 3 ? 0 : (double)r / 4));
    assert_int_equal(AT(b, field(b, "extra.present")->data_off, uint8_t)[i], r != 3);
    assert_int_equal(AT(b, field(b, "tensor.present")->data_off, uint8_t)[i], 0);
    for (int k = 0; k < TENSOR; k++)
        assert_true(AT(b, field(b, "tensor")->data_off, float)[i * TENSOR + k] == 0);
    const int64_t *tags = AT(b, field(b, "tag")->offsets_off, int64_t);
    assert_int_equal(tags[i + 1], tags[i]);
    assert_int_equal(AT(b, field(b, "note.present")->data_off, uint8_t)[i], 0);
}

static void sources_with_other_fields_are_mixed(void **state)
{
    struct rig rig = {0};
    struct hr_wire_entry entry;
    char *other = make_other_dataset("other");
    char *sources = hr_asprintf("[{path: '%s', weight: 2, where: label >= 400}, {path: '%s'}]",
                                (const char *)*state, other);
    char *text = hr_asprintf("batch: 33\nlast: wrap\n%s  extra:\n", all_fields);
    uint64_t counts[2] = {0};

    open_rig(&rig, sources, text, 0, 1);
    assert_int_equal(rig.plan->sources.items[0].kept, RECORDS - 135); /* 3 r - 5 >= 400 */
    struct hr_state s = start_state(&rig);
    s.cursor.epoch = 4;
    seek(&rig, &s);
    for (int n = 0; n < 20; n++) {
        const struct hr_wire_batch *b = next(&rig, &entry);
        assert_non_null(b);
        struct hr_cursor cursor = {b->epoch, b->step};
        for (uint32_t i = 0; i < b->count; i++) {
            struct hr_place place = hr_order_place(&rig.plan->order, cursor, i);
            uint64_t r = AT(b, b->records_off, uint64_t)[i];
            assert_int_equal(r, place.record);
            assert_int_equal(AT(b, b->sources_off, uint32_t)[i], place.source);
            counts[place.source]++;
            if (place.source == 0) {
                assert_in_range(r, 135, RECORDS - 1);
                check_sample(b, i, r);
                assert_int_equal(AT(b, field(b, "extra.present")->data_off, uint8_t)[i], 0);
            } else {
                check_other_sample(b, i, r);
            }
        }
        release(&rig, &entry);
    }
    /* 10 periods' worth of 66, begun inside of one. */
    assert_in_range(counts[0], 440 - 33, 440 + 33);
    assert_int_equal(counts[0] + counts[1], 660);
    assert_in_range(hr_engine_source_samples(rig.engine, 0), counts[0], counts[0] + 5 * 33);
    close_rig(&rig);
    hr_free(text);
    hr_free(sources);
    hr_free(other);
}

static void refused_plan(const char *yaml_text, const char *reason)
{
    struct hr_conf conf;
    struct hr_plan *plan;
    struct hr_error err;
    char text[1024];

    must(hr_conf_parse(yaml_text, strlen(yaml_text), "test.yaml", &conf, &err), &err);
    assert_true(hr_plan_open(&conf, &plan, &err) < 0);
    hr_error_format(&err, text, sizeof(text));
    if (!strstr(text, reason))
        fail_msg("'%s' instead of '%s'", text, reason);
    hr_conf_finish(&conf);
}

static void mixtures_that_cannot_be_are_refused(void **state)
{
    static const struct {
        const char *format, *reason;
    } cases[] = {
        {"dataset: '%s'\nwhere: label > 1e6\n", "2:8: the filter keeps none of the 500 records"},
        {"dataset: '%s'\nwhere: lable > 3\n", "2:8: 'lable' is no field"},
        {"dataset: ['%s', '/nowhere/x.hrd']\n", "/nowhere/x.hrd"},
        {"dataset: '%s'\nstop: first_exhausted\n", "'stop' is for datasets that are mixed"},
        {"dataset: [{path: '%s', repeats: 4294967296}]\nbatch: 1\nfields: {labl: }\n", "no field 'labl'"},
    };

    for (size_t i = 0; i < HR_ARRAY_SIZE(cases); i++) {
        char text[512];
        snprintf(text, sizeof(text), cases[i].format, (const char *)*state);
        refused_plan(text, cases[i].reason);
    }
}

static void last_batch_is_padded_with_invalid_samples(void **state)
{
    struct rig rig = {0};
    struct hr_wire_entry entry;
    char *text = yaml("batch: 300\nlast: pad\nslots: 2\nepochs: 1");

    open_rig(&rig, *state, text, 0, 1);
    hr_free(text);
    struct hr_state s = start_state(&rig);
    seek(&rig, &s);
    assert_non_null(next(&rig, &entry));
    release(&rig, &entry);
    const struct hr_wire_batch *b = next(&rig, &entry);
    assert_non_null(b);
    assert_int_equal(b->count, 300);
    assert_true(b->flags & HR_WIRE_END_OF_RUN);
    for (uint32_t i = 0; i < 300; i++) {
        bool valid = AT(b, b->valid_off, uint8_t)[i];
        assert_int_equal(valid, i < 200);
        if (valid)
            check_sample(b, i, AT(b, b->records_off, uint64_t)[i]);
        else
            assert_int_equal(AT(b, field(b, "label")->data_off, int64_t)[i], 0);
    }
    release(&rig, &entry);
    assert_null(next(&rig, &entry));
    assert_int_equal(hr_stream_status(rig.stream, NULL), HR_E_END);
    close_rig(&rig);
}

/* Flips a byte of one record's value in the file. */
static void damage(const char *dataset, uint64_t record, uint32_t field_idx)
{
    struct hr_dataset *ds;
    struct hr_value_place place;
    struct hr_error err;
    uint8_t byte;

    must(hr_dataset_open(dataset, NULL, &ds, &err), &err);
    hr_dataset_locate(ds, record, field_idx, &place);
    int fd = open(hr_dataset_shard_path(ds, place.shard), O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, (off_t)place.off), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)place.off), 1);
    close(fd);
    hr_dataset_close(ds);
}

static void bad_record_is_substituted_the_same_everywhere(void **state)
{
    char *path = make_dataset("bad", HR_CODEC_NONE);
    uint64_t first[500];

    (void)state;
    damage(path, 41, 3);  /* the tensor goes straight into the slot */
    damage(path, 313, 0); /* ragged text: the substitute may be longer */
    for (int run = 0; run < 2; run++) {
        struct rig rig = {.options = {.workers = run ? 1 : 4, .reader = run ? "preadv" : "auto"}};
        struct hr_wire_entry entry;
        char *text = yaml("batch: 50\nslots: 3\nseed: 4");
        uint64_t k = 0, bad = 0;
        open_rig(&rig, path, text, 0, 1);
        hr_free(text);
        struct hr_state s = start_state(&rig);
        seek(&rig, &s);
        while (k < 500) {
            const struct hr_wire_batch *b = next(&rig, &entry);
            assert_non_null(b);
            bad += b->bad_count;
            for (uint32_t i = 0; i < b->count; i++, k++) {
                uint64_t r = AT(b, b->records_off, uint64_t)[i];
                assert_true(r != 41 && r != 313);
                check_sample(b, i, r);
                if (run == 0)
                    first[k] = r;
                else
                    assert_int_equal(first[k], r);
            }
            release(&rig, &entry);
        }
        assert_int_equal(bad, 2);
        close_rig(&rig);
    }
    hr_free(path);
}

static void bad_record_is_masked_or_fatal_by_policy(void **state)
{
    char *path = make_dataset("policy", HR_CODEC_NONE);
    struct hr_wire_entry entry;
    struct hr_error err;
    uint32_t masked = 0;

    (void)state;
    damage(path, 7, 2);
    struct rig rig = {0};
    char *text = yaml("batch: 100\nbad_records: mask\nepochs: 1");
    open_rig(&rig, path, text, 0, 1);
    hr_free(text);
    struct hr_state s = start_state(&rig);
    seek(&rig, &s);
    for (int n = 0; n < 5; n++) {
        const struct hr_wire_batch *b = next(&rig, &entry);
        assert_non_null(b);
        for (uint32_t i = 0; i < b->count; i++) {
            if (AT(b, b->valid_off, uint8_t)[i])
                continue;
            masked++;
            assert_int_equal(AT(b, b->records_off, uint64_t)[i], 7);
        }
        release(&rig, &entry);
    }
    assert_int_equal(masked, 1);
    close_rig(&rig);

    struct rig fatal = {0};
    text = yaml("batch: 100\nbad_records: fail\nepochs: 1");
    open_rig(&fatal, path, text, 0, 1);
    hr_free(text);
    s = start_state(&fatal);
    seek(&fatal, &s);
    while (next(&fatal, &entry))
        release(&fatal, &entry);
    assert_int_equal(hr_stream_status(fatal.stream, &err), HR_E_CHECKSUM);
    assert_int_equal(err.record, 7);
    assert_string_equal(err.field, "tokens");
    close_rig(&fatal);
    hr_free(path);
}

/* Errors, bytes that are missing and bytes that are wrong until they are read again. */
static void feed_from_failing_storage(const char *dataset)
{
    struct rig rig = {.options = {.fault = "seed=3,eio=0.05,short=0.2,noise=0.05,delay=1ms:0.05"}};
    struct hr_wire_entry entry;
    struct hr_engine_stats stats;
    char *text = yaml("batch: 50\nslots: 3");
    uint8_t seen[RECORDS] = {0};

    open_rig(&rig, dataset, text, 0, 1);
    hr_free(text);
    struct hr_state s = start_state(&rig);
    seek(&rig, &s);
    for (int n = 0; n < 10; n++) {
        const struct hr_wire_batch *b = next(&rig, &entry);
        struct hr_error err = HR_ERROR_INIT;
        if (!b)
            must(hr_stream_status(rig.stream, &err), &err);
        assert_non_null(b);
        for (uint32_t i = 0; i < b->count; i++) {
            uint64_t r = AT(b, b->records_off, uint64_t)[i];
            assert_int_equal(seen[r]++, 0);
            check_sample(b, i, r);
        }
        release(&rig, &entry);
    }
    hr_engine_stats(rig.engine, &stats);
    assert_int_equal(stats.bad.occurrences, 0);
    assert_true(stats.io_retries > 0 && stats.read_errors > 0);
    close_rig(&rig);
}

static void failing_storage_loses_nothing(void **state)
{
    char *packed = make_dataset("noise", HR_CODEC_LZ4);

    feed_from_failing_storage(*state);
    feed_from_failing_storage(packed);
    hr_free(packed);
}

static void small_buffers_bound_what_is_in_flight(void **state)
{
    struct rig rig = {.options = {.read_ahead_bytes = 1}};
    struct hr_wire_entry entry;
    char *text = yaml("batch: 100\nslots: 2");

    open_rig(&rig, *state, text, 0, 1);
    hr_free(text);
    struct hr_state s = start_state(&rig);
    seek(&rig, &s);
    for (int n = 0; n < 20; n++) {
        const struct hr_wire_batch *b = next(&rig, &entry);
        assert_non_null(b);
        check_sample(b, 99, AT(b, b->records_off, uint64_t)[99]);
        release(&rig, &entry);
    }
    close_rig(&rig);
}

static int set_up(void **state)
{
    hr_log_set_level(HR_LOG_ERROR);
    if (!mkdtemp(folder))
        return -1;
    *state = make_dataset("plain", HR_CODEC_NONE);
    return 0;
}

static int tear_down(void **state)
{
    char *command = hr_asprintf("rm -rf %s", folder);

    hr_free(*state);
    int ret = system(command);
    hr_free(command);
    return ret;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_delivers_each_record_once),
        cmocka_unit_test(preadv_delivers_the_same),
        cmocka_unit_test(compressed_blocks_deliver_the_same),
        cmocka_unit_test(ranks_share_the_global_batch),
        cmocka_unit_test(statistics_can_be_read_while_batches_flow),
        cmocka_unit_test(seek_goes_on_exactly_there),
        cmocka_unit_test(text_is_cut_at_a_code_point),
        cmocka_unit_test(sources_with_other_fields_are_mixed),
        cmocka_unit_test(mixtures_that_cannot_be_are_refused),
        cmocka_unit_test(last_batch_is_padded_with_invalid_samples),
        cmocka_unit_test(bad_record_is_substituted_the_same_everywhere),
        cmocka_unit_test(bad_record_is_masked_or_fatal_by_policy),
        cmocka_unit_test(failing_storage_loses_nothing),
        cmocka_unit_test(small_buffers_bound_what_is_in_flight),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
