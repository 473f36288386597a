/* Kept records. The bitmap has the number of records kept before each block of 512 bits and, for
 * every 4096-th kept record, the block that it is in, so that a look-up bisects few blocks. */
#include "order/selection.h"

#include <string.h>

#include "base/mem.h"

enum { BLOCK_WORDS = 8, BLOCK_BITS = 512, HINT_RECORDS = 4096 };

struct hr_selection {
    uint64_t record_count, count, bytes;
    /* list */
    uint32_t *list32;
    uint64_t *list64;
    /* bitmap */
    uint64_t *words;
    uint64_t *before; /* [blocks + 1] kept before each block */
    uint64_t *hints;  /* [count / HINT_RECORDS + 2] */
};

struct hr_selection_builder {
    uint64_t record_count, blocks;
    uint64_t *words; /* whole blocks */
};

struct hr_selection_builder *hr_selection_begin(uint64_t record_count)
{
    struct hr_selection_builder *b = hr_alloc_zero(1, sizeof(*b));

    if (!b)
        return NULL;
    b->record_count = record_count;
    b->blocks = record_count / BLOCK_BITS + 1;
    b->words = hr_alloc_zero(b->blocks, BLOCK_WORDS * sizeof(*b->words));
    if (!b->words) {
        hr_free(b);
        return NULL;
    }
    return b;
}

void hr_selection_keep(struct hr_selection_builder *b, uint64_t record)
{
    HR_ASSERT(record < b->record_count);
    b->words[record / 64] |= UINT64_C(1) << record % 64;
}

void hr_selection_abort(struct hr_selection_builder *b)
{
    if (!b)
        return;
    hr_free(b->words);
    hr_free(b);
}

void hr_selection_destroy(struct hr_selection *s)
{
    if (!s)
        return;
    hr_free(s->list32);
    hr_free(s->list64);
    hr_free(s->words);
    hr_free(s->before);
    hr_free(s->hints);
    hr_free(s);
}

static bool make_list(struct hr_selection *s, const struct hr_selection_builder *b, uint64_t width)
{
    uint64_t n = 0;

    if (width == 4)
        s->list32 = hr_alloc_zero(s->count + 1, width);
    else
        s->list64 = hr_alloc_zero(s->count + 1, width);
    if (!s->list32 && !s->list64)
        return false;
    for (uint64_t w = 0; w < b->blocks * BLOCK_WORDS; w++) {
        for (uint64_t bits = b->words[w]; bits; bits &= bits - 1) {
            uint64_t record = w * 64 + (uint64_t)__builtin_ctzll(bits);
            if (s->list32)
                s->list32[n++] = (uint32_t)record;
            else
                s->list64[n++] = record;
        }
    }
    s->bytes = s->count * width;
    return true;
}

static bool make_bitmap(struct hr_selection *s, struct hr_selection_builder *b)
{
    uint64_t hint_count = s->count / HINT_RECORDS + 2, next_hint = 0, n = 0;

    s->before = hr_alloc_zero(b->blocks + 1, sizeof(*s->before));
    s->hints = hr_alloc_zero(hint_count, sizeof(*s->hints));
    if (!s->before || !s->hints)
        return false;
    s->words = b->words;
    b->words = NULL;
    for (uint64_t block = 0; block < b->blocks; block++) {
        s->before[block] = n;
        for (uint64_t w = 0; w < BLOCK_WORDS; w++)
            n += (uint64_t)__builtin_popcountll(s->words[block * BLOCK_WORDS + w]);
        for (; next_hint * HINT_RECORDS < n; next_hint++)
            s->hints[next_hint] = block;
    }
    s->before[b->blocks] = n;
    for (; next_hint < hint_count; next_hint++)
        s->hints[next_hint] = b->blocks - 1;
    s->bytes = b->blocks * (BLOCK_BITS / 8 + sizeof(*s->before)) + hint_count * sizeof(*s->hints);
    return true;
}

struct hr_selection *hr_selection_commit(struct hr_selection_builder *b)
{
    struct hr_selection *s = hr_alloc_zero(1, sizeof(*s));
    bool made = false;

    if (s) {
        s->record_count = b->record_count;
        for (uint64_t w = 0; w < b->blocks * BLOCK_WORDS; w++)
            s->count += (uint64_t)__builtin_popcountll(b->words[w]);
        uint64_t width = b->record_count <= UINT32_MAX ? 4 : 8;
        uint64_t bitmap_bytes = b->blocks * (BLOCK_BITS / 8 + sizeof(*s->before));
        made = s->count < bitmap_bytes / width ? make_list(s, b, width) : make_bitmap(s, b);
    }
    hr_selection_abort(b);
    if (made)
        return s;
    hr_selection_destroy(s);
    return NULL;
}

/* The place of the n-th set bit of a word that has more than n. */
static unsigned select_bit(uint64_t word, unsigned n)
{
    while (n--)
        word &= word - 1;
    return (unsigned)__builtin_ctzll(word);
}

static uint64_t list_at(const struct hr_selection *s, uint64_t i)
{
    return s->list32 ? s->list32[i] : s->list64[i];
}

uint64_t hr_selection_at(const struct hr_selection *s, uint64_t i)
{
    HR_ASSERT(i < s->count);
    if (!s->words)
        return list_at(s, i);
    /* The last block with before <= i. */
    uint64_t low = s->hints[i / HINT_RECORDS], high = s->hints[i / HINT_RECORDS + 1] + 1;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (s->before[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    uint64_t left = i - s->before[low], word = low * BLOCK_WORDS;
    for (;; word++) {
        uint64_t here = (uint64_t)__builtin_popcountll(s->words[word]);
        if (left < here)
            return word * 64 + select_bit(s->words[word], (unsigned)left);
        left -= here;
    }
}

static bool find_in_list(const struct hr_selection *s, uint64_t record, uint64_t *i)
{
    uint64_t low = 0, high = s->count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (list_at(s, middle) < record)
            low = middle + 1;
        else
            high = middle;
    }
    *i = low;
    return low < s->count && list_at(s, low) == record;
}

bool hr_selection_find(const struct hr_selection *s, uint64_t record, uint64_t *i)
{
    if (record >= s->record_count)
        return false;
    if (!s->words)
        return find_in_list(s, record, i);
    uint64_t block = record / BLOCK_BITS, bit = UINT64_C(1) << record % 64;
    *i = s->before[block];
    for (uint64_t w = block * BLOCK_WORDS; w < record / 64; w++)
        *i += (uint64_t)__builtin_popcountll(s->words[w]);
    *i += (uint64_t)__builtin_popcountll(s->words[record / 64] & (bit - 1));
    return s->words[record / 64] & bit;
}

uint64_t hr_selection_count(const struct hr_selection *s)
{
    return s->count;
}

uint64_t hr_selection_bytes(const struct hr_selection *s)
{
    return s->bytes;
}
