/* What sidecars send: messages, welcomes with memory behind them, control pages and batches of any bytes, to
 * the client library over a real socket. Each operation is a byte with its arguments. What the client hands
 * on must lie inside the slot, be readable, and its errors must say something. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <headrace/client.h>

#include "base/fd.h"
#include "ipc/numbered.h"
#include "ring/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { SLOTS = 3, MAX_HELD = 16, MAX_OPERATIONS = 60, TIMEOUT_MS = 20, MAX_WAITS = 3 };

#define DATA_BYTES    ((uint64_t)SLOTS * NUMBERED_SLOT_BYTES)
#define CONTROL_BYTES hr_align_up(sizeof(struct hr_wire_control), 4096)
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

struct game {
    const uint8_t *data;
    size_t bytes;
    int sock; /* the sidecar's end */
    int data_fd, control_fd, wake_fd;
    uint8_t *slots;
    struct hr_wire_control *control;
    uint32_t head, tickets;
    uint64_t sequence;
    struct hr_client *client;
    struct hr_batch *held[MAX_HELD];
    uint32_t held_count;
    uint32_t waits; /* calls that may have waited in vain */
};

static uint32_t take_byte(struct game *g)
{
    if (g->bytes == 0)
        return 0;
    g->bytes--;
    return *g->data++;
}

static uint32_t take_word(struct game *g)
{
    uint32_t low = take_byte(g);

    return low | take_byte(g) << 8;
}

/* Input over memory: an offset, a length, so many bytes. */
static void patch(struct game *g, void *target, size_t target_bytes)
{
    size_t at = take_word(g), n = hr_min_u64(take_byte(g), g->bytes);

    if (at < target_bytes && n)
        memcpy((uint8_t *)target + at, g->data, hr_min_u64(n, target_bytes - at));
    g->data += n;
    g->bytes -= n;
}

/* ---- the sidecar ---- */

static void check(struct game *g, int ret)
{
    MUST(ret <= 0 && (ret == 0 || hr_client_error(g->client)[0]));
}

static void welcome(struct game *g)
{
    struct hr_wire_welcome msg = {
        .head = {HR_WIRE_WELCOME, sizeof(msg)}, .wire_version = HR_WIRE_VERSION, .world = 1,
        .slot_count = SLOTS, .slot_bytes = NUMBERED_SLOT_BYTES, .data_bytes = DATA_BYTES,
        .control_bytes = sizeof(struct hr_wire_control), .writable = 1, .batch = 2,
        .dataset_records = 10, .steps_per_epoch = 5, .server = "fuzz"};
    const int fds[] = {g->data_fd, g->control_fd, g->wake_fd, g->data_fd};
    uint32_t how = take_byte(g), count = how & 128 ? (how & 3) + 1 : 3;
    struct hr_error err;

    for (uint32_t i = 0; i < (how & 7); i++)
        patch(g, &msg, sizeof(msg));
    if (hr_fd_send(g->sock, &msg, sizeof(msg), fds, (int)count, &err) == 0)
        check(g, hr_client_ready(g->client, TIMEOUT_MS));
}

static void send_bytes(struct game *g)
{
    static uint8_t msg[HR_WIRE_MAX_MESSAGE + 64];
    const int fds[] = {g->wake_fd, g->wake_fd};
    uint32_t how = take_byte(g);
    size_t pad = how & 1 ? sizeof(struct hr_wire_error) : how & 2 ? sizeof(struct hr_wire_seeked) : 0;
    size_t n = hr_min_u64(take_word(g), g->bytes);
    struct hr_error err;

    n = hr_min_u64(n, sizeof(msg));
    memset(msg, 0, sizeof(msg));
    memcpy(msg, g->data, n);
    g->data += n;
    g->bytes -= n;
    n = hr_max_u64(n, pad);
    if (how & 4)
        hr_store_le32(msg + 4, (uint32_t)n);
    int ret = hr_fd_send(g->sock, msg, n, fds, how & 8 ? 2 : 0, &err);
    (void)ret;
}

