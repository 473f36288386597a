/* The plan: pipeline file and datasets joined and checked. It says which arrays a batch has, how each
 * field gets there, and in which order records come. Immutable after create; read by every thread. */
#ifndef HR_PIPELINE_PLAN_H
#define HR_PIPELINE_PLAN_H

#include "base/hash.h"
#include "base/types.h"
#include "conf/conf.h"
#include "decoders/chain.h"
#include "order/order.h"
#include "order/state.h"
#include "pipeline/sources.h"
#include "shards/dataset.h"

/* How a field's stored bytes become its array. */
enum hr_route {
    HR_ROUTE_CHAIN,  /* decode and ops: decoders/chain.h */
    HR_ROUTE_FIXED,  /* bytes of one size: tensors and tokens of uniform shape */
    HR_ROUTE_RAGGED, /* bytes of any size: text, json, bytes, uneven tensors and tokens */
    HR_ROUTE_SCALAR, /* number from the index */
    HR_ROUTE_STR,    /* short string from the index */
};

/* One array of the batch. */
struct hr_plan_output {
    char name[HR_NAME_BYTES + 16];
    enum hr_field_type field_type;
    enum hr_dtype dtype;
    enum hr_layout layout;
    uint32_t dims;               /* axes of one sample */
    uint64_t shape[HR_MAX_DIMS]; /* of one sample; 0 on axes that vary */
    bool ragged;
    uint32_t sample_dims;        /* ragged with shapes of their own: axes in the shapes table */
    uint64_t sample_bytes;       /* fixed: bytes of one sample; ragged: the most that one can have */
};

struct hr_follow;

struct hr_plan_field {
    char name[HR_NAME_BYTES];
    const int16_t *schema_idx; /* [source]: in that dataset's schema, -1 = it has no such field */
    enum hr_route route;
    struct hr_chain *chain;  /* CHAIN; owned */
    uint32_t classes;        /* SCALAR: becomes a row of weights of so many classes; 0 = as it is */
    enum hr_dtype from, to;  /* FIXED, RAGGED tokens, SCALAR: conversion; equal = plain copy */
    uint64_t max_bytes;      /* RAGGED text: longer values are cut at a code point; 0 = no limit */
    bool may_be_absent;      /* some record lacks it: a NAME.present array follows */
    uint32_t first_output, output_count; /* without the present array */
    int present_output;      /* index, -1 = none */
    int plan_idx;            /* CHAIN: index into the sample plans, else -1 */
    int leader;              /* index of the image field that it follows, -1 = none; planned before it */
    uint32_t stream;         /* of its draws: its own plan_idx, or the leader's */
    struct hr_follow *follow; /* boxes and keypoints; owned. Two outputs: values, and what is kept */
};

enum { HR_PLAN_MAX_OUTPUTS = 96 };

/* Something that a plan is made of, to say what differs between two. */
struct hr_plan_part {
    char name[96];
};

struct hr_plan {
    struct hr_sources sources;
    struct hr_order order;
    struct hr_plan_field fields[HR_MAX_FIELDS];
    uint32_t field_count;
    struct hr_plan_output outputs[HR_PLAN_MAX_OUTPUTS];
    uint32_t output_count;
    uint32_t chain_count;     /* fields with a chain */
    uint64_t max_record_bytes; /* most that one sample can need to read */
    int16_t *schema_idx;       /* behind those of the fields; owned */
    struct hr_plan_part parts[HR_STATE_MAX_PARTS];
    struct hr_state_parts part_digests;
    struct hr_digest digest;
    struct hr_blend *blend;   /* mixup and cutmix (blend.h); NULL = none; owned */
    char *description;        /* canonical text behind the digest; owned */
    enum hr_conf_bad bad_records;
    double bad_budget;
    uint64_t bad_consecutive;
    uint64_t epochs;          /* 0 = without end */
    double storage_deadline_s;
    uint32_t slot_count;
};

/* Opens the datasets that the pipeline file names, evaluates its filters, and joins all. conf may be
 * freed afterwards. HR_E_CONFIG with file, line and column. */
int hr_plan_open(const struct hr_conf *conf, struct hr_plan **out, struct hr_error *err)
    HR_MUST_CHECK;
/* The same with the only dataset, open already; it must outlive the plan. */
int hr_plan_create(const struct hr_conf *conf, const struct hr_dataset *dataset,
                   struct hr_plan **out, struct hr_error *err) HR_MUST_CHECK;
void hr_plan_destroy(struct hr_plan *plan); /* NULL is fine */

/* Whether the global batch can be dealt out so: hr_order_check_world, and what is mixed stays on one rank. */
int hr_plan_check_world(const struct hr_plan *plan, uint32_t rank, uint32_t world, struct hr_error *err)
    HR_MUST_CHECK;

/* The state before the first batch of this plan. */
struct hr_state hr_plan_state(const struct hr_plan *plan);
/* hr_state_check() that also names the part of the plan that differs, where the state tells. */
int hr_plan_check_state(const struct hr_plan *plan, const struct hr_state *loaded,
                        struct hr_error *err) HR_MUST_CHECK;

static inline const struct hr_dataset *hr_plan_dataset(const struct hr_plan *plan, uint32_t source)
{
    return plan->sources.items[source].dataset;
}

#endif
