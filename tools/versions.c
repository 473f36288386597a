/* headrace versions: lists the versions of a dataset, deletes an older one, and clears away what no
 * version has. */
#include "tools/headrace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "shards/manifest.h"
#include "tools/pack/journal.h"

struct options {
    struct hr_cli cli;
    const char *delete;
    bool prune, force;
};

static const struct hr_cli_arg args[] = {
    {"DATASET", "a dataset folder", .word = HR_WORD_FOLDER},
    {NULL},
};

static const struct hr_opt opts[] = {
    {"delete", 0, HR_OPT_STR, "DIGEST", offsetof(struct options, delete),
     "delete this older version (digest or its beginning) and the shards that only it has"},
    {"prune", 0, HR_OPT_FLAG, NULL, offsetof(struct options, prune),
     "remove shards that no version has, and give up an unfinished pack --append"},
    {"force", 0, HR_OPT_FLAG, NULL, offsetof(struct options, force),
     "delete a version although a run has it open, or another one is unreadable"},
    HR_OPT_END,
};

static const struct hr_exit_note exits[] = {
    {HR_EXIT_USAGE, "there is no such version, it is the current one, or a run has it open"},
    {0, NULL},
};

const struct hr_command hr_command_versions = {
    .name = "versions",
    .summary = "list the versions of a dataset, delete an older one",
    .description = "Lists the versions of a dataset, the current one first. With --delete, removes an "
                   "older one: its manifest, and the shards that no other version has. A version that "
                   "a run has open on this machine is not deleted without --force.",
    .args = args,
    .opts = opts,
    .example = "  headrace versions photos.hrd\n"
               "  headrace versions photos.hrd --delete 5e14",
    .exits = exits,
    .see_also = "pack inspect verify",
    .has_json = true,
    .run = hr_tool_versions,
};

static void row_json(struct hr_buf *out, const struct hr_version_row *v, bool current)
{
    char hex[HR_DIGEST_HEX_BYTES];

    hr_json_open(out, NULL, '{');
    hr_json_str(out, "digest", hr_digest_hex(&v->digest, hex));
    hr_json_uint(out, "records", v->record_count);
    hr_json_uint(out, "bytes", v->bytes);
    hr_json_uint(out, "shards", v->shard_count);
    hr_json_bool(out, "current", current);
    hr_json_close(out, '}');
}

static void row_text(struct hr_buf *out, const struct hr_version_row *v, bool current)
{
    char hex[HR_DIGEST_HEX_BYTES], size[32], records[32];

    hr_buf_addf(out, "%s %14s %10s %8u%s\n", hr_digest_hex(&v->digest, hex),
                hr_cli_format_count(v->record_count, records), hr_cli_format_bytes(v->bytes, size),
                v->shard_count, current ? "  current" : "");
}

static int list(const struct options *o)
{
    struct hr_version_row *rows;
    struct hr_error err = HR_ERROR_INIT;
    struct hr_buf out = {0};
    uint32_t count;

    if (hr_manifest_versions(o->cli.args[0], &rows, &count, &err) < 0)
        return hr_cli_unopened("", &err);
    if (o->cli.json)
        hr_json_open(&out, NULL, '[');
    else
        hr_buf_addf(&out, "%-32s %14s %10s %8s\n", "version", "records", "bytes", "shards");
    for (uint32_t i = 0; i < count; i++)
        (o->cli.json ? row_json : row_text)(&out, &rows[i], i == 0);
    if (o->cli.json) {
        hr_json_close(&out, ']');
        hr_buf_add_str(&out, "\n");
    }
    hr_free(rows);
    return hr_cli_print(&out);
}

static int refused(const struct hr_error *err)
{
    int code = hr_cli_unopened("", err);

    return err->code == HR_E_BUSY ? HR_EXIT_USAGE : code;
}

static int delete_version(const struct options *o)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_version_row row;
    struct hr_buf out = {0};
    char hex[HR_DIGEST_HEX_BYTES], size[32];

    if (strspn(o->delete, "0123456789abcdefABCDEF") != strlen(o->delete) || strlen(o->delete) < 4)
        return hr_cli_wrong(&hr_command_versions, "--delete takes a digest or at least 4 of its digits, not '%s'",
                            o->delete);
    if (hr_version_delete(o->cli.args[0], o->delete, o->force, &row, &err) < 0)
        return refused(&err);
    hr_digest_hex(&row.digest, hex);
    if (o->cli.json) {
        hr_json_open(&out, NULL, '{');
        hr_json_str(&out, "deleted", hex);
        hr_json_uint(&out, "shards", row.shard_count);
        hr_json_uint(&out, "bytes", row.bytes);
        hr_json_close(&out, '}');
        hr_buf_add_str(&out, "\n");
    } else {
        hr_buf_addf(&out, "deleted %s, and %u shard%s that no other version has (%s)\n", hex,
                    row.shard_count, row.shard_count == 1 ? "" : "s",
                    hr_cli_format_bytes(row.bytes, size));
    }
    return hr_cli_print(&out);
}

