/* io: ranges that are near each other are read together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "io/coalesce.h"

static void neighbours_are_joined(void **state)
{
    struct hr_io_range r[] = {
        {.file = 1, .off = 0, .bytes = 10, .tag = 5},   {.file = 0, .off = 120, .bytes = 10, .tag = 2},
        {.file = 0, .off = 100, .bytes = 10, .tag = 1}, {.file = 0, .off = 0, .bytes = 50, .tag = 0},
        {.file = 0, .off = 105, .bytes = 3, .tag = 3},  {.file = 0, .off = 141, .bytes = 9, .tag = 4},
    };
    struct hr_io_span s[6];

    assert_int_equal(hr_io_coalesce(r, 6, 10, 1000, s), 4);
    assert_int_equal(s[0].bytes, 50);
    assert_int_equal(s[1].off, 100); /* a gap of exactly 10 and a range inside */
    assert_int_equal(s[1].bytes, 30);
    assert_int_equal(s[1].first, 1);
    assert_int_equal(s[1].count, 3);
    assert_int_equal(s[2].off, 141); /* a gap of 11 */
    assert_int_equal(s[3].file, 1);
    assert_int_equal(r[s[3].first].tag, 5);
}

static void spans_stay_within_their_limit(void **state)
{
    struct hr_io_range r[] = {{.off = 0, .bytes = 60}, {.off = 60, .bytes = 40},
                              {.off = 100, .bytes = 1}, {.off = 101, .bytes = 500},
                              {.off = 300, .bytes = 5}, {.off = UINT64_MAX - 4, .bytes = 100}};
    struct hr_io_span s[6];

    assert_int_equal(hr_io_coalesce(r, 6, 1u << 20, 100, s), 4);
    assert_int_equal(s[0].bytes, 100);
    assert_int_equal(s[1].bytes, 1);
    assert_int_equal(s[2].bytes, 500); /* larger than the limit: alone, but for what lies inside */
    assert_int_equal(s[2].count, 2);
    assert_int_equal(hr_io_coalesce(r, 0, 0, 0, s), 0);
}

static void random_ranges_are_covered_once(void **state)
{
    enum { N = 500 };
    static struct hr_io_range r[N];
    static struct hr_io_span s[N];
    uint64_t tags = 0;
    struct hr_rng rng;

    hr_rng_init(&rng, 5, 0, 0, 0);
    for (uint32_t i = 0; i < N; i++)
        r[i] = (struct hr_io_range){.file = (int)hr_rng_below(&rng, 3),
                                    .off = hr_rng_below(&rng, 100000),
                                    .bytes = (uint32_t)hr_rng_below(&rng, 300), .tag = i};
    uint32_t n = hr_io_coalesce(r, N, 50, 4000, s), next = 0;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(s[i].first, next);
        assert_true(s[i].bytes <= 4000);
        for (uint32_t k = next; k < next + s[i].count; k++) {
            assert_int_equal(r[k].file, s[i].file);
            assert_true(r[k].off >= s[i].off &&
                        r[k].off + r[k].bytes <= s[i].off + s[i].bytes);
            assert_true(k == 0 || r[k].file > r[k - 1].file ||
                        (r[k].file == r[k - 1].file && r[k].off >= r[k - 1].off));
            tags += r[k].tag;
        }
        next += s[i].count;
    }
    assert_int_equal(next, N);
    assert_int_equal(tags, N * (N - 1) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_joined),
        cmocka_unit_test(spans_stay_within_their_limit),
        cmocka_unit_test(random_ranges_are_covered_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
