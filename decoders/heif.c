/* Walks the boxes of an AVIF picture. A cursor that runs past its part gives zeros and remembers it, so
 * that parsing needs one check at its end; loops are bounded by the bytes they pass. */
#include "decoders/heif.h"

#include <string.h>

#include "decoders/decoder.h"

enum {
    MAX_EXTENTS = 1024,
    MAX_LIST_BYTES = 128 << 10, /* of the lists that are searched once a tile */
};

struct cursor {
    const uint8_t *b;
    size_t n;
    bool over;
};

static struct cursor cursor_of(struct hr_heif_part part)
{
    return (struct cursor){part.b, part.n, false};
}

static void skip(struct cursor *c, uint64_t bytes)
{
    if (bytes > c->n) {
        c->over = true;
        bytes = c->n;
    }
    c->b += bytes;
    c->n -= (size_t)bytes;
}

/* A big-endian number of 0 to 8 bytes. */
static uint64_t take(struct cursor *c, unsigned bytes)
{
    uint64_t v = 0;

    if (bytes > c->n) {
        skip(c, bytes);
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | c->b[i];
    skip(c, bytes);
    return v;
}

/* Version and flags of a full box. */
static unsigned take_version(struct cursor *c, unsigned *flags)
{
    uint64_t word = take(c, 4);

    if (flags)
        *flags = (unsigned)word & 0xffffff;
    return (unsigned)(word >> 24);
}

/* ---- boxes ---- */

struct box {
    uint8_t type[4];
    struct hr_heif_part body;
};

static bool is(const uint8_t *type, const char *name)
{
    return memcmp(type, name, 4) == 0;
}

/* The next box, false at the end. A box that reaches past it sets over. */
static bool next_box(struct cursor *c, struct box *box)
{
    if (c->n < 8)
        return false;
    size_t whole = c->n;
    uint64_t size = take(c, 4);
    memcpy(box->type, c->b, 4);
    skip(c, 4);
    if (size == 1)
        size = take(c, 8);
    else if (size == 0)
        size = whole;
    size_t header = whole - c->n;
    if (size < header || size > whole || c->over) {
        c->over = true;
        return false;
    }
    box->body = (struct hr_heif_part){c->b, (size_t)size - header};
    skip(c, size - header);
    return true;
}

static bool find_box(struct cursor in, const char *type, struct hr_heif_part *body)
{
    struct box box;

    while (next_box(&in, &box))
        if (is(box.type, type)) {
            *body = box.body;
            return true;
        }
    return false;
}

/* ---- the parts of meta ---- */

struct meta {
    struct hr_heif_part pitm, iinf, iloc, iprp, iref, idat;
    uint32_t primary;
};

static int fail_cut(struct hr_error *err)
{
    return hr_fail(err, HR_E_TRUNCATED, "the AVIF is cut off");
}

static int read_meta(const uint8_t *bytes, size_t count, struct meta *m, struct hr_error *err)
{
    struct cursor file = {bytes, count, false}, c;
    struct hr_heif_part body = {NULL, 0};
    struct box box = {{0}, {NULL, 0}};

    while (!body.b && next_box(&file, &box))
        if (is(box.type, "meta"))
            body = box.body;
    if (!body.b && (file.over || file.n))
        return fail_cut(err);
    if (!body.b)
        return hr_fail(err, HR_E_FORMAT, "the AVIF has no still picture, only a sequence");
    c = cursor_of(body);
    take_version(&c, NULL);
    *m = (struct meta){.primary = 0};
    find_box(c, "idat", &m->idat);
    find_box(c, "iref", &m->iref);
    if (!find_box(c, "pitm", &m->pitm) || !find_box(c, "iinf", &m->iinf) ||
        !find_box(c, "iloc", &m->iloc) || !find_box(c, "iprp", &m->iprp))
        return hr_fail(err, HR_E_DECODE, "the AVIF lacks a box that every picture has");
    c = cursor_of(m->pitm);
    m->primary = (uint32_t)take(&c, take_version(&c, NULL) ? 4 : 2);
    if (m->iinf.n > MAX_LIST_BYTES || m->iloc.n > MAX_LIST_BYTES)
        return hr_fail(err, HR_E_LIMIT, "the AVIF lists items beyond all reason");
    return c.over ? fail_cut(err) : 0;
}

/* Four letters for a message. */
static void copy_type(char text[5], const uint8_t *type)
{
    for (int i = 0; i < 4; i++)
        text[i] = (char)(type[i] > ' ' && type[i] < 0x7f ? type[i] : '?');
    text[4] = 0;
}

/* The four letters of an item's type, false when the item is not listed. */
static bool item_type(const struct meta *m, uint32_t id, uint8_t type[4])
{
    struct cursor c = cursor_of(m->iinf), e;
    struct box box;

    skip(&c, take_version(&c, NULL) ? 4 : 2);
    while (next_box(&c, &box)) {
        e = cursor_of(box.body);
        unsigned version = take_version(&e, NULL);
        uint64_t item = take(&e, version == 2 ? 2 : 4);
        skip(&e, 2);
        if (version < 2 || item != id || e.n < 4)
            continue;
        memcpy(type, e.b, 4);
        return true;
    }
    return false;
}

/* ---- where an item's bytes are ---- */

struct item {
    unsigned method;
    unsigned offset_bytes, length_bytes, index_bytes;
    uint64_t base, extents;
    struct cursor at; /* at the extents */
};

static bool find_item(struct hr_heif_part iloc, uint32_t id, struct item *item)
{
    struct cursor c = cursor_of(iloc);
    unsigned version = take_version(&c, NULL), sizes = (unsigned)take(&c, 2);
    unsigned base_bytes = sizes >> 4 & 15;
    uint64_t count = take(&c, version < 2 ? 2 : 4);

    *item = (struct item){.offset_bytes = sizes >> 12, .length_bytes = sizes >> 8 & 15,
                          .index_bytes = version ? sizes & 15 : 0};
    if (item->offset_bytes > 8 || item->length_bytes > 8 || base_bytes > 8 || item->index_bytes > 8)
        return false;
    for (uint64_t i = 0; i < count && !c.over; i++) {
        uint64_t found = take(&c, version < 2 ? 2 : 4);
        item->method = version ? (unsigned)take(&c, 2) & 15 : 0;
        skip(&c, 2);
        item->base = take(&c, base_bytes);
        item->extents = take(&c, 2);
        item->at = c;
        skip(&c, item->extents * (item->index_bytes + item->offset_bytes + item->length_bytes));
        if (found == id && !c.over)
            return true;
    }
    return false;
}

/* Joins the item's extents: their sum, and with dst the bytes. */
static int item_bytes(const struct hr_heif *h, uint32_t id, uint8_t *dst, uint64_t *bytes,
                      struct hr_error *err)
{
    struct item item;

    if (!find_item(h->iloc, id, &item) || item.method > 1)
        return hr_fail(err, HR_E_DECODE, "the AVIF does not say where its pixels are");
    if (item.extents > MAX_EXTENTS)
        return hr_fail(err, HR_E_LIMIT, "the AVIF's pixels are in more than %d pieces", MAX_EXTENTS);
    struct hr_heif_part from = item.method ? h->idat : h->file;
    *bytes = 0;
    for (uint64_t i = 0; i < item.extents; i++) {
        skip(&item.at, item.index_bytes);
        uint64_t off = take(&item.at, item.offset_bytes), length = take(&item.at, item.length_bytes);
        if (!hr_add_u64(off, item.base, &off) || off > from.n)
            return fail_cut(err);
        if (length == 0 && item.extents == 1)
            length = from.n - off; /* all of it */
        if (length > from.n - off || *bytes + length > h->file.n)
            return fail_cut(err);
        if (dst)
            memcpy(dst + *bytes, from.b + off, (size_t)length);
        *bytes += length;
    }
    return 0;
}

/* ---- properties ---- */

struct properties {
    uint32_t width, height;
    int turn, mirror; /* irot's angle, imir's axis; -1 = none */
    bool ordered;     /* irot before imir, as it must be */
    char unknown[5];
};

static bool property_at(const struct meta *m, unsigned index, struct box *box)
{
    struct hr_heif_part ipco;

    if (!find_box(cursor_of(m->iprp), "ipco", &ipco))
        return false;
    struct cursor c = cursor_of(ipco);
    while (index && next_box(&c, box))
        index--;
    return index == 0;
}

static void read_colour(struct cursor c, struct hr_heif *h)
{
    uint8_t kind[4] = {0};

    if (c.n < 4)
        return;
    memcpy(kind, c.b, 4);
    skip(&c, 4);
    if (is(kind, "prof") || is(kind, "rICC")) {
        h->icc = (struct hr_heif_part){c.b, c.n};
    } else if (is(kind, "nclx") && c.n >= 7) {
        skip(&c, 4);
        h->matrix = (int)take(&c, 2);
        h->full_range = take(&c, 1) >> 7 ? 1 : 0;
    }
}

static void apply_property(const struct box *box, bool essential, struct properties *p,
                           struct hr_heif *h)
{
    static const char harmless[][5] = {"pixi", "pasp", "auxC", "clap", "clli", "mdcv", "a1lx"};
    struct cursor c = cursor_of(box->body);

    if (is(box->type, "ispe")) {
        take_version(&c, NULL);
        p->width = (uint32_t)take(&c, 4);
        p->height = (uint32_t)take(&c, 4);
    } else if (is(box->type, "av1C") && c.n >= 4) {
        h->bit_depth = c.b[2] & 0x40 ? c.b[2] & 0x20 ? 12 : 10 : 8;
        h->mono = c.b[2] >> 4 & 1;
    } else if (is(box->type, "colr")) {
        read_colour(c, h);
    } else if (is(box->type, "irot")) {
        p->ordered = p->mirror < 0;
        p->turn = (int)take(&c, 1) & 3;
    } else if (is(box->type, "imir")) {
        p->mirror = (int)take(&c, 1) & 1;
    } else if (essential) {
        for (size_t i = 0; i < HR_ARRAY_SIZE(harmless); i++)
            if (is(box->type, harmless[i]))
                return;
        copy_type(p->unknown, box->type);
    }
}

struct links {
    struct cursor at;
    uint64_t count;
    unsigned bytes; /* of one */
};

/* The first list of links from an item to properties. */
static bool find_links(const struct meta *m, uint32_t id, struct links *links)
{
    struct cursor c = cursor_of(m->iprp);
    struct box box;

    while (next_box(&c, &box)) {
        if (!is(box.type, "ipma"))
            continue;
        struct cursor e = cursor_of(box.body);
        unsigned flags, version = take_version(&e, &flags), bytes = flags & 1 ? 2 : 1;
        uint64_t entries = take(&e, 4);
        for (uint64_t i = 0; i < entries && !e.over; i++) {
            uint64_t item = take(&e, version < 1 ? 2 : 4), count = take(&e, 1);
            *links = (struct links){e, count, bytes};
            if (item == id)
                return true;
            skip(&e, count * bytes);
        }
    }
    return false;
}

/* All properties of an item, in their order. */
static void read_properties(const struct meta *m, uint32_t id, struct properties *p, struct hr_heif *h)
{
    struct links links = {.count = 0};
    struct box property;

    *p = (struct properties){.turn = -1, .mirror = -1, .ordered = true};
    if (!find_links(m, id, &links))
        return;
    for (uint64_t i = 0; i < links.count; i++) {
        unsigned link = (unsigned)take(&links.at, links.bytes), top = links.bytes == 2 ? 0x8000 : 0x80;
        unsigned index = link & (top - 1);
        if (index && property_at(m, index, &property))
            apply_property(&property, link & top, p, h);
    }
}

/* The turn comes first, then the mirroring: axis 0 exchanges top and bottom, 1 left and right. */
static uint32_t orientation_of(const struct properties *p)
{
    static const uint8_t exif[3][4] = {{1, 8, 3, 6}, {4, 5, 2, 7}, {2, 7, 4, 5}};

    if (p->turn < 0 && p->mirror < 0)
        return 0;
    return exif[p->mirror + 1][p->turn < 0 ? 0 : p->turn];
}

/* ---- grids ---- */

/* The items that `id` is derived from. */
static bool find_sources(const struct meta *m, uint32_t id, struct hr_heif *h)
{
    struct cursor c = cursor_of(m->iref), e;
    struct box box;

    h->tile_id_bytes = m->iref.b && take_version(&c, NULL) ? 4 : 2;
    while (m->iref.b && next_box(&c, &box)) {
        e = cursor_of(box.body);
        if (!is(box.type, "dimg") || take(&e, h->tile_id_bytes) != id)
            continue;
        uint64_t count = take(&e, 2);
        if (count * h->tile_id_bytes > e.n)
            return false;
        h->tile_ids = (struct hr_heif_part){e.b, (size_t)count * h->tile_id_bytes};
        return true;
    }
    return false;
}

static uint32_t tile_id(const struct hr_heif *h, uint32_t i)
{
    struct cursor c = cursor_of(h->tile_ids);

    skip(&c, (uint64_t)i * h->tile_id_bytes);
    return (uint32_t)take(&c, h->tile_id_bytes);
}

static int read_grid(const struct meta *m, struct properties *p, struct hr_heif *h, struct hr_error *err)
{
    uint8_t bytes[16] = {0}, type[4];
    struct properties tile;
    uint64_t count;
    int ret = item_bytes(h, m->primary, NULL, &count, err);

    if (ret < 0)
        return ret;
    if (count < 8 || count > sizeof(bytes) || !find_sources(m, m->primary, h))
        return hr_fail(err, HR_E_DECODE, "the AVIF's grid makes no sense");
    ret = item_bytes(h, m->primary, bytes, &count, err);
    if (ret < 0)
        return ret;
    struct cursor c = {bytes, (size_t)count, false};
    skip(&c, 1);
    unsigned wide = take(&c, 1) & 1 ? 4 : 2;
    h->rows = (uint32_t)take(&c, 1) + 1;
    h->columns = (uint32_t)take(&c, 1) + 1;
    p->width = (uint32_t)take(&c, wide);
    p->height = (uint32_t)take(&c, wide);
    if (c.over || (uint64_t)h->rows * h->columns * h->tile_id_bytes != h->tile_ids.n)
        return hr_fail(err, HR_E_DECODE, "the AVIF's grid has not as many tiles as it says");
    if (h->rows * h->columns > HR_HEIF_MAX_TILES)
        return hr_fail(err, HR_E_LIMIT, "the AVIF has more than %d tiles", HR_HEIF_MAX_TILES);
    for (uint32_t i = 0; i < h->rows * h->columns; i++)
        if (!item_type(m, tile_id(h, i), type) || !is(type, "av01"))
            return hr_fail(err, HR_E_FORMAT, "a tile of the AVIF is not an AV1 picture");
    /* What the first tile says of its samples counts; the grid's own colour, if it has one, wins. */
    struct hr_heif first = *h;
    first.matrix = first.full_range = -1;
    read_properties(m, tile_id(h, 0), &tile, &first);
    h->bit_depth = first.bit_depth;
    h->mono = first.mono;
    if (h->matrix < 0) {
        h->matrix = first.matrix;
        h->full_range = first.full_range;
    }
    return 0;
}

static void keep_own_id(const struct meta *m, struct hr_heif *h)
{
    h->rows = h->columns = 1;
    h->tile_ids = m->pitm;
    h->tile_ids.b += 4;
    h->tile_ids.n -= 4;
    h->tile_id_bytes = m->pitm.b[0] ? 4 : 2;
}

int hr_heif_open(const uint8_t *bytes, size_t count, struct hr_heif *heif, struct hr_error *err)
{
    struct hr_heif h = {.matrix = -1, .full_range = -1, .bit_depth = 8, .file = {bytes, count}};
    struct properties p;
    uint8_t type[4];
    char name[5];
    struct meta m;
    int ret = read_meta(bytes, count, &m, err);

    if (ret < 0)
        return ret;
    h.iloc = m.iloc;
    h.idat = m.idat;
    if (!item_type(&m, m.primary, type))
        return hr_fail(err, HR_E_DECODE, "the AVIF does not say what its picture is");
    read_properties(&m, m.primary, &p, &h);
    if (p.unknown[0] || !p.ordered)
        return hr_fail(err, HR_E_FORMAT, "the AVIF has a property that is not supported: %s",
                       p.unknown[0] ? p.unknown : "imir before irot");
    copy_type(name, type);
    if (is(type, "grid"))
        ret = read_grid(&m, &p, &h, err);
    else if (is(type, "av01"))
        keep_own_id(&m, &h);
    else
        ret = hr_fail(err, HR_E_FORMAT, "AVIF pictures of type '%s' are not supported", name);
    if (ret == 0)
        ret = hr_image_check_size(p.width, p.height, err);
    if (ret < 0)
        return ret;
    h.width = p.width;
    h.height = p.height;
    h.orientation = orientation_of(&p);
    *heif = h;
    return 0;
}

int hr_heif_tile(const struct hr_heif *heif, uint32_t i, uint8_t *dst, uint64_t *bytes,
                 struct hr_error *err)
{
    return item_bytes(heif, tile_id(heif, i), dst, bytes, err);
}
