/* Reduced sizes on CPUs with BMI2: tiles parsed as the vector variants do, transforms as scaled.h has them,
 * compiled once for each CPU level. */
#include <pthread.h>

#include "rjpeg/scaled.h"
#include "rjpeg/tile_bmi2.h"

struct scratch {
    struct tile tile;
    struct rj_blocks blocks;
    _Alignas(64) int16_t values[RJ_TILE_VALUES + 16 + 192];
};
_Static_assert(sizeof(struct scratch) <= RJ_SCALED_SCRATCH_BYTES, "scratch");

/* Folded bytes to numbers, exceptions looked up. */
NOINLINE void unfold_values(struct tile *t, int16_t *values)
{
    const uint8_t *folded = (const uint8_t *)t->values;
    const __m128i one = _mm_set1_epi8(1), low7 = _mm_set1_epi8(127);

    for (uint32_t i = 0; i < t->wanted; i += 16) {
        __m128i f = _mm_load_si128((const __m128i *)(folded + i));
        __m128i sign = _mm_sub_epi8(_mm_setzero_si128(), _mm_and_si128(f, one));
        __m128i v = _mm_xor_si128(_mm_and_si128(_mm_srli_epi16(f, 1), low7), sign);
        v = _mm_add_epi8(_mm_add_epi8(v, one), sign);
        _mm256_store_si256((__m256i *)(values + i), _mm256_cvtepi8_epi16(v));
    }
    for (uint32_t i = 0; t->head & RJ_TILE_EXCEPTIONS && i < t->wanted; i++)
        if (values[i] == -128)
            values[i] = next_exception(t);
}

static bool run_tile(const struct rj_job *job, const uint16_t quantizer[64], uint32_t size, size_t stride,
                     struct scratch *s)
{
    const uint32_t blocks[2] = {job->first, job->end};

    if (size == 1) {
        parse_head(&s->tile, job);
        rj_inverse1(s->tile.dc, quantizer[0], job->out);
        return true;
    }
    if (!parse_front(&s->tile, job, 1))
        return false;
    unpack_fields(&s->tile);
    unfold_values(&s->tile, s->values);
    rj_scale_tile(&s->blocks, quantizer, size, s->tile.mask, s->tile.first, s->tile.dc, s->values, blocks, job->out,
                  stride);
    return true;
}

bool RJ_RUN_SCALED(const struct rj_job *jobs, uint32_t count, const uint16_t quantizer[64], uint32_t size,
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
