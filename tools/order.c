/* headrace order: which records each batch holds, from integers alone. Datasets are opened for their
 * record counts and filters only, and not even that with --records. */
#include "tools/headrace.h"

#include <inttypes.h>
#include <string.h>

#include "conf/conf.h"
#include "order/order.h"
#include "pipeline/sources.h"
#include "tools/job.h"

/* Records named in one go; a line is printed piece by piece. */
enum { RUN = 1024 };

struct options {
    struct hr_cli cli;
    const char *epoch, *step, *count, *records; /* text: they may need all of 63 bits */
    int64_t rank, world;
};

static const struct hr_cli_arg args[] = {
    {"CONF", "pipeline file, or - for standard input", .word = HR_WORD_FILE},
    {NULL},
};

static const struct hr_opt opts[] = {
    {"epoch", 'e', HR_OPT_STR, "E", offsetof(struct options, epoch), "epoch of the first batch",
     .fallback = "0"},
    {"step", 's', HR_OPT_STR, "S", offsetof(struct options, step), "its step in that epoch",
     .fallback = "0"},
    {"count", 'n', HR_OPT_STR, "N", offsetof(struct options, count),
     "batches to print; they go on into the next epochs", .fallback = "1"},
    {"rank", 'R', HR_OPT_INT, "R", offsetof(struct options, rank), "the share of this rank",
     .fallback = "0", .min = 0, .max = 4294967294},
    {"world", 'W', HR_OPT_INT, "W", offsetof(struct options, world), "number of ranks",
     .fallback = "1", .min = 1, .max = 4294967295},
    {"records", 0, HR_OPT_STR, "N", offsetof(struct options, records),
     "plan for so many records each, or N,N..., without datasets"},
    HR_OPT_END,
};

const struct hr_command hr_command_order = {
    .name = "order",
    .summary = "print which records each batch holds",
    .description =
        "Prints one line of JSON for each batch: {\"epoch\",\"step\",\"rank\",\"records\"}, where a record is "
        "SOURCE:RECORD, or null for padding. The order is computed from the pipeline file's seed, batch, "
        "order and last and from the number of records; no data is read, so any step of any epoch comes at "
        "once.\n\nWith --rank and --world, the share of one rank. Batches past the pipeline file's 'epochs' "
        "are not printed.",
    .args = args,
    .opts = opts,
    .example = "  headrace order train.yaml --epoch 3 --step 100 --count 2 --rank 0 --world 8\n"
               "  headrace order train.yaml --records 10000000000 --epoch 7",
    .see_also = "check",
    .has_json = true,
    .run = hr_tool_order,
};

static bool parse_count(const char *text, uint64_t *out)
{
    uint64_t v = 0;

    for (const char *p = text; *p; p++)
        if (*p < '0' || *p > '9' || !hr_mul_u64(v, 10, &v) ||
            !hr_add_u64(v, (uint64_t)(*p - '0'), &v))
            return false;
    *out = v;
    return text[0] != 0;
}

/* "N" or "N,N": one count for each source. */
static bool parse_counts(const char *text, uint64_t *counts, uint32_t *count)
{
    char one[32];

    for (*count = 0; *count < HR_ORDER_MAX_SOURCES; text++) {
        size_t bytes = strcspn(text, ",");
        if (bytes >= sizeof(one))
            return false;
        memcpy(one, text, bytes);
        one[bytes] = 0;
        if (!parse_count(one, &counts[(*count)++]))
            return false;
        text += bytes;
        if (!*text)
            return true;
    }
    return false;
}

static void add_records(struct hr_buf *out, const struct hr_order *order, struct hr_cursor cursor,
                        struct hr_share share)
{
    struct hr_place places[RUN];

    for (uint32_t done = 0; done < share.count; done += RUN) {
        uint32_t run = share.count - done < RUN ? share.count - done : RUN;
        hr_order_places(order, cursor, share.first + done, run, places);
        for (uint32_t i = 0; i < run; i++) {
            hr_buf_add(out, ",", done + i ? 1 : 0);
            if (places[i].valid)
                hr_buf_addf(out, "\"%" PRIu32 ":%" PRIu64 "\"", places[i].source, places[i].record);
            else
                hr_buf_add_str(out, "null");
        }
    }
}

