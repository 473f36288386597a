/* A sidecar that reads nothing and decodes nothing: it speaks the protocol and feeds numbered
 * batches from the ring, so that clients can be tested without a dataset.
 *
 * usage: fake_sidecar [serve CONFIG] (--socket PATH | --fd N) [key=value ...]
 * Keys also come from CONFIG ("-" = stdin) when it holds "key": value, and from $FAKE_SIDECAR:
 *   slots count steps epochs shared    the ring and the plan
 *   delay_ms                           before each batch
 *   error_at kill_at exit_at           the ordinal at which to fail, to die, to leave
 *   refuse                             answer every hello with this error code */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <headrace/errors.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "ipc/numbered.h"
#include "ring/ring.h"

enum { MAX_TRAINERS = 8 };

enum key { SLOTS, COUNT, STEPS, EPOCHS, SHARED, DELAY_MS, ERROR_AT, KILL_AT, EXIT_AT, REFUSE, KEYS };

static const char *const key_names[KEYS] = {"slots",    "count",   "steps",   "epochs",  "shared",
                                            "delay_ms", "error_at", "kill_at", "exit_at", "refuse"};
static int64_t option[KEYS] = {
    [SLOTS] = 4, [COUNT] = 4, [STEPS] = 5, [ERROR_AT] = -1, [KILL_AT] = -1, [EXIT_AT] = -1};

struct trainer {
    int sock;
    struct hr_ring_consumer *consumer;
};

static struct {
    struct hr_ring *ring;
    struct numbered_plan plan;
    struct numbered_cursor cursor; /* of the next batch */
    uint64_t published;
    uint64_t sequence;
    bool feeding, private, failed;
    int listener;
    struct trainer trainers[MAX_TRAINERS];
} self = {.listener = -1};

/* ---- options ---- */

static void read_options(const char *text)
{
    for (int k = 0; text && k < KEYS; k++) {
        const char *p = strstr(text, key_names[k]);
        if (p) {
            p += strlen(key_names[k]);
            option[k] = strtoll(p + strspn(p, "\": ="), NULL, 10);
        }
    }
}

