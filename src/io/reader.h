/* What the reader implementations share: the table of files, the checks at submit, and the one
 * rule for going on after a read that brought less than was asked. Private to src/io. */
#ifndef HR_IO_READER_H
#define HR_IO_READER_H

#include <errno.h>

#include "io/io.h"

enum { HR_IO_DEFAULT_DEPTH = 128, HR_IO_MAX_DEPTH = 16384 };
enum { HR_IO_DEFAULT_FILES = 1024, HR_IO_MAX_FILES = 1 << 20 };

extern const struct hr_reader_ops hr_uring_ops, hr_preadv_ops, hr_nil_ops, hr_fault_ops;

/* ---- files ---- */

struct hr_io_file {
    int fd, direct_fd;
    bool blocking; /* preadv: RWF_NOWAIT is refused for it */
};

/* Entries are written once, before their first request is handed over, and never move. */
struct hr_io_files {
    struct hr_io_file *items;
    unsigned count, max;
};

/* Defaults and bounds of depth and max_files: 0 or HR_E_CONFIG. */
int hr_io_options_check(const struct hr_reader_options *options, unsigned *depth, unsigned *files,
                        struct hr_error *err) HR_MUST_CHECK;
int hr_io_files_init(struct hr_io_files *files, unsigned max, struct hr_error *err) HR_MUST_CHECK;
void hr_io_files_finish(struct hr_io_files *files);
/* Refuses what cannot be read at an offset. Index or HR_E_*. */
int hr_io_files_add(struct hr_io_files *files, int fd, int direct_fd, struct hr_error *err)
    HR_MUST_CHECK;

static inline int hr_io_files_fd(const struct hr_io_files *files, const struct hr_io_request *r)
{
    const struct hr_io_file *file = &files->items[r->file];

    return r->direct && file->direct_fd >= 0 ? file->direct_fd : file->fd;
}

/* ---- one request ---- */

/* Resets the results. True when there is nothing to read: no bytes are wanted, or the offset lies
 * beyond what any file can have (off comes from an index, and io_uring takes -1 for "where the
 * descriptor stands"). */
static inline bool hr_io_request_begin(const struct hr_io_files *files, struct hr_io_request *r)
{
    HR_ASSERT(r->file >= 0 && (unsigned)r->file < files->count && r->bytes <= HR_IO_MAX_BYTES);
    r->result = 0;
    r->sys_errno = 0;
    r->done_bytes = 0;
    r->next = NULL;
    if (HR_LIKELY(r->bytes > 0 && r->off <= INT64_MAX - (uint64_t)HR_IO_MAX_BYTES))
        return false;
    r->result = r->bytes ? HR_E_TRUNCATED : 0;
    return true;
}

/* Takes in what one read returned (a count or -errno). True when the request is finished; false:
 * read the rest, from off + done_bytes. The rest of a short direct read is not aligned any more and
 * goes through the page cache; so does a direct read that the file system refuses for itself. */
static inline bool hr_io_request_advance(struct hr_io_request *r, int64_t res)
{
    if (HR_LIKELY(res > 0)) {
        r->done_bytes += (uint32_t)res;
        if (HR_LIKELY(r->done_bytes >= r->bytes))
            return true;
        r->direct = false;
        return false;
    }
    if (res == -EINTR || res == -EAGAIN)
        return false;
    if (res == -EINVAL && r->direct) {
        r->direct = false;
        return false;
    }
    r->result = res == 0 ? HR_E_TRUNCATED : HR_E_IO;
    r->sys_errno = (int)-res;
    return true;
}

/* ---- lists of requests ---- */

struct hr_io_list {
    struct hr_io_request *first, *last;
    unsigned count;
};

static inline void hr_io_list_push(struct hr_io_list *list, struct hr_io_request *r)
{
    r->next = NULL;
    if (list->last)
        list->last->next = r;
    else
        list->first = r;
    list->last = r;
    list->count++;
}

static inline struct hr_io_request *hr_io_list_pop(struct hr_io_list *list)
{
    struct hr_io_request *r = list->first;

    if (!r)
        return NULL;
    list->first = r->next;
    if (!list->first)
        list->last = NULL;
    list->count--;
    r->next = NULL;
    return r;
}

/* Moves all of from to the end of to. */
static inline void hr_io_list_append(struct hr_io_list *to, struct hr_io_list *from)
{
    if (!from->first)
        return;
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    to->count += from->count;
    *from = (struct hr_io_list){0};
}

/* ---- notes for the line that says what was opened ---- */

/* What of the fast path was refused at open, "" when nothing. */
const char *hr_uring_note(const struct hr_reader *reader);
/* The line of the reader underneath. */
const char *hr_fault_note(const struct hr_reader *reader);

#endif
