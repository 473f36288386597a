/* A folder of class folders: one record a file, labelled by the folder directly below the source. A
 * flat folder has no labels. Pictures, recordings and clips are taken; a folder without any of them
 * is taken for its arrays, or else its text files. */
#include "tools/pack/source.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "tools/pack/kinds.h"
#include "tools/pack/options.h"

enum { NO_CLASS = -1 };

struct entry {
    char *path;
    uint64_t bytes;
    int32_t class_idx;
    uint32_t field;
};

struct folder {
    struct hr_source base;
    char *root;
    struct entry *entries;
    uint64_t entry_count;
    int label_field;
};

static void folder_close(struct hr_source *source)
{
    struct folder *folder = (struct folder *)source;

    for (uint64_t i = 0; folder->entries && i < folder->entry_count; i++)
        hr_free(folder->entries[i].path);
    hr_free(folder->entries);
    hr_free(folder->root);
    hr_free(folder);
}

/* Which types the folder is taken for. */
static unsigned wanted_types(const enum hr_field_type *types, uint64_t count)
{
    const unsigned media = 1u << HR_FIELD_IMAGE | 1u << HR_FIELD_AUDIO | 1u << HR_FIELD_VIDEO;
    unsigned seen = 0;

    for (uint64_t i = 0; i < count; i++)
        seen |= 1u << types[i];
    if (seen & media)
        return seen & media;
    return seen & 1u << HR_FIELD_TENSOR ? 1u << HR_FIELD_TENSOR : seen & 1u << HR_FIELD_TEXT;
}

static enum hr_field_type *sniff_all(const struct hr_walk *walk)
{
    enum hr_field_type *types = hr_alloc_zero(walk->count + 1, sizeof(*types));

    for (uint64_t i = 0; types && i < walk->count; i++) {
        char *path = hr_walk_path(walk, i);
        types[i] = path ? hr_kind_sniff_file(path) : HR_FIELD_BYTES;
        hr_free(path);
    }
    return types;
}

static int add_fields(struct folder *folder, const struct hr_walk *walk,
                      const enum hr_field_type *types, unsigned wanted, struct hr_error *err)
{
    static const enum hr_field_type order[] = {HR_FIELD_IMAGE, HR_FIELD_VIDEO, HR_FIELD_AUDIO,
                                               HR_FIELD_TENSOR, HR_FIELD_TEXT};
    struct hr_schema *schema = &folder->base.schema;

    for (size_t i = 0; i < HR_ARRAY_SIZE(order); i++) {
        if (!(wanted >> order[i] & 1))
            continue;
        int field = hr_source_field(schema, hr_field_type_name(order[i]), order[i], err);
        if (field < 0)
            return field;
        if (order[i] != HR_FIELD_TENSOR)
            continue;
        /* The first array that can be read says what all are. */
        enum hr_dtype dtype = HR_DTYPE_NONE;
        for (uint64_t k = 0; k < walk->count && dtype == HR_DTYPE_NONE; k++) {
            if (types[k] != HR_FIELD_TENSOR)
                continue;
            char *path = hr_walk_path(walk, k);
            if (!path || hr_source_tensor_dtype(path, &dtype, NULL) < 0)
                dtype = HR_DTYPE_NONE;
            hr_free(path);
        }
        schema->fields[field].dtype = dtype == HR_DTYPE_NONE ? HR_DTYPE_U8 : dtype;
    }
    return 0;
}

static int class_of(const struct hr_walk *walk, const char *path)
{
    const char *slash = strchr(path, '/');
    uint32_t lo = 0, hi = walk->folder_count;

    if (!slash)
        return NO_CLASS;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const char *name = walk->folders[mid];
        size_t n = (size_t)(slash - path);
        int order = strncmp(name, path, n);
        if (order == 0 && name[n])
            order = 1;
        if (order == 0)
            return (int)mid;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NO_CLASS;
}

static int add_label(struct folder *folder, const struct hr_walk *walk, struct hr_error *err)
{
    struct hr_schema *schema = &folder->base.schema;
    char name[512];

    folder->label_field = hr_source_field(schema, "label", HR_FIELD_I64, err);
    if (folder->label_field < 0)
        return folder->label_field;
    schema->class_field = folder->label_field;
    schema->classes = hr_alloc_zero(walk->folder_count, sizeof(*schema->classes));
    for (uint32_t i = 0; schema->classes && i < walk->folder_count; i++) {
        hr_kind_printable(walk->folders[i], name, sizeof(name));
        schema->classes[i] = hr_strdup(name);
        if (!schema->classes[i])
            return hr_fail(err, HR_E_NOMEM, "out of memory");
        schema->class_count++;
    }
    return schema->classes ? 0 : hr_fail(err, HR_E_NOMEM, "out of memory");
}

