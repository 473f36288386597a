/* The order of a file's scans. Strict where libjpeg only warns: what it would decode to a picture of missing bits is
 * not for repacking. */
#include "rjpeg/script.h"

#include <string.h>

static bool add_component(struct rj_script *s, const struct rj_markers *m, uint32_t c)
{
    for (uint32_t k = m->first; k <= m->last; k++) {
        bool begun = s->component[c].begun[k];
        if (m->high ? !begun || s->component[c].low[k] != m->high : begun)
            return false;
        s->component[c].begun[k] = true;
        s->component[c].low[k] = m->low;
    }
    return s->component[c].begun[0]; /* DC comes before the others */
}

int rj_script_add(struct rj_script *s, const struct rj_markers *m, struct hr_error *err)
{
    if (++s->scans > RJ_MAX_SCANS)
        return hr_fail(err, HR_E_FORMAT, "a JPEG of more than %d scans is not repacked", RJ_MAX_SCANS);
    for (uint32_t i = 0; i < m->scan_components; i++)
        if (!add_component(s, m, m->scan_order[i]))
            return hr_fail(err, HR_E_DECODE, "JPEG has scans in an order that makes no sense");
    return 0;
}

bool rj_script_complete(const struct rj_script *s, uint32_t components)
{
    for (uint32_t c = 0; c < components; c++)
        for (int k = 0; k < 64; k++)
            if (!s->component[c].begun[k] || s->component[c].low[k])
                return false;
    return true;
}

/* The first byte behind a scan: where a marker stands that is none of its own. */
static size_t find_scan_end(const uint8_t *jpeg, size_t bytes, size_t at)
{
    while (at < bytes) {
        const uint8_t *ff = memchr(jpeg + at, 0xff, bytes - at);
        if (!ff || ff + 1 == jpeg + bytes)
            return bytes;
        if (ff[1] != 0 && (ff[1] < 0xd0 || ff[1] > 0xd7))
            return (size_t)(ff - jpeg);
        at = (size_t)(ff - jpeg) + 2;
    }
    return bytes;
}

int rj_script_read(const uint8_t *jpeg, size_t bytes, struct rj_markers *markers, struct hr_buf *kept, size_t *tail,
                   struct hr_error *err)
{
    struct rj_script script = {0};
    size_t from = 0;
    int ret = rj_markers_begin(jpeg, bytes, markers, err);

    while (ret == 0) {
        hr_buf_add(kept, jpeg + from, markers->head_bytes - from);
        from = find_scan_end(jpeg, bytes, markers->head_bytes);
        ret = rj_script_add(&script, markers, err);
        if (ret == 0)
            ret = rj_markers_next(jpeg, bytes, from, markers, err);
    }
    if (ret < 0)
        return ret;
    *tail = from;
    if (hr_buf_failed(kept))
        return hr_fail(err, HR_E_NOMEM, "no memory to repack a JPEG");
    return rj_script_complete(&script, markers->components)
               ? 0 : hr_fail(err, HR_E_FORMAT, "a JPEG whose scans leave out bits is not repacked");
}
