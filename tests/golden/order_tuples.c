/* Answers order questions from stdin, one a line, for order_oracle.py to compare with its own:
 *   KIND LAST SEED N BATCH BLOCK OPEN EPOCH STEP FIRST COUNT RANK WORLD ATTEMPT
 * gives: steps, ordinal, the rank's share, for each sample "epoch:position:record:valid:stand-in",
 * and the cursor and digest after the batch (small batches only). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "order/order.h"
#include "order/state.h"

struct question {
    int kind, last;
    uint64_t seed, records, batch, block, open, epoch, step;
    uint32_t first, count, rank, world, attempt;
};

static void answer(const struct question *q)
{
    struct hr_order_spec spec = {q->kind, q->last, q->seed, q->records, q->batch, q->block, q->open};
    struct hr_cursor cursor = {q->epoch, q->step};
    struct hr_order order;

    if (hr_order_init(&order, &spec, NULL) < 0) {
        printf("refused\n");
        return;
    }
    printf("%" PRIu64 " %" PRIu64, hr_order_steps(&order, q->epoch),
           hr_order_ordinal(&order, cursor));
    if (hr_order_check_cursor(&order, cursor, NULL) < 0) {
        printf(" no-step\n");
        return;
    }
    if (hr_order_check_world(&order, q->rank, q->world, NULL) == 0) {
        struct hr_share share = hr_order_share(&order, cursor, q->rank, q->world);
        printf(" %" PRIu32 "+%" PRIu32 "/%" PRIu32, share.first, share.count, share.global_count);
    } else {
        printf(" no-world");
    }
    uint32_t total = hr_order_share(&order, cursor, 0, 1).global_count;
    for (uint32_t i = q->first; i < q->first + q->count && i < total; i++) {
        struct hr_place p = hr_order_place(&order, cursor, i);
        printf(" %" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%d:%" PRIu64, p.epoch, p.position, p.record,
               p.valid, hr_order_substitute(&order, &p, q->attempt));
    }
    if (total <= 1024) {
        struct hr_state state = {.seed = q->seed, .cursor = cursor, .order_digest = q->seed};
        hr_state_advance(&state, &order);
        printf(" %" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%016" PRIx64, state.cursor.epoch,
               state.cursor.step, state.samples, state.order_digest);
    }
    printf("\n");
}

int main(void)
{
    struct question q;

    while (scanf("%d %d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32,
                 &q.kind, &q.last, &q.seed, &q.records, &q.batch, &q.block, &q.open, &q.epoch,
                 &q.step, &q.first, &q.count, &q.rank, &q.world, &q.attempt) == 14)
        answer(&q);
    return 0;
}
