/* JSONL: a record a line, a field a key. The first pass finds the lines, what each key holds and that
 * embedded paths stay in their tree; loading reads a line again by its place. */
#include "tools/pack/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "tools/pack/braces.h"
#include "tools/pack/jsonl_keys.h"
#include "tools/pack/jsonl_line.h"
#include "tools/pack/kinds.h"
#include "tools/pack/options.h"

enum { READ_BYTES = 1 << 20, MAX_LINE_BYTES = 256 << 20 };

struct line {
    uint64_t off, line;
    uint64_t payload; /* about so much: the line and the files that it names */
    uint32_t bytes, file;
};

struct jsonl {
    struct hr_source base;
    struct hr_paths files;
    char **folders; /* real path of each file's folder */
    int *fds;
    struct line *lines;
    uint64_t line_count, line_cap;
    struct hr_jsonl_keys keys;
    char *root; /* real path that embedded files lie below; NULL = the JSONL's own folder */
    bool allow_outside;
};

/* State of the first pass. */
struct pass {
    struct jsonl *jsonl;
    struct json_tokener *tok;
    struct hr_jsonl_line *parsed;
    struct hr_listing listing;
    uint32_t file;
    uint64_t bad_lines;
    char first_bad[448]; /* what is wrong with the first one, "" = none */
};

static void jsonl_close(struct hr_source *source)
{
    struct jsonl *jsonl = (struct jsonl *)source;

    for (int i = 0; i < jsonl->files.count; i++) {
        if (jsonl->fds)
            hr_fd_close(&jsonl->fds[i]);
        if (jsonl->folders)
            hr_free(jsonl->folders[i]);
    }
    hr_free(jsonl->fds);
    hr_free(jsonl->folders);
    hr_free(jsonl->lines);
    hr_free(jsonl->root);
    hr_jsonl_keys_finish(&jsonl->keys);
    hr_paths_finish(&jsonl->files);
    hr_free(jsonl);
}

static char *real_path(const char *path)
{
    char real[PATH_MAX];

    return realpath(path, real) ? hr_strdup(real) : NULL;
}

/* Folder and path as one path without "." and "..", as text alone. False: too long. */
static bool join_path(const char *folder, const char *path, char out[PATH_MAX])
{
    size_t n = 0;
    const char *parts[] = {path[0] == '/' ? "" : folder, path};

    out[0] = 0;
    for (size_t i = 0; i < HR_ARRAY_SIZE(parts); i++) {
        for (const char *at = parts[i]; *at; at += strspn(at, "/")) {
            size_t length = strcspn(at, "/");
            if (length == 2 && memcmp(at, "..", 2) == 0) {
                while (n && out[--n] != '/')
                    ;
            } else if (length && !(length == 1 && *at == '.')) {
                if (n + length + 2 > PATH_MAX)
                    return false;
                out[n++] = '/';
                memcpy(out + n, at, length);
                n += length;
            }
            out[n] = 0;
            at += length;
        }
    }
    return true;
}

