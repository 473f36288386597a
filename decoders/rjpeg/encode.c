/* From JPEG to packed bytes: the coefficients are read from the scan once (of files of several scans, by libjpeg from
 * all of them) and written as tiles, and then the proof is made on the result: restoring it gives the file, byte for
 * byte. That proves the pixels too. The same bytes hold the same coefficients, for Huffman codes are read in one way
 * only, and the quantizers and the geometry, which the bytes before the scan state, are those that libjpeg read from
 * them. Pixels are a function of these, and that the decoder's function is libjpeg's is what its tests show. What makes
 * libjpeg guess, a scan that is damaged, too short or missing, is refused here. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rjpeg/collect.h"
#include "rjpeg/kept.h"
#include "rjpeg/markers.h"
#include "rjpeg/restore.h"
#include "rjpeg/scan_read.h"
#include "rjpeg/script.h"
#include "rjpeg/source.h"
#include "rjpeg/tile.h"

/* Sums of |coefficient * quantizer| in a block's column and in the whole block that leave room in 16
 * and 32 bits at every step of the inverse transform. Pictures of 8 bits stay far below. */
enum {
    COLUMN_LIMIT = 5000,
    BLOCK_LIMIT = 30000,
    /* Files of several scans: what all coefficients may take in memory; some 85 megapixels of 4:2:0. */
    MAX_COEFFICIENT_BYTES = 256 << 20,
};

struct encode {
    const uint8_t *jpeg;
    size_t bytes;
    struct rj_markers markers;
    struct hr_rjpeg_info info;
    uint16_t quantizers[HR_RJPEG_COMPONENTS][64]; /* scan order */
    struct hr_buf kept; /* of files of several scans: the bytes before the last one that are in none */
    size_t tail;        /* where the bytes behind the last scan begin */
    struct rj_source source;
    struct rj_collect tiles;
    struct hr_buf *out;
};

static void add_quantizer(struct encode *e, uint32_t c, const UINT16 natural[64])
{
    uint32_t q;

    for (int i = 0; i < 64; i++) {
        e->quantizers[e->info.quantizers][i] = natural[rj_natural_order[i]];
        if (natural[i] > 255)
            e->info.quantizer_bytes = 2;
    }
    for (q = 0; memcmp(e->quantizers[q], e->quantizers[e->info.quantizers], sizeof(e->quantizers[q])); q++)
        ;
    e->info.component[c].quantizer = q;
    e->info.quantizers += q == e->info.quantizers;
}

static int find_colour(J_COLOR_SPACE space, enum hr_rjpeg_colour *colour)
{
    switch (space) {
    case JCS_GRAYSCALE: *colour = HR_RJPEG_GRAY; return 0;
    case JCS_YCbCr: *colour = HR_RJPEG_YCBCR; return 0;
    case JCS_RGB: *colour = HR_RJPEG_RGB; return 0;
    case JCS_CMYK: *colour = HR_RJPEG_CMYK; return 0;
    case JCS_YCCK: *colour = HR_RJPEG_YCCK; return 0;
    default: return HR_E_FORMAT;
    }
}

static int describe(struct encode *e, struct hr_error *err)
{
    struct hr_rjpeg_info *info = &e->info;
    const struct jpeg_decompress_struct *s = &e->source.cinfo;

    info->width = e->markers.width;
    info->height = e->markers.height;
    info->components = e->markers.components;
    info->quantizer_bytes = 1;
    if (find_colour(s->jpeg_color_space, &info->colour) < 0 || info->components != rj_components_of(info->colour))
        return hr_fail(err, HR_E_FORMAT, "a JPEG of unknown colours is not repacked");
    for (uint32_t c = 0; c < info->components; c++) {
        const jpeg_component_info *k = &s->comp_info[c];
        info->component[c].h = info->components == 1 ? 1 : (uint32_t)k->h_samp_factor;
        info->component[c].v = info->components == 1 ? 1 : (uint32_t)k->v_samp_factor;
        unsigned q = (unsigned)k->quant_tbl_no;
        if (q >= NUM_QUANT_TBLS || !s->quant_tbl_ptrs[q])
            return hr_fail(err, HR_E_DECODE, "JPEG lacks a quantization table");
        add_quantizer(e, c, s->quant_tbl_ptrs[q]->quantval);
    }
    bool fine = rj_geometry(info);
    if (fine) {
        rj_choose_cells(info, e->bytes);
        fine = rj_geometry(info);
    }
    return fine ? 0 : hr_fail(err, HR_E_FORMAT, "a JPEG of this subsampling is not repacked");
}

/* Even the emptiest block takes two bits; among several scans one, and they leave out some of the blocks that pad the
 * picture. So a short file cannot make us take much memory. */
