/* Repacked PNG (docs/formats/repacked-png.md): the samples of an 8-bit PNG after a predictor, as plain bit
 * fields in place of deflate, and its other chunks as they were. */
#ifndef HR_DECODERS_RPNG_H
#define HR_DECODERS_RPNG_H

#include "base/buf.h"
#include "decoders/decoder.h"

enum { HR_RPNG_HEADER_BYTES = 32, HR_RPNG_GROUP_ROWS = 16, HR_RPNG_BLOCK = 32 };

struct hr_rpng {
    uint32_t width, height;
    uint32_t channels, colour; /* samples a pixel; PNG's colour type */
    uint32_t group_count;
    const uint8_t *sizes;           /* of the groups, 4 bytes each */
    const uint8_t *groups, *kept;   /* kept: chunks in PNG's own form */
    uint32_t group_bytes, kept_bytes, kept_before; /* before: ahead of the pixels */
};

/* Checks a stored value; pointers go into it. */
int hr_rpng_open(const uint8_t *bytes, size_t count, struct hr_rpng *png, struct hr_error *err) HR_MUST_CHECK;

/* Repacks a PNG; out is reset first. Returns 0 only after the packed bytes gave back all samples. HR_E_FORMAT: a
 * kind that is not repacked, or one that would become more than half as large again. */
int hr_rpng_encode(const uint8_t *png, size_t count, struct hr_buf *out, struct hr_error *err) HR_MUST_CHECK;
/* Appends a PNG of the same samples and chunks. */
int hr_rpng_restore(const uint8_t *packed, size_t count, struct hr_buf *out, struct hr_error *err) HR_MUST_CHECK;

/* Samples of whole rows as PNG has them, from top to bottom. False = no more are needed. */
typedef bool hr_rpng_push(void *user, uint32_t y, uint8_t *const planes[4]);
/* Room for the planes, all zero at first; hr_free(room). */
struct hr_rpng_scratch {
    uint8_t *room;
    size_t room_bytes;
};
/* Rows first to end - 1, of them the first `columns` samples, planes with the colour transform undone. */
int hr_rpng_rows(const struct hr_rpng *png, struct hr_rpng_scratch *scratch, uint32_t first, uint32_t end,
                 uint32_t columns, hr_rpng_push *push, void *user, struct hr_error *err) HR_MUST_CHECK;

/* ---- one plane's row (rpng_row.c); buffers have room for the width rounded up to whole blocks ---- */

size_t hr_rpng_row_bound(uint32_t width);
/* Returns the bytes written. Both rows are zero past the width. */
size_t hr_rpng_row_encode(uint8_t *dst, const uint8_t *row, const uint8_t *above, uint32_t width);
/* *at moves behind the row. False: damaged. */
bool hr_rpng_row_decode(const uint8_t **at, const uint8_t *end, uint8_t *row, const uint8_t *above, uint32_t width,
                        uint32_t columns);

extern const struct hr_image_decoder hr_repacked_png_decoder;

#endif
