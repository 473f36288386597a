/* Files with known bytes, and readers opened and used the plain way. */
#ifndef HR_TESTS_UNIT_IO_FILES_H
#define HR_TESTS_UNIT_IO_FILES_H

#include "io/io.h"

enum { FILE_BYTES = 3000001, FILE_COUNT = 3 };

struct files {
    char path[FILE_COUNT][64];
    int fd[FILE_COUNT], direct_fd[FILE_COUNT];
    uint32_t align[FILE_COUNT];
};

void files_make(struct files *files);
void files_remove(struct files *files);
bool is_file_data(const uint8_t *data, int file, uint64_t off, uint32_t bytes);

/* Skips the test, with the reason, where this reader cannot work here. */
struct hr_reader *reader_open(const char *name, const struct hr_reader_options *options);
/* Registers all of them with the reader, under their own numbers. */
void reader_add_files(struct hr_reader *reader, struct files *files);
/* Submits one request and waits for it, whichever way it completes. */
void reader_read_now(struct hr_reader *reader, struct hr_io_request *request);

#endif
