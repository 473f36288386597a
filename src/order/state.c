/* The checkpoint's text form and its rolling digest. The JSON is read by a strict scanner for one
 * flat object, since a state comes back from anywhere: a file, a trainer, another program. */
#include "order/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Record ids are digested in runs of so many; part of the format (docs/state.md). */
enum { DIGEST_RUN = 256 };

void hr_state_init(struct hr_state *state, const struct hr_digest *dataset,
                   const struct hr_digest *plan, uint64_t seed)
{
    *state = (struct hr_state){.dataset = *dataset, .plan = *plan, .seed = seed};
}

void hr_state_advance(struct hr_state *state, const struct hr_order *order)
{
    struct hr_place places[DIGEST_RUN];
    uint8_t ids[DIGEST_RUN * 12];
    uint32_t total = hr_order_share(order, state->cursor, 0, 1).global_count;

    for (uint32_t first = 0; first < total; first += DIGEST_RUN) {
        uint32_t run = total - first < DIGEST_RUN ? total - first : DIGEST_RUN;
        size_t bytes = 0;
        hr_order_places(order, state->cursor, first, run, places);
        for (uint32_t i = 0; i < run; i++) {
            if (!places[i].valid)
                continue;
            hr_store_le64(ids + bytes, places[i].record);
            bytes += 8;
            if (order->spec.source_count > 1) {
                hr_store_le32(ids + bytes, places[i].source);
                bytes += 4;
            }
            state->samples++;
        }
        if (bytes)
            state->order_digest = hr_hash64(ids, bytes, state->order_digest);
    }
    hr_order_next(order, &state->cursor);
}

int hr_state_encode(const struct hr_state *state, char text[HR_STATE_BYTES])
{
    char dataset[HR_DIGEST_HEX_BYTES], plan[HR_DIGEST_HEX_BYTES];
    char parts[4 * HR_STATE_MAX_PARTS + 1] = "";

    for (uint32_t i = 0; i < state->parts.count; i++)
        snprintf(parts + 4 * i, 5, "%04x", state->parts.digests[i]);
    return snprintf(text, HR_STATE_BYTES,
                    "{\"headrace_state\":%d,\"dataset\":\"%s\",\"plan\":\"%s\",\"seed\":%" PRIu64
                    ",\"epoch\":%" PRIu64 ",\"step\":%" PRIu64 ",\"samples\":%" PRIu64
                    ",\"order_digest\":\"%016" PRIx64 "\",\"parts\":\"%s\"}",
                    HR_STATE_VERSION, hr_digest_hex(&state->dataset, dataset),
                    hr_digest_hex(&state->plan, plan), state->seed, state->cursor.epoch,
                    state->cursor.step, state->samples, state->order_digest, parts);
}

struct scanner {
    const char *at, *begin, *end;
    uint64_t version;
    struct hr_error *err;
};

static int refuse(const struct scanner *scan, const char *what, const char *name)
{
    hr_fail(scan->err, HR_E_STATE, "not a Headrace state: %s%s%s%s at byte %zu", what,
            name ? " '" : "", name ? name : "", name ? "'" : "", (size_t)(scan->at - scan->begin));
    hr_error_hint(scan->err,
                  "pass what state_dict() or the batch's state gave, unchanged, or {} to begin anew");
    return HR_E_STATE;
}

static void skip_space(struct scanner *scan)
{
    while (scan->at < scan->end && memchr(" \t\r\n", *scan->at, 4))
        scan->at++;
}

static bool take(struct scanner *scan, char c)
{
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

/* A string without escapes, since nothing in a state needs any. */
static int take_string(struct scanner *scan, char *out, size_t out_bytes)
{
    size_t n = 0;

    if (!take(scan, '"'))
        return refuse(scan, "expected a string", NULL);
    while (scan->at < scan->end && *scan->at != '"') {
        unsigned char c = (unsigned char)*scan->at;
        if (c < 0x20 || c > 0x7e || c == '\\' || n + 1 == out_bytes)
            return refuse(scan, "unexpected string", NULL);
        out[n++] = (char)c;
        scan->at++;
    }
    out[n] = 0;
    return take(scan, '"') ? 0 : refuse(scan, "unfinished string", NULL);
}

static int take_u64(struct scanner *scan, const char *name, uint64_t *out)
{
    uint64_t v = 0;

    skip_space(scan);
    if (scan->at < scan->end && *scan->at == '-')
        return refuse(scan, "negative number for", name);
    const char *first = scan->at;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') {
        if (!hr_mul_u64(v, 10, &v) || !hr_add_u64(v, (uint64_t)(*scan->at - '0'), &v))
            return refuse(scan, "number over 64 bits for", name);
        scan->at++;
    }
    bool fraction = scan->at < scan->end && memchr(".eE", *scan->at, 3);
    if (scan->at == first || fraction || (*first == '0' && scan->at - first > 1))
        return refuse(scan, "expected a whole number for", name);
    *out = v;
    return 0;
}

