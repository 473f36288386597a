/* One poll loop over signals, the private trainer's hang-up and a clock. It allocates nothing, reads
 * no dataset and takes no trainer: what it does not do cannot crash it. */
#include "serve/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "ring/wire.h"
#include "serve/session.h"

enum {
    FRUITLESS_MOST = 5, /* engines in a row that finished no sample */
    RESTARTS_KEPT = 1024,
};

static const uint64_t window_ns = 600 * HR_NS_PER_S;
static const uint64_t backoff_first_ns = 100 * HR_NS_PER_MS;
static const uint64_t backoff_most_ns = 5 * HR_NS_PER_S;
/* An engine that was told to end, and its trainer's leaving is an order too, has so long for it. */
static const uint64_t end_limit_ns = 5 * HR_NS_PER_S;
/* A loop that comes round so late was stopped with the engine: times mean nothing then. */
static const uint64_t late_ns = 2 * HR_NS_PER_S;

struct supervisor {
    struct hr_supervisor_options options;
    struct hr_flight *flight;
    int signal_fd, leash_fd;
    sigset_t old_mask;
    pid_t pid; /* 0 = no engine */
    uint32_t incarnation;
    bool trainer_left, draining, stalled;
    int stop_signal;         /* that ends at once; 0 = none came */
    uint64_t kill_at_ns;     /* the engine's end is due; UINT64_MAX = it is not */
    uint64_t start_at_ns;    /* without an engine: when to start one */
    uint64_t watch_from_ns;  /* no record is called stalled before */
    uint64_t restarts[RESTARTS_KEPT]; /* when those without a culprit were; a ring */
    uint64_t restart_count;
    int fruitless;
    bool done;
    int code;
};

static void end_with(struct supervisor *s, int code)
{
    s->done = true;
    s->code = code;
}

/* ---- the engine process ---- */

static HR_NORETURN void be_engine(struct supervisor *s, int leash_fd, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before it could be watched */
        _exit(HR_SUPERVISOR_FAILED);
    prctl(PR_SET_NAME, "headrace-engine");
    /* Orders come through the leash: a signal to the whole group must not count twice. */
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    hr_fd_close(&s->signal_fd);
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    struct hr_duty duty = {
        .flight = s->flight, .leash_fd = leash_fd, .incarnation = s->incarnation};
    exit(s->options.run(&duty, s->options.arg));
}

static int start_engine(struct supervisor *s, struct hr_error *err)
{
    pid_t parent = getpid();
    int leash[2];

    if (pipe2(leash, O_CLOEXEC) < 0)
        return hr_fail_errno(err, errno, "cannot create a pipe");
    hr_flight_reset(s->flight);
    fflush(NULL);
    s->pid = fork();
    if (s->pid == 0) {
        hr_fd_close(&leash[1]);
        be_engine(s, leash[0], parent);
    }
    hr_fd_close(&leash[0]);
    s->leash_fd = leash[1];
    if (s->pid > 0)
        return 0;
    s->pid = 0;
    hr_fd_close(&s->leash_fd);
    return hr_fail_errno(err, errno, "cannot start the engine process");
}

static void order(struct supervisor *s, char what)
{
    if (s->leash_fd < 0)
        return;
    ssize_t ignored = write(s->leash_fd, &what, 1);
    (void)ignored; /* gone already is as good */
}

/* ---- what trainers are told ---- */

/* The engine that knew the private trainer is gone: it is to say hello to the next one. */
static void announce_next(struct supervisor *s)
{
    struct hr_wire_restarted msg = {
        .head = {.kind = HR_WIRE_RESTARTED, .bytes = sizeof(msg)},
        .incarnation = ++s->incarnation,
    };
    struct hr_error err;

    if (s->options.private_fd >= 0 &&
        hr_fd_send(s->options.private_fd, &msg, sizeof(msg), NULL, 0, &err) < 0)
        end_with(s, HR_SUPERVISOR_FAILED); /* it left, or has not read for a thousand messages */
}

/* Those who wait for the next engine hear that there will be none. */
static void tell_all(struct supervisor *s, const struct hr_error *err)
{
    int fd;

    if (s->options.private_fd >= 0)
        hr_session_send_error(s->options.private_fd, err);
    for (int tries = 0; s->options.listen_fd >= 0 && tries < 20;) {
        fd = accept4(s->options.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) { /* clients come back within half a second */
            hr_clock_sleep_ns(50 * HR_NS_PER_MS);
            tries++;
            continue;
        }
        hr_session_send_error(fd, err);
        hr_fd_close(&fd);
    }
}

static HR_COLD void give_up(struct supervisor *s, const struct hr_error *err)
{
    hr_log_error(HR_LOG_ERROR, "serving ended", err);
    tell_all(s, err);
    end_with(s, HR_SUPERVISOR_FAILED);
}

/* ---- deaths ---- */

