/* One record on its way from a source to a shard: its key, its values and the memory they lie in.
 * Giving a value here checks it: media are measured, text must be UTF-8, an array's header is taken
 * off. */
#ifndef HR_PACK_RECORD_H
#define HR_PACK_RECORD_H

#include "base/err.h"
#include "decoders/reduce.h"
#include "shards/writer.h"
#include "tools/pack/counts.h"

enum { HR_KEY_BYTES = 1024 };

struct hr_pack_record {
    char key[HR_KEY_BYTES];
    struct hr_value values[HR_MAX_FIELDS];
    void *owned[3 * HR_MAX_FIELDS + 1]; /* freed with the record: files, made smaller, repacked */
    int owned_count;
    uint64_t owned_bytes;
    uint64_t bytes;    /* of all values as they came */
    uint64_t payload;  /* the same, but of pictures made anew what they have become: what fills a shard */
    uint32_t renamed;  /* values whose content is not what the file's name says */
    uint32_t png_repacked, png_kept;
    uint32_t resized, unresized, raw; /* pictures made smaller; larger, but not of that kind; pixels */
    struct hr_jpeg_counts jpeg;       /* where they are to be repacked */
    /* What a source keeps from one record to the next in the same place, and how it goes. */
    void *scratch;
    void (*scratch_free)(void *scratch);
};

/* What to do with values; the same for all records of a run. */
struct hr_intake {
    const struct hr_schema *schema;
    bool verify_media; /* decode each whole */
    bool repack_jpeg, repack_png;
    struct hr_reduction reduction;
};

/* field_count: of the schema; only so many values are cleared. */
void hr_pack_record_init(struct hr_pack_record *record, uint32_t field_count);
/* Frees what the values lie in; the scratch stays. */
void hr_pack_record_finish(struct hr_pack_record *record);
void hr_pack_record_free_scratch(struct hr_pack_record *record);

/* Room of so many bytes, plus padding that decoders may read past the end, owned by the record. */
void *hr_pack_record_room(struct hr_pack_record *record, uint64_t bytes, struct hr_error *err)
    HR_MUST_CHECK;

/* Reads a file into the record's memory. Errors name the file. */
int hr_pack_record_read(struct hr_pack_record *record, const char *path, const void **data,
                        uint64_t *bytes, struct hr_error *err) HR_MUST_CHECK;

/* Gives bytes (the record's or the source's, and readable past the end by HR_CHAIN_PADDING) as the
 * value of a field. name: the file's, for its suffix and for errors. A media value of another type
 * goes to the field called after its type, when there is one and may_move. */
int hr_pack_record_set(const struct hr_intake *intake, struct hr_pack_record *record, uint32_t field,
                       const void *data, uint64_t bytes, const char *name, bool may_move,
                       struct hr_error *err) HR_MUST_CHECK;

/* The same for bytes that need no look: taken as they are. */
void hr_pack_record_set_bytes(struct hr_pack_record *record, uint32_t field, const void *data,
                              uint64_t bytes);
/* An array of facts->dtype and facts->shape. */
void hr_pack_record_set_array(struct hr_pack_record *record, uint32_t field, const void *data, uint64_t bytes,
                              const struct hr_facts *facts);
void hr_pack_record_set_i64(struct hr_pack_record *record, uint32_t field, int64_t v);
void hr_pack_record_set_f64(struct hr_pack_record *record, uint32_t field, double v);
/* Borrowed until the record ends. HR_E_LIMIT when it does not fit a short string. */
int hr_pack_record_set_str(struct hr_pack_record *record, uint32_t field, const char *s,
                           uint64_t bytes, struct hr_error *err) HR_MUST_CHECK;

#endif
