/* libjpeg-turbo's encoder: accurate integer DCT, 4:4:4, Huffman tables made for the picture. */
#include "decoders/jpeg_write.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

struct writer {
    struct jpeg_compress_struct cinfo; /* first: libjpeg's callbacks get its address */
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf escape;
    struct hr_buf *out;
    uint8_t chunk[16384];
    char text[JMSG_LENGTH_MAX];
};

HR_NORETURN static void on_error(j_common_ptr cinfo)
{
    struct writer *w = (struct writer *)cinfo;

    w->errors.format_message(cinfo, w->text);
    longjmp(w->escape, 1);
}

static void no_output(j_common_ptr cinfo)
{
}

static void begin_chunk(j_compress_ptr cinfo)
{
    struct writer *w = (struct writer *)cinfo;

    w->destination.next_output_byte = w->chunk;
    w->destination.free_in_buffer = sizeof(w->chunk);
}

static boolean take_chunk(j_compress_ptr cinfo)
{
    struct writer *w = (struct writer *)cinfo;

    hr_buf_add(w->out, w->chunk, sizeof(w->chunk));
    begin_chunk(cinfo);
    return TRUE;
}

static void take_rest(j_compress_ptr cinfo)
{
    struct writer *w = (struct writer *)cinfo;

    hr_buf_add(w->out, w->chunk, sizeof(w->chunk) - w->destination.free_in_buffer);
}

/* One directory with one entry. */
static void write_orientation(j_compress_ptr cinfo, uint32_t orientation)
{
    uint8_t exif[] = {'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                      0x12, 1, 3, 0, 1, 0, 0, 0, (uint8_t)orientation, 0, 0, 0, 0, 0, 0, 0};

    if (orientation >= 2 && orientation <= 8)
        jpeg_write_marker(cinfo, JPEG_APP0 + 1, exif, sizeof(exif));
}

static void set_up(struct writer *w, const struct hr_jpeg_picture *p, int quality)
{
    struct jpeg_compress_struct *c = &w->cinfo;

    c->dest = &w->destination;
    c->image_width = p->width;
    c->image_height = p->height;
    c->input_components = (int)p->channels;
    c->in_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, quality, TRUE);
    c->dct_method = JDCT_ISLOW;
    c->optimize_coding = TRUE;
    for (int i = 0; i < c->num_components; i++)
        c->comp_info[i].h_samp_factor = c->comp_info[i].v_samp_factor = 1;
}

static int write_picture(struct writer *w, const struct hr_jpeg_picture *p, int quality, struct hr_error *err)
{
    struct jpeg_compress_struct *c = &w->cinfo;

    if (setjmp(w->escape))
        return hr_fail(err, HR_E_LIMIT, "the picture cannot be written as JPEG: %s", w->text);
    jpeg_create_compress(c);
    set_up(w, p, quality);
    jpeg_start_compress(c, TRUE);
    write_orientation(c, p->orientation);
    if (p->icc)
        jpeg_write_icc_profile(c, p->icc, (unsigned)p->icc_bytes);
    while (c->next_scanline < c->image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(p->pixels + (size_t)c->next_scanline * p->width * p->channels);
        jpeg_write_scanlines(c, &row, 1);
    }
    jpeg_finish_compress(c);
    return hr_buf_failed(w->out) ? hr_fail(err, HR_E_NOMEM, "no memory for a JPEG") : 0;
}

int hr_jpeg_write(const struct hr_jpeg_picture *picture, int quality, struct hr_buf *out, struct hr_error *err)
{
    struct writer w = {.out = out};

    w.cinfo.err = jpeg_std_error(&w.errors);
    w.errors.error_exit = on_error;
    w.errors.output_message = no_output;
    w.destination.init_destination = begin_chunk;
    w.destination.empty_output_buffer = take_chunk;
    w.destination.term_destination = take_rest;
    int ret = write_picture(&w, picture, quality, err);
    jpeg_destroy_compress(&w.cinfo);
    return ret;
}
