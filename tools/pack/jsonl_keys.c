/* From what was seen under a key to the type of its field:
 *
 *   true, false            bool
 *   whole numbers          i64
 *   numbers                f64 (also when whole numbers are mixed in)
 *   strings                str when short and repeating, else text
 *   strings, all "@path"   the files' content
 *   lists, objects         json; --type makes lists of numbers arrays
 *
 * null is no value. Other mixtures are refused unless --type says what to make of them. */
#include "tools/pack/jsonl_keys.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "tools/pack/kinds.h"
#include "tools/pack/source.h"

void hr_jsonl_keys_finish(struct hr_jsonl_keys *keys)
{
    for (int i = 0; i < keys->count; i++)
        hr_free(keys->items[i].name);
    hr_free(keys->items);
    *keys = (struct hr_jsonl_keys){0};
}

const struct hr_jsonl_key *hr_jsonl_keys_find(const struct hr_jsonl_keys *keys, const char *name,
                                              int guess)
{
    /* Lines of one file have their keys in the same order nearly always. */
    if (guess < keys->count && strcmp(keys->items[guess].name, name) == 0)
        return &keys->items[guess];
    for (int i = 0; i < keys->count; i++)
        if (strcmp(keys->items[i].name, name) == 0)
            return &keys->items[i];
    return NULL;
}

struct hr_jsonl_key *hr_jsonl_keys_get(struct hr_jsonl_keys *keys, const char *name, int guess,
                                       struct hr_error *err)
{
    const struct hr_jsonl_key *found = hr_jsonl_keys_find(keys, name, guess);

    if (found)
        return &keys->items[found - keys->items];
    if (keys->count == HR_MAX_FIELDS) {
        hr_fail(err, HR_E_CONFIG, "'%.80s' is one key more than the %d that a dataset has", name,
                HR_MAX_FIELDS);
        hr_error_hint(err, "put rare keys together under one object: it becomes a json field");
        return NULL;
    }
    struct hr_jsonl_key *items = hr_array_grow(keys->items, (uint64_t)keys->count, &keys->cap, 8,
                                               sizeof(*items));
    if (!items) {
        hr_fail(err, HR_E_NOMEM, "out of memory");
        return NULL;
    }
    keys->items = items;
    struct hr_jsonl_key *key = &keys->items[keys->count];
    memset(key, 0, sizeof(*key));
    key->field = -1;
    key->name = hr_strdup(name);
    if (!key->name) {
        hr_fail(err, HR_E_NOMEM, "out of memory");
        return NULL;
    }
    keys->count++;
    return key;
}

static int say_one(struct hr_jsonl_keys *keys, const char *word, bool embed, struct hr_error *err)
{
    const char *option = embed ? "embed" : "type";
    const char *equals = strchr(word, '=');
    char *name = hr_strndup(word, equals ? (size_t)(equals - word) : strlen(word));
    enum hr_field_type type = equals ? hr_field_type_parse(equals + 1) : HR_FIELD_NONE;
    struct hr_array_type array = {0};
    bool lists = !embed && equals && hr_array_type_parse(equals + 1, &array);
    int ret = 0;

    if (!name)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    if (lists)
        type = HR_FIELD_TENSOR;
    if ((equals || !embed) && type == HR_FIELD_NONE) {
        ret = hr_fail(err, HR_E_USAGE, "--%s %s: no such type", option, word);
        hr_error_hint(err, embed ? "image, audio, video, text, json, tensor or bytes"
                                 : "i64, f64, bool, str, text or json; lists of numbers: f32[n,4], i64[n] "
                                   "(also u8, i32, f64; n is what differs)");
    } else if (!embed && !lists && (hr_field_type_is_media(type) || type == HR_FIELD_TENSOR ||
                                    type == HR_FIELD_TOKENS || type == HR_FIELD_BYTES)) {
        ret = hr_fail(err, HR_E_USAGE, "--type %s: that is the content of files", word);
        hr_error_hint(err, "--embed %s", word);
    } else if (embed && (hr_field_type_is_scalar(type) || type == HR_FIELD_TOKENS)) {
        ret = hr_fail(err, HR_E_USAGE, "--embed %s: files cannot be of that type", word);
    } else {
        struct hr_jsonl_key *key = hr_jsonl_keys_get(keys, name, 0, err);
        if (key && embed)
            key->said_embed = true;
        if (key && type)
            key->said_type = type;
        if (key && lists)
            key->array = array;
        ret = key ? 0 : err->code;
    }
    hr_free(name);
    return ret;
}

