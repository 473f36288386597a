/* Makes JPEG files for tests, and decodes them, by libjpeg alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>

#include "base/mem.h"
#include "jpeg_tool.h"

struct jpeg_errors {
    struct jpeg_error_mgr mgr;
    jmp_buf escape;
};

static void escape(j_common_ptr cinfo)
{
    longjmp(((struct jpeg_errors *)cinfo->err)->escape, 1);
}

static void quiet(j_common_ptr cinfo)
{
}

struct picture jpeg_decode(struct bytes jpeg, uint32_t shrink)
{
    struct jpeg_decompress_struct d;
    struct jpeg_errors e;
    struct picture p = {0};

    d.err = jpeg_std_error(&e.mgr);
    e.mgr.error_exit = escape;
    e.mgr.output_message = quiet;
    if (setjmp(e.escape))
        fail_msg("libjpeg refused a file that was repacked");
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, jpeg.data, jpeg.count);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = d.num_components == 1 ? JCS_GRAYSCALE : d.num_components == 4 ? JCS_CMYK : JCS_RGB;
    d.dct_method = JDCT_ISLOW;
    d.scale_num = 8 / shrink;
    d.scale_denom = 8;
    jpeg_start_decompress(&d);
    p.width = d.output_width;
    p.height = d.output_height;
    p.channels = (uint32_t)d.output_components;
    p.pixels = hr_alloc((size_t)p.width * p.height * p.channels);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = p.pixels + (size_t)d.output_scanline * p.width * p.channels;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_destroy_decompress(&d); /* what follows the scan may be anything */
    return p;
}

static void fill_row(struct hr_rng *rng, const struct recipe *r, uint32_t y, uint8_t *row)
{
    bool noise = r->width % 3 == 0;

    for (uint32_t x = 0; x < r->width; x++)
        for (int c = 0; c < r->components; c++) {
            uint32_t smooth = (x * (3 + (uint32_t)c) + y * (5 - (uint32_t)c)) & 255;
            row[x * (uint32_t)r->components + (uint32_t)c] =
                (uint8_t)(r->flat ? 100 : noise ? hr_rng_u32(rng) : smooth + (hr_rng_u32(rng) & 31));
        }
}

struct bytes jpeg_make(const struct recipe *r, struct hr_rng *rng)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned char *out = NULL;
    unsigned long bytes = 0;

    c.err = jpeg_std_error(&e);
    e.output_message = quiet;
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &bytes);
    c.image_width = r->width;
    c.image_height = r->height;
    c.input_components = r->components;
    c.in_color_space = r->components == 1 ? JCS_GRAYSCALE : r->components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&c);
    if (r->rgb)
        jpeg_set_colorspace(&c, JCS_RGB);
    if (r->ycck)
        jpeg_set_colorspace(&c, JCS_YCCK);
    jpeg_set_quality(&c, r->quality, !r->force_16bit);
    if (r->quantizer_scale)
        jpeg_set_linear_quality(&c, r->quantizer_scale, FALSE);
    c.comp_info[0].h_samp_factor = r->h;
    c.comp_info[0].v_samp_factor = r->v;
    for (int i = 1; i < r->components; i++) {
        c.comp_info[i].h_samp_factor = i == 3 ? r->h : r->h2 ? r->h2 : 1;
        c.comp_info[i].v_samp_factor = i == 3 ? r->v : r->v2 ? r->v2 : 1;
    }
    c.restart_interval = (unsigned)r->restart;
    c.restart_in_rows = r->restart_rows;
    c.optimize_coding = r->optimize;
    c.scan_info = r->scans;
    c.num_scans = r->scan_count;
    if (r->progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    uint8_t *row = hr_alloc((size_t)r->width * 4);
    while (c.next_scanline < c.image_height) {
        JSAMPROW rows = row;
        fill_row(rng, r, c.next_scanline, row);
        jpeg_write_scanlines(&c, &rows, 1);
    }
    hr_free(row);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return (struct bytes){out, bytes};
}

void jpeg_check_planes(void *rows, const uint8_t *const planes[3])
{
    struct rows *r = rows;
    const struct picture *p = r->expected;
    const uint8_t *pixel = p->pixels + ((size_t)(r->box.y + r->y) * p->width + r->box.x) * 3;
    bool wrong = false;

    for (uint32_t i = 0; i < 3 * r->box.w; i++)
        wrong |= planes[i % 3][i / 3] != pixel[i];
    r->wrong += wrong;
    r->y++;
}

void jpeg_check_row(void *rows, const uint8_t *row)
{
    struct rows *r = rows;
    const struct picture *p = r->expected;

    r->wrong += memcmp(row, p->pixels + ((size_t)(r->box.y + r->y) * p->width + r->box.x) * p->channels,
                       (size_t)r->box.w * p->channels) != 0;
    r->y++;
}
