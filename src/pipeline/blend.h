/* Mixup and cutmix in a batch: which samples are mixed with one another, and when. The pixels of two neighbours
 * are mixed in the slot by the worker that finishes the second of them; with `roll`, those of all by the
 * worker that completes the batch. docs/ops.md says what is drawn and from what. */
#ifndef HR_PIPELINE_BLEND_H
#define HR_PIPELINE_BLEND_H

#include "base/buf.h"
#include "decoders/blend.h"
#include "pipeline/batch.h"

enum hr_blend_mode {
    HR_BLEND_PAIR,  /* neighbours, one draw for both */
    HR_BLEND_BATCH, /* neighbours, one draw for the global batch */
    HR_BLEND_ELEM,  /* neighbours, each by a draw of its own */
    HR_BLEND_ROLL,  /* each with the one before it in the rank's share, one draw for the global batch */
};

enum { HR_BLEND_MAX_FIELDS = 8 };

struct hr_blend {
    enum hr_blend_mode mode;
    struct hr_blend_spec spec;
    uint32_t fields[HR_BLEND_MAX_FIELDS]; /* of the plan, whose pictures are mixed */
    uint32_t field_count;
    struct hr_blend_array {
        uint32_t output;
        struct hr_blend_shape shape;
    } arrays[HR_PLAN_MAX_OUTPUTS];
    uint32_t array_count;
    uint32_t label_output;
    uint32_t class_count;
    double on, off; /* weights in a row of labels: of the class, of each other one */
    const struct hr_lerp *lerp;
    char *description; /* canonical text; owned */
};

/* blend_plan.c: what the pipeline file asks for, checked against the plan's fields, which must be complete. Makes
 * the label's output one of class weights. plan->blend stays NULL where nothing is asked for. */
int hr_blend_plan(const struct hr_conf *conf, struct hr_plan *plan, struct hr_error *err) HR_MUST_CHECK;
void hr_blend_destroy(struct hr_blend *blend); /* NULL is fine */
/* Two that are mixed must lie in one share. */
int hr_blend_check_world(const struct hr_plan *plan, uint32_t world, struct hr_error *err) HR_MUST_CHECK;

/* Reader thread, when a batch begins. */
void hr_blend_begin(struct hr_batch *batch, const struct hr_share *share);
/* Worker: writes the label's row of a sample that is mixed with nobody yet. HR_E_LIMIT when the class is none of
 * num_classes. */
int hr_blend_label(struct hr_sample *sample, int64_t class_idx, float *row, struct hr_error *err) HR_MUST_CHECK;
/* Worker: a sample went well, and is not yet counted as done. Mixes two where the other one was first. */
void hr_blend_sample_in(struct hr_sample *sample);
/* All samples are done. */
void hr_blend_complete(struct hr_batch *batch);

#endif
