/* The table of files that every reader keeps, and the bounds of the common options. */
#include <sys/stat.h>

#include "base/mem.h"
#include "io/reader.h"

static int check_bound(const char *name, unsigned value, unsigned max, struct hr_error *err)
{
    if (value <= max)
        return 0;
    return hr_fail(err, HR_E_CONFIG, "reader option '%s' is %u; the most is %u", name, value, max);
}

int hr_io_options_check(const struct hr_reader_options *options, unsigned *depth, unsigned *files,
                        struct hr_error *err)
{
    int ret = check_bound("depth", options->depth, HR_IO_MAX_DEPTH, err);

    if (ret == 0)
        ret = check_bound("max_files", options->max_files, HR_IO_MAX_FILES, err);
    if (ret == 0) {
        *depth = options->depth ? options->depth : HR_IO_DEFAULT_DEPTH;
        *files = options->max_files ? options->max_files : HR_IO_DEFAULT_FILES;
    }
    return ret;
}

int hr_io_files_init(struct hr_io_files *files, unsigned max, struct hr_error *err)
{
    *files = (struct hr_io_files){.items = hr_alloc_zero(max, sizeof(*files->items)), .max = max};
    if (!files->items)
        return hr_fail(err, HR_E_NOMEM, "no memory for a table of %u files", max);
    return 0;
}

void hr_io_files_finish(struct hr_io_files *files)
{
    hr_free(files->items);
    *files = (struct hr_io_files){0};
}

int hr_io_files_add(struct hr_io_files *files, int fd, int direct_fd, struct hr_error *err)
{
    struct stat st;

    if (files->count == files->max)
        return hr_fail(err, HR_E_LIMIT, "more than %u files in one reader", files->max);
    if (fstat(fd, &st) < 0)
        return hr_fail_errno(err, errno, "file handed to the reader");
    if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
        return hr_fail(err, HR_E_UNSUPPORTED,
                       "not a regular file or block device: it cannot be read at an offset");
    files->items[files->count] = (struct hr_io_file){.fd = fd, .direct_fd = direct_fd};
    return (int)files->count++;
}
