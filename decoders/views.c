/* Several views out of one decode: all are drawn, the box around what they need is decoded, and each of its rows is
 * handed on to the views whose region it crosses. Where boxes far apart are less work, each is decoded for its view. */
#include "decoders/views.h"

#include "base/mem.h"
#include "decoders/ops/picture.h"

struct view_picture {
    struct hr_picture *picture;
    const struct hr_view_group *group;
    uint32_t output, place; /* which array, and where in it */
    /* the sample at hand */
    struct hr_image_region region;
    uint32_t before; /* pixels of a decoded row ahead of ours */
};

struct hr_view_pictures {
    const struct hr_views *views;
    /* the sample at hand */
    bool apart;                 /* a decode for each view */
    struct hr_image_region all; /* around all views' regions */
    uint32_t first, past;       /* views of the region at hand */
    uint32_t row, end; /* of the stored picture: the next that comes, past the last that is wanted */
    struct hr_image_plan plans[HR_CHAIN_MAX_VIEWS];
    struct view_picture items[]; /* [views->count] */
};

uint32_t hr_view_group_shape(const struct hr_view_group *group, uint64_t w, uint64_t h, uint64_t *shape)
{
    uint32_t axis = group->axis ? 1 : 0;
    bool planar = group->target.planar;

    if (axis)
        shape[0] = group->count;
    shape[axis + (planar ? 0 : 2)] = group->target.channels;
    shape[axis + (planar ? 1 : 0)] = h;
    shape[axis + (planar ? 2 : 1)] = w;
    return axis + 3;
}

/* ---- drawing ---- */

/* plan->image: orientation, scaled and the first view's key. */
static int draw(const struct hr_view_group *group, const struct hr_sample_plan *plan, uint32_t view,
                struct hr_image_plan *out, struct hr_error *err)
{
    bool turned = plan->image.orientation >= 5;
    uint32_t w = plan->facts.width, h = plan->facts.height;
    struct hr_draw_key key = hr_views_key(&plan->image.key, view);

    *out = (struct hr_image_plan){.orientation = plan->image.orientation, .scaled = plan->image.scaled};
    return hr_op_chain_plan(&group->ops, &key, turned ? h : w, turned ? w : h, out, err);
}

static int plan_group(const struct hr_views *views, int g, uint32_t first_view, struct hr_sample_plan *plan,
                      struct hr_error *err)
{
    const struct hr_view_group *group = &views->groups[g];
    const struct hr_image_target *t = &group->target;

    for (uint32_t i = 0; i < group->count; i++) {
        struct hr_image_plan drawn;
        int ret = draw(group, plan, first_view + i, &drawn, err);
        if (ret < 0)
            return ret;
        if (first_view + i == 0)
            plan->image = drawn;
        uint64_t w = (uint64_t)drawn.end_w, h = (uint64_t)drawn.end_h;
        uint64_t bytes = w * h * t->channels * hr_dtype_bytes(t->dtype);
        if (group->view_bytes && bytes != group->view_bytes)
            return hr_fail(err, HR_E_INTERNAL, "a view of another size was planned");
        hr_view_group_shape(group, w, h, plan->shape[g]);
        plan->bytes[g] = bytes * group->count;
    }
    return 0;
}

int hr_views_plan(const struct hr_views *views, const struct hr_draw_key *key, struct hr_sample_plan *plan,
                  struct hr_error *err)
{
    uint32_t view = 0;

