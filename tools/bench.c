/* headrace bench: feeds a consumer in this process through the real socket, ring and client, and says
 * what bounds the rate. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <headrace/client.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/server.h"
#include "tools/bench_storage.h"
#include "tools/bench_verdict.h"
#include "tools/headrace.h"
#include "tools/interrupt.h"
#include "tools/job.h"
#include "tools/progress.h"

struct options {
    struct hr_cli cli;
    const char *reader, *fault;
    int64_t workers, batches;
    double seconds, warmup, step_ms;
    bool no_decode, no_checksum;
    int io;
};

static const char *const io_modes[] = {"auto", "cached", "direct", NULL};

static const struct hr_cli_arg args[] = {
    {"CONF", "pipeline file, or - for standard input", .word = HR_WORD_FILE}, {0}};

static const struct hr_opt opts[] = {
    {"seconds", 's', HR_OPT_FLOAT, "S", offsetof(struct options, seconds), "how long to measure",
     .fallback = "5", .min = 0.01, .max = 1e7},
    {"batches", 'n', HR_OPT_INT, "N", offsetof(struct options, batches),
     "end after so many measured batches; 0 = by time", .fallback = "0", .min = 0, .max = 1e15},
    {"warmup", 0, HR_OPT_FLOAT, "S", offsetof(struct options, warmup),
     "seconds before measuring begins", .fallback = "0.5", .min = 0, .max = 1e6},
    {"workers", 'w', HR_OPT_INT, "N", offsetof(struct options, workers),
     "decoding threads; default: the pipeline file's, else the CPU quota", .fallback = "auto",
     .min = 0, .max = 1024},
    {"reader", 'r', HR_OPT_STR, "NAME", offsetof(struct options, reader),
     "auto, uring, preadv, or nil (instant zeros: measures the hand-off alone)"},
    {"fault", 0, HR_OPT_STR, "SPEC", offsetof(struct options, fault),
     "inject storage faults or delays on a schedule (see docs/testing.md)"},
    {"io", 0, HR_OPT_CHOICE, NULL, offsetof(struct options, io), "page cache or direct reads",
     .fallback = "auto", .choices = io_modes},
    {"step-ms", 0, HR_OPT_FLOAT, "MS", offsetof(struct options, step_ms),
     "pretend that a training step takes so long", .fallback = "0", .min = 0, .max = 1e6},
    {"no-decode", 0, HR_OPT_FLAG, NULL, offsetof(struct options, no_decode),
     "read and check, but do not decode"},
    {"no-checksum", 0, HR_OPT_FLAG, NULL, offsetof(struct options, no_checksum),
     "do not check checksums"},
    HR_OPT_END};

const struct hr_command hr_command_bench = {
    .name = "bench",
    .summary = "measure how fast a pipeline feeds, and what bounds it",
    .description =
        "Feeds a consumer in this process through the real socket, ring and client library, as serve "
        "would. Prints rates, the cost of each stage, and a verdict: what bounds the rate, what "
        "would change that, and what to expect from it. --reader nil and --no-decode take storage "
        "and decoding out, to see the rest.",
    .args = args,
    .opts = opts,
    .example = "  headrace bench train.yaml --seconds 10\n"
               "  taskset -c 0 headrace bench train.yaml --workers 1 --json",
    .see_also = "serve doctor",
    .has_json = true,
    .run = hr_tool_bench,
};

struct served {
    struct hr_server *server;
    struct hr_error err;
    int ret;
};

static void *serve(void *arg)
{
    struct served *s = arg;

    s->ret = hr_server_run(s->server, &s->err);
    return NULL;
}

/* What is read at the beginning and at the end of the measured time. */
struct reading {
    uint64_t now_ns, process_cpu_ns, consumer_cpu_ns, consumer_wait_ns;
    struct hr_engine_stats engine;
    uint64_t by_source[HR_BENCH_SOURCES];
    uint64_t storage_bytes;
    bool storage_known;
};

/* Sources whose mix is reported. */
static uint32_t listed_sources(const struct hr_plan *plan)
{
    uint32_t count = plan->sources.count < HR_BENCH_SOURCES ? plan->sources.count : HR_BENCH_SOURCES;

    return count > 1 ? count : 0;
}

