/* The journal of a pack. */
#include "tools/pack/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

enum { JOURNAL_VERSION = 1, MAX_JOURNAL_BYTES = 256 << 20 };

static int append(struct hr_journal *journal, struct hr_buf *line, struct hr_error *err)
{
    int ret;

    hr_buf_add_str(line, "\n");
    if (hr_buf_failed(line))
        ret = hr_fail(err, HR_E_NOMEM, "out of memory");
    else
        ret = hr_fd_write_full(journal->fd, line->data, line->used, err);
    if (ret == 0 && fdatasync(journal->fd) < 0)
        ret = hr_fail_errno(err, errno, "cannot write");
    if (ret < 0)
        hr_error_at_file(err, journal->path, 0, 0);
    hr_buf_finish(line);
    return ret;
}

static void put_digest(struct hr_buf *line, const char *key, const struct hr_digest *digest)
{
    char hex[HR_DIGEST_HEX_BYTES];

    hr_json_str(line, key, hr_digest_hex(digest, hex));
}

static int open_locked(struct hr_journal *journal, const char *folder, int flags,
                       struct hr_error *err)
{
    *journal = (struct hr_journal){.fd = -1, .path = hr_asprintf("%s/" HR_JOURNAL_NAME, folder)};
    if (!journal->path)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    journal->fd = hr_fd_open(journal->path, flags, 0644, err);
    if (journal->fd >= 0 && flock(journal->fd, LOCK_EX | LOCK_NB) < 0) {
        hr_fail(err, HR_E_BUSY, "another pack is writing into this folder");
        hr_error_at_file(err, journal->path, 0, 0);
    } else if (journal->fd >= 0) {
        return 0;
    }
    hr_journal_close(journal);
    return err->code;
}

int hr_journal_create(const char *folder, const struct hr_journal_run *run,
                      struct hr_journal *journal, struct hr_error *err)
{
    struct hr_buf line = {0};

    int ret = open_locked(journal, folder, O_RDWR | O_CREAT | O_EXCL | O_APPEND, err);
    if (ret < 0)
        return ret;
    hr_json_open(&line, NULL, '{');
    hr_json_int(&line, "journal", JOURNAL_VERSION);
    put_digest(&line, "names", &run->names);
    put_digest(&line, "sizes", &run->sizes);
    put_digest(&line, "times", &run->times);
    hr_json_uint(&line, "records", run->record_count);
    if (run->first_shard)
        hr_json_uint(&line, "first_shard", run->first_shard);
    hr_json_str(&line, "options", run->options);
    hr_json_close(&line, '}');
    ret = append(journal, &line, err);
    journal->first_shard = run->first_shard;
    if (ret < 0)
        hr_journal_remove(journal);
    return ret;
}

static const char *text_of(struct json_object *object, const char *key)
{
    struct json_object *value;

    if (!json_object_object_get_ex(object, key, &value) ||
        !json_object_is_type(value, json_type_string))
        return "";
    return json_object_get_string(value);
}

static uint64_t count_of(struct json_object *object, const char *key)
{
    struct json_object *value;

    return json_object_object_get_ex(object, key, &value) ? json_object_get_uint64(value) : 0;
}

static bool same_digest(struct json_object *object, const char *key, const struct hr_digest *digest)
{
    struct hr_digest found;

    return hr_digest_parse(text_of(object, key), &found) && hr_digest_equal(&found, digest);
}

static int check_run(struct json_object *object, const struct hr_journal_run *run,
                     struct hr_error *err)
{
    const char *changed = NULL;

    if (count_of(object, "journal") != JOURNAL_VERSION) {
        hr_fail(err, HR_E_CONFIG, "the run to continue was another version's");
        hr_error_hint(err, "remove the folder and pack anew");
        return err->code;
    }
    if (strcmp(text_of(object, "options"), run->options) != 0) {
        hr_fail(err, HR_E_CONFIG, "cannot resume: options changed: '%.140s' then, '%.140s' now",
                text_of(object, "options"), run->options);
        hr_error_hint(err, "give the same options, or pack into another folder");
        return err->code;
    }
    if (!same_digest(object, "names", &run->names))
        changed = "its list of files";
    else if (!same_digest(object, "sizes", &run->sizes))
        changed = "the size of a file";
    else if (!same_digest(object, "times", &run->times))
        changed = "the time of a file's last change";
    if (!changed)
        return 0;
    hr_fail(err, HR_E_CONFIG, "cannot resume: the source changed: %s (%" PRIu64
            " records then, %" PRIu64 " now)", changed, count_of(object, "records"),
            run->record_count);
    hr_error_hint(err, "pack into another folder");
    return err->code;
}

static int grow(struct hr_journal *journal, struct hr_error *err)
{
    struct hr_journal_shard *shards =
        hr_array_grow(journal->shards, journal->count, &journal->cap, 16, sizeof(*shards));

    if (!shards)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    journal->shards = shards;
    return 0;
}

static struct hr_jpeg_counts jpeg_of(struct json_object *object)
{
    struct hr_jpeg_counts jpeg = {.repacked = count_of(object, "repacked"),
                                  .progressive = count_of(object, "repacked_progressive"),
                                  .cmyk = count_of(object, "repacked_cmyk"),
                                  .file_bytes = count_of(object, "jpeg_bytes"),
                                  .stored_bytes = count_of(object, "repacked_bytes")};

    for (int i = 0; i < HR_RJPEG_REFUSALS; i++)
        jpeg.kept[i] = count_of(object, hr_rjpeg_refusal_name(i));
    return jpeg;
}

