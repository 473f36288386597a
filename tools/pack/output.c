/* Shards, rejects and manifest of one pack. */
#include "tools/pack/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <headrace/version.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "shards/manifest.h"

/* A record costs this beside its payload, so that tiny records do not make endless shards. */
enum { RECORD_COST = 64 };

static char *path_in(const struct hr_output *output, const char *name)
{
    return hr_asprintf("%s/%s", output->folder, name);
}

/* The version that is added to, and what is added: enough to know again an append that was done. */
static void add_base(struct hr_buf *text, const struct hr_source *source, const struct hr_digest *base)
{
    struct hr_digest list[2] = {source->names, source->sizes}, both = hr_digest_of(list, sizeof(list));
    char hex[HR_DIGEST_HEX_BYTES];

    hr_buf_addf(text, " append=%s", hr_digest_hex(base, hex));
    hr_buf_addf(text, " list=%.16s", hr_digest_hex(&both, hex));
}

/* What must be the same for a resumed run, in a fixed order; also kept in the manifest. base: the
 * version that is added to, NULL = none. */
static char *options_text(const struct hr_pack_options *o, const struct hr_source *source,
                          const struct hr_digest *base)
{
    static const char *const codecs[] = {"none", "lz4", "lz4hc"};
    struct hr_buf text = {0};

    hr_buf_addf(&text, "from=%s shard-size=%" PRIu64 " jpeg=%s", source->kind->name,
                o->shard_bytes, o->jpeg == HR_PACK_JPEG_REPACK ? "repack" : "keep");
    if (o->png == HR_PACK_PNG_REPACK)
        hr_buf_add_str(&text, " png=repack");
    if (o->resize_short)
        hr_buf_addf(&text, " resize-short=%" PRId64, o->resize_short);
    if (o->max_side)
        hr_buf_addf(&text, " max-side=%" PRId64, o->max_side);
    if (o->store == HR_PACK_STORE_RAW)
        hr_buf_add_str(&text, " store=raw");
    else if (o->resize_short || o->max_side)
        hr_buf_addf(&text, " quality=%" PRId64, o->quality ? o->quality : HR_PACK_QUALITY);
    if (o->verify_media)
        hr_buf_add_str(&text, " verify-media");
    if (o->follow_symlinks)
        hr_buf_add_str(&text, " follow-symlinks");
    if (o->limit)
        hr_buf_addf(&text, " limit=%" PRId64, o->limit);
    for (uint32_t i = 0; i < source->schema.field_count; i++)
        hr_buf_addf(&text, " %s:%s/%s", source->schema.fields[i].name,
                    hr_field_type_name(source->schema.fields[i].type),
                    codecs[source->schema.fields[i].codec]);
    if (base)
        add_base(&text, source, base);
    char *copy = hr_buf_failed(&text) ? NULL : hr_strdup(hr_buf_str(&text));
    hr_buf_finish(&text);
    return copy;
}

static const struct hr_digest *base_of(const struct hr_append *append)
{
    return append ? &append->base.digest : NULL;
}

enum content { CONTENT_EMPTY, CONTENT_JOURNAL, CONTENT_DATASET, CONTENT_OTHER };

static int look_into(const char *folder, enum content *content, struct hr_error *err)
{
    const char *name;
    bool any = false, journal = false, manifest = false;
    int more;

    DIR *dir = opendir(folder);
    if (!dir) {
        hr_fail_errno(err, errno, "cannot use the destination");
        hr_error_at_file(err, folder, 0, 0);
        return err->code;
    }
    while ((more = hr_dir_next(dir, &name, err)) == 1) {
        any = true;
        journal |= strcmp(name, HR_JOURNAL_NAME) == 0;
        manifest |= strcmp(name, HR_MANIFEST_NAME) == 0;
    }
    closedir(dir);
    if (more < 0) {
        hr_error_at_file(err, folder, 0, 0);
        return more;
    }
    *content = journal    ? CONTENT_JOURNAL
               : manifest ? CONTENT_DATASET
               : any      ? CONTENT_OTHER
                          : CONTENT_EMPTY;
    return 0;
}

