/* Compression of index sections: chunks of 1 MiB, each LZ4 or as it is, with the bytes of wider
 * items split into planes first, so that high bytes that are all alike cost nothing. */
#include <lz4.h>
#include <string.h>

#include "base/mem.h"
#include "shards/column.h"
#include "shards/hrs_layout.h"

enum { WORTH_BYTES = 128, CHUNK_HEAD_BYTES = 4 };

static void split_planes(const uint8_t *in, uint8_t *out, uint64_t bytes, uint32_t width)
{
    uint64_t items = bytes / width;

    for (uint32_t k = 0; k < width; k++)
        for (uint64_t i = 0; i < items; i++)
            out[k * items + i] = in[i * width + k];
}

static void join_planes(const uint8_t *in, uint8_t *out, uint64_t bytes, uint32_t width)
{
    uint64_t items = bytes / width;

    if (width == 2) {
        for (uint64_t i = 0; i < items; i++) {
            out[2 * i] = in[i];
            out[2 * i + 1] = in[items + i];
        }
    } else if (width == 4) {
        for (uint64_t i = 0; i < items; i++)
            for (uint32_t k = 0; k < 4; k++)
                out[4 * i + k] = in[k * items + i];
    } else {
        for (uint64_t i = 0; i < items; i++)
            for (uint32_t k = 0; k < 8; k++)
                out[8 * i + k] = in[k * items + i];
    }
}

void hr_section_compress(const void *raw, uint64_t raw_bytes, uint32_t width, struct hr_buf *out,
                         unsigned *codec)
{
    const uint8_t *in = raw;
    uint8_t *planes = NULL, *packed = NULL;
    int bound = LZ4_compressBound(HRS_CHUNK_BYTES);

    *codec = HRS_PLAIN;
    if (raw_bytes < WORTH_BYTES)
        return;
    planes = hr_alloc(HRS_CHUNK_BYTES);
    packed = hr_alloc((size_t)bound);
    for (uint64_t off = 0; planes && packed && off < raw_bytes; off += HRS_CHUNK_BYTES) {
        uint32_t n = (uint32_t)hr_min_u64(HRS_CHUNK_BYTES, raw_bytes - off);
        const uint8_t *chunk = in + off;
        uint8_t head[CHUNK_HEAD_BYTES];
        if (width > 1) {
            split_planes(chunk, planes, n, width);
            chunk = planes;
        }
        uint32_t stored = (uint32_t)LZ4_compress_default((const char *)chunk, (char *)packed, (int)n, bound);
        if (stored == 0 || stored >= n)
            stored = n;
        hr_store_le32(head, stored);
        hr_buf_add(out, head, sizeof(head));
        hr_buf_add(out, stored == n ? chunk : packed, stored);
    }
    if (planes && packed && !hr_buf_failed(out) && out->used < raw_bytes - raw_bytes / 10)
        *codec = width > 1 ? HRS_PLANES_LZ4 : HRS_LZ4;
    else
        hr_buf_reset(out);
    hr_free(planes);
    hr_free(packed);
}

static int expand_chunk(const uint8_t *stored, uint32_t stored_bytes, uint8_t *raw, uint32_t bytes)
{
    if (stored_bytes == bytes) {
        memcpy(raw, stored, bytes);
        return 0;
    }
    return stored_bytes < bytes && LZ4_decompress_safe((const char *)stored, (char *)raw,
                                                       (int)stored_bytes, (int)bytes) == (int)bytes
               ? 0
               : -1;
}

int hr_section_expand(unsigned codec, const uint8_t *stored, uint64_t stored_bytes, uint32_t width,
                      uint8_t *raw, uint64_t raw_bytes, struct hr_error *err)
{
    bool planes = codec == HRS_PLANES_LZ4;
    uint8_t *scratch = planes ? hr_alloc(HRS_CHUNK_BYTES) : NULL;
    uint64_t at = 0;
    int ret = 0;

    if (planes && !scratch)
        return hr_fail(err, HR_E_NOMEM, "no memory to expand a section");
    for (uint64_t off = 0; ret == 0 && off < raw_bytes; off += HRS_CHUNK_BYTES) {
        uint32_t n = (uint32_t)hr_min_u64(HRS_CHUNK_BYTES, raw_bytes - off);
        uint64_t left = stored_bytes - at;
        uint32_t chunk = left < CHUNK_HEAD_BYTES ? UINT32_MAX : hr_load_le32(stored + at);
        uint8_t *to = planes ? scratch : raw + off;
        if (left < CHUNK_HEAD_BYTES || chunk > left - CHUNK_HEAD_BYTES ||
            expand_chunk(stored + at + CHUNK_HEAD_BYTES, chunk, to, n) < 0) {
            ret = hr_fail(err, HR_E_CORRUPT, "compressed section does not expand");
            break;
        }
        if (planes)
            join_planes(scratch, raw + off, n, width);
        at += CHUNK_HEAD_BYTES + chunk;
    }
    if (ret == 0 && at != stored_bytes)
        ret = hr_fail(err, HR_E_CORRUPT, "bytes left over after a compressed section");
    if (ret < 0)
        hr_error_at_value(err, NULL, HR_NO_RECORD, NULL, (int64_t)at);
    hr_free(scratch);
    return ret;
}
