/* Reduced sizes in plain C. */
#include "rjpeg/scaled.h"
#include "rjpeg/tile.h"
#include "rjpeg/variant.h"

struct scratch {
    struct rj_tile tile;
    struct rj_blocks blocks;
    int16_t values[RJ_TILE_VALUES + 8];
};
_Static_assert(sizeof(struct scratch) <= RJ_SCALED_SCRATCH_BYTES, "scratch");

static bool run_tile(const struct rj_job *job, const uint16_t quantizer[64], uint32_t size, size_t stride,
                     struct scratch *s)
{
    const uint32_t blocks[2] = {job->first, job->end};

    bool good = rj_tile_open(&s->tile, job->bytes, job->size, job->blocks);
    if (size == 1) { /* no level looks at more than the DCs */
        rj_inverse1(s->tile.dc, quantizer[0], job->out);
        return true;
    }
    if (!good)
        return false;
    rj_tile_values(&s->tile, s->tile.first[job->end], s->values);
    rj_scale_tile(&s->blocks, quantizer, size, s->tile.mask, s->tile.first, s->tile.dc, s->values, blocks, job->out,
                  stride);
    return true;
}

bool rj_run_scaled_c(const struct rj_job *jobs, uint32_t count, const uint16_t quantizer[64], uint32_t size,
                     size_t stride, void *scratch)
{
    struct scratch *s = scratch;

    for (uint32_t i = 0; i < count; i++)
        if (!run_tile(&jobs[i], quantizer, size, stride, s))
            return false;
    return true;
}
