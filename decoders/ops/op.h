/* Image ops: what the pipeline file says under `ops:`. Crops, resize and flips are folded, never run:
 * each op's plan draws its randomness and changes the view, and the ops up to the first one that works
 * on pixels become one hr_image_plan that the decoder and one resampling pass carry out. Pixel ops
 * append drawn steps (step.h), which run on the small 8-bit picture; a view after them is a further
 * pass. docs/ops.md has each op's formula and order of draws.
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
#include "decoders/ops/step.h"
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
    int pad_mode;        /* enum hr_pad_mode */
    int interpolation;   /* enum hr_interpolation */
    uint8_t fill[4];     /* one colour a channel */
    /* pixel ops */
    double factor;       /* sharpness, solarize's threshold, perspective's distortion */
    double jitter[4][2]; /* brightness, contrast, saturation, hue; with low > high: not given */
    double sigma[2], degrees[2], translate[2], shear[4];
    double centre[2];    /* of rotate and affine; centre_given: else the middle */
    bool centre_given;
    double colour[4];    /* erasing */
    bool noise;          /* erasing: normal noise instead of the colour */
    int64_t kernel[2];   /* blur: width, height */
    int64_t bits, count, magnitude, bins;
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
    HR_OP_PIXELS = 1 << 4,    /* draws steps */
    HR_OP_FINISHES = 1 << 5,  /* works on pixels, and on the output after normalize */
    HR_OP_PADS = 1 << 6,      /* shows what lies outside, by pad_mode and fill */
};

enum hr_pad_mode { HR_PAD_CONSTANT, HR_PAD_EDGE, HR_PAD_REFLECT, HR_PAD_SYMMETRIC };

struct hr_op {
    const char *name;
    unsigned effects;
    /* params arrive zeroed. */
    int (*parse)(const struct hr_call *call, struct hr_op_params *params, struct hr_error *err);
    void (*shape)(const struct hr_op_params *params, struct hr_op_shape *shape);
    int (*plan)(const struct hr_op_params *params, struct hr_rng *rng, struct hr_view *view,
                struct hr_error *err);
    /* w, h: of the picture that the op gets. */
    void (*draw)(const struct hr_op_params *params, struct hr_rng *rng, uint32_t w, uint32_t h,
                 struct hr_steps *steps);
    void (*describe)(const struct hr_op_params *params, struct hr_buf *text); /* arguments only */
};

enum { HR_OPS_MAX = 32, HR_STAGES_MAX = 8 };

/* One pass: ops that fold into a view, then ops on its pixels. */
struct hr_op_stage {
    int begin, pixels, end; /* [begin, pixels) fold, [pixels, end) have steps */
    bool pads; /* as follows */
    enum hr_pad_mode pad_mode;
    uint8_t fill[4];
};

/* A field's ops, parsed and checked. */
struct hr_op_chain {
    int count;
    int stage_count; /* at least 1 */
    struct hr_op_stage stages[HR_STAGES_MAX];
    int late; /* ops from here on work on the output: erasing after normalize */
    const struct hr_op *ops[HR_OPS_MAX];
    struct hr_op_params params[HR_OPS_MAX];
    const struct hr_op_params *normalize; /* NULL = none */
    struct hr_op_shape shape;
};

/* shape: what is known of the pictures (all zero when nothing is). HR_E_CONFIG with place. */
int hr_op_chain_init(struct hr_op_chain *chain, const struct hr_call *calls, int count,
                     const struct hr_op_shape *shape, struct hr_error *err) HR_MUST_CHECK;
/* w, h: the oriented picture. Fills crop, out, window, flips, filter and fill of the plan by the first
 * stage, end_w and end_h by the last one, and keeps the key for the ops in between. */
int hr_op_chain_plan(const struct hr_op_chain *chain, const struct hr_draw_key *key, uint32_t w,
                     uint32_t h, struct hr_image_plan *plan, struct hr_error *err) HR_MUST_CHECK;
/* One stage of it for a picture of w x h. */
int hr_op_chain_view(const struct hr_op_chain *chain, const struct hr_draw_key *key, int stage,
                     uint32_t w, uint32_t h, struct hr_view *view, struct hr_error *err)
    HR_MUST_CHECK;
/* The steps of op i for a picture of w x h. */
void hr_op_chain_draw(const struct hr_op_chain *chain, const struct hr_draw_key *key, int i,
                      uint32_t w, uint32_t h, struct hr_steps *steps);
/* Nothing to do but the first view: the decoder's rows go straight to the output. */
static inline bool hr_op_chain_folds(const struct hr_op_chain *chain)
{
    const struct hr_op_stage *stage = &chain->stages[0];

    return chain->stage_count == 1 && stage->pixels == stage->end && chain->late == chain->count;
}
void hr_op_chain_describe(const struct hr_op_chain *chain, struct hr_buf *text);
/* out = pixel * scale[c] + bias[c]: normalize, or 0..255 -> 0..1 without it. HR_E_CONFIG when
 * normalize lists another number of channels. */
int hr_op_chain_scale(const struct hr_op_chain *chain, uint32_t channels, float scale[4],
                      float bias[4], struct hr_error *err) HR_MUST_CHECK;

const struct hr_op *hr_op_find(const char *name);
int hr_op_refuse_unknown(const struct hr_call *call, struct hr_error *err);

/* For ops: argument specs that many of them have. */
extern const char *const hr_filter_names[HR_FILTER_COUNT + 1];
/* size given as one number or [h, w]. */
void hr_op_size(struct hr_op_params *params, const int64_t size[2], int count);
#define HR_OP_MAX_SIDE 65535
extern const char *const hr_interpolation_names[4], *const hr_pad_mode_names[5];
/* HR_E_CONFIG at the op, when a pair is not [low, high]. */
int hr_op_check_pair(const struct hr_call *call, const char *name, const double pair[2],
                     struct hr_error *err) HR_MUST_CHECK;
/* fill given as one number or three, 0 to 255. HR_E_CONFIG at the op for two. */
int hr_op_fill(const struct hr_call *call, struct hr_op_params *params, const int64_t fill[3],
               int count, struct hr_error *err) HR_MUST_CHECK;
void hr_op_describe_fill(const struct hr_op_params *params, struct hr_buf *text);
#define HR_OP_P_SPEC(params) \
    {.name = "p", .type = HR_ARG_TYPE_FLOAT, .out = &(params)->p, .min = 0, .max = 1}
#define HR_OP_INTERPOLATION_SPEC(params) \
    {.name = "interpolation", .type = HR_ARG_TYPE_ENUM, .out = &(params)->interpolation, \
     .choices = hr_interpolation_names}
#define HR_OP_FILL_SPEC(values, values_count) \
    {.name = "fill", .type = HR_ARG_TYPE_INTS, .out = (values), .min = 0, .max = 255, \
     .min_items = 1, .max_items = 3, .count = &(values_count)}

extern const struct hr_op hr_op_random_resized_crop, hr_op_resize, hr_op_center_crop,
    hr_op_random_crop, hr_op_hflip, hr_op_vflip, hr_op_normalize;
extern const struct hr_op hr_op_color_jitter, hr_op_grayscale, hr_op_gaussian_blur,
    hr_op_solarize, hr_op_posterize, hr_op_equalize, hr_op_autocontrast, hr_op_sharpness,
    hr_op_invert, hr_op_erasing;
extern const struct hr_op hr_op_rotate, hr_op_affine, hr_op_perspective;
extern const struct hr_op hr_op_rand_augment, hr_op_trivial_augment, hr_op_auto_augment;

#endif
