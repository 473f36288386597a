/* A shard that is being written (internal to writer.c and writer_index.c). */
#ifndef HR_SHARDS_WRITER_PARTS_H
#define HR_SHARDS_WRITER_PARTS_H

#include "hrs.pb-c.h"
#include "shards/column.h"
#include "shards/index.h"
#include "shards/writer.h"

enum { HR_WRITER_STREAMS = HR_CODEC_LZ4HC + 1 };

struct field_writer {
    struct hr_buf presence;
    bool any_absent, any_original;
    struct hr_column_builder lengths, checksums, encodings, original_bytes, scalar;
    struct hr_column_builder facts[HRS_FACT_COUNT];
    struct hr_column_builder str_lengths, seek_lengths;
    struct hr_buf str_data, seek_data;
};

/* One codec's values. Codec none: an extent is open while no other stream wrote in between. LZ4:
 * the extent is the block being filled. */
struct stream_writer {
    bool used, extent_open;
    uint64_t raw_bytes, extent_raw, extent_off;
    struct hr_buf block;
    struct hr_column_builder extent_raw_col, extent_offsets, extent_stored, extent_checksums;
};

struct hr_shard_writer {
    char *path, *tmp;
    int fd;
    int failed; /* the first HR_E_* of a write: sticky */
    struct hr_error failure;
    struct hr_schema schema;
    struct hr_shard_writer_options options;
    uint64_t records, payload_bytes;
    uint64_t pos;     /* file offset of the next byte */
    uint8_t *buffer;  /* bytes [pos - buffered, pos) not yet in the file */
    size_t buffered;
    struct field_writer *fields;
    struct stream_writer streams[HR_WRITER_STREAMS];
    struct hr_column_builder key_lengths;
    struct hr_buf key_data;
    struct hr_hasher *hasher;
    Headrace__Section *sections;
    uint32_t section_count;
    uint64_t section_cap;
};

int hr_writer_append(struct hr_shard_writer *w, const void *data, uint64_t bytes,
                     struct hr_error *err) HR_MUST_CHECK;
/* All sections, in their order; the hasher has seen them then. */
int hr_writer_index(struct hr_shard_writer *w, struct hr_error *err) HR_MUST_CHECK;
/* The footer, whose place and checksum go into the trailer. */
int hr_writer_footer(struct hr_shard_writer *w, const uint8_t uuid[16],
                     struct hrs_trailer *trailer, struct hr_error *err) HR_MUST_CHECK;

#endif
