/* The Huffman decoder of the packer. Between two markers the scan's bytes are first freed of stuffed zeros, with
 * zeros behind their end, so that the bit buffer is filled without a look at what comes. It takes any bytes: every MCU
 * ends with a look whether more bits were used than there were, and codes and runs that make no sense end
 * the scan. It is strict where libjpeg is tolerant, since a scan that is only nearly right would not be
 * written back as it was anyway. */
#include "rjpeg/scan_read.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "rjpeg/level.h"

enum {
    LOOK = 10, /* bits of a code that one look decodes */
    LONG_CODES = 16 - LOOK,
    USUAL_BITS = 18, /* of a code and its value: three times that is in the bit buffer */
    /* Bytes an MCU may run across the end: codes and values of 31 bits, and what the bit buffer looks ahead. */
    OVERRUN = RJ_MAX_MCU_BLOCKS * 64 * 4 + 16,
};

/* What the next LOOK bits begin with. */
struct look {
    uint8_t bits;   /* of the code; 0 = a longer one */
    uint8_t all;    /* of the code and its value */
    uint8_t symbol; /* run and size */
};

struct table {
    struct look look[1 << LOOK];
    /* The same for AC, where code and value have at most USUAL_BITS: those bits; the code's << 8; the value's << 16;
     * how far it is to the value's position << 24. Otherwise 63. */
    uint32_t usual[1 << LOOK];
    /* Codes of LOOK + 1 + i bits are below limit[i] in the top 16 bits; symbols by code less base[i]. */
    uint32_t limit[LONG_CODES];
    int32_t base[LONG_CODES];
    uint8_t symbols[256];
};

/* Copied to locals by inner loops, where it lives in registers. */
struct bits {
    const uint8_t *next; /* the byte behind those in hold */
    uint64_t hold;       /* the next bits, from the top */
    unsigned held;       /* how many are valid */
    bool failed;         /* a code that is none, a run beyond the block, a number beyond 12 bits */
};

struct rj_scan_reader {
    const struct rj_markers *markers;
    const struct hr_rjpeg_info *info;
    const uint8_t *start, *segment, *next, *end; /* of the file: the scan, what is in clean, what follows that */
    uint8_t *clean;
    size_t clean_bytes;
    struct bits bits;
    bool pad_seen, pad_ones;
    int dc[HR_RJPEG_COMPONENTS];
    uint32_t until_restart, restarts;
    size_t block_room, clean_room;
    struct rj_block *blocks; /* those of component c begin at first[c], v rows of blocks_w */
    size_t first[HR_RJPEG_COMPONENTS];
    int16_t *values;
    int (*read_row)(struct rj_scan_reader *r, struct hr_error *err);
    struct table dc_table[4], ac_table[4]; /* by their numbers in the file */
};

/* Tables. */

static struct look make_look(unsigned code_bits, unsigned symbol)
{
    return (struct look){(uint8_t)code_bits, (uint8_t)(code_bits + (symbol & 15)), (uint8_t)symbol};
}

static void make_table(struct table *t, const struct rj_huffman *h)
{
    uint32_t first[LONG_CODES], end[LONG_CODES], used = 0;

    memset(t, 0, sizeof(*t));
    memset(first, 0xff, sizeof(first));
    memset(end, 0, sizeof(end));
    for (unsigned s = 0; s < 256; s++) {
        unsigned bits = h->size[s];
        int i = (int)bits - LOOK - 1;
        if (i >= 0) {
            first[i] = h->code[s] < first[i] ? h->code[s] : first[i];
            end[i] = h->code[s] + 1u > end[i] ? h->code[s] + 1u : end[i];
        } else if (bits) {
            for (uint32_t rest = 0; rest < 1u << (LOOK - bits); rest++)
                t->look[((uint32_t)h->code[s] << (LOOK - bits)) + rest] = make_look(bits, s);
        }
    }
    for (unsigned i = 0; i < 1u << LOOK; i++) {
        struct look l = t->look[i];
        unsigned size = l.symbol & 15;
        t->usual[i] = !size || l.all > USUAL_BITS
                          ? 63 : l.all | (uint32_t)l.bits << 8 | size << 16 | ((l.symbol >> 4) + 1u) << 24;
    }
    for (int i = 0; i < LONG_CODES; i++) {
        t->limit[i] = end[i] << (LONG_CODES - 1 - i);
        t->base[i] = end[i] ? (int32_t)(first[i] - used) : 0;
        used += end[i] ? end[i] - first[i] : 0;
    }
    for (unsigned s = 0; s < 256; s++)
        if (h->size[s] > LOOK)
            t->symbols[(h->code[s] - t->base[h->size[s] - LOOK - 1]) & 255] = (uint8_t)s;
}

