/* headrace check: parses a pipeline file, plans it against its dataset, and says what a trainer would
 * get. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "decoders/ops/follow.h"
#include "pipeline/blend.h"
#include "pipeline/slot_layout.h"
#include "tools/headrace.h"
#include "tools/job.h"

struct options {
    struct hr_cli cli;
    int64_t world;
};

static const struct hr_cli_arg args[] = {
    {"CONF", "pipeline file, or - for standard input", .word = HR_WORD_FILE}, {0}};

static const struct hr_opt opts[] = {
    {"world", 'W', HR_OPT_INT, "N", offsetof(struct options, world), "trainer processes in all",
     .fallback = "1", .min = 1, .max = 1 << 20},
    HR_OPT_END};

const struct hr_command hr_command_check = {
    .name = "check",
    .summary = "check a pipeline file and show what it produces",
    .description = "Parses CONF, opens its datasets, evaluates its filters, and plans all. Prints what is "
                   "kept of each dataset and its part of the mix, the arrays of a batch with "
                   "their types and shapes, the ops of media and 'blend' with all their defaults, the memory that "
                   "the slots take, and the plan's digest. An error names the file, line and column "
                   "and what would fix it.",
    .args = args,
    .opts = opts,
    .example = "  headrace check train.yaml",
    .see_also = "init serve bench",
    .has_json = true,
    .run = hr_tool_check,
};

static void json_output(struct hr_buf *b, const struct hr_plan_output *o, uint32_t count)
{
    hr_json_open(b, NULL, '{');
    hr_json_str(b, "name", o->name);
    hr_json_str(b, "type", hr_field_type_name(o->field_type));
    hr_json_str(b, "dtype", hr_dtype_name(o->dtype));
    if (o->layout != HR_LAYOUT_NONE)
        hr_json_str(b, "layout", hr_layout_name(o->layout));
    hr_json_bool(b, "ragged", o->ragged);
    hr_json_open(b, "shape", '[');
    hr_json_uint(b, NULL, count);
    for (uint32_t i = 0; i < o->dims; i++) {
        if (o->ragged)
            hr_json_null(b, NULL);
        else
            hr_json_uint(b, NULL, o->shape[i]);
    }
    hr_json_close(b, ']');
    hr_json_uint(b, "max_sample_bytes", o->sample_bytes);
    hr_json_close(b, '}');
}

/* In an epoch, on average of the source's share. */
static double epoch_passes(const struct hr_plan *plan, uint32_t source)
{
    uint64_t total, share = hr_order_share_of(&plan->order, source, &total);

    return (double)plan->order.epoch_samples * ((double)share / (double)total) /
           (double)plan->sources.items[source].kept;
}

static void json_sources(struct hr_buf *b, const struct hr_plan *plan)
{
    hr_json_open(b, "sources", '[');
    for (uint32_t i = 0; i < plan->sources.count; i++) {
        const struct hr_source *source = &plan->sources.items[i];
        uint64_t total, share = hr_order_share_of(&plan->order, i, &total);
        hr_json_open(b, NULL, '{');
        hr_json_str(b, "dataset", source->path);
        hr_json_uint(b, "records", hr_dataset_record_count(source->dataset));
        hr_json_uint(b, "kept", source->kept);
        hr_json_double(b, "share", (double)share / (double)total);
        hr_json_double(b, "passes_per_epoch", epoch_passes(plan, i));
        hr_json_double(b, "shuffle_distance", hr_order_distance(&plan->order, i));
        hr_json_close(b, '}');
    }
    hr_json_close(b, ']');
}

/* What media fields and those that follow them go through, with every default filled in. */
static void describe_field(struct hr_buf *b, const struct hr_plan *plan, const struct hr_plan_field *f)
{
    if (f->leader >= 0)
        hr_buf_addf(b, "follow=%s ", plan->fields[f->leader].name);
    if (f->chain)
        hr_buf_add_str(b, hr_chain_describe(f->chain));
    if (f->follow)
        hr_follow_describe(f->follow, b);
}