static void fill_slot(struct game *g)
{
    const struct numbered_plan plan = {.count = 1 + take_byte(g) % 4, .steps = 5, .epochs = 2};
    uint32_t slot = take_byte(g) % SLOTS, patches = take_byte(g) & 7;

    numbered_fill(g->slots + (uint64_t)slot * NUMBERED_SLOT_BYTES, &plan,
                  (struct numbered_cursor){.epoch = 0, .step = g->sequence % 5}, g->sequence);
    g->sequence++;
    for (uint32_t i = 0; i < patches; i++)
        patch(g, g->slots + (uint64_t)slot * NUMBERED_SLOT_BYTES, NUMBERED_SLOT_BYTES);
}

static void publish(struct game *g)
{
    struct hr_wire_entry *entry = &g->control->queue[g->head % HR_WIRE_MAX_SLOTS];
    uint32_t how = take_byte(g);

    *entry = (struct hr_wire_entry){.slot = how % SLOTS, .ticket = ++g->tickets};
    if (how & 128)
        patch(g, entry, sizeof(*entry));
    atomic_store_explicit(&g->control->head, ++g->head, memory_order_release);
}

/* All but the word that says that the stream is closed, after which the client waits for the reason. */
static void scribble(struct game *g)
{
    uint32_t closed = atomic_load_explicit(&g->control->closed, memory_order_relaxed);

    patch(g, g->control, sizeof(*g->control));
    atomic_store_explicit(&g->control->closed, closed, memory_order_relaxed);
}

static void close_stream(struct game *g)
{
    atomic_store_explicit(&g->control->closed, -HR_E_END, memory_order_release);
}

static void hang_up(struct game *g)
{
    shutdown(g->sock, SHUT_RDWR);
}

/* ---- the trainer ---- */

static volatile uint64_t sink;

static void touch(const struct hr_batch_info *info, const void *p, uint64_t bytes)
{
    const uint8_t *at = p, *slot = info->slot_data;

    if (bytes == 0)
        return;
    MUST(at >= slot && bytes <= info->slot_bytes && (uint64_t)(at - slot) <= info->slot_bytes - bytes);
    for (uint64_t i = 0; i < bytes; i++)
        sink += at[i];
}

/* Every element lies in the data. */
static void walk_dense(const struct hr_array *a, const struct hr_batch_info *info)
{
    uint64_t last = 0;

    MUST(a->dims >= 1 && a->dims <= HR_ARRAY_MAX_DIMS && a->shape[0] == (int64_t)info->count);
    for (int32_t d = 0; d < a->dims; d++) {
        if (a->shape[d] == 0)
            return;
        MUST(a->shape[d] > 0 && a->strides[d] >= 0);
        last += (uint64_t)(a->shape[d] - 1) * (uint64_t)a->strides[d];
    }
    MUST(last < a->bytes);
}

static void walk_ragged(const struct hr_array *a, const struct hr_batch_info *info)
{
    touch(info, a->offsets, 8 * ((uint64_t)info->count + 1));
    touch(info, a->shapes, 4 * (uint64_t)info->count * (uint64_t)a->sample_dims);
    for (uint32_t i = 0; i < info->count; i++)
        MUST(a->offsets[i] >= 0 && a->offsets[i] <= a->offsets[i + 1] &&
             (uint64_t)a->offsets[i + 1] <= a->bytes);
}

static void walk(struct hr_batch *batch)
{
    struct hr_batch_info info;
    struct hr_array a;

    hr_batch_info(batch, &info);
    sink += strlen(info.state);
    if (info.records)
        touch(&info, info.records, 8 * (uint64_t)info.count);
    if (info.sources)
        touch(&info, info.sources, 4 * (uint64_t)info.count);
    if (info.valid)
        touch(&info, info.valid, info.count);
    for (uint32_t i = 0; i < info.field_count; i++) {
        if (hr_batch_field_at(batch, i, &a) < 0) {
            MUST(hr_client_error(NULL)[0]);
            continue;
        }
        sink += strlen(a.name) + strlen(a.dtype) + strlen(a.layout) + strlen(a.field_type);
        touch(&info, a.data, a.bytes);
        if (a.ragged)
            walk_ragged(&a, &info);
        else
            walk_dense(&a, &info);
    }
    MUST(hr_batch_field_at(batch, info.field_count, &a) < 0);
}

