/* Where records come from. A source lists its records once, in an order that depends on nothing but
 * their names, and works out the schema; then any thread may load any record by its number.
 *
 *   hr_source_open   lists, infers the schema; wrong input as a whole ends here, before anything is
 *                    written
 *   load             record i: key, values, facts; an error here rejects that record alone
 *
 * A kind of source is one .c file and one line in source.c. */
#ifndef HR_PACK_SOURCE_H
#define HR_PACK_SOURCE_H

#include "base/hash.h"
#include "shards/writer.h"
#include "tools/pack/record.h"
#include "tools/pack/walk.h"

struct hr_pack_options;
struct hr_source;

/* What a source is opened with. */
struct hr_source_request {
    const struct hr_pack_options *options;
    const char *const *paths; /* as given, braces expanded */
    int path_count;
    struct hr_walk *walk; /* when the one path is a folder; the source may take what is in it */
};

struct hr_source_kind {
    const char *name; /* as --from takes it */
    const char *what; /* "a folder of class folders" */
    int (*open)(const struct hr_source_request *request, struct hr_source **out,
                struct hr_error *err);
    int (*load)(const struct hr_source *source, uint64_t i, struct hr_pack_record *record,
                struct hr_error *err);
    uint64_t (*size_hint)(const struct hr_source *source, uint64_t i); /* about so many bytes */
    void (*close)(struct hr_source *source);
};

/* The part that all kinds share; a kind's own struct begins with it. */
struct hr_source {
    const struct hr_source_kind *kind;
    struct hr_schema schema; /* classes owned */
    struct hr_intake intake;
    uint64_t record_count;
    uint64_t left_out; /* files of no use to this kind */
    /* The listing in three parts, so that a resume can say which one changed. */
    struct hr_digest names, sizes, times;
};

extern const struct hr_source_kind hr_source_folder, hr_source_jsonl, hr_source_pairs, hr_source_wds;

/* Guesses the kind unless options say it. */
int hr_source_open(const struct hr_pack_options *options, const char *const *paths, int path_count,
                   struct hr_source **out, struct hr_error *err) HR_MUST_CHECK;
void hr_source_close(struct hr_source *source); /* NULL is fine */

/* ---- for the kinds ---- */

/* Adds a field, or finds the one of that name: the index, or HR_E_CONFIG when the types differ or
 * there are too many. */
int hr_source_field(struct hr_schema *schema, const char *name, enum hr_field_type type,
                    struct hr_error *err) HR_MUST_CHECK;

/* The listing's digests, from files in order. */
struct hr_listing {
    struct hr_hasher *names, *sizes, *times;
};
int hr_listing_init(struct hr_listing *listing, struct hr_error *err) HR_MUST_CHECK;
void hr_listing_add(struct hr_listing *listing, const char *name, uint64_t bytes, int64_t mtime_ns);
void hr_listing_finish(struct hr_listing *listing, struct hr_source *source);

/* HR_E_CONFIG: nothing found, with what was looked for. */
int hr_source_nothing(const char *path, const char *looked_for, struct hr_error *err);

/* dtype of the array in a .npy file: for the schema. */
int hr_source_tensor_dtype(const char *path, enum hr_dtype *dtype, struct hr_error *err)
    HR_MUST_CHECK;

#endif