static void print_json(struct hr_buf *b, const struct hr_plan *plan,
                       const struct hr_slot_layout *layout, int64_t world)
{
    char hex[HR_DIGEST_HEX_BYTES];
    struct hr_buf text = {0};

    hr_json_open(b, NULL, '{');
    hr_json_str(b, "plan", hr_digest_hex(&plan->digest, hex));
    hr_json_str(b, "dataset", hr_digest_hex(&plan->sources.digest, hex));
    hr_json_uint(b, "records", plan->sources.kept);
    hr_json_uint(b, "epoch_samples", plan->order.epoch_samples);
    json_sources(b, plan);
    hr_json_uint(b, "batch", plan->order.spec.batch);
    hr_json_int(b, "world", world);
    hr_json_uint(b, "batch_per_rank", layout->capacity);
    hr_json_uint(b, "steps_per_epoch", hr_order_steps(&plan->order, 0));
    hr_json_uint(b, "slots", plan->slot_count);
    hr_json_uint(b, "slot_bytes", layout->slot_bytes);
    hr_json_uint(b, "ring_bytes", layout->slot_bytes * plan->slot_count);
    hr_json_open(b, "fields", '[');
    for (uint32_t i = 0; i < plan->output_count; i++)
        json_output(b, &plan->outputs[i], layout->capacity);
    hr_json_close(b, ']');
    hr_json_open(b, "chains", '{');
    for (uint32_t i = 0; i < plan->field_count; i++) {
        hr_buf_reset(&text);
        describe_field(&text, plan, &plan->fields[i]);
        if (text.used)
            hr_json_str(b, plan->fields[i].name, hr_buf_str(&text));
    }
    hr_buf_finish(&text);
    hr_json_close(b, '}');
    if (plan->blend)
        hr_json_str(b, "blend", plan->blend->description);
    hr_json_close(b, '}');
    hr_buf_add_str(b, "\n");
}

static void print_shape(struct hr_buf *b, const struct hr_plan_output *o, uint32_t count)
{
    hr_buf_addf(b, "[%u", count);
    for (uint32_t i = 0; i < o->dims; i++) {
        if (o->ragged)
            hr_buf_add_str(b, ", *");
        else
            hr_buf_addf(b, ", %" PRIu64, o->shape[i]);
    }
    hr_buf_add_str(b, "]");
}

/* Only where there is something to say: filters, several sources. */
static void print_sources(struct hr_buf *b, const struct hr_plan *plan)
{
    char all[32], kept[32];

    for (uint32_t i = 0; i < plan->sources.count; i++) {
        const struct hr_source *source = &plan->sources.items[i];
        uint64_t total, share = hr_order_share_of(&plan->order, i, &total);
        if (plan->sources.count == 1 && !source->selection)
            continue;
        hr_buf_addf(b, "  %s: %s of %s records kept", source->path,
                    hr_cli_format_count(source->kept, kept),
                    hr_cli_format_count(hr_dataset_record_count(source->dataset), all));
        if (plan->sources.count > 1)
            hr_buf_addf(b, ", %.3f %% of the samples, %.3g passes an epoch",
                        100 * (double)share / (double)total, epoch_passes(plan, i));
        hr_buf_add_str(b, "\n");
    }
}

/* Under full there is nothing to say: it is as good as a shuffle gets. */
static void print_shuffle(struct hr_buf *b, const struct hr_plan *plan)
{
    const struct hr_order_spec *spec = &plan->order.spec;
    char count[32];

    if (spec->kind == HR_ORDER_FULL)
        return;
    for (uint32_t i = 0; i < plan->sources.count; i++) {
        hr_buf_addf(b, "order %s: ", spec->kind == HR_ORDER_WINDOW ? "window" : "none");
        if (plan->sources.count > 1)
            hr_buf_addf(b, "%s: ", plan->sources.items[i].path);
        hr_buf_addf(b, "records stored side by side come %s samples apart",
                    hr_cli_format_count((uint64_t)(hr_order_distance(&plan->order, i) + 0.5), count));
        hr_buf_addf(b, " (with full: %s)\n",
                    hr_cli_format_count((uint64_t)(hr_order_distance_full(&plan->order, i) + 0.5), count));
    }
}

/* A chain's canonical text for people: an op a line, and no more digits than the numbers need. */
static void print_chain(struct hr_buf *b, const char *text)
{
    for (const char *at = text; *at;) {
        bool starts = at == text || !isalnum((unsigned char)at[-1]);
        char *end = NULL, number[32];
        double v = starts && isdigit((unsigned char)*at) ? strtod(at, &end) : 0;
        if (end && end - at > 15) {
            snprintf(number, sizeof(number), "%.15g", v);
            hr_buf_add_str(b, number);
            at = end;
            continue;
        }
        if (at > text && at[-1] == '}')
            hr_buf_add_str(b, *at == ' ' ? "\n   " : *at == ']' ? "\n" : "");
        hr_buf_add(b, at, 1);
        if (*at == '[' && at[1] != ']')
            hr_buf_add_str(b, "\n    ");
        at++;
    }
    hr_buf_add_str(b, "\n");
}