/* ---- what no version has ---- */

/* Takes the place of a pack in this folder, so that none runs or begins. *path: hr_free. */
static int lock_journal(const char *folder, char **path, int *fd, struct hr_error *err)
{
    struct stat ours, now;

    *path = hr_asprintf("%s/" HR_JOURNAL_NAME, folder);
    if (!*path)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    *fd = hr_fd_open(*path, O_RDWR | O_CREAT, 0644, err);
    if (*fd < 0)
        return *fd;
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0 && fstat(*fd, &ours) == 0 && stat(*path, &now) == 0 &&
        ours.st_ino == now.st_ino)
        return 0;
    hr_fail(err, HR_E_BUSY, "a pack is writing into this folder");
    hr_error_at_file(err, folder, 0, 0);
    return HR_E_BUSY;
}

static int find_strays(const struct options *o, char ***names, uint32_t *count, struct hr_error *err)
{
    struct hr_versions versions;
    int ret = hr_versions_read(o->cli.args[0], &versions, err);

    if (ret < 0)
        return ret;
    if (!versions.has_current || (versions.unreadable && !o->force)) {
        ret = hr_fail(err, HR_E_CORRUPT, "a manifest cannot be read: nobody knows which shards it needs");
        hr_error_hint(err, "headrace verify names it");
    } else {
        ret = hr_versions_strays(&versions, o->cli.args[0], names, count, err);
    }
    hr_versions_finish(&versions);
    return ret;
}

static int remove_strays(const char *folder, char **names, uint32_t count, struct hr_error *err)
{
    int ret = 0;

    for (uint32_t i = 0; i < count && ret == 0; i++) {
        char *path = hr_asprintf("%s/%s", folder, names[i]);
        if (!path)
            ret = hr_fail(err, HR_E_NOMEM, "out of memory");
        else if (unlink(path) < 0)
            ret = hr_fail_errno(err, errno, "cannot remove '%s'", path);
        hr_free(path);
    }
    return ret;
}

/* Shards that a killed pack had open. */
static void remove_halves(const char *folder)
{
    DIR *dir = opendir(folder);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        if (n > 8 && strcmp(e->d_name + n - 8, ".hrs.tmp") == 0)
            unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

static int print_removed(const struct options *o, char **names, uint32_t count)
{
    struct hr_buf out = {0};

    if (o->cli.json) {
        hr_json_open(&out, NULL, '{');
        hr_json_open(&out, "removed", '[');
        for (uint32_t i = 0; i < count; i++)
            hr_json_str(&out, NULL, names[i]);
        hr_json_close(&out, ']');
        hr_json_close(&out, '}');
        hr_buf_add_str(&out, "\n");
    } else {
        hr_buf_addf(&out, "removed %u shard%s that no version has\n", count, count == 1 ? "" : "s");
    }
    return hr_cli_print(&out);
}

static int prune(const struct options *o)
{
    const char *folder = o->cli.args[0];
    struct hr_error err = HR_ERROR_INIT;
    struct hr_manifest *m = hr_alloc_zero(1, sizeof(*m));
    char **names = NULL, *journal = NULL;
    uint32_t count = 0;
    int fd = -1, ret = m ? hr_manifest_read(folder, m, &err) : hr_fail(&err, HR_E_NOMEM, "out of memory");

    if (ret == 0) {
        hr_manifest_finish(m);
        ret = lock_journal(folder, &journal, &fd, &err);
    }
    bool locked = ret == 0;
    if (ret == 0)
        ret = find_strays(o, &names, &count, &err);
    if (ret == 0)
        ret = remove_strays(folder, names, count, &err);
    if (ret == 0)
        remove_halves(folder);
    /* After a failure the journal of an unfinished pack stays; one that we made says nothing. */
    if (locked && (ret == 0 || lseek(fd, 0, SEEK_END) == 0))
        unlink(journal);
    hr_fd_close(&fd);
    int code = ret < 0 ? refused(&err) : print_removed(o, names, count);
    for (uint32_t i = 0; i < count; i++)
        hr_free(names[i]);
    hr_free(names);
    hr_free(journal);
    hr_free(m);
    return code;
}

int hr_tool_versions(int argc, char **argv)
{
    struct options o;
    struct stat st;
    int code = hr_cli_parse(&hr_command_versions, argc, argv, &o, sizeof(o));

    if (code != HR_CLI_RUN)
        return code;
    if (stat(o.cli.args[0], &st) == 0 && !S_ISDIR(st.st_mode))
        return hr_cli_wrong(&hr_command_versions, "'%s' is a file; versions are of a dataset folder", o.cli.args[0]);
    if (o.delete && o.prune)
        return hr_cli_wrong(&hr_command_versions, "--delete or --prune, one at a time");
    if (o.force && !o.delete && !o.prune)
        return hr_cli_wrong(&hr_command_versions, "--force goes with --delete or --prune");
    return o.delete ? delete_version(&o) : o.prune ? prune(&o) : list(&o);
}