static void next(struct game *g)
{
    struct hr_batch *batch;

    if (g->held_count == MAX_HELD) /* those of an earlier sidecar count, too */
        return;
    int ret = hr_client_next(g->client, 0, &batch);

    check(g, ret);
    MUST((ret == 0) == (batch != NULL));
    if (ret < 0)
        return;
    walk(batch);
    g->held[g->held_count++] = batch;
}

static void release(struct game *g)
{
    uint32_t i = take_byte(g);

    if (g->held_count == 0)
        return;
    i %= g->held_count;
    hr_batch_release(g->held[i]);
    g->held[i] = g->held[--g->held_count];
}

static void seek(struct game *g)
{
    uint32_t how = take_byte(g);

    if (++g->waits > MAX_WAITS)
        return;
    if (how & 1)
        check(g, hr_client_seek_epoch(g->client, how >> 1));
    else
        check(g, hr_client_seek(g->client, how & 2 ? "{\"epoch\":1,\"step\":0}" : NULL, how & 4));
}

static void ask(struct game *g)
{
    struct hr_client_info info;
    const char *stats = ++g->waits > MAX_WAITS ? NULL : hr_client_stats(g->client);

    sink += stats ? strlen(stats) : 0;
    hr_client_info(g->client, &info);
    sink += strlen(info.dataset_digest) + strlen(info.plan_digest) + strlen(hr_client_state(g->client));
}

/* ---- the game ---- */

static void open_client(struct game *g, int sock)
{
    struct hr_client_options options = HR_CLIENT_OPTIONS_INIT;
    char address[32];

    options.timeout_ms = TIMEOUT_MS;
    options.no_wait = 1;
    options.rank = 0;
    options.world = 1;
    snprintf(address, sizeof(address), "fd:%d", sock);
    MUST(hr_client_open(address, &options, &g->client) == 0);
}

static void begin(struct game *g)
{
    int pair[2];

    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    g->sock = pair[0];
    g->data_fd = hr_fd_memfd("data", DATA_BYTES, NULL);
    g->control_fd = hr_fd_memfd("control", CONTROL_BYTES, NULL);
    g->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    g->slots = mmap(NULL, DATA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, g->data_fd, 0);
    g->control = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, g->control_fd, 0);
    MUST(g->slots != MAP_FAILED && g->control != MAP_FAILED && g->wake_fd >= 0);
    g->control->magic = HR_WIRE_CONTROL_MAGIC;
    g->control->wire_version = HR_WIRE_VERSION;
    g->control->slot_count = SLOTS;
    open_client(g, pair[1]);
}

static void end(struct game *g)
{
    hr_client_close(g->client);
    while (g->held_count > 0)
        hr_batch_release(g->held[--g->held_count]);
    munmap(g->slots, DATA_BYTES);
    munmap(g->control, CONTROL_BYTES);
    hr_fd_close(&g->sock);
    hr_fd_close(&g->data_fd);
    hr_fd_close(&g->control_fd);
    hr_fd_close(&g->wake_fd);
}

static int lowest_free(void)
{
    int fd = dup(2);

    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static void (*const operations[])(struct game *g) = {
        send_bytes, welcome, fill_slot, publish, next, release, scribble, seek, ask, close_stream, hang_up};
    struct game g = {.data = data, .bytes = bytes};
    int before = lowest_free();

    begin(&g);
    for (int i = 0; i < MAX_OPERATIONS && g.bytes > 0; i++)
        operations[take_byte(&g) % HR_ARRAY_SIZE(operations)](&g);
    end(&g);
    MUST(lowest_free() == before);
    return 0;
}
