/* Reads the orientation out of an EXIF block (TIFF 6.0 directory layout; EXIF 2.32, section 4.6.4).
 * Strict: wrong type, count or range is no orientation at all. */
#include "decoders/exif.h"

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_BYTE = 1, TYPE_SHORT = 3, TYPE_UNDEFINED = 7, ENTRY_BYTES = 12 };

static uint32_t load16(const uint8_t *p, bool big)
{
    return big ? (uint32_t)(p[0] << 8 | p[1]) : hr_load_le16(p);
}

static uint32_t load32(const uint8_t *p, bool big)
{
    return big ? load16(p, true) << 16 | load16(p + 2, true) : hr_load_le32(p);
}

/* The entry of that tag in the first directory, or NULL. */
static const uint8_t *find_tag(const uint8_t *tiff, size_t count, uint32_t tag, bool *big)
{
    if (count < 8)
        return NULL;
    *big = memcmp(tiff, "MM\0\x2a", 4) == 0;
    if (!*big && memcmp(tiff, "II\x2a\0", 4) != 0)
        return NULL;
    size_t off = load32(tiff + 4, *big);
    if (off > count - 2)
        return NULL;
    size_t entries = load16(tiff + off, *big);
    off += 2;
    for (size_t i = 0; i < entries && count - off >= ENTRY_BYTES; i++, off += ENTRY_BYTES)
        if (load16(tiff + off, *big) == tag)
            return tiff + off;
    return NULL;
}

uint32_t hr_exif_orientation(const uint8_t *tiff, size_t count)
{
    bool big = false;

    if (count >= 6 && memcmp(tiff, "Exif\0\0", 6) == 0) {
        tiff += 6;
        count -= 6;
    }
    const uint8_t *e = find_tag(tiff, count, TAG_ORIENTATION, &big);
    if (!e || load16(e + 2, big) != TYPE_SHORT || load32(e + 4, big) != 1)
        return 0;
    uint32_t value = load16(e + 8, big);
    return value >= 1 && value <= 8 ? value : 0;
}

uint32_t hr_tiff_tag(const uint8_t *tiff, size_t count, uint32_t tag)
{
    bool big = false;
    const uint8_t *e = find_tag(tiff, count, tag, &big);

    if (!e)
        return 0;
    return load16(e + 2, big) == TYPE_SHORT ? load16(e + 8, big) : load32(e + 8, big);
}

const uint8_t *hr_tiff_bytes(const uint8_t *tiff, size_t count, uint32_t tag, size_t *bytes)
{
    bool big = false;
    const uint8_t *e = find_tag(tiff, count, tag, &big);

    if (!e || (load16(e + 2, big) != TYPE_BYTE && load16(e + 2, big) != TYPE_UNDEFINED))
        return NULL;
    size_t n = load32(e + 4, big), off = load32(e + 8, big);
    if (n <= 4 || off > count || n > count - off)
        return NULL;
    *bytes = n;
    return tiff + off;
}
