/* Positions inside streams: checked once when a shard opens, then found with a few loads and adds
 * (docs/formats/hrs.md, "Streams"). */
#include <string.h>

#include "base/mem.h"
#include "hrs_index.h"

static uint64_t extent_end(const struct hr_stream_index *s, uint64_t i)
{
    return i + 1 < s->extent_count ? hr_column_get(&s->extent_raw, i + 1) : s->raw_bytes;
}

static int bad_extent(struct hr_error *err, uint32_t stream, uint64_t i, const char *what)
{
    return hr_fail(err, HR_E_CORRUPT, "index: stream %u, extent %llu: %s", stream,
                   (unsigned long long)i, what);
}

static const char *extent_fault(const struct hr_shard *shard, const struct hr_stream_index *s,
                                uint64_t i, uint64_t after)
{
    uint64_t raw = hr_column_get(&s->extent_raw, i), end = extent_end(s, i), file_end;
    uint64_t off = hr_column_get(&s->extent_offsets, i), stored = hr_column_get(&s->extent_stored, i);

    if (raw >= end || end > s->raw_bytes || (i == 0 && raw != 0))
        return "raw starts do not ascend";
    if (off < after || !hr_add_u64(off, stored, &file_end) || file_end > shard->payload_end)
        return "outside the payload, or before the one it follows";
    if (s->codec == HR_CODEC_NONE)
        return stored != end - raw              ? "size is not that of its values"
               : ((off ^ raw) & (HRS_ALIGN - 1)) ? "not aligned as its values are"
                                                 : NULL;
    if (end - raw > HRS_MAX_BLOCK_BYTES || stored > end - raw ||
        (end - raw) / HRS_LZ4_MAX_RATIO > stored)
        return "impossible block size";
    return NULL;
}

static int check_extents(const struct hr_shard *shard, uint32_t stream, struct hr_error *err)
{
    const struct hr_stream_index *s = &shard->streams[stream];
    uint64_t after = HRS_HEADER_BYTES;

    if ((s->extent_count == 0) != (s->raw_bytes == 0))
        return hr_fail(err, HR_E_CORRUPT, "index: stream %u has bytes without extents", stream);
    if (s->extent_count > 1 && !s->extent_raw.data)
        return bad_extent(err, stream, 1, "raw starts do not ascend");
    for (uint64_t i = 0; i < s->extent_count; i++) {
        const char *fault = extent_fault(shard, s, i, after);
        if (fault)
            return bad_extent(err, stream, i, fault);
        after = hr_column_get(&s->extent_offsets, i) + hr_column_get(&s->extent_stored, i);
    }
    return 0;
}

/* Each stream's extents ascend in the file; merging them shows any overlap between streams. */
static int check_overlap(const struct hr_shard *shard, struct hr_error *err)
{
    uint64_t next[HR_CODEC_LZ4HC + 1] = {0}, after = 0;

    for (;;) {
        uint32_t first = UINT32_MAX;
        uint64_t first_off = UINT64_MAX;
        for (uint32_t k = 0; k < shard->stream_count; k++) {
            const struct hr_stream_index *s = &shard->streams[k];
            uint64_t off = next[k] < s->extent_count ? hr_column_get(&s->extent_offsets, next[k])
                                                     : UINT64_MAX;
            if (off < first_off) {
                first_off = off;
                first = k;
            }
        }
        if (first == UINT32_MAX)
            return 0;
        if (first_off < after)
            return bad_extent(err, first, next[first], "overlaps another stream's");
        after = first_off + hr_column_get(&shard->streams[first].extent_stored, next[first]);
        next[first]++;
    }
}

/* ---- values against extents ---- */

struct walk {
    const struct hr_shard *shard;
    const struct hr_stream_index *s;
    uint64_t pos, extent, end; /* raw position; the extent that it is in, and its end */
};

/* One chunk of records, value by value. False: a value is not inside one extent. */
static bool walk_values(struct walk *w, uint64_t first, uint64_t count)
{
    for (uint64_t r = first; r < first + count; r++) {
        for (uint32_t k = 0; k < w->s->field_count; k++) {
            uint64_t bytes = hr_column_get(&w->shard->fields[w->s->fields[k]].lengths, r);
            if (bytes == 0)
                continue;
            uint64_t start = w->s->codec == HR_CODEC_NONE ? hr_hrs_value_start(w->pos, bytes) : w->pos;
            while (start >= w->end && w->extent + 1 < w->s->extent_count)
                w->end = extent_end(w->s, ++w->extent);
            w->pos = start + bytes;
            if (w->pos > w->end)
                return false;
        }
    }
    return true;
}

static uint64_t chunk_bytes(const struct hr_shard *shard, const struct hr_stream_index *s,
                            uint64_t first, uint64_t count)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < s->field_count; k++)
        sum += hr_column_sum(&shard->fields[s->fields[k]].lengths, first, count);
    return sum;
}

