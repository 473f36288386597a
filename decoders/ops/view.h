/* The picture as the ops so far leave it, held as geometry: a box of the source, a resize of it, a
 * window of that, and flips last. Each op speaks of the size it sees; the functions here fold it in. */
#ifndef HR_DECODERS_OPS_VIEW_H
#define HR_DECODERS_OPS_VIEW_H

#include "decoders/chain.h"

struct hr_view {
    int64_t w, h;                     /* what the next op sees */
    int64_t box_x, box_y, box_w, box_h; /* of the oriented picture */
    bool resized;
    int64_t full_w, full_h;           /* size the box is resized to */
    int64_t out_x, out_y;             /* window of that; its size is w x h */
    bool flip_h, flip_v;
    int filter;
    uint8_t fill[4];                  /* of what lies outside */
};

void hr_view_init(struct hr_view *view, uint32_t w, uint32_t h);
/* A crop of w x h at (x, y) of what is seen; may reach outside: there the fill colour shows. */
void hr_view_crop(struct hr_view *view, int64_t x, int64_t y, int64_t w, int64_t h);
/* Not after a resize; hr_op_chain_init sees to that. Same size as seen: nothing is done. */
void hr_view_resize(struct hr_view *view, int64_t w, int64_t h, int filter);
void hr_view_flip(struct hr_view *view, bool horizontal);
/* HR_E_LIMIT when what comes out is larger than any picture may be. */
int hr_view_plan(const struct hr_view *view, struct hr_image_plan *plan, struct hr_error *err)
    HR_MUST_CHECK;

#endif