int hr_jsonl_keys_say(struct hr_jsonl_keys *keys, const struct hr_pack_options *options,
                      struct hr_error *err)
{
    int ret = 0;

    for (int i = 0; i < options->embed.count && ret == 0; i++)
        ret = say_one(keys, options->embed.items[i], true, err);
    for (int i = 0; i < options->types.count && ret == 0; i++)
        ret = say_one(keys, options->types.items[i], false, err);
    return ret;
}

static void note_distinct(struct hr_jsonl_key *key, const char *s, size_t bytes)
{
    const size_t slots = HR_ARRAY_SIZE(key->distinct);
    uint64_t hash = hr_hash64(s, bytes, 0) | 1;

    if (key->distinct_count > HR_JSONL_MAX_DISTINCT - 1)
        return;
    for (size_t i = hash % slots;; i = (i + 1) % slots) {
        if (key->distinct[i] == hash)
            return;
        if (key->distinct[i] == 0) {
            key->distinct[i] = hash;
            key->distinct_count++;
            return;
        }
    }
}

void hr_jsonl_key_note(struct hr_jsonl_key *key, const struct hr_jsonl_member *member,
                       const struct hr_jsonl_place *place)
{
    if (!key->first[member->kind].line)
        key->first[member->kind] = *place;
    if (member->kind == HR_JSONL_INT) {
        int64_t v = hr_jsonl_i64(member);
        key->beyond_f64 |= v > INT64_C(1) << 53 || v < -(INT64_C(1) << 53);
    }
    if (member->kind == HR_JSONL_FLOAT)
        key->beyond_i64 |= !memchr(member->raw, '.', member->raw_bytes) &&
                           !memchr(member->raw, 'e', member->raw_bytes) &&
                           !memchr(member->raw, 'E', member->raw_bytes);
    if (member->kind != HR_JSONL_STR)
        return;
    const char *s = json_object_get_string(member->value);
    size_t bytes = (size_t)json_object_get_string_len(member->value);
    key->strings++;
    key->at_strings += s[0] == '@' && bytes > 1;
    if (bytes > key->longest)
        key->longest = bytes;
    if (bytes <= HR_JSONL_SHORT_BYTES)
        note_distinct(key, s, bytes);
}

static int conflict(const struct hr_jsonl_key *key, enum hr_jsonl_kind a, enum hr_jsonl_kind b,
                    struct hr_error *err)
{
    const struct hr_jsonl_place *x = &key->first[a], *y = &key->first[b];

    if (y->line < x->line && strcmp(x->file, y->file) == 0)
        return conflict(key, b, a, err);
    hr_fail(err, HR_E_CONFIG, "'%.60s' is %s here and %s in line %" PRIu64 " of %s", key->name,
            hr_jsonl_kind_name(b), hr_jsonl_kind_name(a), x->line, x->file);
    hr_error_at_file(err, y->file, (int)y->line, y->column);
    hr_error_hint(err, "--type %.60s=json keeps each as it is written", key->name);
    return HR_E_CONFIG;
}

static int decide_numbers(struct hr_jsonl_key *key, struct hr_error *err)
{
    bool mixed = key->first[HR_JSONL_INT].line && key->first[HR_JSONL_FLOAT].line;

    key->type = key->first[HR_JSONL_FLOAT].line ? HR_FIELD_F64 : HR_FIELD_I64;
    if (key->beyond_i64)
        hr_log(HR_LOG_WARN, "'%s' holds whole numbers beyond 64 bits, which f64 rounds "
                            "(--type %s=json keeps them as written)",
               key->name, key->name);
    if (!mixed || !key->beyond_f64)
        return 0;
    hr_fail(err, HR_E_CONFIG, "'%.60s' holds fractions and whole numbers too large for f64",
            key->name);
    hr_error_hint(err, "--type %.60s=json keeps each as it is written; =f64 rounds them", key->name);
    return HR_E_CONFIG;
}

