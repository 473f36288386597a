/* What doctor looks at: one function a row of its report. */
#ifndef HR_TOOLS_DOCTOR_CHECKS_H
#define HR_TOOLS_DOCTOR_CHECKS_H

#include "base/buf.h"

enum hr_doctor_status {
    HR_DOCTOR_OK,
    HR_DOCTOR_WARN, /* works, but slower or with less room than it could */
    HR_DOCTOR_BAD,  /* Headrace cannot feed a trainer here */
};

struct hr_doctor_row {
    enum hr_doctor_status status;
    char found[320];
    char fix[320];       /* what to change, "" = nothing */
    struct hr_buf facts; /* members of a JSON object, for --json */
};

void hr_doctor_say(struct hr_doctor_row *row, enum hr_doctor_status status, const char *fmt, ...)
    HR_PRINTF(3, 4);
void hr_doctor_fix(struct hr_doctor_row *row, const char *fmt, ...) HR_PRINTF(2, 3);

/* path: where the data lies, or NULL. */
void hr_doctor_kernel(struct hr_doctor_row *row, const char *path);
void hr_doctor_uring(struct hr_doctor_row *row, const char *path);
void hr_doctor_memlock(struct hr_doctor_row *row, const char *path);
void hr_doctor_files(struct hr_doctor_row *row, const char *path);
void hr_doctor_memfd(struct hr_doctor_row *row, const char *path);
void hr_doctor_shm(struct hr_doctor_row *row, const char *path);
void hr_doctor_huge_pages(struct hr_doctor_row *row, const char *path);
void hr_doctor_memory(struct hr_doctor_row *row, const char *path);
void hr_doctor_cpu(struct hr_doctor_row *row, const char *path);
void hr_doctor_simd(struct hr_doctor_row *row, const char *path);
void hr_doctor_storage(struct hr_doctor_row *row, const char *path);
void hr_doctor_images(struct hr_doctor_row *row, const char *path);
void hr_doctor_av(struct hr_doctor_row *row, const char *path);

#endif
