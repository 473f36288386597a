/* JPEG through libjpeg-turbo: the box that is wanted, bit for bit what a full decode and a crop would
 * give. Accurate integer IDCT, fancy upsampling; columns by jpeg_crop_scanline, rows above the box
 * by one jpeg_skip_scanlines from row 0, and an end after the last row needed.
 *
 * Usual files are decoded by our own code (jpeg_direct.h), and by libjpeg when something is wrong with them.
 *
 * Damage: a scan whose bytes end early is HR_E_TRUNCATED, one that a marker ends early HR_E_DECODE, as
 * far as the rows needed reach. Wrong codes inside a scan give the pixels that every libjpeg program
 * gives, since libjpeg-turbo does not see all of them; measure with verify refuses those it sees. A
 * missing EOI marker, bytes between segments and bytes after EOI do no harm. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "base/mem.h"
#include "decoders/decoder.h"
#include "decoders/jpeg_direct.h"
#include "decoders/jpeg_memory.h"
#include "decoders/jpeg_segments.h"
#include "decoders/pixels.h"

enum {
    MAX_SCANS = 100, /* real progressive files have about ten; each costs a pass over the picture */
    ROW_PAD = 64,
    ROWS_AT_ONCE = 16,
    OFF_ALIGNMENT = 8, /* aligned rows libjpeg-turbo writes past the caches, and we read them at once */
};

struct jpeg_state {
    struct jpeg_decompress_struct cinfo; /* first: libjpeg's callbacks get its address */
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct hr_jpeg_memory memory;
    jmp_buf escape;
    struct hr_error *err; /* where the running call reports */
    int code;             /* of the failure that escape carries */
    bool in_header, ran_out;
    bool scan_short, scan_damaged; /* what warnings said of the entropy-coded data */
    bool strict;                   /* scan_damaged is an error */
    struct hr_rjpeg *direct;       /* decodes usual files faster than libjpeg */
};

static struct jpeg_state *state_of(j_common_ptr cinfo)
{
    return (struct jpeg_state *)cinfo;
}

HR_NORETURN static void escape(struct jpeg_state *s, int code)
{
    s->code = code;
    longjmp(s->escape, 1);
}

static void on_error(j_common_ptr cinfo)
{
    struct jpeg_state *s = state_of(cinfo);
    char text[JMSG_LENGTH_MAX];

    if (s->errors.msg_code == JERR_BAD_PRECISION) {
        hr_fail(s->err, HR_E_FORMAT, "a JPEG of %d bits a sample is not supported",
                s->cinfo.data_precision);
        escape(s, HR_E_FORMAT);
    }
    if (s->errors.msg_code == JERR_OUT_OF_MEMORY) {
        hr_fail(s->err, HR_E_LIMIT, "the JPEG needs more than %" PRIu64 " MB to decode",
                s->memory.limit >> 20);
        escape(s, HR_E_LIMIT);
    }
    int code = s->ran_out ? HR_E_TRUNCATED : HR_E_DECODE;
    s->errors.format_message(cinfo, text);
    hr_fail(s->err, code, "JPEG %s: %s", s->ran_out ? "is cut off" : "cannot be decoded", text);
    escape(s, code);
}

/* Warnings are levels below 0. Those about entropy-coded data mean wrong pixels. */
static void on_message(j_common_ptr cinfo, int level)
{
    struct jpeg_state *s = state_of(cinfo);

    if (level >= 0)
        return;
    switch (s->errors.msg_code) {
    case JWRN_HIT_MARKER: /* a restart marker ends the damage, any other the scan */
        if (s->cinfo.unread_marker >= JPEG_RST0 && s->cinfo.unread_marker <= JPEG_RST0 + 7)
            s->scan_damaged = true;
        else
            s->scan_short = true;
        break;
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
        s->scan_damaged = true;
        break;
    }
}

static void no_output(j_common_ptr cinfo)
{
}

static void source_start(j_decompress_ptr cinfo)
{
}

/* The whole value is in memory, so being asked for more means that it ends early. Inside the headers
 * that is the end; in a scan libjpeg gets an EOI and goes on to say whether data was missing. */
static boolean source_fill(j_decompress_ptr cinfo)
{
    static const JOCTET end[2] = {0xff, JPEG_EOI};
    struct jpeg_state *s = (struct jpeg_state *)cinfo;

    s->ran_out = true;
    if (s->in_header)
        ERREXIT(cinfo, JERR_INPUT_EOF);
    s->source.next_input_byte = end;
    s->source.bytes_in_buffer = sizeof(end);
    return TRUE;
}

