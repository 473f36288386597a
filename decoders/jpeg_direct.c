/* From libjpeg's view of a JPEG's head to that of the library that repacks files, and its rows to where the request
 * wants them. */
#include "decoders/jpeg_direct.h"

#include <string.h>

/* The whole scan is copied for it: a large file would need its size in memory once more. */
enum { MOST_BYTES = 8 << 20 };

static bool describe(const struct jpeg_decompress_struct *c, const struct hr_image_request *r,
                     struct hr_rjpeg_file *file)
{
    bool gray = c->num_components == 1;

    /* A colour picture as gray is made of its pixels, not of its luma alone. */
    if (r->count > MOST_BYTES || r->shrink > 1 || c->progressive_mode || c->arith_code ||
        c->comps_in_scan != c->num_components ||
        (r->channels != 3 && !(gray && r->channels == 1)) || (!gray && c->num_components != 3))
        return false;
    if (gray ? c->jpeg_color_space != JCS_GRAYSCALE
             : c->jpeg_color_space != JCS_YCbCr && c->jpeg_color_space != JCS_RGB)
        return false;
    *file = (struct hr_rjpeg_file){.jpeg = r->bytes, .bytes = r->count};
    file->colour = gray ? HR_RJPEG_GRAY : c->jpeg_color_space == JCS_RGB ? HR_RJPEG_RGB : HR_RJPEG_YCBCR;
    for (int i = 0; i < c->num_components; i++) {
        int number = c->comp_info[i].quant_tbl_no;
        if (number < 0 || number >= NUM_QUANT_TBLS || !c->quant_tbl_ptrs[number])
            return false;
        memcpy(file->quantizer[i], c->quant_tbl_ptrs[number]->quantval, sizeof(file->quantizer[i]));
    }
    return true;
}

struct rows {
    const struct hr_image_request *request;
    bool more;
};

static void push_row(void *user, const uint8_t *row)
{
    struct rows *rows = user;

    if (rows->more)
        rows->more = rows->request->push(rows->request->user, row);
}

bool hr_jpeg_direct(struct hr_rjpeg *direct, const struct jpeg_decompress_struct *head,
                    const struct hr_image_request *r, uint32_t *pushed)
{
    struct rows rows = {.request = r, .more = true};
    struct hr_rjpeg_sink sink = {.row = push_row, .user = &rows, .channels = r->channels};
    struct hr_rjpeg_box box = {r->x, r->y, r->w, r->h, 1};
    struct hr_rjpeg_file file;

    *pushed = 0;
    return describe(head, r, &file) && hr_rjpeg_decode_file(direct, &file, &box, &sink, pushed, NULL) == 0;
}
