/* Parts of a plan and their digests; and the refusal of a state that is of another plan. */
#include "pipeline/plan_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "shards/manifest.h"

enum { MAX_SOURCE_PARTS = 16 };

void hr_plan_add_part(struct hr_plan *plan, const char *name, const void *data, size_t bytes)
{
    struct hr_state_parts *digests = &plan->part_digests;

    if (digests->count == HR_STATE_MAX_PARTS)
        return;
    snprintf(plan->parts[digests->count].name, sizeof(plan->parts[0].name), "%s", name);
    digests->digests[digests->count++] = (uint16_t)hr_hash64(data, bytes, 0);
}

void hr_plan_add_source_parts(struct hr_plan *plan)
{
    const struct hr_sources *sources = &plan->sources;
    uint32_t listed = sources->count <= MAX_SOURCE_PARTS ? sources->count : MAX_SOURCE_PARTS;
    uint8_t count[4];
    char name[96];

    hr_store_le32(count, sources->count);
    hr_plan_add_part(plan, "the number of datasets", count, sizeof(count));
    for (uint32_t i = 0; i < listed; i++) {
        struct hr_digest digest = hr_dataset_digest(sources->items[i].dataset);
        const char *path = sources->items[i].path;
        size_t bytes = strlen(path);
        snprintf(name, sizeof(name), "dataset '%s'", path + (bytes > 80 ? bytes - 80 : 0));
        hr_plan_add_part(plan, name, digest.bytes, sizeof(digest.bytes));
    }
    if (sources->count > listed)
        hr_plan_add_part(plan, "one of the later datasets", sources->digest.bytes,
                         sizeof(sources->digest.bytes));
}

struct hr_plan_output *hr_plan_add_output(struct hr_plan *plan, const char *name, const char *suffix,
                                          enum hr_field_type type)
{
    if (plan->output_count == HR_PLAN_MAX_OUTPUTS)
        return NULL;
    struct hr_plan_output *o = &plan->outputs[plan->output_count++];
    *o = (struct hr_plan_output){.field_type = type};
    snprintf(o->name, sizeof(o->name), "%s%s", name, suffix);
    return o;
}

int hr_plan_too_many_outputs(struct hr_error *err)
{
    return hr_fail(err, HR_E_CONFIG, "the fields make more than %d arrays a batch", HR_PLAN_MAX_OUTPUTS);
}

/* The next word of a description; what is in braces belongs to the word before it. */
static size_t word_bytes(const char *s)
{
    size_t n = 0;
    int depth = 0;

    for (; s[n] && (depth > 0 || s[n] != ' '); n++)
        depth += s[n] == '{' ? 1 : s[n] == '}' ? -1 : 0;
    return n;
}

void hr_plan_add_field_parts(struct hr_plan *plan, const char *field, const char *description)
{
    char name[96];

    for (const char *s = description; *s;) {
        size_t bytes = word_bytes(s);
        const char *word = strncmp(s, "ops[", 4) == 0 ? s + 4 : s;
        size_t name_bytes = strcspn(word, "{=] ");
        if (strncmp(s, "field", 5) != 0 && bytes > 0) {
            snprintf(name, sizeof(name), "'%.*s' of field '%s'",
                     name_bytes ? (int)(name_bytes < 30 ? name_bytes : 30) : 3,
                     name_bytes ? word : "ops", field);
            hr_plan_add_part(plan, name, s, bytes);
        }
        s += bytes;
        s += *s == ' ';
    }
}

struct hr_state hr_plan_state(const struct hr_plan *plan)
{
    struct hr_state state;

    hr_state_init(&state, &plan->sources.digest, &plan->digest, plan->order.spec.seed);
    state.parts = plan->part_digests;
    return state;
}

static bool is_kept_version(const char *path, const char *digest)
{
    struct hr_manifest *m = hr_alloc_zero(1, sizeof(*m));
    bool kept = m && hr_manifest_read_version(path, digest, m, NULL) == 0;

    if (kept)
        hr_manifest_finish(m);
    hr_free(m);
    return kept;
}

/* The most usual reason for another dataset is that records were added since. */
static void say_how_to_pin(const struct hr_plan *plan, const struct hr_state *loaded, struct hr_error *err)
{
    const struct hr_sources *sources = &plan->sources;
    char hex[HR_DIGEST_HEX_BYTES];

    if (hr_digest_equal(&loaded->dataset, &sources->digest) || !sources->items[0].dataset)
        return;
    hr_digest_hex(&loaded->dataset, hex);
    if (sources->count > 1)
        hr_error_hint(err, "where records were added, 'version: DIGEST' beside a dataset's path pins the version "
                           "before (headrace versions lists them); or begin anew with {}, or take the position "
                           "all the same: load_state_dict(..., force=True), Loader(force_state=True)");
    else if (is_kept_version(sources->items[0].path, hex))
        hr_error_hint(err, "records were added since; the version it was saved under is still there: "
                           "'dataset: {path: ..., version: %s}' goes on with it", hex);
}

int hr_plan_check_state(const struct hr_plan *plan, const struct hr_state *loaded,
                        struct hr_error *err)
{
    struct hr_state ours = hr_plan_state(plan);
    int ret = hr_state_check(loaded, &ours, err), part;
    char text[sizeof(err->text)];

    if (ret < 0 && err)
        say_how_to_pin(plan, loaded, err);
    if (ret == 0 || !err || loaded->seed != ours.seed)
        return ret;
    part = hr_state_differing_part(loaded, &ours);
    if (part < 0)
        return ret;
    snprintf(text, sizeof(text), "%.200s; what differs first: %.100s", err->text,
             (uint32_t)part < ours.parts.count ? plan->parts[part].name
                                               : "fields, ops or a 'blend' that this plan has not");
    memcpy(err->text, text, sizeof(text));
    return ret;
}
