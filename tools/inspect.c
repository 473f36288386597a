/* headrace inspect: what a dataset holds, what a record holds, and a value's bytes. */
#include "tools/headrace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "decoders/chain.h"
#include "tools/inspect/inspect.h"

struct options {
    struct hr_cli cli;
    const char *records, *record, *extract, *out, *version;
    bool versions, raw;
};

static const struct hr_cli_arg args[] = {
    {"DATASET", "a dataset folder, or one .hrs file", .word = HR_WORD_FOLDER},
    {"RECORD", "a record by number or by key", .optional = true},
    {NULL},
};

static const struct hr_opt opts[] = {
    {"records", 0, HR_OPT_STR, "A:B", offsetof(struct options, records),
     "records A to B - 1, one after the other; with --json a line each"},
    {"extract", 0, HR_OPT_STR, "FIELD", offsetof(struct options, extract),
     "write the bytes of a record's value"},
    {"record", 0, HR_OPT_STR, "RECORD", offsetof(struct options, record),
     "the same as the argument; --extract without any takes the first record"},
    {"out", 'o', HR_OPT_STR, "FILE", offsetof(struct options, out),
     "where --extract writes to; - is standard output", .word = HR_WORD_FILE},
    {"raw", 0, HR_OPT_FLAG, NULL, offsetof(struct options, raw),
     "--extract writes the stored bytes of a repacked value as they are"},
    {"versions", 0, HR_OPT_FLAG, NULL, offsetof(struct options, versions), "list the dataset's versions"},
    {"version", 0, HR_OPT_STR, "DIGEST", offsetof(struct options, version),
     "look at this version (digest or its beginning), not the current one"},
    HR_OPT_END,
};

const struct hr_command hr_command_inspect = {
    .name = "inspect",
    .summary = "show what a dataset or a record holds",
    .description = "Shows schema, sizes, distributions, shards and versions of a dataset; with RECORD, one "
                   "record's fields; with --extract, writes a value's bytes after checking them. Only "
                   "indexes are read, unless bytes are asked for.",
    .args = args,
    .opts = opts,
    .example = "  headrace inspect imagenet.hrd\n"
               "  headrace inspect imagenet.hrd 1234 --extract image --out 1234.jpg\n"
               "  headrace inspect imagenet.hrd --records 0:10 --json",
    .see_also = "verify pack",
    .has_json = true,
    .run = hr_tool_inspect,
};

enum { FLUSH_BYTES = 1 << 16 };

/* A record by number; otherwise the first one with that key. */
static int find_record(const struct hr_dataset *d, const char *text, uint64_t *record, struct hr_error *err)
{
    uint64_t count = hr_dataset_record_count(d);
    size_t n = strlen(text);
    uint32_t key_bytes;
    char *end;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (n > 0 && text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0 && number < count) {
        *record = number;
        return 0;
    }
    for (uint64_t r = 0; r < count; r++) {
        const char *key = hr_dataset_key(d, r, &key_bytes);
        if (key_bytes == n && memcmp(key, text, n) == 0) {
            *record = r;
            return 0;
        }
    }
    int ret = hr_fail(err, HR_E_USAGE, "no record '%s'", text);
    hr_error_hint(err, "there are %" PRIu64 " records, counted from 0", count);
    return ret;
}

static int extract_bytes(const struct hr_dataset *d, uint64_t record, uint32_t field, bool raw,
                         struct hr_buf *out, struct hr_error *err)
{
    struct hr_value_place p;
    void *data;
    uint64_t bytes;
    int ret;

    hr_dataset_locate(d, record, field, &p);
    ret = hr_dataset_read_value(d, record, field, &data, &bytes, err);
    if (ret < 0)
        return ret;
    ret = hr_media_restore(raw ? HR_ENCODING_AS_IS : p.encoding, data, bytes, out, err);
    hr_free(data);
    return ret;
}

static int extract_scalar(const struct hr_dataset *d, uint64_t record, uint32_t field, struct hr_buf *out,
                          struct hr_error *err)
{
    enum hr_field_type type = hr_dataset_schema(d)->fields[field].type;
    struct hr_scalar s;

    hr_dataset_scalar(d, record, field, &s);
    if (!s.present)
        return hr_fail(err, HR_E_MISSING, "the record has no such value");
    if (type == HR_FIELD_STR)
        hr_buf_add(out, s.str, s.str_bytes);
    else if (type == HR_FIELD_F64) {
        hr_inspect_double(out, s.f64);
        hr_buf_add_str(out, "\n");
    } else if (type == HR_FIELD_BOOL)
        hr_buf_add_str(out, s.i64 ? "true\n" : "false\n");
    else
        hr_buf_addf(out, "%" PRId64 "\n", s.i64);
    return 0;
}

static int write_out(const char *path, struct hr_buf *bytes, struct hr_error *err)
{
    if (hr_buf_failed(bytes))
        return hr_fail(err, HR_E_NOMEM, "no memory for the value");
    if (strcmp(path, "-") == 0)
        return hr_fd_write_full(STDOUT_FILENO, hr_buf_str(bytes), bytes->used, err);
    return hr_fd_write_file_atomic(path, hr_buf_str(bytes), bytes->used, err);
}