/* Takes the paths out of the walk. */
static int take_files(struct folder *folder, struct hr_walk *walk, const enum hr_field_type *types,
                      unsigned wanted, struct hr_error *err)
{
    struct hr_listing listing;
    int ret = hr_listing_init(&listing, err);

    if (ret < 0)
        return ret;
    folder->entries = hr_alloc_zero(walk->count + 1, sizeof(*folder->entries));
    for (uint64_t i = 0; folder->entries && i < walk->count; i++) {
        struct hr_walk_file *file = &walk->files[i];
        if (!(wanted >> types[i] & 1)) {
            hr_log(HR_LOG_DEBUG, "left out: %s", file->path);
            folder->base.left_out++;
            continue;
        }
        hr_listing_add(&listing, file->path, file->bytes, file->mtime_ns);
        folder->entries[folder->entry_count++] = (struct entry){
            file->path, file->bytes, class_of(walk, file->path),
            (uint32_t)hr_schema_find(&folder->base.schema, hr_field_type_name(types[i]))};
        file->path = NULL;
    }
    folder->base.record_count = folder->entry_count;
    hr_listing_finish(&listing, &folder->base);
    return folder->entries ? 0 : hr_fail(err, HR_E_NOMEM, "out of memory");
}

/* train/ and val/ are parts of a collection, not classes. */
static bool looks_like_splits(const struct hr_schema *schema)
{
    static const char *const splits[] = {"train", "training", "val", "valid", "validation", "test",
                                         "testing", "dev"};
    uint32_t found = 0;

    for (uint32_t c = 0; c < schema->class_count; c++)
        for (size_t i = 0; i < HR_ARRAY_SIZE(splits); i++)
            found += strcmp(schema->classes[c], splits[i]) == 0;
    return found && found == schema->class_count;
}

static void warn_of_classes(const struct folder *folder)
{
    const struct hr_schema *schema = &folder->base.schema;
    uint64_t *used = hr_alloc_zero(schema->class_count + 1, sizeof(*used)), without = 0;

    for (uint64_t i = 0; used && i < folder->entry_count; i++) {
        if (folder->entries[i].class_idx == NO_CLASS)
            without++;
        else
            used[folder->entries[i].class_idx]++;
    }
    for (uint32_t c = 0; used && c < schema->class_count; c++)
        if (!used[c])
            hr_log(HR_LOG_WARN, "class folder '%s' holds no record; kept as class %u",
                   schema->classes[c], c);
    if (looks_like_splits(schema))
        hr_log(HR_LOG_WARN, "the labels would be %s%s; to pack one part: headrace pack %s/%s DST",
               schema->classes[0], schema->class_count > 1 ? " and others" : "", folder->root,
               schema->classes[0]);
    if (without)
        hr_log(HR_LOG_WARN, "files beside the class folders, which get no label: %llu",
               (unsigned long long)without);
    hr_free(used);
}

static int fill(struct folder *folder, struct hr_walk *walk, const enum hr_field_type *types,
                struct hr_error *err)
{
    unsigned wanted = wanted_types(types, walk->count);
    bool in_folders = false;

    if (!wanted)
        return hr_source_nothing(folder->root,
                                 "pictures, recordings, clips, .npy arrays and .txt files", err);
    int ret = add_fields(folder, walk, types, wanted, err);
    for (uint64_t i = 0; i < walk->count; i++)
        in_folders |= (wanted >> types[i] & 1) && strchr(walk->files[i].path, '/');
    if (ret == 0 && in_folders)
        ret = add_label(folder, walk, err);
    if (ret == 0)
        ret = take_files(folder, walk, types, wanted, err);
    if (ret == 0 && folder->label_field >= 0)
        warn_of_classes(folder);
    return ret;
}

static int folder_open(const struct hr_source_request *request, struct hr_source **out,
                       struct hr_error *err)
{
    if (!request->walk) {
        hr_fail(err, HR_E_CONFIG, "%s is not a folder", request->paths[0]);
        return err->code;
    }
    struct folder *folder = hr_alloc_zero(1, sizeof(*folder));
    if (!folder)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    folder->base.kind = &hr_source_folder;
    folder->base.schema.class_field = -1;
    folder->label_field = -1;
    folder->root = hr_strdup(request->paths[0]);
    enum hr_field_type *types = sniff_all(request->walk);
    int ret = folder->root && types ? fill(folder, request->walk, types, err)
                                    : hr_fail(err, HR_E_NOMEM, "out of memory");
    hr_free(types);
    if (ret < 0) {
        hr_source_close(&folder->base);
        return ret;
    }
    *out = &folder->base;
    return 0;
}

static int folder_load(const struct hr_source *source, uint64_t i, struct hr_pack_record *record,
                       struct hr_error *err)
{
    const struct folder *folder = (const struct folder *)source;
    const struct entry *entry = &folder->entries[i];
    const void *data;
    uint64_t bytes;

    hr_kind_printable(entry->path, record->key, sizeof(record->key));
    char *path = hr_asprintf("%s/%s", folder->root, entry->path);
    if (!path)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    int ret = hr_pack_record_read(record, path, &data, &bytes, err);
    if (ret == 0)
        ret = hr_pack_record_set(&source->intake, record, entry->field, data, bytes, path, true, err);
    if (ret == 0 && entry->class_idx != NO_CLASS)
        hr_pack_record_set_i64(record, (uint32_t)folder->label_field, entry->class_idx);
    hr_free(path);
    return ret;
}

static uint64_t folder_size_hint(const struct hr_source *source, uint64_t i)
{
    return ((const struct folder *)source)->entries[i].bytes;
}

const struct hr_source_kind hr_source_folder = {
    .name = "folder",
    .what = "a folder of files, labelled by class folders",
    .open = folder_open,
    .load = folder_load,
    .size_hint = folder_size_hint,
    .close = folder_close,
};
