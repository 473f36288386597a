/* The reference: what every other level must equal bit for bit. */
#include <math.h>
#include <string.h>

#include "decoders/kernels/half.h"
#include "decoders/kernels/kernels.h"

static inline int clamp_u8(int v)
{
    return v < 0 ? 0 : v > 255 ? 255 : v;
}

static inline __attribute__((always_inline)) void hresize(const struct hr_hplan *plan,
                                                          const uint8_t *row, int16_t *dst,
                                                          uint32_t channels)
{
    const uint32_t taps = plan->taps, fine_shift = plan->fine_shift;

    for (uint32_t x = 0; x < plan->steps; x++) {
        const uint8_t *src = row + plan->base[x];
        const int16_t *coeff = plan->coeff + (size_t)x * (fine_shift ? 2 * taps : taps);
        for (uint32_t c = 0; c < channels; c++) {
            int32_t sum = 0, fine = 1 << plan->bits >> 1;
            for (uint32_t t = 0; t < taps; t++)
                sum += src[t * channels + c] * coeff[t];
            for (uint32_t t = 0; fine_shift && t < taps; t++)
                fine += src[t * channels + c] * coeff[taps + t];
            sum = sum * (1 << fine_shift) + fine;
            dst[x * channels + c] = (int16_t)(clamp_u8(sum >> plan->bits) << plan->ring_shift);
        }
    }
}

static void hresize_plain(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst)
{
    if (plan->channels == 3)
        hresize(plan, row, dst, 3);
    else
        hresize(plan, row, dst, 1);
}

static void vnarrow(const int16_t *const *rows, const int16_t *coeff, uint32_t taps, uint8_t *dst,
                    size_t elements)
{
    for (size_t e = 0; e < elements; e++) {
        int sum = 1 << HR_NARROW_SHIFT >> 1;
        for (uint32_t t = 0; t < taps; t++)
            sum += (rows[t][e] * coeff[t] + 0x4000) >> 15;
        dst[e] = (uint8_t)clamp_u8(sum >> HR_NARROW_SHIFT);
    }
}

static void vwide(const int16_t *const *rows, const int16_t *coeff, uint32_t taps, uint32_t bits,
                  uint8_t *dst, size_t elements)
{
    for (size_t e = 0; e < elements; e++) {
        int32_t sum = 1 << bits >> 1;
        for (uint32_t t = 0; t < taps; t++)
            sum += rows[t][e] * coeff[t];
        dst[e] = (uint8_t)clamp_u8(sum >> bits);
    }
}

static void put(void *dst, size_t i, float v, enum hr_store_type type)
{
    if (type == HR_STORE_F32)
        ((float *)dst)[i] = v;
    else
        ((uint16_t *)dst)[i] = type == HR_STORE_F16 ? hr_float_to_f16(v) : hr_float_to_bf16(v);
}

static inline __attribute__((always_inline)) void store_packed(const struct hr_store *store,
                                                               const uint8_t *row, void *dst,
                                                               size_t pixels,
                                                               enum hr_store_type type)
{
    for (size_t x = 0; x < pixels; x++)
        for (size_t c = 0; c < store->channels; c++) {
            size_t i = x * store->channels + c;
            put(dst, i, fmaf(row[i], store->scale[c], store->bias[c]), type);
        }
}

static inline __attribute__((always_inline)) void store_planar(const struct hr_store *store,
                                                               const uint8_t *row, void *dst,
                                                               size_t pixels,
                                                               enum hr_store_type type)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t x = 0; x < pixels; x++)
            put(dst, c * store->plane_stride + x,
                fmaf(row[x * 3 + c], store->scale[c], store->bias[c]), type);
}

static void packed_u8(const struct hr_store *store, const uint8_t *row, void *dst, size_t pixels)
{
    memcpy(dst, row, pixels * store->channels);
}

static void planar_u8(const struct hr_store *store, const uint8_t *row, void *dst, size_t pixels)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t x = 0; x < pixels; x++)
            ((uint8_t *)dst)[c * store->plane_stride + x] = row[x * 3 + c];
}

#define FLOAT_STORES(name, type)                                                                   \
    static void packed_##name(const struct hr_store *store, const uint8_t *row, void *dst,         \
                              size_t pixels)                                                       \
    {                                                                                              \
        store_packed(store, row, dst, pixels, type);                                               \
    }                                                                                              \
    static void planar_##name(const struct hr_store *store, const uint8_t *row, void *dst,         \
                              size_t pixels)                                                       \
    {                                                                                              \
        store_planar(store, row, dst, pixels, type);                                               \
    }

FLOAT_STORES(f16, HR_STORE_F16)
FLOAT_STORES(bf16, HR_STORE_BF16)
FLOAT_STORES(f32, HR_STORE_F32)

void hr_kernels_fill_c(struct hr_kernels *kernels)
{
    *kernels = (struct hr_kernels){
        .hresize[HR_HLAYOUT_PLAIN] = hresize_plain,
        .vnarrow = vnarrow,
        .vwide = vwide,
        .packed = {packed_u8, packed_f16, packed_bf16, packed_f32},
        .planar = {planar_u8, planar_f16, planar_bf16, planar_f32},
    };
}