static void source_skip(j_decompress_ptr cinfo, long bytes)
{
    struct jpeg_source_mgr *source = cinfo->src;

    if (bytes <= 0)
        return;
    if ((unsigned long)bytes > source->bytes_in_buffer) {
        source_fill(cinfo);
        return;
    }
    source->next_input_byte += bytes;
    source->bytes_in_buffer -= (size_t)bytes;
}

static void on_progress(j_common_ptr cinfo)
{
    struct jpeg_state *s = state_of(cinfo);

    if (s->cinfo.input_scan_number <= MAX_SCANS)
        return;
    hr_fail(s->err, HR_E_LIMIT, "the JPEG has more than %d scans", MAX_SCANS);
    escape(s, HR_E_LIMIT);
}

static void destroy(void *state)
{
    struct jpeg_state *s = state;

    if (!s)
        return;
    hr_jpeg_memory_detach(&s->memory, &s->cinfo);
    jpeg_destroy_decompress(&s->cinfo);
    hr_rjpeg_destroy(s->direct);
    hr_free(s);
}

static int create_libjpeg(uint32_t max_width, void **state)
{
    /* Row buffers of 4:2:0 with context rows, three components, and the upsampled rows. */
    size_t reserve = (256u << 10) + (size_t)(max_width < 65536 ? max_width : 65536) * 128;
    struct jpeg_state *s = hr_alloc_zero(1, sizeof(*s));

    if (!s)
        return HR_E_NOMEM;
    s->cinfo.err = jpeg_std_error(&s->errors);
    s->errors.error_exit = on_error;
    s->errors.emit_message = on_message;
    s->errors.output_message = no_output;
    if (setjmp(s->escape)) {
        destroy(s);
        return HR_E_NOMEM;
    }
    jpeg_create_decompress(&s->cinfo);
    s->source = (struct jpeg_source_mgr){.init_source = source_start,
                                         .fill_input_buffer = source_fill,
                                         .skip_input_data = source_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = source_start};
    s->cinfo.src = &s->source;
    s->progress.progress_monitor = on_progress;
    s->cinfo.progress = &s->progress;
    int ret = hr_jpeg_memory_attach(&s->memory, &s->cinfo, reserve, HR_IMAGE_MAX_COEFFICIENT_BYTES);
    if (ret < 0) {
        destroy(s);
        return ret;
    }
    *state = s;
    return 0;
}

static int create(uint32_t max_width, void **state)
{
    int ret = create_libjpeg(max_width, state);

    if (ret < 0)
        return ret;
    struct jpeg_state *s = *state;
    ret = hr_rjpeg_create(&s->direct);
    if (ret == 0 && max_width)
        ret = hr_rjpeg_reserve(s->direct, max_width < 65536 ? max_width : 65535);
    if (ret < 0)
        destroy(s);
    return ret;
}

/* Tables of the picture before must not help out one that lacks its own; their memory is the
 * arena's. */
static void forget_picture(struct jpeg_state *s)
{
    jpeg_abort_decompress(&s->cinfo);
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        s->cinfo.quant_tbl_ptrs[i] = NULL;
    for (int i = 0; i < NUM_HUFF_TBLS; i++)
        s->cinfo.dc_huff_tbl_ptrs[i] = s->cinfo.ac_huff_tbl_ptrs[i] = NULL;
}

/* What a file of several scans keeps of the whole picture. */
static int check_memory(struct jpeg_state *s)
{
    const struct jpeg_decompress_struct *c = &s->cinfo;
    uint64_t blocks = 0;

    if (!c->progressive_mode && c->comps_in_scan == c->num_components)
        return 0;
    for (int i = 0; i < c->num_components; i++)
        blocks += (uint64_t)hr_align_up(c->comp_info[i].width_in_blocks, 4) *
                  hr_align_up(c->comp_info[i].height_in_blocks, 4);
    if (blocks * sizeof(JBLOCK) <= HR_IMAGE_MAX_COEFFICIENT_BYTES)
        return 0;
    return hr_fail(s->err, HR_E_LIMIT,
                   "a JPEG of several scans and %u x %u pixels needs %" PRIu64
                   " MB for its coefficients; the limit is %" PRIu64 " MB",
                   c->image_width, c->image_height, blocks * sizeof(JBLOCK) >> 20,
                   HR_IMAGE_MAX_COEFFICIENT_BYTES >> 20);
}

