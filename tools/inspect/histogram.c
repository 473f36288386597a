/* Distributions over all records, from the index alone: buckets of powers of two, and classes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "inspect.h"
#include "tools/cli.h"
#include "tools/safe_text.h"

enum { BUCKETS = 65, BAR_COLUMNS = 40, MAX_CLASS_ROWS = 20 };

enum what { BYTES, WIDTH, HEIGHT, DURATION_MS, ITEMS, WHATS };

static const char *const titles[WHATS] = {
    [BYTES] = "bytes", [WIDTH] = "width", [HEIGHT] = "height", [DURATION_MS] = "duration in ms",
    [ITEMS] = "items"};

struct histogram {
    uint64_t counts[WHATS][BUCKETS]; /* bucket k: 2^(k-1) <= value < 2^k; bucket 0: zero */
    uint64_t total[WHATS];
};

static void count(struct histogram *h, enum what what, uint64_t v)
{
    h->counts[what][v ? 64 - __builtin_clzll(v) : 0]++;
    h->total[what]++;
}

static void count_field(struct histogram *h, const struct hr_dataset *d, uint32_t field)
{
    struct hr_facts facts;
    struct hr_field_totals t;

    hr_dataset_totals(d, field, &t);
    bool needs_facts = t.max_width || t.duration_ns || t.max_items;
    for (uint64_t r = 0; r < hr_dataset_record_count(d); r++) {
        uint64_t bytes = hr_dataset_value_bytes(d, r, field);
        if (bytes == 0) /* absent, or nothing to see */
            continue;
        count(h, BYTES, bytes);
        if (!needs_facts)
            continue;
        hr_dataset_facts(d, r, field, &facts);
        if (facts.width)
            count(h, WIDTH, facts.width);
        if (facts.height)
            count(h, HEIGHT, facts.height);
        if (facts.duration_ns)
            count(h, DURATION_MS, facts.duration_ns / 1000000);
        if (facts.items)
            count(h, ITEMS, facts.items);
    }
}

static void add_bar(struct hr_buf *b, uint64_t n, uint64_t most)
{
    int columns = most ? (int)((double)n / (double)most * BAR_COLUMNS + 0.5) : 0;

    hr_buf_addf(b, "  %.*s", n && !columns ? 1 : columns, "########################################");
    hr_buf_add_str(b, "\n");
}

static void bound(enum what what, int bucket, char text[32])
{
    uint64_t v = bucket ? UINT64_C(1) << (bucket - 1) : 0;

    if (what == BYTES && v >= 1024)
        snprintf(text, 32, "%" PRIu64 " %s", v >> (v >= 1 << 30 ? 30 : v >= 1 << 20 ? 20 : 10),
                 v >= 1 << 30 ? "GiB" : v >= 1 << 20 ? "MiB" : "KiB");
    else
        snprintf(text, 32, "%" PRIu64, v);
}

static void add_histogram(struct hr_buf *b, const char *field, enum what what, const struct histogram *h)
{
    uint64_t most = 0;
    int first = BUCKETS, last = 0;
    char low[32], number[32];

    for (int k = 0; k < BUCKETS; k++) {
        if (h->counts[what][k] == 0)
            continue;
        first = k < first ? k : first;
        last = k;
        most = hr_max_u64(most, h->counts[what][k]);
    }
    if (most == 0)
        return;
    hr_buf_addf(b, "\n%s: %s, each row up to twice its start\n", field, titles[what]);
    for (int k = first; k <= last; k++) {
        bound(what, k, low);
        hr_buf_addf(b, "  from %9s %14s %5.1f%%", low, hr_cli_format_count(h->counts[what][k], number),
                    100.0 * (double)h->counts[what][k] / (double)h->total[what]);
        add_bar(b, h->counts[what][k], most);
    }
}

/* ---- classes ---- */

struct class_row {
    uint64_t count;
    uint32_t index;
};

static int most_first(const void *a, const void *b)
{
    const struct class_row *x = a, *y = b;

    return x->count != y->count ? (x->count < y->count ? 1 : -1)
                                : (x->index > y->index) - (x->index < y->index);
}

static void add_class_row(struct hr_buf *b, const struct hr_schema *schema, const struct class_row *row, uint64_t most)
{
    char number[32];

    hr_buf_addf(b, "  %7u %14s", row->index, hr_cli_format_count(row->count, number));
    hr_buf_add_str(b, "  ");
    hr_safe_text(b, schema->classes[row->index], strlen(schema->classes[row->index]), 60);
    add_bar(b, row->count, most);
}

static void add_classes(struct hr_buf *b, const struct hr_dataset *d)
{
    const struct hr_schema *schema = hr_dataset_schema(d);
    struct class_row *rows;
    struct hr_scalar s;

    if (schema->class_field < 0 || schema->class_count == 0)
        return;
    rows = hr_alloc_zero(schema->class_count, sizeof(*rows));
    if (!rows)
        return;
    for (uint32_t i = 0; i < schema->class_count; i++)
        rows[i].index = i;
    for (uint64_t r = 0; r < hr_dataset_record_count(d); r++) {
        hr_dataset_scalar(d, r, (uint32_t)schema->class_field, &s);
        if (s.present && s.i64 >= 0 && (uint64_t)s.i64 < schema->class_count)
            rows[s.i64].count++;
    }
    qsort(rows, schema->class_count, sizeof(*rows), most_first);
    hr_buf_addf(b, "\n%s: %u class%s\n", schema->fields[schema->class_field].name,
                schema->class_count, schema->class_count == 1 ? "" : "es");
    uint32_t shown = schema->class_count > MAX_CLASS_ROWS ? MAX_CLASS_ROWS - 5 : schema->class_count;
    for (uint32_t i = 0; i < shown; i++)
        add_class_row(b, schema, &rows[i], rows[0].count);
    if (shown < schema->class_count) {
        hr_buf_addf(b, "  and %u more, the smallest:\n", schema->class_count - shown);
        add_class_row(b, schema, &rows[schema->class_count - 1], rows[0].count);
    }
    hr_free(rows);
}

void hr_inspect_histograms(struct hr_buf *b, const struct hr_dataset *d)
{
    const struct hr_schema *schema = hr_dataset_schema(d);
    struct histogram *h = hr_alloc(sizeof(*h));

    for (uint32_t i = 0; h && i < schema->field_count; i++) {
        if (hr_field_type_is_scalar(schema->fields[i].type))
            continue;
        memset(h, 0, sizeof(*h));
        count_field(h, d, i);
        for (int what = 0; what < WHATS; what++)
            add_histogram(b, schema->fields[i].name, (enum what)what, h);
    }
    hr_free(h);
    add_classes(b, d);
}