static int take_digest(struct scanner *scan, const char *name, struct hr_digest *out)
{
    char hex[HR_DIGEST_HEX_BYTES];
    int ret = take_string(scan, hex, sizeof(hex));

    if (ret < 0)
        return ret;
    return hr_digest_parse(hex, out) ? 0 : refuse(scan, "expected 32 hex digits for", name);
}

static int take_hash(struct scanner *scan, const char *name, uint64_t *out)
{
    char hex[17];
    int ret = take_string(scan, hex, sizeof(hex));

    if (ret < 0)
        return ret;
    if (strlen(hex) != 16 || strspn(hex, "0123456789abcdefABCDEF") != 16)
        return refuse(scan, "expected 16 hex digits for", name);
    return sscanf(hex, "%" SCNx64, out) == 1 ? 0 : refuse(scan, "expected hex digits for", name);
}

/* Four hex digits a part. */
static int take_parts(struct scanner *scan, const char *name, struct hr_state_parts *out)
{
    char hex[4 * HR_STATE_MAX_PARTS + 1];
    int ret = take_string(scan, hex, sizeof(hex));

    if (ret < 0)
        return ret;
    size_t digits = strlen(hex);
    if (digits % 4 || strspn(hex, "0123456789abcdefABCDEF") != digits)
        return refuse(scan, "expected 4 hex digits a part for", name);
    out->count = (uint32_t)(digits / 4);
    for (uint32_t i = 0; i < out->count; i++) {
        unsigned v = 0;
        sscanf(hex + 4 * i, "%4x", &v);
        out->digests[i] = (uint16_t)v;
    }
    return 0;
}

static const char *const keys[] = {"headrace_state", "dataset", "plan",         "seed", "epoch",
                                   "step",           "samples", "order_digest", "parts"};
enum {
    KEY_VERSION,
    KEY_DATASET,
    KEY_PLAN,
    KEY_SEED,
    KEY_EPOCH,
    KEY_STEP,
    KEY_SAMPLES,
    KEY_DIGEST,
    KEY_PARTS, /* since version 2 */
};

static int take_version(struct scanner *scan)
{
    int ret = take_u64(scan, keys[KEY_VERSION], &scan->version);

    if (ret < 0 || (scan->version >= 1 && scan->version <= HR_STATE_VERSION))
        return ret;
    hr_fail(scan->err, HR_E_STATE, "state of version %" PRIu64 "; this Headrace reads versions 1 to %d",
            scan->version, HR_STATE_VERSION);
    hr_error_hint(scan->err, "load it with the Headrace that wrote it, or a newer one");
    return HR_E_STATE;
}

static int take_value(struct scanner *scan, int key, struct hr_state *state)
{
    switch (key) {
    case KEY_VERSION:
        return take_version(scan);
    case KEY_DATASET:
        return take_digest(scan, keys[key], &state->dataset);
    case KEY_PLAN:
        return take_digest(scan, keys[key], &state->plan);
    case KEY_SEED:
        return take_u64(scan, keys[key], &state->seed);
    case KEY_EPOCH:
        return take_u64(scan, keys[key], &state->cursor.epoch);
    case KEY_STEP:
        return take_u64(scan, keys[key], &state->cursor.step);
    case KEY_SAMPLES:
        return take_u64(scan, keys[key], &state->samples);
    case KEY_DIGEST:
        return take_hash(scan, keys[key], &state->order_digest);
    default:
        return take_parts(scan, keys[key], &state->parts);
    }
}

