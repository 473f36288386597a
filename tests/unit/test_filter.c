/* Filters: mistakes with their columns, and what holds for a handful of records by hand. Semantics
 * over random expressions are compared with Python in tests/python/test_mix.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "conf/filter.h"

/* Columns: i (integer), f (number), s (text), b (boolean), v (payload), gone (in no record), k (as i, with
 * names for numbers). */
struct record {
    bool has_i, has_f, has_s, has_b, has_v;
    int64_t i;
    double f;
    const char *s;
    bool b;
};

static const struct record records[] = {
    {true, true, true, true, true, 3, 0.5, "en", true},
    {true, true, true, true, false, -7, NAN, "", false},
    {true, true, true, true, true, INT64_MAX, 9223372036854775808.0, "abc.jpg", true},
    {false, false, false, false, false, 0, 0, NULL, false},
    {true, true, true, true, true, 9007199254740993, 9007199254740992.0, "d\xc3\xa4", false},
};

enum { RECORDS = 5 };

static int find(void *context, const char *name, struct hr_filter_column *out, struct hr_error *err)
{
    static const char *const names[] = {"i", "f", "s", "b", "v", "k"};
    static const enum hr_filter_type types[] = {HR_FILTER_INTEGER, HR_FILTER_NUMBER, HR_FILTER_TEXT,
                                                HR_FILTER_BOOL, HR_FILTER_VALUE, HR_FILTER_INTEGER};

    if (strcmp(name, "gone") == 0)
        return HR_FILTER_LACKING;
    for (uint32_t k = 0; k < HR_ARRAY_SIZE(names); k++)
        if (strcmp(name, names[k]) == 0) {
            *out = (struct hr_filter_column){.type = types[k], .id = k};
            return HR_FILTER_FOUND;
        }
    return hr_fail(err, HR_E_CONFIG, "'%s' is unknown", name);
}

static void get(void *context, uint32_t id, uint64_t record, struct hr_filter_value *out)
{
    const struct record *r = &records[record];
    const bool has[] = {r->has_i, r->has_f, r->has_s, r->has_b, r->has_v, r->has_i};

    *out = (struct hr_filter_value){
        .present = has[id], .integer = id == 3 ? r->b : r->i, .number = r->f, .text = r->s};
    out->text_bytes = r->s ? (uint32_t)strlen(r->s) : 0;
}

static int number_of(void *context, uint32_t id, const char *text, uint32_t text_bytes, int64_t *out,
                     struct hr_error *err)
{
    if (id != 5)
        return 0;
    if (text_bytes == 5 && memcmp(text, "three", 5) == 0)
        return *out = 3, 1;
    if (text_bytes == 4 && memcmp(text, "less", 4) == 0)
        return *out = -7, 1;
    return hr_fail(err, HR_E_CONFIG, "nothing is called so");
}

static const struct hr_filter_columns columns = {.find = find, .get = get, .number_of = number_of};

