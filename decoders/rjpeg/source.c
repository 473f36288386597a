/* The packer's view through libjpeg. It is asked for nothing that has not been checked: sizes by the header, the number
 * and order of scans by script.c. */
#include "rjpeg/source.h"

#include <string.h>

static void on_error(j_common_ptr cinfo)
{
    struct rj_source *s = (struct rj_source *)cinfo;
    s->errors.format_message(cinfo, s->text);
    longjmp(s->escape, 1);
}

static void on_output(j_common_ptr cinfo)
{
}

static void on_message(j_common_ptr cinfo, int level)
{
    struct rj_source *s = (struct rj_source *)cinfo;
    if (level < 0 && !s->errors.num_warnings++)
        s->errors.format_message(cinfo, s->text);
}

static int fail_decode(struct rj_source *s, struct hr_error *err)
{
    return hr_fail(err, HR_E_DECODE, "JPEG cannot be decoded: %s", s->text);
}

static int check_warnings(struct rj_source *s, struct hr_error *err)
{
    return s->errors.num_warnings ? hr_fail(err, HR_E_DECODE, "JPEG is damaged: %s", s->text) : 0;
}

int rj_source_open(struct rj_source *s, const uint8_t *jpeg, size_t bytes, struct hr_error *err)
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
    return check_warnings(s, err);
}

void rj_source_close(struct rj_source *s)
{
    jpeg_destroy_decompress(&s->cinfo);
}

int rj_source_read_scans(struct rj_source *s, struct hr_error *err)
{
    if (setjmp(s->escape))
        return fail_decode(s, err);
    s->coefficients = jpeg_read_coefficients(&s->cinfo);
    return check_warnings(s, err);
}

/* False: a DC beyond 12 bits. */
static bool take_block(const JCOEF natural[64], struct rj_block *block, int16_t **values)
{
    const int limit = 1 << (RJ_MAX_DC_BITS - 1);

    block->dc = natural[0];
    block->mask = 0;
    block->values = *values;
    for (int i = 1; i < 64; i++) {
        int16_t v = natural[rj_natural_order[i]];
        if (!v)
            continue;
        block->mask |= 1ull << i;
        *(*values)++ = v;
    }
    return natural[0] >= -limit && natural[0] < limit;
}

/* NULL: libjpeg gave up. */
static JBLOCKROW find_block_row(struct rj_source *s, uint32_t c, uint32_t by)
{
    if (setjmp(s->escape))
        return NULL;
    return s->cinfo.mem->access_virt_barray((j_common_ptr)&s->cinfo, s->coefficients[c], by, 1, FALSE)[0];
}

int rj_source_blocks(struct rj_source *s, uint32_t c, uint32_t by, uint32_t count, struct rj_block *blocks,
                     int16_t *values, struct hr_error *err)
{
    JBLOCKROW row = find_block_row(s, c, by);
    bool sane = true;

    if (!row)
        return fail_decode(s, err);
    for (uint32_t i = 0; i < count; i++)
        sane &= take_block(row[i], &blocks[i], &values);
    return sane ? 0 : hr_fail(err, HR_E_DECODE, "JPEG has a damaged scan");
}
