/* Creates, seals, maps and pre-faults the data memory file. Everything that can fail for want of
 * memory fails here, before the first batch. */
#include "ring/slab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

static int create_file(const char *name, uint64_t bytes, struct hr_error *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return hr_fail_errno(err, errno, "cannot create memory file '%s'", name);
    if (ftruncate(fd, (off_t)bytes) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0) {
        int ret = hr_fail_errno(err, errno, "cannot size and seal memory file '%s' (%llu bytes)",
                                name, (unsigned long long)bytes);
        hr_fd_close(&fd);
        return ret;
    }
    return fd;
}

/* File offset 0 lands on a 2 MiB boundary, so that huge pages fit from the first byte on. */
static uint8_t *map_aligned(int fd, uint64_t bytes)
{
    uint64_t reserved = bytes + HUGE_PAGE_BYTES;
    uint8_t *area = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1, 0);

    if (area == MAP_FAILED)
        return NULL;
    uint8_t *base = (uint8_t *)hr_align_up((uintptr_t)area, HUGE_PAGE_BYTES);
    if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(area, reserved);
        return NULL;
    }
    if (base > area)
        munmap(area, (size_t)(base - area));
    if (area + reserved > base + bytes)
        munmap(base + bytes, (size_t)(area + reserved - (base + bytes)));
    return base;
}

/* fallocate reports a lack of memory where a first touch would be killed. */
static int fault_in_slowly(struct hr_slab *slab)
{
    if (fallocate(slab->fd, 0, 0, (off_t)slab->bytes) < 0 && errno != EOPNOTSUPP)
        return errno;
    for (uint64_t off = 0; off < slab->bytes; off += 4096)
        *(volatile uint8_t *)(slab->base + off) = 0;
    return 0;
}

static int fault_in(struct hr_slab *slab, const char *name, struct hr_error *err)
{
    int failed = 0;

    /* Only a hint: the kernel's shmem_enabled setting decides. */
    madvise(slab->base, slab->bytes, MADV_HUGEPAGE);
    if (madvise(slab->base, slab->bytes, MADV_POPULATE_WRITE) < 0)
        failed = errno == EINVAL ? fault_in_slowly(slab) : errno;
    if (!failed)
        return 0;
    hr_fail(err, HR_E_NOMEM, "no memory for the %llu MiB of ring '%s': %s",
            (unsigned long long)(slab->bytes >> 20), name, strerror(failed));
    hr_error_hint(err, "lower 'slots' or 'batch', or raise the memory limit");
    return HR_E_NOMEM;
}

/* Our own mapping stays writable; from here on nobody can get another one, not even root. A kernel
 * that does not know the seal (before 5.1) leaves the read-only descriptor as the guard. */
static int seal_writes(struct hr_slab *slab, struct hr_error *err)
{
    if (fchmod(slab->fd, 0444) < 0)
        return hr_fail_errno(err, errno, "cannot make the shared ring read-only");
    if (fcntl(slab->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0 && errno != EINVAL)
        return hr_fail_errno(err, errno, "cannot seal the shared ring against writes");
    return 0;
}

static int check_not_writable(int fd, struct hr_error *err)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return 0;
    munmap(p, 4096);
    return hr_fail(err, HR_E_INTERNAL, "the read-only descriptor of a shared ring can be written");
}

static int open_read_only(struct hr_slab *slab, struct hr_error *err)
{
    char path[64];
    int ret = seal_writes(slab, err);

    if (ret < 0)
        return ret;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", slab->fd);
    slab->read_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (slab->read_fd < 0) {
        ret = hr_fail_errno(err, errno, "cannot open the shared ring read-only");
        hr_error_hint(err, "shared streams need /proc to be mounted");
        return ret;
    }
    return check_not_writable(slab->read_fd, err);
}

int hr_slab_init(struct hr_slab *slab, const char *name, uint64_t bytes, bool shared,
                 struct hr_error *err)
{
    int ret = create_file(name, bytes, err);

    if (ret < 0)
        return ret;
    slab->fd = ret;
    slab->base = map_aligned(slab->fd, bytes);
    if (!slab->base) {
        ret = hr_fail_errno(err, errno, "cannot map the %llu MiB of ring '%s'",
                            (unsigned long long)(bytes >> 20), name);
        hr_error_hint(err, "lower 'slots' or 'batch'");
        return ret;
    }
    slab->bytes = bytes;
    ret = fault_in(slab, name, err);
    if (ret == 0 && shared)
        ret = open_read_only(slab, err);
    if (ret == 0 && fcntl(slab->fd, F_ADD_SEALS, F_SEAL_SEAL) < 0)
        ret = hr_fail_errno(err, errno, "cannot seal ring '%s'", name);
    return ret;
}

void hr_slab_finish(struct hr_slab *slab)
{
    if (slab->base)
        munmap(slab->base, slab->bytes);
    hr_fd_close(&slab->read_fd);
    hr_fd_close(&slab->fd);
    *slab = HR_SLAB_INIT;
}
