/* io: which reader and which way to open a file are chosen, and what is said about it. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "io/io.h"
#include "io_files.h"

static void unknown_reader_names_the_near_one(void **state)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_reader *reader = NULL;

    assert_int_equal(hr_reader_open("urin", &(struct hr_reader_options){0}, &reader, NULL, 0,
                                    &err), HR_E_CONFIG);
    assert_non_null(strstr(err.hint, "uring"));
    assert_int_equal(hr_reader_open("uring", &(struct hr_reader_options){.depth = 1u << 20},
                                    &reader, NULL, 0, &err), HR_E_CONFIG);
    assert_null(reader);
}

/* Refuses io_uring_setup as container runtimes (EPERM) and old sandboxes (ENOSYS) do. */
static void install_filter(int sys_errno)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)sys_errno),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = HR_ARRAY_SIZE(code), .filter = code};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* The body of the child: exits 0 when the fallback works and both texts name the cause. */
static int refused_child(int sys_errno)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_reader *reader = NULL;
    uint8_t buf[100];
    char why[512];
    struct hr_io_request r = {.dst = buf, .bytes = sizeof(buf)};
    int fd = hr_fd_memfd("one", 100, &err);

    install_filter(sys_errno);
    if (hr_reader_open("uring", &(struct hr_reader_options){0}, &reader, NULL, 0, &err) !=
            HR_E_UNSUPPORTED ||
        err.sys_errno != sys_errno || !strstr(err.text, "seccomp") || !strstr(err.hint, "preadv"))
        return 1;
    if (hr_reader_open("auto", &(struct hr_reader_options){0}, &reader, why, sizeof(why), &err))
        return 2;
    if (strcmp(reader->ops->name, "preadv") != 0 || !strstr(why, "seccomp"))
        return 3;
    reader->ops->add_file(reader, fd, -1, &err);
    reader_read_now(reader, &r);
    reader->ops->close(reader);
    return r.result == 0 && r.done_bytes == 100 ? 0 : 4;
}

static void refused_uring_falls_back_and_says_why(void **state)
{
    static const int refusals[] = {EPERM, ENOSYS};

    for (size_t i = 0; i < HR_ARRAY_SIZE(refusals); i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(refused_child(refusals[i]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

static void direct_is_chosen_beyond_three_quarters_of_memory(void **state)
{
    assert_false(hr_io_choose_direct(HR_IO_MODE_AUTO, 75, 100));
    assert_true(hr_io_choose_direct(HR_IO_MODE_AUTO, 76, 100));
    assert_false(hr_io_choose_direct(HR_IO_MODE_CACHED, UINT64_MAX, 1));
    assert_true(hr_io_choose_direct(HR_IO_MODE_DIRECT, 1, UINT64_MAX));
    assert_false(hr_io_choose_direct(HR_IO_MODE_AUTO, UINT64_MAX / 2, UINT64_MAX));
}

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(hr_fd_write_file_atomic(path, text, strlen(text), NULL), 0);
}

static void control_group_limits_available_memory(void **state)
{
    char dir[] = "/var/tmp/hr-cgroup-XXXXXX", command[64];

    assert_non_null(mkdtemp(dir));
    setenv("HEADRACE_CGROUP_ROOT", dir, 1);
    write_text(dir, "memory.max", "max\n");
    assert_true(hr_io_available_bytes() > 10000000);
    write_text(dir, "memory.max", "10000000\n");
    write_text(dir, "memory.current", "7000000\n");
    write_text(dir, "memory.stat", "anon 4000000\nfile 3000000\n");
    assert_int_equal(hr_io_available_bytes(), 6000000);
    unsetenv("HEADRACE_CGROUP_ROOT");
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void missing_file_is_named(void **state)
{
    struct hr_error err = HR_ERROR_INIT;
    int fd = -1, direct_fd = -1;
    uint32_t align = 0;

    assert_int_equal(hr_io_open_file("/var/tmp/no such file", true, &fd, &direct_fd, &align, &err),
                     HR_E_NOT_FOUND);
    assert_int_equal(fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_reader_names_the_near_one),
        cmocka_unit_test(refused_uring_falls_back_and_says_why),
        cmocka_unit_test(direct_is_chosen_beyond_three_quarters_of_memory),
        cmocka_unit_test(control_group_limits_available_memory),
        cmocka_unit_test(missing_file_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
