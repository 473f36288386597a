/* The client's API apart from taking batches: opening, state and seeking, facts, closing. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "client/internal.h"

static int forked(struct hr_client *client)
{
    if (client->token == hr_process_token())
        return 0;
    return hr_report_fail(&client->report, HR_E_FORKED,
                          "a client cannot be used in a forked process: open one there");
}

/* ---- opening ---- */

/* Options of a caller that was built against an older or newer header. */
static struct hr_client_options read_options(const struct hr_client_options *given)
{
    struct hr_client_options options = HR_CLIENT_OPTIONS_INIT;

    if (given)
        memcpy(&options, given, hr_min_u64(given->struct_bytes, sizeof(options)));
    return options;
}

static int apply_options(struct hr_client *client, const struct hr_client_options *given,
                         bool *no_wait, struct hr_error *err)
{
    struct hr_client_options o = read_options(given);
    int ret = hr_process_rank(&o.rank, &o.world, err);

    if (ret < 0)
        return ret;
    client->rank = (uint32_t)o.rank;
    client->world = (uint32_t)o.world;
    client->shared = o.shared != 0;
    client->join_now = o.join_now != 0;
    client->force_state = o.force_state != 0;
    if (o.timeout_ms < 0 || !hr_mul_u64((uint64_t)o.timeout_ms, HR_NS_PER_MS, &client->timeout_ns))
        client->timeout_ns = UINT64_MAX;
    client->seek_wait_ns = client->timeout_ns;
    if (o.seek_wait_ms > 0 && o.seek_wait_ms < INT64_MAX / (int64_t)HR_NS_PER_MS)
        client->seek_wait_ns = (uint64_t)o.seek_wait_ms * HR_NS_PER_MS;
    snprintf(client->name, sizeof(client->name), "%s",
             o.client_name ? o.client_name : program_invocation_short_name);
    if (o.state && strlen(o.state) >= sizeof(client->state))
        return hr_fail(err, HR_E_STATE, "a state of %zu bytes is not one of ours", strlen(o.state));
    if (o.state)
        hr_link_set_state(client, o.state, strlen(o.state));
    *no_wait = o.no_wait != 0;
    return 0;
}

static int take_socket(struct hr_client *client, const char *number, struct hr_error *err)
{
    char *end;
    long fd = strtol(number, &end, 10);
    int flags = end == number || *end || fd < 0 || fd > INT32_MAX ? -1 : fcntl((int)fd, F_GETFL);

    if (flags < 0 || fcntl((int)fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
        return hr_fail(err, HR_E_USAGE, "'fd:%s' is not an open socket", number);
    client->given_sock = (int)fd;
    return 0;
}

/* From the root, so that the sidecar is found again from wherever the trainer went; as it was given where that
 * would be too long. */
static char *socket_path(const char *given, size_t most)
{
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];

    if (given[0] == '/' || !getcwd(folder, sizeof(folder)) || strlen(folder) + 1 + strlen(given) > most)
        return hr_strdup(given);
    return hr_asprintf("%s/%s", folder, given);
}

static int apply_address(struct hr_client *client, const char *address, struct hr_error *err)
{
    if (strncmp(address, "fd:", 3) == 0)
        return take_socket(client, address + 3, err);
    const char *path = strncmp(address, "unix:", 5) == 0 ? address + 5 : address;
    size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
    if (!path[0] || strlen(path) > most) {
        hr_fail(err, HR_E_USAGE, "'%s' is no socket path", address);
        hr_error_hint(err, "it must have 1 to %zu bytes; a relative path is shorter", most);
        return HR_E_USAGE;
    }
    client->path = socket_path(path, most);
    return client->path ? 0 : hr_fail(err, HR_E_NOMEM, "no memory for a client");
}

static struct hr_client *new_client(void)
{
    struct hr_client *client = hr_alloc_zero(1, sizeof(*client));

    if (!client)
        return NULL;
    client->token = hr_process_token();
    client->sock = client->given_sock = -1;
    hr_report_clear(&client->report);
    hr_link_down(client);
    hr_process_enlist(client);
    return client;
}

/* Takes the client; on failure its report goes to the thread. */
static int finish_open(struct hr_client *client, bool no_wait, struct hr_client **out)
{
    int ret = no_wait ? 0 : hr_client_ready(client, -1);

    if (ret == 0) {
        *out = client;
        return 0;
    }
    *hr_report_of_thread() = client->report;
    hr_client_close(client);
    return ret;
}

static int refuse_open(struct hr_client *client, const struct hr_error *err)
{
    if (client && client->given_sock >= 0)
        client->given_sock = -1; /* stays the caller's */
    hr_client_close(client);
    return hr_report_set(hr_report_of_thread(), err);
}

/* A client, NULL without memory, with the options applied. */
static int begin_open(const struct hr_client_options *options, struct hr_client **client,
                      bool *no_wait, struct hr_error *err)
{
    *no_wait = false;
    *client = new_client();
    return *client ? apply_options(*client, options, no_wait, err)
                   : hr_fail(err, HR_E_NOMEM, "no memory for a client");
}

int hr_client_open(const char *address, const struct hr_client_options *options,
                   struct hr_client **out)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_client *client;
    bool no_wait;

    *out = NULL;
    int ret = begin_open(options, &client, &no_wait, &err);
    if (ret == 0)
        ret = apply_address(client, address, &err);
    return ret < 0 ? refuse_open(client, &err) : finish_open(client, no_wait, out);
}

int hr_client_spawn(const char *binary, const char *config,
                    const struct hr_client_options *options, struct hr_client **out)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_client *client;
    bool no_wait;

    *out = NULL;
    int ret = begin_open(options, &client, &no_wait, &err);
    if (ret == 0)
        ret = hr_child_create(binary, config, &client->child, &err);
    return ret < 0 ? refuse_open(client, &err) : finish_open(client, no_wait, out);
}