static const struct {
    const char *text, *kept; /* record numbers */
} cases[] = {
    {"i == 3", "0"},
    {"k == 'three'", "0"},
    {"k != 'three'", "124"},
    {"'less' == k", "1"},
    {"k in ['less', 'three', 9007199254740993]", "014"},
    {"not k == 'less'", "0234"},
    {"k == i", "0124"},
    {"gone == 'three'", ""},
    {"i != 3", "124"},
    {"3 == i", "0"},
    {"i > -8 and i <= 3", "01"},
    {"i < 9007199254740992.0", "01"},
    {"i > 9007199254740992.0", "24"},
    {"i == f", ""},
    {"i < f", "2"},
    {"f != f", "1"},
    {"f < 1e300", "024"},
    {"not f < 1e300", "13"},
    {"s == 'en'", "0"},
    {"s == \"\"", "1"},
    {"s >= 'd'", "04"},
    {"s in ['en', \"abc.jpg\"]", "02"},
    {"s not in ['en']", "1234"},
    {"i in [3, -7.0]", "01"},
    {"s =~ '\\.jpg$'", "2"},
    {"s =~ '^.?$'", "1"},
    {"s =~ '(a|e)[a-z]{1,2}'", "02"},
    {"s =~ '^[]a-e[:digit:]]+[.]j{1,}.*'", "2"},
    {"s =~ '^a+b+c+.*[a-z]+[a-z]+[a-z]+$'", "2"},
    {"b", "02"},
    {"not b", "134"},
    {"b == true", "02"},
    {"b != true", "14"},
    {"b in [false]", "14"},
    {"has(v)", "024"},
    {"has(s) and not has(v)", "1"},
    {"has(gone)", ""},
    {"gone == 3 or i == 3", "0"},
    {"gone =~ 'x' or gone in [1, 2] or gone", ""},
    {"i == 3 or i == -7 and b", "0"},
    {"(i == 3 or i == -7) and b", "0"},
    {"not (i == 3 or b) and has(i)", "14"},
    {"not not b", "02"},
    {"s == 'd\xc3\xa4'", "4"},
    {"s == 'it\\'s' or s == \"a\\\\b\"", ""},
};

static void records_are_kept_as_the_expression_says(void **state)
{
    for (size_t k = 0; k < HR_ARRAY_SIZE(cases); k++) {
        struct hr_filter *filter;
        struct hr_error err;
        char kept[RECORDS + 1] = "", text[512];
        if (hr_filter_parse(cases[k].text, &filter, &err) < 0 ||
            hr_filter_bind(filter, &columns, &err) < 0)
            fail_msg("%s: %s", cases[k].text, hr_error_format(&err, text, sizeof(text)));
        for (unsigned r = 0; r < RECORDS; r++)
            if (hr_filter_keeps(filter, &columns, r))
                snprintf(kept + strlen(kept), 2, "%u", r);
        if (strcmp(kept, cases[k].kept) != 0)
            fail_msg("%s keeps '%s', not '%s'", cases[k].text, kept, cases[k].kept);
        hr_filter_destroy(filter);
    }
}

static const struct {
    const char *text;
    int column;
    const char *reason, *hint;
} mistakes[] = {
    {"", 1, "ends where a column", ""},
    {"   ", 4, "ends where", ""},
    {"i ==", 5, "ends where a column", ""},
    {"i = 3", 3, "'=' alone", "'=='"},
    {"i == 3 && b", 8, "'&' means nothing", "'and'"},
    {"i == 3 | b", 8, "'|' means nothing", "'or'"},
    {"!b", 1, "'!' alone", "not"},
    {"k == 'four'", 6, "nothing is called so", ""},
    {"k in ['less', 'x']", 15, "nothing is called so", ""},
    {"k < 'three'", 3, "no order", ""},
    {"i == 'three'", 6, "whole number is compared with text", ""},
    {"i == 3 b", 8, "'b' where", ""},
    {"1 < i < 3", 7, "do not chain", "a < b and b < c"},
    {"1 < 3", 3, "two constants", ""},
    {"3", 2, "ends where a comparison", ""},
    {"true", 5, "ends where a comparison", ""},
    {"(i == 3", 8, "ends where 'and', 'or' or ')'", ""},
    {"i == 3)", 7, "')' where", ""},
    {"s == 'en", 6, "without a closing '", ""},
    {"s == \"\xc3\xa4\" and s == 'x", 19, "without a closing", ""},
    {"i > 12px", 7, "runs into", ""},
    {"i > 99999999999999999999", 5, "too large", ""},
    {"f > 1e999", 5, "too large", ""},
    {"i in 3", 6, "'3' where '['", ""},
    {"i in []", 7, "']' where a number", ""},
    {"i in [3 4]", 9, "'4' where ',' or ']'", ""},
    {"i in [s]", 7, "'s' where a number", ""},
    {"i not 3", 7, "'3' where 'in'", ""},
    {"s =~ x", 6, "a regular expression in quotes", ""},
    {"s =~ '('", 6, "not a regular expression", ""},
    {"s =~ '(a)\\1'", 6, "back-references", ""},
    {"s =~ '((a{100}){100}){100}'", 6, "repetitions", ""},
    {"s =~ '(a{60,}){99}'", 6, "repetitions", ""},
    {"s =~ '((k{,100}){,100}){,100}'", 6, "repetitions", ""},
    {"s =~ 'a{5000}'", 6, "repetitions", ""},
    {"s =~ '\\d'", 6, "[0-9]", ""},
    {"s =~ '[[:letter:]]'", 6, "unknown class", ""},
    {"s =~ '*a'", 6, "repetition of nothing", ""},
    {"has i", 5, "'i' where '('", ""},
    {"has(3)", 5, "'3' where a field's name", ""},
    {"i == $", 6, "unexpected '$'", ""},
    {"i == \xe2\x82\xac", 6, "an unexpected character", ""},
    {"nope == 3", 1, "'nope' is unknown", ""},
    {"i == 'x'", 6, "a whole number is compared with text", ""},
    {"s < 3", 5, "text is compared with a whole number", ""},
    {"b == 1", 6, "a boolean is compared with a whole number", ""},
    {"b < true", 3, "have no order", ""},
    {"i =~ 'x'", 1, "looks at text", ""},
    {"i in ['x']", 7, "compared with text", ""},
    {"i", 1, "not a boolean", "has(i)"},
    {"i == 3 or v == 'x'", 11, "not in the index", "has(v)"},
    {"v =~ 'x'", 1, "not in the index", ""},
};

