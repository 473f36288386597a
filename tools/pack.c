/* headrace pack: makes a dataset of what people have. This file is the command line and the report;
 * sources, threads and output are in pack/. */
#include "tools/headrace.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/arg.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "tools/interrupt.h"
#include "tools/pack/driver.h"
#include "tools/pack/kinds.h"
#include "tools/pack/options.h"
#include "tools/pack/output.h"
#include "tools/pack/source.h"
#include "tools/progress.h"

static const struct hr_cli_arg args[] = {
    {"SRC", "a folder, a .jsonl file, or .tar files (several, or with braces: d-{000..012}.tar)",
     .repeats = true, .word = HR_WORD_FILE},
    {"DST", "the folder to make; it must not exist, or be empty, but for --append", .word = HR_WORD_FOLDER},
    {NULL},
};

static const char *const froms[] = {"guess", "folder", "jsonl", "pairs", "wds", NULL};
static const char *const jpegs[] = {"repack", "keep", NULL};
static const char *const pngs[] = {"keep", "repack", NULL};
static const char *const stores[] = {"files", "raw", NULL};

#define AT(member) offsetof(struct hr_pack_options, member)
static const struct hr_opt opts[] = {
    {"from", 0, HR_OPT_CHOICE, NULL, AT(from), "what SRC is", .fallback = "guess", .choices = froms},
    {"shard-size", 0, HR_OPT_SIZE, "SIZE", AT(shard_bytes), "begin a new shard beyond this much",
     .fallback = "256M", .min = 1 << 16, .max = 1e15},
    {"jobs", 'j', HR_OPT_INT, "N", AT(jobs), "threads that load and measure; the result is the same",
     .fallback = "auto", .min = 1, .max = 256},
    {"resume", 0, HR_OPT_FLAG, NULL, AT(resume), "go on with a pack that was stopped or killed"},
    {"append", 0, HR_OPT_FLAG, NULL, AT(append),
     "add to the dataset DST: a new version; the old one stays"},
    {"strict", 0, HR_OPT_FLAG, NULL, AT(strict),
     "end at the first record that is rejected: exit code 1, no dataset"},
    {"compress", 0, HR_OPT_LIST, "FIELD=CODEC", AT(compress),
     "lz4, lz4hc or none (default): smaller, but a record then costs its whole block; for order: none"},
    {"jpeg", 0, HR_OPT_CHOICE, NULL, AT(jpeg),
     "how JPEG pictures are stored: repacked (loads several times faster, same pixels, the file can be "
     "restored), or as they are", .fallback = "repack",
     .choices = jpegs},
    {"png", 0, HR_OPT_CHOICE, NULL, AT(png),
     "how 8-bit PNG pictures are stored: as they are, or repacked (loads several times faster; extracting gives "
     "the same samples and metadata, not the same file)", .fallback = "keep", .choices = pngs},
    {"resize-short", 0, HR_OPT_INT, "N", AT(resize_short),
     "pictures whose short side is longer are stored with one of N pixels, as JPEG", .min = 1, .max = 65500},
    {"max-side", 0, HR_OPT_INT, "N", AT(max_side),
     "the same by the long side", .min = 1, .max = 65500},
    {"quality", 0, HR_OPT_INT, "Q", AT(quality), "of the JPEG files that --resize-short and --max-side make (90)",
     .min = 1, .max = 100},
    {"store", 0, HR_OPT_CHOICE, NULL, AT(store),
     "how pictures are stored: as files, or as their pixels (largest, loads without decoding)",
     .fallback = "files", .choices = stores},
    {"verify-media", 0, HR_OPT_FLAG, NULL, AT(verify_media),
     "decode every picture, recording and clip whole, and reject what is damaged"},
    {"limit", 0, HR_OPT_INT, "N", AT(limit), "take the first N records only", .min = 1, .max = 1e15},
    {"follow-symlinks", 0, HR_OPT_FLAG, NULL, AT(follow_symlinks),
     "follow links to folders too (links to files always are)"},
    {"dry-run", 'n', HR_OPT_FLAG, NULL, AT(dry_run), "load and check everything, write nothing"},
    {"embed", 0, HR_OPT_LIST, "KEY[=TYPE]", AT(embed),
     "JSONL: values of this key are paths of files to embed (values \"@path\" are anyway)"},
    {"type", 0, HR_OPT_LIST, "KEY=TYPE", AT(types),
     "JSONL: type of this key: i64, f64, bool, str, text or json; or of its lists: f32[n,4], i64[n]"},
    {"root", 0, HR_OPT_STR, "FOLDER", AT(root),
     "JSONL: the tree that embedded files lie in; without it, the folder of the JSONL file",
     .word = HR_WORD_FOLDER},
    {"allow-outside", 0, HR_OPT_FLAG, NULL, AT(allow_outside),
     "JSONL: embedded files may lie anywhere"},
    HR_OPT_END,
};

