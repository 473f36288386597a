/* See io_files.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "io/io.h"
#include "io_files.h"

static uint8_t byte_at(int file, uint64_t off)
{
    return (uint8_t)(off * 131 + (off >> 8) * 7 + (off >> 16) * 3 + (uint64_t)file * 57);
}

void files_make(struct files *files)
{
    uint8_t *data = malloc(FILE_BYTES);

    for (int f = 0; f < FILE_COUNT; f++) {
        for (uint64_t i = 0; i < FILE_BYTES; i++)
            data[i] = byte_at(f, i);
        const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
        snprintf(files->path[f], sizeof(files->path[f]), "%.40s/hr-io-XXXXXX", dir);
        int fd = mkstemp(files->path[f]);
        assert_true(fd >= 0);
        assert_int_equal(hr_fd_write_full(fd, data, FILE_BYTES, NULL), 0);
        close(fd);
        struct hr_error err = HR_ERROR_INIT;
        assert_int_equal(hr_io_open_file(files->path[f], true, &files->fd[f],
                                         &files->direct_fd[f], &files->align[f], &err), 0);
    }
    free(data);
}

void files_remove(struct files *files)
{
    for (int f = 0; f < FILE_COUNT; f++) {
        hr_fd_close(&files->fd[f]);
        hr_fd_close(&files->direct_fd[f]);
        unlink(files->path[f]);
    }
}

bool is_file_data(const uint8_t *data, int file, uint64_t off, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (data[i] != byte_at(file, off + i))
            return false;
    return true;
}

struct hr_reader *reader_open(const char *name, const struct hr_reader_options *options)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_reader *reader = NULL;
    char why[256], text[1024];

    int ret = hr_reader_open(name, options, &reader, why, sizeof(why), &err);
    if (ret == HR_E_UNSUPPORTED) {
        print_message("# skipped: %s\n", hr_error_format(&err, text, sizeof(text)));
        skip();
    }
    if (ret < 0)
        fail_msg("%s", hr_error_format(&err, text, sizeof(text)));
    assert_true(strlen(why) > 0);
    return reader;
}

void reader_add_files(struct hr_reader *reader, struct files *files)
{
    struct hr_error err = HR_ERROR_INIT;

    for (int f = 0; f < FILE_COUNT; f++)
        assert_int_equal(reader->ops->add_file(reader, files->fd[f], files->direct_fd[f], &err),
                         f);
}

void reader_read_now(struct hr_reader *reader, struct hr_io_request *request)
{
    struct hr_io_request *done = NULL;
    enum hr_io_status status = reader->ops->submit(reader, request);

    assert_int_not_equal(status, HR_IO_BUSY);
    if (status == HR_IO_DONE)
        return;
    reader->ops->flush(reader);
    while (reader->ops->reap(reader, &done, 1, UINT64_MAX) == 0)
        ;
    assert_ptr_equal(done, request);
}
