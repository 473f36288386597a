/* headrace serve: the sidecar. Wires the command line to the supervisor and, in the engine process, to
 * the server; no logic of its own. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "serve/listen.h"
#include "serve/server.h"
#include "serve/session.h"
#include "serve/supervisor.h"
#include "tools/headrace.h"
#include "tools/job.h"

struct options {
    struct hr_cli cli;
    const char *socket, *reader, *quarantine, *fault;
    int64_t fd, workers, max_restarts;
    int io;
    bool no_supervise;
    double grace, decode_limit, detach_slow;
};

/* What an engine process works from. The pipeline file is read once: every engine of a run follows
 * the same text. */
struct work {
    const struct options *options;
    char *conf;
    size_t conf_bytes;
    int listen_fd;
    struct hr_socket_place place; /* of listen_fd */
    struct hr_job_pins *pins; /* shared by all engines; NULL = there is one only */
};

static const char *const io_modes[] = {"auto", "cached", "direct", NULL};

static const struct hr_cli_arg args[] = {
    {"CONF", "pipeline file, or - for standard input", .word = HR_WORD_FILE}, {0}};

static const struct hr_opt opts[] = {
    {"socket", 's', HR_OPT_STR, "PATH", offsetof(struct options, socket),
     "listen at this unix socket", .word = HR_WORD_FILE},
    {"fd", 0, HR_OPT_INT, "N", offsetof(struct options, fd),
     "serve one trainer over this inherited, connected socket, and end when it leaves", .fallback = "-1", .min = -1,
     .max = 1 << 20},
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
    {"decode-limit", 0, HR_OPT_FLOAT, "S", offsetof(struct options, decode_limit),
     "seconds after which a record that is still being decoded counts as bad; 0 = never",
     .fallback = "30", .min = 0, .max = 86400},
    {"detach-slow", 0, HR_OPT_FLOAT, "S", offsetof(struct options, detach_slow),
     "detach a replica of a shared stream that has kept its batches for so many seconds while another "
     "one has none left; 0 = wait for it, and say so in the log",
     .fallback = "0", .min = 0, .max = 86400},
    {"max-restarts", 0, HR_OPT_INT, "N", offsetof(struct options, max_restarts),
     "engine deaths in ten minutes that no record is to blame for before serving ends",
     .fallback = "20", .min = 0, .max = 1000},
    {"no-supervise", 0, HR_OPT_FLAG, NULL, offsetof(struct options, no_supervise),
     "work in this process, for debuggers: a crash ends it, and no decode is timed"},
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
        "The work is done by a process of its own. When a record crashes or stalls a decoder, that "
        "process is replaced, the record is quarantined, and trainers see a pause.\n\n"
        "SIGTERM drains: no new trainers, the attached ones are fed until they leave or the grace "
        "period ends. SIGINT, or a second SIGTERM, ends at once.",
    .args = args,
    .opts = opts,
    .example = "  headrace serve train.yaml --socket /run/headrace/train.sock",
    .exits = exits,
    .see_also = "check bench doctor",
    .run = hr_tool_serve,
};

static struct hr_server *running; /* for the signal handler; set before signals are enabled (without
                                     a supervisor) */
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