static const struct hr_exit_note exits[] = {
    {HR_EXIT_FOUND, "a record was rejected under --strict; there is no dataset"},
    {HR_EXIT_FAILED, "failed underway (disk full, ...); --resume goes on"},
    {0, NULL},
};

const struct hr_command hr_command_pack = {
    .name = "pack",
    .summary = "make a dataset from folders, JSONL or tar files",
    .description =
        "Makes the dataset DST from SRC. What SRC is, is guessed from what it holds:\n"
        "  folder  pictures, recordings, clips, arrays or texts; the folder directly below SRC is\n"
        "          the label\n"
        "  pairs   files with the same stem make one record: x.jpg, x.txt, x.json, x.npy, x.cls\n"
        "  jsonl   a record a line, a field a key; \"@path\" embeds a file\n"
        "  wds     WebDataset tar files\n\n"
        "What a file is, its content says, not its name. Records that cannot be used are listed in "
        "DST/rejects.jsonl with the reason, and counted. The result does not depend on the number "
        "of threads: the same input and options give the same bytes.\n\n"
        "A pack that was stopped leaves finished shards and a journal, and nothing that would be "
        "taken for a dataset; the same command with --resume goes on.\n\n"
        "With --append the records of SRC come behind those of DST, which keep their numbers; SRC "
        "must have the same fields. The version before stays as it is, by its digest.",
    .args = args,
    .opts = opts,
    .example = "  headrace pack photos/ photos.hrd\n"
               "  headrace pack captions.jsonl captions.hrd --embed image --root .\n"
               "  headrace pack more-photos/ photos.hrd --append",
    .exits = exits,
    .see_also = "inspect verify versions synth",
    .has_json = true,
    .run = hr_tool_pack,
};

struct pack {
    struct hr_pack_options options;
    struct hr_source *source;
    struct hr_append *append;
    struct hr_output output; /* under --dry-run only its tally is used */
    struct hr_progress progress;
    const char *folder;
    uint64_t start_ns, done, bytes;
    int warned;
    bool strict_end;
};

enum { MAX_WARNINGS = 10 };

static int fail_before(const struct hr_error *err)
{
    hr_log_error(HR_LOG_ERROR, "", err);
    return err->code == HR_E_NOMEM || err->code == HR_E_INTERNAL ? HR_EXIT_FAILED : HR_EXIT_USAGE;
}

/* --compress FIELD=CODEC into the schema. */
static int set_codecs(struct pack *p)
{
    static const char *const codecs[] = {"none", "lz4", "lz4hc"};
    struct hr_schema *schema = &p->source->schema;

    for (int i = 0; i < p->options.compress.count; i++) {
        const char *word = p->options.compress.items[i], *equals = strchr(word, '=');
        char name[HR_NAME_BYTES];
        size_t codec = 0;
        if (!equals)
            return hr_cli_wrong(&hr_command_pack, "--compress needs FIELD=CODEC, not '%s'", word);
        snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
        while (codec < HR_ARRAY_SIZE(codecs) && strcmp(codecs[codec], equals + 1) != 0)
            codec++;
        if (codec == HR_ARRAY_SIZE(codecs))
            return hr_cli_wrong(&hr_command_pack, "--compress %s: one of none, lz4, lz4hc", word);
        int field = hr_schema_find(schema, name);
        if (field < 0)
            return hr_cli_wrong(&hr_command_pack, "--compress %s: there is no field '%s'", word, name);
        if (hr_field_type_is_scalar(schema->fields[field].type))
            return hr_cli_wrong(&hr_command_pack, "--compress %s: scalars are in the index", word);
        schema->fields[field].codec = (enum hr_codec)codec;
    }
    return HR_CLI_RUN;
}

static const char *rejects_name(const struct pack *p)
{
    return p->output.rejects_name[0] ? p->output.rejects_name : HR_REJECTS_NAME;
}

