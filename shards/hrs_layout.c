/* Header and trailer of a shard file, and the numbering of facts. */
#include "shards/hrs_layout.h"

#include <string.h>

/* The first byte is not ASCII and the line ends would not survive a text-mode copy. */
const uint8_t hr_hrs_magic[8] = {0x89, 'H', 'R', 'S', '\r', '\n', 0x1a, '\n'};
static const uint8_t end_magic[8] = {'H', 'R', 'S', '-', 'E', 'N', 'D', '\n'};

static const struct {
    uint16_t off;
    uint8_t bytes;
} facts_table[HRS_FACT_COUNT] = {
#define ROW(id, member) [HRS_FACT_##id] = {offsetof(struct hr_facts, member), sizeof(((struct hr_facts *)0)->member)}
    ROW(FORMAT, format),
    ROW(WIDTH, width),
    ROW(HEIGHT, height),
    ROW(CHANNELS, channels),
    ROW(BIT_DEPTH, bit_depth),
    ROW(ORIENTATION, orientation),
    ROW(FRAMES, frames),
    ROW(RATE_NUM, rate_num),
    ROW(RATE_DEN, rate_den),
    ROW(SAMPLE_RATE, sample_rate),
    ROW(SAMPLES, samples),
    ROW(DURATION_NS, duration_ns),
    ROW(DTYPE, dtype),
    ROW(DIMS, dims),
    ROW(SHAPE, shape[0]),
    [HRS_FACT_SHAPE + 1] = {offsetof(struct hr_facts, shape[1]), 8},
    [HRS_FACT_SHAPE + 2] = {offsetof(struct hr_facts, shape[2]), 8},
    [HRS_FACT_SHAPE + 3] = {offsetof(struct hr_facts, shape[3]), 8},
    [HRS_FACT_SHAPE + 4] = {offsetof(struct hr_facts, shape[4]), 8},
    [HRS_FACT_SHAPE + 5] = {offsetof(struct hr_facts, shape[5]), 8},
    ROW(ITEMS, items),
#undef ROW
};

uint64_t hr_hrs_fact_get(const struct hr_facts *facts, unsigned fact)
{
    const uint8_t *p = (const uint8_t *)facts + facts_table[fact].off;

    return facts_table[fact].bytes == 4 ? hr_load_le32(p) : hr_load_le64(p);
}

void hr_hrs_fact_set(struct hr_facts *facts, unsigned fact, uint64_t value)
{
    uint8_t *p = (uint8_t *)facts + facts_table[fact].off;

    if (facts_table[fact].bytes == 4)
        hr_store_le32(p, (uint32_t)hr_min_u64(value, UINT32_MAX));
    else
        hr_store_le64(p, value);
}

void hr_hrs_header_store(const struct hrs_header *header, uint8_t out[HRS_HEADER_BYTES])
{
    memset(out, 0, HRS_HEADER_BYTES);
    memcpy(out, hr_hrs_magic, 8);
    hr_store_le32(out + 8, header->version);
    hr_store_le32(out + 12, header->flags);
    memcpy(out + 16, header->uuid, 16);
    hr_store_le32(out + 60, hr_checksum(out, 60));
}

int hr_hrs_header_load(const uint8_t in[HRS_HEADER_BYTES], struct hrs_header *header,
                       struct hr_error *err)
{
    struct hrs_header h = {.version = hr_load_le32(in + 8), .flags = hr_load_le32(in + 12)};
    int ret = 0;
    int64_t off = 0;

    if (memcmp(in, hr_hrs_magic, 8) != 0)
        ret = hr_fail(err, HR_E_CORRUPT, "header: not a Headrace shard (wrong magic)");
    else if (hr_load_le32(in + 60) != hr_checksum(in, 60))
        ret = hr_fail(err, HR_E_CORRUPT, "header: checksum mismatch"), off = 60;
    else if (h.version != HRS_VERSION)
        ret = hr_fail(err, HR_E_VERSION, "header: format %u, this version reads %u", h.version,
                      HRS_VERSION),
        off = 8;
    else if (h.flags != 0)
        ret = hr_fail(err, HR_E_VERSION, "header: unknown flags 0x%x", h.flags), off = 12;
    for (int i = 32; ret == 0 && i < 60; i++)
        if (in[i] != 0)
            ret = hr_fail(err, HR_E_CORRUPT, "header: reserved byte is not zero"), off = i;
    if (ret < 0) {
        hr_error_at_value(err, NULL, HR_NO_RECORD, NULL, off);
        return ret;
    }
    memcpy(h.uuid, in + 16, 16);
    *header = h;
    return 0;
}

void hr_hrs_trailer_store(const struct hrs_trailer *trailer, uint8_t out[HRS_TRAILER_BYTES])
{
    memset(out, 0, HRS_TRAILER_BYTES);
    hr_store_le64(out, trailer->footer_off);
    hr_store_le64(out + 8, trailer->footer_bytes);
    hr_store_le64(out + 16, trailer->file_bytes);
    memcpy(out + 24, trailer->digest.bytes, 16);
    hr_store_le32(out + 40, trailer->footer_checksum);
    hr_store_le32(out + 44, trailer->version);
    hr_store_le32(out + 52, hr_checksum(out, 52));
    memcpy(out + 56, end_magic, 8);
}

int hr_hrs_trailer_load(const uint8_t in[HRS_TRAILER_BYTES], struct hrs_trailer *trailer,
                        struct hr_error *err)
{
    struct hrs_trailer t = {
        .footer_off = hr_load_le64(in),
        .footer_bytes = hr_load_le64(in + 8),
        .file_bytes = hr_load_le64(in + 16),
        .footer_checksum = hr_load_le32(in + 40),
        .version = hr_load_le32(in + 44),
    };
    int ret = 0;
    int64_t off = 56;

    if (memcmp(in + 56, end_magic, 8) != 0)
        ret = hr_fail(err, HR_E_CORRUPT, "trailer: no end mark, the file is cut short or not a shard");
    else if (hr_load_le32(in + 52) != hr_checksum(in, 52))
        ret = hr_fail(err, HR_E_CORRUPT, "trailer: checksum mismatch"), off = 52;
    else if (t.version != HRS_VERSION)
        ret = hr_fail(err, HR_E_VERSION, "trailer: format %u, this version reads %u", t.version,
                      HRS_VERSION),
        off = 44;
    else if (hr_load_le32(in + 48) != 0)
        ret = hr_fail(err, HR_E_CORRUPT, "trailer: reserved bytes are not zero"), off = 48;
    if (ret < 0) {
        hr_error_at_value(err, NULL, HR_NO_RECORD, NULL, off);
        return ret;
    }
    memcpy(t.digest.bytes, in + 24, 16);
    *trailer = t;
    return 0;
}
