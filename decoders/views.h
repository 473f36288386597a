/* The views of an image field: pictures that are made of one stored picture, each with randomness of its own. A
 * field without `views:` has one. The stored picture is read once and decoded once, as far as the views need it
 * together, and every decoded row goes to each view that wants it; only small views far apart are decoded one by one.
 *
 *   hr_views_plan    reader thread: draws all views, keeps the first one's plan, says how large the outputs are
 *   hr_views_boxes   what of the stored picture is to be decoded
 *   hr_views_begin   worker: draws them again (drawing is pure) and opens a picture for each
 *   hr_views_next    a region to decode, until it returns false
 *   hr_views_push    its rows, top to bottom, until it returns false
 *   hr_views_end     ops on pixels, and what else is left */
#ifndef HR_DECODERS_VIEWS_H
#define HR_DECODERS_VIEWS_H

#include "decoders/ops/op.h"
#include "decoders/sink.h"

/* Views that are made alike; they come in one array, one behind the other. */
struct hr_view_group {
    struct hr_op_chain ops;
    struct hr_image_target target; /* dst unset */
    uint32_t count;
    bool axis;           /* the array has an axis of views, even of one */
    uint64_t view_bytes; /* of one; 0: sizes differ, and there is one view */
};

/* Of one sample, for views of w x h; the number of axes. */
uint32_t hr_view_group_shape(const struct hr_view_group *group, uint64_t w, uint64_t h, uint64_t *shape);


/* Constant. Views are numbered through all groups. */
struct hr_views {
    struct hr_view_group *groups; /* as many as the chain has outputs */
    int group_count;
    uint32_t count;
    bool may_take_planes; /* every group can take them from the decoder */
};

/* key: of the first view. */
static inline struct hr_draw_key hr_views_key(const struct hr_draw_key *key, uint32_t view)
{
    struct hr_draw_key of_view = *key;

    of_view.stream += HR_MAX_FIELDS * view;
    return of_view;
}

/* plan: facts, and orientation and scaled of its image. Fills the rest of image, shape and bytes. */
int hr_views_plan(const struct hr_views *views, const struct hr_draw_key *key, struct hr_sample_plan *plan,
                  struct hr_error *err) HR_MUST_CHECK;

/* Of the stored picture at 1/shrink, the least shrink of any view. */
struct hr_views_boxes {
    uint32_t shrink, count; /* count 0: nothing of the picture shows */
    struct hr_image_region box[HR_CHAIN_MAX_VIEWS];
};

/* What a decoder that seeks is to decode: the box around what all views need, or a box for each view where that is
 * less work. Pure, and the worker decides by the same. */
void hr_views_boxes(const struct hr_views *views, const struct hr_sample_plan *plan, struct hr_views_boxes *boxes);

struct hr_view_pictures; /* of one worker: a picture for each view */

int hr_view_pictures_create(const struct hr_views *views, struct hr_view_pictures **out) HR_MUST_CHECK;
void hr_view_pictures_destroy(struct hr_view_pictures *pictures); /* NULL is fine */

struct hr_views_need {
    bool scaled; /* in: the decoder can decode at 1/shrink */
    bool planes; /* in: it can give planes; out: it must */
    bool seeks;  /* in: boxes can be decoded one by one */
    uint32_t shrink;
    struct hr_image_region region; /* around all that is wanted; w == 0: nothing is */
};

/* dst: an array for each group. 0, HR_E_NOMEM or a sample's error. */
int hr_views_begin(struct hr_view_pictures *pictures, const struct hr_sample_plan *plan, void *const dst[],
                   struct hr_views_need *need, struct hr_error *err) HR_MUST_CHECK;
/* The next region to decode, for one view or for all. */
bool hr_views_next(struct hr_view_pictures *pictures, struct hr_image_region *region);
/* row: of the region, readable 64 bytes past the end. False when no view needs more. */
bool hr_views_push(struct hr_view_pictures *pictures, const uint8_t *row);
/* Where need->planes: rows of red, green and blue instead. */
bool hr_views_push_planes(struct hr_view_pictures *pictures, const uint8_t *const rows[3]);
/* 0, 1 when rows are missing, or HR_E_NOMEM. */
int hr_views_end(struct hr_view_pictures *pictures, struct hr_error *err) HR_MUST_CHECK;

#endif