static int extract(const struct hr_dataset *d, const struct options *o, const char *record_text)
{
    const struct hr_schema *schema = hr_dataset_schema(d);
    struct hr_error err = HR_ERROR_INIT;
    struct hr_buf bytes = {0};
    uint64_t record = 0;
    int field = hr_schema_find(schema, o->extract), ret;

    if (!o->out)
        return hr_cli_wrong(&hr_command_inspect, "--extract needs --out FILE (- is standard output)");
    if (field < 0)
        return hr_cli_wrong(&hr_command_inspect, "the dataset has no field '%s'", o->extract);
    if (hr_dataset_record_count(d) == 0)
        return hr_cli_wrong(&hr_command_inspect, "the dataset has no records");
    ret = record_text ? find_record(d, record_text, &record, &err) : 0;
    if (ret == 0)
        ret = hr_field_type_is_scalar(schema->fields[field].type)
                  ? extract_scalar(d, record, (uint32_t)field, &bytes, &err)
                  : extract_bytes(d, record, (uint32_t)field, o->raw, &bytes, &err);
    if (ret < 0 && err.record == HR_NO_RECORD && ret != HR_E_USAGE)
        hr_error_at_value(&err, NULL, record, o->extract, -1);
    if (ret == 0)
        ret = write_out(o->out, &bytes, &err);
    hr_buf_finish(&bytes);
    return ret < 0 ? hr_cli_failed("extract", &err) : HR_EXIT_DONE;
}

static void add_record(struct hr_buf *out, const struct hr_dataset *d, uint64_t record, bool json)
{
    if (json)
        hr_inspect_json_record(out, d, record);
    else
        hr_inspect_text_record(out, d, record);
}

/* "A:B", either side may be left out. */
static bool parse_range(const char *text, uint64_t count, uint64_t *first, uint64_t *end)
{
    const char *colon = strchr(text, ':');
    char *stop;

    if (!colon || strspn(text, "0123456789:") != strlen(text) || strchr(colon + 1, ':'))
        return false;
    errno = 0;
    *first = colon == text ? 0 : strtoull(text, &stop, 10);
    *end = colon[1] ? strtoull(colon + 1, &stop, 10) : count;
    if (errno || *first > *end)
        return false;
    *end = hr_min_u64(*end, count);
    return true;
}

static int show_records(const struct hr_dataset *d, const struct options *o)
{
    struct hr_buf out = {0};
    uint64_t first, end;

    if (!parse_range(o->records, hr_dataset_record_count(d), &first, &end))
        return hr_cli_wrong(&hr_command_inspect, "--records takes A:B with A <= B, not '%s'", o->records);
    for (uint64_t r = first; r < end; r++) {
        if (!o->cli.json && r > first)
            hr_buf_add_str(&out, "\n");
        add_record(&out, d, r, o->cli.json);
        if (out.used > FLUSH_BYTES && hr_cli_print(&out) != HR_EXIT_DONE)
            return HR_EXIT_FAILED;
    }
    return hr_cli_print(&out);
}

static int show_record(const struct hr_dataset *d, const char *text, bool json)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_buf out = {0};
    uint64_t record;

    if (find_record(d, text, &record, &err) < 0)
        return hr_cli_failed("inspect", &err);
    add_record(&out, d, record, json);
    return hr_cli_print(&out);
}

static int show_dataset(const struct hr_dataset *d, const struct options *o)
{
    const char *path = o->cli.args[0];
    struct hr_manifest *m = hr_alloc_zero(1, sizeof(*m));
    struct hr_version_row *rows = NULL;
    struct hr_inspected what = {.dataset = d};
    struct hr_buf out = {0};
    struct stat st;

    /* A lone shard has neither; a broken current manifest does not hide the version asked for. */
    if (m && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (hr_manifest_read_version(path, o->version, m, NULL) == 0)
            what.manifest = m;
        if (hr_manifest_versions(path, &rows, &what.version_count, NULL) < 0)
            what.version_count = 0;
        what.versions = rows;
    }
    if (o->versions && o->cli.json) {
        hr_inspect_json_versions(&out, NULL, &what);
        hr_buf_add_str(&out, "\n");
    } else if (o->versions) {
        hr_inspect_text_versions(&out, &what);
    } else if (o->cli.json) {
        hr_inspect_json(&out, &what);
    } else {
        hr_inspect_text(&out, &what);
        hr_inspect_histograms(&out, d);
    }
    if (what.manifest)
        hr_manifest_finish(m);
    hr_free(m);
    hr_free(rows);
    return hr_cli_print(&out);
}

static int show(const struct hr_dataset *d, const struct options *o)
{
    const char *record = o->cli.arg_count > 1 ? o->cli.args[1] : o->record;

    if (o->extract)
        return extract(d, o, record);
    if (o->records)
        return show_records(d, o);
    return record ? show_record(d, record, o->cli.json) : show_dataset(d, o);
}

/* What goes with what: an option that would do nothing is a slip. */
static int check_options(const struct options *o)
{
    bool one = o->cli.arg_count > 1 || o->record;

    if (o->record && o->cli.arg_count > 1)
        return hr_cli_wrong(&hr_command_inspect, "the record is given twice");
    if ((o->out || o->raw) && !o->extract)
        return hr_cli_wrong(&hr_command_inspect, "%s goes with --extract FIELD", o->out ? "--out" : "--raw");
    if (o->records && (one || o->extract))
        return hr_cli_wrong(&hr_command_inspect, "--records A:B, or one RECORD, not both");
    if (o->versions && (one || o->extract || o->records))
        return hr_cli_wrong(&hr_command_inspect, "--versions lists those of the dataset; it takes no record");
    return HR_CLI_RUN;
}

int hr_tool_inspect(int argc, char **argv)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_dataset *d;
    struct options o;
    int code = hr_cli_parse(&hr_command_inspect, argc, argv, &o, sizeof(o));

    if (code != HR_CLI_RUN)
        return code;
    code = check_options(&o);
    if (code != HR_CLI_RUN)
        return code;
    if (hr_dataset_open(o.cli.args[0], o.version, &d, &err) < 0)
        return hr_cli_unopened("", &err);
    code = show(d, &o);
    hr_dataset_close(d);
    return code;
}
