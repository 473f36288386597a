/* What trainers send: any messages in any order over real sockets to the session code of a real engine on a
 * small dataset. Each operation is a control byte, two bytes of length and so many bytes. Whatever comes,
 * the answers are well-formed, a refused trainer is told why, and no descriptor is left over. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "serve/session.h"
#include "shards/writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { TRAINERS = 3, MAX_OPERATIONS = 40, RECORDS = 40 };
enum { RAW, SEALED, HELLO, SEEK, RELEASE, CLOSE, DRAIN, RESTART, KINDS };

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

struct trainer {
    struct hr_session *session;
    int sock; /* the trainer's end; -1 = not there */
    struct hr_wire_control *control; /* after a welcome */
    bool told_why;
};

static struct hr_session sessions[HR_MAX_SESSIONS];
static struct hr_session_host host = {.sessions = sessions};
static struct trainer trainers[TRAINERS];

/* ---- the engine, once ---- */

static void write_shard(const char *path)
{
    const struct hr_schema schema = {
        .fields = {{.name = "text", .type = HR_FIELD_TEXT}, {.name = "n", .type = HR_FIELD_I64}},
        .field_count = 2, .class_field = -1};
    const struct hr_shard_writer_options options = {0};
    struct hr_shard_writer *w;

    MUST(hr_shard_writer_open(path, &schema, &options, &w, NULL) == 0);
    for (int r = 0; r < RECORDS; r++) {
        struct hr_value values[] = {{.present = true, .data = "some text", .bytes = (uint64_t)r % 9},
                                    {.present = true, .i64 = r}};
        MUST(hr_shard_writer_add(w, "key", values, NULL) == 0);
    }
    MUST(hr_shard_writer_commit(w, NULL, NULL) == 0);
}

static void open_engine(void)
{
    const char *tmp = getenv("TMPDIR");
    char *path = hr_asprintf("%s/fuzz-wire-%d.hrs", tmp ? tmp : "/tmp", (int)getpid());
    char *text = hr_asprintf("dataset: %s\nbatch: 4\nslots: 2\nlast: keep\nepochs: 3\n", path);
    const struct hr_engine_options options = {.workers = 1, .notify_fd = -1, .reader = "preadv"};
    struct hr_conf conf;
    struct hr_plan *plan;
    struct hr_error err = HR_ERROR_INIT;

    hr_log_set_level(HR_LOG_ERROR);
    write_shard(path);
    MUST(hr_conf_parse(text, strlen(text), "fuzz.yaml", &conf, &err) == 0);
    MUST(hr_plan_open(&conf, &plan, &err) == 0);
    MUST(hr_engine_create(plan, &options, &host.engine, &err) == 0);
    host.plan = plan;
    unlink(path); /* the engine has it open */
    hr_conf_finish(&conf);
    hr_free(text);
    hr_free(path);
    for (int i = 0; i < HR_MAX_SESSIONS; i++)
        sessions[i].fd = sessions[i].wake_fd = -1;
    for (int i = 0; i < TRAINERS; i++)
        trainers[i] = (struct trainer){.session = &sessions[i], .sock = -1};
}

/* ---- the trainer's side ---- */

static void come(struct trainer *t, uint32_t incarnation)
{
    int pair[2];

    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    t->sock = pair[1];
    t->told_why = false;
    *t->session = (struct hr_session){.fd = pair[0], .wake_fd = -1, .incarnation = incarnation};
}

