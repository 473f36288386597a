/* order: the checkpoint as text, what it refuses, and going on from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/hash.h"
#include "made_order.h"
#include "order/order.h"
#include "order/state.h"

static struct hr_state first_state(void)
{
    struct hr_digest dataset = hr_digest_of("d", 1), plan = hr_digest_of("p", 1);
    struct hr_state first;

    hr_state_init(&first, &dataset, &plan, 7);
    return first;
}

static void state_survives_text(void **state)
{
    struct hr_state a = first_state(), b;
    struct hr_error err;
    char text[HR_STATE_BYTES], again[HR_STATE_BYTES];

    a.seed = a.samples = a.order_digest = a.cursor.epoch = a.cursor.step = UINT64_MAX;
    int n = hr_state_encode(&a, text);
    assert_in_range(n, 100, HR_STATE_BYTES - 1);
    assert_int_equal(strlen(text), n);
    assert_int_equal(hr_state_decode(&b, &a, text, (size_t)n, &err), 0);
    hr_state_encode(&b, again);
    assert_string_equal(text, again);
}

static void empty_state_is_the_beginning(void **state)
{
    static const char *const texts[] = {"", "{}", " {\n} "};
    struct hr_state defaults = first_state(), out;
    struct hr_error err;

    defaults.cursor.step = 9;
    for (size_t i = 0; i < HR_ARRAY_SIZE(texts); i++) {
        assert_int_equal(hr_state_decode(&out, &defaults, texts[i], strlen(texts[i]), &err), 0);
        assert_int_equal(out.cursor.step, 0);
        assert_int_equal(out.seed, 7);
        assert_true(hr_digest_equal(&out.plan, &defaults.plan));
    }
}

/* Each edit of a good state must be refused, with a reason that holds the given words. */
static void damaged_states_are_refused(void **state)
{
    static const struct {
        const char *from, *to, *reason;
    } edits[] = {
        {"\"headrace_state\":2", "\"headrace_state\":3", "version 3"},
        {"\"headrace_state\":2", "\"headrace_state\":0", "version 0"},
        {"\"headrace_state\":2", "\"headrace_state\":1", "unknown key of version 1 'parts'"},
        {"\"parts\":\"\"", "\"parts\":\"abc\"", "4 hex digits a part"},
        {"\"parts\":\"\"", "\"parts\":\"abcx\"", "4 hex digits a part"},
        {",\"parts\":\"\"", "", "missing 'parts'"},
        {"\"step\":0", "\"step\":-1", "negative number for 'step'"},
        {"\"step\":0", "\"step\":18446744073709551616", "over 64 bits for 'step'"},
        {"\"step\":0", "\"step\":1.5", "whole number for 'step'"},
        {"\"step\":0", "\"step\":1e3", "whole number for 'step'"},
        {"\"step\":0", "\"step\":01", "whole number for 'step'"},
        {"\"step\":0", "\"step\":null", "whole number for 'step'"},
        {"\"step\":0", "\"step\":0,\"step\":0", "second value for 'step'"},
        {"\"step\":0,", "", "missing 'step'"},
        {"\"step\":0", "\"stop\":0", "unknown key 'stop'"},
        {"\"step\":0", "\"st\\u0065p\":0", "unexpected string"},
        {"\"order_digest\":\"0", "\"order_digest\":\"", "16 hex digits"},
        {"\"order_digest\":\"0", "\"order_digest\":\"g", "16 hex digits"},
        {"\"dataset\":\"", "\"dataset\":\"0", "unexpected string"},
        {"\"plan\":\"", "\"plan\":\"x\",\"plan\":\"", "32 hex digits"},
        {"}", "", "expected ',' or '}'"},
        {"}", "}}", "something follows"},
        {"}", ",}", "expected a string"},
        {"{", "[", "expected '{'"},
    };
    struct hr_state good = first_state(), out, before;
    char text[HR_STATE_BYTES], bad[2 * HR_STATE_BYTES];

    memset(&out, 0x5a, sizeof(out));
    before = out;
    hr_state_encode(&good, text);
    for (size_t i = 0; i < HR_ARRAY_SIZE(edits); i++) {
        struct hr_error err;
        char *at = strstr(text, edits[i].from);
        assert_non_null(at);
        snprintf(bad, sizeof(bad), "%.*s%s%s", (int)(at - text), text, edits[i].to,
                 at + strlen(edits[i].from));
        assert_int_equal(hr_state_decode(&out, &good, bad, strlen(bad), &err), HR_E_STATE);
        if (!strstr(err.text, edits[i].reason))
            fail_msg("'%s' says '%s'", bad, err.text);
        assert_memory_equal(&out, &before, sizeof(out));
    }
    for (size_t n = 1; n < strlen(text); n++)
        assert_int_equal(hr_state_decode(&out, &good, text, n, NULL), HR_E_STATE);
}

static void state_of_version_1_still_loads(void **state)
{
    static const char old[] =
        "{\"headrace_state\":1,\"dataset\":\"99aa06d3014798d86001c324468d497f\","
        "\"plan\":\"99aa06d3014798d86001c324468d497f\",\"seed\":7,\"epoch\":3,\"step\":1,"
        "\"samples\":4,\"order_digest\":\"9d07bca285c41ff4\"}";
    struct hr_state defaults = first_state(), out;
    struct hr_error err;

    assert_int_equal(hr_state_decode(&out, &defaults, old, strlen(old), &err), 0);
    assert_int_equal(out.cursor.epoch, 3);
    assert_int_equal(out.cursor.step, 1);
    assert_int_equal(out.order_digest, UINT64_C(0x9d07bca285c41ff4));
    assert_int_equal(out.parts.count, 0);
    assert_int_equal(hr_state_differing_part(&out, &defaults), -1);
}

