/* Opening files for the readers, and the rule for page cache or O_DIRECT. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "io/reader.h"

enum { DEFAULT_ALIGN = 4096, MAX_ALIGN = 1 << 20 };

bool hr_io_choose_direct(enum hr_io_mode mode, uint64_t dataset_bytes, uint64_t available_bytes)
{
    if (mode != HR_IO_MODE_AUTO)
        return mode == HR_IO_MODE_DIRECT;
    return dataset_bytes > available_bytes - available_bytes / 4;
}

/* What the file system says of direct reads: 0 = none, else the alignment that suits memory and
 * offset. Kernels before 6.1 do not say, and 4096 suits every device in use. */
static uint32_t direct_align_of(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx stx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
        (stx.stx_mask & STATX_DIOALIGN)) {
        uint32_t align = (uint32_t)hr_max_u64(stx.stx_dio_mem_align, stx.stx_dio_offset_align);
        bool sane = align <= MAX_ALIGN && (align & (align - 1)) == 0;
        return stx.stx_dio_offset_align && sane ? align : 0;
    }
#endif
    return DEFAULT_ALIGN;
}

/* A file system without O_DIRECT is no error: reads go through the page cache. */
static int open_direct(const char *path, uint32_t *align)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);

    if (fd < 0)
        return -1;
    *align = direct_align_of(fd);
    if (*align == 0)
        hr_fd_close(&fd);
    return fd;
}

int hr_io_open_file(const char *path, bool want_direct, int *fd, int *direct_fd,
                    uint32_t *direct_align, struct hr_error *err)
{
    uint32_t align = DEFAULT_ALIGN;
    int opened = hr_fd_open(path, O_RDONLY, 0, err);

    if (opened < 0)
        return opened;
    /* Every read states its exact range: read-ahead by guess would only fetch what nobody asked. */
    posix_fadvise(opened, 0, 0, POSIX_FADV_RANDOM);
    *fd = opened;
    *direct_fd = want_direct ? open_direct(path, &align) : -1;
    *direct_align = *direct_fd >= 0 ? align : DEFAULT_ALIGN;
    return 0;
}