static void check_welcome(struct trainer *t, const struct hr_wire_welcome *w, int fds[8], int count)
{
    MUST(count == 3 && w->head.bytes == sizeof(*w) && w->slot_count == 2 && w->rank < w->world &&
         w->state_bytes < sizeof(w->state) && memchr(w->dataset_digest, 0, sizeof(w->dataset_digest)) &&
         w->data_bytes >= w->slot_bytes * w->slot_count);
    t->control = mmap(NULL, sizeof(*t->control), PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    MUST(t->control != MAP_FAILED);
}

static void check_answer(struct trainer *t, const void *msg, size_t bytes, int fds[8], int count)
{
    const struct hr_wire_head *head = msg;
    const struct hr_wire_error *e = msg;

    MUST(bytes >= sizeof(*head) && head->bytes == bytes);
    MUST(head->kind == HR_WIRE_WELCOME || count == 0);
    switch (head->kind) {
    case HR_WIRE_WELCOME:
        check_welcome(t, msg, fds, count);
        return;
    case HR_WIRE_ERROR:
        MUST(bytes == sizeof(*e) && e->code < 0 && e->text[0] && memchr(e->text, 0, sizeof(e->text)));
        t->told_why = true;
        return;
    case HR_WIRE_SEEKED:
        MUST(bytes == sizeof(struct hr_wire_seeked));
        return;
    default:
        MUST(head->kind == HR_WIRE_STATS && ((const char *)msg)[bytes - 1] == 0 &&
             ((const struct hr_wire_stats *)msg)->json[0] == '{');
    }
}

static void read_answers(struct trainer *t)
{
    _Alignas(8) char msg[HR_WIRE_MAX_MESSAGE];
    int fds[8], count;

    for (ssize_t n; (n = hr_fd_recv(t->sock, msg, sizeof(msg), fds, &count, NULL)) > 0;) {
        check_answer(t, msg, (size_t)n, fds, count);
        for (int i = 0; i < count; i++)
            hr_fd_close(&fds[i]);
    }
}

static void leave(struct trainer *t)
{
    if (t->control)
        munmap(t->control, sizeof(*t->control));
    t->control = NULL;
    hr_fd_close(&t->sock);
    if (t->session->fd >= 0)
        hr_session_end(&host, t->session);
}

/* Lets the session read what was sent, as the control loop would. */
static void serve(struct trainer *t)
{
    int ret = hr_session_receive(&host, t->session);

    if (ret == 0)
        ret = hr_session_check_stream(t->session);
    read_answers(t);
    if (ret == 0)
        return;
    MUST(ret == HR_E_DISCONNECTED || t->told_why);
    leave(t);
}

/* Takes everything that was published, and gives it back. */
static void release_all(struct trainer *t)
{
    if (t->control)
        atomic_store_explicit(&t->control->tail, atomic_load(&t->control->head), memory_order_release);
    for (uint32_t i = 0; t->control && i < HR_WIRE_MAX_SLOTS; i++) {
        const struct hr_wire_entry *entry = &t->control->queue[i];
        if (entry->slot < 2)
            atomic_store_explicit(&t->control->lease[entry->slot].released, entry->ticket, memory_order_release);
    }
    hr_engine_wake(host.engine);
}

/* ---- messages ---- */

static void send_raw(struct trainer *t, const void *msg, size_t bytes, int fd_count)
{
    const int fds[] = {t->sock, t->sock};
    struct hr_error err;

    if (hr_fd_send(t->sock, msg, bytes, fds, fd_count, &err) == 0)
        serve(t);
}

/* kind: that of the message as it is, or one with the right length. */
static void send_bytes(struct trainer *t, const uint8_t *data, size_t bytes, bool sealed, int fd_count)
{
    static uint8_t msg[2 * HR_WIRE_MAX_MESSAGE];

    bytes = hr_min_u64(bytes, sizeof(msg));
    if (bytes)
        memcpy(msg, data, bytes);
    if (sealed && bytes >= sizeof(struct hr_wire_head))
        hr_store_le32(msg + 4, (uint32_t)bytes);
    send_raw(t, msg, bytes, fd_count);
}

static uint32_t byte_at(const uint8_t *data, size_t bytes, size_t i)
{
    return i < bytes ? data[i] : 0;
}

static uint32_t copy_state(char *state, const uint8_t *data, size_t bytes, size_t from)
{
    size_t n = from < bytes ? hr_min_u64(bytes - from, HR_WIRE_STATE_BYTES) : 0;

    if (n)
        memcpy(state, data + from, n);
    return (uint32_t)n;
}

static void say_hello(struct trainer *t, const uint8_t *data, size_t bytes)
{
    struct hr_wire_hello hello = {
        .head = {HR_WIRE_HELLO, sizeof(hello)}, .wire_version = HR_WIRE_VERSION,
        .rank = byte_at(data, bytes, 0), .world = byte_at(data, bytes, 1) + 1,
        .want_shared = byte_at(data, bytes, 2) & 1, .force_state = byte_at(data, bytes, 2) & 2,
        .join_now = byte_at(data, bytes, 2) >> 2 & 1,
        .incarnation = byte_at(data, bytes, 2) >> 3};

    memset(hello.client, 'c', sizeof(hello.client)); /* not terminated */
    hello.state_bytes = copy_state(hello.state, data, bytes, 3);
    send_raw(t, &hello, sizeof(hello), 0);
}

static void seek(struct trainer *t, const uint8_t *data, size_t bytes)
{
    struct hr_wire_seek msg = {.head = {HR_WIRE_SEEK, sizeof(msg)}, .force_state = byte_at(data, bytes, 0) & 1,
                               .epoch = byte_at(data, bytes, 1)};

    msg.state_bytes = copy_state(msg.state, data, bytes, 2);
    send_raw(t, &msg, sizeof(msg), 0);
}

static void act(struct trainer *t, uint32_t what, const uint8_t *data, size_t bytes)
{
    if (t->sock < 0)
        come(t, 0);
    switch (what % KINDS) {
    case HELLO:
        say_hello(t, data, bytes);
        break;
    case SEEK:
        seek(t, data, bytes);
        break;
    case RELEASE:
        release_all(t);
        if (hr_session_check_stream(t->session) == 0)
            read_answers(t);
        break;
    case CLOSE:
        shutdown(t->sock, SHUT_RDWR);
        serve(t);
        break;
    case DRAIN:
        host.draining = byte_at(data, bytes, 0) & 1;
        break;
    case RESTART:
        leave(t);
        come(t, byte_at(data, bytes, 0));
        break;
    default:
        send_bytes(t, data, bytes, what % KINDS == SEALED, what & 128 ? 2 : 0);
    }
}

static int lowest_free(void)
{
    int fd = dup(2);

    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (!host.engine)
        open_engine();
    int before = lowest_free();
    for (int i = 0; i < MAX_OPERATIONS && bytes >= 3; i++) {
        size_t n = hr_min_u64(hr_load_le16(data + 1), bytes - 3);
        act(&trainers[data[0] >> 3 & 3 ? (data[0] >> 3 & 3) - 1 : 0], data[0] & 135, data + 3, n);
        data += 3 + n;
        bytes -= 3 + n;
    }
    for (int i = 0; i < TRAINERS; i++)
        if (trainers[i].sock >= 0)
            leave(&trainers[i]);
    while (host.stream_count > 0)
        hr_stream_close(host.streams[--host.stream_count].stream);
    host.draining = false;
    MUST(lowest_free() == before);
    return 0;
}