static void mistakes_are_named_with_their_column(void **state)
{
    for (size_t k = 0; k < HR_ARRAY_SIZE(mistakes); k++) {
        struct hr_filter *filter = NULL;
        struct hr_error err;
        int ret = hr_filter_parse(mistakes[k].text, &filter, &err);
        if (ret == 0)
            ret = hr_filter_bind(filter, &columns, &err);
        if (ret != HR_E_CONFIG || err.column != mistakes[k].column ||
            !strstr(err.text, mistakes[k].reason) || !strstr(err.hint, mistakes[k].hint))
            fail_msg("%s: %d at %d: %s (%s)", mistakes[k].text, ret, ret ? err.column : 0,
                     ret ? err.text : "", ret ? err.hint : "");
        if (ret < 0 && filter)
            hr_filter_destroy(filter);
    }
}

static void limits_hold(void **state)
{
    enum { BIG = 3 * HR_FILTER_MAX_BYTES };
    struct hr_filter *filter;
    struct hr_error err;
    char text[BIG + 1];

    memset(text, ' ', BIG);
    text[BIG] = 0;
    assert_int_equal(hr_filter_parse(text, &filter, &err), HR_E_CONFIG);
    assert_non_null(strstr(err.text, "4096 bytes"));
    memset(text, '(', 100);
    text[100] = 0;
    assert_int_equal(hr_filter_parse(text, &filter, &err), HR_E_CONFIG);
    assert_non_null(strstr(err.text, "64 deep"));
    text[0] = 0;
    for (int i = 0; i < 65; i++)
        snprintf(text + strlen(text), 32, "%sn%d == 1", i ? " or " : "", i);
    assert_int_equal(hr_filter_parse(text, &filter, &err), HR_E_CONFIG);
    assert_non_null(strstr(err.text, "64 different names"));
    text[0] = 0;
    for (int i = 0; i < 1025; i++)
        strcat(text, i ? "orb " : "b ");
    assert_int_equal(hr_filter_parse(text, &filter, &err), HR_E_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_kept_as_the_expression_says),
        cmocka_unit_test(mistakes_are_named_with_their_column),
        cmocka_unit_test(limits_hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