static void warn_reject(struct pack *p, const char *key, const struct hr_error *why)
{
    p->warned++;
    hr_progress_clear(&p->progress);
    if (p->warned <= MAX_WARNINGS)
        hr_log_error(HR_LOG_WARN, "rejected", why);
    else if (p->warned == MAX_WARNINGS + 1)
        hr_log(HR_LOG_WARN, "more records are rejected; %s lists all", rejects_name(p));
    hr_log(HR_LOG_DEBUG, "rejected: %s", key);
}

/* Names of files are any bytes; what is printed and listed is text. */
static struct hr_error printable(const struct hr_error *why)
{
    struct hr_error clean = *why;

    hr_kind_printable(why->file, clean.file, sizeof(clean.file));
    hr_kind_printable(why->text, clean.text, sizeof(clean.text));
    return clean;
}

static int take(void *user, const char *key, const struct hr_pack_record *record,
                const struct hr_error *raw, struct hr_error *err)
{
    struct pack *p = user;
    struct hr_tally *tally = &p->output.tally;
    struct hr_error why = HR_ERROR_INIT;

    p->done++;
    if (record) {
        p->bytes += record->bytes;
    } else {
        why = printable(raw);
        warn_reject(p, key, &why);
    }
    if (p->options.dry_run) {
        tally->found++;
        tally->packed += record != NULL;
        tally->rejected += record == NULL;
        tally->renamed += record ? record->renamed : 0;
        if (record)
            hr_jpeg_counts_add(&tally->jpeg, &record->jpeg);
        tally->resized += record ? record->resized : 0;
        tally->unresized += record ? record->unresized : 0;
        tally->raw += record ? record->raw : 0;
        tally->png_repacked += record ? record->png_repacked : 0;
        tally->png_kept += record ? record->png_kept : 0;
        tally->bytes_in += record ? record->bytes : 0;
        return 0;
    }
    if (record)
        return hr_output_add(&p->output, record, err);
    int ret = hr_output_reject(&p->output, key, &why, err);
    if (ret == 0 && p->options.strict) {
        p->strict_end = true;
        ret = hr_fail(err, HR_E_CANCELLED, "a record was rejected under --strict");
    }
    return ret;
}

static bool tick(void *user)
{
    struct pack *p = user;

    hr_progress_update(&p->progress, p->done, p->bytes);
    return !hr_interrupt_signal();
}

static int run_driver(struct pack *p, struct hr_error *err)
{
    struct hr_driver_sink sink = {take, tick, p};
    uint64_t first = p->output.tally.found;
    int jobs = p->options.jobs ? (int)p->options.jobs : hr_cpu_quota();

    p->done = first;
    p->start_ns = hr_clock_ns();
    hr_progress_init(&p->progress, "records", p->source->record_count);
    int ret = hr_driver_run(p->source, first, jobs, &sink, err);
    hr_progress_clear(&p->progress);
    return ret;
}

static const struct hr_schema *schema_of(const struct pack *p)
{
    return p->append ? &p->append->schema : &p->source->schema;
}

static void add_jpeg_json(struct hr_buf *out, const struct hr_jpeg_counts *jpeg)
{
    hr_json_uint(out, "jpeg_repacked", jpeg->repacked);
    hr_json_uint(out, "jpeg_repacked_progressive", jpeg->progressive);
    hr_json_uint(out, "jpeg_repacked_cmyk", jpeg->cmyk);
    hr_json_uint(out, "jpeg_repacked_from_bytes", jpeg->file_bytes);
    hr_json_uint(out, "jpeg_repacked_to_bytes", jpeg->stored_bytes);
    hr_json_uint(out, "jpeg_kept", hr_jpeg_counts_kept(jpeg));
    hr_json_open(out, "jpeg_kept_because", '{');
    for (int i = 0; i < HR_RJPEG_REFUSALS; i++)
        hr_json_uint(out, hr_rjpeg_refusal_name(i), jpeg->kept[i]);
    hr_json_close(out, '}');
}

/* "21 progressive, 2 cmyk; " */
static void add_kinds(struct hr_buf *out, const struct hr_jpeg_counts *jpeg)
{
    char a[32], b[32];

    if (jpeg->progressive)
        hr_buf_addf(out, "%s progressive%s", hr_cli_format_count(jpeg->progressive, a), jpeg->cmyk ? ", " : "; ");
    if (jpeg->cmyk)
        hr_buf_addf(out, "%s cmyk; ", hr_cli_format_count(jpeg->cmyk, b));
}

