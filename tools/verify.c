/* headrace verify: checks every checksum of a dataset in parallel and lists what is bad. */
#include "tools/headrace.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "shards/verify.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/safe_text.h"

struct options {
    struct hr_cli cli;
    int64_t jobs;
    const char *version, *repair_list;
};

static const struct hr_cli_arg args[] = {
    {"DATASET", "a dataset folder, or one .hrs file", .word = HR_WORD_FOLDER},
    {NULL},
};

static const struct hr_opt opts[] = {
    {"jobs", 'j', HR_OPT_INT, "N", offsetof(struct options, jobs), "threads; shards are checked side by side",
     .fallback = "auto", .min = 0, .max = 256},
    {"version", 0, HR_OPT_STR, "DIGEST", offsetof(struct options, version),
     "check this version only (digest or its beginning), not all of them"},
    {"repair-list", 0, HR_OPT_STR, "FILE", offsetof(struct options, repair_list),
     "write a JSON line for each bad record and each bad shard", .word = HR_WORD_FILE},
    HR_OPT_END,
};

static const struct hr_exit_note exits[] = {
    {HR_EXIT_DONE, "everything was checked and is right"},
    {HR_EXIT_FOUND, "everything was checked and something is bad"},
    {0},
};

const struct hr_command hr_command_verify = {
    .name = "verify",
    .summary = "check every checksum of a dataset",
    .description =
        "Reads every byte of all versions of a dataset that carries meaning and compares it with its checksum: "
        "manifests, headers, indexes, blocks and values, and that padding is zero. Each problem is "
        "one line with shard, record, field and offset in the shard's file. A shard that is missing, "
        "cut short or not the one that the manifest names is a problem too; the others are still "
        "checked.\n\n"
        "With --json a problem is the line {\"shard\",\"record\",\"field\",\"offset\",\"reason\"}, where "
        "what is not known is null.",
    .args = args,
    .opts = opts,
    .example = "  headrace verify imagenet.hrd --repair-list bad.jsonl",
    .exits = exits,
    .see_also = "inspect pack",
    .has_json = true,
    .run = hr_tool_verify,
};

struct run {
    const struct options *o;
    struct hr_progress progress;
    pthread_mutex_t lock; /* guards the progress line and the list */
    struct hr_buf repair;
    bool cannot_print;
};

static void row_json(struct hr_buf *b, const struct hr_verify_problem *p)
{
    hr_json_open(b, NULL, '{');
    hr_json_str(b, "shard", p->shard);
    if (p->record == HR_NO_RECORD)
        hr_json_null(b, "record");
    else
        hr_json_uint(b, "record", p->record);
    if (p->field[0])
        hr_json_str(b, "field", p->field);
    else
        hr_json_null(b, "field");
    if (p->offset >= 0)
        hr_json_int(b, "offset", p->offset);
    else
        hr_json_null(b, "offset");
    hr_json_str(b, "reason", p->reason);
    hr_json_close(b, '}');
    hr_buf_add_str(b, "\n");
}

static void row_text(struct hr_buf *b, const struct hr_verify_problem *p)
{
    hr_safe_text(b, p->shard, strlen(p->shard), SIZE_MAX);
    if (p->record != HR_NO_RECORD)
        hr_buf_addf(b, ": record %" PRIu64, p->record);
    if (p->key_bytes) {
        hr_buf_add_str(b, " (");
        hr_safe_text(b, p->key, p->key_bytes, 120);
        hr_buf_add_str(b, ")");
    }
    if (p->field[0])
        hr_buf_addf(b, ": %s", p->field);
    if (p->offset >= 0)
        hr_buf_addf(b, ": offset %" PRId64, p->offset);
    hr_buf_addf(b, ": %s\n", p->reason);
}

static void add_repair(struct run *run, const struct hr_verify_problem *p)
{
    struct hr_buf row = {0};

    hr_json_open(&row, NULL, '{');
    hr_json_str(&row, "shard", p->shard);
    if (p->record == HR_NO_RECORD) {
        hr_json_null(&row, "record");
    } else {
        hr_json_uint(&row, "record", p->record);
        hr_json_strn(&row, "key", p->key, p->key_bytes);
    }
    hr_json_close(&row, '}');
    hr_buf_add_str(&row, "\n");
    hr_buf_add(&run->repair, row.data, row.used);
    hr_buf_finish(&row);
}

static void on_problem(void *arg, const struct hr_verify_problem *p)
{
    struct run *run = arg;
    struct hr_buf b = {0};

    if (run->o->cli.json)
        row_json(&b, p);
    else
        row_text(&b, p);
    pthread_mutex_lock(&run->lock);
    hr_progress_clear(&run->progress);
    run->cannot_print |= hr_cli_print(&b) != HR_EXIT_DONE;
    if (run->o->repair_list)
        add_repair(run, p);
    pthread_mutex_unlock(&run->lock);
}

