/* See pipeline_rig.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/mem.h"
#include "pipeline/engine.h"
#include "pipeline_rig.h"
#include "shards/manifest.h"

static char folder[] = "/tmp/hr-pipeline-XXXXXX";

uint32_t text_bytes(uint64_t r)
{
    return (uint32_t)(r * 37 % 400);
}

char text_byte(uint64_t r, uint32_t i)
{
    return (char)('a' + (r + i) % 26);
}

/* Long enough that two readings with a bit wrong each are not easily wrong in the same way. */
static const char note_text[] = "a note of some length, so that there are many bits in it which can go wrong: "
                                "0123456789 abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ";

enum { NOTE_BYTES = sizeof(note_text) - 1 };

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
        {.present = has_note(r), .data = note_text, .bytes = NOTE_BYTES},
    };
    assert_int_equal(hr_shard_writer_add(w, key, values, &err), 0);
}

char *in_folder(const char *name)
{
    return hr_asprintf("%s/%s", folder, name);
}

char *make_dataset(const char *name, enum hr_codec codec)
{
    static struct hr_shard_info infos[16];
    struct hr_manifest manifest = {.shards = infos};
    struct hr_shard_writer_options options = {0};
    struct hr_error err;
    char *path = in_folder(name);

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

void must(int ret, const struct hr_error *err)
{
    char text[1024];

    if (ret < 0)
        fail_msg("%s", hr_error_format(err, text, sizeof(text)));
}

struct hr_state rig_start_state(const struct rig *rig)
{
    return hr_plan_state(rig->plan);
}

void rig_seek(struct rig *rig, const struct hr_state *state)
{
    struct hr_error err;

    must(hr_stream_seek(rig->stream, state, &err), &err);
}

void rig_open(struct rig *rig, const char *dataset, const char *yaml, uint32_t rank,
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

void rig_feed(struct rig *rig, const char *dataset, const char *head)
{
    char *text = rig_yaml(head);

    rig_open(rig, dataset, text, 0, 1);
    hr_free(text);
    struct hr_state state = rig_start_state(rig);
    rig_seek(rig, &state);
}

void rig_close(struct rig *rig)
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

void rig_release(struct rig *rig, const struct hr_wire_entry *entry)
{
    atomic_store_explicit(&rig->control->lease[entry->slot].released, entry->ticket,
                          memory_order_release);
    hr_engine_wake(rig->engine);
}

const struct hr_wire_batch *rig_next(struct rig *rig, struct hr_wire_entry *entry)
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
            rig_release(rig, entry);
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

const struct hr_wire_field *batch_field(const struct hr_wire_batch *b, const char *name)
{
    const struct hr_wire_field *f =
        (const struct hr_wire_field *)((const uint8_t *)b + b->header_bytes);

    for (uint32_t i = 0; i < b->field_count; i++)
        if (strcmp(f[i].name, name) == 0)
            return &f[i];
    fail_msg("no field %s", name);
    return NULL;
}

void check_text(const struct hr_wire_batch *b, uint32_t i, uint64_t r, uint32_t max)
{
    const struct hr_wire_field *f = batch_field(b, "text");
    const int64_t *offsets = AT(b, f->offsets_off, int64_t);
    uint32_t want = text_bytes(r) < max ? text_bytes(r) : max;

    assert_int_equal(offsets[i + 1] - offsets[i], want);
    for (uint32_t k = 0; k < want; k++)
        assert_int_equal(AT(b, f->data_off, char)[offsets[i] + k], text_byte(r, k));
}

void check_sample(const struct hr_wire_batch *b, uint32_t i, uint64_t r)
{
    const struct hr_wire_field *tokens = batch_field(b, "tokens"), *tensor = batch_field(b, "tensor"),
                               *tag = batch_field(b, "tag"), *note = batch_field(b, "note");
    const int64_t *offsets = AT(b, tag->offsets_off, int64_t);
    char want[32];

    check_text(b, i, r, UINT32_MAX);
    assert_int_equal(AT(b, batch_field(b, "label")->data_off, int64_t)[i], (int64_t)r * 3 - 5);
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
    assert_int_equal(offsets[i + 1] - offsets[i], has_note(r) ? NOTE_BYTES : 0);
    assert_int_equal(AT(b, batch_field(b, "note.present")->data_off, uint8_t)[i], has_note(r));
}

const char all_fields[] = "fields:\n  text:\n  label:\n  tokens: {output: {dtype: i64}}\n"
                          "  tensor:\n  tag:\n  note:\n";

char *rig_yaml(const char *head)
{
    return hr_asprintf("%s\n%s", head, all_fields);
}

int rig_set_up(void **state)
{
    hr_log_set_level(HR_LOG_ERROR);
    if (!mkdtemp(folder))
        return -1;
    *state = make_dataset("plain", HR_CODEC_NONE);
    return 0;
}

int rig_tear_down(void **state)
{
    char *command = hr_asprintf("rm -rf %s", folder);

    hr_free(*state);
    int ret = system(command);
    hr_free(command);
    return ret;
}