static void take_reading(struct reading *r, const struct hr_plan *plan, struct hr_server *server,
                         struct hr_client *client)
{
    for (uint32_t i = 0; i < listed_sources(plan); i++)
        r->by_source[i] = hr_engine_source_samples(hr_server_engine(server), i);
    hr_engine_stats(hr_server_engine(server), &r->engine);
    r->storage_known = hr_bench_storage_bytes(&r->storage_bytes);
    for (uint32_t i = 0; i < plan->sources.count; i++)
        r->storage_known &= hr_bench_storage_counted(plan->sources.items[i].path);
    r->consumer_wait_ns = hr_client_wait_ns(client);
    r->process_cpu_ns = hr_clock_process_ns();
    r->consumer_cpu_ns = hr_clock_thread_ns();
    r->now_ns = hr_clock_ns();
}

struct counts {
    uint64_t batches, samples, bad;
};

static int client_error(struct hr_client *client, int code, struct hr_error *err)
{
    hr_fail(err, code, "%s", hr_client_error(client));
    return code;
}

static int consume(struct hr_client *client, const struct options *o, uint64_t until_ns,
                   uint64_t max_batches, struct counts *counts, struct hr_progress *progress,
                   struct hr_error *err)
{
    *counts = (struct counts){0};
    while (hr_clock_ns() < until_ns && (!max_batches || counts->batches < max_batches)) {
        struct hr_batch *batch;
        struct hr_batch_info info;
        int ret = hr_client_next(client, 200, &batch);
        if (hr_interrupt_signal())
            return hr_fail(err, HR_E_CANCELLED, "interrupted");
        if (ret == HR_E_TIMEOUT)
            continue;
        if (ret == HR_E_END)
            return 0;
        if (ret < 0)
            return client_error(client, ret, err);
        hr_batch_info(batch, &info);
        if (o->step_ms > 0)
            hr_clock_sleep_ns((uint64_t)(o->step_ms * 1e6));
        counts->batches++;
        counts->samples += info.count;
        counts->bad += info.bad_count;
        hr_batch_release(batch);
        hr_progress_update(progress, counts->samples, 0);
    }
    return 0;
}

static void fill_result(struct hr_bench_result *r, const struct reading *a, const struct reading *b,
                        const struct counts *counts, struct hr_engine *engine)
{
    const struct hr_engine_stats *x = &a->engine, *y = &b->engine;

    *r = (struct hr_bench_result){
        .seconds = (double)(b->now_ns - a->now_ns) / 1e9,
        .batches = counts->batches,
        .samples = counts->samples,
        .bad_samples = counts->bad,
        .workers = hr_engine_worker_count(engine),
        .read_bytes = y->read_bytes - x->read_bytes,
        .read_requests = y->read_requests - x->read_requests,
        .wanted_bytes = y->wanted_bytes - x->wanted_bytes,
        .storage_bytes = b->storage_bytes - a->storage_bytes,
        .storage_known = a->storage_known && b->storage_known,
        .window_bytes = y->window_bytes,
        .reader_cpu_ns = y->reader_cpu_ns - x->reader_cpu_ns,
        .plan_ns = y->plan_ns - x->plan_ns,
        .hand_off_ns = y->hand_off_ns - x->hand_off_ns,
        .fed_batches = y->batches - x->batches,
        .worker_busy_ns = y->worker_busy_ns - x->worker_busy_ns,
        .worker_idle_ns = y->worker_idle_ns - x->worker_idle_ns,
        .worker_cpu_ns = y->worker_cpu_ns - x->worker_cpu_ns,
        .checksum_ns = y->checksum_ns - x->checksum_ns,
        .decode_ns = y->decode_ns - x->decode_ns,
        .finished_samples = y->samples - x->samples,
        .consumer_wait_ns = b->consumer_wait_ns - a->consumer_wait_ns,
        .consumer_cpu_ns = b->consumer_cpu_ns - a->consumer_cpu_ns,
        .process_cpu_ns = b->process_cpu_ns - a->process_cpu_ns,
    };
    /* A copy: the result is judged when the engine is gone. */
    snprintf(r->reader_reason, sizeof(r->reader_reason), "%s", hr_engine_reader_reason(engine));
}

static void fill_sources(struct hr_bench_result *r, const struct reading *a, const struct reading *b,
                         const struct hr_plan *plan)
{
    r->source_count = listed_sources(plan);
    r->shuffle_distance = hr_order_distance(&plan->order, 0);
    for (uint32_t i = 1; i < plan->sources.count; i++)
        r->shuffle_distance = fmin(r->shuffle_distance, hr_order_distance(&plan->order, i));
    for (uint32_t i = 0; i < r->source_count; i++) {
        uint64_t total, share = hr_order_share_of(&plan->order, i, &total);
        r->sources[i].path = plan->sources.items[i].path;
        r->sources[i].samples = b->by_source[i] - a->by_source[i];
        r->sources[i].asked = (double)share / (double)total;
    }
}

