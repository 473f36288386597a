/* Memory for libjpeg from one arena a worker, emptied after every picture: in steady state libjpeg
 * never calls malloc. The arena grows when a picture needs more than any before it (progressive
 * files need two bytes a coefficient of the whole picture) and gives back what is above
 * HR_JPEG_MEMORY_KEEP. */
#ifndef HR_DECODERS_JPEG_MEMORY_H
#define HR_DECODERS_JPEG_MEMORY_H

#include <stdio.h>

#include <jpeglib.h>

#include "base/err.h"

enum { HR_JPEG_MEMORY_CHUNKS = 48 };
#define HR_JPEG_MEMORY_KEEP (UINT64_C(64) << 20)

struct hr_jpeg_memory {
    struct jpeg_memory_mgr pub; /* first: what libjpeg sees */
    struct jpeg_memory_mgr *library; /* its own one, which holds the object's permanent parts */
    struct {
        uint8_t *base;
        size_t bytes;
    } chunks[HR_JPEG_MEMORY_CHUNKS];
    int chunk_count, current; /* chunks before current are full */
    size_t used;              /* of the current chunk */
    uint64_t total, limit;
    struct jvirt_barray_control *block_arrays;
};

/* Takes over the memory of a decompress object just created. reserve_bytes is allocated up front;
 * more than limit for one picture is an error (JERR_OUT_OF_MEMORY). 0 or HR_E_NOMEM. */
int hr_jpeg_memory_attach(struct hr_jpeg_memory *memory, j_decompress_ptr cinfo,
                          size_t reserve_bytes, uint64_t limit) HR_MUST_CHECK;
/* Gives the object its own manager back, so that it can be destroyed, and frees the arena. */
void hr_jpeg_memory_detach(struct hr_jpeg_memory *memory, j_decompress_ptr cinfo);

#endif
