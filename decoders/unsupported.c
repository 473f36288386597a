/* Picture formats that are recognised by content but not decoded: a clear answer that names the
 * format instead of "unknown". */
#include <string.h>

#include "decoders/decoder.h"

static int refuse(const uint8_t *bytes, size_t count, bool verify, struct hr_facts *facts,
                  struct hr_error *err)
{
    hr_fail(err, HR_E_FORMAT, "pictures of format %s are not supported",
            hr_media_format_name(facts->format));
    hr_error_hint(err, "convert them to JPEG, PNG or WebP before packing");
    return HR_E_FORMAT;
}

static enum hr_media_format sniff_avif(const uint8_t *b, size_t n)
{
    if (n < 16 || memcmp(b + 4, "ftyp", 4) != 0)
        return HR_MEDIA_UNKNOWN;
    size_t box = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
    size_t end = box < n ? box : n;
    for (size_t i = 8; i + 4 <= end; i += 4)
        if (i != 12 && (memcmp(b + i, "avif", 4) == 0 || memcmp(b + i, "avis", 4) == 0))
            return HR_MEDIA_AVIF;
    return HR_MEDIA_UNKNOWN;
}

#define UNSUPPORTED(word, upper)                                                                   \
    const struct hr_decoder hr_decoder_##word = {.name = #word,                                    \
                                                 .type = HR_FIELD_IMAGE,                           \
                                                 .format = HR_MEDIA_##upper,                       \
                                                 .sniff = sniff_##word,                            \
                                                 .measure = refuse}

UNSUPPORTED(avif, AVIF);
