/* Mixtures. How many of the first x positions belong to a source follows from its share by one chain of
 * divisions, so counts up to any period's edge take no walk; inside a period a keyed permutation deals the
 * positions out. */
#include <string.h>

#include "order/mix_parts.h"

/* How many of the first x positions each source has: they add up to x, never go back, and are
 * within source_count of x * share / total. */
static void count_visits(const struct hr_mix *mix, uint64_t x, uint64_t *visits)
{
    for (uint32_t s = mix->source_count - 1; s > 0; s--) {
        const struct hr_mix_source *source = &mix->sources[s];
        uint64_t before = (uint64_t)((hr_u128)x * source->below / (source->below + source->share));
        visits[s] = x - before;
        x = before;
    }
    visits[0] = x;
}

/* One period, dealt out. */
struct period {
    struct hr_permutation deal;
    uint64_t visits[HR_ORDER_MAX_SOURCES]; /* of each source before the next position */
    uint64_t ends[HR_ORDER_MAX_SOURCES];   /* dealt numbers below ends[s], not below ends[s - 1], are of s */
};

static uint32_t source_of(const struct period *period, uint32_t source_count, uint64_t dealt)
{
    uint32_t low = 0, high = source_count - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (dealt < period->ends[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Sources of the next count positions from offset on; counts their visits. */
static void deal(const struct hr_mix *mix, struct period *period, uint64_t offset, unsigned count,
                 uint32_t *sources)
{
    uint64_t dealt[HR_PERMUTATION_RUN];

    for (unsigned i = 0; i < count; i++)
        dealt[i] = offset + i;
    hr_permutation_map(&period->deal, dealt, count);
    for (unsigned i = 0; i < count; i++) {
        sources[i] = source_of(period, mix->source_count, dealt[i]);
        period->visits[sources[i]]++;
    }
}

static void enter_period(const struct hr_mix *mix, uint64_t seed_key, uint64_t epoch, uint64_t start,
                         uint64_t count, struct period *period)
{
    uint64_t epoch_key = hr_key_absorb(seed_key, mix->by_repeats ? epoch : 0);
    uint64_t end = 0;

    count_visits(mix, start, period->visits);
    count_visits(mix, start + count, period->ends);
    for (uint32_t s = 0; s < mix->source_count; s++) {
        end += period->ends[s] - period->visits[s];
        period->ends[s] = end;
    }
    hr_permutation_init(&period->deal, count,
                        hr_key_of(epoch_key, HR_KEY_PERIOD, start / mix->period));
}

/* count visits of one source, one after the other, to the indexes of its own epochs. */
static void visit(const struct hr_mix *mix, uint32_t source, uint64_t epoch, uint64_t first,
                  unsigned count, uint64_t *indexes)
{
    const struct hr_mix_source *s = &mix->sources[source];
    uint64_t own_epoch = first / s->sequence.record_count;
    uint64_t index = first % s->sequence.record_count;

    if (mix->by_repeats)
        own_epoch += epoch * s->repeats;
    while (count > 0) {
        struct hr_sequence_epoch entered;
        unsigned run = (unsigned)hr_min_u64(count, s->sequence.record_count - index);
        hr_sequence_enter(&s->sequence, own_epoch++, &entered);
        hr_sequence_map(&s->sequence, &entered, index, indexes, run);
        index = 0;
        indexes += run;
        count -= run;
    }
}

/* Positions inside one period; a source's visits are mapped together. */
static void place_in_period(const struct hr_mix *mix, struct period *period, uint64_t offset,
                            uint64_t epoch, uint32_t count, struct hr_place *places)
{
    uint64_t indexes[HR_PERMUTATION_RUN];
    uint32_t sources[HR_PERMUTATION_RUN], next[HR_ORDER_MAX_SOURCES], end = 0;
    uint64_t before[HR_ORDER_MAX_SOURCES];

    memcpy(before, period->visits, mix->source_count * sizeof(before[0]));
    deal(mix, period, offset, count, sources);
    for (uint32_t s = 0; s < mix->source_count; s++) {
        unsigned visits = (unsigned)(period->visits[s] - before[s]);
        next[s] = end;
        if (visits)
            visit(mix, s, epoch, before[s], visits, indexes + end);
        end += visits;
    }
    for (uint32_t i = 0; i < count; i++) {
        places[i].source = sources[i];
        places[i].index = indexes[next[sources[i]]++];
        places[i].record = hr_sequence_record(&mix->sources[sources[i]].sequence, places[i].index);
    }
}

/* Enters the period of x with the visits up to x counted; returns the period's end. */
static uint64_t walk_to(const struct hr_mix *mix, uint64_t seed_key, uint64_t epoch, uint64_t x,
                        struct period *period)
{
    uint64_t start = x - x % mix->period, size = mix->period;
    uint32_t sources[HR_PERMUTATION_RUN];

    if (mix->by_repeats)
        size = hr_min_u64(size, mix->epoch_samples - start);
    enter_period(mix, seed_key, epoch, start, size, period);
    for (uint64_t at = start; at < x;) {
        unsigned n = (unsigned)hr_min_u64(x - at, HR_PERMUTATION_RUN);
        deal(mix, period, at - start, n, sources);
        at += n;
    }
    return start + size;
}

void hr_mix_places(const struct hr_mix *mix, uint64_t seed_key, uint64_t epoch, uint64_t position,
                   uint32_t count, struct hr_place *places)
{
    uint64_t x = position + (mix->by_repeats ? 0 : epoch * mix->epoch_samples);
    struct period period;

    for (uint32_t i = 0; i < count; i++)
        places[i] = (struct hr_place){.epoch = epoch, .position = position + i, .valid = true};
    while (count > 0) {
        uint64_t end = walk_to(mix, seed_key, epoch, x, &period);
        uint32_t run = (uint32_t)hr_min_u64(count, end - x);
        place_in_period(mix, &period, x % mix->period, epoch, run, places);
        places += run;
        count -= run;
        x += run;
    }
}

/* ---- the other way round ---- */

static uint64_t visits_before(const struct hr_mix *mix, uint32_t source, uint64_t x)
{
    uint64_t visits[HR_ORDER_MAX_SOURCES];

    count_visits(mix, x, visits);
    return visits[source];
}

/* The position of a source's visit-th visit, which lies before end: bisection for its period, and a walk
 * through that. */
static uint64_t position_of_visit(const struct hr_mix *mix, uint64_t seed_key, uint64_t epoch,
                                  uint32_t source, uint64_t visit, uint64_t end)
{
    uint64_t low = 0, high = (end - 1) / mix->period + 1; /* periods */
    struct period period;
    uint32_t dealt;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (visits_before(mix, source, middle * mix->period) <= visit)
            low = middle;
        else
            high = middle;
    }
    uint64_t start = low * mix->period;
    walk_to(mix, seed_key, epoch, start, &period);
    for (uint64_t x = start;; x++) {
        deal(mix, &period, x - start, 1, &dealt);
        if (period.visits[source] > visit)
            return x;
    }
}

/* The first visit from `from` on at which a source gives an index: in the own epoch of `from`, or the one
 * after. UINT64_MAX when that is past what can be counted. */
static uint64_t visit_of_index(const struct hr_mix *mix, uint32_t source, uint64_t epoch,
                               uint64_t index, uint64_t from)
{
    const struct hr_mix_source *s = &mix->sources[source];
    uint64_t records = s->sequence.record_count, own_epoch = from / records;

    for (;; own_epoch++) {
        struct hr_sequence_epoch entered;
        hr_sequence_enter(&s->sequence, own_epoch + (mix->by_repeats ? epoch * s->repeats : 0), &entered);
        hr_u128 visit = (hr_u128)own_epoch * records + hr_sequence_index_of(&s->sequence, &entered, index);
        if (visit >= from)
            return visit > UINT64_MAX ? UINT64_MAX : (uint64_t)visit;
    }
}

bool hr_mix_find(const struct hr_mix *mix, uint64_t seed_key, uint32_t source, uint64_t index,
                 uint64_t *epoch, uint64_t *position)
{
    uint64_t end = mix->by_repeats ? mix->epoch_samples : HR_ORDER_MIX_END;
    struct period period;

    for (uint64_t e = *epoch; (hr_u128)e * mix->epoch_samples + *position < HR_ORDER_MIX_END; e++, *position = 0) {
        uint64_t x = *position + (mix->by_repeats ? 0 : e * mix->epoch_samples);
        walk_to(mix, seed_key, e, x, &period);
        uint64_t visit = visit_of_index(mix, source, e, index, period.visits[source]);
        if (visit < visits_before(mix, source, end)) {
            x = position_of_visit(mix, seed_key, e, source, visit, end);
            *epoch = mix->by_repeats ? e : x / mix->epoch_samples;
            *position = mix->by_repeats ? x : x % mix->epoch_samples;
            return true;
        }
        /* With repeats it comes in every epoch, but perhaps not after this position. */
        if (!mix->by_repeats)
            return false;
    }
    return false;
}

const struct hr_sequence *hr_mix_sequence(const struct hr_mix *mix, uint32_t source)
{
    return &mix->sources[source].sequence;
}

uint64_t hr_mix_share(const struct hr_mix *mix, uint32_t source, uint64_t *total)
{
    *total = mix->total;
    return mix->sources[source].share;
}
