/* Choosing and opening a reader: the probe of io_uring, and the one line that says what was chosen
 * and why. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arg.h"
#include "base/clock.h"
#include "base/fd.h"
#include "io/reader.h"

enum { PROBE_BYTES = 4096 };

#define PROBE_DEADLINE_NS (2 * HR_NS_PER_S)

/* ---- why io_uring is refused ---- */

static int read_int(const char *path, const char *key, int missing)
{
    char line[256];
    int value = missing;
    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, key, strlen(key)) == 0 &&
            sscanf(line + strlen(key), "%d", &value) == 1)
            break;
    }
    if (f)
        fclose(f);
    return value;
}

struct cause {
    const char *text, *way_out;
};

static const struct cause sysctl_off = {
    "the sysctl kernel.io_uring_disabled is 2", "sysctl -w kernel.io_uring_disabled=0"};
static const struct cause sysctl_group = {
    "the sysctl kernel.io_uring_disabled is 1 and this process is not in kernel.io_uring_group",
    "put this user into that group, or sysctl -w kernel.io_uring_disabled=0"};
static const struct cause seccomp = {
    "a seccomp filter, as container runtimes install it",
    "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile"};
static const struct cause security_module = {
    "a security module of the kernel", "allow io_uring in its policy for this program"};
static const struct cause old_kernel = {"the kernel is too old or built without it",
                                        "Linux 5.11 or later has what is needed"};
static const struct cause memlock = {"RLIMIT_MEMLOCK is too small for the ring",
                                     "ulimit -l unlimited"};
static const struct cause unexpected = {"unexpected", "report it with the output of headrace doctor"};

static const struct cause *cause_of(int sys_errno)
{
    int disabled = read_int("/proc/sys/kernel/io_uring_disabled", "", 0);
    bool filtered = read_int("/proc/self/status", "Seccomp:", 0) == 2;

    if (sys_errno == EPERM && disabled == 2)
        return &sysctl_off;
    if (sys_errno == EPERM && disabled == 1 && !filtered)
        return &sysctl_group;
    if ((sys_errno == EPERM || sys_errno == ENOSYS || sys_errno == EACCES) && filtered)
        return &seccomp;
    if (sys_errno == EACCES || sys_errno == EPERM)
        return &security_module;
    if (sys_errno == ENOSYS)
        return &old_kernel;
    if (sys_errno == ENOMEM)
        return &memlock;
    return &unexpected;
}

/* ---- probe ---- */

static int read_back(struct hr_reader *reader, int fd, const uint8_t *expected,
                     struct hr_error *err)
{
    uint8_t got[PROBE_BYTES];
    struct hr_io_request request = {.bytes = PROBE_BYTES, .dst = got}, *done;

    memset(got, 0xFF, sizeof(got));
    request.file = reader->ops->add_file(reader, fd, -1, err);
    if (request.file < 0)
        return request.file;
    if (reader->ops->submit(reader, &request) != HR_IO_QUEUED)
        return hr_fail(err, HR_E_UNSUPPORTED, "the first read was not taken");
    reader->ops->flush(reader);
    if (reader->ops->reap(reader, &done, 1, hr_clock_ns() + PROBE_DEADLINE_NS) != 1)
        return hr_fail(err, HR_E_UNSUPPORTED, "the first read does not come back");
    if (request.result == 0 && memcmp(got, expected, sizeof(got)) == 0)
        return 0;
    int ret = hr_fail(err, HR_E_UNSUPPORTED, "the first read fails: %s",
                      request.sys_errno ? strerror(request.sys_errno) : "wrong bytes");
    if (err)
        err->sys_errno = request.sys_errno;
    return ret;
}

static int probe_read(struct hr_reader *reader, struct hr_error *err)
{
    uint8_t pattern[PROBE_BYTES];
    int fd = hr_fd_memfd("headrace-probe", PROBE_BYTES, err);

    if (fd < 0)
        return fd;
    for (int i = 0; i < PROBE_BYTES; i++)
        pattern[i] = (uint8_t)(i * 7 + (i >> 8));
    int ret = hr_fd_pwrite_full(fd, pattern, sizeof(pattern), 0, err);
    if (ret == 0)
        ret = read_back(reader, fd, pattern, err);
    hr_fd_close(&fd);
    return ret;
}