static void on_stray(void *arg, const char *shard)
{
    struct run *run = arg;
    struct hr_buf name = {0};

    hr_safe_text(&name, shard, strlen(shard), SIZE_MAX);
    hr_progress_clear(&run->progress);
    hr_log(HR_LOG_WARN, "%s belongs to no version (headrace versions --prune removes it)", hr_buf_str(&name));
    hr_buf_finish(&name);
}

static bool on_progress(void *arg, uint64_t done, uint64_t total)
{
    struct run *run = arg;

    pthread_mutex_lock(&run->lock);
    run->progress.total = total / 1000000 + 1;
    hr_progress_update(&run->progress, hr_min_u64(done / 1000000, run->progress.total), 0);
    bool go_on = !run->cannot_print && hr_interrupt_signal() == 0;
    pthread_mutex_unlock(&run->lock);
    return go_on;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lines sorted, each once: threads find problems in any order, and a record once a field. */
static int write_repair_list(struct run *run, struct hr_error *err)
{
    struct hr_buf out = {0};
    size_t count = 0;
    char **lines, *text = (char *)run->repair.data;
    int ret;

    for (size_t i = 0; i < run->repair.used; i++)
        count += text[i] == '\n';
    lines = hr_alloc_zero(count, sizeof(*lines));
    if (!lines || hr_buf_failed(&run->repair)) {
        hr_free(lines);
        return hr_fail(err, HR_E_NOMEM, "no memory for the repair list");
    }
    for (size_t i = 0; i < count; i++) {
        lines[i] = text;
        text = strchr(text, '\n');
        *text++ = 0;
    }
    qsort(lines, count, sizeof(*lines), compare_lines);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(lines[i], lines[i - 1]) != 0) {
            hr_buf_add_str(&out, lines[i]);
            hr_buf_add_str(&out, "\n");
        }
    ret = hr_buf_failed(&out) ? hr_fail(err, HR_E_NOMEM, "no memory for the repair list")
                              : hr_fd_write_file_atomic(run->o->repair_list, hr_buf_str(&out), out.used, err);
    hr_buf_finish(&out);
    hr_free(lines);
    return ret;
}

static void add_summary(struct hr_buf *b, const struct hr_verify_result *r)
{
    char text[3][32];

    hr_buf_addf(b, "%s records in %u shard%s, %s values, %s: ", hr_cli_format_count(r->records, text[0]),
                r->shard_count, r->shard_count == 1 ? "" : "s", hr_cli_format_count(r->values, text[1]),
                hr_cli_format_bytes(r->bytes, text[2]));
    if (r->version_count > 1)
        hr_buf_addf(b, "%u versions, ", r->version_count);
    if (r->problems == 0)
        hr_buf_add_str(b, "all right\n");
    else
        hr_buf_addf(b, "%s problem%s in %u shard%s\n", hr_cli_format_count(r->problems, text[0]),
                    r->problems == 1 ? "" : "s", r->bad_shards, r->bad_shards == 1 ? "" : "s");
}

static int check(struct run *run)
{
    struct hr_verify_options options = {.threads = (int)run->o->jobs, .problem = on_problem, .stray = on_stray,
                                        .progress = on_progress, .arg = run};
    struct hr_verify_result result;
    struct hr_error err = HR_ERROR_INIT;
    struct hr_buf out = {0};
    int ret = hr_dataset_verify(run->o->cli.args[0], run->o->version, &options, &result, &err);

    hr_progress_clear(&run->progress);
    if (ret < 0 && hr_interrupt_signal())
        return hr_interrupt_exit_code();
    if (run->cannot_print)
        return HR_EXIT_FAILED;
    if (ret < 0)
        return hr_cli_unopened("verify", &err);
    if (run->o->repair_list && write_repair_list(run, &err) < 0)
        return hr_cli_failed("repair list", &err);
    if (!run->o->cli.json) {
        add_summary(&out, &result);
        if (hr_cli_print(&out) != HR_EXIT_DONE)
            return HR_EXIT_FAILED;
    }
    return result.problems ? HR_EXIT_FOUND : HR_EXIT_DONE;
}

int hr_tool_verify(int argc, char **argv)
{
    struct options o;
    struct run run = {.o = &o, .lock = PTHREAD_MUTEX_INITIALIZER};
    int code = hr_cli_parse(&hr_command_verify, argc, argv, &o, sizeof(o));

    if (code != HR_CLI_RUN)
        return code;
    hr_interrupt_install();
    hr_progress_init(&run.progress, "MB", 1);
    code = check(&run);
    hr_buf_finish(&run.repair);
    return code;
}