/* Bits. */

/* Frees the bytes up to the next marker, or the end, of stuffed zeros. */
static void load_segment(struct rj_scan_reader *r)
{
    const uint8_t *p = r->next;
    uint8_t *out = r->clean;

    r->segment = p;
    for (;;) {
        const uint8_t *ff = p < r->end ? memchr(p, 0xff, (size_t)(r->end - p)) : NULL;
        size_t count = (size_t)((ff ? ff : r->end) - p);
        memcpy(out, p, count);
        out += count;
        p += count;
        if (!ff || r->end - p < 2 || p[1] != 0)
            break;
        *out++ = 0xff;
        p += 2;
    }
    r->next = p;
    r->clean_bytes = (size_t)(out - r->clean);
    memset(out, 0, OVERRUN);
    r->bits = (struct bits){.next = r->clean};
}

RJ_BODY size_t bits_used(const struct rj_scan_reader *r)
{
    return 8 * (size_t)(r->bits.next - r->clean) - r->bits.held;
}

/* To at least 56 bits. Those below `held` are the same ones that the next call puts in there. */
RJ_BODY void fill(struct bits *b)
{
    b->hold |= __builtin_bswap64(hr_load_le64(b->next)) >> b->held;
    b->next += (63 - b->held) >> 3;
    b->held |= 56;
}

RJ_BODY void skip(struct bits *b, unsigned count)
{
    b->hold <<= count;
    b->held -= count;
}

/* Which code of more than LOOK bits these 16 begin with. */
static __attribute__((noinline)) struct look find_long(const struct table *t, uint32_t code)
{
    for (int i = 0; i < LONG_CODES; i++)
        if (code < t->limit[i]) {
            int32_t at = (int32_t)(code >> (LONG_CODES - 1 - i)) - t->base[i];
            return make_look((unsigned)(LOOK + 1 + i), t->symbols[at & 255]);
        }
    return (struct look){0};
}

/* Takes the next code and its value. *symbol: run and size. */
RJ_BODY int take(struct bits *b, const struct table *t, unsigned *symbol)
{
    fill(b);
    struct look look = t->look[b->hold >> (64 - LOOK)];
    if (HR_UNLIKELY(!look.bits)) {
        look = find_long(t, (uint32_t)(b->hold >> 48));
        b->failed |= !look.bits;
    }
    /* A value begins with 1, or is negative and all its bits are inverted. */
    uint64_t value = b->hold << look.bits, minus = (value >> 63) - 1;
    unsigned size = look.symbol & 15;
    uint64_t magnitude = (value ^ minus) >> 1 >> (63 - size);

    skip(b, look.all);
    *symbol = look.symbol;
    return (int)((magnitude ^ minus) - minus);
}

/* Blocks. */

/* Bits to the value they stand for: it begins with 1, or is negative and all its bits are inverted. size: not 0. */
RJ_BODY int16_t value_of(uint64_t bits, unsigned size)
{
    uint64_t minus = (uint64_t)((int64_t)~bits >> 63);

    return (int16_t)((((bits ^ minus) >> ((64 - size) & 63)) ^ minus) - minus);
}

struct block_values {
    int16_t *next;
    uint64_t mask;
    unsigned k; /* position of the last one */
};

/* The end of a block, sixteen zeros, a long code, a long value. True: the block goes on. */
RJ_BODY bool take_rare(struct bits *b, const struct table *t, struct block_values *v)
{
    fill(b);
    struct look look = t->look[b->hold >> (64 - LOOK)];
    if (!look.bits)
        look = find_long(t, (uint32_t)(b->hold >> 48));
    unsigned size = look.symbol & 15, run = look.symbol >> 4;
    uint64_t value = b->hold << look.bits;
    skip(b, look.all);
    v->k += run + 1;
    if (!size) {
        b->failed |= !look.bits || (run && run != 15);
        return run == 15 && v->k < 63;
    }
    if (v->k > 63) {
        b->failed = true;
        return false;
    }
    v->mask |= 1ull << v->k;
    *v->next++ = value_of(value, size);
    return v->k < 63;
}

