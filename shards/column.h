/* Columns of the index: unsigned numbers in the smallest width that holds them, once when all are
 * equal; byte strings as lengths and data. Built by the writer, used as they lie in the file by the
 * reader; and the compression of whole sections. */
#ifndef HR_SHARDS_COLUMN_H
#define HR_SHARDS_COLUMN_H

#include "base/buf.h"
#include "base/err.h"

/* A column in memory. All zero = a column that was left out: every item is 0. */
struct hr_column {
    const void *data; /* NULL = constant */
    uint64_t value;   /* when constant */
    uint32_t width;   /* 1, 2, 4, 8 when not constant */
};

static inline uint64_t hr_column_get(const struct hr_column *column, uint64_t i)
{
    if (!column->data)
        return column->value;
    switch (column->width) {
    case 1:
        return ((const uint8_t *)column->data)[i];
    case 2:
        return ((const uint16_t *)column->data)[i];
    case 4:
        return ((const uint32_t *)column->data)[i];
    default:
        return ((const uint64_t *)column->data)[i];
    }
}

/* Sum of items [first, first + count); wraps when the items are not bounded by the caller. */
uint64_t hr_column_sum(const struct hr_column *column, uint64_t first, uint64_t count);
/* Largest item, and smallest that is not 0 (0 when all are). */
void hr_column_range(const struct hr_column *column, uint64_t count, uint64_t *min_nonzero,
                     uint64_t *max);
/* Last i in [0, count) with item <= value, of ascending items, the first of which is <= value. */
uint64_t hr_column_search(const struct hr_column *column, uint64_t count, uint64_t value);

/* Every HR_SAMPLE_RECORDS records the absolute position is kept, between them lengths are summed. */
enum { HR_SAMPLE_RECORDS = 64 };

/* Byte strings, one a record. */
struct hr_strings {
    struct hr_column lengths;
    const uint8_t *data;
    uint64_t *starts; /* sampled; NULL when lengths are constant. Owned by whoever made it */
};

const uint8_t *hr_strings_get(const struct hr_strings *strings, uint64_t i, uint64_t *bytes);
/* Checks that count lengths make up data_bytes and samples the starts. HR_E_CORRUPT, HR_E_NOMEM. */
int hr_strings_init(struct hr_strings *strings, uint64_t count, uint64_t data_bytes,
                    struct hr_error *err) HR_MUST_CHECK;

/* Builder: holds nothing but a count while all items are equal, and widens as needed. */
struct hr_column_builder {
    uint64_t count, cap, first;
    uint8_t *data;
    uint32_t width;     /* 0 while all are equal */
    uint32_t min_width; /* set by the owner; 0 = 1 */
    bool never_constant;
    bool failed; /* out of memory, sticky */
};

void hr_column_push(struct hr_column_builder *builder, uint64_t value);
void hr_column_builder_finish(struct hr_column_builder *builder);
static inline bool hr_column_is_zero(const struct hr_column_builder *builder)
{
    return builder->width == 0 && builder->first == 0;
}
uint32_t hr_column_width_of(uint64_t value);

/* Compresses a section's bytes when that saves at least a tenth: fills out and *codec (HRS_*); with
 * HRS_PLAIN out is left empty. width: of its items, 0 or 1 = bytes. */
void hr_section_compress(const void *raw, uint64_t raw_bytes, uint32_t width, struct hr_buf *out,
                         unsigned *codec);
/* The reverse into raw[raw_bytes]; HR_E_CORRUPT with the offset inside the stored bytes. */
int hr_section_expand(unsigned codec, const uint8_t *stored, uint64_t stored_bytes, uint32_t width,
                      uint8_t *raw, uint64_t raw_bytes, struct hr_error *err) HR_MUST_CHECK;

#endif
