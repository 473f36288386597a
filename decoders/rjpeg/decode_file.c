/* Decodes a box of a JPEG file that was not repacked: the packer's Huffman decoder in front of the same transform,
 * upsampling and colours that packed values go through. Only what is sound and usual: the rest is libjpeg's. */
#include <string.h>

#include "base/mem.h"
#include "rjpeg/decode.h"
#include "rjpeg/scan_read.h"

enum {
    /* Squares of a block's coefficients, summed. Samples of 8 bits make at most 64 * 128^2; beyond four times that
     * sums of the transform may leave 16 bits, where libjpeg-turbo's versions differ from each other. */
    MAX_ENERGY = 4000000,
    MAX_FACTOR = 2047, /* no sum of squares overflows */
};

struct rj_scan {
    struct rj_markers markers;
    struct rj_scan_reader *reader;
    int32_t factor[HR_RJPEG_COMPONENTS][64]; /* quantizers in scan order */
    _Alignas(64) int16_t blocks[RJ_TILE_BLOCKS][64];
};

void rj_scan_destroy(struct rj_scan *scan)
{
    if (scan)
        rj_scan_reader_destroy(scan->reader);
    hr_free(scan);
}

static int make_scan(struct hr_rjpeg *d)
{
    if (d->scan)
        return 0;
    int depth = hr_mem_steady_pause();
    struct rj_scan *scan = hr_alloc_aligned(64, hr_align_up(sizeof(*scan), 64));
    if (scan && rj_scan_reader_create(&scan->reader) < 0) {
        hr_free(scan);
        scan = NULL;
    }
    hr_mem_steady_resume(depth);
    d->scan = scan;
    return scan ? 0 : HR_E_NOMEM;
}

static bool make_info(const struct rj_markers *m, enum hr_rjpeg_colour colour, struct hr_rjpeg_info *info)
{
    *info = (struct hr_rjpeg_info){.width = m->width, .height = m->height, .components = m->components,
                                   .colour = colour, .quantizers = m->components, .quantizer_bytes = 2};
    for (uint32_t c = 0; c < m->components; c++) {
        info->component[c].h = m->component[c].h;
        info->component[c].v = m->component[c].v;
        info->component[c].quantizer = c;
    }
    return rj_geometry(info);
}

static int begin(struct hr_rjpeg *d, const struct hr_rjpeg_file *file, const struct hr_rjpeg_box *box,
                 const struct hr_rjpeg_sink *sink, struct hr_error *err)
{
    if (make_scan(d) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode a JPEG");
    struct rj_markers *m = &d->scan->markers;
    int ret = rj_read_markers(file->jpeg, file->bytes, m, err);
    if (ret < 0)
        return ret;
    if (!make_info(m, file->colour, &d->info) || box->shrink > 1 ||
        (sink->channels == 1 && d->info.colour != HR_RJPEG_GRAY))
        return hr_fail(err, HR_E_FORMAT, "a JPEG that libjpeg decodes");
    ret = rj_check_box(&d->info, box, err);
    if (ret == 0)
        ret = rj_begin_box(d, box, sink, err);
    if (ret < 0)
        return ret;
    for (uint32_t c = 0; c < d->info.components; c++)
        for (int i = 0; i < 64; i++) {
            d->scan->factor[c][i] = file->quantizer[c][rj_natural_order[i]];
            if (d->scan->factor[c][i] > MAX_FACTOR)
                return hr_fail(err, HR_E_FORMAT, "a JPEG that libjpeg decodes");
        }
    if (rj_scan_reader_begin(d->scan->reader, m, &d->info, file->jpeg + m->head_bytes, file->bytes - m->head_bytes) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode a JPEG");
    return 0;
}

/* Dequantized, in natural order. False: absurd. */
static inline bool place(const struct rj_block *b, const int32_t factor[64], int16_t out[64])
{
    const int16_t *v = b->values;
    int64_t x = (int64_t)b->dc * factor[0], energy = x * x;

    memset(out, 0, 64 * sizeof(*out));
    out[0] = (int16_t)x;
    for (uint64_t m = b->mask; m; m &= m - 1) {
        int i = __builtin_ctzll(m);
        x = (int64_t)*v++ * factor[i];
        energy += x * x;
        out[rj_natural_order[i]] = (int16_t)x;
    }
    return energy <= MAX_ENERGY;
}

/* The wanted blocks of one block row, by tiles: planes have room for whole ones. */
static bool transform_row(struct hr_rjpeg *d, uint32_t c, uint32_t by, const struct rj_block *blocks)
{
    const struct rj_plane *plane = &d->plane[c];
    uint32_t end = d->reach.component[c].block_end;
    uint8_t *row = plane->samples + (by * 8 & plane->row_mask) * d->stride - plane->column;
    bool sane = true;

    for (uint32_t bx = d->reach.component[c].block & ~3u; bx < end; bx += RJ_TILE_BLOCKS) {
        uint32_t count = end - bx < RJ_TILE_BLOCKS ? end - bx : RJ_TILE_BLOCKS;
        for (uint32_t i = 0; i < count; i++)
            sane &= place(&blocks[bx + i], d->scan->factor[c], d->scan->blocks[i]);
        d->variant->inverse((const int16_t(*)[64])d->scan->blocks, count, row + 8 * (size_t)bx, d->stride);
    }
    return sane;
}

static int transform_strip(struct hr_rjpeg *d, uint32_t m, struct hr_error *err)
{
    for (uint32_t c = 0; c < d->components; c++)
        for (uint32_t v = 0; v < d->info.component[c].v; v++) {
            uint32_t by = m * d->info.component[c].v + v;
            if (by < d->reach.component[c].row || by >= d->reach.component[c].row_end)
                continue;
            if (!transform_row(d, c, by, rj_scan_blocks(d->scan->reader, c, v)))
                return hr_fail(err, HR_E_DECODE, "JPEG has absurd coefficients");
        }
    return 0;
}

int hr_rjpeg_decode_file(struct hr_rjpeg *d, const struct hr_rjpeg_file *file, const struct hr_rjpeg_box *box,
                         const struct hr_rjpeg_sink *sink, uint32_t *rows, struct hr_error *err)
{
    *rows = 0;
    int ret = begin(d, file, box, sink, err);
    for (uint32_t m = 0; ret == 0 && m < d->reach.mcu_row_end; m++) {
        ret = rj_scan_read_row(d->scan->reader, err);
        if (ret == 0 && m >= d->reach.mcu_row)
            ret = transform_strip(d, m, err);
        if (ret == 0 && m >= d->reach.mcu_row)
            rj_give_strip(d, m);
        *rows = d->y - box->y;
    }
    return ret;
}
