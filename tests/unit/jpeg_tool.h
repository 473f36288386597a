/* JPEG files made by libjpeg for tests, and libjpeg's pixels of them. */
#ifndef HR_TESTS_UNIT_JPEG_TOOL_H
#define HR_TESTS_UNIT_JPEG_TOOL_H

#include <stdio.h>

#include <jpeglib.h>

#include "base/rng.h"
#include "rjpeg/rjpeg.h"

struct bytes {
    uint8_t *data;
    size_t count;
};

struct picture {
    uint8_t *pixels; /* libjpeg's */
    uint32_t width, height, channels;
};

struct recipe {
    uint32_t width, height;
    int components, h, v; /* of the first component and of K; the others are 1x1 unless given */
    int h2, v2;
    int quality, restart, restart_rows, quantizer_scale;
    bool optimize, rgb, progressive, force_16bit;
    bool ycck; /* of four components */
    bool flat; /* one colour */
    const jpeg_scan_info *scans;
    int scan_count;
};

/* Smooth with a little noise, or noise alone where the width is a multiple of three. hr_free the data. */
struct bytes jpeg_make(const struct recipe *recipe, struct hr_rng *rng);
/* The picture at 1/shrink; fails the test where libjpeg refuses. hr_free the pixels. */
struct picture jpeg_decode(struct bytes jpeg, uint32_t shrink);

/* Compares the rows of a box with the picture's: the user of a hr_rjpeg_sink. */
struct rows {
    const struct picture *expected;
    struct hr_rjpeg_box box;
    uint32_t y; /* rows so far */
    uint32_t wrong;
};

void jpeg_check_planes(void *rows, const uint8_t *const planes[3]); /* of three channels */
void jpeg_check_row(void *rows, const uint8_t *row);

#endif
