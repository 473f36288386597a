/* A JPEG file in memory as libjpeg reads it: what it says of the picture, and of files of several scans the
 * coefficients. */
#ifndef HR_DECODERS_RJPEG_SOURCE_H
#define HR_DECODERS_RJPEG_SOURCE_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "rjpeg/layout.h"
#include "rjpeg/tile.h"

struct rj_source {
    struct jpeg_decompress_struct cinfo; /* first: libjpeg's callbacks get its address */
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    char text[JMSG_LENGTH_MAX];
    jvirt_barray_ptr *coefficients;
};

/* Reads the header. HR_E_DECODE also where libjpeg warns. On failure too the caller closes. */
int rj_source_open(struct rj_source *s, const uint8_t *jpeg, size_t bytes, struct hr_error *err) HR_MUST_CHECK;
void rj_source_close(struct rj_source *s);

/* Reads all scans, once; takes 128 bytes a block. */
int rj_source_read_scans(struct rj_source *s, struct hr_error *err) HR_MUST_CHECK;
/* Then: `count` blocks of block row `by` of component c. values: room for 63 a block. */
int rj_source_blocks(struct rj_source *s, uint32_t c, uint32_t by, uint32_t count, struct rj_block *blocks,
                     int16_t *values, struct hr_error *err) HR_MUST_CHECK;

#endif
