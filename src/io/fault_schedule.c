/* See fault_schedule.h. */
#include "io/fault_schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define MAX_TIME_NS (3600 * HR_NS_PER_S)

/* The rest of the item, as far as it is not read yet. */
struct cursor {
    const char *at, *end;
};

static bool take_char(struct cursor *c, char wanted)
{
    bool there = c->at < c->end && *c->at == wanted;

    c->at += there;
    return there;
}

static bool take_digits(struct cursor *c, char *out, size_t out_bytes, const char *set)
{
    size_t n = 0;

    while (c->at < c->end && strchr(set, *c->at) && n + 1 < out_bytes)
        out[n++] = *c->at++;
    out[n] = 0;
    return n > 0;
}

static bool take_number(struct cursor *c, uint64_t *out)
{
    char text[24], *stop;

    if (!take_digits(c, text, sizeof(text), "0123456789"))
        return false;
    errno = 0;
    *out = strtoull(text, &stop, 10);
    return errno == 0 && *stop == 0;
}

static bool take_real(struct cursor *c, double *out)
{
    char text[32], *stop;

    if (!take_digits(c, text, sizeof(text), "0123456789.e-"))
        return false;
    *out = strtod(text, &stop);
    return *stop == 0;
}

static bool take_share(struct cursor *c, struct hr_fault_chance *chance)
{
    return take_real(c, &chance->share) && chance->share >= 0 && chance->share <= 1;
}

static bool take_at(struct cursor *c, struct hr_fault_chance *chance)
{
    return take_char(c, '@') && take_number(c, &chance->at) && chance->at > 0;
}

static bool take_chance(struct cursor *c, struct hr_fault_chance *chance)
{
    return take_at(c, chance) || take_share(c, chance);
}

static bool take_time(struct cursor *c, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", HR_NS_PER_US}, {"ms", HR_NS_PER_MS}, {"s", HR_NS_PER_S}};
    double value;

    if (!take_real(c, &value) || !(value >= 0))
        return false;
    for (size_t i = 0; i < HR_ARRAY_SIZE(units); i++) {
        size_t n = strlen(units[i].name);
        if ((size_t)(c->end - c->at) < n || memcmp(c->at, units[i].name, n) != 0)
            continue;
        c->at += n;
        if (value * (double)units[i].ns > (double)MAX_TIME_NS)
            return false;
        *out = (uint64_t)(value * (double)units[i].ns);
        return true;
    }
    return false;
}

/* NULL when the item is right, else what was expected. */
static const char *read_item(struct hr_fault_schedule *s, const char *name, struct cursor *c)
{
    if (strcmp(name, "seed") == 0)
        return take_number(c, &s->seed) ? NULL : "a number";
    if (strcmp(name, "eio") == 0)
        return take_chance(c, &s->eio) ? NULL : "a share from 0 to 1, or @ and a request's number";
    if (strcmp(name, "short") == 0)
        return take_chance(c, &s->cut) ? NULL : "a share from 0 to 1, or @ and a request's number";
    if (strcmp(name, "burst") == 0)
        return take_number(c, &s->burst_requests) && s->burst_requests > 0 && take_char(c, ':') &&
                       take_share(c, &s->burst)
                   ? NULL
                   : "a number of requests and a share, such as 20:0.05";
    if (strcmp(name, "noise") == 0)
        return take_chance(c, &s->noise) ? NULL : "a share from 0 to 1, or @ and a request's number";
    if (strcmp(name, "bad") == 0)
        return take_share(c, &s->bad) ? NULL : "a share from 0 to 1";
    if (strcmp(name, "flip") == 0)
        return take_share(c, &s->flip) ? NULL : "a share from 0 to 1";
    if (strcmp(name, "delay") == 0)
        return take_time(c, &s->delay_ns) &&
                       (take_at(c, &s->delay) || (take_char(c, ':') && take_share(c, &s->delay)))
                   ? NULL
                   : "a time and a share, such as 2ms:0.05, or a time and a request, such as 2ms@7";
    if (strcmp(name, "stall") == 0)
        return take_time(c, &s->stall_ns) && take_at(c, &s->stall)
                   ? NULL
                   : "a time and a request's number, such as 2s@1000";
    return "one of seed, eio, burst, bad, short, flip, noise, delay, stall";
}

static int parse_item(struct hr_fault_schedule *s, const char *text, const char *item,
                      const char *end, struct hr_error *err)
{
    char name[16];
    const char *equals = memchr(item, '=', (size_t)(end - item));
    size_t n = (size_t)((equals ? equals : end) - item);
    struct cursor c = {equals ? equals + 1 : end, end};

    snprintf(name, sizeof(name), "%.*s", (int)hr_min_u64(n, 15), item);
    const char *expected = read_item(s, name, &c);
    if (!expected && c.at == end)
        return 0;
    hr_fail(err, HR_E_CONFIG, "fault schedule: '%.*s' is not understood",
            (int)hr_min_u64((uint64_t)(end - item), 100), item);
    if (err)
        err->offset = item - text;
    hr_error_hint(err, "expected %s", expected ? expected : "',' after the value");
    return HR_E_CONFIG;
}

int hr_fault_schedule_parse(const char *text, struct hr_fault_schedule *s, struct hr_error *err)
{
    *s = (struct hr_fault_schedule){0};
    if (!text || !*text) {
        hr_fail(err, HR_E_CONFIG, "the reader 'fault' needs a schedule");
        hr_error_hint(err, "for example seed=7,eio=0.01,delay=2ms:0.05,stall=2s@1000");
        return HR_E_CONFIG;
    }
    for (const char *item = text;;) {
        const char *end = item + strcspn(item, ",");
        int ret = parse_item(s, text, item, end, err);
        if (ret < 0 || *end == 0)
            return ret;
        item = end + 1;
    }
}
