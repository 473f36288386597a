/* What a client must know of its process: whether it is still the one that attached, and which rank
 * the launcher gave it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/internal.h"

/* A page that the kernel clears in a forked child. It notices forks that bypass the C library too,
 * and looking at it is one load. NULL where the kernel cannot (before 4.14). */
static _Atomic uint64_t *fork_page;
static _Atomic uint64_t last_token;

static void map_fork_page(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p != MAP_FAILED && madvise(p, 4096, MADV_WIPEONFORK) == 0)
        fork_page = p;
}

uint64_t hr_process_token(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t token;

    pthread_once(&once, map_fork_page);
    if (!fork_page)
        return (uint64_t)getpid();
    token = atomic_load_explicit(fork_page, memory_order_relaxed);
    if (token)
        return token;
    /* The counter is inherited, so a child's token differs from those of all its ancestors. */
    uint64_t fresh = 1 + atomic_fetch_add_explicit(&last_token, 1, memory_order_relaxed);
    return atomic_compare_exchange_strong(fork_page, &token, fresh) ? fresh : token;
}

/* ---- sockets and forks ---- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hr_client *listed;

void hr_process_hold_forks(void)
{
    pthread_mutex_lock(&list_lock);
}

void hr_process_allow_forks(void)
{
    pthread_mutex_unlock(&list_lock);
}

static void after_fork_in_child(void)
{
    for (struct hr_client *c = listed; c; c = c->next_listed) {
        hr_fd_close(&c->sock);
        hr_fd_close(&c->given_sock);
    }
    listed = NULL;
    pthread_mutex_unlock(&list_lock);
}

static void watch_forks(void)
{
    pthread_atfork(hr_process_hold_forks, hr_process_allow_forks, after_fork_in_child);
}

void hr_process_enlist(struct hr_client *client)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&list_lock);
    client->next_listed = listed;
    listed = client;
    pthread_mutex_unlock(&list_lock);
}

void hr_process_delist(struct hr_client *client)
{
    struct hr_client **link = &listed;

    pthread_mutex_lock(&list_lock);
    while (*link && *link != client)
        link = &(*link)->next_listed;
    if (*link)
        *link = client->next_listed;
    pthread_mutex_unlock(&list_lock);
}

/* ---- rank ---- */

static bool parse_number(const char *text, int32_t *out)
{
    char *end;
    long v = strtol(text, &end, 10);

    if (end == text || *end || v < 0 || v > INT32_MAX)
        return false;
    *out = (int32_t)v;
    return true;
}

static int from_environment(int32_t *rank, int32_t *world, struct hr_error *err)
{
    static const char *const names[][2] = {
        {"RANK", "WORLD_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
    };

    for (size_t i = 0; i < HR_ARRAY_SIZE(names); i++) {
        const char *r = getenv(names[i][0]), *w = getenv(names[i][1]);
        if (!r || !w)
            continue;
        if (parse_number(r, rank) && parse_number(w, world))
            return 0;
        hr_fail(err, HR_E_USAGE, "%s='%s' and %s='%s' are not a rank and a world size", names[i][0],
                r, names[i][1], w);
        hr_error_hint(err, "set them right, or give rank and world to the client");
        return HR_E_USAGE;
    }
    for (size_t i = 0; i < HR_ARRAY_SIZE(names); i++) {
        const char *r = getenv(names[i][0]);
        if (!r || strcmp(r, "0") == 0) /* a batch job's own script is SLURM_PROCID 0, often without SLURM_NTASKS */
            continue;
        hr_fail(err, HR_E_USAGE, "%s is '%s' and there is no %s: as the only rank it would be given what all the "
                "others are given", names[i][0], r, names[i][1]);
        hr_error_hint(err, "set %s, or give rank and world to the client", names[i][1]);
        return HR_E_USAGE;
    }
    *rank = 0;
    *world = 1;
    return 0;
}

int hr_process_rank(int32_t *rank, int32_t *world, struct hr_error *err)
{
    int32_t env_rank = 0, env_world = 1;
    int ret = *rank < 0 || *world < 0 ? from_environment(&env_rank, &env_world, err) : 0;

    if (ret < 0)
        return ret;
    *rank = *rank < 0 ? env_rank : *rank;
    *world = *world < 0 ? env_world : *world;
    if (*rank < *world)
        return 0;
    hr_fail(err, HR_E_USAGE, "rank %d of a world of %d", *rank, *world);
    hr_error_hint(err, "ranks count from 0; give rank and world together");
    return HR_E_USAGE;
}
