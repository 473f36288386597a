/* Image ops: what the pipeline file says under `ops:`. Geometry is folded, never run: each op's plan
 * draws its randomness and changes the view, and the whole chain becomes one hr_image_plan that the
 * decoder and one resampling pass carry out. docs/ops.md has each op's formula and order of draws.
 *
 * An op is one .c file, one line in registry.c, one paragraph in docs/ops.md and one golden test. */
#ifndef HR_DECODERS_OPS_OP_H
#define HR_DECODERS_OPS_OP_H

#include "base/arg.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "decoders/chain_media.h"
#include "decoders/kernels/resample.h"
#include "decoders/ops/view.h"

/* Parsed arguments of one op; each op uses the members it needs. */
struct hr_op_params {
    int64_t w, h;        /* target size */
    int64_t side;        /* resize: the short side; 0 = not this form */
    int64_t max_side;    /* resize: the long side, or its bound; 0 = none */
    int64_t pad;
    bool pad_if_needed;
    double p;
    double scale[2], ratio[2];
    double mean[4], std[4];
    int channel_count;   /* of mean and std */
    int filter;          /* enum hr_filter */
};

/* Known before any sample: 0 = differs. The bounds (0 = not known) size ragged outputs. */
struct hr_op_shape {
    uint64_t w, h;
    uint64_t max_w, max_h, max_pixels;
};

enum hr_op_effect {
    HR_OP_RESIZES = 1 << 0,
    HR_OP_CROPS = 1 << 1,     /* before it resizes, when it does both */
    HR_OP_FLIPS = 1 << 2,
    HR_OP_NORMALIZES = 1 << 3,
};

struct hr_op {
    const char *name;
    unsigned effects;
    /* params arrive zeroed. */
    int (*parse)(const struct hr_call *call, struct hr_op_params *params, struct hr_error *err);
    void (*shape)(const struct hr_op_params *params, struct hr_op_shape *shape);
    int (*plan)(const struct hr_op_params *params, struct hr_rng *rng, struct hr_view *view,
                struct hr_error *err);
    void (*describe)(const struct hr_op_params *params, struct hr_buf *text); /* arguments only */
};

enum { HR_OPS_MAX = 32 };

/* A field's ops, parsed and checked to fold. */
struct hr_op_chain {
    int count;
    const struct hr_op *ops[HR_OPS_MAX];
    struct hr_op_params params[HR_OPS_MAX];
    const struct hr_op_params *normalize; /* NULL = none */
    struct hr_op_shape shape;
};

/* shape: what is known of the pictures (all zero when nothing is). HR_E_CONFIG with place. */
int hr_op_chain_init(struct hr_op_chain *chain, const struct hr_call *calls, int count,
                     const struct hr_op_shape *shape, struct hr_error *err) HR_MUST_CHECK;
/* w, h: the oriented picture. Fills crop, out, window, flips and filter of the plan. */
int hr_op_chain_plan(const struct hr_op_chain *chain, const struct hr_draw_key *key, uint32_t w,
                     uint32_t h, struct hr_image_plan *plan, struct hr_error *err) HR_MUST_CHECK;
void hr_op_chain_describe(const struct hr_op_chain *chain, struct hr_buf *text);
/* out = pixel * scale[c] + bias[c]: normalize, or 0..255 -> 0..1 without it. HR_E_CONFIG when
 * normalize lists another number of channels. */
int hr_op_chain_scale(const struct hr_op_chain *chain, uint32_t channels, float scale[4],
                      float bias[4], struct hr_error *err) HR_MUST_CHECK;

const struct hr_op *hr_op_find(const char *name);

/* For ops: argument specs that many of them have. */
extern const char *const hr_filter_names[HR_FILTER_COUNT + 1];
/* size given as one number or [h, w]. */
void hr_op_size(struct hr_op_params *params, const int64_t size[2], int count);
#define HR_OP_MAX_SIDE 65535

extern const struct hr_op hr_op_random_resized_crop, hr_op_resize, hr_op_center_crop,
    hr_op_random_crop, hr_op_hflip, hr_op_vflip, hr_op_normalize;

#endif
