/* Mixtures set up: whole-number shares of weights or repeats, and how long an epoch is. */
#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "order/mix_parts.h"

/* Part of the format (docs/order.md). */
enum { PERIOD_MIN = 64, PERIOD_MAX = 1024, EXACT_TOTAL_MAX = 4096 };
static const uint64_t rounded_total = UINT64_C(1) << 32;

/* Whole shares of total, when the weights are that ratio to within rounding. */
static bool exact_shares(const struct hr_order_spec *spec, double weights, uint64_t total,
                         struct hr_mix *mix)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < spec->source_count; s++) {
        double part = spec->sources[s].weight * (double)total / weights;
        double whole = floor(part + 0.5);
        if (whole < 1 || fabs(part - whole) > 1e-9)
            return false;
        mix->sources[s].share = (uint64_t)whole;
        sum += mix->sources[s].share;
    }
    return sum == total;
}

/* Shares of 2^32, rounded down; what is missing goes to the largest remainders. */
static int rounded_shares(const struct hr_order_spec *spec, double weights, struct hr_mix *mix,
                          struct hr_error *err)
{
    double rest[HR_ORDER_MAX_SOURCES];
    uint64_t sum = 0;

    for (uint32_t s = 0; s < spec->source_count; s++) {
        double part = spec->sources[s].weight * (double)rounded_total / weights;
        mix->sources[s].share = (uint64_t)part;
        rest[s] = part - floor(part);
        sum += mix->sources[s].share;
        if (mix->sources[s].share == 0) {
            hr_fail(err, HR_E_CONFIG, "source %" PRIu32 " has less than 1 in 2^32 of all weight", s);
            hr_error_hint(err, "raise its weight, or leave it out");
            return HR_E_CONFIG;
        }
    }
    for (; sum < rounded_total; sum++) {
        uint32_t largest = 0;
        for (uint32_t s = 1; s < spec->source_count; s++)
            if (rest[s] > rest[largest])
                largest = s;
        mix->sources[largest].share++;
        rest[largest] = -1;
    }
    mix->total = rounded_total;
    return 0;
}

static int shares_of_weights(const struct hr_order_spec *spec, struct hr_mix *mix,
                             struct hr_error *err)
{
    double weights = 0;

    for (uint32_t s = 0; s < spec->source_count; s++) {
        double weight = spec->sources[s].weight;
        if (!(weight > 0) || !isfinite(weight))
            return hr_fail(err, HR_E_CONFIG, "source %" PRIu32 " has weight %g; it must be above 0",
                           s, weight);
        weights += weight;
    }
    if (!isfinite(weights * (double)rounded_total)) /* as shares are computed */
        return hr_fail(err, HR_E_CONFIG, "the weights are too large to add up");
    mix->period = PERIOD_MAX;
    for (uint64_t total = spec->source_count; total <= EXACT_TOTAL_MAX; total++) {
        if (!exact_shares(spec, weights, total, mix))
            continue;
        mix->total = total;
        if (total <= PERIOD_MAX)
            mix->period = (PERIOD_MIN + total - 1) / total * total;
        return 0;
    }
    return rounded_shares(spec, weights, mix, err);
}

static int too_long(struct hr_error *err)
{
    hr_fail(err, HR_E_CONFIG, "an epoch of the mixture would have more than 2^62 samples");
    hr_error_hint(err, "set another 'stop', or other weights or repeats");
    return HR_E_CONFIG;
}

/* Positions after which a source has, by its share, been given as often as it has records. */
static hr_u128 exhausted_after(const struct hr_mix *mix, const struct hr_mix_source *s, bool round_up)
{
    hr_u128 product = (hr_u128)s->sequence.record_count * mix->total;

    return round_up ? (product + s->share - 1) / s->share : product / s->share;
}

static int epoch_of_weights(const struct hr_order_spec *spec, struct hr_mix *mix,
                            struct hr_error *err)
{
    hr_u128 samples = exhausted_after(mix, &mix->sources[0], spec->stop == HR_STOP_ALL_EXHAUSTED);

    for (uint32_t s = 1; s < mix->source_count; s++) {
        hr_u128 n = exhausted_after(mix, &mix->sources[s], spec->stop == HR_STOP_ALL_EXHAUSTED);
        if (spec->stop == HR_STOP_ALL_EXHAUSTED ? n > samples : n < samples)
            samples = n;
    }
    if (spec->stop == HR_STOP_STEPS)
        samples = (hr_u128)spec->stop_steps * spec->batch;
    if (samples == 0)
        return hr_fail(err, HR_E_CONFIG, "an epoch of 0 steps");
    if (samples > HR_ORDER_MAX_EPOCH)
        return too_long(err);
    mix->epoch_samples = (uint64_t)samples;
    return 0;
}

static int shares_of_repeats(const struct hr_order_spec *spec, struct hr_mix *mix,
                             struct hr_error *err)
{
    mix->by_repeats = true;
    mix->period = PERIOD_MAX;
    for (uint32_t s = 0; s < spec->source_count; s++) {
        struct hr_mix_source *source = &mix->sources[s];
        source->repeats = spec->sources[s].repeats;
        if (source->repeats == 0)
            return hr_fail(err, HR_E_CONFIG, "source %" PRIu32 " has no repeats where others have", s);
        if (!hr_mul_u64(source->sequence.record_count, source->repeats, &source->share) ||
            !hr_add_u64(mix->total, source->share, &mix->total) || mix->total > HR_ORDER_MAX_EPOCH)
            return too_long(err);
    }
    mix->epoch_samples = mix->total;
    return 0;
}

int hr_mix_create(const struct hr_order_spec *spec, struct hr_mix **out, uint64_t *epoch_samples,
                  struct hr_error *err)
{
    struct hr_mix *mix =
        hr_alloc_zero(1, sizeof(*mix) + spec->source_count * sizeof(mix->sources[0]));
    uint64_t seed_key = hr_key_absorb(0, spec->seed);
    bool repeats = false;

    if (!mix)
        return hr_fail(err, HR_E_NOMEM, "no memory for a mixture");
    mix->source_count = spec->source_count;
    for (uint32_t s = 0; s < spec->source_count; s++) {
        struct hr_sequence *sequence = &mix->sources[s].sequence;
        uint64_t seed = hr_key_of(seed_key, s, HR_KEY_SOURCE);
        hr_sequence_init(sequence, spec->kind, hr_key_absorb(0, seed),
                         spec->sources[s].record_count, spec->block_records, spec->open_blocks);
        sequence->selection = spec->sources[s].selection;
        repeats |= spec->sources[s].repeats != 0;
    }
    int ret = repeats ? shares_of_repeats(spec, mix, err) : shares_of_weights(spec, mix, err);
    if (ret == 0 && !repeats)
        ret = epoch_of_weights(spec, mix, err);
    if (ret < 0) {
        hr_mix_destroy(mix);
        return ret;
    }
    for (uint32_t s = 1; s < spec->source_count; s++)
        mix->sources[s].below = mix->sources[s - 1].below + mix->sources[s - 1].share;
    *epoch_samples = mix->epoch_samples;
    *out = mix;
    return 0;
}

void hr_mix_destroy(struct hr_mix *mix)
{
    hr_free(mix);
}
