/* Stores the bytes around a scan. LZ4 with a dictionary: what nearly every JPEG file repeats, then the
 * value's own quantizers. */
#include <string.h>

#include <lz4.h>
#include <lz4hc.h>

#include "base/mem.h"
#include "rjpeg/dictionary.h"
#include "rjpeg/kept.h"

struct dictionary {
    uint8_t bytes[RJ_DICTIONARY_BYTES + HR_RJPEG_COMPONENTS * 128];
    int used;
};

static void make_dictionary(const struct hr_rjpeg_info *info, const uint8_t *head,
                            struct dictionary *d)
{
    size_t quantizers = info->sizes_off - HR_RJPEG_HEADER_BYTES;

    memcpy(d->bytes, rj_dictionary, RJ_DICTIONARY_BYTES);
    memcpy(d->bytes + RJ_DICTIONARY_BYTES, head + HR_RJPEG_HEADER_BYTES, quantizers);
    d->used = (int)(RJ_DICTIONARY_BYTES + quantizers);
}

static int compress(const struct dictionary *d, const uint8_t *plain, int bytes, uint8_t *out, int room)
{
    LZ4_streamHC_t *stream = hr_alloc(sizeof(*stream));
    int used = 0;

    if (stream && LZ4_initStreamHC(stream, sizeof(*stream))) {
        LZ4_resetStreamHC_fast(stream, LZ4HC_CLEVEL_MAX);
        LZ4_loadDictHC(stream, (const char *)d->bytes, d->used);
        used = LZ4_compress_HC_continue(stream, (const char *)plain, (char *)out, bytes, room);
    }
    hr_free(stream);
    return used;
}

int rj_kept_add(struct hr_rjpeg_info *info, const uint8_t *head, const uint8_t *jpeg_head,
                const uint8_t *jpeg_tail, struct hr_buf *out, struct hr_error *err)
{
    size_t bytes = (size_t)info->jpeg_head_bytes + info->jpeg_tail_bytes;
    struct dictionary dictionary;
    int packed = 0;

    if (bytes > LZ4_MAX_INPUT_SIZE)
        return hr_fail(err, HR_E_FORMAT, "a JPEG with %zu bytes around its scan is not repacked", bytes);
    uint8_t *plain = hr_alloc(2 * bytes);
    if (!plain)
        return hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG");
    memcpy(plain, jpeg_head, info->jpeg_head_bytes);
    memcpy(plain + info->jpeg_head_bytes, jpeg_tail, info->jpeg_tail_bytes);
    make_dictionary(info, head, &dictionary);
    packed = compress(&dictionary, plain, (int)bytes, plain + bytes, (int)bytes);
    info->kept_lz4 = packed > 0;
    info->kept_bytes = packed > 0 ? (uint32_t)packed : (uint32_t)bytes;
    hr_buf_add(out, packed > 0 ? plain + bytes : plain, info->kept_bytes);
    hr_free(plain);
    return 0;
}

int rj_kept_bytes(const struct hr_rjpeg_info *info, uint64_t *bytes, struct hr_error *err)
{
    *bytes = (uint64_t)info->jpeg_head_bytes + info->jpeg_tail_bytes;
    /* LZ4 packs at most 255 to 1, which bounds what a damaged header can claim. */
    if (info->kept_bytes > LZ4_MAX_INPUT_SIZE || *bytes > LZ4_MAX_INPUT_SIZE ||
        (info->kept_lz4 ? *bytes > 255ull * info->kept_bytes : *bytes != info->kept_bytes))
        return hr_fail(err, HR_E_DECODE, "repacked JPEG has a damaged header");
    return 0;
}

int rj_kept_read(const struct hr_rjpeg_info *info, const uint8_t *packed, uint8_t *plain, uint64_t bytes,
                 struct hr_error *err)
{
    const uint8_t *stored = packed + info->head_bytes + info->data_bytes;
    struct dictionary dictionary;

    if (!info->kept_lz4) {
        memcpy(plain, stored, bytes);
        return 0;
    }
    make_dictionary(info, packed, &dictionary);
    bool all = bytes == (uint64_t)info->jpeg_head_bytes + info->jpeg_tail_bytes;
    const char *from = (const char *)stored, *words = (const char *)dictionary.bytes;
    int count = (int)info->kept_bytes, room = (int)bytes;
    int got = all ? LZ4_decompress_safe_usingDict(from, (char *)plain, count, room, words, dictionary.used)
                  : LZ4_decompress_safe_partial_usingDict(from, (char *)plain, count, room, room, words,
                                                          dictionary.used);
    if (got < 0 || (uint64_t)got != bytes)
        return hr_fail(err, HR_E_DECODE, "repacked JPEG has damaged markers");
    return 0;
}

int rj_kept_load(const struct hr_rjpeg_info *info, const uint8_t *packed, uint8_t **kept,
                 struct hr_error *err)
{
    uint64_t bytes;
    int ret = rj_kept_bytes(info, &bytes, err);

    if (ret < 0)
        return ret;
    uint8_t *plain = hr_alloc(bytes + 1);
    if (!plain)
        return hr_fail(err, HR_E_NOMEM, "no memory to restore a JPEG");
    ret = rj_kept_read(info, packed, plain, bytes, err);
    if (ret < 0)
        hr_free(plain);
    else
        *kept = plain;
    return ret;
}

int hr_rjpeg_before(const uint8_t *packed, size_t bytes, uint8_t *dst, uint32_t *count, struct hr_error *err)
{
    struct hr_rjpeg_info info;
    uint64_t all;
    int ret = hr_rjpeg_info(packed, bytes, &info, err);

    if (ret == 0 && bytes < info.value_bytes)
        ret = hr_fail(err, HR_E_TRUNCATED, "repacked JPEG is cut off");
    if (ret == 0)
        ret = rj_kept_bytes(&info, &all, err);
    if (ret == 0 && dst)
        ret = rj_kept_read(&info, packed, dst, info.jpeg_head_bytes, err);
    *count = ret < 0 ? 0 : info.jpeg_head_bytes;
    return ret;
}