static int find_key(const char *name)
{
    for (int i = 0; i < (int)HR_ARRAY_SIZE(keys); i++)
        if (strcmp(name, keys[i]) == 0)
            return i;
    return -1;
}

/* One `"key": value`; marks the key in *seen. */
static int take_member(struct scanner *scan, struct hr_state *state, unsigned *seen)
{
    char name[32];
    int ret = take_string(scan, name, sizeof(name));

    if (ret < 0)
        return ret;
    int key = find_key(name);
    if (key < 0)
        return refuse(scan, "unknown key", name);
    if (*seen >> key & 1)
        return refuse(scan, "second value for", name);
    *seen |= 1u << key;
    if (!take(scan, ':'))
        return refuse(scan, "expected ':' after", name);
    return take_value(scan, key, state);
}

static int take_object(struct scanner *scan, struct hr_state *state, unsigned *seen)
{
    if (!take(scan, '{'))
        return refuse(scan, "expected '{'", NULL);
    if (take(scan, '}'))
        return 0;
    do {
        int ret = take_member(scan, state, seen);
        if (ret < 0)
            return ret;
    } while (take(scan, ','));
    return take(scan, '}') ? 0 : refuse(scan, "expected ',' or '}'", NULL);
}

int hr_state_decode(struct hr_state *state, const struct hr_state *defaults, const char *text,
                    size_t bytes, struct hr_error *err)
{
    struct scanner scan = {.at = text, .begin = text, .end = text + bytes, .err = err};
    struct hr_state loaded = {0};
    unsigned seen = 0;

    skip_space(&scan);
    if (scan.at < scan.end) {
        int ret = take_object(&scan, &loaded, &seen);
        if (ret < 0)
            return ret;
        skip_space(&scan);
        if (scan.at < scan.end)
            return refuse(&scan, "something follows the object", NULL);
    }
    if (!seen) {
        hr_state_init(&loaded, &defaults->dataset, &defaults->plan, defaults->seed);
        loaded.parts = defaults->parts;
        *state = loaded;
        return 0;
    }
    for (int i = 0; i < (int)HR_ARRAY_SIZE(keys); i++)
        if (!(seen >> i & 1) && !(i == KEY_PARTS && scan.version == 1))
            return refuse(&scan, "missing", keys[i]);
    if (scan.version == 1 && seen >> KEY_PARTS & 1)
        return refuse(&scan, "unknown key of version 1", keys[KEY_PARTS]);
    *state = loaded;
    return 0;
}

static int differs(struct hr_error *err, const char *what, const char *theirs, const char *ours)
{
    hr_fail(err, HR_E_STATE, "the state is of another %s: %s, not %s", what, theirs, ours);
    hr_error_hint(err, "go on with the %s it was saved under, begin anew with {}, or take its position all "
                       "the same: load_state_dict(..., force=True), Loader(force_state=True)", what);
    return HR_E_STATE;
}

int hr_state_check(const struct hr_state *loaded, const struct hr_state *ours, struct hr_error *err)
{
    char theirs[HR_DIGEST_HEX_BYTES], mine[HR_DIGEST_HEX_BYTES];

    if (!hr_digest_equal(&loaded->dataset, &ours->dataset))
        return differs(err, "dataset", hr_digest_hex(&loaded->dataset, theirs),
                       hr_digest_hex(&ours->dataset, mine));
    if (loaded->seed != ours->seed) {
        snprintf(theirs, sizeof(theirs), "%" PRIu64, loaded->seed);
        snprintf(mine, sizeof(mine), "%" PRIu64, ours->seed);
        return differs(err, "seed", theirs, mine);
    }
    if (!hr_digest_equal(&loaded->plan, &ours->plan))
        return differs(err, "plan (pipeline file)", hr_digest_hex(&loaded->plan, theirs),
                       hr_digest_hex(&ours->plan, mine));
    return 0;
}

int hr_state_differing_part(const struct hr_state *loaded, const struct hr_state *ours)
{
    const struct hr_state_parts *a = &loaded->parts, *b = &ours->parts;
    uint32_t i = 0;

    if (a->count == 0 || b->count == 0)
        return -1;
    while (i < a->count && i < b->count && a->digests[i] == b->digests[i])
        i++;
    return i < a->count || i < b->count ? (int)i : -1;
}
