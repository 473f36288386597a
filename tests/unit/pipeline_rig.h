/* A dataset whose records are arithmetic, an engine over it, and a consumer that reads the control page as a
 * trainer does. */
#ifndef HR_TESTS_UNIT_PIPELINE_RIG_H
#define HR_TESTS_UNIT_PIPELINE_RIG_H

#include "base/mem.h"
#include "pipeline/engine.h"
#include "shards/manifest.h"

enum { RECORDS = 500, SHARD_RECORDS = 120, TOKENS = 33, TENSOR = 5000 };

/* Before and after all tests of a program; the state is the path of a dataset without compression. */
int rig_set_up(void **state);
int rig_tear_down(void **state);

/* A dataset of that name in the scratch folder; hr_free its path. */
char *make_dataset(const char *name, enum hr_codec codec);
/* A path in the scratch folder; hr_free it. */
char *in_folder(const char *name);
/* What record r holds. */
uint32_t text_bytes(uint64_t r);
char text_byte(uint64_t r, uint32_t i);

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

/* Fails the test with the error's text where ret < 0. */
void must(int ret, const struct hr_error *err);
/* All fields of the dataset, behind what stands in front of them; hr_free it. */
char *rig_yaml(const char *head);
extern const char all_fields[];
/* dataset: a path, or a list of sources as in a pipeline file. */
void rig_open(struct rig *rig, const char *dataset, const char *yaml, uint32_t rank, uint32_t world);
void rig_close(struct rig *rig);
struct hr_state rig_start_state(const struct rig *rig);
void rig_seek(struct rig *rig, const struct hr_state *state);
/* All of that: the only rank, all fields, from the beginning. */
void rig_feed(struct rig *rig, const char *dataset, const char *head);
/* Next batch of the present generation, or NULL after ten seconds or when the stream has stopped. */
const struct hr_wire_batch *rig_next(struct rig *rig, struct hr_wire_entry *entry);
void rig_release(struct rig *rig, const struct hr_wire_entry *entry);

const struct hr_wire_field *batch_field(const struct hr_wire_batch *b, const char *name);
#define AT(b, off, type) ((const type *)((const uint8_t *)(b) + (off)))
/* Sample i of the batch is record r, its text cut at max. */
void check_text(const struct hr_wire_batch *b, uint32_t i, uint64_t r, uint32_t max);
void check_sample(const struct hr_wire_batch *b, uint32_t i, uint64_t r);

#endif