/* Appends the block's AC values; returns which positions they have. What decides on speed is how long the bits after
 * a code have to wait for it: three codes with values of usual length are taken for each filling. */
RJ_BODY uint64_t read_ac(struct bits *bits, const struct table *t, int16_t **values)
{
    const uint32_t *usual = t->usual;
    struct bits b = *bits;
    struct block_values v = {.next = *values};

    for (;;) {
        fill(&b);
        for (int n = 0; n < 3; n++) {
            uint32_t u = usual[b.hold >> (64 - LOOK)];
            if (HR_UNLIKELY((u & 63) > USUAL_BITS)) {
                if (take_rare(&b, t, &v))
                    break;
                goto done;
            }
            v.k += u >> 24;
            uint64_t value = b.hold << (u >> 8 & 63);
            skip(&b, u & 63);
            if (HR_UNLIKELY(v.k >= 63)) {
                b.failed |= v.k > 63;
                v.mask |= v.k == 63 ? 1ull << 63 : 0;
                *v.next++ = value_of(value, u >> 16 & 15);
                goto done;
            }
            v.mask |= 1ull << v.k;
            *v.next++ = value_of(value, u >> 16 & 15);
        }
    }
done:
    *bits = b;
    *values = v.next;
    return v.mask;
}

RJ_BODY void read_block(struct rj_scan_reader *r, uint32_t c, struct rj_block *block, int16_t **values)
{
    const int limit = 1 << (RJ_MAX_DC_BITS - 1);
    struct bits b = r->bits;
    unsigned size;

    r->dc[c] += take(&b, &r->dc_table[r->markers->component[c].dc_table], &size);
    if (HR_UNLIKELY(r->dc[c] < -limit || r->dc[c] >= limit)) {
        b.failed = true;
        r->dc[c] = 0;
    }
    block->dc = (int16_t)r->dc[c];
    block->values = *values;
    block->mask = read_ac(&b, &r->ac_table[r->markers->component[c].ac_table], values);
    r->bits = b;
}

/* The bits up to the byte's end must be all alike in the whole scan. Returns the bytes used. */
static size_t read_padding(struct rj_scan_reader *r)
{
    size_t used = bits_used(r);
    unsigned count = -used & 7, v = r->clean[used / 8] & ((1u << count) - 1);

    if (count) {
        if ((v && v != (1u << count) - 1) || (r->pad_seen && r->pad_ones != (v != 0)))
            r->bits.failed = true;
        r->pad_seen = true;
        r->pad_ones = v != 0;
    }
    return (used + 7) / 8;
}

static void read_restart(struct rj_scan_reader *r)
{
    if (read_padding(r) != r->clean_bytes || r->end - r->next < 2 || r->next[1] != 0xd0 + (r->restarts & 7)) {
        r->bits.failed = true;
        return;
    }
    bool failed = r->bits.failed;
    r->next += 2;
    load_segment(r);
    r->bits.failed = failed;
    r->restarts++;
    memset(r->dc, 0, sizeof(r->dc));
}

RJ_BODY void read_mcu(struct rj_scan_reader *r, uint32_t x, int16_t **values)
{
    for (uint32_t i = 0; i < r->info->components; i++) {
        uint32_t c = r->markers->scan_order[i];
        const struct hr_rjpeg_component *k = &r->info->component[c];
        struct rj_block *row = r->blocks + r->first[c] + (size_t)x * k->h;
        for (uint32_t v = 0; v < k->v; v++, row += k->blocks_w)
            for (uint32_t h = 0; h < k->h; h++)
                read_block(r, c, &row[h], values);
    }
}

