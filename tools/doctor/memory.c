/* Memory: what is left, what the ring can live in, and what people fear but need not. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "io/io.h"
#include "io/memory.h"
#include "tools/cli.h"
#include "tools/doctor/checks.h"

enum { TRIAL_BYTES = 4 << 20 };

#define LITTLE_BYTES    (UINT64_C(1) << 30)
#define TOO_LITTLE_BYTES (UINT64_C(256) << 20)

void hr_doctor_memory(struct hr_doctor_row *row, const char *path)
{
    uint64_t available = hr_io_available_bytes(), limit = hr_io_cgroup_limit_bytes();
    char text[32], limit_text[32];
    enum hr_doctor_status status = available < TOO_LITTLE_BYTES ? HR_DOCTOR_BAD
                                   : available < LITTLE_BYTES   ? HR_DOCTOR_WARN
                                                                : HR_DOCTOR_OK;

    hr_json_uint(&row->facts, "available_bytes", available);
    if (limit == UINT64_MAX)
        hr_json_null(&row->facts, "cgroup_limit_bytes");
    else
        hr_json_uint(&row->facts, "cgroup_limit_bytes", limit);
    hr_doctor_say(row, status, "%s available, page cache included%s%s",
                  hr_cli_format_bytes(available, text),
                  limit == UINT64_MAX ? "; no control group limits it"
                                      : "; limited by a control group to ",
                  limit == UINT64_MAX ? "" : hr_cli_format_bytes(limit, limit_text));
    if (status != HR_DOCTOR_OK)
        hr_doctor_fix(row, "the ring holds whole batches and is charged at start: raise the "
                           "memory limit, or lower `slots` and `batch`");
}

/* The ring's memory is made as the sidecar makes it: sealed, mapped, written. */
void hr_doctor_memfd(struct hr_doctor_row *row, const char *path)
{
    struct hr_error err = HR_ERROR_INIT;
    char text[512];
    int fd = hr_fd_memfd("headrace-doctor", TRIAL_BYTES, &err);

    if (fd >= 0) {
        void *p = mmap(NULL, TRIAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            fd = hr_fail_errno(&err, errno, "mapping it");
        } else {
            memset(p, 1, TRIAL_BYTES);
            munmap(p, TRIAL_BYTES);
            hr_fd_close(&fd);
            fd = 0;
        }
    }
    hr_json_bool(&row->facts, "works", fd >= 0);
    if (fd >= 0) {
        hr_doctor_say(row, HR_DOCTOR_OK, "sealed memory files work: the ring lives in one");
        return;
    }
    hr_doctor_say(row, HR_DOCTOR_BAD, "no sealed memory file: %.250s",
                  hr_error_format(&err, text, sizeof(text)));
    hr_doctor_fix(row, "allow memfd_create and fcntl(F_ADD_SEALS) in the sandbox's profile");
}

void hr_doctor_shm(struct hr_doctor_row *row, const char *path)
{
    struct statvfs fs;
    char text[32];

    if (statvfs("/dev/shm", &fs) < 0) {
        hr_doctor_say(row, HR_DOCTOR_OK, "not there, and not needed");
        return;
    }
    uint64_t bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    hr_json_uint(&row->facts, "bytes", bytes);
    hr_doctor_say(row, HR_DOCTOR_OK, "%s; of any size, Headrace does not use it",
                  hr_cli_format_bytes(bytes, text));
}

/* The chosen word of "always within_size [advise] never". */
static bool read_choice(const char *path, char *out, size_t out_bytes)
{
    char line[128] = "";
    FILE *f = fopen(path, "re");

    if (!f)
        return false;
    char *got = fgets(line, sizeof(line), f);
    fclose(f);
    char *open = got ? strchr(line, '[') : NULL;
    char *close = open ? strchr(open, ']') : NULL;
    if (!close)
        return false;
    *close = 0;
    snprintf(out, out_bytes, "%s", open + 1);
    return true;
}

void hr_doctor_huge_pages(struct hr_doctor_row *row, const char *path)
{
    static const char *const file = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    char choice[32];

    if (!read_choice(file, choice, sizeof(choice))) {
        hr_json_null(&row->facts, "shmem");
        hr_doctor_say(row, HR_DOCTOR_OK, "not offered for shared memory by this kernel");
        return;
    }
    hr_json_str(&row->facts, "shmem", choice);
    bool off = strcmp(choice, "never") == 0 || strcmp(choice, "deny") == 0;
    hr_doctor_say(row, HR_DOCTOR_OK, "shared memory: %s%s", choice,
                  off ? "; the ring uses small pages" : "");
    if (off)
        hr_doctor_fix(row, "optional, for a quicker start with a large ring: echo advise > %s",
                      file);
}
