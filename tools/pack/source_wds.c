/* WebDataset tars: neighbouring members with the same key are the fields of one record; the key ends
 * at the first dot of the base name, as that library has it. */
#include "tools/pack/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "tools/pack/braces.h"
#include "tools/pack/groups.h"
#include "tools/pack/kinds.h"
#include "tools/pack/npy.h"
#include "tools/pack/tar.h"

struct wds {
    struct hr_source base;
    struct hr_groups groups;
    struct hr_paths tars;
    int *fds;
};

static void wds_close(struct hr_source *source)
{
    struct wds *wds = (struct wds *)source;

    for (int i = 0; wds->fds && i < wds->tars.count; i++)
        hr_fd_close(&wds->fds[i]);
    hr_free(wds->fds);
    hr_groups_finish(&wds->groups);
    hr_paths_finish(&wds->tars);
    hr_free(wds);
}

static int add_member(struct wds *wds, int file, const struct hr_tar_member *found,
                      struct hr_error *err)
{
    const char *name = strncmp(found->name, "./", 2) == 0 ? found->name + 2 : found->name;
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strchr(base, '.');

    /* Hidden files, and those without a suffix: WebDataset takes neither. */
    if (!dot || dot == base || !dot[1]) {
        wds->base.left_out++;
        return 0;
    }
    struct hr_member member = {found->off, found->bytes, (uint32_t)file, 0};
    int ret = hr_groups_add(&wds->groups, &wds->base.schema, name, (size_t)(dot - name), dot + 1,
                            &member, err);
    if (ret < 0)
        hr_error_at_file(err, wds->tars.items[file], 0, 0);
    return ret;
}

static int list_tar(struct wds *wds, int file, struct hr_listing *listing, struct hr_error *err)
{
    const char *path = wds->tars.items[file];
    struct hr_tar_member member;
    struct hr_tar *tar;
    struct stat st;

    wds->fds[file] = hr_fd_open(path, O_RDONLY, 0, err);
    if (wds->fds[file] < 0)
        return err->code;
    if (fstat(wds->fds[file], &st) < 0)
        return hr_fail_errno(err, errno, "cannot look at %s", path);
    hr_listing_add(listing, path, (uint64_t)st.st_size,
                   (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    int ret = hr_tar_open(wds->fds[file], path, &tar, err);
    if (ret < 0)
        return ret;
    while ((ret = hr_tar_next(tar, &member, err)) == 1) {
        ret = add_member(wds, file, &member, err);
        if (ret < 0)
            break;
    }
    hr_tar_close(tar);
    return ret;
}

static int list_all(struct wds *wds, struct hr_error *err)
{
    struct hr_listing listing;
    int ret = hr_listing_init(&listing, err);

    if (ret < 0)
        return ret;
    wds->fds = hr_alloc_zero((size_t)wds->tars.count + 1, sizeof(*wds->fds));
    for (int i = 0; wds->fds && i < wds->tars.count; i++)
        wds->fds[i] = -1;
    if (!wds->fds)
        ret = hr_fail(err, HR_E_NOMEM, "out of memory");
    for (int i = 0; ret == 0 && i < wds->tars.count; i++)
        ret = list_tar(wds, i, &listing, err);
    hr_listing_finish(&listing, &wds->base);
    wds->base.record_count = wds->groups.count;
    return ret;
}

static int find_tars(struct wds *wds, const struct hr_source_request *request, struct hr_error *err)
{
    const struct hr_walk *walk = request->walk;
    int ret = 0;

    for (uint64_t i = 0; walk && i < walk->count && ret == 0; i++) {
        size_t n = strlen(walk->files[i].path);
        if (n < 4 || strcmp(walk->files[i].path + n - 4, ".tar") != 0) {
            wds->base.left_out++;
            continue;
        }
        char *path = hr_walk_path(walk, i);
        ret = path ? hr_paths_add(&wds->tars, path, err)
                   : hr_fail(err, HR_E_NOMEM, "out of memory");
        hr_free(path);
    }
    for (int i = 0; !walk && i < request->path_count && ret == 0; i++)
        ret = hr_paths_add(&wds->tars, request->paths[i], err);
    return ret;
}

static int find_dtypes(struct wds *wds, struct hr_error *err)
{
    struct hr_schema *schema = &wds->base.schema;
    uint8_t head[4096];

    for (uint64_t m = 0; m < wds->groups.member_count; m++) {
        const struct hr_member *member = &wds->groups.members[m];
        struct hr_schema_field *field =
            &schema->fields[wds->groups.suffixes[member->suffix].field];
        struct hr_npy npy;
        if (field->type != HR_FIELD_TENSOR || field->dtype != HR_DTYPE_NONE)
            continue;
        size_t n = member->bytes < sizeof(head) ? member->bytes : sizeof(head);
        int ret = hr_fd_pread_full(wds->fds[member->file], head, n, member->off, err);
        if (ret < 0)
            return ret;
        if (hr_npy_parse(head, n, member->bytes, &npy, NULL) == 0)
            field->dtype = npy.dtype;
    }
    for (uint32_t f = 0; f < schema->field_count; f++)
        if (schema->fields[f].type == HR_FIELD_TENSOR && schema->fields[f].dtype == HR_DTYPE_NONE)
            schema->fields[f].dtype = HR_DTYPE_U8;
    return 0;
}

static int wds_open(const struct hr_source_request *request, struct hr_source **out,
                    struct hr_error *err)
{
    struct wds *wds = hr_alloc_zero(1, sizeof(*wds));

    if (!wds)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    wds->base.kind = &hr_source_wds;
    wds->base.schema.class_field = -1;
    int ret = find_tars(wds, request, err);
    if (ret == 0)
        ret = list_all(wds, err);
    if (ret == 0 && !wds->base.record_count)
        ret = hr_source_nothing(request->paths[0], ".tar files with members such as 000.jpg and "
                                                   "000.cls", err);
    if (ret == 0)
        ret = find_dtypes(wds, err);
    if (ret < 0) {
        hr_source_close(&wds->base);
        return ret;
    }
    *out = &wds->base;
    return 0;
}

static int load_member(const void *source, const struct hr_group *group,
                       const struct hr_member *member, struct hr_pack_record *record,
                       struct hr_error *err)
{
    const struct wds *wds = source;
    const struct hr_suffix *suffix = &wds->groups.suffixes[member->suffix];
    void *room = hr_pack_record_room(record, member->bytes, err);

    if (!room)
        return err->code;
    int ret = hr_fd_pread_full(wds->fds[member->file], room, member->bytes, member->off, err);
    if (ret < 0)
        return ret;
    char *name = hr_asprintf("%s:%s.%s", wds->tars.items[member->file], group->key, suffix->text);
    if (!name)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    ret = hr_pack_record_set(&wds->base.intake, record, suffix->field, room, member->bytes, name,
                             false, err);
    hr_free(name);
    return ret;
}

static int wds_load(const struct hr_source *source, uint64_t i, struct hr_pack_record *record,
                    struct hr_error *err)
{
    return hr_groups_load(&((const struct wds *)source)->groups, i, load_member, source, record, err);
}

static uint64_t wds_size_hint(const struct hr_source *source, uint64_t i)
{
    return ((const struct wds *)source)->groups.items[i].bytes;
}

const struct hr_source_kind hr_source_wds = {
    .name = "wds",
    .what = "WebDataset tars",
    .open = wds_open,
    .load = wds_load,
    .size_hint = wds_size_hint,
    .close = wds_close,
};