static bool is_below(const char *root, const char *path)
{
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);

    return strncmp(root, path, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static const char *tree_of(const struct jsonl *jsonl, uint32_t file)
{
    return jsonl->root ? jsonl->root : jsonl->folders[file];
}

static int leaves_tree(const struct jsonl *jsonl, uint32_t file, const char *path,
                       struct hr_error *err)
{
    hr_fail(err, HR_E_CONFIG, "'%.150s' leaves the tree %s", path, tree_of(jsonl, file));
    hr_error_hint(err, "--root FOLDER names a wider tree; --allow-outside lifts the rule");
    return HR_E_CONFIG;
}

static int resolve(const struct jsonl *jsonl, uint32_t file, const char *value, char out[PATH_MAX],
                   struct hr_error *err)
{
    const char *path = value[0] == '@' ? value + 1 : value;

    if (!join_path(jsonl->folders[file], path, out))
        return hr_fail(err, HR_E_CONFIG, "a path of %zu bytes", strlen(path));
    if (!jsonl->allow_outside && !is_below(tree_of(jsonl, file), out))
        return leaves_tree(jsonl, file, path, err);
    return 0;
}

/* ---- first pass ---- */

static bool names_file(const struct hr_jsonl_key *key, const char *s)
{
    return (key->said_embed && s[0]) || (s[0] == '@' && s[1] && !key->said_type);
}

static int type_conflict(struct hr_jsonl_key *key, enum hr_field_type type,
                         const struct hr_jsonl_place *place, struct hr_error *err)
{
    hr_fail(err, HR_E_CONFIG, "'%.60s' names %s here and %s in line %" PRIu64 " of %s", key->name,
            hr_kind_noun(type), hr_kind_noun(key->type), key->type_place.line,
            key->type_place.file);
    hr_error_at_file(err, place->file, (int)place->line, place->column);
    hr_error_hint(err, "--embed %.60s=bytes takes both as bytes", key->name);
    return HR_E_CONFIG;
}

static int note_file(struct pass *pass, struct hr_jsonl_key *key, const char *value,
                     const struct hr_jsonl_place *place, uint64_t *payload, struct hr_error *err)
{
    char path[PATH_MAX];
    struct stat st;

    int ret = resolve(pass->jsonl, pass->file, value, path, err);
    if (ret < 0) {
        hr_error_at_file(err, place->file, (int)place->line, place->column);
        return ret;
    }
    if (stat(path, &st) < 0)
        return 0; /* loading rejects the record and says why */
    hr_listing_add(&pass->listing, path, (uint64_t)st.st_size,
                   (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    *payload += (uint64_t)st.st_size;
    if (key->said_type)
        key->type = key->said_type;
    enum hr_field_type type = key->said_type ? key->said_type : hr_kind_sniff_file(path);
    if (type == HR_FIELD_TENSOR && key->dtype == HR_DTYPE_NONE &&
        hr_source_tensor_dtype(path, &key->dtype, NULL) < 0)
        key->dtype = HR_DTYPE_NONE;
    if (key->type == HR_FIELD_NONE) {
        key->type = type;
        key->type_place = *place;
    }
    return key->type == type ? 0 : type_conflict(key, type, place, err);
}

static int note_line(struct pass *pass, const char *text, uint64_t line_no, uint64_t *payload,
                     struct hr_error *err)
{
    struct jsonl *jsonl = pass->jsonl;
    struct hr_jsonl_place place = {jsonl->files.items[pass->file], line_no, 0};
    int ret = 0;

    for (int i = 0; i < pass->parsed->count && ret == 0; i++) {
        const struct hr_jsonl_member *member = &pass->parsed->members[i];
        struct hr_jsonl_key *key = hr_jsonl_keys_get(&jsonl->keys, member->key, i, err);
        place.column = (int)(member->raw - text) + 1;
        if (!key) {
            hr_error_at_file(err, place.file, (int)line_no, place.column);
            return err->code;
        }
        hr_jsonl_key_note(key, member, &place);
        if (member->kind != HR_JSONL_STR)
            continue;
        const char *s = json_object_get_string(member->value);
        if (names_file(key, s))
            ret = note_file(pass, key, s, &place, payload, err);
    }
    return ret;
}

static int add_line(struct jsonl *jsonl, const struct line *line, struct hr_error *err)
{
    struct line *lines = hr_array_grow(jsonl->lines, jsonl->line_count, &jsonl->line_cap, 1024,
                                       sizeof(*lines));
    if (!lines)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    jsonl->lines = lines;
    jsonl->lines[jsonl->line_count++] = *line;
    return 0;
}

static int note_bad_line(struct pass *pass, uint64_t line_no, const struct hr_error *err)
{
    if (pass->bad_lines++ == 0)
        snprintf(pass->first_bad, sizeof(pass->first_bad), "; line %" PRIu64 ": %s", line_no, err->text);
    return 0;
}

/* A line that is no JSON stays a record, so that loading it rejects it in its place. */
static int take_line(struct pass *pass, const char *text, size_t bytes, uint64_t off,
                     uint64_t line_no, struct hr_error *err)
{
    struct line line = {off, line_no, bytes, (uint32_t)bytes, pass->file};

    if (line_no == 1 && bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        line.off += 3;
        line.bytes -= 3;
        text += 3;
        bytes -= 3;
    }
    if (strspn(text, " \t\r") >= bytes)
        return 0;
    int ret = hr_jsonl_parse(pass->tok, text, bytes, pass->parsed, err);
    if (ret == 0)
        ret = note_line(pass, text, line_no, &line.payload, err);
    else if (ret != HR_E_NOMEM)
        ret = note_bad_line(pass, line_no, err);
    hr_jsonl_line_finish(pass->parsed);
    return ret < 0 ? ret : add_line(pass->jsonl, &line, err);
}

/* The buffer grows to the longest line; text is NUL-terminated in place of the line break. */
static int scan_file(struct pass *pass, int fd, struct hr_error *err)
{
    size_t cap = READ_BYTES, used = 0;
    char *buf = hr_alloc(cap + 1);
    uint64_t off = 0, line_no = 0;
    int ret = buf ? 0 : hr_fail(err, HR_E_NOMEM, "out of memory");
    bool ended = false;

    while (ret == 0 && !(ended && used == 0)) {
        char *end = used ? memchr(buf, '\n', used) : NULL;
        if (!end && !ended) {
            if (used == cap) {
                char *grown = cap < MAX_LINE_BYTES ? hr_realloc(buf, cap * 2 + 1, 1) : NULL;
                if (!grown) {
                    ret = hr_fail(err, HR_E_LIMIT, "a line of more than %zu bytes", cap);
                    hr_error_at_file(err, pass->jsonl->files.items[pass->file], (int)line_no + 1, 1);
                    break;
                }
                buf = grown;
                cap *= 2;
            }
            ssize_t n = pread(fd, buf + used, cap - used, (off_t)(off + used));
            if (n < 0 && errno != EINTR)
                ret = hr_fail_errno(err, errno, "cannot read");
            ended = n == 0;
            used += n > 0 ? (size_t)n : 0;
            continue;
        }
        /* All whole lines that are in the buffer, then the rest moves to its front. */
        char *at = buf;
        while (ret == 0 && at < buf + used && (end = memchr(at, '\n', used - (size_t)(at - buf)))) {
            *end = 0;
            ret = take_line(pass, at, (size_t)(end - at), off + (uint64_t)(at - buf), ++line_no, err);
            at = end + 1;
        }
        if (ret == 0 && ended && at < buf + used) {
            buf[used] = 0;
            ret = take_line(pass, at, used - (size_t)(at - buf), off + (uint64_t)(at - buf),
                            ++line_no, err);
            at = buf + used;
        }
        off += (uint64_t)(at - buf);
        used -= (size_t)(at - buf);
        memmove(buf, at, used);
    }
    hr_free(buf);
    return ret;
}

static int scan_one(struct pass *pass, uint32_t file, struct hr_error *err)
{
    struct jsonl *jsonl = pass->jsonl;
    const char *path = jsonl->files.items[file];
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat st;

    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    jsonl->folders[file] = real_path(folder);
    jsonl->fds[file] = hr_fd_open(path, O_RDONLY, 0, err);
    if (jsonl->fds[file] < 0)
        return err->code;
    if (!jsonl->folders[file] || fstat(jsonl->fds[file], &st) < 0) {
        hr_fail_errno(err, errno, "cannot look at the file");
        hr_error_at_file(err, path, 0, 0);
        return err->code;
    }
    hr_listing_add(&pass->listing, path, (uint64_t)st.st_size,
                   (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    pass->file = file;
    return scan_file(pass, jsonl->fds[file], err);
}

static int nothing(const struct pass *pass, struct hr_error *err)
{
    char what[sizeof(pass->first_bad) + 64];

    snprintf(what, sizeof(what), "lines with one JSON object each%s", pass->first_bad);
    return hr_source_nothing(pass->jsonl->files.items[0], what, err);
}

static int scan_all(struct jsonl *jsonl, struct hr_error *err)
{
    struct pass pass = {.jsonl = jsonl, .tok = hr_jsonl_tokener()};
    int count = jsonl->files.count;

    pass.parsed = hr_alloc_zero(1, sizeof(*pass.parsed));
    jsonl->fds = hr_alloc_zero((size_t)count + 1, sizeof(*jsonl->fds));
    jsonl->folders = hr_alloc_zero((size_t)count + 1, sizeof(*jsonl->folders));
    for (int i = 0; jsonl->fds && i < count; i++)
        jsonl->fds[i] = -1;
    int ret = hr_listing_init(&pass.listing, err);
    if (ret == 0) {
        if (!pass.tok || !pass.parsed || !jsonl->fds || !jsonl->folders)
            ret = hr_fail(err, HR_E_NOMEM, "out of memory");
        for (int i = 0; ret == 0 && i < count; i++)
            ret = scan_one(&pass, (uint32_t)i, err);
        hr_listing_finish(&pass.listing, &jsonl->base);
    }
    jsonl->base.record_count = jsonl->line_count;
    if (ret == 0 && pass.bad_lines == jsonl->line_count)
        ret = nothing(&pass, err);
    if (pass.tok)
        json_tokener_free(pass.tok);
    hr_free(pass.parsed);
    return ret;
}

static int find_files(struct jsonl *jsonl, const struct hr_source_request *request,
                      struct hr_error *err)
{
    const struct hr_walk *walk = request->walk;
    int ret = 0;

    for (uint64_t i = 0; walk && i < walk->count && ret == 0; i++) {
        const char *dot = strrchr(walk->files[i].path, '.');
        if (!dot || (strcmp(dot, ".jsonl") != 0 && strcmp(dot, ".ndjson") != 0)) {
            jsonl->base.left_out++;
            continue;
        }
        char *path = hr_walk_path(walk, i);
        ret = path ? hr_paths_add(&jsonl->files, path, err)
                   : hr_fail(err, HR_E_NOMEM, "out of memory");
        hr_free(path);
    }
    for (int i = 0; !walk && i < request->path_count && ret == 0; i++)
        ret = hr_paths_add(&jsonl->files, request->paths[i], err);
    if (ret == 0 && jsonl->files.count == 0)
        ret = hr_source_nothing(request->paths[0], ".jsonl files", err);
    return ret;
}

static int find_root(struct jsonl *jsonl, const struct hr_pack_options *options,
                     struct hr_error *err)
{
    jsonl->allow_outside = options->allow_outside;
    if (!options->root)
        return 0;
    jsonl->root = real_path(options->root);
    return jsonl->root ? 0 : hr_fail_errno(err, errno, "--root %s", options->root);
}

static int jsonl_open(const struct hr_source_request *request, struct hr_source **out,
                      struct hr_error *err)
{
    struct jsonl *jsonl = hr_alloc_zero(1, sizeof(*jsonl));

    if (!jsonl)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    jsonl->base.kind = &hr_source_jsonl;
    jsonl->base.schema.class_field = -1;
    int ret = find_root(jsonl, request->options, err);
    if (ret == 0)
        ret = hr_jsonl_keys_say(&jsonl->keys, request->options, err);
    if (ret == 0)
        ret = find_files(jsonl, request, err);
    if (ret == 0)
        ret = scan_all(jsonl, err);
    if (ret == 0)
        ret = hr_jsonl_keys_decide(&jsonl->keys, &jsonl->base.schema, err);
    if (ret < 0) {
        hr_source_close(&jsonl->base);
        return ret;
    }
    *out = &jsonl->base;
    return 0;
}

/* ---- loading ---- */

static int load_file(const struct jsonl *jsonl, const struct line *line,
                     const struct hr_jsonl_key *key, const char *value,
                     struct hr_pack_record *record, struct hr_error *err)
{
    char path[PATH_MAX], real[PATH_MAX], why[sizeof(err->text)];
    const void *data;
    uint64_t bytes;

    int ret = resolve(jsonl, line->file, value, path, err);
    if (ret < 0)
        return ret;
    /* A link inside the tree may still lead out of it. */
    if (!realpath(path, real))
        ret = hr_fail_errno(err, errno, "cannot open");
    else if (!jsonl->allow_outside && !is_below(tree_of(jsonl, line->file), real))
        return leaves_tree(jsonl, line->file, value, err);
    if (ret == 0)
        ret = hr_pack_record_read(record, real, &data, &bytes, err);
    if (ret == 0)
        ret = hr_pack_record_set(&jsonl->base.intake, record, (uint32_t)key->field, data, bytes,
                                 path, false, err);
    if (ret < 0) {
        snprintf(why, sizeof(why), "%s", err->text);
        snprintf(err->text, sizeof(err->text), "%.200s: %.180s", value, why);
    }
    return ret;
}

static int misfit(const struct hr_jsonl_key *key, const struct hr_jsonl_member *member,
                  struct hr_error *err)
{
    return hr_fail(err, HR_E_FORMAT, "'%.60s' is %s, not %s", key->name,
                   hr_jsonl_kind_name(member->kind), hr_field_type_name(key->type));
}

static int load_string(const struct hr_jsonl_key *key, const struct hr_jsonl_member *member,
                       struct hr_pack_record *record, const struct hr_intake *intake,
                       struct hr_error *err)
{
    bool decoded = member->kind == HR_JSONL_STR;
    /* --type may ask for numbers as text: they are as written. */
    const char *s = decoded ? json_object_get_string(member->value) : member->raw;
    size_t bytes = decoded ? (size_t)json_object_get_string_len(member->value) : member->raw_bytes;
    char *copy = hr_pack_record_room(record, bytes, err);

    if (!copy)
        return err->code;
    memcpy(copy, s, bytes);
    return hr_pack_record_set(intake, record, (uint32_t)key->field, copy, bytes, "", false, err);
}

static int load_member(const struct jsonl *jsonl, const struct line *line,
                       const struct hr_jsonl_key *key, const struct hr_jsonl_member *member,
                       struct hr_pack_record *record, struct hr_error *err)
{
    enum hr_jsonl_kind kind = member->kind;
    uint32_t field = (uint32_t)key->field;

    if (kind == HR_JSONL_NULL && key->type != HR_FIELD_JSON)
        return 0;
    if (key->embed) {
        const char *s = kind == HR_JSONL_STR ? json_object_get_string(member->value) : "";
        return s[0] ? load_file(jsonl, line, key, s, record, err) : 0;
    }
    switch (key->type) {
    case HR_FIELD_TENSOR:
        return hr_jsonl_set_array(record, field, &key->array, member->value, err);
    case HR_FIELD_JSON:
        hr_pack_record_set_bytes(record, field, member->raw, member->raw_bytes);
        return 0;
    case HR_FIELD_TEXT:
    case HR_FIELD_STR:
        return load_string(key, member, record, &jsonl->base.intake, err);
    case HR_FIELD_BOOL:
        if (kind != HR_JSONL_BOOL)
            return misfit(key, member, err);
        hr_pack_record_set_i64(record, field, member->raw[0] == 't');
        return 0;
    case HR_FIELD_I64:
        if (kind != HR_JSONL_INT)
            return misfit(key, member, err);
        hr_pack_record_set_i64(record, field, hr_jsonl_i64(member));
        return 0;
    case HR_FIELD_F64:
        if (kind != HR_JSONL_INT && kind != HR_JSONL_FLOAT)
            return misfit(key, member, err);
        hr_pack_record_set_f64(record, field, hr_jsonl_f64(member));
        return 0;
    default:
        return misfit(key, member, err);
    }
}

static int load_members(const struct jsonl *jsonl, const struct line *line, const char *text,
                        struct hr_jsonl_line *parsed, struct hr_pack_record *record,
                        struct hr_error *err)
{
    for (int i = 0; i < parsed->count; i++) {
        const struct hr_jsonl_key *key =
            hr_jsonl_keys_find(&jsonl->keys, parsed->members[i].key, i);
        if (!key || key->field < 0)
            continue;
        int ret = load_member(jsonl, line, key, &parsed->members[i], record, err);
        if (ret < 0) {
            parsed->column = (int)(parsed->members[i].raw - text) + 1;
            return ret;
        }
    }
    return 0;
}

/* A line's parser, kept in the record's place. */
struct parser {
    struct json_tokener *tok;
    struct hr_jsonl_line line;
};

static void parser_free(void *scratch)
{
    struct parser *parser = scratch;

    if (parser->tok)
        json_tokener_free(parser->tok);
    hr_free(parser);
}

static struct parser *parser_of(struct hr_pack_record *record)
{
    if (!record->scratch) {
        struct parser *parser = hr_alloc_zero(1, sizeof(*parser));
        if (!parser)
            return NULL;
        parser->tok = hr_jsonl_tokener();
        record->scratch = parser;
        record->scratch_free = parser_free;
    }
    struct parser *parser = record->scratch;
    return parser->tok ? parser : NULL;
}

static int jsonl_load(const struct hr_source *source, uint64_t i, struct hr_pack_record *record,
                      struct hr_error *err)
{
    const struct jsonl *jsonl = (const struct jsonl *)source;
    const struct line *line = &jsonl->lines[i];
    const char *path = jsonl->files.items[line->file], *slash = strrchr(path, '/');
    char key[HR_KEY_BYTES];

    snprintf(key, sizeof(key), "%.900s:%" PRIu64, slash ? slash + 1 : path, line->line);
    hr_kind_printable(key, record->key, sizeof(record->key));
    struct parser *parser = parser_of(record);
    char *text = parser ? hr_pack_record_room(record, line->bytes, err) : NULL;
    if (!text)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    parser->line.column = 0;
    int ret = hr_fd_pread_full(jsonl->fds[line->file], text, line->bytes, line->off, err);
    if (ret == 0)
        ret = hr_jsonl_parse(parser->tok, text, line->bytes, &parser->line, err);
    if (ret == 0)
        ret = load_members(jsonl, line, text, &parser->line, record, err);
    if (ret < 0)
        hr_error_at_file(err, path, (int)line->line, parser->line.column);
    hr_jsonl_line_finish(&parser->line);
    return ret;
}

static uint64_t jsonl_size_hint(const struct hr_source *source, uint64_t i)
{
    return ((const struct jsonl *)source)->lines[i].payload;
}

const struct hr_source_kind hr_source_jsonl = {
    .name = "jsonl",
    .what = "JSONL: a record a line, a field a key",
    .open = jsonl_open,
    .load = jsonl_load,
    .size_hint = jsonl_size_hint,
    .close = jsonl_close,
};
