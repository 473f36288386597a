/* headrace synth: a made-up dataset, or the folder that one could be packed from. */
#include "tools/headrace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "tools/interrupt.h"
#include "tools/pack/driver.h"
#include "tools/pack/output.h"
#include "tools/progress.h"
#include "tools/synth/source.h"
#include "tools/synth/synth.h"

struct options {
    struct hr_cli cli;
    int kind, as;
    int64_t records, seed, jobs, width, height;
    double seconds;
    uint64_t shard_bytes;
};

enum { AS_DATASET, AS_FOLDER };
static const char *const kinds[] = {"images", "captions", "text", "speech", "video", "mixed", NULL};
static const char *const forms[] = {"dataset", "folder", NULL};

static const struct hr_cli_arg args[] = {
    {"DST", "the folder to make; it must not exist, or be empty", .word = HR_WORD_FOLDER},
    {NULL},
};

#define AT(member) offsetof(struct options, member)
static const struct hr_opt opts[] = {
    {"kind", 0, HR_OPT_CHOICE, NULL, AT(kind), "what to make", .fallback = "images", .choices = kinds},
    {"records", 'n', HR_OPT_INT, "N", AT(records), "how many", .fallback = "1000", .min = 1,
     .max = 1e12},
    {"seed", 's', HR_OPT_INT, "S", AT(seed), "another seed makes other data", .fallback = "0",
     .min = 0, .max = 9e15},
    {"as", 0, HR_OPT_CHOICE, NULL, AT(as), "a dataset, or the files to pack one from",
     .fallback = "dataset", .choices = forms},
    {"width", 0, HR_OPT_INT, "PIXELS", AT(width), "of pictures and clips; without it, it varies",
     .min = 16, .max = HR_SYNTH_MAX_SIDE},
    {"height", 0, HR_OPT_INT, "PIXELS", AT(height), "likewise", .min = 16, .max = HR_SYNTH_MAX_SIDE},
    {"seconds", 0, HR_OPT_FLOAT, "S", AT(seconds), "median length of recordings and clips "
     "(4 and 3 without it)", .min = 0.5, .max = 3600},
    {"shard-size", 0, HR_OPT_SIZE, "SIZE", AT(shard_bytes), "begin a new shard beyond this much",
     .fallback = "256M", .min = 1 << 16, .max = 1e15},
    {"jobs", 'j', HR_OPT_INT, "N", AT(jobs), "threads; the result is the same", .fallback = "auto",
     .min = 1, .max = 256},
    HR_OPT_END,
};

const struct hr_command hr_command_synth = {
    .name = "synth",
    .summary = "make up a dataset, for trying, sizing and tests",
    .description =
        "Makes N records of a stated kind. They follow from the seed and their number alone.\n"
        "  images    JPEG with shapes, around 400 x 300 (log-normal), label = the largest shape\n"
        "  captions  the same with a sentence that tells what is on it\n"
        "  text      words of a made-up language (Zipf), around 200 bytes\n"
        "  speech    vowel-like speech, 16 kHz WAV, around 4 s, and its syllables\n"
        "  video     moving shapes, MPEG-4 in mp4, 320 x 240, around 3 s, with label\n"
        "  mixed     picture, caption, recording, clip and label\n\n"
        "--as folder writes files instead: class folders for images and video, text.jsonl for "
        "text, pairs for the others.",
    .args = args,
    .opts = opts,
    .example = "  headrace synth demo.hrd --kind mixed --records 200 --seed 1\n"
               "  headrace synth photos/ --kind images --as folder",
    .see_also = "pack bench",
    .has_json = true,
    .run = hr_tool_synth,
};

struct run {
    struct options options;
    struct hr_source *source;
    struct hr_output output;
    struct hr_progress progress;
    const char *folder;
    uint64_t done, bytes;
    int jsonl_fd;
};

/* Creates the folders that a path below DST needs, then the file. */
static int write_file(const struct run *run, const char *name, const void *data, uint64_t bytes,
                      struct hr_error *err)
{
    char *path = hr_asprintf("%s/%s", run->folder, name);

