/* Boxes and keypoints that follow a picture: numbers of the stored picture become numbers of the delivered one,
 * by the matrix that was drawn for it. Rows are never dropped and keep their place; beside each stands whether it
 * is still there. Coordinates are pixel edges (ops/geometry.h), with the one choice that keypoints have. */
#ifndef HR_DECODERS_OPS_FOLLOW_H
#define HR_DECODERS_OPS_FOLLOW_H

#include "base/buf.h"
#include "decoders/ops/geometry.h"

enum hr_follow_kind { HR_FOLLOW_BOXES, HR_FOLLOW_KEYPOINTS };
enum hr_box_format { HR_BOX_XYXY, HR_BOX_XYWH, HR_BOX_CXCYWH };
enum { HR_FOLLOW_MAX_MIRROR = 256 };

struct hr_follow_form {
    enum hr_dtype dtype; /* F32, F64, I32, I64 */
    int format;          /* enum hr_box_format */
    bool normalized;     /* fractions of the picture's width and height instead of pixels */
};

struct hr_follow {
    enum hr_follow_kind kind;
    struct hr_follow_form from, to; /* as stored, as delivered */
    bool clamp;                     /* boxes: cut at the delivered picture's edges */
    double min_size, min_area;      /* boxes: what is smaller in the delivered picture is not kept; pixels */
    bool centres;                   /* keypoints: 0, 0 is the middle of the first pixel, not its corner */
    uint32_t columns;               /* 4; keypoints 2, or 3 with visibility */
    uint32_t mirror_count;          /* keypoints: where a group's member comes from in a mirrored picture */
    uint8_t mirror[HR_FOLLOW_MAX_MIRROR];
};

/* Options and `output` of a field (either may be NULL) whose values are stored as dtype. The options `follow` and `as`
 * are left to the caller. HR_E_CONFIG with place. */
int hr_follow_read(const struct hr_call *options, const struct hr_call *output, enum hr_follow_kind kind,
                   enum hr_dtype dtype, struct hr_follow *follow, struct hr_error *err) HR_MUST_CHECK;
/* Canonical text with every default filled in. */
void hr_follow_describe(const struct hr_follow *follow, struct hr_buf *text);

/* rows of columns numbers each, a multiple of group, which is at least mirror_count; src and dst need no alignment and
 * do not overlap; kept: one byte a row. w, h: of the oriented picture. Whatever the numbers are, all is written. */
void hr_follow_run(const struct hr_follow *follow, const struct hr_geometry *geometry, uint32_t w, uint32_t h,
                   uint64_t group, const void *src, void *dst, uint8_t *kept, uint64_t rows);

#endif
