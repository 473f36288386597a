/* Followers of an image field: joined with their leader in the plan, and mapped by its geometry in the sample. */
#include "pipeline/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "decoders/ops/follow.h"
#include "pipeline/plan_parts.h"

enum { MAX_SAMPLE_DIMS = 4 };

static const struct hr_arg *find_arg(const struct hr_call *call, const char *name)
{
    for (int i = 0; i < call->arg_count; i++)
        if (call->args[i].name && strcmp(call->args[i].name, name) == 0)
            return &call->args[i];
    return NULL;
}

const struct hr_arg *hr_follow_option(const struct hr_conf_field *field)
{
    return field ? find_arg(&field->options, "follow") : NULL;
}

/* ---- the plan ---- */

static int fail_at(const struct hr_conf_field *field, const struct hr_arg *arg, const char *hint, struct hr_error *err)
{
    hr_error_at_file(err, field->options.file, arg ? arg->line : field->line, arg ? arg->column : field->column);
    hr_error_hint(err, "%s", hint);
    return HR_E_CONFIG;
}

int hr_follow_leader(const struct hr_plan *plan, const struct hr_conf_field *field, uint32_t *leader,
                     struct hr_error *err)
{
    const struct hr_arg *arg = hr_follow_option(field);
    const char *name = arg->kind == HR_ARG_STR ? arg->text : "";

    for (uint32_t i = 0; i < plan->field_count; i++) {
        if (strcmp(plan->fields[i].name, name) != 0)
            continue;
        if (plan->fields[i].chain && hr_chain_leads(plan->fields[i].chain)) {
            *leader = i;
            return 0;
        }
        hr_fail(err, HR_E_CONFIG, "'%s' follows '%s', which is no image field with ops of its own", field->name, name);
        return fail_at(field, arg, "follow: NAME takes the name of an image field, one without views", err);
    }
    hr_fail(err, HR_E_CONFIG, "'%s' follows '%.60s', which is not among the fields", field->name,
            arg->text ? arg->text : "");
    return fail_at(field, arg, "follow: NAME takes the name of an image field that is delivered beside this one", err);
}

int hr_follow_check_type(const struct hr_schema_field *sf, const struct hr_conf_field *field, struct hr_error *err)
{
    if (field->op_count > 0) {
        hr_fail(err, HR_E_CONFIG, "'%s' follows a picture and has no ops of its own", field->name);
        hr_error_at_file(err, field->ops[0].file, field->ops[0].line, field->ops[0].column);
        hr_error_hint(err, "what is done to the picture is done to it");
        return HR_E_CONFIG;
    }
    if (sf->type == HR_FIELD_IMAGE || sf->type == HR_FIELD_TENSOR)
        return 0;
    hr_fail(err, HR_E_CONFIG, "a field of type %s cannot follow a picture", hr_field_type_name(sf->type));
    return fail_at(field, hr_follow_option(field),
                   sf->type == HR_FIELD_JSON
                       ? "pack lists of boxes as an array: headrace pack --type 'boxes=f32[n,4]' (docs/pack.md)"
                       : "masks are images; boxes and keypoints are arrays",
                   err);
}

static int read_kind(const struct hr_conf_field *field, enum hr_follow_kind *kind, struct hr_error *err)
{
    const struct hr_arg *as = find_arg(&field->options, "as");
    const char *word = as && as->kind == HR_ARG_STR ? as->text : "";

    if (strcmp(word, "boxes") == 0 || strcmp(word, "keypoints") == 0) {
        *kind = word[0] == 'b' ? HR_FOLLOW_BOXES : HR_FOLLOW_KEYPOINTS;
        return 0;
    }
    if (as)
        hr_fail(err, HR_E_CONFIG, "an array cannot follow a picture as '%.40s'", as->text ? as->text : "");
    else
        hr_fail(err, HR_E_CONFIG, "'%s' is an array: what does it hold of the picture?", field->name);
    return fail_at(field, as, "as: boxes or as: keypoints", err);
}

static void print_shape(const struct hr_facts *facts, char *text, size_t room)
{
    size_t n = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < facts->dims && i < HR_MAX_DIMS && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%" PRIu64, i ? ", " : "", facts->shape[i]);
}

static const char *columns_text(enum hr_follow_kind kind)
{
    return kind == HR_FOLLOW_BOXES ? "boxes are arrays of shape [n, 4]"
                                   : "keypoints are arrays of shape [n, 2] or [n, k, 2], or 3 with visibility";
}

/* The last axis of the first record's shape says what all have. */
static int choose_columns(const struct hr_conf_field *field, const struct hr_facts *first, struct hr_follow *follow,
                          struct hr_error *err)
{
    uint32_t least = follow->kind == HR_FOLLOW_BOXES ? 1 : 2;
    uint64_t last = first->dims ? first->shape[first->dims - 1] : 0;
    char shape[160];

