/* Lists what is in a tar file and where its bytes lie, so that any thread can read any member
 * directly. ustar, GNU and pax long names and sizes. A tar library would only hand out members one
 * after the other. */
#ifndef HR_PACK_TAR_H
#define HR_PACK_TAR_H

#include "base/err.h"

struct hr_tar_member {
    const char *name; /* lives until the next call */
    uint64_t off, bytes;
};

struct hr_tar;

/* Borrows fd. path: for errors. */
int hr_tar_open(int fd, const char *path, struct hr_tar **out, struct hr_error *err) HR_MUST_CHECK;
/* The next regular file: 1, 0 at the end, or HR_E_*. */
int hr_tar_next(struct hr_tar *tar, struct hr_tar_member *member, struct hr_error *err)
    HR_MUST_CHECK;
void hr_tar_close(struct hr_tar *tar);

#endif
