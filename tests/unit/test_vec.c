/* The vector operations of base/vec.h against arithmetic on one lane at a time. Compiled twice: with the
 * instructions of this machine, and in plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/vec.h"

enum { ROUNDS = 2000 };

/* Words with the extremes among them. */
static int16_t random_word(struct hr_rng *rng)
{
    static const int16_t extremes[] = {INT16_MIN, INT16_MIN + 1, -1, 0, 1, 255, 256, INT16_MAX};
    uint64_t r = hr_rng_below(rng, 1 << 17);

    return r < 1 << 16 ? (int16_t)r : extremes[r % HR_ARRAY_SIZE(extremes)];
}

static hr_i16x8 random_words(struct hr_rng *rng)
{
    hr_i16x8 v;

    for (int i = 0; i < 8; i++)
        v[i] = random_word(rng);
    return v;
}

static int32_t clamp(int32_t v, int32_t low, int32_t high)
{
    return v < low ? low : v > high ? high : v;
}

static void test_products(void **state)
{
    struct hr_rng rng;

    hr_rng_init(&rng, 1, 0, 0, 0);
    for (int n = 0; n < ROUNDS; n++) {
        hr_i16x8 a = random_words(&rng), b = random_words(&rng);
        hr_i32x4 pairs = hr_vec_madd(a, b);
        hr_i16x8 signed_high = hr_vec_mulhi_i16(a, b);
        hr_u16x8 high = hr_vec_mulhi_u16((hr_u16x8)a, (hr_u16x8)b);
        for (int i = 0; i < 4; i++) {
            int64_t want = (int64_t)a[2 * i] * b[2 * i] + (int64_t)a[2 * i + 1] * b[2 * i + 1];
            assert_int_equal((uint32_t)pairs[i], (uint32_t)want);
        }
        for (int i = 0; i < 8; i++) {
            assert_int_equal(high[i], (uint64_t)(uint16_t)a[i] * (uint16_t)b[i] / 65536);
            assert_int_equal(signed_high[i], ((int64_t)a[i] * b[i] + ((int64_t)1 << 32)) / 65536 - 65536);
        }
    }
}

static void test_packs_saturate(void **state)
{
    struct hr_rng rng;

    hr_rng_init(&rng, 2, 0, 0, 0);
    for (int n = 0; n < ROUNDS; n++) {
        hr_i16x8 a = random_words(&rng), b = random_words(&rng);
        hr_i32x4 wide_a = (hr_i32x4)random_words(&rng), wide_b = (hr_i32x4)random_words(&rng) >> 15;
        hr_u8x16 bytes = hr_vec_pack16(a, b);
        hr_i16x8 words = hr_vec_pack32(wide_a, wide_b);
        for (int i = 0; i < 16; i++)
            assert_int_equal(bytes[i], clamp(i < 8 ? a[i] : b[i - 8], 0, 255));
        for (int i = 0; i < 8; i++)
            assert_int_equal(words[i], clamp(i < 4 ? wide_a[i] : wide_b[i - 4], INT16_MIN, INT16_MAX));
    }
}

static void test_sums_saturate(void **state)
{
    struct hr_rng rng;

    hr_rng_init(&rng, 3, 0, 0, 0);
    for (int n = 0; n < ROUNDS; n++) {
        hr_i16x8 a = random_words(&rng), b = random_words(&rng), sums = hr_vec_add_saturated16(a, b);
        for (int i = 0; i < 8; i++)
            assert_int_equal(sums[i], clamp(a[i] + b[i], INT16_MIN, INT16_MAX));
    }
}

static void test_zips_and_loads(void **state)
{
    uint8_t bytes[32];

    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(200 + i);
    hr_u8x16 a = hr_vec_load(bytes), b = hr_vec_load(bytes + 16);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(hr_vec_zip_low8(a, b)[i], i % 2 ? b[i / 2] : a[i / 2]);
        assert_int_equal(hr_vec_zip_high8(a, b)[i], i % 2 ? b[8 + i / 2] : a[8 + i / 2]);
    }
    for (int i = 0; i < 8; i++) {
        hr_i16x8 wa = (hr_i16x8)a, wb = (hr_i16x8)b;
        assert_int_equal(hr_vec_zip_low16(wa, wb)[i], i % 2 ? wb[i / 2] : wa[i / 2]);
        assert_int_equal(hr_vec_zip_high16(wa, wb)[i], i % 2 ? wb[4 + i / 2] : wa[4 + i / 2]);
        assert_int_equal(hr_vec_widen_low8(a)[i], bytes[i]);
        assert_int_equal(hr_vec_widen_high8(a)[i], bytes[8 + i]);
        assert_int_equal(hr_vec_load8(bytes + 3)[i], bytes[3 + i]);
    }
    for (int i = 0; i < 4; i++) {
        hr_i32x4 wa = (hr_i32x4)a, wb = (hr_i32x4)b;
        assert_int_equal(hr_vec_zip_low32(wa, wb)[i], i % 2 ? wb[i / 2] : wa[i / 2]);
        assert_int_equal(hr_vec_zip_high32(wa, wb)[i], i % 2 ? wb[2 + i / 2] : wa[2 + i / 2]);
    }
    assert_memory_equal(&(hr_i64x2){hr_vec_zip_low64((hr_i64x2)a, (hr_i64x2)b)[1]}, bytes + 16, 8);
    assert_memory_equal(&(hr_i64x2){hr_vec_zip_high64((hr_i64x2)a, (hr_i64x2)b)[0]}, bytes + 8, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_packs_saturate),
        cmocka_unit_test(test_sums_saturate),
        cmocka_unit_test(test_zips_and_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
