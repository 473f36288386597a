/* From JPEG to packed bytes: libjpeg reads the coefficients, tiles are written, and then both promises
 * are proven on the result: the file comes back byte for byte, and every pixel is libjpeg's. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "rjpeg/kept.h"
#include "rjpeg/markers.h"
#include "rjpeg/tile.h"

/* Sums of |coefficient * quantizer| in a block's column and in the whole block that leave room in 16
 * and 32 bits at every step of the inverse transform. Pictures of 8 bits stay far below. */
enum { COLUMN_LIMIT = 5000, BLOCK_LIMIT = 30000 };

struct source {
    struct jpeg_decompress_struct cinfo; /* first: libjpeg's callbacks get its address */
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    char text[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr cinfo)
{
    struct source *s = (struct source *)cinfo;
    s->errors.format_message(cinfo, s->text);
    longjmp(s->escape, 1);
}

static void on_output(j_common_ptr cinfo)
{
}

static void on_message(j_common_ptr cinfo, int level)
{
    struct source *s = (struct source *)cinfo;
    if (level < 0 && !s->errors.num_warnings++)
        s->errors.format_message(cinfo, s->text);
}

static int fail_decode(struct source *s, struct hr_error *err)
{
    return hr_fail(err, HR_E_DECODE, "JPEG cannot be decoded: %s", s->text);
}

/* Makes the decompressor and reads the header; on failure too the caller calls source_close(). */
static int source_open(struct source *s, const uint8_t *jpeg, size_t bytes, struct hr_error *err)
{
    memset(s, 0, sizeof(*s));
    s->cinfo.err = jpeg_std_error(&s->errors);
    s->errors.error_exit = on_error;
    s->errors.output_message = on_output;
    s->errors.emit_message = on_message;
    if (setjmp(s->escape))
        return fail_decode(s, err);
    jpeg_create_decompress(&s->cinfo);
    jpeg_mem_src(&s->cinfo, jpeg, (unsigned long)bytes);
    jpeg_read_header(&s->cinfo, TRUE);
    return 0;
}

static void source_close(struct source *s)
{
    jpeg_destroy_decompress(&s->cinfo);
}

struct encode {
    const uint8_t *jpeg;
    size_t bytes;
    struct rj_markers markers;
    struct hr_rjpeg_info info;
    uint16_t quantizers[3][64]; /* scan order */
    jvirt_barray_ptr *arrays;
    struct hr_buf *out;
    uint8_t tile[RJ_TILE_MAX + 16];
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

static int describe(struct encode *e, struct source *s, struct hr_error *err)
{
    struct hr_rjpeg_info *info = &e->info;
    J_COLOR_SPACE space = s->cinfo.jpeg_color_space;

    info->width = e->markers.width;
    info->height = e->markers.height;
    info->components = e->markers.components;
    info->quantizer_bytes = 1;
    info->colour = space == JCS_RGB ? HR_RJPEG_RGB : space == JCS_YCbCr ? HR_RJPEG_YCBCR : HR_RJPEG_GRAY;
    if (info->components != (info->colour == HR_RJPEG_GRAY ? 1u : 3u))
        return hr_fail(err, HR_E_FORMAT, "a JPEG of unknown colours is not repacked");
    for (uint32_t c = 0; c < info->components; c++) {
        jpeg_component_info *k = &s->cinfo.comp_info[c];
        info->component[c].h = info->components == 1 ? 1 : (uint32_t)k->h_samp_factor;
        info->component[c].v = info->components == 1 ? 1 : (uint32_t)k->v_samp_factor;
        if (!k->quant_table)
            return hr_fail(err, HR_E_DECODE, "JPEG lacks a quantization table");
        add_quantizer(e, c, k->quant_table->quantval);
    }
    bool fine = rj_geometry(info);
    if (fine) {
        rj_choose_cells(info, e->bytes);
        fine = rj_geometry(info);
    }
    return fine ? 0 : hr_fail(err, HR_E_FORMAT, "a JPEG of this subsampling is not repacked");
}

/* Even the emptiest block takes two bits: a short file cannot make libjpeg take much memory. */
static int check_size(const struct encode *e, struct source *s, struct hr_error *err)
{
    uint64_t blocks = 0;

    for (int c = 0; c < s->cinfo.num_components; c++)
        blocks += (uint64_t)s->cinfo.comp_info[c].width_in_blocks * s->cinfo.comp_info[c].height_in_blocks;
    if (blocks > 4 * (uint64_t)e->bytes)
        return hr_fail(err, HR_E_TRUNCATED, "JPEG is too short for its %ux%u pixels", e->markers.width,
                       e->markers.height);
    return 0;
}

static bool is_sane(const int16_t coef[64], const uint16_t *quantizer)
{
    uint32_t column[8] = {0}, sum = 0;

    for (int i = 0; i < 64; i++) {
        int n = rj_natural_order[i];
        int v = coef[n] * (int)quantizer[i];
        column[n & 7] += (uint32_t)(v < 0 ? -v : v) < COLUMN_LIMIT ? (uint32_t)(v < 0 ? -v : v) : COLUMN_LIMIT;
    }
    for (int i = 0; i < 8; i++) {
        if (column[i] >= COLUMN_LIMIT)
            return false;
        sum += column[i];
    }
    return sum <= BLOCK_LIMIT;
}

static int add_tile(struct encode *e, uint32_t c, const int16_t (*coef)[64], uint32_t blocks,
                    size_t *size_at, struct hr_error *err)
{
    for (uint32_t i = 0; i < blocks; i++)
        if (!is_sane(coef[i], e->quantizers[e->info.component[c].quantizer]))
            return hr_fail(err, HR_E_FORMAT, "a JPEG with coefficients beyond 8-bit pictures is not repacked");
    size_t size = rj_tile_write(coef, blocks, e->tile);
    if (!size)
        return hr_fail(err, HR_E_FORMAT, "a JPEG with coefficients beyond 8-bit pictures is not repacked");
    hr_buf_add(e->out, e->tile, size);
    if (hr_buf_failed(e->out))
        return hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG");
    hr_store_le16(e->out->data + *size_at, (uint16_t)size);
    *size_at += 2;
    return 0;
}

/* Panel p's tiles of a block row. */
static int add_block_row(struct encode *e, struct source *s, uint32_t c, uint32_t by, uint32_t p, size_t *size_at,
                         struct hr_error *err)
{
    const struct hr_rjpeg_component *k = &e->info.component[c];
    JBLOCKARRAY rows = s->cinfo.mem->access_virt_barray((j_common_ptr)&s->cinfo, e->arrays[c], by, 1, FALSE);
    uint32_t end = rj_panel_tile(&e->info, k, p + 1);
    int ret = 0;

