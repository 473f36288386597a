/* The kinds of sources, guessing which one a path is, and what they share. */
#include "tools/pack/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "tools/pack/braces.h"
#include "tools/pack/kinds.h"
#include "tools/pack/npy.h"
#include "tools/pack/options.h"

/* In the order of --from's choices, after "guess". */
static const struct hr_source_kind *const kinds[] = {
    &hr_source_folder,
    &hr_source_jsonl,
    &hr_source_pairs,
    &hr_source_wds,
};

static bool has_suffix(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);

    return n > m && strcmp(name + n - m, suffix) == 0;
}

static bool is_jsonl(const char *name)
{
    return has_suffix(name, ".jsonl") || has_suffix(name, ".ndjson");
}

static size_t stem_length(const char *path)
{
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');

    return dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path);
}

/* What is in a folder, by names. */
struct census {
    uint64_t media, arrays, texts, others, tars, jsonls;
    uint64_t stems, shared; /* stems of known files; of these, with several suffixes */
};

static struct census take_census(const struct hr_walk *walk)
{
    struct census c = {0};
    uint64_t in_stem = 0;

    for (uint64_t i = 0; i < walk->count; i++) {
        const char *path = walk->files[i].path;
        const struct hr_kind *kind = hr_kind_of_name(path);
        c.tars += has_suffix(path, ".tar");
        c.jsonls += is_jsonl(path);
        if (!kind) {
            c.others++;
            continue;
        }
        c.media += hr_field_type_is_media(kind->type);
        c.arrays += kind->type == HR_FIELD_TENSOR;
        c.texts += kind->type == HR_FIELD_TEXT;
        size_t n = stem_length(path);
        bool same = in_stem && i && stem_length(walk->files[i - 1].path) == n &&
                    memcmp(walk->files[i - 1].path, path, n) == 0;
        in_stem = same ? in_stem + 1 : 1;
        c.stems += !same;
        c.shared += in_stem == 2;
    }
    return c;
}

static const struct hr_source_kind *guess_folder(const struct hr_walk *walk)
{
    struct census c = take_census(walk);

    if (c.stems && c.shared * 2 >= c.stems)
        return &hr_source_pairs;
    if (c.media || c.arrays)
        return &hr_source_folder;
    if (c.tars)
        return &hr_source_wds;
    if (c.jsonls)
        return &hr_source_jsonl;
    return &hr_source_folder;
}

/* What to do about a file that people have and that is none of the sources. */
static const char *way_out(const char *path, const char *head, size_t bytes)
{
    static const struct {
        const char *magic, *suffix, *hint;
    } known[] = {
        {"\x1f\x8b", NULL, "it is compressed; unpack it first: gunzip, or tar -xzf"},
        {"\x28\xb5\x2f\xfd", NULL, "it is compressed; unpack it first: zstd -d"},
        {"PK\x03\x04", NULL, "a zip file; unzip it and pack the folder"},
        {"PAR1", NULL, "Parquet; make lines of JSON of it: pandas.read_parquet(FILE).to_json('x.jsonl', "
                       "orient='records', lines=True)"},
        {NULL, ".csv", "make lines of JSON of it: pandas.read_csv(FILE).to_json('x.jsonl', orient='records', "
                       "lines=True)"},
        {NULL, ".tsv", "make lines of JSON of it: pandas.read_csv(FILE, sep='\\t').to_json('x.jsonl', "
                       "orient='records', lines=True)"},
    };

    for (size_t i = 0; i < HR_ARRAY_SIZE(known); i++) {
        size_t n = known[i].magic ? strlen(known[i].magic) : 0;
        if (n ? bytes >= n && memcmp(head, known[i].magic, n) == 0 : has_suffix(path, known[i].suffix))
            return known[i].hint;
    }
    if (hr_kind_of_name(path))
        return "a single file; pack the folder that it lies in";
    return "a folder, a .jsonl file or a .tar file; --from says which if the name does not";
}

static const struct hr_source_kind *guess_file(const char *path, struct hr_error *err)
{
    char head[512] = "";

    if (has_suffix(path, ".tar"))
        return &hr_source_wds;
    if (is_jsonl(path))
        return &hr_source_jsonl;
    int fd = hr_fd_open(path, O_RDONLY | O_NONBLOCK, 0, err);
    if (fd < 0)
        return NULL;
    ssize_t n = pread(fd, head, sizeof(head), 0);
    hr_fd_close(&fd);
    if (n == sizeof(head) && memcmp(head + 257, "ustar", 5) == 0)
        return &hr_source_wds;
    if (n > 0 && head[strspn(head, " \t\r\n")] == '{')
        return &hr_source_jsonl;
    hr_fail(err, HR_E_CONFIG, "not a source that pack knows");
    hr_error_at_file(err, path, 0, 0);
    hr_error_hint(err, "%s", way_out(path, head, n > 0 ? (size_t)n : 0));
    return NULL;
}

static int open_kind(const struct hr_source_kind *kind, struct hr_source_request *request,
                     struct hr_source **out, struct hr_error *err)
{
    hr_log(HR_LOG_DEBUG, "taking %s as %s", request->paths[0], kind->what);
    return kind->open(request, out, err);
}

static int open_paths(struct hr_source_request *request, struct hr_source **out,
                      struct hr_error *err)
{
    const struct hr_pack_options *options = request->options;
    const struct hr_source_kind *kind = options->from ? kinds[options->from - 1] : NULL;
    struct hr_walk walk = {0};
    struct stat st;

