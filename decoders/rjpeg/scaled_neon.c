/* Reduced sizes with NEON: tiles parsed as the variant does, transforms as scaled.h has them. */
#include <pthread.h>

#include "rjpeg/scaled.h"
#include "rjpeg/tile_neon.h"

struct scratch {
    struct tile tile;
    struct rj_blocks blocks;
    int16_t values[VALUES_ROOM];
};
_Static_assert(sizeof(struct scratch) <= RJ_SCALED_SCRATCH_BYTES, "scratch");

static bool run_tile(const struct rj_job *job, const uint16_t quantizer[64], uint32_t size, size_t stride,
                     struct scratch *s)
{
    const uint32_t blocks[2] = {job->first, job->end};

    if (size == 1) {
        parse_head(&s->tile, job);
        rj_inverse1(s->tile.dc, quantizer[0], job->out);
        return true;
    }
    if (!parse_front(&s->tile, job))
        return false;
    unpack_values(&s->tile);
    widen_values(&s->tile, s->values);
    rj_scale_tile(&s->blocks, quantizer, size, s->tile.mask, s->tile.first, s->tile.dc, s->values, blocks, job->out,
                  stride);
    return true;
}

bool rj_run_scaled_neon(const struct rj_job *jobs, uint32_t count, const uint16_t quantizer[64], uint32_t size,
                        size_t stride, void *scratch)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct scratch *s = scratch;

    pthread_once(&once, make_field_tables);
    for (uint32_t i = 0; i < count; i++)
        if (!run_tile(&jobs[i], quantizer, size, stride, s))
            return false;
    return true;
}
