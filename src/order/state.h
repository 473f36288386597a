/* The checkpoint: a few integers, the same on every rank. It names the batch that comes next and
 * digests what was handed over before it. */
#ifndef HR_ORDER_STATE_H
#define HR_ORDER_STATE_H

#include "base/err.h"
#include "base/hash.h"
#include "order/order.h"

enum { HR_STATE_VERSION = 2, HR_STATE_BYTES = 512, HR_STATE_MAX_PARTS = 50 };

/* Short digests of what a plan is made of, in its order. They decide nothing: they find the words
 * for a state that is refused. */
struct hr_state_parts {
    uint32_t count; /* 0 = not known */
    uint16_t digests[HR_STATE_MAX_PARTS];
};

struct hr_state {
    struct hr_digest dataset, plan;
    uint64_t seed;
    struct hr_cursor cursor;   /* the batch that comes next */
    uint64_t samples;          /* handed over so far, all ranks together, padding not counted */
    uint64_t order_digest;     /* rolling, over the record ids of every global batch so far */
    struct hr_state_parts parts;
};

/* The state before the first batch; without parts. */
void hr_state_init(struct hr_state *state, const struct hr_digest *dataset,
                   const struct hr_digest *plan, uint64_t seed);

/* Steps past the global batch at state->cursor: rolls its record ids (all ranks) into the digest. */
void hr_state_advance(struct hr_state *state, const struct hr_order *order);

/* One-line JSON, NUL-terminated, under HR_STATE_BYTES. Returns its length. */
int hr_state_encode(const struct hr_state *state, char text[HR_STATE_BYTES]);

/* Reads what hr_state_encode() wrote, now or in version 1; "{}" and "" give the state before the
 * first batch of *defaults. Refuses anything else with HR_E_STATE and what is wrong. */
int hr_state_decode(struct hr_state *state, const struct hr_state *defaults, const char *text,
                    size_t bytes, struct hr_error *err) HR_MUST_CHECK;

/* HR_E_STATE naming what differs (dataset, plan, seed) between a loaded state and this run;
 * the hint names the override. */
int hr_state_check(const struct hr_state *loaded, const struct hr_state *ours,
                   struct hr_error *err) HR_MUST_CHECK;

/* The first part that differs, or -1 when none does or either has none. */
int hr_state_differing_part(const struct hr_state *loaded, const struct hr_state *ours);

#endif