static int read_header(struct jpeg_state *s, const uint8_t *bytes, size_t count)
{
    s->source.next_input_byte = bytes;
    s->source.bytes_in_buffer = count;
    s->in_header = true;
    s->ran_out = s->scan_short = s->scan_damaged = false;
    if (jpeg_read_header(&s->cinfo, TRUE) != JPEG_HEADER_OK)
        return hr_fail(s->err, HR_E_DECODE, "the JPEG holds no picture");
    s->in_header = false;
    int ret = hr_image_check_size(s->cinfo.image_width, s->cinfo.image_height, s->err);
    if (ret < 0)
        return ret;
    int n = s->cinfo.num_components;
    if (n != 1 && n != 3 && n != 4)
        return hr_fail(s->err, HR_E_FORMAT, "a JPEG of %d components is not supported", n);
    return check_memory(s);
}

/* Adobe writes CMYK inverted, and everybody follows: C is 255 - ink. */
static bool is_cmyk(const struct jpeg_decompress_struct *c)
{
    return c->num_components == 4;
}

static void choose_output(struct jpeg_decompress_struct *c, uint32_t channels, uint32_t shrink)
{
    if (is_cmyk(c))
        c->out_color_space = JCS_CMYK;
    else
        c->out_color_space = channels == 1 && c->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    c->dct_method = JDCT_ISLOW;
    c->do_fancy_upsampling = TRUE;
    c->do_block_smoothing = TRUE;
    c->scale_num = 8 / shrink;
    c->scale_denom = 8;
}

/* The scan was cut or damaged where decoding has been so far, or (a file of several scans) some
 * coefficients never came. */
static int check_damage(struct jpeg_state *s)
{
    const struct jpeg_decompress_struct *c = &s->cinfo;
    bool missing = false;

    if (c->progressive_mode && c->coef_bits && s->ran_out)
        for (int i = 0; i < c->num_components; i++)
            for (int k = 0; k < DCTSIZE2; k++)
                missing |= c->coef_bits[i][k] != 0;
    if (s->ran_out && (missing || s->scan_short))
        return hr_fail(s->err, HR_E_TRUNCATED, "the JPEG is cut off: row %u of %u",
                       c->output_scanline, c->output_height);
    if (s->scan_short || (s->strict && s->scan_damaged))
        return hr_fail(s->err, HR_E_DECODE, "the JPEG's entropy-coded data is damaged: row %u of %u",
                       c->output_scanline, c->output_height);
    return 0;
}

/* Fancy upsampling looks one chroma sample to either side; at the edge of what is decoded it acts as
 * at the edge of a picture. So many luma columns around a box must be decoded too. */
static JDIMENSION column_margin(const struct jpeg_decompress_struct *c)
{
    return c->max_h_samp_factor == 1 ? 0 : (JDIMENSION)c->max_h_samp_factor;
}

/* Restricts decoding to the whole iMCU columns that hold [x, x + w) and its margin. Returns the column
 * that output rows now begin at. */
static JDIMENSION crop_columns(struct jpeg_decompress_struct *c, JDIMENSION x, JDIMENSION w)
{
    JDIMENSION step = (JDIMENSION)(c->max_h_samp_factor * c->min_DCT_scaled_size);
    JDIMENSION margin = column_margin(c);
    JDIMENSION first = x > margin ? x - margin : 0;
    JDIMENSION end = x + w + margin + step - 1;

    first -= first % step;
    end -= end % step;
    end = end < c->output_width ? end : c->output_width;
    /* Below three chroma samples libjpeg upsamples another way. */
    if (first && end - first < 3 * (JDIMENSION)c->max_h_samp_factor)
        first -= step;
    if (first == 0 && end == c->output_width)
        return 0;
    JDIMENSION width = end - first;
    jpeg_crop_scanline(c, &first, &width);
    return first;
}

static bool push_row(const struct jpeg_state *s, const struct hr_image_request *r, uint8_t *pixels)
{
    if (s->cinfo.output_components == 4 && r->channels != 4)
        hr_pixels_cmyk_to_rgb(pixels, pixels, r->w);
    if (s->cinfo.output_components != 1 && r->channels == 1)
        hr_pixels_rgb_to_gray(pixels, pixels, r->w);
    return r->push(r->user, pixels);
}

/* pushed: rows of the box that were pushed already. Several rows at a time: the resampler's wide loads
 * then find them in the cache, instead of waiting for stores that are still under way. */