static void print_chains(struct hr_buf *b, const struct hr_plan *plan)
{
    struct hr_buf text = {0};
    bool first = true;

    for (uint32_t i = 0; i < plan->field_count; i++) {
        hr_buf_reset(&text);
        describe_field(&text, plan, &plan->fields[i]);
        if (!text.used)
            continue;
        hr_buf_addf(b, "%s%s: ", first ? "\n" : "", plan->fields[i].name);
        print_chain(b, hr_buf_str(&text));
        first = false;
    }
    hr_buf_finish(&text);
    if (plan->blend) {
        hr_buf_add_str(b, first ? "\n" : "");
        print_chain(b, plan->blend->description);
    }
}

/* Samples of an epoch that fill no batch and are dropped: others in each epoch. */
static uint64_t left_out(const struct hr_plan *plan)
{
    const struct hr_order *order = &plan->order;

    return order->spec.last == HR_LAST_DROP ? order->epoch_samples % order->spec.batch : 0;
}

static void print_text(struct hr_buf *b, const struct hr_plan *plan,
                       const struct hr_slot_layout *layout, int64_t world)
{
    uint64_t records = plan->sources.kept, steps = hr_order_steps(&plan->order, 0);
    char hex[HR_DIGEST_HEX_BYTES], a[32], c[32];

    hr_buf_addf(b, "%s record%s, %s step%s an epoch, global batch %" PRIu64,
                hr_cli_format_count(records, a), records == 1 ? "" : "s",
                hr_cli_format_count(steps, c), steps == 1 ? "" : "s", plan->order.spec.batch);
    if (left_out(plan))
        hr_buf_addf(b, ", %s left out of each epoch (last: drop)", hr_cli_format_count(left_out(plan), a));
    hr_buf_add_str(b, "\n");
    if (world > 1)
        hr_buf_addf(b, "%u samples for each of %" PRId64 " ranks\n", layout->capacity, world);
    print_sources(b, plan);
    print_shuffle(b, plan);
    hr_buf_add_str(b, "\nfield                 type    dtype  layout  shape\n");
    for (uint32_t i = 0; i < plan->output_count; i++) {
        const struct hr_plan_output *o = &plan->outputs[i];
        hr_buf_addf(b, "%-20s  %-6s  %-5s  %-6s  ", o->name, hr_field_type_name(o->field_type),
                    hr_dtype_name(o->dtype),
                    o->ragged ? "ragged"
                              : (o->layout == HR_LAYOUT_NONE ? "" : hr_layout_name(o->layout)));
        print_shape(b, o, layout->capacity);
        hr_buf_add_str(b, "\n");
    }
    print_chains(b, plan);
    hr_buf_addf(b, "\n%u slots of %s: %s of shared memory a rank\nplan %s\n", plan->slot_count,
                hr_cli_format_bytes(layout->slot_bytes, a),
                hr_cli_format_bytes(layout->slot_bytes * plan->slot_count, c),
                hr_digest_hex(&plan->digest, hex));
}

int hr_tool_check(int argc, char **argv)
{
    struct options o;
    struct hr_error err;
    struct hr_job job;
    struct hr_slot_layout layout;
    struct hr_buf out = {0};
    int code = hr_cli_parse(&hr_command_check, argc, argv, &o, sizeof(o));

    if (code != HR_CLI_RUN)
        return code;
    if (hr_job_open(&job, o.cli.args[0], &err) < 0)
        return hr_job_failed(&err);
    int ret = hr_plan_check_world(job.plan, 0, (uint32_t)o.world, &err);
    if (ret == 0)
        ret = hr_slot_layout_init(&layout, job.plan,
                                  (uint32_t)(job.plan->order.spec.batch / (uint64_t)o.world), &err);
    if (ret < 0) {
        hr_job_close(&job);
        return hr_cli_failed("", &err);
    }
    if (o.cli.json)
        print_json(&out, job.plan, &layout, o.world);
    else
        print_text(&out, job.plan, &layout, o.world);
    hr_slot_layout_finish(&layout);
    hr_job_close(&job);
    return hr_cli_print(&out);
}
