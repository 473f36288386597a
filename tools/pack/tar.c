/* tar headers: 512-byte blocks with octal fields and a checksum (POSIX.1-2001 pax interchange
 * format; GNU tar manual, "Basic Tar Format"). */
#include "tools/pack/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"

enum { BLOCK = 512, MAX_NAME = 4096, MAX_PAX = 1 << 20 };

struct hr_tar {
    int fd;
    const char *path;
    uint64_t at, end;
    char name[MAX_NAME + 1];
    /* Said by a long-name or pax header about the member that follows. */
    bool has_name, has_size;
    uint64_t size;
};

static int bad(const struct hr_tar *tar, uint64_t at, struct hr_error *err, int code,
               const char *what)
{
    hr_fail(err, code, "%s", what);
    hr_error_at_value(err, tar->path, HR_NO_RECORD, NULL, (int64_t)at);
    return code;
}

int hr_tar_open(int fd, const char *path, struct hr_tar **out, struct hr_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return hr_fail_errno(err, errno, "cannot look at the file");
    struct hr_tar *tar = hr_alloc_zero(1, sizeof(*tar));
    if (!tar)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    tar->fd = fd;
    tar->path = path;
    tar->end = (uint64_t)st.st_size;
    *out = tar;
    return 0;
}

void hr_tar_close(struct hr_tar *tar)
{
    hr_free(tar);
}

/* Octal digits, or base-256 with the top bit set (GNU, for sizes of 8 GiB and more). */
static bool parse_number(const uint8_t *field, size_t bytes, uint64_t *v)
{
    *v = 0;
    if (field[0] & 0x80) {
        for (size_t i = 0; i < bytes; i++) {
            if (*v >> 56)
                return false;
            *v = *v << 8 | (i ? field[i] : field[i] & 0x7f);
        }
        return true;
    }
    size_t i = 0;
    while (i < bytes && field[i] == ' ')
        i++;
    for (; i < bytes && field[i] && field[i] != ' '; i++) {
        if (field[i] < '0' || field[i] > '7' || *v >> 60)
            return false;
        *v = *v << 3 | (uint64_t)(field[i] - '0');
    }
    return true;
}

static bool checksum_fits(const uint8_t *header)
{
    uint64_t said, sum = 0;

    for (int i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : header[i];
    return parse_number(header + 148, 8, &said) && said == sum;
}

static bool all_zero(const uint8_t *block)
{
    for (int i = 0; i < BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

/* One "LENGTH KEY=VALUE\n" of a pax header; returns its length, 0 when it is malformed. */
static size_t take_pax_line(struct hr_tar *tar, const char *line, size_t left)
{
    char *after;
    unsigned long length = strtoul(line, &after, 10);

    /* strtoul skips white space and takes signs: the number must end inside the line that it measures. */
    if (line[0] < '1' || line[0] > '9' || length > left || length < (size_t)(after - line) + 3 ||
        *after != ' ' || line[length - 1] != '\n')
        return 0;
    const char *key = after + 1, *end = line + length - 1;
    const char *value = memchr(key, '=', (size_t)(end - key));
    if (!value++)
        return 0;
    size_t n = (size_t)(end - value);
    if (strncmp(key, "path=", 5) == 0 && n <= MAX_NAME) {
        memcpy(tar->name, value, n);
        tar->name[n] = 0;
        tar->has_name = true;
    } else if (strncmp(key, "size=", 5) == 0) {
        tar->size = strtoull(value, NULL, 10);
        tar->has_size = true;
    }
    return length;
}

static int take_pax(struct hr_tar *tar, uint64_t off, uint64_t bytes, struct hr_error *err)
{
    char *text = hr_alloc(bytes + 1);
    size_t at = 0;

    if (!text)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    int ret = hr_fd_pread_full(tar->fd, text, bytes, off, err);
    text[bytes] = 0;
    while (ret == 0 && at < bytes) {
        size_t n = take_pax_line(tar, text + at, bytes - at);
        if (n == 0)
            ret = bad(tar, off + at, err, HR_E_CORRUPT, "the pax header is malformed");
        at += n;
    }
    hr_free(text);
    return ret;
}

static int take_long_name(struct hr_tar *tar, uint64_t off, uint64_t bytes, struct hr_error *err)
{
    if (bytes > MAX_NAME)
        return bad(tar, off, err, HR_E_LIMIT, "a member's name is too long");
    int ret = hr_fd_pread_full(tar->fd, tar->name, bytes, off, err);
    if (ret < 0)
        return ret;
    tar->name[bytes] = 0;
    tar->has_name = true;
    return 0;
}

static void take_short_name(struct hr_tar *tar, const uint8_t *header)
{
    bool ustar = memcmp(header + 257, "ustar\0", 6) == 0 && header[345];

    if (tar->has_name)
        return;
    if (ustar)
        snprintf(tar->name, sizeof(tar->name), "%.155s/%.100s", (const char *)header + 345,
                 (const char *)header);
    else
        snprintf(tar->name, sizeof(tar->name), "%.100s", (const char *)header);
}

/* 1 = a member, 0 = something else that was stepped over. */
static int take_header(struct hr_tar *tar, const uint8_t *header, struct hr_tar_member *member,
                       struct hr_error *err)
{
    uint64_t at = tar->at, data = at + BLOCK, bytes;
    char type = (char)header[156];

    if (!checksum_fits(header))
        return bad(tar, at, err, HR_E_CORRUPT,
                   at ? "the tar header's checksum is wrong" : "not a tar file");
    if (!parse_number(header + 124, 12, &bytes))
        return bad(tar, at, err, HR_E_CORRUPT, "the size in a tar header is not a number");
    bool about_next = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (tar->has_size && !about_next)
        bytes = tar->size;
    if (data > tar->end || bytes > tar->end - data)
        return bad(tar, at, err, HR_E_TRUNCATED, "the tar file ends inside a member");
    tar->at = data + hr_align_up(bytes, BLOCK);
    if (about_next) {
        if (type == 'x' && bytes <= MAX_PAX)
            return take_pax(tar, data, bytes, err);
        if (type == 'x')
            return bad(tar, at, err, HR_E_LIMIT, "a pax header is too long");
        return type == 'L' ? take_long_name(tar, data, bytes, err) : 0;
    }
    take_short_name(tar, header);
    tar->has_name = tar->has_size = false;
    if (type != '0' && type != 0 && type != '7')
        return 0;
    *member = (struct hr_tar_member){tar->name, data, bytes};
    return 1;
}

int hr_tar_next(struct hr_tar *tar, struct hr_tar_member *member, struct hr_error *err)
{
    uint8_t header[BLOCK];
    int ret = 0;

    while (ret == 0 && tar->at < tar->end) {
        if (tar->end - tar->at < BLOCK)
            return bad(tar, tar->at, err, HR_E_TRUNCATED, "the tar file ends inside a header");
        ret = hr_fd_pread_full(tar->fd, header, BLOCK, tar->at, err);
        if (ret < 0)
            return ret;
        if (all_zero(header))
            return 0;
        ret = take_header(tar, header, member, err);
    }
    return ret;
}
