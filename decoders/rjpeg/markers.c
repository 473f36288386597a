/* Reads the marker segments before a JPEG file's scans. What the pixels need is left to libjpeg; this
 * is for writing the scans again with the file's own tables. */
#include <string.h>

#include "rjpeg/markers.h"

enum {
    SOF0 = 0xc0, SOF1 = 0xc1, SOF2 = 0xc2, SOF15 = 0xcf, DHT = 0xc4, JPG = 0xc8, DAC = 0xcc,
    RST0 = 0xd0, RST7 = 0xd7, SOI = 0xd8, EOI = 0xd9, SOS = 0xda, DQT = 0xdb, DNL = 0xdc, DRI = 0xdd, TEM = 0x01,
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
        m->refusal = HR_RJPEG_REFUSED_CMYK;
    if (r->p[5] != 1 && r->p[5] != 3 && r->p[5] != 4)
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

/* What libjpeg takes; which steps of a progression may follow each other is rj_script_add()'s. */
static bool is_sane_band(const struct rj_markers *m)
{
    if (!m->progressive)
        return m->first == 0 && m->last == 63 && m->high == 0 && m->low == 0;
    if (m->first == 0 ? m->last != 0 : m->last < m->first || m->last > 63 || m->scan_components != 1)
        return false;
    return m->low <= 13 && (m->high == 0 || m->low == m->high - 1);
}

static bool has_tables(const struct rj_markers *m, uint32_t c)
{
    bool dc = m->first == 0 && m->high == 0, ac = m->last != 0;

    return (!dc || m->dc[m->component[c].dc_table].present) && (!ac || m->ac[m->component[c].ac_table].present);
}

static int read_scan(struct reader *r)
{
    struct rj_markers *m = r->out;
    uint32_t seen = 0, count = r->bytes ? r->p[0] : 0;

    if (count < 1 || count > m->components || r->bytes != 4 + 2 * count)
        return damaged(r, "SOS");
    const uint8_t *band = r->p + 1 + 2 * count;
    m->scan_components = count;
    m->first = band[0];
    m->last = band[1];
    m->high = band[2] >> 4;
    m->low = band[2] & 15;
    if (!is_sane_band(m))
        return damaged(r, "SOS");
    for (uint32_t i = 0; i < count; i++) {
        int c = find_component(m, r->p[1 + 2 * i]);
        uint8_t tables = r->p[2 + 2 * i];
        if (c < 0 || seen & 1u << c || tables & 0xcc)
            return damaged(r, "SOS");
        seen |= 1u << c;
        m->scan_order[i] = (uint8_t)c;
        m->component[c].dc_table = tables >> 4;
        m->component[c].ac_table = tables & 15;
        if (!has_tables(m, (uint32_t)c))
            return hr_fail(r->err, HR_E_FORMAT, "a JPEG without its own Huffman tables is not repacked");
    }
    m->scans++;
    return 0;
}

static int read_segment(struct reader *r, uint8_t marker)
{
    if (marker == DHT)
        return read_huffman(r);
    if (marker == SOF0 || marker == SOF1 || marker == SOF2) {
        r->out->progressive = marker == SOF2;
        if (r->out->progressive)
            r->out->refusal = HR_RJPEG_REFUSED_PROGRESSIVE;
        return read_frame(r);
    }
    if (marker == DRI)
        return read_restart_interval(r);
    if (marker == SOS)
        return read_scan(r);
    if (marker == DQT && r->out->scans)
        return hr_fail(r->err, HR_E_FORMAT, "a JPEG with quantizers between its scans is not repacked");
    if (marker >= SOF0 && marker <= SOF15 && marker != JPG)
        return hr_fail(r->err, HR_E_FORMAT, "a JPEG of coding process %02x is not repacked", marker);
    return 0; /* APPn, COM, DQT …: kept as they are */
}

static bool is_bare(uint8_t marker)
{
    return marker == SOI || marker == TEM || (marker >= RST0 && marker <= RST7);
}

int rj_markers_next(const uint8_t *jpeg, size_t bytes, size_t at, struct rj_markers *markers, struct hr_error *err)
{
    struct reader r = {.out = markers, .err = err};

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
        if (marker == EOI)
            return markers->scans ? 1 : hr_fail(err, HR_E_DECODE, "JPEG has no scan");
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

int rj_markers_begin(const uint8_t *jpeg, size_t bytes, struct rj_markers *markers, struct hr_error *err)
{
    memset(markers, 0, sizeof(*markers));
    markers->refusal = HR_RJPEG_REFUSED_OTHER;
    if (bytes < 4 || jpeg[0] != 0xff || jpeg[1] != SOI)
        return hr_fail(err, HR_E_FORMAT, "not a JPEG");
    return rj_markers_next(jpeg, bytes, 2, markers, err);
}

bool rj_markers_several(const struct rj_markers *m)
{
    return m->progressive || m->scan_components < m->components;
}

int rj_read_markers(const uint8_t *jpeg, size_t bytes, struct rj_markers *markers, struct hr_error *err)
{
    int ret = rj_markers_begin(jpeg, bytes, markers, err);

    if (ret == 0 && rj_markers_several(markers))
        ret = hr_fail(err, HR_E_FORMAT, "a JPEG of several scans");
    return ret;
}

enum hr_rjpeg_refusal hr_rjpeg_refusal(const uint8_t *jpeg, size_t bytes, int code)
{
    struct rj_markers markers;

    if (code == HR_E_DECODE || code == HR_E_TRUNCATED)
        return HR_RJPEG_REFUSED_DAMAGED;
    int ret = rj_markers_begin(jpeg, bytes, &markers, NULL);
    return ret == 0 || ret == HR_E_FORMAT ? markers.refusal : HR_RJPEG_REFUSED_OTHER;
}

const char *hr_rjpeg_refusal_name(enum hr_rjpeg_refusal refusal)
{
    static const char *const names[HR_RJPEG_REFUSALS] = {"progressive", "cmyk", "damaged", "other"};

    return names[refusal];
}
