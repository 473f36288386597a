/* regex: the answers of the C library's regexec for expressions that it can handle, and bounded time for
 * those that it cannot. */
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "conf/regex.h"

static struct hr_regex *make(const char *text)
{
    struct hr_regex *regex = NULL;
    const char *trouble;

    if (hr_regex_create(text, &regex, &trouble) < 0)
        fail_msg("%s: %s", text, trouble);
    return regex;
}

static bool matches(const char *text, const char *in)
{
    struct hr_regex *regex = make(text);
    bool found = hr_regex_matches(regex, in, strlen(in));

    hr_regex_destroy(regex);
    return found;
}

static void classes_ranges_and_escapes(void **state)
{
    assert_true(matches("^[[:alpha:]_][[:alnum:]_]*$", "a_9"));
    assert_false(matches("^[[:alpha:]_][[:alnum:]_]*$", "9a"));
    assert_true(matches("[]x]$", "a]"));
    assert_true(matches("^[a-]+$", "-a"));
    assert_false(matches("[^]a]", "a]a"));
    assert_true(matches("\\.jpe?g$", "x.jpg"));
    assert_false(matches("\\.jpe?g$", "xjpg"));
    assert_true(matches("\\bcat\\b", "a cat."));
    assert_false(matches("\\bcat\\b", "concat"));
    assert_true(matches("\\<cat\\>", "cat"));
    assert_true(matches("^\\w+\\s\\S\\W$", "ab c!"));
    assert_true(matches("a{2,3}b", "xaab"));
    assert_false(matches("^a{2,3}b", "aaaab"));
    assert_true(matches("^(ab|c){2,}$", "abcab"));
    assert_true(matches("^x{,2}$", ""));
    assert_true(matches("a)", "a)"));
    assert_true(matches("\xc3\xa4$", "\xc3\xa4"));
    assert_true(matches("[[.a.]-[=c=]]", "b"));
}

static void bytes_past_the_text_are_not_looked_at(void **state)
{
    struct hr_regex *regex = make("ab$");

    assert_true(hr_regex_matches(regex, "abc", 2));
    assert_false(hr_regex_matches(regex, "abc", 3));
    assert_true(hr_regex_matches(regex, "x\0ab", 4));
    hr_regex_destroy(regex);
}

static void pick(struct hr_rng *rng, const char *const *pieces, uint32_t count, uint32_t most, char *out)
{
    out[0] = 0;
    for (uint32_t n = 1 + hr_rng_below(rng, most); n > 0; n--)
        strcat(out, pieces[hr_rng_below(rng, count)]);
}

/* The library's own bugs stay out: no repeated empty matches, no anchors inside repeated groups. */
static void answers_are_those_of_regexec(void **state)
{
    static const char *const pieces[] = {"a", "b", "a", "b", "c", "(", ")", "|", "*", "+", "?", "{2}", "{1,2}",
                                         "{0,1}", "[ab]", "[^a]", ".", "^", "$", "{2,}", "\\w"};
    static const char *const bytes[] = {"a", "b", "c", "_", " "};
    struct hr_rng rng;
    unsigned compared = 0;

    hr_rng_init(&rng, 5, 0, 0, 0);
    for (int i = 0; i < 30000; i++) {
        char text[64], in[32];
        regex_t theirs;
        struct hr_regex *ours = NULL;
        const char *trouble;
        pick(&rng, pieces, HR_ARRAY_SIZE(pieces), 8, text);
        bool taken = regcomp(&theirs, text, REG_EXTENDED | REG_NOSUB) == 0;
        if (taken != (hr_regex_create(text, &ours, &trouble) == 0))
            fail_msg("'%s' is taken by %s alone", text, taken ? "regcomp" : "us");
        if (!taken)
            continue;
        for (int k = 0; k < 8; k++) {
            pick(&rng, bytes, HR_ARRAY_SIZE(bytes), 8, in);
            if (hr_regex_matches(ours, in, strlen(in)) != (regexec(&theirs, in, 0, NULL, 0) == 0))
                fail_msg("'%s' in '%s': regexec says otherwise", text, in);
        }
        compared++;
        regfree(&theirs);
        hr_regex_destroy(ours);
    }
    assert_true(compared > 3000);
}

static void no_expression_takes_long(void **state)
{
    static const char *const bombs[] = {
        "a+++++++++k*+++++++++++d", "((k*){40}){20}+", "(\\b|a**){200}", "((^|$|\\b|\\B|\\<|a*)*){30}",
        "(a|b)*a(a|b){900}c", "(a|b)*a[ab]{900}c", "((((((((((a*)*)*)*)*)*)*)*)*)*)*b", "(a*b*){600}c",
        "(a|^|b)a****a****a****a****a****a****a****a****a****a****a****a****b", "(k{0,}){1200}+"};
    char text[1024];
    uint64_t begin_ns = hr_clock_ns();

    for (int i = 0; i < 1024; i++)
        text[i] = "ab"[(uint32_t)i * 2654435761u >> 13 & 1];
    for (size_t i = 0; i < HR_ARRAY_SIZE(bombs); i++) {
        struct hr_regex *regex = make(bombs[i]);
        hr_regex_matches(regex, text, sizeof(text));
        hr_regex_destroy(regex);
    }
    assert_true(hr_clock_ns() - begin_ns < 20 * HR_NS_PER_S); /* some took minutes, one at a time */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_ranges_and_escapes),
        cmocka_unit_test(bytes_past_the_text_are_not_looked_at),
        cmocka_unit_test(answers_are_those_of_regexec),
        cmocka_unit_test(no_expression_takes_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
