/* Files with the same stem become fields of one record. */
#include "tools/pack/groups.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tools/pack/kinds.h"

/* jpg -> image; seg.png -> seg; what is not known keeps its name and is bytes. */
static int field_of_suffix(struct hr_schema *schema, const char *suffix, struct hr_error *err)
{
    char dotted[HR_NAME_BYTES + 1], name[HR_NAME_BYTES];
    const char *last = strrchr(suffix, '.');

    snprintf(dotted, sizeof(dotted), ".%s", suffix);
    const struct hr_kind *kind = hr_kind_of_name(dotted);
    if (kind && !last)
        return hr_source_field(schema, kind->field, kind->type, err);
    if (!hr_kind_field_name(suffix, kind ? (size_t)(last - suffix) : strlen(suffix), name))
        return hr_fail(err, HR_E_CONFIG, "no field can be called after the suffix '.%s'", suffix);
    return hr_source_field(schema, name, kind ? kind->type : HR_FIELD_BYTES, err);
}

static int find_suffix(struct hr_groups *groups, struct hr_schema *schema, const char *suffix,
                       uint32_t *idx, struct hr_error *err)
{
    for (uint32_t i = 0; i < groups->suffix_count; i++) {
        if (strcmp(groups->suffixes[i].text, suffix) == 0) {
            *idx = i;
            return 0;
        }
    }
    if (strlen(suffix) >= HR_NAME_BYTES)
        return hr_fail(err, HR_E_CONFIG, "suffix of more than %d bytes", HR_NAME_BYTES - 1);
    struct hr_suffix *grown = hr_array_grow(groups->suffixes, groups->suffix_count, &groups->suffix_cap, 16,
                                            sizeof(*grown));
    if (!grown)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    groups->suffixes = grown;
    int field = field_of_suffix(schema, suffix, err);
    if (field < 0)
        return field;
    struct hr_suffix *added = &groups->suffixes[groups->suffix_count];
    snprintf(added->text, sizeof(added->text), "%s", suffix);
    added->field = (uint32_t)field;
    *idx = groups->suffix_count++;
    return 0;
}

static int grow(struct hr_groups *groups, struct hr_error *err)
{
    struct hr_group *items = hr_array_grow(groups->items, groups->count, &groups->cap, 256,
                                           sizeof(*items));
    if (!items)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    groups->items = items;
    struct hr_member *members = hr_array_grow(groups->members, groups->member_count, &groups->member_cap, 256,
                                              sizeof(*members));
    if (!members)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    groups->members = members;
    return 0;
}

static int check_twice(const struct hr_groups *groups, const struct hr_group *group, uint32_t suffix,
                       const struct hr_schema *schema, struct hr_error *err)
{
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t other = groups->members[group->first + i].suffix;
        uint32_t field = groups->suffixes[suffix].field;
        if (groups->suffixes[other].field != field)
            continue;
        hr_fail(err, HR_E_CONFIG, "%s.%s and %s.%s both give the field '%s'", group->key,
                groups->suffixes[other].text, group->key, groups->suffixes[suffix].text,
                schema->fields[field].name);
        hr_error_hint(err, "remove or rename one of them; a middle part names the field, as in "
                           "%s.photo.%s", group->key, groups->suffixes[suffix].text);
        return HR_E_CONFIG;
    }
    return 0;
}

int hr_groups_add(struct hr_groups *groups, struct hr_schema *schema, const char *key,
                  size_t key_bytes, const char *suffix, const struct hr_member *place,
                  struct hr_error *err)
{
    struct hr_group *last = groups->count ? &groups->items[groups->count - 1] : NULL;
    struct hr_member member = *place;

    int ret = find_suffix(groups, schema, suffix, &member.suffix, err);
    if (ret < 0)
        return ret;
    /* Another tar begins anew, even with the same key. */
    if (last && (strncmp(last->key, key, key_bytes) != 0 || last->key[key_bytes] ||
                 groups->members[last->first].file != place->file))
        last = NULL;
    if (last && (ret = check_twice(groups, last, member.suffix, schema, err)) < 0)
        return ret;
    if ((ret = grow(groups, err)) < 0)
        return ret;
    if (last) {
        last = &groups->items[groups->count - 1];
    } else {
        last = &groups->items[groups->count];
        *last = (struct hr_group){.key = hr_strndup(key, key_bytes), .first = groups->member_count};
        if (!last->key)
            return hr_fail(err, HR_E_NOMEM, "out of memory");
        groups->count++;
    }
    groups->members[groups->member_count++] = member;
    last->count++;
    last->bytes += member.bytes;
    return 0;
}

void hr_groups_finish(struct hr_groups *groups)
{
    for (uint64_t i = 0; i < groups->count; i++)
        hr_free(groups->items[i].key);
    hr_free(groups->items);
    hr_free(groups->members);
    hr_free(groups->suffixes);
    *groups = (struct hr_groups){0};
}

int hr_groups_load(const struct hr_groups *groups, uint64_t i,
                   int (*load)(const void *source, const struct hr_group *group,
                               const struct hr_member *member, struct hr_pack_record *record,
                               struct hr_error *err),
                   const void *source, struct hr_pack_record *record, struct hr_error *err)
{
    const struct hr_group *group = &groups->items[i];

    hr_kind_printable(group->key, record->key, sizeof(record->key));
    for (uint32_t m = 0; m < group->count; m++) {
        int ret = load(source, group, &groups->members[group->first + m], record, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}
