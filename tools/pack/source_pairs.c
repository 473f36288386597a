/* A folder of pairs: files with the same stem are the fields of one record. The stem ends at the last
 * dot, so that names like `trip 1.2.jpg` work. */
#include "tools/pack/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "tools/pack/groups.h"
#include "tools/pack/kinds.h"

struct pairs {
    struct hr_source base;
    struct hr_groups groups;
    char *root;
};

static void pairs_close(struct hr_source *source)
{
    struct pairs *pairs = (struct pairs *)source;

    hr_groups_finish(&pairs->groups);
    hr_free(pairs->root);
    hr_free(pairs);
}

static size_t stem_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');

    return dot && dot > (slash ? slash : path) ? (size_t)(dot - path) : 0;
}

/* Stems first: `a.jpg`, `a-b.jpg`, `a.txt` is the order of whole names. */
static int by_stem(const void *a, const void *b)
{
    const char *x = ((const struct hr_walk_file *)a)->path;
    const char *y = ((const struct hr_walk_file *)b)->path;
    size_t n = stem_of(x), m = stem_of(y);
    int order = memcmp(x, y, n < m ? n : m);

    if (order)
        return order;
    return n != m ? (n < m ? -1 : 1) : strcmp(x, y);
}

static int add_all(struct pairs *pairs, const struct hr_walk *walk, struct hr_error *err)
{
    struct hr_listing listing;
    int ret = hr_listing_init(&listing, err);

    if (ret < 0)
        return ret;
    for (uint64_t i = 0; i < walk->count && ret == 0; i++) {
        const struct hr_walk_file *file = &walk->files[i];
        size_t stem = stem_of(file->path);
        /* A name without a suffix, or of a kind that is no data, makes no field. */
        if (!stem || !hr_kind_of_name(file->path)) {
            hr_log(HR_LOG_DEBUG, "left out: %s", file->path);
            pairs->base.left_out++;
            continue;
        }
        hr_listing_add(&listing, file->path, file->bytes, file->mtime_ns);
        struct hr_member member = {.bytes = file->bytes};
        ret = hr_groups_add(&pairs->groups, &pairs->base.schema, file->path, stem,
                            file->path + stem + 1, &member, err);
        if (ret == HR_E_CONFIG)
            hr_error_hint(err, "remove or rename one of them; --from folder makes each file a record");
    }
    hr_listing_finish(&listing, &pairs->base);
    pairs->base.record_count = pairs->groups.count;
    return ret;
}

static char *member_path(const struct pairs *pairs, const struct hr_group *group,
                         const struct hr_member *member)
{
    return hr_asprintf("%s/%s.%s", pairs->root, group->key,
                       pairs->groups.suffixes[member->suffix].text);
}

/* Arrays: the first that can be read says what all of its field are. */
static int find_dtypes(struct pairs *pairs, struct hr_error *err)
{
    struct hr_schema *schema = &pairs->base.schema;
    const struct hr_groups *groups = &pairs->groups;

    for (uint64_t g = 0; g < groups->count; g++) {
        for (uint32_t m = 0; m < groups->items[g].count; m++) {
            const struct hr_member *member = &groups->members[groups->items[g].first + m];
            struct hr_schema_field *field = &schema->fields[groups->suffixes[member->suffix].field];
            if (field->type != HR_FIELD_TENSOR || field->dtype != HR_DTYPE_NONE)
                continue;
            char *path = member_path(pairs, &groups->items[g], member);
            if (!path)
                return hr_fail(err, HR_E_NOMEM, "out of memory");
            if (hr_source_tensor_dtype(path, &field->dtype, NULL) < 0)
                field->dtype = HR_DTYPE_NONE;
            hr_free(path);
        }
    }
    for (uint32_t f = 0; f < schema->field_count; f++)
        if (schema->fields[f].type == HR_FIELD_TENSOR && schema->fields[f].dtype == HR_DTYPE_NONE)
            schema->fields[f].dtype = HR_DTYPE_U8;
    return 0;
}

static int pairs_open(const struct hr_source_request *request, struct hr_source **out,
                      struct hr_error *err)
{
    if (!request->walk)
        return hr_fail(err, HR_E_CONFIG, "%s is not a folder", request->paths[0]);
    struct pairs *pairs = hr_alloc_zero(1, sizeof(*pairs));
    if (!pairs)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    pairs->base.kind = &hr_source_pairs;
    pairs->base.schema.class_field = -1;
    pairs->root = hr_strdup(request->paths[0]);
    int ret = pairs->root ? 0 : hr_fail(err, HR_E_NOMEM, "out of memory");
    if (ret == 0 && request->walk->count)
        qsort(request->walk->files, request->walk->count, sizeof(*request->walk->files), by_stem);
    if (ret == 0)
        ret = add_all(pairs, request->walk, err);
    if (ret == 0 && !pairs->base.record_count)
        ret = hr_source_nothing(pairs->root, "files with the same stem, such as x.jpg and x.txt", err);
    if (ret == 0)
        ret = find_dtypes(pairs, err);
    if (ret < 0) {
        hr_source_close(&pairs->base);
        return ret;
    }
    *out = &pairs->base;
    return 0;
}

static int load_member(const void *source, const struct hr_group *group,
                       const struct hr_member *member, struct hr_pack_record *record,
                       struct hr_error *err)
{
    const struct pairs *pairs = source;
    const void *data;
    uint64_t bytes;
    char *path = member_path(pairs, group, member);

    if (!path)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    int ret = hr_pack_record_read(record, path, &data, &bytes, err);
    if (ret == 0)
        ret = hr_pack_record_set(&pairs->base.intake, record,
                                 pairs->groups.suffixes[member->suffix].field, data, bytes, path,
                                 false, err);
    hr_free(path);
    return ret;
}

static int pairs_load(const struct hr_source *source, uint64_t i, struct hr_pack_record *record,
                      struct hr_error *err)
{
    return hr_groups_load(&((const struct pairs *)source)->groups, i, load_member, source, record, err);
}

static uint64_t pairs_size_hint(const struct hr_source *source, uint64_t i)
{
    return ((const struct pairs *)source)->groups.items[i].bytes;
}

const struct hr_source_kind hr_source_pairs = {
    .name = "pairs",
    .what = "a folder of pairs: files with the same stem make one record",
    .open = pairs_open,
    .load = pairs_load,
    .size_hint = pairs_size_hint,
    .close = pairs_close,
};