/* A real ring and a real read: what passes here works later. Some sandboxes let the set-up through
 * and refuse what follows. */
static int probe_uring(struct hr_error *err)
{
    struct hr_reader_options small = {.depth = 1, .max_files = 1};
    struct hr_reader *reader = NULL;
    int ret = hr_uring_ops.open(&small, &reader, err);

    if (ret < 0)
        return ret;
    ret = probe_read(reader, err);
    hr_uring_ops.close(reader);
    return ret;
}

/* ---- open ---- */

static const struct hr_reader_ops *find(const char *name, struct hr_error *err)
{
    const char *names[16] = {"auto"};
    char list[128] = "auto";
    int n = 1;

    for (int i = 0; hr_readers[i]; i++) {
        if (strcmp(hr_readers[i]->name, name) == 0)
            return hr_readers[i];
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, ", %s", hr_readers[i]->name);
        names[n++] = hr_readers[i]->name;
    }
    hr_fail(err, HR_E_CONFIG, "unknown reader '%s'", name);
    const char *near = hr_nearest_word(name, names, n);
    if (near)
        hr_error_hint(err, "did you mean '%s'?", near);
    else
        hr_error_hint(err, "one of: %s", list);
    return NULL;
}

static void say_uring(const struct hr_reader *reader, char *why, size_t why_bytes)
{
    const char *note = hr_uring_note(reader);

    snprintf(why, why_bytes, "uring: io_uring works here%s%s", *note ? "; " : "", note);
}

static int open_uring(const struct hr_reader_options *options, struct hr_reader **out, char *why,
                      size_t why_bytes, struct hr_error *err)
{
    struct hr_error local = HR_ERROR_INIT;
    int ret = probe_uring(&local);

    if (ret == 0)
        ret = hr_uring_ops.open(options, out, &local);
    if (ret == 0) {
        say_uring(*out, why, why_bytes);
        return 0;
    }
    if (local.code == HR_E_UNSUPPORTED) {
        const struct cause *cause = cause_of(local.sys_errno);
        hr_fail(err, local.code, "io_uring is refused (%s); cause: %s", local.text, cause->text);
        if (err)
            err->sys_errno = local.sys_errno;
        hr_error_hint(err, "%s; or use the reader 'preadv'", cause->way_out);
    } else if (err) {
        *err = local;
    }
    return ret;
}

static int open_auto(const struct hr_reader_options *options, struct hr_reader **out, char *why,
                     size_t why_bytes, struct hr_error *err)
{
    struct hr_error refusal = HR_ERROR_INIT;
    int ret = open_uring(options, out, why, why_bytes, &refusal);

    if (ret != HR_E_UNSUPPORTED) {
        if (ret < 0 && err)
            *err = refusal;
        return ret;
    }
    ret = hr_preadv_ops.open(options, out, err);
    if (ret == 0)
        snprintf(why, why_bytes, "preadv: %s", refusal.text);
    return ret;
}

int hr_reader_open(const char *name, const struct hr_reader_options *options,
                   struct hr_reader **out, char *why, size_t why_bytes, struct hr_error *err)
{
    char unused[1];

    if (!why || !why_bytes) {
        why = unused;
        why_bytes = sizeof(unused);
    }
    why[0] = 0;
    if (!name || strcmp(name, "auto") == 0)
        return open_auto(options, out, why, why_bytes, err);
    const struct hr_reader_ops *ops = find(name, err);
    if (!ops)
        return HR_E_CONFIG;
    if (ops == &hr_uring_ops)
        return open_uring(options, out, why, why_bytes, err);
    int ret = ops->open(options, out, err);
    if (ret == 0 && ops == &hr_fault_ops)
        snprintf(why, why_bytes, "fault: over %s", hr_fault_note(*out));
    else if (ret == 0)
        snprintf(why, why_bytes, "%s: as configured", name);
    return ret;
}
