/* Reads the marker segments before a JPEG file's scan. What the pixels need is left to libjpeg; this
 * is for writing the scan again with the file's own tables. */
#include <string.h>

#include "rjpeg/markers.h"

enum {
    SOF0 = 0xc0, SOF1 = 0xc1, SOF2 = 0xc2, SOF15 = 0xcf, DHT = 0xc4, JPG = 0xc8, DAC = 0xcc,
    RST0 = 0xd0, RST7 = 0xd7, SOI = 0xd8, EOI = 0xd9, SOS = 0xda, DNL = 0xdc, DRI = 0xdd, TEM = 0x01,
};

struct reader {
    const uint8_t *p; /* the segment's payload */
    size_t bytes;
    struct rj_markers *out;
    struct hr_error *err;
};

static int damaged(struct reader *r, const char *what)
{
    return hr_fail(r->err, HR_E_DECODE, "JPEG has a damaged %s segment", what);
}

static int read_huffman_table(struct reader *r)
{
    if (r->bytes < 17 || r->p[0] & 0xec)
        return damaged(r, "DHT");
    struct rj_huffman *table = r->p[0] >> 4 ? &r->out->ac[r->p[0] & 3] : &r->out->dc[r->p[0] & 3];
    uint32_t code = 0, symbol = 17;
    bool is_dc = r->p[0] < 16;

    memset(table, 0, sizeof(*table));
    for (uint32_t length = 1; length <= 16; length++, code <<= 1)
        for (uint32_t i = 0; i < r->p[length]; i++, code++, symbol++) {
            /* libjpeg's rules: no code of 1 bits alone, DC numbers of at most 15 bits. */
            if (symbol >= r->bytes || code + 1 >= 1u << length || symbol >= 17 + 256 || (is_dc && r->p[symbol] > 15))
                return damaged(r, "DHT");
            table->size[r->p[symbol]] = (uint8_t)length;
            table->code[r->p[symbol]] = (uint16_t)code;
        }
    table->present = true;
    r->p += symbol;
    r->bytes -= symbol;
    return 0;
}

static int read_huffman(struct reader *r)
{
    int ret = 0;

    while (r->bytes && !ret)
        ret = read_huffman_table(r);
    return ret;
}

static int read_frame(struct reader *r)
{
    struct rj_markers *m = r->out;

    if (r->bytes < 6 || m->components)
        return damaged(r, "SOF");
    if (r->p[0] != 8)
        return hr_fail(r->err, HR_E_FORMAT, "a JPEG of %d bits a sample is not repacked", r->p[0]);
    m->height = (uint32_t)r->p[1] << 8 | r->p[2];
    m->width = (uint32_t)r->p[3] << 8 | r->p[4];
    if (r->p[5] == 4)
        m->refusal = HR_RJPEG_CMYK;
    if (r->p[5] != 1 && r->p[5] != 3)
        return hr_fail(r->err, HR_E_FORMAT, "a JPEG of %d components is not repacked", r->p[5]);
    if (r->bytes != 6 + 3u * r->p[5] || !m->width)
        return damaged(r, "SOF");
    if (!m->height)
        return hr_fail(r->err, HR_E_FORMAT, "a JPEG that tells its height after the scan is not repacked");
    m->components = r->p[5];
    for (uint32_t c = 0; c < m->components; c++) {
        const uint8_t *p = r->p + 6 + 3 * c;
        m->component[c].id = p[0];
        m->component[c].h = p[1] >> 4;
        m->component[c].v = p[1] & 15;
        if (m->component[c].h - 1u > 3 || m->component[c].v - 1u > 3)
            return damaged(r, "SOF");
    }
    return 0;
}

static int read_restart_interval(struct reader *r)
{
    if (r->bytes != 2)
        return damaged(r, "DRI");
    r->out->restart_interval = (uint32_t)r->p[0] << 8 | r->p[1];
    return 0;
}

static int find_component(const struct rj_markers *m, uint8_t id)
{
    for (uint32_t c = 0; c < m->components; c++)
        if (m->component[c].id == id)
            return (int)c;
    return -1;
}

