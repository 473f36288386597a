/* The keys of a JSONL source: what was seen under each in the first pass, and the field that follows
 * from it. Also where the files lie that values name. */
#ifndef HR_PACK_JSONL_KEYS_H
#define HR_PACK_JSONL_KEYS_H

#include "shards/schema.h"
#include "tools/pack/jsonl_array.h"
#include "tools/pack/jsonl_line.h"
#include "tools/pack/options.h"

/* Strings longer than this, or with more distinct values, are text; short ones that repeat are kept in
 * the index, where they can be filtered by. */
enum { HR_JSONL_SHORT_BYTES = 64, HR_JSONL_MAX_DISTINCT = 256 };

struct hr_jsonl_place {
    const char *file;
    uint64_t line;
    int column;
};

struct hr_jsonl_key {
    char *name; /* as in the JSON */
    struct hr_jsonl_place first[HR_JSONL_KINDS]; /* of each kind; line 0 = not seen */
    uint64_t strings, at_strings; /* at: those that begin with '@' */
    uint64_t longest;
    uint64_t distinct[HR_JSONL_MAX_DISTINCT * 2]; /* hash set; 0 = empty */
    uint32_t distinct_count;                      /* one beyond the maximum: too many */
    bool beyond_f64; /* a whole number that a double may not hold */
    bool beyond_i64; /* a whole number that does not fit 64 bits */
    /* what is said of it on the command line */
    bool said_embed;
    enum hr_field_type said_type;
    struct hr_array_type array; /* TENSOR: of lists */
    /* what follows */
    bool embed;
    enum hr_field_type type;
    struct hr_jsonl_place type_place; /* embed: where the type was first seen */
    enum hr_dtype dtype;
    int field; /* -1: never a value */
};

struct hr_jsonl_keys {
    struct hr_jsonl_key *items;
    int count;
    uint64_t cap;
};

void hr_jsonl_keys_finish(struct hr_jsonl_keys *keys);

/* The key of that name, added when it is new; guess is where it probably is. HR_E_* in *err; NULL then. */
struct hr_jsonl_key *hr_jsonl_keys_get(struct hr_jsonl_keys *keys, const char *name, int guess,
                                       struct hr_error *err);
const struct hr_jsonl_key *hr_jsonl_keys_find(const struct hr_jsonl_keys *keys, const char *name,
                                              int guess);

/* --embed KEY[=TYPE] and --type KEY=TYPE. */
int hr_jsonl_keys_say(struct hr_jsonl_keys *keys, const struct hr_pack_options *options,
                      struct hr_error *err) HR_MUST_CHECK;

/* Notes one value. */
void hr_jsonl_key_note(struct hr_jsonl_key *key, const struct hr_jsonl_member *member,
                       const struct hr_jsonl_place *place);

/* After the first pass: fields in the order in which keys first came. Conflicts are HR_E_CONFIG and
 * name both lines. */
int hr_jsonl_keys_decide(struct hr_jsonl_keys *keys, struct hr_schema *schema, struct hr_error *err)
    HR_MUST_CHECK;

#endif
