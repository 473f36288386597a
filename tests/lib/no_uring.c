/* Runs a command whose io_uring is refused by a seccomp filter, as container runtimes refuse it.
 *
 *   no_uring ERRNO CALL COMMAND [ARG...]
 *
 * ERRNO: the number that the call fails with (1 = EPERM, 38 = ENOSYS). CALL: setup, enter or
 * register, the first of the three that is refused; some sandboxes let the set-up through. Or list: folders
 * cannot be listed, as on network storage that is failing. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int install_filter(unsigned call, unsigned refusal)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (refusal & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
               ? -1
               : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        unsigned number;
    } calls[] = {{"setup", SYS_io_uring_setup},
                 {"enter", SYS_io_uring_enter},
                 {"register", SYS_io_uring_register},
                 {"list", SYS_getdents64}};

    for (size_t i = 0; argc > 3 && i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (strcmp(argv[2], calls[i].name) != 0)
            continue;
        if (install_filter(calls[i].number, (unsigned)atoi(argv[1])) < 0) {
            fprintf(stderr, "no_uring: seccomp: %s\n", strerror(errno));
            return 125;
        }
        execvp(argv[3], &argv[3]);
        fprintf(stderr, "no_uring: %s: %s\n", argv[3], strerror(errno));
        return 127;
    }
    fprintf(stderr, "usage: no_uring ERRNO setup|enter|register|list COMMAND [ARG...]\n");
    return 125;
}