    for (uint32_t t = rj_panel_tile(&e->info, k, p); t < end && ret >= 0; t++) {
        uint32_t bx = t * RJ_TILE_BLOCKS;
        ret = add_tile(e, c, (const int16_t(*)[64])(rows[0] + bx), rj_tile_blocks(k, bx), size_at, err);
    }
    return ret;
}

static void add_zeros(struct encode *e, size_t bytes)
{
    static const uint8_t zeros[512];

    for (size_t n; bytes; bytes -= n) {
        n = bytes < sizeof(zeros) ? bytes : sizeof(zeros);
        hr_buf_add(e->out, zeros, n);
    }
}

/* The tiles of a cell, whose sizes go to size_at. */
static int add_cell_tiles(struct encode *e, struct source *s, uint32_t p, uint32_t row, size_t size_at,
                          struct hr_error *err)
{
    uint32_t first = row * e->info.cell_rows, end = first + rj_cell_mcu_rows(&e->info, row);

    for (uint32_t m = first; m < end; m++)
        for (uint32_t c = 0; c < e->info.components; c++)
            for (uint32_t v = 0; v < e->info.component[c].v; v++) {
                int ret = add_block_row(e, s, c, m * e->info.component[c].v + v, p, &size_at, err);
                if (ret < 0)
                    return ret;
            }
    return 0;
}

/* A cell begins with the sizes of its tiles; the head gets its size and checksum. */
static int add_cell(struct encode *e, struct source *s, uint32_t p, uint32_t row, struct hr_error *err)
{
    const struct hr_rjpeg_info *info = &e->info;
    size_t start = e->out->used;

    add_zeros(e, 2 * (size_t)rj_panel_tiles(info, p) * rj_cell_mcu_rows(info, row));
    if (hr_buf_failed(e->out))
        return hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG");
    int ret = add_cell_tiles(e, s, p, row, start, err);
    if (ret < 0)
        return ret;
    uint8_t *entry = e->out->data + info->sizes_off + RJ_CELL_ENTRY_BYTES * (p * info->cells_per_panel + row);
    hr_store_le32(entry, (uint32_t)(e->out->used - start));
    hr_store_le32(entry + 4, hr_checksum(e->out->data + start, e->out->used - start));
    return 0;
}

/* The head with room for its table, then the tiles. */
static int add_tiles(struct encode *e, struct source *s, struct hr_error *err)
{
    add_zeros(e, HR_RJPEG_HEADER_BYTES);
    for (uint32_t q = 0; q < e->info.quantizers; q++)
        for (int i = 0; i < 64; i++) {
            uint8_t entry[2];
            hr_store_le16(entry, e->quantizers[q][i]);
            hr_buf_add(e->out, entry, e->info.quantizer_bytes);
        }
    add_zeros(e, e->info.head_bytes - e->info.sizes_off);
    if (hr_buf_failed(e->out))
        return hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG");

    int ret = e->info.cells ? 0 : add_cell_tiles(e, s, 0, 0, e->info.sizes_off, err);
    for (uint32_t p = 0; e->info.cells && p < e->info.panels; p++)
        for (uint32_t row = 0; row < e->info.cells_per_panel && ret >= 0; row++)
            ret = add_cell(e, s, p, row, err);
    e->info.data_bytes = e->out->used - e->info.head_bytes;
    if (ret < 0)
        return ret;
    return e->info.data_bytes > UINT32_MAX ? hr_fail(err, HR_E_FORMAT, "JPEG is too large") : 0;
}

static int pack_coefficients(struct encode *e, struct source *s, struct hr_error *err)
{
    if (setjmp(s->escape))
        return fail_decode(s, err);
    int ret = check_size(e, s, err);
    if (ret < 0)
        return ret;
    e->arrays = jpeg_read_coefficients(&s->cinfo);
    if (s->errors.num_warnings)
        return hr_fail(err, HR_E_DECODE, "JPEG is damaged: %s", s->text);
    ret = describe(e, s, err);
    return ret < 0 ? ret : add_tiles(e, s, err);
}

static int read_and_pack(struct encode *e, struct hr_error *err)
{
    struct source *s = hr_alloc(sizeof(*s));

    if (!s)
        return hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG");
    int ret = source_open(s, e->jpeg, e->bytes, err);
    if (ret >= 0)
        ret = pack_coefficients(e, s, err);
    source_close(s);
    hr_free(s);
    return ret;
}

/* Stores head and tail for a scan of scan_bytes. */
static int finish_value(struct encode *e, size_t tiles_end, size_t scan_bytes, struct hr_error *err)
{
    size_t tail = e->markers.head_bytes + scan_bytes;

    e->out->used = tiles_end;
    e->info.jpeg_head_bytes = (uint32_t)e->markers.head_bytes;
    e->info.jpeg_tail_bytes = (uint32_t)(e->bytes - tail);
    int ret = rj_kept_add(&e->info, e->out->data, e->jpeg, e->jpeg + tail, e->out, err);
    if (ret < 0)
        return ret;
    if (hr_buf_failed(e->out))
        return hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG");
    rj_store_header(&e->info, e->out->data);
    return 0;
}

/* One way to pad the scan: true when the file begins with what the packed bytes give back. Then
 * *scan_bytes is the scan's length. */
static bool restores(struct encode *e, size_t tiles_end, bool pad_ones, struct hr_buf *jpeg,
                     size_t *scan_bytes)
{
    struct hr_error ignored;

    e->info.pad_ones = pad_ones;
    if (finish_value(e, tiles_end, e->bytes - e->markers.head_bytes, &ignored) < 0 ||
        hr_rjpeg_restore(e->out->data, e->out->used, jpeg, &ignored) < 0)
        return false;
    *scan_bytes = jpeg->used - e->markers.head_bytes;
    return jpeg->used <= e->bytes && !memcmp(jpeg->data, e->jpeg, jpeg->used);
}

static int prove_bytes(struct encode *e, struct hr_error *err)
{
    struct hr_buf jpeg = {0};
    size_t tiles_end = e->out->used, scan_bytes = 0;
    int ret;

    if (restores(e, tiles_end, true, &jpeg, &scan_bytes) || restores(e, tiles_end, false, &jpeg, &scan_bytes)) {
        ret = finish_value(e, tiles_end, scan_bytes, err);
        if (ret >= 0)
            ret = hr_rjpeg_restore(e->out->data, e->out->used, &jpeg, err);
        if (ret >= 0 && (jpeg.used != e->bytes || memcmp(jpeg.data, e->jpeg, e->bytes)))
            ret = hr_fail(err, HR_E_FORMAT, "a JPEG that does not restore exactly is not repacked");
    } else {
        ret = hr_fail(err, HR_E_FORMAT, "a JPEG that does not restore exactly is not repacked");
    }
    hr_buf_finish(&jpeg);
    return ret;
}

struct comparison {
    struct source source;
    uint8_t *row;
    size_t row_bytes;
    bool differs, failed;
};

static void compare_row(void *user, const uint8_t *row)
{
    struct comparison *c = user;
    JSAMPROW rows[1] = {c->row};

    if (c->failed || c->differs)
        return;
    if (setjmp(c->source.escape)) {
        c->failed = true;
        return;
    }
    jpeg_read_scanlines(&c->source.cinfo, rows, 1);
    c->differs = memcmp(row, c->row, c->row_bytes) != 0;
}

static int start_comparison(struct comparison *c, const struct encode *e, struct hr_error *err)
{
    if (setjmp(c->source.escape))
        return fail_decode(&c->source, err);
    c->source.cinfo.dct_method = JDCT_ISLOW;
    c->source.cinfo.do_fancy_upsampling = TRUE;
    c->source.cinfo.out_color_space = e->info.components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&c->source.cinfo);
    return 0;
}

static int compare_pixels(struct comparison *c, const struct encode *e, struct hr_rjpeg *decoder,
                          struct hr_error *err)
{
    struct hr_rjpeg_view view = hr_rjpeg_view_whole(e->out->data, e->out->used);
    struct hr_rjpeg_box box = {0, 0, e->info.width, e->info.height};
    struct hr_rjpeg_sink sink = {.row = compare_row, .user = c, .channels = e->info.components};
    int ret = start_comparison(c, e, err);

