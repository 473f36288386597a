/* Numbered batches: contents that a test can compute from the batch's ordinal alone. */
#ifndef HR_TESTS_IPC_NUMBERED_H
#define HR_TESTS_IPC_NUMBERED_H

#include "base/base.h"
#include "ring/wire.h"

struct numbered_plan {
    uint32_t count;  /* samples a batch */
    uint64_t steps;  /* batches an epoch */
    uint64_t epochs; /* 0 = without end */
};

struct numbered_cursor {
    uint64_t epoch, step;
};

enum { NUMBERED_SLOT_BYTES = 64 << 10 };

/* Fills a slot with the batch at the cursor: ordinal n = epoch * steps + step, and for sample i
 *   label    i64 [count]          n * count + i (also the record id)
 *   x        f32 [count, 3]       n + i + 0.25 * j
 *   image    u8 [count, 2, 2, 3]  (n + position in the array) mod 256
 *   half     bf16 [count]         n mod 128
 *   caption  ragged u8            "n-i"
 *   crop     ragged u8, shape [1 + i % 2, 2, 3], every element n mod 256 */
void numbered_fill(uint8_t *slot, const struct numbered_plan *plan, struct numbered_cursor cursor,
                   uint64_t sequence);
void numbered_advance(const struct numbered_plan *plan, struct numbered_cursor *cursor);
/* The state in front of the batch at the cursor; returns its length. */
int numbered_state(const struct numbered_plan *plan, struct numbered_cursor cursor,
                   char text[HR_WIRE_STATE_BYTES]);
/* "" and "{}" are the beginning. */
struct numbered_cursor numbered_parse(const char *state);

#endif
