/* Whom the flight recorder blames when an engine dies. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "pipeline/flight.h"

static int set_up(void **state)
{
    struct hr_error err;

    *state = hr_flight_create(&err);
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    hr_flight_destroy(*state);
    return 0;
}

static void hold(struct hr_flight *f, uint32_t seat, uint32_t source, uint64_t record)
{
    hr_flight_take(&f->seats[seat], source, record, 1000);
}

static void the_record_of_the_crashed_thread_is_to_blame(void **state)
{
    struct hr_flight *f = *state;

    hold(f, 0, 0, 10);
    hold(f, 3, 2, 0); /* record 0 is a record too */
    hold(f, HR_FLIGHT_READER, 0, 12);
    atomic_store(&f->seats[3].field, 5);
    atomic_store(&f->crashed, 3 + 1);
    atomic_store(&f->signal, SIGSEGV);
    assert_true(hr_flight_blame(f, SIGSEGV));
    assert_int_equal(f->culprit_count, 1);
    assert_int_equal(f->culprits[0].record, 0);
    assert_int_equal(f->culprits[0].source, 2);
    assert_int_equal(f->culprits[0].field, 5);
    assert_int_equal(f->culprits[0].signal, SIGSEGV);
    assert_int_equal(f->suspect_count, 0);
    assert_non_null(hr_flight_culprit(f, 2, 0));
    assert_null(hr_flight_culprit(f, 0, 0)); /* the same number in another source */

    hr_flight_reset(f); /* the next engine: culprits stay, the rest does not */
    assert_int_equal(f->crashed, 0);
    assert_int_equal(f->seats[3].in_hand, 0);
    assert_int_equal(f->culprit_count, 1);
}

static void a_crash_with_nothing_in_hand_blames_nobody(void **state)
{
    struct hr_flight *f = *state;

    hold(f, 1, 0, 11);
    atomic_store(&f->crashed, 2 + 1);
    assert_false(hr_flight_blame(f, SIGABRT));
    atomic_store(&f->crashed, HR_FLIGHT_NO_SEAT);
    atomic_store(&f->in_control, 1);
    assert_false(hr_flight_blame(f, SIGSEGV));
    assert_int_equal(f->culprit_count + f->suspect_count, 0);
}

static void unexplained_deaths_make_suspects_and_then_culprits(void **state)
{
    struct hr_flight *f = *state;

    hold(f, 0, 0, 10);
    hold(f, 1, 0, 11);
    assert_false(hr_flight_blame(f, SIGKILL));
    assert_int_equal(f->suspect_count, 2);
    hr_flight_suspect(f, 0, 10)->cleared = 1; /* it was finished this time */

    hr_flight_reset(f);
    hold(f, 4, 0, 11);
    assert_false(hr_flight_blame(f, SIGKILL)); /* two may be chance: anyone can send it */
    assert_null(hr_flight_suspect(f, 0, 10));
    assert_int_equal(hr_flight_suspect(f, 0, 11)->deaths, 2);

    hr_flight_reset(f);
    hold(f, 2, 0, 11);
    hold(f, 3, 0, 99);
    assert_true(hr_flight_blame(f, SIGKILL));
    assert_int_equal(f->culprit_count, 1);
    assert_int_equal(f->culprits[0].record, 11);
    assert_null(hr_flight_suspect(f, 0, 11));
    assert_non_null(hr_flight_suspect(f, 0, 99));

    hr_flight_reset(f);
    hold(f, 3, 0, 99);
    assert_true(hr_flight_blame(f, SIGSEGV)); /* other signals are the engine's own doing */
}

static void a_record_over_the_limit_is_stalled(void **state)
{
    struct hr_flight *f = *state;

    hr_flight_take(&f->seats[7], 1, 70, 5000);
    hr_flight_take(&f->seats[8], 1, 80, 9000);
    hr_flight_take(&f->seats[HR_FLIGHT_READER], 1, 90, 0); /* plans; its time is not measured */
    assert_false(hr_flight_find_stalled(f, 6000, 1000));
    assert_true(hr_flight_find_stalled(f, 9500, 1000));
    assert_int_equal(f->culprit_count, 1);
    assert_int_equal(f->culprits[0].record, 70);
    assert_int_equal(f->culprits[0].signal, 0);
    hr_flight_drop(&f->seats[7]);
    assert_false(hr_flight_find_stalled(f, 9500, 1000));
}

static void lists_are_bounded(void **state)
{
    struct hr_flight *f = *state;

    for (uint64_t r = 0; r < HR_FLIGHT_CULPRITS + 5; r++) {
        hold(f, 0, 0, r);
        atomic_store(&f->crashed, 1);
        assert_int_equal(hr_flight_blame(f, SIGSEGV), r < HR_FLIGHT_CULPRITS);
    }
    atomic_store(&f->crashed, 0);
    for (uint32_t i = 0; i < HR_FLIGHT_SEATS; i++)
        hold(f, i, 1, i);
    assert_false(hr_flight_blame(f, SIGKILL));
    assert_int_equal(f->suspect_count, HR_FLIGHT_SUSPECTS);
}

static int crash(struct hr_flight *f, int how)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        hr_flight_catch_crashes(f);
        hr_flight_sit(f, 6);
        hold(f, 6, 0, 66);
        if (how == SIGABRT)
            abort();
        raise(how);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void the_handler_writes_down_whose_crash_it_was(void **state)
{
    struct hr_flight *f = *state;

    for (int i = 0; i < 3; i++) {
        int how = (int[]){SIGSEGV, SIGABRT, SIGBUS}[i];
        hr_flight_reset(f);
        assert_int_equal(crash(f, how), how);
        assert_int_equal(f->crashed, 6 + 1);
        assert_int_equal(f->signal, how);
    }
}

/* The recorder is memory that a crashing decoder can have written over. */
static void counts_that_cannot_be_are_not_followed(void **state)
{
    struct hr_flight *f = *state;

    hold(f, 1, 0, 7);
    f->culprit_count = f->suspect_count = UINT32_MAX;
    assert_false(hr_flight_blame(f, SIGKILL));
    assert_int_equal(f->culprit_count, 0);
    assert_int_equal(f->suspect_count, 1);
    f->culprit_count = HR_FLIGHT_CULPRITS + 1;
    assert_true(hr_flight_find_stalled(f, 5000, 1000));
    assert_int_equal(f->culprit_count, 1);
    f->culprit_count = f->suspect_count = UINT32_MAX;
    atomic_store(&f->crashed, UINT32_MAX);
    assert_false(hr_flight_blame(f, SIGSEGV));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_record_of_the_crashed_thread_is_to_blame, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_crash_with_nothing_in_hand_blames_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unexplained_deaths_make_suspects_and_then_culprits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_over_the_limit_is_stalled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lists_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_handler_writes_down_whose_crash_it_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counts_that_cannot_be_are_not_followed, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