static int read_scan(struct reader *r)
{
    struct rj_markers *m = r->out;
    uint32_t seen = 0;

    if (!m->components)
        return damaged(r, "SOS");
    if (r->bytes && r->p[0] != m->components)
        return hr_fail(r->err, HR_E_FORMAT, "a JPEG of several scans is not repacked");
    if (r->bytes != 4 + 2u * m->components)
        return damaged(r, "SOS");
    for (uint32_t i = 0; i < m->components; i++) {
        int c = find_component(m, r->p[1 + 2 * i]);
        uint8_t tables = r->p[2 + 2 * i];
        if (c < 0 || seen & 1u << c || tables & 0xcc)
            return damaged(r, "SOS");
        seen |= 1u << c;
        m->scan_order[i] = (uint8_t)c;
        m->component[c].dc_table = tables >> 4;
        m->component[c].ac_table = tables & 15;
        if (!m->dc[tables >> 4].present || !m->ac[tables & 15].present)
            return hr_fail(r->err, HR_E_FORMAT, "a JPEG without its own Huffman tables is not repacked");
    }
    const uint8_t *spectral = r->p + 1 + 2 * m->components;
    if (spectral[0] != 0 || spectral[1] != 63 || spectral[2] != 0)
        return damaged(r, "SOS");
    return 0;
}

static int read_segment(struct reader *r, uint8_t marker)
{
    if (marker == DHT)
        return read_huffman(r);
    if (marker == SOF0 || marker == SOF1)
        return read_frame(r);
    if (marker == DRI)
        return read_restart_interval(r);
    if (marker == SOS)
        return read_scan(r);
    if (marker == SOF2) {
        r->out->refusal = HR_RJPEG_PROGRESSIVE;
        return hr_fail(r->err, HR_E_FORMAT, "a progressive JPEG is not repacked yet");
    }
    if (marker >= SOF0 && marker <= SOF15 && marker != JPG)
        return hr_fail(r->err, HR_E_FORMAT, "a JPEG of coding process %02x is not repacked", marker);
    if (marker == EOI)
        return hr_fail(r->err, HR_E_DECODE, "JPEG has no scan");
    return 0; /* APPn, COM, DQT …: kept as they are */
}

static bool is_bare(uint8_t marker)
{
    return marker == SOI || marker == TEM || (marker >= RST0 && marker <= RST7);
}

int rj_read_markers(const uint8_t *jpeg, size_t bytes, struct rj_markers *markers,
                    struct hr_error *err)
{
    struct reader r = {.out = markers, .err = err};
    size_t at = 2;

    memset(markers, 0, sizeof(*markers));
    markers->refusal = HR_RJPEG_OTHER;
    if (bytes < 4 || jpeg[0] != 0xff || jpeg[1] != SOI)
        return hr_fail(err, HR_E_FORMAT, "not a JPEG");
    for (;;) {
        while (at < bytes && jpeg[at] != 0xff) /* libjpeg skips stray bytes, so do we */
            at++;
        while (at < bytes && jpeg[at] == 0xff)
            at++;
        if (at >= bytes)
            return hr_fail(err, HR_E_TRUNCATED, "JPEG is cut off before its scan");
        uint8_t marker = jpeg[at++];
        if (is_bare(marker) || !marker)
            continue;
        size_t length = bytes - at < 2 ? 0 : (size_t)jpeg[at] << 8 | jpeg[at + 1];
        if (length < 2 || length > bytes - at)
            return hr_fail(err, HR_E_TRUNCATED, "JPEG is cut off before its scan");
        r.p = jpeg + at + 2;
        r.bytes = length - 2;
        at += length;
        int ret = read_segment(&r, marker);
        if (ret < 0)
            return ret;
        if (marker == SOS) {
            markers->head_bytes = at;
            return 0;
        }
    }
}

enum hr_rjpeg_refusal hr_rjpeg_refusal(const uint8_t *jpeg, size_t bytes, int code)
{
    struct rj_markers markers;

    if (code == HR_E_DECODE || code == HR_E_TRUNCATED)
        return HR_RJPEG_DAMAGED;
    return rj_read_markers(jpeg, bytes, &markers, NULL) == HR_E_FORMAT ? markers.refusal : HR_RJPEG_OTHER;
}

const char *hr_rjpeg_refusal_name(enum hr_rjpeg_refusal refusal)
{
    static const char *const names[HR_RJPEG_REFUSALS] = {"progressive", "cmyk", "damaged", "other"};

    return names[refusal];
}