    plan->image.key = *key;
    for (int g = 0; g < views->group_count; view += views->groups[g++].count) {
        int ret = plan_group(views, g, view, plan, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* What hr_views_plan drew. */
static int draw_all(const struct hr_views *views, const struct hr_sample_plan *plan,
                    struct hr_image_plan plans[HR_CHAIN_MAX_VIEWS], struct hr_error *err)
{
    uint32_t view = 1;

    plans[0] = plan->image;
    for (int g = 0; g < views->group_count; g++)
        for (uint32_t i = g == 0; i < views->groups[g].count; i++, view++) {
            int ret = draw(&views->groups[g], plan, view, &plans[view], err);
            if (ret < 0)
                return ret;
        }
    return 0;
}

static uint32_t least_shrink(const struct hr_image_plan *plans, uint32_t count, const struct hr_facts *facts)
{
    uint32_t least = 8;

    for (uint32_t i = 0; i < count && least > 1; i++) {
        uint32_t shrink = hr_image_shrink(&plans[i], facts->width, facts->height);
        least = shrink < least ? shrink : least;
    }
    return least;
}

static void cover(struct hr_image_region *all, const struct hr_image_region *one)
{
    if (one->w == 0)
        return;
    if (all->w == 0) {
        *all = *one;
        return;
    }
    uint64_t right = hr_max_u64(all->x + all->w, one->x + one->w);
    uint64_t bottom = hr_max_u64(all->y + all->h, one->y + one->h);
    all->x = (uint32_t)hr_min_u64(all->x, one->x);
    all->y = (uint32_t)hr_min_u64(all->y, one->y);
    all->w = (uint32_t)right - all->x;
    all->h = (uint32_t)bottom - all->y;
}

static uint64_t pixels_of(const struct hr_image_region *box)
{
    return (uint64_t)box->w * box->h;
}

/* A box for each view where these have fewer pixels in all than the box around them: what a decode costs to begin does
 * not show beside that. */
static void find_boxes(const struct hr_image_plan *plans, uint32_t count, const struct hr_facts *facts, uint32_t shrink,
                       struct hr_views_boxes *boxes)
{
    struct hr_image_region all = {0};
    uint64_t apart = 0;

    boxes->shrink = shrink;
    boxes->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct hr_image_region *box = &boxes->box[boxes->count];
        if (!hr_image_needs(&plans[i], facts->width, facts->height, shrink, box))
            continue;
        boxes->count++;
        cover(&all, box);
        apart += pixels_of(box);
    }
    if (boxes->count <= 1 || apart < pixels_of(&all))
        return;
    boxes->count = 1;
    boxes->box[0] = all;
}

void hr_views_boxes(const struct hr_views *views, const struct hr_sample_plan *plan, struct hr_views_boxes *boxes)
{
    struct hr_image_plan plans[HR_CHAIN_MAX_VIEWS];

    boxes->count = 0;
    if (draw_all(views, plan, plans, NULL) < 0)
        return;
    uint32_t shrink = plan->image.scaled ? least_shrink(plans, views->count, &plan->facts) : 1;
    find_boxes(plans, views->count, &plan->facts, shrink, boxes);
}

/* ---- a worker's pictures ---- */

int hr_view_pictures_create(const struct hr_views *views, struct hr_view_pictures **out)
{
    struct hr_view_pictures *p = hr_alloc_zero(1, sizeof(*p) + views->count * sizeof(p->items[0]));
    struct view_picture *item;

    if (!p)
        return HR_E_NOMEM;
    p->views = views;
    item = p->items;
    for (int g = 0; g < views->group_count; g++)
        for (uint32_t i = 0; i < views->groups[g].count; i++, item++) {
            *item = (struct view_picture){.group = &views->groups[g], .output = (uint32_t)g, .place = i};
            if (hr_picture_create(&item->picture) < 0) {
                hr_view_pictures_destroy(p);
                return HR_E_NOMEM;
            }
        }
    *out = p;
    return 0;
}

void hr_view_pictures_destroy(struct hr_view_pictures *p)
{
    for (uint32_t i = 0; p && i < p->views->count; i++)
        hr_picture_destroy(p->items[i].picture);
    hr_free(p);
}

static int begin_views(struct hr_view_pictures *p, const struct hr_sample_plan *plan, void *const dst[],
                       struct hr_views_need *need, struct hr_error *err)
{
    need->region = (struct hr_image_region){0};
    for (uint32_t i = 0; i < p->views->count; i++) {
        struct view_picture *item = &p->items[i];
        struct hr_image_target target = item->group->target;
        target.dst = (uint8_t *)dst[item->output] + item->place * item->group->view_bytes;
        target.planes_in = need->planes;
        int ret = hr_picture_begin(item->picture, &item->group->ops, &p->plans[i], &target, plan->facts.width,
                                   plan->facts.height, need->shrink, &item->region, err);
        if (ret < 0)
            return ret;
        cover(&need->region, &item->region);
    }
    return 0;
}

/* A decoder gives all views planes, or all of them pixels. */
static bool all_take_planes(const struct hr_view_pictures *p)
{
    bool some = false;

    for (uint32_t i = 0; i < p->views->count; i++) {
        if (p->items[i].region.w && !hr_picture_takes_planes(p->items[i].picture))
            return false;
        some = some || p->items[i].region.w;
    }
    return some;
}

int hr_views_begin(struct hr_view_pictures *p, const struct hr_sample_plan *plan, void *const dst[],
                   struct hr_views_need *need, struct hr_error *err)
{
    uint32_t count = p->views->count;
    int ret = draw_all(p->views, plan, p->plans, err);

    if (ret < 0)
        return ret;
    need->shrink = need->scaled && plan->image.scaled ? least_shrink(p->plans, count, &plan->facts) : 1;
    need->planes = need->planes && p->views->may_take_planes;
    p->apart = false;
    if (need->seeks && count > 1) {
        struct hr_views_boxes boxes;
        find_boxes(p->plans, count, &plan->facts, need->shrink, &boxes);
        p->apart = boxes.count > 1;
    }
    ret = begin_views(p, plan, dst, need, err);
    if (ret == 0 && need->planes && !all_take_planes(p)) {
        need->planes = false;
        if (count > 1)
            ret = begin_views(p, plan, dst, need, err);
    }
    p->all = need->region;
    p->past = 0;
    return ret;
}

bool hr_views_next(struct hr_view_pictures *p, struct hr_image_region *region)
{
    uint32_t count = p->views->count;

    while (p->apart && p->past < count && p->items[p->past].region.w == 0)
        p->past++;
    if (p->past == count || p->all.w == 0)
        return false;
    p->first = p->past;
    p->past = p->apart ? p->first + 1 : count;
    *region = p->apart ? p->items[p->first].region : p->all;
    for (uint32_t i = p->first; i < p->past; i++)
        p->items[i].before = p->items[i].region.x - region->x;
    p->row = region->y;
    p->end = region->y + region->h;
    return true;
}

static bool crosses(const struct hr_view_pictures *p, const struct view_picture *item)
{
    return p->row >= item->region.y && p->row - item->region.y < item->region.h;
}

bool hr_views_push(struct hr_view_pictures *p, const uint8_t *row)
{
    for (uint32_t i = p->first; i < p->past; i++) {
        struct view_picture *item = &p->items[i];
        if (crosses(p, item))
            hr_picture_push(item->picture, row + (size_t)item->before * item->group->target.channels);
    }
    return ++p->row < p->end;
}

bool hr_views_push_planes(struct hr_view_pictures *p, const uint8_t *const rows[3])
{
    for (uint32_t i = p->first; i < p->past; i++) {
        struct view_picture *item = &p->items[i];
        if (!crosses(p, item))
            continue;
        const uint8_t *const from[3] = {rows[0] + item->before, rows[1] + item->before, rows[2] + item->before};
        hr_picture_push_planes(item->picture, from);
    }
    return ++p->row < p->end;
}

int hr_views_end(struct hr_view_pictures *p, struct hr_error *err)
{
    int ret = 0;

    for (uint32_t i = 0; i < p->views->count && ret == 0; i++)
        ret = hr_picture_end(p->items[i].picture, err);
    return ret;
}