static int refuse(const struct hr_output *output, enum content content, struct hr_error *err)
{
    static const char *const what[] = {
        [CONTENT_JOURNAL] = "holds a pack that was not finished",
        [CONTENT_DATASET] = "holds a dataset already",
        [CONTENT_OTHER] = "is not empty",
    };
    hr_fail(err, HR_E_EXISTS, "the destination %s", what[content]);
    hr_error_at_file(err, output->folder, 0, 0);
    hr_error_hint(err, output->append               ? "--append --resume goes on with it; headrace versions DST "
                                                      "--prune gives it up"
                       : content == CONTENT_JOURNAL ? "--resume goes on with it; or remove it, or choose another name"
                       : content == CONTENT_DATASET ? "--append adds to it; or choose another name"
                                                    : "choose another name");
    return err->code;
}

static int make_folder(struct hr_output *output, struct hr_error *err)
{
    if (mkdir(output->folder, 0777) == 0) {
        output->made_folder = true;
        return 0;
    }
    if (errno == EEXIST)
        return 0;
    hr_fail_errno(err, errno, "cannot make the destination folder");
    if (err->sys_errno == ENOENT)
        hr_error_hint(err, "its parent folder does not exist");
    else
        hr_error_hint(err, "choose a place that you can write to");
    hr_error_at_file(err, output->folder, 0, 0);
    return err->code;
}

static int open_rejects(struct hr_output *output, struct hr_error *err)
{
    char *path = path_in(output, output->rejects_name);

    if (!path)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    output->rejects_fd = hr_fd_open(path, O_WRONLY | O_CREAT | O_APPEND, 0644, err);
    int ret = output->rejects_fd < 0 ? output->rejects_fd : 0;
    /* Rejects after the last finished shard are found again. */
    if (ret == 0 && ftruncate(output->rejects_fd, (off_t)output->rejects_bytes) < 0)
        ret = hr_fail_errno(err, errno, "cannot write %s", path);
    hr_free(path);
    return ret;
}

/* Removes whatever a killed run left beside the finished shards. Lower numbers belong to versions. */
static int sweep(struct hr_output *output, struct hr_error *err)
{
    const char *name;
    DIR *dir = opendir(output->folder);
    int more;

    if (!dir)
        return hr_fail_errno(err, errno, "cannot list %s", output->folder);
    while ((more = hr_dir_next(dir, &name, err)) == 1) {
        bool known = false;
        if (strncmp(name, "data-", 5) != 0 ||
            strtoul(name + 5, NULL, 10) < output->journal.first_shard)
            continue;
        for (uint32_t i = 0; i < output->journal.count; i++)
            known |= strcmp(name, output->journal.shards[i].info.name) == 0;
        if (!known)
            unlinkat(dirfd(dir), name, 0);
    }
    closedir(dir);
    return more;
}

static int check_shards(const struct hr_output *output, struct hr_error *err)
{
    for (uint32_t i = 0; i < output->journal.count; i++) {
        const struct hr_shard_info *info = &output->journal.shards[i].info;
        char *path = path_in(output, info->name);
        struct stat st;
        bool good = path && stat(path, &st) == 0 && (uint64_t)st.st_size == info->bytes;
        hr_free(path);
        if (good)
            continue;
        hr_fail(err, HR_E_CONFIG, "cannot resume: the finished shard %s is missing or has another size",
                info->name);
        hr_error_at_file(err, output->folder, 0, 0);
        hr_error_hint(err, "remove the folder and pack anew");
        return err->code;
    }
    return 0;
}

/* A dataset has one list for each pack that went into it. */
static void name_rejects(struct hr_output *output)
{
    if (output->append)
        snprintf(output->rejects_name, sizeof(output->rejects_name), "rejects-%05u.jsonl",
                 output->journal.first_shard);
}