    if (first->dims >= least && first->dims <= MAX_SAMPLE_DIMS &&
        (follow->kind == HR_FOLLOW_BOXES ? last == 4 : last == 2 || last == 3)) {
        follow->columns = (uint32_t)last;
        return 0;
    }
    print_shape(first, shape, sizeof(shape));
    hr_fail(err, HR_E_CONFIG, "'%s' has arrays of shape [%s]; %s", field->name, shape, columns_text(follow->kind));
    return fail_at(field, find_arg(&field->options, "as"), "pack it with that shape, [0, 4] or [0, 2] where there is "
                   "nothing", err);
}

/* A batch of arrays, and of what is still there beside them. */
static int add_outputs(struct hr_plan *plan, struct hr_plan_field *f, const struct hr_field_totals *totals,
                       struct hr_error *err)
{
    const struct hr_facts *first = &totals->first;
    bool fixed = totals->uniform_shape && totals->present > 0;
    uint32_t dims = fixed || first->dims > 2 ? first->dims : 2;
    uint64_t items = totals->max_bytes / hr_dtype_bytes(f->from);
    struct hr_plan_output *o = hr_plan_add_output(plan, f->name, "", HR_FIELD_TENSOR);
    struct hr_plan_output *kept = o ? hr_plan_add_output(plan, f->name, ".kept", HR_FIELD_BOOL) : NULL;

    if (!kept)
        return hr_plan_too_many_outputs(err);
    o->dtype = f->to;
    o->dims = dims;
    o->sample_bytes = items * hr_dtype_bytes(f->to);
    kept->dtype = HR_DTYPE_BOOL;
    kept->dims = dims - 1;
    kept->sample_bytes = items / f->follow->columns;
    if (fixed) {
        memcpy(o->shape, first->shape, dims * sizeof(o->shape[0]));
        memcpy(kept->shape, first->shape, (dims - 1) * sizeof(o->shape[0]));
        return 0;
    }
    o->ragged = kept->ragged = true;
    o->sample_dims = dims;
    kept->sample_dims = dims > 2 ? dims - 1 : 0;
    return 0;
}

/* Members of a group: of the last axis but one. */
static uint64_t group_of(const uint64_t *shape, uint32_t dims)
{
    return dims >= 2 ? shape[dims - 2] : 1;
}

static int check_mirror(const struct hr_follow *follow, uint64_t group, int code, struct hr_error *err)
{
    if (follow->mirror_count <= group || group == 0)
        return 0;
    return hr_fail(err, code, "'mirror' names point %u, and there are %" PRIu64, follow->mirror_count - 1,
                   group);
}

int hr_follow_plan_array(struct hr_plan *plan, struct hr_plan_field *f, const struct hr_schema_field *sf,
                         const struct hr_conf_field *conf, const struct hr_field_totals *totals, struct hr_error *err)
{
    const struct hr_facts *first = &totals->first;
    bool fixed = totals->uniform_shape && totals->present > 0;
    enum hr_follow_kind kind;

    int ret = read_kind(conf, &kind, err);
    if (ret < 0)
        return ret;
    f->follow = hr_alloc_zero(1, sizeof(*f->follow));
    if (!f->follow)
        return hr_fail(err, HR_E_NOMEM, "no memory for the plan");
    f->from = sf->dtype != HR_DTYPE_NONE ? sf->dtype : (enum hr_dtype)first->dtype;
    ret = hr_follow_read(&conf->options, hr_conf_field_table(conf, "output"), kind, f->from, f->follow, err);
    if (ret == 0)
        ret = choose_columns(conf, first, f->follow, err);
    if (ret == 0 && fixed)
        ret = check_mirror(f->follow, group_of(first->shape, first->dims), HR_E_CONFIG, err);
    if (ret < 0 && err && !err->line)
        fail_at(conf, find_arg(&conf->options, "mirror"), "points are counted from 0", err);
    if (ret < 0)
        return ret;
    f->to = f->follow->to.dtype;
    f->route = fixed ? HR_ROUTE_FIXED : HR_ROUTE_RAGGED;
    return add_outputs(plan, f, totals, err);
}

/* ---- one sample ---- */

static const struct hr_dataset *dataset_of(const struct hr_sample *s)
{
    return hr_plan_dataset(s->batch->plan, s->place.source);
}

static void facts_of(const struct hr_sample *s, const struct hr_plan_field *f, struct hr_facts *facts)
{
    hr_dataset_facts(dataset_of(s), s->record, (uint32_t)f->schema_idx[s->place.source], facts);
}