static void say_ready(const struct options *o, const struct hr_job *job, struct hr_server *server,
                      bool again)
{
    char plan[HR_DIGEST_HEX_BYTES], dataset[HR_DIGEST_HEX_BYTES];
    struct hr_engine *engine = hr_server_engine(server);

    if (!o->socket || again)
        return; /* a private trainer learns it from the socket */
    printf("ready unix:%s records=%llu dataset=%s plan=%s workers=%d\n", o->socket,
           (unsigned long long)job->plan->sources.kept,
           hr_digest_hex(&job->plan->sources.digest, dataset),
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

static struct hr_server_options server_options(const struct work *work, const struct hr_duty *duty,
                                               const struct hr_job *job)
{
    const struct options *o = work->options;

    return (struct hr_server_options){
        .plan = job->plan,
        .place = duty ? (struct hr_socket_place){0} : work->place, /* the supervisor removes it */
        .listen_fd = work->listen_fd,
        .private_fd = (int)o->fd,
        .incarnation = duty ? duty->incarnation : 0,
        .leash_fd = duty ? duty->leash_fd : 0,
        .grace_s = o->grace,
        .detach_slow_s = o->detach_slow,
        .engine = {.reader = o->reader ? o->reader : job->conf.reader,
                   .fault = o->fault,
                   .io = o->io ? (enum hr_io_mode)o->io : (enum hr_io_mode)job->conf.io,
                   .workers = (int)(o->workers ? o->workers : job->conf.workers),
                   .read_ahead_bytes = job->conf.read_ahead_bytes,
                   .quarantine_path = o->quarantine,
                   .flight = duty ? duty->flight : NULL,
                   .notify_fd = -1},
    };
}

static int run_server(const struct work *work, const struct hr_duty *duty, struct hr_job *job)
{
    const struct options *o = work->options;
    struct hr_error err;
    int tell_fd = o->fd >= 0 ? dup((int)o->fd) : -1; /* the server closes its own when it fails */
    struct hr_server_options options = server_options(work, duty, job);

    int ret = hr_server_create(&options, &running, &err);
    if (ret < 0)
        tell(tell_fd, &err);
    hr_fd_close(&tell_fd);
    if (ret < 0)
        return hr_job_failed(&err);
    if (!duty)
        catch_signals();
    say_ready(o, job, running, duty && duty->incarnation > 0);
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

/* All that an engine does, from its birth to its exit code. duty NULL = there is no supervisor. */
static int serve(const struct hr_duty *duty, void *arg)
{
    struct work *work = arg;
    const struct options *o = work->options;
    struct hr_error err;
    struct hr_job job;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of its write */
    if (duty)
        hr_flight_catch_crashes(duty->flight);
    if (hr_job_open_text(&job, o->cli.args[0], work->conf, work->conf_bytes, work->pins, &err) < 0) {
        tell((int)o->fd, &err);
        if (!duty)
            hr_listen_remove(&work->place);
        return hr_job_failed(&err);
    }
    int code = run_server(work, duty, &job);
    hr_job_close(&job);
    return code;
}

static int supervise(struct work *work)
{
    const struct options *o = work->options;
    struct hr_supervisor_options options = {
        .listen_fd = work->listen_fd ? work->listen_fd : -1,
        .place = work->place,
        .private_fd = (int)o->fd,
        .grace_s = o->grace,
        .decode_limit_s = o->decode_limit,
        .max_restarts = (int)o->max_restarts,
        .run = serve,
        .arg = work,
    };

    work->pins = mmap(NULL, sizeof(*work->pins), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (work->pins == MAP_FAILED)
        work->pins = NULL; /* then a later engine opens what is current */
    return hr_supervisor_run(&options);
}

/* What can fail before there is an engine. */
static int prepare(struct work *work, struct hr_error *err)
{
    const struct options *o = work->options;
    void *text;
    int ret = hr_conf_read(o->cli.args[0], &text, &work->conf_bytes, err);

    if (ret < 0)
        return ret;
    work->conf = text;
    if (!o->socket)
        return 0;
    ret = hr_listen_unix(o->socket, 0600, &work->place, err);
    if (ret > 0)
        work->listen_fd = ret;
    return ret < 0 ? ret : 0;
}

int hr_tool_serve(int argc, char **argv)
{
    struct options o;
    struct work work = {.options = &o};
    struct hr_error err;
    int code = hr_cli_parse(&hr_command_serve, argc, argv, &o, sizeof(o));

    if (code != HR_CLI_RUN)
        return code;
    if (!o.socket && o.fd < 0)
        return hr_cli_wrong(&hr_command_serve, "--socket PATH is needed (or --fd N)");
    if (!o.socket && hr_log_get_level() == HR_LOG_INFO)
        hr_log_set_level(HR_LOG_WARN); /* a private trainer's comings and goings are no news */
    if (prepare(&work, &err) < 0) {
        tell((int)o.fd, &err);
        code = hr_job_failed(&err);
    } else {
        code = o.no_supervise ? serve(NULL, &work) : supervise(&work);
    }
    hr_free(work.conf);
    return code;
}