static int resume(struct hr_output *output, struct hr_error *err)
{
    int ret = hr_journal_resume(output->folder, &output->run, &output->journal, err);

    if (ret < 0)
        return ret;
    if (output->append)
        ret = hr_append_check_current(output->append, output->folder, err);
    if (ret == 0)
        ret = check_shards(output, err);
    if (ret < 0)
        return ret;
    name_rejects(output);
    if (output->journal.count) {
        const struct hr_journal_shard *last = &output->journal.shards[output->journal.count - 1];
        output->tally = last->tally;
        output->rejects_bytes = last->rejects_bytes;
    }
    ret = sweep(output, err);
    return ret < 0 ? ret : open_rejects(output, err);
}

/* --resume on what is finished: the same report, nothing done. */
static int report_finished(struct hr_output *output, struct hr_error *err)
{
    struct hr_manifest manifest;
    int ret = hr_manifest_read(output->folder, &manifest, err);

    if (ret < 0)
        return ret;
    output->complete = true;
    output->digest = manifest.digest;
    output->total_records = output->tally.packed = output->tally.found = manifest.record_count;
    output->bytes_out = manifest.bytes;
    output->total_shards = output->shard_count = manifest.shard_count;
    hr_manifest_finish(&manifest);
    return 0;
}

/* Whether the current version came from just this append: the manifest says from what it was made. */
static bool was_appended(const struct hr_output *output, const struct hr_pack_options *options)
{
    const struct hr_manifest *base = &output->append->base;
    char *text = base->has_previous ? options_text(options, output->source, &base->previous) : NULL;
    bool same = text && base->options && strcmp(text, base->options) == 0;

    hr_free(text);
    return same;
}

/* A kill may have come between the manifest and the end of the journal. */
static void drop_own_journal(struct hr_output *output)
{
    struct hr_journal_run run = output->run;

    run.options = output->append->base.options;
    if (hr_journal_resume(output->folder, &run, &output->journal, NULL) == 0)
        hr_journal_remove(&output->journal);
}

static int report_appended(struct hr_output *output, struct hr_error *err)
{
    struct hr_manifest *before = hr_alloc_zero(1, sizeof(*before));
    char hex[HR_DIGEST_HEX_BYTES];

    if (!before)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    int ret = report_finished(output, err);
    output->previous = output->append->base.previous;
    hr_digest_hex(&output->previous, hex);
    /* It may have been deleted since. */
    if (ret == 0 && hr_manifest_read_version(output->folder, hex, before, NULL) == 0) {
        output->tally.packed = output->tally.found -= before->record_count;
        output->bytes_out -= before->bytes;
        output->shard_count -= before->shard_count;
        hr_manifest_finish(before);
    }
    hr_free(before);
    return ret;
}

static int begin_append(struct hr_output *output, const struct hr_pack_options *options,
                        struct hr_error *err)
{
    enum content content;
    int ret = look_into(output->folder, &content, err);

    if (ret < 0)
        return ret;
    if (options->resume && was_appended(output, options)) {
        if (content == CONTENT_JOURNAL)
            drop_own_journal(output);
        return report_appended(output, err);
    }
    if (content == CONTENT_JOURNAL)
        return options->resume ? resume(output, err) : refuse(output, content, err);
    ret = hr_journal_create(output->folder, &output->run, &output->journal, err);
    if (ret < 0)
        return ret;
    name_rejects(output);
    ret = hr_append_check_current(output->append, output->folder, err);
    if (ret < 0)
        hr_journal_remove(&output->journal);
    return ret;
}

static int begin(struct hr_output *output, const struct hr_pack_options *options,
                 struct hr_error *err)
{
    enum content content;
    int ret;

    if (output->append)
        return begin_append(output, options, err);
    ret = make_folder(output, err);

    if (ret == 0)
        ret = look_into(output->folder, &content, err);
    if (ret < 0)
        return ret;
    if (content == CONTENT_EMPTY) {
        ret = hr_journal_create(output->folder, &output->run, &output->journal, err);
        if (ret < 0)
            hr_error_hint(err, ret == HR_E_NO_SPACE ? "make room, or choose another place"
                                                    : "choose a place that you can write to");
        return ret;
    }
    if (!options->resume || content == CONTENT_OTHER)
        return refuse(output, content, err);
    return content == CONTENT_DATASET ? report_finished(output, err) : resume(output, err);
}