static int take_shard(struct hr_journal *journal, struct json_object *object, struct hr_error *err)
{
    struct hr_journal_shard shard = {
        .info = {.bytes = count_of(object, "bytes"), .record_count = count_of(object, "records")},
        .rejects_bytes = count_of(object, "rejects_bytes"),
        .tally = {.found = count_of(object, "found"),
                  .packed = count_of(object, "packed"),
                  .rejected = count_of(object, "rejected"),
                  .renamed = count_of(object, "renamed"),
                  .jpeg = jpeg_of(object),
                  .png_repacked = count_of(object, "png_repacked"),
                  .png_kept = count_of(object, "png_kept"),
                  .resized = count_of(object, "resized"),
                  .unresized = count_of(object, "unresized"),
                  .raw = count_of(object, "raw"),
                  .bytes_in = count_of(object, "bytes_in")},
    };

    if (!hr_digest_parse(text_of(object, "digest"), &shard.info.digest))
        return hr_fail(err, HR_E_CORRUPT, "the journal is damaged");
    snprintf(shard.info.name, sizeof(shard.info.name), "%s", text_of(object, "shard"));
    int ret = grow(journal, err);
    if (ret == 0)
        journal->shards[journal->count++] = shard;
    return ret;
}

/* A last line that was cut by the kill is dropped, and cut off the file. */
static int take_lines(struct hr_journal *journal, char *text, const struct hr_journal_run *run,
                      struct hr_error *err)
{
    char *at = text, *end;
    int ret = 0;

    while (ret == 0 && (end = strchr(at, '\n'))) {
        *end = 0;
        struct json_object *object = json_tokener_parse(at);
        if (!json_object_is_type(object, json_type_object)) {
            ret = hr_fail(err, HR_E_CORRUPT, "the journal is damaged");
        } else {
            ret = at == text ? check_run(object, run, err) : take_shard(journal, object, err);
            if (at == text)
                journal->first_shard = (uint32_t)count_of(object, "first_shard");
        }
        json_object_put(object);
        at = end + 1;
    }
    if (ret == 0 && at == text)
        ret = hr_fail(err, HR_E_CORRUPT, "the journal is empty");
    if (ret == HR_E_CORRUPT)
        hr_error_hint(err, "remove the folder and pack anew");
    if (ret == 0 && ftruncate(journal->fd, at - text) < 0)
        ret = hr_fail_errno(err, errno, "cannot write");
    return ret;
}

int hr_journal_resume(const char *folder, const struct hr_journal_run *run,
                      struct hr_journal *journal, struct hr_error *err)
{
    void *text = NULL;
    size_t bytes;

    int ret = open_locked(journal, folder, O_RDWR | O_APPEND, err);
    if (ret < 0)
        return ret;
    ret = hr_fd_read_file(journal->path, MAX_JOURNAL_BYTES, &text, &bytes, err);
    if (ret == 0)
        ret = take_lines(journal, text, run, err);
    hr_free(text);
    if (ret < 0) {
        if (!err->file[0])
            hr_error_at_file(err, journal->path, 0, 0);
        hr_journal_close(journal);
    }
    return ret;
}

int hr_journal_add(struct hr_journal *journal, const struct hr_journal_shard *shard,
                   struct hr_error *err)
{
    struct hr_buf line = {0};

    int ret = grow(journal, err);
    if (ret < 0)
        return ret;
    hr_json_open(&line, NULL, '{');
    hr_json_str(&line, "shard", shard->info.name);
    hr_json_uint(&line, "bytes", shard->info.bytes);
    hr_json_uint(&line, "records", shard->info.record_count);
    put_digest(&line, "digest", &shard->info.digest);
    hr_json_uint(&line, "rejects_bytes", shard->rejects_bytes);
    hr_json_uint(&line, "found", shard->tally.found);
    hr_json_uint(&line, "packed", shard->tally.packed);
    hr_json_uint(&line, "rejected", shard->tally.rejected);
    hr_json_uint(&line, "renamed", shard->tally.renamed);
    hr_json_uint(&line, "repacked", shard->tally.jpeg.repacked);
    hr_json_uint(&line, "repacked_progressive", shard->tally.jpeg.progressive);
    hr_json_uint(&line, "repacked_cmyk", shard->tally.jpeg.cmyk);
    hr_json_uint(&line, "jpeg_bytes", shard->tally.jpeg.file_bytes);
    hr_json_uint(&line, "repacked_bytes", shard->tally.jpeg.stored_bytes);
    for (int i = 0; i < HR_RJPEG_REFUSALS; i++)
        hr_json_uint(&line, hr_rjpeg_refusal_name(i), shard->tally.jpeg.kept[i]);
    hr_json_uint(&line, "png_repacked", shard->tally.png_repacked);
    hr_json_uint(&line, "png_kept", shard->tally.png_kept);
    hr_json_uint(&line, "resized", shard->tally.resized);
    hr_json_uint(&line, "unresized", shard->tally.unresized);
    hr_json_uint(&line, "raw", shard->tally.raw);
    hr_json_uint(&line, "bytes_in", shard->tally.bytes_in);
    hr_json_close(&line, '}');
    ret = append(journal, &line, err);
    if (ret == 0)
        journal->shards[journal->count++] = *shard;
    return ret;
}

void hr_journal_remove(struct hr_journal *journal)
{
    if (journal->path)
        unlink(journal->path);
    hr_journal_close(journal);
}

void hr_journal_close(struct hr_journal *journal)
{
    hr_fd_close(&journal->fd);
    hr_free(journal->path);
    hr_free(journal->shards);
    *journal = (struct hr_journal){.fd = -1};
}