    if (stat(request->paths[0], &st) < 0) {
        hr_fail_errno(err, errno, "cannot open the source");
        hr_error_at_file(err, request->paths[0], 0, 0);
        return err->code;
    }
    if (!S_ISDIR(st.st_mode)) {
        if (!kind)
            kind = guess_file(request->paths[0], err);
        return kind ? open_kind(kind, request, out, err) : err->code;
    }
    if (request->path_count > 1)
        return hr_fail(err, HR_E_CONFIG, "several sources must be files; %s is a folder",
                       request->paths[0]);
    int ret = hr_walk_open(request->paths[0], options->follow_symlinks, &walk, err);
    if (ret < 0)
        return ret;
    request->walk = &walk;
    ret = open_kind(kind ? kind : guess_folder(&walk), request, out, err);
    hr_walk_close(&walk);
    return ret;
}

int hr_source_open(const struct hr_pack_options *options, const char *const *paths, int path_count,
                   struct hr_source **out, struct hr_error *err)
{
    struct hr_paths expanded = {0};
    int ret = 0;

    for (int i = 0; i < path_count && ret == 0; i++)
        ret = hr_paths_expand(&expanded, paths[i], err);
    if (ret == 0) {
        struct hr_source_request request = {.options = options,
                                            .paths = (const char *const *)expanded.items,
                                            .path_count = expanded.count};
        ret = open_paths(&request, out, err);
    }
    hr_paths_finish(&expanded);
    if (ret == 0 && options->limit && (uint64_t)options->limit < (*out)->record_count)
        (*out)->record_count = (uint64_t)options->limit;
    return ret;
}

void hr_source_close(struct hr_source *source)
{
    if (!source)
        return;
    for (uint32_t i = 0; i < source->schema.class_count; i++)
        hr_free(source->schema.classes[i]);
    hr_free(source->schema.classes);
    source->kind->close(source);
}

int hr_source_field(struct hr_schema *schema, const char *name, enum hr_field_type type,
                    struct hr_error *err)
{
    int found = hr_schema_find(schema, name);

    if (found >= 0 && schema->fields[found].type != type)
        return hr_fail(err, HR_E_CONFIG, "field '%s' would be both %s and %s", name,
                       hr_field_type_name(schema->fields[found].type), hr_field_type_name(type));
    if (found >= 0)
        return found;
    if (schema->field_count == HR_MAX_FIELDS)
        return hr_fail(err, HR_E_CONFIG, "more than %d fields", HR_MAX_FIELDS);
    struct hr_schema_field *field = &schema->fields[schema->field_count];
    *field = (struct hr_schema_field){.type = type};
    snprintf(field->name, sizeof(field->name), "%s", name);
    return (int)schema->field_count++;
}

int hr_listing_init(struct hr_listing *listing, struct hr_error *err)
{
    listing->names = hr_hasher_create();
    listing->sizes = hr_hasher_create();
    listing->times = hr_hasher_create();
    if (listing->names && listing->sizes && listing->times)
        return 0;
    hr_hasher_destroy(listing->names);
    hr_hasher_destroy(listing->sizes);
    hr_hasher_destroy(listing->times);
    return hr_fail(err, HR_E_NOMEM, "out of memory");
}

void hr_listing_add(struct hr_listing *listing, const char *name, uint64_t bytes, int64_t mtime_ns)
{
    hr_hasher_update_str(listing->names, name);
    hr_hasher_update_u64(listing->sizes, bytes);
    hr_hasher_update_u64(listing->times, (uint64_t)mtime_ns);
}

void hr_listing_finish(struct hr_listing *listing, struct hr_source *source)
{
    if (source) {
        source->names = hr_hasher_digest(listing->names);
        source->sizes = hr_hasher_digest(listing->sizes);
        source->times = hr_hasher_digest(listing->times);
    }
    hr_hasher_destroy(listing->names);
    hr_hasher_destroy(listing->sizes);
    hr_hasher_destroy(listing->times);
}

int hr_source_nothing(const char *path, const char *looked_for, struct hr_error *err)
{
    hr_fail(err, HR_E_CONFIG, "no records found in %s", path);
    hr_error_hint(err, "looked for %s", looked_for);
    return HR_E_CONFIG;
}

int hr_source_tensor_dtype(const char *path, enum hr_dtype *dtype, struct hr_error *err)
{
    static const size_t max_head = 66000;
    struct hr_npy npy;
    struct stat st;

    int fd = hr_fd_open(path, O_RDONLY | O_NONBLOCK, 0, err);
    if (fd < 0)
        return fd;
    int ret = fstat(fd, &st) < 0 ? hr_fail_errno(err, errno, "cannot look at the file") : 0;
    uint8_t *head = ret == 0 ? hr_alloc(max_head) : NULL;
    size_t n = ret == 0 && (uint64_t)st.st_size < max_head ? (size_t)st.st_size : max_head;
    if (ret == 0 && !head)
        ret = hr_fail(err, HR_E_NOMEM, "out of memory");
    if (ret == 0)
        ret = hr_fd_pread_full(fd, head, n, 0, err);
    if (ret == 0)
        ret = hr_npy_parse(head, n, (uint64_t)st.st_size, &npy, err);
    if (ret == 0)
        *dtype = npy.dtype;
    else
        hr_error_at_file(err, path, 0, 0);
    hr_free(head);
    hr_fd_close(&fd);
    return ret;
}