/* "640 JPEG pictures repacked (21 progressive, 2 cmyk; 54.9 MB -> 59.7 MB, 1.087x), 3 kept as they are (2 damaged, 1
 * other)" */
static void add_jpeg_text(struct hr_buf *out, const struct hr_jpeg_counts *jpeg)
{
    uint64_t kept = hr_jpeg_counts_kept(jpeg);
    const char *between = " (";
    char a[32], b[32];

    if (!jpeg->repacked && !kept)
        return;
    hr_buf_addf(out, "%s JPEG picture%s repacked", hr_cli_format_count(jpeg->repacked, a),
                jpeg->repacked == 1 ? "" : "s");
    if (jpeg->repacked) {
        hr_buf_add_str(out, " (");
        add_kinds(out, jpeg);
        hr_buf_addf(out, "%s -> %s, %.3fx)", hr_cli_format_bytes(jpeg->file_bytes, a),
                    hr_cli_format_bytes(jpeg->stored_bytes, b), (double)jpeg->stored_bytes / (double)jpeg->file_bytes);
    }
    hr_buf_addf(out, ", %s kept as %s", hr_cli_format_count(kept, a), kept == 1 ? "it is" : "they are");
    for (int i = 0; i < HR_RJPEG_REFUSALS; i++)
        if (jpeg->kept[i]) {
            hr_buf_addf(out, "%s%s %s", between, hr_cli_format_count(jpeg->kept[i], a), hr_rjpeg_refusal_name(i));
            between = ", ";
        }
    hr_buf_add_str(out, kept ? ")\n" : "\n");
}

static int report_json(const struct pack *p, double seconds)
{
    const struct hr_tally *t = &p->output.tally;
    struct hr_buf out = {0};
    char hex[HR_DIGEST_HEX_BYTES];

    hr_json_open(&out, NULL, '{');
    hr_json_uint(&out, "records", t->packed);
    hr_json_uint(&out, "rejected", t->rejected);
    hr_json_uint(&out, "found", t->found);
    hr_json_uint(&out, "left_out", p->source->left_out);
    hr_json_uint(&out, "renamed", t->renamed);
    add_jpeg_json(&out, &t->jpeg);
    hr_json_uint(&out, "png_repacked", t->png_repacked);
    hr_json_uint(&out, "png_kept", t->png_kept);
    hr_json_uint(&out, "resized", t->resized);
    hr_json_uint(&out, "not_resized", t->unresized);
    hr_json_uint(&out, "raw", t->raw);
    hr_json_uint(&out, "classes", schema_of(p)->class_count);
    hr_json_uint(&out, "bytes_in", t->bytes_in);
    hr_json_uint(&out, "bytes_out", p->output.bytes_out);
    hr_json_uint(&out, "shards", p->output.shard_count);
    if (p->output.complete)
        hr_json_str(&out, "digest", hr_digest_hex(&p->output.digest, hex));
    else
        hr_json_null(&out, "digest"); /* no dataset was made */
    if (p->append && p->output.complete) {
        hr_json_str(&out, "previous", hr_digest_hex(&p->output.previous, hex));
        hr_json_uint(&out, "total_records", p->output.total_records);
        hr_json_uint(&out, "total_shards", p->output.total_shards);
    }
    hr_json_double(&out, "seconds", seconds);
    hr_json_close(&out, '}');
    hr_buf_add_str(&out, "\n");
    return hr_cli_print(&out);
}