static int measure(const struct options *o, const struct hr_plan *plan, struct hr_server *server,
                   struct hr_client *client,
                   struct hr_bench_result *result, struct hr_error *err)
{
    struct hr_progress progress;
    struct counts counts;
    struct reading before, after;
    uint64_t warm_until = hr_clock_ns() + (uint64_t)(o->warmup * 1e9);

    hr_progress_init(&progress, "samples", 0);
    int ret = consume(client, o, warm_until, 0, &counts, &progress, err);
    if (ret < 0)
        return ret;
    take_reading(&before, plan, server, client);
    uint64_t until = o->batches ? UINT64_MAX : before.now_ns + (uint64_t)(o->seconds * 1e9);
    ret = consume(client, o, until, (uint64_t)o->batches, &counts, &progress, err);
    take_reading(&after, plan, server, client);
    hr_progress_clear(&progress);
    if (ret < 0)
        return ret;
    fill_result(result, &before, &after, &counts, hr_server_engine(server));
    fill_sources(result, &before, &after, plan);
    /* What makes these wait is not counted there. */
    if (o->fault || strncmp(result->reader_reason, "nil", 3) == 0)
        result->storage_known = false;
    return 0;
}

static int attach(const struct options *o, int fd, struct hr_client **client, struct hr_error *err)
{
    struct hr_client_options options = HR_CLIENT_OPTIONS_INIT;
    char address[32];

    (void)o;
    options.rank = 0;
    options.world = 1;
    options.client_name = "headrace bench";
    snprintf(address, sizeof(address), "fd:%d", fd);
    int ret = hr_client_open(address, &options, client);
    return ret < 0 ? client_error(NULL, ret, err) : 0;
}

static int run(const struct options *o, struct hr_job *job, struct hr_bench_result *result,
               struct hr_error *err)
{
    struct served served = {0};
    struct hr_client *client = NULL;
    pthread_t thread;
    int pair[2];
    struct hr_server_options options = {
        .plan = job->plan,
        .engine = {.reader = o->reader ? o->reader : job->conf.reader,
                   .fault = o->fault,
                   .io = o->io ? (enum hr_io_mode)o->io : (enum hr_io_mode)job->conf.io,
                   .workers = (int)(o->workers ? o->workers : job->conf.workers),
                   .read_ahead_bytes = job->conf.read_ahead_bytes,
                   .no_decode = o->no_decode,
                   .no_checksum = o->no_checksum,
                   .timed = true,
                   .notify_fd = -1},
    };

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return hr_fail_errno(err, errno, "cannot create a socket pair");
    options.private_fd = pair[0];
    int ret = hr_server_create(&options, &served.server, err);
    if (ret < 0)
        return ret;
    if (pthread_create(&thread, NULL, serve, &served) != 0) {
        hr_server_destroy(served.server);
        return hr_fail(err, HR_E_NOMEM, "cannot start a thread");
    }
    ret = attach(o, pair[1], &client, err);
    if (ret == 0)
        ret = measure(o, job->plan, served.server, client, result, err);
    hr_client_close(client);
    hr_server_stop(served.server);
    pthread_join(thread, NULL);
    hr_server_destroy(served.server);
    return ret;
}

int hr_tool_bench(int argc, char **argv)
{
    struct options o;
    struct hr_error err;
    struct hr_job job;
    struct hr_bench_result result;
    struct hr_buf out = {0};
    int code = hr_cli_parse(&hr_command_bench, argc, argv, &o, sizeof(o));

    if (code != HR_CLI_RUN)
        return code;
    if (hr_job_open(&job, o.cli.args[0], &err) < 0)
        return hr_job_failed(&err);
    hr_interrupt_install();
    if (hr_log_get_level() == HR_LOG_INFO) /* attach and leave are no news here */
        hr_log_set_level(HR_LOG_WARN);
    int ret = run(&o, &job, &result, &err);
    if (ret == 0) {
        hr_bench_judge(&result);
        if (o.cli.json)
            hr_bench_print_json(&out, &result);
        else
            hr_bench_print_text(&out, &result);
    }
    hr_job_close(&job);
    if (ret < 0)
        return hr_interrupt_signal() ? hr_interrupt_exit_code() : hr_cli_failed("bench", &err);
    return hr_cli_print(&out);
}
