/* headrace serve: the sidecar. Wires the command line and signals to the server; no logic of its own. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "serve/server.h"
#include "serve/session.h"
#include "tools/headrace.h"
#include "tools/job.h"

struct options {
    struct hr_cli cli;
    const char *socket, *reader, *quarantine, *fault;
    int64_t fd, workers;
    int io;
    bool private_one;
    double grace;
};

static const char *const io_modes[] = {"auto", "cached", "direct", NULL};

static const struct hr_cli_arg args[] = {
    {"CONF", "pipeline file, or - for standard input", .word = HR_WORD_FILE}, {0}};

static const struct hr_opt opts[] = {
    {"socket", 's', HR_OPT_STR, "PATH", offsetof(struct options, socket),
     "listen at this unix socket", .word = HR_WORD_FILE},
    {"fd", 0, HR_OPT_INT, "N", offsetof(struct options, fd),
     "serve one trainer over this inherited, connected socket", .fallback = "-1", .min = -1,
     .max = 1 << 20},
    {"private", 0, HR_OPT_FLAG, NULL, offsetof(struct options, private_one),
     "end when the trainer of --fd leaves (implied by --fd without --socket)"},
    {"workers", 'w', HR_OPT_INT, "N", offsetof(struct options, workers),
     "decoding threads; default: the pipeline file's, else the CPU quota", .fallback = "auto",
     .min = 0, .max = 1024},
    {"reader", 'r', HR_OPT_STR, "NAME", offsetof(struct options, reader),
     "auto, uring, preadv or nil; default: the pipeline file's"},
    {"io", 0, HR_OPT_CHOICE, NULL, offsetof(struct options, io), "page cache or direct reads",
     .fallback = "auto", .choices = io_modes},
    {"grace", 0, HR_OPT_FLOAT, "S", offsetof(struct options, grace),
     "seconds that a drain may take after SIGTERM", .fallback = "30", .min = 0, .max = 86400},
    {"quarantine", 'Q', HR_OPT_STR, "FILE", offsetof(struct options, quarantine),
     "append bad records to this file, a JSON line each", .word = HR_WORD_FILE},
    {"fault", 0, HR_OPT_STR, "SPEC", offsetof(struct options, fault),
     "inject storage faults on a schedule, for tests (see docs/testing.md)"},
    HR_OPT_END};

static const struct hr_exit_note exits[] = {{0, "drained, or its trainer left"}, {0}};

const struct hr_command hr_command_serve = {
    .name = "serve",
    .summary = "feed trainers from a dataset (the sidecar)",
    .description =
        "Opens CONF and its dataset, then waits for trainers at the socket and feeds each its rank's "
        "batches through shared memory. Prints one line when it is ready.\n\n"
        "SIGTERM drains: no new trainers, the attached ones are fed until they leave or the grace "
        "period ends. SIGINT, or a second SIGTERM, ends at once.",
    .args = args,
    .opts = opts,
    .example = "headrace serve train.yaml --socket /run/headrace/train.sock",
    .exits = exits,
    .see_also = "check bench doctor",
    .run = hr_tool_serve,
};

static struct hr_server *running; /* for the signal handler; set before signals are enabled */
static volatile sig_atomic_t last_signal;

static void on_signal(int sig)
{
    if (sig == SIGTERM && !last_signal) {
        hr_server_drain(running);
    } else {
        hr_server_stop(running);
    }
    last_signal = sig;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* A shard is a descriptor or two: takes as many as the system lets us have. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void say_ready(const struct options *o, const struct hr_job *job, struct hr_server *server)
{
    char plan[HR_DIGEST_HEX_BYTES], dataset[HR_DIGEST_HEX_BYTES];
    struct hr_digest digest = hr_dataset_digest(job->dataset);
    struct hr_engine *engine = hr_server_engine(server);

    if (!o->socket)
        return; /* a private trainer learns it from the socket */
    printf("ready unix:%s records=%llu dataset=%s plan=%s workers=%d\n", o->socket,
           (unsigned long long)hr_dataset_record_count(job->dataset), hr_digest_hex(&digest, dataset),
           hr_digest_hex(&job->plan->digest, plan), hr_engine_worker_count(engine));
    fflush(stdout);
    hr_log(HR_LOG_INFO, "%s", hr_engine_reader_reason(engine));
}

/* A private trainer hears on its socket why there is no sidecar. */
static void tell(int fd, const struct hr_error *err)
{
    if (fd >= 0)
        hr_session_send_error(fd, err);
}

static int serve(const struct options *o, struct hr_job *job)
{
    struct hr_error err;
    int tell_fd = o->fd >= 0 ? dup((int)o->fd) : -1; /* the server closes its own when it fails */
    struct hr_server_options options = {
        .plan = job->plan,
        .socket_path = o->socket,
        .private_fd = (int)o->fd,
        .grace_s = o->grace,
        .engine = {.reader = o->reader ? o->reader : job->conf.reader,
                   .fault = o->fault,
                   .io = o->io ? (enum hr_io_mode)o->io : (enum hr_io_mode)job->conf.io,
                   .workers = (int)(o->workers ? o->workers : job->conf.workers),
                   .read_ahead_bytes = job->conf.read_ahead_bytes,
                   .quarantine_path = o->quarantine,
                   .notify_fd = -1},
    };

    int ret = hr_server_create(&options, &running, &err);
    if (ret < 0)
        tell(tell_fd, &err);
    hr_fd_close(&tell_fd);
    if (ret < 0)
        return hr_job_failed(&err);
    catch_signals();
    say_ready(o, job, running);
    ret = hr_server_run(running, &err);
    int code = ret < 0 ? hr_cli_failed("serving ended", &err) : HR_EXIT_DONE;
    struct hr_server *done = running;
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    hr_server_destroy(done);
    return code == HR_EXIT_DONE && last_signal && last_signal != SIGTERM ? 128 + (int)last_signal
                                                                         : code;
}

int hr_tool_serve(int argc, char **argv)
{
    struct options o;
    struct hr_error err;
    struct hr_job job;
    int code = hr_cli_parse(&hr_command_serve, argc, argv, &o, sizeof(o));

    if (code != HR_CLI_RUN)
        return code;
    if (!o.socket && o.fd < 0)
        return hr_cli_wrong(&hr_command_serve, "--socket PATH is needed (or --fd N)");
    if (!o.socket && hr_log_get_level() == HR_LOG_INFO)
        hr_log_set_level(HR_LOG_WARN); /* a private trainer's comings and goings are no news */
    raise_file_limit();
    if (hr_job_open(&job, o.cli.args[0], &err) < 0) {
        tell((int)o.fd, &err);
        return hr_job_failed(&err);
    }
    code = serve(&o, &job);
    hr_job_close(&job);
    return code;
}
