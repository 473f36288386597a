/* Walks the segments of a JPEG up to its first scan (ITU-T T.81, Annex B; ICC.1:2010, Annex B.4). */
#include "decoders/jpeg_segments.h"

#include <string.h>

#include "decoders/exif.h"
#include "decoders/icc.h"
#include "decoders/scratch.h"

enum { APP1 = 0xe1, APP2 = 0xe2, SOS = 0xda };

static const char icc_name[12] = "ICC_PROFILE";

enum { ICC_HEAD = sizeof(icc_name) + 2, MAX_PARTS = 255 };

struct segment {
    uint8_t marker;
    const uint8_t *body;
    size_t bytes;
};

/* The next segment from *at on; false at the scan, the end, or where the bytes make no sense. */
static bool next_segment(const uint8_t *b, size_t n, size_t *at, struct segment *s)
{
    size_t i = *at;

    while (i + 4 <= n && b[i] == 0xff && b[i + 1] == 0xff)
        i++;
    if (i + 4 > n || b[i] != 0xff || b[i + 1] == SOS)
        return false;
    size_t length = (size_t)b[i + 2] << 8 | b[i + 3];
    if (length < 2 || length > n - i - 2)
        return false;
    *s = (struct segment){b[i + 1], b + i + 4, length - 2};
    *at = i + 2 + length;
    return true;
}

uint32_t hr_jpeg_orientation(const uint8_t *jpeg, size_t count)
{
    struct segment s;

    for (size_t at = 2; next_segment(jpeg, count, &at, &s);)
        if (s.marker == APP1 && s.bytes >= 6 && memcmp(s.body, "Exif\0\0", 6) == 0)
            return hr_exif_orientation(s.body, s.bytes);
    return 0;
}

static bool is_icc(const struct segment *s)
{
    return s->marker == APP2 && s->bytes >= ICC_HEAD && memcmp(s->body, icc_name, sizeof(icc_name)) == 0;
}

/* The first segment of each number. False when one of them is not there. */
static bool find_parts(const uint8_t *jpeg, size_t count, struct hr_profile parts[MAX_PARTS], unsigned *number)
{
    struct segment s;

    *number = 0;
    for (size_t at = 2; next_segment(jpeg, count, &at, &s);) {
        if (!is_icc(&s))
            continue;
        unsigned i = s.body[sizeof(icc_name)], of = s.body[sizeof(icc_name) + 1];
        if (i < 1 || i > of || (*number && of != *number))
            return false;
        *number = of;
        if (!parts[i - 1].bytes)
            parts[i - 1] = (struct hr_profile){.bytes = s.body + ICC_HEAD, .count = s.bytes - ICC_HEAD};
    }
    for (unsigned i = 0; i < *number; i++)
        if (!parts[i].bytes)
            return false;
    return true;
}

int hr_jpeg_profile(const uint8_t *jpeg, size_t count, struct hr_profile *profile, struct hr_error *err)
{
    struct hr_profile parts[MAX_PARTS] = {{0}};
    unsigned number;
    size_t all = 0;

    profile->bytes = NULL;
    profile->count = 0;
    if (!find_parts(jpeg, count, parts, &number))
        return hr_fail(err, HR_E_DECODE, "parts of the JPEG's colour profile are missing");
    if (number == 1) {
        profile->bytes = parts[0].bytes;
        profile->count = parts[0].count;
    }
    if (number < 2)
        return 0;
    for (unsigned i = 0; i < number; i++)
        all += parts[i].count;
    if (all > HR_ICC_MAX_BYTES)
        return hr_fail(err, HR_E_LIMIT, "the JPEG's colour profile has more than %d MB", HR_ICC_MAX_BYTES >> 20);
    if (hr_scratch_grow_bytes(&profile->room, &profile->room_bytes, all) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory for a colour profile");
    profile->bytes = profile->room;
    for (unsigned i = 0; i < number; i++) {
        memcpy(profile->room + profile->count, parts[i].bytes, parts[i].count);
        profile->count += parts[i].count;
    }
    return 0;
}
