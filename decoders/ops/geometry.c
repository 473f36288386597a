/* The drawn geometry of a chain as one matrix. */
#include "decoders/ops/geometry.h"

#include <math.h>
#include <string.h>

void hr_map_identity(struct hr_map *map)
{
    *map = (struct hr_map){{1, 0, 0, 0, 1, 0, 0, 0, 1}};
}

void hr_map_multiply(struct hr_map *out, const struct hr_map *a, const struct hr_map *b)
{
    struct hr_map product;

    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            product.m[3 * r + c] = a->m[3 * r] * b->m[c] + a->m[3 * r + 1] * b->m[3 + c] +
                                   a->m[3 * r + 2] * b->m[6 + c];
    *out = product;
}

bool hr_map_invert(struct hr_map *out, const struct hr_map *map)
{
    const double *m = map->m;
    double cofactors[9] = {
        m[4] * m[8] - m[5] * m[7], m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
        m[5] * m[6] - m[3] * m[8], m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
        m[3] * m[7] - m[4] * m[6], m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3],
    };
    double determinant = m[0] * cofactors[0] + m[1] * cofactors[3] + m[2] * cofactors[6];

    if (determinant == 0 || !isfinite(determinant))
        return false;
    for (int i = 0; i < 9; i++)
        out->m[i] = cofactors[i] / determinant;
    return true;
}

void hr_map_point(const struct hr_map *map, double x, double y, double out[2])
{
    const double *m = map->m;
    double z = m[6] * x + m[7] * y + m[8];

    out[0] = (m[0] * x + m[1] * y + m[2]) / z;
    out[1] = (m[3] * x + m[4] * y + m[5]) / z;
}

void hr_view_map(const struct hr_view *view, struct hr_map *map)
{
    double sx = 1, sy = 1, x = -(double)view->box_x, y = -(double)view->box_y;

    if (view->resized) {
        sx = (double)view->full_w / (double)view->box_w;
        sy = (double)view->full_h / (double)view->box_h;
        x = x * sx - (double)view->out_x;
        y = y * sy - (double)view->out_y;
    }
    if (view->flip_h) {
        sx = -sx;
        x = (double)view->w - x;
    }
    if (view->flip_v) {
        sy = -sy;
        y = (double)view->h - y;
    }
    *map = (struct hr_map){{sx, 0, x, 0, sy, y, 0, 0, 1}};
}

/* A map times a number is the same map: made positive at (x, y), so that what a point is multiplied by tells whether
 * it is before or behind a perspective's horizon. */
static void face(struct hr_map *there, struct hr_map *back, double x, double y)
{
    if (there->m[6] * x + there->m[7] * y + there->m[8] >= 0)
        return;
    for (int i = 0; i < 9; i++) {
        there->m[i] = -there->m[i];
        back->m[i] = -back->m[i];
    }
}

/* Steps hold the way back. */
static int follow_steps(const struct hr_steps *steps, struct hr_geometry *g, struct hr_error *err)
{
    for (int i = 0; i < steps->count; i++) {
        struct hr_map back, there;
        if (steps->steps[i].kind != HR_STEP_WARP)
            continue;
        memcpy(back.m, steps->steps[i].map, sizeof(back.m));
        if (!hr_map_invert(&there, &back))
            return hr_fail(err, HR_E_LIMIT, "an op leaves nothing of the picture");
        face(&there, &back, g->w * 0.5, g->h * 0.5);
        hr_map_multiply(&g->to_result, &there, &g->to_result);
        hr_map_multiply(&g->to_source, &g->to_source, &back);
    }
    return 0;
}

static int follow_stage(const struct hr_op_chain *chain, const struct hr_draw_key *key, int stage,
                        struct hr_geometry *g, struct hr_error *err)
{
    const struct hr_op_stage *s = &chain->stages[stage];
    struct hr_map there, back;
    struct hr_steps steps;
    struct hr_view view;
    int ret = hr_op_chain_view(chain, key, stage, g->w, g->h, &view, err);

    if (ret < 0)
        return ret;
    hr_view_map(&view, &there);
    if (!hr_map_invert(&back, &there))
        return hr_fail(err, HR_E_LIMIT, "an op leaves nothing of the picture");
    hr_map_multiply(&g->to_result, &there, &g->to_result);
    hr_map_multiply(&g->to_source, &g->to_source, &back);
    g->w = (uint32_t)view.w;
    g->h = (uint32_t)view.h;
    for (int i = s->pixels; ret == 0 && i < s->end; i++) {
        hr_op_chain_draw(chain, key, i, g->w, g->h, &steps);
        ret = follow_steps(&steps, g, err);
    }
    return ret;
}

int hr_op_chain_geometry(const struct hr_op_chain *chain, const struct hr_draw_key *key, uint32_t w,
                         uint32_t h, struct hr_geometry *geometry, struct hr_error *err)
{
    struct hr_geometry g = {.w = w, .h = h};
    int ret = 0;

    hr_map_identity(&g.to_result);
    hr_map_identity(&g.to_source);
    for (int i = 0; ret == 0 && i < chain->stage_count; i++)
        ret = follow_stage(chain, key, i, &g, err);
    if (ret == 0)
        *geometry = g;
    return ret;
}
