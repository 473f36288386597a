/* The table of shard formats. A new one is a row here and its own file; what it indexes is the
 * common struct hr_shard. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "hrs_index.h"

enum { HEAD_BYTES = 4096 };

/* A damaged header shall be reported as that, not as an unknown format: the name counts too. */
static bool probe_hrs(const char *path, const uint8_t *head, size_t head_bytes)
{
    size_t n = strlen(path);

    return (n > 4 && strcmp(path + n - 4, ".hrs") == 0) ||
           (head_bytes >= 8 && memcmp(head, hr_hrs_magic, 8) == 0);
}

const struct hr_shard_format hr_shard_format_hrs = {
    .name = "hrs",
    .probe = probe_hrs,
    .index = hr_hrs_index,
    .locate = hr_hrs_locate,
};

const struct hr_shard_format *const hr_shard_formats[] = {
    &hr_shard_format_hrs,
    NULL,
};

static int index_file(int fd, const char *path, bool want_digest, struct hr_shard **out,
                      struct hr_schema *schema, struct hr_error *err)
{
    uint8_t head[HEAD_BYTES];
    struct stat st;

    if (fstat(fd, &st) < 0)
        return hr_fail_errno(err, errno, "cannot stat");
    if (!S_ISREG(st.st_mode))
        return hr_fail(err, HR_E_FORMAT, "not a regular file");
    size_t n = (size_t)hr_min_u64(sizeof(head), (uint64_t)st.st_size);
    int ret = hr_fd_pread_full(fd, head, n, 0, err);
    if (ret < 0)
        return ret;
    for (int i = 0; hr_shard_formats[i]; i++)
        if (hr_shard_formats[i]->probe(path, head, n))
            return hr_shard_formats[i]->index(fd, path, (uint64_t)st.st_size, want_digest, out,
                                              schema, err);
    hr_fail(err, HR_E_FORMAT, "not a shard of a known format");
    hr_error_hint(err, "a dataset is a folder that 'headrace pack' made, or one .hrs file of it");
    return HR_E_FORMAT;
}

int hr_shard_open(const char *path, bool want_digest, struct hr_shard **out,
                  struct hr_schema *schema, struct hr_error *err)
{
    int fd = hr_fd_open(path, O_RDONLY | O_NONBLOCK, 0, err); /* a FIFO is no shard, and no wait */
    int ret = fd < 0 ? fd : index_file(fd, path, want_digest, out, schema, err);

    if (ret < 0 && err)
        hr_error_at_value(err, path, err->record, NULL, err->offset);
    hr_fd_close(&fd);
    return ret;
}

void hr_shard_close(struct hr_shard *shard)
{
    if (!shard)
        return;
    for (uint32_t i = 0; i < shard->buffer_count; i++)
        hr_free(shard->buffers[i]);
    hr_free(shard->buffers);
    for (uint32_t i = 0; shard->fields && i < shard->field_count; i++) {
        hr_free(shard->fields[i].strs.starts);
        hr_free(shard->fields[i].seeks.starts);
    }
    for (size_t i = 0; i < HR_ARRAY_SIZE(shard->streams); i++)
        hr_free(shard->streams[i].starts);
    hr_free(shard->keys.starts);
    hr_free(shard->fields);
    hr_free(shard);
}
