/* The row machine as one call in a shared library, for tests/golden/resample_pillow.py. */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "decoders/kernels/kernels.h"
#include "decoders/kernels/resample.h"

struct bridge_args {
    uint32_t in_w, in_h, out_w, out_h, full_out_w, full_out_h, out_x, out_y;
    uint32_t channels, filter, flip_h, flip_v, level; /* level: 0 = C, 1 = AVX2, 2 = AVX-512 */
};

__attribute__((visibility("default"))) int bridge_resample(const struct bridge_args *args,
                                                           const uint8_t *pixels, uint8_t *dst);
__attribute__((visibility("default"))) int bridge_level(void);

int bridge_level(void)
{
    unsigned flags = hr_cpu_flags();
    return flags & HR_CPU_AVX512 ? 2 : flags & HR_CPU_AVX2 ? 1 : 0;
}

static int run(struct hr_resample *resample, const struct hr_resample_job *job,
               const uint8_t *pixels)
{
    size_t row_bytes = (size_t)job->in_w * job->channels;
    uint32_t first, last;
    int rc = hr_resample_begin(resample, job);

    if (rc)
        return rc;
    uint8_t *row = calloc(1, row_bytes + 64);
    if (!row)
        return HR_E_NOMEM;
    hr_resample_rows_needed(resample, &first, &last);
    for (uint32_t y = first; y <= last; y++) {
        memcpy(row, pixels + y * row_bytes, row_bytes);
        hr_resample_push(resample, row);
    }
    free(row);
    return hr_resample_done(resample) ? 0 : HR_E_INTERNAL;
}

int bridge_resample(const struct bridge_args *args, const uint8_t *pixels, uint8_t *dst)
{
    static const unsigned flags[] = {0, HR_CPU_AVX2, HR_CPU_AVX2 | HR_CPU_AVX512};
    struct hr_kernels kernels;
    struct hr_resample *resample;
    struct hr_resample_job job = {
        .in_w = args->in_w, .in_h = args->in_h, .out_w = args->out_w, .out_h = args->out_h,
        .full_out_w = args->full_out_w, .full_out_h = args->full_out_h, .out_x = args->out_x,
        .out_y = args->out_y, .channels = args->channels, .filter = (enum hr_filter)args->filter,
        .flip_h = args->flip_h, .flip_v = args->flip_v, .dtype = HR_DTYPE_U8, .dst = dst,
        .dst_row_stride = (uint64_t)args->out_w * args->channels,
    };

    if (args->level > 2 || (flags[args->level] & ~hr_cpu_flags()))
        return HR_E_UNSUPPORTED;
    int rc = hr_resample_create(&resample);
    if (rc)
        return rc;
    hr_kernels_fill(&kernels, flags[args->level]);
    hr_resample_use_kernels(resample, &kernels);
    rc = run(resample, &job, pixels);
    hr_resample_destroy(resample);
    return rc;
}