static void largest_state_stays_under_512_bytes(void **state)
{
    struct hr_state full = first_state(), again;
    char text[HR_STATE_BYTES];
    struct hr_error err;

    full.seed = full.samples = full.cursor.step = full.order_digest = UINT64_MAX;
    full.cursor.epoch = UINT64_MAX;
    full.parts.count = HR_STATE_MAX_PARTS;
    for (uint32_t i = 0; i < HR_STATE_MAX_PARTS; i++)
        full.parts.digests[i] = (uint16_t)(0xffff - i);
    int n = hr_state_encode(&full, text);
    assert_in_range(n, 1, HR_STATE_BYTES - 1);
    assert_int_equal(hr_state_decode(&again, &full, text, (size_t)n, &err), 0);
    assert_int_equal(hr_state_differing_part(&again, &full), -1);
    again.parts.digests[17] ^= 1;
    assert_int_equal(hr_state_differing_part(&again, &full), 17);
    again = full;
    again.parts.count = 9;
    assert_int_equal(hr_state_differing_part(&again, &full), 9);
}

static void foreign_state_names_what_differs(void **state)
{
    struct hr_state ours = first_state(), loaded = ours;
    struct hr_error err;

    assert_int_equal(hr_state_check(&loaded, &ours, &err), 0);
    loaded.dataset.bytes[3] ^= 1;
    assert_int_equal(hr_state_check(&loaded, &ours, &err), HR_E_STATE);
    assert_non_null(strstr(err.text, "another dataset"));
    loaded = ours;
    loaded.plan.bytes[0] ^= 1;
    assert_int_equal(hr_state_check(&loaded, &ours, &err), HR_E_STATE);
    assert_non_null(strstr(err.text, "another plan"));
    loaded = ours;
    loaded.seed++;
    assert_int_equal(hr_state_check(&loaded, &ours, &err), HR_E_STATE);
    assert_non_null(strstr(err.text, "another seed: 8, not 7"));
    assert_non_null(strstr(err.hint, "force_state=True"));
}

static void digest_rolls_over_the_records_in_order(void **state)
{
    struct hr_order order = order_make(HR_ORDER_NONE, HR_LAST_PAD, 5, 3);
    struct hr_state rolled = first_state();
    uint8_t ids[24];

    for (unsigned i = 0; i < 3; i++)
        hr_store_le64(ids + 8 * i, i);
    uint64_t expected = hr_hash64(ids, 24, 0);
    hr_state_advance(&rolled, &order);
    assert_true(rolled.order_digest == expected);
    assert_int_equal(rolled.samples, 3);
    hr_store_le64(ids, 3);
    hr_store_le64(ids + 8, 4);
    expected = hr_hash64(ids, 16, expected);
    hr_state_advance(&rolled, &order);
    assert_true(rolled.order_digest == expected);
    assert_int_equal(rolled.samples, 5);
    assert_int_equal(rolled.cursor.epoch, 1);
    assert_int_equal(rolled.cursor.step, 0);
}

static void saved_and_loaded_runs_go_on_alike(void **state)
{
    struct hr_order order = order_make(HR_ORDER_WINDOW, HR_LAST_WRAP, 1003, 64);
    struct hr_state through = first_state(), resumed = through, loaded;
    struct hr_error err;
    char text[HR_STATE_BYTES];

    for (int i = 0; i < 100; i++) {
        int n = hr_state_encode(&resumed, text);
        assert_int_equal(hr_state_decode(&loaded, &through, text, (size_t)n, &err), 0);
        resumed = loaded;
        hr_state_advance(&resumed, &order);
        hr_state_advance(&through, &order);
    }
    assert_memory_equal(&resumed, &through, sizeof(resumed));
    assert_int_equal(through.samples, 6400);
    assert_int_equal(hr_order_ordinal(&order, through.cursor), 100);
}

/* Not a bound that a loaded machine could miss by chance: prints, and fails only when absurd. */
static void advancing_costs_microseconds(void **state)
{
    struct hr_order order = order_make(HR_ORDER_FULL, HR_LAST_WRAP, 1281167, 256);
    struct hr_state rolled = first_state();
    uint64_t begin = hr_clock_ns();

    for (int i = 0; i < 1000; i++)
        hr_state_advance(&rolled, &order);
    double us = (double)(hr_clock_ns() - begin) / 1e6;
    print_message("# advance, batch 256 of 1281167 records: %.2f us\n", us);
    assert_true(us < 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_of_version_1_still_loads),
        cmocka_unit_test(largest_state_stays_under_512_bytes),
        cmocka_unit_test(state_survives_text),
        cmocka_unit_test(empty_state_is_the_beginning),
        cmocka_unit_test(damaged_states_are_refused),
        cmocka_unit_test(foreign_state_names_what_differs),
        cmocka_unit_test(digest_rolls_over_the_records_in_order),
        cmocka_unit_test(saved_and_loaded_runs_go_on_alike),
        cmocka_unit_test(advancing_costs_microseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
