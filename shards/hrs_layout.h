/* The bytes of a shard file: fixed sizes, section kinds, header and trailer (docs/formats/hrs.md).
 * Shared by the writer, the reader and verify; nothing outside this folder needs it. */
#ifndef HR_SHARDS_HRS_LAYOUT_H
#define HR_SHARDS_HRS_LAYOUT_H

#include "base/err.h"
#include "base/hash.h"
#include "base/types.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "columns are used as they lie in the file: little-endian machines only"
#endif

enum {
    HRS_VERSION = 1,
    HRS_HEADER_BYTES = 64,
    HRS_TRAILER_BYTES = 64,
    HRS_ALIGN = 4096,            /* of large values, in codec none */
    HRS_LARGE_BYTES = 64 << 10,  /* values from this size on are aligned */
    HRS_BLOCK_BYTES = 128 << 10, /* raw bytes of a compressed block, unless the writer is told */
    HRS_CHUNK_BYTES = 1 << 20,   /* raw bytes of one chunk of a compressed section */
    HRS_MAX_BLOCK_BYTES = 0x7e000000, /* what one LZ4 block can hold */
    HRS_MAX_FOOTER_BYTES = 64 << 20,
    HRS_LZ4_MAX_RATIO = 255, /* LZ4 never expands more than this */
};

#define HRS_MAX_RECORDS   (UINT64_C(1) << 31)
#define HRS_MAX_RAW_BYTES (UINT64_C(1) << 50)

enum hrs_section_kind {
    HRS_KEY_LENGTHS = 1,
    HRS_KEY_DATA = 2,
    HRS_PRESENCE = 3,
    HRS_LENGTHS = 4,
    HRS_CHECKSUMS = 5,
    HRS_ENCODINGS = 6,
    HRS_ORIGINAL_BYTES = 7,
    HRS_FACT = 8,
    HRS_SCALAR = 9,
    HRS_STR_LENGTHS = 10,
    HRS_STR_DATA = 11,
    HRS_SEEK_LENGTHS = 12,
    HRS_SEEK_DATA = 13,
    HRS_EXTENT_RAW = 14,
    HRS_EXTENT_OFFSETS = 15,
    HRS_EXTENT_STORED = 16,
    HRS_EXTENT_CHECKSUMS = 17,
    HRS_KIND_COUNT
};

enum { HRS_SECTION_OPTIONAL = 1, HRS_SECTION_CONSTANT = 2 };
enum { HRS_PLAIN = 0, HRS_LZ4 = 1, HRS_PLANES_LZ4 = 2 };

/* Facts by their number in the file: append, never renumber. */
enum hrs_fact {
    HRS_FACT_FORMAT = 1,
    HRS_FACT_WIDTH = 2,
    HRS_FACT_HEIGHT = 3,
    HRS_FACT_CHANNELS = 4,
    HRS_FACT_BIT_DEPTH = 5,
    HRS_FACT_ORIENTATION = 6,
    HRS_FACT_FRAMES = 7,
    HRS_FACT_RATE_NUM = 8,
    HRS_FACT_RATE_DEN = 9,
    HRS_FACT_SAMPLE_RATE = 10,
    HRS_FACT_SAMPLES = 11,
    HRS_FACT_DURATION_NS = 12,
    HRS_FACT_DTYPE = 13,
    HRS_FACT_DIMS = 14,
    HRS_FACT_SHAPE = 15, /* to 20: one for each axis */
    HRS_FACT_ITEMS = 21,
    HRS_FACT_COUNT
};

uint64_t hr_hrs_fact_get(const struct hr_facts *facts, unsigned fact);
/* Values that a fact cannot hold saturate: they come from files. */
void hr_hrs_fact_set(struct hr_facts *facts, unsigned fact, uint64_t value);

struct hrs_header {
    uint32_t version, flags;
    uint8_t uuid[16];
};

struct hrs_trailer {
    uint64_t footer_off, footer_bytes, file_bytes;
    uint32_t footer_checksum, version;
    struct hr_digest digest;
};

extern const uint8_t hr_hrs_magic[8];

void hr_hrs_header_store(const struct hrs_header *header, uint8_t out[HRS_HEADER_BYTES]);
void hr_hrs_trailer_store(const struct hrs_trailer *trailer, uint8_t out[HRS_TRAILER_BYTES]);
/* Every byte is checked. HR_E_CORRUPT, or HR_E_VERSION for a later format; offsets in err are
 * relative to the header or trailer. */
int hr_hrs_header_load(const uint8_t in[HRS_HEADER_BYTES], struct hrs_header *header,
                       struct hr_error *err) HR_MUST_CHECK;
int hr_hrs_trailer_load(const uint8_t in[HRS_TRAILER_BYTES], struct hrs_trailer *trailer,
                        struct hr_error *err) HR_MUST_CHECK;

/* Raw position of a value in a stream of codec none whose values so far end at pos. */
static inline uint64_t hr_hrs_value_start(uint64_t pos, uint64_t bytes)
{
    return bytes >= HRS_LARGE_BYTES ? hr_align_up(pos, HRS_ALIGN) : pos;
}

#endif