    if (!path)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    char *slash = strrchr(path, '/');
    *slash = 0;
    int ret = mkdir(path, 0777) < 0 && errno != EEXIST
                  ? hr_fail_errno(err, errno, "cannot make the folder %s", path)
                  : 0;
    *slash = '/';
    int fd = ret < 0 ? ret : hr_fd_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644, err);
    if (fd >= 0)
        ret = hr_fd_write_full(fd, data, bytes, err);
    else
        ret = fd;
    hr_fd_close(&fd);
    if (ret < 0)
        hr_error_at_file(err, path, 0, 0);
    hr_free(path);
    return ret;
}

static int write_line(struct run *run, const struct hr_value *text, struct hr_error *err)
{
    struct hr_buf line = {0};

    hr_json_open(&line, NULL, '{');
    hr_json_strn(&line, "text", text->data, text->bytes);
    hr_json_close(&line, '}');
    hr_buf_add_str(&line, "\n");
    int ret = hr_buf_failed(&line) ? hr_fail(err, HR_E_NOMEM, "out of memory")
                                   : hr_fd_write_full(run->jsonl_fd, line.data, line.used, err);
    hr_buf_finish(&line);
    return ret;
}

static const char *suffix_of(const struct hr_schema_field *field)
{
    switch (field->type) {
    case HR_FIELD_IMAGE:
        return "jpg";
    case HR_FIELD_AUDIO:
        return "wav";
    case HR_FIELD_VIDEO:
        return "mp4";
    case HR_FIELD_I64:
        return "cls";
    default:
        return strcmp(field->name, "caption") == 0 ? "caption" : "txt";
    }
}

static int write_value(struct run *run, const struct hr_pack_record *record, uint32_t i,
                       struct hr_error *err)
{
    const struct hr_schema *schema = &run->source->schema;
    const struct hr_schema_field *field = &schema->fields[i];
    const struct hr_value *value = &record->values[i];
    bool classes = schema->class_count && run->options.kind != HR_SYNTH_MIXED;
    char name[128], number[32];

    if (run->jsonl_fd >= 0)
        return write_line(run, value, err);
    if (classes && field->type == HR_FIELD_I64)
        return 0;
    if (classes)
        snprintf(name, sizeof(name), "%s/%.32s.%s",
                 schema->classes[record->values[schema->class_field].i64], record->key,
                 suffix_of(field));
    else
        snprintf(name, sizeof(name), "%.32s.%s", record->key, suffix_of(field));
    if (field->type != HR_FIELD_I64)
        return write_file(run, name, value->data, value->bytes, err);
    int n = snprintf(number, sizeof(number), "%" PRId64 "\n", value->i64);
    return write_file(run, name, number, (uint64_t)n, err);
}

static int take(void *user, const char *key, const struct hr_pack_record *record,
                const struct hr_error *why, struct hr_error *err)
{
    struct run *run = user;
    int ret = 0;

    /* A record that cannot be made says nothing about data: it ends the run. */
    if (!record) {
        *err = *why;
        return err->code;
    }
    run->done++;
    run->bytes += record->bytes;
    if (run->options.as == AS_DATASET)
        return hr_output_add(&run->output, record, err);
    for (uint32_t i = 0; i < run->source->schema.field_count && ret == 0; i++)
        ret = write_value(run, record, i, err);
    return ret;
}

static bool tick(void *user)
{
    struct run *run = user;

    hr_progress_update(&run->progress, run->done, run->bytes);
    return !hr_interrupt_signal();
}

static int make_all(struct run *run, struct hr_error *err)
{
    struct hr_driver_sink sink = {take, tick, run};
    int jobs = run->options.jobs ? (int)run->options.jobs : hr_cpu_quota();

    hr_progress_init(&run->progress, "records", run->source->record_count);
    int ret = hr_driver_run(run->source, 0, jobs, &sink, err);
    hr_progress_clear(&run->progress);
    return ret;
}

