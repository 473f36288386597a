/* What the kernel grants this process: io_uring, locked memory, descriptors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "io/io.h"
#include "tools/cli.h"
#include "tools/doctor/checks.h"

enum { TRIAL_BYTES = 32 << 20, FEW_FILES = 4096 };

/* The number behind a key of /proc/self/status or of a one-line file (key ""). */
static int64_t read_int(const char *file, const char *key, int base, int64_t missing)
{
    char line[256];
    int64_t value = missing;
    FILE *f = fopen(file, "re");

    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, key, strlen(key)) == 0) {
            value = (int64_t)strtoull(line + strlen(key), NULL, base);
            break;
        }
    }
    if (f)
        fclose(f);
    return value;
}

void hr_doctor_kernel(struct hr_doctor_row *row, const char *path)
{
    struct utsname name;
    int major = 0, minor = 0;

    if (uname(&name) < 0)
        return;
    sscanf(name.release, "%d.%d", &major, &minor);
    hr_json_str(&row->facts, "release", name.release);
    hr_json_str(&row->facts, "machine", name.machine);
    bool old = major < 5 || (major == 5 && minor < 11);
    hr_doctor_say(row, old ? HR_DOCTOR_WARN : HR_DOCTOR_OK, "Linux %s, %s", name.release,
                  name.machine);
    if (old)
        hr_doctor_fix(row, "Linux 5.11 or later has the io_uring that Headrace uses, 6.1 the "
                           "fastest");
}

void hr_doctor_uring(struct hr_doctor_row *row, const char *path)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_reader *reader = NULL;
    char why[256];
    int ret = hr_reader_open("uring", &(struct hr_reader_options){0}, &reader, why, sizeof(why),
                             &err);

    hr_json_bool(&row->facts, "works", ret == 0);
    hr_json_int(&row->facts, "sysctl_disabled",
                read_int("/proc/sys/kernel/io_uring_disabled", "", 10, -1));
    hr_json_bool(&row->facts, "seccomp",
                 read_int("/proc/self/status", "Seccomp:", 10, 0) == 2);
    hr_json_int(&row->facts, "errno", err.sys_errno);
    if (ret == 0) {
        reader->ops->close(reader);
        const char *note = strchr(why, ';');
        hr_doctor_say(row, HR_DOCTOR_OK, "works%s", note ? note : "");
        return;
    }
    hr_doctor_say(row, HR_DOCTOR_WARN, "%s; reading threads do its work", err.text);
    hr_doctor_fix(row, "%s", err.hint);
}

/* Tries it: what counts is whether the kernel pins memory for us, by limit or by privilege. */
void hr_doctor_memlock(struct hr_doctor_row *row, const char *path)
{
    enum { CAP_IPC_LOCK_BIT = 14 };
    char bytes[32], why[256] = "";
    struct hr_error err = HR_ERROR_INIT;
    struct hr_reader *reader = NULL;
    struct rlimit limit;
    int64_t caps = read_int("/proc/self/status", "CapEff:", 16, 0);
    bool privileged = caps >> CAP_IPC_LOCK_BIT & 1;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
        return;
    bool unlimited = limit.rlim_cur == RLIM_INFINITY;
    void *arena = mmap(NULL, TRIAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0);
    struct hr_reader_options options = {.arena = arena == MAP_FAILED ? NULL : arena,
                                        .arena_bytes = TRIAL_BYTES};
    bool has_uring = hr_reader_open("uring", &options, &reader, why, sizeof(why), &err) == 0;
    bool pinned = has_uring && options.arena && !strstr(why, "buffers not registered");
    if (has_uring)
        reader->ops->close(reader);
    if (options.arena)
        munmap(arena, TRIAL_BYTES);

    if (unlimited)
        hr_json_null(&row->facts, "limit_bytes");
    else
        hr_json_uint(&row->facts, "limit_bytes", limit.rlim_cur);
    hr_json_bool(&row->facts, "privileged", privileged);
    hr_json_bool(&row->facts, "buffers_registered", pinned);
    const char *text = unlimited ? "unlimited" : hr_cli_format_bytes(limit.rlim_cur, bytes);
    if (pinned || !has_uring) {
        hr_doctor_say(row, HR_DOCTOR_OK, "%s%s%s", text,
                      privileged ? ", lifted by CAP_IPC_LOCK" : "",
                      has_uring ? "; buffers can be registered" : "; not needed without io_uring");
        return;
    }
    hr_doctor_say(row, HR_DOCTOR_WARN,
                  "%s: buffers cannot be registered, reads cost about a tenth more CPU", text);
    hr_doctor_fix(row, "ulimit -l unlimited; docker run --ulimit memlock=-1; "
                       "LimitMEMLOCK=infinity in a systemd unit");
}

void hr_doctor_files(struct hr_doctor_row *row, const char *path)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    hr_json_uint(&row->facts, "soft", limit.rlim_cur);
    hr_json_uint(&row->facts, "hard", limit.rlim_max);
    bool few = limit.rlim_cur < FEW_FILES;
    hr_doctor_say(row, few ? HR_DOCTOR_WARN : HR_DOCTOR_OK, "%llu (hard limit %llu)",
                  (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
    if (few)
        hr_doctor_fix(row, "a shard takes up to two descriptors: ulimit -n 65536, or "
                           "LimitNOFILE=65536 in a systemd unit");
}