static uint64_t recent_restarts(const struct supervisor *s, uint64_t now_ns)
{
    uint64_t n = 0, kept = hr_min_u64(s->restart_count, RESTARTS_KEPT);

    for (uint64_t i = 0; i < kept; i++)
        n += now_ns - s->restarts[(s->restart_count - 1 - i) % RESTARTS_KEPT] < window_ns;
    return n;
}

/* When the next engine may start; 0 with err set when there is to be none. */
static uint64_t next_start(struct supervisor *s, bool culprit, bool progress, int signal_number,
                           struct hr_error *err)
{
    uint64_t now_ns = hr_clock_ns();

    if (culprit) {
        s->fruitless = 0;
        return now_ns;
    }
    s->fruitless = progress ? 0 : s->fruitless + 1;
    s->restarts[s->restart_count++ % RESTARTS_KEPT] = now_ns;
    uint64_t recent = recent_restarts(s, now_ns);
    if (s->fruitless >= FRUITLESS_MOST)
        hr_fail(err, HR_E_CRASHED, "the engine died %d times in a row before it finished a sample; "
                "the last time of: %s", s->fruitless, strsignal(signal_number));
    else if (recent > (uint64_t)s->options.max_restarts)
        hr_fail(err, HR_E_CRASHED, "the engine died %llu times in ten minutes and no record was to "
                "blame; the last time of: %s", (unsigned long long)recent, strsignal(signal_number));
    else
        return s->fruitless ? now_ns + hr_min_u64(backoff_first_ns << (s->fruitless - 1),
                                                  backoff_most_ns)
                            : now_ns;
    hr_error_hint(err, "see docs/recovery.md; SIGKILL is most often the kernel out of memory");
    return 0;
}

static void log_death(const struct supervisor *s, bool culprit, int signal_number)
{
    const struct hr_flight *f = s->flight;

    if (culprit)
        hr_log(HR_LOG_WARN, "the engine %s over record %llu; the record is quarantined and another "
               "engine goes on", s->stalled ? "stalled" : "crashed",
               (unsigned long long)f->culprits[f->culprit_count - 1].record);
    else
        hr_log(HR_LOG_WARN, "the engine died (%s); another one goes on", strsignal(signal_number));
}

static void engine_killed(struct supervisor *s, int signal_number)
{
    struct hr_error err = HR_ERROR_INIT;
    bool ending = s->stop_signal || s->trainer_left || s->draining;

    if (ending) {
        /* Nobody is taken any more, so another engine would have nobody to feed. */
        hr_log(HR_LOG_WARN, "the engine died (%s) while it was ending", strsignal(signal_number));
        end_with(s, s->draining && !s->stop_signal && !s->trainer_left ? HR_SUPERVISOR_FAILED : 0);
        return;
    }
    bool progress = hr_flight_done(s->flight) > 0;
    bool culprit = s->stalled || hr_flight_blame(s->flight, signal_number);
    uint64_t start_at_ns = next_start(s, culprit, progress, signal_number, &err);
    if (start_at_ns == 0) {
        give_up(s, &err);
        return;
    }
    log_death(s, culprit, signal_number);
    s->stalled = false;
    s->kill_at_ns = UINT64_MAX;
    s->start_at_ns = start_at_ns;
    announce_next(s);
}

static void reap(struct supervisor *s)
{
    int status;

    if (s->pid == 0 || waitpid(s->pid, &status, WNOHANG) != s->pid ||
        !(WIFEXITED(status) || WIFSIGNALED(status)))
        return;
    s->pid = 0;
    hr_fd_close(&s->leash_fd);
    if (WIFSIGNALED(status))
        engine_killed(s, WTERMSIG(status));
    else
        end_with(s, WEXITSTATUS(status));
}

/* ---- orders ---- */

static void stop_listening(struct supervisor *s)
{
    if (s->options.listen_fd < 0)
        return;
    hr_fd_close(&s->options.listen_fd);
    hr_listen_remove(&s->options.place);
}

static void take_signal(struct supervisor *s, int number)
{
    uint64_t now_ns = hr_clock_ns();

    if (number == SIGCHLD) {
        reap(s);
    } else if (number == SIGTERM && !s->draining) {
        s->draining = true;
        s->kill_at_ns = now_ns + (uint64_t)(s->options.grace_s * 1e9) + end_limit_ns;
        stop_listening(s);
        order(s, 'd');
    } else {
        s->stop_signal = number;
        s->kill_at_ns = hr_min_u64(s->kill_at_ns, now_ns + end_limit_ns);
        order(s, 's');
    }
    if (s->pid == 0 && (s->draining || s->stop_signal))
        end_with(s, 0);
}

static void take_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;

    while (!s->done && read(s->signal_fd, &info, sizeof(info)) == sizeof(info))
        take_signal(s, (int)info.ssi_signo);
}

