/* One loop per pair of types; the compiler vectorizes them. */
#include "pipeline/convert.h"

#include <string.h>

#define PAIR(name, S, D)                                                                           \
    static void name(const uint8_t *src, uint8_t *dst, uint64_t count)                             \
    {                                                                                              \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            S s;                                                                                   \
            D d;                                                                                   \
            memcpy(&s, src + i * sizeof(S), sizeof(S));                                            \
            d = (D)s;                                                                              \
            memcpy(dst + i * sizeof(D), &d, sizeof(D));                                            \
        }                                                                                          \
    }

PAIR(u16_i32, uint16_t, int32_t)
PAIR(u16_i64, uint16_t, int64_t)
PAIR(u32_i32, uint32_t, int32_t)
PAIR(u32_i64, uint32_t, int64_t)
PAIR(i64_i32, int64_t, int32_t)
PAIR(i64_f32, int64_t, float)
PAIR(i64_f64, int64_t, double)
PAIR(f64_f32, double, float)
PAIR(bool_i64, uint8_t, int64_t)
PAIR(bool_f32, uint8_t, float)

static const struct {
    enum hr_dtype from, to;
    void (*run)(const uint8_t *src, uint8_t *dst, uint64_t count);
} pairs[] = {
    {HR_DTYPE_U16, HR_DTYPE_I32, u16_i32},  {HR_DTYPE_U16, HR_DTYPE_I64, u16_i64},
    {HR_DTYPE_U32, HR_DTYPE_I32, u32_i32},  {HR_DTYPE_U32, HR_DTYPE_I64, u32_i64},
    {HR_DTYPE_I64, HR_DTYPE_I32, i64_i32},  {HR_DTYPE_I64, HR_DTYPE_F32, i64_f32},
    {HR_DTYPE_I64, HR_DTYPE_F64, i64_f64},  {HR_DTYPE_F64, HR_DTYPE_F32, f64_f32},
    {HR_DTYPE_BOOL, HR_DTYPE_I64, bool_i64}, {HR_DTYPE_BOOL, HR_DTYPE_F32, bool_f32},
};

void hr_convert(enum hr_dtype from, enum hr_dtype to, const void *src, void *dst, uint64_t count)
{
    if (hr_dtype_bytes(from) == hr_dtype_bytes(to) &&
        (from == to || (from == HR_DTYPE_BOOL && to == HR_DTYPE_U8))) {
        if (count)
            memcpy(dst, src, count * hr_dtype_bytes(from));
        return;
    }
    for (size_t i = 0; i < HR_ARRAY_SIZE(pairs); i++) {
        if (pairs[i].from == from && pairs[i].to == to) {
            pairs[i].run(src, dst, count);
            return;
        }
    }
    HR_ASSERT(!"a conversion that the plan does not allow");
}
