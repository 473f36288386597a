/* What must hold of every repacked file, for the tests of repacked JPEG: it comes back, and every variant gives
 * libjpeg's pixels in any box. */
#ifndef HR_TESTS_UNIT_RJPEG_CHECK_H
#define HR_TESTS_UNIT_RJPEG_CHECK_H

#include "jpeg_tool.h"

enum { RJPEG_VARIANTS = 5 };
extern const char *const rjpeg_variants[RJPEG_VARIANTS];

struct tally {
    uint32_t files, packed;
    uint64_t jpeg_bytes, packed_bytes;
};

/* The decoder of a group of tests, which these open and close. */
extern struct hr_rjpeg *decoder;
int rjpeg_open(void **state);
int rjpeg_close(void **state);

void rjpeg_check_box(const struct hr_rjpeg_view *view, const struct picture *picture, struct hr_rjpeg_box box);
struct hr_rjpeg_box rjpeg_random_box(struct hr_rng *rng, const struct picture *picture);

/* The whole picture and so many boxes by each variant. */
void rjpeg_check_pixels(struct bytes jpeg, const struct hr_buf *packed, int boxes, struct hr_rng *rng);

/* Returns the encoder's code; what it accepts must keep its promises. boxes: 0 = no pixels are looked at. */
int rjpeg_check_file(struct bytes jpeg, int boxes, struct hr_rng *rng, struct hr_error *err, struct tally *tally);

#endif