static bool is_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int count = 0;

    if (!dir)
        return false;
    while ((entry = readdir(dir)))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count == 0;
}

static int begin_folder(struct run *run, struct hr_error *err)
{
    int ret = 0;

    if (mkdir(run->folder, 0777) < 0 && errno != EEXIST)
        ret = hr_fail_errno(err, errno, "cannot make the destination folder");
    else if (!is_empty(run->folder))
        ret = hr_fail(err, HR_E_EXISTS, "the destination is not an empty folder");
    if (ret < 0) {
        hr_error_at_file(err, run->folder, 0, 0);
        hr_error_hint(err, "choose another name");
        return ret;
    }
    if (run->options.kind != HR_SYNTH_TEXT)
        return 0;
    char *path = hr_asprintf("%s/text.jsonl", run->folder);
    if (!path)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    run->jsonl_fd = hr_fd_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644, err);
    hr_free(path);
    return run->jsonl_fd < 0 ? run->jsonl_fd : 0;
}

static int report(const struct run *run)
{
    bool dataset = run->options.as == AS_DATASET;
    char a[32], b[32], hex[HR_DIGEST_HEX_BYTES];
    struct hr_buf out = {0};

    if (run->options.cli.json) {
        hr_json_open(&out, NULL, '{');
        hr_json_uint(&out, "records", run->done);
        hr_json_uint(&out, "bytes", run->bytes);
        if (dataset)
            hr_json_str(&out, "digest", hr_digest_hex(&run->output.digest, hex));
        hr_json_close(&out, '}');
        hr_buf_add_str(&out, "\n");
        return hr_cli_print(&out);
    }
    if (hr_log_get_level() < HR_LOG_INFO)
        return HR_EXIT_DONE;
    hr_buf_addf(&out, "made %s records, %s\n", hr_cli_format_count(run->done, a),
                hr_cli_format_bytes(run->bytes, b));
    if (dataset)
        hr_buf_addf(&out, "digest: %s\n", hr_digest_hex(&run->output.digest, hex));
    return hr_cli_print(&out);
}

static int run_all(struct run *run, struct hr_error *err)
{
    const struct options *o = &run->options;
    struct hr_pack_options pack = {.shard_bytes = o->shard_bytes};
    struct hr_synth_spec spec = {(enum hr_synth_kind)o->kind, (uint64_t)o->records,
                                 (uint64_t)o->seed,           (int)o->width,
                                 (int)o->height,              o->seconds};
    bool dataset = o->as == AS_DATASET;

    int ret = hr_synth_source_open(&spec, &run->source, err);
    if (ret == 0)
        ret = dataset ? hr_output_begin(&run->output, run->folder, run->source, NULL, &pack, err)
                      : begin_folder(run, err);
    if (ret < 0) {
        if (ret == HR_E_EXISTS)
            hr_error_hint(err, "remove it, or choose another name");
        hr_log_error(HR_LOG_ERROR, "", err);
        return HR_EXIT_USAGE;
    }
    ret = make_all(run, err);
    if (ret == 0 && dataset)
        ret = hr_output_commit(&run->output, err);
    if (ret == 0)
        return report(run);
    if (hr_interrupt_signal()) {
        hr_log(HR_LOG_ERROR, "interrupted after %" PRIu64 " records", run->done);
        return hr_interrupt_exit_code();
    }
    return hr_cli_failed("", err);
}

int hr_tool_synth(int argc, char **argv)
{
    static struct run run; /* too large for a stack */
    struct hr_error err = HR_ERROR_INIT;

    int code = hr_cli_parse(&hr_command_synth, argc, argv, &run.options, sizeof(run.options));
    if (code != HR_CLI_RUN)
        return code;
    hr_interrupt_install();
    run.folder = run.options.cli.args[0];
    run.jsonl_fd = run.output.rejects_fd = run.output.journal.fd = -1;
    code = run_all(&run, &err);
    hr_output_end(&run.output);
    hr_fd_close(&run.jsonl_fd);
    hr_source_close(run.source);
    return code;
}