int hr_output_begin(struct hr_output *output, const char *folder, const struct hr_source *source,
                    struct hr_append *append, const struct hr_pack_options *options,
                    struct hr_error *err)
{
    *output = (struct hr_output){.folder = folder,
                                 .source = source,
                                 .append = append,
                                 .schema = append ? &append->schema : &source->schema,
                                 .rejects_name = HR_REJECTS_NAME,
                                 .shard_bytes = options->shard_bytes,
                                 .journal = {.fd = -1},
                                 .rejects_fd = -1};
    output->run = (struct hr_journal_run){source->names, source->sizes, source->times,
                                          source->record_count, append ? append->first_shard : 0,
                                          options_text(options, source, base_of(append))};
    int ret = output->run.options ? begin(output, options, err)
                                  : hr_fail(err, HR_E_NOMEM, "out of memory");
    if (ret < 0) {
        if (output->made_folder)
            rmdir(folder);
        hr_fd_close(&output->rejects_fd);
        hr_journal_close(&output->journal);
        hr_free(output->run.options);
        output->run.options = NULL;
    }
    return ret;
}

static int close_shard(struct hr_output *output, struct hr_error *err)
{
    struct hr_journal_shard shard = {.rejects_bytes = output->rejects_bytes,
                                     .tally = output->tally};

    if (!output->writer)
        return 0;
    int ret = hr_shard_writer_commit(output->writer, &shard.info, err);
    output->writer = NULL;
    if (ret < 0)
        return ret;
    snprintf(shard.info.name, sizeof(shard.info.name), "%s", output->shard_name);
    if (output->rejects_fd >= 0 && fdatasync(output->rejects_fd) < 0)
        return hr_fail_errno(err, errno, "cannot write %s", output->rejects_name);
    return hr_journal_add(&output->journal, &shard, err);
}

static int open_shard(struct hr_output *output, struct hr_error *err)
{
    static const struct hr_shard_writer_options defaults;

    snprintf(output->shard_name, sizeof(output->shard_name), "data-%05u.hrs",
             output->journal.first_shard + output->journal.count);
    char *path = path_in(output, output->shard_name);
    if (!path)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    int ret = hr_shard_writer_open(path, output->schema, &defaults, &output->writer, err);
    output->in_shard = 0;
    hr_free(path);
    return ret;
}

int hr_output_add(struct hr_output *output, const struct hr_pack_record *record,
                  struct hr_error *err)
{
    uint64_t cost = record->payload + RECORD_COST;
    const struct hr_value *values = record->values;
    int ret = 0;

    if (output->append)
        values = hr_append_values(output->append, &output->source->schema, record);
    if (output->writer && output->in_shard + cost > output->shard_bytes)
        ret = close_shard(output, err);
    if (ret == 0 && !output->writer)
        ret = open_shard(output, err);
    if (ret == 0)
        ret = hr_shard_writer_add(output->writer, record->key, values, err);
    if (ret < 0)
        return ret;
    output->in_shard += cost;
    output->tally.found++;
    output->tally.packed++;
    output->tally.renamed += record->renamed;
    hr_jpeg_counts_add(&output->tally.jpeg, &record->jpeg);
    output->tally.resized += record->resized;
    output->tally.unresized += record->unresized;
    output->tally.raw += record->raw;
    output->tally.png_repacked += record->png_repacked;
    output->tally.png_kept += record->png_kept;
    output->tally.bytes_in += record->bytes;
    return 0;
}

int hr_output_reject(struct hr_output *output, const char *key, const struct hr_error *why,
                     struct hr_error *err)
{
    struct hr_buf line = {0};
    int ret = output->rejects_fd < 0 ? open_rejects(output, err) : 0;