static int report_text(const struct pack *p, double seconds)
{
    const struct hr_tally *t = &p->output.tally;
    const struct hr_source *source = p->source;
    struct hr_buf out = {0};
    char a[32], b[32], hex[HR_DIGEST_HEX_BYTES];

    hr_buf_addf(&out, "%s %s of %s records", p->options.dry_run ? "would pack" : "packed",
                hr_cli_format_count(t->packed, a), hr_cli_format_count(t->found, b));
    hr_buf_addf(&out, ", %s rejected", hr_cli_format_count(t->rejected, a));
    if (schema_of(p)->class_count)
        hr_buf_addf(&out, ", %u class%s", schema_of(p)->class_count,
                    schema_of(p)->class_count == 1 ? "" : "es");
    hr_buf_addf(&out, ", %s in", hr_cli_format_bytes(t->bytes_in, a));
    if (!p->options.dry_run)
        hr_buf_addf(&out, ", %s out in %u shard%s", hr_cli_format_bytes(p->output.bytes_out, a),
                    p->output.shard_count, p->output.shard_count == 1 ? "" : "s");
    if (seconds > 0)
        hr_buf_addf(&out, ", %.2f s (%s records/s, %s/s)", seconds,
                    hr_cli_format_count((uint64_t)((double)p->done / seconds), a),
                    hr_cli_format_bytes((uint64_t)((double)p->bytes / seconds), b));
    hr_buf_add_str(&out, "\n");
    add_jpeg_text(&out, &t->jpeg);
    if (t->png_repacked || t->png_kept)
        hr_buf_addf(&out, "%s PNG picture%s repacked, %s kept as %s\n", hr_cli_format_count(t->png_repacked, a),
                    t->png_repacked == 1 ? "" : "s", hr_cli_format_count(t->png_kept, b),
                    t->png_kept == 1 ? "it is" : "they are");
    if (t->resized)
        hr_buf_addf(&out, "%s picture%s made smaller\n", hr_cli_format_count(t->resized, a),
                    t->resized == 1 ? "" : "s");
    if (t->unresized)
        hr_buf_addf(&out, "%s larger pictures keep their size: masks, palettes, gray or deep lossless ones\n",
                    hr_cli_format_count(t->unresized, a));
    if (t->raw)
        hr_buf_addf(&out, "%s picture%s stored as pixels\n", hr_cli_format_count(t->raw, a), t->raw == 1 ? "" : "s");
    if (t->renamed)
        hr_buf_addf(&out, "files that are not what their names say (their content counted): %s\n",
                    hr_cli_format_count(t->renamed, a));
    if (source->left_out)
        hr_buf_addf(&out, "other files, left out (-v lists them): %s\n",
                    hr_cli_format_count(source->left_out, a));
    if (t->rejected && !p->options.dry_run)
        hr_buf_addf(&out, "rejected records: %s/%s\n", p->folder, rejects_name(p));
    hr_buf_add_str(&out, "fields:");
    for (uint32_t i = 0; i < source->schema.field_count; i++)
        hr_buf_addf(&out, " %s (%s)", source->schema.fields[i].name,
                    hr_field_type_name(source->schema.fields[i].type));
    hr_buf_add_str(&out, "\n");
    if (!p->options.dry_run && p->append)
        hr_buf_addf(&out, "the dataset has %s records in %u shards now\n",
                    hr_cli_format_count(p->output.total_records, a), p->output.total_shards);
    if (!p->options.dry_run)
        hr_buf_addf(&out, "digest: %s\n", hr_digest_hex(&p->output.digest, hex));
    if (!p->options.dry_run && p->append)
        hr_buf_addf(&out, "before: %s\n", hr_digest_hex(&p->output.previous, hex));
    return hr_cli_print(&out);
}

static int report(const struct pack *p)
{
    double seconds = p->start_ns ? (double)(hr_clock_ns() - p->start_ns) / 1e9 : 0;

    if (p->options.cli.json)
        return report_json(p, seconds);
    return hr_log_get_level() >= HR_LOG_INFO ? report_text(p, seconds) : HR_EXIT_DONE;
}

static void say_resume(const struct pack *p)
{
    if (p->output.journal.count)
        hr_log(HR_LOG_INFO, "%u finished shards are kept; the same command with --resume goes on",
               p->output.journal.count);
}

static int fail_underway(struct pack *p, struct hr_error *err)
{
    if (hr_interrupt_signal()) {
        hr_log(HR_LOG_ERROR, "interrupted after %" PRIu64 " of %" PRIu64 " records", p->done,
               p->source->record_count);
        say_resume(p);
        return hr_interrupt_exit_code();
    }
    if (p->strict_end) {
        hr_log(HR_LOG_ERROR, "ended by --strict: a record was rejected (%s/%s); no %s was made",
               p->folder, rejects_name(p), p->append ? "version" : "dataset");
        if (p->options.cli.json)
            report_json(p, (double)(hr_clock_ns() - p->start_ns) / 1e9);
        return HR_EXIT_FOUND;
    }
    if (err->code == HR_E_NO_SPACE || err->sys_errno == EFBIG)
        hr_error_hint(err, "make room, then run the same command with --resume");
    hr_log_error(HR_LOG_ERROR, "", err);
    say_resume(p);
    return HR_EXIT_FAILED;
}

