/* headrace order: which records each batch holds, from integers alone. Datasets are opened for their
 * record counts and filters only, and not even that with --records. */
#include "tools/headrace.h"

#include <inttypes.h>
#include <string.h>

#include "conf/conf.h"
#include "order/order.h"
#include "pipeline/sources.h"
#include "tools/job.h"
#include "tools/order/find.h"

/* Records named in one go; a line is printed piece by piece. */
enum { RUN = 1024 };

struct options {
    struct hr_cli cli;
    const char *epoch, *step, *count, *records, *find; /* text: they may need all of 63 bits */
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
    {"find", 'f', HR_OPT_STR, "RECORD", offsetof(struct options, find),
     "print the next COUNT batches that hold this record: NUMBER, or SOURCE:NUMBER"},
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
        "once.\n\n--find goes the other way, from a record to the batches that deliver it from the given "
        "one on: {\"record\",\"epoch\",\"step\",\"rank\",\"sample\"}, sample being its place in the "
        "rank's share; exit code 1 when there is none.\n\nWith --rank and --world, the share of one rank. "
        "Batches past the pipeline file's 'epochs' are not printed.",
    .args = args,
    .opts = opts,
    .example = "  headrace order train.yaml --epoch 3 --step 100 --count 2 --rank 0 --world 8\n"
               "  headrace order train.yaml --records 10000000000 --epoch 7\n"
               "  headrace order train.yaml --find 4711 --count 3 --world 8",
    .see_also = "check",
    .has_json = true,
    .run = hr_tool_order,
};

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
        if (!hr_cli_parse_count(one, &counts[(*count)++]))
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

/* What the options say in text. */
struct request {
    struct hr_cursor cursor;
    uint64_t count;
    struct hr_order_wanted wanted; /* with --find */
    uint64_t records[HR_ORDER_MAX_SOURCES]; /* one count for each source, or one for all */
    uint32_t record_counts;
};

/* Opens what the counts come from. */
static int open_order(const struct options *o, struct request *r, struct hr_sources *sources,
                      struct hr_order *order, uint64_t *epochs, struct hr_error *err)
{
    struct hr_conf conf;
    uint32_t each = 1;

    int ret = hr_job_load_conf(&conf, o->cli.args[0], err);
    if (ret < 0)
        return ret;
    for (; r->record_counts == 1 && (int)each < conf.dataset_count && each < HR_ORDER_MAX_SOURCES; each++)
        r->records[each] = r->records[0];
    if (r->record_counts == 1)
        r->record_counts = each;
    ret = o->records ? hr_sources_assume(&conf, r->records, r->record_counts, sources, err)
                     : hr_sources_open(&conf, sources, err);
    if (ret == 0)
        ret = hr_sources_order(&conf, sources, order, err);
    *epochs = (uint64_t)conf.epochs;
    hr_conf_finish(&conf);
    return ret;
}

static int run(const struct options *o, struct request *r)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_sources sources = {0};
    struct hr_order order = {0};
    uint64_t epochs = 0;
    int code;

    int ret = open_order(o, r, &sources, &order, &epochs, &err);
    if (ret == 0)
        ret = hr_order_check_world(&order, (uint32_t)o->rank, (uint32_t)o->world, &err);
    if (ret == 0)
        ret = hr_order_check_cursor(&order, r->cursor, &err);
    if (ret == 0 && o->find)
        ret = hr_order_check_wanted(&order, &r->wanted, &err);
    if (ret == HR_E_STATE)
        err.code = HR_E_USAGE; /* the step came from the command line */
    if (ret < 0)
        code = hr_job_failed(&err);
    else if (o->find)
        code = hr_order_print_found(&order, &r->wanted, r->cursor, r->count, epochs, (uint32_t)o->world);
    else
        code = print_batches(&order, r->cursor, r->count, epochs, o);
    hr_order_finish(&order);
    hr_sources_finish(&sources);
    return code;
}

int hr_tool_order(int argc, char **argv)
{
    struct request r = {0};
    struct options o;

    int code = hr_cli_parse(&hr_command_order, argc, argv, &o, sizeof(o));
    if (code != HR_CLI_RUN)
        return code;
    if (!hr_cli_parse_count(o.epoch, &r.cursor.epoch))
        return hr_cli_wrong(&hr_command_order, "--epoch '%s' is not a count", o.epoch);
    if (!hr_cli_parse_count(o.step, &r.cursor.step))
        return hr_cli_wrong(&hr_command_order, "--step '%s' is not a count", o.step);
    if (!hr_cli_parse_count(o.count, &r.count))
        return hr_cli_wrong(&hr_command_order, "--count '%s' is not a count", o.count);
    if (o.records && !parse_counts(o.records, r.records, &r.record_counts))
        return hr_cli_wrong(&hr_command_order, "--records '%s' is not a count", o.records);
    if (o.find && !hr_order_parse_wanted(o.find, &r.wanted))
        return hr_cli_wrong(&hr_command_order, "--find '%s' is no record: NUMBER, or SOURCE:NUMBER", o.find);
    if (o.find && o.rank != 0)
        return hr_cli_wrong(&hr_command_order, "--find looks at all ranks and says which; leave --rank out");
    return run(&o, &r);
}