    if (ret < 0)
        return ret;
    hr_json_open(&line, NULL, '{');
    hr_json_str(&line, "key", key);
    hr_json_str(&line, "file", why->file);
    if (why->line > 0)
        hr_json_int(&line, "line", why->line);
    if (why->column > 0)
        hr_json_int(&line, "column", why->column);
    hr_json_str(&line, "reason", why->text[0] ? why->text : hr_error_text(why->code));
    if (why->hint[0])
        hr_json_str(&line, "hint", why->hint);
    hr_json_str(&line, "code", hr_error_name(why->code));
    hr_json_close(&line, '}');
    hr_buf_add_str(&line, "\n");
    ret = hr_buf_failed(&line) ? hr_fail(err, HR_E_NOMEM, "out of memory")
                               : hr_fd_write_full(output->rejects_fd, line.data, line.used, err);
    if (ret < 0)
        hr_error_at_file(err, output->rejects_name, 0, 0);
    output->rejects_bytes += line.used;
    hr_buf_finish(&line);
    output->tally.found++;
    output->tally.rejected++;
    return ret;
}

static int copy_schema(struct hr_manifest *manifest, const struct hr_schema *schema)
{
    manifest->schema = *schema;
    manifest->schema.classes = NULL;
    manifest->schema.class_count = 0;
    if (!schema->class_count)
        return 0;
    manifest->schema.classes = hr_alloc_zero(schema->class_count, sizeof(char *));
    for (uint32_t i = 0; manifest->schema.classes && i < schema->class_count; i++) {
        manifest->schema.classes[i] = hr_strdup(schema->classes[i]);
        if (!manifest->schema.classes[i])
            return HR_E_NOMEM;
        manifest->schema.class_count++;
    }
    return manifest->schema.classes ? 0 : HR_E_NOMEM;
}

static int fill_manifest(const struct hr_output *output, struct hr_manifest *manifest)
{
    const struct hr_manifest *base = output->append ? &output->append->base : NULL;
    uint32_t before = base ? base->shard_count : 0, count = output->journal.count;

    *manifest = (struct hr_manifest){
        .shards = hr_alloc_zero((size_t)before + count + 1, sizeof(*manifest->shards)),
        .tool = hr_strdup("headrace " HR_VERSION_STRING),
        .options = hr_strdup(output->run.options),
        .source = hr_strdup(output->source->kind->what),
    };
    if (!manifest->shards || !manifest->tool || !manifest->options || !manifest->source)
        return HR_E_NOMEM;
    for (uint32_t i = 0; i < before; i++)
        manifest->shards[i] = base->shards[i];
    for (uint32_t i = 0; i < count; i++)
        manifest->shards[before + i] = output->journal.shards[i].info;
    manifest->shard_count = before + count;
    return copy_schema(manifest, output->schema);
}

/* A resumed run without a rejected record has made the file for nothing. */
static void drop_empty_rejects(struct hr_output *output)
{
    if (output->rejects_fd < 0)
        return;
    char *path = path_in(output, output->rejects_name);
    if (path && !output->rejects_bytes)
        unlink(path);
    hr_free(path);
    hr_fd_close(&output->rejects_fd);
}

int hr_output_commit(struct hr_output *output, struct hr_error *err)
{
    struct hr_manifest manifest;
    int ret = close_shard(output, err);

    if (ret < 0)
        return ret;
    drop_empty_rejects(output);
    ret = fill_manifest(output, &manifest);
    if (ret < 0)
        hr_fail(err, ret, "out of memory");
    else
        ret = hr_manifest_commit(output->folder, &manifest, err);
    if (ret == 0) {
        output->digest = manifest.digest;
        output->previous = manifest.previous;
        output->total_records = manifest.record_count;
        output->total_shards = manifest.shard_count;
        output->shard_count = output->journal.count;
        output->bytes_out = 0;
        for (uint32_t i = 0; i < output->journal.count; i++)
            output->bytes_out += output->journal.shards[i].info.bytes;
        hr_journal_remove(&output->journal);
        output->complete = true;
    }
    hr_manifest_finish(&manifest);
    return ret;
}

void hr_output_end(struct hr_output *output)
{
    hr_shard_writer_abort(output->writer);
    output->writer = NULL;
    drop_empty_rejects(output);
    if (!output->complete && output->run.options && output->journal.fd >= 0 &&
        !output->journal.count && (output->append || !output->tally.rejected)) {
        hr_journal_remove(&output->journal);
        if (output->made_folder)
            rmdir(output->folder);
    }
    hr_journal_close(&output->journal);
    hr_free(output->run.options);
    output->run.options = NULL;
}