int hr_client_ready(struct hr_client *client, int64_t timeout_ms)
{
    int ret = forked(client);

    if (ret < 0)
        return ret;
    if (client->seeking && !client->ended)
        return hr_link_seek(client, hr_link_deadline(timeout_ms));
    if (client->phase == HR_LINK_UP)
        return 0;
    if (client->ended)
        return client->ended;
    return hr_link_establish(client, hr_link_deadline(timeout_ms));
}

/* ---- state ---- */

const char *hr_client_state(struct hr_client *client)
{
    return client->state;
}

static int seek_to(struct hr_client *client, const struct hr_wire_seek *seek)
{
    uint64_t now_ns = hr_clock_ns(), deadline_ns;

    if (!hr_add_u64(now_ns, client->seek_wait_ns, &deadline_ns))
        deadline_ns = UINT64_MAX;
    client->ended = 0;
    if (client->phase == HR_LINK_DOWN && client->sock < 0) { /* an earlier wait may have been given up */
        client->fruitless = 0;
        hr_link_down(client);
    }
    client->seek = *seek;
    client->seeking = true;
    client->seek_sent = false;
    return hr_link_seek(client, deadline_ns);
}

int hr_client_seek(struct hr_client *client, const char *state, int force)
{
    struct hr_wire_seek seek = {.head = {HR_WIRE_SEEK, sizeof(seek)}, .force_state = force != 0};
    size_t n = state ? strlen(state) : 0;
    int ret = forked(client);

    if (ret < 0)
        return ret;
    if (n >= sizeof(seek.state))
        return hr_report_fail(&client->report, HR_E_STATE, "a state of %zu bytes is not one of ours",
                              n);
    if (n)
        memcpy(seek.state, state, n);
    seek.state_bytes = (uint32_t)n;
    return seek_to(client, &seek);
}

int hr_client_seek_epoch(struct hr_client *client, uint64_t epoch)
{
    struct hr_wire_seek seek = {.head = {HR_WIRE_SEEK, sizeof(seek)}, .epoch = epoch};
    int ret = forked(client);

    if (ret < 0 || (client->was_up && client->at_epoch_start && client->next_epoch == epoch &&
                    client->ended == 0 && !client->seeking))
        return ret;
    return seek_to(client, &seek);
}

/* ---- facts ---- */

void hr_client_info(struct hr_client *client, struct hr_client_info *info)
{
    const struct hr_session *s = client->session;

    *info = (struct hr_client_info){
        .rank = client->rank,
        .world = client->world,
        .batch = client->batch,
        .dataset_records = client->dataset_records,
        .steps_per_epoch = client->steps_per_epoch,
        .dataset_digest = client->dataset_digest,
        .plan_digest = client->plan_digest,
    };
    if (!s)
        return;
    info->slot_count = s->slot_count;
    info->slot_bytes = s->slot_bytes;
    info->data = s->data;
    info->data_bytes = s->data_bytes;
    info->writable = s->writable;
}

static int ask_stats_once(struct hr_client *client, uint64_t deadline_ns)
{
    struct hr_wire_head ask = {HR_WIRE_STATS_ASK, sizeof(ask)};
    int ret = hr_link_establish(client, deadline_ns);

    if (ret == 0)
        ret = hr_link_await(client, 0, 0); /* an answer that came when nobody waited for it any more is old */
    if (ret == 0)
        ret = hr_link_send(client, &ask);
    if (ret == 0)
        ret = hr_link_await(client, HR_WIRE_STATS, deadline_ns);
    if (ret == 0)
        ret = hr_report_fail(&client->report, HR_E_TIMEOUT, "the sidecar sent no statistics");
    return ret;
}

static int ask_stats(struct hr_client *client)
{
    uint64_t deadline_ns = hr_clock_ns() + hr_min_u64(client->timeout_ns, 5 * HR_NS_PER_S);
    int ret = forked(client);

    if (ret < 0)
        return ret;
    do
        ret = ask_stats_once(client, deadline_ns);
    while (ret == HR_E_DISCONNECTED && !client->ended && hr_clock_ns() < deadline_ns);
    return ret;
}

const char *hr_client_stats(struct hr_client *client)
{
    if (ask_stats(client) < 0)
        return NULL;
    size_t n = client->message.head.bytes - sizeof(struct hr_wire_head);
    memcpy(client->stats_text, client->message.stats.json, n);
    client->stats_text[n < sizeof(client->stats_text) ? n : sizeof(client->stats_text) - 1] = 0;
    return client->stats_text;
}

uint64_t hr_client_wait_ns(struct hr_client *client)
{
    return client->wait_ns;
}

/* ---- closing ---- */

static void say_bye(struct hr_client *client)
{
    struct hr_wire_head bye = {HR_WIRE_BYE, sizeof(bye)};
    int ret = hr_link_send(client, &bye);

    (void)ret; /* gone already is as good */
}

void hr_client_close(struct hr_client *client)
{
    /* In a forked child all of it belongs to the parent. */
    if (!client || client->token != hr_process_token())
        return;
    hr_process_delist(client);
    /* A private sidecar ends with us, so nobody else will fill the slots. */
    if (client->session && client->phase == HR_LINK_UP && !client->child)
        hr_session_keep_held(client->session);
    if (client->phase == HR_LINK_UP)
        say_bye(client);
    hr_fd_close(&client->sock);
    hr_fd_close(&client->given_sock);
    hr_child_destroy(client->child);
    hr_session_unref(client->session);
    hr_free(client->path);
    hr_free(client);
}
