/* How far an order takes neighbours apart. Examples that are stored side by side are often alike (a class, a
 * film, a speaker), so this says more about a shuffle than how far each record moves. */
#include <math.h>
#include <stdlib.h>

#include "order/mix.h"
#include "order/order.h"
#include "order/sequence.h"

enum { PAIRS_MAX = 1023 };

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static const struct hr_sequence *sequence_of(const struct hr_order *order, uint32_t source)
{
    return order->mix ? hr_mix_sequence(order->mix, source) : &order->whole;
}

/* From a source's own records to positions of the mixture. */
static double in_positions(const struct hr_order *order, uint32_t source, double records)
{
    uint64_t total, share = hr_order_share_of(order, source, &total);

    return records * ((double)total / (double)share);
}

double hr_order_distance_full(const struct hr_order *order, uint32_t source)
{
    double records = (double)sequence_of(order, source)->record_count;

    return records > 1 ? in_positions(order, source, fmax(1, (1 - sqrt(0.5)) * records)) : 0;
}

double hr_order_distance(const struct hr_order *order, uint32_t source)
{
    const struct hr_sequence *s = sequence_of(order, source);
    uint64_t distances[PAIRS_MAX], pairs = hr_min_u64(s->record_count - 1, PAIRS_MAX);
    struct hr_sequence_epoch entered;

    if (pairs == 0)
        return 0;
    hr_sequence_enter(s, 0, &entered);
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t record = (uint64_t)((hr_u128)i * (s->record_count - 1) / pairs);
        uint64_t a = hr_sequence_index_of(s, &entered, record);
        uint64_t b = hr_sequence_index_of(s, &entered, record + 1);
        distances[i] = a > b ? a - b : b - a;
    }
    qsort(distances, pairs, sizeof(distances[0]), by_size);
    double median = ((double)distances[(pairs - 1) / 2] + (double)distances[pairs / 2]) / 2;
    return in_positions(order, source, median);
}