static int walk_stream(struct hr_shard *shard, uint32_t stream, struct hr_error *err)
{
    struct hr_stream_index *s = &shard->streams[stream];
    struct walk w = {.shard = shard, .s = s, .end = s->extent_count ? extent_end(s, 0) : 0};

    for (uint64_t r = 0; r < shard->record_count; r += HR_SAMPLE_RECORDS) {
        uint64_t n = hr_min_u64(HR_SAMPLE_RECORDS, shard->record_count - r);
        s->starts[r / HR_SAMPLE_RECORDS] = w.pos;
        /* Lengths are at most 2^50 each, so that a chunk's sum cannot overflow. */
        uint64_t sum = s->aligned ? UINT64_MAX : chunk_bytes(shard, s, r, n);
        if (sum <= w.end - w.pos) {
            w.pos += sum;
        } else if (!walk_values(&w, r, n)) {
            int ret = hr_fail(err, HR_E_CORRUPT, "index: a value is not inside one extent of stream %u",
                              stream);
            hr_error_at_value(err, NULL, r, NULL, -1);
            return ret;
        }
    }
    return w.pos == s->raw_bytes
               ? 0
               : hr_fail(err, HR_E_CORRUPT, "index: lengths do not make up stream %u", stream);
}

static int prepare_stream(struct hr_shard *shard, uint32_t stream, struct hr_error *err)
{
    struct hr_stream_index *s = &shard->streams[stream];
    uint64_t low, high, bytes = (shard->record_count / HR_SAMPLE_RECORDS + 1) * sizeof(*s->starts);

    for (uint32_t k = 0; k < s->field_count; k++) {
        hr_column_range(&shard->fields[s->fields[k]].lengths, shard->record_count, &low, &high);
        if (high > s->raw_bytes)
            return hr_fail(err, HR_E_CORRUPT, "index: a value is larger than stream %u", stream);
        if (s->codec == HR_CODEC_NONE && high >= HRS_LARGE_BYTES)
            s->aligned = true;
    }
    /* At most a 32nd of the checksum columns, which have been read: not a lie's size. */
    s->starts = hr_alloc(bytes);
    if (!s->starts)
        return hr_fail(err, HR_E_NOMEM, "no memory for the index");
    s->starts[0] = 0;
    shard->memory_bytes += bytes;
    return walk_stream(shard, stream, err);
}

int hr_hrs_check_streams(struct hr_shard *shard, struct hr_error *err)
{
    int ret = 0;

    for (uint32_t i = 0; ret == 0 && i < shard->stream_count; i++)
        ret = check_extents(shard, i, err);
    if (ret == 0)
        ret = check_overlap(shard, err);
    for (uint32_t i = 0; ret == 0 && i < shard->stream_count; i++)
        ret = prepare_stream(shard, i, err);
    return ret;
}

/* ---- locate ---- */

static uint64_t value_start(const struct hr_shard *shard, const struct hr_stream_index *s,
                            uint64_t record, uint32_t field)
{
    uint64_t first = hr_align_down(record, HR_SAMPLE_RECORDS);
    uint64_t pos = s->starts[record / HR_SAMPLE_RECORDS];
    const struct hr_field_index *fields = shard->fields;

    if (!s->aligned) {
        pos += chunk_bytes(shard, s, first, record - first);
        for (uint32_t k = 0; s->fields[k] != field; k++)
            pos += hr_column_get(&fields[s->fields[k]].lengths, record);
        return pos;
    }
    for (uint64_t r = first; r <= record; r++) {
        for (uint32_t k = 0; k < s->field_count; k++) {
            uint64_t bytes = hr_column_get(&fields[s->fields[k]].lengths, r);
            pos = hr_hrs_value_start(pos, bytes);
            if (r == record && s->fields[k] == field)
                return pos;
            pos += bytes;
        }
    }
    return pos;
}

void hr_hrs_locate(const struct hr_shard *shard, uint64_t record, uint32_t field,
                   struct hr_value_place *place)
{
    const struct hr_field_index *f = &shard->fields[field];
    const struct hr_stream_index *s = &shard->streams[f->stream];

    place->bytes = hr_column_get(&f->lengths, record);
    if (place->bytes == 0) {
        place->off = HRS_HEADER_BYTES;
        return;
    }
    uint64_t raw = value_start(shard, s, record, field);
    uint64_t i = hr_column_search(&s->extent_raw, s->extent_count, raw);
    uint64_t extent_raw = hr_column_get(&s->extent_raw, i);
    uint64_t off = hr_column_get(&s->extent_offsets, i);
    uint64_t stored = hr_column_get(&s->extent_stored, i);
    uint64_t block = extent_end(s, i) - extent_raw;

    if (s->codec == HR_CODEC_NONE || stored == block) {
        /* a block that would not shrink lies there as it is */
        place->off = off + (raw - extent_raw);
        place->stored_bytes = place->bytes;
        place->block_bytes = place->bytes;
        return;
    }
    place->codec = (uint8_t)s->codec;
    place->off = off;
    place->stored_bytes = stored;
    place->block_off = raw - extent_raw;
    place->block_bytes = block;
}
