/* headrace doctor: what this machine allows, and what to change. Runs the checks of tools/doctor/
 * and prints one row each. */
#include <stdarg.h>
#include <stdio.h>

#include "tools/doctor/checks.h"
#include "tools/headrace.h"

struct options {
    struct hr_cli cli;
};

static const struct hr_cli_arg args[] = {
    {"PATH", "a dataset, a folder or a file: how it can be read is tried too", .optional = true,
     .word = HR_WORD_FILE},
    {NULL},
};

static const struct hr_exit_note exits[] = {
    {HR_EXIT_DONE, "a trainer can be fed here, perhaps slower than it could be (see the warnings)"},
    {HR_EXIT_FOUND, "something that Headrace needs is missing"},
    {0, NULL},
};

const struct hr_command hr_command_doctor = {
    .name = "doctor",
    .summary = "say what this machine allows and what to change",
    .description =
        "Tries what Headrace uses - io_uring, registered memory, sealed memory files, direct "
        "reads, codecs - and reads the limits that it lives under: cores, memory, open files. Each "
        "row is ok, warn (works, but slower or with less room) or bad (cannot feed a trainer), "
        "with what to change where something can be gained.\n\n"
        "Run it as the user and in the container that will run the sidecar: the answers differ.",
    .args = args,
    .example = "  headrace doctor /data/train.hrd\n  headrace doctor --json | jq .verdict",
    .exits = exits,
    .has_json = true,
    .run = hr_tool_doctor,
};

static const struct {
    const char *name;
    void (*run)(struct hr_doctor_row *row, const char *path);
} checks[] = {
    {"kernel", hr_doctor_kernel},     {"io_uring", hr_doctor_uring},
    {"memlock", hr_doctor_memlock},   {"open files", hr_doctor_files},
    {"memfd", hr_doctor_memfd},       {"/dev/shm", hr_doctor_shm},
    {"huge pages", hr_doctor_huge_pages}, {"memory", hr_doctor_memory},
    {"cores", hr_doctor_cpu},         {"simd", hr_doctor_simd},
    {"storage", hr_doctor_storage},   {"images", hr_doctor_images},
    {"audio, video", hr_doctor_av},
};

enum { CHECK_COUNT = HR_ARRAY_SIZE(checks) };

static const char *const status_names[] = {"ok", "warn", "bad"};

void hr_doctor_say(struct hr_doctor_row *row, enum hr_doctor_status status, const char *fmt, ...)
{
    va_list ap;

    row->status = status;
    va_start(ap, fmt);
    vsnprintf(row->found, sizeof(row->found), fmt, ap);
    va_end(ap);
}

void hr_doctor_fix(struct hr_doctor_row *row, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(row->fix, sizeof(row->fix), fmt, ap);
    va_end(ap);
}

static void print_rows(struct hr_buf *out, const struct hr_doctor_row *rows, const int *counts)
{
    for (int i = 0; i < CHECK_COUNT; i++) {
        hr_buf_addf(out, "%-5s %-13s %s\n", status_names[rows[i].status], checks[i].name,
                    rows[i].found);
        if (rows[i].fix[0])
            hr_buf_addf(out, "%-19s -> %s\n", "", rows[i].fix);
    }
    if (counts[HR_DOCTOR_BAD])
        hr_buf_addf(out, "\nnot feedable: %d of %d checks are bad\n", counts[HR_DOCTOR_BAD],
                    CHECK_COUNT);
    else if (counts[HR_DOCTOR_WARN])
        hr_buf_addf(out, "\nfeedable, with %d warning%s\n", counts[HR_DOCTOR_WARN],
                    counts[HR_DOCTOR_WARN] == 1 ? "" : "s");
    else
        hr_buf_add_str(out, "\nfeedable\n");
}

static void print_json(struct hr_buf *out, const struct hr_doctor_row *rows, const int *counts)
{
    enum hr_doctor_status worst = counts[HR_DOCTOR_BAD]    ? HR_DOCTOR_BAD
                                  : counts[HR_DOCTOR_WARN] ? HR_DOCTOR_WARN
                                                           : HR_DOCTOR_OK;

    hr_json_open(out, NULL, '{');
    hr_json_str(out, "verdict", status_names[worst]);
    hr_json_bool(out, "feedable", worst != HR_DOCTOR_BAD);
    hr_json_open(out, "checks", '[');
    for (int i = 0; i < CHECK_COUNT; i++) {
        hr_json_open(out, NULL, '{');
        hr_json_str(out, "name", checks[i].name);
        hr_json_str(out, "status", status_names[rows[i].status]);
        hr_json_str(out, "found", rows[i].found);
        if (rows[i].fix[0])
            hr_json_str(out, "fix", rows[i].fix);
        hr_json_raw(out, "facts", hr_buf_str(&rows[i].facts));
        hr_json_close(out, '}');
    }
    hr_json_close(out, ']');
    hr_json_close(out, '}');
    hr_buf_add_str(out, "\n");
}

int hr_tool_doctor(int argc, char **argv)
{
    static struct hr_doctor_row rows[CHECK_COUNT];
    int counts[3] = {0};
    struct hr_buf out = {0};
    struct options o;

    int code = hr_cli_parse(&hr_command_doctor, argc, argv, &o, sizeof(o));
    if (code != HR_CLI_RUN)
        return code;
    for (int i = 0; i < CHECK_COUNT; i++) {
        hr_json_open(&rows[i].facts, NULL, '{');
        checks[i].run(&rows[i], o.cli.arg_count ? o.cli.args[0] : NULL);
        hr_json_close(&rows[i].facts, '}');
        counts[rows[i].status]++;
    }
    (o.cli.json ? print_json : print_rows)(&out, rows, counts);
    for (int i = 0; i < CHECK_COUNT; i++)
        hr_buf_finish(&rows[i].facts);
    code = hr_cli_print(&out);
    return code == HR_EXIT_DONE && counts[HR_DOCTOR_BAD] ? HR_EXIT_FOUND : code;
}
