/* Writes made-up pictures as JPEG. */
#include "tools/synth/synth.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

enum { QUALITY = 90, CHUNK = 1 << 16 };

struct failure {
    struct jpeg_error_mgr base;
    jmp_buf back;
};

/* Compressed bytes go through a chunk into the buffer. */
struct target {
    struct jpeg_destination_mgr base;
    struct hr_buf *out;
    JOCTET chunk[CHUNK];
};

static void on_error(j_common_ptr cinfo)
{
    longjmp(((struct failure *)cinfo->err)->back, 1);
}

static void begin_chunk(j_compress_ptr cinfo)
{
    struct target *target = (struct target *)cinfo->dest;

    target->base.next_output_byte = target->chunk;
    target->base.free_in_buffer = CHUNK;
}

static boolean take_chunk(j_compress_ptr cinfo)
{
    struct target *target = (struct target *)cinfo->dest;

    hr_buf_add(target->out, target->chunk, CHUNK);
    begin_chunk(cinfo);
    return TRUE;
}

static void take_rest(j_compress_ptr cinfo)
{
    struct target *target = (struct target *)cinfo->dest;

    hr_buf_add(target->out, target->chunk, CHUNK - target->base.free_in_buffer);
}

static void compress(j_compress_ptr cinfo, const uint8_t *rgb, int w, int h)
{
    cinfo->image_width = (JDIMENSION)w;
    cinfo->image_height = (JDIMENSION)h;
    cinfo->input_components = 3;
    cinfo->in_color_space = JCS_RGB;
    jpeg_set_defaults(cinfo);
    jpeg_set_quality(cinfo, QUALITY, TRUE);
    cinfo->dct_method = JDCT_ISLOW;
    jpeg_start_compress(cinfo, TRUE);
    while (cinfo->next_scanline < cinfo->image_height) {
        /* The library's rows are not const, but it only reads them. */
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + (size_t)cinfo->next_scanline * (size_t)w * 3);
        jpeg_write_scanlines(cinfo, &row, 1);
    }
    jpeg_finish_compress(cinfo);
}

int hr_synth_jpeg(const uint8_t *rgb, int w, int h, struct hr_buf *out, struct hr_error *err)
{
    struct jpeg_compress_struct cinfo;
    struct failure failure;
    struct target target = {
        .base = {.init_destination = begin_chunk, .empty_output_buffer = take_chunk,
                 .term_destination = take_rest},
        .out = out};

    cinfo.err = jpeg_std_error(&failure.base);
    failure.base.error_exit = on_error;
    if (setjmp(failure.back)) {
        jpeg_destroy_compress(&cinfo);
        return hr_fail(err, HR_E_NOMEM, "the JPEG encoder failed");
    }
    jpeg_create_compress(&cinfo);
    cinfo.dest = &target.base;
    compress(&cinfo, rgb, w, h);
    jpeg_destroy_compress(&cinfo);
    return hr_buf_failed(out) ? hr_fail(err, HR_E_NOMEM, "out of memory") : 0;
}
