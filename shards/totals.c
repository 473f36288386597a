/* Facts of a value, and totals over a shard's columns. */
#include <string.h>

#include "shards/index.h"

void hr_shard_facts(const struct hr_shard *shard, const struct hr_schema *schema, uint64_t record,
                    uint32_t field, struct hr_facts *facts)
{
    const struct hr_field_index *f = &shard->fields[field];
    const struct hr_schema_field *s = &schema->fields[field];

    memset(facts, 0, sizeof(*facts));
    if (!hr_field_present(f, record))
        return;
    for (unsigned k = 1; k < HRS_FACT_COUNT; k++) {
        uint64_t v = hr_column_get(&f->facts[k], record);
        if (v)
            hr_hrs_fact_set(facts, k, v);
    }
    if (s->dtype != HR_DTYPE_NONE)
        facts->dtype = s->dtype;
    if (s->type == HR_FIELD_TOKENS)
        facts->items = hr_column_get(&f->lengths, record) / hr_dtype_bytes(s->dtype);
    if (s->dims > 0) {
        facts->dims = s->dims;
        memcpy(facts->shape, s->shape, sizeof(facts->shape));
    }
}

static uint64_t count_present(const struct hr_field_index *f, uint64_t records)
{
    uint64_t n = 0;

    if (!f->presence)
        return records;
    for (uint64_t i = 0; i < (records + 7) / 8; i++)
        n += (uint64_t)__builtin_popcount(f->presence[i]);
    return n;
}

static void fact_range(const struct hr_field_index *f, unsigned fact, uint64_t records,
                       uint64_t *min, uint64_t *max)
{
    uint64_t low;

    hr_column_range(&f->facts[fact], records, &low, max);
    *min = low;
}

static uint32_t fit_u32(uint64_t v)
{
    return (uint32_t)hr_min_u64(v, UINT32_MAX);
}

static bool same_shape(const struct hr_facts *a, const struct hr_facts *b)
{
    return a->dtype == b->dtype && a->items == b->items && a->dims == b->dims &&
           memcmp(a->shape, b->shape, a->dims * sizeof(a->shape[0])) == 0;
}

static bool shape_is_constant(const struct hr_field_index *f)
{
    for (unsigned k = HRS_FACT_DTYPE; k < HRS_FACT_SHAPE + HR_MAX_DIMS; k++)
        if (f->facts[k].data)
            return false;
    return f->facts[HRS_FACT_ITEMS].data == NULL;
}

static bool uniform(const struct hr_shard *shard, const struct hr_schema *schema, uint32_t field,
                    const struct hr_facts *first)
{
    const struct hr_field_index *f = &shard->fields[field];
    struct hr_facts facts;

    if (schema->fields[field].type != HR_FIELD_TENSOR && schema->fields[field].type != HR_FIELD_TOKENS)
        return false;
    for (uint64_t i = 0; !shape_is_constant(f) && i < shard->record_count; i++) {
        if (!hr_field_present(f, i))
            continue;
        hr_shard_facts(shard, schema, i, field, &facts);
        if (!same_shape(&facts, first))
            return false;
    }
    return true;
}

static void count_blocks(const struct hr_stream_index *s, struct hr_field_totals *t)
{
    uint64_t raw, next;

    if (s->codec == HR_CODEC_NONE) {
        t->max_stored_bytes = t->max_bytes;
        return;
    }
    for (uint64_t i = 0; i < s->extent_count; i++) {
        raw = hr_column_get(&s->extent_raw, i);
        next = i + 1 < s->extent_count ? hr_column_get(&s->extent_raw, i + 1) : s->raw_bytes;
        t->max_block_bytes = hr_max_u64(t->max_block_bytes, next - raw);
        t->max_stored_bytes = hr_max_u64(t->max_stored_bytes, hr_column_get(&s->extent_stored, i));
    }
}

static void count_field(struct hr_shard *shard, const struct hr_schema *schema, uint32_t field)
{
    struct hr_field_index *f = &shard->fields[field];
    struct hr_field_totals *t = &f->totals;
    uint64_t n = shard->record_count, low, high;

    t->present = count_present(f, n);
    for (uint64_t i = 0; i < n && t->present; i++)
        if (hr_field_present(f, i)) {
            hr_shard_facts(shard, schema, i, field, &t->first);
            break;
        }
    if (f->stream < 0)
        return;
    t->bytes = hr_column_sum(&f->lengths, 0, n);
    t->original_bytes = f->has_originals ? hr_column_sum(&f->original_bytes, 0, n) : t->bytes;
    hr_column_range(&f->lengths, n, &low, &t->max_bytes);
    count_blocks(&shard->streams[f->stream], t);
    fact_range(f, HRS_FACT_WIDTH, n, &low, &high);
    t->min_width = fit_u32(low), t->max_width = fit_u32(high);
    fact_range(f, HRS_FACT_HEIGHT, n, &low, &high);
    t->min_height = fit_u32(low), t->max_height = fit_u32(high);
    fact_range(f, HRS_FACT_SAMPLE_RATE, n, &low, &high);
    t->min_sample_rate = fit_u32(low), t->max_sample_rate = fit_u32(high);
    fact_range(f, HRS_FACT_SAMPLES, n, &low, &t->max_samples);
    fact_range(f, HRS_FACT_FRAMES, n, &low, &t->max_frames);
    fact_range(f, HRS_FACT_ITEMS, n, &low, &t->max_items);
    if (schema->fields[field].type == HR_FIELD_TOKENS)
        t->max_items = t->max_bytes / hr_dtype_bytes(schema->fields[field].dtype);
    fact_range(f, HRS_FACT_DURATION_NS, n, &low, &t->max_duration_ns);
    fact_range(f, HRS_FACT_CHANNELS, n, &low, &high);
    t->max_channels = fit_u32(high);
    t->duration_ns = hr_column_sum(&f->facts[HRS_FACT_DURATION_NS], 0, n);
    t->uniform_shape = uniform(shard, schema, field, &t->first);
}

void hr_shard_count_totals(struct hr_shard *shard, const struct hr_schema *schema)
{
    for (uint32_t i = 0; i < shard->field_count; i++)
        count_field(shard, schema, i);
}

static uint32_t min_known(uint32_t a, uint32_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

#define RAISE(member) to->member = from->member > to->member ? from->member : to->member

void hr_totals_add(struct hr_field_totals *to, const struct hr_field_totals *from)
{
    if (from->present == 0)
        return;
    if (to->present == 0) {
        *to = *from;
        return;
    }
    to->uniform_shape = to->uniform_shape && from->uniform_shape && same_shape(&to->first, &from->first);
    to->present += from->present;
    to->bytes += from->bytes;
    to->original_bytes += from->original_bytes;
    to->duration_ns += from->duration_ns;
    RAISE(max_bytes);
    RAISE(max_block_bytes);
    RAISE(max_stored_bytes);
    RAISE(max_width);
    RAISE(max_height);
    RAISE(max_samples);
    RAISE(max_items);
    RAISE(max_frames);
    RAISE(max_duration_ns);
    RAISE(max_sample_rate);
    RAISE(max_channels);
    to->min_width = min_known(to->min_width, from->min_width);
    to->min_height = min_known(to->min_height, from->min_height);
    to->min_sample_rate = min_known(to->min_sample_rate, from->min_sample_rate);
}