RJ_BODY int read_row(struct rj_scan_reader *r, struct hr_error *err)
{
    int16_t *values = r->values;

    for (uint32_t x = 0; x < r->info->mcus_w && !r->bits.failed; x++) {
        if (r->markers->restart_interval && !r->until_restart--) {
            read_restart(r);
            r->until_restart = r->markers->restart_interval - 1;
        }
        read_mcu(r, x, &values);
        if (bits_used(r) > 8 * r->clean_bytes)
            return hr_fail(err, HR_E_TRUNCATED, "JPEG is cut off inside of its scan");
    }
    return r->bits.failed ? hr_fail(err, HR_E_DECODE, "JPEG has a damaged scan") : 0;
}

static int read_row_plain(struct rj_scan_reader *r, struct hr_error *err)
{
    return read_row(r, err);
}

static RJ_BMI int read_row_bmi(struct rj_scan_reader *r, struct hr_error *err)
{
    return read_row(r, err);
}

int rj_scan_read_row(struct rj_scan_reader *r, struct hr_error *err)
{
    return r->read_row(r, err);
}

const struct rj_block *rj_scan_blocks(const struct rj_scan_reader *r, uint32_t c, uint32_t v)
{
    return r->blocks + r->first[c] + (size_t)v * r->info->component[c].blocks_w;
}

size_t rj_scan_end(struct rj_scan_reader *r, bool *pad_ones)
{
    size_t used = read_padding(r), stuffed = 0;

    for (size_t i = 0; i < used; i++)
        stuffed += r->clean[i] == 0xff;
    *pad_ones = !r->pad_seen || r->pad_ones;
    return (size_t)(r->segment - r->start) + used + stuffed;
}

static void make_tables(struct rj_scan_reader *r)
{
    for (uint32_t c = 0; c < r->info->components; c++) {
        unsigned dc = r->markers->component[c].dc_table, ac = r->markers->component[c].ac_table;
        make_table(&r->dc_table[dc], &r->markers->dc[dc]);
        make_table(&r->ac_table[ac], &r->markers->ac[ac]);
    }
}

int rj_scan_reader_create(struct rj_scan_reader **out)
{
    struct rj_scan_reader *r = hr_alloc(sizeof(*r));

    if (!r)
        return HR_E_NOMEM;
    memset(r, 0, offsetof(struct rj_scan_reader, dc_table));
    r->read_row = rj_has_bmi() ? read_row_bmi : read_row_plain;
    *out = r;
    return 0;
}

/* Grows with the largest picture so far. */
static int make_room(struct rj_scan_reader *r, size_t blocks, size_t bytes)
{
    int depth = hr_mem_steady_pause();

    if (blocks > r->block_room) {
        hr_free(r->blocks);
        hr_free(r->values);
        r->blocks = hr_alloc(blocks * sizeof(*r->blocks));
        r->values = hr_alloc((blocks * 63 + 1) * sizeof(*r->values));
        r->block_room = r->blocks && r->values ? blocks : 0;
    }
    if (bytes > r->clean_room) {
        hr_free(r->clean);
        r->clean = hr_alloc(bytes);
        r->clean_room = r->clean ? bytes : 0;
    }
    hr_mem_steady_resume(depth);
    return r->block_room && r->clean_room ? 0 : HR_E_NOMEM;
}

int rj_scan_reader_begin(struct rj_scan_reader *r, const struct rj_markers *markers, const struct hr_rjpeg_info *info,
                         const uint8_t *scan, size_t bytes)
{
    size_t blocks = 0;

    for (uint32_t c = 0; c < info->components; c++) {
        r->first[c] = blocks;
        blocks += (size_t)info->component[c].blocks_w * info->component[c].v;
    }
    int ret = make_room(r, blocks, bytes + OVERRUN);
    if (ret < 0)
        return ret;
    r->markers = markers;
    r->info = info;
    r->start = r->next = scan;
    r->end = scan + bytes;
    r->until_restart = markers->restart_interval;
    r->restarts = 0;
    r->pad_seen = false;
    memset(r->dc, 0, sizeof(r->dc));
    load_segment(r);
    make_tables(r);
    return 0;
}

void rj_scan_reader_destroy(struct rj_scan_reader *r)
{
    if (!r)
        return;
    hr_free(r->blocks);
    hr_free(r->values);
    hr_free(r->clean);
    hr_free(r);
}