static void decide_strings(struct hr_jsonl_key *key)
{
    bool repeats = (uint64_t)key->distinct_count * 2 <= key->strings;

    key->embed = key->said_embed || key->at_strings == key->strings;
    if (!key->embed && key->at_strings)
        hr_log(HR_LOG_WARN,
               "'%s': %" PRIu64 " of %" PRIu64 " values begin with @; kept as text "
               "(--embed %s embeds the files)",
               key->name, key->at_strings, key->strings, key->name);
    if (key->embed)
        return; /* the type comes from the files */
    key->type = key->longest <= HR_JSONL_SHORT_BYTES &&
                        key->distinct_count < HR_JSONL_MAX_DISTINCT && repeats
                    ? HR_FIELD_STR
                    : HR_FIELD_TEXT;
}

static int decide(struct hr_jsonl_key *key, struct hr_error *err)
{
    static const enum hr_jsonl_kind groups[] = {HR_JSONL_BOOL, HR_JSONL_INT, HR_JSONL_FLOAT,
                                                HR_JSONL_STR, HR_JSONL_NESTED};
    int seen = -1;

    if (key->said_embed && !key->first[HR_JSONL_STR].line) {
        hr_fail(err, HR_E_CONFIG, "--embed %.60s: no line has a string under that key", key->name);
        return err->code;
    }
    if (key->said_type && !key->said_embed) {
        key->type = key->said_type;
        key->dtype = key->array.dtype;
        return 0;
    }
    for (size_t i = 0; i < HR_ARRAY_SIZE(groups); i++) {
        if (!key->first[groups[i]].line)
            continue;
        bool numbers = seen == HR_JSONL_INT && groups[i] == HR_JSONL_FLOAT;
        if (seen >= 0 && !numbers)
            return conflict(key, (enum hr_jsonl_kind)seen, groups[i], err);
        seen = groups[i];
    }
    switch (seen) {
    case HR_JSONL_BOOL:
        key->type = HR_FIELD_BOOL;
        return 0;
    case HR_JSONL_INT:
    case HR_JSONL_FLOAT:
        return decide_numbers(key, err);
    case HR_JSONL_STR:
        decide_strings(key);
        return 0;
    case HR_JSONL_NESTED:
        key->type = HR_FIELD_JSON;
        return 0;
    }
    hr_log(HR_LOG_WARN, "'%s' never has a value; left out", key->name);
    return 0;
}

int hr_jsonl_keys_decide(struct hr_jsonl_keys *keys, struct hr_schema *schema, struct hr_error *err)
{
    char name[HR_NAME_BYTES];

    for (int i = 0; i < keys->count; i++) {
        struct hr_jsonl_key *key = &keys->items[i];
        int ret = decide(key, err);
        if (ret < 0)
            return ret;
        if (key->embed)
            key->type = key->said_type ? key->said_type : key->type ? key->type : HR_FIELD_BYTES;
        if (key->type == HR_FIELD_NONE)
            continue;
        if (!hr_kind_field_name(key->name, strlen(key->name), name))
            return hr_fail(err, HR_E_CONFIG, "the key '%.100s' cannot be a field name (1 to %d bytes)",
                           key->name, HR_NAME_BYTES - 2);
        if (hr_schema_find(schema, name) >= 0)
            return hr_fail(err, HR_E_CONFIG, "two keys would both be the field '%s'", name);
        if (strcmp(name, key->name) != 0)
            hr_log(HR_LOG_INFO, "key '%s' becomes the field '%s'", key->name, name);
        key->field = hr_source_field(schema, name, key->type, err);
        if (key->field < 0)
            return key->field;
        schema->fields[key->field].dtype = key->dtype;
    }
    return 0;
}
