/* Number columns and string columns of the index. */
#include "shards/column.h"

#include <string.h>

#include "base/mem.h"

#define FOR_WIDTH(column, body)                                                                    \
    switch ((column)->width) {                                                                     \
    case 1: {                                                                                      \
        const uint8_t *v = (column)->data;                                                         \
        body break;                                                                                \
    }                                                                                              \
    case 2: {                                                                                      \
        const uint16_t *v = (column)->data;                                                        \
        body break;                                                                                \
    }                                                                                              \
    case 4: {                                                                                      \
        const uint32_t *v = (column)->data;                                                        \
        body break;                                                                                \
    }                                                                                              \
    default: {                                                                                     \
        const uint64_t *v = (column)->data;                                                        \
        body break;                                                                                \
    }                                                                                              \
    }

uint64_t hr_column_sum(const struct hr_column *column, uint64_t first, uint64_t count)
{
    uint64_t sum = 0;

    if (!column->data)
        return column->value * count;
    FOR_WIDTH(column, for (uint64_t i = 0; i < count; i++) sum += v[first + i];)
    return sum;
}

void hr_column_range(const struct hr_column *column, uint64_t count, uint64_t *min_nonzero,
                     uint64_t *max)
{
    uint64_t low = UINT64_MAX, high = 0;

    if (!column->data) {
        *max = *min_nonzero = count ? column->value : 0;
        return;
    }
    /* 0 - 1 wraps to the largest number, so zeros drop out of the minimum without a branch. */
    FOR_WIDTH(column, for (uint64_t i = 0; i < count; i++) {
        uint64_t less_one = (uint64_t)v[i] - 1;
        low = less_one < low ? less_one : low;
        high = v[i] > high ? v[i] : high;
    })
    *min_nonzero = low + 1;
    *max = high;
}

uint64_t hr_column_search(const struct hr_column *column, uint64_t count, uint64_t value)
{
    uint64_t low = 0, high = count;

    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (hr_column_get(column, mid) <= value)
            low = mid;
        else
            high = mid;
    }
    return low;
}

const uint8_t *hr_strings_get(const struct hr_strings *strings, uint64_t i, uint64_t *bytes)
{
    uint64_t start;

    *bytes = hr_column_get(&strings->lengths, i);
    if (*bytes == 0)
        return NULL;
    if (!strings->starts)
        start = strings->lengths.value * i;
    else
        start = strings->starts[i / HR_SAMPLE_RECORDS] +
                hr_column_sum(&strings->lengths, hr_align_down(i, HR_SAMPLE_RECORDS),
                              i % HR_SAMPLE_RECORDS);
    return strings->data + start;
}

int hr_strings_init(struct hr_strings *strings, uint64_t count, uint64_t data_bytes,
                    struct hr_error *err)
{
    uint64_t low, high, pos = 0;

    if (!strings->lengths.data) {
        if (!hr_mul_u64(strings->lengths.value, count, &pos) || pos != data_bytes)
            return hr_fail(err, HR_E_CORRUPT, "lengths do not make up the data");
        return 0;
    }
    hr_column_range(&strings->lengths, count, &low, &high);
    if (high > data_bytes || data_bytes > UINT64_MAX / 2 / HR_SAMPLE_RECORDS)
        return hr_fail(err, HR_E_CORRUPT, "a length is larger than the data");
    strings->starts = hr_alloc_zero(count / HR_SAMPLE_RECORDS + 1, sizeof(*strings->starts));
    if (!strings->starts)
        return hr_fail(err, HR_E_NOMEM, "no memory for an index");
    for (uint64_t i = 0; i < count; i += HR_SAMPLE_RECORDS) {
        strings->starts[i / HR_SAMPLE_RECORDS] = pos;
        pos += hr_column_sum(&strings->lengths, i, hr_min_u64(HR_SAMPLE_RECORDS, count - i));
        if (pos > data_bytes)
            break;
    }
    if (pos != data_bytes)
        return hr_fail(err, HR_E_CORRUPT, "lengths do not make up the data");
    return 0;
}

uint32_t hr_column_width_of(uint64_t value)
{
    return value <= UINT8_MAX ? 1 : value <= UINT16_MAX ? 2 : value <= UINT32_MAX ? 4 : 8;
}

static void store(uint8_t *data, uint32_t width, uint64_t i, uint64_t value)
{
    memcpy(data + i * width, &value, width);
}

/* Gives the builder room for cap items of a width, moving what it holds. */
static bool resize(struct hr_column_builder *b, uint32_t width, uint64_t cap)
{
    uint8_t *data = hr_realloc(NULL, cap, width);

    if (!data) {
        b->failed = true;
        return false;
    }
    if (b->width == width) {
        memcpy(data, b->data, b->count * width);
    } else {
        struct hr_column old = {.data = b->width ? b->data : NULL, .value = b->first, .width = b->width};
        for (uint64_t i = 0; i < b->count; i++)
            store(data, width, i, hr_column_get(&old, i));
    }
    hr_free(b->data);
    b->data = data;
    b->width = width;
    b->cap = cap;
    return true;
}

void hr_column_push(struct hr_column_builder *b, uint64_t value)
{
    uint32_t width = hr_column_width_of(value);

    if (b->failed)
        return;
    if (b->count == 0)
        b->first = value;
    if (b->width == 0 && value == b->first && !b->never_constant) {
        b->count++;
        return;
    }
    if (width < b->min_width)
        width = b->min_width;
    if (b->width == 0 && width < hr_column_width_of(b->first))
        width = hr_column_width_of(b->first);
    if (width < b->width)
        width = b->width;
    if ((width != b->width || b->count == b->cap) &&
        !resize(b, width, b->count < 512 ? 1024 : b->count * 2))
        return;
    store(b->data, b->width, b->count++, value);
}

void hr_column_builder_finish(struct hr_column_builder *b)
{
    hr_free(b->data);
    b->data = NULL;
    b->width = 0;
    b->count = b->cap = 0;
}
