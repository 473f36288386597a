/* Answers order questions from stdin, one a line, for order_oracle.py to compare with its own:
 *   KIND LAST SEED N BATCH BLOCK OPEN EPOCH STEP FIRST COUNT RANK WORLD ATTEMPT
 *   SOURCES STOP STOP_STEPS { N WEIGHT REPEATS KEEP }
 * gives: steps, ordinal, the rank's share, for each sample
 * "epoch:position:source:record:valid:stand-in", and the cursor and digest after the batch (small
 * batches only). SOURCES 0: N records and no mixture. KEEP m > 1: a filter left the records that m
 * divides, out of N. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "order/order.h"
#include "order/selection.h"
#include "order/state.h"

struct question {
    int kind, last;
    uint64_t seed, records, batch, block, open, epoch, step;
    uint32_t first, count, rank, world, attempt, source_count;
    int stop;
    uint64_t stop_steps;
    struct hr_order_source sources[8];
    struct hr_selection *kept[8];
};

static struct hr_selection *keep_some(uint64_t records, uint64_t of)
{
    struct hr_selection_builder *builder = hr_selection_begin(records);

    if (!builder)
        abort();
    for (uint64_t r = 0; r < records; r++)
        if ((uint32_t)(r * 2654435761u) / 128 % of == 0)
            hr_selection_keep(builder, r);
    return hr_selection_commit(builder);
}

static void answer(const struct question *q)
{
    struct hr_order_spec spec = {
        .kind = q->kind, .last = q->last, .seed = q->seed, .record_count = q->records,
        .batch = q->batch, .block_records = q->block, .open_blocks = q->open,
        .sources = q->sources, .source_count = q->source_count, .stop = q->stop,
        .stop_steps = q->stop_steps};
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
        hr_order_finish(&order);
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
        printf(" %" PRIu64 ":%" PRIu64 ":%" PRIu32 ":%" PRIu64 ":%d:%" PRIu64, p.epoch, p.position,
               p.source, p.record, p.valid, hr_order_substitute(&order, &p, q->attempt));
    }
    if (total <= 1024) {
        struct hr_state state = {.seed = q->seed, .cursor = cursor, .order_digest = q->seed};
        hr_state_advance(&state, &order);
        printf(" %" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%016" PRIx64, state.cursor.epoch,
               state.cursor.step, state.samples, state.order_digest);
    }
    printf("\n");
    hr_order_finish(&order);
}

static bool read_sources(struct question *q)
{
    if (scanf("%" SCNu32 " %d %" SCNu64, &q->source_count, &q->stop, &q->stop_steps) != 3 ||
        q->source_count > HR_ARRAY_SIZE(q->sources))
        return false;
    for (uint32_t i = 0; i < q->source_count; i++) {
        struct hr_order_source *s = &q->sources[i];
        uint64_t keep;
        if (scanf("%" SCNu64 " %lf %" SCNu64 " %" SCNu64, &s->record_count, &s->weight, &s->repeats,
                  &keep) != 4)
            return false;
        q->kept[i] = NULL;
        if (keep > 1) {
            q->kept[i] = keep_some(s->record_count, keep);
            s->record_count = hr_selection_count(q->kept[i]);
        }
        s->selection = q->kept[i];
    }
    return true;
}

int main(void)
{
    struct question q;

    while (scanf("%d %d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32,
                 &q.kind, &q.last, &q.seed, &q.records, &q.batch, &q.block, &q.open, &q.epoch,
                 &q.step, &q.first, &q.count, &q.rank, &q.world, &q.attempt) == 14 &&
           read_sources(&q)) {
        answer(&q);
        for (uint32_t i = 0; i < q.source_count; i++)
            hr_selection_destroy(q.kept[i]);
    }
    return 0;
}
