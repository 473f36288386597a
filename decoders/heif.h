/* The boxes of an AVIF picture: where the AV1 data of its primary item lies, as one picture or a grid of
 * tiles, and what its properties say (ISO/IEC 23008-12, ISO/IEC 14496-12). Only reads; the bytes
 * stay the caller's. */
#ifndef HR_DECODERS_HEIF_H
#define HR_DECODERS_HEIF_H

#include "base/err.h"

enum { HR_HEIF_MAX_TILES = 1024 };

struct hr_heif_part {
    const uint8_t *b;
    size_t n;
};

struct hr_heif {
    uint32_t width, height;  /* as stored, before orientation */
    uint32_t orientation;    /* of irot and imir, as EXIF counts: 1..8; 0 = neither */
    uint32_t columns, rows;  /* of the grid; 1 x 1: one picture */
    uint32_t bit_depth;
    bool mono;
    int matrix, full_range;  /* of colr nclx; -1 = not said */
    struct hr_heif_part icc; /* of colr prof or rICC; NULL = none */
    /* for hr_heif_tile */
    struct hr_heif_part file, iloc, idat, tile_ids;
    unsigned tile_id_bytes;
};

/* HR_E_TRUNCATED, HR_E_DECODE, HR_E_LIMIT; HR_E_FORMAT for what is not read: sequences without a
 * still, other codecs than AV1, properties that must be understood and are not. */
int hr_heif_open(const uint8_t *bytes, size_t count, struct hr_heif *heif, struct hr_error *err)
    HR_MUST_CHECK;

/* Size of tile i's AV1 data, and with dst (which has room for as much) the data. */
int hr_heif_tile(const struct hr_heif *heif, uint32_t i, uint8_t *dst, uint64_t *bytes,
                 struct hr_error *err) HR_MUST_CHECK;

#endif