int hr_follow_check_mask(const struct hr_sample *s, const struct hr_plan_field *f, struct hr_error *err)
{
    const struct hr_plan_field *leader = &s->batch->plan->fields[f->leader];
    struct hr_facts ours, theirs;
    uint32_t w, h, picture_w, picture_h;

    facts_of(s, f, &ours);
    facts_of(s, leader, &theirs);
    hr_chain_upright(leader->chain, &ours, &w, &h);
    hr_chain_upright(leader->chain, &theirs, &picture_w, &picture_h);
    if (w == picture_w && h == picture_h)
        return 0;
    return hr_fail(err, HR_E_DECODE, "the mask is %u x %u pixels, the picture that it follows (%s) %u x %u", w, h,
                   leader->name, picture_w, picture_h);
}

uint64_t hr_follow_room(const struct hr_plan_field *f, uint64_t value_bytes, uint32_t output)
{
    uint64_t items = value_bytes / hr_dtype_bytes(f->from);

    return output == f->first_output ? items * hr_dtype_bytes(f->to) : items / f->follow->columns;
}

/* The shape that is delivered, as the record's facts have it; they come from a file. */
static int check_shape(const struct hr_plan_field *f, const struct hr_facts *facts, uint32_t dims, uint64_t bytes,
                       uint64_t shape[MAX_SAMPLE_DIMS], struct hr_error *err)
{
    uint64_t all = hr_dtype_bytes(f->from);
    bool same = facts->dims == dims;
    char text[160];

    for (uint32_t i = 0; i < facts->dims && i < HR_MAX_DIMS; i++)
        if (!hr_mul_u64(all, facts->shape[i], &all))
            return hr_fail(err, HR_E_CORRUPT, "the array's shape is beyond all bounds");
    if (all != bytes)
        return hr_fail(err, HR_E_CORRUPT, "%" PRIu64 " bytes, its shape has %" PRIu64, bytes, all);
    if (bytes && (!same || facts->shape[dims - 1] != f->follow->columns)) {
        print_shape(facts, text, sizeof(text));
        return hr_fail(err, HR_E_FORMAT, "an array of shape [%s], where others have %u axes, the last of %u; %s", text,
                       dims, f->follow->columns, columns_text(f->follow->kind));
    }
    for (uint32_t i = 0; i < dims; i++)
        shape[i] = same ? facts->shape[i] : 0;
    shape[dims - 1] = f->follow->columns;
    return 0;
}

static int take_outputs(struct hr_sample *s, const struct hr_plan_field *f, uint64_t bytes,
                        const uint64_t shape[MAX_SAMPLE_DIMS], uint8_t *dst[2], struct hr_error *err)
{
    const struct hr_plan *plan = s->batch->plan;

    for (uint32_t i = 0; i < 2; i++) {
        uint32_t out = f->first_output + i;
        uint64_t room = hr_follow_room(f, bytes, out);
        dst[i] = hr_sample_fixed_dst(s, out);
        if (!plan->outputs[out].ragged) {
            if (room != plan->outputs[out].sample_bytes)
                return hr_fail(err, HR_E_CORRUPT, "%" PRIu64 " bytes where every record has the same", bytes);
            continue;
        }
        int ret = hr_sample_ragged_dst(s, out, room, &dst[i], err);
        if (ret < 0)
            return ret;
        for (uint32_t d = 0; d < plan->outputs[out].sample_dims; d++)
            s->rooms[out].shape[d] = (int32_t)hr_min_u64(shape[d], INT32_MAX);
    }
    return 0;
}

int hr_follow_finish(struct hr_sample *s, const struct hr_plan_field *f, const uint8_t *value, uint64_t bytes,
                     struct hr_error *err)
{
    const struct hr_plan *plan = s->batch->plan;
    const struct hr_plan_field *leader = &plan->fields[f->leader];
    const struct hr_draw_key key = {plan->order.spec.seed, s->place.epoch, s->place.position, f->stream};
    uint64_t shape[MAX_SAMPLE_DIMS] = {0};
    uint32_t w, h, dims = plan->outputs[f->first_output].dims;
    struct hr_facts facts, picture;
    struct hr_geometry geometry;
    uint8_t *dst[2];

    facts_of(s, f, &facts);
    facts_of(s, leader, &picture);
    int ret = check_shape(f, &facts, dims, bytes, shape, err);
    if (ret == 0)
        ret = check_mirror(f->follow, group_of(shape, dims), HR_E_FORMAT, err);
    if (ret == 0)
        ret = hr_chain_geometry(leader->chain, &picture, &key, &geometry, err);
    if (ret == 0)
        ret = take_outputs(s, f, bytes, shape, dst, err);
    if (ret < 0)
        return ret;
    hr_chain_upright(leader->chain, &picture, &w, &h);
    hr_follow_run(f->follow, &geometry, w, h, group_of(shape, dims), value, dst[0], dst[1],
                  hr_follow_room(f, bytes, f->first_output + 1));
    return 0;
}