static int check_size(const struct encode *e, struct hr_error *err)
{
    uint64_t blocks = 0;

    for (uint32_t c = 0; c < e->info.components; c++)
        blocks += (uint64_t)e->info.component[c].blocks_w * e->info.component[c].blocks_h;
    if (blocks > (e->info.several ? 16 : 4) * (uint64_t)e->bytes)
        return hr_fail(err, HR_E_TRUNCATED, "JPEG is too short for its %ux%u pixels", e->markers.width,
                       e->markers.height);
    if (e->info.several && blocks * sizeof(JBLOCK) > MAX_COEFFICIENT_BYTES)
        return hr_fail(err, HR_E_FORMAT, "a JPEG of several scans and %ux%u pixels is not repacked", e->markers.width,
                       e->markers.height);
    return 0;
}

/* What libjpeg and we make of the markers. */
static int read_header(struct encode *e, struct hr_error *err)
{
    int ret = rj_markers_begin(e->jpeg, e->bytes, &e->markers, err);

    if (ret < 0)
        return ret;
    e->info.several = rj_markers_several(&e->markers);
    e->info.progressive = e->markers.progressive;
    ret = rj_source_open(&e->source, e->jpeg, e->bytes, err);
    if (ret >= 0)
        ret = describe(e, err);
    if (ret >= 0)
        ret = check_size(e, err);
    if (ret >= 0 && e->info.several)
        ret = rj_script_read(e->jpeg, e->bytes, &e->markers, &e->kept, &e->tail, err);
    return ret;
}

static bool is_sane_by_columns(const struct rj_block *b, const uint16_t *quantizer)
{
    const int16_t *v = b->values;
    uint32_t column[8] = {(uint32_t)abs(b->dc) * quantizer[0]}, sum = 0;

    for (uint64_t m = b->mask; m; m &= m - 1) {
        int i = __builtin_ctzll(m);
        column[rj_natural_order[i] & 7] += (uint32_t)abs(*v++) * quantizer[i];
        if (column[rj_natural_order[i] & 7] >= COLUMN_LIMIT)
            return false;
    }
    for (int i = 0; i < 8; i++)
        sum += column[i];
    return column[0] < COLUMN_LIMIT && sum <= BLOCK_LIMIT;
}

/* Nearly always the whole block is below what a column may have. */
static bool is_sane(const struct rj_block *b, const uint16_t *quantizer)
{
    const int16_t *v = b->values;
    uint32_t sum = (uint32_t)abs(b->dc) * quantizer[0];

    for (uint64_t m = b->mask; m && sum < COLUMN_LIMIT; m &= m - 1)
        sum += (uint32_t)abs(*v++) * quantizer[__builtin_ctzll(m)];
    return sum < COLUMN_LIMIT || is_sane_by_columns(b, quantizer);
}

static bool are_sane(const struct encode *e, uint32_t c, const struct rj_block *blocks)
{
    const struct hr_rjpeg_component *k = &e->info.component[c];

    for (uint32_t bx = 0; bx < k->blocks_w; bx++)
        if (!is_sane(&blocks[bx], e->quantizers[k->quantizer]))
            return false;
    return true;
}

static int add_block_row(struct encode *e, uint32_t c, const struct rj_block *blocks, struct hr_error *err)
{
    if (!are_sane(e, c, blocks))
        return hr_fail(err, HR_E_FORMAT, "a JPEG with coefficients beyond 8-bit pictures is not repacked");
    rj_collect_block_row(&e->tiles, c, blocks);
    return 0;
}

static int read_scan(struct encode *e, struct rj_scan_reader *scan, struct hr_error *err)
{
    for (uint32_t m = 0; m < e->info.mcu_rows; m++) {
        int ret = rj_scan_read_row(scan, err);
        for (uint32_t c = 0; c < e->info.components; c++)
            for (uint32_t v = 0; v < e->info.component[c].v && ret >= 0; v++)
                ret = add_block_row(e, c, rj_scan_blocks(scan, c, v), err);
        if (ret < 0)
            return ret;
        rj_collect_end_row(&e->tiles, m);
    }
    return 0;
}

/* Through one block row's scratch. */
static int read_coefficients(struct encode *e, struct rj_block *blocks, int16_t *values, struct hr_error *err)
{
    for (uint32_t m = 0; m < e->info.mcu_rows; m++) {
        for (uint32_t c = 0; c < e->info.components; c++) {
            const struct hr_rjpeg_component *k = &e->info.component[c];
            for (uint32_t v = 0; v < k->v; v++) {
                int ret = rj_source_blocks(&e->source, c, m * k->v + v, k->blocks_w, blocks, values, err);
                if (ret >= 0)
                    ret = add_block_row(e, c, blocks, err);
                if (ret < 0)
                    return ret;
            }
        }
        rj_collect_end_row(&e->tiles, m);
    }
    return 0;
}

static void add_quantizers(struct encode *e)
{
    uint8_t header[HR_RJPEG_HEADER_BYTES] = {0}, entry[2];

    hr_buf_add(e->out, header, sizeof(header));
    for (uint32_t q = 0; q < e->info.quantizers; q++)
        for (int i = 0; i < 64; i++) {
            hr_store_le16(entry, e->quantizers[q][i]);
            hr_buf_add(e->out, entry, e->info.quantizer_bytes);
        }
}

/* The parts put together: the bytes before the last scan that are in none, and where those after it begin. The kept
 * ones are packed with the quantizers in the head. */
