/* From a record to the batch that delivers it: the inverse of hr_order_place(). */
#include "order/mix.h"
#include "order/order.h"
#include "order/selection.h"
#include "order/sequence.h"

static bool find_in_whole(const struct hr_order *order, uint64_t index, uint64_t *epoch,
                          uint64_t *position)
{
    struct hr_sequence_epoch entered;

    for (; *epoch <= HR_ORDER_MAX_EPOCH; ++*epoch, *position = 0) {
        hr_sequence_enter(&order->whole, *epoch, &entered);
        uint64_t at = hr_sequence_index_of(&order->whole, &entered, index);
        if (at >= *position) {
            *position = at;
            return true;
        }
    }
    return false;
}

bool hr_order_find(const struct hr_order *order, uint32_t source, uint64_t record, uint64_t *epoch,
                   uint64_t *position)
{
    uint64_t index = record;

    if (source >= (order->mix ? order->spec.source_count : 1))
        return false;
    const struct hr_sequence *s = order->mix ? hr_mix_sequence(order->mix, source) : &order->whole;
    if (s->selection && !hr_selection_find(s->selection, record, &index))
        return false;
    if (index >= s->record_count)
        return false;
    if (order->mix)
        return hr_mix_find(order->mix, order->seed_key, source, index, epoch, position);
    return find_in_whole(order, index, epoch, position);
}

bool hr_order_batch_of(const struct hr_order *order, uint64_t epoch, uint64_t position,
                       struct hr_cursor *cursor, uint32_t *sample)
{
    uint64_t batch = order->spec.batch;

    if (order->spec.last != HR_LAST_WRAP) {
        *cursor = (struct hr_cursor){epoch, position / batch};
        *sample = (uint32_t)(position % batch);
        return cursor->step < hr_order_steps(order, epoch);
    }
    /* Batches of the endless sequence of epochs; one belongs to the epoch in which it begins. */
    hr_u128 at = (hr_u128)epoch * order->epoch_samples + position, start = at - at % batch;
    cursor->epoch = (uint64_t)(start / order->epoch_samples);
    hr_u128 before = (hr_u128)cursor->epoch * order->epoch_samples;
    cursor->step = (uint64_t)(start / batch - (before + batch - 1) / batch);
    *sample = (uint32_t)(at % batch);
    return true;
}

uint32_t hr_order_rank_of(const struct hr_order *order, struct hr_cursor cursor, uint32_t world,
                          uint32_t *sample)
{
    uint32_t samples = hr_order_share(order, cursor, 0, 1).global_count;
    uint32_t each = samples / world, rest = samples % world;
    uint32_t larger = rest * (each + 1); /* samples of the ranks that have one more */

    if (*sample < larger) {
        uint32_t rank = *sample / (each + 1);
        *sample %= each + 1;
        return rank;
    }
    uint32_t rank = rest + (*sample - larger) / each;
    *sample = (*sample - larger) % each;
    return rank;
}