static void trainer_left(struct supervisor *s)
{
    s->trainer_left = true;
    s->kill_at_ns = hr_min_u64(s->kill_at_ns, hr_clock_ns() + end_limit_ns);
    if (s->pid == 0)
        end_with(s, 0);
}

/* ---- the clock ---- */

static uint64_t limit_ns(const struct supervisor *s)
{
    return (uint64_t)(s->options.decode_limit_s * 1e9);
}

static int next_timeout(const struct supervisor *s, uint64_t now_ns)
{
    uint64_t due_ns = s->kill_at_ns;

    if (s->pid == 0)
        due_ns = hr_min_u64(due_ns, s->start_at_ns);
    else if (s->options.decode_limit_s > 0)
        due_ns = hr_min_u64(due_ns, now_ns + hr_min_u64(limit_ns(s) / 4 + HR_NS_PER_MS, HR_NS_PER_S));
    if (due_ns == UINT64_MAX)
        return -1;
    return due_ns <= now_ns ? 0 : (int)hr_min_u64((due_ns - now_ns) / HR_NS_PER_MS + 1, 1000000);
}

static void watch_decoders(struct supervisor *s, uint64_t now_ns)
{
    if (s->pid == 0 || s->stalled || s->options.decode_limit_s <= 0 || now_ns < s->watch_from_ns ||
        !hr_flight_find_stalled(s->flight, now_ns, limit_ns(s)))
        return;
    s->stalled = true;
    kill(s->pid, SIGKILL);
}

static void look_at_clock(struct supervisor *s)
{
    uint64_t now_ns = hr_clock_ns();
    struct hr_error err = HR_ERROR_INIT;

    if (s->pid > 0 && now_ns >= s->kill_at_ns) {
        hr_log(HR_LOG_WARN, "the engine does not come to an end and is killed");
        kill(s->pid, SIGKILL);
        s->kill_at_ns = UINT64_MAX;
    }
    watch_decoders(s, now_ns);
    if (s->pid == 0 && now_ns >= s->start_at_ns && start_engine(s, &err) < 0)
        give_up(s, &err);
}

static void wait_for_news(struct supervisor *s)
{
    struct pollfd fds[2] = {{.fd = s->signal_fd, .events = POLLIN},
                            {.fd = s->trainer_left ? -1 : s->options.private_fd}};
    uint64_t began_ns = hr_clock_ns();
    int ms = next_timeout(s, began_ns);
    int n = poll(fds, 2, ms);
    uint64_t now_ns = hr_clock_ns();

    if (ms >= 0 && now_ns - began_ns > (uint64_t)ms * HR_NS_PER_MS + late_ns)
        s->watch_from_ns = now_ns + limit_ns(s);
    if (n > 0 && fds[1].revents)
        trainer_left(s);
    if (n > 0 && fds[0].revents)
        take_signals(s);
}

/* ---- set-up ---- */

static int set_up(struct supervisor *s, struct hr_error *err)
{
    sigset_t ours;

    s->flight = hr_flight_create(err);
    if (!s->flight)
        return err->code;
    sigemptyset(&ours);
    sigaddset(&ours, SIGCHLD);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGHUP);
    sigprocmask(SIG_BLOCK, &ours, &s->old_mask);
    signal(SIGCHLD, SIG_DFL); /* an ignored one would reap engines behind our back */
    signal(SIGPIPE, SIG_IGN);
    s->signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signal_fd < 0)
        return hr_fail_errno(err, errno, "cannot create a descriptor for signals");
    if (s->options.private_fd >= 0) {
        int flags = fcntl(s->options.private_fd, F_GETFL);
        if (flags < 0 || fcntl(s->options.private_fd, F_SETFL, flags | O_NONBLOCK) < 0)
            return hr_fail_errno(err, errno, "descriptor %d is no socket", s->options.private_fd);
    }
    return 0;
}

static void clean_up(struct supervisor *s)
{
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
    }
    stop_listening(s);
    hr_fd_close(&s->leash_fd);
    hr_fd_close(&s->options.private_fd);
    hr_fd_close(&s->signal_fd);
    hr_flight_destroy(s->flight);
}

int hr_supervisor_run(const struct hr_supervisor_options *options)
{
    static struct supervisor s;
    struct hr_error err = HR_ERROR_INIT;

    s = (struct supervisor){
        .options = *options, .signal_fd = -1, .leash_fd = -1, .kill_at_ns = UINT64_MAX};
    if (set_up(&s, &err) < 0)
        give_up(&s, &err);
    while (!s.done) {
        look_at_clock(&s);
        if (!s.done)
            wait_for_news(&s);
    }
    clean_up(&s);
    /* SIGTERM asks for an end that is success; SIGINT and SIGHUP break the work off. */
    return s.code == 0 && s.stop_signal && s.stop_signal != SIGTERM ? 128 + s.stop_signal : s.code;
}