static int print_batches(const struct hr_order *order, struct hr_cursor cursor, uint64_t count,
                         uint64_t epochs, const struct options *o)
{
    for (; count && (epochs == 0 || cursor.epoch < epochs); count--) {
        struct hr_buf out = {0};
        hr_buf_addf(&out, "{\"epoch\":%" PRIu64 ",\"step\":%" PRIu64 ",\"rank\":%" PRId64
                          ",\"records\":[", cursor.epoch, cursor.step, o->rank);
        add_records(&out, order, cursor,
                    hr_order_share(order, cursor, (uint32_t)o->rank, (uint32_t)o->world));
        hr_buf_add_str(&out, "]}\n");
        int code = hr_cli_print(&out);
        if (code != HR_EXIT_DONE)
            return code;
        hr_order_next(order, &cursor);
    }
    return HR_EXIT_DONE;
}

/* A file that is not there is a wrong argument: nothing was done. */
static int failed(const struct hr_error *err)
{
    int code = hr_cli_failed("order", err);

    return err->code == HR_E_NOT_FOUND ? HR_EXIT_USAGE : code;
}

/* records: one count for each source, or one for all. */
static int run(const struct options *o, struct hr_cursor cursor, uint64_t count, uint64_t *records,
               uint32_t record_counts)
{
    uint32_t each = 1;
    struct hr_error err = HR_ERROR_INIT;
    struct hr_sources sources = {0};
    struct hr_order order = {0};
    struct hr_conf conf;

    int ret = hr_job_load_conf(&conf, o->cli.args[0], &err);
    if (ret < 0)
        return failed(&err);
    for (; record_counts == 1 && (int)each < conf.dataset_count && each < HR_ORDER_MAX_SOURCES; each++)
        records[each] = records[0];
    if (record_counts == 1)
        record_counts = each;
    ret = o->records ? hr_sources_assume(&conf, records, record_counts, &sources, &err)
                     : hr_sources_open(&conf, &sources, &err);
    if (ret == 0)
        ret = hr_sources_order(&conf, &sources, &order, &err);
    uint64_t epochs = (uint64_t)conf.epochs;
    hr_conf_finish(&conf);
    if (ret == 0)
        ret = hr_order_check_world(&order, (uint32_t)o->rank, (uint32_t)o->world, &err);
    if (ret == 0)
        ret = hr_order_check_cursor(&order, cursor, &err);
    if (ret == HR_E_STATE)
        err.code = HR_E_USAGE; /* the step came from the command line */
    int code = ret < 0 ? failed(&err) : print_batches(&order, cursor, count, epochs, o);
    hr_order_finish(&order);
    hr_sources_finish(&sources);
    return code;
}

int hr_tool_order(int argc, char **argv)
{
    uint64_t count, records[HR_ORDER_MAX_SOURCES];
    uint32_t record_counts = 0;
    struct hr_cursor cursor;
    struct options o;

    int code = hr_cli_parse(&hr_command_order, argc, argv, &o, sizeof(o));
    if (code != HR_CLI_RUN)
        return code;
    if (!parse_count(o.epoch, &cursor.epoch))
        return hr_cli_wrong(&hr_command_order, "--epoch '%s' is not a count", o.epoch);
    if (!parse_count(o.step, &cursor.step))
        return hr_cli_wrong(&hr_command_order, "--step '%s' is not a count", o.step);
    if (!parse_count(o.count, &count))
        return hr_cli_wrong(&hr_command_order, "--count '%s' is not a count", o.count);
    if (o.records && !parse_counts(o.records, records, &record_counts))
        return hr_cli_wrong(&hr_command_order, "--records '%s' is not a count", o.records);
    return run(&o, cursor, count, records, record_counts);
}