static void read_config(const char *path)
{
    char text[4096] = "";
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");

    if (!f)
        return;
    text[fread(text, 1, sizeof(text) - 1, f)] = 0;
    read_options(text);
    if (strstr(text, "bad_config")) {
        fprintf(stderr, "fake_sidecar: bad configuration\n");
        exit(2);
    }
    if (f != stdin)
        fclose(f);
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    unlink(path);
    if (sock < 0 || bind(sock, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(sock, 8) < 0) {
        perror(path);
        exit(3);
    }
    return sock;
}

/* ---- trainers ---- */

static void send_any(struct trainer *t, const void *message, const int *fds, int fd_count)
{
    struct hr_error err;
    const struct hr_wire_head *head = message;
    int ret = hr_fd_send(t->sock, message, head->bytes, fds, fd_count, &err);

    (void)ret;
}

static void send_error(struct trainer *t, int code, const char *text)
{
    struct hr_wire_error e = {
        .head = {HR_WIRE_ERROR, sizeof(e)}, .code = code, .record = UINT64_MAX};

    if (code == HR_E_CORRUPT) {
        e.record = 12;
        snprintf(e.shard, sizeof(e.shard), "a-0000.hrs");
        snprintf(e.field, sizeof(e.field), "image");
    }
    snprintf(e.text, sizeof(e.text), "%s", text);
    send_any(t, &e, NULL, 0);
}

static void drop(struct trainer *t)
{
    if (t->consumer)
        hr_ring_detach(self.ring, t->consumer);
    hr_fd_close(&t->sock);
    *t = (struct trainer){.sock = -1};
    if (hr_ring_consumer_count(self.ring) == 0) {
        hr_ring_flush(self.ring, (struct hr_ring_position){.step = self.published});
        self.feeding = false;
        if (self.private)
            exit(0);
    }
}

static void start_at(struct numbered_cursor cursor)
{
    self.cursor = cursor;
    self.sequence = 0;
    self.feeding = true;
    self.failed = false;
}

static void send_welcome(struct trainer *t, const struct hr_wire_hello *hello, const int fds[3])
{
    uint64_t data_bytes;
    struct hr_wire_welcome w = {
        .head = {HR_WIRE_WELCOME, sizeof(w)},
        .wire_version = HR_WIRE_VERSION,
        .rank = hello->rank,
        .world = hello->world,
        .slot_count = (uint32_t)option[SLOTS],
        .slot_bytes = hr_ring_slot_bytes(self.ring),
        .control_bytes = sizeof(struct hr_wire_control),
        .writable = !option[SHARED],
        .generation = hr_ring_generation(self.ring),
        .steps_per_epoch = self.plan.steps,
        .batch = self.plan.count,
        .dataset_records = self.plan.count * self.plan.steps,
        .dataset_digest = "d0",
        .plan_digest = "p0",
        .server = "fake_sidecar",
    };

    hr_ring_base(self.ring, &data_bytes);
    w.data_bytes = data_bytes;
    w.state_bytes = (uint32_t)numbered_state(&self.plan, self.cursor, w.state);
    send_any(t, &w, fds, 3);
}

static void take_hello(struct trainer *t, struct hr_wire_hello *hello)
{
    struct hr_error err;
    int fds[3];

    hello->state[sizeof(hello->state) - 1] = 0;
    if (option[REFUSE]) {
        send_error(t, (int)option[REFUSE], "refused as asked");
        drop(t);
        return;
    }
    if (strstr(hello->state, "other")) {
        send_error(t, HR_E_STATE, "the state is of another dataset");
        drop(t);
        return;
    }
    /* The first gets what waits, one that joins others what comes from now on. */
    struct hr_ring_position from = {.step = self.published};
    struct hr_ring_stats stats;
    hr_ring_stats(self.ring, &stats);
    if (hr_ring_consumer_count(self.ring) == 0)
        from.step -= stats.ready;
    if (hr_ring_attach(self.ring, from, &t->consumer, fds, &err) < 0) {
        send_error(t, err.code, err.text);
        drop(t);
        return;
    }
    if (!self.feeding)
        start_at(numbered_parse(hello->state));
    send_welcome(t, hello, fds);
}

static void take_seek(struct trainer *t, struct hr_wire_seek *seek)
{
    struct hr_wire_seeked answer = {.head = {HR_WIRE_SEEKED, sizeof(answer)}};

    seek->state[sizeof(seek->state) - 1] = 0;
    if (strstr(seek->state, "other")) {
        send_error(t, HR_E_STATE, "the state is of another dataset");
        return;
    }
    start_at(seek->state_bytes ? numbered_parse(seek->state)
                               : (struct numbered_cursor){seek->epoch, 0});
    answer.generation = hr_ring_flush(self.ring, (struct hr_ring_position){.step = self.published});
    answer.steps_per_epoch = self.plan.steps;
    answer.state_bytes = (uint32_t)numbered_state(&self.plan, self.cursor, answer.state);
    send_any(t, &answer, NULL, 0);
}

static void send_stats(struct trainer *t)
{
    struct hr_wire_stats s = {.head = {HR_WIRE_STATS, 0}};
    struct hr_ring_stats r;

    hr_ring_stats(self.ring, &r);
    int n = snprintf(s.json, sizeof(s.json),
                     "{\"published\":%" PRIu64 ",\"released\":%" PRIu64 ",\"leased\":%" PRIu32
                     ",\"consumer_wait_ns\":%" PRIu64 "}",
                     r.published, r.released, r.leased, r.consumer_wait_ns);
    s.head.bytes = (uint32_t)sizeof(s.head) + (uint32_t)n;
    send_any(t, &s, NULL, 0);
}

static void serve_trainer(struct trainer *t)
{
    union {
        struct hr_wire_head head;
        struct hr_wire_hello hello;
        struct hr_wire_seek seek;
        uint8_t bytes[HR_WIRE_MAX_MESSAGE];
    } m;
    struct hr_error err;
    int fds[8], fd_count;
    ssize_t n = hr_fd_recv(t->sock, &m, sizeof(m), fds, &fd_count, &err);

    for (int i = 0; i < fd_count; i++)
        hr_fd_close(&fds[i]);
    if (n < (ssize_t)sizeof(m.head) || m.head.kind == HR_WIRE_BYE)
        drop(t);
    else if (m.head.kind == HR_WIRE_HELLO)
        take_hello(t, &m.hello);
    else if (m.head.kind == HR_WIRE_SEEK)
        take_seek(t, &m.seek);
    else if (m.head.kind == HR_WIRE_STATS_ASK)
        send_stats(t);
}

/* ---- feeding ---- */

static void end_stream(int code, const char *text)
{
    for (int i = 0; i < MAX_TRAINERS; i++) {
        struct trainer *t = &self.trainers[i];
        if (!t->consumer)
            continue;
        if (text)
            send_error(t, code, text);
        hr_ring_close_consumer(t->consumer, code);
    }
    self.failed = true;
}

static void obey_ordinal(int64_t n)
{
    if (n == option[KILL_AT])
        raise(SIGKILL);
    if (n == option[EXIT_AT])
        exit(3);
    if (n == option[ERROR_AT])
        end_stream(HR_E_CORRUPT, "a-0000.hrs: record 12: field 'image': corrupt data");
}

/* False when there is nothing to do until somebody releases a slot. */
static bool feed(void)
{
    if (!self.feeding || self.failed)
        return false;
    if (self.plan.epochs && self.cursor.epoch >= self.plan.epochs) {
        end_stream(HR_E_END, NULL);
        return false;
    }
    int slot = hr_ring_acquire(self.ring);
    if (slot < 0)
        return false;
    obey_ordinal((int64_t)(self.cursor.epoch * self.plan.steps + self.cursor.step));
    if (self.failed) {
        hr_ring_abort(self.ring, (uint32_t)slot);
        return false;
    }
    if (option[DELAY_MS])
        hr_clock_sleep_ns((uint64_t)option[DELAY_MS] * HR_NS_PER_MS);
    numbered_fill(hr_ring_slot(self.ring, (uint32_t)slot), &self.plan, self.cursor, self.sequence++);
    numbered_advance(&self.plan, &self.cursor);
    hr_ring_publish(self.ring, (uint32_t)slot, (struct hr_ring_position){.step = self.published++});
    return true;
}

static void accept_trainer(void)
{
    int sock = accept4(self.listener, NULL, NULL, SOCK_CLOEXEC);

    for (int i = 0; sock >= 0 && i < MAX_TRAINERS; i++) {
        if (self.trainers[i].sock < 0) {
            self.trainers[i].sock = sock;
            return;
        }
    }
    hr_fd_close(&sock);
}

static void wait_for_events(int timeout_ms)
{
    struct pollfd p[1 + 2 * MAX_TRAINERS] = {{.fd = self.listener, .events = POLLIN}};

    for (int i = 0; i < MAX_TRAINERS; i++) {
        struct trainer *t = &self.trainers[i];
        p[1 + 2 * i] = (struct pollfd){.fd = t->sock, .events = POLLIN};
        p[2 + 2 * i] = (struct pollfd){
            .fd = t->consumer ? hr_ring_consumer_wake_fd(t->consumer) : -1, .events = POLLIN};
    }
    if (poll(p, HR_ARRAY_SIZE(p), timeout_ms) <= 0)
        return;
    hr_ring_collect(self.ring);
    for (int i = 0; i < MAX_TRAINERS; i++)
        if (p[1 + 2 * i].revents)
            serve_trainer(&self.trainers[i]);
    if (p[0].revents)
        accept_trainer();
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "serve") == 0 && i + 1 < argc) {
            read_config(argv[++i]);
        } else if (strcmp(argv[i], "--socket") == 0 && i + 1 < argc) {
            self.listener = listen_at(argv[++i]);
        } else if (strcmp(argv[i], "--fd") == 0 && i + 1 < argc) {
            self.trainers[0].sock = atoi(argv[++i]);
            self.private = true;
        } else {
            read_options(argv[i]);
        }
    }
    read_options(getenv("FAKE_SIDECAR"));
}

int main(int argc, char **argv)
{
    struct hr_error err;

    for (int i = 0; i < MAX_TRAINERS; i++)
        self.trainers[i].sock = -1;
    read_arguments(argc, argv);
    self.plan = (struct numbered_plan){.count = (uint32_t)option[COUNT],
                                       .steps = (uint64_t)option[STEPS],
                                       .epochs = (uint64_t)option[EPOCHS]};
    struct hr_ring_spec spec = {.name = "fake-sidecar",
                                .slot_count = (uint32_t)option[SLOTS],
                                .slot_bytes = NUMBERED_SLOT_BYTES,
                                .shared = option[SHARED] != 0};
    if (hr_ring_create(&spec, &self.ring, &err) < 0) {
        hr_log_error(HR_LOG_ERROR, "ring", &err);
        return 3;
    }
    for (;;)
        wait_for_events(feed() ? 0 : 20);
}