static int push_rows(struct jpeg_state *s, const struct hr_image_request *r, JDIMENSION first,
                     JDIMENSION left, JDIMENSION pushed)
{
    struct jpeg_decompress_struct *c = &s->cinfo;
    JDIMENSION row_bytes = c->output_width * (JDIMENSION)c->output_components + OFF_ALIGNMENT + ROW_PAD;
    JSAMPARRAY rows = c->mem->alloc_sarray((j_common_ptr)c, JPOOL_IMAGE, row_bytes, ROWS_AT_ONCE);
    size_t start = (size_t)left * (size_t)c->output_components;
    bool more = true;

    for (int i = 0; i < ROWS_AT_ONCE; i++)
        rows[i] += OFF_ALIGNMENT;
    while (first < r->y + r->h && more) {
        JDIMENSION want = r->y + r->h - first, got = 0;
        want = want < ROWS_AT_ONCE ? want : ROWS_AT_ONCE;
        while (got < want)
            got += jpeg_read_scanlines(c, rows + got, want - got);
        if (HR_UNLIKELY(s->scan_short))
            return check_damage(s);
        for (JDIMENSION i = 0; i < got && more; i++)
            if (first + i >= r->y + pushed)
                more = push_row(s, r, rows[i] + start);
        first += got;
    }
    return check_damage(s);
}

static int decode_box(struct jpeg_state *s, const struct hr_image_request *r, JDIMENSION pushed)
{
    struct jpeg_decompress_struct *c = &s->cinfo;

    if (r->channels == 4 && !is_cmyk(c))
        return hr_fail(s->err, HR_E_DECODE, "the JPEG has %d components, its record says 4", c->num_components);
    choose_output(c, r->channels, r->shrink);
    jpeg_start_decompress(c);
    HR_ASSERT(r->w && r->h && r->x + r->w <= c->output_width && r->y + r->h <= c->output_height);
    int ret = check_damage(s);
    if (ret < 0)
        return ret;
    JDIMENSION left = r->x - crop_columns(c, r->x, r->w);
    JDIMENSION skip = r->y ? jpeg_skip_scanlines(c, r->y) : 0;
    return push_rows(s, r, skip, left, pushed);
}

static int decode(void *state, const struct hr_image_request *r, struct hr_error *err)
{
    struct jpeg_state *s = state;
    uint32_t pushed = 0;
    int ret;

    s->err = err;
    if (setjmp(s->escape)) {
        ret = s->code;
    } else {
        ret = read_header(s, r->bytes, r->count);
        if (ret == 0 &&
            (s->cinfo.image_width != r->picture_w || s->cinfo.image_height != r->picture_h))
            ret = hr_fail(err, HR_E_DECODE, "the JPEG is %u x %u pixels, its record says %u x %u",
                          s->cinfo.image_width, s->cinfo.image_height, r->picture_w, r->picture_h);
        if (ret == 0 && (s->strict || !hr_jpeg_direct(s->direct, &s->cinfo, r, &pushed)))
            ret = decode_box(s, r, pushed);
    }
    forget_picture(s);
    return ret;
}

static bool verify_push(void *user, const uint8_t *row)
{
    return true;
}

static int measure_header(struct jpeg_state *s, const uint8_t *bytes, size_t count,
                          struct hr_facts *facts)
{
    if (setjmp(s->escape))
        return s->code;
    int ret = read_header(s, bytes, count);
    if (ret < 0)
        return ret;
    facts->width = s->cinfo.image_width;
    facts->height = s->cinfo.image_height;
    facts->channels = (uint32_t)s->cinfo.num_components;
    facts->bit_depth = 8;
    facts->orientation = hr_jpeg_orientation(bytes, count);
    return 0;
}

static int measure(const uint8_t *bytes, size_t count, bool verify, struct hr_facts *facts,
                   struct hr_error *err)
{
    void *state = NULL;
    int ret = create(0, &state);

    if (ret < 0)
        return hr_fail(err, ret, "no memory for a JPEG decoder");
    struct jpeg_state *s = state;
    s->err = err;
    ret = measure_header(s, bytes, count, facts);
    forget_picture(s);
    if (ret == 0 && verify) {
        struct hr_image_request all = {.bytes = bytes, .count = count,
                                       .w = facts->width, .h = facts->height,
                                       .picture_w = facts->width, .picture_h = facts->height,
                                       .channels = 3, .shrink = 1, .push = verify_push};
        s->strict = true;
        ret = decode(s, &all, err);
    }
    destroy(s);
    return ret;
}

static enum hr_media_format sniff(const uint8_t *b, size_t n)
{
    return n >= 3 && b[0] == 0xff && b[1] == 0xd8 && b[2] == 0xff ? HR_MEDIA_JPEG
                                                                  : HR_MEDIA_UNKNOWN;
}

static const struct hr_image_decoder image = {
    .create = create, .destroy = destroy, .decode = decode, .profile = hr_jpeg_profile};

const struct hr_decoder hr_decoder_jpeg = {
    .name = "jpeg",
    .type = HR_FIELD_IMAGE,
    .format = HR_MEDIA_JPEG,
    .abilities = HR_DECODER_REGION | HR_DECODER_SCALED,
    .sniff = sniff,
    .measure = measure,
    .image = &image,
};