static int dry_run(struct pack *p, struct hr_error *err)
{
    int ret = run_driver(p, err);

    if (ret < 0)
        return fail_underway(p, err);
    int code = report(p);
    return code == HR_EXIT_DONE && p->options.strict && p->output.tally.rejected ? HR_EXIT_FOUND
                                                                                 : code;
}

static int pack_all(struct pack *p, struct hr_error *err)
{
    int ret = hr_output_begin(&p->output, p->folder, p->source, p->append, &p->options, err);
    if (ret < 0)
        return fail_before(err);
    if (p->output.complete) {
        hr_log(HR_LOG_INFO, "%s is complete already; nothing to do", p->folder);
        return report(p);
    }
    if (p->output.tally.found)
        hr_log(HR_LOG_INFO, "going on after %" PRIu64 " records in %u finished shards",
               p->output.tally.found, p->output.journal.count);
    ret = run_driver(p, err);
    if (ret == 0 && p->output.tally.packed == 0) {
        hr_log(HR_LOG_ERROR, "every record was rejected (%s/%s); no %s was made", p->folder,
               rejects_name(p), p->append ? "version" : "dataset");
        return HR_EXIT_FAILED;
    }
    if (ret == 0)
        ret = hr_output_commit(&p->output, err);
    return ret < 0 ? fail_underway(p, err) : report(p);
}

/* Every tar of a list stays open: as many as the system lets us have. */
static void raise_open_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* What goes with what. */
static int check_options(const struct hr_pack_options *o)
{
    bool resizes = o->resize_short || o->max_side, raw = o->store == HR_PACK_STORE_RAW;

    if (o->resize_short && o->max_side)
        return hr_cli_wrong(&hr_command_pack, "--resize-short and --max-side: one of them; each fixes the size");
    if (o->quality && !resizes)
        return hr_cli_wrong(&hr_command_pack, "--quality is of the files that --resize-short or --max-side make; "
                                              "without them, files stay as they are");
    if (o->quality && raw)
        return hr_cli_wrong(&hr_command_pack, "--quality and --store raw: pixels are stored without loss");
    return HR_CLI_RUN;
}

static struct hr_reduction reduction_of(const struct hr_pack_options *o)
{
    return (struct hr_reduction){.short_side = (uint32_t)o->resize_short,
                                 .max_side = (uint32_t)o->max_side,
                                 .quality = o->quality ? (uint32_t)o->quality : HR_PACK_QUALITY,
                                 .raw = o->store == HR_PACK_STORE_RAW};
}

static int run(struct pack *p, struct hr_error *err)
{
    int code = check_options(&p->options);
    int count = p->options.cli.arg_count - 1;

    if (code != HR_CLI_RUN)
        return code;
    p->folder = p->options.cli.args[count];
    int ret = hr_source_open(&p->options, p->options.cli.args, count, &p->source, err);
    if (ret < 0)
        return fail_before(err);
    if (p->options.append && p->options.compress.count)
        return hr_cli_wrong(&hr_command_pack, "--compress and --append: the dataset has said how "
                                              "its fields are compressed");
    code = set_codecs(p);
    if (code != HR_CLI_RUN)
        return code;
    if (hr_schema_check(&p->source->schema, err) < 0)
        return fail_before(err);
    if (p->options.append && hr_append_open(p->folder, &p->source->schema, &p->append, err) < 0)
        return fail_before(err);
    p->source->intake = (struct hr_intake){&p->source->schema, p->options.verify_media,
                                           p->options.jpeg == HR_PACK_JPEG_REPACK,
                                           p->options.png == HR_PACK_PNG_REPACK, reduction_of(&p->options)};
    /* Until here nothing was written, and Ctrl-C ends a long listing at once. */
    hr_interrupt_install();
    return p->options.dry_run ? dry_run(p, err) : pack_all(p, err);
}

int hr_tool_pack(int argc, char **argv)
{
    struct hr_error err = HR_ERROR_INIT;
    static struct pack p; /* too large for a stack */

    int code = hr_cli_parse(&hr_command_pack, argc, argv, &p.options, sizeof(p.options));
    if (code != HR_CLI_RUN)
        return code;
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of that write */
    raise_open_files();
    p.output.journal.fd = p.output.rejects_fd = -1;
    code = run(&p, &err);
    hr_output_end(&p.output);
    hr_append_close(p.append);
    hr_source_close(p.source);
    return code;
}