    if (ret >= 0 && !hr_rjpeg_set_variant(decoder, "c"))
        ret = hr_fail(err, HR_E_INTERNAL, "no reference decoder");
    if (ret >= 0)
        ret = hr_rjpeg_decode(decoder, &view, &box, &sink, err);
    if (ret >= 0 && c->failed)
        ret = fail_decode(&c->source, err);
    if (ret >= 0 && (c->differs || c->source.cinfo.output_scanline != e->info.height))
        ret = hr_fail(err, HR_E_FORMAT, "a JPEG whose pixels would differ is not repacked");
    return ret;
}

static int prove_pixels(const struct encode *e, struct hr_error *err)
{
    struct comparison *c = hr_alloc_zero(1, sizeof(*c));
    struct hr_rjpeg *decoder = NULL;
    int ret = c ? hr_rjpeg_create(&decoder) : HR_E_NOMEM;

    if (ret >= 0) {
        c->row_bytes = (size_t)e->info.width * e->info.components;
        c->row = hr_alloc(c->row_bytes);
        ret = c->row ? source_open(&c->source, e->jpeg, e->bytes, err) : HR_E_NOMEM;
        if (ret >= 0)
            ret = compare_pixels(c, e, decoder, err);
        if (c->row)
            source_close(&c->source);
        hr_free(c->row);
    }
    hr_rjpeg_destroy(decoder);
    hr_free(c);
    return ret == HR_E_NOMEM ? hr_fail(err, ret, "no memory to check a repacked JPEG") : ret;
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
    int ret = bytes > UINT32_MAX ? hr_fail(err, HR_E_FORMAT, "JPEG is too large")
                                 : rj_read_markers(jpeg, bytes, &e->markers, err);
    if (ret >= 0)
        ret = read_and_pack(e, err);
    if (ret >= 0)
        ret = prove_bytes(e, err);
    if (ret >= 0)
        ret = prove_pixels(e, err);
    if (ret >= 0 && seek) {
        hr_buf_reset(seek);
        hr_buf_add(seek, out->data, e->info.cells ? e->info.head_bytes : 0);
        ret = hr_buf_failed(seek) ? hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG") : 0;
    }
    if (ret < 0)
        hr_buf_reset(out);
    hr_free(e);
    return ret;
}
