/* Shards of records that are a function of their number, in a scratch folder, and what reading them must give. */
#ifndef HR_TESTS_UNIT_MADE_SHARDS_H
#define HR_TESTS_UNIT_MADE_SHARDS_H

#include "shards/dataset.h"
#include "shards/writer.h"

extern char root[64]; /* scratch folder of the running test */

/* Before and after each test. */
int make_root(void **state);
int drop_root(void **state);
/* A path in it; good for the next seven calls. */
const char *in_root(const char *name);
/* Fails the test with the error's text where ret < 0. */
void ok(int ret, const struct hr_error *err);

enum { IMAGE, CAPTION, DOC, TOKENS, TENSOR, RAGGED, LABEL, SCORE, FLAG, TAG, FIELDS };

/* One field of every type. */
struct hr_schema full_schema(void);

struct made {
    struct hr_value values[FIELDS];
    char key[64];
    uint8_t *memory; /* of the values: free it */
};

/* seed changes content; absent: leave some values out. */
void make_record(struct made *m, uint64_t seed, uint64_t record, bool absent);
void write_shard(const char *path, uint64_t seed, uint64_t first, uint64_t count, bool absent,
                 struct hr_shard_info *info);
/* Shards s-00000.hrs ... of that many records each, and the manifest; digest may be NULL. */
void commit_dataset(uint32_t shard_count, uint64_t records, bool absent, struct hr_digest *digest);
struct hr_dataset *open_dataset(const char *path);

#endif