static int add_parts(struct encode *e, const uint8_t *head, size_t head_bytes, size_t tail, struct hr_error *err)
{
    e->info.jpeg_head_bytes = (uint32_t)head_bytes;
    e->info.jpeg_tail_bytes = (uint32_t)(e->bytes - tail);
    add_quantizers(e);
    int64_t bytes = rj_collect_add(&e->tiles, e->out);
    if (bytes < 0)
        return hr_fail(err, (int)bytes, "no memory to repack a JPEG");
    if (bytes > UINT32_MAX)
        return hr_fail(err, HR_E_FORMAT, "JPEG is too large");
    e->info.data_bytes = (uint64_t)bytes;
    int ret = rj_kept_add(&e->info, e->out->data, head, e->jpeg + tail, e->out, err);
    if (ret >= 0 && hr_buf_failed(e->out))
        ret = hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG");
    if (ret >= 0)
        rj_store_header(&e->info, e->out->data);
    return ret;
}

static int repack(struct encode *e, struct hr_error *err)
{
    struct rj_scan_reader *scan = NULL;
    size_t head = e->markers.head_bytes;
    int ret = rj_scan_reader_create(&scan);

    if (ret == 0)
        ret = rj_scan_reader_begin(scan, &e->markers, &e->info, e->jpeg + head, e->bytes - head);
    if (ret < 0) {
        hr_fail(err, ret, "no memory to repack a JPEG");
    } else {
        rj_collect_begin(&e->tiles, &e->info);
        ret = read_scan(e, scan, err);
    }
    if (ret >= 0)
        ret = add_parts(e, e->jpeg, head, head + rj_scan_end(scan, &e->info.pad_ones), err);
    rj_scan_reader_destroy(scan);
    return ret;
}

static int repack_several(struct encode *e, struct hr_error *err)
{
    uint32_t most = 0;

    for (uint32_t c = 0; c < e->info.components; c++)
        most = e->info.component[c].blocks_w > most ? e->info.component[c].blocks_w : most;
    struct rj_block *blocks = hr_alloc(most * sizeof(*blocks));
    int16_t *values = hr_alloc((size_t)most * 63 * sizeof(*values));
    int ret = blocks && values ? rj_source_read_scans(&e->source, err)
                               : hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG");
    if (ret >= 0) {
        rj_collect_begin(&e->tiles, &e->info);
        ret = read_coefficients(e, blocks, values, err);
    }
    hr_free(blocks);
    hr_free(values);
    e->info.pad_ones = true; /* prove() sees whether that is so */
    return ret < 0 ? ret : add_parts(e, e->kept.data, e->kept.used, e->tail, err);
}

/* What is still to come of the file. */
struct proof {
    const uint8_t *next;
    size_t left;
    bool differs;
};

static void compare(void *user, const uint8_t *part, size_t count)
{
    struct proof *p = user;

    p->differs = p->differs || count > p->left || memcmp(part, p->next, count) != 0;
    if (!p->differs) {
        p->next += count;
        p->left -= count;
    }
}

static int compare_restored(const struct encode *e, struct hr_error *err)
{
    struct proof proof = {e->jpeg, e->bytes, false};
    int ret = rj_restore(e->out->data, e->out->used, compare, &proof, err);

    if (ret == HR_E_NOMEM)
        return ret;
    return ret < 0 || proof.differs || proof.left
               ? hr_fail(err, HR_E_FORMAT, "a JPEG that does not restore exactly is not repacked")
               : 0;
}

static int prove(struct encode *e, struct hr_error *err)
{
    int ret = compare_restored(e, err);

    if (ret == HR_E_FORMAT && e->info.several) {
        e->info.pad_ones = false;
        rj_store_header(&e->info, e->out->data);
        ret = compare_restored(e, err);
    }
    return ret;
}

static void finish(struct encode *e)
{
    rj_source_close(&e->source);
    rj_collect_finish(&e->tiles);
    hr_buf_finish(&e->kept);
    hr_free(e);
}

int hr_rjpeg_encode(const uint8_t *jpeg, size_t bytes, struct hr_buf *out, struct hr_buf *seek,
                    struct hr_error *err)
{
    struct encode *e = hr_alloc_zero(1, sizeof(*e));

    if (!e)
        return hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG");
    hr_buf_reset(out);
    e->jpeg = jpeg;
    e->bytes = bytes;
    e->out = out;
    int ret = bytes > UINT32_MAX ? hr_fail(err, HR_E_FORMAT, "JPEG is too large") : read_header(e, err);
    if (ret >= 0)
        ret = e->info.several ? repack_several(e, err) : repack(e, err);
    if (ret >= 0)
        ret = prove(e, err);
    if (ret >= 0 && seek) {
        hr_buf_reset(seek);
        hr_buf_add(seek, out->data, e->info.cells ? e->info.head_bytes : 0);
        ret = hr_buf_failed(seek) ? hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG") : 0;
    }
    if (ret < 0)
        hr_buf_reset(out);
    finish(e);
    return ret;
}
