/* Large values of which a sample needs some parts only (reader thread): a read for each part, all into one
 * buffer, one behind the other. */
#include "pipeline/engine_parts.h"

uint64_t hr_parts_room(const struct hr_sample_want *want)
{
    /* Past the page cache the last part is read to the end of its page. */
    return hr_align_up(want->bytes, HR_CHAIN_PART_ALIGN) + HR_CHAIN_PADDING;
}

uint32_t hr_parts_count(const struct hr_sample *s, uint32_t field)
{
    struct hr_chain_parts parts;

    hr_sample_parts(s, field, &parts);
    return parts.count;
}

/* Parts begin at pages of the value, and large values at pages of their file. */
static bool goes_direct(const struct hr_engine *e, const struct hr_sample_want *want)
{
    const struct hr_shard_file *file = &e->files[want->shard];

    return e->direct && file->direct_fd >= 0 && want->off % file->direct_align == 0 &&
           HR_CHAIN_PART_ALIGN % file->direct_align == 0;
}

void hr_parts_read(struct hr_engine *e, struct hr_sample *s, uint32_t field,
                   const struct hr_sample_want *want)
{
    struct hr_iobuf *buf = hr_iobufs_take(&e->bufs, hr_parts_room(want), HR_CHAIN_PART_ALIGN, 1);
    struct hr_sample_field *sf = &s->fields[field];
    bool direct = goes_direct(e, want);
    struct hr_chain_parts parts;
    uint64_t at = 0;

    HR_ASSERT(buf); /* probed before */
    hr_sample_parts(s, field, &parts);
    sf->buf = buf;
    sf->delta = 0;
    sf->next = NULL;
    for (uint32_t i = 0; i < parts.count; at += parts.part[i++].bytes) {
        struct hr_read *r = hr_reads_take(e);
        r->batch = s->batch;
        r->buf = buf;
        r->fields = sf;
        r->part_bytes = (uint32_t)parts.part[i].bytes;
        r->request.file = (int)want->shard;
        r->request.off = want->off + parts.part[i].off;
        r->request.bytes = direct ? (uint32_t)hr_align_up(parts.part[i].bytes, HR_CHAIN_PART_ALIGN)
                                  : r->part_bytes;
        r->request.direct = direct;
        r->request.dst = buf->data + at;
        hr_reads_submit(e, r);
    }
}
