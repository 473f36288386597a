/* Decoding of usual JPEG files without libjpeg, which has read the head: the same pixels, sooner. */
#ifndef HR_DECODERS_JPEG_DIRECT_H
#define HR_DECODERS_JPEG_DIRECT_H

#include <stdio.h>

#include <jpeglib.h>

#include "decoders/decoder.h"
#include "decoders/rjpeg/rjpeg.h"

/* True when the box is done. False: unusual or damaged, libjpeg is to decode it; the first *pushed rows were pushed
 * and are right. */
bool hr_jpeg_direct(struct hr_rjpeg *direct, const struct jpeg_decompress_struct *head,
                    const struct hr_image_request *request, uint32_t *pushed);

#endif
